//! Learned: the shortest expected delay, as SED, but by speeds that follow from answers.
//!
//! A server that has n connections will have answered one more after n + 1 times the span that lies between two of its answers while it is at work. By Little's
//! law that holds whether it works on one at a time or on all at once.

use machine::{Rebase, Rng, Span, Time};

use super::schedule::{Client, Schedule};
use crate::server::Server;
use crate::server_id::ServerId;
use crate::servers::Servers;

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
    per_weight(server.estimates.service_for(now, fastest, half_life).unwrap_or(mean), server)
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
        let (fastest, _) = times;
        let mut best: Option<(u64, ServerId)> = None;
        for server in servers.candidates() {
            // Nobody is faster than the fastest, so most need no closer look.
            let least = per_weight(fastest, server);
            if best.is_none_or(|(delay, _)| least < delay) {
                let delay = expected_delay(now, server, times, self.half_life);
                if best.is_none_or(|(other, _)| delay < other) {
                    best = Some((delay, server.id));
                }
            }
        }
        best.map(|(_, id)| id)
    }
}

impl Rebase for Learned {
    fn rebase(&mut self, _by: Span) {}
}
