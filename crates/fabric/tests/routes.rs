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

/// Distances of all nodes to the host `to`, by relaxing every link that carries until nothing changes, through nodes that forward.
fn distances(fabric: &Fabric, carries: impl Fn(LinkId) -> bool, to: NodeId) -> Vec<Option<u32>> {
    let mut distance = vec![None; fabric.topology.nodes.len()];
    distance[to.0 as usize] = Some(0);
    loop {
        let mut changed = false;
        for (_, link) in fabric.topology.links.iter_enumerated().filter(|(id, _)| carries(*id)) {
            for (near, far) in [(link.a.node, link.b.node), (link.b.node, link.a.node)] {
                let forwards = near == to || fabric.topology.forwards(near);
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
            let forwards = |node: NodeId| node == to || fabric.topology.forwards(node);
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
    for at in fabric.topology.switches().map(|(id, _)| id).chain(fabric.topology.multi_homed()) {
        let mut sets = vec![None; routes.groups(at) as usize];
        for (to, _) in fabric.topology.hosts().filter(|(to, _)| *to != at) {
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
    let multi_homed: BTreeSet<NodeId> = topology.multi_homed().collect();
    for (from, _) in topology.hosts() {
        let mut heard: Vec<u32> = vec![0; topology.hosts as usize];
        let mut open = vec![(from, None)];
        let mut passed = 0;
        while let Some((at, came_by)) = open.pop() {
            if let Some(port) = came_by.filter(|_| topology.is_host(at)) {
                heard[usize::from(at)] += u32::from(routes.takes_flooded(at, port, from));
                if !topology.forwards(at) {
                    continue;
                }
            }
            let has_tree = !topology.is_host(at) || multi_homed.contains(&at);
            let out = if has_tree { routes.tree(at) } else { &[PortId(0)] };
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

/// A connected graph: a tree of switches, more links between them (also parallel ones), and hosts anywhere, some of them at several switches, and some
/// of those forwarding.
fn networks() -> impl Strategy<Value = String> {
    let switches = 1_usize..12;
    switches.prop_flat_map(|n| {
        let tree = prop::collection::vec(any::<prop::sample::Index>(), n - 1);
        let more = prop::collection::vec((0..n, 0..n), 0..2 * n);
        let hosts = prop::collection::vec((prop::collection::vec(0..n, 1..4), any::<bool>()), 1..10);
        (tree, more, hosts).prop_map(move |(tree, more, hosts)| {
            let nodes: String = (0..n).map(|i| format!("  s{i}: switch\n")).collect();
            let host = |(i, (links, forward)): (usize, &(Vec<usize>, bool))| match (links.len(), forward) {
                (1, _) | (_, false) => format!("  h{i}: host\n"),
                (_, true) => format!("  h{i}: {{ kind: host, forward: true }}\n"),
            };
            let host_nodes: String = hosts.iter().enumerate().map(host).collect();
            let link = |a: &str, i: usize, b: usize| format!("  - between: [{a}{i}, s{b}]\n");
            let tree: String = tree.iter().enumerate().map(|(i, up)| link("s", i + 1, up.index(i + 1))).collect();
            let more: String = more.iter().filter(|(a, b)| a != b).map(|&(a, b)| link("s", a, b)).collect();
            let of_host = |(i, (links, _)): (usize, &(Vec<usize>, bool))| -> String {
                links.iter().map(|&switch| link("h", i, switch)).collect()
            };
            let hosts: String = hosts.iter().enumerate().map(of_host).collect();
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
    check(&read("topology: { bcube: { n: 3, k: 1 } }"));
    check_tree(&read("topology: { bcube: { n: 2, k: 2 } }"), |_| true);
}

/// Two planes that nothing joins: each host is at both, or the third at one alone.
#[test]
fn hosts_in_several_planes_hear_each_other_once() {
    let links = |hosts: &[&str]| -> String { hosts.iter().map(|ends| format!("  - between: [{ends}]\n")).collect() };
    let planes = links(&["h1, a", "h1, b", "h2, a", "h2, b", "h3, b"]);
    let fabric = read(&format!("nodes: {{ h1: host, h2: host, h3: host, a: switch, b: switch }}\nlinks:\n{planes}"));
    check(&fabric);
    check_tree(&fabric, |_| true);
    check_tree(&fabric, |link| link != LinkId(1));
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

#[test]
fn a_bcube_has_as_many_paths_as_there_are_orders_of_the_digits_that_differ() {
    for (n, k) in [(4_u32, 1), (2, 3), (3, 2)] {
        let fabric = read(&format!("topology: {{ bcube: {{ n: {n}, k: {k} }} }}"));
        let routes = Routes::compute(&fabric.topology);
        for (x, y) in (0..fabric.topology.hosts).flat_map(|x| [(0, x), (x, 1), (x, fabric.topology.hosts - 1)]) {
            let digit = |server: u32, level: u32| server / n.pow(level) % n;
            let differ: Vec<u32> = (0..=k).filter(|level| digit(x, *level) != digit(y, *level)).collect();
            let orders: usize = (1..=differ.len()).product();
            assert_eq!(paths(&fabric, &routes, NodeId(x), NodeId(y)), orders, "h{} to h{}", x + 1, y + 1);
            // Each of these digits may be mended first: port l leads to level l.
            let first: Vec<u32> = routes.next_hops(NodeId(x), NodeId(y)).iter().map(|port| port.0.into()).collect();
            assert_eq!(first, differ);
        }
    }
}
