//! Problems that show only when a file is used: they are shown at their line as all others are.

use crate::error::{Error, Problems};
use crate::source::{Place, Source};
use crate::tree::{self, Node, Value};

/// A problem with what stands at this place of a file: the keys that lead there, and in a list the text of the item. `None` if nothing stands there.
///
/// `message` says what is wrong, `label` is shown under the marked text, `hint` says how to fix it.
pub fn problem_at(source: &Source, path: &[&str], message: &str, label: &str, hint: &str) -> Option<Error> {
    let mut problems = Problems::new(source);
    let root = tree::read(source, &mut problems)?;
    let place = place_of(&root, path)?;
    problems.add(place, message, label, hint);
    Some(problems.into_error())
}

/// Something that is wrong with what stands at a place of a file, as [`problem_at`] takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedProblem {
    /// The keys that lead there.
    pub path: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: String,
}

/// Several of those at once; `None` if nothing stands at any of the places.
pub fn problems_at(source: &Source, found: &[LocatedProblem]) -> Option<Error> {
    let mut problems = Problems::new(source);
    let root = tree::read(source, &mut problems)?;
    for LocatedProblem { path, message, hint } in found {
        if let Some(place) = place_of(&root, path) {
            problems.add(place, message, "here", hint);
        }
    }
    (!problems.is_empty()).then(|| problems.into_error())
}

/// Where the key, or the item of a list, stands to which these steps lead.
fn place_of(root: &Node, path: &[impl AsRef<str>]) -> Option<Place> {
    let (mut node, mut place) = (root, root.place);
    for step in path {
        let step = step.as_ref();
        (node, place) = match &node.value {
            Value::Map(entries) => {
                let entry = entries.iter().find(|entry| entry.key == step)?;
                (&entry.value, entry.key_place)
            }
            Value::List(items) => {
                let item = items.iter().find(|item| matches!(&item.value, Value::Scalar(text) if text == step))?;
                (item, item.place)
            }
            Value::Scalar(_) | Value::Null => return None,
        };
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_marked_where_it_stands() {
        let text = "nodes:\n  h1: host\n  g: { kind: host, devices: [tap0, 'pcap:a.pcap'] }\n".to_owned();
        let source = Source { name: "net.yaml".to_owned(), text };
        let at = |path: &[&str]| {
            let error = problem_at(&source, path, "it is gone", "here", "look for it")?;
            let [problem] = error.problems() else { panic!("one problem") };
            Some((problem.line, problem.column, source.text[problem.span.offset()..][..problem.span.len()].to_owned()))
        };
        assert_eq!(at(&["nodes", "g", "devices", "tap0"]), Some((3, 30, "tap0".to_owned())));
        assert_eq!(at(&["nodes", "h1"]), Some((2, 3, "h1".to_owned())));
        assert_eq!(
            at(&["nodes", "g", "devices", "pcap:a.pcap"]).map(|(line, column, _)| (line, column)),
            Some((3, 36))
        );
        for nothing in [&["nodes", "h2"][..], &["nodes", "h1", "x"], &["nodes", "g", "devices", "tap1"]] {
            assert_eq!(at(nothing), None);
        }
    }
}
