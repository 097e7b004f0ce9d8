//! `BCube(n, k)` (Guo et al., SIGCOMM 2009): servers with k + 1 ports that forward, and switches of n ports that are linked to servers only.
//!
//! A server is a number of k + 1 digits of base n, from the digit of level k to that of level 0; h1 is 0...0. A switch of level l joins the n servers
//! that differ in digit l alone. Port l of a server leads to its switch of level l; port j of that switch to the server whose digit l is j.

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
    /// A server-centric network: `BCube` (Guo et al., 2009). Servers have several ports and forward; no switch is linked to another.
    BcubeText {
        /// Ports of each switch.
        "n" => n: At<Whole<2, 64>>,
        /// The highest level: each server has k + 1 ports.
        "k" => k: At<Whole<0, 9>>,
    }
}

/// The most nodes where all of them forward: routes take the square of it.
const MOST_FORWARDING: u64 = 8_000;

impl Rule for BcubeText {
    fn lay_out(&self, specs: &Specs, problems: &mut Problems<'_>) -> Option<Topology> {
        if let Some(place) = specs.switches_place {
            let hint = "remove it: all links are between a host and a switch";
            problems.add(place, "a BCube has no links between switches", "no such link", hint);
        }
        let (n, k) = (self.n.value.get(), self.k.value.get());
        let (hosts, switches) = size(n, k);
        if hosts + switches <= MOST_FORWARDING {
            return Some(bcube(n, k, specs));
        }
        problems.add(
            self.k.place,
            format!("BCube({n}, {k}) has {hosts} hosts and {switches} switches, more than {MOST_FORWARDING} nodes"),
            "too large",
            "n: 8, k: 3 has 4,096 hosts; so has n: 64, k: 1",
        );
        None
    }
}

/// How many hosts and switches a `BCube(n, k)` has.
fn size(n: u32, k: u32) -> (u64, u64) {
    let in_level = u64::from(n).pow(k);
    (in_level * u64::from(n), in_level * (u64::from(k) + 1))
}

/// Lays out a `BCube(n, k)`, whose size has been checked. Switch j (from 1) of level l is called `sl.j`.
fn bcube(n: u32, k: u32, specs: &Specs) -> Topology {
    let mut topology = Topology::default();
    let in_level = n.pow(k);
    // Servers that differ in the digit of the highest level are of different BCube(n, k - 1).
    let pod = |server: u32| server / in_level;
    let hosts: Vec<NodeId> = (0..in_level * n)
        .map(|i| graph::host(&mut topology, format!("h{}", i + 1), position(n, i), Some(pod(i))))
        .collect();
    for host in &hosts {
        // With one port there is nothing to forward.
        topology.nodes[*host].forwards = k > 0;
    }
    let mut switches = Vec::new();
    for level in 0..=k {
        let stride = n.pow(level);
        for j in 0..in_level {
            // The server of this switch whose digit of this level is 0.
            let first = j / stride * stride * n + j % stride;
            let pod = (level < k).then(|| pod(first));
            switches.push((topology.add_switch(format!("s{level}.{}", j + 1), level as u8 + 1, pod), first, stride));
        }
    }
    for (switch, first, stride) in switches {
        for digit in 0..n {
            topology.connect(hosts[(first + digit * stride) as usize], switch, specs.hosts);
        }
    }
    topology.arrange();
    topology
}

/// The server whose digits are .., c, b, a has the address 10.(.., c).b.(a + 1), and no byte too small for it in any that is laid out.
fn position(n: u32, server: u32) -> [u8; 3] {
    let high = server / (n * n);
    debug_assert!(high < 256 && n < 255, "the network is larger than it may be");
    [high as u8, (server / n % n) as u8, (server % n + 1) as u8]
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{NodeKind, PortId};

    fn peers(topology: &Topology, name: &str) -> Vec<String> {
        let node = topology.node(name).expect(name);
        topology.peers(node).map(|peer| topology.nodes[peer].name.clone()).collect()
    }

    #[test]
    fn counts_follow_the_formulas() {
        for (n, k) in [(2, 0), (4, 0), (4, 1), (2, 3), (8, 1), (4, 3), (3, 6), (2, 9), (64, 1)] {
            let topology = bcube(n, k, &Specs::default());
            assert_eq!(size(n, k), (u64::from(topology.hosts), topology.switch_count() as u64), "BCube({n}, {k})");
            assert_eq!(topology.hosts, n.pow(k + 1));
            assert_eq!(topology.switch_count() as u32, (k + 1) * n.pow(k));
            assert_eq!(topology.links.len() as u32, (k + 1) * n.pow(k + 1));
            for (id, node) in topology.nodes.iter_enumerated() {
                let ports = if topology.is_host(id) { k + 1 } else { n };
                assert_eq!(node.ports.len() as u32, ports, "{}", node.name);
                assert_eq!(topology.forwards(id), k > 0 || !topology.is_host(id));
            }
            let mut addresses: Vec<_> = topology.hosts().map(|(id, _)| topology.address(id).unwrap().ipv4).collect();
            addresses.sort_unstable();
            addresses.dedup();
            assert_eq!(addresses.len() as u32, topology.hosts);
        }
    }

    #[test]
    fn ports_are_in_the_order_of_levels_and_digits() {
        // Figure 1 of the paper: BCube(4, 1).
        let topology = bcube(4, 1, &Specs::default());
        assert_eq!(peers(&topology, "h1"), ["s0.1", "s1.1"]);
        assert_eq!(peers(&topology, "h7"), ["s0.2", "s1.3"]);
        assert_eq!(peers(&topology, "s0.2"), ["h5", "h6", "h7", "h8"]);
        assert_eq!(peers(&topology, "s1.3"), ["h3", "h7", "h11", "h15"]);
        let deep = bcube(2, 2, &Specs::default());
        assert_eq!(peers(&deep, "s1.3"), ["h5", "h7"]);
        assert_eq!(peers(&deep, "h6"), ["s0.3", "s1.4", "s2.2"]);
    }

    #[test]
    fn addresses_show_the_digits() {
        let topology = bcube(4, 2, &Specs::default());
        let address = |name| match &topology.nodes[topology.node(name).unwrap()].kind {
            NodeKind::Host(address) => (address.ipv4.to_string(), address.pod),
            NodeKind::Switch { .. } => panic!("{name} is a host"),
        };
        assert_eq!(address("h1"), ("10.0.0.1".to_owned(), Some(0)));
        assert_eq!(address("h64"), ("10.3.3.4".to_owned(), Some(3)));
        assert_eq!(topology.nodes[NodeId(0)].ports[PortId(0)].1, topology::Side::A);
    }
}
