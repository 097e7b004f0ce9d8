//! Appends that say only what is committed, while they are held back.

use std::collections::BTreeMap;

use machine::ServerId;
use machine::nanos::Time;

use crate::message::RaftMessage;

/// Appends without entries that wait, one a follower.
#[derive(Debug)]
pub(super) struct Commits {
    pub(super) held: BTreeMap<ServerId, RaftMessage>,
    /// When they go; never if there are none.
    pub(super) due: Time,
}

impl Default for Commits {
    fn default() -> Self {
        Self { held: BTreeMap::new(), due: Time::NEVER }
    }
}

impl Commits {
    /// Joins an append with the one that waits for the same follower. If they do not fit each other the follower's log is being searched, and
    /// what was to be said before is void.
    pub(super) fn join(&mut self, to: ServerId, mut message: RaftMessage) -> RaftMessage {
        let Some(mut held) = self.held.remove(&to) else { return message };
        if held.absorb(&mut message) { held } else { message }
    }

    /// When some go without entries at the latest.
    pub(super) fn due(&self) -> Option<Time> {
        (!self.held.is_empty()).then_some(self.due)
    }

    /// This replica leads no more, or in another term.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
