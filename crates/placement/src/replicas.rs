//! Which servers should hold a shard, and how.

use std::collections::BTreeSet;

use machine::{ServerId, mix};

use crate::{Map, Replicas, ShardId, VOTERS_MAX};

/// Most voters of the meta group: it changes seldom and must survive much, and each voter makes elections longer.
pub const META_VOTERS_MAX: usize = 5;

/// The replicas that a shard should have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredReplicas {
    /// Servers that vote and may lead.
    pub voters: BTreeSet<ServerId>,
    /// Servers that only follow.
    pub learners: BTreeSet<ServerId>,
}

impl DesiredReplicas {
    /// Whether `server` is one of them.
    pub fn contains(&self, server: ServerId) -> bool {
        self.voters.contains(&server) || self.learners.contains(&server)
    }

    /// The first `voters_max` servers vote, the pinned one in any case.
    fn split(servers: &BTreeSet<ServerId>, voters_max: usize, pinned: Option<ServerId>) -> Self {
        // Low numbers are old servers: one that joins changes nobody's part.
        let mut voters: BTreeSet<ServerId> = servers.iter().copied().take(voters_max).collect();
        if let Some(pinned) = pinned.filter(|pinned| servers.contains(pinned) && !voters.contains(pinned)) {
            voters.pop_last();
            voters.insert(pinned);
        }
        let learners = servers.difference(&voters).copied().collect();
        Self { voters, learners }
    }
}

impl Map {
    /// The replicas that a shard should have now; none for a shard that does not exist.
    pub fn desired_replicas(&self, id: ShardId) -> DesiredReplicas {
        let Some(shard) = self.shards().get(&id) else { return DesiredReplicas::default() };
        let all: BTreeSet<ServerId> = self.members().keys().copied().collect();
        let voters_max = if id == ShardId::META { META_VOTERS_MAX } else { VOTERS_MAX };
        match &shard.replicas {
            Replicas::All => DesiredReplicas::split(&all, voters_max, shard.pinned),
            Replicas::Servers(servers) => DesiredReplicas::split(servers, voters_max, shard.pinned),
            Replicas::Count(n) => {
                let voters = by_rendezvous(&all, id, usize::from(*n), shard.pinned);
                DesiredReplicas { voters, learners: BTreeSet::new() }
            }
        }
    }
}

/// The `n` servers with the highest weights for this shard (Thaler and Ravishankar, "Using name-based mappings to
/// increase hit rates", 1998): a server that comes or goes changes only the places that it takes or leaves.
fn by_rendezvous(all: &BTreeSet<ServerId>, shard: ShardId, n: usize, pinned: Option<ServerId>) -> BTreeSet<ServerId> {
    let mut ranked: Vec<ServerId> = all.iter().copied().collect();
    ranked.sort_by_key(|&server| (Some(server) != pinned, core::cmp::Reverse(weight(shard, server)), server));
    ranked.into_iter().take(n).collect()
}

/// How much a server is drawn to a shard.
pub(crate) fn weight(shard: ShardId, server: ServerId) -> u64 {
    mix(mix(shard.0.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ mix(server.0.wrapping_mul(0xd6e8_feb8_6659_fd93)))
}
