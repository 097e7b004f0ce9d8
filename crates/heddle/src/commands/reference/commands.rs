//! A page for each command: what `--help` says, with links.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

use super::escaped;

/// The pages of a program's commands: file, title, text. The first one lists the others.
pub fn pages(program: &Command) -> Vec<(String, String, String)> {
    // Fills in what commands have in common.
    let mut program = program.clone().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add(&program, program.get_name(), &mut pages);
    let mut overview = "# Commands\n\n| command | what it does |\n|---|---|\n".to_owned();
    for (file, title, text) in pages.iter().skip(1) {
        let about = text.lines().nth(2).unwrap_or_default();
        let _ = writeln!(overview, "| [`{title}`]({file}) | {} |", about.replace('|', "\\|"));
    }
    // The program's own page is the one that lists all.
    let (_, _, own) = &mut pages[0];
    let own = own.lines().skip(2).collect::<Vec<_>>().join("\n");
    pages[0] = ("commands.md".to_owned(), "Commands".to_owned(), format!("{overview}\n{own}\n"));
    pages
}

fn add(command: &Command, path: &str, pages: &mut Vec<(String, String, String)>) {
    pages.push((format!("{}.md", path.replace(' ', "-")), path.to_owned(), page(command, path)));
    let mut visible: Vec<_> = command.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    visible.sort_by_key(|command| command.get_name());
    for command in visible {
        add(command, &format!("{path} {}", command.get_name()), pages);
    }
}

fn page(command: &Command, path: &str) -> String {
    let mut page = format!("# {path}\n\n");
    let text = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string);
    let about = text(command.get_long_about()).or_else(|| text(command.get_about())).unwrap_or_default();
    for paragraph in about.split("\n\n") {
        let _ = writeln!(page, "{}\n", escaped(paragraph.trim()));
    }
    let usage = command.clone().render_usage().to_string();
    let _ = writeln!(page, "```text\n{}\n```\n", usage.trim_start_matches("Usage: ").trim());
    let (positional, options): (Vec<_>, Vec<_>) =
        command.get_arguments().filter(|arg| !arg.is_hide_set()).partition(|arg| arg.is_positional());
    list(&mut page, "Arguments", &positional);
    list(&mut page, "Options", &options);
    let after = text(command.get_after_long_help()).or_else(|| text(command.get_after_help()));
    if let Some(after) = after {
        let _ = writeln!(page, "```text\n{}\n```", after.trim());
    }
    page
}

fn list(page: &mut String, title: &str, args: &[&Arg]) {
    if args.is_empty() {
        return;
    }
    let _ = writeln!(page, "| {} | |\n|---|---|", title.to_lowercase());
    for arg in args {
        let _ = writeln!(page, "| {} | {} |", name(arg), meaning(arg));
    }
    page.push('\n');
}

/// `-n, --name NETWORK`.
fn name(arg: &Arg) -> String {
    let values: Vec<String> = arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let values = match arg.get_action() {
        ArgAction::Set | ArgAction::Append => values.join(" "),
        _ => String::new(),
    };
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    // A bar would end the cell, in code as well.
    format!("`{}`", format!("{} {values}", names.join(", ")).trim().replace('|', "\\|"))
}

fn meaning(arg: &Arg) -> String {
    let text = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut meaning = escaped(text.trim());
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let words: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set() && takes_value)
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !words.is_empty() {
        let _ = write!(meaning, ": {}", words.join(", "));
    }
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if takes_value && !defaults.is_empty() {
        let _ = write!(meaning, "; {} when not given", defaults.join(", "));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(meaning, "; or `{}` in the environment", variable.to_string_lossy());
    }
    meaning
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, ValueEnum};

    use super::*;
    use crate::cli::{Cli, ShowTopic};

    /// Names of all commands that help shows.
    fn names(command: &Command, path: &str) -> BTreeSet<String> {
        let below = command.get_subcommands().filter(|command| !command.is_hide_set());
        below
            .flat_map(|command| names(command, &format!("{path} {}", command.get_name())))
            .chain([path.to_owned()])
            .collect()
    }

    #[test]
    fn each_command_that_help_shows_has_a_page_with_its_options() {
        let pages = pages(&Cli::command());
        let titles: BTreeSet<String> = pages.iter().skip(1).map(|(_, title, _)| title.clone()).collect();
        let mut expected = names(&Cli::command(), "heddle");
        expected.remove("heddle");
        assert_eq!(titles, expected);
        let page = |file: &str| &pages.iter().find(|(name, ..)| name == file).expect("a page").2;
        let up = page("heddle-up.md");
        for expected in
            ["# heddle up\n\nStart the network of a file", "`-n, --name ", "`--topo ", "heddle up lab.fabric.yaml"]
        {
            assert!(up.contains(expected), "{expected}:\n{up}");
        }
        for (file, title, _) in pages.iter().skip(1) {
            assert!(pages[0].2.contains(&format!("[`{title}`]({file})")), "{title} is not listed");
        }
    }

    #[test]
    fn the_page_about_json_names_each_command() {
        let page = include_str!("../../../../../docs/json.md");
        let program = Cli::command();
        let names = program.get_subcommands().filter(|it| !it.is_hide_set()).map(|it| it.get_name().to_owned());
        let topics = ShowTopic::value_variants().iter().filter_map(|topic| {
            let value = topic.to_possible_value()?;
            Some(format!("show {}", value.get_name()))
        });
        for name in names.chain(topics) {
            let is_there = [format!("`heddle {name}`"), format!("`heddle {name} "), format!("`{name}`")];
            assert!(is_there.iter().any(|text| page.contains(text)), "docs/json.md does not say what `{name}` prints");
        }
    }

    /// A cell that ends early would swallow what follows.
    #[test]
    fn each_row_of_a_table_has_its_cells() {
        for (file, _, text) in pages(&Cli::command()) {
            let mut is_code = false;
            for line in text.lines() {
                is_code ^= line.starts_with("```");
                if !is_code && line.starts_with('|') {
                    assert_eq!(line.replace("\\|", "").matches('|').count(), 3, "{file}: {line}");
                }
            }
        }
    }
}
