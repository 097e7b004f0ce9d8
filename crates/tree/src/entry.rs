//! A value, and what it costs to have it.

use serde::{Deserialize, Serialize};

use crate::{Bytes, Location};

/// What a value costs in memory beside its path and its bytes: two shared allocations with their counts, and its
/// place in a node that is half full. Measured by `examples/memory.rs`.
pub(crate) const ENTRY_OVERHEAD_BYTES: usize = 136;

/// What an entry is taken to cost in a chunk beside its path and value: lengths and entity tag.
pub(crate) const ENTRY_BYTES: usize = 16;

/// A value and its entity tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// The revision that wrote it, as an entity tag (RFC 9110 section 8.8.3).
    pub etag: u64,
    /// What was written.
    pub bytes: Bytes,
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The location in the tree.
    pub at: Location,
    /// What, with its entity tag.
    pub value: Value,
}

impl Entry {
    /// About how many bytes of memory it takes in a tree: as [`Tree::bytes`](crate::Tree::bytes) counts.
    pub fn bytes(&self) -> usize {
        self.value.bytes.len() + self.at.path.as_str().len() + ENTRY_OVERHEAD_BYTES
    }
}
