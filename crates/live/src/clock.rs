//! The machine's monotonic clock as [`Time`].
//!
//! A network may run for years, and [`Time`] reaches 213 days. So when the clock shows sixty days it is set back by thirty, and with it all that the
//! network remembers ([`machine::Rebase`]).

use std::time::{Duration, Instant};

use machine::{Span, Time, nanos};

/// By how much the clock is set back, and what it shows at least afterwards. It is more than the longest time that anybody looks back, or plans ahead: options of
/// bonds have 32 bits of milliseconds.
const STEP: Duration = Duration::from_secs(30 * 24 * 3_600);

/// What the clock shows at most, but for a moment.
pub const LIMIT: Duration = Duration::from_secs(2 * STEP.as_secs());

/// Time since the network was brought up, or since some later moment. Copies agree until one of them is set back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    up_since: Instant,
    /// When it would have shown zero.
    zero: Instant,
}

impl Clock {
    /// A clock that stands at `age` now, which is zero but in tests.
    pub fn start(age: Duration) -> Self {
        let now = Instant::now();
        let up_since = now.checked_sub(age).unwrap_or(now);
        Self { up_since, zero: up_since }
    }

    /// What it shows.
    #[inline]
    pub fn now(&self) -> Time {
        Time::from_ns(self.zero.elapsed().as_nanos() as u64)
    }

    /// How long the network has been up.
    pub fn uptime(&self) -> nanos::Span {
        nanos::Span::from_ns(self.up_since.elapsed().as_nanos() as u64)
    }

    /// How long the network has been up when this clock shows `moment`.
    pub fn uptime_at(&self, moment: Time) -> nanos::Span {
        let before = self.zero.saturating_duration_since(self.up_since);
        nanos::Span::from_ns(before.as_nanos() as u64 + moment.since(Time::ZERO).as_ns())
    }

    /// Sets it back if it is time; by how much, or else how long that is still to come.
    pub fn set_back(&mut self) -> Result<Span, Duration> {
        self.set_back_at(self.zero.elapsed())
    }

    fn set_back_at(&mut self, shown: Duration) -> Result<Span, Duration> {
        if shown < LIMIT {
            return Err(LIMIT.saturating_sub(shown));
        }
        // A process that was stopped for long may be late by several steps.
        let steps = shown.as_secs() / STEP.as_secs() - 1;
        self.zero += Duration::from_secs(STEP.as_secs() * steps);
        Ok(Span::from_secs(STEP.as_secs() * steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_thirty_to_sixty_days_for_ever_and_knows_how_long_it_has_run() {
        const DAY: u64 = 24 * 3_600;
        let mut clock = Clock::start(Duration::ZERO);
        let (mut shown, mut total) = (0, 0);
        for days in [1, 58, 1, 1, 29, 40, 200, 30, 29] {
            (shown, total) = (shown + days, total + days);
            match clock.set_back_at(Duration::from_secs(shown * DAY)) {
                Ok(by) => shown -= by.as_ns() / 1_000_000_000 / DAY,
                Err(wait) => assert_eq!(wait.as_secs(), (60 - shown) * DAY),
            }
            assert!(shown < 60 && (total < 60 || shown >= 30), "{shown} after {total} days");
            assert_eq!((clock.zero - clock.up_since).as_secs(), (total - shown) * DAY);
        }
    }

    #[test]
    fn a_clock_that_is_set_back_goes_on() {
        let age = LIMIT + Duration::from_secs(5);
        let mut clock = Clock::start(age);
        assert!(clock.now() >= Time::ZERO + Span::from_secs(age.as_secs()));
        assert_eq!(clock.set_back(), Ok(Span::from_secs(STEP.as_secs())));
        let shown = clock.now() - Time::ZERO;
        assert!(shown >= Span::from_secs(STEP.as_secs() + 5) && shown < Span::from_secs(LIMIT.as_secs()), "{shown}");
        assert!(clock.uptime() >= nanos::Span::from_secs(age.as_secs()));
        assert_eq!(clock.uptime_at(Time::ZERO), nanos::Span::from_secs(STEP.as_secs()));
        assert!(clock.set_back().is_err());
    }
}
