//! What services and their servers count.

use serde::{Deserialize, Serialize};

/// Makes the counters of services: each with its name in results.
macro_rules! counters {
    ($($(#[$attribute:meta])* $field:ident: $name:literal,)+) => {
        /// What a service has counted besides what its servers have.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct ServiceCounters {
            $($(#[$attribute])* pub $field: u64,)+
        }

        impl ServiceCounters {
            /// Adds those of another balancer.
            pub const fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)+
            }

            /// All of them, with their names.
            pub const fn named(&self) -> [(&'static str, u64); [$($name),+].len()] {
                [$(($name, self.$field)),+]
            }
        }
    };
}

counters! {
    /// Connections that no server could get: none is there, all have as many as they may, ..
    refused: "refused",
    /// Packets of no connection that begin none, or do not belong to theirs.
    invalid: "invalid",
    /// Packets to the address for which there is no service: another port.
    unserved: "unserved",
    /// Fragments, which do not say what they belong to, and malformed packets.
    fragments: "fragments",
    /// Connections for which there was no room.
    full: "full",
    /// Connections for which none of the balancer's own ports was left (full NAT).
    #[serde(default)]
    no_port: "no-port",
    /// Packets that do not fit their tunnel with its header, of which their senders have heard.
    #[serde(default)]
    too_big: "too-big",
    /// Connections of clients whose addresses may open none.
    denied: "denied",
    /// The same, by their countries.
    denied_country: "denied-country",
    /// First segments that were answered with a SYN cookie.
    #[serde(default)]
    cookies: "syn-cookies",
    /// Connections that began with one.
    #[serde(default)]
    by_cookie: "by-syn-cookie",
    /// Connections that were given to another server before the first one had answered, since that was out.
    moved: "moved",
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
