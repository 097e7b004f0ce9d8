//! Reads of a shard's data, once it is known that the replica is fresh enough.

use serde::{Deserialize, Serialize};
use tree::{Compacted, Cursor, LeaseId, Location, Past, Path, Refusal, State, Subtree};

use crate::protocol::{Answer, FRAME_MAX, LIST_MAX};

/// Bytes of content in one step of a move or a backup, about.
const EXPORT_BYTES: usize = 256 << 10;

/// What to read of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Read {
    /// Reads one value.
    Get(Location),
    /// A subtree, or part of it.
    List {
        /// Where it begins.
        at: Location,
        /// Only what comes after.
        after: Option<Path>,
        /// How many entries there may be at most.
        limit: u32,
    },
    /// Everything under a prefix, for another shard or a backup.
    Export {
        /// The prefix that is read.
        prefix: Path,
        /// Paths below the prefix that are left out.
        except: Vec<Path>,
        /// Only what comes after.
        after: Option<Cursor>,
    },
    // From here on: since version 2.
    /// One value as it was.
    GetAt {
        /// The location in the tree.
        at: Location,
        /// The revision at which it is read.
        revision: u64,
    },
    /// A subtree, or part of it, as it was.
    ListAt {
        /// Where it begins.
        at: Location,
        /// Only what comes after.
        after: Option<Path>,
        /// How many entries there may be at most.
        limit: u32,
        /// The revision at which it is read.
        revision: u64,
    },
    /// Reads which revisions can be read.
    Window(Path),
    /// Leases that go with a prefix to another shard.
    ExportLeases {
        /// The prefix that is read.
        prefix: Path,
        /// Paths below the prefix that are left out.
        except: Vec<Path>,
        /// Only what comes after.
        after: Option<LeaseId>,
    },
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ReadResult {
    /// An answer for a client.
    Answer(Answer),
    /// The result of [`Read::Export`].
    Exported(tree::Chunk),
    // From here on: since version 2.
    /// The revision cannot be read here.
    Compacted(Compacted),
    /// The result of [`Read::Window`].
    Window(Compacted),
    /// The result of [`Read::ExportLeases`].
    Leases(tree::LeaseChunk),
}

/// What a read costs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weight {
    /// Bytes of the answer, about.
    pub bytes: usize,
    /// Values that were looked at.
    pub values: usize,
}

/// Bytes of an entry of a list, about.
fn entry_bytes(path: &Path, value: usize) -> usize {
    path.as_str().len() + value + 32
}

/// Bytes of an answer to a read, about.
pub(crate) fn answer_bytes(answer: &Answer) -> usize {
    match answer {
        Answer::Value(value) => value.as_ref().map_or(0, |(_, bytes)| bytes.len()),
        Answer::Values { entries, .. } => entries.iter().map(|(path, _, bytes)| entry_bytes(path, bytes.len())).sum(),
        _ => 0,
    }
}

impl Read {
    /// Reads.
    ///
    /// # Errors
    /// The shard doesn't hold this path (any more).
    pub(crate) fn evaluate(&self, state: &State, past: &Past) -> Result<ReadResult, Refusal> {
        match self {
            Self::Get(at) | Self::GetAt { at, .. } => state.serves(&at.path)?,
            Self::List { at, .. } | Self::ListAt { at, .. } => state.serves_subtree(&at.path, &[])?,
            Self::Window(path) => state.serves(path)?,
            Self::Export { .. } | Self::ExportLeases { .. } => {}
        }
        Ok(self.find(state, past))
    }

    /// All of a shard, in parts.
    pub(crate) fn everything(after: Option<Cursor>) -> Self {
        Self::Export { prefix: Path::root(), except: Vec::new(), after }
    }

    /// The subtree that it lists, if it does.
    pub(crate) fn listed(&self) -> Option<&Path> {
        match self {
            Self::List { at, .. } | Self::ListAt { at, .. } => Some(&at.path),
            _ => None,
        }
    }

    /// What the answer would weigh, and how many values were looked at for that: nothing is copied.
    pub(crate) fn weigh(&self, state: &State) -> Weight {
        match self {
            Self::Get(at) => Weight { bytes: state.tree.get(at).map_or(0, |value| value.bytes.len()), values: 1 },
            Self::List { at, after, limit } => {
                let found = state.tree.subtree(at, after.as_ref(), within_bounds(*limit));
                let bytes = found.values.iter().map(|(at, value)| entry_bytes(&at.path, value.bytes.len())).sum();
                Weight { bytes: usize::min(bytes, FRAME_MAX), values: found.values.len() }
            }
            // Of old revisions only so many are read at once.
            _ => Weight::default(),
        }
    }

    /// Reads whatever is there, served or not.
    pub(crate) fn find(&self, state: &State, past: &Past) -> ReadResult {
        match self {
            Self::Get(at) => {
                let value = state.tree.get(at).map(|value| (value.etag, value.bytes.to_vec()));
                ReadResult::Answer(Answer::Value(value))
            }
            Self::List { at, after, limit } => {
                let found = state.tree.subtree(at, after.as_ref(), within_bounds(*limit));
                ReadResult::Answer(list(found))
            }
            Self::GetAt { at, revision } => match past.get(&state.tree, at, *revision) {
                Ok(value) => ReadResult::Answer(Answer::Value(value.map(|value| (value.etag, value.bytes.to_vec())))),
                Err(window) => ReadResult::Compacted(window),
            },
            Self::ListAt { at, after, limit, revision } => {
                match past.subtree(&state.tree, at, after.as_ref(), within_bounds(*limit), *revision) {
                    Ok(found) => ReadResult::Answer(list(found)),
                    Err(window) => ReadResult::Compacted(window),
                }
            }
            Self::Window(_) => ReadResult::Window(Compacted { oldest: past.oldest(), newest: state.tree.revision() }),
            Self::ExportLeases { prefix, except, after } => {
                ReadResult::Leases(state.export_leases(prefix, except, *after, EXPORT_BYTES))
            }
            Self::Export { prefix, except, after } => {
                ReadResult::Exported(state.export(prefix, except, after.as_ref(), EXPORT_BYTES))
            }
        }
    }
}

fn within_bounds(limit: u32) -> usize {
    limit.clamp(1, LIST_MAX) as usize
}

/// As much as fits into a frame with room to spare.
fn list(found: Subtree) -> Answer {
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
