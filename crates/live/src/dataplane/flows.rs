//! Flows of TCP and UDP as they leave the fabric: what was delivered of each, and the order in which segments arrive.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use machine::{Rebase, Span, Time};
use transport::delay;
use transport::reordering::Meter;
use vswitch::spread::FlowHash;
use vswitch::{FlowKey, Payload, UdpFragment, payload};
use wire::ethertype;

use super::reassembly::{Reassembly, Whole};
use crate::control::FlowCounters;

/// Flows that one worker watches at most. When there are more, those that have been silent for the longest are forgotten; if none has been
/// silent, the new one is not watched.
pub const FLOWS_MAX: usize = 16_384;

/// How long a flow must have been silent to be forgotten.
const SILENCE: Span = Span::from_secs(1);

/// How many flows are forgotten at a time at most, and how long to wait after that before the next time: it sorts all of them.
const FORGOTTEN: usize = FLOWS_MAX / 4;
const FORGET_EVERY: Span = Span::from_secs(1);

/// So many flows at once are counted for certain, whatever there was before: a full table forgets those only that have been silent for longer.
pub const FLOWS_COUNTED_MAX: usize = FLOWS_MAX - FORGOTTEN;

/// Twice the flows, so that probing stays short.
const SLOTS: usize = FLOWS_MAX * 2;

/// The flows that end at one worker's hosts.
#[derive(Debug, Default)]
pub struct Flows {
    /// One more than the place in `watched`; 0 is free. Made with the first flow.
    slots: Vec<u16>,
    watched: Vec<Flow>,
    reassembly: Reassembly,
    /// When silent flows may be forgotten again.
    forget_at: Time,
}

/// A flow, and what came of it.
#[derive(Debug)]
pub struct Flow {
    hash: FlowHash,
    from: SocketAddr,
    to: SocketAddr,
    came: Came,
    /// How long its packets took, where links take time.
    delays: Option<delay::Meter>,
    /// When something of it was seen last.
    seen: Time,
}

/// What is known of a packet besides its frame.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Its place among those that entered the fabric where it did.
    pub number: u32,
    /// How long it took through the fabric; `None`: that says nothing.
    pub took: Option<Span>,
}

impl Flow {
    #[inline]
    fn note_delay(&mut self, took: Option<Span>) {
        if let Some(took) = took {
            self.delays.get_or_insert_default().record(took);
        }
    }
}

/// What came of a flow.
#[derive(Debug)]
enum Came {
    /// Segments of TCP.
    Segments(Meter),
    /// Bytes of payload in whole datagrams of UDP.
    Datagrams(u64),
}

impl Flows {
    /// Counts what a frame (without virtio-net header) has for a program of its receiver; false if there is no room for
    /// the flow. Flows are told apart by their 64-bit hash: of 16,384 flows, two share one with a chance of 2^-37.
    ///
    /// `passed.number` tells which of two segments was sent later. TCP's timestamps tell that to a millisecond only: a retransmission within one would look like reordering.
    #[inline]
    pub fn observe(&mut self, now: Time, hash: FlowHash, passed: Passed, frame: &[u8]) -> bool {
        match payload(frame) {
            None => true,
            Some(Payload::Segment(segment)) => {
                let is_new = || (ends(frame, None), Came::Segments(Meter::new()));
                let Some(flow) = self.flow(now, hash, is_new) else { return false };
                flow.note_delay(passed.took);
                if let Came::Segments(meter) = &mut flow.came {
                    meter.observe(segment.seq, segment.end(), passed.number);
                }
                true
            }
            Some(Payload::Datagram(bytes)) => {
                self.count_datagram(now, hash, (bytes, passed.took), || ends(frame, None))
            }
            Some(Payload::Fragment(fragment)) => self.observe_fragment(now, (hash, passed.took), &fragment, frame),
        }
    }

    /// All fragments between two hosts have one hash, since only a datagram's first one shows ports.
    fn observe_fragment(
        &mut self,
        now: Time,
        (hash, took): (FlowHash, Option<Span>),
        fragment: &UdpFragment,
        frame: &[u8],
    ) -> bool {
        let Some(Whole { ports, payload_len }) = self.reassembly.offer(now, hash, fragment) else { return true };
        let Ok(key) = FlowKey::parse(frame) else { return true };
        let hash = FlowKey { src_port: ports.0, dst_port: ports.1, ..key }.hash();
        // The fragment that completes a datagram says how long it took.
        self.count_datagram(now, hash, (payload_len, took), || ends(frame, Some(ports)))
    }

    #[inline]
    fn count_datagram(
        &mut self,
        now: Time,
        hash: FlowHash,
        (payload_len, took): (u32, Option<Span>),
        ends: impl FnOnce() -> (SocketAddr, SocketAddr),
    ) -> bool {
        let Some(flow) = self.flow(now, hash, || (ends(), Came::Datagrams(0))) else { return false };
        flow.note_delay(took);
        if let Came::Datagrams(bytes) = &mut flow.came {
            *bytes += u64::from(payload_len);
        }
        true
    }

    /// The flow with this hash, of which something comes now; `None` if it is not known and there is no room for it.
    #[inline]
    fn flow(
        &mut self,
        now: Time,
        hash: FlowHash,
        new: impl FnOnce() -> ((SocketAddr, SocketAddr), Came),
    ) -> Option<&mut Flow> {
        if self.slots.is_empty() {
            self.slots = vec![0; SLOTS];
        }
        let known = usize::from(self.slots[self.probe(hash)]).checked_sub(1);
        let at = known.or_else(|| self.insert(now, hash, new))?;
        let flow = &mut self.watched[at];
        flow.seen = now;
        Some(flow)
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

    /// Makes room, if there can be any, by forgetting flows that have been silent: the longest first. The others keep their order.
    fn forget_silent(&mut self, now: Time) {
        if now < self.forget_at {
            return;
        }
        self.forget_at = now + FORGET_EVERY;
        let mut seen: Vec<Time> = self.watched.iter().map(|flow| flow.seen).collect();
        let last = *seen.select_nth_unstable(FORGOTTEN - 1).1;
        let mut left = FORGOTTEN;
        self.watched.retain(|flow| {
            let goes = left > 0 && flow.seen <= last && now.since(flow.seen) >= SILENCE;
            left -= usize::from(goes);
            !goes
        });
        self.slots.fill(0);
        for at in 0..self.watched.len() {
            let slot = self.probe(self.watched[at].hash);
            self.slots[slot] = at as u16 + 1;
        }
    }

    /// A flow that was not seen before; `None` if there is no room. It allocates, once a flow.
    #[cold]
    fn insert(
        &mut self,
        now: Time,
        hash: FlowHash,
        new: impl FnOnce() -> ((SocketAddr, SocketAddr), Came),
    ) -> Option<usize> {
        if self.watched.len() == FLOWS_MAX {
            self.forget_silent(now);
        }
        if self.watched.len() == FLOWS_MAX {
            return None;
        }
        let slot = self.probe(hash);
        let ((from, to), came) = new();
        self.watched.push(Flow { hash, from, to, came, delays: None, seen: now });
        self.slots[slot] = self.watched.len() as u16;
        Some(self.watched.len() - 1)
    }

    /// What was seen, in the order in which the flows came up.
    pub fn report(&self) -> Vec<FlowCounters> {
        let report = |flow: &Flow| {
            let (delivered_bytes, reordering) = match &flow.came {
                Came::Segments(meter) => (meter.delivered(), Some(meter.counters())),
                Came::Datagrams(bytes) => (*bytes, None),
            };
            FlowCounters {
                from: flow.from,
                to: flow.to,
                delivered_bytes,
                reordering,
                delays: flow.delays.as_ref().map(delay::Meter::delays),
            }
        };
        self.watched.iter().map(report).collect()
    }
}

/// Where a frame's flow comes from and where it goes; by these ports, if the frame does not show them.
#[cold]
fn ends(frame: &[u8], ports: Option<(u16, u16)>) -> (SocketAddr, SocketAddr) {
    let key = FlowKey::parse(frame).unwrap_or_default();
    let address = |bits: u128| match key.ethertype {
        ethertype::IPV4 => IpAddr::from(Ipv4Addr::from_bits(bits as u32)),
        _ => IpAddr::from(Ipv6Addr::from_bits(bits)),
    };
    let (src, dst) = ports.unwrap_or((key.src_port, key.dst_port));
    (SocketAddr::new(address(key.src), src), SocketAddr::new(address(key.dst), dst))
}

impl Rebase for Flows {
    fn rebase(&mut self, by: Span) {
        let Self { slots: _, watched, reassembly, forget_at } = self;
        watched.rebase(by);
        reassembly.rebase(by);
        forget_at.rebase(by);
    }
}

impl Rebase for Flow {
    fn rebase(&mut self, by: Span) {
        let Self { hash: _, from: _, to: _, came: _, delays: _, seen } = self;
        seen.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{EthernetRepr, Ipv4Repr, Pseudo, TcpRepr, UdpRepr, protocol, tcp_flags};

    /// As the `number`th, in a millisecond for each.
    fn passed(number: u32) -> Passed {
        Passed { number, took: Some(Span::from_ms(u64::from(number))) }
    }

    #[test]
    fn delays_are_counted_by_flow_where_links_take_time() {
        let mut flows = Flows::default();
        for number in 1..=9 {
            let (hash, frame) = segment(40_000, number);
            assert!(flows.observe(Time::ZERO, hash, passed(number), &frame));
        }
        let (hash, frame) = segment(40_001, 1);
        assert!(flows.observe(Time::ZERO, hash, Passed { number: 1, took: None }, &frame));
        let report = flows.report();
        let delays = report[0].delays.as_ref().unwrap();
        assert_eq!((delays.count(), delays.mean(), delays.max()), (9, Some(0.005), Some(0.009)));
        assert_eq!(report[1].delays, None);
    }

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

    /// A piece of 1,480 bytes of a datagram from 10.0.0.1 to 10.0.0.2, where it lies in units of eight bytes, and whether more follow.
    fn datagram((src_port, dst_port): (u16, u16), identification: u16, (offset, more): (u16, bool)) -> Vec<u8> {
        let ethernet = EthernetRepr { dst: [2; 6], src: [4; 6], vlan: None, ethertype: ethertype::IPV4 };
        let ip = Ipv4Repr {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
            protocol: protocol::UDP,
            ttl: 64,
            traffic_class: 0,
            identification,
            dont_fragment: false,
            more_fragments: more,
            fragment_offset: offset,
            payload_len: 1_480,
        };
        let start = ethernet.buffer_len() + ip.buffer_len();
        let mut frame = vec![0; start + 1_480];
        ethernet.emit(&mut frame);
        ip.emit(&mut frame[ethernet.buffer_len()..]);
        if offset == 0 {
            UdpRepr { src_port, dst_port, payload_len: 1_472 }.emit(&mut frame[start..]);
        }
        frame
    }

    #[test]
    fn each_flow_has_its_own_meter() {
        let mut flows = Flows::default();
        for number in [0, 2, 1, 3] {
            for port in [1_000, 2_000] {
                let (hash, frame) = segment(port, if port == 1_000 { number } else { 7 + number / 3 });
                assert!(flows.observe(Time::ZERO, hash, passed(number), &frame));
            }
        }
        let report = flows.report();
        assert_eq!(report.len(), 2);
        assert_eq!(report[0].from.to_string(), "10.0.0.1:1000");
        let of =
            |at: usize| report[at].reordering.map(|seen| (seen.segments, seen.reordered, report[at].delivered_bytes));
        assert_eq!(of(0), Some((4, 1, 400)));
        // 7 three times, and 8.
        assert_eq!(of(1), Some((4, 0, 200)));
    }

    #[test]
    fn a_retransmission_is_not_reordering_however_soon_it_comes() {
        let mut flows = Flows::default();
        for (entered, sequence) in [0, 2, 3, 1].into_iter().enumerate() {
            let (hash, frame) = segment(1_000, sequence);
            assert!(flows.observe(Time::ZERO, hash, passed(entered as u32), &frame));
        }
        assert_eq!(flows.report()[0].reordering.map(|seen| seen.reordered), Some(0));
    }

    #[test]
    fn a_full_table_forgets_who_is_silent_and_nobody_else() {
        let mut flows = Flows::default();
        let mut show = |ms: u64, port: u16| {
            let (hash, frame) = segment(port, 1);
            flows.observe(Time::ZERO + Span::from_ms(ms), hash, passed(1), &frame)
        };
        let all = FLOWS_MAX as u16;
        // A half at once, the other half later.
        assert!((0..all / 2).all(|port| show(1_000, port)));
        assert!((all / 2..all).all(|port| show(1_500, port)));
        assert!(!show(1_900, 50_000), "all have been heard of lately");
        assert!(show(2_800, 7));
        assert!(!show(2_899, 50_000), "they are looked for once a second");
        assert!(show(2_900, 50_000));
        let ports: Vec<u16> = flows.report().iter().map(|flow| flow.from.port()).collect();
        // A quarter of those that had been silent for the longest.
        let expected: Vec<u16> = [7].into_iter().chain(all / 4 + 1..all).chain([50_000]).collect();
        assert_eq!(ports, expected);
        for port in [7, 50_000, all - 1] {
            let (hash, frame) = segment(port, 1);
            flows.observe(Time::ZERO + Span::from_secs(3), hash, passed(2), &frame);
        }
        assert_eq!(flows.report().len(), expected.len(), "those that are left are found");
    }

    #[test]
    fn datagrams_count_whole_and_by_their_ports() {
        let mut flows = Flows::default();
        let mut show = |ports: (u16, u16), identification: u16, piece: (u16, bool)| {
            let frame = datagram(ports, identification, piece);
            let hash = FlowKey::parse(&frame).unwrap().hash();
            assert!(flows.observe(Time::ZERO, hash, passed(1), &frame));
        };
        show((1_000, 6_000), 0, (0, false));
        show((1_000, 6_000), 0, (0, false));
        // Two datagrams of three fragments; of one the middle is missing.
        for (ports, identification) in [((1_000, 6_000), 7), ((1_001, 6_000), 8)] {
            show(ports, identification, (0, true));
            show(ports, identification, (370, false));
        }
        show((1_001, 6_000), 8, (185, true));
        let report: Vec<_> = flows.report().into_iter().map(|flow| (flow.from.port(), flow.delivered_bytes)).collect();
        let piece = 1_480;
        assert_eq!(report, [(1_000, 2 * (piece - 8)), (1_001, 3 * piece - 8)]);
        assert!(flows.report().iter().all(|flow| flow.to.to_string() == "10.0.0.2:6000" && flow.reordering.is_none()));
    }
}
