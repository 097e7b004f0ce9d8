//! How services do, and what is said about their servers while they run.

use datapath::{BalancerRole, ServerCounters, ServiceCounters};
use machine::nanos;
use serde::{Deserialize, Serialize};

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Its name.
    pub service: String,
    /// Where clients find it: `10.1.0.80:80`.
    pub addresses: Vec<String>,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Who chooses, as the file names it.
    pub scheduler: String,
    /// `nat`, `full-nat`, `dr` or `tunnel`.
    pub forward: String,
    /// By which path its packets go: `user-space`, or `kernel`, with the reason in brackets if the file wants another one.
    #[serde(default)]
    pub path: String,
    /// Packets to and from its servers that the kernel has carried; what its servers count has them, too.
    #[serde(default)]
    pub by_kernel: u64,
    /// Connections that found no room in the kernel path's table: the worker carries their packets.
    #[serde(default)]
    pub kernel_no_room: u64,
    /// Its servers, those first that the file has.
    pub servers: Vec<ServerStatus>,
    /// Where it is balanced at hosts: how those do, in the order of the file.
    #[serde(default)]
    pub balancers: Vec<BalancerStatus>,
    /// What it has counted besides what its servers have.
    #[serde(flatten)]
    pub counters: ServiceCounters,
}

/// A server of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its host.
    pub server: String,
    /// Why it gets no new connections, if it gets none: `draining`, `down`, `ejected`, `full`, `overloaded`.
    pub out: Option<String>,
    /// Its share.
    pub weight: u32,
    /// Connections that are a load.
    pub active: u32,
    /// Connections of which both sides have said all.
    pub inactive: u32,
    /// Connections that it was given.
    pub opened: u64,
    /// Those that ended as they should.
    pub completed: u64,
    /// Those that it failed.
    pub failed: u64,
    /// How long it takes to begin an answer, where that is known.
    pub latency: Option<nanos::Span>,
    /// What health checks have found, if there are any.
    #[serde(default)]
    pub health: Option<HealthStatus>,
    /// Why it is ejected, if it is.
    #[serde(default)]
    pub ejection: Option<EjectionStatus>,
    /// What its agent has reported last, unless that is too long ago.
    pub load: Option<balance::LoadReport>,
    /// What has passed to and from it.
    #[serde(flatten)]
    pub traffic: ServerCounters,
}

/// A balancer of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalancerStatus {
    /// Its host.
    pub balancer: String,
    /// What it does.
    pub role: BalancerRole,
    /// Connections of the service that it has or has heard of.
    pub connections: u64,
    /// What it has heard of connections from others.
    pub adopted: u64,
    /// Datagrams about connections that it could not read.
    pub malformed: u64,
}

/// What health checks have found of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthStatus {
    /// Whether it gets no connections since its checks fail.
    pub is_down: bool,
    /// Whether it is new and has had no good probe yet, as while its program starts.
    #[serde(default)]
    pub is_starting: bool,
    /// Probes that have had a result.
    pub probes: u64,
    /// Those that have failed.
    pub failures: u64,
    /// Why the last one of those has.
    pub last_failure: Option<String>,
}

/// Why a server is ejected, and for how much longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EjectionStatus {
    /// Why, in words.
    pub reason: String,
    /// It gets connections again after this time.
    pub remaining: nanos::Span,
}

/// What is said about a server while its service runs. It holds until a file says something else.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerChange {
    /// It has this share from now on.
    Weight(u32),
    /// Whether it gets no new connections; those that it has go on.
    Drain(bool),
}
