//! A token bucket: what passes at a rate, and a burst at once.
//!
//! The bucket is not filled step by step. It is kept when it will be full again, and what is missing until then is what has been taken (as the generic cell rate
//! algorithm does, ITU-T I.371): so it needs no timer, and no look at it changes it.

use machine::{Rebase, Span, Time};

/// Parts of a picosecond in which the time that a token takes is kept: 2^32 of them are one.
const FRACTION_BITS: u32 = 32;

/// Picoseconds of a second.
const SECOND_PS: u128 = 1_000_000_000_000;

/// Tokens that come at a rate, as many as the bucket holds.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    /// How long a token takes to come, in 2^-32 picoseconds, rounded up: never more pass than the rate says.
    token: u128,
    /// Tokens that it holds.
    burst: u64,
    /// How long it takes until an empty one is full.
    fill: Span,
    /// When it is full, if nothing is taken.
    full_at: Time,
}

impl TokenBucket {
    /// One that is full. `rate` is in tokens a second and `burst` in tokens; of either, 0 is taken for 1.
    pub fn new(rate: u64, burst: u64) -> Self {
        let token = (SECOND_PS << FRACTION_BITS).div_ceil(u128::from(rate.max(1)));
        let bucket = Self { token, burst: burst.max(1), fill: Span::ZERO, full_at: Time::ZERO };
        Self { fill: bucket.time_of(bucket.burst), ..bucket }
    }

    /// Takes tokens if there are as many. Whoever wants more than the bucket ever holds gets them when it is full, and all others wait for as long as those take
    /// to come: so a large packet is not lost for ever, and the rate holds.
    #[inline]
    pub fn take(&mut self, now: Time, tokens: u64) -> bool {
        let missing = self.full_at.since(now);
        if missing + self.time_of(tokens.min(self.burst)) > self.fill {
            return false;
        }
        self.full_at = self.full_at.max(now) + self.time_of(tokens);
        true
    }

    /// How long so many tokens take to come.
    #[inline]
    fn time_of(&self, tokens: u64) -> Span {
        let ps = self.token.saturating_mul(u128::from(tokens)) >> FRACTION_BITS;
        Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

impl Rebase for TokenBucket {
    fn rebase(&mut self, by: Span) {
        let Self { token: _, burst: _, fill: _, full_at } = self;
        full_at.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn a_burst_passes_at_once_and_then_the_rate() {
        // A token each microsecond.
        let mut bucket = TokenBucket::new(1_000_000, 10);
        assert_eq!((0..20).filter(|_| bucket.take(at(100), 1)).count(), 10);
        assert!(!bucket.take(at(100), 1));
        assert!(bucket.take(at(101), 1) && !bucket.take(at(101), 1));
        assert!(!bucket.take(at(104), 4) && bucket.take(at(105), 4));
        assert_eq!((0..20).filter(|_| bucket.take(at(1_000), 1)).count(), 10, "it holds no more");
    }

    #[test]
    fn what_is_larger_than_the_bucket_passes_when_it_is_full_and_is_paid_for() {
        let mut bucket = TokenBucket::new(1_000_000, 10);
        assert!(bucket.take(at(0), 100));
        assert!(!bucket.take(at(99), 10) && !bucket.take(at(90), 1));
        assert!(bucket.take(at(100), 10));
        bucket.rebase(Span::from_us(50));
        assert!(!bucket.take(at(55), 6) && bucket.take(at(55), 5));
    }

    proptest! {
        #[test]
        fn never_more_passes_than_burst_and_rate(
            (rate, burst) in (1_u64..1 << 40, 1_u64..1 << 24),
            asked in proptest::collection::vec((0_u64..1 << 40, 1_u64..1 << 16), 1..200),
        ) {
            let (mut bucket, mut now, mut passed) = (TokenBucket::new(rate, burst), 0_u64, 0_u128);
            for (wait_ps, tokens) in asked {
                now += wait_ps;
                if bucket.take(Time::ZERO + Span::from_ps(now), tokens) {
                    passed += u128::from(tokens);
                    let came = u128::from(burst.max(1 << 16)) + u128::from(rate) * u128::from(now) / SECOND_PS + 1;
                    prop_assert!(passed <= came, "{passed} of {came}");
                }
            }
        }
    }
}
