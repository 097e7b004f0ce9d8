//! What functions that track connections have in common.

use super::service_function::FunctionCount;
use crate::conntrack::Conntrack;

/// Connections of one function.
const CONNECTIONS_MAX: usize = 1 << 17;

/// A table of connections of a function's own: what others do does not fill it. `seed` is where its hashes start.
pub fn connections(seed: u64) -> Conntrack {
    Conntrack::new(seed, CONNECTIONS_MAX)
}

/// How many connections a function keeps.
pub fn count_of(conntrack: &Conntrack) -> FunctionCount {
    FunctionCount::new("connections", conntrack.counters().connections)
}
