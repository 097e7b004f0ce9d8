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
    of: BTreeMap<ServerId, Questions>,
}

/// What one of them was asked.
#[derive(Debug, Default)]
struct Questions {
    appends: u32,
    heartbeats: u32,
    /// The lowest entry that it was asked to have, if it became a member in this term. Who was one before in this term may have
    /// removed its log since; what it said of that log can be late by so much that it comes now, and is true no more.
    from: u64,
}

impl Questions {
    fn count(&mut self, what: Answers) -> &mut u32 {
        match what {
            Answers::Append => &mut self.appends,
            Answers::Heartbeat => &mut self.heartbeats,
        }
    }
}

impl Asked {
    fn of(&mut self, term: u64, peer: ServerId) -> &mut Questions {
        if self.term != term {
            self.of.clear();
            self.term = term;
        }
        self.of.entry(peer).or_default()
    }

    /// A server becomes a member: what it was asked before is void.
    fn joined(&mut self, term: u64, peer: ServerId) {
        *self.of(term, peer) = Questions { from: u64::MAX, ..Questions::default() };
    }

    /// A message has left that will be answered; `index` is what it asks to be there already.
    fn note(&mut self, term: u64, peer: ServerId, what: Answers, index: u64) {
        let questions = self.of(term, peer);
        if what == Answers::Append {
            questions.from = questions.from.min(index);
        }
        let count = questions.count(what);
        *count = (*count + 1).min(ASKED_MAX);
    }

    /// Whether an answer is one to a question. `has`: up to there it says that its log is the leader's.
    pub(super) fn take(&mut self, term: u64, peer: ServerId, what: Answers, has: Option<u64>) -> bool {
        let questions = self.of(term, peer);
        if has.is_some_and(|index| index < questions.from) {
            return false;
        }
        let count = questions.count(what);
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
    pub(super) fn note_asked(&mut self, term: u64, peer: ServerId, (what, index): (Answers, u64)) {
        self.asked.note(term, peer, what, index);
    }

    /// A server becomes a member of the group that is led from here.
    pub(super) fn note_joined(&mut self, term: u64, peer: ServerId) {
        self.asked.joined(term, peer);
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
        asked.note(1, peer, Answers::Append, 0);
        assert!(!asked.take(1, peer, Answers::Heartbeat, None));
        assert!(!asked.take(1, ServerId(3), Answers::Append, Some(0)));
        assert!(asked.take(1, peer, Answers::Append, Some(0)));
        assert!(!asked.take(1, peer, Answers::Append, Some(0)));
        asked.note(1, peer, Answers::Append, 0);
        assert!(!asked.take(2, peer, Answers::Append, Some(0)), "it was asked in another term");
    }

    #[test]
    fn who_becomes_a_member_again_says_nothing_of_the_log_that_it_had() {
        let mut asked = Asked::default();
        let peer = ServerId(2);
        asked.note(1, peer, Answers::Append, 100);
        asked.joined(1, peer);
        assert!(!asked.take(1, peer, Answers::Append, None), "what it was asked before is void");
        asked.note(1, peer, Answers::Append, 120);
        assert!(!asked.take(1, peer, Answers::Append, Some(119)), "nobody has asked for less than 120");
        assert!(asked.take(1, peer, Answers::Append, Some(120)));
        asked.note(1, peer, Answers::Append, 110);
        assert!(asked.take(1, peer, Answers::Append, Some(110)), "its log was searched");
        asked.note(2, peer, Answers::Append, 120);
        assert!(asked.take(2, peer, Answers::Append, Some(7)), "no answer of an earlier term is looked at");
    }
}
