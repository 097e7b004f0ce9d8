//! Transfers: connections that come and go, each with so many bytes, between two hosts. How many that are may be drawn, too ([`Sizes`]).
//!
//! They begin at moments that are drawn in advance, whatever became of those before (an open loop), so that a simulated run and a live one have the same
//! ones. A transfer is complete when the receiving application has read the last byte; that takes time from the moment at which the sender asks for the connection.

mod sizes;

use std::ops::Range;

use machine::{Rng, Span, mix};
use serde::{Deserialize, Serialize};

pub use self::sizes::{BYTES_MAX, Draws, NoDistribution, POINTS_MAX, Point, Sizes, WHOLE};

/// Transfers of two hosts that may be open at once. One that would be one more is not begun, and counts as unfinished.
pub const OPEN_MAX: usize = 512;
/// Transfers that all pairs of hosts may begin in a run, on the mean over many runs: what is known of each is kept.
pub const RUN_MAX: u64 = 100_000;
/// How long after the measured time a transfer may end that began in it.
pub const PATIENCE: Span = Span::from_secs(5);

/// What keeps this randomness apart from all other of a run.
const LABEL: u64 = 0x7472_616e_7366_6572;

/// The seed of one pair's moments in a run with this seed.
pub fn seed(run: u64, pair: usize) -> u64 {
    mix(run ^ mix(LABEL.wrapping_add(pair as u64)))
}

/// When the transfers of two hosts begin, one after the other: intervals are distributed exponentially.
#[derive(Clone, Debug)]
pub struct Starts {
    rng: Rng,
    every: Span,
    /// The moment of the last one.
    last: Span,
}

impl Starts {
    /// With this [`seed`], and this mean time from one to the next.
    pub fn new(seed: u64, every: Span) -> Self {
        Self { rng: Rng::new(seed), every, last: Span::ZERO }
    }

    /// The next one, since the run began.
    pub fn next_start(&mut self) -> Span {
        // A picosecond at least: what comes later is another moment.
        let interval = self.rng.exponential(self.every).max(Span::from_ps(1));
        self.last = Span::from_ps(self.last.as_ps().saturating_add(interval.as_ps()));
        self.last
    }
}

/// What came of the transfers that began in the measured time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Outcome {
    /// How many that were.
    pub started: u64,
    /// How many of them had no end within [`PATIENCE`], those among them that were not begun since too many were open.
    pub unfinished: u64,
    /// How long the others took, nanoseconds, in the order in which they began.
    pub times_ns: Vec<u64>,
    /// The payload of those, in the same order. Empty where all transfers have the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes_bytes: Vec<u32>,
}

impl Outcome {
    /// The payload of those that ended, where each has `same` unless their sizes are known.
    pub fn payload_bytes(&self, same: Option<u32>) -> u64 {
        match same {
            Some(same) => self.times_ns.len() as u64 * u64::from(same),
            None => self.sizes_bytes.iter().map(|bytes| u64::from(*bytes)).sum(),
        }
    }
}

/// Counts the transfers of two hosts that begin in the measured time.
#[derive(Clone, Debug)]
pub struct Meter {
    measured: Range<Span>,
    times: Vec<Option<Span>>,
    /// The payload of each; nothing where all have the same.
    sizes: Option<Vec<u32>>,
}

/// A transfer that is measured, by its place among those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured(usize);

impl Meter {
    /// Of those that begin in this part of the run.
    pub fn new(measured: Range<Span>, sizes: &Sizes) -> Self {
        let differ = sizes.all_the_same().is_none();
        Self { measured, times: Vec::new(), sizes: differ.then(Vec::new) }
    }

    /// A transfer of so many bytes begins, or was to begin. `None`: it is not measured.
    pub fn begin(&mut self, at: Span, bytes: u32) -> Option<Measured> {
        let is_measured = self.measured.contains(&at);
        is_measured.then(|| {
            self.times.push(None);
            if let Some(sizes) = &mut self.sizes {
                sizes.push(bytes);
            }
            Measured(self.times.len() - 1)
        })
    }

    /// It is complete, and took so long.
    pub fn complete(&mut self, transfer: Measured, took: Span) {
        self.times[transfer.0].get_or_insert(took);
    }

    /// When no more transfers begin.
    pub const fn end(&self) -> Span {
        self.measured.end
    }

    /// What has become of them.
    pub fn outcome(&self) -> Outcome {
        let times_ns: Vec<u64> = self.times.iter().flatten().map(|took| took.as_ns()).collect();
        let started = self.times.len() as u64;
        let sizes = self.sizes.iter().flatten().zip(&self.times);
        let sizes_bytes = sizes.filter(|(_, took)| took.is_some()).map(|(bytes, _)| *bytes).collect();
        Outcome { started, unfinished: started - times_ns.len() as u64, times_ns, sizes_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_depend_on_run_and_pair_only() {
        let starts = |run, pair| {
            let mut starts = Starts::new(seed(run, pair), Span::from_ms(2));
            (0..1_000).map(|_| starts.next_start()).collect::<Vec<_>>()
        };
        assert_eq!(starts(1, 0), starts(1, 0));
        assert_ne!(starts(1, 0), starts(1, 1));
        assert_ne!(starts(1, 0), starts(2, 0));
        assert!(starts(1, 0).is_sorted_by(|a, b| a < b));
        let last = starts(1, 0)[999].as_secs_f64();
        assert!((1.8..2.2).contains(&last), "{last}");
        // However short the mean is, moments go on.
        let mut starts = Starts::new(1, Span::ZERO);
        assert!((0..10).map(|_| starts.next_start()).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn what_begins_in_the_measured_time_counts() {
        let ms = Span::from_ms;
        let outcome = |started: u64, times_ns: &[u64], sizes: &[u32]| Outcome {
            started,
            unfinished: started - times_ns.len() as u64,
            times_ns: times_ns.to_vec(),
            sizes_bytes: sizes.to_vec(),
        };
        let mut meter = Meter::new(ms(10)..ms(20), &Sizes::fixed(5));
        assert_eq!(meter.begin(ms(9), 5), None);
        let [a, b, c] = [10, 15, 19].map(|at| meter.begin(ms(at), 5).expect("it is measured"));
        assert_eq!(meter.begin(meter.end(), 5), None);
        meter.complete(c, Span::from_us(3));
        meter.complete(a, Span::from_us(5));
        assert_eq!(meter.outcome(), outcome(3, &[5_000, 3_000], &[]));
        assert_eq!(meter.outcome().payload_bytes(Some(5)), 10);
        meter.complete(b, Span::from_us(4));
        meter.complete(b, Span::from_us(9));
        assert_eq!(meter.outcome(), outcome(3, &[5_000, 4_000, 3_000], &[]));
        // Where sizes differ, those of what ended are known.
        let mut meter = Meter::new(ms(10)..ms(20), &Sizes::web_search());
        let [_, b, c] = [7, 8, 9].map(|bytes| meter.begin(ms(12), bytes).expect("it is measured"));
        meter.complete(c, Span::from_us(3));
        meter.complete(b, Span::from_us(4));
        assert_eq!(meter.outcome(), outcome(3, &[4_000, 3_000], &[8, 9]));
        assert_eq!(meter.outcome().payload_bytes(None), 17);
    }
}
