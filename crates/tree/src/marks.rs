//! Which prefixes are on the move, and which have gone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Path;

/// The most prefixes that are frozen, arriving or moved, of each kind.
pub const MAX_MARKS: usize = 4_096;
/// What holds for a prefix and everything below it, but for some prefixes in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The move of a frozen prefix; the shard that a moved one is in.
    pub number: u64,
    /// Where it does not hold.
    pub except: Vec<Path>,
}

/// A prefix that is arriving from another shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// The number of the move.
    pub move_id: u64,
    /// What in the prefix is not moved.
    pub except: Vec<Path>,
    /// The next chunk's number.
    pub next: u32,
}

/// Whether the territory of `prefix` without `except` holds `path`.
pub(crate) fn covers(prefix: &Path, except: &[Path], path: &Path) -> bool {
    prefix.contains(path) && !except.iter().any(|hole| hole.contains(path))
}

/// Whether two territories have paths in common.
pub(crate) fn share(a: (&Path, &[Path]), b: (&Path, &[Path])) -> bool {
    covers(a.0, a.1, b.0) && !b.1.iter().any(|hole| hole.contains(b.0))
        || covers(b.0, b.1, a.0) && !a.1.iter().any(|hole| hole.contains(a.0))
}

impl Mark {
    /// The mark whose territory holds `path`, or has a part of its subtree if `subtree` is asked for.
    pub(crate) fn find<'a>(
        marks: &'a BTreeMap<Path, Mark>,
        path: &Path,
        subtree: bool,
    ) -> Option<(&'a Path, &'a Mark)> {
        marks.iter().find(|(prefix, mark)| {
            covers(prefix, &mark.except, path) || (subtree && share((prefix, &mark.except), (path, &[])))
        })
    }
}
