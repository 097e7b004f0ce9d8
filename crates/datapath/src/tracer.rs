//! One packet at a time is followed through a network that carries nothing else: what becomes of it is what the same graph, tables and machines say that carry packets live and
//! simulated. Nothing takes time here, and no link loses anything but for want of a carrier.

use std::collections::BTreeMap;
use std::sync::Arc;

use balance::names::{NameView, QueryCounters};
use bond::end::Received;
use bond::{Config, End, MemberId, Summary, Transmit};
use link::LinkSpec;
use machine::{Span, Time};
use topology::{LinkId, NetPort, NodeId, PortId, Routes, Topology};
use vswitch::functions::FunctionCount;
use vswitch::{Action, FLOOD, Field, FlowKey, Forwarding, Spread, UNKNOWN};
use wire::{Coverage, EthernetPacket, EthernetPacketMut, TAG_AT, is_group, vlan_tag};

use crate::driver::{Driver, Loss, Tag, Timer};
use crate::graph::{Graph, Tables};
use crate::services::ServiceView;

#[cfg(test)]
mod tests;

/// Longer than the ends of bonds take to find each other where nothing is lost.
const CONVERGES: Span = Span::from_secs(2);
/// Whoever holds a packet for longer does not give it back.
const HELD_MAX: Span = Span::from_secs(10);
/// Events that may follow from one packet, those of bonds included.
const EVENTS_MAX: u32 = 1 << 17;
/// Copies of one packet that are followed.
const COPIES_MAX: usize = 1 << 12;

/// What a packet meets on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceStep {
    /// It crosses a link to this port, on its way to there.
    Link(NetPort, Forwarding),
    /// It comes to the pipeline of a switch, by the number of that among the switches, which does this with it.
    Pipeline(usize, Vec<Action>),
    /// It passes a built-in function of its chain, by the number of that among those of all chains.
    Function(usize),
    /// It has come to one port of a function that has ports, and leaves by the other one as it came. What the function does, nobody here knows.
    Ports(NodeId, NodeId),
}

/// Where a packet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEnd {
    /// A host gets it by this port.
    Delivered(NetPort),
    /// It goes no further, and why, unless the link that it is on has no carrier.
    Lost(Option<Loss>),
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedPacket {
    /// What it met, in order.
    pub steps: Vec<TraceStep>,
    /// Where it ended.
    pub end: TraceEnd,
    /// What it was then, from its destination address on.
    pub frame: Vec<u8>,
    /// Whether it is a copy that was made on the way.
    pub is_copy: bool,
    /// For which of its reasons the last built-in function dropped it, as that counts it.
    pub dropped_for: Option<String>,
}

/// How a server of a service stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// Its share.
    pub weight: u32,
    /// Connections that are a load.
    pub active: u32,
    /// Those of which both sides have said all.
    pub inactive: u32,
    /// Whether it is to get no new ones.
    pub is_drained: bool,
    /// Whether health checks find it up.
    pub is_healthy: bool,
}

/// A frame, and what it has met. What bonds and functions say by themselves is not followed.
#[derive(Clone, Debug)]
pub(crate) struct Traced {
    bytes: Vec<u8>,
    forwarding: Forwarding,
    tag: Tag,
    steps: Option<Vec<TraceStep>>,
    is_copy: bool,
}

/// What happens when its time has come.
#[derive(Debug)]
enum Event {
    Arrival(NetPort, Traced),
    Timer(Timer),
}

/// What is under way.
#[derive(Debug, Default)]
struct Medium {
    /// By time, and among those of one time by number.
    events: BTreeMap<(Time, u64), Event>,
    numbers: u64,
    /// What has come to hosts.
    delivered: Vec<(NetPort, Traced)>,
    /// The reason for the next packet that ends.
    loss: Option<Loss>,
    /// Packets that are followed and have not ended.
    followed: usize,
    ended: Vec<TracedPacket>,
}

impl Medium {
    fn push(&mut self, at: Time, event: Event) {
        self.numbers += 1;
        self.events.insert((at, self.numbers), event);
    }

    fn end(&mut self, packet: Traced, end: TraceEnd) {
        let Traced { bytes: frame, steps: Some(steps), is_copy, .. } = packet else { return };
        self.followed -= 1;
        self.ended.push(TracedPacket { steps, end, frame, is_copy, dropped_for: None });
    }
}

/// A network in which packets are followed one by one.
#[derive(Debug)]
pub struct Tracer {
    tables: Tables,
    graph: Graph<Traced>,
    medium: Medium,
    now: Time,
    /// What built-in functions had counted before the last packet, by their numbers.
    counted: Vec<Vec<FunctionCount>>,
}

impl Tracer {
    /// The network as it comes up when these links have no carrier; `routes` are around them, where routes follow links. `salts`: those of its switches and then of its
    /// multi-homed hosts, as far as they are known, and else what `seed` gives.
    ///
    /// # Panics
    /// If the tables are of another topology.
    pub fn new(
        topology: &Topology,
        tables: Tables,
        (routes, down): (Routes, &[LinkId]),
        (spread, seed, salts): (Spread, u64, &[u64]),
    ) -> Self {
        let mut instant = topology.clone();
        for link in &mut instant.links {
            link.spec = LinkSpec::default();
        }
        let now = Time::ZERO;
        let mut graph = Graph::new(now, &instant, &tables, Arc::new(routes), (spread, seed.into()));
        for (switch, salt) in graph.switches.iter_mut().zip(salts) {
            *switch = switch.clone().with_salt(*salt);
        }
        graph.start_without(&tables, now, down);
        let mut tracer = Self { tables, graph, medium: Medium::default(), now, counted: Vec::new() };
        tracer.graph.start(tracer.tables.at(now), &mut tracer.medium);
        let mut ends = tracer.graph.ends.iter().flatten().filter_map(|end| end.bonded());
        if ends.any(|end| end.lacp().is_some()) {
            tracer.run(now + CONVERGES, |_| true);
        }
        tracer
    }

    /// The instance of a function that has this host as its ingress is down.
    pub fn take_function_down(&mut self, ingress: NodeId) {
        if let Some((id, is_egress)) = self.tables.steering.instance_at(ingress) {
            self.graph.chains.instances[id].watch.set_carrier(self.now, is_egress, false);
        }
    }

    /// How a server of a service stands, by their names. Whether there is such a server.
    pub fn set_server(&mut self, service: &str, server: &str, state: ServerState) -> bool {
        let now = self.now;
        let mut is_there = false;
        for machine in self.graph.service_machines(service) {
            let Some(id) = machine.server(server) else { continue };
            machine.set_weight(now, id, state.weight);
            machine.set_connections(now, id, (state.active, state.inactive));
            machine.drain(now, id, state.is_drained);
            machine.set_healthy(now, id, state.is_healthy);
            is_there = true;
        }
        is_there
    }

    /// The balancer at this host is the active one of the service of this name.
    pub fn set_active_balancer(&mut self, service: &str, host: NodeId) {
        self.graph.balancers.set_active(&self.tables.services, service, host);
    }

    /// How services stand after what was sent, in the order of the file.
    pub fn services(&self) -> Vec<ServiceView<'_>> {
        self.graph.service_views(&self.tables.services)
    }

    /// How names stand after what was asked, in the order of the file, and what name servers have counted besides.
    pub fn names(&self) -> (Vec<NameView<'_>>, QueryCounters) {
        self.graph.names()
    }

    /// What packets are looked up in.
    pub const fn tables(&self) -> &Tables {
        &self.tables
    }

    /// A host sends a frame by its first port, or whichever it chooses: what becomes of it and of its copies, in the order in which they end.
    ///
    /// # Errors
    /// If the frame is malformed.
    pub fn send(&mut self, host: NodeId, frame: &[u8]) -> Result<Vec<TracedPacket>, wire::Error> {
        let packet = self.packet(frame, None)?;
        let port = self.tables.map.port(host, PortId(0));
        self.graph.depart(self.tables.at(self.now), &mut self.medium, port, packet);
        Ok(self.follow())
    }

    /// The same of a frame that comes in by a port of a switch. `to`: the host that has its destination address, if the network's tables do not know it.
    ///
    /// # Errors
    /// If the frame is malformed.
    pub fn arrive(
        &mut self,
        port: NetPort,
        frame: &[u8],
        to: Option<NodeId>,
    ) -> Result<Vec<TracedPacket>, wire::Error> {
        let packet = self.packet(frame, to)?;
        self.graph.arrive(self.tables.at(self.now), &mut self.medium, port, packet);
        Ok(self.follow())
    }

    /// What a built-in function has counted last since the packet that is followed was sent.
    fn why_dropped(&self, number: usize) -> Option<String> {
        let before = self.counted.get(number)?;
        let now = self.graph.chains.built_in.get(number)?.function.counts();
        let was = |name: &str| before.iter().find(|count| count.name == name).map_or(0, |count| count.count);
        now.into_iter().rfind(|count| count.count > was(&count.name)).map(|count| count.name)
    }

    fn packet(&mut self, frame: &[u8], to: Option<NodeId>) -> Result<Traced, wire::Error> {
        let key = FlowKey::parse(frame)?;
        let to = match self.tables.host_table.by_mac(key.eth_dst).or(to) {
            _ if is_group(key.eth_dst) => FLOOD,
            known => known.unwrap_or(UNKNOWN),
        };
        let forwarding = Forwarding { to, hash: key.hash() };
        self.medium.followed += 1;
        self.counted = self.graph.chains.built_in.iter().map(|built_in| built_in.function.counts()).collect();
        Ok(Traced { bytes: frame.to_vec(), forwarding, tag: Tag::None, steps: Some(Vec::new()), is_copy: false })
    }

    fn follow(&mut self) -> Vec<TracedPacket> {
        self.take_delivered();
        self.run(self.now + HELD_MAX, |medium| medium.followed > 0);
        let mut ended = std::mem::take(&mut self.medium.ended);
        for packet in ended.iter_mut().filter(|packet| packet.end == TraceEnd::Lost(Some(Loss::Function))) {
            let last = packet.steps.iter().rev().find_map(|step| match step {
                TraceStep::Function(number) => Some(*number),
                _ => None,
            });
            packet.dropped_for = last.and_then(|number| self.why_dropped(number));
        }
        ended
    }

    /// Lets things happen up to `end`, as long as `goes_on` says so.
    fn run(&mut self, end: Time, goes_on: impl Fn(&Medium) -> bool) {
        for _ in 0..EVENTS_MAX {
            if !goes_on(&self.medium) {
                return;
            }
            let Some(next) = self.medium.events.first_entry().filter(|next| next.key().0 <= end) else { return };
            let ((at, _), event) = next.remove_entry();
            self.now = at;
            let moment = self.tables.at(at);
            match event {
                Event::Arrival(port, packet) => self.graph.arrive(moment, &mut self.medium, port, packet),
                Event::Timer(timer) => self.graph.wake(moment, &mut self.medium, timer),
            }
            self.take_delivered();
        }
    }

    /// What has come to a port of a function goes on from the other one, all else has come to its host.
    fn take_delivered(&mut self) {
        while let Some((port, mut packet)) = self.medium.delivered.pop() {
            let host = self.tables.map.node(port);
            let Some(other) = self.tables.steering.other_port(host) else {
                self.medium.end(packet, TraceEnd::Delivered(port));
                continue;
            };
            if let Some(steps) = &mut packet.steps {
                steps.push(TraceStep::Ports(host, other));
            }
            let leaves = self.tables.map.port(other, PortId(0));
            self.graph.depart(self.tables.at(self.now), &mut self.medium, leaves, packet);
        }
    }
}

impl Driver for Medium {
    type Packet = Traced;

    /// One packet alone passes fewer.
    const AT_ONCE_MAX: u32 = 1 << 12;

    fn bytes(&self, packet: &Traced) -> u32 {
        packet.bytes.len() as u32
    }

    fn forwarding(&self, packet: &Traced) -> Forwarding {
        packet.forwarding
    }

    fn set_forwarding(&mut self, packet: &mut Traced, forwarding: Forwarding) {
        packet.forwarding = forwarding;
    }

    fn met_function(&mut self, packet: &mut Traced, number: usize) {
        packet.steps.iter_mut().for_each(|steps| steps.push(TraceStep::Function(number)));
    }

    fn met_pipeline(&mut self, packet: &mut Traced, switch: usize, actions: &[Action]) {
        packet.steps.iter_mut().for_each(|steps| steps.push(TraceStep::Pipeline(switch, actions.to_vec())));
    }

    fn tag(&self, packet: &Traced) -> Tag {
        packet.tag
    }

    fn set_tag(&mut self, packet: &mut Traced, tag: Tag) {
        packet.tag = tag;
    }

    fn destination(&self, packet: &Traced) -> [u8; 6] {
        packet.bytes.first_chunk().copied().unwrap_or_default()
    }

    fn source(&self, packet: &Traced) -> [u8; 6] {
        packet.bytes.get(6..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default()
    }

    fn set_destination(&mut self, packet: &mut Traced, mac: [u8; 6]) {
        if let Some(destination) = packet.bytes.first_chunk_mut() {
            *destination = mac;
        }
    }

    fn summary(&mut self, config: &Config, packet: &Traced) -> Summary {
        Summary::of(config, &packet.bytes)
    }

    fn frame<'a>(&'a self, packet: &'a Traced) -> Option<&'a [u8]> {
        Some(&packet.bytes)
    }

    fn headers<'a>(&'a self, packet: &'a Traced) -> &'a [u8] {
        &packet.bytes
    }

    fn rewrite(&mut self, packet: &mut Traced, field: Field) -> Result<(), wire::Error> {
        field.write(&mut packet.bytes, Coverage::Complete)
    }

    fn push_vlan(&mut self, packet: &mut Traced, tci: u16) -> Result<(), wire::Error> {
        EthernetPacket::new_checked(&packet.bytes)?;
        packet.bytes.splice(TAG_AT..TAG_AT, vlan_tag(tci));
        Ok(())
    }

    fn pop_vlan(&mut self, packet: &mut Traced) -> Result<(), wire::Error> {
        EthernetPacketMut::new_checked(&mut packet.bytes)?.set_vlan(0)?;
        packet.bytes.drain(TAG_AT..TAG_AT + vlan_tag(0).len());
        Ok(())
    }

    fn push_mpls(&mut self, packet: &mut Traced, ethertype: u16, entry: u32) -> Result<(), wire::Error> {
        wire::push_mpls(&mut packet.bytes, ethertype, entry)
    }

    fn pop_mpls(&mut self, packet: &mut Traced, ethertype: u16) -> Result<(), wire::Error> {
        wire::pop_mpls(&mut packet.bytes, ethertype)
    }

    fn encapsulate(&mut self, packet: &mut Traced, at: usize, header: &[u8]) -> Result<(), wire::Error> {
        packet.bytes.splice(at..at, header.iter().copied());
        Ok(())
    }

    fn decapsulate(&mut self, packet: &mut Traced, at: usize, header: usize) -> Result<(), wire::Error> {
        packet.bytes.drain(at..at + header);
        Ok(())
    }

    fn transmit(&mut self, now: Time, end: &mut End<Traced>, packet: &mut Traced) -> (Transmit, u32) {
        end.transmit_frame(now, &mut packet.bytes)
    }

    /// An external partner is taken for a bond like others.
    fn receive_from_external(
        &mut self,
        now: Time,
        end: &mut End<Traced>,
        member: MemberId,
        packet: Traced,
        out: &mut Vec<Traced>,
    ) -> Received<Traced> {
        let summary = self.summary(end.bond().config(), &packet);
        let back = end.receive(now, (member, 0), &summary, packet, &mut |packet| out.push(packet));
        Received { back, poll: false }
    }

    fn copy(&mut self, packet: &Traced) -> Option<Traced> {
        if self.followed + self.ended.len() >= COPIES_MAX {
            return None;
        }
        self.followed += usize::from(packet.steps.is_some());
        Some(Traced { is_copy: true, ..packet.clone() })
    }

    fn make(&mut self, frame: &[u8], forwarding: Forwarding, tag: Tag) -> Option<Traced> {
        Some(Traced { bytes: frame.to_vec(), forwarding, tag, steps: None, is_copy: false })
    }

    fn mark(&mut self, _: &mut Traced) -> bool {
        false
    }

    /// No link here does that.
    fn corrupt(&mut self, packet: &mut Traced, bits: u64) {
        wire::flip_bit(&mut packet.bytes, bits);
    }

    fn free(&mut self, packet: Traced) {
        let loss = self.loss.take();
        self.end(packet, TraceEnd::Lost(loss));
    }

    fn count(&mut self, loss: Loss) {
        self.loss = Some(loss);
    }

    fn carry(&mut self, _: Time, at: Time, port: NetPort, mut packet: Traced) -> Option<Traced> {
        let forwarding = packet.forwarding;
        packet.steps.iter_mut().for_each(|steps| steps.push(TraceStep::Link(port, forwarding)));
        self.push(at, Event::Arrival(port, packet));
        None
    }

    fn hand_over(&mut self, _: Time, port: NetPort, _: Traced) {
        unreachable!("the graph is whole: {port:?} is a part of it");
    }

    /// No link loses its carrier while something is under way.
    fn throw_away(&mut self, _: [NetPort; 2]) -> [u64; 2] {
        [0; 2]
    }

    fn deliver(&mut self, _: Time, port: NetPort, packet: Traced) {
        self.delivered.push((port, packet));
    }

    fn wake_at(&mut self, at: Time, timer: Timer) {
        self.push(at, Event::Timer(timer));
    }
}
