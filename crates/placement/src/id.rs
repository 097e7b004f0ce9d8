//! Numbers of shards and moves.

use core::fmt;

use serde::{Deserialize, Serialize};

/// One shard, which is one Raft group: the group has the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShardId(pub u64);

impl ShardId {
    /// The group that replicates the map itself. It holds no data.
    pub const META: Self = Self(0);
    /// The shard of everything that no other shard claims.
    pub const DEFAULT: Self = Self(1);
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One prefix on its way from a shard to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MoveId(pub u64);

impl fmt::Display for MoveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
