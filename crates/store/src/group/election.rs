//! When a replica stands for election, and how pre-votes are asked for and answered.
//!
//! raft-rs decides about votes; its own clock and randomness are not used (decision 6). What is here touches no vote.

use machine::nanos::Time;
use machine::{Rng, ServerId};
use raft::StateRole;

use super::replica::Group;
use super::timers::Stamp;
use crate::config::ELECTION_TICKS;
use crate::message::RaftMessage;
use crate::status::Counters;

impl Group {
    /// Ticks since a leader was heard or this replica led.
    pub(crate) fn leaderless_ticks(&self) -> u32 {
        self.timers.leaderless_ticks
    }

    pub(super) fn timer_stamp(&self) -> Stamp {
        (self.raw.raft.term, self.raw.raft.state, self.raw.raft.leader_id)
    }

    pub(super) fn reset_timer(&mut self, rng: &mut Rng) {
        // Whoever has asked for votes gives them longer: a vote needs the voter's disk, too.
        let asked = matches!(self.raw.raft.state, StateRole::PreCandidate | StateRole::Candidate);
        let longer = if asked && self.raw.raft.pre_vote { ELECTION_TICKS / 2 } else { 0 };
        self.timers.set = (self.timer_stamp(), ELECTION_TICKS + longer + rng.below(ELECTION_TICKS as u32) as usize);
    }

    /// One tick of Raft's clock.
    ///
    /// `is_locked_out`: this server has restarted, and may have promised not to elect anybody yet.
    pub(crate) fn tick(&mut self, now: Time, is_locked_out: bool, rng: &mut Rng, counters: &mut Counters) {
        self.guard(|group| group.tick_guarded(now, is_locked_out, rng, counters));
    }

    fn tick_guarded(&mut self, now: Time, is_locked_out: bool, rng: &mut Rng, counters: &mut Counters) {
        self.limits.begin_tick();
        self.timers.quiet_ticks = self.timers.quiet_ticks.saturating_add(1);
        if self.unsynced.is_installing() {
            return;
        }
        if self.timers.set.0 != self.timer_stamp() {
            self.reset_timer(rng);
        }
        self.raw.tick();
        if let Some((from, message)) = self.timers.early.take_if(|_| self.raw.raft.election_elapsed >= ELECTION_TICKS) {
            self.step_admitted(from, message);
        }
        let others_vote = self.members().voters.iter().any(|id| *id != self.me.0);
        let may_vote = self.may_vote();
        let raft = &mut self.raw.raft;
        // A replica that does not stand for election never forgets which server led last.
        let is_silent =
            raft.state != StateRole::Leader && !raft.promotable() && raft.election_elapsed >= ELECTION_TICKS;
        let ticks = &mut self.timers.leaderless_ticks;
        *ticks = if raft.leader_id == 0 || is_silent { *ticks + 1 } else { 0 };
        let may_stand = may_vote && raft.promotable() && !(is_locked_out && others_vote);
        if raft.state != StateRole::Leader && may_stand && raft.election_elapsed >= self.timers.set.1 {
            raft.election_elapsed = 0;
            counters.campaigns += 1;
            let _ = self.raw.campaign();
            self.reset_timer(rng);
        }
        if self.is_leader() && self.lease.wants_renewal(now) {
            self.begin_read_round(now);
        }
    }

    /// Heartbeats beside those of Raft's clock.
    pub(crate) fn beat(&mut self, now: Time) {
        self.beaten = now;
        self.guard(|group| group.raw.ping());
    }

    /// Stand for election now: a new group's first tick shall not be waited for.
    pub(crate) fn campaign(&mut self) {
        if self.raw.raft.promotable() && self.may_vote() {
            self.guard(|group| {
                let _ = group.raw.campaign();
            });
        }
    }

    /// Two that ask for pre-votes at the same time would both be promised them, and then split the votes: an election
    /// timeout lost. One of them gives way, the one with the shorter log or, of equals, the lower number; the other does
    /// not answer it. No vote is touched: a pre-vote is a question only.
    pub(super) fn gives_no_way(&mut self, from: ServerId, message: &RaftMessage) -> bool {
        let raft = &mut self.raw.raft;
        let Some((log_term, index)) = message.pre_candidate_log() else { return false };
        if raft.state != StateRole::PreCandidate || message.term() <= raft.term {
            return false;
        }
        if (raft.raft_log.last_term(), raft.raft_log.last_index(), self.me) > (log_term, index, from) {
            return true;
        }
        raft.become_follower(raft.term, raft::INVALID_ID);
        false
    }

    /// Whether the answer to a pre-vote has to wait until this replica, too, has missed its leader for long enough: another's
    /// timeout may be shorter. raft-rs would not answer, and the candidate would wait for its next timeout.
    pub(super) fn is_early(&mut self, message: &RaftMessage) -> bool {
        let raft = &self.raw.raft;
        if message.is_of_leader() {
            self.timers.early = None;
        }
        message.pre_candidate_log().is_some()
            && raft.state == StateRole::Follower
            && raft.leader_id != raft::INVALID_ID
            && raft.election_elapsed < ELECTION_TICKS
    }
}
