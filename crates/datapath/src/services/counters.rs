//! What services and their servers count.

use serde::{Deserialize, Serialize};

/// What a service has counted besides what its servers have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceCounters {
    /// Connections that no server could get: none is there, all have as many as they may, ..
    pub refused: u64,
    /// Packets of no connection that begin none, or do not belong to theirs.
    pub invalid: u64,
    /// Packets to the address for which there is no service: another port.
    pub unserved: u64,
    /// Fragments, which do not say what they belong to, and malformed packets.
    pub fragments: u64,
    /// Connections for which there was no room.
    pub full: u64,
    /// Connections for which none of the balancer's own ports was left (full NAT).
    #[serde(default)]
    pub no_port: u64,
    /// Connections of clients whose addresses may open none.
    pub denied: u64,
    /// The same, by their countries.
    pub denied_country: u64,
    /// First segments that were answered with a SYN cookie.
    #[serde(default)]
    pub cookies: u64,
    /// Connections that began with one.
    #[serde(default)]
    pub by_cookie: u64,
    /// Connections that were given to another server before the first one had answered, since that was out.
    pub moved: u64,
}

impl ServiceCounters {
    /// Adds those of another balancer.
    pub const fn add(&mut self, other: &Self) {
        let Self {
            refused,
            invalid,
            unserved,
            fragments,
            full,
            no_port,
            denied,
            denied_country,
            cookies,
            by_cookie,
            moved,
        } = *other;
        self.refused += refused;
        self.invalid += invalid;
        self.unserved += unserved;
        self.fragments += fragments;
        self.full += full;
        self.no_port += no_port;
        self.denied += denied;
        self.denied_country += denied_country;
        self.cookies += cookies;
        self.by_cookie += by_cookie;
        self.moved += moved;
    }

    /// All of them, with their names.
    pub const fn named(&self) -> [(&'static str, u64); 11] {
        let Self {
            refused,
            invalid,
            unserved,
            fragments,
            full,
            no_port,
            denied,
            denied_country,
            cookies,
            by_cookie,
            moved,
        } = *self;
        [
            ("refused", refused),
            ("invalid", invalid),
            ("unserved", unserved),
            ("fragments", fragments),
            ("full", full),
            ("no-port", no_port),
            ("denied", denied),
            ("denied-country", denied_country),
            ("syn-cookies", cookies),
            ("by-syn-cookie", by_cookie),
            ("moved", moved),
        ]
    }
}

/// What has passed to and from a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCounters {
    /// Packets from clients.
    pub in_packets: u64,
    /// Their bytes, without frame check sequence.
    pub in_bytes: u64,
    /// Packets to clients.
    pub out_packets: u64,
    /// Their bytes.
    pub out_bytes: u64,
}

impl ServerCounters {
    /// Adds those of another balancer.
    pub const fn add(&mut self, other: &Self) {
        let Self { in_packets, in_bytes, out_packets, out_bytes } = *other;
        self.in_packets += in_packets;
        self.in_bytes += in_bytes;
        self.out_packets += out_packets;
        self.out_bytes += out_bytes;
    }
}
