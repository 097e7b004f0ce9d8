//! Recent changes of a shard, for watchers that come back.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{Bytes, Location};

/// How many events a [`History`] keeps unless told otherwise.
pub const HISTORY_EVENTS: usize = 16_384;
/// How many bytes of values a [`History`] keeps alive at most. Values that are still in the tree are counted as well.
pub const HISTORY_BYTES: usize = 16 << 20;

/// One change as a watcher sees it. Events of one transaction have one revision, in the order of its changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The shard's revision with the change in it.
    pub revision: u64,
    /// What happened there.
    pub kind: EventKind,
    /// The location in the tree.
    pub at: Location,
}

/// What happened at a location.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// A value was written.
    Put {
        /// Its entity tag.
        etag: u64,
        /// The bytes that were written.
        value: Bytes,
    },
    /// The value was taken away. A deleted subtree gives one event a value.
    Deleted,
    /// The whole subtree came from another shard, or went there: it must be read again.
    Reset,
}

impl Event {
    fn value_bytes(&self) -> usize {
        match &self.kind {
            EventKind::Put { value, .. } => value.len(),
            EventKind::Deleted | EventKind::Reset => 0,
        }
    }

    /// Whether a watcher of `subtree` must see this.
    pub fn concerns(&self, subtree: &Location) -> bool {
        // What happens to a whole subtree concerns the watchers of its parts too.
        subtree.contains(&self.at) || (self.kind == EventKind::Reset && self.at.contains(subtree))
    }
}

/// Events were left out: read the subtree again, then watch on from `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The newest revision. A read that is at least as new misses nothing.
    pub to: u64,
}

/// The most recent events of one shard, bounded in number and bytes; the oldest go first.
///
/// Always: every event of a revision above `lost` is held, and none of one up to it.
#[derive(Clone, Debug)]
pub struct History {
    events: VecDeque<Event>,
    capacity: usize,
    bytes: usize,
    /// Events up to this revision may be missing.
    lost: u64,
    /// The newest revision that was seen.
    newest: u64,
}

impl Default for History {
    fn default() -> Self {
        Self::new(HISTORY_EVENTS, 0)
    }
}

impl History {
    /// A history of at most `capacity` events, of a shard that is at `revision`.
    pub fn new(capacity: usize, revision: u64) -> Self {
        Self { events: VecDeque::new(), capacity, bytes: 0, lost: revision, newest: revision }
    }

    /// Adds an event. Revisions never go down.
    pub fn push(&mut self, event: Event) {
        assert!(event.revision >= self.newest, "events come in the order of their revisions");
        self.newest = event.revision;
        if event.revision <= self.lost {
            // The beginning of this revision did not fit; without it the rest is of no use.
            return;
        }
        self.bytes += event.value_bytes();
        self.events.push_back(event);
        while self.events.len() > self.capacity || self.bytes > HISTORY_BYTES {
            self.drop_oldest();
        }
    }

    /// Forgets everything, since the shard jumped to `revision` without telling what happened between: a snapshot was
    /// installed.
    pub fn skip_to(&mut self, revision: u64) {
        self.events.clear();
        self.bytes = 0;
        self.lost = revision;
        self.newest = revision;
    }

    /// The events after revision `from` in a subtree, oldest first.
    ///
    /// # Errors
    /// [`Skipped`] if some of them may be gone.
    pub fn since(&self, subtree: &Location, from: u64) -> Result<Vec<Event>, Skipped> {
        if from < self.lost {
            return Err(Skipped { to: self.newest });
        }
        let first = self.events.partition_point(|event| event.revision <= from);
        Ok(self.events.iter().skip(first).filter(|event| event.concerns(subtree)).cloned().collect())
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// A revision goes as a whole: half of it would look like all of it.
    fn drop_oldest(&mut self) {
        let Some(first) = self.events.front() else { return };
        self.lost = first.revision;
        while self.events.front().is_some_and(|event| event.revision <= self.lost) {
            let event = self.events.pop_front().expect("there is a first event");
            self.bytes -= event.value_bytes();
        }
    }
}
