//! Which groups have something to do: at once, when the disk has it, or later.

use std::collections::BTreeSet;

use machine::nanos::Time;
use placement::ShardId;

/// Groups that have something to do.
#[derive(Debug)]
pub(super) struct Agenda {
    /// Raft may have something to say about these.
    dirty: BTreeSet<ShardId>,
    /// These wait for the disk.
    unsynced: BTreeSet<ShardId>,
    /// These have something to do later though nothing happens.
    later: BTreeSet<ShardId>,
    /// When the first of these has.
    next_due: Time,
}

impl Agenda {
    pub(super) fn new() -> Self {
        let none = BTreeSet::new;
        Self { dirty: none(), unsynced: none(), later: none(), next_due: Time::NEVER }
    }

    /// The group is looked at in this turn.
    pub(super) fn add(&mut self, shard: ShardId) {
        self.dirty.insert(shard);
    }

    /// Whether no group is to be looked at in this turn.
    pub(super) fn is_empty(&self) -> bool {
        self.dirty.is_empty()
    }

    /// The groups to be looked at now.
    pub(super) fn take(&mut self) -> BTreeSet<ShardId> {
        std::mem::take(&mut self.dirty)
    }

    /// The group waits until the disk has what it wrote.
    pub(super) fn add_unsynced(&mut self, shard: ShardId) {
        self.unsynced.insert(shard);
    }

    pub(super) fn unsynced(&self) -> impl Iterator<Item = ShardId> {
        self.unsynced.iter().copied()
    }

    /// The groups that wait for the disk: it has written something.
    pub(super) fn take_unsynced(&mut self) -> BTreeSet<ShardId> {
        std::mem::take(&mut self.unsynced)
    }

    /// The group has something to do at that time.
    pub(super) fn add_later(&mut self, shard: ShardId, due: Time) {
        self.later.insert(shard);
        self.next_due = self.next_due.min(due);
    }

    /// When the first group has something to do later.
    pub(super) fn next_due(&self) -> Time {
        self.next_due
    }

    /// Once the time has come for one of those that come later, all of them are looked at, and say again when they come back.
    pub(super) fn wake(&mut self, now: Time) {
        if now >= self.next_due {
            self.next_due = Time::NEVER;
            self.dirty.append(&mut self.later);
        }
    }

    /// The group is not here any more.
    pub(super) fn remove(&mut self, shard: ShardId) {
        self.dirty.remove(&shard);
        self.unsynced.remove(&shard);
        self.later.remove(&shard);
    }
}
