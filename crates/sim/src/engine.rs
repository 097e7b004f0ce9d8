//! The event loop.

use link::{Link, Verdict};
use machine::{Calendar, Control, Step, Time, mix};
use topology::{LinkId, NodeId, Side};
use transport::paced;
use transport::reordering::Meter;
use transport::udp::{self, Fragment};
use transport::{Ack, Receiver, Segment, Sender, TransportKind, receiver, sender};
use vswitch::spread::FlowHash;
use vswitch::{Forwarding, Switch};

use crate::bonded::{Bonds, OVER, Upper};
use crate::pool::{Packet, Pool};
use crate::run::Scenario;

/// [`Event::at`] of an endpoint's timer.
const TIMER: u32 = u32::MAX;
/// [`Event::at`] of a flow's start.
const START: u32 = u32::MAX - 1;
/// [`Event::at`] of a bond's timer; [`Event::way`] says which end's.
pub(crate) const BOND: u32 = u32::MAX - 2;
/// Source port of the first flow, for hash policies; each further flow has the next one. As Linux counts up from here.
const FIRST_PORT: u16 = 32_768;
/// Destination port of all flows: iperf3's.
const SERVER_PORT: u16 = 5_201;
/// More events than this at one instant are looked into: see [`events_at_once_max`].
const EVENTS_AT_ONCE: u64 = 1 << 24;
/// Stamps for the reordering meter are in units of 2^20 ps, about 1 us: they wrap after 75 minutes.
const STAMP_SHIFT: u32 = 20;

/// Something happens: a packet arrives at a node, or an endpoint wakes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    /// Number in the pool.
    pub(crate) packet: u32,
    /// Twice the flow's index; plus one on the way back.
    pub(crate) way: u32,
    /// The node, [`TIMER`], [`START`] or [`BOND`]; with [`OVER`], a wire that is in a bond.
    pub(crate) at: u32,
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) link: Link,
    /// [`Event::at`] of what arrives by it: the node that it leads to, or, in a bond, itself.
    pub(crate) arrives: u32,
}

/// What the network needs to know of a flow's packets in one direction.
#[derive(Debug)]
struct Way {
    forwarding: Forwarding,
    /// Index of the wire that they start on.
    wire: u32,
    /// Size of each on the link.
    bytes: u32,
}

/// Both ends of a flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) meter: Meter,
    /// When the timer events of the sender and of the receiver fire that are in the calendar.
    armed: [Time; 2],
}

/// What a flow of UDP has instead of sender and receiver.
#[derive(Debug)]
pub(crate) enum Udp {
    /// As fast as it goes.
    Bulk { sender: udp::Sender, receiver: udp::Receiver },
    /// At an even pace.
    Paced { sender: paced::Sender, receiver: paced::Receiver },
}

impl Udp {
    fn new(scenario: &Scenario<'_>, start: Time) -> Self {
        let Some(rate) = scenario.rate_pps else {
            return Self::Bulk { sender: udp::Sender::new(udp::FRAGMENTS), receiver: udp::Receiver::default() };
        };
        let measured = Time::ZERO + scenario.warm_up;
        let number = |time: Time| paced::first_after(rate, time.since(start));
        let numbers = number(measured)..number(measured + scenario.duration);
        Self::Paced { sender: paced::Sender::new(rate), receiver: paced::Receiver::new(rate, numbers) }
    }
}

/// A network and its flows at one moment. `PLAIN`: it has no bonds and carries TCP, and the compiler leaves out of the loop what
/// others need, which takes a tenth of the time.
pub(crate) struct Engine<'a, const PLAIN: bool> {
    scenario: &'a Scenario<'a>,
    pub(crate) calendar: Calendar<Event>,
    switches: Vec<Switch>,
    /// Index of each node's first wire: its ports' wires follow each other.
    first_wire: Vec<u32>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) bonds: Bonds,
    ways: Vec<Way>,
    flows: Vec<Flow>,
    /// By flow, in a run of UDP; else empty.
    udp: Vec<Udp>,
    pub(crate) packets: Pool,
    packet_hops: u64,
    /// How many events may happen at one instant.
    at_once_max: u64,
    /// When `packet_hops` reaches the number, the clock must have left the time behind.
    moved: (u64, Option<Time>),
    segment_bytes: u64,
    hosts: u32,
}

impl<'a, const PLAIN: bool> Engine<'a, PLAIN> {
    pub(crate) fn new(scenario: &'a Scenario<'a>) -> Self {
        let fabric = scenario.fabric;
        let (first_wire, mut wires) = wires(scenario);
        let mut bonds = Bonds::new(scenario, &first_wire, &mut wires);
        crate::faults::name_wires(scenario, &first_wire, &mut bonds, &mut wires);
        let mut engine = Self {
            scenario,
            calendar: Calendar::new(),
            switches: (fabric.topology.hosts..fabric.topology.nodes.len() as u32)
                .map(|id| Switch::new(NodeId(id), scenario.spread, scenario.routes, scenario.seed))
                .collect(),
            first_wire,
            wires,
            bonds,
            ways: Vec::with_capacity(2 * scenario.flows.len()),
            flows: Vec::with_capacity(scenario.flows.len()),
            udp: Vec::new(),
            packets: Pool::new(scenario.transport.kind == TransportKind::Sack),
            packet_hops: 0,
            at_once_max: events_at_once_max(scenario),
            moved: (0, None),
            segment_bytes: u64::from(scenario.transport.segment_bytes.max(1)),
            hosts: fabric.topology.hosts,
        };
        engine.add_flows();
        engine.start_bonds();
        engine
    }

    fn add_flows(&mut self) {
        let spec = self.scenario.transport;
        for (index, flow) in self.scenario.flows.iter().enumerate() {
            assert!(flow.from.0 < self.hosts && flow.to.0 < self.hosts, "flow {index} does not run between hosts");
            let data_bytes = spec.header_bytes.saturating_add(spec.segment_bytes.max(1));
            let ports = (FIRST_PORT.wrapping_add(index as u16), SERVER_PORT);
            // Fragments show no ports, so all messages between two hosts take one path and one member of a bond that hashes.
            let in_fragments = spec.kind == TransportKind::Udp && self.scenario.rate_pps.is_none();
            let ports_hash = if in_fragments { 0 } else { index as u64 };
            let [ahead, back] = match (spec.kind, self.scenario.rate_pps) {
                (TransportKind::Udp, None) => [Upper::Fragment; 2],
                (TransportKind::Udp, Some(_)) => [Upper::Udp(ports.0, ports.1), Upper::Udp(ports.1, ports.0)],
                _ => [Upper::Tcp(ports.0, ports.1), Upper::Tcp(ports.1, ports.0)],
            };
            self.bonds.add_way(self.scenario.fabric, (flow.from, flow.to), ahead, data_bytes);
            self.bonds.add_way(self.scenario.fabric, (flow.to, flow.from), back, spec.header_bytes);
            for (from, to, bytes) in [(flow.from, flow.to, data_bytes), (flow.to, flow.from, spec.header_bytes)] {
                let hash = FlowHash(mix(mix(u64::from(from.0) << 32 | u64::from(to.0)).wrapping_add(ports_hash)));
                let wire = self.first_wire[from.0 as usize];
                self.ways.push(Way { forwarding: Forwarding { to, hash }, wire, bytes });
            }
            self.flows.push(Flow {
                sender: Sender::new(spec),
                receiver: Receiver::new(spec),
                meter: Meter::new(),
                armed: [Time::NEVER; 2],
            });
            if spec.kind == TransportKind::Udp {
                self.udp.push(Udp::new(self.scenario, flow.start));
            }
            let start = flow.start + self.bonds.settling();
            self.calendar.push(start, Event { packet: 0, way: 2 * index as u32, at: START });
        }
    }

    /// Lets everything happen that lies before `end`.
    pub(crate) fn run_before(&mut self, end: Time) {
        let Some(last) = end.as_ps().checked_sub(1) else { return };
        while let Some((now, event)) = self.calendar.pop_until(Time::from_ps(last)) {
            if event.at >= BOND {
                self.wake(now, event);
                continue;
            }
            self.packet_hops += 1;
            if self.packet_hops >= self.moved.0 {
                self.check_that_time_moves(now);
            }
            self.arrive(now, event);
        }
    }

    /// A packet has come to a node, or over a bond's wire.
    #[inline]
    pub(crate) fn arrive(&mut self, now: Time, event: Event) {
        if event.at >= self.hosts {
            if !PLAIN && event.at >= OVER { self.arrive_over(now, event) } else { self.forward(now, event) }
        } else if event.way.is_multiple_of(2) {
            self.segment_arrives(now, event);
        } else {
            self.ack_arrives(now, event);
        }
    }

    /// Time stands still where a flow's whole way there and back takes none: without this, such a run would never end.
    #[cold]
    fn check_that_time_moves(&mut self, now: Time) {
        assert!(
            self.moved.1 != Some(now),
            "simulated time stands still at {now:?}: {} packets arrived at this instant; some flow crosses only links \
             without rate and delay",
            self.at_once_max
        );
        self.moved = (self.packet_hops + self.at_once_max, Some(now));
    }

    #[inline]
    fn forward(&mut self, now: Time, event: Event) {
        let way = &self.ways[event.way as usize];
        let switch = &mut self.switches[(event.at - self.hosts) as usize];
        let port = switch
            .forward(self.scenario.routes, way.forwarding)
            .expect("a checked fabric is connected: every switch has a next hop to every host");
        let wire = self.first_wire[event.at as usize] + u32::from(port.0);
        self.offer(now, wire, event.packet, event.way);
    }

    /// Offers a packet to a wire, or to the bond that has it: when it arrives, and over which wire; `None` if it was dropped.
    #[inline]
    fn offer(&mut self, now: Time, wire: u32, packet: u32, way: u32) -> Option<(Time, u32)> {
        match self.bonds.leaving(wire) {
            Some(bond) if !PLAIN => self.offer_to_bond(now, bond, packet, way),
            _ => self.put_on(now, wire, packet, way),
        }
    }

    /// Offers a packet to this very wire.
    #[inline]
    pub(crate) fn put_on(&mut self, now: Time, index: u32, packet: u32, way: u32) -> Option<(Time, u32)> {
        let wire = &mut self.wires[index as usize];
        match wire.link.offer(now, self.ways[way as usize].bytes) {
            Verdict::Arrives(time) => {
                self.calendar.push(time, Event { packet, way, at: wire.arrives });
                Some((time, index))
            }
            Verdict::Dropped => {
                self.packets.take(packet);
                None
            }
        }
    }

    pub(crate) fn push(&mut self, at: Time, event: Event) {
        self.calendar.push(at, event);
    }

    #[inline]
    fn segment_arrives(&mut self, now: Time, event: Event) {
        if !PLAIN && !self.udp.is_empty() {
            return self.fragment_arrives(now, event);
        }
        let Packet { number: seq, stamp } = self.packets.take(event.packet);
        let flow = &mut self.flows[event.way as usize / 2];
        let end = seq + self.segment_bytes;
        flow.meter.observe(seq as u32, end as u32, (stamp.as_ps() >> STAMP_SHIFT) as u32);
        flow.receiver.handle(now, receiver::Input::Data(Segment { seq, stamp }));
        self.poll_receiver(now, event.way);
    }

    /// A fragment of UDP has come to its host.
    fn fragment_arrives(&mut self, now: Time, event: Event) {
        let Packet { number, stamp } = self.packets.take(event.packet);
        let index = event.way as usize / 2;
        let first = number * self.segment_bytes;
        let behind = first + self.segment_bytes;
        self.flows[index].meter.observe(first as u32, behind as u32, (stamp.as_ps() >> STAMP_SHIFT) as u32);
        match &mut self.udp[index] {
            Udp::Bulk { receiver, .. } => receiver.receive(Fragment::of(number)),
            Udp::Paced { receiver, .. } => receiver.receive(now, number),
        }
    }

    #[inline]
    fn ack_arrives(&mut self, now: Time, event: Event) {
        let Packet { number: ack, stamp: echo } = self.packets.take(event.packet);
        let blocks = self.packets.blocks(event.packet);
        let flow = &mut self.flows[event.way as usize / 2];
        flow.sender.handle(now, sender::Input::Ack(Ack { ack, echo, blocks }));
        self.poll_sender(now, event.way - 1);
    }

    fn wake(&mut self, now: Time, event: Event) {
        if !PLAIN && event.at == BOND {
            return self.wake_bond(now, event.way as usize);
        }
        let side = event.way as usize % 2;
        let flow = &mut self.flows[event.way as usize / 2];
        if !PLAIN && let Some(udp) = self.udp.get_mut(event.way as usize / 2) {
            match udp {
                Udp::Bulk { sender, .. } => {
                    sender.handle(now, if event.at == START { udp::Input::Start } else { udp::Input::Left });
                    return self.poll_udp(now, event.way);
                }
                Udp::Paced { sender, .. } => {
                    sender.handle(now, paced::Input::Start);
                    return self.poll_paced(now, event.way);
                }
            }
        }
        if event.at == START {
            flow.sender.handle(now, sender::Input::Start);
        } else if flow.armed[side] != now {
            // An earlier one was armed in its place.
            return;
        } else {
            flow.armed[side] = Time::NEVER;
            if side == 0 {
                flow.sender.handle(now, sender::Input::Tick);
            } else {
                flow.receiver.handle(now, receiver::Input::Tick);
            }
        }
        if side == 0 {
            self.poll_sender(now, event.way);
        } else {
            self.poll_receiver(now, event.way - 1);
        }
    }

    #[inline]
    fn poll_sender(&mut self, now: Time, way: u32) {
        loop {
            match self.flows[way as usize / 2].sender.poll(now) {
                Step::Do(Segment { seq, stamp }) => {
                    let packet = self.packets.put(Packet { number: seq, stamp }, &transport::segment::Blocks::NONE);
                    self.offer(now, self.ways[way as usize].wire, packet, way);
                }
                Step::Wait(until) => return self.arm(until, way),
            }
        }
    }

    /// Lets a flow of UDP write what its socket buffer has room for. A fragment's room is free when it has left the host.
    fn poll_udp(&mut self, now: Time, way: u32) {
        loop {
            let Udp::Bulk { sender, .. } = &mut self.udp[way as usize / 2] else { return };
            let Step::Do(fragment) = sender.poll(now) else { return };
            let number = Packet { number: fragment.number(), stamp: now };
            let packet = self.packets.put(number, &transport::segment::Blocks::NONE);
            let Way { wire, bytes, .. } = self.ways[way as usize];
            let left = if let Some((arrives, wire)) = self.offer(now, wire, packet, way) {
                now + arrives.since(now + self.wires[wire as usize].link.spec().delay)
            } else {
                // What a full queue has dropped has left, too; a loop without end is kept from by the link's pace.
                let rate = self.wires[wire as usize].link.spec().rate_bps.unwrap_or(1_000_000_000);
                now + machine::Span::transmission(u64::from(bytes), rate)
            };
            self.calendar.push(left, Event { packet: 0, way, at: TIMER });
        }
    }

    /// Lets a flow of an even pace send what is due.
    fn poll_paced(&mut self, now: Time, way: u32) {
        loop {
            let Udp::Paced { sender, .. } = &mut self.udp[way as usize / 2] else { return };
            match sender.poll(now) {
                Step::Wait(until) => return self.calendar.push(until, Event { packet: 0, way, at: TIMER }),
                Step::Do(number) => {
                    let packet = Packet { number, stamp: now };
                    let packet = self.packets.put(packet, &transport::segment::Blocks::NONE);
                    self.offer(now, self.ways[way as usize].wire, packet, way);
                }
            }
        }
    }

    #[inline]
    fn poll_receiver(&mut self, now: Time, way: u32) {
        let back = way + 1;
        loop {
            match self.flows[way as usize / 2].receiver.poll(now) {
                Step::Do(Ack { ack, echo, blocks }) => {
                    let packet = self.packets.put(Packet { number: ack, stamp: echo }, &blocks);
                    self.offer(now, self.ways[back as usize].wire, packet, back);
                }
                Step::Wait(until) => return self.arm(until, back),
            }
        }
    }

    /// Sees to it that the endpoint wakes at `until` at the latest. A deadline that moves on costs nothing: the event
    /// that is armed already finds out when it fires.
    #[inline]
    fn arm(&mut self, until: Time, way: u32) {
        let armed = &mut self.flows[way as usize / 2].armed[way as usize % 2];
        if until < *armed {
            *armed = until;
            self.calendar.push(until, Event { packet: 0, way, at: TIMER });
        }
    }

    /// The flows, and in a run of UDP what each has in place of sender and receiver.
    pub(crate) fn flows(&mut self) -> (&mut [Flow], &[Udp]) {
        (&mut self.flows, &self.udp)
    }

    /// The wire of each link and direction: forward, then backward.
    pub(crate) fn wire(&mut self, link: LinkId, side: Side) -> &mut Wire {
        let index = self.wire_of(link, side);
        &mut self.wires[index as usize]
    }

    /// Index of the wire of a link that leaves this side.
    pub(crate) fn wire_of(&self, link: LinkId, side: Side) -> u32 {
        let end = self.scenario.fabric.topology.links[link].end(side);
        self.first_wire[end.node.0 as usize] + u32::from(end.port.0)
    }

    pub(crate) const fn fabric(&self) -> &'a fabric::Fabric {
        self.scenario.fabric
    }

    pub(crate) const fn packet_hops(&self) -> u64 {
        self.packet_hops
    }

    #[cfg(test)]
    pub(crate) const fn in_flight(&self) -> u32 {
        self.packets.used()
    }
}

/// More arrivals at one instant than any network makes whose time moves: every window of every flow, its ACKs, over each
/// hop of a long way. Small networks may have [`EVENTS_AT_ONCE`], which take about a second.
fn events_at_once_max(scenario: &Scenario<'_>) -> u64 {
    let under_way = 2 * (scenario.flows.len() as u64).saturating_mul(u64::from(scenario.transport.window) + 1);
    let hops = scenario.fabric.topology.nodes.len().min(64) as u64;
    under_way.saturating_mul(2 * hops).max(EVENTS_AT_ONCE)
}

/// All wires in the order of the nodes that they leave from and of their ports, and where each node's begin.
fn wires(scenario: &Scenario<'_>) -> (Vec<u32>, Vec<Wire>) {
    let fabric = scenario.fabric;
    let mut first_wire = Vec::with_capacity(fabric.topology.nodes.len());
    let mut wires = Vec::with_capacity(2 * fabric.topology.links.len());
    for node in &fabric.topology.nodes {
        first_wire.push(wires.len() as u32);
        for &(link, side) in &node.ports {
            let link = &fabric.topology.links[link];
            let arrives = link.end(side.other()).node.0;
            wires.push(Wire { link: Link::new(link.spec), arrives });
        }
    }
    (first_wire, wires)
}

#[cfg(test)]
#[path = "../tests/network/mod.rs"]
mod network;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowSpec;
    use link::LinkSpec;
    use machine::Span;
    use proptest::prelude::*;
    use topology::Routes;
    use transport::TransportSpec;
    use vswitch::Spread;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        /// Four hosts send to four others over one link, and nothing is lost but what the counters say.
        #[test]
        fn what_is_sent_arrives_or_is_dropped_or_is_under_way(
            queue in 0_u32..30, window in 1_u32..60, kind in 0_usize..3, us in 1_u64..40_000, delayed in any::<bool>(),
        ) {
            let kind = [TransportKind::Reno, TransportKind::NewReno, TransportKind::Sack][kind];
            let spec = LinkSpec { queue_packets: Some(queue), ..network::GIGABIT };
            let (left, right) = (8, 9);
            let mut links: Vec<_> = (0..8).map(|host| (host, if host < 4 { left } else { right }, spec)).collect();
            links.push((left, right, spec));
            let fabric = network::network(8, 2, &links);
            let routes = Routes::compute(&fabric.topology);
            let delayed_ack = delayed.then_some(Span::from_ms(1));
            let transport = TransportSpec { kind, delayed_ack, rto_min: Span::from_ms(2), ..network::reno(window) };
            let flows: Vec<_> = (0..4)
                .map(|n| FlowSpec { from: NodeId(n), to: NodeId(n + 4), start: Time::from_ns(u64::from(n) * 700) })
                .collect();
            let scenario = Scenario {
                fabric: &fabric, routes: &routes, spread: Spread::Single, transport: &transport, flows: &flows,
                warm_up: Span::ZERO, duration: Span::ZERO, rate_pps: None, faults: &[], seed: 1,
            };
            let mut engine = Engine::<true>::new(&scenario);
            engine.run_before(Time::ZERO + Span::from_us(us));
            let accepted: u64 = engine.wires.iter().map(|wire| wire.link.counters().packets).sum();
            let in_flight = u64::from(engine.in_flight());
            prop_assert_eq!(engine.packet_hops() + in_flight, accepted);
            let (mut sent, mut arrived) = (0, 0);
            for flow in engine.flows().0 {
                let counters = flow.sender.counters();
                sent += counters.segments;
                arrived += flow.meter.counters().segments;
                prop_assert!(flow.receiver.delivered_bytes() / 1_000 <= flow.meter.counters().segments);
                prop_assert!(flow.sender.unacknowledged() <= flow.receiver.delivered_bytes());
                prop_assert!(flow.sender.flight() <= u64::from(window) * 1_000);
            }
            // Data flows from left to right only: over the first four links and the last one to B, else to A.
            let dropped: u64 = (0..9)
                .map(|n| engine.wire(LinkId(n), if (4..8).contains(&n) { Side::B } else { Side::A }).link.counters().drops)
                .sum();
            let under_way = sent - arrived - dropped;
            prop_assert!(under_way <= in_flight, "sent {sent}, arrived {arrived}, dropped {dropped}, in flight {in_flight}");
        }
    }
}
