//! Requests to a service.

use machine::Span;
use serde::{Serialize, Serializer};
use topology::NodeId;
use workload::service::{
    Arrivals, Distribution, GeneratorSpec, SECONDS_MAX, ServerSpec, Target, Workload, WorkloadSpec,
};

/// What clients ask of a service, and what its servers do with it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestLoad {
    /// The name of the service.
    pub service: String,
    /// The hosts of the clients, which are divided among them.
    pub from: Vec<NodeId>,
    /// What is asked for.
    pub workload: Workload,
    /// Memory of each request in place of the workload's own, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Distribution>,
    /// How long each works in place of the workload's own, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Distribution>,
    /// What each asks for, in place of the workload.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "path")]
    pub target: Option<Target>,
    /// Of a closed loop: how many clients there are in all.
    pub clients: u32,
    /// How long each of them thinks between an answer and its next request, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Distribution>,
    /// Of an open loop: requests in a thousand seconds, of all hosts together. `None`: it is a closed one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_milli: Option<u64>,
    /// Of an open loop: they begin at random, as from many who know nothing of each other.
    pub is_poisson: bool,
    /// Of an open loop: so many may be under way from each host.
    pub in_flight_max: u32,
    /// Each request opens a connection, and closes it.
    pub new_connections: bool,
    /// A request that takes longer has failed.
    pub timeout: Span,
    /// What each server of the service does, in its order.
    pub servers: Vec<RequestServer>,
}

/// A server that works for requests. Times of its faults are since measuring began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RequestServer {
    /// Which requests it works on, and what goes wrong.
    pub spec: ServerSpec,
    /// Bytes of an answer that is no page of the web tree.
    pub body_bytes: u64,
}

#[allow(clippy::ref_option, reason = "serde passes a reference")]
fn path<S: Serializer>(target: &Option<Target>, serializer: S) -> Result<S::Ok, S::Error> {
    let path = target.as_ref().map(|target| {
        let mut path = Vec::new();
        target.write_path(&mut path);
        String::from_utf8_lossy(&path).into_owned()
    });
    path.serialize(serializer)
}

impl RequestLoad {
    /// The clients of one of the hosts in [`Self::from`], by its number there; `None`: it has none of them.
    pub fn clients_of(&self, host: usize, warm_up: Span, lasts: Span) -> Option<GeneratorSpec> {
        let (host, hosts) = (host as u64, (self.from.len() as u64).max(1));
        // Who comes first has what is left over.
        let share = |all: u64| all / hosts + u64::from(host < all % hosts);
        let workload = WorkloadSpec { size: self.size, duration: self.duration, ..WorkloadSpec::new(self.workload) };
        let arrivals = match self.rate_milli.map(share) {
            Some(rate_milli) => {
                Arrivals::Open { rate_milli, is_poisson: self.is_poisson, in_flight_max: self.in_flight_max }
            }
            None => {
                Arrivals::Closed { clients: share(self.clients.into()) as u32, think: self.think, ramp: Span::ZERO }
            }
        };
        let is_nobody = matches!(arrivals, Arrivals::Open { rate_milli: 0, .. } | Arrivals::Closed { clients: 0, .. });
        (!is_nobody).then_some(GeneratorSpec { workload, arrivals, warm_up, lasts })
    }

    /// The longest that requests can be measured.
    pub const LASTS_MAX: Span = Span::from_secs(SECONDS_MAX);
}

/// Where the randomness of the clients at one host starts, in a run with this seed.
pub const fn client_seed(run: u64, host: usize) -> u64 {
    machine::mix(run ^ machine::mix(CLIENTS.wrapping_add(host as u64)))
}

/// The same of one server.
pub const fn server_seed(run: u64, server: usize) -> u64 {
    machine::mix(run ^ machine::mix(SERVERS.wrapping_add(server as u64)))
}

/// What keeps this randomness apart from all other of a run.
const CLIENTS: u64 = 0x636c_6965_6e74_7300;
const SERVERS: u64 = 0x7365_7276_6572_7300;
