//! The log: takes what the groups have to write, gives batches.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use machine::ServerId;

use crate::batch::{BATCH_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentIdentity, seal, segment_file};
use crate::group::{Group, Usage};
use crate::witness::{Witness, WitnessState};
use crate::{
    Config, DiskError, Entries, Entry, Error, FileName, HardState, Identity, Lane, Operation, Position, SnapshotMark,
    SnapshotWriter, Write, identity, record,
};

/// The write-ahead log of one server.
///
/// What always holds: at most one batch is under way; the next one gathers meanwhile. `groups` is what recovery would
/// find if everything that was handed in were durable.
#[derive(Debug)]
pub struct Log {
    pub(crate) config: Config,
    pub(crate) identity: Option<Identity>,
    pub(crate) groups: BTreeMap<u64, Group>,
    pub(crate) usage: Usage,
    pub(crate) segments: Segments,
    /// The length of each segment's file, those included that are about to be deleted or made, in bytes.
    pub(crate) lengths: BTreeMap<u64, u64>,
    pub(crate) witness: WitnessState,
    /// Number of the next batch.
    pub(crate) sequence: u64,
    /// Number that the next snapshot file has in its name.
    pub(crate) serial: u64,
    pub(crate) pending: Pending,
    pub(crate) state: State,
    pub(crate) is_ready: bool,
}

/// The segments that exist, or are about to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    /// The oldest that is needed.
    pub(crate) oldest: u64,
    /// The one that the next batch goes to.
    pub(crate) current: u64,
    /// Bytes of batches in it; 0 if the next batch begins it.
    pub(crate) len: u64,
    /// The length of its file, if all zeros that were asked for found room.
    pub(crate) allocated: u64,
}

/// Zeros are written only if they are enough for so many batches.
const ALLOCATE_BATCHES_MIN: u64 = 4;

impl Segments {
    /// Counts a batch, and gives the length to which the file has to be extended after it, if it reached the end.
    fn grow(&mut self, bytes: u64, config: &Config) -> Option<u64> {
        self.len += bytes;
        // A large batch takes much longer than the journal, and zeros for the next one would double what is written.
        let is_small = bytes <= config.allocate_bytes / ALLOCATE_BATCHES_MIN;
        let is_due = is_small && self.len > self.allocated && self.len < config.segment_bytes;
        let next = (self.len + 1).checked_next_multiple_of(config.allocate_bytes).filter(|_| is_due)?;
        self.allocated = next.min(config.segment_bytes);
        Some(self.allocated)
    }
}

/// What the next batch will hold.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Room for two headers, then the records.
    frame: Vec<u8>,
    /// Where the hard state of a group stands in it, to be overwritten by a newer one.
    hard_states: BTreeMap<u64, usize>,
    /// Whether it has to leave: something in it must be durable, or recovery left something to do.
    is_due: bool,
    /// Carried out before the batch is written.
    before: Vec<Operation>,
    /// Files that nothing refers to once the batch is durable.
    obsolete: BTreeSet<FileName>,
    /// Bytes of entries that were only written again: they don't count as backlog.
    rewritten_bytes: usize,
}

/// Room for the headers in front of the records.
const HEADERS_BYTES: usize = SEGMENT_HEADER_BYTES + BATCH_HEADER_BYTES;

/// Buffers that a batch of usual size leaves grow to this before they have to move.
const FRAME_BYTES: usize = 64 << 10;

impl Default for Pending {
    fn default() -> Self {
        let mut frame = Vec::with_capacity(FRAME_BYTES);
        frame.resize(HEADERS_BYTES, 0);
        Self {
            frame,
            hard_states: BTreeMap::new(),
            is_due: false,
            before: Vec::new(),
            obsolete: BTreeSet::new(),
            rewritten_bytes: 0,
        }
    }
}

impl Pending {
    /// What recovery leaves to the first batch.
    pub(crate) fn opening(before: Vec<Operation>) -> Self {
        Self { before, is_due: true, ..Self::default() }
    }

    fn bytes(&self) -> usize {
        self.frame.len() - HEADERS_BYTES
    }

    /// Bytes that count against [`Config::backlog_bytes_max`].
    fn backlog_bytes(&self) -> usize {
        self.bytes() - self.rewritten_bytes
    }
}

/// Where the batch is that was taken last.
#[derive(Debug)]
pub(crate) enum State {
    /// None is under way.
    Idle { next_id: u64 },
    /// The driver has it.
    Writing { write: Write },
    /// There was no space for it. It is written again, as it was.
    Full { write: Write },
    /// The disk can't be trusted any more.
    Poisoned { error: String },
}

impl Log {
    /// Says whose log it is. A new folder needs it before its first batch; the file is written with that.
    ///
    /// # Errors
    /// [`Error::Identity`] if the name isn't valid, [`Error::OtherCluster`] if the folder or the configuration names
    /// another cluster or server.
    pub fn identify(&mut self, identity: Identity) -> Result<(), Error> {
        identity.validate()?;
        let expected = |expected: String| Error::OtherCluster {
            file: Identity::file(),
            expected,
            found: identity::owner(identity.cluster, identity.server.0),
        };
        match (&self.identity, self.config.cluster) {
            (Some(old), _) if (old.cluster, old.server) == (identity.cluster, identity.server) => Ok(()),
            (Some(old), _) => Err(expected(identity::owner(old.cluster, old.server.0))),
            (None, Some(cluster)) if cluster != identity.cluster => Err(expected(identity::cluster_name(cluster))),
            (None, _) => {
                self.pending.before.push(identity.write());
                self.pending.before.push(Witness::default().begin(&identity));
                self.pending.is_due = true;
                self.identity = Some(identity);
                Ok(())
            }
        }
    }

    /// Whether nothing was ever written to it, not even a batch without content. Asked right after [`Log::recover`], that
    /// is what the folder holds: a server that has run before has lost its log then.
    pub fn is_blank(&self) -> bool {
        self.sequence == 1
    }

    /// The identity of the server that the log belongs to.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Adds entries of a group; what the group holds at the first one's index and after it goes.
    ///
    /// # Errors
    /// [`Error::BacklogFull`] if too much waits already; nothing is added then. A single call may exceed the limit if
    /// nothing waits.
    ///
    /// # Panics
    /// If the entries have gaps among them or to what the group holds, or begin within what was let go.
    pub fn append(&mut self, group: u64, entries: &[Entry]) -> Result<(), Error> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
        let (bytes, limit) = (record::entries_bytes_max(entries), self.config.backlog_bytes_max);
        let waiting = self.pending.backlog_bytes();
        if waiting > 0 && waiting + bytes > limit {
            return Err(Error::BacklogFull { bytes: waiting + bytes, limit });
        }
        let state = self.groups.entry(group).or_default();
        assert!(
            first.index > state.status.compacted.index && first.index <= state.last() + 1,
            "group {group}: entries from {} don't follow what it holds, {} to {}",
            first.index,
            state.status.compacted.index + 1,
            state.last()
        );
        let held = state.status.snapshot.as_ref().map_or(0, |mark| mark.index);
        assert!(last.index >= held, "group {group}: entries that the snapshot up to {held} holds would be cut off");
        let gapless = entries.iter().zip(first.index..).all(|(entry, index)| entry.index == index);
        assert!(gapless, "group {group}: the entries from {} have gaps", first.index);
        state.status.removed = false;
        state.append(first.index, last.index, self.segments.current, &mut self.usage);
        self.pending.frame.reserve(bytes);
        record::put_entries(&mut self.pending.frame, group, entries);
        self.pending.is_due = true;
        Ok(())
    }

    /// Writes entries again that lie in old segments, so that those can be deleted. They don't count as backlog, so that
    /// [`Log::append`] goes on to take what it would have taken.
    ///
    /// # Panics
    /// If they are not all entries that the group has ([`Log::held`]).
    pub fn rewrite(&mut self, group: u64, entries: &[Entry]) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        let state = self.groups.entry(group).or_default();
        assert!(
            state.first() == Some(first.index) && state.last() == last.index,
            "group {group}: entries {} to {} are to be written again, and it has {:?} to {}",
            first.index,
            last.index,
            state.first(),
            state.last()
        );
        state.append(first.index, last.index, self.segments.current, &mut self.usage);
        let before = self.pending.bytes();
        record::put_entries(&mut self.pending.frame, group, entries);
        self.pending.rewritten_bytes += self.pending.bytes() - before;
        self.pending.is_due = true;
    }

    /// The first and the last entry that a group has in the log, if it has any.
    pub fn held(&self, group: u64) -> Option<(u64, u64)> {
        let state = self.groups.get(&group)?;
        Some((state.first()?, state.last()))
    }

    /// Has the next batch begin a segment, so that all others can be given back once nothing lives in them. Gives its
    /// number, for [`Log::living_before`].
    pub fn begin_segment(&mut self) -> u64 {
        if self.segments.len > 0 {
            // No segment but the last may have zeros behind its batches: they could be what a crash left of one.
            let (file, len) = (segment_file(self.segments.current), self.segments.len);
            self.lengths.insert(self.segments.current, len);
            self.pending.before.push(Operation::Truncate { file: file.clone(), len });
            self.pending.before.push(Operation::Sync { file });
            self.segments = Segments { current: self.segments.current + 1, len: 0, allocated: 0, ..self.segments };
        }
        self.pending.is_due |= self.segments.oldest < self.segments.current;
        self.segments.current
    }

    /// Sets a group's hard state. A commit index alone does not make a batch leave.
    pub fn hard_state(&mut self, group: u64, state: HardState) {
        let known = !self.groups.get(&group).is_none_or(|group| group.status.removed);
        let status = &mut self.groups.entry(group).or_default().status;
        let old = std::mem::replace(&mut status.hard_state, state);
        status.removed = false;
        if known && old == state {
            return;
        }
        let position = self.pending.hard_states.get(&group).copied();
        let position = record::put_hard_state(&mut self.pending.frame, position, group, state);
        self.pending.hard_states.insert(group, position);
        self.pending.is_due |= !known || (old.term, old.vote) != (state.term, state.vote);
    }

    /// A group's hard state, as it was set last.
    pub fn hard_state_of(&self, group: u64) -> Option<HardState> {
        self.groups.get(&group).map(|group| group.status.hard_state)
    }

    /// Lets a group's entries go up to `up_to`. Nothing happens if they are gone already.
    ///
    /// # Panics
    /// If no marked snapshot holds them: the group's state could not be restored.
    pub fn compact(&mut self, group: u64, up_to: Position) {
        let state = self.groups.entry(group).or_default();
        if up_to.index <= state.status.compacted.index {
            return;
        }
        let held = state.status.snapshot.as_ref().map_or(0, |mark| mark.index);
        assert!(
            up_to.index <= held && up_to.index <= state.last(),
            "group {group}: entries up to {} may not go, the snapshot holds those up to {held}, the log up to {}",
            up_to.index,
            state.last()
        );
        state.compact(up_to, &mut self.usage);
        record::put_compact(&mut self.pending.frame, group, up_to);
    }

    /// Marks a snapshot, whose file must be durable (its writes done). The group's older file is deleted.
    ///
    /// # Panics
    /// If it is older than the one that is marked, or if entries are kept that don't reach it.
    pub fn snapshot(&mut self, group: u64, mark: SnapshotMark, entries: Entries) {
        let state = self.groups.entry(group).or_default();
        let old = state.status.snapshot.as_ref();
        assert!(old.is_none_or(|old| old.index <= mark.index), "group {group}: the snapshot is older than the last");
        let drop = entries == Entries::Drop;
        assert!(
            drop || mark.index <= state.last(),
            "group {group}: the log ends at {}, before the snapshot's {}: its entries have to be dropped",
            state.last(),
            mark.index
        );
        record::put_snapshot(&mut self.pending.frame, group, drop, &mark);
        self.pending.is_due = true;
        state.status.removed = false;
        if drop {
            state.restart(Position { index: mark.index, term: mark.term }, &mut self.usage);
        }
        self.pending.obsolete.remove(&mark.file);
        let file = mark.file.clone();
        let old = state.status.snapshot.replace(mark);
        self.pending.obsolete.extend(old.map(|old| old.file).filter(|old| *old != file));
    }

    /// Removes a group's entries and snapshot; its hard state stays. Any later write to the group takes it back.
    pub fn remove_group(&mut self, group: u64) {
        let state = self.groups.entry(group).or_default();
        state.restart(Position::default(), &mut self.usage);
        state.status.removed = true;
        self.pending.obsolete.extend(state.status.snapshot.take().map(|mark| mark.file));
        // A hard state that is set from now on is a record of its own, since it takes the group back.
        self.pending.hard_states.remove(&group);
        record::put_remove(&mut self.pending.frame, group);
        self.pending.is_due = true;
    }

    /// A writer for a new snapshot of a group that holds all entries up to `index`.
    pub fn snapshot_writer(&mut self, group: u64, index: u64) -> SnapshotWriter {
        self.serial += 1;
        SnapshotWriter::new(group, index, self.serial)
    }

    /// The next batch: everything that was handed in, as one write and one sync. `None` while a batch is under way,
    /// or if there is nothing that must be durable: commit indices and compactions alone wait for a batch that
    /// has more in it, or for [`Log::flush`].
    ///
    /// Why they wait instead of leaving without a sync: only the last batch may then be torn after a crash, which is
    /// what lets recovery tell a torn batch from a corrupt one.
    ///
    /// # Panics
    /// If groups wrote something before [`Log::identify`].
    pub fn take_batch(&mut self) -> Option<Write> {
        match &mut self.state {
            State::Idle { .. } if self.pending.is_due => {
                let Some(identity) = &self.identity else {
                    assert!(self.pending.bytes() == 0, "a log is written only once it is known whose it is");
                    return None;
                };
                let identity = identity.clone();
                Some(self.build(&identity))
            }
            State::Full { write } => {
                let write = write.clone();
                self.state = State::Writing { write: write.clone() };
                Some(write)
            }
            State::Idle { .. } | State::Writing { .. } | State::Poisoned { .. } => None,
        }
    }

    /// Makes everything pending into a batch.
    fn build(&mut self, identity: &Identity) -> Write {
        let State::Idle { next_id: id } = self.state else { unreachable!("one batch at a time") };
        let pending = std::mem::take(&mut self.pending);
        let mut frame = pending.frame;
        let (segment, start) = (self.segments.current, self.segments.len as usize);
        let begins = start == 0;
        if begins {
            let groups = self.groups.iter().map(|(&group, state)| (group, &state.status));
            record::put_checkpoint(&mut frame, groups);
        }
        frame.push(0);
        let deleted = self.segments.oldest..self.usage.oldest().map_or(segment, |oldest| oldest.min(segment));
        self.segments.oldest = deleted.end;
        self.lengths = self.lengths.split_off(&deleted.end);
        let segment_identity = SegmentIdentity::new(identity, segment);
        let offset = if begins { SEGMENT_HEADER_BYTES } else { start };
        seal(&mut frame[SEGMENT_HEADER_BYTES..], segment_identity, offset, self.sequence, self.segments.oldest);
        if begins {
            let (cluster, server) = (identity.cluster, identity.server.0);
            let sequence = self.sequence;
            let header = SegmentHeader { cluster, server, segment, sequence, is_witnessed: true };
            frame[..SEGMENT_HEADER_BYTES].copy_from_slice(&header.encode());
        }
        let bytes = Bytes::from(frame).slice(if begins { 0 } else { SEGMENT_HEADER_BYTES }..);
        let witness = Witness { segment, sequence: self.sequence };
        self.sequence += 1;
        let allocated = self.segments.grow(bytes.len() as u64, &self.config);
        self.lengths.insert(segment, self.segments.len.max(self.segments.allocated));
        if self.segments.len >= self.config.segment_bytes {
            self.segments = Segments { current: segment + 1, len: 0, allocated: 0, ..self.segments };
        }
        let file = segment_file(segment);
        let mut operations = pending.before;
        operations.push(Operation::WriteAt { file: file.clone(), offset: start as u64, bytes });
        operations.extend(allocated.map(|len| Operation::Allocate { file: file.clone(), len }));
        operations.push(Operation::Sync { file });
        operations.push(witness.note(identity));
        let deleted = deleted.map(segment_file).chain(pending.obsolete);
        operations.extend(deleted.map(|file| Operation::Delete { file }));
        let write = Write { id, lane: Lane::Log, operations };
        self.state = State::Writing { write: write.clone() };
        write
    }

    /// Makes the next batch leave even if it holds only what could wait (before a clean end).
    pub fn flush(&mut self) {
        self.pending.is_due |= self.pending.bytes() > 0;
    }

    /// The batch is durable.
    ///
    /// # Panics
    /// If it is not under way.
    pub fn done(&mut self, id: u64) {
        match &self.state {
            State::Writing { write } if write.id == id => self.state = State::Idle { next_id: id + 1 },
            _ => panic!("batch {id} is not under way"),
        }
        self.is_ready = true;
        self.witness.noted += 1;
    }

    /// Makes durable what the witness says of the batches that are done, if it is not yet: one small operation for the
    /// snapshot lane, beside the log. Whatever comes of it, nothing waits for it.
    pub fn sync_witness(&mut self) -> Option<Operation> {
        let is_due = self.witness.noted > self.witness.synced;
        self.witness.synced = self.witness.noted;
        is_due.then(|| Operation::Sync { file: Witness::file() })
    }

    /// The batch failed. After [`DiskError::Full`] the next [`Log::take_batch`] gives the same batch again: its
    /// operations may be repeated, since each names the place that it writes. When to ask for it is the caller's
    /// decision.
    ///
    /// Everything else poisons the log: after a sync that failed, the kernel may have marked the pages clean and
    /// dropped them, so that a second sync succeeds without their content. See Rebello and others, "Can Applications
    /// Recover from fsync Failures?", USENIX ATC 2020, and `PostgreSQL`'s account, "fsyncgate", 2018.
    ///
    /// # Errors
    /// [`Error::Poisoned`]: stop the server.
    ///
    /// # Panics
    /// If it is not under way.
    pub fn failed(&mut self, id: u64, error: DiskError) -> Result<(), Error> {
        let writing = std::mem::replace(&mut self.state, State::Poisoned { error: error.to_string() });
        match (writing, error) {
            (State::Writing { write }, DiskError::Full) if write.id == id => {
                self.state = State::Full { write };
                Ok(())
            }
            (State::Writing { write }, DiskError::Failed(error)) if write.id == id => {
                Err(Error::Poisoned { server: self.server(), error })
            }
            _ => panic!("batch {id} is not under way"),
        }
    }

    fn server(&self) -> ServerId {
        self.identity.as_ref().map_or(ServerId(0), |identity| identity.server)
    }

    /// Why nothing is written any more.
    ///
    /// # Errors
    /// [`Error::Poisoned`] once a write has failed for good.
    pub fn health(&self) -> Result<(), Error> {
        match &self.state {
            State::Poisoned { error } => Err(Error::Poisoned { server: self.server(), error: error.clone() }),
            _ => Ok(()),
        }
    }

    /// Whether the last batch found no space and waits to be taken again.
    pub fn is_full(&self) -> bool {
        matches!(self.state, State::Full { .. })
    }

    /// Whether the first batch after recovery is durable, so that the server may speak.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Bytes that wait for the next batch.
    pub fn backlog_bytes(&self) -> usize {
        self.pending.backlog_bytes()
    }

    /// Segments on the disk, the one that the next batch goes to included.
    pub fn segments(&self) -> usize {
        (self.segments.current - self.segments.oldest) as usize + 1
    }

    /// Bytes that all segments take on the disk, zeros that were written ahead included.
    pub fn bytes(&self) -> u64 {
        self.lengths.values().sum()
    }

    /// The oldest segment that is needed.
    pub fn oldest_segment(&self) -> u64 {
        self.segments.oldest
    }

    /// The groups that have entries in segments before this one, and in segments that are not written any more: as long as
    /// they do, those stay on the disk.
    pub fn living_before(&self, segment: u64) -> Vec<u64> {
        let lives = |group: &u64| self.lives_before(*group, segment);
        self.groups.keys().copied().filter(lives).collect()
    }

    /// Whether a group is one of [`Log::living_before`].
    pub fn lives_before(&self, group: u64, segment: u64) -> bool {
        let oldest = self.groups.get(&group).and_then(Group::oldest_segment);
        oldest.is_some_and(|oldest| oldest < segment.min(self.segments.current))
    }

    /// The last entry that a group's marked snapshot holds; 0 if it has none.
    pub fn marked(&self, group: u64) -> u64 {
        let mark = self.groups.get(&group).and_then(|state| state.status.snapshot.as_ref());
        mark.map_or(0, |mark| mark.index)
    }
}
