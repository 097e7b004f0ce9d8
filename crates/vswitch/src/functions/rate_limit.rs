//! `rate-limit`: what comes faster than a rate is dropped, after a burst. Each direction has a bucket of its own.

use machine::{Rebase, Span, Time};

use super::service_function::{Course, FunctionCount, PassingPacket, ServiceFunction, Verdict, nonzero};
use crate::field::Field;
use crate::token_bucket::TokenBucket;

/// How much passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Bits a second in each direction, of frames without frame check sequence.
    pub rate_bps: u64,
    /// Bytes that pass at once after a pause.
    pub burst_bytes: u32,
}

/// Drops what comes too fast: a policer, without a queue.
#[derive(Debug)]
pub struct RateLimiter {
    /// By course. Tokens are bits.
    buckets: [TokenBucket; 2],
    /// By course: packets and bytes that were dropped.
    dropped: [(u64, u64); 2],
}

impl RateLimiter {
    pub fn new(limit: RateLimit) -> Self {
        let bucket = TokenBucket::new(limit.rate_bps, u64::from(limit.burst_bytes) * 8);
        Self { buckets: [bucket; 2], dropped: [(0, 0); 2] }
    }
}

impl ServiceFunction for RateLimiter {
    #[inline]
    fn process(&mut self, now: Time, packet: &PassingPacket<'_>, _: &mut Vec<Field>) -> Verdict {
        let at = packet.course.index();
        if self.buckets[at].take(now, u64::from(packet.bytes) * 8) {
            return Verdict::Pass;
        }
        let (packets, bytes) = &mut self.dropped[at];
        *packets += 1;
        *bytes += u64::from(packet.bytes);
        Verdict::Drop
    }

    fn counts(&self) -> Vec<FunctionCount> {
        let count = |course: Course| {
            let (packets, bytes) = self.dropped[course.index()];
            FunctionCount { bytes: Some(bytes), ..FunctionCount::new(format!("too fast {}", course.name()), packets) }
        };
        nonzero(Course::BOTH.map(count))
    }
}

impl Rebase for RateLimiter {
    fn rebase(&mut self, by: Span) {
        let Self { buckets, dropped: _ } = self;
        buckets.rebase(by);
    }
}
