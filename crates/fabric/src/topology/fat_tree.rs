//! Fat-tree(k) (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008).
//!
//! Hosts are numbered by pod, edge switch and position, so that stride(1) is the neighbour. Port order: an edge switch
//! has its hosts first, then the aggregation switches of its pod; an aggregation switch its edge switches, then its
//! core switches; port i of a core switch goes to pod i. Aggregation switch j of each pod takes the core switches from
//! j * k/2 on.

use super::Specs;
use crate::NodeId;
use crate::graph::Graph;

/// Lays out a fat-tree of even `k`, 2 to 64.
pub(crate) fn fat_tree(k: u32, specs: Specs) -> Graph {
    let half = k / 2;
    let mut graph = Graph::default();
    let hosts = hosts(&mut graph, k);
    let edges: Vec<NodeId> = (0..k * half).map(|i| graph.switch(format!("e{}", i + 1), 1, Some(i / half))).collect();
    let aggregations: Vec<NodeId> =
        (0..k * half).map(|i| graph.switch(format!("a{}", i + 1), 2, Some(i / half))).collect();
    let cores: Vec<NodeId> = (0..half * half).map(|i| graph.switch(format!("c{}", i + 1), 3, None)).collect();

    for (i, &host) in hosts.iter().enumerate() {
        graph.connect(host, edges[i / half as usize], specs.hosts);
    }
    for pod in 0..k {
        let in_pod = (pod * half) as usize..((pod + 1) * half) as usize;
        for &edge in &edges[in_pod.clone()] {
            for &aggregation in &aggregations[in_pod.clone()] {
                graph.connect(edge, aggregation, specs.switches);
            }
        }
        for (j, &aggregation) in aggregations[in_pod].iter().enumerate() {
            for &core in &cores[j * half as usize..(j + 1) * half as usize] {
                graph.connect(aggregation, core, specs.switches);
            }
        }
    }
    graph.arrange();
    graph
}

/// Host h of edge switch e in pod p has the address 10.p.e.(h + 2), as in the paper.
fn hosts(graph: &mut Graph, k: u32) -> Vec<NodeId> {
    let half = k / 2;
    (0..k * half * half)
        .map(|i| {
            let (pod, edge, position) = (i / (half * half), i / half % half, i % half);
            graph.host(format!("h{}", i + 1), [pod as u8, edge as u8, position as u8 + 2], Some(pod))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeKind, Side};

    fn peer<'a>(graph: &'a Graph, name: &str, port: usize) -> &'a str {
        let node = graph.nodes.iter().find(|n| n.name == name).expect(name);
        let (link, side) = node.ports[port];
        let end = graph.links[link.0 as usize].end(side.other());
        assert_eq!(graph.nodes[end.node.0 as usize].ports[end.port.0 as usize], (link, side.other()));
        &graph.nodes[end.node.0 as usize].name
    }

    #[test]
    fn counts_follow_the_formulas() {
        for k in [2_u32, 4, 6, 16, 48, 64] {
            let graph = fat_tree(k, Specs::default());
            assert_eq!(graph.hosts, k * k * k / 4);
            assert_eq!(graph.nodes.len() as u32 - graph.hosts, 5 * k * k / 4);
            assert_eq!(graph.links.len() as u32, 3 * k * k * k / 4);
            for node in &graph.nodes {
                let ports = if matches!(node.kind, NodeKind::Host(_)) { 1 } else { k as usize };
                assert_eq!(node.ports.len(), ports, "{}", node.name);
            }
        }
    }

    #[test]
    fn ports_are_in_the_order_that_is_documented() {
        let graph = fat_tree(4, Specs::default());
        assert_eq!((0..4).map(|p| peer(&graph, "e3", p)).collect::<Vec<_>>(), ["h5", "h6", "a3", "a4"]);
        assert_eq!((0..4).map(|p| peer(&graph, "a4", p)).collect::<Vec<_>>(), ["e3", "e4", "c3", "c4"]);
        assert_eq!((0..4).map(|p| peer(&graph, "c3", p)).collect::<Vec<_>>(), ["a2", "a4", "a6", "a8"]);
        assert_eq!(graph.nodes[0].ports[0].1, Side::A);
    }

    #[test]
    fn addresses_tell_the_position() {
        let graph = fat_tree(4, Specs::default());
        let NodeKind::Host(h16) = &graph.nodes[15].kind else { panic!("h16 is a host") };
        assert_eq!(h16.ipv4.to_string(), "10.3.1.3");
        assert_eq!(h16.ipv6.to_string(), "fd68:6564:646c::3:1:3");
        assert_eq!(h16.mac, [2, 0, 10, 3, 1, 3]);
    }
}
