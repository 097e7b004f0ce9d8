//! How a process is known among the processes of its cluster.

use core::fmt;

use serde::{Deserialize, Serialize};

/// One process of a cluster, in Raft's words a server. The number is given when it joins, and never to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServerId(pub u64);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
