//! One virtual service.

use machine::{Rebase, Rng, Span, Time};

use crate::config::{ServiceSpec, SpecError};
use crate::scheduler::{self, schedule::Schedule};
use crate::server::{Outcome, ServerId, ServerStatus, Unavailable};
use crate::servers::Servers;

pub use crate::scheduler::schedule::Client;

/// Why a connection gets no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// None is specified, or all are out.
    #[error("no server is available")]
    NoServer,
    /// All that are not out have as many connections as they may have; the driver may let it wait.
    #[error("all servers are full")]
    Full,
}

/// Servers, and who gets the next connection.
#[derive(Debug)]
pub struct Service {
    spec: ServiceSpec,
    servers: Servers,
    scheduler: Box<dyn Schedule>,
    rng: Rng,
}

impl Service {
    /// A service without connections.
    ///
    /// # Errors
    /// What is wrong with the specification.
    pub fn new(now: Time, spec: ServiceSpec, seed: u64) -> Result<Self, SpecError> {
        spec.check()?;
        let mut service = Self {
            scheduler: scheduler::new(&spec),
            spec: ServiceSpec { servers: Vec::new(), ..spec.clone() },
            servers: Servers::default(),
            rng: Rng::new(seed),
        };
        service.apply(now, spec)?;
        Ok(service)
    }

    /// Changes servers, weights, scheduler and limits. Servers are known by their names: counts and identities of those that stay are kept. One
    /// that is left out gets nothing more, and its identity stays valid until its last connection is closed.
    ///
    /// # Errors
    /// What is wrong with the specification; then nothing has changed.
    pub fn apply(&mut self, now: Time, spec: ServiceSpec) -> Result<(), SpecError> {
        spec.check()?;
        if spec.scheduler != self.spec.scheduler
            || (spec.hash_port, spec.hash_fallback) != (self.spec.hash_port, self.spec.hash_fallback)
        {
            self.scheduler = scheduler::new(&spec);
        }
        let left_out = |name: &str| !spec.servers.iter().any(|server| server.name == name);
        let gone: Vec<_> =
            self.servers.iter().filter(|server| left_out(&server.spec.name)).map(|server| server.id).collect();
        for id in gone {
            self.scheduler.removing(&self.servers, id);
            self.servers.remove(id);
            self.server_changed(now);
        }
        for server in &spec.servers {
            let known = self.servers.find(&server.name).and_then(|id| self.servers.get_mut(id));
            let Some(known) = known else {
                self.servers.add(server.clone());
                self.server_changed(now);
                continue;
            };
            let has_changed = known.spec.weight != server.weight;
            if has_changed {
                known.set_weight(server.weight);
            }
            known.spec = server.clone();
            known.check_limit();
            if has_changed {
                self.server_changed(now);
            }
        }
        self.spec = spec;
        self.refresh(now);
        self.scheduler.rebuild(&self.servers);
        Ok(())
    }

    /// One server has come, gone, or got another weight. Schedulers hear of each by itself, as they do in IPVS.
    fn server_changed(&mut self, now: Time) {
        self.refresh(now);
        self.scheduler.changed(&self.servers);
    }

    /// The specification that holds.
    pub fn spec(&self) -> &ServiceSpec {
        &self.spec
    }

    /// The server of this name, if the specification has one.
    pub fn server(&self, name: &str) -> Option<ServerId> {
        self.servers.find(name)
    }

    /// The name of a server.
    pub fn name(&self, server: ServerId) -> Option<&str> {
        self.servers.get(server).map(|server| &*server.spec.name)
    }

    /// Chooses a server for a new connection, which counts as active there from now on.
    ///
    /// # Errors
    /// Why none gets it.
    pub fn open(&mut self, now: Time, client: &Client) -> Result<ServerId, Refusal> {
        if self.servers.candidate_count() == 0 {
            return Err(self.refusal());
        }
        let chosen = self.scheduler.choose(now, &self.servers, client, &mut self.rng);
        let Some(server) = chosen.and_then(|id| self.servers.get_mut(id)) else { return Err(self.refusal()) };
        let id = server.id;
        server.active += 1;
        server.opened += 1;
        if server.check_limit() {
            self.refresh(now);
        }
        Ok(id)
    }

    /// A connection is about to end (both sides have sent their FIN, say): it is inactive from now on.
    pub fn idle(&mut self, _now: Time, server: ServerId) {
        if let Some(server) = self.servers.get_mut(server).filter(|server| server.active > 0) {
            server.active -= 1;
            server.inactive += 1;
        }
    }

    /// The server has begun to answer, `latency` after the connection or the request began.
    pub fn answered(&mut self, _now: Time, _server: ServerId, _latency: Span) {}

    /// A connection is over, active or (if [`Service::idle`] was called for it) inactive.
    pub fn close(&mut self, now: Time, server: ServerId, was_idle: bool, outcome: Outcome) {
        let Some(entry) = self.servers.get_mut(server) else { return };
        let count = if was_idle { &mut entry.inactive } else { &mut entry.active };
        *count = count.saturating_sub(1);
        match outcome {
            Outcome::Completed => entry.completed += 1,
            Outcome::Expired => {}
            _ => entry.failed += 1,
        }
        if entry.check_limit() {
            self.refresh(now);
        }
        self.servers.release(server);
    }

    /// A health check has found that the server is up or down.
    pub fn set_healthy(&mut self, now: Time, server: ServerId, is_healthy: bool) {
        self.change(now, server, |server| core::mem::replace(&mut server.is_healthy, is_healthy) != is_healthy);
    }

    /// The server gets no new connections, or gets them again.
    pub fn drain(&mut self, now: Time, server: ServerId, is_drained: bool) {
        self.change(now, server, |server| core::mem::replace(&mut server.is_drained, is_drained) != is_drained);
    }

    /// The server gets another weight, until the specification gives it one that differs from its last one.
    pub fn set_weight(&mut self, now: Time, server: ServerId, weight: u32) {
        let weight = weight.min(crate::WEIGHT_MAX);
        self.change(now, server, |server| {
            let before = server.weight;
            server.set_weight(weight);
            weight != before
        });
    }

    /// What each server is doing, first those of the specification in its order, then those that only have connections left.
    pub fn status(&self, now: Time) -> impl Iterator<Item = ServerStatus> {
        let specified = self.spec.servers.iter().filter_map(|spec| self.servers.get(self.servers.find(&spec.name)?));
        let left = self.servers.all().filter(|server| !server.is_specified);
        specified.chain(left).map(move |server| server.status(now))
    }

    /// Changes a server, and what follows of it if it did change.
    fn change(&mut self, now: Time, server: ServerId, change: impl FnOnce(&mut crate::server::Server) -> bool) {
        if self.servers.get_mut(server).is_some_and(change) {
            self.server_changed(now);
            self.scheduler.rebuild(&self.servers);
        }
    }

    /// Finds anew who may get connections.
    fn refresh(&mut self, _now: Time) {
        self.servers.set_candidates(|server| server.unavailable().is_none());
    }

    fn refusal(&self) -> Refusal {
        let is_full = self.servers.iter().any(|server| server.unavailable() == Some(Unavailable::Full));
        if is_full { Refusal::Full } else { Refusal::NoServer }
    }
}

impl Rebase for Service {
    fn rebase(&mut self, by: Span) {
        let Self { spec: _, servers, scheduler, rng: _ } = self;
        servers.rebase(by);
        scheduler.rebase(by);
    }
}
