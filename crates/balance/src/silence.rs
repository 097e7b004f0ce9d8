//! Servers that have fallen silent: a machine that is gone resets nothing, and its clients wait for a second before they ask again.
//!
//! Kernels answer handshakes within the round trip. So a server is silent if several handshakes have waited for it, nothing at all has come from it for longer than it has ever taken, and
//! another server has been heard meanwhile: what all of them leave unanswered is nobody's fault, or that of whoever asks. Only time in which the service saw something happen
//! counts, in steps of [`STEP`] at most: a balancer that stood still itself has heard nobody, and blames nobody.
//!
//! A client can make handshakes that a kernel drops, and some servers drop those of some clients. So who is out for that is out for a short time, and is back with the first
//! packet that comes from it.

use machine::{Rebase, Span, Time};

use crate::ejection::Ejection;

/// So much at most is counted from one event to the next.
const STEP: Span = Span::from_ms(10);

/// How often servers are looked at, in time that counts.
const LOOK: Span = Span::from_ms(5);

/// So many handshakes are enough: schedulers that count connections give no more to who does not answer. One alone may have been lost.
const HANDSHAKES: u32 = 2;

/// The last one of them has to wait for so long, too.
const LAST: Span = Span::from_ms(20);

/// A server may take so many times what it has taken at most of late.
const PATIENCE: u64 = 4;

/// The clock of a service, which stands still while nothing happens.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    counted: Time,
    last: Time,
    looks_at: Time,
    /// When any server was heard last.
    heard_at: Time,
}

impl Watch {
    pub const fn new(now: Time) -> Self {
        Self { counted: now, last: now, looks_at: now, heard_at: now }
    }

    /// Something happens.
    #[inline]
    pub fn tick(&mut self, now: Time) -> Time {
        self.counted += now.since(self.last).min(STEP);
        self.last = now;
        self.counted
    }

    /// A server is heard, at the time of the last tick.
    #[inline]
    pub const fn heard(&mut self) {
        self.heard_at = self.counted;
    }

    /// When any server was heard last.
    pub const fn heard_at(&self) -> Time {
        self.heard_at
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
        let Self { counted, last, looks_at, heard_at } = self;
        heard_at.rebase(by);
        counted.rebase(by);
        last.rebase(by);
        looks_at.rebase(by);
    }
}

/// What is known of one server's silence.
#[derive(Clone, Debug)]
pub(crate) struct Silence {
    /// Since it was heard last: handshakes, and their first segments, of which some came more than once.
    handshakes: u32,
    segments: u32,
    /// When the first of them began, and when there were enough of them.
    since: Time,
    enough_at: Option<Time>,
    /// The longest that a handshake waited for it, of late.
    longest: Span,
}

impl Default for Silence {
    fn default() -> Self {
        Self { handshakes: 0, segments: 0, since: Time::ZERO, enough_at: None, longest: Span::ZERO }
    }
}

impl Silence {
    /// A first segment goes to it; `is_again`: once more.
    #[inline]
    pub fn asked(&mut self, at: Time, is_again: bool, ejection: &Ejection) {
        if self.segments == 0 {
            self.since = at;
        }
        self.segments = self.segments.saturating_add(1);
        self.handshakes = self.handshakes.saturating_add(u32::from(!is_again));
        let are_enough = self.handshakes >= HANDSHAKES || self.segments >= ejection.consecutive;
        if are_enough && self.enough_at.is_none() {
            self.enough_at = Some(at);
        }
    }

    /// Something has come from it, which may be the answer to a handshake that waited for so long.
    #[inline]
    pub fn heard(&mut self, handshake: Option<Span>) {
        if let Some(waited) = handshake {
            self.longest = waited.max(self.longest * 7 / 8);
        }
        self.forget();
    }

    /// What waits for it waits no more.
    #[inline]
    pub const fn forget(&mut self) {
        (self.handshakes, self.segments, self.enough_at) = (0, 0, None);
    }

    /// So many first segments have waited for it, and for how long, if that is too long.
    pub fn is_too_long(&self, (at, heard_at): (Time, Time), ejection: &Ejection) -> Option<(u32, Span)> {
        let enough_at = self.enough_at.filter(|_| ejection.consecutive > 0 && heard_at > self.since)?;
        let (patience, waited) = (self.longest * PATIENCE, at.since(self.since));
        let is_silent = waited >= ejection.silence.max(patience) && at.since(enough_at) >= LAST.max(patience);
        is_silent.then_some((self.segments, waited))
    }
}

impl Rebase for Silence {
    fn rebase(&mut self, by: Span) {
        let Self { handshakes: _, segments: _, since, enough_at, longest: _ } = self;
        since.rebase(by);
        enough_at.rebase(by);
    }
}
