//! Built-in functions of service chains: machines that stand in a chain without a port, a process or another look-up.
//!
//! ```text
//!   host --> classified --> [counter] --> [firewall] --> ingress of a function that has ports --> .. --> host
//! ```
//!
//! Each is a [`ServiceFunction`]; `datapath` shows it packets and carries out its verdicts, live and simulated.

mod connections;
mod counter;
mod firewall;
mod mirror;
mod nat;
mod rate_limit;
mod service_function;
#[cfg(test)]
mod tests;

use topology::NodeId;

use counter::Counter;
use firewall::Firewall;
use mirror::Mirror;
use nat::Nat;
use rate_limit::RateLimiter;

pub use firewall::{FirewallRule, FirewallRules};
pub use nat::{NatRules, PortForward};
pub use rate_limit::RateLimit;
pub use service_function::{Course, FunctionCount, PassingPacket, ServiceFunction, Verdict};

/// What a built-in function is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// Packets and bytes are counted by protocol.
    Counter,
    /// What comes faster is dropped.
    RateLimit(RateLimit),
    /// A copy goes to this host.
    Mirror(NodeId),
    /// Connections are let in or not.
    Firewall(FirewallRules),
    /// Addresses and ports are translated.
    Nat(NatRules),
}

impl BuiltIn {
    /// Its name in files and results.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::RateLimit(_) => "rate-limit",
            Self::Mirror(_) => "mirror",
            Self::Firewall(_) => "firewall",
            Self::Nat(_) => "nat",
        }
    }

    /// Whether it must see both directions of a connection.
    pub const fn is_stateful(&self) -> bool {
        match self {
            Self::Firewall(_) | Self::Nat(_) => true,
            Self::Counter | Self::RateLimit(_) | Self::Mirror(_) => false,
        }
    }

    /// What it translates, if it does.
    pub const fn nat(&self) -> Option<&NatRules> {
        match self {
            Self::Nat(rules) => Some(rules),
            Self::Counter | Self::RateLimit(_) | Self::Mirror(_) | Self::Firewall(_) => None,
        }
    }

    /// The host that it sends copies to, if it does.
    pub const fn mirrors_to(&self) -> Option<NodeId> {
        match self {
            Self::Mirror(to) => Some(*to),
            Self::Counter | Self::RateLimit(_) | Self::Firewall(_) | Self::Nat(_) => None,
        }
    }

    /// The machine, as it starts. `seed` is where hashes start.
    pub fn make(&self, seed: u64) -> Box<dyn ServiceFunction> {
        match self {
            Self::Counter => Box::new(Counter::default()),
            Self::RateLimit(limit) => Box::new(RateLimiter::new(*limit)),
            Self::Mirror(to) => Box::new(Mirror::new(*to)),
            Self::Firewall(rules) => Box::new(Firewall::new(rules, seed)),
            Self::Nat(rules) => Box::new(Nat::new(rules, seed)),
        }
    }
}
