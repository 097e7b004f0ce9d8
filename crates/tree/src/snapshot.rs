//! A whole state in chunks of bytes.
//!
//! The pieces of a snapshot, each one postcard value:
//!
//! ```text
//! Header { magic, format, revision, counts }   Content { values, sessions } ...   Marks   Leases ...   Full   Protocol   End { pieces }
//! ```
//!
//! Leases are there only if the state has some, as servers of protocol version 1 don't know them; `Full` only if it is, as those of version 2
//! don't; `Protocol` only if the log has said it, as those of version 3 don't.
//!
//! The reader holds a clone of the state, which stays as it was. Checksums are the caller's, who also frames the pieces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::state::MAX_REVISION;
use crate::transaction::MAX_VALUE_BYTES;
use crate::{
    Cursor, Entry, Import, LeaseId, LeaseRecord, Mark, Path, SessionId, SessionRecord, Staged, State, TreeError,
};

/// The newest format of snapshots, and the one that is written.
pub const SNAPSHOT_FORMAT: u32 = 1;
/// The first bytes of a snapshot's content.
const MAGIC: [u8; 4] = *b"HTRE";

#[derive(Serialize, Deserialize)]
enum Piece {
    Header(Header),
    Content { entries: Vec<Entry>, sessions: Vec<SessionRecord> },
    Marks(Marks),
    End { pieces: u64 },
    Leases(Vec<LeaseRecord>),
    Staged { prefix: Path, move_id: u64, leases: Vec<LeaseRecord> },
    Full,
    Protocol(u32),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Header {
    magic: [u8; 4],
    format: u32,
    revision: u64,
    values: u64,
}

#[derive(Serialize, Deserialize)]
struct Marks {
    moved: BTreeMap<Path, Mark>,
    frozen: BTreeMap<Path, Mark>,
    imports: BTreeMap<Path, Import>,
    completed: BTreeMap<Path, u64>,
}

/// What a [`SnapshotReader`] gives next.
#[derive(Debug)]
enum Next {
    Header,
    Content(Option<Cursor>),
    Marks,
    Leases(Option<LeaseId>),
    /// Behind this prefix and, of it, this lease.
    Staged(Option<(Path, LeaseId)>),
    Full,
    Protocol,
    End,
    Nothing,
}

/// Gives a state as pieces of bytes.
#[derive(Debug)]
pub struct SnapshotReader {
    state: State,
    next: Next,
    pieces: u64,
}

impl State {
    /// A snapshot of the state as it is now. Takes no time; the state may change on.
    pub fn snapshot(&self) -> SnapshotReader {
        SnapshotReader { state: self.clone(), next: Next::Header, pieces: 0 }
    }
}

impl SnapshotReader {
    /// The next piece, of about `limit_bytes` or one item more; none behind the last.
    #[allow(clippy::should_implement_trait)] // An iterator takes no limit.
    pub fn next(&mut self, limit_bytes: usize) -> Option<Vec<u8>> {
        let (piece, next) = match core::mem::replace(&mut self.next, Next::Nothing) {
            Next::Header => {
                let (revision, values) = (self.state.tree.revision(), self.state.tree.len() as u64);
                let header = Header { magic: MAGIC, format: SNAPSHOT_FORMAT, revision, values };
                (Piece::Header(header), Next::Content(None))
            }
            Next::Content(after) => {
                let chunk = self.state.whole(after.as_ref(), limit_bytes);
                let next = match chunk.next {
                    Some(cursor) => Next::Content(Some(cursor)),
                    None => Next::Marks,
                };
                (Piece::Content { entries: chunk.entries, sessions: chunk.sessions }, next)
            }
            Next::Marks => {
                let State { moved, frozen, imports, completed, .. } = self.state.clone();
                (Piece::Marks(Marks { moved, frozen, imports, completed }), self.first_leases())
            }
            Next::Leases(after) => {
                let (leases, last) = up_to(self.state.leases.records(after), limit_bytes);
                (Piece::Leases(leases), self.leases_after(last))
            }
            Next::Staged(after) => self.staged(after.as_ref(), limit_bytes),
            Next::Full => (Piece::Full, self.protocol()),
            Next::Protocol => (Piece::Protocol(self.state.protocol), Next::End),
            Next::End => (Piece::End { pieces: self.pieces }, Next::Nothing),
            Next::Nothing => return None,
        };
        self.next = next;
        self.pieces += 1;
        Some(postcard::to_stdvec(&piece).expect("a piece consists of what postcard can write"))
    }

    fn first_leases(&self) -> Next {
        if self.state.leases.is_empty() { self.first_staged() } else { Next::Leases(None) }
    }

    fn leases_after(&self, last: Option<LeaseId>) -> Next {
        match last {
            Some(last) if self.state.leases.records(Some(last)).next().is_some() => Next::Leases(Some(last)),
            _ => self.first_staged(),
        }
    }

    fn first_staged(&self) -> Next {
        if self.state.staged.is_empty() { self.last() } else { Next::Staged(None) }
    }

    fn last(&self) -> Next {
        if self.state.is_full { Next::Full } else { self.protocol() }
    }

    fn protocol(&self) -> Next {
        if self.state.protocol > 0 { Next::Protocol } else { Next::End }
    }

    /// Leases of one prefix that is arriving.
    fn staged(&self, after: Option<&(Path, LeaseId)>, limit_bytes: usize) -> (Piece, Next) {
        use core::ops::Bound::{Excluded, Unbounded};
        let behind = |at: Option<&Path>| {
            let bound = at.map_or(Unbounded, Excluded);
            self.state.staged.range::<Path, _>((bound, Unbounded)).next()
        };
        let of = |(prefix, staged): (&Path, &Staged), after: Option<LeaseId>| {
            let records = staged.leases.range((after.map_or(Unbounded, Excluded), Unbounded));
            let (leases, last) = up_to(records.map(|(_, record)| record.clone()), limit_bytes);
            let next = match last {
                Some(last) if staged.leases.range((Excluded(last), Unbounded)).next().is_some() => {
                    Next::Staged(Some((prefix.clone(), last)))
                }
                _ => match behind(Some(prefix)) {
                    // No lease has the number 0: all of the next prefix come behind it.
                    Some((next, _)) => Next::Staged(Some((next.clone(), LeaseId(0)))),
                    None => self.last(),
                },
            };
            (Piece::Staged { prefix: prefix.clone(), move_id: staged.move_id, leases }, next)
        };
        match after {
            Some((prefix, last)) => of((prefix, &self.state.staged[prefix]), Some(*last)),
            None => of(behind(None).expect("there are some"), None),
        }
    }
}

/// Records up to the one that brings them to so many bytes, and the last one's number.
fn up_to(records: impl Iterator<Item = LeaseRecord>, limit_bytes: usize) -> (Vec<LeaseRecord>, Option<LeaseId>) {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    for record in records {
        bytes += record.weight();
        taken.push(record);
        if bytes >= limit_bytes {
            break;
        }
    }
    let last = taken.last().map(|record| record.id);
    (taken, last)
}

/// Makes a state of a snapshot's pieces. Nobody sees it before it is complete.
#[derive(Debug, Default)]
pub struct SnapshotBuilder {
    state: State,
    header: Option<Header>,
    pieces: u64,
    has_marks: bool,
    is_complete: bool,
    last_value: Option<crate::Location>,
    last_session: Option<SessionId>,
}

impl SnapshotBuilder {
    /// A builder without pieces.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// [`TreeError`] if the bytes are no piece, of a newer format, or do not fit what came before. The builder is of no
    /// further use then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), TreeError> {
        let error = |reason: String| TreeError::Piece { piece: self.pieces, reason };
        let piece = match postcard::take_from_bytes::<Piece>(bytes) {
            Ok((piece, [])) => piece,
            Ok((_, rest)) => return Err(error(format!("{} bytes are left over", rest.len()))),
            Err(reason) => return Err(error(reason.to_string())),
        };
        if self.is_complete {
            return self.inconsistent("it comes after the last piece");
        }
        match (piece, self.header) {
            (Piece::Header(header), None) => self.header(header)?,
            (Piece::Header(_), Some(_)) => return self.inconsistent("it is a second header"),
            (_, None) => return self.inconsistent("there was no header before it"),
            (Piece::Content { entries, sessions }, Some(header)) => self.content(&entries, sessions, header)?,
            (Piece::Marks(marks), Some(_)) => self.marks(marks)?,
            (Piece::Leases(leases), Some(_)) => self.leases(leases)?,
            (Piece::Staged { prefix, move_id, leases }, Some(_)) => self.staged(prefix, move_id, leases)?,
            (Piece::Full, Some(_)) => self.state.is_full = true,
            (Piece::Protocol(version), Some(_)) => self.state.protocol = version,
            (Piece::End { pieces }, Some(header)) => {
                if pieces != self.pieces || !self.has_marks || self.state.tree.len() as u64 != header.values {
                    return self.inconsistent("it ends the snapshot, but not all was there");
                }
                self.is_complete = true;
            }
        }
        self.pieces += 1;
        Ok(())
    }

    /// The state, if all pieces were there.
    ///
    /// # Errors
    /// [`TreeError::Incomplete`] if the last piece is missing.
    pub fn finish(self) -> Result<State, TreeError> {
        if self.is_complete { Ok(self.state) } else { Err(TreeError::Incomplete { pieces: self.pieces }) }
    }

    fn header(&mut self, header: Header) -> Result<(), TreeError> {
        if header.magic != MAGIC {
            return self.inconsistent("it does not begin as a snapshot does");
        }
        if header.format != SNAPSHOT_FORMAT {
            return Err(TreeError::SnapshotFormat { found: header.format, expected: SNAPSHOT_FORMAT });
        }
        if header.revision > MAX_REVISION {
            return self.inconsistent("its revision cannot be");
        }
        self.state.tree.raise(header.revision);
        self.header = Some(header);
        Ok(())
    }

    fn content(&mut self, entries: &[Entry], sessions: Vec<SessionRecord>, header: Header) -> Result<(), TreeError> {
        for entry in entries {
            if self.last_value.as_ref().is_some_and(|last| *last >= entry.at) {
                return self.inconsistent("its values are out of order");
            }
            if entry.value.etag > header.revision || entry.value.bytes.len() > MAX_VALUE_BYTES {
                return self.inconsistent("a value of it cannot be");
            }
            self.last_value = Some(entry.at.clone());
        }
        self.state.tree.import(entries);
        for record in sessions {
            if self.last_session.is_some_and(|last| last >= record.id) {
                return self.inconsistent("its sessions are out of order");
            }
            self.last_session = Some(record.id);
            self.state.sessions.restore(record);
        }
        Ok(())
    }

    fn marks(&mut self, marks: Marks) -> Result<(), TreeError> {
        if self.has_marks {
            return self.inconsistent("it is a second one of marks");
        }
        self.has_marks = true;
        let Marks { moved, frozen, imports, completed } = marks;
        self.state = State { moved, frozen, imports, completed, ..core::mem::take(&mut self.state) };
        Ok(())
    }

    fn leases(&mut self, leases: Vec<LeaseRecord>) -> Result<(), TreeError> {
        for record in leases {
            let tree = &self.state.tree;
            if !record.is_sound() || !self.state.leases.restore(record, |at| tree.get(at).is_some()) {
                return self.inconsistent("a lease of it cannot be");
            }
        }
        Ok(())
    }

    fn staged(&mut self, prefix: Path, move_id: u64, leases: Vec<LeaseRecord>) -> Result<(), TreeError> {
        let staged = self.state.staged.entry(prefix).or_insert_with(|| Staged { move_id, leases: BTreeMap::new() });
        if staged.move_id != move_id || !leases.iter().all(LeaseRecord::is_sound) {
            return self.inconsistent("an arriving lease of it cannot be");
        }
        staged.leases.extend(leases.into_iter().map(|record| (record.id, record)));
        Ok(())
    }

    fn inconsistent<T>(&self, reason: &'static str) -> Result<T, TreeError> {
        Err(TreeError::Inconsistent { piece: self.pieces, reason })
    }
}
