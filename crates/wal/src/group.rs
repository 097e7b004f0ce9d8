//! What the log remembers of a group: its status, and which segments hold its entries.

use std::collections::{BTreeMap, VecDeque};

use crate::Position;
use crate::record::Status;

/// Entries without gaps that lie in one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    segment: u64,
    first: u64,
    last: u64,
}

/// How many runs lie in a segment, by segment; those without any are not listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage(BTreeMap<u64, usize>);

impl Usage {
    /// The oldest segment in which something lives.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.0.first_key_value().map(|(&segment, _)| segment)
    }

    fn add(&mut self, segment: u64) {
        *self.0.entry(segment).or_default() += 1;
    }

    fn remove(&mut self, segment: u64) {
        let count = self.0.get_mut(&segment).expect("a run's segment is counted");
        *count -= 1;
        if *count == 0 {
            self.0.remove(&segment);
        }
    }
}

/// One group. Its runs are in the order of their indices, and later ones are never in older segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub(crate) status: Status,
    runs: VecDeque<Run>,
}

impl Group {
    /// Index of the last entry, or of the last one that was let go.
    pub(crate) fn last(&self) -> u64 {
        self.runs.back().map_or(self.status.compacted.index, |run| run.last)
    }

    /// Index of the first entry, if there is one.
    pub(crate) fn first(&self) -> Option<u64> {
        self.runs.front().map(|run| run.first)
    }

    /// The segment that holds the oldest entry.
    pub(crate) fn oldest_segment(&self) -> Option<u64> {
        self.runs.front().map(|run| run.segment)
    }

    /// Adds entries; what was at `first` and after it goes.
    pub(crate) fn append(&mut self, first: u64, last: u64, segment: u64, usage: &mut Usage) {
        while let Some(run) = self.runs.back_mut().filter(|run| run.last >= first) {
            if run.first < first {
                run.last = first - 1;
            } else {
                usage.remove(run.segment);
                self.runs.pop_back();
            }
        }
        if let Some(run) = self.runs.back_mut().filter(|run| run.segment == segment) {
            run.last = last;
        } else {
            self.runs.push_back(Run { segment, first, last });
            usage.add(segment);
        }
    }

    /// Lets entries go up to `up_to`.
    pub(crate) fn compact(&mut self, up_to: Position, usage: &mut Usage) {
        self.status.compacted = up_to;
        while let Some(run) = self.runs.front_mut().filter(|run| run.first <= up_to.index) {
            if run.last > up_to.index {
                run.first = up_to.index + 1;
            } else {
                usage.remove(run.segment);
                self.runs.pop_front();
            }
        }
    }

    /// Lets all entries go; the group goes on after `position`.
    pub(crate) fn restart(&mut self, position: Position, usage: &mut Usage) {
        self.status.compacted = position;
        for run in self.runs.drain(..) {
            usage.remove(run.segment);
        }
    }
}
