//! A worker's side of the graph: frames and their buffers, what is due later, hosts' ports, rings to other workers.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::TrySendError;

use bond::end::{Output, Received};
use bond::{Config, End, Framed as _, MemberId, Summary, Transmit};
use datapath::{Driver, Loss, OffloadOutcome, OffloadedFlow, Owner, Tag, Timer};
use fabric::Fabric;
use link::Retiming;
use machine::{Time, nanos};
use rstp::PortState;
use topology::{BondEndId, NetPort, NodeId, TiVec};
use vswitch::{FLOOD, Field, Forwarding};
use wire::VirtioNetPacket;

use super::changeover::{self, Next, Peers};
use super::flight::{Due, Flight, Offered, Passage, Way};
use super::flows::{Flows, Passed};
use super::host_port::HostPort;
use super::leaving::Leaving;
use super::plan::{Plan, frame_limit};
use super::poller::{Poller, PortKey};
use super::pool::{Depot, Packet, Pool};
use super::renumbering::Renumbering;
use super::tap_points::TapPoint;
use crate::clock::Clock;
use crate::control::{Refusals, WorkerCounters};
use crate::device::Replacement;
use crate::kernel_path::FlowTable;
use crate::log_quota::LogQuota;
use crate::tap::{LARGEST_FRAME, VNET_HEADER, VNET_LAYOUT};

/// Memory for frames under way, bytes a worker.
const POOL_BYTES: usize = 256 << 20;

/// How many packets may be under way in a network whose links have rates or delays, at each worker. One link may have half of them.
pub const fn buffers(fabric: &Fabric) -> usize {
    POOL_BYTES / (frame_limit(fabric, true) + 1)
}

/// What one worker hands over to another.
#[derive(Debug)]
pub struct Handed {
    /// The epoch by whose numbers it is.
    pub epoch: u64,
    /// What it is.
    pub parcel: Parcel,
}

/// See [`Handed`].
#[derive(Debug)]
pub enum Parcel {
    /// A packet that goes on there.
    Passage(Passage),
    /// What has been handed over before on its way to this port arrives at other times.
    Retiming(NetPort, Retiming),
}

/// What a worker has besides its part of the graph, and gives back when it ends. Lists are indexed like the plan's; what only other workers have is
/// `None`.
#[derive(Debug, Default)]
pub struct EdgeState {
    /// By host.
    pub ports: Vec<Option<HostPort>>,
    /// What is due later: packets on the links that end here, timers of ends of bonds.
    pub flight: Flight,
    /// By switch and destination: how many frames it forwarded.
    pub forwarded: Vec<Box<[u64]>>,
    /// By end of a bond: what it may write into the log.
    pub quotas: TiVec<BondEndId, Option<LogQuota>>,
    /// Packets that have entered the fabric here.
    pub entered: u64,
    /// Flows that end here.
    pub flows: Flows,
    /// Frames that went nowhere.
    pub refused: Refusals,
    /// How the worker itself does.
    pub counters: WorkerCounters,
}

/// A worker's side of the graph.
#[derive(Debug)]
pub struct Edge {
    pub(super) id: usize,
    pub(super) plan: Arc<Plan>,
    pub(super) clock: Clock,
    pub(super) state: EdgeState,
    pub(super) pool: Pool,
    /// What is read when no buffer is free, so that it can be dropped; and what is to be cut.
    pub(super) spare: Vec<u8>,
    /// Ports with frames that wait for others to be handed to their host with them. Each is there once.
    waiting: Vec<PortKey>,
    /// What goes to hosts at the end of the burst, where links take no time.
    leaving: Leaving,
    /// What has been read at once.
    pub(super) read: Vec<Packet>,
    /// Of that, what goes on into the fabric.
    pub(super) entering: Vec<Packet>,
    /// Where captures look. Nearly always empty.
    pub(super) tap_points: Vec<TapPoint>,
    /// Connections that the kernel carries.
    pub(super) offloads: Option<Box<FlowTable>>,
    /// What the log says about functions of chains.
    pub(super) function_log: LogQuota,
    /// Whether the log says that packets under way crowd the pool. It says so once a network.
    is_crowded: bool,
    /// What the present network is counted as. All workers go over to the next one, but each by itself.
    pub(super) epoch: u64,
    pub(super) poller: Poller,
    peers: Peers,
    /// What packets wait for that go to another worker: that its ring has room for these. Nearly always empty.
    retimings: VecDeque<(usize, NetPort, Retiming)>,
}

impl Edge {
    /// The side of the worker number `id`, in this epoch.
    pub fn new(
        (id, epoch): (usize, u64),
        plan: Arc<Plan>,
        clock: Clock,
        mut state: EdgeState,
        depot: Depot,
        (poller, peers): (Poller, Peers),
    ) -> Self {
        // One byte more than a frame may have shows a frame that is too long.
        let pool = Pool::new(plan.frame_limit() + 1, POOL_BYTES, depot);
        state.flight.set_buffers(pool.buffers());
        Self {
            id,
            plan,
            clock,
            state,
            pool,
            spare: vec![0; VNET_HEADER + LARGEST_FRAME],
            waiting: Vec::new(),
            leaving: Leaving::default(),
            read: Vec::new(),
            entering: Vec::new(),
            tap_points: Vec::new(),
            offloads: None,
            function_log: LogQuota::default(),
            is_crowded: false,
            epoch,
            poller,
            peers,
            retimings: VecDeque::new(),
        }
    }

    /// Moves what it has into the place that is made for it in the next network, whose plan is the present one already.
    pub(super) fn take_over(&mut self, next: &mut Next, renumbering: &Renumbering) {
        let parts = &mut next.parts;
        for (was, is) in renumbering.attached.iter().enumerate().filter_map(|(was, is)| Some((was, (*is)?))) {
            // Where it neither reads the port nor hands frames to it any more, it leaves it behind.
            let has_it = self.plan.owner(is.into()) == self.id || parts.ports[is].is_some();
            if has_it && self.state.ports[was].is_some() {
                std::mem::swap(&mut self.state.ports[was], &mut parts.ports[is]);
            }
        }
        std::mem::swap(&mut self.state.ports, &mut parts.ports);
        for (number, row) in self.state.forwarded.iter_mut().enumerate().filter(|(_, row)| !row.is_empty()) {
            let switch = renumbering.switch((&next.plan, &self.plan), number);
            let Some(made) = switch.map(|switch| &mut parts.forwarded[switch]).filter(|made| !made.is_empty()) else {
                continue;
            };
            if renumbering.has_same_hosts {
                std::mem::swap(row, made);
                continue;
            }
            for (host, packets) in row.iter_mut().enumerate() {
                if let Some(host) = renumbering.host(host) {
                    made[host] += std::mem::take(packets);
                }
            }
        }
        std::mem::swap(&mut self.state.forwarded, &mut parts.forwarded);
        for (was, is) in renumbering.graph.ends.iter_enumerated().filter_map(|(was, is)| Some((was, (*is)?))) {
            std::mem::swap(&mut self.state.quotas[was], &mut parts.quotas[is]);
        }
        std::mem::swap(&mut self.state.quotas, &mut parts.quotas);
        for (host, device, mac) in next.plan.host_table().learned() {
            if let Some(host) = renumbering.graph.nodes[host].filter(|host| self.plan.owner(*host) == self.id) {
                self.plan.host_table().learn(host, device, mac);
            }
        }
        next.buffers = self.pool.refit(self.plan.frame_limit() + 1, next.depot.clone());
        self.state.flight.set_buffers(self.pool.buffers());
        self.is_crowded = false;
        std::mem::swap(&mut self.poller, &mut next.poller);
        std::mem::swap(&mut self.peers, &mut next.peers);
        self.retimings.clear();
        // Ports have other numbers. Whoever changes the network says anew where captures look.
        self.tap_points.clear();
    }

    /// Hands a packet over to the worker that has what it is to pass.
    #[cold]
    fn hand_to(&mut self, worker: usize, passage: Passage) {
        self.send_retimings();
        let is_behind = self.retimings.iter().any(|(other, ..)| *other == worker);
        let parcel = Parcel::Passage(passage);
        let sent = if is_behind { Err(parcel) } else { self.try_hand(worker, parcel) };
        match sent {
            Ok(()) => {
                self.pool.lent();
                self.peers.wakers[worker].wake();
            }
            Err(Parcel::Passage(passage)) => {
                self.state.refused.ring_full += 1;
                self.pool.put(passage.packet);
            }
            Err(Parcel::Retiming(..)) => {}
        }
    }

    fn try_hand(&self, worker: usize, parcel: Parcel) -> Result<(), Parcel> {
        let sent = self.peers.outboxes[worker].try_send(Handed { epoch: self.epoch, parcel });
        sent.map_err(|(TrySendError::Full(handed) | TrySendError::Disconnected(handed))| handed.parcel)
    }

    /// A packet passes its port later, unless its link has its share of the buffers.
    #[inline]
    pub(super) fn send_under_way(&mut self, passage: Passage) {
        match self.state.flight.offer(passage) {
            Offered::Added => {}
            Offered::Crowded(port, packets) => self.log_crowded(port, packets),
            Offered::Refused(packet) => {
                self.state.refused.buffer_share += 1;
                self.pool.put(packet);
            }
        }
    }

    #[cold]
    fn log_crowded(&mut self, port: NetPort, packets: u32) {
        if std::mem::replace(&mut self.is_crowded, true) {
            return;
        }
        let (map, nodes) = (self.plan.map(), &self.plan.fabric().topology.nodes);
        let [from, to] = [map.far(port), port].map(|port| &nodes[map.node(port)].name);
        tracing::warn!(
            "half of the {} buffers for packets under way are in use, {packets} of them from {from} to {to}: a link that has as many as are left over loses more \
             (`heddle show counters`); shorter delays and queues take fewer",
            self.pool.buffers()
        );
    }

    /// [`Edge::hand_to`] for a packet that another worker has by the present plan.
    pub(super) fn pass_on(&mut self, passage: Passage) {
        if let Some(worker) = changeover::owner(&self.plan, &passage) {
            self.hand_to(worker, passage);
        }
    }

    /// Tells a worker that what was handed over to it on its way to `port` arrives at other times.
    pub(super) fn retime(&mut self, worker: usize, port: NetPort, retiming: Retiming) {
        self.retimings.push_back((worker, port, retiming));
        self.send_retimings();
    }

    /// Sends what did not find room in the rings until now.
    #[inline]
    pub(super) fn send_retimings(&mut self) {
        for _ in 0..self.retimings.len() {
            let Some((worker, port, retiming)) = self.retimings.pop_front() else { return };
            match self.try_hand(worker, Parcel::Retiming(port, retiming)) {
                Ok(()) => self.peers.wakers[worker].wake(),
                Err(_) => self.retimings.push_back((worker, port, retiming)),
            }
        }
    }

    /// Counts what is handed to a host by its flow.
    fn watch(&mut self, due: Time, packet: &Packet) {
        if self.plan.is_shaped() {
            let late = self.clock.now().since(due);
            let counters = &mut self.state.counters;
            counters.delivered += 1;
            counters.late_total = counters.late_total + nanos::Span::from_ns(late.as_ns());
            counters.late_max = counters.late_max.max(late);
        }
        // The clock may have been set back meanwhile.
        let is_timed = self.plan.is_shaped() && packet.entered <= due;
        let took = is_timed.then(|| due.since(packet.entered));
        let passed = Passed { number: packet.number, took };
        if !self.state.flows.observe(due, packet.forwarding.hash, passed, packet.ethernet()) {
            self.state.refused.unwatched_flows += 1;
        }
    }

    /// Hands a frame to a host. Where frames are MTUs, those that come one right after the other are coalesced, as a network card would: one
    /// call and one walk through the host's TCP for all of them.
    #[inline]
    pub(super) fn hand_to_host(&mut self, key: PortKey, packet: Packet) {
        if !self.plan.is_shaped() {
            return self.leaving.push(key, packet);
        }
        let port =
            self.state.ports[key.host].as_mut().expect("what comes to a host is carried to a worker that has its port");
        if port.join(key.device, packet.bytes(), packet.tunnel) {
            self.waiting.push(key);
        }
        self.pool.put(packet);
    }

    /// Hands to hosts what has come to them in a burst.
    #[inline]
    pub(super) fn transmit(&mut self) {
        let mut before = 0;
        while let Some((key, frames)) = self.leaving.run(before) {
            before += frames.iter().len();
            let port = self.state.ports[key.host]
                .as_mut()
                .expect("what comes to a host is carried to a worker that has its port");
            if port.tx_burst(key.device, frames) {
                self.waiting.push(key);
            }
        }
        self.pool.put_all(self.leaving.drain());
    }

    /// Hands to hosts what waits. Nothing waits longer than until all is run that was due, and no longer than a burst.
    #[inline]
    pub(super) fn hand_over_waiting(&mut self) {
        self.transmit();
        for key in self.waiting.drain(..) {
            let port = self.state.ports[key.host]
                .as_mut()
                .expect("what comes to a host is carried to a worker that has its port");
            port.hand_over(key.device);
        }
    }

    /// A device of a host was made again, and its port opened anew.
    pub(super) fn replace_port(&mut self, key: PortKey, Replacement { old, socket, port }: Replacement) {
        let poller = &self.poller;
        poller.ignore(&*old);
        if let Err(error) = poller.watch(&*socket, key) {
            tracing::error!("a device that was made again is not read: {error}");
        }
        if let Some(host) = &mut self.state.ports[key.host] {
            host.replace_port(key.device, port);
        }
    }
}

impl Driver for Edge {
    type Packet = Packet;

    /// About 20 ms of a worker's time; a burst is 64.
    const AT_ONCE_MAX: u32 = 1 << 18;

    #[inline]
    fn bytes(&self, packet: &Packet) -> u32 {
        (packet.bytes().len() - VNET_HEADER) as u32
    }

    #[inline]
    fn forwarding(&self, packet: &Packet) -> Forwarding {
        packet.forwarding
    }

    fn set_forwarding(&mut self, packet: &mut Packet, forwarding: Forwarding) {
        packet.forwarding = forwarding;
    }

    fn tag(&self, packet: &Packet) -> Tag {
        packet.tag
    }

    fn set_tag(&mut self, packet: &mut Packet, tag: Tag) {
        packet.tag = tag;
    }

    fn destination(&self, packet: &Packet) -> [u8; 6] {
        packet.destination()
    }

    fn learned(&self, now: Time, port: NetPort, packet: &Packet) -> Option<NodeId> {
        self.find_station(now, port, packet)
    }

    fn source(&self, packet: &Packet) -> [u8; 6] {
        packet.source()
    }

    fn set_destination(&mut self, packet: &mut Packet, mac: [u8; 6]) {
        packet.frame()[..6].copy_from_slice(&mac);
    }

    fn summary(&mut self, _: &Config, packet: &Packet) -> Summary {
        Summary::of_arrival(packet.ethernet())
    }

    fn frame<'a>(&'a self, packet: &'a Packet) -> Option<&'a [u8]> {
        Some(packet.ethernet())
    }

    fn headers<'a>(&'a self, packet: &'a Packet) -> &'a [u8] {
        packet.ethernet()
    }

    fn finished<'a>(&'a self, packet: &'a Packet) -> Cow<'a, [u8]> {
        let frame = self.headers(packet);
        let header = VirtioNetPacket::new_checked(packet.bytes(), VNET_LAYOUT).ok();
        let Some((at, sum)) = header.and_then(|header| header.missing_checksum()) else { return Cow::Borrowed(frame) };
        let mut frame = frame.to_vec();
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        Cow::Owned(frame)
    }

    fn tunnel(&self, packet: &Packet) -> u32 {
        packet.tunnel
    }

    fn rewrite(&mut self, packet: &mut Packet, field: Field) -> Result<(), wire::Error> {
        if let Field::TunnelId(vni) = field {
            packet.tunnel = vni;
            return Ok(());
        }
        let coverage = VirtioNetPacket::new_checked(packet.bytes(), VNET_LAYOUT)?.coverage();
        field.write(packet.frame(), coverage)
    }

    fn push_vlan(&mut self, packet: &mut Packet, tci: u16) -> Result<(), wire::Error> {
        packet.push_vlan(tci)
    }

    fn pop_vlan(&mut self, packet: &mut Packet) -> Result<(), wire::Error> {
        packet.pop_vlan()
    }

    fn push_mpls(&mut self, packet: &mut Packet, ethertype: u16, entry: u32) -> Result<(), wire::Error> {
        packet.push_mpls(ethertype, entry)
    }

    fn pop_mpls(&mut self, packet: &mut Packet, ethertype: u16) -> Result<(), wire::Error> {
        packet.pop_mpls(ethertype)
    }

    fn encapsulate(&mut self, packet: &mut Packet, at: usize, header: &[u8]) -> Result<(), wire::Error> {
        packet.insert(at, header)
    }

    fn decapsulate(&mut self, packet: &mut Packet, at: usize, header: usize) -> Result<(), wire::Error> {
        packet.remove(at, header)
    }

    fn cut_to(&self, packet: &Packet) -> Option<u16> {
        let header = VirtioNetPacket::new_checked(packet.bytes(), VNET_LAYOUT).ok()?;
        header.segmentation_kind().map(|_| header.segment_bytes())
    }

    fn transmit(&mut self, now: Time, end: &mut End<Packet>, packet: &mut Packet) -> (Transmit, u32) {
        end.transmit_frame(now, packet.frame())
    }

    fn transmit_burst(
        &mut self,
        now: Time,
        end: &mut End<Packet>,
        packets: &mut [Packet],
        chosen: &mut [Transmit],
    ) -> u32 {
        end.transmit_packets(now, packets, chosen)
    }

    fn receive_from_external(
        &mut self,
        now: Time,
        end: &mut End<Packet>,
        member: MemberId,
        packet: Packet,
        out: &mut Vec<Packet>,
    ) -> Received<Packet> {
        end.receive_frame(now, member, packet, &mut |packet| out.push(packet))
    }

    fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        let Some(mut copy) = self.pool.take() else {
            self.state.refused.no_buffer += 1;
            return None;
        };
        let bytes = packet.bytes();
        // One from before the MTU became smaller may be longer than buffers are now.
        let Some(room) = copy.buffer().get_mut(..bytes.len()) else {
            self.pool.put(copy);
            self.state.refused.removed += 1;
            return None;
        };
        room.copy_from_slice(bytes);
        copy.set_len(bytes.len());
        (copy.forwarding, copy.number, copy.tag) = (packet.forwarding, packet.number, packet.tag);
        (copy.entered, copy.is_corrupt, copy.tunnel) = (packet.entered, packet.is_corrupt, packet.tunnel);
        Some(copy)
    }

    fn make(&mut self, bytes: &[u8], forwarding: Forwarding, tag: Tag) -> Option<Packet> {
        let Some(mut packet) = self.pool.take() else {
            self.state.refused.no_buffer += 1;
            return None;
        };
        let end = VNET_HEADER + bytes.len();
        // Only a pipeline may write one that is too long.
        let Some(buffer) = packet.buffer().get_mut(..end) else {
            self.pool.put(packet);
            self.state.refused.malformed += 1;
            return None;
        };
        // An all-zero virtio-net header leaves nothing to be done.
        buffer[..VNET_HEADER].fill(0);
        buffer[VNET_HEADER..].copy_from_slice(bytes);
        packet.set_len(end);
        // No host has sent it: nobody asks how long it took.
        (packet.forwarding, packet.number, packet.tag, packet.entered) = (forwarding, 0, tag, Time::NEVER);
        packet.is_corrupt = false;
        Some(packet)
    }

    fn mark(&mut self, packet: &mut Packet) -> bool {
        vswitch::mark_congestion(packet.frame())
    }

    fn corrupt(&mut self, packet: &mut Packet, bits: u64) {
        let header = VirtioNetPacket::new_checked(packet.bytes(), VNET_LAYOUT).ok();
        let missing = header.and_then(|header| header.missing_checksum());
        // A checksum that a kernel has left undone is of what that has sent, and whoever receives this has to look at it.
        packet.clear_header();
        let frame = packet.frame();
        if let Some((at, sum)) = missing {
            frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        wire::flip_bit(frame, bits);
        packet.is_corrupt = true;
    }

    #[inline]
    fn free(&mut self, packet: Packet) {
        self.pool.put(packet);
    }

    #[cold]
    fn count(&mut self, loss: Loss) {
        *self.state.refused.of(loss) += 1;
    }

    #[inline]
    fn carry(&mut self, now: Time, at: Time, port: NetPort, packet: Packet) -> Option<Packet> {
        if let Owner::One(worker) = self.plan.arrival_owner(port)
            && worker != self.id
        {
            self.hand_to(worker, Passage { at, way: Way::In, port, packet });
            return None;
        }
        if at > now {
            self.send_under_way(Passage { at, way: Way::In, port, packet });
            return None;
        }
        Some(packet)
    }

    fn observe(&mut self, port: NetPort, left: Time, arrives: Time, packet: &Packet) {
        self.show(port, left, arrives, packet);
    }

    #[cold]
    fn hand_over(&mut self, now: Time, port: NetPort, packet: Packet) {
        let Owner::One(worker) = self.plan.egress_owner(port) else {
            unreachable!("each worker has an egress of its own there")
        };
        self.hand_to(worker, Passage { at: now, way: Way::Out, port, packet });
    }

    fn throw_away(&mut self, ports: [NetPort; 2]) -> [u64; 2] {
        let mut lost = [0; 2];
        for (port, packet) in self.state.flight.take_on_way_to(ports) {
            lost[usize::from(port != ports[0])] += 1;
            self.pool.put(packet);
        }
        lost
    }

    /// A packet has reached its host, when it was due.
    #[inline]
    fn deliver(&mut self, due: Time, port: NetPort, mut packet: Packet) {
        let taker = self.plan.map().taker(port);
        let host = taker.node();
        if taker.is_in_bond() && self.plan.is_known_by_members(host) {
            // A peer may know it by a member's address; its device has one.
            let host_table = self.plan.host_table();
            let to = packet.frame().first_chunk_mut().expect("a frame that came in has a header");
            if host_table.by_mac(*to) == Some(host) {
                *to = host_table.mac(host);
            }
        }
        // What a mirror shows to another host is no flow of that host's. What was corrupted on the way, the host won't take.
        let is_its_own = [host, FLOOD].contains(&packet.forwarding.to)
            && !packet.is_corrupt
            && !(self.plan.is_shown_others(host)
                && self.plan.host_table().by_mac(self.destination(&packet)) != Some(host));
        if self.plan.counts_flows() && is_its_own && !self.plan.is_function_port(host.into()) {
            self.watch(due, &packet);
        }
        // All members of a bond of ours are one device.
        let is_tap = self.state.ports[usize::from(host)].as_ref().is_some_and(|port| port.tap().is_some());
        let device = if is_tap { 0 } else { usize::from(self.plan.map().number(port)) };
        self.hand_to_host(PortKey { host: host.0 as usize, device }, packet);
    }

    fn is_here(&self, port: NetPort) -> bool {
        match self.plan.arrival_owner(port) {
            Owner::One(worker) => worker == self.id,
            Owner::Each => true,
        }
    }

    #[inline]
    fn forwarded(&mut self, switch: usize, to: NodeId, packets: u64) {
        self.state.forwarded[switch][usize::from(to)] += packets;
    }

    fn wake_at(&mut self, at: Time, timer: Timer) {
        self.state.flight.add_timer(at, Due::Timer(timer));
    }

    fn offload(&mut self, now: Time, flow: &OffloadedFlow) -> OffloadOutcome {
        self.offloads.as_mut().map_or(OffloadOutcome::Impossible, |flows| flows.insert(now, flow))
    }

    fn port_changed(&mut self, _: Time, port: NetPort, state: PortState) {
        self.note_port_change(port, state);
    }

    fn flush(&mut self, port: NetPort) {
        self.flush_port(port);
    }

    fn function_changed(&mut self, now: Time, ingress: NodeId, up: bool) {
        self.log_function(now, ingress, up);
    }

    fn note(&mut self, now: Time, end: BondEndId, output: &Output) {
        self.log_of_bond(now, end, output);
    }
}
