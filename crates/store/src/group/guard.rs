//! A replica that cannot go on stops, and nothing else with it.
//!
//! What a log holds is checked when it comes in and when it is recovered, so that raft-rs has nothing to panic at. Should it do so
//! all the same, or the content while it applies an entry, the panic ends here: the replica is never touched again, and what it
//! leaves half done is thrown away with it. Its log stays on the disk as it is.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::failure::{Failure, text_of};
use super::replica::Group;
use crate::effects::{Effects, Miss};

impl Group {
    /// Does something with the replica, unless it has stopped.
    pub(super) fn guard<R: Default>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        if self.failure.is_some() {
            return R::default();
        }
        // All that is seen of the group after a panic is that it has failed, and what had been applied.
        match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(result) => result,
            Err(panic) => {
                let reason = format!("this program failed: {}", text_of(panic.as_ref()));
                self.failure = Some(Failure { reason, panicked: true });
                R::default()
            }
        }
    }

    /// The log holds what cannot be applied.
    pub(super) fn fail_at(&mut self, index: u64, why: &str) {
        let reason = format!("the log's entry {index} cannot be applied: {why}");
        self.failure = Some(Failure { reason, panicked: false });
    }

    /// Why it has stopped, if it has.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Whoever waits for something of it asks elsewhere.
    pub(crate) fn abandon(&mut self, effects: &mut Effects) {
        self.lease.lost(effects);
        self.refuse_waiting(Miss::NotLeader, effects);
        effects.released_bytes += self.proposals.take_replaced_bytes();
        self.proposals.give_up(|_| false, effects);
    }
}
