//! What came of the requests of a run.

use machine::Span;
use serde::Serialize;
use workload::service::{Latencies, Measured, ServerCounts};

/// What came of the requests of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestOutcome {
    /// Requests that should have begun in the measured time, and were answered.
    pub done: u64,
    /// Those that failed, by what `heddle load` calls it.
    pub failures: Vec<(&'static str, u64)>,
    /// Requests that were answered in the measured time, a second.
    pub per_second: f64,
    /// How long requests took, from when they should have begun.
    pub latency: Option<LatencyOutcome>,
    /// What each server of the service has answered in all, in its order.
    pub answered: Vec<u64>,
}

/// How long requests took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LatencyOutcome {
    /// The shortest.
    pub min: Span,
    /// The mean.
    pub mean: Span,
    /// Half are not above it.
    pub p50: Span,
    /// 9 of 10 are not above it.
    pub p90: Span,
    /// 99 of 100 are not above it.
    pub p99: Span,
    /// 999 of 1,000 are not above it.
    pub p999: Span,
    /// The longest.
    pub max: Span,
}

impl RequestOutcome {
    /// That of all clients together.
    pub(super) fn of<'a>(all: impl Iterator<Item = Measured>, servers: impl Iterator<Item = &'a ServerCounts>) -> Self {
        let (mut latencies, mut done, mut per_second) = (Latencies::default(), 0, 0.0);
        let mut failures: Vec<(&'static str, u64)> = Vec::new();
        for measured in all {
            latencies.add(measured.latency());
            done += measured.done();
            per_second += measured.per_second();
            for (kind, count) in measured.failures().iter().filter(|(_, count)| *count > 0) {
                match failures.iter_mut().find(|(name, _)| *name == kind.name()) {
                    Some((_, sum)) => *sum += count,
                    None => failures.push((kind.name(), count)),
                }
            }
        }
        let answered = servers.map(|counts| counts.answered).collect();
        Self { done, failures, per_second, latency: LatencyOutcome::of(&latencies), answered }
    }
}

impl LatencyOutcome {
    fn of(all: &Latencies) -> Option<Self> {
        Some(Self {
            min: all.min()?,
            mean: all.mean()?,
            p50: all.quantile(0.5)?,
            p90: all.quantile(0.9)?,
            p99: all.quantile(0.99)?,
            p999: all.quantile(0.999)?,
            max: all.max()?,
        })
    }
}
