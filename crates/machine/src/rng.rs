//! Seeded randomness: xoshiro256++ (Blackman and Vigna), forked by label so that one consumer's draws never shift another's.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::Span;

/// A source of random numbers that the caller seeds. The same seed draws the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    state: Xoshiro256PlusPlus,
}

impl Rng {
    /// A source that starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, state: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// An independent source for the consumer called `label`; what was drawn from `self` so far does not matter.
    #[must_use]
    pub fn fork(&self, label: u64) -> Self {
        Self::new(mix(self.seed ^ mix(label.wrapping_add(1))))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state.next_u64()
    }

    /// A whole number in `0..n` (Lemire's multiply and shift; its bias is below 2^-32 for any `n` that fits 32 bits).
    ///
    /// # Panics
    /// If `n` is zero.
    pub fn below(&mut self, n: u32) -> u32 {
        assert!(n > 0, "nothing lies below zero");
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u32
    }

    /// A number in `0.0..1.0` with 53 random bits.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A time from an exponential distribution with this mean, as between arrivals that know nothing of each other; 44 times the mean at most. It is computed
    /// without floating point, whose logarithms differ in their last bit from machine to machine.
    pub fn exponential(&mut self, mean: Span) -> Span {
        /// The natural logarithm of 2, in units of 2^-32.
        const LN_2: u128 = 2_977_044_472;
        // A number of 1..2^64, of which the logarithm to the base 2 is taken digit by digit: squaring doubles it.
        let drawn = self.bits().max(1);
        let whole = drawn.ilog2();
        let mut rest = drawn << drawn.leading_zeros();
        let mut fraction = 0_u64;
        for _ in 0..32 {
            let squared = (u128::from(rest) * u128::from(rest)) >> 63;
            let digit = squared >> 64 > 0;
            rest = (squared >> u32::from(digit)) as u64;
            fraction = (fraction << 1) | u64::from(digit);
        }
        let below_one = (64_u64 << 32) - ((u64::from(whole) << 32) | fraction);
        let logarithm = (u128::from(below_one) * LN_2) >> 32;
        Span::from_ps(u64::try_from((u128::from(mean.as_ps()) * logarithm) >> 32).unwrap_or(u64::MAX))
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u32 + 1) as usize);
        }
    }
}

/// Spreads the bits of `x` evenly (the finalizer of splitmix64): a hash for keys that are already numbers.
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_numbers_for_ever() {
        let mut rng = Rng::new(1);
        assert_eq!([rng.bits(), rng.bits()], [0xcfc5_d07f_6f03_c29b, 0xbf42_4132_963f_e08d]);
    }

    #[test]
    fn a_fork_does_not_depend_on_what_was_drawn() {
        let mut used = Rng::new(7);
        let fresh = used.clone();
        used.bits();
        assert_eq!(used.fork(3).bits(), fresh.fork(3).bits());
        assert_ne!(fresh.fork(3).bits(), fresh.fork(4).bits());
    }

    #[test]
    fn exponential_times_have_the_mean_and_the_tail_that_they_should() {
        let mut rng = Rng::new(4);
        let mean = Span::from_us(100);
        let drawn: Vec<f64> = (0..100_000).map(|_| rng.exponential(mean).as_secs_f64() / mean.as_secs_f64()).collect();
        let average = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((average - 1.0).abs() < 0.02, "{average}");
        for (beyond, share) in [(0.5, 0.606_5), (1.0, 0.367_9), (3.0, 0.049_8)] {
            let seen = drawn.iter().filter(|&&time| time > beyond).count() as f64 / drawn.len() as f64;
            assert!((seen - share).abs() < 0.01, "{beyond}: {seen}");
        }
        // The same on every machine: it is -ln(0xcfc5... / 2^64).
        assert_eq!(Rng::new(1).exponential(Span::from_ms(1_000)), Span::from_ps(208_732_689_730));
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut rng = Rng::new(9);
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[rng.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1_200).contains(&n)), "{seen:?}");
    }
}
