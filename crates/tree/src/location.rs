//! Where a value is: a path in one of the two datastores.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::Path;

/// One of the two datastores of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Datastore {
    /// What was asked for.
    Config,
    /// What the network is like at present.
    Operational,
}

impl Datastore {
    /// Both, in their order.
    pub const ALL: [Datastore; 2] = [Datastore::Config, Datastore::Operational];
}

impl fmt::Display for Datastore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Datastore::Config => "config",
            Datastore::Operational => "operational",
        })
    }
}

/// A path in one of the datastores.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Location {
    /// The datastore that the path is in.
    pub datastore: Datastore,
    /// Where in it.
    pub path: Path,
}

impl Location {
    /// A path in the config datastore.
    pub fn config(path: Path) -> Self {
        Self { datastore: Datastore::Config, path }
    }

    /// A path in the operational datastore.
    pub fn operational(path: Path) -> Self {
        Self { datastore: Datastore::Operational, path }
    }

    /// Whether `other` is this location or below it.
    pub fn contains(&self, other: &Location) -> bool {
        self.datastore == other.datastore && self.path.contains(&other.path)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.path, self.datastore)
    }
}
