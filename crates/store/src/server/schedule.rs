//! When a server does what no input asks for: Raft's ticks, heartbeats beside them, upkeep; and how it finds out that it stood still.

use machine::nanos::{Span, Time};
use placement::ElectionTimeout;

use crate::config::{ELECTION_TICKS, HEARTBEAT_TICKS};

/// What waits for nothing in particular is looked at so often.
pub(super) const UPKEEP: Span = Span::from_ms(50);

/// A server asks to be called every [`UPKEEP`]: after so long it must have stood still.
const STALL: Span = Span::from_ms(150);

/// A server's times.
pub(super) struct Schedule {
    /// The election timeout, by which ticks and heartbeats go.
    pub(super) timeout: ElectionTimeout,
    /// When the server started.
    opened: Time,
    /// When it was called last, and when it was called again after it had stood still.
    seen: Time,
    stalled: Time,
    next_tick: Time,
    /// When it is asked which leaders are to be heard beside Raft's heartbeats.
    next_beat: Time,
    next_upkeep: Time,
    /// Until then no vote is given: one that was given before the last stop may have been promised to a leader's lease.
    vote_lockout_until: Time,
}

impl Schedule {
    /// Of a server that starts now: everything is due.
    pub(super) fn new(timeout: ElectionTimeout, now: Time, vote_lockout_until: Time) -> Self {
        let (next_tick, next_beat, next_upkeep) = (now, now, now);
        Self { timeout, opened: now, seen: now, stalled: now, next_tick, next_beat, next_upkeep, vote_lockout_until }
    }

    /// When the server started.
    pub(super) fn opened(&self) -> Time {
        self.opened
    }

    /// When it was called last.
    pub(super) fn seen(&self) -> Time {
        self.seen
    }

    /// When it was called again after it had stood still.
    pub(super) fn stalled(&self) -> Time {
        self.stalled
    }

    /// Whether no vote is given yet.
    pub(super) fn is_locked_out(&self, now: Time) -> bool {
        now < self.vote_lockout_until
    }

    /// The server is called. Gives for how long it stood still if it was not called for long: stopped, swapped out, or on a machine
    /// that was.
    pub(super) fn note_call(&mut self, now: Time) -> Option<Span> {
        let span = now.since(self.seen);
        self.seen = now;
        let stood_still = span > STALL;
        if stood_still {
            self.stalled = now;
        }
        stood_still.then_some(span)
    }

    /// When something of this is due, at the latest.
    pub(super) fn next(&self) -> Time {
        self.next_tick.min(self.next_beat).min(self.next_upkeep)
    }

    /// Nothing is due before the next upkeep would be.
    pub(super) fn rest(&mut self, now: Time) {
        self.next_upkeep = now + UPKEEP;
        self.next_tick = self.next_upkeep;
        self.next_beat = self.next_upkeep;
    }

    /// The span between two ticks of Raft's clock.
    pub(super) fn tick(&self) -> Span {
        self.timeout.current() / ELECTION_TICKS as u64
    }

    /// The span between two of Raft's heartbeats.
    pub(super) fn heartbeat(&self) -> Span {
        self.tick() * HEARTBEAT_TICKS as u64
    }

    pub(super) fn is_tick_due(&self, now: Time) -> bool {
        now >= self.next_tick
    }

    /// Ticks that are due. After a pause of a whole timeout none, if that is asked for: what came meanwhile is to be heard first.
    pub(super) fn take_ticks(&mut self, now: Time, is_pause_forgiven: bool) -> u64 {
        let tick = self.tick();
        if is_pause_forgiven && now >= self.next_tick + tick * ELECTION_TICKS as u64 {
            self.next_tick = now + tick;
            return 0;
        }
        let mut ticks = 0;
        while now >= self.next_tick {
            self.next_tick += tick;
            ticks += 1;
        }
        ticks
    }

    pub(super) fn is_beat_due(&self, now: Time) -> bool {
        now >= self.next_beat
    }

    /// Heartbeats are looked at again then.
    pub(super) fn beat_at(&mut self, time: Time) {
        self.next_beat = time;
    }

    /// Whether it is time for upkeep; the next one comes after [`UPKEEP`] then.
    pub(super) fn take_upkeep(&mut self, now: Time) -> bool {
        let is_due = now >= self.next_upkeep;
        if is_due {
            self.next_upkeep = now + UPKEEP;
        }
        is_due
    }

    /// The next upkeep is then, and not before.
    pub(super) fn upkeep_at(&mut self, time: Time) {
        self.next_upkeep = time;
    }

    /// The next upkeep is then, or before.
    pub(super) fn upkeep_by(&mut self, time: Time) {
        self.next_upkeep = self.next_upkeep.min(time);
    }
}
