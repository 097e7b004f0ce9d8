//! What raft-rs reads of a group's log: all of it that is kept is in memory, and on the disk by way of `wal`.

use std::collections::VecDeque;

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, StorageError};

use crate::message::SnapshotMeta;

/// A group's log in memory.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    hard_state: HardState,
    /// The members at the index that Raft is to begin from: only read when a group is opened.
    initial: ConfState,
    /// Everything up to this index is not in `entries` any more.
    truncated: (u64, u64),
    entries: VecDeque<Entry>,
    bytes: u64,
    /// What a snapshot made now would be of.
    applied: SnapshotMeta,
}

impl Storage {
    /// As recovered: entries follow `truncated` (index and term), `start` is what the state machine holds.
    pub(crate) fn new(
        hard_state: HardState,
        start: SnapshotMeta,
        truncated: (u64, u64),
        entries: impl IntoIterator<Item = Entry>,
    ) -> Self {
        let mut storage =
            Self { hard_state, initial: start.members.to_conf(), truncated, applied: start, ..Self::default() };
        for entry in entries {
            storage.push(entry);
        }
        storage
    }

    pub(crate) fn hard_state(&self) -> &HardState {
        &self.hard_state
    }

    pub(crate) fn set_hard_state(&mut self, hard_state: HardState) {
        self.hard_state = hard_state;
    }

    /// What the state machine holds now.
    pub(crate) fn set_applied(&mut self, applied: SnapshotMeta) {
        self.applied = applied;
    }

    pub(crate) fn applied(&self) -> &SnapshotMeta {
        &self.applied
    }

    pub(crate) fn first(&self) -> u64 {
        self.truncated.0 + 1
    }

    pub(crate) fn last(&self) -> u64 {
        self.truncated.0 + self.entries.len() as u64
    }

    /// Bytes of the entries that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends; what was there at and after the first index goes.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.truncated.0, "an entry that is in the snapshot was written again");
        assert!(first.index <= self.last() + 1, "a gap in the log: {} after {}", first.index, self.last());
        while self.last() >= first.index {
            let gone = self.entries.pop_back().expect("last() counts them");
            self.bytes -= size(&gone);
        }
        for entry in entries {
            self.push(entry.clone());
        }
    }

    fn push(&mut self, entry: Entry) {
        debug_assert_eq!(entry.index, self.last() + 1);
        self.bytes += size(&entry);
        self.entries.push_back(entry);
    }

    /// Forgets entries up to `index`, which the state machine has applied and a snapshot on the disk holds.
    pub(crate) fn compact(&mut self, index: u64) {
        let index = index.min(self.last());
        while self.truncated.0 < index {
            let gone = self.entries.pop_front().expect("index is not after the last");
            self.bytes -= size(&gone);
            self.truncated = (gone.index, gone.term);
        }
    }

    /// The last entry that was forgotten: index and term.
    pub(crate) fn truncated(&self) -> (u64, u64) {
        self.truncated
    }

    /// All entries that are kept.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Begins anew after a snapshot.
    pub(crate) fn restore(&mut self, meta: SnapshotMeta) {
        self.entries.clear();
        self.bytes = 0;
        self.truncated = (meta.index, meta.term);
        self.applied = meta;
    }

    /// The highest index up to which at least `keep` bytes of entries remain.
    pub(crate) fn index_keeping(&self, keep: u64) -> u64 {
        let mut kept = 0;
        for entry in self.entries.iter().rev() {
            kept += size(entry);
            if kept >= keep {
                return entry.index - 1;
            }
        }
        self.truncated.0
    }

    fn get(&self, index: u64) -> Option<&Entry> {
        self.entries.get(index.checked_sub(self.first())? as usize)
    }
}

fn size(entry: &Entry) -> u64 {
    (entry.data.len() + entry.context.len() + size_of::<Entry>()) as u64
}

impl raft::Storage for Storage {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.hard_state.clone(), self.initial.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low < self.first() {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        if high > self.last() + 1 {
            return Err(raft::Error::Store(StorageError::Unavailable));
        }
        let limit = max_size.into().unwrap_or(u64::MAX);
        let from = (low - self.first()) as usize;
        let mut total = 0;
        let mut entries = Vec::with_capacity((high - low).min(256) as usize);
        for entry in self.entries.iter().skip(from).take((high - low) as usize) {
            total += size(entry);
            if total > limit && !entries.is_empty() {
                break;
            }
            entries.push(entry.clone());
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.truncated.0 {
            return Ok(self.truncated.1);
        }
        match self.get(index) {
            Some(entry) => Ok(entry.term),
            None if index < self.first() => Err(raft::Error::Store(StorageError::Compacted)),
            None => Err(raft::Error::Store(StorageError::Unavailable)),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        // The data follow in chunks of their own (`snapshots`): Raft only needs to know what they will be of.
        if self.applied.index < request_index || self.applied.index == 0 {
            return Err(raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = Snapshot::default();
        let meta = snapshot.mut_metadata();
        meta.index = self.applied.index;
        meta.term = self.applied.term;
        meta.set_conf_state(self.applied.members.to_conf());
        Ok(snapshot)
    }
}
