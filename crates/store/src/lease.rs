//! Reads at a leader: rounds of heartbeats that prove it leads, and the lease that a round earns.
//!
//! A round begins at a time T and ends when a majority of voters have answered a heartbeat sent after T (Raft, 6.4). Each
//! of them refuses to elect another for a while after that heartbeat: for the time that it has announced to this leader
//! ([`crate::peer::Envelope`]). No other leader can have been elected before T + the least of what all voters promise: reads
//! until then need no round of their own. Two things void it: handing the leadership over, which
//! lets a successor be elected at once (no lease for the rest of that term), and a voter that restarts and has forgotten
//! its promise (it stays away from elections for as long; see `Server`).

use machine::nanos::{Span, Time};

use crate::effects::{Asker, Effects, Miss};
use crate::peer::PeerAnswer;

/// A leader keeps its lease alive for so long after the last read.
const RENEW_AFTER_READ: Span = Span::from_secs(2);

/// Rounds and lease of one group at its leader.
#[derive(Debug)]
pub(crate) struct Lease {
    span: Option<Span>,
    until: Time,
    term: u64,
    /// The term in which leadership was handed over, successfully or not.
    given_up: u64,
    last_read: Time,
    round: Option<Round>,
    rounds: u64,
    /// For the next round, as the present one began before they came.
    waiting: Vec<Asker>,
}

#[derive(Debug)]
struct Round {
    number: u64,
    began: Time,
    askers: Vec<Asker>,
}

impl Lease {
    pub(crate) fn new() -> Self {
        Self {
            span: None,
            until: Time::ZERO,
            term: 0,
            given_up: 0,
            last_read: Time::ZERO,
            round: None,
            rounds: 0,
            waiting: Vec::new(),
        }
    }

    pub(crate) fn holds(&self, now: Time, term: u64) -> bool {
        self.term == term && self.given_up != term && now < self.until
    }

    /// Notes that reads are being made, which keeps the lease alive.
    pub(crate) fn used(&mut self, now: Time) {
        self.last_read = now;
    }

    /// Whether a round should begin though nobody waits for one.
    pub(crate) fn wants_renewal(&self, now: Time) -> bool {
        let Some(span) = self.span else { return false };
        self.last_read > Time::ZERO
            && now.since(self.last_read) < RENEW_AFTER_READ
            && self.round.is_none()
            && now + span / 2 >= self.until
    }

    pub(crate) fn wait(&mut self, asker: Asker) {
        self.waiting.push(asker);
    }

    /// How many wait, for the present round and the next.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len() + self.round.as_ref().map_or(0, |round| round.askers.len())
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Begins a round, unless one is under way; gives the context that its heartbeats carry.
    pub(crate) fn begin_round(&mut self, now: Time) -> Option<Vec<u8>> {
        if self.round.is_some() {
            return None;
        }
        self.rounds += 1;
        self.round = Some(Round { number: self.rounds, began: now, askers: std::mem::take(&mut self.waiting) });
        Some(self.rounds.to_le_bytes().to_vec())
    }

    /// How long a lease is by what the voters of this moment promise; none if one of them is not known to promise anything.
    pub(crate) fn set_span(&mut self, span: Option<Span>) {
        self.span = span;
    }

    /// A majority has answered the round with this context.
    pub(crate) fn confirmed(&mut self, context: &[u8], index: u64, term: u64, effects: &mut Effects) {
        let number = context.try_into().map_or(0, u64::from_le_bytes);
        let Some(round) = self.round.take_if(|round| round.number == number) else { return };
        if let Some(span) = self.span {
            self.until = round.began + span;
            self.term = term;
        }
        effects.answers.extend(round.askers.into_iter().map(|asker| (asker, Ok(PeerAnswer::Index(index)))));
    }

    /// Leadership was lost: whoever waits asks again elsewhere.
    pub(crate) fn lost(&mut self, effects: &mut Effects) {
        let round = self.round.take().map(|round| round.askers).unwrap_or_default();
        let askers = round.into_iter().chain(std::mem::take(&mut self.waiting));
        effects.answers.extend(askers.map(|asker| (asker, Err(Miss::NotLeader))));
        self.until = Time::ZERO;
    }

    /// Leadership is being handed over: a successor may be elected within the lease. The message that asks for it can be
    /// late, so this holds for the whole term, whether the hand-over comes about or not.
    pub(crate) fn give_up(&mut self, term: u64) {
        self.given_up = term;
        self.until = Time::ZERO;
    }
}
