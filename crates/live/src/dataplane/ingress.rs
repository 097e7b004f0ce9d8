//! Where frames come in: they are read from a host's port, cut where a link can't carry them whole, and decided about once.

use link::Link;
use machine::Time;
use topology::{NodeId, PortId};
use vswitch::neighbour::ANSWER_BYTES;
use vswitch::segmentation::LargeSegment;
use vswitch::spread::FlowHash;
use vswitch::{DropReason, Forwarding, Ingress, classify};

use super::flight::{Bonded, Packet};
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
        let now = self.clock.now();
        self.run_due(now);
        self.hand_over_waiting();
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
        let Some(port) = &mut self.parts.ports[host] else { return None };
        if self.plan.is_shaped() {
            return self.read_to_cut(key, now);
        }
        let Some(mut frame) = self.pool.take() else {
            return match port.read(device, &mut self.spare) {
                Ok(len) => {
                    if len.is_some() {
                        self.refuse_of(host, |refused| &mut refused.no_buffer);
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
                self.pool.put(frame);
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
        let port = self.parts.ports[key.host].as_mut()?;
        let len = match port.read(key.device, &mut self.spare) {
            Ok(len) => len?,
            Err(error) => {
                self.lose(key.host, &error);
                return None;
            }
        };
        let spare = std::mem::take(&mut self.spare);
        match LargeSegment::find(&spare[..len]) {
            Ok(None) => self.enter_bytes(key, now, |out| copied(&spare[..len], out)),
            Ok(Some(segment)) => {
                for piece in 0..segment.count() {
                    self.enter_bytes(key, now, |out| segment.emit(piece, out));
                }
            }
            Err(_) => self.refuse_of(key.host, |refused| &mut refused.malformed),
        }
        self.spare = spare;
        Some(len)
    }

    /// Lets a frame come in that `fill` writes; `None`: it is longer than a link takes.
    fn enter_bytes(&mut self, key: PortKey, now: Time, fill: impl FnOnce(&mut [u8]) -> Option<usize>) {
        let Some(mut frame) = self.pool.take() else {
            return self.refuse_of(key.host, |refused| &mut refused.no_buffer);
        };
        let Some(len) = fill(frame.buffer()) else {
            self.refuse_of(key.host, |refused| &mut refused.malformed);
            return self.pool.put(frame);
        };
        frame.set_len(len);
        if let Some(port) = &mut self.parts.ports[key.host] {
            port.traffic.sent_packets += 1;
            port.traffic.sent_bytes += len.saturating_sub(VNET_HEADER) as u64;
        }
        self.enter(key, now, frame);
    }

    /// A program in the host has removed its device. The kernel would report that again at every look.
    #[cold]
    fn lose(&mut self, host: usize, error: &std::io::Error) {
        let Some(port) = &mut self.parts.ports[host] else { return };
        let name = &self.plan.fabric().topology.nodes[NodeId::from(host)].name;
        // One that is not made may have its device back: the socket goes on then.
        let Some(tap) = port.tap() else { return tracing::info!("a device of host {name}: {error}") };
        self.pollers[self.id].ignore(&**tap);
        port.traffic.device_losses += 1;
        tracing::error!("host {name} has lost its device: {error}; `heddle up` gives it a new one");
    }

    /// Decides about a frame that came in from a host.
    #[inline]
    fn enter(&mut self, key: PortKey, now: Time, frame: Frame) {
        if self.parts.ports[key.host].as_ref().is_some_and(|port| port.tap().is_none()) {
            return self.enter_by_device(key, now, frame);
        }
        let bytes = frame.bytes();
        if bytes.len() <= VNET_HEADER || bytes.len() > self.plan.frame_limit() {
            self.refuse_of(key.host, |refused| &mut refused.malformed);
            return self.pool.put(frame);
        }
        let mut answer = [0; ANSWER_BYTES];
        match classify(&bytes[VNET_HEADER..], self.plan.host_table(), &mut answer) {
            Ingress::Forward(forwarding) => {
                self.parts.entered += 1;
                let uplink = self.plan.leaving(NodeId(key.host as u32), PortId(0));
                let number = self.parts.entered as u32;
                self.depart(uplink, now, Packet { frame, forwarding, number, bonded: Bonded::No });
            }
            Ingress::Answer(len) => self.answer(key, frame, &answer[..len]),
            Ingress::Drop(reason) => {
                if matches!(reason, DropReason::Group) {
                    self.overhear(self.plan.leaving(NodeId(key.host as u32), PortId(0)), &frame);
                }
                self.refuse(key.host, reason);
                self.pool.put(frame);
            }
        }
    }

    /// Decides about a frame that came by a device of a host that is not made. Its bond, if it has one, has sent it by this member; the
    /// other end of the bond is told of all that is not for a host: LACPDUs, announcements, questions.
    fn enter_by_device(&mut self, key: PortKey, now: Time, frame: Frame) {
        let bytes = frame.bytes();
        if bytes.len() <= VNET_HEADER || bytes.len() > self.plan.frame_limit() {
            self.refuse_of(key.host, |refused| &mut refused.malformed);
            return self.pool.put(frame);
        }
        let uplink = self.plan.leaving(NodeId(key.host as u32), PortId(key.device as u16));
        self.parts.entered += 1;
        let number = self.parts.entered as u32;
        let (bond, to) = (self.plan.bond(uplink), self.plan.far(uplink));
        let control = |frame| {
            let forwarding = Forwarding { to, hash: FlowHash(0) };
            Packet { frame, forwarding, number, bonded: Bonded::Control }
        };
        if !self.parts.links[uplink].as_ref().is_some_and(Link::is_up) {
            // The cable is out: nobody answers, and the link counts the loss.
            return self.cross(uplink, now, control(frame));
        }
        self.learn_announced(key, &frame);
        let mut answer = [0; ANSWER_BYTES];
        match classify(&frame.bytes()[VNET_HEADER..], self.plan.host_table(), &mut answer) {
            Ingress::Forward(forwarding) => {
                self.cross(uplink, now, Packet { frame, forwarding, number, bonded: Bonded::No });
            }
            Ingress::Answer(len) => {
                if bond.is_some()
                    && let Some(copy) = self.copy(&frame)
                {
                    self.cross(uplink, now, control(copy));
                }
                self.answer(key, frame, &answer[..len]);
            }
            Ingress::Drop(DropReason::UnknownDestination(_) | DropReason::Group | DropReason::Silence(_))
                if bond.is_some() =>
            {
                self.cross(uplink, now, control(frame));
            }
            Ingress::Drop(reason) => {
                self.refuse(key.host, reason);
                self.pool.put(frame);
            }
        }
    }

    #[cold]
    fn refuse(&mut self, host: usize, reason: DropReason) {
        self.refuse_of(host, |refused| match reason {
            DropReason::UnknownDestination(_) => &mut refused.unknown_destination,
            DropReason::Group | DropReason::Silence(_) => &mut refused.multicast,
            DropReason::Malformed(_) => &mut refused.malformed,
        });
    }

    /// Counts a frame of a host that goes nowhere, for the network and for the host.
    #[cold]
    fn refuse_of(&mut self, host: usize, counter: impl Fn(&mut Refusals) -> &mut u64) {
        *counter(&mut self.parts.refused) += 1;
        if let Some(port) = &mut self.parts.ports[host] {
            *counter(&mut port.traffic.refused) += 1;
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
        self.deliver(port, frame);
    }
}

/// Copies a frame; `None` if it does not fit.
fn copied(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    out.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(bytes.len())
}
