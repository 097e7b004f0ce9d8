//! A network in a word: `tree,3`, as Mininet's `--topo` has it. It becomes what a file says about it, so that the file's reader and its messages do the rest.

use crate::check::parse;
use crate::error::{Error, Problems};
use crate::model::Fabric;
use crate::names::{LONGEST, nearest, one_of};
use crate::read::shown;
use crate::source::{Place, Source};
use crate::topologies::TopologyText;
use crate::{template, units};

/// Networks in a word, one of each topology: `fat-tree,4`, ...
pub fn topology_words() -> Vec<String> {
    TopologyText::words()
}

/// The network that is named by a word, and the file that says the same: see [`topology_file`]. Without a name it is called by its topology and numbers: `tree-3`.
///
/// # Errors
/// If the word is none, or its numbers are no network. The error shows the word.
pub fn topology_of(name: Option<&str>, word: &str) -> Result<(Source, Fabric), Error> {
    let source = topology_file(name, word)?;
    match parse(&source) {
        Ok(fabric) => Ok((source, fabric)),
        Err(error) => Err(in_word(&error, &source, word)),
    }
}

/// What is wrong with a file that nobody wrote, at the number of the word that it is about.
fn in_word(error: &Error, file: &Source, word: &str) -> Error {
    let source = Source { name: "--topo".to_owned(), text: word.to_owned() };
    let mut problems = Problems::new(&source);
    let keys = TopologyText::keys_behind(word.split(',').next().unwrap_or_default()).unwrap_or_default();
    for problem in error.problems() {
        // The key that stands before the mistake.
        let before = &file.text[..problem.span.offset()];
        let key = before.rsplit(['{', ',']).next().and_then(|text| Some(text.split_once(':')?.0.trim()));
        let place = key.and_then(|key| place_of(word, key, &keys)).unwrap_or(Place { offset: 0, len: word.len() });
        let hint = match example(word).filter(|_| problem.code() == "missing-key") {
            Some(example) => format!("write it as in `{example}`"),
            None => problem.hint.clone(),
        };
        problems.add(place, problem.message.clone(), problem.label.clone(), hint);
    }
    problems.into_error()
}

/// A word of the same topology.
fn example(word: &str) -> Option<String> {
    let topology = word.split(',').next().unwrap_or_default();
    TopologyText::words().into_iter().find(|other| other.split(',').next() == Some(topology))
}

/// Where the number of a key stands in a word.
fn place_of(word: &str, key: &str, keys: &[&str]) -> Option<Place> {
    let mut offset = word.find(',')? + 1;
    for (number, part) in word[offset..].split(',').enumerate() {
        let (name, value) = part.split_once('=').unwrap_or((keys.get(number).copied().unwrap_or_default(), part));
        if name == key {
            return Some(Place { offset: offset + part.len() - value.len(), len: value.len() });
        }
        offset += part.len() + 1;
    }
    None
}

/// A file called `name` with the network that is named by a word, and nothing else. The word is a topology with its numbers in the order of the file's keys,
/// some of them perhaps by these: `tree,3,fanout=4`.
///
/// # Errors
/// If the name can't be one, or the word is no topology with numbers. What is wrong with the numbers shows when the file is read.
fn topology_file(name: Option<&str>, word: &str) -> Result<Source, Error> {
    name.map_or(Ok(()), template::check)?;
    let written = written(word)?;
    let name = name.map_or_else(|| written.name(), str::to_owned);
    let line = written.line();
    Ok(Source { name: format!("--topo {word}"), text: format!("name: \"{name}\"\n{line}\n") })
}

/// The text of a new fabric file called `name`, with comments, for the network that is named by a word.
///
/// # Errors
/// As those of [`topology_file`].
pub fn topology_template(name: &str, word: &str) -> Result<String, Error> {
    template::check(name)?;
    let line = written(word)?.line();
    let network = format!("\n# As `heddle up --topo {word}` has it.\n{line}\n\n{}", template::LINKS);
    Ok(template::with_network(name, &network, "permutation"))
}

/// A word that is read.
struct Written<'a> {
    topology: &'a str,
    /// All keys that the topology has, in their order.
    keys: Vec<&'static str>,
    /// The keys that are written, with their numbers.
    numbers: Vec<(&'a str, &'a str)>,
}

impl Written<'_> {
    /// The line of a file: `topology: { tree: { depth: 3 } }`.
    fn line(&self) -> String {
        let entries = self.numbers.iter().map(|(key, value)| format!("{key}: {value}"));
        format!("topology: {{ {}: {{ {} }} }}", self.topology, entries.collect::<Vec<_>>().join(", "))
    }

    /// What it is called when nobody says otherwise: `tree-3`. A number behind one that is not written has its key.
    fn name(&self) -> String {
        let mut parts = vec![self.topology.to_owned()];
        let mut follows = true;
        for key in &self.keys {
            let written = self.numbers.iter().find(|(of, _)| of == key).and_then(|(_, number)| units::whole(number));
            match written {
                Some(number) if follows => parts.push(number.to_string()),
                Some(number) => parts.push(format!("{key}-{number}")),
                None => follows = false,
            }
        }
        let mut name = parts.join("-");
        // Those of words that are none, which is said when the file is read.
        name.truncate(LONGEST);
        name
    }
}

fn written(word: &str) -> Result<Written<'_>, Error> {
    let source = Source { name: "the command line".to_owned(), text: word.to_owned() };
    let mut problems = Problems::new(&source);
    read(word, &mut problems).filter(|_| problems.is_empty()).ok_or_else(|| problems.into_error())
}

fn read<'a>(word: &'a str, problems: &mut Problems<'_>) -> Option<Written<'a>> {
    let mut parts = word.split(',');
    let topology = parts.next().unwrap_or_default();
    let Some(keys) = TopologyText::keys_behind(topology) else {
        let near = nearest(topology, TopologyText::KEYS.iter().copied());
        let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        problems.add(
            Place { offset: 0, len: topology.len() },
            format!("`{}` is not a topology", shown(topology)),
            "unknown",
            format!("{near}there are {}", TopologyText::words().join("  ")),
        );
        return None;
    };
    let (mut numbers, mut offset) = (Vec::new(), topology.len() + 1);
    for (number, part) in parts.enumerate() {
        let place = Place { offset, len: part.len() };
        offset += part.len() + 1;
        let (key, value) = match (part.split_once('='), keys.get(number)) {
            (Some((key, value)), _) => (key, value),
            (None, Some(key)) => (*key, part),
            (None, None) => {
                let message = format!("`{topology}` has no number behind {}", one_of(keys.iter().copied()));
                problems.add(place, message, "one too many", "remove it");
                continue;
            }
        };
        if units::is_too_large(value) {
            let message = format!("`{}` is too large for `{}`", shown(value), shown(key));
            let hint = format!("write it as in `{}`", example(word).unwrap_or_default());
            problems.add(place, message, "too large", hint);
        } else if units::whole(value).is_none() {
            let message =
                format!("expected a whole number, not negative, for `{}`, found `{}`", shown(key), shown(value));
            let hint = format!("write it as in `{}`", example(word).unwrap_or_default());
            problems.add(place, message, "no number", hint);
        } else if !keys.contains(&key) {
            let hint = format!("the numbers of `{topology}` are {}", one_of(keys.iter().copied()));
            problems.add(place, format!("there is no `{}` here", shown(key)), "unknown", hint);
        } else {
            numbers.push((key, value));
        }
    }
    Some(Written { topology, keys, numbers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(word: &str) -> String {
        let error = topology_file(None, word).and_then(|source| parse(&source)).unwrap_err();
        let said = error.problems().iter().map(|problem| format!("{}; {}", problem.message, problem.hint));
        said.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_word_is_what_the_file_says() {
        for (word, line) in [
            ("tree,3", "tree: { depth: 3 }"),
            ("tree,3,4", "tree: { depth: 3, fanout: 4 }"),
            ("tree,fanout=4,depth=0x3", "tree: { fanout: 4, depth: 0x3 }"),
            ("leaf-spine,4,2,2", "leaf-spine: { leaves: 4, spines: 2, hosts-per-leaf: 2 }"),
        ] {
            assert_eq!(written(word).expect(word).line(), format!("topology: {{ {line} }}"));
        }
        for word in topology_words() {
            let source = topology_file(Some("topo"), &word).expect("a word");
            let fabric = parse(&source).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)));
            assert_eq!(fabric.name, "topo");
            assert!(fabric.topology.hosts >= 4, "{word}");
            let text = topology_template("lab", &word).expect("a word");
            let long = parse(&Source { name: "lab.yaml".to_owned(), text }).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((long.topology.nodes, long.experiments.len()), (fabric.topology.nodes, 1), "{word}");
        }
        assert_eq!(topology_words().len(), TopologyText::KEYS.len());
    }

    #[test]
    fn a_network_without_a_name_is_called_by_its_shape() {
        for (word, name) in [
            ("tree,3", "tree-3"),
            ("tree,0x3", "tree-3"),
            ("tree,depth=3", "tree-3"),
            ("tree,fanout=4,depth=3", "tree-3-4"),
            ("leaf-spine,4,2,2", "leaf-spine-4-2-2"),
            ("torus,3,3", "torus-3-3"),
        ] {
            let (source, fabric) = topology_of(None, word).unwrap_or_else(|error| panic!("{word}: {error}"));
            assert_eq!((fabric.name.as_str(), source.name), (name, format!("--topo {word}")));
        }
        let (_, own) = topology_of(Some("lab"), "tree,3").expect("a word");
        assert_eq!(own.name, "lab");
        let gap = written("torus,hosts-per-switch=2").expect("it is read").name();
        assert_eq!(gap, "torus-hosts-per-switch-2");
    }

    #[test]
    fn a_wrong_number_is_shown_in_the_word() {
        for (word, marked, message) in [
            ("tree,0", "0", "from 1 to 14"),
            ("tree,3,0", "0", "from 1 to 250"),
            ("tree,fanout=0,depth=2", "0", "from 1 to 250"),
            ("fat-tree,3", "3", "even number"),
            ("torus,3,0x1", "0x1", "3 is the least"),
            ("tree", "tree", "`depth` is missing"),
        ] {
            let error = topology_of(None, word).expect_err(word);
            let problem = &error.problems()[0];
            let shown = format!("{:?}", miette::Report::new(error.clone()));
            let said = format!("{}; {}", problem.message, problem.hint);
            assert!(
                &word[problem.span.offset()..][..problem.span.len()] == marked && said.contains(message),
                "{shown}"
            );
            assert!(!shown.contains("topology:"), "{shown}");
        }
    }

    #[test]
    fn a_word_that_is_none_is_refused_with_those_that_there_are() {
        let text = said("trees,3");
        assert!(text.starts_with("`trees` is not a topology; did you mean `tree`? there are fat-tree,4  "), "{text}");
        for word in topology_words() {
            assert!(said("star").contains(&word) && said("").contains(&word), "{word}");
        }
        assert!(said("tree").starts_with("`depth` is missing"));
        assert!(said("tree,3,2,1").starts_with("`tree` has no number behind `depth` or `fanout`"));
        assert!(said("tree,deep").starts_with("expected a whole number"));
        assert!(said("tree,99999999999999999999").starts_with("`99999999999999999999` is too large for `depth`"));
        assert!(said("tree,depth=3,width=2").starts_with("there is no `width` here; the numbers of `tree` are"));
        assert!(said("tree,3,depth=2").contains("`depth` is there twice"));
        assert!(said("ring,2").contains("3 is the least"));
        assert!(said("tree,3 } }\nseed: { x: 1").starts_with("expected a whole number"));
        assert!(topology_file(Some("a/b"), "tree,3").is_err());
    }
}
