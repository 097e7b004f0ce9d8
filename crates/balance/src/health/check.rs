//! What probes do.

use std::net::IpAddr;

/// What a probe does. The port is the server's own unless the specification has another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// A connection that is established.
    Tcp {
        /// What is sent then; nothing if it is empty.
        send: Vec<u8>,
        /// How what comes must begin; `None`: it need not come.
        expect: Option<Vec<u8>>,
    },
    /// A connection of TLS that is established.
    Tls {
        /// Whose certificates are good.
        trust: Trust,
        /// Whose certificate it must be; the server's address where it is absent.
        name: Option<String>,
    },
    /// A request, and what its answer must be.
    Http(HttpCheck),
    /// A datagram.
    Udp {
        /// What is sent.
        send: Vec<u8>,
        /// How an answer must begin; `None`: none need come, but the port must not be refused.
        expect: Option<Vec<u8>>,
    },
    /// A question over UDP that has an answer without an error.
    Dns(DnsCheck),
    /// `grpc.health.v1.Health/Check` over HTTP/2 without TLS that says `SERVING`.
    Grpc {
        /// The service that is asked for; the server as a whole where it is empty.
        service: String,
    },
    /// A program that exits with 0.
    Command {
        /// The program and its arguments.
        arguments: Vec<String>,
    },
}

/// A request of HTTP, and what its answer must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCheck {
    /// With TLS: whose certificates are good.
    pub tls: Option<Trust>,
    /// The path, with its query.
    pub path: String,
    /// The `Host` header, and with TLS whose certificate it must be; the server's address where it is absent.
    pub host: Option<String>,
    /// The lowest and the highest status that is good.
    pub status: (u16, u16),
    /// What the body must contain.
    pub contains: Option<String>,
}

/// A question to a name server, and what its answer must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsCheck {
    /// The name that is asked for.
    pub name: String,
    /// What is asked of it.
    pub record: RecordType,
    /// An address that must be among the answers.
    pub address: Option<IpAddr>,
}

/// Whose certificates are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Anybody's.
    Anybody,
    /// Those that these have signed: a file of certificates in PEM.
    Authorities(String),
}

/// What is asked of a name (RFC 1035, 3.2.2; RFC 3596; RFC 2782).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    /// Its IPv4 addresses.
    A,
    /// Its IPv6 addresses.
    Aaaa,
    /// Its other name.
    Cname,
    /// Its mail exchangers.
    Mx,
    /// Its name servers.
    Ns,
    /// The name of an address.
    Ptr,
    /// The beginning of its zone.
    Soa,
    /// Where a service is.
    Srv,
    /// Text.
    Txt,
}

impl RecordType {
    /// All of them.
    pub const ALL: [Self; 9] =
        [Self::A, Self::Aaaa, Self::Cname, Self::Mx, Self::Ns, Self::Ptr, Self::Soa, Self::Srv, Self::Txt];

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::Aaaa => "aaaa",
            Self::Cname => "cname",
            Self::Mx => "mx",
            Self::Ns => "ns",
            Self::Ptr => "ptr",
            Self::Soa => "soa",
            Self::Srv => "srv",
            Self::Txt => "txt",
        }
    }
}

impl Check {
    /// A connection that is established, and no more.
    pub const fn connection() -> Self {
        Self::Tcp { send: Vec::new(), expect: None }
    }

    /// Its name in files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Tcp { .. } => "tcp",
            Self::Tls { .. } => "tls",
            Self::Http(HttpCheck { tls: None, .. }) => "http",
            Self::Http(_) => "https",
            Self::Udp { .. } => "udp",
            Self::Dns(_) => "dns",
            Self::Grpc { .. } => "grpc",
            Self::Command { .. } => "command",
        }
    }

    /// Whose certificates are good, if it looks at any.
    pub const fn trust(&self) -> Option<&Trust> {
        match self {
            Self::Tls { trust, .. } => Some(trust),
            Self::Http(http) => http.tls.as_ref(),
            Self::Tcp { .. } | Self::Udp { .. } | Self::Dns(_) | Self::Grpc { .. } | Self::Command { .. } => None,
        }
    }
}
