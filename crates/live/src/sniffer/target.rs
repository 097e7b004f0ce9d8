//! Where a capture looks, by its name: `h1`, `leaf1:2`, `h1-leaf1`.

use fabric::NoSuchLink;
use topology::{LinkId, NodeId, PortId, Side, Topology};

/// A port at which a capture looks, known by its link: numbers of ports may change with the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The node that has it.
    node: String,
    /// The node at the other end of its link.
    peer: String,
    /// Which of the links between the two, from 1.
    number: u32,
    /// What people know it by: `leaf1:2 (to h1)`.
    pub name: String,
}

/// Why there is no such place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// There is no such node or link.
    #[error(transparent)]
    NoSuchLink(#[from] NoSuchLink),
    /// A node has fewer ports.
    #[error("`{node}` has no port {number}")]
    NoSuchPort {
        /// The node's name.
        node: String,
        /// The number that was given.
        number: String,
        /// The ports that it has.
        ports: String,
    },
    /// A node without links.
    #[error("`{0}` has no links")]
    Isolated(String),
}

impl TargetError {
    /// What there is instead.
    pub fn hint(&self) -> String {
        match self {
            Self::NoSuchLink(error) => error.hint(),
            Self::NoSuchPort { ports, .. } => format!("it has {ports}"),
            Self::Isolated(_) => "`heddle show links` lists those that there are".to_owned(),
        }
    }
}

/// Ports that an error lists.
const SHOWN: usize = 8;

impl Target {
    /// The ports that are meant: all of a node (`h1`), one of a node by its number (`leaf1:2`), or that of the first node of one link, or of all parallel ones, between
    /// two (`h1-leaf1`; `h1-leaf1:2` is the second one).
    ///
    /// # Errors
    /// If a name is nobody's, or there is no such port or link; it says what there is.
    pub fn find(topology: &Topology, text: &str) -> Result<Vec<Self>, TargetError> {
        if let Some(node) = topology.node(text) {
            let ports =
                |node: NodeId| topology.nodes[node].ports.keys().map(move |port| Self::of(topology, node, port));
            let all: Vec<Self> = topology.interfaces_of(node).flat_map(ports).collect();
            return if all.is_empty() { Err(TargetError::Isolated(text.to_owned())) } else { Ok(all) };
        }
        let (name, number) = text.rsplit_once(':').map_or((text, None), |(name, number)| (name, Some(number)));
        if let (Some(node), Some(number)) = (topology.node(name), number) {
            let port = number.parse::<u16>().ok().map(PortId);
            let port = port.filter(|port| topology.nodes[node].ports.get(*port).is_some());
            let port = port.ok_or_else(|| no_such_port(topology, node, number))?;
            return Ok(vec![Self::of(topology, node, port)]);
        }
        let Some((a, b, number)) = fabric::link_ends(topology, text) else {
            // It says which node may be meant.
            fabric::find_links(topology, name, name, None)?;
            return Err(TargetError::Isolated(name.to_owned()));
        };
        let links = fabric::find_links(topology, a, b, number)?;
        let node = topology.node(a);
        Ok(links.iter().filter_map(|link| Self::at(topology, *link, node?)).collect())
    }

    fn of(topology: &Topology, node: NodeId, port: PortId) -> Self {
        let (link, side) = topology.nodes[node].ports[port];
        let name = |node: NodeId| topology.nodes[node].name.clone();
        let peer = topology.links[link].end(side.other()).node;
        let (node, peer) = (name(node), name(peer));
        let text = format!("{node}:{} (to {peer})", port.0);
        Self { node, peer, number: topology.link_number(link), name: text }
    }

    /// The port of a node at a link.
    fn at(topology: &Topology, link: LinkId, node: NodeId) -> Option<Self> {
        let ends = [Side::A, Side::B].map(|side| topology.links[link].end(side));
        let end = ends.into_iter().find(|end| [end.node, topology.owner(end.node)].contains(&node))?;
        Some(Self::of(topology, end.node, end.port))
    }

    /// Whether it is the same port, whatever its number is now.
    pub fn is_same_port(&self, other: &Self) -> bool {
        (&self.node, &self.peer, self.number) == (&other.node, &other.peer, other.number)
    }

    /// Where it is now, if it is there.
    pub fn locate(&self, topology: &Topology) -> Option<(NodeId, PortId)> {
        let links = fabric::find_links(topology, &self.node, &self.peer, Some(self.number)).ok()?;
        let node = topology.node(&self.node)?;
        let link = links.into_iter().next()?;
        let ends = [Side::A, Side::B].map(|side| topology.links[link].end(side));
        ends.into_iter().find(|end| end.node == node).map(|end| (node, end.port))
    }
}

fn no_such_port(topology: &Topology, node: NodeId, number: &str) -> TargetError {
    let ports = topology.nodes[node].ports.keys();
    let count = ports.len();
    let shown: Vec<String> = ports.take(SHOWN).map(|port| Target::of(topology, node, port).name).collect();
    let dots = if count > SHOWN { ", ..; `heddle show links` lists them" } else { "" };
    let ports = if count == 0 { "none".to_owned() } else { shown.join(", ") + dots };
    TargetError::NoSuchPort { node: topology.nodes[node].name.clone(), number: number.to_owned(), ports }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology() -> Topology {
        let text = "\
name: x
nodes: { h1: host, h2: host, s1: switch, core-1: switch }
links:
  - between: [h1, s1]
  - between: [s1, core-1]
  - between: [h2, core-1]
  - between: [core-1, s1]
";
        fabric::parse(&fabric::Source { name: "x".to_owned(), text: text.to_owned() }).unwrap().topology
    }

    fn names(text: &str) -> Vec<String> {
        Target::find(&topology(), text).unwrap().into_iter().map(|target| target.name).collect()
    }

    #[test]
    fn ports_are_found_by_node_number_and_link() {
        assert_eq!(names("h1"), ["h1:0 (to s1)"]);
        assert_eq!(names("s1"), ["s1:0 (to h1)", "s1:1 (to core-1)", "s1:2 (to core-1)"]);
        assert_eq!(names("s1:2"), ["s1:2 (to core-1)"]);
        assert_eq!(names("h1-s1"), ["h1:0 (to s1)"]);
        assert_eq!(names("s1-h1"), ["s1:0 (to h1)"]);
        assert_eq!(names("s1-core-1"), ["s1:1 (to core-1)", "s1:2 (to core-1)"]);
        assert_eq!(names("core-1-s1:2"), ["core-1:2 (to s1)"]);
        assert_eq!(names("core-1:1"), ["core-1:1 (to h2)"]);
    }

    #[test]
    fn a_target_is_found_again_by_its_link() {
        let topology = topology();
        for (node, ports) in topology.nodes.iter_enumerated().map(|(id, node)| (id, node.ports.keys())) {
            for port in ports {
                assert_eq!(Target::of(&topology, node, port).locate(&topology), Some((node, port)));
            }
        }
        let gone = Target { node: "h1".into(), peer: "h2".into(), number: 1, name: String::new() };
        assert_eq!(gone.locate(&topology), None);
    }

    #[test]
    fn what_is_not_there_is_explained() {
        let said = |text: &str| {
            let error = Target::find(&topology(), text).unwrap_err();
            (error.to_string(), error.hint())
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(said("h11"), pair("there is no node `h11`", "did you mean `h1`?"));
        assert_eq!(said("h11-s1"), pair("there is no node `h11`", "did you mean `h1`?"));
        assert_eq!(said("h1-core-2").0, "there is no node `core-2`");
        assert_eq!(said("h1-h2"), pair("there is no link between `h1` and `h2`", "`h1` is linked to `s1`"));
        assert_eq!(said("h1:1"), pair("`h1` has no port 1", "it has h1:0 (to s1)"));
        assert_eq!(said("s1:x").0, "`s1` has no port x");
        assert!(said("s1-core-1:3").0.contains("2 links"));
        assert!(said("zzz:1").0.contains("no node `zzz`"));
    }
}
