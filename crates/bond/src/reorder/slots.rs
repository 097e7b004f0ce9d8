//! Where packets wait: a fixed number of places, threaded by arrival so that the oldest is found at once.

use machine::{Rebase, Span, Time};

/// The end of a list.
pub(super) const NIL: u32 = u32::MAX;

/// Packets in numbered places. Invariant: those that wait form a list from the oldest to the newest arrival.
#[derive(Clone, Debug)]
pub(super) struct Slots<P> {
    places: Box<[Slot<P>]>,
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
    /// Empty places `0..size`.
    pub(super) fn new(size: u32) -> Self {
        let place = || Slot { packet: None, arrived: Time::ZERO, older: NIL, newer: NIL };
        Self { places: (0..size).map(|_| place()).collect(), oldest: NIL, newest: NIL, len: 0 }
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// What came first of all that waits: its place and when it came.
    #[inline]
    pub(super) fn oldest(&self) -> Option<(u32, Time)> {
        self.places.get(self.oldest as usize).map(|place| (self.oldest, place.arrived))
    }

    /// When what waits at `place` came.
    pub(super) fn arrived(&self, place: u32) -> Time {
        self.places[place as usize].arrived
    }

    /// Puts a packet where none is. Later arrivals come later.
    pub(super) fn put(&mut self, place: u32, now: Time, packet: P) {
        let slot = &mut self.places[place as usize];
        assert!(slot.packet.is_none(), "one place holds one packet");
        *slot = Slot { packet: Some(packet), arrived: now, older: self.newest, newer: NIL };
        match self.places.get_mut(self.newest as usize) {
            Some(before) => before.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
        self.len += 1;
    }

    /// Takes a packet from where one is, and says when it came.
    pub(super) fn take(&mut self, place: u32) -> (P, Time) {
        let slot = &mut self.places[place as usize];
        let packet = slot.packet.take().expect("a packet waits in this place");
        let (arrived, older, newer) = (slot.arrived, slot.older, slot.newer);
        match self.places.get_mut(older as usize) {
            Some(before) => before.newer = newer,
            None => self.oldest = newer,
        }
        match self.places.get_mut(newer as usize) {
            Some(after) => after.older = older,
            None => self.newest = older,
        }
        self.len -= 1;
        (packet, arrived)
    }
}

impl<P> Rebase for Slots<P> {
    fn rebase(&mut self, by: Span) {
        let Self { places, oldest: _, newest: _, len: _ } = self;
        places.rebase(by);
    }
}

impl<P> Rebase for Slot<P> {
    fn rebase(&mut self, by: Span) {
        let Self { packet: _, arrived, older: _, newer: _ } = self;
        arrived.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_known_whatever_is_taken() {
        let mut slots = Slots::new(4);
        for (at, place) in [3, 0, 2, 1].into_iter().enumerate() {
            slots.put(place, Time::from_ns(at as u64), place);
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
