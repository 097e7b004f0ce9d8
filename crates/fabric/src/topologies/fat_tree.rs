//! Fat-tree(k) (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008).
//!
//! Hosts are numbered by pod, edge switch and position, so that stride(1) is the neighbour. Port order: an edge switch
//! has its hosts first, then the aggregation switches of its pod; an aggregation switch its edge switches, then its
//! core switches; port i of a core switch goes to pod i. Aggregation switch j of each pod takes the core switches from
//! j * k/2 on.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use topology::{NodeId, Topology};

use super::{Rule, Specs};
use crate::error::Problems;
use crate::graph;
use crate::quantity::whole_number;
use crate::read::{Fields, Read, section};
use crate::source::At;
use crate::tree::Node;

section! {
    /// A fat-tree (Al-Fares, Loukissas and Vahdat, 2008).
    FatTreeText {
        /// Ports of each switch: even.
        "k" => k: At<Arity>,
    }
}

impl Rule for FatTreeText {
    fn lay_out(&self, specs: &Specs, _: &mut Problems<'_>) -> Option<Topology> {
        Some(fat_tree(self.k.value.0, specs))
    }
}

/// The k of a fat-tree: even, 2 to 64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arity(u32);

impl Arity {
    const MAX: u64 = 64;
}

impl Read for Arity {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let k = whole_number(node, (2, Self::MAX), problems)?;
        let label = match k {
            0 | 1 => "too small",
            _ if k > Self::MAX => "too large",
            _ if !k.is_multiple_of(2) => "odd",
            _ => return Some(Self(k as u32)),
        };
        problems.add(
            node.place,
            format!("a fat-tree's k is an even number from 2 to {}, not {k}", Self::MAX),
            label,
            match label {
                "odd" => format!("half of a switch's ports go up, half go down: {} or {} would do", k - 1, k + 1),
                _ => "k = 4 has 16 hosts, k = 8 has 128, k = 48 has 27,648".to_owned(),
            },
        );
        None
    }
}

impl JsonSchema for Arity {
    fn schema_name() -> Cow<'static, str> {
        "Arity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 2, "maximum": Self::MAX, "multipleOf": 2 })
    }
}

/// Lays out a fat-tree of even `k`, 2 to 64.
fn fat_tree(k: u32, specs: &Specs) -> Topology {
    let half = k / 2;
    let mut topology = Topology::default();
    let hosts = hosts(&mut topology, k);
    let edges: Vec<NodeId> =
        (0..k * half).map(|i| topology.add_switch(format!("e{}", i + 1), 1, Some(i / half))).collect();
    let aggregations: Vec<NodeId> =
        (0..k * half).map(|i| topology.add_switch(format!("a{}", i + 1), 2, Some(i / half))).collect();
    let cores: Vec<NodeId> = (0..half * half).map(|i| topology.add_switch(format!("c{}", i + 1), 3, None)).collect();

    for (i, &host) in hosts.iter().enumerate() {
        topology.connect(host, edges[i / half as usize], specs.hosts);
    }
    for pod in 0..k {
        let in_pod = (pod * half) as usize..((pod + 1) * half) as usize;
        for &edge in &edges[in_pod.clone()] {
            for &aggregation in &aggregations[in_pod.clone()] {
                topology.connect(edge, aggregation, specs.switches);
            }
        }
        for (j, &aggregation) in aggregations[in_pod].iter().enumerate() {
            for &core in &cores[j * half as usize..(j + 1) * half as usize] {
                topology.connect(aggregation, core, specs.switches);
            }
        }
    }
    topology.arrange();
    topology
}

/// Host h of edge switch e in pod p has the address 10.p.e.(h + 2), as in the paper.
fn hosts(topology: &mut Topology, k: u32) -> Vec<NodeId> {
    let half = k / 2;
    (0..k * half * half)
        .map(|i| {
            let (pod, edge, position) = (i / (half * half), i / half % half, i % half);
            graph::host(topology, format!("h{}", i + 1), [pod as u8, edge as u8, position as u8 + 2], Some(pod))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{NodeKind, PortId, Side};

    fn peer<'a>(topology: &'a Topology, name: &str, port: u16) -> &'a str {
        let node = topology.nodes.iter().find(|n| n.name == name).expect(name);
        let (link, side) = node.ports[PortId(port)];
        let end = topology.links[link].end(side.other());
        assert_eq!(topology.nodes[end.node].ports[end.port], (link, side.other()));
        &topology.nodes[end.node].name
    }

    #[test]
    fn counts_follow_the_formulas() {
        for k in [2_u32, 4, 6, 16, 48, 64] {
            let topology = fat_tree(k, &Specs::default());
            assert_eq!(topology.hosts, k * k * k / 4);
            assert_eq!(topology.switch_count() as u32, 5 * k * k / 4);
            assert_eq!(topology.links.len() as u32, 3 * k * k * k / 4);
            for node in &topology.nodes {
                let ports = if matches!(node.kind, NodeKind::Host(_)) { 1 } else { k as usize };
                assert_eq!(node.ports.len(), ports, "{}", node.name);
            }
        }
    }

    #[test]
    fn ports_are_in_the_order_that_is_documented() {
        let topology = fat_tree(4, &Specs::default());
        assert_eq!((0..4).map(|p| peer(&topology, "e3", p)).collect::<Vec<_>>(), ["h5", "h6", "a3", "a4"]);
        assert_eq!((0..4).map(|p| peer(&topology, "a4", p)).collect::<Vec<_>>(), ["e3", "e4", "c3", "c4"]);
        assert_eq!((0..4).map(|p| peer(&topology, "c3", p)).collect::<Vec<_>>(), ["a2", "a4", "a6", "a8"]);
        assert_eq!(topology.nodes[NodeId(0)].ports[PortId(0)].1, Side::A);
    }

    #[test]
    fn addresses_show_the_position() {
        let topology = fat_tree(4, &Specs::default());
        let NodeKind::Host(h16) = &topology.nodes[NodeId(15)].kind else { panic!("h16 is a host") };
        assert_eq!(h16.ipv4.to_string(), "10.3.1.3");
        assert_eq!(h16.ipv6.to_string(), "fd68:6564:646c::3:1:3");
        assert_eq!(h16.mac, [2, 0, 10, 3, 1, 3]);
    }
}
