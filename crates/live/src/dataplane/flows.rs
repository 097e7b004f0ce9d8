//! TCP flows as they leave the fabric, and the order in which their segments arrive.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use machine::{Rebase, Span, Time};
use transport::reordering::Meter;
use vswitch::spread::FlowHash;
use vswitch::{FlowKey, tcp_segment};
use wire::ethertype;

use crate::control::FlowCounters;

/// Flows that one worker watches at most. When there are more, those that have been silent are forgotten; if none has, the new
/// one is not watched.
pub const FLOWS_MAX: usize = 4_096;

/// How long a flow must have been silent to be forgotten.
const SILENCE: Span = Span::from_secs(10);

/// How long to wait after a search for silent flows before the next one.
const SEARCH_EVERY: Span = Span::from_secs(1);

/// Twice the flows, so that probing stays short.
const SLOTS: usize = FLOWS_MAX * 2;

/// The flows that end at one worker's hosts.
#[derive(Debug, Default)]
pub struct Flows {
    /// One more than the place in `watched`; 0 is free. Made with the first flow.
    slots: Vec<u16>,
    watched: Vec<Flow>,
    /// When silent flows may be searched for again.
    search_at: Time,
}

/// A flow and its meter.
#[derive(Debug)]
pub struct Flow {
    hash: FlowHash,
    from: SocketAddr,
    to: SocketAddr,
    meter: Meter,
    /// When its last segment was seen.
    seen: Time,
}

impl Flows {
    /// Shows a frame (without virtio-net header) to its flow's meter if it holds a data segment of TCP; false if there is no room for
    /// the flow. Flows are told apart by their 64-bit hash: of 4,096 flows, two share one with a chance of 2^-41.
    ///
    /// `number` is the frame's place among those that entered the fabric where it did, so it tells which of two segments was sent
    /// later. TCP's timestamps tell that to a millisecond only: a retransmission within one would look like reordering.
    #[inline]
    pub fn observe(&mut self, now: Time, hash: FlowHash, number: u32, frame: &[u8]) -> bool {
        let Some(segment) = tcp_segment(frame) else { return true };
        if self.slots.is_empty() {
            self.slots = vec![0; SLOTS];
        }
        let known = usize::from(self.slots[self.probe(hash)]).checked_sub(1);
        let Some(at) = known.or_else(|| self.insert(now, hash, frame)) else { return false };
        let flow = &mut self.watched[at];
        flow.seen = now;
        flow.meter.observe(segment.seq, segment.end(), number);
        true
    }

    /// The slot of the flow, or else the free one where it would go. Half of the slots are free, so there always is one.
    #[inline]
    fn probe(&self, hash: FlowHash) -> usize {
        let mut slot = hash.0 as usize % SLOTS;
        while let Some(at) = usize::from(self.slots[slot]).checked_sub(1)
            && self.watched[at].hash != hash
        {
            slot = (slot + 1) % SLOTS;
        }
        slot
    }

    /// Makes room, if there can be any, by forgetting flows that have been silent.
    fn forget_silent(&mut self, now: Time) {
        if now < self.search_at {
            return;
        }
        self.search_at = now + SEARCH_EVERY;
        let flows = std::mem::take(&mut self.watched);
        self.slots.fill(0);
        flows.into_iter().filter(|flow| now.since(flow.seen) < SILENCE).for_each(|flow| self.adopt(flow));
    }

    /// A flow that was not seen before; `None` if there is no room. It allocates, once a flow.
    #[cold]
    fn insert(&mut self, now: Time, hash: FlowHash, frame: &[u8]) -> Option<usize> {
        if self.watched.len() == FLOWS_MAX {
            self.forget_silent(now);
        }
        if self.watched.len() == FLOWS_MAX {
            return None;
        }
        let slot = self.probe(hash);
        let key = FlowKey::parse(frame).unwrap_or_default();
        let address = |bits: u128| match key.ethertype {
            ethertype::IPV4 => IpAddr::from(Ipv4Addr::from_bits(bits as u32)),
            _ => IpAddr::from(Ipv6Addr::from_bits(bits)),
        };
        let from = SocketAddr::new(address(key.src), key.src_port);
        let to = SocketAddr::new(address(key.dst), key.dst_port);
        self.watched.push(Flow { hash, from, to, meter: Meter::new(), seen: now });
        self.slots[slot] = self.watched.len() as u16;
        Some(self.watched.len() - 1)
    }

    /// Takes one in again, if there is room.
    fn adopt(&mut self, flow: Flow) {
        if self.slots.is_empty() {
            self.slots = vec![0; SLOTS];
        }
        let slot = self.probe(flow.hash);
        if self.slots[slot] == 0 && self.watched.len() < FLOWS_MAX {
            self.watched.push(flow);
            self.slots[slot] = self.watched.len() as u16;
        }
    }

    /// What was seen, in the order of the flows' first segments.
    pub fn report(&self) -> Vec<FlowCounters> {
        let report = |flow: &Flow| FlowCounters { from: flow.from, to: flow.to, reordering: flow.meter.counters() };
        self.watched.iter().map(report).collect()
    }
}

impl Rebase for Flows {
    fn rebase(&mut self, by: Span) {
        let Self { slots: _, watched, search_at } = self;
        watched.rebase(by);
        search_at.rebase(by);
    }
}

impl Rebase for Flow {
    fn rebase(&mut self, by: Span) {
        let Self { hash: _, from: _, to: _, meter: _, seen } = self;
        seen.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{EthernetRepr, Ipv4Repr, Pseudo, TcpRepr, protocol, tcp_flags};

    /// A segment of 100 bytes from `port`, sent as the `number`th.
    fn segment(port: u16, number: u32) -> (FlowHash, Vec<u8>) {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let ethernet = EthernetRepr { dst: [2; 6], src: [4; 6], vlan: None, ethertype: ethertype::IPV4 };
        let tcp = TcpRepr {
            src_port: port,
            dst_port: 5201,
            seq: number.wrapping_mul(100),
            ack: 0,
            flags: tcp_flags::ACK,
            window: 100,
            urgent: 0,
            timestamps: None,
        };
        let ip = Ipv4Repr {
            src,
            dst,
            protocol: protocol::TCP,
            ttl: 64,
            traffic_class: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: (tcp.buffer_len() + 100) as u16,
        };
        let mut frame = vec![0; ethernet.buffer_len() + ip.buffer_len() + tcp.buffer_len() + 100];
        ethernet.emit(&mut frame);
        ip.emit(&mut frame[ethernet.buffer_len()..]);
        let start = ethernet.buffer_len() + ip.buffer_len();
        tcp.emit(&mut frame[start..]);
        TcpRepr::fill_checksum(&mut frame[start..], &Pseudo::V4 { src, dst, protocol: protocol::TCP });
        (FlowKey::parse(&frame).unwrap().hash(), frame)
    }

    #[test]
    fn each_flow_has_its_own_meter() {
        let mut flows = Flows::default();
        for number in [0, 2, 1, 3] {
            for port in [1_000, 2_000] {
                let (hash, frame) = segment(port, if port == 1_000 { number } else { 7 + number / 3 });
                assert!(flows.observe(Time::ZERO, hash, number, &frame));
            }
        }
        let report = flows.report();
        assert_eq!(report.len(), 2);
        assert_eq!(report[0].from.to_string(), "10.0.0.1:1000");
        assert_eq!((report[0].reordering.segments, report[0].reordering.reordered), (4, 1));
        assert_eq!((report[1].reordering.segments, report[1].reordering.reordered), (4, 0));
    }

    #[test]
    fn a_retransmission_is_not_reordering_however_soon_it_comes() {
        let mut flows = Flows::default();
        for (entered, sequence) in [0, 2, 3, 1].into_iter().enumerate() {
            let (hash, frame) = segment(1_000, sequence);
            assert!(flows.observe(Time::ZERO, hash, entered as u32, &frame));
        }
        assert_eq!(flows.report()[0].reordering.reordered, 0);
    }

    #[test]
    fn a_full_table_forgets_who_is_silent_and_nobody_else() {
        let mut flows = Flows::default();
        let mut show = |now: u64, port: u16| {
            let (hash, frame) = segment(port, 1);
            flows.observe(Time::ZERO + Span::from_secs(now), hash, 1, &frame)
        };
        assert!((0..FLOWS_MAX as u16).all(|port| show(1, port)));
        assert!(!show(2, 5_000), "all have been heard of lately");
        assert!(show(9, 7));
        assert!(show(15, 5_000));
        let ports: Vec<u16> = flows.report().iter().map(|flow| flow.from.port()).collect();
        assert_eq!(ports, [7, 5_000]);
    }
}
