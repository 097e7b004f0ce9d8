//! The records of a batch.
//!
//! ```text
//! entries     1 group first-index count term { term-difference kind context data } x count
//! hard state  2 group term vote commit                       (each 8 bytes, so that a newer one overwrites it)
//! compact     3 group index term
//! snapshot    4 group drop index term meta file bytes checksum
//! remove      5 group
//! checkpoint  6 count { group removed term vote commit index term has-snapshot [as in snapshot] } x count
//! ```
//!
//! Numbers are LEB128 but for the hard state's; byte strings carry their length. An entry costs 4 bytes beyond its
//! context and data if the data is shorter than 128 bytes, and 5 if it is shorter than 16 KiB.

use bytes::Bytes;

use crate::codec::{Malformed, Reader, put_bytes, put_varint};
use crate::{Entry, FileName, HardState, Position, SnapshotMark};

const ENTRIES: u8 = 1;
const HARD_STATE: u8 = 2;
const COMPACT: u8 = 3;
const SNAPSHOT: u8 = 4;
const REMOVE: u8 = 5;
const CHECKPOINT: u8 = 6;

/// What a checkpoint says of a group: all but its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) hard_state: HardState,
    pub(crate) removed: bool,
    pub(crate) compacted: Position,
    pub(crate) snapshot: Option<SnapshotMark>,
}

/// One record, as it is read.
#[derive(Clone, Debug)]
pub(crate) enum Record<'a> {
    Entries { group: u64, entries: EntriesReader<'a> },
    HardState { group: u64, state: HardState },
    Compact { group: u64, up_to: Position },
    Snapshot { group: u64, drop: bool, mark: SnapshotMark },
    Remove { group: u64 },
    Checkpoint(Vec<(u64, Status)>),
}

pub(crate) fn put_entries(out: &mut Vec<u8>, group: u64, entries: &[Entry]) {
    let [first, ..] = entries else { return };
    out.push(ENTRIES);
    put_varint(out, group);
    put_varint(out, first.index);
    put_varint(out, entries.len() as u64);
    put_varint(out, first.term);
    let mut term = first.term;
    for entry in entries {
        put_varint(out, entry.term.wrapping_sub(term));
        term = entry.term;
        out.push(entry.kind);
        put_bytes(out, &entry.context);
        put_bytes(out, &entry.data);
    }
}

/// Most that [`put_entries`] can add for these, in bytes.
pub(crate) fn entries_bytes_max(entries: &[Entry]) -> usize {
    let content: usize = entries.iter().map(|entry| entry.context.len() + entry.data.len()).sum();
    41 + 31 * entries.len() + content
}

/// Adds a hard state, or overwrites the one at `place`. Gives the place.
pub(crate) fn put_hard_state(out: &mut Vec<u8>, place: Option<usize>, group: u64, state: HardState) -> usize {
    let mut record = [HARD_STATE; 33];
    for (to, value) in record[1..].chunks_exact_mut(8).zip([group, state.term, state.vote, state.commit]) {
        to.copy_from_slice(&value.to_le_bytes());
    }
    let Some(place) = place else {
        out.extend_from_slice(&record);
        return out.len() - record.len();
    };
    out[place..place + record.len()].copy_from_slice(&record);
    place
}

pub(crate) fn put_compact(out: &mut Vec<u8>, group: u64, up_to: Position) {
    out.push(COMPACT);
    for value in [group, up_to.index, up_to.term] {
        put_varint(out, value);
    }
}

pub(crate) fn put_snapshot(out: &mut Vec<u8>, group: u64, drop: bool, mark: &SnapshotMark) {
    out.push(SNAPSHOT);
    put_varint(out, group);
    out.push(drop.into());
    put_mark(out, mark);
}

pub(crate) fn put_remove(out: &mut Vec<u8>, group: u64) {
    out.push(REMOVE);
    put_varint(out, group);
}

/// `groups` has to give as many as it says.
pub(crate) fn put_checkpoint<'a>(out: &mut Vec<u8>, groups: impl ExactSizeIterator<Item = (u64, &'a Status)>) {
    out.push(CHECKPOINT);
    put_varint(out, groups.len() as u64);
    for (group, status) in groups {
        put_varint(out, group);
        out.push(status.removed.into());
        let HardState { term, vote, commit } = status.hard_state;
        for value in [term, vote, commit, status.compacted.index, status.compacted.term] {
            put_varint(out, value);
        }
        out.push(status.snapshot.is_some().into());
        if let Some(mark) = &status.snapshot {
            put_mark(out, mark);
        }
    }
}

fn put_mark(out: &mut Vec<u8>, mark: &SnapshotMark) {
    put_varint(out, mark.index);
    put_varint(out, mark.term);
    put_bytes(out, &mark.meta);
    put_bytes(out, mark.file.as_str().as_bytes());
    put_varint(out, mark.bytes);
    out.extend_from_slice(&mark.checksum.to_le_bytes());
}

/// Takes the next record of a batch.
pub(crate) fn read<'a>(reader: &mut Reader<'a>) -> Result<Record<'a>, Malformed> {
    Ok(match reader.u8()? {
        ENTRIES => {
            let group = reader.varint()?;
            Record::Entries { group, entries: EntriesReader::read(reader)? }
        }
        HARD_STATE => {
            let group = reader.u64()?;
            let state = HardState { term: reader.u64()?, vote: reader.u64()?, commit: reader.u64()? };
            Record::HardState { group, state }
        }
        COMPACT => Record::Compact { group: reader.varint()?, up_to: read_position(reader)? },
        SNAPSHOT => Record::Snapshot { group: reader.varint()?, drop: read_flag(reader)?, mark: read_mark(reader)? },
        REMOVE => Record::Remove { group: reader.varint()? },
        CHECKPOINT => {
            let count = reader.varint()?;
            Record::Checkpoint((0..count).map(|_| read_status(reader)).collect::<Result<_, _>>()?)
        }
        _ => return Err("a record of an unknown kind"),
    })
}

fn read_flag(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err("a flag that is neither 0 nor 1"),
    }
}

fn read_position(reader: &mut Reader<'_>) -> Result<Position, Malformed> {
    Ok(Position { index: reader.varint()?, term: reader.varint()? })
}

fn read_status(reader: &mut Reader<'_>) -> Result<(u64, Status), Malformed> {
    let group = reader.varint()?;
    let removed = read_flag(reader)?;
    let hard_state = HardState { term: reader.varint()?, vote: reader.varint()?, commit: reader.varint()? };
    let compacted = read_position(reader)?;
    let snapshot = if read_flag(reader)? { Some(read_mark(reader)?) } else { None };
    Ok((group, Status { hard_state, removed, compacted, snapshot }))
}

fn read_mark(reader: &mut Reader<'_>) -> Result<SnapshotMark, Malformed> {
    let Position { index, term } = read_position(reader)?;
    let meta = Bytes::copy_from_slice(reader.bytes()?);
    let file = str::from_utf8(reader.bytes()?).map_err(|_| "a file name that is not text")?;
    let file = FileName::new(file).map_err(|_| "a file name that is not allowed")?;
    Ok(SnapshotMark { index, term, meta, file, bytes: reader.varint()?, checksum: reader.u32()? })
}

/// An entry's term less the one before it, its kind, context and data.
type Fields<'a> = (u64, u8, &'a [u8], &'a [u8]);

/// The entries of one record, which has been read to its end once: iterating can't fail.
#[derive(Clone, Debug)]
pub(crate) struct EntriesReader<'a> {
    reader: Reader<'a>,
    pub(crate) first: u64,
    pub(crate) count: u64,
    term: u64,
}

impl<'a> EntriesReader<'a> {
    /// Checks all entries and moves `reader` behind them.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (first, count, term) = (reader.varint()?, reader.varint()?, reader.varint()?);
        if first == 0 || count == 0 || first.checked_add(count).is_none() {
            return Err("an impossible range of entries");
        }
        let entries = Self { reader: *reader, first, count, term };
        for _ in 0..count {
            Self::read_entry(reader)?;
        }
        Ok(entries)
    }

    fn read_entry(reader: &mut Reader<'a>) -> Result<Fields<'a>, Malformed> {
        Ok((reader.varint()?, reader.u8()?, reader.bytes()?, reader.bytes()?))
    }
}

impl Iterator for EntriesReader<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if self.count == 0 {
            return None;
        }
        let (difference, kind, context, data) = Self::read_entry(&mut self.reader).expect("checked when it was read");
        let index = self.first;
        self.term = self.term.wrapping_add(difference);
        self.first += 1;
        self.count -= 1;
        let (context, data) = (Bytes::copy_from_slice(context), Bytes::copy_from_slice(data));
        Some(Entry { index, term: self.term, kind, context, data })
    }
}
