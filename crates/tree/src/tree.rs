//! The values of a shard, in a persistent map.
//!
//! A clone shares all nodes with its origin and costs nothing; a change copies the few nodes on its way. So a snapshot is
//! a clone, and is read at leisure while writes go on.

use core::ops::Range;

use imbl::OrdMap;

use crate::digest::{Digest, DigestCache};
use crate::entry::ENTRY_OVERHEAD_BYTES;
use crate::{
    Bytes, Change, Committed, Condition, Datastore, Entry, Event, EventKind, Expect, Location, Path, Refusal,
    Transaction, Value,
};

/// A part of what is at and below a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subtree {
    /// The values, in the order of their paths.
    pub values: Vec<(Location, Value)>,
    /// Whether there are more behind the last of them.
    pub more: bool,
}

/// The values of a shard in both datastores.
///
/// Always: no value's entity tag is above the revision, and the count of bytes is that of the values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    maps: [OrdMap<Path, Value>; 2],
    revision: u64,
    bytes: usize,
}

impl Tree {
    /// A tree without values, at revision 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of transactions so far; imports may raise it further.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.maps.iter().map(OrdMap::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.maps.iter().all(OrdMap::is_empty)
    }

    /// About how many bytes of memory the values take, paths and nodes included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The value exactly at a location.
    pub fn get(&self, at: &Location) -> Option<&Value> {
        self.map(at.datastore).get(&at.path)
    }

    /// At most `limit` values at and below a location, those behind path `after`.
    pub fn subtree(&self, at: &Location, after: Option<&Path>, limit: usize) -> Subtree {
        let mut found = self.range(at.datastore, &at.path, &[], after);
        let values = found
            .by_ref()
            .take(limit)
            .map(|(path, value)| (Location { datastore: at.datastore, path: path.clone() }, value.clone()))
            .collect();
        Subtree { values, more: found.next().is_some() }
    }

    /// Applies a transaction whole or not at all, and tells `watch` what changed.
    ///
    /// A transaction without changes does not raise the revision.
    ///
    /// # Errors
    /// [`Refusal`] with the first bound, condition or change that stands in the way; then nothing changed.
    pub fn apply(&mut self, transaction: &Transaction, watch: &mut impl FnMut(Event)) -> Result<Committed, Refusal> {
        transaction.check()?;
        self.judge(&transaction.conditions)?;
        self.commit(&transaction.changes, &mut |event, _| watch(event))
    }

    /// Makes changes, all or none, and tells `note` what changed and what was there before.
    pub(crate) fn commit(
        &mut self,
        changes: &[Change],
        note: &mut impl FnMut(Event, Option<Value>),
    ) -> Result<Committed, Refusal> {
        let revision = self.revision + 1;
        let mut report = |effect: Effect| {
            let (event, before) = effect.event(revision);
            note(event, before);
        };
        match changes {
            [] => return Ok(Committed { revision: self.revision }),
            [change] => self.change(change, revision, &mut report)?,
            changes => {
                let mut effects = Vec::with_capacity(changes.len());
                for change in changes {
                    if let Err(refusal) = self.change(change, revision, &mut |effect| effects.push(effect)) {
                        self.undo(effects);
                        return Err(refusal);
                    }
                }
                effects.into_iter().for_each(report);
            }
        }
        self.revision = revision;
        Ok(Committed { revision })
    }

    /// Takes these values away, and nothing below them; raises the revision if there was one of them.
    pub(crate) fn take_away(&mut self, values: &[Location], note: &mut impl FnMut(Event, Option<Value>)) {
        let revision = self.revision + 1;
        for at in values {
            let Some(before) = self.unset(at.datastore, &at.path) else { continue };
            self.revision = revision;
            let (event, before) = Effect { at: at.clone(), before: Some(before), after: None }.event(revision);
            note(event, before);
        }
    }

    /// Takes these values away as if they had never been there.
    pub(crate) fn forget(&mut self, values: &[Location]) {
        for at in values {
            self.unset(at.datastore, &at.path);
        }
    }

    /// Whether all conditions hold.
    ///
    /// # Errors
    /// [`Refusal::ConditionFailed`] with the first that does not.
    pub fn judge(&self, conditions: &[Condition]) -> Result<(), Refusal> {
        for (index, condition) in conditions.iter().enumerate() {
            let found = self.get(&condition.at);
            let holds = match &condition.expect {
                Expect::Absent => found.is_none(),
                Expect::Present => found.is_some(),
                Expect::Etag(etag) => found.is_some_and(|value| value.etag == *etag),
                Expect::Value(bytes) => found.is_some_and(|value| value.bytes == *bytes),
                Expect::NotEtag(etag) => found.is_some_and(|value| value.etag != *etag),
                Expect::NotValue(bytes) => found.is_some_and(|value| value.bytes != *bytes),
                Expect::EtagBelow(etag) => found.is_some_and(|value| value.etag < *etag),
                Expect::EtagAbove(etag) => found.is_some_and(|value| value.etag > *etag),
            };
            if !holds {
                return Err(Refusal::ConditionFailed { index: index as u32, actual: found.map(|value| value.etag) });
            }
        }
        Ok(())
    }

    /// Makes one change, or refuses it without having done any of it.
    fn change(&mut self, change: &Change, revision: u64, note: &mut impl FnMut(Effect)) -> Result<(), Refusal> {
        let at = change.at();
        match change {
            Change::Create { value, .. } => {
                if self.get(at).is_some() {
                    return Err(Refusal::Exists { at: at.clone() });
                }
                self.put(at, value, revision, note);
            }
            Change::Replace { value, .. } => {
                if self.get(at).is_none() {
                    return Err(Refusal::Missing { at: at.clone() });
                }
                self.put(at, value, revision, note);
            }
            Change::Put { value, .. } | Change::PutWithLease { value, .. } => self.put(at, value, revision, note),
            Change::Delete { .. } => {
                if self.remove(at, note) == 0 {
                    return Err(Refusal::Missing { at: at.clone() });
                }
            }
            Change::Remove { .. } => {
                self.remove(at, note);
            }
        }
        Ok(())
    }

    fn put(&mut self, at: &Location, bytes: &Bytes, revision: u64, note: &mut impl FnMut(Effect)) {
        let before = self.set(at.datastore, &at.path, Value { etag: revision, bytes: bytes.clone() });
        note(Effect { at: at.clone(), before, after: Some(bytes.clone()) });
    }

    /// Takes a subtree away and says how many values it had.
    fn remove(&mut self, at: &Location, note: &mut impl FnMut(Effect)) -> usize {
        let gone = self.paths(at.datastore, &at.path, &[]);
        let count = gone.len();
        for path in gone {
            let before = self.unset(at.datastore, &path);
            note(Effect { at: Location { datastore: at.datastore, path }, before, after: None });
        }
        count
    }

    /// Takes changes back, the last one first.
    fn undo(&mut self, effects: Vec<Effect>) {
        for Effect { at, before, .. } in effects.into_iter().rev() {
            match before {
                Some(value) => self.set(at.datastore, &at.path, value),
                None => self.unset(at.datastore, &at.path),
            };
        }
    }

    /// Takes in values of another shard with the entity tags that they have there, and raises the revision so that
    /// none of them is given again. Doing it again changes nothing.
    pub fn import(&mut self, entries: &[Entry]) {
        for Entry { at, value } in entries {
            self.revision = self.revision.max(value.etag);
            self.set(at.datastore, &at.path, value.clone());
        }
    }

    /// Takes all values at and below `prefix` away but those at and below `except`, and says how many those were.
    pub fn drop_prefix(&mut self, prefix: &Path, except: &[Path]) -> usize {
        let mut count = 0;
        for datastore in Datastore::ALL {
            if prefix.is_root() && except.is_empty() {
                count += self.map(datastore).len();
                self.maps[datastore as usize] = OrdMap::new();
                continue;
            }
            let gone = self.paths(datastore, prefix, except);
            count += gone.len();
            for path in &gone {
                self.unset(datastore, path);
            }
        }
        if self.is_empty() {
            self.bytes = 0;
        }
        count
    }

    /// Makes the revision at least `revision`.
    pub(crate) fn raise(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }

    /// The values at and below `prefix` but not at and below `except`, behind `after`, in the order of their paths.
    pub(crate) fn range<'a>(
        &'a self,
        datastore: Datastore,
        prefix: &Path,
        except: &[Path],
        after: Option<&Path>,
    ) -> impl Iterator<Item = (&'a Path, &'a Value)> + use<'a> {
        let after = after.cloned();
        let skip = after.clone();
        ranges(prefix, except)
            .into_iter()
            .filter_map(move |range| match &after {
                Some(after) if *after >= range.end => None,
                Some(after) if *after > range.start => Some(after.clone()..range.end),
                _ => Some(range),
            })
            .flat_map(move |range| self.map(datastore).range(range))
            .filter(move |(path, _)| skip.as_ref() != Some(path))
    }

    /// Mixes all content into a digest.
    pub(crate) fn digest(&self, digest: &mut Digest, cache: &mut DigestCache) {
        digest.number(self.revision);
        for map in &self.maps {
            digest.number(map.len() as u64);
            for (path, value) in map {
                digest.bytes(path.as_str().as_bytes());
                digest.number(value.etag);
                digest.value(&value.bytes, cache);
            }
        }
    }

    fn map(&self, datastore: Datastore) -> &OrdMap<Path, Value> {
        &self.maps[datastore as usize]
    }

    fn paths(&self, datastore: Datastore, prefix: &Path, except: &[Path]) -> Vec<Path> {
        self.range(datastore, prefix, except, None).map(|(path, _)| path.clone()).collect()
    }

    /// Writes a value and gives the one before.
    fn set(&mut self, datastore: Datastore, path: &Path, value: Value) -> Option<Value> {
        self.bytes += value.bytes.len();
        let before = self.maps[datastore as usize].insert(path.clone(), value);
        match &before {
            Some(before) => self.bytes -= before.bytes.len(),
            None => self.bytes += path.as_str().len() + ENTRY_OVERHEAD_BYTES,
        }
        before
    }

    /// Takes a value away and gives it.
    fn unset(&mut self, datastore: Datastore, path: &Path) -> Option<Value> {
        let before = self.maps[datastore as usize].remove(path)?;
        self.bytes -= before.bytes.len() + path.as_str().len() + ENTRY_OVERHEAD_BYTES;
        Some(before)
    }
}

/// What a change did to one value: enough to take it back, and to tell watchers.
struct Effect {
    at: Location,
    before: Option<Value>,
    after: Option<Bytes>,
}

impl Effect {
    /// The event, and the value before it.
    fn event(self, revision: u64) -> (Event, Option<Value>) {
        let kind = match self.after {
            Some(value) => EventKind::Put { etag: revision, value },
            None => EventKind::Deleted,
        };
        (Event { revision, kind, at: self.at }, self.before)
    }
}

/// The subtree of `prefix` without those of `except`, as ranges in order.
fn ranges(prefix: &Path, except: &[Path]) -> Vec<Range<Path>> {
    if except.iter().any(|hole| hole.contains(prefix)) {
        return Vec::new();
    }
    let mut holes: Vec<&Path> = except.iter().filter(|hole| prefix.contains(hole)).collect();
    holes.sort_unstable();
    let mut ranges = Vec::with_capacity(holes.len() + 1);
    let mut start = prefix.clone();
    for hole in holes {
        // A hole within the last hole begins before that one's end.
        if *hole >= start {
            let end = hole.subtree_end();
            ranges.push(core::mem::replace(&mut start, end)..hole.clone());
        }
    }
    ranges.push(start..prefix.subtree_end());
    ranges
}
