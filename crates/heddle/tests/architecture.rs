//! The repository against its own rules: which crate may know which, where `unsafe` may stand, how large a file may grow.
//!
//! The order of the crates is read from `docs/architecture.md`, so the page and the code cannot part.

mod circles;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

mod where_to_add;
mod words;

/// State machines of one protocol or one part each. They don't know each other but for [`KNOWN_TO_EACH_OTHER`].
const PROTOCOLS: [&str; 13] = [
    "controller",
    "store",
    "placement",
    "rpc",
    "wal",
    "tree",
    "vswitch",
    "bond",
    "balance",
    "link",
    "rstp",
    "transport",
    "openflow",
];

/// The dependencies among protocol crates.
const KNOWN_TO_EACH_OTHER: [(&str, &str); 8] = [
    ("controller", "store"),
    ("controller", "openflow"),
    ("store", "placement"),
    ("store", "rpc"),
    ("store", "wal"),
    ("store", "tree"),
    ("placement", "tree"),
    ("rpc", "tree"),
];

/// What gives time, input and randomness to machines: networks live, controllers live, and both simulated. None knows another.
const DRIVERS: [&str; 3] = ["live", "node", "sim"];

/// The only crate that may be unsafe.
const UNSAFE: &str = "live";

/// Crates that may read clocks, files and sockets. All others have the `clippy.toml` that bans it.
const WITH_IO: [&str; 5] = ["heddle", "lab", "live", "node", "requests"];

/// STYLE asks for 500; beyond this, a file has to be split.
const FILE_LINES_MAX: usize = 700;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] = ["util", "utils", "helper", "helpers", "manager", "managers", "common", "misc"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Name of a crate without the prefix that only the registry needs.
fn short(name: &str) -> &str {
    name.strip_prefix("heddle-").unwrap_or(name)
}

/// The workspace's crates, and which of them each one depends on.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let in_workspace = |dependency: &&Value| dependency["path"].is_string();
    let packages = metadata["packages"].as_array().expect("a list of packages");
    packages
        .iter()
        .map(|package| {
            let listed = package["dependencies"].as_array().expect("a list of dependencies");
            let names = listed.iter().filter(in_workspace).map(|it| short(&text(&it["name"])).to_owned());
            (short(&text(&package["name"])).to_owned(), names.collect())
        })
        .collect()
}

/// The crates in the order of the table of `docs/architecture.md`.
fn documented_order() -> Vec<String> {
    let page = read(&root().join("docs/architecture.md"));
    let (_, section) = page.split_once("\n## Crates\n").expect("docs/architecture.md has a section on crates");
    let section = section.split("\n## ").next().unwrap_or_default();
    let name = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    section.lines().filter_map(name).collect()
}

/// What reads the file, and what it is made into: all that may know of the file.
const KNOW_THE_FILE: [&str; 4] = ["heddle", "lab", "live", "sim"];

/// What is wrong with one crate's knowing another, if anything.
fn complaint(order: &[String], from: &str, to: &str) -> Option<String> {
    let place = |name: &str| order.iter().position(|other| other == name);
    if place(from)? >= place(to)? {
        return Some(format!("{from} depends on {to}, which stands above it in docs/architecture.md"));
    }
    if to == "fabric" && !KNOW_THE_FILE.contains(&from) {
        return Some(format!("{from} depends on fabric, which is the file: no machine knows it"));
    }
    let both = |set: &[&str]| set.contains(&from) && set.contains(&to);
    if both(&PROTOCOLS) && !KNOWN_TO_EACH_OTHER.contains(&(from, to)) {
        return Some(format!(
            "{from} and {to} are protocols, which don't know each other: `lab` or a driver composes them"
        ));
    }
    both(&DRIVERS).then(|| format!("{from} and {to} are drivers, which don't know each other: `lab` composes them"))
}

/// All files below `folder` whose names end so.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.expect("a folder can be listed").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Every Rust source of every crate, by crate; `src` only.
fn sources() -> BTreeMap<String, Vec<PathBuf>> {
    let crates = root().join("crates");
    let found: BTreeMap<_, _> =
        dependencies().into_keys().map(|name| (name.clone(), files(&crates.join(&name).join("src"), ".rs"))).collect();
    assert!(found.values().all(|files| !files.is_empty()), "each crate has sources below crates/NAME/src");
    found
}

/// The code of a line: what stands before a comment. (A `//` within a string cuts the line too early, never too late.)
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

fn holds_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn the_page_on_architecture_names_every_crate() {
    let mut documented = documented_order();
    documented.sort();
    assert_eq!(documented, dependencies().into_keys().collect::<Vec<_>>());
}

#[test]
fn dependencies_point_down() {
    let order = documented_order();
    let complaints: Vec<_> = dependencies()
        .iter()
        .flat_map(|(from, to)| to.iter().map(move |to| (from, to)))
        .filter_map(|(from, to)| complaint(&order, from, to))
        .collect();
    assert_none(&complaints);
}

#[test]
fn a_wrong_dependency_is_noticed() {
    let order: Vec<String> =
        ["lab", "live", "node", "sim", "store", "fabric", "vswitch", "link", "machine"].map(String::from).into();
    assert_eq!(complaint(&order, "lab", "machine"), None);
    assert_eq!(complaint(&order, "sim", "link"), None);
    assert!(complaint(&order, "machine", "link").unwrap().contains("above"));
    assert!(complaint(&order, "vswitch", "link").unwrap().contains("protocols"));
    assert!(complaint(&order, "live", "sim").unwrap().contains("drivers"));
    assert!(complaint(&order, "live", "node").unwrap().contains("drivers"));
    assert!(complaint(&order, "store", "fabric").unwrap().contains("the file"));
}

#[test]
fn only_one_crate_is_unsafe() {
    let mut complaints = Vec::new();
    for (name, files) in sources().iter().filter(|(name, _)| *name != UNSAFE) {
        for file in files {
            let text = read(file);
            let is_root = matches!(file.strip_prefix(root().join("crates").join(name)),
                Ok(path) if path == Path::new("src/lib.rs") || path == Path::new("src/main.rs"));
            if is_root && !text.contains("\n#![forbid(unsafe_code)]\n") {
                complaints.push(format!("{}: #![forbid(unsafe_code)] is missing", file.display()));
            }
            if text.lines().any(|line| holds_word(code(line), "unsafe")) {
                complaints.push(format!("{}: `unsafe` belongs in `{UNSAFE}` alone", file.display()));
            }
        }
    }
    assert_none(&complaints);
}

/// Lines above an `unsafe` block in which its reason has to begin.
const REASON_WITHIN_LINES: usize = 8;

#[test]
fn every_unsafe_block_has_its_reason() {
    let mut complaints = Vec::new();
    for file in &sources()[UNSAFE] {
        let text = read(file);
        let lines: Vec<_> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let above = &lines[index.saturating_sub(REASON_WITHIN_LINES)..=index];
            if holds_word(code(line), "unsafe") && !above.iter().any(|line| has_reason(line)) {
                complaints.push(format!("{}:{}: // SAFETY: is missing", file.display(), index + 1));
            }
        }
    }
    assert_none(&complaints);
}

fn has_reason(line: &str) -> bool {
    line.contains("// SAFETY:") || line.contains("/// # Safety")
}

#[test]
fn files_stay_small_and_finished() {
    let mut complaints = Vec::new();
    for file in sources().into_values().flatten() {
        let text = read(&file);
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            complaints.push(format!("{}: {lines} lines, at most {FILE_LINES_MAX} wanted", file.display()));
        }
        for unfinished in ["todo!(", "unimplemented!(", "dbg!("] {
            if text.lines().any(|line| code(line).contains(unfinished)) {
                complaints.push(format!("{}: holds {unfinished}...)", file.display()));
            }
        }
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let folder = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        if EMPTY_NAMES.iter().any(|name| *name == stem || *name == folder) {
            complaints.push(format!("{}: a name that says what is inside is wanted", file.display()));
        }
    }
    assert_none(&complaints);
}

/// A crate's tests are modules of one program (`autotests = false`): a file that no program names would not run.
#[test]
fn every_file_of_tests_is_part_of_a_program() {
    let mut complaints = Vec::new();
    for name in dependencies().into_keys() {
        let folder = root().join("crates").join(&name).join("tests");
        if !folder.exists() {
            continue;
        }
        let manifest = read(&root().join("crates").join(&name).join("Cargo.toml"));
        let programs: Vec<_> =
            manifest.lines().filter_map(|line| line.strip_prefix("path = \"tests/")?.strip_suffix(".rs\"")).collect();
        let named: String = programs.iter().map(|program| read(&folder.join(program).with_extension("rs"))).collect();
        for file in files(&folder, ".rs") {
            let within = file.strip_prefix(&folder).expect("it was found there").with_extension("");
            let module = within.iter().next().expect("a name").to_string_lossy();
            let declaration = format!("mod {module};");
            if !programs.contains(&&*module) && !named.lines().any(|line| line == declaration) {
                complaints.push(format!("{}: no program of its crate says `{declaration}`", file.display()));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn input_and_output_are_banned_where_they_should_be() {
    let crates = root().join("crates");
    let expected = read(&crates.join("machine/clippy.toml"));
    for banned in
        ["std::time::Instant::now", "std::time::SystemTime::now", "HashMap", "std::net::UdpSocket", "std::fs::File"]
    {
        assert!(expected.contains(banned), "crates/machine/clippy.toml does not ban {banned}");
    }
    let complaints: Vec<_> = dependencies()
        .into_keys()
        .filter(|name| !WITH_IO.contains(&name.as_str()))
        .map(|name| crates.join(name).join("clippy.toml"))
        .filter(|path| fs::read_to_string(path).ok().as_ref() != Some(&expected))
        .map(|path| format!("{}: not the same as crates/machine/clippy.toml", path.display()))
        .collect();
    assert_none(&complaints);
}

/// `make test` does not ask rustdoc for examples, which takes it a while to find none.
#[test]
fn code_in_docs_is_no_test() {
    const NOT_RUN: [&str; 2] = ["text", "yaml"];
    let mut complaints = Vec::new();
    for file in sources().into_values().flatten() {
        let mut in_block = false;
        for (index, line) in read(&file).lines().enumerate() {
            let line = line.trim_start();
            let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            let Some(language) = doc.and_then(|doc| doc.trim_start().strip_prefix("```")) else { continue };
            if !in_block && !NOT_RUN.contains(&language) {
                complaints.push(format!(
                    "{}:{}: ```{language}: a test beside the code is wanted",
                    file.display(),
                    index + 1
                ));
            }
            in_block = !in_block;
        }
    }
    assert_none(&complaints);
}
