//! Pages for newcomers say what is so: their commands are run, in the order of the page, in an empty folder.
//!
//! A line of a block of `console` that begins with `$ ` is a command, which must succeed. Lines behind it are a part of what it prints, in that order; numbers may differ.
//! A block of `yaml` that begins with `# NAME.fabric.yaml` is that file.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::live::{Guard, may_run};
use crate::program::Desk;

/// A command of a page, and lines that it prints.
struct Step {
    line: usize,
    command: String,
    prints: Vec<String>,
}

pub fn page(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../docs", name].iter().collect();
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line == "```yaml" {
            let text =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect::<Vec<_>>().join("\n");
            if let Some(name) = text.lines().next().and_then(file_name) {
                let command = format!("cat > {name} << 'END OF FILE'\n{text}\nEND OF FILE");
                steps.push(Step { line: number + 1, command, prints: Vec::new() });
            }
        } else if line.starts_with("```") {
            is_console = line == "```console";
        } else if !is_console || line.is_empty() {
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { line: number + 1, command: command.to_owned(), prints: Vec::new() });
        } else {
            let step = steps.last_mut().unwrap_or_else(|| panic!("line {}: nothing has printed this", number + 1));
            step.prints.push(line.to_owned());
        }
    }
    steps
}

/// The file that a block says that it is.
fn file_name(comment: &str) -> Option<&str> {
    comment.strip_prefix("# ").filter(|name| name.ends_with(".fabric.yaml") && !name.contains([' ', '/']))
}

/// A text without what differs from run to run: numbers, and how much space is between words.
fn shape(text: &str) -> String {
    let mut shape = String::new();
    for c in text.chars() {
        let is_number = c.is_ascii_digit() || (c == '.' && shape.ends_with('#'));
        match (is_number, shape.ends_with('#')) {
            (true, true) => {}
            (true, false) => shape.push('#'),
            (false, _) => shape.push(c),
        }
    }
    shape.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `heddle` is found by its name.
fn programs(desk: &Desk) -> String {
    let folder = desk.path().join("programs");
    std::fs::create_dir(&folder).expect("it can be made");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_heddle"), folder.join("heddle")).expect("it can be made");
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}

fn run(desk: &Desk, folder: &Path, path: &str, page: &str, step: &Step) {
    let Step { line, command, prints } = step;
    let mut shell = Command::new("bash");
    shell.args(["-o", "pipefail", "-ec", command]).current_dir(folder).env("PATH", path);
    shell
        .env("XDG_RUNTIME_DIR", desk.path())
        .env("NO_COLOR", "1")
        .env_remove("HEDDLE_NETWORK")
        .env_remove("HEDDLE_LOG");
    let output = shell.output().expect("bash runs");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "docs/{page}:{line}: $ {command}\n{said}");
    let mut lines = said.lines().map(shape);
    for expected in prints {
        let found = lines.any(|line| line.contains(&shape(expected)));
        assert!(found, "docs/{page}:{line}: `{expected}` is not printed by\n$ {command}\n{said}");
    }
}

fn run_page(page_name: &str) {
    run_steps(page_name, &steps(&page(page_name)));
}

/// Runs what a page says between this heading and the next one.
fn run_section(page_name: &str, heading: &str) {
    let text = page(page_name);
    let (before, section) = text.split_once(&format!("\n## {heading}\n")).expect("there is the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines_before = before.lines().count() + 1;
    let steps = steps(section).into_iter().map(|step| Step { line: lines_before + step.line, ..step });
    run_steps(page_name, &steps.collect::<Vec<_>>());
}

fn run_steps(page_name: &str, steps: &[Step]) {
    if !may_run() {
        return;
    }
    let guard = Guard(Desk::new());
    let desk = &guard.0;
    let path = programs(desk);
    let folder = desk.path().join("work");
    std::fs::create_dir(&folder).expect("it can be made");
    assert!(steps.len() > 5, "{page_name}: only {} commands", steps.len());
    for step in steps {
        run(desk, &folder, &path, page_name, step);
    }
}

#[test]
fn five_minutes_show_what_they_say() {
    run_page("five-minutes.md");
}

#[test]
fn what_stands_for_commands_of_others_works() {
    run_page("coming-from.md");
}

#[test]
fn ten_tasks_are_done_as_they_say() {
    run_page("cookbook.md");
}

#[test]
fn bonds_are_as_their_recipe_says() {
    run_section("recipes.md", "Bonds");
}

#[test]
fn numbers_and_spaces_make_no_difference_and_words_do() {
    assert_eq!(shape("h1 -> h3: 87.6 Mbit/s"), shape("h2  -> h44: 103 Mbit/s"));
    assert_eq!(shape("12/12 received"), shape("1/3   received"));
    assert_ne!(shape("leaf1 is down"), shape("leaf1 is up"));
    assert_ne!(shape("3 links"), shape("links"));
}

/// Pages that a book's contents name, as the project has them.
fn contents() -> Vec<String> {
    let links = page("book/SUMMARY.md");
    links.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(str::to_owned).collect()
}

#[test]
fn each_page_is_in_the_book_and_the_book_has_no_others() {
    let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../.."].iter().collect();
    let contents = contents();
    // The script writes that one.
    for name in contents.iter().filter(|name| *name != "docs/decisions.md") {
        assert!(root.join(name).is_file(), "{name}");
    }
    for entry in std::fs::read_dir(root.join("docs")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let name = format!("docs/{}", path.file_name().expect("a name").display());
            assert!(contents.contains(&name), "{name} is not in docs/book/SUMMARY.md");
        }
    }
}

/// Lines of a task's script that are neither empty nor a comment; `-`: nobody has written it.
fn lines_of(task: &Path, tool: &str) -> String {
    let Ok(text) = std::fs::read_to_string(task.join(tool)) else { return "-".to_owned() };
    let counts = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    text.lines().filter(counts).count().to_string()
}

#[test]
fn the_comparison_counts_the_lines_that_are_there() {
    let page = page("comparison.md");
    let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../benches/tasks"].iter().collect();
    let tasks = std::fs::read_dir(root).expect("a folder").map(|entry| entry.expect("an entry").path());
    let tasks: Vec<PathBuf> = tasks.collect();
    assert_eq!(tasks.len(), 10);
    for task in tasks {
        let script = std::fs::read_to_string(task.join("heddle")).expect("a script");
        let title = script.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a title");
        let row = page.lines().find(|line| line.starts_with(&format!("| {title} |")));
        // Seconds may stand behind lines: `7; 0.35 (0.31 to 0.40) s`.
        let cells = row.unwrap_or_else(|| panic!("no row: {title}")).trim_matches('|').split('|').skip(1);
        let counts: Vec<&str> = cells.map(|cell| cell.split(';').next().unwrap_or_default().trim()).collect();
        assert_eq!(counts, ["heddle", "mininet", "containerlab"].map(|tool| lines_of(&task, tool)), "{title}");
    }
}

/// What the recipe says of the service is what the unit has.
#[test]
fn the_recipe_of_services_is_of_the_unit_that_is_packed() {
    let unit = include_str!("../../../packaging/heddle-controller@.service");
    let recipes = page("recipes.md");
    let (_, section) = recipes.split_once("\n## Controllers as services\n").expect("there is the section");
    let (section, _) = section.split_once("\n## ").expect("it ends");
    for of_unit in [
        "EnvironmentFile=-/etc/heddle/controller-%i.conf",
        "--node %i --data /var/lib/heddle/%i $HEDDLE_CONTROLLER_OPTIONS $HEDDLE_TLS_OPTIONS",
    ] {
        assert!(unit.lines().any(|line| line.ends_with(of_unit)), "{of_unit}");
    }
    let drop_in = unit.lines().filter_map(|line| line.strip_prefix("#     "));
    let drop_in = drop_in.skip_while(|line| *line != "[Service]").collect::<Vec<_>>().join("\n");
    assert!(drop_in.lines().count() == 5 && section.contains(&drop_in), "{drop_in}");
    for said in
        ["/etc/heddle/controller-c1.conf", "--node c1", "--data /var/lib/heddle/c1", "HEDDLE_CONTROLLER_OPTIONS="]
    {
        assert!(section.contains(said), "{said}");
    }
}
