//! One server of a service: what it is doing, and whether it may get connections.

use machine::{Rebase, Span, Time};
use serde::Serialize;

use crate::agent::Admin;
use crate::config::ServerSpec;
use crate::ejection::{EjectionReason, Failures};
use crate::estimate::Estimates;
use crate::load::{Load, LoadReport};
use crate::server_id::ServerId;
use crate::silence::Silence;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Completed,
    /// The server answered that it cannot (HTTP's 5xx), for drivers that read answers.
    Error,
    /// The server reset it before any answer.
    Reset,
    /// The server refused it, or said that it has no such port.
    Refused,
    /// No answer came in time, to a handshake or to what a client had asked; a client that asks nothing is [`Outcome::Expired`]. It says nothing as long as no
    /// server of the service has ever answered.
    TimedOut,
    /// It was silent for so long that it was given up, or its driver lost it: nothing is known of the server by that.
    Expired,
}

/// Why a server gets no connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unavailable {
    /// It is to get none: drained by hand or by its agent, of weight 0, or no longer specified.
    Draining,
    /// Health checks or its agent find it down.
    Down,
    /// Its connections failed.
    Ejected,
    /// It has as many connections as it may have.
    Full,
    /// Its agent reports overload, and the scheduler heeds that.
    Overloaded,
}

/// What a server is doing, for people and metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Whom [`crate::Service`] means by it.
    #[serde(skip)]
    pub id: ServerId,
    /// As specified, or as set since; in hundredths of that if some agent asked for a part of its server's weight.
    pub weight: u32,
    /// Established connections, as IPVS counts them.
    pub active: u32,
    /// Connections that are closing.
    pub inactive: u32,
    /// Connections since the start.
    pub opened: u64,
    /// Those that ended as they should.
    pub completed: u64,
    /// Those that the server refused.
    pub refused: u64,
    /// Those that ended with another failure of the server.
    pub failed: u64,
    /// From the beginning of connections to answers, on average.
    pub latency: Option<Span>,
    /// From answer to answer while it is at work, on average.
    pub service_time: Option<Span>,
    /// What its agent said last, unless that is too long ago.
    pub load: Option<LoadReport>,
    /// Why it gets nothing, if so. In panic it may get connections nevertheless.
    pub unavailable: Option<Unavailable>,
    /// How much longer it is ejected.
    pub ejected_for: Option<Span>,
    /// Why it is ejected.
    pub ejected_because: Option<EjectionReason>,
}

/// A server, as far as sites are concerned.
pub(crate) struct SiteServer {
    pub id: ServerId,
    /// Whether it is to get connections.
    pub is_wanted: bool,
    pub is_healthy: bool,
    pub connections: u32,
    pub connections_max: Option<u32>,
    pub utilisation_permille: Option<u32>,
}

/// What the service keeps of one server.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent of each other")]
pub(crate) struct Server {
    pub id: ServerId,
    /// Whether the scheduler may take it for this connection: it is eligible, and not held back by slow start.
    pub is_candidate: bool,
    /// Whether it may get connections now.
    pub is_eligible: bool,
    pub active: u32,
    pub inactive: u32,
    /// The weight that schedulers see.
    pub weight: u32,
    /// The last one that was not zero; by it Maglev's table goes.
    pub last_weight: u32,
    /// As specified, or as set since.
    pub base_weight: u32,
    /// The part of it that its agent asks for.
    pub weight_percent: u32,
    pub opened: u64,
    pub completed: u64,
    pub refused: u64,
    pub failed: u64,
    pub estimates: Estimates,
    pub failures: Failures,
    pub silence: Silence,
    pub load: Load,
    /// Since when it gets a growing share.
    pub slow_start: Option<Time>,
    /// What health checks say; without any, it is healthy.
    pub is_healthy: bool,
    /// What its agent says; without one, it is up.
    pub is_up: bool,
    /// Drained by hand.
    pub is_drained: bool,
    /// What its agent wants it to be.
    pub admin: Admin,
    /// What its agent sets in place of its limit of connections.
    pub agent_connections_max: Option<u32>,
    /// Whether it has reached its limit and is not below the lower one yet.
    pub is_full: bool,
    pub is_specified: bool,
    pub spec: ServerSpec,
}

impl Server {
    pub fn new(id: ServerId, spec: ServerSpec) -> Self {
        Self {
            id,
            is_candidate: false,
            is_eligible: false,
            active: 0,
            inactive: 0,
            weight: spec.weight,
            last_weight: spec.weight,
            base_weight: spec.weight,
            weight_percent: 100,
            opened: 0,
            completed: 0,
            refused: 0,
            failed: 0,
            estimates: Estimates::default(),
            failures: Failures::default(),
            silence: Silence::default(),
            load: Load::default(),
            slow_start: None,
            is_healthy: true,
            is_up: true,
            is_drained: false,
            admin: Admin::Ready,
            agent_connections_max: None,
            is_full: false,
            is_specified: true,
            spec,
        }
    }

    /// All connections that it has.
    pub const fn connections(&self) -> u32 {
        self.active + self.inactive
    }

    /// Whether it is to get connections as soon as it can.
    pub const fn is_wanted(&self) -> bool {
        self.is_specified && !self.is_drained && matches!(self.admin, Admin::Ready) && self.weight > 0
    }

    /// Whether health checks or its agent find it down.
    pub const fn is_down(&self) -> bool {
        !self.is_healthy || !self.is_up
    }

    /// Whether a client that is bound to it may open another connection.
    pub const fn keeps_clients(&self) -> bool {
        let takes_some = self.is_specified && !matches!(self.admin, Admin::Maintenance);
        takes_some && !self.is_down() && !self.is_full && !self.failures.is_ejected()
    }

    /// Why it gets nothing, if so. The first reason that applies.
    pub const fn unavailable(&self, heeds_overload: bool) -> Option<Unavailable> {
        if !self.is_wanted() {
            Some(Unavailable::Draining)
        } else if self.is_down() {
            Some(Unavailable::Down)
        } else if self.failures.is_ejected() {
            Some(Unavailable::Ejected)
        } else if self.is_full {
            Some(Unavailable::Full)
        } else if heeds_overload && self.load.is_overloaded() {
            Some(Unavailable::Overloaded)
        } else {
            None
        }
    }

    /// Gives it the weight that schedulers see.
    pub const fn set_weight(&mut self, weight: u32) {
        self.weight = weight;
        if weight > 0 {
            self.last_weight = weight;
        }
    }

    /// The most connections that it may have.
    pub fn connections_max(&self) -> Option<u32> {
        self.agent_connections_max.or(self.spec.connections_max)
    }

    /// Compares its connections with its limits. True if it has become full, or is so no longer.
    pub fn check_limit(&mut self) -> bool {
        let Some(max) = self.connections_max() else {
            return core::mem::take(&mut self.is_full);
        };
        let before = self.is_full;
        let resume = self.spec.connections_resume.unwrap_or(max).min(max);
        self.is_full = self.connections() >= if before { resume } else { max };
        self.is_full != before
    }

    /// The share of its connections that it gets so far, in thousandths, if its slow start takes so long; nothing if it is over.
    pub fn slow_start_permille(&self, now: Time, whole: Span) -> Option<u32> {
        /// What it gets at once (Envoy's `min_weight_percent`).
        const LEAST_PERMILLE: u64 = 100;
        let elapsed = now.since(self.slow_start?);
        let share = u128::from(elapsed.as_ps()) * 1_000 / u128::from(whole.as_ps().max(1));
        (elapsed < whole).then(|| (share as u64).max(LEAST_PERMILLE) as u32)
    }

    pub fn status(&self, now: Time, report_expiry: Span, heeds_overload: bool) -> ServerStatus {
        let is_ejected = self.failures.is_ejected();
        ServerStatus {
            name: self.spec.name.clone(),
            id: self.id,
            weight: self.weight,
            active: self.active,
            inactive: self.inactive,
            opened: self.opened,
            completed: self.completed,
            refused: self.refused,
            failed: self.failed,
            latency: self.estimates.latency(),
            service_time: self.estimates.service(now),
            load: self.load.report(now, report_expiry).copied(),
            unavailable: self.unavailable(heeds_overload),
            ejected_for: is_ejected.then(|| self.failures.ejected_until().since(now)),
            ejected_because: self.failures.ejected_because(),
        }
    }
}

impl Rebase for Server {
    fn rebase(&mut self, by: Span) {
        let Self {
            id: _,
            is_candidate: _,
            is_eligible: _,
            active: _,
            inactive: _,
            weight: _,
            last_weight: _,
            base_weight: _,
            weight_percent: _,
            opened: _,
            completed: _,
            refused: _,
            failed: _,
            estimates,
            failures,
            silence,
            load,
            slow_start,
            is_healthy: _,
            is_up: _,
            is_drained: _,
            admin: _,
            agent_connections_max: _,
            is_full: _,
            is_specified: _,
            spec: _,
        } = self;
        estimates.rebase(by);
        failures.rebase(by);
        silence.rebase(by);
        load.rebase(by);
        slow_start.rebase(by);
    }
}
