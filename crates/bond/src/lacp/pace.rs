//! How often something may happen.

use machine::{Rebase, Span, Time};

/// At most `N` times in any second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace<const N: usize> {
    /// When the last `N` happened; `oldest` says which was first.
    times: [Option<Time>; N],
    oldest: usize,
}

/// The interval that limits are counted in (`Fast_Periodic_Time`).
const INTERVAL: Span = Span::from_secs(1);

impl<const N: usize> Pace<N> {
    pub(crate) const fn new() -> Self {
        Self { times: [None; N], oldest: 0 }
    }

    /// From when on it may happen again.
    pub(crate) fn ready_at(&self) -> Time {
        self.times[self.oldest].map_or(Time::ZERO, |time| time + INTERVAL)
    }

    /// Lets it happen at `now` if the limit allows.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        if now < self.ready_at() {
            return false;
        }
        self.times[self.oldest] = Some(now);
        self.oldest = (self.oldest + 1) % N;
        true
    }
}

impl<const N: usize> Rebase for Pace<N> {
    fn rebase(&mut self, by: Span) {
        let Self { times, oldest: _ } = self;
        times.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_has_more_than_allowed() {
        let mut pace = Pace::<3>::new();
        let taken: Vec<u64> =
            (0..40).map(|tenth| tenth * 100).filter(|&ms| pace.take(Time::ZERO + Span::from_ms(ms))).collect();
        assert_eq!(taken, [0, 100, 200, 1_000, 1_100, 1_200, 2_000, 2_100, 2_200, 3_000, 3_100, 3_200]);
    }
}
