//! Modules of a crate that use each other in a circle: nobody understands one of them without all the others.
//!
//! Each module is seen twice: by itself, and together with all that is inside it. A folder whose files need those of another folder, which
//! need the first one's, is a circle too, though no two files are. What tests use does not count, nor does a module that only hands on
//! (`pub use`) what its parts have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{assert_none, read, root, sources};

/// Crates in which every module can be read after those that it uses.
const WITHOUT_CIRCLES: [&str; 15] = [
    "balance",
    "lab",
    "link",
    "machine",
    "node",
    "placement",
    "requests",
    "sim",
    "store",
    "transport",
    "tree",
    "vswitch",
    "wal",
    "wire",
    "workload",
];

/// The way to a module from its crate's root.
type Module = Vec<String>;
/// Which module uses which.
type Uses = BTreeSet<(Module, Module)>;

/// What a module says of others.
#[derive(Default)]
struct Source {
    /// What it imports, by the name that it has here.
    names: BTreeMap<String, Module>,
    /// What it uses.
    paths: Vec<Module>,
}

#[test]
fn modules_are_used_in_one_direction() {
    let sources = sources();
    let mut complaints = Vec::new();
    for name in WITHOUT_CIRCLES {
        let folder = root().join("crates").join(name).join("src");
        let files = sources[name].iter();
        let modules = files.filter_map(|file| Some((module(file.strip_prefix(&folder).ok()?)?, read(file)))).collect();
        let uses = uses(&modules);
        let deepest = modules.keys().map(Vec::len).max().unwrap_or(0);
        complaints.extend((1..=deepest).filter_map(|depth| {
            let circle = circle(&uses, depth);
            (!circle.is_empty()).then(|| format!("{name}: {}", circle.join(", ")))
        }));
    }
    assert_none(&complaints);
}

/// The module that a file below `src` is; nothing for tests and programs.
fn module(file: &Path) -> Option<Module> {
    let mut parts: Module = file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if matches!(parts.last()?.as_str(), "mod" | "lib" | "main") {
        parts.pop();
    }
    (!parts.iter().any(|part| matches!(part.as_str(), "tests" | "testing" | "bin"))).then_some(parts)
}

/// Which module uses which, by their texts.
fn uses(modules: &BTreeMap<Module, String>) -> Uses {
    let is_module = |path: &[String]| modules.contains_key(path);
    let read: BTreeMap<&Module, Source> =
        modules.iter().map(|(module, text)| (module, source(module, &tokens(text), &is_module))).collect();
    let mut uses = Uses::new();
    for (module, source) in &read {
        let targets = source.paths.iter().filter_map(|path| home(&read, path.clone()));
        uses.extend(targets.filter(|to| to != *module).map(|to| ((*module).clone(), to)));
    }
    uses
}

/// The module that has what a path leads to, whoever hands it on; nothing if that is another crate's.
fn home(read: &BTreeMap<&Module, Source>, mut path: Module) -> Option<Module> {
    // Names that are handed on from one to another more often than this lead nowhere.
    for _ in 0..8 {
        let length = (0..=path.len()).rev().find(|&length| read.contains_key(&path[..length].to_vec()))?;
        let module = path[..length].to_vec();
        let imported = path.get(length).and_then(|name| read[&module].names.get(name));
        let Some(imported) = imported else { return Some(module) };
        if imported.first().is_some_and(|first| first == "extern") {
            return None;
        }
        path = imported.iter().chain(&path[length + 1..]).cloned().collect();
    }
    None
}

/// What the tokens of `module` say.
fn source(module: &[String], tokens: &[String], is_module: &impl Fn(&[String]) -> bool) -> Source {
    let mut source = Source::default();
    let mut at = 0;
    let mut is_public = false;
    while at < tokens.len() {
        let token = tokens[at].as_str();
        match token {
            // Not the `use<'a>` of a bound.
            "use" if tokens.get(at + 1).is_none_or(|next| next != "<") => {
                let end = at + tokens[at..].iter().position(|token| token == ";").unwrap_or(tokens.len() - at);
                for (path, name) in imports(&tokens[at + 1..end]) {
                    let path = absolute(module, &path, is_module);
                    if !is_public {
                        source.paths.extend(path.clone());
                    }
                    source.names.insert(name, path.unwrap_or_else(|| vec!["extern".to_owned()]));
                }
                at = end;
            }
            _ if at == 0 || tokens[at - 1] != "::" => {
                let path: Module = path(&tokens[at..]);
                if path.len() > 1 {
                    source.paths.extend(absolute(module, &path, is_module));
                }
            }
            _ => {}
        }
        // `pub use`, `pub(crate) use`.
        is_public = match tokens.get(at).map(String::as_str) {
            Some("pub") => true,
            Some("(" | ")" | "crate" | "super" | "in" | "self") => is_public,
            _ => false,
        };
        at += 1;
    }
    source
}

/// The path that the tokens begin with.
fn path(tokens: &[String]) -> Module {
    let is_word = |token: &String| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut path = Vec::new();
    for pair in tokens.chunks(2) {
        match pair {
            [word, rest @ ..] if is_word(word) => {
                path.push(word.clone());
                if rest.first().is_none_or(|next| next != "::") {
                    break;
                }
            }
            _ => break,
        }
    }
    path
}

/// The paths of a `use`, each with the name that it gets.
fn imports(tree: &[String]) -> Vec<(Module, String)> {
    let Some(open) = tree.iter().position(|token| token == "{") else {
        let mut path = path(tree);
        let name = match tree.iter().position(|token| token == "as") {
            Some(at) => tree[at + 1].clone(),
            None if tree.last().is_some_and(|last| last == "*") => "*".to_owned(),
            None if path.last().is_some_and(|last| last == "self") => {
                path.pop();
                path.last().cloned().unwrap_or_default()
            }
            None => path.last().cloned().unwrap_or_default(),
        };
        return vec![(path, name)];
    };
    let (before, inside) = (&tree[..open], &tree[open + 1..tree.len() - 1]);
    let mut depth = 0;
    let parts = inside.split(|token| {
        depth += i32::from(token == "{") - i32::from(token == "}");
        depth == 0 && token == ","
    });
    let whole = |part: &[String]| imports(&before.iter().chain(part).cloned().collect::<Vec<_>>());
    parts.filter(|part| !part.is_empty()).flat_map(whole).collect()
}

/// A path of `module` from its crate's root; nothing if it is another crate's, or a local name.
fn absolute(module: &[String], path: &[String], is_module: &impl Fn(&[String]) -> bool) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let (_, above) = module.split_last()?;
            if rest.first().is_some_and(|next| next == "super") {
                absolute(above, rest, is_module)
            } else {
                Some([above, rest].concat())
            }
        }
        _ => {
            let part = [module, std::slice::from_ref(first)].concat();
            is_module(&part).then(|| [module, path].concat())
        }
    }
}

/// What uses what in circles, where modules count together with what is inside them from this depth on.
fn circle(uses: &Uses, depth: usize) -> Vec<String> {
    let cut = |module: &Module| module[..module.len().min(depth)].to_vec();
    let mut left: Uses = uses.iter().map(|(from, to)| (cut(from), cut(to))).filter(|(from, to)| from != to).collect();
    loop {
        let from: BTreeSet<Module> = left.iter().map(|(from, _)| from.clone()).collect();
        let to: BTreeSet<Module> = left.iter().map(|(_, to)| to.clone()).collect();
        let before = left.len();
        // Who uses nothing, or is used by nobody, is in no circle.
        left.retain(|(a, b)| to.contains(a) && from.contains(b));
        if left.len() == before {
            let name = |module: &Module| if module.is_empty() { "the root".to_owned() } else { module.join("::") };
            return left.iter().map(|(from, to)| format!("{} uses {}", name(from), name(to))).collect();
        }
    }
}

/// Words and signs of a Rust text without comments, literals, and what is for tests only.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens: Vec<String> = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let next = chars.get(at + 1).copied().unwrap_or_default();
        match chars[at] {
            '/' if next == '/' => at = end_of(&chars, at, "\n"),
            '/' if next == '*' => at = end_of(&chars, at + 2, "*/"),
            '"' => {
                at += 1;
                while at < chars.len() && chars[at] != '"' {
                    at += 1 + usize::from(chars[at] == '\\');
                }
                at += 1;
            }
            // A character; otherwise a lifetime.
            '\'' if next == '\\' => at = end_of(&chars, at + 3, "'"),
            '\'' if chars.get(at + 2) == Some(&'\'') => at += 3,
            ':' if next == ':' => {
                tokens.push("::".to_owned());
                at += 2;
            }
            c if c.is_alphanumeric() || c == '_' => {
                let word: String = chars[at..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').collect();
                at += word.chars().count();
                let hashes = chars[at.min(chars.len())..].iter().take_while(|c| **c == '#').count();
                if matches!(word.as_str(), "r" | "br") && chars.get(at + hashes) == Some(&'"') {
                    at = end_of(&chars, at + hashes + 1, &format!("\"{}", "#".repeat(hashes)));
                } else {
                    tokens.push(word);
                }
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push(c.to_string());
                }
                at += 1;
            }
        }
    }
    without_tests(&tokens)
}

/// Behind the next `mark` from `at` on.
fn end_of(chars: &[char], at: usize, mark: &str) -> usize {
    let mark: Vec<char> = mark.chars().collect();
    let found = chars.get(at..).and_then(|rest| rest.windows(mark.len()).position(|window| window == mark));
    found.map_or(chars.len(), |found| at + found + mark.len())
}

/// Leaves out the items after `#[cfg(test)]`.
fn without_tests(tokens: &[String]) -> Vec<String> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].len() < MARK.len() || tokens[at..at + MARK.len()] != MARK {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        at += MARK.len();
        while at < tokens.len() {
            let token = tokens[at].as_str();
            depth += i32::from(token == "{") - i32::from(token == "}");
            at += 1;
            if depth == 0 && matches!(token, ";" | "}") {
                break;
            }
        }
    }
    kept
}

fn circles_of(files: &[(&str, &str)], depth: usize) -> Vec<String> {
    let modules = files.iter().map(|(file, text)| (module(Path::new(file)).expect("no tests"), (*text).to_owned()));
    circle(&uses(&modules.collect()), depth)
}

#[test]
fn a_circle_is_noticed_through_those_who_hand_on() {
    let root = ("lib.rs", "mod a; mod b; mod c; pub use c::Third;");
    let (a, c) = (("a.rs", "use crate::b::{Other, self};"), ("c.rs", "pub struct Third; use super::a::First;"));
    let none: [String; 0] = [];
    assert_eq!(circles_of(&[root, a, ("b.rs", "use std::fmt; struct Other;"), c], 1), none);
    // `b` uses `c` by way of the root, which has nothing of its own.
    let b = ("b.rs", "fn f() { let it: &'static str = \"{\"; drop(crate::Third) }");
    assert_eq!(circles_of(&[root, a, b, c], 1), ["a uses b", "b uses c", "c uses a"]);
    for harmless in
        ["// crate::Third\n", "const A: &str = \"crate::Third\";", "#[cfg(test)]\nmod tests { use crate::Third; }"]
    {
        assert_eq!(circles_of(&[root, a, ("b.rs", harmless), c], 1), none, "{harmless}");
    }
}

#[test]
fn folders_that_use_each_other_are_a_circle_though_no_files_are() {
    let files = [
        ("lib.rs", "mod x; mod y;"),
        ("x.rs", "mod one; mod two;"),
        ("x/one.rs", "use crate::y::Three;"),
        ("x/two.rs", ""),
        ("y.rs", "use super::x::two::Two; struct Three;"),
    ];
    assert!(circles_of(&files, 2).is_empty());
    assert_eq!(circles_of(&files, 1), ["x uses y", "y uses x"]);
    let parent = [("lib.rs", "mod x;"), ("x.rs", "mod one; fn f() { one::g() }"), ("x/one.rs", "use super::f;")];
    assert_eq!(circles_of(&parent, 2), ["x uses x::one", "x::one uses x"]);
}
