//! The clock of one server: monotone, of its own speed, perhaps jumping ahead.

use machine::nanos::{Span, Time};

/// Parts per million that are a whole.
const WHOLE: i128 = 1_000_000;

/// What a server takes for the time. It never runs backwards, as the monotone clock of an operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// A moment of the simulation and what the clock showed then.
    since: (Time, Time),
    /// How much faster it runs than the simulation's, in parts per million.
    drift_ppm: i32,
}

impl Clock {
    /// A clock that shows `offset` at the start of the simulation.
    ///
    /// # Panics
    /// If it would stand still or run backwards.
    pub fn new(offset: Span, drift_ppm: i32) -> Self {
        let clock = Self { since: (Time::ZERO, Time::ZERO + offset), drift_ppm };
        assert!(clock.speed() > 0, "a clock runs forwards");
        clock
    }

    fn speed(&self) -> i128 {
        WHOLE + i128::from(self.drift_ppm)
    }

    /// What it shows at a moment.
    pub fn shows(&self, at: Time) -> Time {
        let passed = i128::from(at.since(self.since.0).as_ns());
        self.since.1 + Span::from_ns((passed * self.speed() / WHOLE) as u64)
    }

    /// The first moment at which it shows `local` or more; never if it doesn't.
    pub fn moment_of(&self, local: Time) -> Time {
        if local == Time::NEVER {
            return Time::NEVER;
        }
        let ahead = i128::from(local.since(self.since.1).as_ns());
        let passed = (ahead * WHOLE + self.speed() - 1) / self.speed();
        self.since.0 + Span::from_ns(passed.min(i128::from(u64::MAX)) as u64)
    }

    /// Changes its speed.
    pub fn set_drift(&mut self, now: Time, drift_ppm: i32) {
        self.since = (now, self.shows(now));
        self.drift_ppm = drift_ppm;
        assert!(self.speed() > 0, "a clock runs forwards");
    }

    /// Lets it jump ahead.
    pub fn jump(&mut self, now: Time, by: Span) {
        self.since = (now, self.shows(now) + by);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_fast_clock_gains() {
        let mut clock = Clock::new(Span::from_secs(5), 20_000);
        let ten = Time::ZERO + Span::from_secs(10);
        assert_eq!(clock.shows(ten), Time::ZERO + Span::from_ms(15_200));
        clock.set_drift(ten, -20_000);
        assert_eq!(clock.shows(ten + Span::from_secs(10)), Time::ZERO + Span::from_secs(25));
        clock.jump(ten, Span::from_secs(1));
        assert_eq!(clock.shows(ten), Time::ZERO + Span::from_ms(16_200));
        assert_eq!(clock.moment_of(Time::NEVER), Time::NEVER);
    }

    proptest! {
        #[test]
        fn the_moment_is_the_first(offset in 0..1_u64 << 50, drift in -500_000..1_000_000_i32, local in 0..1_u64 << 52) {
            let clock = Clock::new(Span::from_ns(offset), drift);
            let local = Time::from_ns(local);
            let moment = clock.moment_of(local);
            prop_assert!(clock.shows(moment) >= local);
            if moment > Time::ZERO {
                prop_assert!(clock.shows(Time::from_ns(moment.as_ns() - 1)) < local);
            }
        }
    }
}
