//! Which attempts of another server have arrived, so that a repeat is not executed.

use std::collections::BTreeSet;

use crate::AttemptId;
use crate::config::SEEN_MAX;

/// The attempts of one server. Always: what is not certainly new counts as seen, and no more than [`SEEN_MAX`] numbers are kept.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    incarnation: u64,
    /// All numbers below have been seen, or are too old to tell.
    floor: u64,
    /// Seen numbers at or above the floor.
    above: BTreeSet<u64>,
}

impl Seen {
    /// Notes an attempt. True if it is new.
    pub fn note(&mut self, attempt: AttemptId) -> bool {
        if attempt.incarnation < self.incarnation {
            return false;
        }
        if attempt.incarnation > self.incarnation {
            *self = Self { incarnation: attempt.incarnation, ..Self::default() };
        }
        if attempt.sequence < self.floor || !self.above.insert(attempt.sequence) {
            return false;
        }
        while self.above.len() as u64 > SEEN_MAX {
            self.floor = self.above.pop_first().map_or(self.floor, |lowest| lowest.saturating_add(1));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(incarnation: u64, sequence: u64) -> AttemptId {
        AttemptId { incarnation, sequence }
    }

    #[test]
    fn each_attempt_is_new_once_in_any_order() {
        let mut seen = Seen::default();
        for sequence in [5, 0, 7, 1] {
            assert!(seen.note(attempt(3, sequence)));
            assert!(!seen.note(attempt(3, sequence)));
        }
    }

    #[test]
    fn a_start_anew_begins_anew_and_ends_the_one_before() {
        let mut seen = Seen::default();
        assert!(seen.note(attempt(1, 5)));
        assert!(seen.note(attempt(2, 5)));
        assert!(!seen.note(attempt(1, 6)));
    }

    #[test]
    fn what_is_forgotten_counts_as_seen() {
        let mut seen = Seen::default();
        for sequence in 1..=SEEN_MAX + 10 {
            assert!(seen.note(attempt(1, sequence)));
        }
        assert_eq!(seen.above.len() as u64, SEEN_MAX);
        // Number 0 never arrived, but nobody can tell any more.
        for sequence in 0..=SEEN_MAX + 10 {
            assert!(!seen.note(attempt(1, sequence)));
        }
        assert!(seen.note(attempt(1, u64::MAX)));
        assert!(!seen.note(attempt(1, u64::MAX)));
    }
}
