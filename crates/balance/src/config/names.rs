//! What schedulers are called.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// In turn.
    Rr,
    /// In turn, by weight.
    Wrr,
    /// Who has the fewest connections.
    Lc,
    /// Who has the fewest connections for its weight.
    Wlc,
    /// The shortest expected delay: connections with the new one, for its weight.
    Sed,
    /// An idle server if there is one, SED otherwise.
    Nq,
    /// By a hash of the client's address.
    Sh,
    /// By a hash of the client's address (Maglev's), that few clients change their server by when servers change.
    Mh,
    /// The less loaded of two at random.
    P2c,
    /// RR without overloaded servers, of which agents report.
    Arr,
    /// LC without overloaded servers, of which agents report.
    Alc,
    /// The less costly of two at random, by latency (its peaks count at once, then fade) and connections.
    PeakEwma,
    /// The shortest expected delay by service times that are learned from answers.
    Learned,
    /// Hot or cold by connections, then by latency, among servers that were probed at random (Prequal, NSDI'24).
    Prequal,
    /// In turn, by weights that follow from what agents report: requests a second by utilisation.
    Utilisation,
}

impl Scheduler {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Rr,
        Self::Wrr,
        Self::Lc,
        Self::Wlc,
        Self::Sed,
        Self::Nq,
        Self::Sh,
        Self::Mh,
        Self::P2c,
        Self::Arr,
        Self::Alc,
        Self::PeakEwma,
        Self::Learned,
        Self::Prequal,
        Self::Utilisation,
    ];

    /// Whether a server that its agent reports as overloaded gets nothing.
    pub(crate) const fn heeds_overload(self) -> bool {
        matches!(self, Self::Arr | Self::Alc)
    }

    /// Whether a client's server follows from its address.
    pub(crate) const fn is_hash(self) -> bool {
        matches!(self, Self::Sh | Self::Mh)
    }

    /// Its name in files and commands.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rr => "rr",
            Self::Wrr => "wrr",
            Self::Lc => "lc",
            Self::Wlc => "wlc",
            Self::Sed => "sed",
            Self::Nq => "nq",
            Self::Sh => "sh",
            Self::Mh => "mh",
            Self::P2c => "p2c",
            Self::Arr => "arr",
            Self::Alc => "alc",
            Self::PeakEwma => "peak-ewma",
            Self::Learned => "learned",
            Self::Prequal => "prequal",
            Self::Utilisation => "utilisation",
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No scheduler is called so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no scheduler is called `{name}`; there are {}", Scheduler::ALL.map(Scheduler::name).join(", "))]
pub struct UnknownScheduler {
    name: String,
}

impl FromStr for Scheduler {
    type Err = UnknownScheduler;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|scheduler| scheduler.name() == name)
            .ok_or_else(|| UnknownScheduler { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer as _;
    use serde::de::value::{Error, StrDeserializer};

    use super::*;

    #[test]
    fn a_scheduler_is_read_by_the_name_that_it_is_shown_by() {
        for scheduler in Scheduler::ALL {
            let name: StrDeserializer<'_, Error> = scheduler.name().into_deserializer();
            assert_eq!(Scheduler::deserialize(name), Ok(scheduler));
            assert_eq!(scheduler.to_string().parse(), Ok(scheduler));
        }
        let error = "rrr".parse::<Scheduler>().unwrap_err().to_string();
        assert!(error.starts_with("no scheduler is called `rrr`; there are rr, wrr, lc"), "{error}");
    }
}
