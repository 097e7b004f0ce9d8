//! Reordering as an observer near the receiver sees it (RFC 4737).
//!
//! The same meter watches simulated segments and, live, the frames that a switch hands to a host. Sequence numbers and
//! stamps are 32 bits and wrap, as TCP's do; what is compared must lie within 2^31 of each other.
//!
//! The earliest arrival with a higher sequence number (RFC 4737, 4.2.1) was always the highest so far when it came, so
//! only such arrivals are remembered. They ascend in arrival and in sequence number, and a walk back from the newest
//! ends after as many steps as the late segment was overtaken by.
//!
//! The meter also counts what was delivered: each byte of payload once, however often it came. What came once is below the highest sequence
//! number and in no gap, so only the gaps are remembered.

use serde::{Deserialize, Serialize};

/// How many arrivals are remembered. A larger extent is reported as the distance to the oldest one remembered.
pub const REMEMBERED: usize = 128;

/// How many gaps are remembered, in ascending order. When there are more, the lowest is forgotten, and what fills it later is not counted as
/// delivered: too little is counted rather than too much.
pub const GAPS: usize = 128;

/// A gap this far behind the highest sequence number is forgotten, since numbers wrap. No window reaches as far (RFC 7323, 2.3).
const GAP_REACH: u32 = 1 << 30;

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
    /// Bytes of payload that came, each once.
    delivered: u64,
    /// How many of the gaps are in use.
    gaps: u32,
    memory: Box<Memory>,
}

/// What a meter remembers.
#[derive(Clone, Debug)]
struct Memory {
    /// The last arrivals that raised `highest_end`.
    advances: [Advance; REMEMBERED],
    /// What is missing below `highest_end`, ascending; no two of them meet.
    gaps: [Gap; GAPS],
}

/// Bytes that have not come, though later ones have.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    start: u32,
    end: u32,
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
            delivered: 0,
            gaps: 0,
            memory: Box::new(Memory { advances: [Advance::default(); REMEMBERED], gaps: [Gap::default(); GAPS] }),
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
            if !first && seq != self.highest_end {
                self.open_gap(Gap { start: self.highest_end, end: seq });
            }
            self.advance(seq, end, stamp);
            return;
        }
        if !before(self.highest_stamp, stamp) {
            self.late(seq);
        }
        let is_beyond = before(self.highest_end, end);
        self.fill(seq, if is_beyond { self.highest_end } else { end });
        if is_beyond {
            // A retransmission that was cut at another place also brings new bytes.
            self.advance(self.highest_end, end, stamp);
        }
    }

    #[inline]
    fn advance(&mut self, seq: u32, end: u32, stamp: u32) {
        self.memory.advances[self.next as usize % REMEMBERED] = Advance { seq, end, arrival: self.arrivals };
        self.delivered += u64::from(end.wrapping_sub(seq));
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
            let seen = self.memory.advances[self.next.wrapping_sub(back) as usize % REMEMBERED];
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

    /// Notes what is missing below the highest segment.
    #[cold]
    fn open_gap(&mut self, gap: Gap) {
        let reach = gap.end.wrapping_sub(GAP_REACH);
        let stale = self.memory.gaps[..self.gaps as usize].iter().take_while(|old| before(old.start, reach)).count();
        (0..stale).for_each(|_| self.close_gap(0));
        self.insert_gap(self.gaps as usize, gap);
    }

    /// Counts what of `seq..end`, which lies below the highest segment, was missing until now.
    #[cold]
    fn fill(&mut self, seq: u32, end: u32) {
        let mut at = self.gaps as usize;
        while at > 0 {
            at -= 1;
            let gap = self.memory.gaps[at];
            if !before(seq, gap.end) {
                return;
            }
            let from = if before(seq, gap.start) { gap.start } else { seq };
            let to = if before(end, gap.end) { end } else { gap.end };
            if !before(from, to) {
                continue;
            }
            self.delivered += u64::from(to.wrapping_sub(from));
            match (from == gap.start, to == gap.end) {
                (true, true) => self.close_gap(at),
                (true, false) => self.memory.gaps[at].start = to,
                (false, true) => self.memory.gaps[at].end = from,
                (false, false) => {
                    self.memory.gaps[at].end = from;
                    return self.insert_gap(at + 1, Gap { start: to, end: gap.end });
                }
            }
        }
    }

    /// Puts a gap behind those before it; if there is no room, the lowest one goes.
    fn insert_gap(&mut self, mut at: usize, gap: Gap) {
        if self.gaps as usize == GAPS {
            self.close_gap(0);
            at -= 1;
        }
        self.memory.gaps.copy_within(at..self.gaps as usize, at + 1);
        self.memory.gaps[at] = gap;
        self.gaps += 1;
    }

    fn close_gap(&mut self, at: usize) {
        self.memory.gaps.copy_within(at + 1..self.gaps as usize, at);
        self.gaps -= 1;
    }

    /// Bytes of payload that came since the start, each once. What begins below the first segment that was seen is not known to be new, and does
    /// not count.
    pub const fn delivered(&self) -> u64 {
        self.delivered
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

    #[test]
    fn each_byte_is_delivered_once() {
        let mut meter = Meter::new();
        let mut delivered = |seq: u32, end: u32| {
            meter.observe(seq, end, 0);
            meter.delivered()
        };
        assert_eq!(delivered(0, 1_000), 1_000);
        assert_eq!(delivered(0, 1_000), 1_000, "a duplicate");
        // Two gaps: 1,000 to 3,000 and 4,000 to 5,000.
        assert_eq!((delivered(3_000, 4_000), delivered(5_000, 6_000)), (2_000, 3_000));
        assert_eq!(delivered(1_500, 2_000), 3_500, "from the middle of a gap");
        assert_eq!(delivered(1_500, 2_000), 3_500, "that again");
        // One that was cut elsewhere: what is new of it is 1,000 to 1,500, 2,000 to 3,000, 4,000 to 5,000, 6,000 to 7,000.
        assert_eq!(delivered(500, 7_000), 7_000);
        assert_eq!(delivered(0, 7_000), 7_000);
        assert_eq!(meter.take().segments, 8);
        assert_eq!(meter.delivered(), 7_000, "it counts on");
    }

    #[test]
    fn gaps_beyond_memory_are_forgotten_from_the_lowest_on() {
        let mut meter = Meter::new();
        let count = GAPS as u32 + 10;
        // Every second byte; then the others.
        (0..=count).for_each(|n| meter.observe(2 * n, 2 * n + 1, 0));
        assert_eq!(meter.delivered(), u64::from(count) + 1);
        (0..count).for_each(|n| meter.observe(2 * n + 1, 2 * n + 2, 0));
        assert_eq!(meter.delivered(), u64::from(count) + 1 + GAPS as u64);
        // Full again, and one gap is split in three places.
        let mut meter = Meter::new();
        (0..=GAPS as u32).for_each(|n| meter.observe(10 * n, 10 * n + 1, 0));
        for at in [2, 4, 6] {
            meter.observe(at, at + 1, 0);
        }
        assert_eq!(meter.delivered(), GAPS as u64 + 4);
        meter.observe(0, 10 * GAPS as u32, 0);
        assert!(meter.delivered() < 10 * GAPS as u64, "the lowest ones are forgotten");
    }

    #[test]
    fn a_gap_that_nothing_fills_is_forgotten_before_numbers_wrap() {
        let mut meter = Meter::new();
        meter.observe(0, 1_000, 0);
        meter.observe(2_000, 3_000, 0);
        let mut at = 3_000_u32;
        for _ in 0..5 {
            // Far apart, but less than half of all numbers.
            let next = at.wrapping_add(1 << 30);
            meter.observe(next, next.wrapping_add(1_000), 0);
            at = next.wrapping_add(1_000);
        }
        assert_eq!((meter.delivered(), meter.gaps), (7_000, 1));
    }

    proptest! {
        /// Segments of any cut, in any order, each up to three times.
        #[test]
        fn delivered_is_the_union_of_what_came(
            segments in proptest::collection::vec((0_u32..400, 1_u32..40), 1..80), origin in any::<u32>(),
        ) {
            let mut meter = Meter::new();
            // What comes below the first one is not known to be new.
            let first = 500;
            meter.observe(origin.wrapping_add(first), origin.wrapping_add(first + 1), 0);
            let mut came = std::collections::BTreeSet::from([first]);
            for &(seq, len) in segments.iter().chain(segments.iter().rev().step_by(3)) {
                let (seq, end) = (first + seq, first + seq + len);
                came.extend(seq..end);
                meter.observe(origin.wrapping_add(seq), origin.wrapping_add(end), 0);
                prop_assert_eq!(meter.delivered(), came.len() as u64);
            }
        }

        /// However many gaps there are, and whatever comes: never more than came, and no arithmetic fails.
        #[test]
        fn never_more_is_delivered_than_came(segments in proptest::collection::vec((any::<u32>(), 1_u32..70_000), 0..600)) {
            let (mut meter, mut offered) = (Meter::new(), 0);
            for (seq, len) in segments {
                offered += u64::from(len);
                meter.observe(seq, seq.wrapping_add(len), seq);
                prop_assert!(meter.delivered() <= offered && meter.gaps as usize <= GAPS);
            }
        }

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
