//! Learned: the shortest expected delay, as SED, but by speeds that follow from answers.
//!
//! A server that has n connections will have answered one more after n + 1 times the span that lies between two of its answers while it is at work, if it works on
//! one at a time. One that works on all at once takes as long as ever, whatever is in front, and the span between its answers is the shorter the more it has: by that
//! alone the fullest would get all. Which of the two a server is follows from how its answers take longer with the crowd ([`crate::crowding`]). For one of the second
//! kind its time counts as often as it has more than others: the fastest, and among equals the emptiest, gets the connection.
//!
//! Requests differ, and so do the last few of two servers that are equal. What a server's time differs from the mean of all counts only as far as that is more than chance, by how much its
//! own times differ among each other.

use machine::{Rebase, Rng, Span, Time};

use super::schedule::{Client, Schedule};
use crate::crowding::WHOLE;
use crate::estimate::towards;
use crate::server::Server;
use crate::server_id::ServerId;
use crate::servers::Servers;

const PS_PER_NS: u64 = 1_000;

/// Shortest expected delay by learned service times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Learned {
    pub half_life: Span,
}

/// The shortest and the mean service time among candidates of which it is known.
pub(crate) fn service_times(now: Time, servers: &Servers) -> Option<(Span, Span)> {
    let known = servers.candidates().filter_map(|server| server.estimates.service(now));
    let (count, sum, fastest) = known
        .fold((0, Span::ZERO, Time::NEVER - Time::ZERO), |(count, sum, fastest), service| {
            (count + 1, sum + service, fastest.min(service))
        });
    (count > 0).then(|| (fastest, sum / count))
}

/// When a new connection would be answered, in picoseconds for each unit of weight. A server of which nothing is known is as fast as the mean.
pub(crate) fn expected_delay(now: Time, server: &Server, (fastest, mean): (Span, Span), half_life: Span) -> u64 {
    let service = server.estimates.service_for(now, fastest, half_life);
    per_weight(service.map_or(mean, |service| towards(mean, service, server.estimates.doubt())), server)
}

/// What a server that works on all at once is held against.
struct Others {
    /// How many each of the candidates has in front of a new connection, with that itself, on average, in parts of one.
    crowd: u64,
    /// The shortest of their average latencies.
    fastest: Span,
}

impl Others {
    fn new(servers: &Servers) -> Self {
        let (mut sum, mut fastest) = (0, Time::NEVER - Time::ZERO);
        for server in servers.candidates() {
            sum += u64::from(server.active) + 1;
            fastest = server.estimates.crowding.latency().map_or(fastest, |latency| latency.min(fastest));
        }
        Self { crowd: sum * WHOLE / (servers.candidate_count() as u64).max(1), fastest }
    }
}

/// What a delay is if the server works on all at once, by the share in which it does. In nanoseconds: with all its factors it fits 64 bits.
fn without_queue(now: Time, delay: u64, server: &Server, others: &Others, half_life: Span) -> u64 {
    let crowding = &server.estimates.crowding;
    let (delay, share) = (delay / PS_PER_NS, crowding.share());
    if share == WHOLE {
        return delay;
    }
    // Its own time in place of that between answers, as often as it has more than others. By many answers, unless by the last few it has become much slower: single
    // ones say little.
    let requests = u64::from(server.active) + 1;
    let lately = delay.saturating_mul(crowding.with_itself() / 2);
    let latency = server.estimates.latency_for(now, others.fastest, half_life).unwrap_or(Span::ZERO);
    let weight = u64::from(server.weight);
    let latency = if weight > 1 { latency.as_ns() / weight } else { latency.as_ns() };
    let at_once = latency.saturating_mul(requests * WHOLE).max(lately) / others.crowd.max(1);
    let mixed = delay.saturating_mul(share).saturating_add(at_once.saturating_mul(WHOLE - share));
    mixed >> WHOLE.ilog2()
}

/// The delay of a new connection if each takes so long.
fn per_weight(service: Span, server: &Server) -> u64 {
    let delay = (service * (u64::from(server.active) + 1)).as_ps();
    // Most weights are 1, and a division takes longer than all the rest.
    if server.weight > 1 { delay / u64::from(server.weight) } else { delay }
}

impl Schedule for Learned {
    fn choose(&mut self, now: Time, servers: &Servers, _client: &Client, _rng: &mut Rng) -> Option<ServerId> {
        let times = service_times(now, servers).unwrap_or((Span::from_ms(1), Span::from_ms(1)));
        let others = Others::new(servers);
        let mut best: Option<(u64, ServerId)> = None;
        for server in servers.candidates() {
            let delay = expected_delay(now, server, times, self.half_life);
            let delay = without_queue(now, delay, server, &others, self.half_life);
            if best.is_none_or(|(other, _)| delay < other) {
                best = Some((delay, server.id));
            }
        }
        best.map(|(_, id)| id)
    }
}

impl Rebase for Learned {
    fn rebase(&mut self, _by: Span) {}
}
