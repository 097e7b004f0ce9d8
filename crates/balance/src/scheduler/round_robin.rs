//! RR: in turn. After `ip_vs_rr.c` of Linux 6.1: a turn begins behind the server that had the last one, also when servers have come or gone.

use machine::{Rebase, Rng, Span, Time};

use super::schedule::{Client, Schedule};
use crate::server_id::ServerId;
use crate::servers::Servers;

/// Whose turn it was.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundRobin {
    /// None: the next turn is the first server's.
    last: Option<ServerId>,
}

impl Schedule for RoundRobin {
    fn removing(&mut self, servers: &Servers, server: ServerId) {
        if self.last == Some(server) {
            let position = servers.position(server).unwrap_or(0);
            self.last = position.checked_sub(1).map(|before| servers.at(before).id);
        }
    }

    fn choose(&mut self, _now: Time, servers: &Servers, _client: &Client, _rng: &mut Rng) -> Option<ServerId> {
        let count = servers.len();
        let first = self.last.and_then(|last| servers.position(last)).map_or(0, |position| position + 1);
        let next =
            (first..first + count).map(|position| servers.at(position % count)).find(|server| server.is_candidate)?;
        self.last = Some(next.id);
        self.last
    }
}

impl Rebase for RoundRobin {
    fn rebase(&mut self, _by: Span) {}
}
