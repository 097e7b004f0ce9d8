//! The time of leases, at the leader of their shard.
//!
//! Time is counted by the leader alone and is not in the log: a new leader gives every lease its full time again. What makes
//! that sound:
//!
//! - A lease ends by an entry of the log. A leader proposes one only to its own log, in its own term, and counts only once
//!   it has applied an entry of that term: so all that leaders before it have ended is known, and what a deposed leader still
//!   wants to end is never taken.
//! - That a lease is kept alive is answered only after a majority has confirmed this leader (as for a read), and not while an
//!   entry that ends it is on its way. Whoever leads later gives it its full time from a moment after the keeper asked.
//! - While this process stood still nobody could be heard: that time does not count.

use std::collections::{BTreeMap, BTreeSet};

use machine::nanos::{Span, Time};
use tree::{LeaseId, Leases};

/// So many leases are ended by one entry of the log at most.
pub(crate) const EXPIRE_BATCH: usize = 64;

/// What came to nothing is proposed again after so long.
const PROPOSE_AGAIN: Span = Span::from_secs(1);

/// The time of one lease.
#[derive(Debug)]
struct Running {
    granted_at: u64,
    until: Time,
    /// The index of the entry that ends it.
    ending: Option<u64>,
}

/// The expiry of all leases of one shard.
#[derive(Debug, Default)]
pub(crate) struct Expiry {
    /// The term in which it counts; none: this replica does not lead.
    term: Option<u64>,
    known: Leases,
    running: BTreeMap<LeaseId, Running>,
    due: BTreeSet<(Time, LeaseId)>,
}

impl Expiry {
    /// Counts no more: another leads.
    pub(crate) fn stop(&mut self) {
        if self.term.is_some() {
            *self = Self::default();
        }
    }

    /// Takes in what the log did to leases; those that are new have all of their time.
    pub(crate) fn follow(&mut self, now: Time, term: u64, leases: &Leases) {
        if self.term != Some(term) {
            *self = Self { term: Some(term), ..Self::default() };
        }
        if self.known.is_same(leases) {
            return;
        }
        let due = &mut self.due;
        self.running.retain(|id, running| {
            let stays = leases.get(*id).is_some_and(|lease| lease.granted_at == running.granted_at);
            if !stays {
                due.remove(&(running.until, *id));
            }
            stays
        });
        for (id, lease) in leases.iter() {
            self.running.entry(id).or_insert_with(|| {
                let until = now + Span::from_ms(lease.ttl_ms);
                due.insert((until, id));
                Running { granted_at: lease.granted_at, until, ending: None }
            });
        }
        self.known = leases.clone();
    }

    /// This process stood still for so long.
    pub(crate) fn stood_still(&mut self, span: Span) {
        self.due.clear();
        for (id, running) in &mut self.running {
            running.until += span;
            self.due.insert((running.until, *id));
        }
    }

    fn set(&mut self, id: LeaseId, until: Time) {
        if let Some(running) = self.running.get_mut(&id) {
            self.due.remove(&(running.until, id));
            running.until = until;
            self.due.insert((until, id));
        }
    }

    /// Its keeper says that it is needed; `false` if an entry that ends it may be on its way.
    pub(crate) fn keep(&mut self, now: Time, id: LeaseId, ttl_ms: u64) -> bool {
        let is_free = self.running.get(&id).is_some_and(|running| running.ending.is_none());
        if is_free {
            self.set(id, now + Span::from_ms(ttl_ms));
        }
        is_free
    }

    /// How long it has left.
    pub(crate) fn left(&self, now: Time, id: LeaseId) -> Span {
        self.running.get(&id).map_or(Span::ZERO, |running| running.until.since(now))
    }

    /// Leases whose time is over, with the log index at which each was granted; those for which `waits` get their time once more.
    pub(crate) fn over(&mut self, now: Time, applied: u64, waits: impl Fn(LeaseId) -> bool) -> Vec<(LeaseId, u64)> {
        let mut over = Vec::new();
        let due: Vec<LeaseId> = self.due.iter().take_while(|(until, _)| *until <= now).map(|(_, id)| *id).collect();
        for id in due {
            let running = self.running.get_mut(&id).expect("what is due is running");
            // An entry that was applied and left it here had to wait for a move.
            let is_ending = running.ending.take_if(|index| *index <= applied).is_none() && running.ending.is_some();
            if is_ending || over.len() >= EXPIRE_BATCH {
                continue;
            }
            if waits(id) {
                let ttl_ms = self.known.get(id).map_or(0, |lease| lease.ttl_ms);
                self.set(id, now + Span::from_ms(ttl_ms));
            } else {
                over.push((id, running.granted_at));
            }
        }
        over
    }

    /// An entry that ends them is in the log at this index.
    pub(crate) fn proposed(&mut self, now: Time, leases: &[(LeaseId, u64)], index: u64) {
        for (id, _) in leases {
            if let Some(running) = self.running.get_mut(id) {
                running.ending = Some(index);
            }
            self.set(*id, now + PROPOSE_AGAIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tree::{Command, Path, SessionId, State};

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// A shard with leases 1 and 2 of five seconds.
    fn state() -> State {
        let mut state = State::new();
        for number in 1..=2 {
            let (session, lease, home) = (SessionId(1), LeaseId(number), Path::root());
            let grant = Command::Grant { session, sequence: number, acknowledged: 0, lease, ttl_ms: 5_000, home };
            state.apply(number, &grant, &mut |_| {}).unwrap();
        }
        state
    }

    #[test]
    fn a_new_leader_gives_them_all_of_their_time() {
        let (state, mut expiry) = (state(), Expiry::default());
        expiry.follow(at(0), 3, &state.leases);
        assert_eq!(expiry.over(at(4_999), 2, |_| false), []);
        expiry.stop();
        expiry.follow(at(4_999), 4, &state.leases);
        assert_eq!(expiry.over(at(5_000), 2, |_| false), []);
        assert_eq!(expiry.over(at(9_999), 2, |_| false), [(LeaseId(1), 1), (LeaseId(2), 2)]);
    }

    #[test]
    fn what_is_kept_stays_and_what_is_ending_cannot_be_kept() {
        let (state, mut expiry) = (state(), Expiry::default());
        expiry.follow(at(0), 3, &state.leases);
        assert!(expiry.keep(at(3_000), LeaseId(1), 5_000));
        let over = expiry.over(at(5_000), 2, |_| false);
        assert_eq!(over, [(LeaseId(2), 2)]);
        expiry.proposed(at(5_000), &over, 9);
        assert!(!expiry.keep(at(5_001), LeaseId(2), 5_000));
        assert_eq!(expiry.over(at(7_000), 8, |_| false), []);
        // Applied, and the lease is still there: it was on a move.
        assert_eq!(expiry.over(at(7_500), 9, |_| false), [(LeaseId(2), 2)]);
        assert_eq!(expiry.left(at(7_500), LeaseId(1)), Span::from_ms(500));
    }

    #[test]
    fn time_does_not_count_while_the_process_stands_still_or_data_move() {
        let (state, mut expiry) = (state(), Expiry::default());
        expiry.follow(at(0), 3, &state.leases);
        expiry.stood_still(Span::from_secs(60));
        assert_eq!(expiry.over(at(64_999), 2, |_| false), []);
        assert_eq!(expiry.over(at(65_000), 2, |id| id == LeaseId(1)), [(LeaseId(2), 2)]);
        assert_eq!(expiry.left(at(65_000), LeaseId(1)), Span::from_ms(5_000));
    }
}
