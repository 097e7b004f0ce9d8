//! What a server's agent says of its load, and when that is overload.

use machine::{Rebase, Span, Time};
use serde::{Deserialize, Serialize};

/// What an agent says. What it does not say is unknown. Shares are in thousandths, and may be above 1000 where more was wanted than there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct LoadReport {
    /// Of all processors, how much was in use.
    pub cpu_permille: Option<u32>,
    /// Of its memory, how much is in use.
    pub memory_permille: Option<u32>,
    /// Of the time since the report before, or of the last ten seconds, how long somebody waited for processor, memory or disk (`some` of Linux's pressure stall
    /// information, the greatest one).
    pub pressure_permille: Option<u32>,
    /// Tasks that want to run, or requests that wait, for each processor.
    pub run_queue_permille: Option<u32>,
    /// How much of what it can the application does, as it says itself.
    pub application_permille: Option<u32>,
    /// Connections, of all clients and balancers.
    pub connections: Option<u32>,
    /// Requests in a thousand seconds.
    pub requests_per_kilosecond: Option<u64>,
    /// Failed requests in a thousand seconds.
    pub errors_per_kilosecond: Option<u64>,
}

impl LoadReport {
    /// The utilisation by which a server is weighed: the application's own word, or else that of the processors.
    pub fn utilisation_permille(&self) -> Option<u32> {
        self.application_permille.filter(|&share| share > 0).or(self.cpu_permille)
    }
}

/// From where on a server is overloaded, and when it no longer is. Between the two it stays what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Overloaded at this and above.
    pub enter: u32,
    /// Recovered at this and below.
    pub leave: u32,
}

impl Threshold {
    /// A threshold.
    pub const fn new(enter: u32, leave: u32) -> Self {
        Self { enter, leave }
    }
}

/// What is overload: each part of a report that has a threshold is held against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overload {
    /// For [`LoadReport::cpu_permille`].
    pub cpu_permille: Option<Threshold>,
    /// For [`LoadReport::memory_permille`].
    pub memory_permille: Option<Threshold>,
    /// For [`LoadReport::pressure_permille`].
    pub pressure_permille: Option<Threshold>,
    /// For [`LoadReport::run_queue_permille`].
    pub run_queue_permille: Option<Threshold>,
    /// For [`LoadReport::application_permille`].
    pub application_permille: Option<Threshold>,
}

impl Default for Overload {
    /// Almost no processor time or memory left, half of the time somebody waits, or the application says that it can do no more.
    fn default() -> Self {
        Self {
            cpu_permille: Some(Threshold::new(950, 800)),
            memory_permille: Some(Threshold::new(900, 800)),
            pressure_permille: Some(Threshold::new(500, 250)),
            run_queue_permille: None,
            application_permille: Some(Threshold::new(1_000, 850)),
        }
    }
}

impl Overload {
    fn parts(&self, report: &LoadReport) -> [(Option<Threshold>, Option<u32>); 5] {
        [
            (self.cpu_permille, report.cpu_permille),
            (self.memory_permille, report.memory_permille),
            (self.pressure_permille, report.pressure_permille),
            (self.run_queue_permille, report.run_queue_permille),
            (self.application_permille, report.application_permille),
        ]
    }

    /// Whether some threshold is left above where it is entered.
    pub(crate) fn is_contradictory(&self) -> bool {
        let thresholds = self.parts(&LoadReport::default()).into_iter().filter_map(|(threshold, _)| threshold);
        thresholds.into_iter().any(|threshold| threshold.leave > threshold.enter)
    }

    /// Whether a server is overloaded by this report, if it was or was not before.
    fn judge(&self, report: &LoadReport, before: bool) -> bool {
        let limit = |threshold: Threshold| if before { threshold.leave + 1 } else { threshold.enter };
        self.parts(report).into_iter().any(|part| match part {
            (Some(threshold), Some(value)) => value >= limit(threshold),
            _ => false,
        })
    }
}

/// Silence of this many times the expiry, and nobody knows any more whether an overloaded server has recovered.
const OVERLOAD_EXPIRY: u64 = 10;

/// What is known of one server's load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    report: Option<(Time, LoadReport)>,
    /// Since when reports have come without a gap.
    since: Time,
    is_overloaded: bool,
}

impl Load {
    /// Takes a report. True if it was the change from overloaded to not, or the reverse.
    pub fn take(&mut self, now: Time, report: LoadReport, overload: &Overload, expiry: Span) -> bool {
        if self.report(now, expiry).is_none() {
            self.since = now;
        }
        self.report = Some((now, report));
        let before = self.is_overloaded;
        self.is_overloaded = overload.judge(&report, before);
        before != self.is_overloaded
    }

    /// What the agent has said, unless that is too long ago.
    pub fn report(&self, now: Time, expiry: Span) -> Option<&LoadReport> {
        let (at, report) = self.report.as_ref()?;
        (now.since(*at) < expiry).then_some(report)
    }

    /// For how long reports have come without a gap.
    pub fn reported_for(&self, now: Time, expiry: Span) -> Option<Span> {
        self.report(now, expiry).map(|_| now.since(self.since))
    }

    /// Whether it is overloaded, as far as anybody knows.
    pub const fn is_overloaded(&self) -> bool {
        self.is_overloaded
    }

    /// Until when overload is believed without a further report.
    pub fn overload_expires_at(&self, expiry: Span) -> Time {
        let at = self.report.filter(|_| self.is_overloaded).map(|(at, _)| at + expiry * OVERLOAD_EXPIRY);
        at.unwrap_or(Time::NEVER)
    }

    /// Gives up what has been believed for too long. True if that was an overload.
    pub fn expire(&mut self, now: Time, expiry: Span) -> bool {
        now >= self.overload_expires_at(expiry) && core::mem::take(&mut self.is_overloaded)
    }
}

impl Rebase for Load {
    fn rebase(&mut self, by: Span) {
        let Self { report, since, is_overloaded: _ } = self;
        if let Some((at, _)) = report {
            at.rebase(by);
        }
        since.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPIRY: Span = Span::from_secs(3);

    fn at(s: u64) -> Time {
        Time::ZERO + Span::from_secs(s)
    }

    fn memory(permille: u32) -> LoadReport {
        LoadReport { memory_permille: Some(permille), ..LoadReport::default() }
    }

    #[test]
    fn overload_lasts_until_it_has_recovered() {
        let mut load = Load::default();
        let overload = Overload::default();
        for (permille, expected) in [(899, false), (900, true), (850, true), (801, true), (800, false), (899, false)] {
            load.take(at(1), memory(permille), &overload, EXPIRY);
            assert_eq!(load.is_overloaded(), expected, "at {permille}");
        }
    }

    #[test]
    fn a_silent_agent_says_nothing_and_its_last_word_on_overload_holds_for_a_while() {
        let mut load = Load::default();
        load.take(at(1), memory(950), &Overload::default(), EXPIRY);
        assert_eq!(load.report(at(3), EXPIRY), Some(&memory(950)));
        assert_eq!(load.report(at(4), EXPIRY), None);
        assert!(!load.expire(at(30), EXPIRY) && load.is_overloaded());
        assert!(load.expire(at(31), EXPIRY) && !load.is_overloaded());
    }
}
