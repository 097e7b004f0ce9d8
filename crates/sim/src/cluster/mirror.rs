//! What a watcher knows of the data by its events, and by what it read again where these said that it has to.
//!
//! Nothing is excused here: who reads again whenever it hears that something is missing knows everything in the end.

use std::collections::{BTreeMap, BTreeSet};

use store::protocol::{Answer, Consistency, Error, RequestBody};
use tree::{Location, Path};
use workload::Layout;
use workload::entry::{Action, Input, Leaf};

use super::data;

/// A path's last revision that is known, and its tag; none after its deletion. A replica of the shard that held a path before may
/// tell of it after one of the shard that holds it now: revisions go on over a move, so the higher one counts.
type Known = BTreeMap<Path, (u64, Option<u64>)>;

/// The data as a watcher knows them.
#[derive(Default)]
pub struct Mirror {
    known: Known,
    /// Entries that have to be read again.
    unread: BTreeSet<u32>,
    /// By the sequence of the request.
    reading: BTreeMap<u64, Reading>,
}

/// An entry is being read.
struct Reading {
    entry: u32,
    /// What was known of it when that was asked.
    before: [Option<(u64, Option<u64>)>; 2],
}

const LEAVES: [Leaf; 2] = [Leaf::A, Leaf::B];

impl Mirror {
    /// A value was written, or deleted.
    pub fn note(&mut self, path: Path, revision: u64, tag: Option<u64>) {
        let known = self.known.entry(path).or_insert((revision, tag));
        if revision >= known.0 {
            *known = (revision, tag);
        }
    }

    /// All entries at or below a place have to be read again.
    pub fn read_again(&mut self, at: &Location, entries: u32) {
        self.unread.extend((0..entries).filter(|entry| at.contains(&data::entry(*entry))));
    }

    /// The connection is lost: what was asked will not be answered.
    pub fn stop_reading(&mut self) {
        self.unread.extend(std::mem::take(&mut self.reading).into_values().map(|reading| reading.entry));
    }

    /// Whether nothing has to be read again.
    pub fn is_complete(&self) -> bool {
        self.unread.is_empty() && self.reading.is_empty()
    }

    /// What to ask next, under this sequence; one thing at a time.
    pub fn ask(&mut self, sequence: u64) -> Option<RequestBody> {
        if !self.reading.is_empty() {
            return None;
        }
        let entry = self.unread.pop_first()?;
        let before = LEAVES.map(|leaf| self.known.get(&data::leaf(entry, leaf).path).copied());
        self.reading.insert(sequence, Reading { entry, before });
        Some(data::Entries.request(Input { entry, action: Action::List }, Consistency::Linearizable))
    }

    /// Whether that was asked here.
    pub fn is_reading(&self, sequence: u64) -> bool {
        self.reading.contains_key(&sequence)
    }

    /// The answer to what was asked. Whether it is one; if not, it has to be asked again.
    pub fn answered(&mut self, sequence: u64, result: Result<Answer, Error>) -> bool {
        let Some(Reading { entry, before }) = self.reading.remove(&sequence) else { return true };
        let Ok(Answer::Values { entries, more: false }) = result else {
            self.unread.insert(entry);
            return false;
        };
        for (leaf, before) in LEAVES.into_iter().zip(before) {
            let path = data::leaf(entry, leaf).path;
            let found = entries.iter().find(|(at, ..)| *at == path).map(|(_, tag, _)| *tag);
            let known = self.known.get(&path).copied();
            match found {
                Some(tag) => self.note(path, tag, Some(tag)),
                // What came meanwhile may be newer than the answer. Revisions of other shards say nothing of this one: a write that
                // is older than the answer may come after it, and then so is what took it away.
                None if known == before => {
                    self.known.insert(path, (known.map_or(0, |(revision, _)| revision), None));
                }
                None => {}
            }
        }
        true
    }

    /// The tag of a value, as far as is known.
    pub fn tag(&self, path: &Path) -> Option<u64> {
        self.known.get(path).and_then(|(_, tag)| *tag)
    }
}
