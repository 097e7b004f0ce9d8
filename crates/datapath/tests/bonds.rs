//! Packets that leave by bonds together are sent by the same members, in the same order, and are counted in the same places, as those that leave one by one:
//! whatever the mode, whatever they carry, and whatever becomes of the members meanwhile.

mod driver;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use bond::end::{Partner, Plan};
use bond::{Carrier, Config, MemberId, MemberSet, Mode, reorder};
use datapath::{EndSpec, Graph, Loss, Map, PortTable, Services, Steering, Tables, Tag};
use link::LinkSpec;
use machine::{Span, Time};
use proptest::prelude::*;
use topology::{BondEnd, BondEndId, HostAddress, LinkId, NetPort, NodeId, PortId, Rerouting, Routes, TiVec, Topology};
use vswitch::spread::FlowHash;
use vswitch::{FLOOD, Forwarding, HostBond, HostTable, Pipelines, Spread};

use driver::{Clock, Packet};

const HOSTS: u32 = 6;
/// At both switches, without a bond.
const MULTI_HOMED: u32 = 4;
/// Another program's, with a bond of its own.
const EXTERNAL: u32 = 5;
const FIRST_SWITCH: u32 = HOSTS;

/// What the bonds do.
#[derive(Clone, Debug)]
struct Setting {
    /// Options of the bonds of h0, of h1, between the switches, and of the switch towards the external host.
    options: [&'static str; 4],
    is_reordered: bool,
    spread: Spread,
    /// Whether the multi-homed host passes on what is for others.
    forwards: bool,
}

/// What happens.
#[derive(Clone, Debug)]
enum Step {
    /// A host sends packets at once: to whom, of which flow, and what they are.
    Burst(u32, Vec<(u32, u8, u8)>),
    /// The external host sends packets by a member.
    ByMember(usize, Vec<(u32, u8, u8)>),
    /// A link loses its carrier, or has it back.
    Carrier(u32, bool),
    /// Routes follow.
    Reroute,
    /// Time passes.
    Wait(u64),
    /// Somebody asks what has been counted.
    AddUp,
}

const fn mac_of(host: u32) -> [u8; 6] {
    [2, 0, 0, 0, 0, host as u8]
}

/// A member's own address.
fn mac_of_member(mac: [u8; 6], member: usize) -> [u8; 6] {
    let mut own = mac;
    own[1] ^= if member > 0 { 0x40 | member as u8 } else { 0 };
    own
}

/// A frame of some kind, with a number by which it is told apart.
fn frame(from: u32, (to, flow, kind): (u32, u8, u8), number: u32) -> Vec<u8> {
    let (ethertype, protocol) = match kind {
        // IGMP, address resolution, a slow protocol, neighbour discovery, and what is longer than it says.
        1 => ([8, 0], 2),
        2 => ([8, 6], 0),
        3 => ([0x88, 9], 0),
        4 => ([0x86, 0xdd], 58),
        5 => ([0x86, 0xdd], 6),
        6 => ([8, 0], 6),
        _ => ([8, 0], 17),
    };
    let mut frame = vec![0; if kind == 7 { 20 } else { 90 }];
    frame[..6].copy_from_slice(&mac_of_member(mac_of(to), usize::from(flow / 16)));
    frame[6..12].copy_from_slice(&mac_of(from));
    frame[12..14].copy_from_slice(&ethertype);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    if kind == 7 {
        return frame;
    }
    match kind {
        2 => {
            // Who asks, or answers, says where he is.
            frame[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1 + flow % 2]);
            frame[22..28].copy_from_slice(&mac_of(from));
            frame[28..32].copy_from_slice(&[10, 0, 0, from as u8]);
            frame[38..42].copy_from_slice(&[10, 0, 0, to as u8]);
            frame[42..46].copy_from_slice(&number.to_be_bytes());
        }
        4 | 5 => {
            frame[14..22].copy_from_slice(&[0x60, 0, 0, 0, 0, 36, protocol, 255]);
            frame[22..26].copy_from_slice(&[0xfd, 0, 0, flow]);
            frame[38] = 0xfd;
            frame[53] = to as u8;
            frame[54..56].copy_from_slice(&[if kind == 4 { 135 + flow % 2 } else { flow }, 0]);
            frame[86..].copy_from_slice(&number.to_be_bytes());
        }
        _ => {
            frame[14..24].copy_from_slice(&[0x45, 0, 0, 76, 0, 0, 0, 0, 64, protocol]);
            frame[26..34].copy_from_slice(&[10, 0, 0, from as u8, 10, 0, 0, to as u8]);
            frame[34..38].copy_from_slice(&[0, flow, 0, 9]);
            frame[38..42].copy_from_slice(&number.to_be_bytes());
            // A TCP segment of no bytes with an acknowledgement.
            frame[46..48].copy_from_slice(&[0x50, 0x10]);
        }
    }
    frame
}

/// Who is at the ends of a bond, and how many links it has.
const BONDS: [(u32, u32, usize); 4] = [
    (0, FIRST_SWITCH, 2),
    (1, FIRST_SWITCH + 1, 3),
    (FIRST_SWITCH, FIRST_SWITCH + 1, 3),
    (EXTERNAL, FIRST_SWITCH + 1, 2),
];

/// Hosts at two switches, between which there are a bond, a link beside it, and a way around.
fn topology(forwards: bool) -> Topology {
    let mut topology = Topology::default();
    for id in 0..HOSTS {
        let address = HostAddress {
            mac: mac_of(id),
            ipv4: Ipv4Addr::new(10, 0, 0, id as u8),
            ipv4_prefix: 8,
            ipv6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, id as u16),
            ipv6_prefix: 64,
            pod: None,
        };
        topology.add_host(format!("h{id}"), address);
    }
    topology.nodes[NodeId(MULTI_HOMED)].forwards = forwards;
    let [a, b, around] = ["s0", "s1", "s2"].map(|name| topology.add_switch(name.into(), 0, None));
    for (near, far, members) in BONDS {
        let (near, far) = (NodeId(near), NodeId(far));
        let first = [near, far].map(|node| topology.nodes[node].ports.len());
        for _ in 0..members {
            topology.connect(near, far, LinkSpec::default());
        }
        let id = topology.bonds.next_key();
        for (side, node) in [near, far].into_iter().enumerate() {
            let ports = (first[side]..first[side] + members).map(|port| PortId(port as u16)).collect();
            let partner = BondEndId(id.0 + 1 - side as u32);
            topology.bonds.push(BondEnd { node, name: format!("bond{}", id.0), ports, partner });
        }
    }
    for (x, y) in [(NodeId(2), a), (NodeId(3), b), (NodeId(MULTI_HOMED), a), (NodeId(MULTI_HOMED), b)] {
        topology.connect(x, y, LinkSpec::default());
    }
    for (x, y) in [(a, b), (a, around), (around, b)] {
        topology.connect(x, y, LinkSpec::default());
    }
    topology
}

/// What is at one end of a bond.
fn end(topology: &Topology, id: BondEndId, setting: &Setting) -> EndSpec {
    let place = &topology.bonds[id];
    let config: Config = setting.options[id.0 as usize / 2].parse().expect("the options are right");
    let (is_host, is_trunk) = (topology.is_host(place.node), id.0 / 2 == 2);
    let mac = if is_host { mac_of(place.node.0) } else { [2, 0x80, 0, 0, 0, id.0 as u8] };
    let faces_external = topology.bonds[place.partner].node == NodeId(EXTERNAL);
    let is_external = place.node == NodeId(EXTERNAL);
    let sends_on_all = config.mode == Mode::BalanceRr;
    let plan = Plan {
        partner: if faces_external { Partner::External { hello: None } } else { Partner::Internal },
        reorder: setting.is_reordered.then(|| reorder::Config { buffer: 16, timeout: Span::from_ms(5) }),
        mac,
        members: (0..place.members())
            .map(|member| (format!("eth{member}"), mac_of_member(mac, member), Carrier::up(1_000)))
            .collect(),
        addresses: if is_host { vec![IpAddr::V4(Ipv4Addr::new(10, 0, 0, place.node.0 as u8))] } else { vec![] },
        partner_uses: if sends_on_all { (0..place.members()).map(MemberId::new).collect() } else { MemberSet::EMPTY },
        seed: u64::from(id.0),
        config,
    };
    let mode = plan.config.mode;
    // A switch has a bond of its own against another switch, and where its host's mode needs one.
    let is_learning = !is_host && !is_trunk && mode.has_active();
    let plan = (!is_external && !is_learning).then(|| Box::new(plan));
    EndSpec { node: place.node, partner: place.partner, mode, plan, is_external }
}

struct Network {
    topology: Topology,
    tables: Arc<Tables>,
    graph: Graph<Packet>,
    clock: Clock,
    now: Time,
    sent: u32,
    down: Vec<LinkId>,
}

/// What has become of all packets.
#[derive(Debug, PartialEq)]
struct Outcome {
    heard: Vec<(NetPort, u64, Vec<u8>)>,
    lost: Vec<Loss>,
    forwarded: BTreeMap<(usize, NodeId), u64>,
    links: Vec<link::Counters>,
    ends: Vec<Option<(bond::end::Counters, Option<reorder::Counters>)>>,
    made: usize,
    freed: usize,
}

impl Network {
    fn new(setting: &Setting) -> Self {
        let topology = topology(setting.forwards);
        let bonds: TiVec<BondEndId, EndSpec> = topology.bonds.keys().map(|id| end(&topology, id, setting)).collect();
        let of_hosts = bonds.iter_enumerated().filter(|(_, spec)| topology.is_host(spec.node));
        let host_bonds: Vec<HostBond> = of_hosts
            .map(|(id, spec)| HostBond {
                host: spec.node,
                ports: topology.bonds[id].ports.clone(),
                members: spec.plan.iter().flat_map(|plan| plan.members.iter().map(|(_, mac, _)| *mac)).collect(),
                announces_members: spec.plan.as_ref().is_some_and(|plan| plan.config.answers_by_member()),
            })
            .collect();
        let tables = Arc::new(Tables {
            map: Map::new(&topology),
            host_table: HostTable::new(&topology, &host_bonds),
            bonds,
            rerouting: Rerouting::Follow,
            pipelines: Pipelines::default(),
            steering: Steering::default(),
            services: Services::default(),
            ports: PortTable::default(),
        });
        let routes = Arc::new(Routes::compute(&topology));
        let mut graph = Graph::new(Time::ZERO, &topology, &tables, routes, (setting.spread, 1.into()));
        let mut clock = Clock::default();
        graph.start(tables.at(Time::ZERO), &mut clock);
        Self { topology, tables, graph, clock, now: Time::ZERO, sent: 0, down: Vec::new() }
    }

    fn packets(&mut self, from: u32, packets: &[(u32, u8, u8)]) -> Vec<Packet> {
        let made = packets.iter().map(|&packet| {
            self.sent += 1;
            self.clock.made += 1;
            let (to, flow, _) = packet;
            // What is for everybody goes one by one in both.
            let to = if to < HOSTS { NodeId(to) } else { FLOOD };
            let bytes = frame(from, packet, self.sent);
            Packet { bytes, forwarding: Forwarding { to, hash: FlowHash(flow.into()) }, tag: Tag::None }
        });
        made.collect()
    }

    fn step(&mut self, step: &Step, at_once: bool) {
        let tables = Arc::clone(&self.tables);
        let moment = tables.at(self.now);
        match step {
            Step::Burst(from, packets) => {
                let port = tables.map.port(NodeId(*from), PortId(0));
                let mut packets = self.packets(*from, packets);
                if at_once {
                    self.graph.depart_burst(moment, &mut self.clock, port, &mut packets);
                } else {
                    for packet in packets {
                        self.graph.depart(moment, &mut self.clock, port, packet);
                    }
                }
            }
            Step::ByMember(member, packets) => {
                let port = tables.map.port(NodeId(EXTERNAL), PortId(*member as u16));
                let mut packets = self.packets(EXTERNAL, packets);
                if at_once {
                    self.graph.depart_by_burst(moment, &mut self.clock, port, &mut packets);
                } else {
                    for packet in packets {
                        self.graph.depart_by(moment, &mut self.clock, port, packet);
                    }
                }
            }
            Step::Carrier(link, up) => {
                let link = LinkId(*link);
                self.graph.set_carrier(moment, &mut self.clock, link, *up);
                self.down.retain(|other| *other != link);
                self.down.extend((!up).then_some(link));
                self.down.sort_unstable();
            }
            Step::Reroute => self.graph.reroute(Arc::new(Routes::without(&self.topology, &self.down))),
            Step::Wait(ms) => self.wait(self.now + Span::from_ms(*ms)),
            Step::AddUp => self.graph.add_up_paths(&tables, &mut self.clock),
        }
    }

    /// Wakes whoever is to be woken until then.
    fn wait(&mut self, until: Time) {
        let tables = Arc::clone(&self.tables);
        loop {
            let due = self.clock.timers.iter().enumerate().filter(|(_, (at, _))| *at <= until);
            let Some((first, &(at, timer))) = due.min_by_key(|(number, (at, _))| (*at, *number)) else { break };
            self.clock.timers.remove(first);
            self.now = at;
            self.graph.wake(tables.at(at), &mut self.clock, timer);
        }
        self.now = until;
    }

    fn outcome(mut self) -> Outcome {
        self.graph.add_up_paths(&self.tables, &mut self.clock);
        let links = self.graph.egress.iter().map(|egress| egress.link().unwrap().counters(self.now)).collect();
        let ends = self.graph.ends.iter().map(|end| {
            let end = end.as_ref()?.bonded()?;
            Some((end.counters(), end.reordering().copied()))
        });
        let ends = ends.collect();
        let Clock { heard, lost, forwarded, made, freed, .. } = self.clock;
        Outcome { heard, lost, forwarded, links, ends, made, freed }
    }
}

/// Both ways.
fn outcomes(setting: &Setting, steps: &[Step]) -> [Outcome; 2] {
    [true, false].map(|at_once| {
        let mut network = Network::new(setting);
        for step in steps {
            network.step(step, at_once);
        }
        let mut outcome = network.outcome();
        if setting.is_reordered {
            // What was held and comes out at one instant goes on side by side when it goes from hop to hop: the order is that of each flow, where each flow has
            // one path.
            match setting.spread {
                Spread::Single | Spread::Ecmp => outcome.heard.sort_by_key(|(port, flow, _)| (*port, *flow)),
                Spread::PacketScatter | Spread::PacketScatterPerDestination | Spread::PacketScatterRandom => {
                    outcome.heard.sort();
                }
            }
        }
        // Losses at several places at one instant are in no order: a switch beyond a hop loses its packets before or after this one.
        outcome.lost.sort_by_key(|loss| *loss as u8);
        outcome
    })
}

const OF_HOSTS: [&str; 12] = [
    "mode=balance-rr",
    "mode=balance-rr packets_per_slave=3",
    "mode=active-backup",
    "mode=active-backup fail_over_mac=active",
    "mode=active-backup all_slaves_active=1 downdelay=100 miimon=10",
    "mode=balance-xor xmit_hash_policy=layer3+4",
    "mode=balance-xor xmit_hash_policy=layer2+3 updelay=50 downdelay=50 miimon=10",
    "mode=broadcast",
    "mode=802.3ad lacp_rate=fast xmit_hash_policy=layer3+4",
    "mode=balance-tlb",
    "mode=balance-tlb tlb_dynamic_lb=0 xmit_hash_policy=layer3+4",
    "mode=balance-alb",
];

const OF_SWITCHES: [&str; 6] = [
    "mode=balance-rr",
    "mode=active-backup",
    "mode=balance-xor xmit_hash_policy=layer3+4 rebalance=1",
    "mode=balance-xor xmit_hash_policy=encap3+4",
    "mode=broadcast",
    "mode=802.3ad lacp_rate=fast",
];

fn settings() -> impl Strategy<Value = Setting> {
    let of_hosts = || proptest::sample::select(&OF_HOSTS);
    let of_switches = || proptest::sample::select(&OF_SWITCHES);
    let options = (of_hosts(), of_hosts(), of_switches(), of_switches()).prop_map(<[&str; 4]>::from);
    let of_setting = (options, any::<bool>(), proptest::sample::select(Spread::ALL), any::<bool>());
    of_setting.prop_map(|(options, is_reordered, spread, forwards)| Setting { options, is_reordered, spread, forwards })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few flows, so that paths are found again, and mostly UDP. One destination in seven is everybody.
    let kind = prop_oneof![6 => Just(0_u8), 4 => 0_u8..8];
    let packets = || proptest::collection::vec((0..=HOSTS, 0_u8..20, kind.clone()), 1..24);
    let links = BONDS.iter().map(|(_, _, members)| *members as u32).sum::<u32>() + 7;
    let step = prop_oneof![
        12 => (0..EXTERNAL, packets()).prop_map(|(from, packets)| Step::Burst(from, packets)),
        2 => (0_usize..2, packets()).prop_map(|(member, packets)| Step::ByMember(member, packets)),
        3 => (0..links, any::<bool>()).prop_map(|(link, up)| Step::Carrier(link, up)),
        1 => Just(Step::Reroute),
        4 => (0_u64..1_200).prop_map(Step::Wait),
        1 => Just(Step::AddUp),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn a_burst_by_bonds_is_what_its_packets_are(setting in settings(), steps in steps()) {
        let [together, singly] = outcomes(&setting, &steps);
        prop_assert_eq!(together, singly);
    }
}

/// Both ends of LACP let all members send after a few seconds; what goes then goes by remembered paths.
fn converged(options: [&'static str; 4]) -> Network {
    let setting = Setting { options, is_reordered: false, spread: Spread::Single, forwards: false };
    let mut network = Network::new(&setting);
    network.wait(Time::from_ns(5_000_000_000));
    network.clock.heard.clear();
    network
}

/// By link of a bond, how many packets its first end has sent.
fn sent_by_members(network: &Network, bond: u32) -> Vec<u64> {
    let members = network.tables.map.members(BondEndId(2 * bond));
    members.iter().map(|port| network.graph.egress[*port].link().unwrap().counters(Time::NEVER).packets).collect()
}

/// A path ends at a bond: behind the first packet, nobody is asked for the way, and yet each packet has a member chosen for it, of those that are there now.
#[test]
fn what_follows_by_a_bond_asks_for_members_and_not_for_its_way() {
    let mut network = converged(["mode=balance-rr", "mode=balance-rr", "mode=balance-rr", "mode=balance-rr"]);
    let burst = Step::Burst(0, vec![(1, 1, 0); 12]);
    network.step(&burst, true);
    let of_switches = |network: &Network| network.clock.forwarded.values().sum::<u64>();
    // Two switches have forwarded the first one, and so many others as pass before the way behind each bond is known.
    let before = of_switches(&network);
    network.step(&burst, true);
    assert_eq!((of_switches(&network), network.clock.heard.len()), (before, 24));
    assert_eq!(sent_by_members(&network, 0), [12, 12]);
    network.step(&Step::AddUp, true);
    assert_eq!(of_switches(&network), 48);
    // A member without a carrier is left out at once.
    network.step(&Step::Carrier(0, false), true);
    network.step(&burst, true);
    assert_eq!((sent_by_members(&network, 0), network.clock.heard.len()), (vec![12, 24], 36));
    network.step(&Step::Carrier(0, true), true);
    network.step(&burst, true);
    assert_eq!((sent_by_members(&network, 0), network.clock.heard.len()), (vec![18, 30], 48));
}

/// Whether a member may be used is asked for each burst anew, though no carrier has changed and nothing has been forgotten.
#[test]
fn a_member_whose_time_has_come_is_used_at_once() {
    let mut network = converged(["mode=balance-rr miimon=10 updelay=50", "mode=0", "mode=0", "mode=0"]);
    let burst = Step::Burst(0, vec![(2, 1, 0); 4]);
    network.step(&Step::Carrier(0, false), true);
    network.step(&Step::Carrier(0, true), true);
    network.step(&burst, true);
    network.step(&burst, true);
    assert_eq!(sent_by_members(&network, 0), [0, 8]);
    network.step(&Step::Wait(50), true);
    network.step(&burst, true);
    assert_eq!(sent_by_members(&network, 0), [2, 10]);
}

/// Who has several ports that are no bond is no exception, whether packets come from him, go to him, or pass him.
#[test]
fn paths_lead_from_multi_homed_hosts_to_them_and_through_them() {
    let setting = Setting { options: ["mode=0"; 4], is_reordered: false, spread: Spread::Single, forwards: true };
    let mut network = Network::new(&setting);
    // The bond and the link beside it are down: the shortest way between the switches is by the host.
    let ends = |link: &topology::Link| [link.a.node.0, link.b.node.0];
    let between = |link: &topology::Link| ends(link) == [FIRST_SWITCH, FIRST_SWITCH + 1];
    let down: Vec<u32> =
        (0..).zip(&network.topology.links).filter(|(_, link)| between(link)).map(|(id, _)| id).collect();
    for link in down {
        network.step(&Step::Carrier(link, false), true);
    }
    let around = network.topology.links.iter().position(|link| ends(link) == [FIRST_SWITCH, FIRST_SWITCH + 2]);
    network.step(&Step::Carrier(around.unwrap() as u32, false), true);
    network.step(&Step::Reroute, true);
    for (from, to) in [(2, 3), (MULTI_HOMED, 3), (2, MULTI_HOMED)] {
        let burst = Step::Burst(from, vec![(to, 1, 0); 4]);
        network.step(&burst, true);
        network.step(&Step::AddUp, true);
        let before = network.clock.forwarded.clone();
        network.step(&burst, true);
        assert_eq!(network.clock.forwarded, before, "from h{from} to h{to}");
        network.step(&Step::AddUp, true);
        assert!(
            network.clock.forwarded.iter().all(|(place, packets)| before.get(place).is_none_or(|was| packets >= was))
        );
        assert_ne!(network.clock.forwarded, before);
    }
    assert_eq!((network.clock.heard.len(), network.clock.lost.len()), (24, 0));
}
