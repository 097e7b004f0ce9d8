//! The flows that the kernel path carries: what a worker writes for the programs, and reads of them.
//!
//! ```text
//!   insert: free -> live  --withdraw-->  leaving  --a second later-->  free
//! ```
//!
//! The worker alone takes and frees places, so nothing is locked: it writes all of a flow before it says that it is live, and a place that is left is nobody else's before
//! any packet that had found it there is long gone.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::Ordering;

use datapath::{ConnectionId, OffloadOutcome, OffloadedFlow};
use machine::{Rebase, Span, Time};
use topology::{NodeId, TiVec};
use vswitch::conntrack::Tuple;

use super::layout::{
    BUCKETS, FLOW_WORDS, FREE, KEY_WORDS, LEAVING, LIVE, TCP_OVER_IPV4, TCP_OVER_IPV6, UDP_OVER_IPV4, UDP_OVER_IPV6,
    WAYS, bucket, word,
};
use crate::bpf::SharedArray;

/// How often what has passed is read, and places are freed.
const SWEEP: Span = Span::from_secs(1);

/// So long a place that was left is nobody else's: no packet is that long between two programs.
const QUARANTINE: Span = Span::from_secs(1);

/// No place.
const NONE: u32 = u32::MAX;

/// What has passed by a flow since it was read last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    pub packets: u64,
    pub bytes: u64,
}

/// A place of the table.
#[derive(Clone, Copy, Debug)]
struct Slot {
    flow: OffloadedFlow,
    /// What had passed when it was read last.
    read: Passed,
    /// Where it stands among those that are live.
    live_at: u32,
    /// Whether what passes is still counted for somebody.
    is_counted: bool,
}

/// The flows that the kernel path carries.
#[derive(Debug)]
pub struct FlowTable {
    memory: SharedArray,
    /// Where hashes start, so that nobody can choose what collides.
    seed: u64,
    /// By host: its device in the hub.
    devices: TiVec<NodeId, Option<u32>>,
    /// By place, as far as places have been used.
    slots: Vec<Option<Slot>>,
    /// Places with live flows.
    live: Vec<u32>,
    /// Places that are left, and when.
    leaving: VecDeque<(Time, u32)>,
    /// By the place of its connection, those of services and those of hosts apart: where each direction of it is.
    by_connection: [Vec<[u32; 2]>; 2],
    /// When it is swept next.
    sweeps_at: Time,
}

impl FlowTable {
    /// An empty one.
    ///
    /// # Errors
    /// If the kernel does not let this process have it.
    pub fn new(seed: u64) -> io::Result<Self> {
        let places = BUCKETS as usize * WAYS;
        Ok(Self {
            memory: SharedArray::new(BUCKETS, WAYS * FLOW_WORDS)?,
            seed,
            devices: TiVec::new(),
            slots: vec![None; places],
            live: Vec::with_capacity(places),
            leaving: VecDeque::with_capacity(places),
            by_connection: [Vec::new(), Vec::new()],
            sweeps_at: Time::ZERO,
        })
    }

    /// Where hashes start.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The map that programs look up.
    pub fn map(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Hosts have these devices in the hub from now on.
    pub fn set_devices(&mut self, devices: TiVec<NodeId, Option<u32>>) {
        self.devices = devices;
    }

    /// Takes a flow, if its hosts have devices and there is a place for it.
    pub fn insert(&mut self, now: Time, flow: &OffloadedFlow) -> OffloadOutcome {
        let device = |host: NodeId| self.devices.get(host).copied().flatten();
        let (Some(from), Some(to), Some(key)) = (device(flow.from), device(flow.to), key(&flow.tuple)) else {
            return OffloadOutcome::Impossible;
        };
        let known = *self.place_of(flow);
        if known != NONE {
            self.leave(now, known);
        }
        let bucket = bucket(self.seed, &key);
        let first = bucket as usize * WAYS;
        let Some(way) = (0..WAYS).find(|way| self.slots[first + way].is_none()) else { return OffloadOutcome::NoRoom };
        // Of an earlier flow with these addresses and ports, what is still between its two look-ups is lost: else it would take the packets of this one.
        for earlier in first..first + WAYS {
            if self.slots[earlier].as_ref().is_some_and(|slot| slot.flow.tuple == flow.tuple) {
                self.words(earlier as u32)[word::STATE].store(FREE, Ordering::Release);
            }
        }
        let place = (first + way) as u32;
        let words = self.words(place);
        let write = |at: usize, value: u64| words[at].store(value, Ordering::Relaxed);
        key.iter().enumerate().for_each(|(number, value)| write(word::KEY + number, *value));
        write(word::FROM, from.into());
        write(word::TO, to.into());
        write(word::MAC, mac_word(flow.mac));
        let [only, rest] = flow.only.map_or([0; 2], start_of_frame);
        write(word::ONLY, only);
        write(word::ONLY_REST, rest);
        let translates = flow.tuple != flow.target;
        write(word::TRANSLATES, translates.into());
        if translates {
            let (addresses, ports) = written(&flow.target);
            let (old_addresses, old_ports) = written(&flow.tuple);
            addresses.iter().enumerate().for_each(|(number, value)| write(word::ADDRESSES + number, *value));
            write(word::PORTS, ports.into());
            let halves = |words: [u64; 4]| words.into_iter().flat_map(|word| [word as u32, (word >> 32) as u32]);
            let differ = difference(halves(old_addresses).zip(halves(addresses)));
            write(word::ADDRESSES_DIFFER, differ.into());
            write(word::PORTS_DIFFER, difference([(old_ports, ports)]).into());
        }
        write(word::PACKETS, 0);
        write(word::BYTES, 0);
        words[word::STATE].store(LIVE, Ordering::Release);
        let live_at = self.live.len() as u32;
        self.live.push(place);
        self.slots[place as usize] = Some(Slot { flow: *flow, read: Passed::default(), live_at, is_counted: true });
        *self.place_of(flow) = place;
        OffloadOutcome::Carried
    }

    /// Where this direction of its connection is.
    fn place_of(&mut self, flow: &OffloadedFlow) -> &mut u32 {
        let (kind, connection) = of_kind(flow.connection);
        let places = &mut self.by_connection[kind];
        if places.len() <= connection {
            places.resize(connection + 1, [NONE; 2]);
        }
        &mut places[connection][usize::from(flow.is_reply)]
    }

    /// Carries nothing of a connection any more. What has passed is handed to `count`, now and once more when its places are freed.
    pub fn withdraw(&mut self, now: Time, connection: ConnectionId, mut count: impl FnMut(&OffloadedFlow, Passed)) {
        let (kind, connection) = of_kind(connection);
        let Some(places) = self.by_connection[kind].get_mut(connection) else { return };
        for place in std::mem::replace(places, [NONE; 2]).into_iter().filter(|place| *place != NONE) {
            self.leave(now, place);
            self.read(place, &mut count);
        }
    }

    /// Carries nothing any more. What has passed is handed to `count`; nothing is counted later, when hosts may have other numbers.
    pub fn withdraw_all(&mut self, now: Time, mut count: impl FnMut(&OffloadedFlow, Passed)) {
        while let Some(place) = self.live.last().copied() {
            self.leave(now, place);
        }
        for at in 0..self.leaving.len() {
            let (_, place) = self.leaving[at];
            self.read(place, &mut count);
            if let Some(slot) = &mut self.slots[place as usize] {
                slot.is_counted = false;
            }
        }
    }

    /// Hands to `count` what has passed since it was read last.
    pub fn read_all(&mut self, mut count: impl FnMut(&OffloadedFlow, Passed)) {
        for at in 0..self.live.len() {
            self.read(self.live[at], &mut count);
        }
    }

    /// When it is time for [`FlowTable::sweep`].
    pub const fn sweeps_at(&self) -> Time {
        self.sweeps_at
    }

    /// Reads what has passed, and frees places that were left. When to come again.
    pub fn sweep(&mut self, now: Time, mut count: impl FnMut(&OffloadedFlow, Passed)) -> Time {
        self.read_all(&mut count);
        while let Some((since, place)) = self.leaving.front().copied()
            && now.since(since) >= QUARANTINE
        {
            self.leaving.pop_front();
            self.read(place, &mut count);
            self.words(place)[word::STATE].store(FREE, Ordering::Release);
            self.slots[place as usize] = None;
        }
        self.sweeps_at = now + SWEEP;
        self.sweeps_at
    }

    /// A place's flow is live no more.
    fn leave(&mut self, now: Time, place: u32) {
        self.words(place)[word::STATE].store(LEAVING, Ordering::Release);
        let Some(Slot { flow, live_at, .. }) = self.slots[place as usize] else { return };
        self.live.swap_remove(live_at as usize);
        if let Some(moved) = self.live.get(live_at as usize)
            && let Some(slot) = &mut self.slots[*moved as usize]
        {
            slot.live_at = live_at;
        }
        let own = self.place_of(&flow);
        if *own == place {
            *own = NONE;
        }
        self.leaving.push_back((now, place));
    }

    fn read(&mut self, place: u32, count: &mut impl FnMut(&OffloadedFlow, Passed)) {
        let words = self.words(place);
        let is = Passed {
            packets: words[word::PACKETS].load(Ordering::Relaxed),
            bytes: words[word::BYTES].load(Ordering::Relaxed),
        };
        let Some(slot) = &mut self.slots[place as usize] else { return };
        let was = std::mem::replace(&mut slot.read, is);
        let passed = Passed { packets: is.packets - was.packets, bytes: is.bytes - was.bytes };
        if passed.packets > 0 && slot.is_counted {
            count(&slot.flow, passed);
        }
    }

    fn words(&self, place: u32) -> &[std::sync::atomic::AtomicU64] {
        let (bucket, way) = (place as usize / WAYS, place as usize % WAYS);
        &self.memory.entry(bucket)[way * FLOW_WORDS..(way + 1) * FLOW_WORDS]
    }
}

impl Rebase for FlowTable {
    fn rebase(&mut self, by: Span) {
        let Self { memory: _, seed: _, devices: _, slots: _, live: _, leaving, by_connection: _, sweeps_at } = self;
        sweeps_at.rebase(by);
        for (since, _) in leaving {
            since.rebase(by);
        }
    }
}

/// The key by which programs find a flow; `None` for what they do not carry.
fn key(tuple: &Tuple) -> Option<[u64; KEY_WORDS]> {
    let kind = match (tuple.protocol, tuple.is_ipv6) {
        (wire::protocol::TCP, false) => TCP_OVER_IPV4,
        (wire::protocol::TCP, true) => TCP_OVER_IPV6,
        (wire::protocol::UDP, false) => UDP_OVER_IPV4,
        (wire::protocol::UDP, true) => UDP_OVER_IPV6,
        _ => return None,
    };
    let (words, ports) = written(tuple);
    let last = kind << 32 | u64::from(ports);
    if tuple.is_ipv6 {
        return Some([words[0], words[1], words[2], words[3], last]);
    }
    let address = |address: u128| u64::from(u32::from_ne_bytes((address as u32).to_be_bytes()));
    Some([0, address(tuple.src), 0, address(tuple.dst), last])
}

/// Addresses and ports as they stand in a packet: two words of each address, or one of both addresses of IPv4.
fn written(tuple: &Tuple) -> ([u64; 4], u32) {
    let [[a, b], [c, d]] = [tuple.src_port, tuple.dst_port].map(u16::to_be_bytes);
    let ports = u32::from_ne_bytes([a, b, c, d]);
    let mut bytes = [0; 32];
    if tuple.is_ipv6 {
        bytes[..16].copy_from_slice(&tuple.src.to_be_bytes());
        bytes[16..].copy_from_slice(&tuple.dst.to_be_bytes());
    } else {
        bytes[..4].copy_from_slice(&(tuple.src as u32).to_be_bytes());
        bytes[4..8].copy_from_slice(&(tuple.dst as u32).to_be_bytes());
    }
    let (words, _) = bytes.as_chunks::<8>();
    (std::array::from_fn(|at| u64::from_ne_bytes(words[at])), ports)
}

/// Which of the two lists a connection is in, and where.
const fn of_kind(connection: ConnectionId) -> (usize, usize) {
    match connection {
        ConnectionId::OfService(place) => (0, place as usize),
        ConnectionId::Direct(place) => (1, place as usize),
    }
}

/// The first twelve bytes of a frame for the one address from the other one, as they stand in memory: eight and four.
fn start_of_frame((destination, source): ([u8; 6], [u8; 6])) -> [u64; 2] {
    let [d0, d1, d2, d3, d4, d5] = destination;
    let [s0, s1, s2, s3, s4, s5] = source;
    [u64::from_ne_bytes([d0, d1, d2, d3, d4, d5, s0, s1]), u32::from_ne_bytes([s2, s3, s4, s5]).into()]
}

fn mac_word(mac: [u8; 6]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&mac);
    u64::from_ne_bytes(bytes)
}

/// What a checksum differs by when these words are exchanged (RFC 1624): old ones and new ones, as they stand in memory.
fn difference(words: impl IntoIterator<Item = (u32, u32)>) -> u32 {
    let mut sum = 0_u64;
    for (old, new) in words.into_iter().filter(|(old, new)| old != new) {
        sum += u64::from(!old) + u64::from(new);
    }
    while sum >> 32 != 0 {
        sum = (sum & u64::from(u32::MAX)) + (sum >> 32);
    }
    sum as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::checksum;

    use super::*;

    fn tuple(is_ipv6: bool, (src, dst): (u128, u128), (src_port, dst_port): (u16, u16)) -> Tuple {
        let cut = |address: u128| if is_ipv6 { address } else { address & u128::from(u32::MAX) };
        Tuple { src: cut(src), dst: cut(dst), src_port, dst_port, protocol: wire::protocol::TCP, is_ipv6 }
    }

    /// The bytes that a checksum covers of addresses and ports, and some more.
    fn covered(tuple: &Tuple, rest: &[u8]) -> Vec<u8> {
        let (words, ports) = written(tuple);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(ports.to_ne_bytes());
        bytes.extend(rest);
        bytes
    }

    /// As the kernel does it: `csum_replace_by_diff`.
    fn replaced(sum: [u8; 2], differ: u32) -> [u8; 2] {
        let sum = u64::from(!u16::from_ne_bytes(sum)) + u64::from(differ);
        let fold = |sum: u64| (sum & 0xffff) + (sum >> 16);
        let mut sum = (sum >> 32) + (sum & u64::from(u32::MAX));
        while sum >> 16 != 0 {
            sum = fold(sum);
        }
        (!(sum as u16)).to_ne_bytes()
    }

    proptest! {
        #[test]
        fn checksums_are_those_of_what_is_written(
            is_ipv6: bool,
            old in (any::<(u128, u128)>(), any::<(u16, u16)>()),
            new in (any::<(u128, u128)>(), any::<(u16, u16)>()),
            rest in prop::collection::vec(any::<u8>(), 8..40),
        ) {
            let (old, new) = (tuple(is_ipv6, old.0, old.1), tuple(is_ipv6, new.0, new.1));
            let halves = |words: [u64; 4]| words.into_iter().flat_map(|word| [word as u32, (word >> 32) as u32]);
            let ((was, old_ports), (is, ports)) = (written(&old), written(&new));
            let addresses = difference(halves(was).zip(halves(is)));
            let sum = checksum::internet(&covered(&old, &rest)).to_be_bytes();
            let sum = replaced(replaced(sum, addresses), difference([(old_ports, ports)]));
            let expected = checksum::internet(&covered(&new, &rest)).to_be_bytes();
            // Zero has two forms.
            let is_same = sum == expected || [sum, expected].iter().all(|it| matches!(it, [0, 0] | [0xff, 0xff]));
            prop_assert!(is_same, "{sum:02x?} {expected:02x?}");
        }
    }

    #[test]
    fn keys_are_what_stands_in_packets() {
        let tuple = tuple(false, (0x0a00_0001, 0x0a01_0050), (40_000, 80));
        let key = key(&tuple).expect("it is TCP");
        let bytes = |word: u64| word.to_ne_bytes();
        let value = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
        };
        assert_eq!((key[0], key[1]), (0, value(&[10, 0, 0, 1])));
        assert_eq!((key[2], key[3]), (0, value(&[10, 1, 0, 80])));
        assert_eq!(key[4], TCP_OVER_IPV4 << 32 | value(&[0x9c, 0x40, 0, 80]));
        assert_eq!(bytes(written(&tuple).0[0]), [10, 0, 0, 1, 10, 1, 0, 80]);
    }
}
