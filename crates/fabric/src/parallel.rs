//! Links by the names of their ends: for command lines and for faults. Parallel links are distinguished by their number.

use std::collections::BTreeSet;

use topology::{LinkId, NodeId, Topology};

use crate::names::nearest;

/// Neighbours that a hint lists.
const SHOWN: usize = 8;

/// The names of the nodes that `node` is linked to, each once.
pub(crate) fn neighbours(topology: &Topology, node: NodeId) -> String {
    let peers: BTreeSet<&str> = topology.peers(node).map(|peer| &*topology.nodes[peer].name).collect();
    let dots = if peers.len() > SHOWN { ", ..." } else { "" };
    let peers: Vec<String> = peers.iter().take(SHOWN).map(|peer| format!("`{peer}`")).collect();
    format!("{}{dots}", peers.join(", "))
}

/// Why there is no such link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSuchLink {
    /// A name is no node's.
    Node {
        /// The name.
        name: String,
        /// A node's name that is much like it.
        near: Option<String>,
    },
    /// No link joins the two.
    NotLinked {
        /// The one.
        a: String,
        /// The other.
        b: String,
        /// What `a` is linked to.
        neighbours: String,
    },
    /// There are fewer links between the two.
    Number {
        /// The one.
        a: String,
        /// The other.
        b: String,
        /// Which one was asked for.
        number: u32,
        /// How many there are.
        links: u32,
    },
}

impl std::fmt::Display for NoSuchLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Node { name, .. } => write!(f, "there is no node `{name}`"),
            Self::NotLinked { a, b, .. } => write!(f, "there is no link between `{a}` and `{b}`"),
            Self::Number { a, b, number, links: 1 } => write!(f, "`{a}` and `{b}` have one link; there is no {number}"),
            Self::Number { a, b, number, links } => {
                write!(f, "`{a}` and `{b}` have {links} links; there is no {number}")
            }
        }
    }
}

impl std::error::Error for NoSuchLink {}

impl NoSuchLink {
    /// What there is instead.
    pub fn hint(&self) -> String {
        match self {
            Self::Node { near: Some(near), .. } => format!("did you mean `{near}`?"),
            Self::Node { near: None, .. } => "`heddle show links` lists them".to_owned(),
            Self::NotLinked { a, neighbours, .. } => format!("`{a}` is linked to {neighbours}"),
            Self::Number { links: 1, .. } => "leave the number out".to_owned(),
            Self::Number { links, .. } => {
                format!("they are numbered from 1 to {links}; without a number, all are meant")
            }
        }
    }
}

/// The links between the nodes with these names: the one with this number, or all of them.
///
/// # Errors
/// If there is none.
pub fn find_links(topology: &Topology, a: &str, b: &str, number: Option<u32>) -> Result<Vec<LinkId>, NoSuchLink> {
    let find = |name: &str| {
        let names = || topology.nodes.iter().map(|node| node.name.as_str());
        topology.node(name).ok_or_else(|| NoSuchLink::Node {
            name: name.to_owned(),
            near: nearest(name, names()).map(ToOwned::to_owned),
        })
    };
    let nodes = (find(a)?, find(b)?);
    pick(topology, nodes, number)
}

/// The two nodes of `h1-leaf1`, and the number of `h1-leaf1:2` or `h1-leaf1 2`, which is 0 if it is none. Names may have hyphens, too: where both parts are nodes, or
/// else one is, or else there is one way to part it.
pub fn link_ends<'a>(topology: &Topology, text: &'a str) -> Option<(&'a str, &'a str, Option<u32>)> {
    let (name, number) = text.rsplit_once([':', ' ']).map_or((text, None), |(name, number)| (name, Some(number)));
    let known = |(a, b): &(&str, &str)| [a, b].into_iter().filter(|name| topology.node(name).is_some()).count();
    let splits = name.match_indices('-').map(|(at, _)| (&name[..at], &name[at + 1..]));
    let splits: Vec<_> = splits.filter(|(a, b)| !a.is_empty() && !b.is_empty()).collect();
    let (a, b) = match splits.as_slice() {
        [only] => *only,
        _ => splits.into_iter().max_by_key(known).filter(|split| known(split) > 0)?,
    };
    Some((a, b, number.map(|number| number.parse().unwrap_or(0))))
}

/// Whether a link's end A is at the node with this name, be it by an interface of it: else whoever names that one first means the link from its end B to its end A.
pub fn begins_at(topology: &Topology, link: LinkId, name: &str) -> bool {
    let node = topology.links[link].a.node;
    [node, topology.owner(node)].iter().any(|node| topology.nodes[*node].name == name)
}

/// The links between two nodes, those of all of their interfaces: the one with this number, or all of them.
pub(crate) fn pick(
    topology: &Topology,
    (a, b): (NodeId, NodeId),
    number: Option<u32>,
) -> Result<Vec<LinkId>, NoSuchLink> {
    let name = |id: NodeId| topology.nodes[id].name.clone();
    let all: Vec<LinkId> = topology
        .interfaces_of(a)
        .flat_map(|a| topology.interfaces_of(b).flat_map(move |b| topology.links_between(a, b)))
        .collect();
    if all.is_empty() {
        return Err(NoSuchLink::NotLinked { a: name(a), b: name(b), neighbours: neighbours(topology, a) });
    }
    let Some(number) = number else { return Ok(all) };
    let at = (number as usize).checked_sub(1);
    let one = at.and_then(|at| all.get(at)).copied();
    let links = all.len() as u32;
    one.map(|link| vec![link]).ok_or_else(|| NoSuchLink::Number { a: name(a), b: name(b), number, links })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    fn pair() -> Topology {
        let text = "nodes: { h1: host, h2: host, s1: switch }
links:
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [s1, h1]
bonds: [{ host: h1 }]
";
        crate::parse(&Source { name: "pair.fabric.yaml".into(), text: text.into() }).expect("it is a file").topology
    }

    #[test]
    fn parallel_links_are_numbered_whichever_end_is_named_first() {
        let topology = pair();
        let both = find_links(&topology, "h1", "s1", None).unwrap();
        assert_eq!(both.len(), 2);
        assert_eq!(find_links(&topology, "s1", "h1", None).unwrap(), both);
        assert_eq!(find_links(&topology, "s1", "h1", Some(2)).unwrap(), [both[1]]);
        assert_eq!(both.iter().map(|link| topology.link_number(*link)).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(find_links(&topology, "h2", "s1", None).unwrap().len(), 1);
    }

    #[test]
    fn a_link_is_known_by_its_name() {
        let topology = pair();
        assert_eq!(link_ends(&topology, "h1-s1"), Some(("h1", "s1", None)));
        assert_eq!(link_ends(&topology, "s1-h1:2"), Some(("s1", "h1", Some(2))));
        for link in topology.links.keys() {
            let name = topology.numbered_link_name(link);
            let (a, b, number) = link_ends(&topology, &name).unwrap();
            assert_eq!(find_links(&topology, a, b, number).unwrap(), [link], "{name}");
        }
        // As names were printed before.
        assert_eq!(link_ends(&topology, "h1-s1 2"), Some(("h1", "s1", Some(2))));
        assert_eq!(link_ends(&topology, "h1-s1:x"), Some(("h1", "s1", Some(0))));
        assert_eq!([link_ends(&topology, "h1"), link_ends(&topology, "-h1"), link_ends(&topology, "a-b-c")], [None; 3]);
    }

    #[test]
    fn what_is_not_there_is_explained() {
        let topology = pair();
        let said = |a, b, number| {
            let error = find_links(&topology, a, b, number).unwrap_err();
            (error.to_string(), error.hint())
        };
        let (text, hint) = said("h11", "s1", None);
        assert_eq!((&*text, &*hint), ("there is no node `h11`", "did you mean `h1`?"));
        let (text, hint) = said("h1", "h2", None);
        assert_eq!((&*text, &*hint), ("there is no link between `h1` and `h2`", "`h1` is linked to `s1`"));
        let (text, hint) = said("h1", "s1", Some(3));
        assert_eq!(text, "`h1` and `s1` have 2 links; there is no 3");
        assert!(hint.contains("1 to 2"), "{hint}");
        assert_eq!(said("h2", "s1", Some(2)).1, "leave the number out");
        assert!(find_links(&topology, "h1", "s1", Some(0)).is_err());
    }
}
