//! Requests that hold their memory until their time is over.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use machine::Time;

use super::block::Block;

/// A request that is worked on.
#[derive(Debug)]
pub(super) struct Work {
    /// When its time is over, if it only holds its memory.
    pub until: Time,
    /// Whether its answer is an error.
    pub fails: bool,
    /// Bytes of the answer's content.
    pub answer_bytes: u64,
    /// The memory, once it is taken.
    pub block: Option<Block>,
}

/// Requests that are worked on, by their number, and when those end that wait for the clock.
#[derive(Debug, Default)]
pub(super) struct Holding {
    works: HashMap<u64, Work>,
    ends: BinaryHeap<Reverse<(Time, u64)>>,
}

impl Holding {
    pub fn insert(&mut self, id: u64, work: Work) {
        self.works.insert(id, work);
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Work> {
        self.works.get_mut(&id)
    }

    /// It ends when the clock shows its time.
    pub fn wait(&mut self, id: u64) {
        if let Some(work) = self.works.get(&id) {
            self.ends.push(Reverse((work.until, id)));
        }
    }

    pub fn remove(&mut self, id: u64) -> Option<Work> {
        self.works.remove(&id)
    }

    /// One whose time is over.
    pub fn pop_due(&mut self, now: Time) -> Option<u64> {
        let Reverse((until, id)) = *self.ends.peek()?;
        (until <= now).then(|| {
            self.ends.pop();
            id
        })
    }

    /// When the next one ends.
    pub fn next(&self) -> Time {
        self.ends.peek().map_or(Time::NEVER, |Reverse((until, _))| *until)
    }
}
