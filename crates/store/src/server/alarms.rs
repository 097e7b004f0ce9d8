//! How much data there may be, and what this server thinks that somebody should look at.

use machine::nanos::{Span, Time};
use tree::Command;

use super::Server;
use crate::alarm::{Alarm, Alarms, Kind, LIFT_PERCENT, NEAR_PERCENT, size_text};
use crate::group::Group;

/// A server that has started says nothing of others for so long.
const LISTENING: Span = Span::from_secs(5);

/// The version of the protocol that knows of quotas.
pub(super) const VERSION_WITH_QUOTA: u32 = 3;

impl Server {
    /// Bytes of data here, about. What a move copies from one replica here to another counts once: it will be there once.
    pub(super) fn content_bytes(&self) -> u64 {
        let leaving = self.groups.values().flat_map(|group| group.content.leaving());
        let twice: u64 =
            leaving.map(|id| self.groups.values().map(|group| group.content.arrived_bytes(id)).sum::<u64>()).sum();
        self.groups.values().map(|group| group.content.bytes()).sum::<u64>().saturating_sub(twice)
    }

    /// Lets the logs of shards that are led here say whether their data may grow.
    pub(super) fn quota_due(&mut self) {
        let (bytes, quota) = (self.content_bytes(), self.config.quota_bytes.unwrap_or(u64::MAX));
        // A server that has just started knows from the logs that it leads.
        let was_full = self.is_full || self.groups.values().any(|group| group.is_leader() && group.refuses_growth());
        self.is_full = bytes >= quota || (was_full && bytes >= percent(quota, LIFT_PERCENT));
        if self.protocol() < VERSION_WITH_QUOTA {
            return;
        }
        for (shard, group) in &mut self.groups {
            if group.allow_growth(!self.is_full) {
                self.counters.proposals += 1;
                self.agenda.add(*shard);
            }
        }
    }

    /// What somebody should look at.
    pub fn alarms(&self, now: Time) -> Alarms {
        let name = &self.config.name;
        let mut alarms: Vec<Alarm> = self.quota_alarm().into_iter().collect();
        let about_server = |kind, text| Alarm { kind, shard: None, server: None, text };
        alarms.extend(self.disk_refuses().map(|text| about_server(Kind::Disk, text)));
        for replica in self.absent.halted.values() {
            let text = replica.reason.clone();
            alarms.push(Alarm { kind: Kind::ReplicaStopped, shard: Some(replica.shard), server: None, text });
        }
        // A server that has just started has heard nobody yet.
        let has_listened = now >= self.schedule.opened() + LISTENING;
        for (id, shard) in
            self.view.map().shards().iter().filter(|(id, _)| has_listened && self.leader_of(**id).is_none())
        {
            let text = format!(
                "server {name} knows no leader of shard {}; hint: a majority of its voters has to be up and to reach each other",
                shard.name
            );
            alarms.push(Alarm { kind: Kind::NoLeader, shard: Some(*id), server: None, text });
        }
        let live = self.live_peers(now);
        for (id, member) in self.view.map().members() {
            if has_listened && *id != self.config.server && !live.contains(id) {
                let text = format!(
                    "server {name} does not hear server {} at {}; hint: start it, or take it out with `heddle cluster remove`",
                    member.name, member.address
                );
                alarms.push(Alarm { kind: Kind::Silent, shard: None, server: Some(*id), text });
            }
        }
        Alarms {
            alarms,
            content_bytes: self.content_bytes(),
            quota_bytes: self.config.quota_bytes,
            protocol: self.protocol(),
        }
    }

    pub(super) fn quota_alarm(&self) -> Option<Alarm> {
        let (bytes, quota, name) = (self.content_bytes(), self.config.quota_bytes?, &self.config.name);
        let (kind, then) = if self.is_full && self.protocol() < VERSION_WITH_QUOTA {
            let then =
                format!("nothing is refused as long as a server of the cluster speaks no version {VERSION_WITH_QUOTA}");
            (Kind::QuotaReached, then)
        } else if self.is_full {
            let lift = percent(quota, LIFT_PERCENT);
            (
                Kind::QuotaReached,
                format!("what would add to them is refused until they take less than {}", size_text(lift)),
            )
        } else if bytes >= percent(quota, NEAR_PERCENT) {
            (Kind::QuotaNear, "at the quota, what would add to them is refused".to_owned())
        } else {
            return None;
        };
        let text = format!(
            "the data of server {name} take {} of {}: {then}; hint: delete something, or start all servers again with a higher --quota",
            size_text(bytes),
            size_text(quota)
        );
        Some(Alarm { kind, shard: None, server: None, text })
    }
}

/// So many percent of a number of bytes.
fn percent(bytes: u64, percent: u64) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}

impl Group {
    /// Whether the log, as far as it is applied here, says that the data may not grow.
    pub(super) fn refuses_growth(&self) -> bool {
        self.content.state().is_some_and(|state| state.is_full)
    }

    /// Has the log say whether the data may grow, if this replica leads and the log says otherwise; gives whether it did.
    fn allow_growth(&mut self, allowed: bool) -> bool {
        let is_said = self.content.state().is_none_or(|state| state.is_full != allowed);
        !is_said && self.say(|group| &mut group.growth_asked, &Command::Growth { allowed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_largest_quota_is_right() {
        assert_eq!((percent(u64::MAX, 100), percent(1_000, 95), percent(7, 80)), (u64::MAX, 950, 5));
    }
}
