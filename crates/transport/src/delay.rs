//! How long packets take from where they enter the network to where they leave it: a histogram, the same live and simulated.
//!
//! Buckets are a sixteenth of a power of two wide, so a percentile is known to 6 % at worst, and to half of that where the packets of a bucket lie evenly in it. The
//! mean, the least and the most are exact.

use machine::Span;
use serde::{Deserialize, Serialize};

/// Buckets for each doubling.
const FINE_BITS: u32 = 4;
const FINE: u64 = 1 << FINE_BITS;
/// What is counted in is so many bits more than a nanosecond: 64 ns, below which nothing is told apart.
const UNIT_BITS: u32 = 6;
/// The longest that is told apart: 17 s.
const UNITS_MAX: u64 = (1 << 28) - 1;
/// How many buckets that makes.
const BUCKETS: usize = bucket(UNITS_MAX) + 1;

/// The bucket of so many units.
const fn bucket(units: u64) -> usize {
    if units < FINE {
        return units as usize;
    }
    let octave = units.ilog2() - FINE_BITS;
    (((octave + 1) as u64 * FINE) + ((units >> octave) - FINE)) as usize
}

/// The least number of units in a bucket.
const fn least(bucket: usize) -> u64 {
    // What is read may be anything.
    let bucket = if bucket > BUCKETS { BUCKETS as u64 } else { bucket as u64 };
    if bucket < 2 * FINE {
        return bucket;
    }
    let octave = bucket / FINE - 1;
    (FINE + bucket % FINE) << octave
}

/// Counts how long packets take. Memory is that of its buckets, 1.6 kB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    counts: Box<[u32; BUCKETS]>,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Meter {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Meter {
    /// A packet has come, and took so long.
    #[inline]
    pub fn record(&mut self, took: Span) {
        let ns = took.as_ns();
        let count = &mut self.counts[bucket((ns >> UNIT_BITS).min(UNITS_MAX))];
        *count = count.wrapping_add(1);
        self.sum_ns = self.sum_ns.wrapping_add(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// What was counted since this was asked last.
    pub fn take(&mut self) -> Delays {
        let delays = self.delays();
        *self = Self::default();
        delays
    }

    /// What was counted so far.
    pub fn delays(&self) -> Delays {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Delays {
            counts: counted.map(|(bucket, count)| (bucket as u16, *count)).collect(),
            sum_ns: self.sum_ns,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
        }
    }
}

/// How long packets took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Delays {
    /// Buckets in which there are packets, ascending, and how many.
    counts: Vec<(u16, u32)>,
    /// All together, nanoseconds.
    sum_ns: u64,
    /// The least, nanoseconds.
    min_ns: u64,
    /// The most, nanoseconds.
    max_ns: u64,
}

impl Delays {
    /// How many packets.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Adds those of others.
    pub fn add(&mut self, other: &Self) {
        if other.counts.is_empty() {
            return;
        }
        let is_first = self.counts.is_empty();
        let mut merged = Vec::with_capacity(self.counts.len() + other.counts.len());
        let (mut mine, mut theirs) = (self.counts.iter().copied().peekable(), other.counts.iter().copied().peekable());
        loop {
            let next = match (mine.peek().copied(), theirs.peek().copied()) {
                (None, None) => break,
                (Some((a, count)), Some((b, more))) if a == b => {
                    mine.next();
                    theirs.next();
                    (a, count.saturating_add(more))
                }
                (Some((a, count)), Some((b, _))) if a < b => {
                    mine.next();
                    (a, count)
                }
                (Some((a, count)), None) => {
                    mine.next();
                    (a, count)
                }
                (_, Some((b, more))) => {
                    theirs.next();
                    (b, more)
                }
            };
            merged.push(next);
        }
        self.counts = merged;
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        self.min_ns = if is_first { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// What has been counted since `before`, which is an earlier reading of the same meter. The least and the most are those of the buckets, unless nothing had been counted.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        if before.counts.is_empty() {
            return self.clone();
        }
        let was = |bucket: u16| {
            let found = before.counts.binary_search_by_key(&bucket, |(bucket, _)| *bucket);
            found.map_or(0, |at| before.counts[at].1)
        };
        let grown = self.counts.iter().map(|(bucket, count)| (*bucket, count.wrapping_sub(was(*bucket))));
        let counts: Vec<(u16, u32)> = grown.filter(|(_, count)| *count > 0).collect();
        let ns = |bucket: Option<&(u16, u32)>, more: usize| {
            bucket.map_or(0, |(bucket, _)| least(usize::from(*bucket) + more) << UNIT_BITS)
        };
        Self {
            sum_ns: self.sum_ns.wrapping_sub(before.sum_ns),
            min_ns: ns(counts.first(), 0).max(self.min_ns),
            max_ns: ns(counts.last(), 1).min(self.max_ns),
            counts,
        }
    }

    /// The mean, seconds; `None` without packets.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_ns as f64 / count as f64 / 1e9)
    }

    /// The least, seconds; `None` without packets.
    pub fn min(&self) -> Option<f64> {
        (!self.counts.is_empty()).then_some(self.min_ns as f64 / 1e9)
    }

    /// The most, seconds; `None` without packets.
    pub fn max(&self) -> Option<f64> {
        (!self.counts.is_empty()).then_some(self.max_ns as f64 / 1e9)
    }

    /// The delay, in seconds, that a share of all packets does not exceed; those of a bucket are taken to lie evenly in it. `None` without packets.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        let (first, last) = (self.min()?, self.max()?);
        let wanted = share.clamp(0.0, 1.0) * count as f64;
        let mut below = 0.0;
        for (bucket, count) in &self.counts {
            let (count, bucket) = (f64::from(*count), usize::from(*bucket));
            if below + count >= wanted {
                let [from, to] = [bucket, bucket + 1].map(|bucket| (least(bucket) << UNIT_BITS) as f64 / 1e9);
                let within = (wanted - below) / count;
                return Some(within.mul_add(to - from, from).max(first).min(last));
            }
            below += count;
        }
        Some(last)
    }

    /// Points of the cumulative distribution: a delay in seconds, and the share of packets that took no longer; one a bucket.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let all = self.count() as f64;
        let mut sum = 0.0;
        let mut point = |(bucket, count): &(u16, u32)| {
            sum += f64::from(*count);
            let end = (least(usize::from(*bucket) + 1) << UNIT_BITS) as f64 / 1e9;
            (end.min(self.max_ns as f64 / 1e9), sum / all)
        };
        self.counts.iter().map(&mut point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(us: impl IntoIterator<Item = u64>) -> Meter {
        let mut meter = Meter::default();
        for us in us {
            meter.record(Span::from_us(us));
        }
        meter
    }

    #[test]
    fn buckets_follow_each_other() {
        for at in 0..BUCKETS {
            assert_eq!((bucket(least(at)), bucket(least(at + 1) - 1)), (at, at), "{at}");
        }
        assert_eq!(least(BUCKETS), UNITS_MAX + 1);
        // None is wider than a sixteenth of what it holds.
        assert!((FINE as usize..BUCKETS).all(|at| (least(at + 1) - least(at)) * FINE <= least(at)));
    }

    #[test]
    fn percentiles_are_known_to_some_per_cent() {
        let delays = counted(1..=10_000).delays();
        assert_eq!(delays.count(), 10_000);
        for (share, ms) in [(0.5, 5.0), (0.9, 9.0), (0.99, 9.9), (0.999, 9.99)] {
            let found = delays.quantile(share).unwrap() * 1e3;
            assert!((found / ms - 1.0).abs() < 0.03, "{share}: {found}");
        }
        assert_eq!((delays.min(), delays.max()), (Some(1e-6), Some(0.01)));
        assert!((delays.mean().unwrap() - 5_000.5e-6).abs() < 1e-12);
        assert_eq!(delays.distribution().last(), Some(&(0.01, 1.0)));
        // All the same: all percentiles are that.
        let same = counted([777; 5]).delays();
        assert_eq!((same.quantile(0.01), same.quantile(0.99)), (same.max(), same.max()));
        assert_eq!(same.max(), Some(0.000_777));
    }

    #[test]
    fn readings_are_added_and_taken_apart() {
        let mut meter = counted([5, 5, 9]);
        let before = meter.delays();
        for us in [5, 70, 1_000_000_000] {
            meter.record(Span::from_us(us));
        }
        let grown = meter.delays().since(&before);
        assert_eq!(grown.count(), 3);
        assert!((grown.mean().unwrap() - 1_000_000_075e-6 / 3.0).abs() < 1e-9);
        assert_eq!((grown.min(), grown.max().map(f64::round)), (before.min(), Some(17.0)));
        let mut sum = before.clone();
        sum.add(&grown);
        assert_eq!(sum.counts, meter.delays().counts);
        assert_eq!(meter.delays().since(&Delays::default()), meter.delays());
        let mut sum = Delays::default();
        sum.add(&before);
        assert_eq!(sum, before);
        sum.add(&Delays::default());
        assert_eq!(sum, before);
        assert_eq!((Delays::default().mean(), Delays::default().quantile(0.5)), (None, None));
    }
}
