//! Packets on their way over links, by the time at which they arrive.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::mpsc::Sender;

use datapath::Timer;
use machine::{Rebase, Span, Time};
use topology::{BondEndId, NetPort};

use super::pool::Packet;
use super::report::Report;

/// Which way a packet passes a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It comes to the port's node.
    In,
    /// It leaves the port's node, at another worker than the one that has decided so.
    Out,
}

/// A packet that is to pass a port.
#[derive(Debug)]
pub struct Passage {
    /// When.
    pub at: Time,
    /// Which way.
    pub way: Way,
    /// The port.
    pub port: NetPort,
    /// The packet.
    pub packet: Packet,
}

/// What a worker waits for.
#[derive(Debug)]
pub enum Due {
    /// A packet passes this port.
    Packet(Way, NetPort, Packet),
    /// Somebody is to be woken.
    Timer(Timer),
    /// What was left out of the log of an end of a bond is to be told.
    Log(BondEndId),
    /// What was counted until then is to be told.
    Report(Sender<Report>),
    /// What has passed by the kernel path is to be read.
    Offloads,
}

/// All that is due later: packets under way, and timers. What is due at one moment comes in the order in which it was added.
///
/// Packets under way have buffers of the worker's pool, which all its links share. Once half of them are under way, a link may have no more than are left
/// over: the dynamic threshold of switches with a shared memory (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998). So one link that is
/// flooded gets half of the pool, two get two thirds, and all others find some. Before, no link can have more than are left over, and none is counted.
#[derive(Debug)]
pub struct Flight {
    /// Only the keys move in the heap; the packets stay where they are.
    heap: BinaryHeap<Key>,
    slots: Vec<Option<Due>>,
    free: Vec<u32>,
    added: u64,
    /// How many buffers there are.
    buffers: usize,
    /// With so many under way, a packet that is added is counted by its link: half of the buffers, or zero while `under_way` is kept.
    counts_from: usize,
    /// By port: how many are under way to it. Empty while there are few.
    under_way: Vec<u32>,
}

/// What [`Flight::offer`] made of a packet.
#[derive(Debug)]
pub enum Offered {
    /// It is under way.
    Added,
    /// It is, and half of all buffers are under way now: so many of them to this port, more than to any other.
    Crowded(NetPort, u32),
    /// Its link has its share of the buffers under way.
    Refused(Packet),
}

impl Default for Flight {
    /// For as many packets as there are.
    fn default() -> Self {
        let (heap, slots, free, under_way) = (BinaryHeap::new(), Vec::new(), Vec::new(), Vec::new());
        Self { heap, slots, free, added: 0, buffers: usize::MAX, counts_from: usize::MAX, under_way }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    at: Time,
    number: u64,
    slot: u32,
}

impl Ord for Key {
    /// The earliest is the greatest: `BinaryHeap` gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Flight {
    /// There are so many buffers from now on.
    pub fn set_buffers(&mut self, buffers: usize) {
        self.buffers = buffers;
        self.stop_counting();
    }

    /// Adds a packet, if its link has not its share of the buffers.
    #[inline]
    pub fn offer(&mut self, Passage { at, way, port, packet }: Passage) -> Offered {
        if self.heap.len() >= self.counts_from {
            return self.offer_counted(Passage { at, way, port, packet });
        }
        self.push(at, Due::Packet(way, port, packet));
        Offered::Added
    }

    /// The same while links are counted.
    #[inline(never)]
    fn offer_counted(&mut self, Passage { at, way, port, packet }: Passage) -> Offered {
        let is_new = self.under_way.is_empty();
        if is_new {
            self.start_counting();
        }
        if self.under_way_to(port) as usize >= self.buffers.saturating_sub(self.heap.len()) {
            return Offered::Refused(packet);
        }
        self.push(at, Due::Packet(way, port, packet));
        self.count_one(port);
        let most = self.under_way.iter().enumerate().filter(|_| is_new).max_by_key(|(_, packets)| **packets);
        most.map_or(Offered::Added, |(port, packets)| Offered::Crowded(NetPort(port as u32), *packets))
    }

    fn under_way_to(&self, port: NetPort) -> u32 {
        self.under_way.get(usize::from(port)).copied().unwrap_or(0)
    }

    fn count_one(&mut self, port: NetPort) {
        let port = usize::from(port);
        if port >= self.under_way.len() {
            self.under_way.resize(port + 1, 0);
        }
        self.under_way[port] += 1;
    }

    /// Looks at every one. It does so again only when a quarter of the buffers have come, and as many gone.
    #[cold]
    fn start_counting(&mut self) {
        let ports = self.heap.iter().filter_map(|key| match &self.slots[key.slot as usize] {
            Some(Due::Packet(_, port, _)) => Some(*port),
            _ => None,
        });
        let ports: Vec<NetPort> = ports.collect();
        for port in ports {
            self.count_one(port);
        }
        self.counts_from = 0;
    }

    fn stop_counting(&mut self) {
        self.under_way.clear();
        self.counts_from = (self.buffers / 2).max(1);
    }

    /// A packet is under way no more, while links are counted.
    #[inline(never)]
    fn count_gone(&mut self, port: NetPort) {
        if let Some(packets) = self.under_way.get_mut(usize::from(port)) {
            *packets = packets.saturating_sub(1);
        }
        if self.heap.len() < self.buffers / 4 {
            self.stop_counting();
        }
    }

    /// Adds a packet that is not to be lost, however many its link has.
    pub fn add(&mut self, Passage { at, way, port, packet }: Passage) {
        self.push(at, Due::Packet(way, port, packet));
        if self.counts_from == 0 {
            self.count_one(port);
        }
    }

    /// Adds a timer: each end of a bond has few.
    pub fn add_timer(&mut self, at: Time, timer: Due) {
        self.push(at, timer);
    }

    #[inline]
    fn push(&mut self, at: Time, due: Due) {
        let content = Some(due);
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = content;
            slot
        } else {
            self.slots.push(content);
            self.slots.len() as u32 - 1
        };
        self.heap.push(Key { at, number: self.added, slot });
        self.added += 1;
    }

    /// When the next one is due.
    #[inline]
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|key| key.at)
    }

    /// The next one that is due at `now` or before, and when it was.
    #[inline]
    pub fn take_due(&mut self, now: Time) -> Option<(Time, Due)> {
        if self.next_at()? > now {
            return None;
        }
        let Key { at, slot, .. } = self.heap.pop()?;
        self.free.push(slot);
        let due = self.slots[slot as usize].take().expect("a slot in the heap is filled");
        if self.counts_from == 0
            && let Due::Packet(_, port, _) = due
        {
            self.count_gone(port);
        }
        Some((at, due))
    }

    /// Takes out all packets that are on their way to one of these ports. Looks at every one: for cables that are pulled.
    pub fn take_on_way_to(&mut self, ports: [NetPort; 2]) -> Vec<(NetPort, Packet)> {
        let mut taken = Vec::new();
        let (slots, free) = (&mut self.slots, &mut self.free);
        self.heap.retain(|key| {
            let slot = &mut slots[key.slot as usize];
            let goes = matches!(slot, Some(Due::Packet(Way::In, port, _)) if ports.contains(port));
            if goes && let Some(Due::Packet(_, port, packet)) = slot.take() {
                taken.push((port, packet));
                free.push(key.slot);
            }
            !goes
        });
        self.stop_counting();
        taken
    }

    /// Changes all packets, in no order; those that become `None` are out. Timers are forgotten. What is due at one moment keeps its order.
    pub fn change(&mut self, mut change: impl FnMut(Passage) -> Option<Passage>) {
        let mut keys = std::mem::take(&mut self.heap).into_vec();
        keys.retain_mut(|key| {
            let slot = &mut self.slots[key.slot as usize];
            let changed = match slot.take().expect("a slot in the heap is filled") {
                Due::Packet(way, port, packet) => change(Passage { at: key.at, way, port, packet }),
                Due::Timer(_) | Due::Log(_) | Due::Report(_) | Due::Offloads => None,
            };
            match changed {
                Some(Passage { at, way, port, packet }) => {
                    *slot = Some(Due::Packet(way, port, packet));
                    key.at = at;
                }
                None => self.free.push(key.slot),
            }
            slot.is_some()
        });
        self.heap = keys.into();
        self.stop_counting();
    }

    /// What is on its way to `port` arrives at other times. What is due at one moment keeps its order.
    pub fn retime(&mut self, port: NetPort, arrival: impl Fn(Time) -> Time) {
        let mut keys = std::mem::take(&mut self.heap).into_vec();
        for key in &mut keys {
            if matches!(self.slots[key.slot as usize], Some(Due::Packet(Way::In, to, _)) if to == port) {
                key.at = arrival(key.at);
            }
        }
        self.heap = keys.into();
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.heap.len()
    }
}

impl Rebase for Flight {
    fn rebase(&mut self, by: Span) {
        let Self { heap, slots: _, free: _, added: _, buffers: _, counts_from: _, under_way: _ } = self;
        let mut keys = std::mem::take(heap).into_vec();
        keys.rebase(by);
        *heap = keys.into();
    }
}

impl Rebase for Key {
    fn rebase(&mut self, by: Span) {
        let Self { at, number: _, slot: _ } = self;
        at.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::pool::{Depot, Pool};
    use topology::NodeId;
    use vswitch::Forwarding;
    use vswitch::spread::FlowHash;

    fn arrival(pool: &mut Pool, number: usize, at: Time, port: u32) -> Passage {
        let mut packet = pool.take().unwrap();
        packet.forwarding = Forwarding { to: NodeId(number as u32), hash: FlowHash(0) };
        Passage { at, way: Way::In, port: NetPort(port), packet }
    }

    /// When packets are due, in nanoseconds, and which they are.
    fn order(flight: &mut Flight) -> Vec<(u64, u32)> {
        let due = std::iter::from_fn(|| flight.take_due(Time::NEVER));
        let packets = due.filter_map(|(at, due)| match due {
            Due::Packet(_, _, packet) => Some((at.as_ns(), packet.forwarding.to.0)),
            Due::Timer(_) | Due::Log(_) | Due::Report(_) | Due::Offloads => None,
        });
        packets.collect()
    }

    /// Offers so many packets to a port: how many were refused.
    fn offer(flight: &mut Flight, pool: &mut Pool, packets: usize, port: u32) -> usize {
        let mut refused = 0;
        for number in 0..packets {
            let passage = arrival(pool, number, Time::from_ns(10 + u64::from(port)), port);
            if let Offered::Refused(packet) = flight.offer(passage) {
                refused += 1;
                pool.put(packet);
            }
        }
        refused
    }

    #[test]
    fn a_link_that_is_flooded_leaves_buffers_to_others() {
        let mut pool = Pool::new(10, 1_200, Depot::default());
        let mut flight = Flight::default();
        flight.set_buffers(pool.buffers());
        assert_eq!(offer(&mut flight, &mut pool, 1_000, 0), 940, "one link may have half");
        assert_eq!(offer(&mut flight, &mut pool, 1_000, 1), 970, "another one half of what is left");
        assert_eq!(offer(&mut flight, &mut pool, 15, 2), 0);
        // The first one's packets arrive.
        for _ in 0..60 {
            assert!(matches!(flight.take_due(Time::from_ns(10)), Some((_, Due::Packet(_, NetPort(0), _)))));
        }
        assert_eq!((flight.len(), flight.counts_from), (45, 0));
        while let Some((_, Due::Packet(_, _, packet))) = flight.take_due(Time::NEVER) {
            pool.put(packet);
        }
        assert_eq!((flight.under_way.len(), flight.counts_from), (0, 60), "nobody counts few packets");
    }

    #[test]
    fn who_crowds_the_pool_is_named_once() {
        let mut pool = Pool::new(10, 200, Depot::default());
        let mut flight = Flight::default();
        flight.set_buffers(pool.buffers());
        for (number, port) in [7, 3, 3, 3, 7, 3, 3, 1, 1, 1].into_iter().enumerate() {
            assert!(matches!(flight.offer(arrival(&mut pool, number, Time::from_ns(5), port)), Offered::Added));
        }
        let crowding = flight.offer(arrival(&mut pool, 10, Time::from_ns(5), 1));
        assert!(matches!(crowding, Offered::Crowded(NetPort(3), 5)), "{crowding:?}");
        assert!(matches!(flight.offer(arrival(&mut pool, 11, Time::from_ns(5), 3)), Offered::Added));
        // A cable is pulled: its packets count no more.
        assert_eq!(flight.take_on_way_to([NetPort(3), NetPort(2)]).len(), 6);
        assert_eq!((flight.len(), flight.counts_from), (6, 10));
    }

    #[test]
    fn what_is_changed_keeps_its_order_and_timers_are_forgotten() {
        let mut pool = Pool::new(10, 1_000, Depot::default());
        let mut flight = Flight::default();
        for (number, (ns, port)) in [(30, 0), (10, 1), (20, 2), (10, 0), (40, 1)].into_iter().enumerate() {
            flight.add(arrival(&mut pool, number, Time::from_ns(ns), port));
        }
        flight.add_timer(Time::from_ns(5), Due::Log(BondEndId(0)));
        flight.change(|passage| (passage.port.0 < 2).then(|| Passage { port: NetPort(passage.port.0 + 7), ..passage }));
        assert_eq!((flight.len(), flight.free.len()), (4, 2));
        flight.retime(NetPort(8), |at| at.max(Time::from_ns(30)));
        assert_eq!(order(&mut flight), [(10, 3), (30, 0), (30, 1), (40, 4)]);
        assert_eq!(flight.free.len(), flight.slots.len());
    }

    #[test]
    fn arrivals_come_by_time_and_then_by_order() {
        let mut pool = Pool::new(10, 1_000, Depot::default());
        let mut flight = Flight::default();
        for (number, ns) in [30, 10, 20, 10, 10].into_iter().enumerate() {
            flight.add(arrival(&mut pool, number, Time::from_ns(ns), 0));
        }
        flight.add_timer(Time::from_ns(10), Due::Timer(Timer::Switch(9)));
        assert!(flight.take_due(Time::from_ns(9)).is_none());
        let mut order = Vec::new();
        while let Some((_, due)) = flight.take_due(Time::from_ns(20)) {
            order.push(match due {
                Due::Packet(_, _, packet) => packet.forwarding.to.0,
                Due::Timer(Timer::Switch(number)) => number,
                other => panic!("{other:?}"),
            });
        }
        assert_eq!((order, flight.len()), (vec![1, 3, 4, 9, 2], 1));
    }

    #[test]
    fn what_is_under_way_keeps_its_order_when_the_clock_is_set_back() {
        let mut pool = Pool::new(10, 1_000, Depot::default());
        let mut flight = Flight::default();
        for (number, ns) in [1_030, 1_010, 1_020, 1_010].into_iter().enumerate() {
            flight.add(arrival(&mut pool, number, Time::from_ns(ns), 0));
        }
        flight.add_timer(Time::NEVER, Due::Log(BondEndId(0)));
        flight.rebase(Span::from_ns(1_000));
        assert!(flight.take_due(Time::from_ns(9)).is_none());
        assert_eq!(order(&mut flight), [(10, 1), (10, 3), (20, 2), (30, 0)]);
    }

    #[test]
    fn what_is_under_way_over_a_link_is_taken_and_the_rest_keeps_its_order() {
        let mut pool = Pool::new(10, 1_000, Depot::default());
        let mut flight = Flight::default();
        flight.add_timer(Time::from_ns(5), Due::Log(BondEndId(0)));
        for (number, port) in [0, 1, 2, 1, 4, 0, 2].into_iter().enumerate() {
            flight.add(arrival(&mut pool, number, Time::from_ns(5), port));
        }
        let taken = flight.take_on_way_to([NetPort(0), NetPort(1)]);
        assert_eq!(taken.len(), 4);
        assert!(taken.iter().all(|(port, _)| port.0 < 2));
        assert_eq!(flight.len(), 4);
        let left: Vec<u32> = order(&mut flight).into_iter().map(|(_, to)| to).collect();
        assert_eq!(left, [2, 4, 6]);
        assert_eq!(flight.free.len(), flight.slots.len());
    }
}
