//! How services do, and what is said about their servers while they run.

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
    /// `nat` or `dr`.
    pub forward: String,
    /// Its servers, those first that the file has.
    pub servers: Vec<ServerStatus>,
    /// Connections that no server could get: none is up, all are full.
    pub refused: u64,
    /// Packets of no connection that begin none, or do not belong to theirs.
    pub invalid: u64,
    /// Packets to its address for which there is no service.
    pub unserved: u64,
    /// Fragments, and malformed packets.
    pub fragments: u64,
    /// Connections for which there was no room.
    pub full: u64,
    /// Connections that another server got, since the first one was out before it had answered.
    pub moved: u64,
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
    /// What its agent has reported last, unless that is too long ago.
    pub load: Option<balance::LoadReport>,
    /// Packets from clients.
    pub in_packets: u64,
    /// Their bytes, without frame check sequence.
    pub in_bytes: u64,
    /// Packets to clients.
    pub out_packets: u64,
    /// Their bytes.
    pub out_bytes: u64,
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
