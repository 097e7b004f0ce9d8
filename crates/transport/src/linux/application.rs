//! What the application has written: without end, or so much by now.

use std::collections::VecDeque;

/// The largest burst, bytes (`GSO_LEGACY_MAX_SIZE`).
pub(super) const BURST_BYTES: u64 = 65_536;

/// Segments of the largest burst.
pub(super) fn whole_burst(segment_bytes: u64) -> u32 {
    (BURST_BYTES / segment_bytes).max(1) as u32
}

/// Where written data end, in segments.
#[derive(Clone, Debug)]
pub(super) struct Application {
    /// Behind the last segment.
    end: u64,
    /// Where single writes end that are not acknowledged.
    writes: VecDeque<u64>,
}

impl Application {
    pub const fn endless() -> Self {
        Self { end: u64::MAX, writes: VecDeque::new() }
    }

    pub const fn end(&self) -> u64 {
        self.end
    }

    pub fn write(&mut self, end: u64, acknowledged: u64) {
        self.writes.retain(|end| *end > acknowledged);
        self.writes.push_back(end);
        self.end = end;
    }

    /// Whether a write ends with this segment (`tcp_mark_push`).
    pub fn ends_with(&self, segment: u64) -> bool {
        self.writes.contains(&(segment + 1))
    }

    /// If a write ends with this segment, so many that follow leave with it, and the write ends with the last of them (`tcp_grow_skb`).
    pub fn join(&mut self, segment: u64, more: u32) {
        for end in self.writes.iter_mut().filter(|end| **end == segment + 1) {
            *end += u64::from(more);
        }
    }

    /// How many segments are left of the write that this segment is of; many, if it does not end.
    pub fn left(&self, segment: u64) -> u32 {
        let end = self.writes.iter().find(|end| **end > segment);
        end.map_or(u32::MAX, |end| u32::try_from(end - segment).unwrap_or(u32::MAX))
    }
}
