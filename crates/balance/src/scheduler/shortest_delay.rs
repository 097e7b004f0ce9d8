//! SED and NQ: where the new connection would have the shortest delay, if a server's speed is its weight (Weinrib and Shenker, INFOCOM 1988).
//! After `ip_vs_sed.c` and `ip_vs_nq.c` of Linux 6.1.

use machine::{Rebase, Rng, Span, Time};

use super::least::by_overhead;
use super::schedule::{Client, Schedule};
use crate::server::Server;
use crate::server_id::ServerId;
use crate::servers::Servers;

/// Active connections together with the new one.
fn with_new(server: &Server) -> u64 {
    u64::from(server.active) + 1
}

fn shortest(servers: &Servers) -> Option<ServerId> {
    servers.candidates().min_by(|a, b| by_overhead(with_new, a, b)).map(|server| server.id)
}

/// SED.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortestExpectedDelay;

/// NQ: the first idle server, if there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NeverQueue;

impl Schedule for ShortestExpectedDelay {
    fn choose(&mut self, _now: Time, servers: &Servers, _client: &Client, _rng: &mut Rng) -> Option<ServerId> {
        shortest(servers)
    }
}

impl Schedule for NeverQueue {
    fn choose(&mut self, _now: Time, servers: &Servers, _client: &Client, _rng: &mut Rng) -> Option<ServerId> {
        let idle = servers.candidates().find(|server| server.active == 0);
        idle.map(|server| server.id).or_else(|| shortest(servers))
    }
}

impl Rebase for ShortestExpectedDelay {
    fn rebase(&mut self, _by: Span) {}
}

impl Rebase for NeverQueue {
    fn rebase(&mut self, _by: Span) {}
}
