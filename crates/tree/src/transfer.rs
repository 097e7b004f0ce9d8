//! The content of a prefix on its way to another shard, in chunks.
//!
//! ```text
//! from shard S                                             to shard T
//! Freeze{prefix}                 nobody writes any more
//! export(None) -> chunk 0        ----------------------->  Import{number: 0}
//! export(chunk 0's next) -> ...  ----------------------->  Import{number: 1} ... Import{last}
//!                                routes lead to T
//! Dropped{prefix, to: T}
//! ```
//!
//! Chunks carry entity tags and S's revision, so that T never gives a tag that S gave; and S's sessions, so that a write
//! that was done at S is not done at T again.

use serde::{Deserialize, Serialize};

use crate::entry::ENTRY_BYTES;
use crate::{Datastore, Entry, Location, Path, SessionId, SessionRecord, State};

/// What an outcome is taken to cost in a chunk.
const OUTCOME_BYTES: usize = 24;

/// How far an export or a snapshot has come: behind which item it goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cursor {
    /// Behind this value.
    Value(Location),
    /// Values are done; behind this session.
    Session(SessionId),
}

/// A part of a prefix's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Values, by datastore and path.
    pub entries: Vec<Entry>,
    /// Sessions, by id. They come behind the values.
    pub sessions: Vec<SessionRecord>,
    /// The revision of the shard that the chunk comes from.
    pub revision: u64,
    /// Where to go on; none after the last chunk.
    pub next: Option<Cursor>,
}

impl State {
    /// A part of the values at and below `prefix` but not at and below `except`, and of all sessions, of which those that were not used
    /// lately come without outcomes ([`MAX_EXPORTED_OUTCOMES`](crate::sessions::MAX_EXPORTED_OUTCOMES)).
    ///
    /// Starts behind `after`, and ends with the first item that brings it to `limit_bytes` or more. Export from one clone,
    /// or under a freeze: else chunks are of different states.
    pub fn export(&self, prefix: &Path, except: &[Path], after: Option<&Cursor>, limit_bytes: usize) -> Chunk {
        self.part((prefix, except), after, limit_bytes, |after| self.sessions.exported(after))
    }

    /// A part of all values and sessions, these with all their outcomes: a replica that begins with less would one day answer otherwise than
    /// the others, and hold other data from then on.
    pub(crate) fn whole(&self, after: Option<&Cursor>, limit_bytes: usize) -> Chunk {
        self.part((&Path::root(), &[]), after, limit_bytes, |after| self.sessions.records(after))
    }

    fn part<S: Iterator<Item = SessionRecord>>(
        &self,
        (prefix, except): (&Path, &[Path]),
        after: Option<&Cursor>,
        limit_bytes: usize,
        sessions: impl FnOnce(Option<SessionId>) -> S,
    ) -> Chunk {
        let mut chunk = Chunk { entries: Vec::new(), sessions: Vec::new(), revision: self.tree.revision(), next: None };
        let limit_bytes = limit_bytes.max(1);
        let mut bytes = 0;
        let (values_after, sessions_after) = match after {
            None => (None, None),
            Some(Cursor::Value(at)) => (Some(at), None),
            Some(Cursor::Session(id)) => (None, Some(*id)),
        };
        if sessions_after.is_none() {
            for datastore in Datastore::ALL {
                let after = match values_after {
                    Some(at) if at.datastore > datastore => continue,
                    Some(at) if at.datastore == datastore => Some(&at.path),
                    _ => None,
                };
                for (path, value) in self.tree.range(datastore, prefix, except, after) {
                    bytes += path.as_str().len() + value.bytes.len() + ENTRY_BYTES;
                    let at = Location { datastore, path: path.clone() };
                    chunk.entries.push(Entry { at: at.clone(), value: value.clone() });
                    if bytes >= limit_bytes {
                        chunk.next = Some(Cursor::Value(at));
                        return chunk;
                    }
                }
            }
        }
        for record in sessions(sessions_after) {
            bytes += ENTRY_BYTES + record.outcomes.len() * OUTCOME_BYTES;
            let id = record.id;
            chunk.sessions.push(record);
            if bytes >= limit_bytes {
                chunk.next = Some(Cursor::Session(id));
                break;
            }
        }
        chunk
    }
}
