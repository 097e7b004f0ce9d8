//! What the controllers did in one run: latencies by operation, and what went wrong.

use fabric::{Operation, Statistic};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::measure::statistics::quantile;

/// So many latencies of an operation are kept one by one, in the order of their answers; of more there is the histogram.
pub const RAW_MAX: usize = 10_000;

/// The longest latency that histograms distinguish, in nanoseconds: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// What the controllers did in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterRecord {
    /// In the order in which they were asked.
    pub operations: Vec<OperationRecord>,
    /// Requests that ended in an error, or without an answer.
    pub failed: u64,
    /// What the first of them was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<String>,
    /// Writes that were acknowledged and are not in the data after the run. `None`: nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_writes: Option<u64>,
    /// Whether the answers could have come from one copy of the data that is asked one request at a time. `None`: too many
    /// to be checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linearizable: Option<bool>,
    /// If not: the few operations that contradict each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterexample: Option<String>,
    /// How many operations were checked.
    pub checked: u64,
    /// The longest time in which writes were asked and none succeeded, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_max_seconds: Option<f64>,
    /// Resident memory of the node that has the most of it, at the end, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_max_bytes: Option<u64>,
    /// The faults that were injected, one line each: when, what, whom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

/// What came of one operation in one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationRecord {
    /// Which.
    pub operation: Operation,
    /// From the first request to the last answer, in seconds.
    pub seconds: f64,
    /// Of requests that succeeded.
    pub latencies: Latencies,
}

/// How long requests took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Latencies {
    /// How many.
    pub count: u64,
    /// The least, in nanoseconds.
    pub min_ns: u64,
    /// All together, in nanoseconds.
    pub sum_ns: u64,
    /// The most, in nanoseconds.
    pub max_ns: u64,
    /// Nanoseconds, and how many were no longer than that but longer than the one before; to three digits.
    pub histogram: Vec<(u64, u64)>,
    /// The first [`RAW_MAX`], one by one.
    pub raw_ns: Vec<u64>,
}

impl Latencies {
    /// Describes these, given in the order of their answers.
    pub fn of(latencies_ns: &[u64]) -> Self {
        let mut histogram: Histogram<u64> = Histogram::new_with_max(LATENCY_NS_MAX, 3).expect("the bounds are valid");
        for &latency in latencies_ns {
            histogram.saturating_record(latency.max(1));
        }
        Self {
            count: latencies_ns.len() as u64,
            min_ns: latencies_ns.iter().copied().min().unwrap_or(0),
            sum_ns: latencies_ns.iter().sum(),
            max_ns: latencies_ns.iter().copied().max().unwrap_or(0),
            histogram: histogram.iter_recorded().map(|it| (it.value_iterated_to(), it.count_at_value())).collect(),
            raw_ns: latencies_ns[..latencies_ns.len().min(RAW_MAX)].to_vec(),
        }
    }

    /// In seconds; `None` if there are none.
    pub fn statistic(&self, statistic: Statistic) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        Some(match statistic {
            Statistic::Min => self.min_ns as f64 * 1e-9,
            Statistic::Mean => self.sum_ns as f64 * 1e-9 / self.count as f64,
            Statistic::P50 => self.quantile(0.5),
            Statistic::P90 => self.quantile(0.9),
            Statistic::P99 => self.quantile(0.99),
            Statistic::P999 => self.quantile(0.999),
            Statistic::Max => self.max_ns as f64 * 1e-9,
        })
    }

    /// In seconds: from the samples if all are there, else to three digits.
    pub fn quantile(&self, q: f64) -> f64 {
        if self.raw_ns.len() as u64 == self.count {
            let mut sorted: Vec<f64> = self.raw_ns.iter().map(|&ns| ns as f64 * 1e-9).collect();
            sorted.sort_by(f64::total_cmp);
            return quantile(&sorted, q);
        }
        let rank = (q.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let found = self.histogram.iter().find(|(_, count)| {
            below += count;
            below >= rank
        });
        found.map_or(self.max_ns, |(value, _)| (*value).min(self.max_ns)) as f64 * 1e-9
    }
}

impl ClusterRecord {
    /// What came of `operation`, if it was asked.
    pub fn operation(&self, operation: Operation) -> Option<&OperationRecord> {
        self.operations.iter().find(|record| record.operation == operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_a_few_are_exact() {
        let latencies = Latencies::of(&[1_000_000, 3_000_000, 2_000_000]);
        let statistic = |which| (latencies.statistic(which).unwrap() * 1e9).round() as u64;
        assert_eq!(statistic(Statistic::Min), 1_000_000);
        assert_eq!(statistic(Statistic::Mean), 2_000_000);
        assert_eq!(statistic(Statistic::P50), 2_000_000);
        assert_eq!(statistic(Statistic::P99), 2_980_000, "between closest ranks");
        assert_eq!(statistic(Statistic::Max), 3_000_000);
        assert_eq!(Latencies::of(&[]).statistic(Statistic::Mean), None);
    }

    #[test]
    fn many_are_kept_as_a_histogram() {
        let all: Vec<u64> = (1..=50_000).map(|n| n * 1_000).collect();
        let latencies = Latencies::of(&all);
        assert_eq!((latencies.count, latencies.raw_ns.len()), (50_000, RAW_MAX));
        let p99 = latencies.statistic(Statistic::P99).unwrap();
        assert!((p99 - 0.0495).abs() < 0.0495e-2, "{p99}");
        assert!(latencies.histogram.len() < 12_000, "{}", latencies.histogram.len());
        let text = serde_json::to_string(&latencies).unwrap();
        assert_eq!(serde_json::from_str::<Latencies>(&text).unwrap(), latencies);
    }
}
