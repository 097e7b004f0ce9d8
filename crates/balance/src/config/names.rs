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
}

impl Scheduler {
    /// All of them.
    pub const ALL: [Self; 9] =
        [Self::Rr, Self::Wrr, Self::Lc, Self::Wlc, Self::Sed, Self::Nq, Self::Sh, Self::Mh, Self::P2c];

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
