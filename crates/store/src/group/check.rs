//! What a message must be that reaches raft-rs, given what this replica knows.
//!
//! A member that lies can do what Raft lets a member do; it can not make raft-rs panic, use up its numbers, or speak for others
//! (decision 15).

use machine::ServerId;
use machine::nanos::Time;
use raft::eraftpb::{ConfChangeType, ConfChangeV2, Entry, EntryType};
use raft::{INVALID_ID, StateRole};

use super::replica::Group;
use crate::config::ELECTION_TICKS;
use crate::message::{Members, RaftMessage, change};
use crate::planted::Bug;
use crate::status::{Counters, Refused};

/// Appends that don't fit the log, and are answered, in one tick: an answer takes a search through the log. A leader needs one.
const MISFITS_MAX: u32 = 16;

impl Group {
    /// A message of another replica. `desired`: the map wants the sender to have a replica.
    pub(crate) fn step(
        &mut self,
        now: Time,
        (from, message): (ServerId, RaftMessage),
        desired: bool,
        counters: &mut Counters,
    ) {
        self.guard(|group| {
            if group.unsynced.is_installing() {
                return;
            }
            if let Err(why) = group.admit(now, from, &message, desired) {
                counters.refuse(why);
                return;
            }
            let before = group.term();
            group.step_admitted(from, message);
            group.limits.pace.spend(group.term() - before);
        });
    }

    fn admit(&mut self, now: Time, from: ServerId, message: &RaftMessage, desired: bool) -> Result<(), Refused> {
        if self.planted.has(Bug::UncheckedPeers) {
            return Ok(());
        }
        message.check(self.id)?;
        let term = self.term();
        let rise = message.term().saturating_sub(term);
        if rise > 0 && message.raises_term() && rise > self.limits.pace.left(now) {
            return Err(Refused::Term);
        }
        if message.term() < term {
            // It is late: raft-rs looks at nothing else in it.
            return Ok(());
        }
        if (message.is_of_leader() || message.is_request_for_vote()) && !self.listens_to(from, desired) {
            return Err(Refused::Rights);
        }
        if message.is_of_leader() {
            self.admit_leader(now, from, message)?;
            self.timers.note_leader();
        }
        if message.is_hand_over() && !(rise == 0 && self.is_led_by(from) && self.may_vote()) {
            return Err(Refused::Rights);
        }
        if message.is_campaign() && self.has_promised() {
            return Err(Refused::Early);
        }
        if let Some(what) = message.answers().filter(|_| rise == 0 && self.is_leader()) {
            if message.answered_index() > self.raw.raft.raft_log.last_index() {
                return Err(Refused::Index);
            }
            if !self.limits.asked.take(term, from, what, message.agrees_to()) {
                return Err(Refused::Unasked);
            }
        }
        Ok(())
    }

    fn admit_leader(&mut self, now: Time, from: ServerId, message: &RaftMessage) -> Result<(), Refused> {
        let raft = &self.raw.raft;
        let leads = raft.state == StateRole::Leader;
        // A server that has lied that it leads, and is silent since, must not keep a learner, which never stands for election, from the leader.
        let hears = self.timers.hears_leader() && ![INVALID_ID, from.0].contains(&raft.leader_id);
        if message.term() == raft.term && (leads || hears) {
            return Err(Refused::Rights);
        }
        let last = raft.raft_log.last_index();
        if let Some((index, term)) = message.follows()
            && index <= last
            && !raft.raft_log.match_term(index, term)
        {
            self.limits.misfits += 1;
            if self.limits.misfits > MISFITS_MAX {
                return Err(Refused::Flood);
            }
        }
        match message.snapshot() {
            Some(meta) if meta.index.saturating_sub(last) > self.limits.pace.left(now) => Err(Refused::Index),
            Some(meta) if !meta.members.has(self.me) => Err(Refused::Members),
            _ => Ok(()),
        }
    }

    /// Whether a server leads, as far as this replica can know: one whose followers are up to date has put an entry of its term into
    /// their logs.
    fn is_led_by(&self, server: ServerId) -> bool {
        self.leader() == Some(server) && self.raw.raft.raft_log.last_term() == self.term()
    }

    /// Whether this replica has heard a leader so lately that it votes for nobody else, though somebody's higher term has made
    /// raft-rs forget who that was: its promise is what that leader's lease is built on.
    fn has_promised(&self) -> bool {
        let raft = &self.raw.raft;
        raft.state == StateRole::Follower && raft.leader_id == INVALID_ID && self.timers.hears_leader()
    }

    /// Whether a server may be the leader, or stand for election. The members known here may be older ones: then nobody that they
    /// name leads, and others are heard after one election timeout.
    pub(crate) fn listens_to(&self, from: ServerId, desired: bool) -> bool {
        desired || self.applied() == 0 || self.members().votes(from) || self.leaderless_ticks() >= ELECTION_TICKS as u32
    }

    /// Whether the others may have taken this server out of the group, as somebody says who had applied the log up to `index`. Where no
    /// majority is without it, its own log has all changes that did so: they were acknowledged here. What has made it a member again
    /// behind that index is news to who said so.
    pub(crate) fn may_be_out(&self, index: u64) -> bool {
        let log = &self.raw.raft.raft_log;
        let entries = log.entries(self.applied() + 1, None, raft::GetEntriesContext::empty(false)).unwrap_or_default();
        let is_change = |entry: &&Entry| entry.get_entry_type() == EntryType::EntryConfChangeV2;
        let changes =
            entries.iter().filter(is_change).filter_map(|entry| Some((entry.index, change::parse(&entry.data)?)));
        let changes: Vec<_> = changes.collect();
        let adds_me = |change: &ConfChangeV2| {
            let mut of_me = change.get_changes().iter().filter(|single| single.node_id == self.me.0);
            of_me.any(|single| single.get_change_type() != ConfChangeType::RemoveNode)
        };
        if changes.iter().any(|(at, change)| *at > index && adds_me(change)) {
            return false;
        }
        let Members { voters, voters_outgoing, .. } = self.members();
        let needs_me = |voters: &[u64]| voters.contains(&self.me.0) && voters.len() - 1 < voters.len() / 2 + 1;
        if !needs_me(voters) && !needs_me(voters_outgoing) {
            return true;
        }
        let (mut votes, mut voted) = (voters.contains(&self.me.0), voters_outgoing.contains(&self.me.0));
        for (_, change) in changes {
            if change.get_changes().is_empty() {
                voted = false;
            } else if change.get_changes().len() > 1 {
                // A joint configuration: the old voters vote as well until it is left.
                voted = votes;
            }
            let of_me = change.get_changes().iter().filter(|single| single.node_id == self.me.0);
            votes = of_me.fold(votes, |_, single| single.get_change_type() == ConfChangeType::AddNode);
            if !votes && !voted {
                return true;
            }
        }
        false
    }

    /// Whether this replica has all that it has ever acknowledged. One that was emptied takes part in no election before: it
    /// could elect somebody who lacks what it had said it holds.
    pub(crate) fn may_vote(&self) -> bool {
        self.applied() > 0 && self.applied() >= self.floor
    }
}
