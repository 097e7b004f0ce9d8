//! What Raft wants to have on the disk: written with the log's next batch, and what depends on it said once that is there.

use machine::nanos::Span;
use raft::eraftpb::Message;

use super::replica::{Group, to_wal_entry};
use super::unsynced::Unpersisted;
use crate::effects::Effects;
use crate::message::{Members, SnapshotMeta};
use crate::planted::Bug;

impl Group {
    pub(super) fn persist(&mut self, ready: &mut raft::Ready, log: &mut wal::Log) -> bool {
        let entries = ready.take_entries();
        let mut write_state = !entries.is_empty();
        if let Some(state) = ready.hs() {
            write_state |= state.term != self.unsynced.logged.term || state.vote != self.unsynced.logged.vote;
            self.raw.mut_store().set_hard_state(state.clone());
        }
        let wrote_entries = !entries.is_empty();
        if wrote_entries {
            // The server stops taking work long before the backlog's bound.
            let logged = log.append(self.id.0, &entries.iter().map(to_wal_entry).collect::<Vec<_>>());
            logged.expect("the log's backlog is bounded by what the server takes in");
            self.raw.mut_store().append(&entries);
        }
        write_state &= !self.planted.has(Bug::VoteNotPersisted);
        if write_state {
            // The commit index alone is not worth a write: a leader sends it again.
            self.unsynced.logged = self.raw.store().hard_state().clone();
            self.log_hard_state(log);
        }
        write_state || wrote_entries || !ready.snapshot().get_metadata().get_conf_state().get_voters().is_empty()
    }

    fn log_hard_state(&self, log: &mut wal::Log) {
        log.hard_state(self.id.0, self.to_wal(&self.unsynced.logged));
    }

    pub(super) fn await_disk(&mut self, ready: u64, messages: Vec<Message>, wrote: bool, effects: &mut Effects) {
        let wrote = wrote && !self.planted.has(Bug::AckBeforeSync);
        if !wrote && self.unsynced.batches.is_empty() {
            self.raw.on_persist_ready(ready);
            self.send(messages, effects);
            return;
        }
        let write = if wrote { None } else { self.unsynced.batches.back().and_then(|last| last.write) };
        self.unsynced.batches.push_back(Unpersisted { ready, messages, write });
    }

    /// What was gathered for the disk is in this write.
    pub(crate) fn taken(&mut self, write: u64) {
        for waiting in &mut self.unsynced.batches {
            waiting.write.get_or_insert(write);
        }
    }

    /// A write is on the disk, which takes `latency` for one, about.
    pub(crate) fn persisted(&mut self, write: u64, latency: Span, effects: &mut Effects) {
        self.proposals.set_disk_latency(latency);
        self.guard(|group| group.persisted_guarded(write, effects));
    }

    fn persisted_guarded(&mut self, write: u64, effects: &mut Effects) {
        let mut last = None;
        while self.unsynced.batches.front().is_some_and(|waiting| waiting.write.is_some_and(|id| id <= write)) {
            let waiting = self.unsynced.batches.pop_front().expect("it was just seen");
            last = Some(waiting.ready);
            self.send(waiting.messages, effects);
        }
        if let Some(ready) = last {
            self.raw.on_persist_ready(ready);
            if let Some(index) = self.unsynced.installing.take_if(|index| *index <= self.raw.raft.raft_log.persisted)
                && self.raw.raft.raft_log.applied < index
            {
                self.raw.advance_apply_to(index);
            }
        }
    }

    /// Whether something of this group waits for the disk.
    pub(crate) fn waits_for_disk(&self) -> bool {
        !self.unsynced.batches.is_empty()
    }

    /// Takes over the snapshot that the server has received, checked and written already.
    pub(super) fn install(
        &mut self,
        meta: &raft::eraftpb::SnapshotMetadata,
        log: &mut wal::Log,
        effects: &mut Effects,
    ) {
        let meta = SnapshotMeta { index: meta.index, term: meta.term, members: Members::of(meta.get_conf_state()) };
        let (content, mark) = self.received.take().expect("it is stepped only once it is there");
        self.content = content;
        self.snapshot_index = meta.index;
        self.unsynced.installing = Some(meta.index);
        self.raw.mut_store().restore(meta);
        log.snapshot(self.id.0, mark, wal::Entries::Drop);
        effects.changed.push(self.id);
        effects.applied.push(self.id);
    }
}
