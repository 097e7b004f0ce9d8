//! What is shown of connections.

use std::fmt;

use machine::Span;
use serde::{Deserialize, Serialize};

use super::tcp::TcpState;
use super::tuple::Tuple;

/// What has been counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConntrackCounters {
    /// Connections that are there; of those whose time has come, some may be.
    pub connections: u64,
    /// Connections that were kept.
    pub committed: u64,
    /// Connections that ended for want of packets.
    pub expired: u64,
    /// Connections that made room for others.
    pub evicted: u64,
    /// Connections that made room for another one between the same two ends.
    pub reopened: u64,
    /// Connections that were not kept since all others are in use.
    pub full: u64,
    /// Connections that were not kept since no address and port was left for them, or since another one has theirs.
    pub no_tuple: u64,
    /// Packets that belong to no connection and may begin none.
    pub invalid: u64,
}

/// A connection, for whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// The direction of its first packet, as that came.
    pub original: Tuple,
    /// The other direction, as its packets come.
    pub reply: Tuple,
    /// Where it belongs.
    pub zone: u16,
    /// What flows have written on it.
    pub mark: u32,
    /// Of TCP, its state.
    pub tcp: Option<TcpState>,
    /// How long it lives without another packet.
    pub expires_in: Span,
}

impl fmt::Display for ConnectionStatus {
    /// As `ovs-appctl dpctl/dump-conntrack` writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { original, reply, zone, mark, tcp, expires_in: _ } = self;
        match (original.protocol, original.is_icmp()) {
            (wire::protocol::TCP, _) => f.write_str("tcp")?,
            (wire::protocol::UDP, _) => f.write_str("udp")?,
            (132, _) => f.write_str("sctp")?,
            (_, true) if original.is_ipv6 => f.write_str("icmpv6")?,
            (_, true) => f.write_str("icmp")?,
            (other, _) => write!(f, "{other}")?,
        }
        write!(f, ",orig=({original}),reply=({reply})")?;
        if *zone != 0 {
            write!(f, ",zone={zone}")?;
        }
        if *mark != 0 {
            write!(f, ",mark={mark}")?;
        }
        match tcp {
            Some(state) => write!(f, ",protoinfo=(state={state})"),
            None => Ok(()),
        }
    }
}
