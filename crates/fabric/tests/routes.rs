//! Next hops against a reference that is slow and plain, and path counts of known topologies.
#![allow(clippy::format_collect, clippy::format_push_string, reason = "texts of tests are short")]

use std::collections::BTreeSet;

use fabric::{Fabric, Source, parse};
use proptest::prelude::*;
use topology::{LinkId, NodeId, PortId, Routes};

fn read(text: &str) -> Fabric {
    parse(&Source { name: "net".to_owned(), text: text.to_owned() })
        .unwrap_or_else(|e| panic!("{:?}", miette::Report::new(e)))
}

fn peer(fabric: &Fabric, at: NodeId, port: PortId) -> NodeId {
    let (link, side) = fabric.topology.nodes[at].ports[port];
    fabric.topology.links[link].end(side.other()).node
}

/// Distances of all nodes to the host `to`, by relaxing every link that carries until nothing changes. Hosts don't forward.
fn distances(fabric: &Fabric, carries: impl Fn(LinkId) -> bool, to: NodeId) -> Vec<Option<u32>> {
    let mut distance = vec![None; fabric.topology.nodes.len()];
    distance[to.0 as usize] = Some(0);
    loop {
        let mut changed = false;
        for (_, link) in fabric.topology.links.iter_enumerated().filter(|(id, _)| carries(*id)) {
            for (near, far) in [(link.a.node, link.b.node), (link.b.node, link.a.node)] {
                let forwards = near == to || near.0 >= fabric.topology.hosts;
                let Some(d) = distance[near.0 as usize].filter(|_| forwards) else { continue };
                let old: Option<u32> = distance[far.0 as usize];
                if old.is_none_or(|old| d + 1 < old) {
                    distance[far.0 as usize] = Some(d + 1);
                    changed = true;
                }
            }
        }
        if !changed {
            return distance;
        }
    }
}

/// Every next hop is one closer, and every port that leads one closer is a next hop; groups number the sets.
fn check(fabric: &Fabric) {
    check_around(fabric, |_| true);
}

/// The same over the links that carry.
fn check_around(fabric: &Fabric, carries: impl Fn(LinkId) -> bool) {
    let routes = Routes::around(&fabric.topology, &carries);
    for (to, _) in fabric.topology.hosts() {
        let distance = distances(fabric, &carries, to);
        for at in (0..fabric.topology.nodes.len() as u32).map(NodeId) {
            let here = distance[at.0 as usize];
            let forwards = |node: NodeId| node == to || node.0 >= fabric.topology.hosts;
            let expected: Vec<PortId> = (0..fabric.topology.nodes[at].ports.len() as u16)
                .map(PortId)
                .filter(|&port| {
                    let next = peer(fabric, at, port);
                    let (link, _) = fabric.topology.nodes[at].ports[port];
                    carries(link) && forwards(next) && distance[next.0 as usize].is_some_and(|d| Some(d + 1) == here)
                })
                .collect();
            assert_eq!(
                routes.next_hops(at, to),
                expected,
                "{} to {}",
                fabric.topology.nodes[at].name,
                fabric.topology.nodes[to].name
            );
            assert!(at == to || routes.group(at, to) < routes.groups(at));
        }
    }
    for (at, _) in fabric.topology.switches() {
        let mut sets = vec![None; routes.groups(at) as usize];
        for (to, _) in fabric.topology.hosts() {
            let hops = routes.next_hops(at, to);
            let known = sets[routes.group(at, to) as usize].get_or_insert(hops);
            assert_eq!(*known, hops, "one number, two sets");
        }
    }
}

/// What each host says to everybody comes to each host that it can reach exactly once.
fn check_tree(fabric: &Fabric, carries: impl Fn(LinkId) -> bool) {
    let topology = &fabric.topology;
    let routes = Routes::around(topology, &carries);
    for (from, _) in topology.hosts() {
        let mut heard: Vec<u32> = vec![0; topology.hosts as usize];
        let mut open = vec![(from, None)];
        let mut passed = 0;
        while let Some((at, came_by)) = open.pop() {
            let out = match came_by {
                Some(_) if topology.is_host(at) => {
                    heard[usize::from(at)] += 1;
                    continue;
                }
                Some(_) => routes.tree(at),
                None => &[PortId(0)],
            };
            for port in out.iter().filter(|port| Some(**port) != came_by) {
                let (link, side) = topology.nodes[at].ports[*port];
                let far = topology.links[link].end(side.other());
                if carries(link) {
                    open.push((far.node, Some(far.port)));
                }
            }
            passed += 1;
            assert!(passed <= topology.nodes.len(), "it goes round");
        }
        let reached = topology.reached(from, &carries);
        let expected: Vec<u32> = topology.hosts().map(|(host, _)| u32::from(host != from && reached[host])).collect();
        assert_eq!(heard, expected, "from {}", topology.nodes[from].name);
    }
}

/// How many paths lead from `at` to `to`.
fn paths(fabric: &Fabric, routes: &Routes, at: NodeId, to: NodeId) -> usize {
    if at == to {
        return 1;
    }
    routes.next_hops(at, to).iter().map(|&port| paths(fabric, routes, peer(fabric, at, port), to)).sum()
}

/// A connected graph: a tree of switches, more links between them (also parallel ones), and hosts anywhere.
fn networks() -> impl Strategy<Value = String> {
    let switches = 1_usize..12;
    switches.prop_flat_map(|n| {
        let tree = prop::collection::vec(any::<prop::sample::Index>(), n - 1);
        let more = prop::collection::vec((0..n, 0..n), 0..2 * n);
        let hosts = prop::collection::vec(0..n, 1..10);
        (tree, more, hosts).prop_map(move |(tree, more, hosts)| {
            let nodes: String = (0..n).map(|i| format!("  s{i}: switch\n")).collect();
            let host_nodes: String = (0..hosts.len()).map(|i| format!("  h{i}: host\n")).collect();
            let link = |a: &str, i: usize, b: usize| format!("  - between: [{a}{i}, s{b}]\n");
            let tree: String = tree.iter().enumerate().map(|(i, up)| link("s", i + 1, up.index(i + 1))).collect();
            let more: String = more.iter().filter(|(a, b)| a != b).map(|&(a, b)| link("s", a, b)).collect();
            let hosts: String = hosts.iter().enumerate().map(|(i, &s)| link("h", i, s)).collect();
            format!("nodes:\n{nodes}{host_nodes}links:\n{more}{hosts}{tree}")
        })
    })
}

proptest! {
    #[test]
    fn next_hops_are_all_the_shortest(text in networks()) {
        check(&read(&text));
    }

    #[test]
    fn next_hops_are_all_the_shortest_around_links_that_are_down(
        text in networks(), down in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
    ) {
        let fabric = read(&text);
        let down: BTreeSet<usize> = down.iter().map(|index| index.index(fabric.topology.links.len())).collect();
        check_around(&fabric, |link| !down.contains(&link.into()));
        check_tree(&fabric, |link| !down.contains(&link.into()));
    }

    #[test]
    fn what_is_for_everybody_comes_once(text in networks()) {
        check_tree(&read(&text), |_| true);
    }
}

#[test]
fn topologies_agree_with_the_reference() {
    check(&read("topology: { fat-tree: { k: 2 } }"));
    check(&read("topology: { fat-tree: { k: 4 } }"));
    check(&read("topology: { leaf-spine: { leaves: 3, spines: 4, hosts-per-leaf: 2 } }"));
}

#[test]
fn two_hosts_on_one_link() {
    let fabric = read("nodes: { a: host, b: host }\nlinks: [ { between: [a, b] } ]\n");
    check(&fabric);
    let routes = Routes::compute(&fabric.topology);
    assert_eq!(routes.next_hops(NodeId(0), NodeId(1)), [PortId(0)]);
    assert!(routes.next_hops(NodeId(0), NodeId(0)).is_empty());
}

#[test]
fn a_fat_tree_has_1_or_half_k_or_half_k_squared_paths() {
    for k in [4_u32, 6, 8] {
        let fabric = read(&format!("topology: {{ fat-tree: {{ k: {k} }} }}"));
        let routes = Routes::compute(&fabric.topology);
        let half = k / 2;
        for x in 0..fabric.topology.hosts {
            let count = |y: u32| paths(&fabric, &routes, NodeId(x), NodeId(y));
            let edge = x / half * half;
            assert_eq!(count(edge + (x - edge + 1) % half), 1);
            let pod = x / (half * half) * half * half;
            assert_eq!(count(pod + (x - pod + half) % (half * half)), half as usize);
            assert_eq!(count((x + half * half) % fabric.topology.hosts), (half * half) as usize);
        }
        let first: BTreeSet<_> =
            routes.next_hops(NodeId(fabric.topology.hosts), NodeId(fabric.topology.hosts - 1)).iter().collect();
        assert_eq!(first.len(), half as usize);
    }
}
