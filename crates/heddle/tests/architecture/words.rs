//! Identifiers against the list of words that have another name in the field (`docs/glossary.md`).

use std::collections::HashMap;

use super::{assert_none, files, read, root};

/// Words that are no part of an identifier, and the field's words in their place.
const BANNED: [(&[&str], &str); 13] = [
    (&["told", "tell", "tells", "telling"], "announce, notify, report, answer"),
    (&["befall", "mend", "mends", "mended"], "inject, heal, repair"),
    (&["chance"], "randomness, seed"),
    (&["settle", "settles", "settled", "settling", "unsettled"], "converged, completed"),
    (&["ours", "ourselves"], "internal, local, own"),
    (&["foreign"], "external, remote"),
    (&["obey", "crew"], "handle, poller"),
    (&["sleeper", "drowsy"], "poller, park"),
    (&["leash"], "parent watch"),
    (&["urgency"], "thread priority"),
    (&["birth", "births"], "start-up"),
    (&["door", "worn"], "endpoints, rollover"),
    (&["deaf"], "cut off, lock-out"),
];

/// Names that say nothing about a type, and the one file where each may stand.
const EMPTY_TYPES: [(&str, &str); 10] = [
    ("Place", "crates/fabric/src/source.rs"),
    ("At", "crates/fabric/src/source.rs"),
    ("What", ""),
    ("Found", ""),
    ("Parts", "crates/live/src/dataplane/parts.rs"),
    ("Way", "crates/live/src/dataplane/flight.rs"),
    ("Ends", ""),
    ("Told", ""),
    ("Standing", ""),
    // The end of a bond, as in IEEE 802.1AX.
    ("End", "crates/bond/src/end.rs"),
];

/// Source text without its comments, and without what stands in strings and characters.
fn bare(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        // Of most characters there is nothing to ask.
        let plain = rest.find(['/', '"', '\'', 'b', 'r']).unwrap_or(rest.len());
        if plain > 0 {
            bare.push_str(&rest[..plain]);
            rest = &rest[plain..];
            continue;
        }
        let raw = rest.trim_start_matches('b').strip_prefix('r').map(|raw| raw.trim_start_matches('#'));
        let quoted =
            raw.filter(|raw| raw.starts_with('"') && !bare.ends_with(|c: char| c.is_alphanumeric() || c == '_'));
        let end = if rest.starts_with("//") {
            rest.find('\n')
        } else if let Some(body) = quoted {
            let hashes = rest[..rest.len() - body.len()].matches('#').count();
            let closing = format!("\"{}", "#".repeat(hashes));
            body[1..].find(&closing).map(|at| rest.len() - body.len() + 1 + at + closing.len())
        } else if first == '"' {
            after_quote(rest, '"')
        } else if first == '\'' && is_char(rest) {
            after_quote(rest, '\'')
        } else {
            bare.push(first);
            Some(first.len_utf8())
        };
        let (skipped, after) = rest.split_at(end.unwrap_or(rest.len()));
        bare.extend(skipped.matches('\n').filter(|_| skipped.len() > 1));
        rest = after;
    }
    bare
}

/// Where text goes on after a literal that begins with `quote`.
fn after_quote(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        if c == '\\' {
            characters.next();
        } else if c == quote {
            return Some(at + 1);
        }
    }
    None
}

/// A character, and not a lifetime.
fn is_char(text: &str) -> bool {
    let mut characters = text.chars().skip(1);
    characters.next() == Some('\\') || characters.next() == Some('\'')
}

/// The words of an identifier: `has_told` and `HasTold` have two each.
fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in identifier.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        words.last_mut().expect("there is a first").extend(c.to_lowercase().filter(|c| *c != '_'));
    }
    words
}

/// The field's words for an identifier with a banned one.
fn instead_of(identifier: &str) -> Option<&'static str> {
    let words = words(identifier);
    let is_banned = |(banned, _): &&(&[&str], &str)| banned.iter().any(|it| words.iter().any(|word| word == it));
    BANNED.iter().find(is_banned).map(|(_, instead)| *instead)
}

/// What is wrong with a file's identifiers.
fn complaints(name: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let bare = bare(text);
    let mut known = HashMap::new();
    for (number, line) in bare.lines().enumerate() {
        let identifiers: Vec<&str> =
            line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|it| !it.is_empty()).collect();
        let place = format!("{name}:{}", number + 1);
        for identifier in &identifiers {
            if let Some(instead) = known.entry(*identifier).or_insert_with(|| instead_of(identifier)) {
                complaints.push(format!("{place}: `{identifier}`: the field says {instead}"));
            }
        }
        for pair in identifiers.windows(2).filter(|pair| ["struct", "enum", "type", "trait"].contains(&pair[0])) {
            if EMPTY_TYPES.iter().any(|(empty, allowed)| *empty == pair[1] && *allowed != name) {
                complaints.push(format!("{place}: `{}` is many things: name the type after what it is", pair[1]));
            }
        }
    }
    complaints
}

#[test]
fn identifiers_are_the_fields_words() {
    let root = root();
    let mut found = Vec::new();
    for file in files(&root.join("crates"), ".rs").into_iter().chain(files(&root.join("fuzz/targets"), ".rs")) {
        let within = file.strip_prefix(&root).expect("it was found there");
        // This file is the list.
        let is_list = within.ends_with("architecture/words.rs");
        if !is_list {
            found.extend(complaints(&within.to_string_lossy(), &read(&file)));
        }
    }
    assert_none(&found);
}

#[test]
fn a_banned_word_is_noticed() {
    let text = "// told\nfn was_told() {}\nlet a = \"mend\";\nlet b = '\"'; struct Place;\nstruct LeashKept<'a>(&'a u8);\nlet c = r#\"deaf\"#;";
    let found = complaints("some.rs", text);
    let lines: Vec<&str> = found.iter().map(|it| it.split(": ").next().expect("a place")).collect();
    assert_eq!(lines, ["some.rs:2", "some.rs:4", "some.rs:5"], "{found:?}");
    assert_eq!(complaints("crates/bond/src/end.rs", "pub struct End<P> {}\nlet retold = mending;"), [""; 0]);
}
