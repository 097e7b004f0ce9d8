//! What a group keeps in the log.

use bytes::Bytes;

use crate::FileName;

/// One entry of a group's log. Only `index` and `term` mean something here; the rest is the caller's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its place, from 1, without gaps.
    pub index: u64,
    /// The term of the leader that made it.
    pub term: u64,
    /// What `data` is.
    pub kind: u8,
    /// The caller's note to `data`.
    pub context: Bytes,
    /// The command that the entry holds.
    pub data: Bytes,
}

/// What a Raft server must not forget, by group: Ongaro and Ousterhout, "In Search of an Understandable Consensus
/// Algorithm", figure 2, "persistent state".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// The newest term that was seen.
    pub term: u64,
    /// The server that it voted for in that term; 0 is none.
    pub vote: u64,
    /// The last entry known to be committed. A hint: it may be older after a crash than it was before.
    pub commit: u64,
}

/// A place in a group's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Index of the entry; 0 is before the first.
    pub index: u64,
    /// The term of the entry.
    pub term: u64,
}

/// A snapshot that is complete and durable on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMark {
    /// The last entry that it contains.
    pub index: u64,
    /// That entry's term.
    pub term: u64,
    /// The caller's description of it (in Raft: the members at that index).
    pub meta: Bytes,
    /// The file, as [`SnapshotWriter::finish`](crate::SnapshotWriter::finish) told.
    pub file: FileName,
    /// The file's length.
    pub bytes: u64,
    /// CRC-32 of the whole file.
    pub checksum: u32,
}

/// What happens to a group's entries when a snapshot is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// They stay, for followers that are behind; [`Log::compact`](crate::Log::compact) lets them go later. For a
    /// snapshot that this server made.
    Keep,
    /// All go; the log goes on after the snapshot. For a snapshot that came from the leader.
    Drop,
}

/// What recovery found of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredGroup {
    /// Term, vote and commit index.
    pub hard_state: HardState,
    /// The group was removed from this server. Its hard state stays, so that a replica that is added again never
    /// votes twice in a term; everything else is gone.
    pub removed: bool,
    /// The last entry before the first one that is kept. The default if none was let go.
    pub compacted: Position,
    /// The newest snapshot. Its index is at least `compacted.index`.
    pub snapshot: Option<SnapshotMark>,
    /// The entries from `first_index` on, without gaps.
    pub entries: Vec<Entry>,
}

impl RecoveredGroup {
    /// Index of the first entry that is kept, or that will be written next if none is.
    pub fn first_index(&self) -> u64 {
        self.compacted.index + 1
    }

    /// Index of the last entry, or of the one before the first if there is none.
    pub fn last_index(&self) -> u64 {
        self.compacted.index + self.entries.len() as u64
    }
}
