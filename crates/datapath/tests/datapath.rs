//! A network in as many parts as it has switches, which go over to other routes one after the other: what is flooded comes to each host once at most,
//! whatever is dealt out to the parts, and also where hosts forward.

mod bonds;
mod changeover;
mod paths;

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use bond::end::Received;
use bond::{Config, End, MemberId, Summary, Transmit};
use datapath::{Driver, Graph, Loss, Map, Owner, PortTable, Services, Steering, Tables, Tag, Timer};
use link::LinkSpec;
use machine::Time;
use proptest::prelude::*;
use topology::{HostAddress, LinkId, NetPort, NodeId, PortId, Rerouting, Routes, TiVec, Topology};
use vswitch::spread::FlowHash;
use vswitch::{FLOOD, Field, Forwarding, HostTable, Pipelines, Spread};

const SWITCHES: u32 = 5;

/// A packet: who sent it, and where it goes.
#[derive(Clone, Debug)]
struct Packet {
    from: NodeId,
    forwarding: Forwarding,
}

/// What belongs to one part only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Division {
    /// A node, with its wires: what comes to it is taken there.
    Nodes,
    /// The wires that leave a node: what comes to it is taken by whoever has it, and leaves there.
    Wires,
    /// The wire that leaves a host: each part has all others.
    Hosts,
}

const DIVISIONS: [Division; 3] = [Division::Nodes, Division::Wires, Division::Hosts];

/// What a part sends to another one.
#[derive(Clone, Debug)]
enum Sent {
    /// It comes to a node there.
    In(NetPort, Packet),
    /// It leaves a node there.
    Out(NetPort, Packet),
}

/// One part's side: what it sends to other parts, and what has come to its hosts.
#[derive(Debug)]
struct Part {
    own: usize,
    division: Division,
    tables: Arc<Tables>,
    out: Vec<Sent>,
    heard: Vec<(NodeId, Packet)>,
    /// What has left by ports that are observed: from whom, with which hash.
    observed: Vec<(NetPort, NodeId, u64)>,
    lost: Vec<Loss>,
    /// By switch and destination.
    forwarded: BTreeMap<(usize, NodeId), u64>,
}

impl Part {
    fn new(own: usize, division: Division, tables: &Arc<Tables>) -> Self {
        let forwarded = BTreeMap::new();
        let tables = Arc::clone(tables);
        Self { own, division, tables, out: vec![], heard: vec![], observed: vec![], lost: vec![], forwarded }
    }

    fn owner(tables: &Tables, node: NodeId) -> usize {
        // A host belongs to the part of its switch, which has the same number.
        tables.map.switch(node).unwrap_or(node.0 as usize)
    }
}

/// What pipelines see of a packet: its destination's number, by that; behind those, of one for everybody.
const FRAMES: [[u8; 14]; SWITCHES as usize + 1] = {
    let mut frames = [[2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 9, 0x88, 0xb5]; SWITCHES as usize + 1];
    let mut number = 0;
    while number < SWITCHES as usize {
        frames[number][5] = number as u8;
        number += 1;
    }
    frames[number] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 0x88, 0xb5];
    frames
};

/// A network without bonds asks for nothing that concerns them.
impl Driver for Part {
    type Packet = Packet;

    const AT_ONCE_MAX: u32 = 1 << 20;

    fn bytes(&self, _: &Packet) -> u32 {
        60
    }

    fn forwarding(&self, packet: &Packet) -> Forwarding {
        packet.forwarding
    }

    fn set_forwarding(&mut self, packet: &mut Packet, forwarding: Forwarding) {
        packet.forwarding = forwarding;
    }

    fn tag(&self, _: &Packet) -> Tag {
        Tag::None
    }

    fn set_tag(&mut self, _: &mut Packet, _: Tag) {}

    fn destination(&self, _: &Packet) -> [u8; 6] {
        wire::BROADCAST
    }

    fn source(&self, _: &Packet) -> [u8; 6] {
        [2; 6]
    }

    fn set_destination(&mut self, _: &mut Packet, _: [u8; 6]) {}

    fn summary(&mut self, config: &Config, _: &Packet) -> Summary {
        Summary::of(config, &[])
    }

    fn frame<'a>(&'a self, _: &'a Packet) -> Option<&'a [u8]> {
        None
    }

    fn headers<'a>(&'a self, packet: &'a Packet) -> &'a [u8] {
        &FRAMES[packet.forwarding.to.0.min(SWITCHES) as usize]
    }

    fn rewrite(&mut self, _: &mut Packet, _: Field) -> Result<(), wire::Error> {
        Ok(())
    }

    fn push_vlan(&mut self, _: &mut Packet, _: u16) -> Result<(), wire::Error> {
        Ok(())
    }

    fn pop_vlan(&mut self, _: &mut Packet) -> Result<(), wire::Error> {
        Ok(())
    }

    fn push_mpls(&mut self, _: &mut Packet, _: u16, _: u32) -> Result<(), wire::Error> {
        unreachable!("no switch has a pipeline")
    }

    fn pop_mpls(&mut self, _: &mut Packet, _: u16) -> Result<(), wire::Error> {
        unreachable!("no switch has a pipeline")
    }

    fn transmit(&mut self, now: Time, end: &mut End<Packet>, _: &mut Packet) -> (Transmit, u32) {
        end.transmit_frame(now, &mut [])
    }

    fn receive_from_external(
        &mut self,
        _: Time,
        _: &mut End<Packet>,
        _: MemberId,
        packet: Packet,
        _: &mut Vec<Packet>,
    ) -> Received<Packet> {
        Received { back: Some(packet), poll: false }
    }

    fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        Some(packet.clone())
    }

    fn make(&mut self, _: &[u8], _: Forwarding, _: Tag) -> Option<Packet> {
        None
    }

    fn mark(&mut self, _: &mut Packet) -> bool {
        false
    }

    fn corrupt(&mut self, packet: &mut Packet, bits: u64) {
        unreachable!("no link here flips bit {bits} of {packet:?}");
    }

    fn free(&mut self, _: Packet) {}

    fn count(&mut self, loss: Loss) {
        self.lost.push(loss);
    }

    fn carry(&mut self, _: Time, _: Time, port: NetPort, packet: Packet) -> Option<Packet> {
        if self.division != Division::Nodes || Self::owner(&self.tables, self.tables.map.node(port)) == self.own {
            return Some(packet);
        }
        self.out.push(Sent::In(port, packet));
        None
    }

    fn observe(&mut self, port: NetPort, _: Time, _: Time, packet: &Packet) {
        self.observed.push((port, packet.from, packet.forwarding.hash.0));
    }

    fn hand_over(&mut self, _: Time, port: NetPort, packet: Packet) {
        assert_eq!(self.division, Division::Wires);
        assert_ne!(Self::owner(&self.tables, self.tables.map.node(port)), self.own);
        self.out.push(Sent::Out(port, packet));
    }

    fn throw_away(&mut self, _: [NetPort; 2]) -> [u64; 2] {
        [0; 2]
    }

    fn deliver(&mut self, _: Time, port: NetPort, packet: Packet) {
        self.heard.push((self.tables.map.node(port), packet));
    }

    fn is_here(&self, port: NetPort) -> bool {
        self.division != Division::Nodes || Self::owner(&self.tables, self.tables.map.node(port)) == self.own
    }

    fn forwarded(&mut self, switch: usize, to: NodeId, packets: u64) {
        *self.forwarded.entry((switch, to)).or_insert(0) += packets;
    }

    fn wake_at(&mut self, _: Time, _: Timer) {}
}

/// Links between switches.
const TRUNKS: std::ops::Range<u32> = SWITCHES..3 * SWITCHES;

/// Each switch has a host and a link to each other switch. Hosts that forward are also at the next switch, after the last at the first.
fn mesh(forwarding: bool) -> Topology {
    let mut topology = Topology::default();
    for id in 0..SWITCHES as u8 {
        let address = HostAddress {
            mac: [2, 0, 0, 0, 0, id],
            ipv4: Ipv4Addr::new(10, 0, 0, id),
            ipv4_prefix: 8,
            ipv6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, id.into()),
            ipv6_prefix: 64,
            pod: None,
        };
        let host = topology.add_host(format!("h{id}"), address);
        topology.nodes[host].forwards = forwarding;
    }
    for id in 0..SWITCHES {
        topology.add_switch(format!("s{id}"), 0, None);
        topology.connect(NodeId(id), NodeId(SWITCHES + id), LinkSpec::default());
    }
    for a in 0..SWITCHES {
        for b in a + 1..SWITCHES {
            topology.connect(NodeId(SWITCHES + a), NodeId(SWITCHES + b), LinkSpec::default());
        }
    }
    for id in (0..SWITCHES).filter(|_| forwarding) {
        topology.connect(NodeId(id), NodeId(SWITCHES + (id + 1) % SWITCHES), LinkSpec::default());
    }
    topology
}

struct Network {
    topology: Topology,
    tables: Arc<Tables>,
    parts: Vec<(Graph<Packet>, Part)>,
    /// By part: what it has yet to take in, and the routes that it has yet to go over to.
    inbox: Vec<VecDeque<Sent>>,
    routes: Vec<VecDeque<Arc<Routes>>>,
}

impl Network {
    fn new(division: Division) -> Self {
        Self::of(division, mesh(false))
    }

    fn of(division: Division, topology: Topology) -> Self {
        let tables = Arc::new(Tables {
            map: Map::new(&topology),
            host_table: HostTable::new(&topology, &[]),
            bonds: TiVec::new(),
            rerouting: Rerouting::Follow,
            pipelines: Pipelines::default(),
            steering: Steering::default(),
            services: Services::default(),
            ports: PortTable::default(),
        });
        let routes = Arc::new(Routes::compute(&topology));
        let whole = Graph::new(Time::ZERO, &topology, &tables, routes, (Spread::Single, 1.into()));
        let count = SWITCHES as usize;
        let owner = |node| Part::owner(&tables, node);
        let wire_owner = |port| match tables.map.node(port) {
            node if division == Division::Hosts && !tables.map.is_host(node) => Owner::Each,
            node => Owner::One(owner(node)),
        };
        let graphs = whole.split(&tables, count, owner, wire_owner);
        let part = |own| Part::new(own, division, &tables);
        let parts = graphs.into_iter().enumerate().map(|(own, graph)| (graph, part(own))).collect();
        let (inbox, routes) = (vec![VecDeque::new(); count], vec![VecDeque::new(); count]);
        Self { topology, tables, parts, inbox, routes }
    }

    /// What a part has sent to others is under way.
    fn hand_over(&mut self, part: usize) {
        for sent in std::mem::take(&mut self.parts[part].1.out) {
            let (Sent::In(port, _) | Sent::Out(port, _)) = sent;
            self.inbox[Part::owner(&self.tables, self.tables.map.node(port))].push_back(sent);
        }
    }

    /// The parts take in what is under way, until there is nothing.
    fn run(&mut self) {
        while self.inbox.iter().any(|inbox| !inbox.is_empty()) {
            (0..SWITCHES as usize).for_each(|at| self.take_in(at));
        }
    }

    /// A host tells everybody something.
    fn say(&mut self, host: usize) {
        self.depart(host, FLOOD);
    }

    /// A host sends something to another one.
    fn send(&mut self, host: usize, to: u32) {
        self.depart(host, NodeId(to));
    }

    fn depart(&mut self, host: usize, to: NodeId) {
        let from = NodeId(host as u32);
        let packet = Packet { from, forwarding: Forwarding { to, hash: FlowHash(0) } };
        let (graph, part) = &mut self.parts[host];
        let port = self.tables.map.port(from, PortId(0));
        graph.depart(self.tables.at(Time::ZERO), part, port, packet);
        self.hand_over(host);
    }

    /// One part takes in the next packet.
    fn take_in(&mut self, at: usize) {
        let Some(sent) = self.inbox[at].pop_front() else { return };
        let (graph, part) = &mut self.parts[at];
        let moment = self.tables.at(Time::ZERO);
        match sent {
            Sent::In(port, packet) => graph.arrive(moment, part, port, packet),
            Sent::Out(port, packet) => graph.depart(moment, part, port, packet),
        }
        self.hand_over(at);
    }

    /// One part goes over to the next routes.
    fn reroute(&mut self, at: usize) {
        if let Some(routes) = self.routes[at].pop_front() {
            self.parts[at].0.reroute(routes);
        }
    }

    /// All parts are to go over to the routes without some links between switches.
    fn pull(&mut self, down: &[LinkId]) {
        let routes = Arc::new(Routes::without(&self.topology, down));
        self.routes.iter_mut().for_each(|waiting| waiting.push_back(Arc::clone(&routes)));
    }

    /// By listener, how often each speaker was heard.
    fn heard(&self) -> Vec<Vec<usize>> {
        let hosts = || (0..SWITCHES).map(NodeId);
        let all = |at: NodeId| self.parts.iter().flat_map(|(_, part)| &part.heard).filter(move |(host, _)| *host == at);
        hosts()
            .map(|at| hosts().map(|from| all(at).filter(|(_, packet)| packet.from == from).count()).collect())
            .collect()
    }
}

#[test]
fn what_is_flooded_comes_to_all_others_once() {
    for division in DIVISIONS {
        let mut network = Network::new(division);
        network.say(2);
        network.run();
        let heard: Vec<usize> = network.heard().iter().map(|from| from[2]).collect();
        assert_eq!(heard, [1, 1, 0, 1, 1]);
        assert!(network.parts.iter().all(|(_, part)| part.lost.is_empty()));
    }
}

/// By port, how many packets have left.
fn left(graph: &Graph<Packet>) -> Vec<u64> {
    graph.egress.iter().map(|egress| egress.link().map_or(0, |link| link.counters(Time::NEVER).packets)).collect()
}

/// The same of all parts.
fn left_in_all(network: &Network) -> Vec<u64> {
    let mut sum = vec![0; network.tables.map.ports().len()];
    for (graph, _) in &network.parts {
        sum.iter_mut().zip(left(graph)).for_each(|(sum, packets)| *sum += packets);
    }
    sum
}

#[test]
fn what_parts_have_counted_is_what_one_would_have() {
    let all = DIVISIONS.map(|division| {
        let mut network = Network::new(division);
        for to in [1, 4, 1, 0] {
            network.send(3, to);
            network.say(to as usize);
            network.run();
        }
        left_in_all(&network)
    });
    assert_eq!(all[0].iter().sum::<u64>(), 4 * 3 + 4 * 9);
    assert!(all.iter().all(|counts| *counts == all[0]));
}

#[test]
fn a_link_without_carrier_takes_nothing_in_any_part_and_switches_of_all_leave_it_out() {
    for division in DIVISIONS {
        let mut network = Network::new(division);
        let link = LinkId(SWITCHES);
        assert_eq!(network.tables.map.ends(link).map(|port| network.tables.map.node(port).0), [5, 6]);
        for at in 0..SWITCHES as usize {
            let (graph, part) = &mut network.parts[at];
            graph.set_carrier(network.tables.at(Time::ZERO), part, link, false);
        }
        // Before there are other routes, there is no other path, wherever a packet is forwarded.
        let forwards = |at: usize| division != Division::Nodes || at == 0;
        let tables = Arc::clone(&network.tables);
        let port = tables.map.far(tables.map.port(NodeId(0), PortId(0)));
        for at in (0..SWITCHES as usize).filter(|at| forwards(*at)) {
            let packet = Packet { from: NodeId(0), forwarding: Forwarding { to: NodeId(1), hash: FlowHash(0) } };
            let (graph, part) = &mut network.parts[at];
            graph.arrive(tables.at(Time::ZERO), part, port, packet);
            assert_eq!(part.lost, [Loss::NoRoute], "{division:?}, part {at}");
        }
        network.run();
        assert_eq!(network.heard()[1][0], 0);
        network.pull(&[link]);
        (0..SWITCHES as usize).for_each(|at| network.reroute(at));
        network.send(0, 1);
        network.run();
        assert_eq!(network.heard()[1][0], 1);
        for (at, (graph, _)) in network.parts.iter().enumerate() {
            let has_it = division == Division::Hosts || at < 2;
            let down: Vec<LinkId> = graph.links_down(&tables.map, &network.topology).collect();
            assert_eq!(down, vec![link; usize::from(has_it)], "{division:?}, part {at}");
        }
    }
}

/// A network without links between switches, in parts: the only way round is through hosts.
fn through_hosts() -> Network {
    let mut network = Network::of(Division::Nodes, mesh(true));
    network.pull(&TRUNKS.map(LinkId).collect::<Vec<_>>());
    (0..SWITCHES as usize).for_each(|at| network.reroute(at));
    network
}

#[test]
fn what_is_for_one_goes_through_hosts_that_forward() {
    let mut network = through_hosts();
    // By the switch that both are at, and through h1.
    network.send(0, 1);
    network.send(0, 2);
    network.run();
    let heard = network.heard();
    assert_eq!(heard.iter().map(|from| from[0]).collect::<Vec<_>>(), [0, 1, 1, 0, 0]);
    assert!(network.parts.iter().all(|(_, part)| part.lost.is_empty()));
    assert_eq!(left_in_all(&network).iter().sum::<u64>(), 2 + 4);
}

#[test]
fn what_is_for_everybody_goes_through_hosts_that_forward_once() {
    let mut network = through_hosts();
    (0..SWITCHES as usize).for_each(|host| network.say(host));
    network.run();
    for (listener, from) in network.heard().into_iter().enumerate() {
        let expected: Vec<usize> = (0..SWITCHES as usize).map(|speaker| usize::from(speaker != listener)).collect();
        assert_eq!(from, expected, "h{listener}");
    }
}

#[test]
fn a_multi_homed_host_leaves_out_its_port_without_carrier() {
    let mut network = Network::of(Division::Nodes, mesh(true));
    let tables = Arc::clone(&network.tables);
    // Of the two links of h0 the one that leads to h1 by one switch only.
    let near = network.topology.links_between(NodeId(0), NodeId(SWITCHES + 1)).next().unwrap();
    for (graph, part) in &mut network.parts {
        graph.set_carrier(tables.at(Time::ZERO), part, near, false);
    }
    network.send(0, 1);
    network.run();
    assert_eq!(network.parts[0].1.lost, [Loss::NoRoute], "the other link is on no shortest path, until routes follow");
    network.pull(&[near]);
    (0..SWITCHES as usize).for_each(|at| network.reroute(at));
    network.send(0, 1);
    network.run();
    assert_eq!(network.heard()[1][0], 1);
}

proptest! {
    /// Whoever goes over to which routes when, and whatever is under way meanwhile.
    #[test]
    fn nobody_hears_anything_twice_or_what_he_said_himself(
        links in proptest::collection::vec(proptest::collection::btree_set(5_u32..15, 0..7), 0..6),
        steps in proptest::collection::vec((0_u8..8, 0_usize..5), 0..400),
        division in proptest::sample::select(&DIVISIONS), forwarding: bool,
    ) {
        // What comes to a host that forwards is taken by the part that has its wires.
        let division = if forwarding { Division::Nodes } else { division };
        let mut network = Network::of(division, mesh(forwarding));
        let mut links = links.into_iter();
        let mut said = [0; SWITCHES as usize];
        for (what, at) in steps {
            match what {
                // Each host speaks once, so that what comes twice shows.
                0 if said[at] == 0 => {
                    said[at] = 1;
                    network.say(at);
                }
                1 => {
                    if let Some(down) = links.next() {
                        network.pull(&down.into_iter().map(LinkId).collect::<Vec<_>>());
                    }
                }
                2 => network.reroute(at),
                _ => network.take_in(at),
            }
        }
        for (listener, from) in network.heard().iter().enumerate() {
            for (speaker, times) in from.iter().enumerate() {
                let most = usize::from(speaker != listener);
                prop_assert!(*times <= most, "h{listener} heard h{speaker} {times} times");
            }
        }
    }
}
