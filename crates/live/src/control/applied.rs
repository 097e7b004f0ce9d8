//! What applying a file did, in words.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many names a sentence lists; more are counted.
const NAMED_MAX: usize = 6;

/// How many of each there are: `5 nodes, 4 links, 1 service`.
fn counted(names: &[String]) -> String {
    const KINDS: [[&str; 2]; 6] = [
        ["node", "nodes"],
        ["link", "links"],
        ["end of a bond", "ends of bonds"],
        ["chain", "chains"],
        ["service", "services"],
        ["name", "names"],
    ];
    let kind = |name: &String| match name.split_once(' ') {
        None => 0,
        Some(("link", _)) => 1,
        Some(("chain", _)) => 3,
        Some(("service", _)) => 4,
        Some(("name", _)) => 5,
        Some(_) => 2,
    };
    let mut counts = [0_usize; KINDS.len()];
    for name in names {
        counts[kind(name)] += 1;
    }
    let words = counts.iter().zip(KINDS).filter(|(count, _)| **count > 0);
    words.map(|(count, words)| format!("{count} {}", words[usize::from(*count > 1)])).collect::<Vec<_>>().join(", ")
}

/// What applying a file did. What is no node is named with what it is: `link h1-s1:2`, `chain all`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// Nodes and links that were not there before.
    pub created: Vec<String>,
    /// Nodes and links that were there and are different now.
    pub changed: Vec<String>,
    /// Nodes and links that are gone.
    pub removed: Vec<String>,
    /// How many nodes and links are as they were.
    pub kept: usize,
    /// Programs that ran, and were started anew since they, their files or what they run in has changed: `web of h1`.
    #[serde(default)]
    pub restarted: Vec<String>,
}

impl Applied {
    /// Whether nothing had to be done.
    pub fn is_empty(&self) -> bool {
        let lists = [&self.created, &self.changed, &self.removed, &self.restarted];
        lists.into_iter().all(Vec::is_empty)
    }
}

impl Applied {
    /// What applying a file would do, as [`fmt::Display`] says what it did.
    pub fn plan(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, ["create", "change", "remove"], &format!("keep {}", self.kept))
            .expect("a text takes all");
        text
    }

    fn write(&self, f: &mut impl fmt::Write, words: [&str; 3], kept: &str) -> fmt::Result {
        if self.is_empty() {
            return write!(f, "nothing to change, {} nodes and links kept", self.kept);
        }
        let parts = words.into_iter().zip([&self.created, &self.changed, &self.removed]);
        for (what, names) in parts.filter(|(_, names)| !names.is_empty()) {
            match names.as_slice() {
                few if few.len() <= NAMED_MAX => write!(f, "{what} {}, ", few.join(", "))?,
                many => write!(f, "{what} {}, ", counted(many))?,
            }
        }
        f.write_str(kept)?;
        match self.restarted.as_slice() {
            [] => Ok(()),
            few if few.len() <= NAMED_MAX => write!(f, "; restarted {}", few.join(", ")),
            many => write!(f, "; restarted {} programs", many.len()),
        }
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, ["created", "changed", "removed"], &format!("{} kept", self.kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_parts_are_counted_by_what_they_are() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let few = Applied { created: names(&["h1", "link h1-s1"]), kept: 3, ..Applied::default() };
        assert_eq!(
            (few.to_string().as_str(), few.plan().as_str()),
            ("created h1, link h1-s1, 3 kept", "create h1, link h1-s1, keep 3")
        );
        let created = names(&[
            "h1",
            "h2",
            "s1",
            "link h1-s1",
            "link h2-s1:2",
            "b1 of h1",
            "chain c1",
            "service web",
            "name www.example.net",
        ]);
        let many = Applied { created, removed: names(&["h3"]), ..Applied::default() };
        assert_eq!(
            many.to_string(),
            "created 3 nodes, 2 links, 1 end of a bond, 1 chain, 1 service, 1 name, removed h3, 0 kept"
        );
    }
}
