//! Simulated hosts, and the event loop.

use std::ops::Range;
use std::sync::Arc;

use datapath::{Driver as _, Graph, Tables, Timer};
use fabric::LinkFault;
use link::Link;
use machine::{Control, Span, Step, Time, mix};
use topology::{BondEndId, LinkId, NetPort, NodeId, PortId, Rerouting, Routes, Side};
use transport::credit;
use transport::{Ack, Offer, ReceiveWindow, Segment, TransportKind, receiver, sender};
use vswitch::Forwarding;
use vswitch::spread::FlowHash;

use crate::cores::Cores;
use crate::functions::Functions;
use crate::headers::{FIRST_PORT, Header, Headers, SERVER_PORT, Upper};
use crate::joining::Joining;
use crate::latency::HostLatency;
use crate::medium::{
    BALANCERS, BOND, BRIDGE, Event, FUNCTION, HOST, Medium, Packet, REQUESTS, START, SWITCH, TIMER, WATCHES,
};
use crate::neighbours::Neighbours;
use crate::pool::{Content, Pool};
use crate::requests::Requests;
use crate::transfers::Transfers;
use crate::udp::{Udp, udp_window};
use crate::{BondOutcome, FlowSpec, LinkOutcome, Scenario};

mod captures;
mod connections;
mod cores;
mod datagrams;
mod flow;
mod functions;
mod neighbours;
mod requests;

pub(crate) use flow::Flow;

/// More events than this at one instant are looked into: see [`events_at_once_max`].
const EVENTS_AT_ONCE: u64 = 1 << 24;
/// Stamps for the reordering meter are in units of 2^20 ps, about 1 us: they wrap after 75 minutes.
const STAMP_SHIFT: u32 = 20;
/// LACP's machines take 1.1 s at most where nothing is lost.
const LACP_CONVERGES: Span = Span::from_secs(2);
/// How long ports of switches take to agree who forwards.
const RSTP_CONVERGES: Span = Span::from_secs(1);

/// One direction of a flow.
#[derive(Debug)]
struct FlowDirection {
    /// The header of its packets.
    header: u32,
    /// The port of the host that sends.
    port: NetPort,
    from: NodeId,
    to: NodeId,
    /// Whether the sender has yet to ask for the receiver's address.
    is_unresolved: bool,
    /// Of a direction back, where switches have pipelines: whether a host has had the first packet, and answers.
    is_accepted: bool,
}

/// A network and its flows at one moment.
pub(crate) struct Engine<'a> {
    scenario: &'a Scenario<'a>,
    tables: Tables,
    graph: Graph<Packet>,
    medium: Medium,
    neighbours: Neighbours,
    directions: Vec<FlowDirection>,
    flows: Vec<Flow>,
    /// By flow, in a run of UDP; else empty.
    udp: Vec<Udp>,
    /// Where connections come and go. Flows are connections then.
    transfers: Option<Transfers>,
    /// Clients and servers of a service, and when the event is due by which they wake.
    requests: Option<Requests<'a>>,
    requests_armed: Time,
    /// It is a run of UDP, or of connections that come and go.
    is_special: bool,
    /// A segment that begins here or later is shorter than others: the last of a transfer, or a part of a handshake.
    whole_before: u64,
    /// How many fragments a host has had of another one, modulo 2^32: `[to][from]` among the hosts.
    heard: Vec<Vec<u32>>,
    packet_hops: u64,
    /// How many events may happen at one instant.
    at_once_max: u64,
    /// Of hosts with Linux: how long they take.
    latency: Option<HostLatency>,
    /// What hosts with Linux join, where several segments may come at one instant.
    joining: Option<Joining>,
    /// Where hosts cost something: what they run on.
    cores: Option<Cores>,
    /// Of service chains.
    functions: Functions,
    /// Whether packets may come to hosts that they are not for, or with other addresses than they were sent with.
    is_rewritten: bool,
    /// When `packet_hops` reaches the number, the clock must have left the time behind.
    moved: (u64, Option<Time>),
    segment_bytes: u64,
}

impl<'a> Engine<'a> {
    /// What passes these ports is captured.
    pub(crate) fn new(scenario: &'a Scenario<'a>, captured: &[(LinkId, Side)]) -> Self {
        let fabric = scenario.fabric;
        let topology = &fabric.topology;
        let tables = fabric.tables(scenario.pipelines.clone(), scenario.seed);
        let (routes, randomness) = (Arc::clone(scenario.routes), (scenario.spread, scenario.seed.into()));
        let kind = scenario.transport.kind;
        let notifies = kind == TransportKind::Linux && scenario.transport.linux.asks_for_ecn();
        let is_tuned = scenario.transport.window == ReceiveWindow::Auto;
        let packets = Pool::new(matches!(kind, TransportKind::Sack | TransportKind::Linux), notifies, is_tuned);
        let functions = Functions::of(scenario, &tables.map);
        let is_rewritten = !tables.pipelines.is_empty() || tables.steering.rewrites() || !tables.services.is_empty();
        let mut engine = Self {
            graph: Graph::new(Time::ZERO, topology, &tables, routes, randomness),
            tables,
            scenario,
            medium: Medium::new(Headers::new(fabric, scenario.pipelines, !captured.is_empty()), packets),
            neighbours: Neighbours::default(),
            directions: Vec::with_capacity(2 * scenario.flows.len()),
            flows: Vec::with_capacity(scenario.flows.len()),
            udp: Vec::new(),
            transfers: None,
            requests: None,
            requests_armed: Time::NEVER,
            is_special: kind == TransportKind::Udp || scenario.transfers.is_some(),
            whole_before: Segment::SYN_ANSWERED,
            heard: Vec::new(),
            packet_hops: 0,
            at_once_max: events_at_once_max(scenario),
            latency: HostLatency::of(scenario),
            joining: Joining::of(scenario),
            cores: scenario.hosts.map(Cores::new),
            functions,
            is_rewritten,
            moved: (0, None),
            segment_bytes: u64::from(scenario.transport.segment_bytes.max(1)),
        };
        engine.capture(captured);
        engine.add_flows();
        engine.graph.start(engine.tables.at(Time::ZERO), &mut engine.medium);
        engine
    }

    fn add_flows(&mut self) {
        let spec = self.scenario.transport;
        let convergence = self.convergence();
        self.expect_requests(Time::ZERO + convergence);
        if let Some(transfers) = Transfers::of(self.scenario) {
            return self.expect_transfers(Time::ZERO + convergence, transfers);
        }
        let window = udp_window(self.scenario);
        if spec.kind == TransportKind::Udp && self.scenario.rate_pps.is_none() {
            self.heard = vec![Vec::new(); self.scenario.fabric.topology.hosts as usize];
        }
        for (index, flow) in self.scenario.flows.iter().enumerate() {
            self.add_flow(flow, index as u64);
            if spec.kind == TransportKind::Udp {
                self.udp.push(Udp::new(self.scenario, flow.start, window));
            }
            let start = flow.start + convergence;
            self.medium.calendar.push(start, Event { packet: 0, header: 2 * index as u32, at: START });
        }
    }

    /// Both ends of a flow, and its two directions. `number`: what tells its ports from others'.
    fn add_flow(&mut self, flow: &FlowSpec, number: u64) {
        let spec = self.scenario.transport;
        let topology = &self.scenario.fabric.topology;
        let addresses = [flow.from, flow.to].map(|host| topology.address(host));
        let [Some(from), Some(to)] = addresses else { panic!("{flow:?} does not run between hosts") };
        let data_bytes = spec.header_bytes.saturating_add(spec.segment_bytes.max(1));
        let ports = (FIRST_PORT.wrapping_add(number as u16), SERVER_PORT);
        // Fragments show no ports, so all messages between two hosts take one path and one member of a bond that hashes.
        let in_fragments = spec.kind == TransportKind::Udp && self.scenario.rate_pps.is_none();
        let ports_hash = if in_fragments { 0 } else { number };
        let [ahead, back] = match (spec.kind, self.scenario.rate_pps) {
            (TransportKind::Udp, None) => [Upper::Fragment; 2],
            (TransportKind::Udp, Some(_)) => [Upper::Udp(ports.0, ports.1), Upper::Udp(ports.1, ports.0)],
            _ => [Upper::Tcp(ports.0, ports.1), Upper::Tcp(ports.1, ports.0)],
        };
        if in_fragments {
            self.heard[flow.to.0 as usize].resize(topology.hosts as usize, 0);
        }
        let back_bytes = if in_fragments { credit::CREDIT_BYTES } else { spec.header_bytes };
        let directions = [
            ((flow.from, from), (flow.to, to), ahead, data_bytes),
            ((flow.to, to), (flow.from, from), back, back_bytes),
        ];
        for ((from, from_address), (to, to_address), upper, bytes) in directions {
            let hash = hash_of((from, to), ports_hash);
            let header = Header { forwarding: Forwarding { to, hash }, bytes, direction: self.directions.len() as u32 };
            self.directions.push(FlowDirection {
                header: self.medium.headers.add(header, (from_address, to_address), upper),
                port: self.tables.map.port(from, PortId(0)),
                from,
                to,
                is_unresolved: self.tables.host_table.answers_itself(to),
                is_accepted: false,
            });
        }
        self.flows.push(Flow::new(spec, mix(self.scenario.seed ^ mix(number + 1))));
    }

    /// How long ends of bonds take to find each other, before anybody sends.
    pub(crate) fn convergence(&self) -> Span {
        let mut ends = self.graph.ends.iter().flatten().filter_map(|end| end.bonded());
        let bonds = if ends.any(|end| end.lacp().is_some()) { LACP_CONVERGES } else { Span::ZERO };
        let bridges = if self.graph.bridges.is_empty() { Span::ZERO } else { RSTP_CONVERGES };
        bonds.max(bridges)
    }

    /// Lets everything happen that lies before `end`.
    pub(crate) fn run_before(&mut self, end: Time) {
        let Some(last) = end.as_ps().checked_sub(1) else { return };
        while let Some((now, event)) = self.next_event(Time::from_ps(last)) {
            if event.at >= HOST {
                self.handle_other(now, event);
                continue;
            }
            self.packet_hops += 1;
            if self.packet_hops >= self.moved.0 {
                self.check_that_time_moves(now);
            }
            let (port, packet) = (NetPort(event.at), Packet { id: event.packet, header: event.header });
            if self.tables.map.is_hosts_own(port) {
                self.receive(now, port, packet);
            } else {
                self.graph.arrive(self.tables.at(now), &mut self.medium, port, packet);
                self.receive_delivered(now);
            }
        }
    }

    /// Something happens that is no packet at the end of a link.
    fn handle_other(&mut self, now: Time, event: Event) {
        if event.at < SWITCH {
            if event.at & FUNCTION == 0 {
                return self.core_done(now, event);
            }
            let packet = Packet { id: event.packet, header: event.header };
            return self.leave_function(now, NetPort(event.at & !(HOST | FUNCTION)), packet);
        }
        if event.at == REQUESTS {
            return self.wake_requests(now);
        }
        self.end_joining();
        self.wake(now, event);
    }

    /// What happens next, up to `last`. What was joined is answered before, unless more may come at that instant: the answer may come to somebody before
    /// anything else happens.
    #[inline]
    fn next_event(&mut self, last: Time) -> Option<(Time, Event)> {
        if let Some(joined) = self.joining.as_ref().and_then(Joining::since)
            && self.medium.calendar.next_time() != Some(joined)
        {
            self.end_joining();
        }
        self.medium.calendar.pop_until(last)
    }

    /// Lets everything happen that lies in `part` of the time since measuring began, at `begin`, the faults among it.
    ///
    /// A fault is no event of the calendar: the run stops before its time, changes the links, and goes on.
    pub(crate) fn run_through_faults(&mut self, begin: Time, part: Range<Span>, faults: &[LinkFault]) {
        for fault in faults.iter().filter(|fault| part.contains(&fault.at)) {
            let now = begin + fault.at;
            self.run_before(now);
            for link in fault.links(self.scenario.fabric) {
                self.graph.set_carrier(self.tables.at(now), &mut self.medium, link, fault.up);
            }
            self.reroute();
        }
        self.run_before(begin + part.end);
    }

    /// Computes routes anew around links without carrier. That takes no time here.
    fn reroute(&mut self) {
        if self.tables.rerouting == Rerouting::Fixed {
            return;
        }
        let topology = &self.scenario.fabric.topology;
        let down: Vec<LinkId> = self.graph.links_unused(&self.tables, topology).collect();
        let routes = match down.as_slice() {
            [] => Arc::clone(self.scenario.routes),
            down => Arc::new(Routes::without(topology, down)),
        };
        self.graph.reroute(routes);
    }

    /// Time stands still where a flow's whole round trip takes none: without this, such a run would never end.
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

    /// Hands hosts what has come to them through bonds.
    #[inline]
    fn receive_delivered(&mut self, now: Time) {
        if !self.medium.delivered.is_empty() {
            self.receive_all(now);
        }
        if std::mem::take(&mut self.medium.has_new_ports) {
            self.reroute();
        }
    }

    #[cold]
    fn receive_all(&mut self, now: Time) {
        let mut delivered = std::mem::take(&mut self.medium.delivered);
        for (port, packet) in delivered.drain(..) {
            self.receive(now, port, packet);
        }
        self.medium.delivered = delivered;
    }

    /// A packet has come to a host.
    #[expect(clippy::inline_always, reason = "it is called from two places, one of which is most of what happens")]
    #[inline(always)]
    fn receive(&mut self, now: Time, port: NetPort, packet: Packet) {
        if port >= self.functions.first_port {
            return self.come_to_function(now, port, packet);
        }
        if packet.is_frame() {
            return self.frame_arrives(now, port, packet);
        }
        if self.cores.is_some() {
            return self.receive_later(now, port, packet);
        }
        self.take_in(now, port, packet);
    }

    /// A host takes in a packet that has come.
    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    fn take_in(&mut self, now: Time, port: NetPort, packet: Packet) {
        if self.is_rewritten && !self.accepts(port, packet) {
            return self.medium.free(packet);
        }
        let direction = self.medium.headers.get(packet.header).direction;
        if direction.is_multiple_of(2) {
            self.segment_arrives(now, direction, packet.id);
        } else {
            self.ack_arrives(now, direction, packet.id);
        }
    }

    /// Whether a flow's packet that has come to a host is for it: switches with pipelines, and functions of chains, may send it anywhere, and translate its addresses. Any host
    /// takes what is sent to it from the beginning of a flow on, and who has begun a flow takes what answers it.
    #[cold]
    fn accepts(&mut self, port: NetPort, packet: Packet) -> bool {
        let host = self.tables.map.node(port);
        let headers = &self.medium.headers;
        let is_addressed = self.tables.host_table.by_mac(headers.destination(packet.header)) == Some(host)
            && self.scenario.fabric.topology.address(host).is_some_and(|own| headers.is_to(packet.header, own));
        let direction = headers.get(packet.header).direction;
        let back = direction ^ 1;
        if is_addressed && direction.is_multiple_of(2) && !self.directions[back as usize].is_accepted {
            self.begin_to_answer(host, back, packet.header);
        }
        let back = &self.directions[back as usize];
        is_addressed && back.from == host && self.medium.headers.answers(packet.header, back.header)
    }

    /// The first packet of a flow has come to a host, which answers it `back` from here on.
    fn begin_to_answer(&mut self, host: NodeId, back: u32, header: u32) {
        let headers = &mut self.medium.headers;
        let direction = &mut self.directions[back as usize];
        if headers.answers(header, direction.header) {
            direction.is_accepted = true;
            return;
        }
        // To the host that has the address, as a kernel would that asks for it; not to whom the frame has as its sender.
        let to = self.tables.host_table.by_ipv4(headers.src_ipv4(header));
        let topology = &self.scenario.fabric.topology;
        let addresses = to.and_then(|to| Some((to, topology.address(host)?.mac, topology.address(to)?.mac)));
        let Some((to, src, dst)) = addresses else { return };
        direction.header = headers.add_answer(header, direction.header, (to, src, dst));
        direction.port = self.tables.map.port(host, PortId(0));
        (direction.from, direction.to) = (host, to);
        direction.is_unresolved = self.tables.host_table.answers_itself(to);
        direction.is_accepted = true;
    }

    /// A host sends a packet of a flow.
    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    fn send(&mut self, now: Time, direction: u32, id: u32) {
        let header = self.header(now, direction);
        self.depart(now, direction, Packet { id, header });
    }

    /// A host sends a packet that is shorter than others: headers only, or the end of a transfer.
    #[cold]
    fn send_short(&mut self, now: Time, direction: u32, id: u32, bytes: u32) {
        let header = self.header(now, direction);
        let header = self.medium.headers.with_bytes(header, bytes);
        self.depart(now, direction, Packet { id, header });
    }

    /// The header of what a host sends of a flow, once it knows where that goes.
    #[inline]
    fn header(&mut self, now: Time, direction: u32) -> u32 {
        if self.directions[direction as usize].is_unresolved {
            self.resolve(now, direction);
        }
        self.directions[direction as usize].header
    }

    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    fn depart(&mut self, now: Time, direction: u32, packet: Packet) {
        let port = self.directions[direction as usize].port;
        if self.cores.is_some() {
            return self.send_later(now, direction, port, packet);
        }
        self.leave(now, port, packet);
    }

    /// A packet leaves its host.
    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    fn leave(&mut self, now: Time, port: NetPort, packet: Packet) {
        let now = match &mut self.latency {
            None => now,
            Some(latency) => latency.departure(now, port),
        };
        self.graph.depart(self.tables.at(now), &mut self.medium, port, packet);
    }

    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    fn segment_arrives(&mut self, now: Time, direction: u32, id: u32) {
        if self.is_special {
            return self.special_segment_arrives(now, direction, id);
        }
        let packets = &mut self.medium.packets;
        let segment = packets.take(id).segment(packets.ecn(id), packets.offer(id).stamp);
        let flow = &mut self.flows[direction as usize / 2];
        let Segment { seq, stamp, .. } = segment;
        if segment.carries_data() {
            let end = seq + self.segment_bytes;
            flow.meter.observe(seq as u32, end as u32, (stamp.as_ps() >> STAMP_SHIFT) as u32);
            flow.delays.record(now.since(stamp));
        }
        if self.joining.is_some() {
            return self.join(now, direction, segment);
        }
        flow.receiver.handle(now, receiver::Input::Data(segment));
        self.poll_receiver(now, direction);
    }

    /// Something of UDP, or of a transfer, has come to its host.
    #[inline(never)]
    fn special_segment_arrives(&mut self, now: Time, direction: u32, id: u32) {
        if self.transfers.is_some() {
            self.transferred_segment_arrives(now, direction, id);
        } else {
            self.fragment_arrives(now, direction, id);
        }
    }

    /// The same for what comes back.
    #[inline(never)]
    fn special_ack_arrives(&mut self, now: Time, direction: u32, id: u32) {
        if self.transfers.is_some() {
            self.transfers_ack_arrives(now, direction, id);
        } else {
            self.credit_arrives(now, direction - 1, id);
        }
    }

    /// A segment has come to a host that joins what comes at one instant: it answers when all of that is there.
    #[inline(never)]
    fn join(&mut self, now: Time, direction: u32, segment: Segment) {
        let Some(joining) = &mut self.joining else { return };
        let is_joined = joining.continues(now, direction, &segment);
        if !is_joined {
            self.end_joining();
        }
        let receiver = &mut self.flows[direction as usize / 2].receiver;
        if is_joined {
            receiver.handle(now, receiver::Input::Joined(segment));
        } else {
            receiver.handle(now, receiver::Input::Data(segment));
        }
        if !self.joining.as_mut().is_some_and(|joining| joining.note(now, direction, &segment)) {
            self.poll_receiver(now, direction);
        }
    }

    /// What has been joined is all that comes together.
    #[inline(never)]
    fn end_joining(&mut self) {
        if let Some((now, direction)) = self.joining.as_mut().and_then(Joining::end) {
            self.poll_receiver(now, direction);
        }
    }

    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    fn ack_arrives(&mut self, now: Time, direction: u32, id: u32) {
        if self.is_special {
            return self.special_ack_arrives(now, direction, id);
        }
        let Content { number: ack, stamp: echo } = self.medium.packets.take(id);
        let blocks = self.medium.packets.blocks(id);
        let flow = &mut self.flows[direction as usize / 2];
        let (ecn, offer) = (self.medium.packets.ecn(id), self.medium.packets.offer(id));
        flow.sender.handle(now, sender::Input::Ack(Ack { ack, echo, blocks, ecn, offer }));
        self.poll_sender(now, direction - 1);
    }

    fn wake(&mut self, now: Time, event: Event) {
        let timer = match event.at {
            BOND => Some(Timer::End(BondEndId(event.header))),
            SWITCH if event.header == WATCHES => Some(Timer::Chains),
            SWITCH if event.header == BALANCERS => Some(Timer::Balancers),
            SWITCH if event.header & BRIDGE != 0 => Some(Timer::Bridge(event.header & !BRIDGE)),
            SWITCH => Some(Timer::Switch(event.header)),
            _ => None,
        };
        if let Some(timer) = timer {
            self.graph.wake(self.tables.at(now), &mut self.medium, timer);
            return self.receive_delivered(now);
        }
        let direction = event.header;
        let side = direction as usize % 2;
        if !self.udp.is_empty() {
            return self.wake_udp(now, direction, event.at == START);
        }
        if event.at == START && self.transfers.is_some() {
            return self.begin_transfer(now, direction);
        }
        let flow = &mut self.flows[direction as usize / 2];
        if event.at == START {
            flow.sender.handle(now, sender::Input::Connect);
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
            self.poll_sender(now, direction);
        } else {
            self.poll_receiver(now, direction - 1);
        }
    }

    #[inline]
    fn poll_sender(&mut self, now: Time, direction: u32) {
        loop {
            if let Some(until) = self.held_until(now, direction) {
                return self.arm(until, direction);
            }
            match self.flows[direction as usize / 2].sender.poll(now) {
                Step::Do(segment) => {
                    let id = self.medium.packets.put(Content::of_segment(segment), None, segment.ecn);
                    self.medium.packets.set_offer(id, Offer { stamp: segment.echo, ..Offer::NONE });
                    if segment.seq < self.whole_before {
                        self.send(now, direction, id);
                    } else {
                        self.send_short(now, direction, id, self.short_bytes(direction, segment));
                    }
                }
                Step::Wait(until) => return self.arm(until, direction),
            }
        }
    }

    /// The length of a packet that is shorter than others.
    #[cold]
    fn short_bytes(&self, direction: u32, segment: Segment) -> u32 {
        let last = self.transfers.as_ref().filter(|_| segment.carries_data());
        last.map_or(self.scenario.transport.header_bytes, |transfers| {
            transfers.packet_bytes(direction as usize / 2, segment.seq)
        })
    }

    #[inline]
    fn poll_receiver(&mut self, now: Time, direction: u32) {
        let back = direction + 1;
        loop {
            match self.flows[direction as usize / 2].receiver.poll(now) {
                Step::Do(Ack { ack, echo, blocks, ecn, offer }) => {
                    let id = self.medium.packets.put(Content { number: ack, stamp: echo }, Some(&blocks), ecn);
                    self.medium.packets.set_offer(id, offer);
                    self.send(now, back, id);
                }
                Step::Wait(until) => return self.arm(until, back),
            }
        }
    }

    /// Sees to it that the endpoint wakes at `until` at the latest. A deadline that moves on costs nothing: the event
    /// that is armed already finds out when it fires.
    #[inline]
    fn arm(&mut self, until: Time, direction: u32) {
        let armed = &mut self.flows[direction as usize / 2].armed[direction as usize % 2];
        if until < *armed {
            *armed = until;
            self.medium.calendar.push(until, Event { packet: 0, header: direction, at: TIMER });
        }
    }

    /// The flows, and in a run of UDP what each has in place of sender and receiver.
    pub(crate) fn flows(&mut self) -> (&mut [Flow], &[Udp]) {
        (&mut self.flows, &self.udp)
    }

    /// The direction of a link that leaves its end on this side.
    pub(crate) fn link(&mut self, link: LinkId, side: Side) -> &mut Link {
        let [a, b] = self.tables.map.ends(link);
        let port = if side == Side::A { a } else { b };
        self.graph.egress[port].link_mut().expect("a simulation has the whole network")
    }

    /// What the ends of bonds have done so far, in the order of the fabric.
    pub(crate) fn bonds(&self) -> Vec<BondOutcome> {
        self.graph.ends.iter().flatten().map(|end| end.bonded().map(BondOutcome::of).unwrap_or_default()).collect()
    }

    /// What a direction of a link has done since measuring began.
    pub(crate) fn link_counters(&mut self, link: LinkId, now: Time) -> LinkOutcome {
        let [forward, backward] = [Side::A, Side::B].map(|side| self.link(link, side).counters(now));
        LinkOutcome { forward, backward }
    }

    pub(crate) const fn packet_hops(&self) -> u64 {
        self.packet_hops
    }

    #[cfg(test)]
    pub(crate) const fn in_flight(&self) -> u32 {
        self.medium.packets.used()
    }
}

/// What spreads the packets of a flow, by its hosts and a number in place of its ports.
fn hash_of((from, to): (NodeId, NodeId), number: u64) -> FlowHash {
    FlowHash(mix(mix(u64::from(from.0) << 32 | u64::from(to.0)).wrapping_add(number)))
}

/// More arrivals at one instant than any network makes whose time moves: every window of every flow, its ACKs, over each
/// hop of a long path. Small networks may have [`EVENTS_AT_ONCE`], which take about a second.
fn events_at_once_max(scenario: &Scenario<'_>) -> u64 {
    let under_way =
        2 * (scenario.flows.len() as u64).saturating_mul(u64::from(transport::window(scenario.transport)) + 1);
    let hops = scenario.fabric.topology.nodes.len().min(64) as u64;
    under_way.saturating_mul(2 * hops).max(EVENTS_AT_ONCE)
}

#[cfg(test)]
#[path = "../tests/network/mod.rs"]
mod network;

#[cfg(test)]
mod tests;
