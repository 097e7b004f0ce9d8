//! How service chains do.

use serde::{Deserialize, Serialize};

/// One course of a chain: from its `from` to its `to`, or back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainCounters {
    /// The chain's name.
    pub chain: String,
    /// `forward` or `reverse`.
    pub course: String,
    /// Packets that entered it.
    pub entered: u64,
    /// Packets that were sent on to where they go, behind the last function.
    pub left: u64,
    /// How often a packet went past a function that was down.
    pub bypassed: u64,
    /// Packets that were dropped since a function was down.
    pub blocked: u64,
    /// Packets that were for nobody: of functions, for stations that there are not; of hosts, for one of them but sent to everybody.
    pub stray: u64,
    /// The functions in the order in which packets pass them, each instance by itself.
    pub hops: Vec<ChainHop>,
}

/// An instance of a function, on one course of its chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHop {
    /// The instance's name.
    pub function: String,
    /// What it is, if it is built in: `counter`, `firewall`, ..
    pub built_in: Option<String>,
    /// What a built-in function has counted, of both courses.
    pub counts: Vec<HopCount>,
    /// Whether packets go there.
    pub up: bool,
    /// How often it has gone down.
    pub failures: u64,
    /// Since when it is down, in milliseconds.
    pub down_ms: Option<u64>,
    /// Packets that went to it.
    pub in_packets: u64,
    /// Their bytes, without frame check sequence.
    pub in_bytes: u64,
    /// Packets that have come to it: what is not among them was lost on its way there, or is under way.
    #[serde(default)]
    pub arrived_packets: u64,
    /// Packets that came back from it.
    pub out_packets: u64,
    /// Their bytes.
    pub out_bytes: u64,
    /// How many of the packets were timed.
    pub timed: u64,
    /// How long those took together until they came back, links to the function included, in ns.
    pub delay_total_ns: u64,
    /// The longest, in ns.
    pub delay_max_ns: u64,
}

/// A number that a built-in function shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopCount {
    /// What was counted.
    pub name: String,
    /// How often: packets, if nothing else is said.
    pub count: u64,
    /// The bytes of those packets, where they are counted.
    pub bytes: Option<u64>,
}
