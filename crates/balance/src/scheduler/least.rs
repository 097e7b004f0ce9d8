//! LC and WLC: who has the fewest connections, by weight. After `ip_vs_lc.c` and `ip_vs_wlc.c` of Linux 6.1: an active connection counts as 256 inactive
//! ones, and of equals the first is taken.

use core::cmp::Ordering;

use machine::{Rebase, Rng, Span, Time};

use super::schedule::{Client, Schedule};
use crate::server::Server;
use crate::server_id::ServerId;
use crate::servers::Servers;

/// What the connections of a server weigh together.
pub(crate) fn overhead(server: &Server) -> u64 {
    (u64::from(server.active) << 8) + u64::from(server.inactive)
}

/// Which of two servers has less for its weight.
pub(crate) fn by_overhead(overhead: impl Fn(&Server) -> u64, a: &Server, b: &Server) -> Ordering {
    (overhead(a) * u64::from(b.weight)).cmp(&(overhead(b) * u64::from(a.weight)))
}

/// Least connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastConnections;

/// Least connections for their weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightedLeastConnections;

impl Schedule for LeastConnections {
    fn choose(&mut self, _now: Time, servers: &Servers, _client: &Client, _rng: &mut Rng) -> Option<ServerId> {
        servers.candidates().min_by_key(|server| overhead(server)).map(|server| server.id)
    }
}

impl Schedule for WeightedLeastConnections {
    fn choose(&mut self, _now: Time, servers: &Servers, _client: &Client, _rng: &mut Rng) -> Option<ServerId> {
        servers.candidates().min_by(|a, b| by_overhead(overhead, a, b)).map(|server| server.id)
    }
}

impl Rebase for LeastConnections {
    fn rebase(&mut self, _by: Span) {}
}

impl Rebase for WeightedLeastConnections {
    fn rebase(&mut self, _by: Span) {}
}
