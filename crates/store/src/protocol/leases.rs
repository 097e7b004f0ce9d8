//! Leases, as clients ask for them and hear of them (since version 2).

use placement::ShardId;
use serde::{Deserialize, Serialize};
use tree::{LeaseId, Location, Path};

/// What is wanted of a lease. It is found by a path: its home, or one that [`Answer::Kept`](super::Answer::Kept) names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseRequest {
    /// Begin one. Answered by [`Answer::Written`](super::Answer::Written).
    Grant {
        /// Its number, chosen at random by whoever asks; not 0.
        lease: LeaseId,
        /// Its time to live, in milliseconds.
        ttl_ms: u64,
        /// The path that it is for: it lives in that path's shard, and moves with it.
        home: Path,
    },
    /// It is needed for another time to live. Answered by [`Answer::Kept`](super::Answer::Kept); that time counts from before the request.
    KeepAlive {
        /// The number of the lease.
        lease: LeaseId,
        /// Its home, or a part.
        at: Path,
    },
    /// End it; its values go away. Answered by [`Answer::Written`](super::Answer::Written).
    Revoke {
        /// The number of the lease.
        lease: LeaseId,
        /// Its home, or a part.
        at: Path,
    },
    /// How long it has left, and what goes with it. Answered by [`Answer::Leases`](super::Answer::Leases).
    Show {
        /// The number of the lease.
        lease: LeaseId,
        /// Its home, or a part.
        at: Path,
    },
    /// The leases of a shard. Answered by [`Answer::Leases`](super::Answer::Leases).
    List {
        /// The shard that is meant.
        shard: ShardId,
        /// Only leases behind this one.
        after: Option<LeaseId>,
    },
}

impl LeaseRequest {
    /// The path by which the lease is found.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Grant { home: path, .. }
            | Self::KeepAlive { at: path, .. }
            | Self::Revoke { at: path, .. }
            | Self::Show { at: path, .. } => Some(path),
            Self::List { .. } => None,
        }
    }
}

/// A lease, or its part in one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseStatus {
    /// The number of the lease.
    pub lease: LeaseId,
    /// Its time to live, in milliseconds.
    pub ttl_ms: u64,
    /// What is left of it by the leader's clock, in milliseconds.
    pub left_ms: u64,
    /// The path that it was granted for.
    pub home: Path,
    /// What goes with it.
    pub values: Vec<Location>,
    /// A path in each other part.
    pub parts: Vec<Path>,
}

/// Most leases in one answer.
pub const LEASES_MAX: usize = 1_024;
