//! P2C: the less loaded of two that are drawn at random (Mitzenmacher, 2001). Several balancers that do so don't all rush to one server.

use machine::{Rebase, Rng, Span, Time};

use super::least::{by_overhead, overhead};
use super::schedule::{Client, Schedule};
use crate::server::Server;
use crate::server_id::ServerId;
use crate::servers::Servers;

/// Two different candidates; twice the same if there is only one.
pub(crate) fn two<'a>(servers: &'a Servers, rng: &mut Rng) -> Option<[&'a Server; 2]> {
    let count = servers.candidate_count() as u32;
    match count {
        0 => None,
        1 => Some([servers.candidate(0); 2]),
        _ => {
            let first = rng.below(count);
            let second = rng.below(count - 1);
            let second = if second < first { second } else { second + 1 };
            Some([first, second].map(|number| servers.candidate(number as usize)))
        }
    }
}

/// Random of two, by connections and weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TwoAtRandom;

impl Schedule for TwoAtRandom {
    fn choose(&mut self, _now: Time, servers: &Servers, _client: &Client, rng: &mut Rng) -> Option<ServerId> {
        two(servers, rng)?.into_iter().min_by(|a, b| by_overhead(overhead, a, b)).map(|server| server.id)
    }
}

impl Rebase for TwoAtRandom {
    fn rebase(&mut self, _by: Span) {}
}
