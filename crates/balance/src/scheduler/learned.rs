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
pub(crate) fn expected_delay(now: Time, server: &Server, fastest: Span, mean: Span, half_life: Span) -> u128 {
    let service = server.estimates.service_for(now, fastest, half_life).unwrap_or(mean);
    u128::from(service.as_ps()) * (u128::from(server.active) + 1) / u128::from(server.weight.max(1))
}

impl Schedule for Learned {
    fn choose(&mut self, now: Time, servers: &Servers, _client: &Client, _rng: &mut Rng) -> Option<ServerId> {
        let (fastest, mean) = service_times(now, servers).unwrap_or((Span::from_ms(1), Span::from_ms(1)));
        let delay = |server: &&Server| expected_delay(now, server, fastest, mean, self.half_life);
        servers.candidates().min_by_key(delay).map(|server| server.id)
    }
}

impl Rebase for Learned {
    fn rebase(&mut self, _by: Span) {}
}
