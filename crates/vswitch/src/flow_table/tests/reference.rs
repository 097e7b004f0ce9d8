//! What `docs/flows.md` says that flows can do, and what not, held against the parser.

use std::fmt::Write as _;

use super::*;
use crate::flow_table::GroupKind;
use crate::flow_table::actions::{MODIFIERS, WORDS, needs_of_set};
use crate::flow_table::match_field::{FIELDS, Form, MatchField, Needs};
use crate::flow_table::matching::kinds;

const PAGE: &str = include_str!("../../../../../docs/flows.md");

/// What stands between a pair of marks.
fn block(name: &str) -> &'static str {
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n"));
    let (_, behind) = PAGE.split_once(&start).expect("the page has this mark");
    behind.split_once(&end).expect("the page has its end").0
}

/// The cells of the rows of the tables below a heading.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, behind) = PAGE.split_once(&format!("\n## {heading}\n")).expect("the page has this heading");
    let section = behind.split("\n## ").next().unwrap_or_default();
    let is_row = |line: &&str| line.starts_with("| `") || (line.starts_with("| ") && line.contains(" | `"));
    let cells = |line: &'static str| line.trim_matches('|').split(" | ").map(str::trim).collect();
    section.lines().filter(is_row).map(cells).collect()
}

/// What stands in code in a cell.
fn code(cell: &'static str) -> impl Iterator<Item = &'static str> {
    cell.split('`').skip(1).step_by(2)
}

/// A value of a field.
const fn value(field: &MatchField) -> &'static str {
    match field.form {
        Form::Decimal if field.bits == 8 && field.low == 0 => "184",
        Form::Decimal if field.bits == 13 => "4101",
        Form::Decimal if field.bits == 1 => "1",
        Form::Decimal => "3",
        Form::Hex => "0x806",
        Form::Mac => "02:00:00:00:00:01",
        Form::Ipv4 => "10.0.0.1",
        Form::Ipv6 => "fd00::1",
        Form::Port => "h1",
        Form::Fragment => "later",
        Form::TcpFlags => "+syn-ack",
        Form::CtState => "+trk+new",
    }
}

/// What has to be matched in front of a field, and in words.
fn before(needs: Needs) -> (String, &'static str) {
    let (word, words) = needs.words();
    (if word.is_empty() { String::new() } else { format!("{word},") }, words)
}

#[test]
fn fields_are_those_of_the_page() {
    let mut table = "| field | as in | masks | written | needs |\n|---|---|---|---|---|\n".to_owned();
    for field in &FIELDS {
        let names: Vec<String> =
            std::iter::once(&field.name).chain(field.also).map(|name| format!("`{name}`")).collect();
        let (example, (front, needs)) = (format!("{}={}", field.name, value(field)), before(field.needs));
        flow(&format!("{front}{example},actions=drop"));
        let masked = Flow::parse(&format!("{front}{example}/{},actions=drop", value(field)), &ports());
        let is_flags = matches!(field.form, Form::Fragment | Form::TcpFlags | Form::CtState);
        assert!(is_flags || masked.is_ok() == field.is_maskable, "{example}: {masked:?}");
        let written = needs_of_set(field).map(|needs| {
            flow(&format!("{}actions=set_field:{}->{}", before(needs).0, value(field), field.name));
        });
        let yes = |is: bool| if is { "yes" } else { "" };
        let _ = writeln!(
            table,
            "| {} | `{example}` | {} | {} | {} |",
            names.join(", "),
            yes(field.is_maskable),
            yes(written.is_some()),
            if field.needs == Needs::Nothing { "" } else { needs }
        );
    }
    assert_eq!(block("fields"), table, "docs/flows.md has to say:\n{table}");
    let kinds: Vec<String> = kinds().map(|word| format!("`{word}`")).collect();
    for kind in kinds.iter().map(|kind| kind.trim_matches('`')) {
        flow(&format!("{kind},actions=drop"));
    }
    assert_eq!(block("kinds"), format!("{}\n", kinds.join(", ")));
}

#[test]
fn actions_are_those_of_the_page() {
    let mut said = Vec::new();
    for row in rows("Actions") {
        let [examples, packets, _] = row[..] else { panic!("three cells: {row:?}") };
        let front = code(packets).next().map_or_else(String::new, |front| format!("{front},"));
        for example in code(examples) {
            flow(&format!("{front}actions={example}"));
            said.push(example.split([':', '(']).next().unwrap_or_default());
        }
    }
    let words = WORDS.into_iter().chain(MODIFIERS.map(|(word, _)| word));
    // Of these two the parser says what to write in their place.
    for word in words.filter(|word| !["apply_actions", "resubmit"].contains(word)) {
        assert!(said.contains(&word), "docs/flows.md does not say what `{word}` does");
    }
}

#[test]
fn groups_are_those_of_the_page() {
    let rows = rows("Groups");
    let examples: Vec<&str> = rows.iter().flat_map(|row| code(row[0])).collect();
    let types: Vec<_> = examples.iter().map(|example| group(example).kind).collect();
    assert_eq!(types, [GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover]);
}

#[test]
fn what_the_page_calls_missing_is_refused() {
    let rows = rows("What is missing");
    assert!(rows.len() > 5);
    for example in rows.iter().flat_map(|row| code(row[1])) {
        let is_refused = if example.starts_with("group_id=") {
            Group::parse(example, &ports()).is_err()
        } else {
            Flow::parse(example, &ports()).is_err()
        };
        assert!(is_refused, "`{example}` is not missing any more");
    }
}
