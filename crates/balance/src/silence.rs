//! Servers that have fallen silent: a machine that is gone resets nothing, and its clients wait for a second before they ask again.
//!
//! Kernels answer handshakes within the round trip, however busy their programs are. So a server is silent if several handshakes wait for it and nothing at all has come from it
//! for longer than it has ever taken. Only time in which the service saw something happen counts, in steps of [`STEP`] at most: a balancer that stood still itself has heard
//! nobody meanwhile, and blames nobody.

use machine::{Rebase, Span, Time};

use crate::ejection::Ejection;

/// So much at most is counted from one event to the next.
const STEP: Span = Span::from_ms(10);

/// How often servers are looked at, in time that counts.
const LOOK: Span = Span::from_ms(5);

/// A server may take so many times what it has taken at most of late.
const PATIENCE: u64 = 4;

/// The clock of a service, which stands still while nothing happens.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    counted: Time,
    last: Time,
    looks_at: Time,
}

impl Watch {
    pub const fn new(now: Time) -> Self {
        Self { counted: now, last: now, looks_at: now }
    }

    /// Something happens.
    #[inline]
    pub fn tick(&mut self, now: Time) -> Time {
        self.counted += now.since(self.last).min(STEP);
        self.last = now;
        self.counted
    }

    /// Whether it is time to look at all servers.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        let is_due = self.counted >= self.looks_at;
        if is_due {
            self.looks_at = self.counted + LOOK;
        }
        is_due
    }
}

impl Rebase for Watch {
    fn rebase(&mut self, by: Span) {
        let Self { counted, last, looks_at } = self;
        counted.rebase(by);
        last.rebase(by);
        looks_at.rebase(by);
    }
}

/// What is known of one server's silence.
#[derive(Clone, Debug)]
pub(crate) struct Silence {
    /// Handshakes since it was heard last, and when the first of them began.
    waiting: u32,
    since: Time,
    /// The longest that a handshake waited for it, of late.
    longest: Span,
    /// Whether it was ever heard: from some, answers go other ways.
    is_heard: bool,
}

impl Default for Silence {
    fn default() -> Self {
        Self { waiting: 0, since: Time::ZERO, longest: Span::ZERO, is_heard: false }
    }
}

impl Silence {
    /// A first segment goes to it.
    #[inline]
    pub const fn asked(&mut self, at: Time) {
        if self.waiting == 0 {
            self.since = at;
        }
        self.waiting = self.waiting.saturating_add(1);
    }

    /// Something has come from it, which may be the answer to a handshake that waited for so long.
    #[inline]
    pub fn heard(&mut self, handshake: Option<Span>) {
        if let Some(waited) = handshake {
            self.longest = waited.max(self.longest * 7 / 8);
        }
        self.waiting = 0;
        self.is_heard = true;
    }

    /// What waits for it waits no more.
    pub const fn forget(&mut self) {
        self.waiting = 0;
    }

    /// So many handshakes have waited for it, and for how long, if that is too long.
    pub fn is_too_long(&self, at: Time, ejection: &Ejection) -> Option<(u32, Span)> {
        let waited = at.since(self.since);
        let is_silent = self.is_heard
            && ejection.consecutive > 0
            && self.waiting >= ejection.consecutive
            && waited >= ejection.silence.max(self.longest * PATIENCE);
        is_silent.then_some((self.waiting, waited))
    }
}

impl Rebase for Silence {
    fn rebase(&mut self, by: Span) {
        let Self { waiting: _, since, longest: _, is_heard: _ } = self;
        since.rebase(by);
    }
}
