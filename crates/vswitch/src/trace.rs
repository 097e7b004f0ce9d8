//! Which nodes and links packets from one host to another take, by the same decisions that switches make for them.

use std::collections::BTreeMap;

use topology::{LinkId, NodeId, PortId, Routes, Side, Topology};

use crate::spread::FlowHash;
use crate::switch::Switch;

/// A node passes packets on by a port.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// How many links lie behind them when they have crossed this one: 1 at the sender.
    pub number: u32,
    /// Where they leave.
    pub from: NodeId,
    /// By which port; of a bond, that of its first member.
    pub port: PortId,
    /// The link; of a bond, those of its members that have a carrier, of which it chooses one for each packet.
    pub links: Vec<LinkId>,
    /// Where they come to.
    pub to: NodeId,
    /// How much of what was sent comes by here, 0 to 1, if each of several choices is made equally often.
    pub share: f64,
    /// Whether the link has a carrier. If not, they are lost here.
    pub carries: bool,
}

/// The paths of packets from one host to another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// What they may take: sender first, then node by node.
    pub hops: Vec<Hop>,
    /// How much of what was sent arrives, 0 to 1.
    pub arrives: f64,
    /// How many different paths there are that arrive.
    pub paths: u64,
    /// Nodes that have no way on, and how much of what was sent ends there.
    pub stuck: Vec<(NodeId, f64)>,
}

/// What has come to a node.
#[derive(Clone, Copy, Debug, Default)]
struct Come {
    share: f64,
    paths: u64,
}

/// Follows packets from the host `from` to the host `to`. `switch` gives the switch at a node, also that in a multi-homed host. With a hash they are
/// those of one flow; without it, of any.
///
/// # Panics
/// If `from` or `to` is no host of the topology, or the routes are another's.
pub fn trace<'a>(
    topology: &Topology,
    routes: &Routes,
    switch: impl Fn(NodeId) -> Option<&'a Switch>,
    (from, to): (NodeId, NodeId),
    (hash, carries): (Option<FlowHash>, impl Fn(LinkId) -> bool),
) -> Trace {
    let mut trace = Trace::default();
    let mut here = BTreeMap::from([(from, Come { share: 1.0, paths: 1 })]);
    // Shortest paths visit no node twice.
    for number in 1..=topology.nodes.len() as u32 {
        let mut next: BTreeMap<NodeId, Come> = BTreeMap::new();
        for (at, come) in here {
            if at == to {
                trace.arrives += come.share;
                trace.paths = trace.paths.saturating_add(come.paths);
                continue;
            }
            let ports = match switch(at) {
                Some(switch) => switch.choices(routes, to, hash),
                // A host with one port, or one bond, sends by that.
                None => &[PortId(0)],
            };
            if ports.is_empty() || (at != from && !topology.forwards(at)) {
                trace.stuck.push((at, come.share));
                continue;
            }
            let share = come.share / ports.len() as f64;
            for &port in ports {
                let hop = hop(topology, (number, at, port), share, &carries);
                if hop.carries {
                    let come_there = next.entry(hop.to).or_default();
                    come_there.share += share;
                    come_there.paths = come_there.paths.saturating_add(come.paths);
                }
                trace.hops.push(hop);
            }
        }
        here = next;
        if here.is_empty() {
            break;
        }
    }
    trace
}

/// Leaving a node by a port.
fn hop(
    topology: &Topology,
    (number, from, port): (u32, NodeId, PortId),
    share: f64,
    carries: impl Fn(LinkId) -> bool,
) -> Hop {
    let (link, side): (LinkId, Side) = topology.nodes[from].ports[port];
    let members: Vec<LinkId> = match topology.bond_at(from, port) {
        Some(end) => topology.bond_links(end).collect(),
        None => vec![link],
    };
    let up: Vec<LinkId> = members.iter().copied().filter(|link| carries(*link)).collect();
    let (links, carries) = if up.is_empty() { (members, false) } else { (up, true) };
    Hop { number, from, port, links, to: topology.links[link].end(side.other()).node, share, carries }
}

#[cfg(test)]
mod tests {
    use machine::mix;

    use super::*;
    use crate::spread::Spread;
    use crate::switch::Forwarding;
    use crate::testing::topology_of;

    /// Hosts 0 and 1 at the leaves 2 and 3, and both of those at the spines 4, 5 and 6.
    #[allow(clippy::default_trait_access, reason = "no machine knows another: what a link does has no name here")]
    fn leaf_spine() -> Topology {
        let mut topology = topology_of(2);
        for name in ["leaf1", "leaf2", "spine1", "spine2", "spine3"] {
            topology.add_switch(name.into(), 1, None);
        }
        for (a, b) in [(0, 2), (1, 3), (2, 4), (2, 5), (2, 6), (3, 4), (3, 5), (3, 6)] {
            topology.connect(NodeId(a), NodeId(b), Default::default());
        }
        topology
    }

    fn of(spread: Spread, down: &[u32], hash: Option<FlowHash>) -> Trace {
        let topology = leaf_spine();
        let carries = |link: LinkId| !down.contains(&link.0);
        let routes = Routes::around(&topology, carries);
        let switches: Vec<Switch> = topology.switches().map(|(id, _)| Switch::new(id, spread, &routes, 7)).collect();
        let switch = |id: NodeId| usize::from(id).checked_sub(2).and_then(|at| switches.get(at));
        trace(&topology, &routes, switch, (NodeId(0), NodeId(1)), (hash, carries))
    }

    fn nodes(trace: &Trace) -> Vec<u32> {
        trace.hops.iter().map(|hop| hop.to.0).collect()
    }

    #[test]
    fn a_single_path_is_one() {
        let trace = of(Spread::Single, &[], None);
        assert_eq!(nodes(&trace), [2, 4, 3, 1]);
        assert_eq!((trace.paths, trace.arrives), (1, 1.0));
        assert!(trace.hops.iter().all(|hop| (hop.share - 1.0).abs() < 1e-9 && hop.carries));
    }

    #[test]
    fn scattered_packets_take_all_equal_paths() {
        for spread in [Spread::PacketScatter, Spread::PacketScatterRandom, Spread::PacketScatterPerDestination] {
            let trace = of(spread, &[], Some(FlowHash(1)));
            assert_eq!(nodes(&trace), [2, 4, 5, 6, 3, 3, 3, 1]);
            assert_eq!(trace.paths, 3);
            assert!((trace.arrives - 1.0).abs() < 1e-9 && (trace.hops[1].share - 1.0 / 3.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_flow_takes_the_path_that_its_switches_choose() {
        let topology = leaf_spine();
        let routes = Routes::compute(&topology);
        let mut leaf = Switch::new(NodeId(2), Spread::Ecmp, &routes, 7);
        let mut seen = std::collections::BTreeSet::new();
        for flow in 0..64 {
            let hash = FlowHash(mix(flow));
            let trace = of(Spread::Ecmp, &[], Some(hash));
            let chosen = leaf.forward(&routes, Forwarding { to: NodeId(1), hash });
            assert_eq!(Some(trace.hops[1].port), chosen);
            assert_eq!((trace.hops.len(), trace.paths), (4, 1));
            seen.insert(trace.hops[1].to);
        }
        assert_eq!(seen.len(), 3);
        assert_eq!(of(Spread::Ecmp, &[], None).paths, 3, "which it is, is not known without the hash");
    }

    #[test]
    fn links_that_are_down_are_left_out_and_the_only_one_loses_all() {
        // To spine1, and from spine2 on.
        let trace = of(Spread::PacketScatter, &[2, 6], None);
        assert_eq!(nodes(&trace), [2, 6, 3, 1]);
        let trace = of(Spread::PacketScatter, &[0], None);
        assert_eq!((nodes(&trace), trace.hops[0].carries, trace.arrives, trace.paths), (vec![2], false, 0.0, 0));
        let trace = of(Spread::PacketScatter, &[1], None);
        assert_eq!((trace.stuck, trace.arrives), (vec![(NodeId(2), 1.0)], 0.0));
    }
}
