//! How much of what peers may do they have done.

use std::collections::BTreeMap;

use machine::ServerId;
use machine::nanos::Time;

use crate::message::Answers;

/// So much may terms and indices rise by the word of peers, at once and again each second: more than any election does, and too
/// little to use up their 62 bits in thirty years. A replica that was away while somebody raised them follows in as long.
const RISE: u64 = 1 << 32;

/// Messages to one peer whose answers are waited for, at most; those beyond are lost to the count, not to Raft.
const ASKED_MAX: u32 = 4_096;

/// How far numbers may rise.
#[derive(Debug, Default)]
pub(super) struct Pace {
    began: Option<Time>,
    spent: u64,
}

impl Pace {
    pub(super) fn left(&mut self, now: Time) -> u64 {
        let began = *self.began.get_or_insert(now);
        let seconds = now.since(began).as_ns() / 1_000_000_000;
        RISE.saturating_mul(seconds.saturating_add(1)).saturating_sub(self.spent)
    }

    pub(super) fn spend(&mut self, rise: u64) {
        self.spent = self.spent.saturating_add(rise);
    }
}

/// What a leader has asked its followers, and is not answered yet.
#[derive(Debug, Default)]
pub(super) struct Asked {
    term: u64,
    of: BTreeMap<ServerId, [u32; 2]>,
}

impl Asked {
    fn count(&mut self, term: u64, peer: ServerId, what: Answers) -> &mut u32 {
        if self.term != term {
            self.of.clear();
            self.term = term;
        }
        &mut self.of.entry(peer).or_default()[usize::from(what == Answers::Heartbeat)]
    }

    /// A message has left that will be answered.
    fn note(&mut self, term: u64, peer: ServerId, what: Answers) {
        let count = self.count(term, peer, what);
        *count = (*count + 1).min(ASKED_MAX);
    }

    pub(super) fn take(&mut self, term: u64, peer: ServerId, what: Answers) -> bool {
        let count = self.count(term, peer, what);
        let asked = *count > 0;
        *count = count.saturating_sub(1);
        asked
    }
}

/// How much of what peers may do they have done.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) pace: Pace,
    pub(super) asked: Asked,
    /// Appends that did not fit the log, since the last tick.
    pub(super) misfits: u32,
}

impl Limits {
    /// Another tick begins.
    pub(super) fn begin_tick(&mut self) {
        self.misfits = 0;
    }

    /// A message has left that will be answered.
    pub(super) fn note_asked(&mut self, term: u64, peer: ServerId, what: Answers) {
        self.asked.note(term, peer, what);
    }
}

#[cfg(test)]
mod tests {
    use machine::nanos::Span;

    use super::*;

    #[test]
    fn terms_rise_no_faster_than_their_pace() {
        let mut pace = Pace::default();
        let now = Time::ZERO + Span::from_secs(5);
        assert_eq!(pace.left(now), RISE);
        pace.spend(RISE);
        assert_eq!(pace.left(now), 0);
        assert_eq!(pace.left(now + Span::from_secs(3)), 3 * RISE);
        pace.spend(u64::MAX);
        assert_eq!(pace.left(Time::NEVER), 0);
    }

    #[test]
    fn an_answer_is_taken_once_for_each_question() {
        let mut asked = Asked::default();
        let peer = ServerId(2);
        asked.note(1, peer, Answers::Append);
        assert!(!asked.take(1, peer, Answers::Heartbeat));
        assert!(!asked.take(1, ServerId(3), Answers::Append));
        assert!(asked.take(1, peer, Answers::Append));
        assert!(!asked.take(1, peer, Answers::Append));
        asked.note(1, peer, Answers::Append);
        assert!(!asked.take(2, peer, Answers::Append), "it was asked in another term");
    }
}
