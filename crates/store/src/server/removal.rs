//! Whether a server may be taken out of the cluster, asked where it is decided: at the leader of meta.
//!
//! A server that is removed while it runs goes on as a voter until each of its groups has done without it. One that is down cannot: where
//! it is needed for the majority of a group, that group could change nothing any more, not even its members, and never again. So such a
//! removal is refused (as etcd does under the name of strict reconfiguration check), unless somebody insists.
//!
//! A server that was removed must also hear of it, from two of those whom it knows, before it hands over what it leads. So the next one is
//! removed only when a member leads every shard: else the first could come back, from behind a slow disk or a cut cable, to too few whom it
//! believes, and keep a shard to itself. For the same reason a server whose log of meta lags behind counts as one that is not there: the
//! members that it knows may be gone already.
//!
//! What was heard before the question says little: a server that was killed a moment ago still seems to be there. Only what was sent after
//! the question came counts, so the answer may take as long as an election.

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::{Command, ShardId};

use super::Server;
use super::meta_leader::{Question, Verdict};
use crate::group::Group;
use crate::protocol::Error;

/// A question is decided within this and some election timeouts.
const PATIENCE: Span = Span::from_secs(1);

/// A question that was not repeated for so long is forgotten.
const FORGOTTEN: Span = Span::from_secs(5);

/// Why a removal has to wait.
#[derive(Clone, Copy, Debug)]
enum Obstacle {
    /// The shard could not go on without the server, which is down, or does not know who the members are.
    Needs(ShardId),
    /// No member leads the shard.
    NoLeader(ShardId),
}

impl Server {
    /// Looks at an encoded command for meta, at its leader.
    pub(super) fn judge_removal(&mut self, now: Time, command: &[u8]) -> Verdict {
        let Ok(Command::RemoveServer { id: leaving } | Command::ReplaceServer { old: leaving, .. }) =
            Command::decode(command)
        else {
            return Verdict::Go;
        };
        if !self.view.map().members().contains_key(&leaving) {
            // The map refuses it, or it was done already.
            return Verdict::Go;
        }
        let patience = PATIENCE + self.schedule.timeout.current() + self.schedule.timeout.current();
        self.meta.removals.retain(|_, question| now.since(question.last) < FORGOTTEN);
        let meta = self.groups.get(&ShardId::META).map_or(0, Group::last_index);
        let question = self.meta.removals.entry(leaving).or_insert(Question { since: now, last: now, meta });
        question.last = now;
        let question = *question;
        let verdict = match self.obstacle(leaving, question) {
            None => Verdict::Go,
            Some(_) if now.since(question.since) < patience => Verdict::Wait,
            Some(why) => Verdict::Refuse(self.removal_refused(leaving, why)),
        };
        if !matches!(verdict, Verdict::Wait) {
            self.meta.removals.remove(&leaving);
        }
        verdict
    }

    /// What stands against the removal of this server, going by what was heard since it was asked for.
    fn obstacle(&self, leaving: ServerId, Question { since, meta, .. }: Question) -> Option<Obstacle> {
        let alive = |id: ServerId| id == self.config.server || self.peers.has_answered(id, since);
        let knows_members = self.groups.get(&ShardId::META).is_some_and(|group| group.known_committed(leaving) >= meta);
        let needs = |shard: &ShardId| {
            let Some(leader) = self.leader_of(*shard).filter(|leader| alive(*leader) && *leader != leaving) else {
                return true;
            };
            let desired = self.view.map().desired_replicas(*shard).voters;
            let here = self.groups.get(shard).map(Group::members);
            let votes = desired.contains(&leaving) || here.is_some_and(|members| members.votes(leaving));
            let voters = desired.len().max(here.map_or(0, |members| members.voters.len()));
            let ready = self.ready_replicas(*shard, Some(leader));
            let rest = ready.iter().filter(|id| **id != leaving && alive(**id)).count();
            votes && rest * 2 <= voters
        };
        let has_no_leader = |shard: &ShardId| {
            self.leader_of(*shard).is_none_or(|leader| !self.view.map().members().contains_key(&leader))
        };
        let mut shards = self.view.map().shards().keys().copied();
        let needing = if alive(leaving) && knows_members { None } else { shards.clone().find(needs) };
        needing.map(Obstacle::Needs).or_else(|| shards.find(has_no_leader).map(Obstacle::NoLeader))
    }

    fn removal_refused(&self, leaving: ServerId, why: Obstacle) -> Error {
        let server =
            self.view.map().members().get(&leaving).map_or_else(|| leaving.to_string(), |member| member.name.clone());
        let name = |shard: ShardId| {
            self.view.map().shards().get(&shard).map_or_else(|| shard.to_string(), |it| it.name.clone())
        };
        let text = match why {
            Obstacle::Needs(shard) => format!(
                "server {server} is not heard, or lags behind, and without it too few servers of shard {} are there to agree on anything; \
                 hint: start it, or another server of that shard, and try again; `heddle cluster remove --force` removes it all the \
                 same, and what only it could complete is lost",
                name(shard)
            ),
            Obstacle::NoLeader(shard) => format!(
                "server {server} stays as long as no member of the cluster leads shard {}: a server that was removed earlier may have that \
                 shard, and hears from the others that it was removed; hint: see that the servers of that shard run, the removed one \
                 too, and try again; `heddle cluster remove --force` removes {server} all the same",
                name(shard)
            ),
        };
        if self.protocol() >= 3 { Error::Needed(text) } else { Error::Invalid(text) }
    }
}
