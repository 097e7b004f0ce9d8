//! The flows that are watched: a table of fixed size, by sets, in which the flow that was idle for longest makes room.

use machine::{Rebase, Span, Time, mix};

use super::slots::NIL;
use super::{Error, MEMBERS, ORIGIN};

/// Flows that share one place of the hash: they are all looked at.
const WAYS: u32 = 8;
/// The smallest table.
pub(super) const FLOWS_MIN: u32 = WAYS;
/// The largest table: 20 MiB.
pub(super) const FLOWS_MAX: u32 = 1 << 16;
/// The key of an unused entry.
const NONE: u64 = 0;

/// One direction of one TCP connection.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// The number of the first byte that is waited for, counted from near [`ORIGIN`].
    pub(super) expected: u64,
    /// What waits, by ascending number.
    pub(super) first: u32,
    pub(super) last: u32,
    /// Segments in turn that ended below `expected`.
    pub(super) behind: u32,
    /// Whether it has brought data: a SYN alone costs its sender nothing, and goes first.
    pub(super) carried: bool,
    /// When its last segment came.
    pub(super) used: Time,
    /// The gap that was given up by the clock last.
    pub(super) gap: Gap,
    /// The highest number of a segment that each member has brought; 0 for none.
    pub(super) newest: [u64; MEMBERS],
}

/// Bytes that were not waited for any longer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gap {
    pub(super) from: u64,
    pub(super) to: u64,
    /// When the segment behind it came.
    pub(super) since: Time,
}

impl Flow {
    const UNUSED: Self = Self {
        expected: ORIGIN,
        first: NIL,
        last: NIL,
        behind: 0,
        carried: false,
        used: Time::ZERO,
        gap: Gap { from: 0, to: 0, since: Time::ZERO },
        newest: [0; MEMBERS],
    };

    /// Forgets the past: `expected` comes next. Nothing may wait.
    pub(super) fn start(&mut self, expected: u32) {
        assert!(self.is_empty(), "what waits is handed on before a flow starts anew");
        let Self { carried, used, .. } = *self;
        *self = Self { expected: ORIGIN + u64::from(expected), carried, used, ..Self::UNUSED };
    }

    /// Whether nothing waits.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.first == NIL
    }

    /// The classes of entries that make room, in this order: flows for which nothing waits, of those such without data, of those the one idle for longest.
    const fn claim(&self) -> (bool, bool, Time) {
        (!self.is_empty(), self.carried, self.used)
    }
}

/// The table. Invariant: a flow stands in the set that its key hashes to.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    keys: Box<[u64]>,
    entries: Box<[Flow]>,
    seed: u64,
    /// The entry that was found last: trains of segments are common.
    recent: u32,
}

impl Flows {
    /// An empty table.
    pub(super) fn new(size: u32, seed: u64) -> Result<Self, Error> {
        if !(FLOWS_MIN..=FLOWS_MAX).contains(&size) || !size.is_power_of_two() {
            return Err(Error::Flows(size));
        }
        let size = size as usize;
        Ok(Self { keys: vec![NONE; size].into(), entries: vec![Flow::UNUSED; size].into(), seed, recent: 0 })
    }

    /// Flow 0 shares an entry with flow 1, of 2^64.
    const fn key(flow: u64) -> u64 {
        if flow == NONE { 1 } else { flow }
    }

    /// The first entry of a flow's set.
    #[inline]
    fn set(&self, key: u64) -> u32 {
        mix(key ^ self.seed) as u32 & (self.keys.len() as u32 - 1) & !(WAYS - 1)
    }

    /// Where a flow stands, if it is known.
    #[inline]
    pub(super) fn find(&mut self, flow: u64) -> Option<u32> {
        let key = Self::key(flow);
        if self.keys[self.recent as usize] == key {
            return Some(self.recent);
        }
        let set = self.set(key);
        let found = (set..set + WAYS).find(|&at| self.keys[at as usize] == key)?;
        self.recent = found;
        Some(found)
    }

    /// Where a new flow may stand, and whether another stands there, which has to be emptied before [`Flows::enter`].
    pub(super) fn room(&self, flow: u64) -> (u32, bool) {
        let set = self.set(Self::key(flow));
        let free = (set..set + WAYS).find(|&at| self.keys[at as usize] == NONE);
        let idle = (set..set + WAYS).min_by_key(|&at| self.entries[at as usize].claim());
        (free.or(idle).unwrap_or(set), free.is_none())
    }

    /// Takes an entry for a flow whose next byte is `expected`.
    pub(super) fn enter(&mut self, at: u32, flow: u64, expected: u32) {
        self.keys[at as usize] = Self::key(flow);
        self[at].carried = false;
        self[at].start(expected);
        self.recent = at;
    }

    /// Forgets a flow for which nothing waits.
    pub(super) fn leave(&mut self, at: u32) {
        self.keys[at as usize] = NONE;
        self[at].start(0);
    }
}

impl core::ops::Index<u32> for Flows {
    type Output = Flow;
    #[inline]
    fn index(&self, at: u32) -> &Flow {
        &self.entries[at as usize]
    }
}

impl core::ops::IndexMut<u32> for Flows {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut Flow {
        &mut self.entries[at as usize]
    }
}

impl Rebase for Flow {
    fn rebase(&mut self, by: Span) {
        let Self { expected: _, first: _, last: _, behind: _, carried: _, used, gap, newest: _ } = self;
        used.rebase(by);
        gap.rebase(by);
    }
}

impl Rebase for Gap {
    fn rebase(&mut self, by: Span) {
        let Self { from: _, to: _, since } = self;
        since.rebase(by);
    }
}

impl Rebase for Flows {
    fn rebase(&mut self, by: Span) {
        let Self { keys: _, entries, seed: _, recent: _ } = self;
        entries.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flow_that_was_idle_for_longest_makes_room() {
        let mut flows = Flows::new(WAYS, 7).unwrap();
        for flow in 0..u64::from(WAYS) {
            let (at, taken) = flows.room(flow + 10);
            assert!(!taken);
            flows.enter(at, flow + 10, 0);
            flows[at].carried = flow != 5;
            flows[at].used = Time::from_ns(100 - flow);
        }
        let at = |flows: &mut Flows, flow| flows.find(flow).unwrap();
        let (silent, oldest, next) = (at(&mut flows, 15), at(&mut flows, 17), at(&mut flows, 16));
        assert_eq!(flows.room(99), (silent, true), "without data");
        flows[silent].carried = true;
        assert_eq!(flows.room(99), (oldest, true));
        flows[oldest].first = 0;
        assert_eq!(flows.room(99), (next, true), "nothing waits there");
        flows.enter(next, 99, 5);
        assert_eq!((flows.find(16), flows.find(99)), (None, Some(next)));
        flows.leave(next);
        assert_eq!((flows.find(99), flows.room(3)), (None, (next, false)));
    }

    #[test]
    fn sizes_are_checked() {
        for size in [0, 4, 12, FLOWS_MAX * 2] {
            assert!(matches!(Flows::new(size, 0), Err(Error::Flows(n)) if n == size));
        }
    }
}
