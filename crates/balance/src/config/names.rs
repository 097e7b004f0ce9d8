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
    /// Who has the fewest connections.
    Lc,
}

impl Scheduler {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Rr, Self::Lc];

    /// Its name in files and commands.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rr => "rr",
            Self::Lc => "lc",
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
