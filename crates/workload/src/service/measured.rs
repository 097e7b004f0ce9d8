//! What a load has measured: requests done and failed, their latencies, and how it went from second to second.

use core::fmt;

use hdrhistogram::Histogram;
use machine::{Span, Time};

/// The longest latency that is told apart, in nanoseconds: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Significant decimal digits of a latency.
const LATENCY_DIGITS: u8 = 3;

/// No series is longer, in seconds: a day.
pub const SECONDS_MAX: u64 = 86_400;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// The connection was refused.
    Refused,
    /// The connection was closed or reset before the answer was complete.
    Reset,
    /// There was no complete answer in time, or no connection.
    TimedOut,
    /// There is no path to the server.
    Unreachable,
    /// The answer's status was 400 to 499.
    Status4xx,
    /// The answer's status was 500 to 599.
    Status5xx,
    /// The answer is none that the protocol knows.
    Malformed,
    /// This machine could not send it: no port, no descriptor, no memory.
    Local,
    /// It should have begun, and all of the load's connections were taken until the end.
    Unsent,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Refused,
        Self::Reset,
        Self::TimedOut,
        Self::Unreachable,
        Self::Status4xx,
        Self::Status5xx,
        Self::Malformed,
        Self::Local,
        Self::Unsent,
    ];

    /// As reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::TimedOut => "timed-out",
            Self::Unreachable => "unreachable",
            Self::Status4xx => "status-4xx",
            Self::Status5xx => "status-5xx",
            Self::Malformed => "malformed",
            Self::Local => "local",
            Self::Unsent => "unsent",
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer of so many bytes.
    Done {
        /// Bytes of the answer's body.
        bytes: u64,
    },
    /// Without the answer that was wanted.
    Failed(Failure),
}

/// Failures by their kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureCounts([u64; Failure::ALL.len()]);

impl FailureCounts {
    fn add(&mut self, failure: Failure, count: u64) {
        self.0[failure as usize] += count;
    }

    /// Of one kind.
    pub const fn of(&self, failure: Failure) -> u64 {
        self.0[failure as usize]
    }

    /// Of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each kind, with how many there were.
    pub fn iter(&self) -> impl Iterator<Item = (Failure, u64)> + '_ {
        Failure::ALL.into_iter().map(|failure| (failure, self.of(failure)))
    }
}

/// Latencies, as quantiles with three digits.
#[derive(Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS);
        Self { histogram: histogram.expect("the bounds are in order") }
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, max] = [self.quantile(0.5), self.max()];
        f.debug_struct("Latencies").field("count", &self.count()).field("median", &median).field("max", &max).finish()
    }
}

impl Latencies {
    fn record(&mut self, latency: Span) {
        self.histogram.saturating_record(latency.as_ns());
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency that this share of all (0 to 1) does not exceed; nothing if there are none.
    pub fn quantile(&self, share: f64) -> Option<Span> {
        (self.count() > 0).then(|| Span::from_ns(self.histogram.value_at_quantile(share).min(self.histogram.max())))
    }

    /// The shortest.
    pub fn min(&self) -> Option<Span> {
        (self.count() > 0).then(|| Span::from_ns(self.histogram.min()))
    }

    /// The longest.
    pub fn max(&self) -> Option<Span> {
        self.quantile(1.0)
    }

    /// The mean.
    pub fn mean(&self) -> Option<Span> {
        (self.count() > 0).then(|| Span::from_ns(self.histogram.mean() as u64))
    }

    /// Each latency in nanoseconds, as far as they are told apart, and how many there are of it.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.histogram.iter_recorded().map(|at| (at.value_iterated_to(), at.count_since_last_iteration()))
    }

    /// Takes in so many of a latency in nanoseconds.
    pub fn add_bucket(&mut self, latency_ns: u64, count: u64) {
        self.histogram.saturating_record_n(latency_ns, count);
    }

    /// Takes in those of another one.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
    }
}

/// One second of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Answers in it.
    pub done: u64,
    /// Requests that failed in it.
    pub failed: u64,
    /// The median latency of the answers.
    pub p50: Option<Span>,
    /// What 99 % of the latencies did not exceed.
    pub p99: Option<Span>,
    /// The longest.
    pub max: Option<Span>,
}

/// What a load has measured in its window.
#[derive(Clone, Debug)]
pub struct Measured {
    begins: Time,
    ends: Time,
    latency: Latencies,
    service: Latencies,
    failures: FailureCounts,
    /// Of those that ended within the window, whenever they should have begun.
    done_within: u64,
    bytes_within: u64,
    series: Vec<Second>,
    second: Second,
    second_latency: Latencies,
}

impl Measured {
    /// Nothing yet, from `begins` to `ends`.
    pub fn new(begins: Time, ends: Time) -> Self {
        Self {
            begins,
            ends,
            latency: Latencies::default(),
            service: Latencies::default(),
            failures: FailureCounts::default(),
            done_within: 0,
            bytes_within: 0,
            series: Vec::new(),
            second: Second::default(),
            second_latency: Latencies::default(),
        }
    }

    /// The window ends then, if it does not end earlier.
    pub fn shorten(&mut self, ends: Time) {
        self.ends = self.ends.min(ends).max(self.begins);
    }

    /// Whether what happens then is measured.
    pub fn contains(&self, time: Time) -> bool {
        self.begins <= time && time < self.ends
    }

    /// A request has ended. It should have begun at `intended`, and did at `started`.
    ///
    /// Requests are counted, and their latency with them, if they should have begun within the window; what is done a second is what ended within it.
    pub fn record(&mut self, now: Time, intended: Time, started: Time, outcome: Outcome) {
        let latency = now.since(intended);
        if self.contains(intended) {
            match outcome {
                Outcome::Done { .. } => {
                    self.latency.record(latency);
                    self.service.record(now.since(started));
                }
                Outcome::Failed(failure) => self.failures.add(failure, 1),
            }
        }
        if !self.contains(now) {
            return;
        }
        self.advance(now);
        match outcome {
            Outcome::Done { bytes } => {
                self.done_within += 1;
                self.bytes_within += bytes;
                self.second.done += 1;
                self.second_latency.record(latency);
            }
            Outcome::Failed(_) => self.second.failed += 1,
        }
    }

    /// So many should have begun within the window, and did not.
    pub fn record_unsent(&mut self, count: u64) {
        self.failures.add(Failure::Unsent, count);
    }

    /// Seconds that are over by `now` go into the series, those without anything too.
    fn advance(&mut self, now: Time) {
        let current = now.min(self.ends).since(self.begins).as_ns() / 1_000_000_000;
        while (self.series.len() as u64) < current.min(SECONDS_MAX) {
            self.finish_second();
        }
    }

    fn finish_second(&mut self) {
        let [p50, p99] = [0.5, 0.99].map(|share| self.second_latency.quantile(share));
        self.series.push(Second { p50, p99, max: self.second_latency.max(), ..self.second });
        if self.second_latency.count() > 0 {
            self.second_latency.histogram.reset();
        }
        self.second = Second::default();
    }

    /// Ends the series: nothing more is recorded in it.
    pub fn complete(&mut self) {
        self.advance(self.ends);
        if self.second != Second::default() {
            self.finish_second();
        }
    }

    /// How long the window is.
    pub fn window(&self) -> Span {
        self.ends.since(self.begins)
    }

    /// Answers a second, of those that came within the window.
    pub fn per_second(&self) -> f64 {
        per_second(self.done_within, self.window())
    }

    /// Bytes of answers a second.
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes_within, self.window())
    }

    /// Answered requests that should have begun within the window.
    pub fn done(&self) -> u64 {
        self.latency.count()
    }

    /// Failed ones.
    pub const fn failures(&self) -> &FailureCounts {
        &self.failures
    }

    /// From when a request should have begun to its answer: what somebody waits who comes at that moment.
    pub const fn latency(&self) -> &Latencies {
        &self.latency
    }

    /// From when a request did begin. It hides what a load that is held up does not ask.
    pub const fn service(&self) -> &Latencies {
        &self.service
    }

    /// How it went, a second each.
    pub fn series(&self) -> &[Second] {
        &self.series
    }
}

fn per_second(count: u64, window: Span) -> f64 {
    if window == Span::ZERO { 0.0 } else { count as f64 / window.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn requests_count_by_when_they_should_have_begun() {
        let mut measured = Measured::new(at(1_000), at(3_000));
        let done = Outcome::Done { bytes: 10 };
        measured.record(at(1_100), at(900), at(900), done);
        measured.record(at(1_500), at(1_000), at(1_400), done);
        measured.record(at(2_500), at(2_400), at(2_400), Outcome::Failed(Failure::Reset));
        measured.record(at(3_500), at(2_900), at(2_900), done);
        measured.record(at(3_600), at(3_100), at(3_100), done);
        measured.record_unsent(2);
        measured.complete();
        assert_eq!((measured.done(), measured.failures().total()), (2, 3));
        assert_eq!((measured.failures().of(Failure::Reset), measured.failures().of(Failure::Unsent)), (1, 2));
        assert!((measured.per_second() - 1.0).abs() < 1e-9 && (measured.bytes_per_second() - 10.0).abs() < 1e-9);
        let near = |span: Option<Span>, ms: f64| (span.expect("some").as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.002;
        assert!(near(measured.latency().max(), 600.0) && near(measured.service().min(), 100.0), "{measured:?}");
        let series: Vec<_> = measured.series().iter().map(|second| (second.done, second.failed)).collect();
        assert_eq!(series, [(2, 0), (0, 1)]);
    }

    #[test]
    fn seconds_without_anything_are_seconds() {
        let mut measured = Measured::new(at(0), at(4_500));
        measured.record(at(4_200), at(4_100), at(4_100), Outcome::Done { bytes: 0 });
        measured.complete();
        let done: Vec<_> = measured.series().iter().map(|second| second.done).collect();
        assert_eq!(done, [0, 0, 0, 0, 1]);
        assert_eq!((measured.series()[0].p99, measured.latency().quantile(0.5).is_some()), (None, true));
        assert_eq!((Latencies::default().quantile(0.5), Latencies::default().mean()), (None, None));
    }
}
