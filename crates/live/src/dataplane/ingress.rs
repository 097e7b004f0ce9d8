//! Where frames come in: they are read from a host's port, cut where a link can't carry them whole, and decided about once.

use datapath::{Driver as _, Loss, Tag, storm_limit};
use link::Link;
use machine::Time;
use topology::{NetPort, NodeId};
use vswitch::neighbour::{ANSWER_BYTES, claim};
use vswitch::segmentation::LargeSegment;
use vswitch::spread::FlowHash;
use vswitch::{DropReason, FLOOD, Forwarding, Ingress, is_for_bridges};
use wire::BRIDGE_GROUP;

use super::burst::{BURST_FRAMES, Read, RxBurst};
use super::edge::Edge;
use super::poller::PortKey;
use super::pool::Packet;
use super::worker::Worker;
use crate::control::Refusals;
use crate::tap::VNET_HEADER;

/// Bytes read from one port before the next one has its turn.
const TURN_BYTES: u64 = 256 << 10;

/// A virtio-net header and an Ethernet header: there is no shorter frame.
const SHORTEST: usize = VNET_HEADER + 14;

/// Where frames of one burst come in.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) key: PortKey,
    pub(super) port: NetPort,
    /// Of a host that is not made.
    is_device: bool,
    /// Of a function of service chains.
    is_function: bool,
}

impl Worker {
    /// Reads what a host has sent; whether more of it may wait.
    pub(super) fn read_burst(&mut self, key: PortKey) -> bool {
        let now = self.run_all_due();
        self.edge.hand_over_waiting();
        let Some(port) = &self.edge.state.ports[key.host] else { return false };
        let is_device = port.tap().is_none();
        // All members of a bond of ours are one device.
        let device = if is_device { key.device } else { 0 };
        let (port, is_function) = (self.plan.port(PortKey { device, ..key }), self.plan.is_function_port(key.host));
        let entry = Entry { key, port, is_device, is_function };
        if self.plan.is_shaped() {
            return self.read_to_cut(entry, now);
        }
        let mut left = Read { frames: BURST_FRAMES as u64, bytes: TURN_BYTES, lost: 0 };
        loop {
            let Some(read) = self.rx_burst(entry, now) else { return false };
            left.frames = left.frames.saturating_sub(read.frames);
            left.bytes = left.bytes.saturating_sub(read.bytes);
            if left.frames == 0 || left.bytes == 0 {
                return true;
            }
        }
    }

    /// Reads a burst of frames and sends them on their way; `None`: there are no more.
    fn rx_burst(&mut self, entry: Entry, now: Time) -> Option<Read> {
        let PortKey { host, device } = entry.key;
        let port = self.edge.state.ports[host].as_mut()?;
        let mut burst = RxBurst::new(&mut self.edge.pool, &mut self.edge.read, &mut self.edge.spare);
        let outcome = port.rx_burst(device, &mut burst);
        let (read, is_full) = (burst.read, burst.is_full());
        self.edge.state.refused.no_buffer += read.lost;
        let mut packets = std::mem::take(&mut self.edge.read);
        for packet in packets.drain(..) {
            self.enter(entry, now, packet);
        }
        self.edge.read = packets;
        self.send_entering(entry, now);
        self.edge.transmit();
        self.drop_withdrawn_offloads(now);
        if let Err(error) = outcome {
            self.lose(host, &error);
            return None;
        }
        is_full.then_some(read)
    }

    /// Sends off what has entered the fabric by a port.
    #[inline]
    fn send_entering(&mut self, entry: Entry, now: Time) {
        let mut packets = std::mem::take(&mut self.edge.entering);
        let moment = self.plan.tables().at(now);
        if entry.is_device && self.plan.map().taker(entry.port).is_in_bond() {
            self.graph.depart_by_burst(moment, &mut self.edge, entry.port, &mut packets);
        } else {
            self.graph.depart_burst(moment, &mut self.edge, entry.port, &mut packets);
        }
        self.edge.entering = packets;
    }

    /// The same where links have rates, so that they carry frames: the kernel leaves segments of up to 64 KiB uncut, since one call that
    /// reads all of it costs a fraction of one for each frame, and they are cut here.
    fn read_to_cut(&mut self, entry: Entry, now: Time) -> bool {
        let mut bytes = 0;
        for _ in 0..BURST_FRAMES {
            let Some(len) = self.read_and_cut(entry, now) else { return false };
            bytes += len as u64;
            if bytes >= TURN_BYTES {
                break;
            }
        }
        true
    }

    /// Reads one frame and sends what it is cut to on its way; `None` if there is none.
    fn read_and_cut(&mut self, entry: Entry, now: Time) -> Option<usize> {
        let key = entry.key;
        let port = self.edge.state.ports[key.host].as_mut()?;
        let len = match port.read(key.device, &mut self.edge.spare) {
            Ok(len) => len?,
            Err(error) => {
                self.lose(key.host, &error);
                return None;
            }
        };
        let tunnel = port.tunnel(key.device);
        let spare = std::mem::take(&mut self.edge.spare);
        match LargeSegment::find(&spare[..len]) {
            Ok(None) => self.enter_bytes(entry, now, tunnel, |out| copied(&spare[..len], out)),
            Ok(Some(segment)) => {
                for piece in 0..segment.count() {
                    self.enter_bytes(entry, now, tunnel, |out| segment.emit(piece, out));
                }
            }
            Err(_) => self.edge.refuse_of(key.host, |refused| &mut refused.malformed),
        }
        self.edge.spare = spare;
        self.send_entering(entry, now);
        Some(len)
    }

    /// Lets a frame come in that `fill` writes, by a network of a tunnel or by none; `None`: it is longer than a link takes.
    fn enter_bytes(&mut self, entry: Entry, now: Time, tunnel: u32, fill: impl FnOnce(&mut [u8]) -> Option<usize>) {
        let key = entry.key;
        let Some(mut packet) = self.edge.pool.take() else {
            return self.edge.refuse_of(key.host, |refused| &mut refused.no_buffer);
        };
        let Some(len) = fill(packet.buffer()) else {
            self.edge.refuse_of(key.host, |refused| &mut refused.malformed);
            return self.edge.pool.put(packet);
        };
        packet.set_len(len);
        packet.tunnel = tunnel;
        if let Some(port) = &mut self.edge.state.ports[key.host] {
            port.traffic.sent_packets += 1;
            port.traffic.sent_bytes += len.saturating_sub(VNET_HEADER) as u64;
        }
        self.enter(entry, now, packet);
    }

    /// A program in the host has removed its device. The kernel would report that again at every look.
    #[cold]
    fn lose(&mut self, host: usize, error: &std::io::Error) {
        let Some(port) = &mut self.edge.state.ports[host] else { return };
        let name = &self.plan.fabric().topology.nodes[NodeId::from(host)].name;
        // One that is not made may have its device back: the socket goes on then.
        let Some(tap) = port.tap() else { return tracing::info!("a device of host {name}: {error}") };
        self.edge.poller.ignore(&**tap);
        port.traffic.device_losses += 1;
        tracing::error!("host {name} has lost its device: {error}; `heddle up` gives it a new one");
    }

    /// Decides about a frame that came in from a host. What crosses the fabric leaves with its burst: [`Worker::send_entering`].
    #[inline]
    fn enter(&mut self, entry: Entry, now: Time, mut packet: Packet) {
        let Entry { key, port, is_device, is_function } = entry;
        // Whatever a port gives, what is behind this has an Ethernet header.
        if !(SHORTEST..=self.plan.frame_limit()).contains(&packet.bytes().len()) {
            self.edge.refuse_of(key.host, |refused| &mut refused.malformed);
            return self.edge.pool.put(packet);
        }
        if self.plan.tables().ports.has_bridges() && !is_function {
            if packet.ethernet().starts_with(&BRIDGE_GROUP) {
                return self.enter_bpdu(now, packet);
            }
            // What bonds and others say to their neighbour is for the port itself, whatever RSTP says of it.
            if !is_for_bridges(packet.destination())
                && self.graph.is_closed(self.plan.tables(), self.plan.map().far(port))
            {
                // Nor does anybody answer him.
                self.edge.show_at_edge(port, now, &packet);
                self.edge.count(Loss::Discarding);
                return self.edge.pool.put(packet);
            }
        }
        if is_function {
            return self.edge.enter_from_function(key.host, now, packet);
        }
        if is_device {
            return self.enter_by_device(entry, now, packet);
        }
        let mut answer = [0; ANSWER_BYTES];
        match self.classify(entry, now, &packet, &mut answer) {
            Ingress::Forward(forwarding) => {
                if forwarding.to == FLOOD && !self.edge.may_flood(key.host, now, &packet) {
                    return self.edge.pool.put(packet);
                }
                self.edge.stamp(now, &mut packet, forwarding, Tag::None);
                if self.graph.may_carry_direct() {
                    self.graph.consider_direct(self.plan.tables().at(now), &mut self.edge, port, &packet);
                }
                self.edge.entering.push(packet);
            }
            Ingress::Answer(len) => {
                self.edge.show_at_edge(port, now, &packet);
                self.answer(entry, now, packet, &answer[..len]);
            }
            Ingress::Drop(DropReason::UnknownDestination { hash, .. }) if self.may_go_to_unknown() => {
                self.enter_to_unknown(entry, now, packet, hash);
            }
            Ingress::Drop(reason) => {
                if matches!(reason, DropReason::Group) {
                    self.graph.overhear(self.plan.tables(), port, packet.ethernet());
                }
                self.edge.show_at_edge(port, now, &packet);
                self.refuse(key.host, reason);
                self.edge.pool.put(packet);
            }
        }
    }

    /// A BPDU is for the switch, which takes so many in a while and no more.
    #[cold]
    fn enter_bpdu(&mut self, now: Time, mut packet: Packet) {
        self.edge.stamp(now, &mut packet, Forwarding { to: FLOOD, hash: FlowHash(0) }, Tag::None);
        self.edge.entering.push(packet);
    }

    /// Decides about a frame that came by a device of a host that is not made. Its bond, if it has one, has sent it by this member; the
    /// other end of the bond is told of all that is not for a host: LACPDUs, announcements, questions.
    fn enter_by_device(&mut self, entry: Entry, now: Time, mut packet: Packet) {
        let Entry { key, port, .. } = entry;
        let tables = self.plan.tables();
        let to_far_end = Forwarding { to: tables.map.far_node(port), hash: FlowHash(0) };
        let is_in_bond = tables.map.bond(port).is_some();
        if !self.graph.egress[port].link().is_some_and(Link::is_up) {
            // The cable is out: nobody answers, and the link counts the loss.
            self.edge.stamp(now, &mut packet, to_far_end, Tag::Control);
            return self.depart_alone(entry, now, packet);
        }
        self.learn_announced(key, packet.ethernet());
        let mut answer = [0; ANSWER_BYTES];
        match self.classify(entry, now, &packet, &mut answer) {
            Ingress::Forward(forwarding) => {
                if forwarding.to == FLOOD && !self.edge.may_flood(key.host, now, &packet) {
                    return self.edge.pool.put(packet);
                }
                self.edge.stamp(now, &mut packet, forwarding, Tag::None);
                self.edge.entering.push(packet);
            }
            Ingress::Answer(len) => {
                self.edge.stamp(now, &mut packet, to_far_end, Tag::Control);
                if !is_in_bond {
                    self.edge.show_at_edge(port, now, &packet);
                } else if let Some(copy) = self.edge.copy(&packet) {
                    self.depart_alone(entry, now, copy);
                }
                self.answer(entry, now, packet, &answer[..len]);
            }
            Ingress::Drop(DropReason::UnknownDestination { .. } | DropReason::Group | DropReason::Silence(_))
                if is_in_bond =>
            {
                self.edge.stamp(now, &mut packet, to_far_end, Tag::Control);
                self.depart_alone(entry, now, packet);
            }
            Ingress::Drop(DropReason::UnknownDestination { hash, .. }) if self.may_go_to_unknown() => {
                self.enter_to_unknown(entry, now, packet, hash);
            }
            Ingress::Drop(reason) => {
                self.edge.show_at_edge(port, now, &packet);
                self.refuse(key.host, reason);
                self.edge.pool.put(packet);
            }
        }
    }

    /// Sends a packet off by this very port, behind those that have come before it.
    #[cold]
    pub(super) fn depart_alone(&mut self, entry: Entry, now: Time, packet: Packet) {
        self.send_entering(entry, now);
        self.graph.depart_by(self.plan.tables().at(now), &mut self.edge, entry.port, packet);
    }

    /// Learns from what a host that is not made tells its peers which addresses it has.
    fn learn_announced(&self, PortKey { host, device }: PortKey, frame: &[u8]) {
        let (host, host_table) = (NodeId(host as u32), self.plan.host_table());
        if host_table.answers_itself(host)
            && let Some(claim) = claim(frame, host_table)
            && claim.host == host
        {
            host_table.learn(host, device, claim.mac);
        }
    }

    #[cold]
    fn refuse(&mut self, host: usize, reason: DropReason) {
        match reason {
            DropReason::UnknownDestination { .. } => {
                self.edge.refuse_of(host, |refused| &mut refused.unknown_destination);
            }
            DropReason::Malformed(_) => self.edge.refuse_of(host, |refused| &mut refused.malformed),
            DropReason::Spoofed => self.edge.refuse_of(host, |refused| &mut refused.spoofed),
            // It was for routers or bridges, for somebody behind the same port, or a host asked whether its own address is free: nobody misses it.
            DropReason::Group | DropReason::Silence(_) | DropReason::SamePort => {}
        }
    }

    /// Hands a host the answer to its question about a neighbour, in the question's buffer.
    #[cold]
    fn answer(&mut self, Entry { key, port, .. }: Entry, now: Time, mut packet: Packet, answer: &[u8]) {
        let end = VNET_HEADER + answer.len();
        // It goes back by the network that the question has come by.
        let tunnel = packet.tunnel;
        let buffer = packet.buffer();
        // An all-zero virtio-net header leaves nothing to be done.
        buffer[..VNET_HEADER].fill(0);
        buffer[VNET_HEADER..end].copy_from_slice(answer);
        packet.set_len(end);
        packet.tunnel = tunnel;
        self.edge.show_at_edge(self.plan.map().far(port), now, &packet);
        self.edge.hand_to_host(key, packet);
    }
}

impl Edge {
    /// Writes on a packet that enters the fabric what has been found out about it.
    #[inline]
    pub(super) fn stamp(&mut self, now: Time, packet: &mut Packet, forwarding: Forwarding, tag: Tag) {
        self.state.entered += 1;
        (packet.entered, packet.is_corrupt) = (now, false);
        (packet.forwarding, packet.tag, packet.number) = (forwarding, tag, self.state.entered as u32);
    }

    /// Whether a host may send one more packet to everybody; if not, it is counted.
    #[cold]
    pub(super) fn may_flood(&mut self, host: usize, now: Time, packet: &Packet) -> bool {
        let (limit, own) = (storm_limit(self.plan.map().hosts()), self.plan.tables().ports.storm_limit(host.into()));
        let may = self.state.ports[host].as_mut().is_some_and(|port| match own {
            Some(own) => port.storm_control.take_within(now, own, packet.ethernet().len() as u32),
            None => port.storm_control.take(now, limit),
        });
        if !may {
            self.refuse_of(host, |refused| &mut refused.storm_control);
        }
        may
    }

    /// Counts a frame of a host that goes nowhere, for the network and for the host.
    #[cold]
    fn refuse_of(&mut self, host: usize, counter: impl Fn(&mut Refusals) -> &mut u64) {
        *counter(&mut self.state.refused) += 1;
        if let Some(port) = &mut self.state.ports[host] {
            *counter(&mut port.traffic.refused) += 1;
        }
    }
}

/// Copies a frame; `None` if it does not fit.
fn copied(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    out.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(bytes.len())
}
