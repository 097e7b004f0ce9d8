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
}

/// All that is due later: packets under way, and timers. What is due at one moment comes in the order in which it was added.
#[derive(Debug, Default)]
pub struct Flight {
    /// Only the keys move in the heap; the packets stay where they are.
    heap: BinaryHeap<Key>,
    slots: Vec<Option<Due>>,
    free: Vec<u32>,
    added: u64,
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
    /// Adds a packet. What bounds their number is the pool of buffers.
    #[inline]
    pub fn add(&mut self, Passage { at, way, port, packet }: Passage) {
        self.push(at, Due::Packet(way, port, packet));
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
        Some((at, self.slots[slot as usize].take().expect("a slot in the heap is filled")))
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
        taken
    }

    /// Changes all packets, in no order; those that become `None` are out. Timers are forgotten. What is due at one moment keeps its order.
    pub fn change(&mut self, mut change: impl FnMut(Passage) -> Option<Passage>) {
        let mut keys = std::mem::take(&mut self.heap).into_vec();
        keys.retain_mut(|key| {
            let slot = &mut self.slots[key.slot as usize];
            let changed = match slot.take().expect("a slot in the heap is filled") {
                Due::Packet(way, port, packet) => change(Passage { at: key.at, way, port, packet }),
                Due::Timer(_) | Due::Log(_) | Due::Report(_) => None,
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
        let Self { heap, slots: _, free: _, added: _ } = self;
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
            Due::Timer(_) | Due::Log(_) | Due::Report(_) => None,
        });
        packets.collect()
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
