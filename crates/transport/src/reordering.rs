//! Reordering as an observer near the receiver sees it (RFC 4737).
//!
//! The same meter watches simulated segments and, live, the frames that a switch hands to a host. Sequence numbers and
//! stamps are 32 bits and wrap, as TCP's do; what is compared must lie within 2^31 of each other.
//!
//! The earliest arrival with a higher sequence number (RFC 4737, 4.2.1) was always the highest so far when it came, so
//! only such arrivals are remembered. They ascend in arrival and in sequence number, and a walk back from the newest
//! ends after as many steps as the late segment was overtaken by.

use serde::{Deserialize, Serialize};

/// How many arrivals are remembered. A larger extent is reported as the distance to the oldest one remembered.
pub const REMEMBERED: usize = 128;

/// What was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Data segments observed.
    pub segments: u64,
    /// Segments that arrived after one with a higher sequence number that was sent no earlier.
    pub reordered: u64,
    /// The largest extent (RFC 4737, 4.2.1): how many segments arrived between the earliest one with a higher sequence number and the late one.
    pub extent_max: u32,
}

/// One direction of one connection, as seen at one place.
#[derive(Clone, Debug)]
pub struct Meter {
    counters: Counters,
    /// Arrivals so far; numbers the arrivals, wraps.
    arrivals: u32,
    /// The highest sequence number plus one (RFC 4737's `NextExp`).
    highest_end: u32,
    /// When the segment that ends there was sent.
    highest_stamp: u32,
    /// How many of `advances` are in use.
    remembered: u32,
    /// Where the next one goes.
    next: u32,
    /// The last arrivals that raised `highest_end`.
    advances: Box<[Advance; REMEMBERED]>,
}

/// An arrival that was the highest so far.
#[derive(Clone, Copy, Debug, Default)]
struct Advance {
    seq: u32,
    end: u32,
    arrival: u32,
}

/// Whether `a` comes before `b` on a circle of 2^32.
const fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

impl Default for Meter {
    fn default() -> Self {
        Self::new()
    }
}

impl Meter {
    /// A meter that has seen nothing. This is the only allocation that it makes.
    pub fn new() -> Self {
        Self {
            counters: Counters::default(),
            arrivals: 0,
            highest_end: 0,
            highest_stamp: 0,
            remembered: 0,
            next: 0,
            advances: Box::new([Advance::default(); REMEMBERED]),
        }
    }

    /// A data segment `seq..end` arrives that was sent at `stamp`, in any unit that both ends of a comparison share
    /// (TCP's timestamp option: the sender's `TSval`). Segments without payload (`seq == end`) are not to be observed.
    ///
    /// A segment below the highest one counts as reordered only if it was sent no later than that one: else it is a
    /// retransmission. Bytes that arrived before (a duplicate) do not count either, as far as they are remembered.
    #[inline]
    pub fn observe(&mut self, seq: u32, end: u32, stamp: u32) {
        self.counters.segments += 1;
        self.arrivals = self.arrivals.wrapping_add(1);
        let first = self.remembered == 0;
        if first || !before(seq, self.highest_end) {
            self.advance(seq, end, stamp);
            return;
        }
        if !before(self.highest_stamp, stamp) {
            self.late(seq);
        }
        if before(self.highest_end, end) {
            // A retransmission that was cut at another place also brings new bytes.
            self.advance(self.highest_end, end, stamp);
        }
    }

    #[inline]
    fn advance(&mut self, seq: u32, end: u32, stamp: u32) {
        self.advances[self.next as usize % REMEMBERED] = Advance { seq, end, arrival: self.arrivals };
        self.next = self.next.wrapping_add(1);
        self.remembered = (self.remembered + 1).min(REMEMBERED as u32);
        self.highest_end = end;
        self.highest_stamp = stamp;
    }

    /// Counts a segment that came behind a higher one, unless its bytes were there before.
    #[cold]
    fn late(&mut self, seq: u32) {
        let mut earliest_higher = None;
        for back in 1..=self.remembered {
            let seen = self.advances[self.next.wrapping_sub(back) as usize % REMEMBERED];
            if !before(seq, seen.seq) {
                if before(seq, seen.end) {
                    return;
                }
                break;
            }
            earliest_higher = Some(seen.arrival);
        }
        if let Some(arrival) = earliest_higher {
            self.counters.reordered += 1;
            let extent = self.arrivals.wrapping_sub(arrival);
            self.counters.extent_max = self.counters.extent_max.max(extent);
        }
    }

    /// What was seen since the start, or since [`Meter::take`].
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// What was seen so far; counting starts anew, and what is needed to judge the next arrivals is kept.
    pub fn take(&mut self) -> Counters {
        core::mem::take(&mut self.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Arrivals of segments of one byte, all sent at their own number.
    fn seen(order: &[u32], origin: u32) -> Counters {
        let mut meter = Meter::new();
        for &n in order {
            let seq = origin.wrapping_add(n);
            meter.observe(seq, seq.wrapping_add(1), seq);
        }
        meter.counters()
    }

    #[test]
    fn the_examples_of_rfc_4737() {
        // Section 7: packet 4 arrives behind 5 to 8.
        let one_late = seen(&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10], 0);
        assert_eq!(one_late, Counters { segments: 10, reordered: 1, extent_max: 4 });
        // Packet 7 is early, which makes 5 and 6 late.
        let one_early = seen(&[1, 2, 3, 4, 7, 5, 6, 8, 9, 10], 0);
        assert_eq!(one_early, Counters { segments: 10, reordered: 2, extent_max: 2 });
    }

    #[test]
    fn numbers_wrap() {
        let plain = seen(&[0, 1, 3, 4, 2, 5], 100);
        assert_eq!(plain, Counters { segments: 6, reordered: 1, extent_max: 2 });
        for origin in [u32::MAX - 6, u32::MAX - 3, u32::MAX, i32::MAX as u32 - 2] {
            assert_eq!(seen(&[0, 1, 3, 4, 2, 5], origin), plain, "from {origin}");
        }
    }

    #[test]
    fn a_retransmission_is_late_but_not_reordered() {
        let mut meter = Meter::new();
        meter.observe(0, 1_000, 10);
        meter.observe(2_000, 3_000, 12);
        meter.observe(1_000, 2_000, 40);
        assert_eq!(meter.counters(), Counters { segments: 3, reordered: 0, extent_max: 0 });
        // The same arrival with its first stamp is reordering.
        let mut meter = Meter::new();
        meter.observe(0, 1_000, 10);
        meter.observe(2_000, 3_000, 12);
        meter.observe(1_000, 2_000, 11);
        assert_eq!(meter.counters(), Counters { segments: 3, reordered: 1, extent_max: 1 });
    }

    #[test]
    fn a_duplicate_is_not_reordering() {
        let mut meter = Meter::new();
        for seq in [0, 1_000, 0, 1_000] {
            meter.observe(seq, seq + 1_000, 5);
        }
        // A part of what came before.
        meter.observe(500, 1_000, 5);
        assert_eq!(meter.counters(), Counters { segments: 5, reordered: 0, extent_max: 0 });
    }

    #[test]
    fn an_extent_beyond_memory_is_bounded_by_it() {
        let order: Vec<u32> = (1..1_000).chain([0]).collect();
        assert_eq!(seen(&order, 0), Counters { segments: 1_000, reordered: 1, extent_max: REMEMBERED as u32 });
    }

    #[test]
    fn taking_the_counters_keeps_the_state() {
        let mut meter = Meter::new();
        meter.observe(1, 2, 1);
        assert_eq!(meter.take().segments, 1);
        meter.observe(0, 1, 0);
        assert_eq!(meter.take(), Counters { segments: 1, reordered: 1, extent_max: 1 });
    }

    proptest! {
        /// RFC 4737's definitions written out over the whole history.
        #[test]
        fn agrees_with_the_definition(keys in proptest::collection::vec(0_u32..40, 1..100), origin in any::<u32>()) {
            let mut order: Vec<u32> = (0..keys.len() as u32).collect();
            order.sort_by_key(|&n| (n + keys[n as usize], n));
            let mut expected = Counters { segments: order.len() as u64, ..Counters::default() };
            for (i, n) in order.iter().enumerate() {
                if let Some(j) = order[..i].iter().position(|earlier| earlier > n) {
                    expected.reordered += 1;
                    expected.extent_max = expected.extent_max.max((i - j) as u32);
                }
            }
            prop_assert_eq!(seen(&order, origin), expected);
        }
    }
}
