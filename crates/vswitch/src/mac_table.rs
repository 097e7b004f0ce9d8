//! Addresses that hosts have besides those of the file: of guests and containers in them, of what is behind a bridge or a device of the machine. They are learned from what comes
//! in, by VLAN, as a switch learns (IEEE 802.1Q, 8.7), with the bounds of Open vSwitch.
//!
//! An address is learned where it comes in, and from then on all switches of the network know behind which host it is: what is for it goes along the routes to that host. So paths are as
//! short, and spread as those of all other packets, and nothing is learned at switches in between, where what comes by two ways would make an address move to and fro.
//!
//! Workers look addresses up side by side without a lock: a slot is a few atomic words. Who sees a change late floods one packet more. Only an address that is new or has moved
//! needs the lock, which is tried and never waited for: what is not learned now is learned from the next packet.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use machine::{mix, nanos};
use topology::{NodeId, TiVec};

use crate::flow_key::mac_bits;

/// The most addresses of a network, however many its switches may have.
const ADDRESSES_MAX: u32 = 65_536;

/// No address: all have the bit [`KNOWN`].
const FREE: u64 = 0;
const KNOWN: u64 = 1 << 63;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// How many addresses are looked at for one from which nothing came for long, before one is taken that came long ago.
const SECOND_LOOKS: usize = 4;

/// What a switch may learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacLimits {
    /// How long an address is known from which nothing comes any more.
    pub age: nanos::Span,
    /// How many addresses it knows at most.
    pub addresses: u32,
}

/// An address that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LearnedMac {
    /// The host behind which it is.
    pub host: NodeId,
    /// The VLAN, 0 where there are none.
    pub vlan: u16,
    /// The address.
    pub mac: [u8; 6],
    /// When something came from it last.
    pub seen: nanos::Span,
}

/// The addresses of a network that the file does not name.
#[derive(Debug)]
pub struct MacTable {
    /// Open addressing with linear probing; at most half of the slots are taken. The length is a power of two.
    slots: Box<[Slot]>,
    /// By host: its switch, by its number in `limits`; [`NONE`] if nothing is learned there.
    switches: TiVec<NodeId, u32>,
    limits: Box<[MacLimits]>,
    /// Where hashes start: who sends may know all else.
    seed: u64,
    ledger: Mutex<Ledger>,
}

#[derive(Debug, Default)]
struct Slot {
    /// VLAN and address, or [`FREE`].
    key: AtomicU64,
    /// When something came from it last, in nanoseconds.
    seen: AtomicU64,
    host: AtomicU32,
}

/// What only changes need: which addresses each host has, oldest first.
#[derive(Debug)]
struct Ledger {
    entries: Vec<Entry>,
    /// Numbers of `entries` that are free.
    free: Vec<u32>,
    /// By slot: the number of its entry.
    by_slot: Box<[u32]>,
    /// By host.
    lists: Vec<List>,
    /// Hosts that have addresses: by switch, then by how many they have.
    busiest: BTreeSet<(u32, u32, u32)>,
    /// By switch: how many addresses it knows.
    counts: Box<[u32]>,
    total: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    /// What `seen` was when it came to the end of its list.
    seen: u64,
    before: u32,
    after: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
    length: u32,
}

const fn key_of(vlan: u16, mac: [u8; 6]) -> u64 {
    KNOWN | (vlan as u64 & 0x0fff) << 48 | mac_bits(mac)
}

impl MacTable {
    /// A table that knows nothing. `switches` says by host at which switch it is, by its number in `limits`; `None`: nothing is learned there.
    pub fn new(switches: impl Iterator<Item = Option<usize>>, limits: &[MacLimits], seed: u64) -> Self {
        let switches: TiVec<NodeId, u32> = switches.map(|switch| switch.map_or(NONE, |switch| switch as u32)).collect();
        let wanted: u64 = limits.iter().map(|limits| u64::from(limits.addresses)).sum();
        let addresses = wanted.min(u64::from(ADDRESSES_MAX)).max(1) as usize;
        let slots = (2 * addresses).next_power_of_two();
        Self {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            limits: limits.into(),
            seed,
            ledger: Mutex::new(Ledger {
                entries: Vec::new(),
                free: Vec::new(),
                by_slot: vec![NONE; slots].into(),
                lists: vec![List { first: NONE, last: NONE, length: 0 }; switches.len()],
                busiest: BTreeSet::new(),
                counts: vec![0; limits.len()].into(),
                total: 0,
            }),
            switches,
        }
    }

    /// Something has come from an address behind a host. Whether the address is new or has moved.
    pub fn learn(&self, (vlan, mac): (u16, [u8; 6]), host: NodeId, now: nanos::Span) -> bool {
        let Some(limits) = self.limits_of(host) else { return false };
        let key = key_of(vlan, mac);
        if let Some(at) = self.find(key) {
            let slot = &self.slots[at];
            slot.seen.store(now.as_ns(), Ordering::Relaxed);
            if slot.host.load(Ordering::Relaxed) == host.0 {
                return false;
            }
        }
        let mut ledger = match self.ledger.try_lock() {
            Ok(ledger) => ledger,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let was = self.find(key).map(|at| self.slots[at].host.load(Ordering::Relaxed));
        if was == Some(host.0) {
            return false;
        }
        if was.is_none_or(|was| self.switches[NodeId(was)] != self.switches[host]) {
            self.make_room(&mut ledger, host, limits, now);
        }
        // It may be the one that made room.
        let Some(at) = self.find(key) else {
            self.insert(&mut ledger, key, host, now);
            return true;
        };
        let (entry, was) = (ledger.by_slot[at], self.slots[at].host.swap(host.0, Ordering::Relaxed));
        ledger.unlink(entry, was, self.switches[NodeId(was)]);
        ledger.link(entry, host.0, self.switches[host], now.as_ns());
        true
    }

    /// The host behind which an address is.
    pub fn lookup(&self, (vlan, mac): (u16, [u8; 6]), now: nanos::Span) -> Option<NodeId> {
        let key = key_of(vlan, mac);
        let slot = &self.slots[self.find(key)?];
        let (host, seen) = (NodeId(slot.host.load(Ordering::Relaxed)), slot.seen.load(Ordering::Relaxed));
        // Another one may have taken its place.
        let is_it = slot.key.load(Ordering::Acquire) == key;
        (is_it && !self.has_expired(host, seen, now)).then_some(host)
    }

    /// Forgets the addresses of a switch, by its number in the limits; of all if none is named. How many they were.
    pub fn flush(&self, switch: Option<usize>) -> usize {
        self.flush_hosts(|host| switch.is_none_or(|switch| self.switches[host] == switch as u32))
    }

    /// Forgets what was learned behind these hosts. How many addresses they were.
    pub fn flush_hosts(&self, is_meant: impl Fn(NodeId) -> bool) -> usize {
        let mut ledger = self.lock();
        // Few hosts have any.
        let known: BTreeSet<u32> = ledger.busiest.iter().map(|(_, _, host)| *host).collect();
        let mut flushed = 0;
        for host in known.into_iter().filter(|host| is_meant(NodeId(*host))) {
            while let Some(entry) = ledger.first(host) {
                self.remove(&mut ledger, entry, host);
                flushed += 1;
            }
        }
        flushed
    }

    /// What is known, by host.
    pub fn addresses(&self, now: nanos::Span) -> Vec<LearnedMac> {
        let _ledger = self.lock();
        let known = self.slots.iter().filter_map(|slot| {
            let key = slot.key.load(Ordering::Acquire);
            let (host, seen) = (NodeId(slot.host.load(Ordering::Relaxed)), slot.seen.load(Ordering::Relaxed));
            let [_, _, mac @ ..] = key.to_be_bytes();
            let learned = LearnedMac { host, vlan: (key >> 48) as u16 & 0x0fff, mac, seen: nanos::Span::from_ns(seen) };
            (key != FREE && !self.has_expired(host, seen, now)).then_some(learned)
        });
        let mut known: Vec<LearnedMac> = known.collect();
        known.sort_unstable();
        known
    }

    /// How many addresses a switch may know, by its number in the limits.
    pub fn addresses_max(&self, switch: usize) -> u32 {
        self.limits.get(switch).map_or(0, |limits| limits.addresses)
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn limits_of(&self, host: NodeId) -> Option<&MacLimits> {
        self.limits.get(*self.switches.get(host)? as usize)
    }

    fn has_expired(&self, host: NodeId, seen: u64, now: nanos::Span) -> bool {
        self.limits_of(host).is_none_or(|limits| now.as_ns().saturating_sub(seen) > limits.age.as_ns())
    }

    /// Where the search for a key begins.
    fn home(&self, key: u64) -> usize {
        mix(key ^ self.seed) as usize & (self.slots.len() - 1)
    }

    fn find(&self, key: u64) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut at = self.home(key);
        // While others are being moved, no free one may come by.
        for _ in 0..=mask {
            match self.slots[at].key.load(Ordering::Acquire) {
                FREE => return None,
                other if other == key => return Some(at),
                _ => at = (at + 1) & mask,
            }
        }
        None
    }

    /// Forgets what has expired at the host, and, when there is no room for one more address at its switch, one of the port that has most.
    fn make_room(&self, ledger: &mut Ledger, host: NodeId, limits: &MacLimits, now: nanos::Span) {
        let seen = |ledger: &Ledger, entry: u32| {
            let at = self.find(ledger.entries[entry as usize].key).expect("the ledger has what is in the slots");
            self.slots[at].seen.load(Ordering::Relaxed)
        };
        if let Some(first) = ledger.first(host.0)
            && self.has_expired(host, seen(ledger, first), now)
        {
            self.remove(ledger, first, host.0);
        }
        let switch = self.switches[host];
        let is_full = ledger.counts[switch as usize] >= limits.addresses;
        let busiest = if is_full {
            ledger.busiest.range((switch, 0, 0)..=(switch, u32::MAX, u32::MAX)).next_back().copied()
        } else if ledger.total as usize >= self.slots.len() / 2 {
            // Of all switches: theirs that have more than their number says are not there.
            ledger.busiest.iter().max_by_key(|(_, length, _)| *length).copied()
        } else {
            None
        };
        let Some((of, _, busiest)) = busiest else { return };
        for _ in 0..SECOND_LOOKS {
            let Some(first) = ledger.first(busiest) else { return };
            let now_seen = seen(ledger, first);
            if now_seen <= ledger.entries[first as usize].seen {
                break;
            }
            // Something came from it since it was put there.
            ledger.unlink(first, busiest, of);
            ledger.link(first, busiest, of, now_seen);
        }
        if let Some(first) = ledger.first(busiest) {
            self.remove(ledger, first, busiest);
        }
    }

    fn insert(&self, ledger: &mut Ledger, key: u64, host: NodeId, now: nanos::Span) {
        let mask = self.slots.len() - 1;
        let mut at = self.home(key);
        while self.slots[at].key.load(Ordering::Relaxed) != FREE {
            at = (at + 1) & mask;
        }
        let entry = Entry { key, seen: 0, before: NONE, after: NONE };
        let number = if let Some(number) = ledger.free.pop() {
            ledger.entries[number as usize] = entry;
            number
        } else {
            ledger.entries.push(entry);
            ledger.entries.len() as u32 - 1
        };
        ledger.by_slot[at] = number;
        ledger.link(number, host.0, self.switches[host], now.as_ns());
        self.slots[at].write(key, host.0, now.as_ns());
    }

    fn remove(&self, ledger: &mut Ledger, entry: u32, host: u32) {
        let mask = self.slots.len() - 1;
        let key = ledger.entries[entry as usize].key;
        let mut hole = self.find(key).expect("the ledger has what is in the slots");
        ledger.unlink(entry, host, self.switches[NodeId(host)]);
        ledger.free.push(entry);
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = &self.slots[at];
            let key = slot.key.load(Ordering::Relaxed);
            if key == FREE {
                break;
            }
            // One that would be found no more behind the hole moves into it.
            if at.wrapping_sub(self.home(key)) & mask >= at.wrapping_sub(hole) & mask {
                let (host, seen) = (slot.host.load(Ordering::Relaxed), slot.seen.load(Ordering::Relaxed));
                self.slots[hole].write(key, host, seen);
                ledger.by_slot[hole] = ledger.by_slot[at];
                hole = at;
            }
        }
        self.slots[hole].key.store(FREE, Ordering::Release);
    }
}

impl Slot {
    /// Whoever reads meanwhile finds the key twice, or does not believe what stands beside it.
    fn write(&self, key: u64, host: u32, seen: u64) {
        self.key.store(FREE, Ordering::Release);
        self.host.store(host, Ordering::Release);
        self.seen.store(seen, Ordering::Release);
        self.key.store(key, Ordering::Release);
    }
}

impl Ledger {
    fn first(&self, host: u32) -> Option<u32> {
        Some(self.lists[host as usize].first).filter(|first| *first != NONE)
    }

    /// A host has one address more or less.
    fn count(&mut self, host: u32, switch: u32, change: impl Fn(u32) -> u32) {
        let length = &mut self.lists[host as usize].length;
        self.busiest.remove(&(switch, *length, host));
        *length = change(*length);
        if *length > 0 {
            self.busiest.insert((switch, *length, host));
        }
        let count = &mut self.counts[switch as usize];
        *count = change(*count);
        self.total = change(self.total);
    }

    fn link(&mut self, entry: u32, host: u32, switch: u32, seen: u64) {
        let list = &mut self.lists[host as usize];
        let before = std::mem::replace(&mut list.last, entry);
        if before == NONE {
            list.first = entry;
        } else {
            self.entries[before as usize].after = entry;
        }
        let linked = &mut self.entries[entry as usize];
        (linked.before, linked.after, linked.seen) = (before, NONE, seen);
        self.count(host, switch, |count| count + 1);
    }

    fn unlink(&mut self, entry: u32, host: u32, switch: u32) {
        let Entry { before, after, .. } = self.entries[entry as usize];
        match before {
            NONE => self.lists[host as usize].first = after,
            before => self.entries[before as usize].after = after,
        }
        match after {
            NONE => self.lists[host as usize].last = before,
            after => self.entries[after as usize].before = before,
        }
        self.count(host, switch, |count| count - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);
    const C: NodeId = NodeId(2);

    /// Hosts A and B at one switch, C at another.
    fn table(addresses: u32) -> MacTable {
        let limits = MacLimits { age: at(300), addresses };
        MacTable::new([Some(0), Some(0), Some(1)].into_iter(), &[limits; 2], 7)
    }

    fn at(seconds: u64) -> nanos::Span {
        nanos::Span::from_secs(seconds)
    }

    fn mac(number: u32) -> (u16, [u8; 6]) {
        let [a, b, c, d] = number.to_be_bytes();
        (0, [2, 1, a, b, c, d])
    }

    fn known(table: &MacTable, numbers: std::ops::Range<u32>, now: u64) -> usize {
        numbers.filter(|number| table.lookup(mac(*number), at(now)).is_some()).count()
    }

    #[test]
    fn addresses_are_known_by_vlan_move_and_are_forgotten() {
        let table = table(8);
        assert!(table.learn(mac(1), A, at(0)) && !table.learn(mac(1), A, at(10)));
        assert_eq!(table.lookup(mac(1), at(310)), Some(A));
        assert_eq!(table.lookup((5, mac(1).1), at(10)), None);
        assert_eq!(table.lookup(mac(1), at(311)), None, "it is older than 300 seconds");
        assert!(table.learn(mac(1), C, at(320)), "it moves");
        assert_eq!(table.lookup(mac(1), at(320)), Some(C));
        assert!(table.learn((5, mac(1).1), B, at(320)));
        let all = table.addresses(at(320));
        assert_eq!(all.iter().map(|known| (known.host, known.vlan)).collect::<Vec<_>>(), [(B, 5), (C, 0)]);
        assert_eq!((table.flush(Some(1)), table.flush(None), table.flush(None)), (1, 1, 0));
        assert_eq!(table.addresses(at(320)), []);
    }

    #[test]
    fn when_it_is_full_the_port_that_has_most_forgets_what_came_long_ago() {
        let table = table(8);
        for number in 0..2 {
            table.learn(mac(number), B, at(0));
        }
        for number in 10..16 {
            table.learn(mac(number), A, at(1));
        }
        // Something comes from the first of them again.
        table.learn(mac(10), A, at(2));
        table.learn(mac(100), B, at(3));
        assert_eq!((known(&table, 0..2, 3), known(&table, 100..101, 3), known(&table, 10..16, 3)), (2, 1, 5));
        assert!(table.lookup(mac(10), at(3)).is_some() && table.lookup(mac(11), at(3)).is_none());
        // Who floods the table loses his own.
        for number in 1_000..9_000 {
            table.learn(mac(number), A, at(4));
        }
        assert_eq!((known(&table, 0..2, 4), known(&table, 100..101, 4), known(&table, 1_000..9_000, 4)), (2, 1, 5));
        // Another switch has room of its own.
        assert!(table.learn(mac(0), C, at(5)) && table.learn(mac(50), C, at(5)));
        assert_eq!(table.addresses(at(5)).len(), 9);
    }

    #[test]
    fn several_threads_learn_and_look_up_at_once() {
        let table = table(64);
        std::thread::scope(|scope| {
            for (seed, host) in [(1, A), (2, B), (3, C)] {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..20_000_u32 {
                        let number = (mix(u64::from(round)) ^ seed) as u32 % 200;
                        table.learn(mac(number), host, at(1));
                        let found = table.lookup(mac(number), at(1));
                        assert!(found.is_none_or(|host| host.0 < 3));
                    }
                });
            }
        });
        let all = table.addresses(at(1));
        assert!(!all.is_empty() && all.len() <= 128, "{}", all.len());
        for known in &all {
            assert_eq!(table.lookup((known.vlan, known.mac), at(1)), Some(known.host));
        }
        assert_eq!(table.flush(None), all.len());
    }

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Learn(u32, u32),
        Flush(usize),
        Wait(u64),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            20 => (0_u32..60, 0_u32..3).prop_map(|(number, host)| Op::Learn(number, host)),
            1 => (0_usize..2).prop_map(Op::Flush),
            3 => (0_u64..200).prop_map(Op::Wait),
        ];
        proptest::collection::vec(op, 0..200)
    }

    proptest! {
        /// As long as there is room it is a map.
        #[test]
        fn agrees_with_a_map(ops in ops()) {
            let table = table(64);
            let (mut model, mut now) = (BTreeMap::new(), 0);
            for op in ops {
                match op {
                    Op::Learn(number, host) => {
                        let was = model.insert(number, (host, now));
                        let expected = was.map(|(host, _)| host) != Some(host);
                        // It may have been removed when it had expired.
                        prop_assert!(table.learn(mac(number), NodeId(host), at(now)) >= expected);
                    }
                    Op::Flush(switch) => {
                        table.flush(Some(switch));
                        model.retain(|_, (host, _)| usize::from(*host == 2) != switch);
                    }
                    Op::Wait(seconds) => now += seconds,
                }
                for number in 0..60 {
                    let expected = model.get(&number).filter(|(_, seen)| now - seen <= 300).map(|(host, _)| NodeId(*host));
                    prop_assert_eq!(table.lookup(mac(number), at(now)), expected);
                }
            }
        }

        #[test]
        fn it_is_never_fuller_than_it_may_be(ops in proptest::collection::vec((0_u32..100, 0_u32..3), 0..400)) {
            let table = table(10);
            for (number, host) in ops {
                table.learn(mac(number), NodeId(host), at(0));
                prop_assert_eq!(table.lookup(mac(number), at(0)), Some(NodeId(host)));
                let all = table.addresses(at(0));
                let second = all.iter().filter(|known| known.host == C).count();
                prop_assert!(second <= 10 && all.len() - second <= 10, "{} and {second}", all.len());
            }
        }
    }
}
