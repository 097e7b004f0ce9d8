//! Path spreading: which of several equal-cost next hops a packet takes.
//!
//! Pure functions: the state they need (a turn, a random source) is passed in, so that live and simulated switches
//! decide alike.

use machine::{Rng, mix};
use serde::{Deserialize, Serialize};

/// How a switch picks one of several equal-cost next hops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Always the first next hop: one path to each destination, as a routing protocol without multipath has it.
    Single,
    /// By a hash of the flow's 5-tuple, salted per switch (RFC 2992's hash-threshold family).
    #[default]
    Ecmp,
    /// Each packet to the next one in turn; each next-hop set has a turn (`packet-scatter`).
    PacketScatter,
    /// The same, but each destination has a turn, as in ns-2 (`packet-scatter-per-destination`).
    PacketScatterPerDestination,
    /// Each packet to one drawn at random (`packet-scatter-random`).
    PacketScatterRandom,
}

impl Spread {
    /// All of them.
    pub const ALL: &[Self] =
        &[Self::Single, Self::Ecmp, Self::PacketScatter, Self::PacketScatterPerDestination, Self::PacketScatterRandom];

    /// Its name in files and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Ecmp => "ecmp",
            Self::PacketScatter => "packet-scatter",
            Self::PacketScatterPerDestination => "packet-scatter-per-destination",
            Self::PacketScatterRandom => "packet-scatter-random",
        }
    }
}

/// The 5-tuple's hash, the same at every switch; each switch adds its own salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowHash(pub u64);

/// Hash of the flow and the switch's salt, scaled to `0..n` (hash-threshold, RFC 2992). Without the salt, switches of the next
/// tier would see only flows that hashed alike and use a part of their ports ("polarisation").
#[inline]
pub fn ecmp(hash: FlowHash, salt: u64, n: u32) -> u32 {
    ((u128::from(mix(hash.0 ^ salt)) * u128::from(n)) >> 64) as u32
}

/// The next one in turn.
#[inline]
pub fn round_robin(turn: &mut u32, n: u32) -> u32 {
    let pick = if *turn < n { *turn } else { 0 };
    *turn = pick + 1;
    pick
}

/// One drawn at random.
#[inline]
pub fn random(rng: &mut Rng, n: u32) -> u32 {
    rng.below(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecmp_is_even_and_two_tiers_do_not_polarise() {
        let mut paths = [[0_u32; 4]; 4];
        for flow in 0..16_000_u64 {
            let hash = FlowHash(mix(flow));
            paths[ecmp(hash, 1, 4) as usize][ecmp(hash, 2, 4) as usize] += 1;
        }
        assert!(paths.iter().flatten().all(|&n| (850..1_150).contains(&n)), "{paths:?}");
    }

    #[test]
    fn round_robin_takes_turns_also_when_the_set_shrinks() {
        let mut turn = 0;
        let picks: Vec<_> = (0..5).map(|_| round_robin(&mut turn, 3)).collect();
        assert_eq!(picks, [0, 1, 2, 0, 1]);
        assert_eq!(round_robin(&mut turn, 2), 0);
        assert_eq!(round_robin(&mut turn, 1), 0);
    }
}
