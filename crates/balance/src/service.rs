//! One virtual service.

mod availability;

use machine::{Rebase, Rng, Span, Step, Time};

use crate::agent::{Admin, AgentCheck, State};
use crate::client_limit::Limiter;
use crate::config::{ServiceSpec, SpecError, WEIGHT_MAX};
use crate::ejection::Failure;
use crate::event::{Event, Events};
use crate::load::LoadReport;
use crate::persistence::Bindings;
use crate::scheduler::{self, schedule::Schedule};
use crate::server::{Outcome, Server, ServerStatus, SiteServer, Unavailable};
use crate::server_id::ServerId;
use crate::servers::Servers;
use crate::silence::Watch;
use crate::source_filter::Denied;

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
    /// The client has opened too many.
    #[error("the client opens too many connections")]
    ClientLimit,
    /// The client may open none.
    #[error("the client may open no connection")]
    Denied(Denied),
}

/// Connections that got no server, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// [`Refusal::NoServer`].
    pub no_server: u64,
    /// [`Refusal::Full`].
    pub full: u64,
    /// [`Refusal::ClientLimit`].
    pub client_limit: u64,
    /// [`Refusal::Denied`].
    pub denied: u64,
}

/// Servers, and who gets the next connection.
///
/// Whoever drives it may call [`Service::poll`] for its events; what has to happen at some time happens at the next connection anyway.
#[derive(Debug)]
pub struct Service {
    spec: ServiceSpec,
    servers: Servers,
    scheduler: Box<dyn Schedule>,
    bindings: Option<Bindings>,
    limiter: Option<Limiter>,
    rng: Rng,
    /// When somebody is back, or something is known no longer.
    next_change: Time,
    /// When success rates are compared.
    next_interval: Time,
    /// Whether some server's share is still growing.
    is_slow_start: bool,
    is_panic: bool,
    /// Whether any server has ever answered: if not, as with protocols that have no answers, that none has come says nothing.
    has_answers: bool,
    watch: Watch,
    refused: Refused,
    events: Events,
}

impl Service {
    /// A service without connections. The same seed and the same calls give the same choices.
    ///
    /// # Errors
    /// What is wrong with the specification.
    pub fn new(now: Time, spec: ServiceSpec, seed: u64) -> Result<Self, SpecError> {
        spec.check()?;
        let mut service = Self {
            scheduler: scheduler::new(&spec),
            spec: ServiceSpec { servers: Vec::new(), ..spec.clone() },
            servers: Servers::default(),
            bindings: None,
            limiter: None,
            rng: Rng::new(seed),
            next_change: now,
            next_interval: now,
            is_slow_start: false,
            is_panic: false,
            has_answers: false,
            watch: Watch::new(now),
            refused: Refused::default(),
            events: Events::new(),
        };
        service.apply(now, spec)?;
        // Nobody begins slowly where all begin.
        service.servers.all_mut().for_each(|server| server.slow_start = None);
        Ok(service)
    }

    /// Changes servers, weights, scheduler and limits. Servers are known by their names: counts and identities of those that stay are kept. One
    /// that is left out gets nothing more, and its identity stays valid until its last connection is closed.
    ///
    /// # Errors
    /// What is wrong with the specification; then nothing has changed.
    pub fn apply(&mut self, now: Time, spec: ServiceSpec) -> Result<(), SpecError> {
        spec.check()?;
        if !self.spec.differs_in_servers_only(&spec) {
            self.scheduler = scheduler::new(&spec);
        }
        self.set_tables(&spec);
        let left_out = |server: &Server| !spec.servers.iter().any(|other| other.name == server.spec.name);
        let gone: Vec<_> = self.servers.iter().filter(|server| left_out(server)).map(|server| server.id).collect();
        self.spec = spec;
        for id in gone {
            self.scheduler.removing(&self.servers, id);
            self.servers.remove(id);
            self.server_changed(now);
        }
        for number in 0..self.spec.servers.len() {
            self.apply_server(now, number);
        }
        if self.spec.ejection.is_none() {
            self.servers.all_mut().for_each(|server| server.failures.clear());
        }
        self.server_changed(now);
        self.scheduler.rebuild(&self.servers);
        Ok(())
    }

    /// Makes one server what the specification says.
    fn apply_server(&mut self, now: Time, number: usize) {
        let spec = &self.spec.servers[number];
        let Some(known) = self.servers.find(&spec.name).and_then(|id| self.servers.get_mut(id)) else {
            let id = self.servers.add(spec.clone());
            if let Some(server) = self.servers.get_mut(id) {
                server.slow_start = Some(now);
            }
            return self.server_changed(now);
        };
        let has_changed = known.spec.weight != spec.weight;
        if has_changed {
            known.base_weight = spec.weight;
        }
        known.spec = spec.clone();
        known.check_limit();
        if has_changed {
            self.server_changed(now);
        }
    }

    /// Makes the tables of clients that the specification asks for; those that are as they should be are kept.
    fn set_tables(&mut self, spec: &ServiceSpec) {
        if self.bindings.as_ref().map(Bindings::persistence) != spec.persistence.as_ref() {
            self.bindings = spec.persistence.map(|persistence| Bindings::new(persistence, self.rng.bits()));
        }
        if self.limiter.as_ref().map(Limiter::limit) != spec.client_limit.as_ref() {
            self.limiter = spec.client_limit.map(|limit| Limiter::new(limit, self.rng.bits()));
        }
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

    /// Whether a server may get new connections now.
    pub fn is_candidate(&self, server: ServerId) -> bool {
        self.servers.get(server).is_some_and(|server| server.is_candidate)
    }

    /// Whether a server is there no more, as far as is known: it is down or ejected.
    pub fn is_dead(&self, server: ServerId) -> bool {
        let why = self.servers.get(server).and_then(|server| server.unavailable(false));
        matches!(why, Some(Unavailable::Down | Unavailable::Ejected))
    }

    /// Whether no server has any connection.
    pub fn is_idle(&self) -> bool {
        self.servers.all().all(|server| server.connections() == 0)
    }

    /// What an agent has wanted, and what health checks have said, holds no longer: nobody says it any more.
    pub fn forget_checks(&mut self, now: Time, server: ServerId) {
        self.change(now, server, |server| {
            (server.weight_percent, server.agent_connections_max) = (100, None);
            (server.admin, server.is_up, server.is_healthy) = (Admin::Ready, true, true);
        });
    }

    /// The same of its agent alone, which has fallen silent.
    pub fn forget_agent(&mut self, now: Time, server: ServerId) {
        self.change(now, server, |server| {
            (server.weight_percent, server.agent_connections_max) = (100, None);
            (server.admin, server.is_up) = (Admin::Ready, true);
        });
    }

    /// Chooses a server for a new connection, which counts as active there from now on.
    ///
    /// # Errors
    /// Why none gets it; it is counted.
    pub fn open(&mut self, now: Time, client: &Client) -> Result<ServerId, Refusal> {
        let chosen = self.choose(now, client);
        match chosen {
            Ok(server) => self.opened(now, server, client),
            Err(Refusal::NoServer) => self.refused.no_server += 1,
            Err(Refusal::Full) => self.refused.full += 1,
            Err(Refusal::ClientLimit) => self.refused.client_limit += 1,
            Err(Refusal::Denied(_)) => self.refused.denied += 1,
        }
        chosen
    }

    fn choose(&mut self, now: Time, client: &Client) -> Result<ServerId, Refusal> {
        if let Some(Err(denied)) = self.spec.filter.as_ref().map(|filter| filter.check(client.address)) {
            return Err(Refusal::Denied(denied));
        }
        if self.limiter.as_mut().is_some_and(|limiter| !limiter.admit(now, client.address)) {
            return Err(Refusal::ClientLimit);
        }
        self.advance(now);
        let bound = self.bindings.as_mut().and_then(|bindings| bindings.get(now, client.address));
        if let Some(id) = bound.filter(|&id| self.servers.get(id).is_some_and(Server::keeps_clients)) {
            return Ok(id);
        }
        if self.is_slow_start {
            self.hold_back(now);
        }
        if self.servers.candidate_count() == 0 {
            return Err(self.refusal());
        }
        self.scheduler.choose(now, &self.servers, client, &mut self.rng).ok_or_else(|| self.refusal())
    }

    fn opened(&mut self, now: Time, id: ServerId, client: &Client) {
        if let Some(bindings) = &mut self.bindings {
            bindings.put(now, client.address, id);
        }
        let Some(server) = self.servers.get_mut(id) else { return };
        server.active += 1;
        server.opened += 1;
        server.estimates.opened(now);
        if server.check_limit() {
            self.refresh(now);
        }
    }

    /// A server has a connection that another balancer has given it: it counts as active here, too.
    pub fn adopt(&mut self, now: Time, server: ServerId) {
        let Some(entry) = self.servers.get_mut(server) else { return };
        entry.active += 1;
        if entry.check_limit() {
            self.refresh(now);
        }
    }

    fn refusal(&self) -> Refusal {
        let is_full = self.servers.iter().any(|server| server.unavailable(false) == Some(Unavailable::Full));
        if is_full { Refusal::Full } else { Refusal::NoServer }
    }

    /// A connection is about to end (its server has sent its FIN, say): it is inactive from now on.
    pub fn idle(&mut self, _now: Time, server: ServerId) {
        if let Some(server) = self.servers.get_mut(server).filter(|server| server.active > 0) {
            server.active -= 1;
            server.inactive += 1;
        }
    }

    /// A client has asked something on a connection that did not wait for an answer. A new one waits for its first answer, unless [`Service::withdrawn`]
    /// is called when its handshake is complete.
    pub fn asked(&mut self, now: Time, server: ServerId) {
        if let Some(server) = self.servers.get_mut(server) {
            server.estimates.opened(now);
        }
    }

    /// The first segment of a handshake goes to a server, `is_again` if once more. Whoever calls it for each of them, and [`Service::heard`], has servers that fall
    /// silent taken out.
    #[inline]
    pub fn handshake(&mut self, now: Time, server: ServerId, is_again: bool) {
        let Some(ejection) = &self.spec.ejection else { return };
        let at = self.watch.tick(now);
        if let Some(server) = self.servers.get_mut(server) {
            server.silence.asked(at, is_again, ejection);
        }
        if self.watch.is_due() {
            self.eject_silent(now, at);
        }
    }

    /// Something has come from a server, which may be its answer to a handshake, so long after that began.
    #[inline]
    pub fn heard(&mut self, now: Time, server: ServerId, handshake: Option<Span>) {
        self.watch.tick(now);
        self.watch.heard();
        let Some(entry) = self.servers.get_mut(server) else { return };
        entry.silence.heard(handshake);
        if entry.failures.is_silent() {
            entry.failures.bring_back();
            self.events.push(Event::Readmitted(server));
            self.server_changed(now);
        }
    }

    /// A connection waits for no answer any more though there was none: its handshake is complete and the client has asked nothing yet, or a client that had
    /// asked has gone. Who does not know need not say it: then clients that are silent may make an idle server look slow, for some seconds.
    pub fn withdrawn(&mut self, server: ServerId) {
        if let Some(server) = self.servers.get_mut(server) {
            server.estimates.withdrawn();
        }
    }

    /// The server has begun to answer, `latency` after the connection or the request began.
    pub fn answered(&mut self, now: Time, server: ServerId, latency: Span) {
        let half_life = self.spec.half_life;
        self.has_answers = true;
        if let Some(server) = self.servers.get_mut(server) {
            server.estimates.answered(now, latency, half_life);
        }
    }

    /// A connection is over: an active one, or an inactive one if [`Service::idle`] was called for it.
    pub fn close(&mut self, now: Time, server: ServerId, was_idle: bool, outcome: Outcome) {
        let half_life = self.spec.half_life;
        let outcome = if outcome == Outcome::TimedOut && !self.has_answers { Outcome::Expired } else { outcome };
        let Some(entry) = self.servers.get_mut(server) else { return };
        let count = if was_idle { &mut entry.inactive } else { &mut entry.active };
        *count = count.saturating_sub(1);
        let left = entry.active;
        let failure = match outcome {
            Outcome::Completed => {
                entry.completed += 1;
                entry.failures.success();
                entry.estimates.completed(now, left, half_life);
                None
            }
            Outcome::Expired => {
                entry.estimates.expired(left);
                None
            }
            Outcome::Refused => Some(Failure::Refused),
            Outcome::Error => Some(Failure::Error),
            Outcome::Reset => Some(Failure::Reset),
            Outcome::TimedOut => Some(Failure::TimedOut),
        };
        if let Some(failure) = failure {
            let counted = if failure == Failure::Refused { &mut entry.refused } else { &mut entry.failed };
            *counted += 1;
            entry.estimates.failed(now, left, half_life);
        }
        if entry.check_limit() {
            self.refresh(now);
        }
        if let Some(failure) = failure {
            self.count_failure(now, server, failure);
        }
        self.servers.release(server);
    }

    /// What a server's agent has reported.
    pub fn report(&mut self, now: Time, server: ServerId, report: LoadReport) {
        let Some(entry) = self.servers.get_mut(server) else { return };
        if !entry.load.take(now, report, &self.spec.overload, self.spec.report_expiry) {
            return;
        }
        let is_overloaded = entry.load.is_overloaded();
        if self.spec.scheduler.heeds_overload() {
            self.events.push(if is_overloaded { Event::Overloaded(server) } else { Event::Recovered(server) });
        }
        self.refresh(now);
    }

    /// A health check has found that the server is up or down, or still is. One that was ejected since nobody got to it is back if checks do.
    pub fn set_healthy(&mut self, now: Time, server: ServerId, is_healthy: bool) {
        let entry = self.servers.get_mut(server);
        let is_back = is_healthy && entry.is_some_and(|entry| entry.failures.passed_check(!entry.is_healthy));
        self.change(now, server, |server| server.is_healthy = is_healthy);
        if is_back {
            self.readmitted(now, server);
        }
    }

    /// What a server's agent answered to `HAProxy`'s agent-check.
    pub fn agent_check(&mut self, now: Time, server: ServerId, answer: &AgentCheck) {
        self.change(now, server, |server| {
            if let Some(percent) = answer.weight_percent {
                server.weight_percent = percent.min(100);
            }
            if answer.connections_max.is_some() {
                // As in HAProxy, zero is no limit.
                server.agent_connections_max = answer.connections_max.filter(|&max| max > 0);
            }
            if let Some(admin) = answer.admin {
                server.admin = admin;
            }
            if let Some(state) = &answer.state {
                server.is_up = *state == State::Up;
            }
        });
    }

    /// A server has so many connections, active and inactive, of which nobody here has seen the beginning: it is made to stand as it does elsewhere.
    pub fn set_connections(&mut self, now: Time, server: ServerId, (active, inactive): (u32, u32)) {
        self.change(now, server, |server| (server.active, server.inactive) = (active, inactive));
    }

    /// The server gets no new connections, or gets them again.
    pub fn drain(&mut self, now: Time, server: ServerId, is_drained: bool) {
        self.change(now, server, |server| server.is_drained = is_drained);
    }

    /// The server gets another weight, until the specification changes the weight that it has there.
    pub fn set_weight(&mut self, now: Time, server: ServerId, weight: u32) {
        self.change(now, server, |server| server.base_weight = weight.min(WEIGHT_MAX));
    }

    /// What each server is doing, first those of the specification in its order, then those that only have connections left.
    pub fn status(&self, now: Time) -> impl Iterator<Item = ServerStatus> {
        let heeds_overload = self.spec.scheduler.heeds_overload();
        let specified = self.spec.servers.iter().filter_map(|spec| self.servers.get(self.servers.find(&spec.name)?));
        let left = self.servers.all().filter(|server| !server.is_specified);
        specified.chain(left).map(move |server| server.status(now, self.spec.report_expiry, heeds_overload))
    }

    /// The servers that it is to have, as whoever balances between sites sees them.
    pub(crate) fn site_servers(&self, now: Time) -> impl Iterator<Item = SiteServer> {
        let expiry = self.spec.report_expiry;
        self.servers.all().filter(|server| server.is_specified).map(move |server| SiteServer {
            id: server.id,
            is_wanted: server.is_wanted(),
            is_healthy: !server.is_down() && !server.failures.is_ejected_at(now),
            connections: server.connections(),
            connections_max: server.connections_max(),
            utilisation_permille: server.load.report(now, expiry).and_then(LoadReport::utilisation_permille),
        })
    }

    /// Whether so few servers are left that those that are out get connections.
    pub const fn is_panic(&self) -> bool {
        self.is_panic
    }

    /// Connections that got no server, since the start.
    pub const fn refused(&self) -> Refused {
        self.refused
    }

    /// Clients that were forgotten while they were to be remembered, since more came than the tables hold.
    pub fn clients_evicted(&self) -> u64 {
        let bindings = self.bindings.as_ref().map_or(0, Bindings::evicted);
        bindings + self.limiter.as_ref().map_or(0, Limiter::evicted)
    }

    /// What has happened by itself, and until when nothing will.
    pub fn poll(&mut self, now: Time) -> Step<Event> {
        self.advance(now);
        self.events.pop().map_or(Step::Wait(self.next_change), Step::Do)
    }

    /// Events that nobody had fetched before there were too many.
    pub const fn events_dropped(&self) -> u64 {
        self.events.dropped()
    }

    /// Changes a server, and does what follows.
    fn change(&mut self, now: Time, id: ServerId, change: impl FnOnce(&mut Server)) {
        let Some(server) = self.servers.get_mut(id) else { return };
        let state = |server: &Server| {
            (server.is_wanted(), server.is_down(), server.is_full, server.base_weight, server.weight_percent)
        };
        let before = (state(server), server.is_wanted() && !server.is_down());
        change(server);
        server.check_limit();
        if state(server) == before.0 {
            return;
        }
        let weight = server.weight;
        self.server_changed(now);
        let Some(server) = self.servers.get_mut(id) else { return };
        if server.is_wanted() && !server.is_down() && !before.1 {
            server.slow_start = Some(now);
            self.refresh(now);
        }
        if self.servers.get(id).is_some_and(|server| server.weight != weight) {
            self.scheduler.rebuild(&self.servers);
        }
    }

    /// One server has come, gone, or changed. Schedulers hear of each by itself, as they do in IPVS.
    fn server_changed(&mut self, now: Time) {
        self.set_weights();
        self.refresh(now);
        self.scheduler.changed(&self.servers);
    }
}

impl Rebase for Service {
    fn rebase(&mut self, by: Span) {
        let Self {
            spec: _,
            servers,
            scheduler,
            bindings,
            limiter,
            rng: _,
            next_change,
            next_interval,
            is_slow_start: _,
            is_panic: _,
            has_answers: _,
            watch,
            refused: _,
            events,
        } = self;
        servers.rebase(by);
        scheduler.rebase(by);
        bindings.rebase(by);
        limiter.rebase(by);
        next_change.rebase(by);
        next_interval.rebase(by);
        watch.rebase(by);
        events.rebase(by);
    }
}
