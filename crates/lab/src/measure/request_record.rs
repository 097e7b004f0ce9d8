//! What came of requests to a service in one run.

use std::collections::BTreeMap;

use fabric::Statistic;
use machine::Span;
use serde::{Deserialize, Serialize};
use workload::service::Latencies;

/// What came of requests to a service in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RequestRecord {
    /// Requests that should have begun in the measured time, and were answered.
    pub done: u64,
    /// Those that failed, by what `heddle load` calls it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u64>,
    /// Requests that were answered in the measured time, a second.
    pub per_second: f64,
    /// How long requests took, from when they should have begun. `None`: none was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyRecord>,
    /// What each server of the service has answered in all, in its order; simulated runs only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<u64>,
}

/// How long requests took, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyRecord {
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// Half are not above it.
    pub p50: f64,
    /// 9 of 10 are not above it.
    pub p90: f64,
    /// 99 of 100 are not above it.
    pub p99: f64,
    /// 999 of 1,000 are not above it.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl RequestRecord {
    /// Requests that failed.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

impl LatencyRecord {
    /// Of what was measured live.
    pub(crate) fn of(all: &Latencies) -> Option<Self> {
        let seconds = |span: Option<Span>| Some(span?.as_secs_f64());
        Some(Self {
            min: seconds(all.min())?,
            mean: seconds(all.mean())?,
            p50: seconds(all.quantile(0.5))?,
            p90: seconds(all.quantile(0.9))?,
            p99: seconds(all.quantile(0.99))?,
            p999: seconds(all.quantile(0.999))?,
            max: seconds(all.max())?,
        })
    }

    /// One of them, seconds.
    pub const fn statistic(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::Min => self.min,
            Statistic::Mean => self.mean,
            Statistic::P50 => self.p50,
            Statistic::P90 => self.p90,
            Statistic::P99 => self.p99,
            Statistic::P999 => self.p999,
            Statistic::Max => self.max,
        }
    }
}

impl From<sim::RequestOutcome> for RequestRecord {
    fn from(outcome: sim::RequestOutcome) -> Self {
        let latency = outcome.latency.map(|all| LatencyRecord {
            min: all.min.as_secs_f64(),
            mean: all.mean.as_secs_f64(),
            p50: all.p50.as_secs_f64(),
            p90: all.p90.as_secs_f64(),
            p99: all.p99.as_secs_f64(),
            p999: all.p999.as_secs_f64(),
            max: all.max.as_secs_f64(),
        });
        let failures = outcome.failures.into_iter().map(|(kind, count)| (kind.to_owned(), count));
        let (done, per_second, answered) = (outcome.done, outcome.per_second, outcome.answered);
        Self { done, failures: failures.collect(), per_second, latency, answered }
    }
}
