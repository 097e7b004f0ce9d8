//! Where frames come in: they are read from a host's port, cut where a link can't carry them whole, and decided about once.

use datapath::{Driver as _, Tag, storm_limit};
use link::Link;
use machine::Time;
use topology::NodeId;
use vswitch::neighbour::{ANSWER_BYTES, claim};
use vswitch::segmentation::LargeSegment;
use vswitch::spread::FlowHash;
use vswitch::{DropReason, FLOOD, Forwarding, Ingress, classify};

use super::edge::Edge;
use super::flight::Packet;
use super::poller::PortKey;
use super::pool::Frame;
use super::worker::Worker;
use crate::control::Refusals;
use crate::tap::VNET_HEADER;

/// Frames read from one port before the next one has its turn.
const BURST_FRAMES: usize = 64;

/// Bytes read from one port before the next one has its turn.
const BURST_BYTES: usize = 256 << 10;

impl Worker {
    /// Reads what a host has sent.
    pub(super) fn read_burst(&mut self, port: PortKey) {
        let now = self.run_all_due();
        self.edge.hand_over_waiting();
        let mut bytes = 0;
        for _ in 0..BURST_FRAMES {
            let Some(len) = self.read(port, now) else { return };
            bytes += len;
            if bytes >= BURST_BYTES {
                return;
            }
        }
    }

    /// Reads one frame and sends it on its way; `None` if there is none.
    #[inline]
    fn read(&mut self, key: PortKey, now: Time) -> Option<usize> {
        let PortKey { host, device } = key;
        let Some(port) = &mut self.edge.state.ports[host] else { return None };
        if self.plan.is_shaped() {
            return self.read_to_cut(key, now);
        }
        let Some(mut frame) = self.edge.pool.take() else {
            return match port.read(device, &mut self.edge.spare) {
                Ok(len) => {
                    if len.is_some() {
                        self.edge.refuse_of(host, |refused| &mut refused.no_buffer);
                    }
                    len
                }
                Err(error) => {
                    self.lose(host, &error);
                    None
                }
            };
        };
        let len = match port.read(device, frame.buffer()) {
            Ok(Some(len)) => len,
            result => {
                self.edge.pool.put(frame);
                if let Err(error) = result {
                    self.lose(host, &error);
                }
                return None;
            }
        };
        frame.set_len(len);
        port.traffic.sent_packets += 1;
        port.traffic.sent_bytes += len.saturating_sub(VNET_HEADER) as u64;
        self.enter(key, now, frame);
        Some(len)
    }

    /// The same where links have rates, so that they carry frames: the kernel leaves segments of up to 64 KiB uncut, since one call that
    /// reads all of it costs a fraction of one for each frame, and they are cut here.
    fn read_to_cut(&mut self, key: PortKey, now: Time) -> Option<usize> {
        let port = self.edge.state.ports[key.host].as_mut()?;
        let len = match port.read(key.device, &mut self.edge.spare) {
            Ok(len) => len?,
            Err(error) => {
                self.lose(key.host, &error);
                return None;
            }
        };
        let spare = std::mem::take(&mut self.edge.spare);
        match LargeSegment::find(&spare[..len]) {
            Ok(None) => self.enter_bytes(key, now, |out| copied(&spare[..len], out)),
            Ok(Some(segment)) => {
                for piece in 0..segment.count() {
                    self.enter_bytes(key, now, |out| segment.emit(piece, out));
                }
            }
            Err(_) => self.edge.refuse_of(key.host, |refused| &mut refused.malformed),
        }
        self.edge.spare = spare;
        Some(len)
    }

    /// Lets a frame come in that `fill` writes; `None`: it is longer than a link takes.
    fn enter_bytes(&mut self, key: PortKey, now: Time, fill: impl FnOnce(&mut [u8]) -> Option<usize>) {
        let Some(mut frame) = self.edge.pool.take() else {
            return self.edge.refuse_of(key.host, |refused| &mut refused.no_buffer);
        };
        let Some(len) = fill(frame.buffer()) else {
            self.edge.refuse_of(key.host, |refused| &mut refused.malformed);
            return self.edge.pool.put(frame);
        };
        frame.set_len(len);
        if let Some(port) = &mut self.edge.state.ports[key.host] {
            port.traffic.sent_packets += 1;
            port.traffic.sent_bytes += len.saturating_sub(VNET_HEADER) as u64;
        }
        self.enter(key, now, frame);
    }

    /// A program in the host has removed its device. The kernel would report that again at every look.
    #[cold]
    fn lose(&mut self, host: usize, error: &std::io::Error) {
        let Some(port) = &mut self.edge.state.ports[host] else { return };
        let name = &self.plan.fabric().topology.nodes[NodeId::from(host)].name;
        // One that is not made may have its device back: the socket goes on then.
        let Some(tap) = port.tap() else { return tracing::info!("a device of host {name}: {error}") };
        self.edge.pollers[self.edge.id].ignore(&**tap);
        port.traffic.device_losses += 1;
        tracing::error!("host {name} has lost its device: {error}; `heddle up` gives it a new one");
    }

    /// Decides about a frame that came in from a host.
    #[inline]
    fn enter(&mut self, key: PortKey, now: Time, frame: Frame) {
        if self.edge.state.ports[key.host].as_ref().is_some_and(|port| port.tap().is_none()) {
            return self.enter_by_device(key, now, frame);
        }
        let bytes = frame.bytes();
        if bytes.len() <= VNET_HEADER || bytes.len() > self.plan.frame_limit() {
            self.edge.refuse_of(key.host, |refused| &mut refused.malformed);
            return self.edge.pool.put(frame);
        }
        let (from, mut answer) = (NodeId(key.host as u32), [0; ANSWER_BYTES]);
        match classify(&bytes[VNET_HEADER..], from, self.plan.host_table(), &mut answer) {
            Ingress::Forward(forwarding) => {
                if forwarding.to == FLOOD && !self.edge.may_flood(key.host, now) {
                    return self.edge.pool.put(frame);
                }
                self.edge.state.entered += 1;
                let number = self.edge.state.entered as u32;
                let packet = Packet { frame, forwarding, number, tag: Tag::None };
                let port = self.plan.port(PortKey { device: 0, ..key });
                self.graph.depart(self.plan.tables().at(now), &mut self.edge, port, packet);
            }
            Ingress::Answer(len) => self.answer(key, frame, &answer[..len]),
            Ingress::Drop(reason) => {
                if matches!(reason, DropReason::Group) {
                    let port = self.plan.port(PortKey { device: 0, ..key });
                    self.graph.overhear(self.plan.tables(), port, &frame.bytes()[VNET_HEADER..]);
                }
                self.refuse(key.host, reason);
                self.edge.pool.put(frame);
            }
        }
    }

    /// Decides about a frame that came by a device of a host that is not made. Its bond, if it has one, has sent it by this member; the
    /// other end of the bond is told of all that is not for a host: LACPDUs, announcements, questions.
    fn enter_by_device(&mut self, key: PortKey, now: Time, frame: Frame) {
        let bytes = frame.bytes();
        if bytes.len() <= VNET_HEADER || bytes.len() > self.plan.frame_limit() {
            self.edge.refuse_of(key.host, |refused| &mut refused.malformed);
            return self.edge.pool.put(frame);
        }
        let (tables, port) = (self.plan.tables(), self.plan.port(key));
        self.edge.state.entered += 1;
        let number = self.edge.state.entered as u32;
        let with = |frame, forwarding, tag| Packet { frame, forwarding, number, tag };
        let control = |frame| {
            let to = tables.map.far_node(port);
            with(frame, Forwarding { to, hash: FlowHash(0) }, Tag::Control)
        };
        let is_in_bond = || tables.map.bond(port).is_some();
        if !self.graph.wires[port].link().is_some_and(Link::is_up) {
            // The cable is out: nobody answers, and the link counts the loss.
            return self.graph.depart_by(tables.at(now), &mut self.edge, port, control(frame));
        }
        self.learn_announced(key, &frame);
        let (from, mut answer) = (NodeId(key.host as u32), [0; ANSWER_BYTES]);
        match classify(&frame.bytes()[VNET_HEADER..], from, self.plan.host_table(), &mut answer) {
            Ingress::Forward(forwarding) => {
                if forwarding.to == FLOOD && !self.edge.may_flood(key.host, now) {
                    return self.edge.pool.put(frame);
                }
                self.graph.depart_by(tables.at(now), &mut self.edge, port, with(frame, forwarding, Tag::None));
            }
            Ingress::Answer(len) => {
                let packet = control(frame);
                if is_in_bond()
                    && let Some(copy) = self.edge.copy(&packet)
                {
                    self.graph.depart_by(tables.at(now), &mut self.edge, port, copy);
                }
                self.answer(key, packet.frame, &answer[..len]);
            }
            Ingress::Drop(DropReason::UnknownDestination(_) | DropReason::Group | DropReason::Silence(_))
                if is_in_bond() =>
            {
                self.graph.depart_by(tables.at(now), &mut self.edge, port, control(frame));
            }
            Ingress::Drop(reason) => {
                self.refuse(key.host, reason);
                self.edge.pool.put(frame);
            }
        }
    }

    /// Learns from what a host that is not made tells its peers which addresses it has.
    fn learn_announced(&self, PortKey { host, device }: PortKey, frame: &Frame) {
        let (host, host_table) = (NodeId(host as u32), self.plan.host_table());
        if host_table.answers_itself(host)
            && let Some(claim) = claim(&frame.bytes()[VNET_HEADER..], host_table)
            && claim.host == host
        {
            host_table.learn(host, device, claim.mac);
        }
    }

    #[cold]
    fn refuse(&mut self, host: usize, reason: DropReason) {
        match reason {
            DropReason::UnknownDestination(_) => self.edge.refuse_of(host, |refused| &mut refused.unknown_destination),
            DropReason::Malformed(_) => self.edge.refuse_of(host, |refused| &mut refused.malformed),
            DropReason::Spoofed => self.edge.refuse_of(host, |refused| &mut refused.spoofed),
            // It was for routers or bridges, or a host asked whether its own address is free: nobody misses it.
            DropReason::Group | DropReason::Silence(_) => {}
        }
    }

    /// Hands a host the answer to its question about a neighbour, in the question's buffer.
    #[cold]
    fn answer(&mut self, port: PortKey, mut frame: Frame, answer: &[u8]) {
        let end = VNET_HEADER + answer.len();
        let buffer = frame.buffer();
        // An all-zero virtio-net header leaves nothing to be done.
        buffer[..VNET_HEADER].fill(0);
        buffer[VNET_HEADER..end].copy_from_slice(answer);
        frame.set_len(end);
        self.edge.hand_to_host(port, frame);
    }
}

impl Edge {
    /// Whether a host may send one more packet to everybody; if not, it is counted.
    #[cold]
    fn may_flood(&mut self, host: usize, now: Time) -> bool {
        let limit = storm_limit(self.plan.map().hosts());
        let may = self.state.ports[host].as_mut().is_some_and(|port| port.storm_control.take(now, limit));
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
