//! Services as they are written.

use std::borrow::Cow;
use std::net::SocketAddr;

use balance::{AddressRange, Country, Scheduler};
use datapath::{ForwardingMethod, KernelUse, Service};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::health::HealthText;
use crate::chains::Names;
use crate::error::Problems;
use crate::names::is_name;
use crate::parameters::{parameters, plain};
use crate::quantity::{Length, Whole};
use crate::read::{Fields, Name, Read, Text, expected, one_or_several, one_or_several_texts, section, shown};
use crate::source::At;
use crate::tree::{Node, Value};
use crate::vm::FilePath;
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
        /// How packets come to servers: `nat` translates the service's address, `full-nat` the client's, too (to `source`); `dr` (direct routing) leaves packets as they are, and
        /// each server has the service's address as well; `tunnel` does that, too, and puts an IP header before them (IP in IP). `nat` when not given.
        "forward" => forward: Option<Choice<ForwardingMethod>>, vary {
            /// How packets come to servers, of all services that can have it so.
            "services.forward": Choice<ForwardingMethod> => Policy #[serde(with = "forwarding")] Forward(ForwardingMethod),
            plain,
            |service, forward| if service.may_have(*forward) { service.forwarding = *forward }
        };
        /// With `full-nat`, from where servers see connections come: addresses that no host has, with or without ports, as `10.1.0.200`, `10.1.0.200-10.1.0.203` or
        /// `10.1.0.200:32768-65535`; or a list of one for IPv4 and one for IPv6. The service's own address, ports 1024 to 65535, when not given.
        "source" => source: Option<At<Sources>>;
        /// Hosts that balance it, with `full-nat`: all of its packets go to one of them, live and simulated, and no program is needed there. Each has heard of the others' connections,
        /// and any may take another one's place. At the switches where packets come in when not given.
        "at" => at: Option<At<Names>>;
        /// With `at`, has one balancer be active and the others stand by, by VRRP (version 3), the first one of `at` before the others. All are active when not given: each connection
        /// goes to one of them by its hash.
        "vrrp" => vrrp: Option<At<VrrpText>>;
        /// While so many connections are being opened, first segments of TCP are answered with SYN cookies, and only who answers gets a server: those connections have no
        /// selective acknowledgements, scaled windows or timestamps. 4096 when not given; 0: all are. With `at`, those at all balancers count.
        "half-open" => half_open: Option<At<Whole<0, 1_000_000>>>;
        /// Whether the kernel carries connections that go on, from host to host, without the worker (live, as root, Linux 6.6): `no`; `auto` from their second question on, where
        /// it can; `yes` what clients send from the handshake on, with a warning in the log where it can't. Not with `at`, `forward: tunnel`, or schedulers that go by how fast servers answer. `no` when not given.
        "kernel" => kernel: Option<At<Choice<KernelUse>>>;
        /// A server that comes, or comes back, gets a share of connections that grows for so long. At once when not given.
        "slow-start" => slow_start: Option<Length<true, HOUR>>;
        /// Clients stay with their server for so long after their last connection. They do not when not given.
        "persistence" => persistence: Option<Length<false, DAY>>;
        /// New connections a second that each client may open; as many at once. As many as come when not given.
        "client-limit" => client_limit: Option<Whole<1, 1_000_000>>;
        /// The only clients that may open connections: addresses with the lengths of their prefixes, as `[10.0.0.0/16]`. Of all prefixes here and in `deny` the longest counts.
        "allow" => allow: Option<Vec<At<Prefix>>>;
        /// Clients that may not. They hear nothing.
        "deny" => deny: Option<Vec<At<Prefix>>>;
        /// Which countries' clients may open connections, where neither `allow` nor `deny` has their address.
        "countries" => countries: Option<At<CountriesText>>;
        /// How servers are probed. When not given, only what becomes of connections says how they do.
        "health" => health: Option<At<HealthText>>;
        /// Where agents on the servers say how much those have to do, for `arr`, `alc`, `utilisation`.
        "agent" => agent: Option<At<AgentText>>;
        /// What an agent has reported counts for so long. 3s when not given.
        "report-expiry" => report_expiry: Option<Length<false, HOUR>>;
    }
}

section! {
    /// How one of several balancers is made the active one: the virtual router redundancy protocol, version 3.
    VrrpText {
        /// The number of the virtual router.
        "router" => router: At<Whole<1, 255>>,
        /// From advertisement to advertisement, in steps of 10ms: after three of them and a bit without one another balancer takes over. 50ms when not given.
        "interval" => interval: Option<At<Length<false, 40_950>>>,
        /// Hosts whose own programs take part, as keepalived. Nobody else's are heard.
        "partners" => partners: Option<At<Names>>,
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

section! {
    /// Which countries' clients may open connections.
    CountriesText {
        /// A list of countries by addresses, a line each: `1.0.0.0/24,AU` or `1.0.1.0,1.0.3.255,CN`. Relative to the folder of this file.
        "file" => file: At<FilePath>,
        /// Those that may, by their two letters, as `[DE, AT]`; nobody else may. All when not given.
        "allow" => allow: Option<Vec<At<CountryCode>>>,
        /// Those that may not.
        "deny" => deny: Option<Vec<At<CountryCode>>>,
    }
}

/// A range of addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefix(pub AddressRange);

impl Read for Prefix {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        if let Value::Scalar(text) = &node.value
            && let Some(range) = AddressRange::parse(text)
        {
            return Some(Self(range));
        }
        expected(node, "a prefix with zeros behind it, like `10.1.0.0/16` or `\"fd00::/8\"`", problems);
        None
    }
}

impl JsonSchema for Prefix {
    fn schema_name() -> Cow<'static, str> {
        "AddressPrefix".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["10.1.0.0/16", "fd00::/8", "10.0.0.7"] })
    }
}

/// A country.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountryCode(pub Country);

impl Read for CountryCode {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        if let Value::Scalar(text) = &node.value
            && let Some(country) = Country::parse(text)
        {
            return Some(Self(country));
        }
        expected(node, "a country by its two letters, like `DE`", problems);
        None
    }
}

impl JsonSchema for CountryCode {
    fn schema_name() -> Cow<'static, str> {
        "Country".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[A-Za-z]{2}$", "examples": ["DE"] })
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
        match &node.value {
            Value::Map(_) => ServerLong::read(node, problems).map(|long| Self::Long(Box::new(long))),
            Value::Scalar(text) if with_port(text).is_some() => {
                let (host, port) = with_port(text)?;
                problems.add(
                    node.place,
                    format!("`{}` is no host: a server's port stands by itself", shown(text)),
                    "a host and a port",
                    format!("write `{{ host: {}, port: {port} }}`; without a port it is the service's", shown(host)),
                );
                None
            }
            _ => At::read(node, problems).map(Self::Short),
        }
    }
}

/// A host and a port in the manner of other balancers, `h1:8080`.
fn with_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.split_once(':')?;
    let port = port.trim().parse().ok()?;
    is_name(host).then_some((host, port))
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

impl Keyword for KernelUse {
    const SCHEMA: &str = "KernelUse";
    const WHAT: &str = "a use of the kernel";
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
        one_or_several(node, problems).map(Self)
    }
}

impl JsonSchema for Addresses {
    fn schema_name() -> Cow<'static, str> {
        "Addresses".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        one_or_several_texts(&["10.1.0.80:80", "[fd68:6564:646c::80]:80"])
    }
}

/// A range of a balancer's own addresses, or several.
#[derive(Clone, Debug)]
pub(crate) struct Sources(pub Vec<At<Text>>);

impl Read for Sources {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        one_or_several(node, problems).map(Self)
    }
}

impl JsonSchema for Sources {
    fn schema_name() -> Cow<'static, str> {
        "SourceAddresses".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        one_or_several_texts(&["10.1.0.200", "10.1.0.200-10.1.0.203:32768-65535"])
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
