//! LC: who has the fewest connections. After `ip_vs_lc.c` of Linux 6.1: an active connection counts as 256 inactive ones, and of equals the first is taken.

use machine::{Rebase, Rng, Span, Time};

use super::schedule::{Client, Schedule};
use crate::server::{Server, ServerId};
use crate::servers::Servers;

/// What the connections of a server weigh together.
pub(crate) fn overhead(server: &Server) -> u64 {
    (u64::from(server.active) << 8) + u64::from(server.inactive)
}

/// Least connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastConnections;

impl Schedule for LeastConnections {
    fn choose(&mut self, _now: Time, servers: &Servers, _client: &Client, _rng: &mut Rng) -> Option<ServerId> {
        servers.candidates().min_by_key(|server| overhead(server)).map(|server| server.id)
    }
}

impl Rebase for LeastConnections {
    fn rebase(&mut self, _by: Span) {}
}
