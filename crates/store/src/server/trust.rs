//! What another server's word is worth: a member may speak for itself, and for what it leads; not for others.
//!
//! Raft's own messages are looked at in `message::check` and `group::check`. Here is the rest: who says that he leads a shard, that
//! this server is out of a group, that he has a snapshot of one. What that keeps a liar from, and what not: decision 15.

use std::collections::BTreeSet;

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::{Map, ShardId};

use super::Server;
use crate::config::ELECTION_TICKS;
use crate::group::Group;
use crate::message::check::TERM_MAX;
use crate::peer::Leads;
use crate::status::Refused;

/// Longest address that is looked at.
const ADDRESS_BYTES_MAX: usize = 300;

/// After so long without a leader one witness is enough, if nobody else of the group lives.
const ALONE: Span = Span::from_secs(600);

impl Server {
    /// Leaves of a peer's word what it may say: shards that there are, of which it may have a replica, and servers that there are.
    pub(super) fn believable_leads(&mut self, from: ServerId, mut leads: Leads) -> Leads {
        if leads.address.len() > ADDRESS_BYTES_MAX {
            leads.address.clear();
            self.counters.refuse(Refused::Leads);
        }
        let before = leads.terms.len();
        let may_lead = |shard: &ShardId| {
            let here = self.groups.get(shard);
            here.is_some_and(|group| group.members().votes(from))
                || self.view.map().desired_replicas(*shard).contains(from)
                // A group's members follow the map with delay: who is wanted no more is heard where nobody else is.
                || (self.view.map().shards().contains_key(shard)
                    && self.leader_of(*shard).is_none_or(|leader| leader == from))
        };
        leads.terms.retain(|shard, term| *term <= TERM_MAX && may_lead(shard));
        if leads.terms.len() < before {
            self.counters.refuse(Refused::Leads);
        }
        leads.load.retain(|shard, _| leads.terms.contains_key(shard));
        leads.ready.retain(|shard, _| leads.terms.contains_key(shard));
        for origins in leads.load.values_mut() {
            origins.retain(|origin, _| self.view.map().members().contains_key(origin));
        }
        for ready in leads.ready.values_mut() {
            let named: BTreeSet<ServerId> = ready.iter().copied().collect();
            *ready = named.into_iter().filter(|id| self.view.map().members().contains_key(id)).collect();
        }
        leads
    }

    /// Whether a server may send the content of this shard here. Nobody may to its leader.
    pub(super) fn may_fill(&self, from: ServerId, shard: ShardId) -> bool {
        let exists = shard == ShardId::META || self.view.map().shards().contains_key(&shard);
        let takes = |group: &Group| {
            !group.is_leader() && group.listens_to(from, self.view.map().desired_replicas(shard).contains(from))
        };
        exists && !self.absent.halted.contains_key(&shard) && self.groups.get(&shard).is_none_or(takes)
    }

    /// Somebody says that this server is no member of a group.
    pub(super) fn no_member(
        &mut self,
        now: Time,
        from: ServerId,
        (shard, index): (ShardId, u64),
        map: Option<Vec<u8>>,
        sealed: bool,
    ) {
        let me = self.config.server;
        let Some(group) = self.groups.get(&shard).filter(|group| !group.is_leader() && group.applied() < index) else {
            return;
        };
        // By its own log it is out, or nobody that leads has been heard for long: else somebody contradicts.
        let out = !group.members().has(me);
        if !out && group.applied() > 0 && group.leaderless_ticks() < ELECTION_TICKS as u32 {
            return;
        }
        // The members of a shard that is here may be newer than those of meta: a server that has missed its own removal may have missed
        // who came in place of the others, too.
        let shares = |group: &Group| group.members().has(from);
        let knows_more = shard == ShardId::META && group.applied() > 0;
        let member = self.view.map().members().contains_key(&from)
            || if knows_more { self.groups.values().any(shares) } else { shares(group) };
        if !member {
            self.counters.refuse(Refused::Membership);
        } else if shard == ShardId::META {
            self.out_of_meta(now, from, map, sealed);
        } else if self.departure.leaving || !self.view.map().desired_replicas(shard).contains(me) {
            // Only if the map says so too: the word may be older than a change that made it a member again.
            self.out_of_shard(now, from, (shard, index), sealed);
        }
    }

    /// A replica is given up when the shard's leader says that a majority of the members does without it; and, unless it is out by its own
    /// log, when another server has applied members without it as well: a leader that lies would have all those given up that are still
    /// needed, and nobody could lead the shard any more (seeds 47879 and 149039, hostile).
    fn out_of_shard(&mut self, now: Time, from: ServerId, (shard, index): (ShardId, u64), sealed: bool) {
        let needed = self.words_needed(now, from, shard);
        let Some(group) = self.groups.get(&shard) else { return };
        let words = self.departure.heard_out(now, from, (shard, index), group.applied());
        if !sealed || self.leader_of(shard) != Some(from) {
            return;
        }
        // Last, since it looks through what is not applied.
        let is_borne_out = !group.members().has(self.config.server) || words >= needed;
        if is_borne_out && group.may_be_out(index) {
            self.remove_replica(shard);
            self.retry_idle(now);
        } else {
            self.counters.refuse(Refused::Membership);
        }
    }

    /// How many must say that this server is out of a shard: two, where there are two who could.
    fn words_needed(&self, now: Time, from: ServerId, shard: ShardId) -> usize {
        let me = self.config.server;
        let Some(group) = self.groups.get(&shard) else { return usize::MAX };
        let desired = self.view.map().desired_replicas(shard);
        let members = group.members();
        let others: BTreeSet<ServerId> = if self.departure.map_of_one {
            members.voters.iter().chain(&members.voters_outgoing).map(|id| ServerId(*id)).collect()
        } else {
            desired.voters.iter().chain(&desired.learners).copied().collect()
        };
        let others: BTreeSet<ServerId> = others.into_iter().filter(|id| *id != me).collect();
        if self.is_alone(now, from, group, &others) { 1 } else { others.len().clamp(1, 2) }
    }

    /// A server is out of the cluster by its own map, or when two others say so: one could lie. A number that was removed is never
    /// given again.
    fn out_of_meta(&mut self, now: Time, from: ServerId, map: Option<Vec<u8>>, sealed: bool) {
        let me = self.config.server;
        let Some(Ok(claimed)) = map.as_deref().map(Map::decode) else {
            self.counters.refuse(Refused::Membership);
            return;
        };
        if claimed.members().contains_key(&me) {
            return;
        }
        let is_member = self.view.map().members().contains_key(&me);
        if is_member || !self.departure.leaving {
            // The last word of each: maps that were given at different times seldom are the same.
            self.departure.witnesses.insert(from, map.unwrap_or_default());
        }
        if !self.departure.leaving {
            if self.departure.witnesses.len() < self.witnesses_needed(now, from) {
                return;
            }
            self.departure.leaving = true;
        }
        // The seal only says that nobody needs its vote in meta.
        self.departure.out_of_meta |= sealed;
        let given = self.departure.witnesses.get(&from);
        let again = self.departure.witnesses.iter().filter(|(_, map)| Some(*map) == given).count();
        let is_newer = claimed.version() > self.view.map().version();
        let is_believed = is_newer && (!is_member || again >= self.witnesses_needed(now, from));
        // What two say is worth more than what one said, however new that was said to be.
        if is_believed || (self.departure.map_of_one && again >= 2) {
            self.follow_map(now, claimed, again >= 2);
        }
    }

    fn witnesses_needed(&self, now: Time, from: ServerId) -> usize {
        let Some(meta) = self.groups.get(&ShardId::META) else { return usize::MAX };
        let others: BTreeSet<ServerId> =
            (meta.members().voters.iter().map(|id| ServerId(*id))).filter(|id| *id != self.config.server).collect();
        if self.is_alone(now, from, meta, &others) { 1 } else { others.len().clamp(1, 2) }
    }

    /// Whether nobody but `from` has been heard for long of those who could say that this server is out of a group.
    fn is_alone(&self, now: Time, from: ServerId, group: &Group, others: &BTreeSet<ServerId>) -> bool {
        let live = self.live_peers(now);
        self.schedule.tick() * u64::from(group.leaderless_ticks()) >= ALONE
            && !others.iter().any(|id| *id != from && live.contains(id))
    }
}
