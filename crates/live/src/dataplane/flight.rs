//! Packets on their way over links, by the time at which they arrive.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use machine::Time;
use topology::Direction;
use vswitch::Forwarding;

use super::pool::Frame;

/// A frame and what has been found out about it, once, where it came in.
#[derive(Debug)]
pub struct Packet {
    /// Its bytes.
    pub frame: Frame,
    /// Where it goes.
    pub forwarding: Forwarding,
    /// As which one it entered the fabric at its worker, counted from the start; wraps.
    pub number: u32,
    /// What a bond has written on it.
    pub bonded: Bonded,
}

/// What a bond writes on what it sends, as a tag would before the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bonded {
    /// Nothing.
    #[default]
    No,
    /// The number of the frame among those that this end has sent.
    Number(u32),
    /// It is of the bond's own: LACP, announcements. Nobody else gets it.
    Control,
}

/// A packet that arrives at the end of a link.
#[derive(Debug)]
pub struct Arrival {
    /// When.
    pub at: Time,
    /// Over which link, which way.
    pub over: Direction,
    /// The packet.
    pub packet: Packet,
}

/// All that are under way. Arrivals of one moment come in the order in which they were added.
#[derive(Debug, Default)]
pub struct Flight {
    /// Only the keys move in the heap; the packets stay where they are.
    heap: BinaryHeap<Key>,
    slots: Vec<Option<(Direction, Packet)>>,
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
    /// Adds one. What bounds their number is the pool of buffers.
    #[inline]
    pub fn add(&mut self, arrival: Arrival) {
        let content = Some((arrival.over, arrival.packet));
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = content;
            slot
        } else {
            self.slots.push(content);
            self.slots.len() as u32 - 1
        };
        self.heap.push(Key { at: arrival.at, number: self.added, slot });
        self.added += 1;
    }

    /// When the next one arrives.
    #[inline]
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|key| key.at)
    }

    /// The next one that arrives at `now` or before.
    #[inline]
    pub fn take_due(&mut self, now: Time) -> Option<Arrival> {
        if self.next_at()? > now {
            return None;
        }
        let Key { at, slot, .. } = self.heap.pop()?;
        self.free.push(slot);
        let (over, packet) = self.slots[slot as usize].take().expect("a slot in the heap is filled");
        Some(Arrival { at, over, packet })
    }

    /// Takes out all that are under way over one of these. Looks at every one: for cables that are pulled.
    pub fn take_over(&mut self, directions: [Direction; 2]) -> Vec<(Direction, Packet)> {
        let mut taken = Vec::new();
        let (slots, free) = (&mut self.slots, &mut self.free);
        self.heap.retain(|key| {
            let slot = &mut slots[key.slot as usize];
            let stays = slot.as_ref().is_some_and(|(over, _)| !directions.contains(over));
            if !stays {
                taken.extend(slot.take());
                free.push(key.slot);
            }
            stays
        });
        taken
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.heap.len()
    }
}

impl Iterator for Flight {
    type Item = Arrival;

    /// The next one, whenever it is due.
    fn next(&mut self) -> Option<Arrival> {
        self.take_due(Time::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::pool::Pool;
    use topology::NodeId;
    use vswitch::spread::FlowHash;

    #[test]
    fn arrivals_come_by_time_and_then_by_order() {
        let mut pool = Pool::new(10, 1_000);
        let mut flight = Flight::default();
        for (number, ns) in [30, 10, 20, 10, 10].into_iter().enumerate() {
            let forwarding = Forwarding { to: NodeId(number as u32), hash: FlowHash(0) };
            let packet = Packet { frame: pool.take().unwrap(), forwarding, number: 0, bonded: Bonded::No };
            flight.add(Arrival { at: Time::from_ns(ns), over: Direction(0), packet });
        }
        assert!(flight.take_due(Time::from_ns(9)).is_none());
        let mut order = Vec::new();
        while let Some(arrival) = flight.take_due(Time::from_ns(20)) {
            order.push(arrival.packet.forwarding.to.0);
        }
        assert_eq!((order, flight.len()), (vec![1, 3, 4, 2], 1));
    }

    #[test]
    fn what_is_under_way_over_a_link_is_taken_and_the_rest_keeps_its_order() {
        let mut pool = Pool::new(10, 1_000);
        let mut flight = Flight::default();
        for (number, over) in [0, 1, 2, 1, 4, 0, 2].into_iter().enumerate() {
            let forwarding = Forwarding { to: NodeId(number as u32), hash: FlowHash(0) };
            let packet = Packet { frame: pool.take().unwrap(), forwarding, number: 0, bonded: Bonded::No };
            flight.add(Arrival { at: Time::from_ns(5), over: Direction(over), packet });
        }
        let taken = flight.take_over([Direction(0), Direction(1)]);
        assert!(taken.iter().all(|(over, _)| over.link() == topology::LinkId(0)));
        assert_eq!(taken.len(), 4);
        let left: Vec<u32> = flight.by_ref().map(|arrival| arrival.packet.forwarding.to.0).collect();
        assert_eq!(left, [2, 4, 6]);
        assert_eq!(flight.free.len(), flight.slots.len());
    }
}
