//! Passive checks: servers whose connections fail are out for a while (outlier detection, after Envoy's).

use machine::{Rebase, Span, Time};
use serde::Serialize;

/// A server of which nothing is heard is out for this part of the time that others are.
const SILENT_PARTS: u64 = 10;

/// So many health checks that pass bring back a server that nobody got to: as many as a server that was down needs when nothing else is said.
const PASSES: u32 = 2;

/// When a server is ejected, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ejection {
    /// So many failures one after the other.
    pub consecutive: u32,
    /// Handshakes wait for a server, and nothing has been heard of it for this long, and for four times as long as any of them waited of late.
    pub silence: Span,
    /// The first time it lasts this long; the second time twice as long, and so on.
    pub base: Span,
    /// But no longer than this.
    pub longest: Span,
    /// How often success rates are compared. In each interval without an ejection, one earlier ejection is forgotten.
    pub interval: Span,
    /// No more than this share of all servers are out at once by ejection, but always one.
    pub share_max_percent: u32,
    /// By how many thousandths of the standard deviation a server's success rate may lie below the mean; zero: success rates are not compared.
    pub deviations_permille: u32,
    /// So many servers must have had enough connections.
    pub servers_min: u32,
    /// Connections in the interval that are enough.
    pub connections_min: u32,
}

impl Default for Ejection {
    /// Envoy's defaults, but for the share of servers, which is a tenth there: services here may have few servers. Envoy does not look for silence.
    fn default() -> Self {
        Self {
            consecutive: 5,
            silence: Span::from_ms(50),
            base: Span::from_secs(30),
            longest: Span::from_secs(300),
            interval: Span::from_secs(10),
            share_max_percent: 50,
            deviations_permille: 1_900,
            servers_min: 5,
            connections_min: 100,
        }
    }
}

impl Ejection {
    /// How many of `servers` may be out at once.
    pub(crate) fn count_max(&self, servers: usize) -> usize {
        (servers * self.share_max_percent as usize / 100).max(1)
    }
}

/// How a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The server answered that it cannot.
    Error,
    /// The server reset it.
    Reset,
    /// The server refused it.
    Refused,
    /// No answer came in time.
    TimedOut,
}

/// Why a server is ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EjectionReason {
    /// So many connections failed one after the other.
    Consecutive {
        /// How many.
        failures: u32,
        /// How the last one did.
        last: Failure,
    },
    /// So many first segments of handshakes waited, and nothing came from it.
    Silent {
        /// How many.
        segments: u32,
        /// For how long, without what the balancer did not see.
        milliseconds: u64,
    },
    /// Far more of its connections failed than of the others'.
    SuccessRate {
        /// Of a thousand, so many succeeded.
        permille: u64,
    },
}

impl std::fmt::Display for EjectionReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Consecutive { failures, last } => {
                let last = match last {
                    Failure::Error => "answered with an error",
                    Failure::Reset => "reset",
                    Failure::Refused => "refused",
                    Failure::TimedOut => "not answered in time",
                };
                write!(f, "{failures} connections failed in a row, and the last one was {last}")
            }
            Self::Silent { segments, milliseconds } => {
                write!(f, "{segments} first segments waited, and nothing had come from it for {milliseconds} ms")
            }
            Self::SuccessRate { permille } => {
                write!(f, "{} % of its connections succeeded, far fewer than others'", *permille as f64 / 10.0)
            }
        }
    }
}

/// What is known of one server's failures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures {
    /// One after the other.
    consecutive: u32,
    /// Ejections that are not forgotten: by them the next one's length goes.
    times: u32,
    ejected_until: Option<Time>,
    /// Why it was ejected last.
    reason: Option<EjectionReason>,
    /// Health checks that it has passed since.
    passes: u32,
    /// In this interval.
    succeeded: u32,
    failed: u32,
    was_ejected: bool,
}

impl Failures {
    pub fn success(&mut self) {
        self.consecutive = 0;
        self.succeeded += 1;
    }

    /// A connection has failed. True if there are too many one after the other.
    pub fn failure(&mut self, ejection: &Ejection) -> bool {
        self.consecutive += 1;
        self.failed += 1;
        self.ejected_until.is_none() && ejection.consecutive > 0 && self.consecutive >= ejection.consecutive
    }

    /// What an ejection is for that comes of the last failure, which was this one.
    pub const fn in_a_row(&self, last: Failure) -> EjectionReason {
        EjectionReason::Consecutive { failures: self.consecutive, last }
    }

    /// Takes it out, and says until when.
    pub fn eject(&mut self, now: Time, ejection: &Ejection, reason: EjectionReason) -> Time {
        self.times += 1;
        (self.reason, self.passes) = (Some(reason), 0);
        self.was_ejected = true;
        // Whoever is silent is asked again soon: what no answer is for may be its client's fault.
        let parts = if matches!(reason, EjectionReason::Silent { .. }) { SILENT_PARTS } else { 1 };
        let until = now + (ejection.base * u64::from(self.times)).min(ejection.longest) / parts;
        self.ejected_until = Some(until);
        until
    }

    pub const fn is_ejected(&self) -> bool {
        self.ejected_until.is_some()
    }

    /// The same of a time that nobody has been shown yet: nothing is asked while everybody goes elsewhere.
    pub fn is_ejected_at(&self, now: Time) -> bool {
        self.ejected_until.is_some_and(|until| now < until)
    }

    /// Whether it is out since nothing was heard of it.
    pub const fn is_silent(&self) -> bool {
        self.is_ejected() && matches!(self.reason, Some(EjectionReason::Silent { .. }))
    }

    /// Brings it back before its time.
    pub const fn bring_back(&mut self) {
        self.ejected_until = None;
        self.consecutive = 0;
    }

    /// It has passed a health check. True if that brings it back: it was out since nobody got to it, which the check has done. What a server says to its clients, the check does not see.
    pub fn passed_check(&mut self, was_down: bool) -> bool {
        let nobody_got_there = match self.ejected_because() {
            Some(EjectionReason::Consecutive { last, .. }) => matches!(last, Failure::Refused | Failure::TimedOut),
            Some(EjectionReason::Silent { .. }) => true,
            Some(EjectionReason::SuccessRate { .. }) | None => false,
        };
        // Those that pass while it is in would be counted for years.
        if !nobody_got_there {
            return false;
        }
        self.passes += 1;
        let is_back = was_down || self.passes >= PASSES;
        if is_back {
            self.bring_back();
        }
        is_back
    }

    /// Why it is out; nothing if it is not.
    pub fn ejected_because(&self) -> Option<EjectionReason> {
        self.reason.filter(|_| self.is_ejected())
    }

    /// When it is back; never if it is not out.
    pub fn ejected_until(&self) -> Time {
        self.ejected_until.unwrap_or(Time::NEVER)
    }

    /// Brings it back when its time is over. True if it was.
    pub fn readmit(&mut self, now: Time) -> bool {
        let is_over = now >= self.ejected_until();
        if is_over {
            self.bring_back();
        }
        is_over
    }

    /// Forgets all, as when the passive checks are switched off.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The share of successes of this interval, in thousandths, if there were enough connections.
    pub fn success_permille(&self, connections_min: u32) -> Option<u64> {
        let all = u64::from(self.succeeded) + u64::from(self.failed);
        (all > 0 && all >= u64::from(connections_min)).then(|| u64::from(self.succeeded) * 1_000 / all)
    }

    /// Begins the next interval.
    pub fn next_interval(&mut self) {
        if !self.was_ejected && self.ejected_until.is_none() {
            self.times = self.times.saturating_sub(1);
        }
        (self.succeeded, self.failed, self.was_ejected) = (0, 0, false);
    }
}

/// The success rate below which a server is an outlier among these: the mean less some standard deviations. In thousandths; none if there are too few.
pub(crate) fn outlier_below(rates: impl Iterator<Item = u64> + Clone, ejection: &Ejection) -> Option<u64> {
    let count = rates.clone().count() as u64;
    if count == 0 || count < u64::from(ejection.servers_min) || ejection.deviations_permille == 0 {
        return None;
    }
    let mean = rates.clone().sum::<u64>() / count;
    let variance = rates.map(|rate| rate.abs_diff(mean).pow(2)).sum::<u64>() / count;
    // The root of the variance times 10^6 is the deviation in millionths.
    let deviation = (variance * 1_000_000).isqrt();
    mean.checked_sub(deviation * u64::from(ejection.deviations_permille) / 1_000_000)
}

impl Rebase for Failures {
    fn rebase(&mut self, by: Span) {
        let Self {
            consecutive: _,
            times: _,
            ejected_until,
            reason: _,
            passes: _,
            succeeded: _,
            failed: _,
            was_ejected: _,
        } = self;
        ejected_until.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ejection_lasts_longer_until_some_are_forgotten() {
        let ejection = Ejection::default();
        let mut failures = Failures::default();
        let at = |s| Time::ZERO + Span::from_secs(s);
        let reason = failures.in_a_row(Failure::Refused);
        assert_eq!(failures.eject(at(0), &ejection, reason), at(30));
        assert_eq!(failures.ejected_because(), Some(reason));
        assert!(!failures.readmit(at(29)) && failures.readmit(at(30)));
        assert_eq!(failures.ejected_because(), None);
        assert_eq!(failures.eject(at(30), &ejection, reason), at(90));
        assert!(failures.readmit(at(90)));
        failures.next_interval();
        failures.next_interval();
        assert_eq!(failures.eject(at(100), &ejection, reason), at(160));
        for _ in 0..20 {
            failures.eject(at(0), &ejection, reason);
        }
        assert_eq!(failures.ejected_until(), at(300));
    }

    #[test]
    fn an_outlier_lies_far_below_the_mean() {
        let ejection = Ejection::default();
        let rates = [990, 1_000, 995, 998, 1_000, 992, 600];
        let limit = outlier_below(rates.into_iter(), &ejection).unwrap();
        assert!((600..900).contains(&limit), "{limit}");
        assert_eq!(outlier_below([1_000, 0].into_iter(), &ejection), None);
        assert_eq!(outlier_below([1_000; 8].into_iter(), &ejection), Some(1_000));
    }
}
