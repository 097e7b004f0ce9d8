//! The table *Where to add* of `docs/architecture.md`, tried: `crates/heddle/tests/where_to_add/*.patch` are complete additions, and each still fits, touches
//! few files, and no others than its row names. `make where-to-add` compiles them and runs their tests.

use std::path::{Path, PathBuf};

use super::{assert_none, files, read, root};

/// The most files that one addition touches.
const FILES_MAX: usize = 3;

/// The additions: one of each kind.
const PATCHES: [&str; 5] = ["data-plane-function", "link-key", "metric", "port-type", "topology"];

/// A file as a patch changes it.
#[derive(Debug, Default)]
struct Change {
    path: String,
    is_new: bool,
    /// The lines that each part of the patch finds, in their order.
    found: Vec<Vec<String>>,
}

/// What a patch does, file by file.
fn changes(patch: &str) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut in_part = false;
    for line in patch.lines() {
        if line.starts_with("diff --git ") {
            changes.push(Change::default());
            in_part = false;
            continue;
        }
        let Some(change) = changes.last_mut() else { continue };
        if line.starts_with("@@ -") {
            change.found.push(Vec::new());
            in_part = true;
        } else if in_part {
            // What is added is not looked for; an editor may have taken away the space of an empty line.
            let old = line.strip_prefix([' ', '-']).or_else(|| line.is_empty().then_some(""));
            change.found.last_mut().expect("a part has begun").extend(old.map(str::to_owned));
        } else if line == "--- /dev/null" {
            change.is_new = true;
        } else if let Some(path) = line.strip_prefix("+++ b/") {
            path.clone_into(&mut change.path);
        }
    }
    changes
}

/// Whether the parts of a patch are found in a file's lines, in their order.
fn fits(change: &Change, lines: &[&str]) -> bool {
    let mut from = 0;
    change.found.iter().all(|wanted| {
        let found = lines[from..].windows(wanted.len()).position(|window| window.iter().eq(wanted.iter()));
        from += found.map_or(0, |at| at + wanted.len());
        found.is_some()
    })
}

/// The files that a row of the table names: what stands in backticks and has a folder. `NAME` is whatever the addition is called.
fn named_by<'a>(page: &'a str, row: &str) -> Vec<&'a str> {
    let (_, section) = page.split_once("\n## Where to add\n").expect("docs/architecture.md has this section");
    let line = section.lines().find(|line| line.strip_prefix("| ").is_some_and(|line| line.starts_with(row)));
    let line = line.unwrap_or_else(|| panic!("docs/architecture.md has no row `{row}` in *Where to add*"));
    line.split('`').skip(1).step_by(2).filter(|name| name.contains('/') && name.strip_suffix(".rs").is_some()).collect()
}

fn is_named(path: &str, named: &[&str]) -> bool {
    let path = path.strip_prefix("crates/").unwrap_or(path);
    let same_folder = |name: &str| Path::new(name).parent() == Path::new(path).parent();
    named.iter().any(|name| *name == path || name.ends_with("/NAME.rs") && same_folder(name))
}

/// What is wrong with an addition, if anything.
fn complaints(name: &str, patch: &str, page: &str, root: &Path) -> Vec<String> {
    let head = |key: &str| patch.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    let named = named_by(page, head("Row: "));
    let changes = changes(patch);
    let mut complaints = Vec::new();
    if changes.is_empty() || changes.len() > FILES_MAX {
        complaints.push(format!("{name}: touches {} files, 1 to {FILES_MAX} wanted", changes.len()));
    }
    for change in &changes {
        let file = root.join(&change.path);
        let text = std::fs::read_to_string(&file).ok();
        if !is_named(&change.path, &named) {
            complaints.push(format!("{name}: touches {}, which its row in *Where to add* does not name", change.path));
        }
        let is_fit = text
            .as_ref()
            .map_or(change.is_new, |text| !change.is_new && fits(change, &text.lines().collect::<Vec<_>>()));
        if !is_fit {
            complaints.push(format!(
                "{name}: does not fit {} any more (hint: `git apply --3way` it, mend it, write `git diff` below its head)",
                change.path
            ));
        }
    }
    let test = format!("fn {}()", head("Test: "));
    if !patch.lines().any(|line| line.starts_with('+') && line.contains(&test)) {
        complaints.push(format!("{name}: has no test `{test}` of its own"));
    }
    complaints
}

fn patch_files() -> Vec<PathBuf> {
    files(&root().join("crates/heddle/tests/where_to_add"), ".patch")
}

#[test]
fn one_thing_of_each_kind_is_added_in_few_files_that_the_docs_name() {
    let page = read(&root().join("docs/architecture.md"));
    let mut names = Vec::new();
    let mut found = Vec::new();
    for file in patch_files() {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.extend(complaints(&name, &read(&file), &page, &root()));
        names.push(name);
    }
    assert_none(&found);
    assert_eq!(names, PATCHES);
}

#[test]
fn an_addition_that_does_not_fit_is_noticed() {
    let page = "\n## Where to add\n\n| what | where |\n|---|---|\n| a metric | `fabric/src/metric.rs`, `Metric` |\n| a topology | `fabric/src/topologies/NAME.rs` |\n";
    let root = root();
    let patch = |path: &str, old: &str| {
        format!(
            "Row: a metric\nTest: it_works\n\ndiff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1,2 @@ x\n {old}\n+    fn it_works() {{}}\n"
        )
    };
    let first = read(&root.join("crates/fabric/src/metric.rs")).lines().next().expect("a line").to_owned();
    let good = patch("crates/fabric/src/metric.rs", &first);
    assert_eq!(complaints("good", &good, page, &root), Vec::<String>::new());
    let [no_fit] = &complaints("old", &patch("crates/fabric/src/metric.rs", "no such line"), page, &root)[..] else {
        panic!("one complaint")
    };
    assert!(no_fit.contains("does not fit"), "{no_fit}");
    let elsewhere = read(&root.join("crates/fabric/src/words.rs")).lines().next().expect("a line").to_owned();
    let [not_named] = &complaints("far", &patch("crates/fabric/src/words.rs", &elsewhere), page, &root)[..] else {
        panic!("one complaint")
    };
    assert!(not_named.contains("does not name"), "{not_named}");
    let many = good.repeat(FILES_MAX + 1);
    assert!(complaints("many", &many, page, &root)[0].contains("touches 4 files"));
    let untested = good.replace("fn it_works()", "fn other()");
    assert!(complaints("untested", &untested, page, &root)[0].contains("no test"));
    let new =
        patch("crates/fabric/src/metric.rs", &first).replace("--- a/crates/fabric/src/metric.rs", "--- /dev/null");
    assert!(complaints("there", &new, page, &root)[0].contains("does not fit"), "what is there can't be added");
    assert!(is_named("crates/fabric/src/topologies/ring.rs", &named_by(page, "a topology")));
    assert!(!is_named("crates/fabric/src/topologies/old/ring.rs", &named_by(page, "a topology")));
}
