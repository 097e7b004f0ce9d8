//! Reads of a shard's data, once it is known that the replica is fresh enough.

use serde::{Deserialize, Serialize};
use tree::{Cursor, Location, Path, Refusal, State};

use crate::protocol::{Answer, FRAME_MAX, LIST_MAX};

/// Bytes of content in one step of a move or a backup, about.
const EXPORT_BYTES: usize = 256 << 10;

/// What to read of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Read {
    /// One value.
    Get(Location),
    /// A subtree, or part of it.
    List {
        /// Where it begins.
        at: Location,
        /// Only what comes after.
        after: Option<Path>,
        /// So many at most.
        limit: u32,
    },
    /// Everything under a prefix, for another shard or a backup.
    Export {
        /// The prefix.
        prefix: Path,
        /// What stays.
        except: Vec<Path>,
        /// Only what comes after.
        after: Option<Cursor>,
    },
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Found {
    /// For a client.
    Answer(Answer),
    /// Of [`Read::Export`].
    Exported(tree::Chunk),
}

impl Found {
    /// Bytes on the wire, about.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Answer(Answer::Value(value)) => value.as_ref().map_or(0, |(_, bytes)| bytes.len()),
            Self::Answer(Answer::Values { entries, .. }) => {
                entries.iter().map(|(path, _, bytes)| path.as_str().len() + bytes.len() + 16).sum()
            }
            Self::Answer(_) => 0,
            Self::Exported(_) => 2 * EXPORT_BYTES,
        }
    }
}

impl Read {
    /// Reads.
    ///
    /// # Errors
    /// The shard doesn't hold this path (any more).
    pub(crate) fn evaluate(&self, state: &State) -> Result<Found, Refusal> {
        match self {
            Self::Get(at) => state.serves(&at.path)?,
            Self::List { at, .. } => state.serves_subtree(&at.path, &[])?,
            Self::Export { .. } => {}
        }
        Ok(self.find(state))
    }

    /// Reads whatever is there, served or not.
    pub(crate) fn find(&self, state: &State) -> Found {
        match self {
            Self::Get(at) => {
                let value = state.tree.get(at).map(|value| (value.etag, value.bytes.to_vec()));
                Found::Answer(Answer::Value(value))
            }
            Self::List { at, after, limit } => Found::Answer(list(state, at, after.as_ref(), *limit)),
            Self::Export { prefix, except, after } => {
                Found::Exported(state.export(prefix, except, after.as_ref(), EXPORT_BYTES))
            }
        }
    }
}

/// As much as fits into a frame with room to spare.
fn list(state: &State, at: &Location, after: Option<&Path>, limit: u32) -> Answer {
    let found = state.tree.subtree(at, after, limit.clamp(1, LIST_MAX) as usize);
    let mut more = found.more;
    let mut bytes = 0;
    let mut entries = Vec::with_capacity(found.values.len());
    for (at, value) in found.values {
        bytes += at.path.as_str().len() + value.bytes.len() + 16;
        if bytes > FRAME_MAX / 2 && !entries.is_empty() {
            more = true;
            break;
        }
        entries.push((at.path, value.etag, value.bytes.to_vec()));
    }
    Answer::Values { entries, more }
}
