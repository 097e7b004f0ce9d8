//! Replicas that are not running here: those that are gone, those that cannot go on, and those that somebody wants to be filled anew.

use std::collections::{BTreeMap, BTreeSet};

use placement::ShardId;

use crate::status::StoppedReplica;

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Absent {
    /// Groups that were here once: their votes must not be forgotten.
    pub removed: BTreeMap<ShardId, wal::HardState>,
    /// Replicas that cannot go on; their logs stay as they are.
    pub halted: BTreeMap<ShardId, StoppedReplica>,
    /// Replicas that are emptied once, if they stop.
    pub rebuild: BTreeSet<ShardId>,
    /// Those that were.
    pub emptied: BTreeSet<ShardId>,
}
