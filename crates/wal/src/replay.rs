//! What the records of the segments say, one after another.

use std::collections::{BTreeMap, VecDeque};

use crate::codec::{Malformed, Reader};
use crate::group::{Group, Usage};
use crate::record::{EntriesReader, Record, Status, read};
use crate::{Entry, Error, FileName, Position, RecoveredGroup, SnapshotMark};

/// A group while its records come in. The oldest segment may begin in the midst of a group's entries, whose first ones
/// were let go later: so there may be a gap before the entries until all is replayed.
#[derive(Debug, Default)]
struct Replayed {
    group: Group,
    entries: VecDeque<Entry>,
}

/// The writer's view of the groups, how many runs lie in which segment, and the caller's view of the groups.
type Finished = (BTreeMap<u64, Group>, Usage, BTreeMap<u64, RecoveredGroup>);

/// All groups while the records come in.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    groups: BTreeMap<u64, Replayed>,
    usage: Usage,
}

impl Replay {
    /// Takes the records of one batch. `begins`: whether it is the first of its segment, and whether that is the
    /// oldest.
    pub(crate) fn batch(&mut self, segment: u64, begins: (bool, bool), body: &[u8]) -> Result<(), Malformed> {
        let mut reader = Reader::new(body);
        let mut has_checkpoint = false;
        while !reader.is_empty() {
            if has_checkpoint {
                return Err("a record behind the checkpoint");
            }
            match read(&mut reader)? {
                Record::Checkpoint(groups) => {
                    has_checkpoint = true;
                    match begins {
                        (true, true) => self.start_from(groups)?,
                        (true, false) => self.compare(&groups)?,
                        (false, _) => return Err("a checkpoint in the midst of a segment"),
                    }
                }
                record => self.record(segment, record)?,
            }
        }
        if begins.0 && !has_checkpoint { Err("a segment that begins without a checkpoint") } else { Ok(()) }
    }

    fn group(&mut self, group: u64) -> (&mut Replayed, &mut Usage) {
        (self.groups.entry(group).or_default(), &mut self.usage)
    }

    fn record(&mut self, segment: u64, record: Record<'_>) -> Result<(), Malformed> {
        match record {
            Record::Entries { group, entries } => {
                let (group, usage) = self.group(group);
                group.append(segment, entries, usage)
            }
            Record::HardState { group, state } => {
                let status = &mut self.group(group).0.group.status;
                status.hard_state = state;
                status.removed = false;
                Ok(())
            }
            Record::Compact { group, up_to } => {
                let (group, usage) = self.group(group);
                group.compact(up_to, usage)
            }
            Record::Snapshot { group, drop, mark } => {
                let (group, usage) = self.group(group);
                group.snapshot(drop, mark, usage)
            }
            Record::Remove { group } => {
                let (group, usage) = self.group(group);
                group.restart(Position::default(), usage);
                group.group.status.snapshot = None;
                group.group.status.removed = true;
                Ok(())
            }
            Record::Checkpoint(_) => unreachable!("taken before"),
        }
    }

    /// Takes the state of all groups from the oldest checkpoint: what came before it is in segments that are gone.
    fn start_from(&mut self, groups: Vec<(u64, Status)>) -> Result<(), Malformed> {
        for (group, status) in groups {
            let (group, usage) = self.group(group);
            group.compact(status.compacted, usage)?;
            group.group.status = status;
        }
        Ok(())
    }

    /// A later checkpoint repeats what was replayed.
    fn compare(&self, groups: &[(u64, Status)]) -> Result<(), Malformed> {
        let replayed = self.groups.iter().map(|(&group, replayed)| (group, &replayed.group.status));
        let same = replayed.eq(groups.iter().map(|(group, status)| (*group, status)));
        if same { Ok(()) } else { Err("a checkpoint that differs from the records before it") }
    }

    /// Checks that each group is whole; gives the first that isn't.
    pub(crate) fn check(&self) -> Result<(), (u64, Malformed)> {
        for (&group, Replayed { group: replayed, .. }) in &self.groups {
            let Status { compacted, snapshot, removed, .. } = &replayed.status;
            let held = snapshot.as_ref().map_or(0, |mark| mark.index);
            if replayed.first().is_some_and(|first| first != compacted.index + 1) {
                return Err((group, "a gap before its first entry"));
            }
            if held < compacted.index || replayed.last() < held {
                return Err((group, "a snapshot that doesn't meet its entries"));
            }
            if *removed && (replayed.first().is_some() || snapshot.is_some()) {
                return Err((group, "content, though it was removed"));
            }
        }
        Ok(())
    }

    /// Checks that the marked snapshots are there in their length.
    pub(crate) fn check_snapshots(&self, files: &BTreeMap<FileName, u64>) -> Result<(), Error> {
        for (group, replayed) in &self.groups {
            let Some(mark) = &replayed.group.status.snapshot else { continue };
            match files.get(&mark.file) {
                Some(&bytes) if bytes == mark.bytes => {}
                Some(bytes) => {
                    return Err(Error::Corrupt {
                        file: mark.file.clone(),
                        offset: mark.bytes.min(*bytes),
                        expected: format!("group {group}'s snapshot of {} bytes", mark.bytes),
                        found: format!("{bytes} bytes"),
                    });
                }
                None => {
                    let why = format!("it is the snapshot of group {group} up to entry {}", mark.index);
                    return Err(Error::Missing { file: mark.file.clone(), why });
                }
            }
        }
        Ok(())
    }

    /// Whether a group's snapshot is in this file.
    pub(crate) fn is_marked(&self, file: &FileName) -> bool {
        let marks = self.groups.values().filter_map(|replayed| replayed.group.status.snapshot.as_ref());
        marks.into_iter().any(|mark| mark.file == *file)
    }

    /// What the writer goes on with, and what the caller gets.
    pub(crate) fn finish(self) -> Finished {
        let mut groups = BTreeMap::new();
        let mut recovered = BTreeMap::new();
        for (number, Replayed { group, entries }) in self.groups {
            let Status { hard_state, removed, compacted, snapshot } = group.status.clone();
            let entries = entries.into();
            recovered.insert(number, RecoveredGroup { hard_state, removed, compacted, snapshot, entries });
            groups.insert(number, group);
        }
        (groups, self.usage, recovered)
    }
}

impl Replayed {
    fn append(&mut self, segment: u64, entries: EntriesReader<'_>, usage: &mut Usage) -> Result<(), Malformed> {
        let (first, last) = (entries.first, entries.first + (entries.count - 1));
        if first <= self.group.status.compacted.index {
            return Err("entries where others were let go");
        }
        if self.group.first().is_some() && first > self.group.last() + 1 {
            return Err("entries behind a gap");
        }
        let kept = self.entries.front().map_or(0, |front| first.saturating_sub(front.index));
        self.entries.truncate(kept as usize);
        self.entries.extend(entries);
        self.group.append(first, last, segment, usage);
        self.group.status.removed = false;
        Ok(())
    }

    fn compact(&mut self, up_to: Position, usage: &mut Usage) -> Result<(), Malformed> {
        if up_to.index < self.group.status.compacted.index {
            return Err("a compaction that goes back");
        }
        if up_to.index == u64::MAX {
            return Err("a compaction that leaves no room for entries");
        }
        let gone = self.entries.front().map_or(0, |front| (up_to.index + 1).saturating_sub(front.index));
        self.entries.drain(..(gone as usize).min(self.entries.len()));
        self.group.compact(up_to, usage);
        Ok(())
    }

    fn snapshot(&mut self, drop: bool, mark: SnapshotMark, usage: &mut Usage) -> Result<(), Malformed> {
        if mark.index == u64::MAX {
            return Err("a snapshot that leaves no room for entries");
        }
        if drop {
            self.restart(Position { index: mark.index, term: mark.term }, usage);
        }
        self.group.status.removed = false;
        self.group.status.snapshot = Some(mark);
        Ok(())
    }

    fn restart(&mut self, position: Position, usage: &mut Usage) {
        self.entries.clear();
        self.group.restart(position, usage);
    }
}
