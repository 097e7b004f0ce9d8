//! What differs between two fabric files, key by key, as they are written.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::Problems;
use crate::escape::escaped;
use crate::source::Source;
use crate::tree::{self, Entry, Node, Value};

/// A key that two files have with different values, or that only one of them has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyDifference {
    /// The key with those around it, as in `links.rate`; a link by its nodes, as in `links.h1-s1.rate`.
    pub key: String,
    /// Its value in the first file, as written there; `None`: it is not there.
    pub a: Option<String>,
    /// Its value in the second file.
    pub b: Option<String>,
}

/// The keys that differ, in the order of the first file, then those that only the second one has. `None`: one of them is no YAML.
pub fn differences(a: &Source, b: &Source) -> Option<Vec<KeyDifference>> {
    let (a, b) = (keys(a)?, keys(b)?);
    let of_a: BTreeMap<&str, &str> = a.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let of_b: BTreeMap<&str, &str> = b.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let all = a.iter().chain(b.iter().filter(|(key, _)| !of_a.contains_key(key.as_str())));
    let differing = all.filter_map(|(key, _)| {
        let (a, b) = (of_a.get(key.as_str()), of_b.get(key.as_str()));
        let owned = |value: Option<&&str>| value.map(|value| (*value).to_owned());
        (a != b).then(|| KeyDifference { key: key.clone(), a: owned(a), b: owned(b) })
    });
    Some(differing.collect())
}

/// All keys with a value of their own, each once.
fn keys(source: &Source) -> Option<Vec<(String, String)>> {
    let root = tree::read(source, &mut Problems::new(source))?;
    let mut found = Vec::new();
    add(&root, String::new(), &mut found);
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for (key, _) in &mut found {
        let time = times.entry(key.clone()).or_default();
        *time += 1;
        // Several links between the same nodes.
        if *time > 1 {
            *key = format!("{key} ({time})");
        }
    }
    Some(found)
}

fn add(node: &Node, key: String, found: &mut Vec<(String, String)>) {
    match &node.value {
        Value::Map(entries) if !entries.is_empty() => {
            for Entry { key: name, value, .. } in entries {
                add(value, below(&key, name), found);
            }
        }
        Value::List(items) if items.iter().any(|item| matches!(item.value, Value::Map(_) | Value::List(_))) => {
            for (number, item) in items.iter().enumerate() {
                let name = ends(item).unwrap_or_else(|| (number + 1).to_string());
                add(item, below(&key, &name), found);
            }
        }
        _ => found.push((key, written(node))),
    }
}

fn below(key: &str, name: &str) -> String {
    let name = escaped(name);
    if key.is_empty() { name.into_owned() } else { format!("{key}.{name}") }
}

/// What a link is called: its nodes.
fn ends(item: &Node) -> Option<String> {
    let Value::Map(entries) = &item.value else { return None };
    let Value::List(ends) = &entries.iter().find(|entry| entry.key == "between")?.value.value else { return None };
    Some(ends.iter().map(written).collect::<Vec<_>>().join("-"))
}

/// A value without keys, on one line.
fn written(node: &Node) -> String {
    match &node.value {
        Value::Scalar(text) => escaped(text).replace(['\n', '\t'], " "),
        Value::Null => "null".to_owned(),
        Value::List(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        Value::Map(_) => "{}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(a: &str, b: &str) -> Vec<String> {
        let source = |text: &str| Source { name: "lab.fabric.yaml".to_owned(), text: text.to_owned() };
        let all = differences(&source(a), &source(b)).expect("they are YAML");
        let or = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        all.into_iter().map(|KeyDifference { key, a, b }| format!("{key}: {} | {}", or(a), or(b))).collect()
    }

    #[test]
    fn keys_are_named_with_those_around_them() {
        let a =
            "links: { rate: 100Mbit, queue: 20 }\nexperiments: { a: { vary: { spread: [single, ecmp] }, for: 1s } }\n";
        let b = "experiments: { a: { for: 1s, vary: { spread: [single] } } }\nlinks: { rate: 1Gbit, delay: 1ms }\nnodes: {}\n";
        assert_eq!(
            lines(a, b),
            [
                "links.rate: 100Mbit | 1Gbit",
                "links.queue: 20 | -",
                "experiments.a.vary.spread: [single, ecmp] | [single]",
                "links.delay: - | 1ms",
                "nodes: - | {}",
            ]
        );
        assert!(lines(a, a).is_empty());
    }

    #[test]
    fn links_are_named_by_their_nodes_and_others_by_their_number() {
        let a = "links:\n- { between: [h1, s1], rate: 1Gbit }\n- { between: [h1, s1], rate: 2Gbit }\nbonds: [{ host: h1 }]\n";
        let b = "links:\n- { between: [h1, s1], rate: 1Gbit }\n- { between: [h1, s1], rate: 3Gbit }\nbonds: [{ host: h2 }]\n";
        assert_eq!(lines(a, b), ["links.h1-s1.rate (2): 2Gbit | 3Gbit", "bonds.1.host: h1 | h2"]);
        let source = |text: &str| Source { name: "x".to_owned(), text: text.to_owned() };
        assert_eq!(differences(&source("a: [\n"), &source("a: 1\n")), None);
    }
}
