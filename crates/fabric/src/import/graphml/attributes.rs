//! Attributes of the graph, of nodes and of edges: what is not taken of them is said.

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::Node;

use crate::import::network::Network;
use crate::read::shown;

/// What is said of an element besides its ends, by names in small letters; what is used is taken from it.
pub(super) struct Attributes(BTreeMap<String, Attribute>);

struct Attribute {
    /// Its name as it is written.
    name: String,
    text: String,
}

impl Attributes {
    /// Those of an element. `keys` are their names, by how elements call them.
    pub fn of(element: Node<'_, '_>, keys: &BTreeMap<&str, &str>) -> Self {
        let all = element.children().filter(|child| child.tag_name().name() == "data");
        let one = |child: Node<'_, '_>| {
            let key = child.attribute("key")?;
            let name = keys.get(key).copied().unwrap_or(key).to_owned();
            let text = child.text().unwrap_or_default().trim().to_owned();
            let is_there = !text.is_empty() || child.children().any(|child| child.is_element());
            is_there.then(|| (name.to_lowercase(), Attribute { name, text }))
        };
        Self(all.filter_map(one).collect())
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|attribute| attribute.text.as_str()).filter(|text| !text.is_empty())
    }

    pub fn has_any(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.get(key).is_some())
    }

    pub fn take(&mut self, key: &str) -> Option<String> {
        self.get(key)?;
        self.0.remove(key).map(|attribute| attribute.text)
    }

    /// The first one that there is.
    pub fn take_first(&mut self, keys: &[&str]) -> Option<String> {
        keys.iter().find_map(|key| self.take(key))
    }
}

/// Attributes that nobody has taken, by what has them.
#[derive(Default)]
pub(super) struct Unused(BTreeMap<&'static str, (Option<usize>, BTreeSet<String>)>);

impl Unused {
    pub fn add(&mut self, of: &'static str, line: Option<usize>, rest: Attributes) {
        if rest.0.is_empty() {
            return;
        }
        let (_, names) = self.0.entry(of).or_insert((line, BTreeSet::new()));
        names.extend(rest.0.into_values().map(|attribute| attribute.name));
    }

    pub fn note(self, network: &mut Network) {
        for (of, (line, names)) in self.0 {
            let names: Vec<String> = names.iter().map(|name| format!("`{}`", shown(name))).collect();
            network.note(line, format!("{} of {of}", names.join(", ")));
        }
    }
}
