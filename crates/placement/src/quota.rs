//! How much data there may be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ShardId;

/// The least that a quota may be: below it nothing could be written.
pub const QUOTA_MIN_BYTES: u64 = 1 << 20;

/// Bytes of data at most, as [`tree::Tree::bytes`] counts them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quotas {
    /// In all shards together.
    pub all: Option<u64>,
    /// In single shards.
    pub shards: BTreeMap<ShardId, u64>,
}

impl Quotas {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_none() && self.shards.is_empty()
    }

    /// Sets a quota, or takes it away; whether that changes anything.
    pub(crate) fn set(&mut self, shard: Option<ShardId>, bytes: Option<u64>) -> bool {
        let before = match (shard, bytes) {
            (None, bytes) => std::mem::replace(&mut self.all, bytes),
            (Some(shard), Some(bytes)) => self.shards.insert(shard, bytes),
            (Some(shard), None) => self.shards.remove(&shard),
        };
        before != bytes
    }

    /// What a shard may have, if all others together have so many bytes. Their number is rounded up, so that a shard's bound
    /// does not change with each byte that another gets.
    pub fn of(&self, shard: ShardId, others: u64) -> Option<u64> {
        /// A step is this part of the quota for all.
        const STEPS: u64 = 64;
        let own = self.shards.get(&shard).copied();
        let rest = self.all.map(|all| {
            let step = (all / STEPS).max(1);
            all.saturating_sub(others.div_ceil(step) * step)
        });
        own.into_iter().chain(rest).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_may_have_its_own_quota_and_what_the_others_leave() {
        let mut quotas = Quotas::default();
        assert_eq!(quotas.of(ShardId(1), 5), None);
        assert!(quotas.set(None, Some(6_400)) && !quotas.set(None, Some(6_400)));
        assert_eq!(quotas.of(ShardId(1), 0), Some(6_400));
        // In steps of 100.
        assert_eq!((quotas.of(ShardId(1), 1), quotas.of(ShardId(1), 100)), (Some(6_300), Some(6_300)));
        assert_eq!(quotas.of(ShardId(1), 9_999), Some(0));
        assert!(quotas.set(Some(ShardId(1)), Some(500)));
        assert_eq!((quotas.of(ShardId(1), 1), quotas.of(ShardId(2), 0)), (Some(500), Some(6_400)));
        assert!(quotas.set(Some(ShardId(1)), None) && quotas.set(None, None) && quotas.is_empty());
    }
}
