//! Prequal: hot or cold by connections, then by latency (Wydrowski et al., *Load is not what you should balance*, NSDI 2024).
//!
//! Some servers are probed at random for each connection, and what they say goes to a pool. A probe is *hot* if its server has more requests in flight than
//! most probes had. Of cold probes the one with the lowest latency is taken; if all are hot, the one with the fewest requests in flight. A probe is removed when
//! it is old or has been used often enough; with each connection one more goes, in turn the oldest and the worst. A used probe counts the new request.
//!
//! Here a probe asks nobody: the balancer knows how many connections it has given to a server, its agent how many others have, and the latency is what answers
//! have taught, for as many requests in flight.

use machine::{Rebase, Rng, Span, Time};

use super::learned::{expected_delay, service_times};
use super::random;
use super::schedule::{Client, Schedule};
use crate::server::Server;
use crate::server_id::ServerId;
use crate::servers::Servers;

/// Probes that the pool holds.
const POOL: usize = 16;
/// Probes for each connection.
const PROBES: usize = 3;
/// How often a probe is used.
const USES_MAX: u8 = 2;
/// What is older says nothing.
const AGE_MAX: Span = Span::from_secs(1);
/// Probes by which it is judged what is many requests in flight.
const HISTORY: usize = 128;
/// The quantile above which a probe is hot: 2^-0.25, as in the paper.
const HOT_PERMILLE: usize = 841;

#[derive(Clone, Copy, Debug)]
struct Probe {
    server: ServerId,
    in_flight: u32,
    delay: u64,
    at: Time,
    uses: u8,
}

/// Hot or cold, by probes.
#[derive(Clone, Debug)]
pub(crate) struct Prequal {
    half_life: Span,
    report_expiry: Span,
    /// The oldest first.
    pool: Vec<Probe>,
    in_flight: Quantile,
    removes_worst: bool,
}

/// Requests in flight of the last probes.
#[derive(Clone, Debug)]
struct Quantile {
    recent: Vec<u32>,
    sorted: Vec<u32>,
    next: usize,
}

impl Quantile {
    fn new() -> Self {
        Self { recent: Vec::with_capacity(HISTORY), sorted: Vec::with_capacity(HISTORY), next: 0 }
    }

    fn add(&mut self, value: u32) {
        if self.recent.len() < HISTORY {
            self.recent.push(value);
        } else {
            let old = core::mem::replace(&mut self.recent[self.next], value);
            self.next = (self.next + 1) % HISTORY;
            let place = self.sorted.partition_point(|&other| other < old);
            self.sorted.remove(place);
        }
        let place = self.sorted.partition_point(|&other| other < value);
        self.sorted.insert(place, value);
    }

    /// What is more than this is much.
    fn hot_above(&self) -> u32 {
        let place = self.sorted.len() * HOT_PERMILLE / 1_000;
        self.sorted.get(place).copied().unwrap_or(u32::MAX)
    }
}

impl Prequal {
    pub fn new(half_life: Span, report_expiry: Span) -> Self {
        Self {
            half_life,
            report_expiry,
            pool: Vec::with_capacity(POOL + PROBES),
            in_flight: Quantile::new(),
            removes_worst: false,
        }
    }

    fn probe(&mut self, now: Time, servers: &Servers, rng: &mut Rng) {
        let times = service_times(now, servers).unwrap_or((Span::ZERO, Span::ZERO));
        for _ in 0..PROBES {
            let number = rng.below(servers.candidate_count() as u32) as usize;
            let server = servers.candidate(number);
            let elsewhere = server.load.report(now, self.report_expiry).and_then(|report| report.connections);
            let in_flight = server.active.max(elsewhere.unwrap_or(0));
            let delay = expected_delay(now, server, times, self.half_life);
            self.in_flight.add(in_flight);
            if self.pool.len() == POOL {
                self.pool.remove(0);
            }
            self.pool.push(Probe { server: server.id, in_flight, delay, at: now, uses: 0 });
        }
    }

    /// How good a probe is; the least is the best.
    fn rank(hot_above: u32, probe: &Probe) -> (bool, u64, u32) {
        let is_hot = probe.in_flight > hot_above;
        (is_hot, if is_hot { 0 } else { probe.delay }, probe.in_flight)
    }

    /// Takes the best probe of the pool.
    fn take(&mut self) -> Option<ServerId> {
        let hot_above = self.in_flight.hot_above();
        let (place, _) = self.pool.iter().enumerate().min_by_key(|(_, probe)| Self::rank(hot_above, probe))?;
        let probe = &mut self.pool[place];
        let server = probe.server;
        probe.delay = probe.delay.saturating_add(probe.delay / (u64::from(probe.in_flight) + 1));
        probe.in_flight += 1;
        probe.uses += 1;
        if probe.uses == USES_MAX {
            self.pool.remove(place);
        }
        self.remove_one(hot_above);
        Some(server)
    }

    fn remove_one(&mut self, hot_above: u32) {
        self.removes_worst = !self.removes_worst;
        let worst = self.pool.iter().enumerate().max_by_key(|(_, probe)| Self::rank(hot_above, probe));
        if let Some(place) = worst.map(|(place, _)| if self.removes_worst { place } else { 0 }) {
            self.pool.remove(place);
        }
    }
}

impl Schedule for Prequal {
    fn choose(&mut self, now: Time, servers: &Servers, _client: &Client, rng: &mut Rng) -> Option<ServerId> {
        self.pool.retain(|probe| {
            now.since(probe.at) < AGE_MAX
                && servers.get(probe.server).is_some_and(|server: &Server| server.is_candidate)
        });
        self.probe(now, servers, rng);
        self.take().or_else(|| random::two(servers, rng).map(|[first, _]| first.id))
    }
}

impl Rebase for Prequal {
    fn rebase(&mut self, by: Span) {
        let Self { half_life: _, report_expiry: _, pool, in_flight: _, removes_worst: _ } = self;
        for Probe { server: _, in_flight: _, delay: _, at, uses: _ } in pool {
            at.rebase(by);
        }
    }
}
