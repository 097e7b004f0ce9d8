//! WRR: in turn, by weight. After `ip_vs_wrr.c` of Linux 6.1: in each round only those have a turn that weigh as much as the round asks for. It asks for the
//! greatest weight at first, then for less and less, by the greatest common divisor of all weights.

use machine::{Rebase, Rng, Span, Time};

use super::schedule::{Client, Schedule};
use crate::server::Server;
use crate::server_id::ServerId;
use crate::servers::Servers;

/// Where a round stands.
#[derive(Clone, Debug)]
pub(crate) struct WeightedRoundRobin {
    /// Who had the last turn; none: the round begins.
    last: Option<ServerId>,
    /// The weight that the round asks for. With `step` 5 rounds are for 1, 6, 11, ..., so that the last one is for all.
    wanted: u32,
    /// The weight that the first round asks for.
    greatest: u32,
    step: u32,
}

impl Default for WeightedRoundRobin {
    fn default() -> Self {
        Self { last: None, wanted: 0, greatest: 0, step: 1 }
    }
}

/// The weight that counts: none of a server that is out, its own of one that is merely full.
fn weight(server: &Server) -> u32 {
    if server.is_eligible || server.is_full { server.weight } else { 0 }
}

impl WeightedRoundRobin {
    /// The next round that has a turn for somebody of weight `heaviest`.
    fn next_round(&mut self, heaviest: u32) {
        self.wanted = self.wanted.saturating_sub(self.step);
        if self.wanted == 0 {
            self.wanted = self.greatest;
        }
        // Rounds without a turn are left out at once, so that full servers of great weight cost nothing.
        let empty = self.wanted.saturating_sub(heaviest).div_ceil(self.step);
        self.wanted -= (empty * self.step).min(self.wanted.saturating_sub(1));
    }
}

impl Schedule for WeightedRoundRobin {
    fn changed(&mut self, servers: &Servers) {
        self.last = None;
        let (heaviest, step) = servers.weights(weight);
        self.step = step.max(1);
        self.greatest = heaviest.saturating_sub(self.step - 1);
        if self.wanted > self.greatest || self.wanted == 0 {
            self.wanted = self.greatest;
        } else if self.step > 1 {
            self.wanted = self.wanted / self.step * self.step + 1;
        }
    }

    fn choose(&mut self, _now: Time, servers: &Servers, _client: &Client, _rng: &mut Rng) -> Option<ServerId> {
        let heaviest = servers.candidates().map(weight).max()?;
        let mut first = self.last.and_then(|last| servers.position(last)).map_or(0, |position| position + 1);
        // The rest of this round, and all of one in which the heaviest has a turn.
        for _ in 0..2 {
            let mut rest = (first..servers.len()).map(|position| servers.at(position));
            if let Some(next) = rest.find(|server| server.is_candidate && weight(server) >= self.wanted) {
                self.last = Some(next.id);
                return self.last;
            }
            first = 0;
            self.next_round(heaviest);
        }
        None
    }
}

impl Rebase for WeightedRoundRobin {
    fn rebase(&mut self, _by: Span) {}
}
