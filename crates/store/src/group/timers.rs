//! What a replica counts to know when to stand for election, and whom to hear.

use machine::ServerId;
use raft::StateRole;

use crate::config::ELECTION_TICKS;
use crate::message::RaftMessage;

/// Raft's term, part and leader.
pub(super) type Stamp = (u64, StateRole, u64);

/// What a replica counts to know when to stand for election, and whom to hear.
#[derive(Debug)]
pub(super) struct Timers {
    /// How it was with Raft when the election timer was set last, and the ticks it was set to.
    pub(super) set: (Stamp, usize),
    /// Ticks since a leader was heard or this replica led.
    pub(super) leaderless_ticks: u32,
    /// Ticks since a leader was heard.
    pub(super) quiet_ticks: u32,
    /// A pre-vote that was asked for while this replica still heard its leader.
    pub(super) early: Option<(ServerId, RaftMessage)>,
}

impl Timers {
    /// Of a replica that has heard nobody yet.
    pub(super) fn new() -> Self {
        let set = ((0, StateRole::Follower, 0), ELECTION_TICKS);
        Self { set, leaderless_ticks: 0, quiet_ticks: ELECTION_TICKS as u32, early: None }
    }

    /// A leader was heard.
    pub(super) fn note_leader(&mut self) {
        self.quiet_ticks = 0;
    }

    /// Whether a leader was heard within the shortest election timeout.
    pub(super) fn hears_leader(&self) -> bool {
        self.quiet_ticks < ELECTION_TICKS as u32
    }

    /// The answer to this pre-vote has to wait.
    pub(super) fn set_early(&mut self, from: ServerId, message: RaftMessage) {
        self.early = Some((from, message));
    }
}
