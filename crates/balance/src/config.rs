//! What a service is configured to do. A specification is checked as a whole, before any of it is carried out.

mod names;

use std::net::IpAddr;
use std::sync::Arc;

use machine::Span;

pub use crate::address::address_bits;
pub use names::Scheduler;

use crate::client_limit::ClientLimit;
use crate::ejection::Ejection;
use crate::load::Overload;
use crate::persistence::Persistence;
use crate::source_filter::SourceFilter;

/// Servers of one service at most.
pub const SERVERS_MAX: usize = 1_024;

/// The greatest weight, as in IPVS.
pub const WEIGHT_MAX: u32 = 65_535;

/// Clients that a table remembers at most.
pub const CLIENTS_MAX: u32 = 1 << 22;

/// What is wrong with a specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Two servers have one name.
    #[error("two servers are called `{0}`")]
    Duplicate(String),
    /// More than [`SERVERS_MAX`].
    #[error("{0} servers, at most {SERVERS_MAX} are possible")]
    TooMany(usize),
    /// A server's weight is more than [`WEIGHT_MAX`].
    #[error("server `{name}`: weight {weight} is more than {WEIGHT_MAX}")]
    Weight {
        /// The server's name.
        name: String,
        /// The weight as it was given.
        weight: u32,
    },
    /// A limit of connections that lets none pass, or a lower one above it.
    #[error("server `{name}`: {problem}")]
    Limit {
        /// The server's name.
        name: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A setting of the service makes no sense.
    #[error("{name} {problem}")]
    Setting {
        /// The setting's name in the file.
        name: &'static str,
        /// What is wrong, and what would be right.
        problem: &'static str,
    },
}

/// One server of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// By this name it is known when a specification changes.
    pub name: String,
    /// IPv4 addresses are the low 32 bits, as [`address_bits`] gives them. Hashes depend on it.
    pub address: u128,
    /// The port on which it listens.
    pub port: u16,
    /// Its share among the others; zero: no new connections but those of clients that are bound to it.
    pub weight: u32,
    /// Connections (active and inactive ones) that it may have at once (`u_threshold` of IPVS).
    pub connections_max: Option<u32>,
    /// Once it has been full, it gets connections again when it has fewer than so many (`l_threshold`); at `connections_max` where this is absent.
    pub connections_resume: Option<u32>,
}

impl ServerSpec {
    /// A server of weight 1 without limits.
    pub fn new(name: impl Into<String>, address: IpAddr, port: u16) -> Self {
        Self {
            name: name.into(),
            address: address_bits(address),
            port,
            weight: 1,
            connections_max: None,
            connections_resume: None,
        }
    }

    fn check(&self) -> Result<(), SpecError> {
        let limit = |problem| Err(SpecError::Limit { name: self.name.clone(), problem });
        if self.weight > WEIGHT_MAX {
            return Err(SpecError::Weight { name: self.name.clone(), weight: self.weight });
        }
        match (self.connections_max, self.connections_resume) {
            (Some(0), _) => limit("a limit of 0 connections lets none pass; weight 0 drains it"),
            (None, Some(_)) => limit("where to resume is given without a limit of connections"),
            (Some(max), Some(resume)) if resume > max => limit("it would resume above its limit of connections"),
            (_, Some(0)) => limit("it would never resume: no server has fewer than 0 connections"),
            _ => Ok(()),
        }
    }
}

/// When so few servers are left that those that are out get connections again, since the rest could not bear the load of all (Envoy's panic threshold). Shares
/// are of the servers that are to get connections at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panic {
    /// Below this share of servers that are in, ejected ones count as in.
    pub ejected_percent: u32,
    /// Below this share, those that health checks find down do, too. Zero: never; Envoy has 50 for both.
    pub down_percent: u32,
}

impl Default for Panic {
    fn default() -> Self {
        Self { ejected_percent: 50, down_percent: 0 }
    }
}

/// A virtual service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// Who chooses.
    pub scheduler: Scheduler,
    /// In the order in which they would be given to `ipvsadm`.
    pub servers: Vec<ServerSpec>,
    /// SH and MH hash the client's port, too (`sh-port`, `mh-port` of IPVS).
    pub hash_port: bool,
    /// SH and MH take another server when the client's own is out (`sh-fallback`, `mh-fallback`); otherwise the connection is refused.
    pub hash_fallback: bool,
    /// What an agent said is taken for unknown after this time.
    pub report_expiry: Span,
    /// What is overload, for ARR and ALC.
    pub overload: Overload,
    /// In this time half of what a latency or a slow server was remembered by fades, for the schedulers that learn.
    pub half_life: Span,
    /// Agents must have reported for so long before the scheduler `utilisation` goes by them.
    pub blackout: Span,
    /// Passive checks; none if this is absent.
    pub ejection: Option<Ejection>,
    /// When too few servers are left.
    pub panic: Panic,
    /// Clients stay with their servers.
    pub persistence: Option<Persistence>,
    /// Which clients may open connections; all if this is absent.
    pub filter: Option<Arc<SourceFilter>>,
    /// How many connections each client may open.
    pub client_limit: Option<ClientLimit>,
    /// A server that comes (back) gets a share of its connections that grows from nothing to all in this time; zero: all at once.
    pub slow_start: Span,
}

impl ServiceSpec {
    /// A service with the defaults of everything else.
    pub fn new(scheduler: Scheduler, servers: Vec<ServerSpec>) -> Self {
        Self {
            scheduler,
            servers,
            hash_port: false,
            hash_fallback: true,
            report_expiry: Span::from_secs(3),
            overload: Overload::default(),
            half_life: Span::from_secs(1),
            blackout: Span::from_secs(10),
            ejection: Some(Ejection::default()),
            panic: Panic::default(),
            persistence: None,
            filter: None,
            client_limit: None,
            slow_start: Span::ZERO,
        }
    }

    /// Finds what is wrong with it.
    ///
    /// # Errors
    /// The first thing that is.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.servers.len() > SERVERS_MAX {
            return Err(SpecError::TooMany(self.servers.len()));
        }
        self.servers.iter().try_for_each(ServerSpec::check)?;
        let mut names: Vec<_> = self.servers.iter().map(|server| &server.name).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SpecError::Duplicate(pair[0].clone()));
        }
        match self.complaint() {
            Some((name, problem)) => Err(SpecError::Setting { name, problem }),
            None => Ok(()),
        }
    }

    /// The first setting that makes no sense.
    fn complaint(&self) -> Option<(&'static str, &'static str)> {
        let ejection = self.ejection.unwrap_or_default();
        let limit = self.client_limit.unwrap_or(ClientLimit { rate: 1, burst: 1, clients_max: 1 });
        let persistence = self.persistence.unwrap_or_default();
        let complaints = [
            (self.report_expiry == Span::ZERO, "report-expiry", "is 0; an agent is to be believed for some time"),
            (self.half_life == Span::ZERO, "half-life", "is 0; something is to be learned for some time"),
            (self.overload.is_contradictory(), "overload", "is left above where it is entered"),
            (ejection.share_max_percent > 100, "ejection share", "is more than 100 %"),
            (ejection.interval == Span::ZERO, "ejection interval", "is 0; success rates are compared once in each"),
            (
                ejection.longest < ejection.base,
                "ejection",
                "lasts no longer than its first time; a longest time above it is wanted",
            ),
            (self.panic.ejected_percent.max(self.panic.down_percent) > 100, "panic", "is more than 100 %"),
            (limit.rate == 0 || limit.burst == 0, "client limit", "lets none pass; 1 at least is wanted"),
            (limit.clients_max > CLIENTS_MAX, "client limit", "remembers more clients than 4,194,304"),
            (persistence.timeout == Span::ZERO, "persistence", "lasts no time; leave it out"),
            (persistence.clients_max > CLIENTS_MAX, "persistence", "remembers more clients than 4,194,304"),
            (
                persistence.ipv4_prefix > 32 || persistence.ipv6_prefix > 128,
                "persistence",
                "has a prefix that is longer than an address",
            ),
        ];
        complaints.into_iter().find(|(is_wrong, ..)| *is_wrong).map(|(_, name, problem)| (name, problem))
    }

    /// Whether another specification is the same but for its servers and who may come.
    pub(crate) fn differs_in_servers_only(&self, other: &Self) -> bool {
        let bare = |spec: &Self| Self { servers: Vec::new(), filter: None, ..spec.clone() };
        bare(self) == bare(other)
    }
}
