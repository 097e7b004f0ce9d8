//! Where packets wait: a fixed number of slots, threaded by arrival so that the oldest is found at once.

use machine::Time;

/// The end of a list.
pub(super) const NIL: u32 = u32::MAX;

/// Packets in numbered slots. Invariant: those that wait form a list from the oldest to the newest arrival.
#[derive(Clone, Debug)]
pub(super) struct Slots<P> {
    slots: Box<[Slot<P>]>,
    oldest: u32,
    newest: u32,
    len: u32,
}

#[derive(Clone, Debug)]
struct Slot<P> {
    packet: Option<P>,
    arrived: Time,
    older: u32,
    newer: u32,
}

impl<P> Slots<P> {
    /// Empty slots `0..size`.
    pub(super) fn new(size: u32) -> Self {
        let slot = || Slot { packet: None, arrived: Time::ZERO, older: NIL, newer: NIL };
        Self { slots: (0..size).map(|_| slot()).collect(), oldest: NIL, newest: NIL, len: 0 }
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// The oldest packet that waits: its slot, and when it came.
    #[inline]
    pub(super) fn oldest(&self) -> Option<(u32, Time)> {
        self.slots.get(self.oldest as usize).map(|slot| (self.oldest, slot.arrived))
    }

    /// When the packet in `slot` came.
    pub(super) fn arrived(&self, slot: u32) -> Time {
        self.slots[slot as usize].arrived
    }

    /// Puts a packet into an empty slot. Later arrivals come later.
    pub(super) fn put(&mut self, slot: u32, now: Time, packet: P) {
        let entry = &mut self.slots[slot as usize];
        assert!(entry.packet.is_none(), "one slot holds one packet");
        *entry = Slot { packet: Some(packet), arrived: now, older: self.newest, newer: NIL };
        match self.slots.get_mut(self.newest as usize) {
            Some(before) => before.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
        self.len += 1;
    }

    /// Takes the packet out of its slot, and says when it came.
    pub(super) fn take(&mut self, slot: u32) -> (P, Time) {
        let entry = &mut self.slots[slot as usize];
        let packet = entry.packet.take().expect("a packet waits in this slot");
        let (arrived, older, newer) = (entry.arrived, entry.older, entry.newer);
        match self.slots.get_mut(older as usize) {
            Some(before) => before.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(after) => after.older = older,
            None => self.newest = older,
        }
        self.len -= 1;
        (packet, arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_known_whatever_is_taken() {
        let mut slots = Slots::new(4);
        for (at, slot) in [3, 0, 2, 1].into_iter().enumerate() {
            slots.put(slot, Time::from_ns(at as u64), slot);
        }
        assert_eq!(slots.take(0), (0, Time::from_ns(1)));
        assert_eq!(slots.oldest(), Some((3, Time::ZERO)));
        assert_eq!(slots.take(3), (3, Time::ZERO));
        assert_eq!(slots.oldest(), Some((2, Time::from_ns(2))));
        slots.put(3, Time::from_ns(9), 7);
        assert_eq!(slots.take(2).0 + slots.take(1).0, 3);
        assert_eq!((slots.oldest(), slots.len()), (Some((3, Time::from_ns(9))), 1));
        assert_eq!(slots.take(3), (7, Time::from_ns(9)));
        assert_eq!((slots.oldest(), slots.is_empty()), (None, true));
    }
}
