//! Which writes of the session have been answered.

use std::collections::VecDeque;

/// Writes from the oldest that has no answer to the newest; more wait for it.
pub const WRITES_MAX: usize = tree::sessions::MAX_OUTCOMES;

/// The writes from the oldest that has no answer to the newest. Reads and calls have no part in it: servers remember
/// the outcomes of writes only.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Sequence, ascending, and whether it is answered; the first one is not.
    writes: VecDeque<(u64, bool)>,
}

impl Window {
    /// Takes a write, whose sequence is above all others, if there is room.
    pub fn admit(&mut self, sequence: u64) -> bool {
        if self.writes.len() >= WRITES_MAX {
            return false;
        }
        assert!(self.writes.back().is_none_or(|(last, _)| *last < sequence), "sequences rise");
        self.writes.push_back((sequence, false));
        true
    }

    /// A request has its answer, or is given up; it may be none of the writes.
    pub fn answered(&mut self, sequence: u64) {
        if let Ok(at) = self.writes.binary_search_by_key(&sequence, |(sequence, _)| *sequence) {
            self.writes[at].1 = true;
            while self.writes.front().is_some_and(|(_, answered)| *answered) {
                self.writes.pop_front();
            }
        }
    }

    /// Every write of the session before this has been answered; `next` is the sequence of the next request.
    pub fn acknowledged(&self, next: u64) -> u64 {
        self.writes.front().map_or(next, |(sequence, _)| *sequence)
    }
}
