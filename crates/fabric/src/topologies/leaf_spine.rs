//! Leaf-spine: two tiers, every leaf linked to every spine.

use schemars::JsonSchema;
use topology::{NodeId, Topology};

use super::{Rule, Specs};
use crate::error::Problems;
use crate::graph;
use crate::quantity::Whole;
use crate::read::{Fields, Read, section};
use crate::source::At;
use crate::tree::Node;

section! {
    /// A two-tier Clos network: every leaf linked to every spine.
    LeafSpineText {
        /// How many leaf switches.
        "leaves" => leaves: At<Whole<1, 4_096>>,
        /// How many spine switches.
        "spines" => spines: At<Whole<1, 1_024>>,
        /// How many hosts on each leaf.
        "hosts-per-leaf" => hosts_per_leaf: At<Whole<1, 250>>,
    }
}

/// The most hosts of one fabric.
const MOST_HOSTS: u32 = 190_000;

impl Rule for LeafSpineText {
    fn lay_out(&self, specs: &Specs, problems: &mut Problems<'_>) -> Option<Topology> {
        let (leaves, hosts) = (self.leaves.value.get(), self.hosts_per_leaf.value.get());
        if leaves * hosts > MOST_HOSTS {
            problems.add(
                self.hosts_per_leaf.place,
                format!("{leaves} leaves with {hosts} hosts each are {} hosts, more than {MOST_HOSTS}", leaves * hosts),
                "too many",
                "fewer leaves, or fewer hosts on each",
            );
            return None;
        }
        Some(leaf_spine(leaves, self.spines.value.get(), hosts, specs))
    }
}

/// Lays out `leaves` (up to 4,096) with `hosts_per_leaf` (up to 250) hosts each. A leaf's ports: hosts, then spines; port i
/// of a spine goes to leaf i. Host h (from 1) of leaf l (from 1) has the address 10.(l / 256).(l mod 256).h; each leaf is a pod.
fn leaf_spine(leaves: u32, spines: u32, hosts_per_leaf: u32, specs: &Specs) -> Topology {
    let mut topology = Topology::default();
    let hosts: Vec<NodeId> = (0..leaves * hosts_per_leaf)
        .map(|i| {
            let (leaf, position) = (i / hosts_per_leaf, i % hosts_per_leaf + 1);
            let [_, _, high, low] = (leaf + 1).to_be_bytes();
            graph::host(&mut topology, format!("h{}", i + 1), [high, low, position as u8], Some(leaf))
        })
        .collect();
    let leaves: Vec<NodeId> = (0..leaves).map(|i| topology.add_switch(format!("leaf{}", i + 1), 1, Some(i))).collect();
    let spines: Vec<NodeId> = (0..spines).map(|i| topology.add_switch(format!("spine{}", i + 1), 2, None)).collect();
    for (i, &host) in hosts.iter().enumerate() {
        topology.connect(host, leaves[i / hosts_per_leaf as usize], specs.hosts);
    }
    for &leaf in &leaves {
        for &spine in &spines {
            topology.connect(leaf, spine, specs.switches);
        }
    }
    topology.arrange();
    topology
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::NodeKind;

    #[test]
    fn every_leaf_meets_every_spine() {
        let topology = leaf_spine(3, 2, 4, &Specs::default());
        assert_eq!((topology.hosts, topology.nodes.len(), topology.links.len()), (12, 17, 18));
        let names: Vec<&str> = topology.switches().map(|(_, n)| n.name.as_str()).collect();
        assert_eq!(names, ["leaf1", "leaf2", "leaf3", "spine1", "spine2"]);
        assert_eq!(topology.nodes[NodeId(12)].ports.len(), 6);
        assert_eq!(topology.nodes[NodeId(16)].ports.len(), 3);
    }

    #[test]
    fn addresses_show_leaf_and_position_also_beyond_255_leaves() {
        let topology = leaf_spine(300, 1, 2, &Specs::default());
        let ipv4 = |i: u32| match &topology.nodes[NodeId(i)].kind {
            NodeKind::Host(address) => address.ipv4.to_string(),
            NodeKind::Switch { .. } => panic!("not a host"),
        };
        assert_eq!([ipv4(0), ipv4(3), ipv4(599)], ["10.0.1.1", "10.0.2.2", "10.1.44.2"]);
    }
}
