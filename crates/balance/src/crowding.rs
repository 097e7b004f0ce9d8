//! How much longer a server takes for one request the more it has in front of it.
//!
//! A server that works on one request at a time takes as long for it as there are others in front; one that works on all at once takes as long as it always does. From
//! its speed alone they can't be told apart (by Little's law both answer as many as they have, divided by how long each waits), but from how waiting goes with the
//! crowd: its regression on the number in front, from zero for the second kind to a server's whole time for one for the first.

use machine::{Rebase, Span, Time};

/// The share of a new sample in the averages, as a power of two: a sixty-fourth.
const SAMPLE_SHIFT: u32 = 6;
/// Crowds that are remembered until their requests are answered.
const MARKS: usize = 32;
/// Fractions of one request in averages of crowds, as a power of two.
const PART_BITS: u32 = 8;
/// A share that is one.
pub(crate) const WHOLE: u64 = 1 << PART_BITS;

/// What is known of one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crowding {
    /// Crowds at some moments, in a ring: the latest is at `latest`.
    marks: [(Time, u32); MARKS],
    latest: usize,
    /// How much the averages rest on, in answers.
    samples: u64,
    /// When the last answer came.
    answered_at: Time,
    /// Of requests that have been answered: how many were in front, in parts.
    front: i64,
    /// How long they took, in nanoseconds.
    latency: i64,
    /// Of the number in front, in squared parts.
    variance: i128,
    /// Of both, in parts and nanoseconds.
    covariance: i128,
    /// How much of [`WHOLE`] is missing in [`Self::share`]: it is asked for more often than it changes.
    missing_share: u32,
}

impl Crowding {
    /// A request comes, with so many in front of it. `latency` is what they take on average: a fraction of it later a new mark is made.
    pub fn arrived(&mut self, now: Time, front: u32, latency: Span) {
        let apart = latency / (MARKS as u64 / 4);
        let last = self.marks[self.latest].0;
        if last == Time::ZERO || now.since(last) >= apart {
            self.latest = (self.latest + 1) % MARKS;
            self.marks[self.latest] = (now, front);
        }
    }

    /// How many were in front of a request that came then: the latest mark until then, or the oldest.
    fn front_at(&self, then: Time) -> u32 {
        let newest_first = (0..MARKS).map(|back| self.marks[(self.latest + MARKS - back) % MARKS]);
        let mut oldest = self.marks[self.latest];
        for mark in newest_first.take_while(|mark| mark.0 != Time::ZERO) {
            oldest = mark;
            if mark.0 <= then {
                break;
            }
        }
        oldest.1
    }

    /// A request has been answered that took so long. What was learned before a while without answers counts for less, half of it for each `half_life`.
    pub fn answered(&mut self, now: Time, latency: Span, half_life: Span) {
        let halvings = now.since(self.answered_at).as_ps() / half_life.as_ps().max(1);
        self.samples = self.samples.min(1 << SAMPLE_SHIFT).checked_shr(halvings.min(64) as u32).unwrap_or(0);
        self.answered_at = now;
        let then = Time::from_ps(now.as_ps().saturating_sub(latency.as_ps()));
        let front = i64::from(self.front_at(then)) << PART_BITS;
        let latency = latency.as_ns().min(1 << 40).cast_signed();
        if self.samples == 0 {
            (self.front, self.latency) = (front, latency);
        }
        self.samples += 1;
        // The first samples count more.
        let share = self.samples.min(1 << SAMPLE_SHIFT).cast_signed();
        let (by_front, by_latency) = (front - self.front, latency - self.latency);
        self.front += by_front / share;
        self.latency += by_latency / share;
        let moved = |mean: i128, sample: i128| mean + (sample - mean) / i128::from(share);
        self.variance = moved(self.variance, i128::from(by_front) * i128::from(front - self.front));
        self.covariance = moved(self.covariance, i128::from(by_front) * i128::from(latency - self.latency));
        self.missing_share = (WHOLE - self.regression()) as u32;
    }

    /// How many are in front of a request on average, in parts; one more than that with the request itself.
    pub fn with_itself(&self) -> u64 {
        self.front.cast_unsigned() + WHOLE
    }

    /// How long a request takes, by the last sixty-four and more; nothing if there were no answers.
    pub fn latency(&self) -> Option<Span> {
        (self.samples > 0).then(|| Span::from_ns(self.latency.cast_unsigned()))
    }

    /// Since when there has been no answer.
    pub const fn answered_at(&self) -> Time {
        self.answered_at
    }

    /// Which share of its time a server takes longer for each that is in front, in parts: [`WHOLE`] if it works on one at a time. It is taken for such a one until its
    /// crowds have differed enough to know better.
    pub const fn share(&self) -> u64 {
        WHOLE - self.missing_share as u64
    }

    fn regression(&self) -> u64 {
        if self.samples < 1 << (SAMPLE_SHIFT - 2) {
            return WHOLE;
        }
        let (itself, latency) = (i128::from(self.with_itself()), i128::from(self.latency).max(1));
        // As much doubt as crowds that differ by an eighth.
        let doubt = (itself / 8) * (itself / 8) + 1;
        // The slope of one at a time: latency / itself.
        let slope = self.covariance + doubt * latency / itself;
        let share = (slope * itself * i128::from(WHOLE)) / ((self.variance + doubt) * latency);
        share.clamp(0, i128::from(WHOLE)) as u64
    }
}

impl Rebase for Crowding {
    fn rebase(&mut self, by: Span) {
        let Self {
            marks,
            latest: _,
            samples: _,
            answered_at,
            front: _,
            latency: _,
            variance: _,
            covariance: _,
            missing_share: _,
        } = self;
        answered_at.rebase(by);
        for (at, _) in marks.iter_mut().filter(|(at, _)| *at != Time::ZERO) {
            at.rebase(by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests of which each has the next crowd in front of it, and takes as long as `latency` says.
    fn after(crowds: impl Iterator<Item = u32>, latency: impl Fn(u32) -> Span) -> Crowding {
        let mut crowding = Crowding::default();
        let mut now = Time::from_ns(1);
        for front in crowds {
            crowding.arrived(now, front, Span::from_ms(1));
            now += latency(front);
            crowding.answered(now, latency(front), Span::from_secs(1));
            now += Span::from_ms(1);
        }
        crowding
    }

    fn crowds() -> impl Iterator<Item = u32> {
        (0..200).map(|n| 5 + n * 7 % 11)
    }

    #[test]
    fn one_at_a_time_takes_longer_by_each_in_front() {
        let crowding = after(crowds(), |front| Span::from_ms(2) * u64::from(front + 1));
        assert!(crowding.share() > WHOLE * 9 / 10, "{}", crowding.share());
        assert!(crowding.with_itself().abs_diff(11 * WHOLE) < WHOLE, "{}", crowding.with_itself());
    }

    #[test]
    fn all_at_once_takes_as_long_as_ever() {
        let crowding = after(crowds(), |_| Span::from_ms(20));
        assert!(crowding.share() < WHOLE / 3, "{}", crowding.share());
    }

    #[test]
    fn what_was_learned_long_ago_counts_for_less() {
        let mut crowding = after(crowds(), |_| Span::from_ms(500));
        let before = crowding.answered_at();
        crowding.answered(before + Span::from_secs(3), Span::from_ms(10), Span::from_secs(1));
        let latency = crowding.latency().unwrap();
        assert!((Span::from_ms(400)..Span::from_ms(450)).contains(&latency), "an eighth of the new one: {latency:?}");
        crowding.answered(before + Span::from_secs(90), Span::from_ms(10), Span::from_secs(1));
        assert_eq!(crowding.latency(), Some(Span::from_ms(10)));
    }

    #[test]
    fn who_has_always_had_the_same_crowd_is_taken_for_one_at_a_time() {
        let crowding = after((0..200).map(|_| 10), |_| Span::from_ms(20));
        assert!(crowding.share() > WHOLE * 9 / 10, "{}", crowding.share());
        assert_eq!(Crowding::default().share(), WHOLE);
    }
}
