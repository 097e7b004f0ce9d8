//! Ranges of addresses and ports of which none was left: nobody looks there again for a while, however many packets would begin a connection.

use machine::{Rebase, Span, Time};

/// How long nobody looks.
const PAUSE: Span = Span::from_ms(10);

/// So many are remembered; a later one takes the place of an earlier one.
const PLACES: usize = 256;

/// What was exhausted, by [`NatRange::contested`](super::NatRange), and until when it is taken for that.
#[derive(Debug)]
pub struct Exhausted {
    places: Box<[(u64, Time)]>,
}

impl Default for Exhausted {
    fn default() -> Self {
        Self { places: vec![(0, Time::ZERO); PLACES].into() }
    }
}

impl Exhausted {
    const fn place(key: u64) -> usize {
        key as usize % PLACES
    }

    /// Whether none was left a short while ago.
    pub fn contains(&self, now: Time, key: u64) -> bool {
        let (own, until) = self.places[Self::place(key)];
        own == key && until > now
    }

    /// None is left.
    pub fn insert(&mut self, now: Time, key: u64) {
        self.places[Self::place(key)] = (key, now + PAUSE);
    }
}

impl Rebase for Exhausted {
    fn rebase(&mut self, by: Span) {
        let Self { places } = self;
        for (_, until) in places {
            until.rebase(by);
        }
    }
}
