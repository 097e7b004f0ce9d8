//! Whether a server may be taken out of the cluster, asked where it is decided: at the leader of meta.
//!
//! A server that is removed while it runs goes on as a voter until each of its groups has done without it. One that is down cannot: where
//! it is needed for the majority of a group, that group could change nothing any more, not even its members, and never again. So such a
//! removal is refused (as etcd does under the name of strict reconfiguration check), unless somebody insists.
//!
//! What was heard before the question says little: a server that was killed a moment ago still seems to be there. Only what was sent after
//! the question came counts, so the answer may take as long as an election.

use std::collections::BTreeMap;

use machine::{ServerId, Span, Time};
use placement::{Command, ShardId};

use super::Server;
use crate::group::Group;
use crate::protocol::Error;

/// A question is decided within this and some election timeouts.
const PATIENCE: Span = Span::from_secs(1);

/// A question that was not repeated for so long is forgotten.
const FORGOTTEN: Span = Span::from_secs(5);

/// The servers whose removal is asked for: since when, and when last.
pub(super) type Questions = BTreeMap<ServerId, (Time, Time)>;

/// What is to be done with a removal now.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It may be proposed.
    Go,
    /// Who is there is not known yet.
    Wait,
    /// Some shard would lose its majority.
    Refuse(Error),
}

impl Server {
    /// Looks at an encoded command for meta, at its leader.
    pub(super) fn judge_removal(&mut self, now: Time, command: &[u8]) -> Verdict {
        let Ok(Command::RemoveServer { id: leaving } | Command::ReplaceServer { old: leaving, .. }) =
            Command::decode(command)
        else {
            return Verdict::Go;
        };
        if !self.map.members().contains_key(&leaving) {
            // The map refuses it, or it was done already.
            return Verdict::Go;
        }
        let patience = PATIENCE + self.timeout.current() + self.timeout.current();
        self.removals.retain(|_, (_, last)| now.since(*last) < FORGOTTEN);
        let (since, last) = self.removals.entry(leaving).or_insert((now, now));
        *last = now;
        let since = *since;
        let verdict = match self.who_needs(leaving, since) {
            None => Verdict::Go,
            Some(_) if now.since(since) < patience => Verdict::Wait,
            Some(shard) => Verdict::Refuse(self.removal_refused(leaving, shard)),
        };
        if !matches!(verdict, Verdict::Wait) {
            self.removals.remove(&leaving);
        }
        verdict
    }

    /// The first shard that could not go on without this server, going by what was heard since then.
    fn who_needs(&self, leaving: ServerId, since: Time) -> Option<ShardId> {
        let alive = |id: ServerId| id == self.config.server || self.peers.has_answered(id, since);
        if alive(leaving) {
            return None;
        }
        self.map.shards().keys().copied().find(|shard| {
            let Some(leader) = self.leader_of(*shard).filter(|leader| alive(*leader) && *leader != leaving) else {
                return true;
            };
            let desired = self.map.desired_replicas(*shard).voters;
            let here = self.groups.get(shard).map(Group::members);
            let votes = desired.contains(&leaving) || here.is_some_and(|members| members.votes(leaving));
            let voters = desired.len().max(here.map_or(0, |members| members.voters.len()));
            let ready = self.ready_replicas(*shard, Some(leader));
            let rest = ready.iter().filter(|id| **id != leaving && alive(**id)).count();
            votes && rest * 2 <= voters
        })
    }

    fn removal_refused(&self, leaving: ServerId, shard: ShardId) -> Error {
        let name =
            |id: ServerId| self.map.members().get(&id).map_or_else(|| id.to_string(), |member| member.name.clone());
        let shard = self.map.shards().get(&shard).map_or_else(|| shard.to_string(), |shard| shard.name.clone());
        let text = format!(
            "server {} is not heard, and without it too few servers of shard {shard} are there to agree on anything; hint: start it, or \
             another server of that shard, and try again; `heddle cluster remove --force` removes it all the same, and what only \
             it could complete is lost",
            name(leaving)
        );
        if self.protocol() >= 3 { Error::Needed(text) } else { Error::Invalid(text) }
    }
}
