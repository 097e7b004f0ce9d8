//! Whether a server can serve what it is asked, and what keeps it from that.

use placement::ShardId;

use super::Server;
use super::alarms::VERSION_WITH_QUOTA;
use crate::group::Group;
use crate::status::{ReadyCheck, Unready};

/// A server that has more entries than this still to apply is not ready.
const READY_LAG: u64 = 10_000;

/// Shards that a reason names, at most.
const NAMED_MAX: usize = 8;

impl Server {
    /// Whether it can serve: nothing keeps it from that.
    pub fn is_ready(&self) -> bool {
        !self.outbox.is_stopped() && self.unready().is_empty()
    }

    /// What keeps it from serving, in the order of the checks. Writes count as well as reads: a server that takes none would fail
    /// whoever is sent to it. Shards without a replica here don't count: other servers are no better for them.
    pub fn unready(&self) -> Vec<Unready> {
        let mut found = Vec::new();
        let mut note = |check, reason: Option<String>| found.extend(reason.map(|reason| Unready { check, reason }));
        note(ReadyCheck::Leader, self.without_leader());
        note(ReadyCheck::Replicas, self.behind());
        note(ReadyCheck::Stopped, self.has_stopped());
        note(ReadyCheck::Disk, self.disk_refuses());
        note(ReadyCheck::Quota, self.refuses_growth());
        found
    }

    /// The replicas that the map wants here.
    fn wanted_replicas(&self) -> impl Iterator<Item = &Group> {
        self.groups.values().filter(|group| self.view.map().desired_replicas(group.id).contains(self.config.server))
    }

    /// The names of shards, for people.
    fn named(&self, shards: &[ShardId]) -> String {
        let name = |shard: &ShardId| {
            self.view.map().shards().get(shard).map_or_else(|| format!("number {shard}"), |known| known.name.clone())
        };
        let names: Vec<String> = shards.iter().take(NAMED_MAX).map(name).collect();
        let (noun, left) = (if shards.len() == 1 { "shard" } else { "shards" }, shards.len() - names.len());
        let others = if left > 0 { format!(" and {left} more") } else { String::new() };
        format!("{noun} {}{others}", names.join(", "))
    }

    fn without_leader(&self) -> Option<String> {
        let held = self.wanted_replicas().map(|group| group.id).filter(|id| *id != ShardId::META);
        let leaderless: Vec<ShardId> =
            std::iter::once(ShardId::META).chain(held).filter(|shard| self.leader_of(*shard).is_none()).collect();
        (!leaderless.is_empty()).then(|| {
            format!(
                "server {} knows no leader of {}; hint: a majority of its voters has to be up and to reach each other",
                self.config.name,
                self.named(&leaderless)
            )
        })
    }

    fn behind(&self) -> Option<String> {
        let lags = |group: &&Group| group.applied() == 0 || group.unapplied() >= READY_LAG;
        let behind: Vec<ShardId> = self.wanted_replicas().filter(lags).map(|group| group.id).collect();
        (!behind.is_empty())
            .then(|| format!("replicas of {} are behind at server {}", self.named(&behind), self.config.name))
    }

    fn has_stopped(&self) -> Option<String> {
        let reasons: Vec<&str> = self.absent.halted.values().map(|replica| replica.reason.as_str()).collect();
        (!reasons.is_empty()).then(|| reasons.join("\n"))
    }

    /// Logs of shards here say that their data may not grow, or will as soon as this server has been heard. The data of a
    /// leader elsewhere can be the reason.
    fn refuses_growth(&self) -> Option<String> {
        if self.protocol() < VERSION_WITH_QUOTA {
            return None;
        }
        if self.is_full {
            return self.quota_alarm().map(|alarm| alarm.text);
        }
        let full: Vec<ShardId> =
            self.wanted_replicas().filter(|group| group.refuses_growth()).map(|group| group.id).collect();
        (!full.is_empty()).then(|| {
            format!(
                "{} may not grow, as the data of the leader's server have reached its quota; hint: `heddle cluster alarms` shows \
                 which server that is",
                self.named(&full)
            )
        })
    }
}
