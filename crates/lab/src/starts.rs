//! When the flows of a run begin: within a time of each other, at random by the run's seed, and the same live as simulated.
//!
//! It matters: flows in lockstep meet at queues in ways that no real network shows (two-way traffic on one path carried 15 % less when all flows started within
//! 1 ms), and over a long path the one that begins first gets more for as long as a run lasts.

use machine::{Rng, Span};

/// Flows start within this time of each other.
const WITHIN: Span = Span::from_ms(50);
/// What keeps this randomness apart from all other of a run.
const LABEL: u64 = 2;

/// The starts of so many flows since the run's own, within its warm-up. One without a warm-up starts all at zero, as the published measurements do.
pub(crate) fn starts(seed: u64, warm_up: Span) -> impl Iterator<Item = Span> {
    let within = WITHIN.min(warm_up).as_ns() as u32;
    let mut rng = Rng::new(seed).fork(LABEL);
    std::iter::repeat_with(move || if within == 0 { Span::ZERO } else { Span::from_ns(u64::from(rng.below(within))) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_lie_within_the_warm_up() {
        let of = |seed, warm_up| starts(seed, warm_up).take(100).collect::<Vec<_>>();
        assert!(of(1, Span::from_secs(1)).iter().all(|start| *start < WITHIN));
        assert!(of(1, Span::from_ms(3)).iter().all(|start| *start < Span::from_ms(3)));
        assert_eq!(of(1, Span::ZERO), [Span::ZERO; 100]);
        assert_eq!(of(1, WITHIN), of(1, Span::from_secs(9)));
        assert_ne!(of(1, WITHIN), of(2, WITHIN));
    }
}
