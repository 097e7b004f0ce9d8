//! The sender's scoreboard (RFC 6675, section 3): which of the segments in flight have arrived.
//!
//! All segments are full ones, so RFC 6675's two conditions of `IsLost` are one: the threshold's number of segments above
//! it have arrived. Hence everything that has not arrived below the threshold-th highest arrival is lost.

use crate::bitmap::Bitmap;
use crate::segment::Blocks;

/// Which segments beyond the cumulative acknowledgement have arrived. Segments are counted from that acknowledgement.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    arrived: Bitmap,
    segment_bytes: u64,
}

impl Scoreboard {
    /// Nothing has arrived. `window` bounds how many segments are in flight.
    pub fn new(window: u32, segment_bytes: u64) -> Self {
        Self { arrived: Bitmap::new(window), segment_bytes }
    }

    /// Whether anything beyond the cumulative acknowledgement has arrived.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.arrived.ones() == 0
    }

    /// How many segments have arrived.
    pub const fn len(&self) -> u64 {
        self.arrived.ones()
    }

    /// Marks what `blocks` say (RFC 6675, `Update`); `shift` is how far in bytes this acknowledgement lies below the highest
    /// one, and `in_flight` how many segments were sent beyond that. True if any of it is news.
    pub fn update(&mut self, blocks: &Blocks, shift: u64, in_flight: u64) -> bool {
        let mut news = false;
        for block in blocks.as_slice() {
            // Parts of segments do not count.
            let from = u64::from(block.start).saturating_sub(shift).div_ceil(self.segment_bytes);
            let to = (u64::from(block.end).saturating_sub(shift) / self.segment_bytes).min(in_flight);
            for segment in from..to {
                news |= self.arrived.set(segment);
            }
        }
        news
    }

    /// The cumulative acknowledgement moved on by `segments`.
    #[inline]
    pub fn advance(&mut self, segments: u64) {
        self.arrived.advance(segments);
    }

    /// Forgets everything: the receiver may have dropped what it reported (RFC 2018, section 8).
    pub fn clear(&mut self) {
        self.arrived.clear();
    }

    /// How many of the segments `from..to` have arrived.
    pub fn count(&self, from: u64, to: u64) -> u64 {
        self.arrived.count(from, to)
    }

    /// The first of the segments `from..to` that has not arrived.
    pub fn first_missing(&self, from: u64, to: u64) -> Option<u64> {
        self.arrived.first_clear(from, to)
    }

    /// The last of the first `to` segments that has not arrived.
    pub fn last_missing(&self, to: u64) -> Option<u64> {
        (0..to).rev().find(|&segment| !self.arrived.get(segment))
    }

    /// Behind the highest segment that has arrived; 0 if none has.
    pub fn top(&self, in_flight: u64) -> u64 {
        self.arrived.nth_from_top(in_flight, 1).map_or(0, |n| n + 1)
    }

    /// What has not arrived below this segment is lost (RFC 6675, `IsLost`).
    pub fn lost_below(&self, in_flight: u64, threshold: u64) -> u64 {
        self.arrived.nth_from_top(in_flight, threshold).unwrap_or(0)
    }

    /// Segments in the network (RFC 6675, `SetPipe`), when `resent` is behind the highest segment sent again (`HighRxt`).
    pub fn pipe(&self, in_flight: u64, resent: u64, threshold: u64) -> u64 {
        let missing = |from: u64, to: u64| (to - from) - self.count(from, to);
        let lost = self.lost_below(in_flight, threshold);
        missing(lost, in_flight) + missing(0, resent.min(in_flight))
    }
}
