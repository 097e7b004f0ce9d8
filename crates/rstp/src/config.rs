//! What is said of a bridge and its ports.

use machine::Span;

/// The priority of a bridge of which nothing is said (table 17-2).
pub const PRIORITY: u16 = 32_768;

/// A bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// A multiple of 4,096. Who has the least is the root.
    pub priority: u16,
    /// Its address: who has the least is the root, where priorities are the same.
    pub address: [u8; 6],
    /// How often BPDUs are sent.
    pub hello_time: Span,
    /// How old what is heard of the root may get.
    pub max_age: Span,
    /// How long a port listens, and how long it learns, where nobody agrees to its forwarding.
    pub forward_delay: Span,
    /// How many BPDUs a port sends at once. Afterwards there is one a second.
    pub transmit_hold_count: u8,
    /// Its ports, by their numbers.
    pub ports: Vec<PortConfig>,
}

/// A port of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the file")]
pub struct PortConfig {
    /// A multiple of 16 below 256. The least is preferred, where costs are the same.
    pub priority: u8,
    /// What its link adds to the cost of a path to the root: 1 to 200,000,000. [`path_cost`] says what fits a rate.
    pub cost: u32,
    /// It forwards at once: no bridge is behind it, until one is heard.
    pub admin_edge: bool,
    /// It is found out whether a bridge is behind it.
    pub auto_edge: bool,
    /// There is one station at most at the other end.
    pub point_to_point: bool,
    /// It is shut when a BPDU comes in by it, until its link goes down and up.
    pub bpdu_guard: bool,
    /// It never leads to the root: if somebody better is heard there, it is shut for as long as he is.
    pub root_guard: bool,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            priority: 128,
            cost: path_cost(None),
            admin_edge: false,
            auto_edge: true,
            point_to_point: true,
            bpdu_guard: false,
            root_guard: false,
        }
    }
}

/// What a link of a rate adds to the cost of a path (table 17-3): 20,000 of 1 Gbit/s, 2,000 of 10 Gbit/s. A link without a rate is taken for one of 10 Gbit/s.
pub fn path_cost(rate_bps: Option<u64>) -> u32 {
    const OF_ONE_BPS: u64 = 20_000_000_000_000;
    (OF_ONE_BPS / rate_bps.unwrap_or(10_000_000_000).max(1)).clamp(1, 200_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_table() {
        let rates = [100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000];
        let costs = [200_000_000, 20_000_000, 2_000_000, 200_000, 20_000, 2_000, 200];
        assert_eq!(rates.map(|rate| path_cost(Some(rate))), costs);
        assert_eq!([Some(0), Some(u64::MAX), None].map(path_cost), [200_000_000, 1, 2_000]);
    }
}
