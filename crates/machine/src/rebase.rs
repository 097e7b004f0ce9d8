//! Clocks that are set back, so that none of them ever reaches its end.
//!
//! A [`Time`] reaches 213 days. A driver that runs for longer sets its clock back before, and with it every moment that anybody holds: afterwards all of
//! them lie as far from now as before. What lies further back than the clock's new start is taken to be there, so a clock is never set back so far
//! that it would matter to anybody how much longer ago that was.

use std::collections::{BTreeMap, VecDeque};

use crate::{Span, Time};

/// What holds moments.
///
/// A struct takes itself apart in its implementation (`let Self { idle_at, spec: _ } = self;`), and names every field: who adds one has to say whether it is a
/// moment.
pub trait Rebase {
    /// The clock is set back by `by`: each moment is so much earlier. [`Time::NEVER`] stays.
    fn rebase(&mut self, by: Span);
}

impl Rebase for Time {
    fn rebase(&mut self, by: Span) {
        if *self != Self::NEVER {
            *self = Self::ZERO + self.since(Self::ZERO + by);
        }
    }
}

impl<T: Rebase> Rebase for Option<T> {
    fn rebase(&mut self, by: Span) {
        if let Some(it) = self {
            it.rebase(by);
        }
    }
}

impl<T: Rebase> Rebase for [T] {
    fn rebase(&mut self, by: Span) {
        for it in self {
            it.rebase(by);
        }
    }
}

impl<T: Rebase, const N: usize> Rebase for [T; N] {
    fn rebase(&mut self, by: Span) {
        self.as_mut_slice().rebase(by);
    }
}

impl<T: Rebase> Rebase for Vec<T> {
    fn rebase(&mut self, by: Span) {
        self.as_mut_slice().rebase(by);
    }
}

impl<T: Rebase + ?Sized> Rebase for Box<T> {
    fn rebase(&mut self, by: Span) {
        (**self).rebase(by);
    }
}

impl<T: Rebase> Rebase for VecDeque<T> {
    fn rebase(&mut self, by: Span) {
        for it in self {
            it.rebase(by);
        }
    }
}

impl<K, V: Rebase> Rebase for BTreeMap<K, V> {
    fn rebase(&mut self, by: Span) {
        for it in self.values_mut() {
            it.rebase(by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_keep_their_distance_and_never_stays_never() {
        let at = |s: u64| Time::ZERO + Span::from_secs(s);
        let mut moments = [at(3), at(10), at(12), Time::NEVER].map(Some);
        moments.rebase(Span::from_secs(5));
        assert_eq!(moments, [at(0), at(5), at(7), Time::NEVER].map(Some));
    }
}
