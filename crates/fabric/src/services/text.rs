//! Services as they are written.

use std::borrow::Cow;
use std::net::SocketAddr;

use balance::Scheduler;
use datapath::{ForwardingMethod, Service};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::error::Problems;
use crate::parameters::{parameters, plain};
use crate::quantity::{Length, Whole};
use crate::read::{Fields, Name, Read, Text, expected, section, shown};
use crate::source::At;
use crate::tree::{Node, Value};
use crate::words::{Choice, Keyword, Words, words};

/// The most connections that a server may be given at once.
const CONNECTIONS_MAX: u64 = 1 << 24;
/// The largest weight, as of IPVS.
const WEIGHT_MAX: u64 = balance::WEIGHT_MAX as u64;
/// An hour in milliseconds.
const HOUR: u64 = 3_600_000;
/// A day in milliseconds.
const DAY: u64 = 24 * HOUR;

parameters! {
    /// What a case sets in all services.
    #[derive(Copy, Eq, serde::Deserialize)]
    ServiceSetting, ServiceAxis of Service;

    /// A service: several servers behind one address. The switch at which a client's packets come in chooses a server for each connection.
    ServiceText {
        /// Where clients find it: an address that no host has, and a port, as `10.1.0.80:80` or `"[fd68:6564:646c::80]:80"`; or a list of them. IPv4 addresses are of
        /// 10.0.0.0/8, IPv6 addresses of `fd68:6564:646c::/64`.
        "address" => address: At<Addresses>;
        /// `tcp` or `udp`. `tcp` when not given.
        "protocol" => protocol: Option<ServedProtocol>;
        /// The servers: names of hosts, or `{ host: h5, port: 8080, weight: 2 }`.
        "servers" => servers: At<Vec<At<ServerText>>>;
        /// Who gets the next connection: `rr`, `wrr`, `lc`, `wlc`, `sed`, `nq`, `sh` and `mh` choose as Linux's IPVS does; `p2c` takes the less loaded of two; `arr` and `alc` are
        /// `rr` and `lc` without servers whose agents report overload; `learned`, `peak-ewma` and `prequal` go by how fast servers answer, and `utilisation` by what their agents
        /// report. `lc` when not given.
        "scheduler" => scheduler: Option<Choice<Scheduler>>, vary {
            /// Who gets the next connection, of all services.
            "services.scheduler": Choice<Scheduler> => Policy Scheduler(Scheduler), plain,
            |service, scheduler| service.spec.scheduler = *scheduler
        };
        /// How packets come to servers: `nat` translates the address, `dr` (direct routing) leaves packets as they are, and each server has the service's address as
        /// well. `nat` when not given.
        "forward" => forward: Option<Choice<ForwardingMethod>>, vary {
            /// How packets come to servers, of all services.
            "services.forward": Choice<ForwardingMethod> => Policy #[serde(with = "forwarding")] Forward(ForwardingMethod),
            plain,
            |service, forward| service.forwarding = *forward
        };
        /// A server that comes, or comes back, gets a share of connections that grows for so long. At once when not given.
        "slow-start" => slow_start: Option<Length<true, HOUR>>;
        /// Clients stay with their server for so long after their last connection. They do not when not given.
        "persistence" => persistence: Option<Length<false, DAY>>;
        /// New connections a second that each client may open; as many at once. As many as come when not given.
        "client-limit" => client_limit: Option<Whole<1, 1_000_000>>;
        /// How servers are probed. When not given, only what becomes of connections says how they do.
        "health" => health: Option<At<HealthText>>;
        /// Where agents on the servers say how much those have to do, for `arr`, `alc`, `utilisation`.
        "agent" => agent: Option<At<AgentText>>;
        /// What an agent has reported counts for so long. 3s when not given.
        "report-expiry" => report_expiry: Option<Length<false, HOUR>>;
    }
}

section! {
    /// How servers are probed: from the server's own host, at its own address.
    HealthText {
        /// `tcp`: a connection is established; `http`: a request is answered with a status of 200 to 399. `tcp` when not given.
        "check" => check: Option<CheckWord>,
        /// With `http`: the path that is asked for. `/` when not given.
        "path" => path: Option<At<Text>>,
        /// With `http`: what the answer's body must contain. Anything when not given.
        "contains" => contains: Option<At<Text>>,
        /// Another port than the server's own.
        "port" => port: Option<Whole<1, 65_535>>,
        /// From probe to probe, 10 % more or less. 2s when not given.
        "interval" => interval: Option<Length<false, HOUR>>,
        /// A probe without a result for so long has failed. As long as `interval` when not given.
        "timeout" => timeout: Option<Length<false, HOUR>>,
        /// Successes one after the other until a server is up. 2 when not given.
        "rise" => rise: Option<Whole<1, 1_000>>,
        /// Failures one after the other until it is down. 3 when not given.
        "fall" => fall: Option<Whole<1, 1_000>>,
    }
}

section! {
    /// Where agents are asked: `heddle agent`, or any that answers `HAProxy`'s `agent-check`, or says its load in JSON as ORCA has it.
    AgentText {
        /// The port of each server at which its agent answers.
        "port" => port: At<Whole<1, 65_535>>,
        /// From question to question. 1s when not given.
        "every" => every: Option<Length<false, HOUR>>,
    }
}

/// Ways to forward by their names, between client and daemon.
mod forwarding {
    use datapath::ForwardingMethod;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(method: &ForwardingMethod, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(method.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ForwardingMethod, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = ForwardingMethod::ALL.iter().find(|method| method.name() == name);
        found.copied().ok_or_else(|| D::Error::custom(format!("`{name}` is no way to forward")))
    }
}

/// What a probe does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckWord {
    Tcp,
    Http,
}

words!(CheckWord, "HealthCheck", "a check", {
    "tcp" => CheckWord::Tcp,
    "http" => CheckWord::Http,
});

section! {
    /// A server in full.
    ServerLong {
        /// The host.
        "host" => host: At<Name>,
        /// Its port. That of the service when not given.
        "port" => port: Option<At<Whole<1, 65_535>>>,
        /// Its share among the others, for `wrr`, `wlc`, `sed`, `nq`, `mh`; 0: it gets no new connections. 1 when not given.
        "weight" => weight: Option<Whole<0, WEIGHT_MAX>>,
        /// Connections that it may have at once. As many as come when not given.
        "max-connections" => max_connections: Option<Whole<1, CONNECTIONS_MAX>>,
    }
}

/// A server in full, or just its host.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum ServerText {
    /// `h5`
    Short(At<Name>),
    /// `{ host: h5, .. }`
    Long(Box<ServerLong>),
}

impl ServerText {
    /// Its host.
    pub const fn host(&self) -> &At<Name> {
        match self {
            Self::Short(host) => host,
            Self::Long(long) => &long.host,
        }
    }
}

impl Read for ServerText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match node.value {
            Value::Map(_) => ServerLong::read(node, problems).map(|long| Self::Long(Box::new(long))),
            _ => At::read(node, problems).map(Self::Short),
        }
    }
}

/// What a service carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedProtocol {
    Tcp,
    Udp,
}

words!(ServedProtocol, "ServedProtocol", "a protocol of services", {
    "tcp" => ServedProtocol::Tcp,
    "udp" => ServedProtocol::Udp,
});

impl Keyword for Scheduler {
    const SCHEMA: &str = "Scheduler";
    const WHAT: &str = "a scheduler";
    const ALL: &[Self] = &Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }
}

impl Keyword for ForwardingMethod {
    const SCHEMA: &str = "ForwardingMethod";
    const WHAT: &str = "a way to forward";
    const ALL: &[Self] = Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }
}

/// An address with its port, or several.
#[derive(Clone, Debug)]
pub(crate) struct Addresses(pub Vec<At<Endpoint>>);

impl Read for Addresses {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::List(items) if !items.is_empty() => Vec::read(node, problems).map(Self),
            _ => Some(Self(vec![At::read(node, problems)?])),
        }
    }
}

impl JsonSchema for Addresses {
    fn schema_name() -> Cow<'static, str> {
        "Addresses".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = json_schema!({ "type": "string", "examples": ["10.1.0.80:80", "[fd68:6564:646c::80]:80"] });
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

/// An address with its port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint(pub SocketAddr);

impl Read for Endpoint {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        const WHAT: &str = "an address with a port, like `10.1.0.80:80` or `\"[fd68:6564:646c::80]:80\"`";
        let Value::Scalar(text) = &node.value else {
            expected(node, WHAT, problems);
            return None;
        };
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => return Some(Self(address)),
            Ok(_) => {
                problems.add(node.place, "there is no port 0", "no port", "write the port at which clients find it");
            }
            Err(_) if text.parse::<std::net::IpAddr>().is_ok() => {
                let address = text.parse::<std::net::IpAddr>().map(|address| SocketAddr::new(address, 80));
                let example = address.map_or_else(|_| String::new(), |address| address.to_string());
                let message = format!("`{}` has no port", shown(text));
                problems.add(node.place, message, "needs a port", format!("write it as in `\"{example}\"`"));
            }
            Err(_) => expected(node, WHAT, problems),
        }
        None
    }
}
