//! Peak EWMA: the cheaper of two at random, by latency times connections (Finagle's `PeakEwma`, Linkerd's default). A latency above the average is the
//! average at once; one below it moves it slowly.

use machine::{Rebase, Rng, Span, Time};

use super::random;
use super::schedule::{Client, Schedule};
use crate::server::Server;
use crate::server_id::ServerId;
use crate::servers::Servers;

/// What a server costs of which nothing is known but that it has not answered yet.
const UNKNOWN: Span = Span::from_secs(3_600);

/// Peak EWMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeakEwma {
    pub half_life: Span,
}

impl PeakEwma {
    /// Latency times connections with the new one, for each unit of weight. A server that is idle and of which nothing is known costs nothing, so it is tried; once it is, it costs
    /// more than any other until it has answered.
    fn cost(self, now: Time, server: &Server) -> u64 {
        let latency = match server.estimates.peak(now, self.half_life) {
            Some(latency) => latency,
            None if server.active == 0 => Span::ZERO,
            None => UNKNOWN,
        };
        (latency * (u64::from(server.active) + 1)).as_ps() / u64::from(server.weight.max(1))
    }
}

impl Schedule for PeakEwma {
    fn choose(&mut self, now: Time, servers: &Servers, _client: &Client, rng: &mut Rng) -> Option<ServerId> {
        let by_cost = |server: &&Server| (self.cost(now, server), server.active);
        random::two(servers, rng)?.into_iter().min_by_key(by_cost).map(|server| server.id)
    }
}

impl Rebase for PeakEwma {
    fn rebase(&mut self, _by: Span) {}
}
