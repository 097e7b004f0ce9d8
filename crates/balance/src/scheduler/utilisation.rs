//! Utilisation: in turn, by weights that follow from what agents report: the requests a second that a server would do if it were fully used.
//!
//! As Envoy's `client_side_weighted_round_robin` and gRPC's A58: weight = requests a second / (utilisation + errors / requests). A server whose agent has
//! not reported for long enough has the median weight of the others. Turns are taken by earliest deadline: each is so much later as the weight is smaller.

use machine::{Rebase, Rng, Span, Time};

use super::schedule::{Client, Schedule};
use crate::server::Server;
use crate::server_id::ServerId;
use crate::servers::Servers;

/// How often weights are computed.
const UPDATE: Span = Span::from_secs(1);
/// What is added to a deadline, divided by the weight: after 2^34 turns of the lightest server deadlines would reach their end.
const TURN: u64 = 1 << 40;
/// The weight of a server that does one request a second: none is lighter.
const WEIGHT_MIN: u64 = 1_000;

/// Weighted round robin by utilisation.
#[derive(Clone, Debug)]
pub(crate) struct Utilisation {
    report_expiry: Span,
    blackout: Span,
    update_at: Time,
    /// When weights were computed last.
    updated_at: Time,
    /// By slot.
    turns: Vec<Turn>,
    /// The last deadline that was met: nobody's lies before it.
    virtual_time: u64,
    /// Weights of servers of which they are known; kept for its memory.
    known: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Whose it is.
    server: Option<ServerId>,
    deadline: u64,
    weight: u64,
    /// What the server had completed when weights were computed.
    completed: u64,
    /// What had failed there.
    failed: u64,
}

impl Turn {
    /// The same, with what the server has done by now.
    const fn count(self, server: &Server) -> Self {
        Self { completed: server.completed, failed: server.failed + server.refused, ..self }
    }
}

impl Utilisation {
    pub const fn new(report_expiry: Span, blackout: Span) -> Self {
        Self {
            report_expiry,
            blackout,
            update_at: Time::ZERO,
            updated_at: Time::ZERO,
            turns: Vec::new(),
            virtual_time: 0,
            known: Vec::new(),
        }
    }

    /// Requests in a thousand seconds at full use; nothing if that is not known. What the agent does not say is what was seen here `since` the last time.
    fn weight(&self, now: Time, server: &Server, since: Span) -> Option<u64> {
        let before = &self.turns[server.id.index()];
        let completed = server.completed.saturating_sub(before.completed);
        let failed = (server.failed + server.refused).saturating_sub(before.failed);
        let reported_for = server.load.reported_for(now, self.report_expiry)?;
        let report = server.load.report(now, self.report_expiry).filter(|_| reported_for >= self.blackout)?;
        let utilisation = u64::from(report.utilisation_permille().filter(|&share| share > 0)?);
        let rate = |count: u64| (u128::from(count) * 1_000_000_000_000_000 / u128::from(since.as_ps().max(1))) as u64;
        let requests = report.requests_per_kilosecond.unwrap_or_else(|| rate(completed + failed));
        let errors = report.errors_per_kilosecond.unwrap_or_else(|| rate(failed)).min(requests);
        let penalty = u128::from(errors) * 1_000 / u128::from(requests.max(1));
        (requests > 0).then(|| (u128::from(requests) * 1_000 / (u128::from(utilisation) + penalty)) as u64)
    }

    fn update(&mut self, now: Time, servers: &Servers) {
        let since = now.since(self.updated_at);
        self.update_at = now + UPDATE;
        self.updated_at = now;
        let mut known = core::mem::take(&mut self.known);
        known.clear();
        for server in servers.iter() {
            let slot = server.id.index();
            let weight = self.weight(now, server, since);
            known.extend(weight);
            self.turns[slot] = Turn { weight: weight.unwrap_or(0), ..self.turns[slot].count(server) };
        }
        known.sort_unstable();
        let median = known.get(known.len() / 2).copied().unwrap_or(WEIGHT_MIN * 1_000);
        for turn in &mut self.turns {
            turn.weight = if turn.weight == 0 { median } else { turn.weight }.max(WEIGHT_MIN);
        }
        self.known = known;
    }
}

impl Schedule for Utilisation {
    fn changed(&mut self, servers: &Servers) {
        let slots = servers.iter().map(|server| server.id.index() + 1).max().unwrap_or(0);
        self.turns.resize(slots.max(self.turns.len()), Turn::default());
        for server in servers.iter() {
            let turn = &mut self.turns[server.id.index()];
            if turn.server != Some(server.id) {
                let deadline = self.virtual_time;
                *turn = Turn { server: Some(server.id), deadline, ..Turn::default() }.count(server);
                self.update_at = Time::ZERO;
            }
        }
        self.known.reserve(slots);
    }

    fn choose(&mut self, now: Time, servers: &Servers, _client: &Client, _rng: &mut Rng) -> Option<ServerId> {
        if now >= self.update_at {
            self.update(now, servers);
        }
        let deadline = |server: &Server| self.turns[server.id.index()].deadline.max(self.virtual_time);
        let next = servers.candidates().min_by_key(|server| deadline(server))?;
        self.virtual_time = deadline(next);
        let turn = &mut self.turns[next.id.index()];
        turn.deadline = self.virtual_time + TURN / turn.weight;
        Some(next.id)
    }
}

impl Rebase for Utilisation {
    fn rebase(&mut self, by: Span) {
        let Self { report_expiry: _, blackout: _, update_at, updated_at, turns: _, virtual_time: _, known: _ } = self;
        update_at.rebase(by);
        updated_at.rebase(by);
    }
}
