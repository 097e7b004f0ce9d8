//! Values as they were a while ago: what recent changes of a shard replaced.
//!
//! A value at revision R is what the first change after R found there, or what is there now if there was none. So what is kept is what
//! was replaced, not copies of the tree, in the order in which it was: every write pays for that, while a read of an old revision, which is
//! rare, looks through the changes since.
//! See `docs/decisions/0021-old-revisions.md`.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::iter::Peekable;

use serde::{Deserialize, Serialize};

use crate::{Event, EventKind, Location, Path, Subtree, Tree, Value};

/// How many changes are kept unless told otherwise.
pub const PAST_CHANGES: usize = 16_384;
/// How many bytes of paths and replaced values are kept at most, with what it costs to keep them.
pub const PAST_BYTES: usize = 16 << 20;

/// What a change is taken to cost beside its path and the value before it: its place, and two shared allocations.
const CHANGE_BYTES: usize = 120;

/// A revision that cannot be read: it is outside of this window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    /// The oldest revision that can be read.
    pub oldest: u64,
    /// The newest that there is.
    pub newest: u64,
}

/// A change, and what it found.
#[derive(Clone, Debug)]
struct Replaced {
    revision: u64,
    at: Location,
    before: Option<Value>,
}

/// What recent changes of one shard replaced; the oldest go first.
///
/// Always: every change after `oldest` is held, and none of one up to it.
#[derive(Clone, Debug)]
pub struct Past {
    /// The changes by rising revision.
    changes: VecDeque<Replaced>,
    capacity: usize,
    bytes: usize,
    oldest: u64,
}

impl Past {
    /// Keeps at most `capacity` changes, of a shard that is at `revision`.
    pub fn new(capacity: usize, revision: u64) -> Self {
        Self { changes: VecDeque::new(), capacity, bytes: 0, oldest: revision }
    }

    /// The oldest revision that can be read.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Bytes that are kept, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A value changed; `before` is what was there. Revisions never go down.
    ///
    /// When a whole prefix came or went, everything is forgotten: what was there before is not known.
    pub fn push(&mut self, event: &Event, before: Option<Value>) {
        if event.kind == EventKind::Reset {
            *self = Self::new(self.capacity, event.revision);
            return;
        }
        if event.revision <= self.oldest {
            // The beginning of this revision did not fit; without it the rest is of no use.
            return;
        }
        let change = Replaced { revision: event.revision, at: event.at.clone(), before };
        self.bytes += change.weight();
        self.changes.push_back(change);
        while self.changes.len() > self.capacity || self.bytes > PAST_BYTES {
            self.drop_oldest();
        }
    }

    /// The value at a location as it was at a revision.
    ///
    /// # Errors
    /// [`Compacted`] if that cannot be known.
    pub fn get(&self, tree: &Tree, at: &Location, revision: u64) -> Result<Option<Value>, Compacted> {
        self.check(tree, revision)?;
        let first = self.since(revision).find(|change| change.at == *at);
        Ok(first.map_or_else(|| tree.get(at).cloned(), |change| change.before.clone()))
    }

    /// At most `limit` values at and below a location as they were at a revision, those behind path `after`.
    ///
    /// # Errors
    /// [`Compacted`] if that cannot be known.
    pub fn subtree(
        &self,
        tree: &Tree,
        at: &Location,
        after: Option<&Path>,
        limit: usize,
        revision: u64,
    ) -> Result<Subtree, Compacted> {
        self.check(tree, revision)?;
        let mut now = tree.range(at.datastore, &at.path, &[], after).peekable();
        let mut then = self.changed_since(at, after, revision).peekable();
        let mut values = Vec::new();
        while let Some((path, value)) = next_of(&mut now, &mut then) {
            let Some(value) = value else { continue };
            if values.len() == limit {
                return Ok(Subtree { values, more: true });
            }
            values.push((Location { datastore: at.datastore, path: path.clone() }, value.clone()));
        }
        Ok(Subtree { values, more: false })
    }

    fn check(&self, tree: &Tree, revision: u64) -> Result<(), Compacted> {
        let window = Compacted { oldest: self.oldest, newest: tree.revision() };
        if (window.oldest..=window.newest).contains(&revision) { Ok(()) } else { Err(window) }
    }

    /// What the first change after a revision found, at each location of a subtree that changed, in the order of paths: as far as it is
    /// asked for, since most of it may be of no use.
    fn changed_since<'a>(
        &'a self,
        at: &'a Location,
        after: Option<&Path>,
        revision: u64,
    ) -> impl Iterator<Item = (&'a Path, Option<&'a Value>)> + use<'a> {
        let (start, end) = (after.unwrap_or(&at.path).max(&at.path).clone(), at.path.subtree_end());
        let is_meant = |change: &&Replaced| {
            let path = &change.at.path;
            change.at.datastore == at.datastore && *path >= start && *path < end && after != Some(path)
        };
        let meant = self.since(revision).filter(is_meant).enumerate();
        let mut heap: BinaryHeap<_> = meant.map(|(nth, change)| Reverse(Nth { nth, change })).collect();
        let mut last = None;
        std::iter::from_fn(move || {
            loop {
                let Reverse(Nth { change, .. }) = heap.pop()?;
                // The first change of a place found what was there at the revision that is asked for.
                if last.replace(&change.at.path) != Some(&change.at.path) {
                    return Some((&change.at.path, change.before.as_ref()));
                }
            }
        })
    }

    /// The changes after a revision, the first of them first.
    fn since(&self, revision: u64) -> impl Iterator<Item = &Replaced> {
        let first = self.changes.partition_point(|change| change.revision <= revision);
        self.changes.range(first..)
    }

    /// A revision goes as a whole: half of it would look like all of it.
    fn drop_oldest(&mut self) {
        let Some(first) = self.changes.front() else { return };
        self.oldest = first.revision;
        while self.changes.front().is_some_and(|change| change.revision <= self.oldest) {
            self.bytes -= self.changes.pop_front().expect("there is a first").weight();
        }
    }
}

/// A change by its path, then in the order in which it was made.
struct Nth<'a> {
    nth: usize,
    change: &'a Replaced,
}

impl Ord for Nth<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.change.at.path.cmp(&other.change.at.path).then(self.nth.cmp(&other.nth))
    }
}

impl PartialOrd for Nth<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Nth<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Nth<'_> {}

impl Replaced {
    fn weight(&self) -> usize {
        CHANGE_BYTES + self.at.path.as_str().len() + self.before.as_ref().map_or(0, |value| value.bytes.len())
    }
}

/// The next path of two sequences, with the value of the second where both have it.
fn next_of<'a>(
    now: &mut Peekable<impl Iterator<Item = (&'a Path, &'a Value)>>,
    then: &mut Peekable<impl Iterator<Item = (&'a Path, Option<&'a Value>)>>,
) -> Option<(&'a Path, Option<&'a Value>)> {
    let next_now = now.peek().map(|(path, _)| *path);
    let next_then = then.peek().map(|(path, _)| *path);
    match (next_now, next_then) {
        (Some(present), Some(past)) if present >= past => {
            if present == past {
                now.next();
            }
            then.next()
        }
        (None, Some(_)) => then.next(),
        _ => now.next().map(|(path, value)| (path, Some(value))),
    }
}
