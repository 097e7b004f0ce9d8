//! Values as they were a while ago: what recent changes of a shard replaced.
//!
//! A value at revision R is what the first change after R found there, or what is there now if there was none. So a read of
//! an old revision costs nothing until somebody asks, and what is kept is what was replaced, not copies of the tree.
//! See `docs/decisions/0021-old-revisions.md`.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;

use serde::{Deserialize, Serialize};

use crate::{Event, EventKind, Location, Path, Subtree, Tree, Value};

/// How many changes are kept unless told otherwise.
pub const PAST_CHANGES: usize = 16_384;
/// How many bytes of paths and replaced values are kept at most, with what it costs to keep them.
pub const PAST_BYTES: usize = 16 << 20;

/// What a change is taken to cost beside its path and the value before it: two places in ordered collections.
const CHANGE_BYTES: usize = 160;

/// A revision that cannot be read: it is outside of this window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    /// The oldest revision that can be read.
    pub oldest: u64,
    /// The newest that there is.
    pub newest: u64,
}

/// What recent changes of one shard replaced; the oldest go first.
///
/// Always: every change after `oldest` is held, and none of one up to it.
#[derive(Clone, Debug)]
pub struct Past {
    before: BTreeMap<(Location, u64), Option<Value>>,
    order: VecDeque<(u64, Location)>,
    capacity: usize,
    bytes: usize,
    oldest: u64,
}

impl Past {
    /// Keeps at most `capacity` changes, of a shard that is at `revision`.
    pub fn new(capacity: usize, revision: u64) -> Self {
        Self { before: BTreeMap::new(), order: VecDeque::new(), capacity, bytes: 0, oldest: revision }
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
        let key = (event.at.clone(), event.revision);
        // The first change of a revision found what was there at the revision before.
        if self.before.contains_key(&key) {
            return;
        }
        self.bytes += weight(&event.at, before.as_ref());
        self.before.insert(key, before);
        self.order.push_back((event.revision, event.at.clone()));
        while self.order.len() > self.capacity || self.bytes > PAST_BYTES {
            self.drop_oldest();
        }
    }

    /// The value at a location as it was at a revision.
    ///
    /// # Errors
    /// [`Compacted`] if that cannot be known.
    pub fn get(&self, tree: &Tree, at: &Location, revision: u64) -> Result<Option<Value>, Compacted> {
        self.check(tree, revision)?;
        let changes = self.before.range((at.clone(), revision + 1)..=(at.clone(), u64::MAX)).next();
        Ok(changes.map_or_else(|| tree.get(at).cloned(), |(_, before)| before.clone()))
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
        let changed = self.changed_since(at, after, revision);
        let mut now = tree.range(at.datastore, &at.path, &[], after).peekable();
        let mut then = changed.into_iter().peekable();
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

    /// What the first change after a revision found, at each location of a subtree that changed.
    fn changed_since(&self, at: &Location, after: Option<&Path>, revision: u64) -> BTreeMap<&Path, Option<&Value>> {
        let start = (Location { path: after.unwrap_or(&at.path).clone(), ..at.clone() }.max(at.clone()), 0);
        let end = (Location { path: at.path.subtree_end(), ..at.clone() }, 0);
        let mut changed = BTreeMap::new();
        if start >= end {
            return changed;
        }
        for ((location, number), before) in self.before.range(start..end) {
            if *number > revision && after != Some(&location.path) {
                changed.entry(&location.path).or_insert(before.as_ref());
            }
        }
        changed
    }

    /// A revision goes as a whole: half of it would look like all of it.
    fn drop_oldest(&mut self) {
        let Some((first, _)) = self.order.front() else { return };
        self.oldest = *first;
        while self.order.front().is_some_and(|(revision, _)| *revision <= self.oldest) {
            let (_, at) = self.order.pop_front().expect("there is a first change");
            let before = self.before.remove(&(at.clone(), self.oldest)).flatten();
            self.bytes -= weight(&at, before.as_ref());
        }
    }
}

fn weight(at: &Location, before: Option<&Value>) -> usize {
    CHANGE_BYTES + 2 * at.path.as_str().len() + before.map_or(0, |value| value.bytes.len())
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
