//! A tree of switches, with hosts as its leaves.

use schemars::JsonSchema;
use topology::{NodeId, Topology};

use super::{Rule, Specs, add_hosts};
use crate::error::Problems;
use crate::quantity::Whole;
use crate::read::{Fields, Read, section};
use crate::source::At;
use crate::tree::Node;

section! {
    /// A tree of switches with hosts as its leaves, as Mininet's `tree`.
    TreeText {
        /// Levels of switches.
        "depth" => depth: At<Whole<1, 14>>,
        /// How many switches, or hosts, hang on each switch. 2 when not given.
        "fanout" => fanout: Option<Whole<1, 250>>,
    }
}

/// The most hosts.
const MOST_HOSTS: u64 = 16_384;

impl Rule for TreeText {
    fn lay_out(&self, specs: &Specs, problems: &mut Problems<'_>) -> Option<Topology> {
        let (depth, fanout) = (self.depth.value.get(), self.fanout.map_or(2, Whole::get));
        let hosts = u64::from(fanout).saturating_pow(depth);
        if hosts <= MOST_HOSTS {
            return Some(tree(depth, fanout, specs));
        }
        problems.add(
            self.depth.place,
            format!("a tree of depth {depth} and fanout {fanout} has {hosts} hosts, more than {MOST_HOSTS}"),
            "too large",
            "less depth, or less fanout",
        );
        None
    }
}

/// Lays out a tree. Switches are numbered as Mininet does: s1 is the root, and behind each stand the first one below it with all that hangs there, the
/// second one, and so on. A switch's ports lead down, in that order, and then up.
fn tree(depth: u32, fanout: u32, specs: &Specs) -> Topology {
    let mut topology = Topology::default();
    let edges = fanout.pow(depth - 1);
    // What hangs on the root is a pod each.
    let in_pod = if depth > 1 { edges / fanout } else { 1 };
    let hosts = add_hosts(&mut topology, edges, fanout, |edge| (depth > 1).then_some(edge / in_pod));
    let mut tree = Tree { topology, hosts: hosts.concat().into_iter(), switches: 0, fanout, specs };
    tree.add(depth, None, depth);
    tree.topology.arrange();
    tree.topology
}

/// A tree while it is laid out.
struct Tree<'a, H> {
    topology: Topology,
    /// Those that hang nowhere yet.
    hosts: H,
    switches: u32,
    fanout: u32,
    specs: &'a Specs,
}

impl<H: Iterator<Item = NodeId>> Tree<'_, H> {
    /// Adds a switch with so many levels, itself among them, and all that hangs on it.
    fn add(&mut self, levels: u32, pod: Option<u32>, depth: u32) -> NodeId {
        self.switches += 1;
        let switch = self.topology.add_switch(format!("s{}", self.switches), levels as u8, pod);
        for number in 0..self.fanout {
            if levels > 1 {
                let pod = pod.or((levels == depth).then_some(number));
                let below = self.add(levels - 1, pod, depth);
                self.topology.connect(below, switch, self.specs.switches);
            } else if let Some(host) = self.hosts.next() {
                self.topology.connect(host, switch, self.specs.hosts);
            }
        }
        switch
    }
}

#[cfg(test)]
mod tests {
    use topology::NodeKind;

    use super::*;
    use crate::{Source, parse};

    fn peers(topology: &Topology, name: &str) -> Vec<String> {
        let node = topology.node(name).expect(name);
        topology.peers(node).map(|peer| topology.nodes[peer].name.clone()).collect()
    }

    #[test]
    fn hosts_hang_on_the_lowest_switches() {
        let topology = tree(3, 2, &Specs::default());
        assert_eq!((topology.hosts, topology.switch_count(), topology.links.len()), (8, 7, 8 + 6));
        assert_eq!(peers(&topology, "s1"), ["s2", "s5"]);
        assert_eq!(peers(&topology, "s2"), ["s3", "s4", "s1"]);
        assert_eq!(peers(&topology, "s3"), ["h1", "h2", "s2"]);
        assert_eq!(peers(&topology, "s7"), ["h7", "h8", "s5"]);
        let pod = |name: &str| match &topology.nodes[topology.node(name).expect(name)].kind {
            NodeKind::Host(host) => host.pod,
            NodeKind::Switch { pod, .. } => *pod,
        };
        assert_eq!(["h1", "h4", "h5", "s1", "s3", "s7"].map(pod), [Some(0), Some(0), Some(1), None, Some(0), Some(1)]);
        for (depth, fanout) in [(1, 1), (1, 250), (3, 1), (2, 5), (4, 3)] {
            let topology = tree(depth, fanout, &Specs::default());
            assert_eq!(topology.hosts, fanout.pow(depth), "{depth} {fanout}");
            assert_eq!(topology.links.len() + 1, topology.nodes.len(), "{depth} {fanout}");
        }
    }

    #[test]
    fn a_tree_has_two_branches_and_a_bound() {
        let read = |text: &str| parse(&Source { name: "tree.yaml".to_owned(), text: text.to_owned() });
        let short = read("topology: { tree: { depth: 2 } }\n").expect("a network").topology;
        assert_eq!(short, read("topology: { tree: { depth: 2, fanout: 2 } }\n").expect("a network").topology);
        let error = read("topology: { tree: { depth: 14, fanout: 250 } }\n").unwrap_err();
        assert!(error.problems()[0].message.contains("more than 16384"), "{error}");
    }
}
