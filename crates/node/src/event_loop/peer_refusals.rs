//! Peers, and servers that want to become peers, that were refused: counted by reason, and logged, though not more often than is of use.

use std::collections::BTreeMap;

use machine::nanos::{Span, Time};

/// Refusals that are logged in one [`PERIOD`]; the others are only counted.
const LOGGED_MAX: u64 = 20;

/// The period in which [`LOGGED_MAX`] refusals are logged.
const PERIOD: Span = Span::from_secs(10);

/// Why somebody was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// It is of another cluster, or looks for another server.
    Cluster,
    /// It speaks an older version than the cluster.
    Version,
    /// It was removed from the cluster.
    Removed,
    /// Its process is another user's, or nobody knows whose.
    User,
    /// Its certificate is not that of the server that it says it is.
    Certificate,
    /// It does not prove the cluster's secret.
    Secret,
}

impl Reason {
    const ALL: [Self; 6] = [Self::Cluster, Self::Version, Self::Removed, Self::User, Self::Certificate, Self::Secret];

    /// The label of it in metrics.
    fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Version => "version",
            Self::Removed => "removed",
            Self::User => "user",
            Self::Certificate => "certificate",
            Self::Secret => "secret",
        }
    }
}

/// Why somebody was refused, with the words for him.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// None for clients, who are counted elsewhere.
    pub reason: Option<Reason>,
    pub text: String,
}

impl Refused {
    pub fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason: Some(reason), text: text.into() }
    }

    /// A client may not be one.
    pub fn client(text: String) -> Self {
        Self { reason: None, text }
    }
}

/// All refusals since the start.
#[derive(Debug, Default)]
pub(super) struct PeerRefusals {
    counts: BTreeMap<Reason, u64>,
    period: Option<Time>,
    logged: u64,
    unlogged: u64,
}

impl PeerRefusals {
    /// Counts one, and logs it.
    pub fn note(&mut self, now: Time, from: &str, refused: &Refused) {
        let Some(reason) = refused.reason else { return };
        *self.counts.entry(reason).or_default() += 1;
        if self.period.is_none_or(|since| since + PERIOD <= now) {
            if self.unlogged > 0 {
                tracing::warn!("{} more connections were refused meanwhile", self.unlogged);
            }
            (self.period, self.logged, self.unlogged) = (Some(now), 0, 0);
        }
        if self.logged < LOGGED_MAX {
            self.logged += 1;
            tracing::warn!("{from} is refused: {}", refused.text);
        } else {
            self.unlogged += 1;
        }
    }

    /// How often each reason occurred.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let count = |reason: Reason| (reason.name(), self.counts.get(&reason).copied().unwrap_or_default());
        Reason::ALL.into_iter().map(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_not_all_are_logged() {
        let mut refusals = PeerRefusals::default();
        let refused = Refused::new(Reason::Secret, "no proof");
        for _ in 0..100 {
            refusals.note(Time::ZERO, "127.0.0.1:9", &refused);
        }
        assert_eq!((refusals.logged, refusals.unlogged), (LOGGED_MAX, 100 - LOGGED_MAX));
        refusals.note(Time::ZERO + PERIOD, "127.0.0.1:9", &refused);
        assert_eq!((refusals.logged, refusals.unlogged), (1, 0));
        let counts = refusals.counts();
        assert_eq!(counts.len(), Reason::ALL.len());
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 101);
    }
}
