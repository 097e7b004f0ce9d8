//! The content of a moment, kept for a client.

use machine::nanos::Time;
use placement::ShardId;
use tree::State;

/// A backup under way.
pub(super) struct Backup {
    pub(super) shard: ShardId,
    pub(super) state: State,
    /// What the shard had been given to apply when it began.
    pub(super) written: u64,
    pub(super) touched: Time,
}
