//! Packets that go by the paths that others before them have taken come to the same hosts, and are counted in the same places, as if they had gone from hop to
//! hop.

use std::collections::BTreeMap;
use std::sync::Arc;

use datapath::{Graph, Map, PortTable, Services, Steering, Tables};
use machine::{Rebase, Span, Time};
use proptest::prelude::*;
use topology::{LinkId, NetPort, NodeId, PortId, Rerouting, Routes, TiVec, Topology};
use vswitch::spread::FlowHash;
use vswitch::{Action, FLOOD, Forwarding, HostTable, PacketIn, Pipeline, Pipelines, Spread};

use super::{Division, Packet, Part, SWITCHES, left, mesh};

/// A ring beside the mesh's links, so that there are several equal paths: h0 and h1 have two switches between theirs.
fn topology(forwarding: bool) -> Topology {
    let mut topology = mesh(forwarding);
    let (a, b) = (NodeId(SWITCHES), NodeId(SWITCHES + 1));
    let parallel = topology.links_between(a, b).next().unwrap();
    topology.connect(a, b, topology.links[parallel].spec);
    topology
}

/// The whole network as one graph.
struct Network {
    topology: Topology,
    tables: Arc<Tables>,
    graph: Graph<Packet>,
    part: Part,
    down: Vec<LinkId>,
}

/// What has become of all packets.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Who has got what from whom, in order.
    heard: Vec<(NodeId, NodeId, u64)>,
    /// By port, how many have left.
    left: Vec<u64>,
    /// By switch and host, how many went there.
    forwarded: BTreeMap<(usize, NodeId), u64>,
    lost: usize,
    /// What has left by ports while they were observed, in order.
    observed: Vec<(NetPort, NodeId, u64)>,
}

/// What happens.
#[derive(Clone, Debug)]
enum Step {
    /// A host sends packets at once: to whom, with which hash; to everybody if there is no such host.
    Burst(u32, Vec<(u32, u64)>),
    /// A link loses its carrier, or has it back.
    Carrier(u32, bool),
    /// Routes follow.
    Reroute,
    /// Somebody asks what has been counted.
    AddUp,
    /// Somebody looks at what leaves by these ports, and by no others.
    Observe(Vec<u32>),
}

impl Network {
    fn new(spread: Spread, forwarding: bool) -> Self {
        Self::with(spread, forwarding, Pipelines::default())
    }

    fn with(spread: Spread, forwarding: bool, pipelines: Pipelines) -> Self {
        let topology = topology(forwarding);
        let tables = Arc::new(Tables {
            map: Map::new(&topology),
            host_table: HostTable::new(&topology, &[]),
            bonds: TiVec::new(),
            rerouting: Rerouting::Follow,
            pipelines,
            steering: Steering::default(),
            services: Services::default(),
            ports: PortTable::default(),
        });
        let routes = Arc::new(Routes::compute(&topology));
        let graph = Graph::new(Time::ZERO, &topology, &tables, routes, (spread, 1.into()));
        let part = Part::new(0, Division::Hosts, &tables);
        Self { topology, tables, graph, part, down: Vec::new() }
    }

    fn step(&mut self, step: &Step, at_once: bool) {
        let moment = self.tables.at(Time::ZERO);
        match step {
            Step::Burst(from, packets) => {
                let port = self.tables.map.port(NodeId(*from), PortId(0));
                let packets = packets.iter().map(|&(to, hash)| {
                    let to = if to < SWITCHES { NodeId(to) } else { FLOOD };
                    Packet { from: NodeId(*from), forwarding: Forwarding { to, hash: FlowHash(hash) } }
                });
                if at_once {
                    self.graph.depart_burst(moment, &mut self.part, port, &mut packets.collect());
                } else {
                    packets.for_each(|packet| self.graph.depart(moment, &mut self.part, port, packet));
                }
            }
            Step::Carrier(link, up) => {
                let link = LinkId(*link);
                self.graph.set_carrier(moment, &mut self.part, link, *up);
                self.down.retain(|other| *other != link);
                self.down.extend((!up).then_some(link));
                self.down.sort_unstable();
            }
            Step::Reroute => self.graph.reroute(Arc::new(Routes::without(&self.topology, &self.down))),
            Step::AddUp => self.graph.add_up_paths(&self.tables, &mut self.part),
            Step::Observe(ports) => self.graph.observe(ports.iter().map(|port| NetPort(*port))),
        }
    }

    fn outcome(mut self) -> Outcome {
        self.graph.add_up_paths(&self.tables, &mut self.part);
        let heard = self.part.heard.iter().map(|(at, packet)| (*at, packet.from, packet.forwarding.hash.0));
        let (heard, left) = (heard.collect(), left(&self.graph));
        let Part { forwarded, lost, observed, .. } = self.part;
        Outcome { heard, left, forwarded, lost: lost.len(), observed }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few hashes, so that paths are found again.
    let burst = (0..SWITCHES, proptest::collection::vec((0..SWITCHES + 1, 0_u64..6), 1..20));
    let step = prop_oneof![
        6 => burst.prop_map(|(from, packets)| Step::Burst(from, packets)),
        1 => (0_u32..16, any::<bool>()).prop_map(|(link, up)| Step::Carrier(link, up)),
        1 => Just(Step::Reroute),
        1 => Just(Step::AddUp),
        1 => proptest::collection::vec(0_u32..20, 0..4).prop_map(Step::Observe),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn a_burst_is_what_its_packets_are(
        steps in steps(),
        spread in proptest::sample::select(Spread::ALL),
        forwarding in any::<bool>(),
    ) {
        let outcome = |at_once| {
            let mut network = Network::new(spread, forwarding);
            for step in &steps {
                network.step(step, at_once);
            }
            network.outcome()
        };
        prop_assert_eq!(outcome(true), outcome(false));
    }
}

/// A switch that does something else with what its host sends to each host: nothing, or sends it by one port or by several. Some switches leave all alone.
#[derive(Debug)]
struct Sorter(u32);

impl Rebase for Sorter {
    fn rebase(&mut self, _: Span) {
        let Self(_) = self;
    }
}

impl Pipeline for Sorter {
    fn process(&mut self, _: Time, packet: &PacketIn<'_>, actions: &mut Vec<Action>) -> Result<(), wire::Error> {
        let to = packet.key()?.eth_dst[5];
        let [host, trunk, other] = [0, 1, 2].map(|port| Action::Output(PortId(port)));
        // What comes from other switches would go round in a circle.
        match (u32::from(to) + self.0) % 7 {
            _ if packet.in_port != PortId(0) => actions.push(Action::Normal),
            0 => {}
            1 => actions.push(host),
            2 => actions.push(trunk),
            3 => actions.extend([trunk, host]),
            4 => actions.extend([trunk, Action::Normal]),
            5 => actions.push(other),
            _ => actions.push(Action::Normal),
        }
        Ok(())
    }
}

proptest! {
    /// The same where switches have pipelines: what those send by one port leaves together. Hosts that forward would send some of it back, in a circle.
    #[test]
    fn a_burst_to_a_pipeline_is_what_its_packets_are(
        steps in steps(),
        spread in proptest::sample::select(Spread::ALL),
        without in 0..2 * SWITCHES,
    ) {
        let outcome = |at_once| {
            let made = move |_: &Topology, switch: NodeId| -> Option<Box<dyn Pipeline>> {
                (switch.0 != SWITCHES + without).then(|| Box::new(Sorter(switch.0)) as Box<dyn Pipeline>)
            };
            let mut network = Network::with(spread, false, Pipelines::new(made));
            for step in &steps {
                network.step(step, at_once);
            }
            network.outcome()
        };
        prop_assert_eq!(outcome(true), outcome(false));
    }
}

proptest! {
    /// Whoever looks sees all, and changes nothing.
    #[test]
    fn what_leaves_by_an_observed_port_is_shown(
        steps in steps(),
        spread in proptest::sample::select(Spread::ALL),
        forwarding in any::<bool>(),
        ports in proptest::collection::btree_set(0_u32..20, 1..20),
    ) {
        let outcome = |observed: Vec<u32>| {
            let mut network = Network::new(spread, forwarding);
            network.step(&Step::Observe(observed), true);
            for step in steps.iter().filter(|step| !matches!(step, Step::Observe(_))) {
                network.step(step, true);
            }
            network.outcome()
        };
        let (seen, unseen) = (outcome(ports.iter().copied().collect()), outcome(Vec::new()));
        for (port, left) in seen.left.iter().enumerate() {
            let shown = seen.observed.iter().filter(|(shown, ..)| usize::from(*shown) == port).count() as u64;
            prop_assert_eq!(shown, if ports.contains(&(port as u32)) { *left } else { 0 });
        }
        prop_assert!(unseen.observed.is_empty());
        prop_assert_eq!(Outcome { observed: Vec::new(), ..seen }, unseen);
    }
}

/// The ports that a packet from h0 to h1 leaves by are asked of no table again, as long as nothing changes.
#[test]
fn what_follows_a_packet_does_not_ask_its_way() {
    let mut network = Network::new(Spread::Ecmp, false);
    let burst = |hashes: &[u64]| Step::Burst(0, hashes.iter().map(|hash| (1, *hash)).collect());
    network.step(&burst(&[7, 7, 7]), true);
    // The first one was counted at each hop, the others at the path.
    assert_eq!(left(&network.graph).iter().sum::<u64>(), 3);
    network.step(&Step::AddUp, true);
    assert_eq!(left(&network.graph).iter().sum::<u64>(), 9);
    // A cut forgets it: what follows is lost where it is cut, and counted there.
    let host_link: LinkId = network.topology.nodes[NodeId(1)].ports[PortId(0)].0;
    network.step(&Step::Carrier(host_link.0, false), true);
    network.step(&burst(&[7]), true);
    assert_eq!(network.part.heard.len(), 3);
}

/// Who sends each packet with another hash, by more of them than there are places, finds the same hosts.
#[test]
fn more_flows_than_places_are_counted_right() {
    let mut network = Network::new(Spread::Ecmp, false);
    for round in 0..3_u64 {
        for block in 0..400 {
            let flows = (0..64).map(|flow| (1, machine::mix(round % 2 * 1_000_000 + block * 64 + flow)));
            network.step(&Step::Burst(0, flows.collect()), true);
        }
    }
    let port: NetPort = network.tables.map.port(NodeId(0), PortId(0));
    let Outcome { heard, left, forwarded, lost, .. } = network.outcome();
    assert_eq!((heard.len(), lost, left[port.0 as usize]), (3 * 400 * 64, 0, 3 * 400 * 64));
    assert_eq!(forwarded.values().sum::<u64>(), 2 * 3 * 400 * 64);
}
