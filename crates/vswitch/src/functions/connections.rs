//! What functions that track connections have in common.

use wire::{EthernetPacket, ethertype};

use super::service_function::FunctionCount;
use crate::conntrack::{Conntrack, Segment};

/// Connections of one function.
const CONNECTIONS_MAX: usize = 1 << 17;

/// A table of connections of a function's own: what others do does not fill it. `seed` is where its hashes start.
pub fn connections(seed: u64) -> Conntrack {
    Conntrack::new(seed, CONNECTIONS_MAX)
}

/// How many connections a function keeps.
pub fn count_of(conntrack: &Conntrack) -> FunctionCount {
    FunctionCount::new("connections", conntrack.counters().connections)
}

/// What is in a frame, for a function that tracks connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// An IP packet that belongs to a connection, or begins one.
    Ip(Segment),
    /// Neighbour discovery. It is about no connection, and nothing works without it (RFC 4890, 4.4.1).
    NeighbourDiscovery,
    /// A fragment, which does not say what it belongs to, or an IP packet that is malformed.
    Fragment,
    /// Something behind a second tag, or behind one that is not of 802.1Q. A host may look through those, so it may be an IP packet.
    Nested,
    /// Nothing of IP.
    Other,
}

impl Content {
    /// That of a frame; one that is cut off has none.
    pub fn of(headers: &[u8]) -> Self {
        let Ok(ethernet) = EthernetPacket::new_checked(headers) else { return Self::Other };
        let is_ipv6 = match ethernet.ethertype() {
            ethertype::IPV4 => false,
            ethertype::IPV6 => true,
            tag if ethertype::is_tag(tag) => return Self::Nested,
            _ => return Self::Other,
        };
        match Segment::parse(is_ipv6, ethernet.payload()) {
            Some(segment) if is_neighbour_discovery(&segment, ethernet.payload()) => Self::NeighbourDiscovery,
            Some(segment) => Self::Ip(segment),
            None => Self::Fragment,
        }
    }
}

/// Whether a packet is a message of it that its receiver heeds: none that a router may have passed on (RFC 4861, 6.1, 7.1 and 8.1).
fn is_neighbour_discovery(segment: &Segment, packet: &[u8]) -> bool {
    const ROUTER_SOLICITATION: u16 = 133;
    const REDIRECT: u16 = 137;
    const HOP_LIMIT_AT: usize = 7;
    let tuple = &segment.tuple;
    let is_message = (ROUTER_SOLICITATION..=REDIRECT).contains(&(tuple.dst_port >> 8));
    tuple.is_ipv6 && tuple.is_icmp() && is_message && packet.get(HOP_LIMIT_AT) == Some(&255)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{address, solicitation};

    /// Anybody can send such a packet from far away.
    #[test]
    fn what_a_router_may_have_passed_on_is_no_neighbour_discovery() {
        const HOP_LIMIT_AT: usize = 14 + 7;
        let (a, b) = (address(1), address(2));
        let mut frame = solicitation(&a, a.ipv6, b.ipv6, Some(a.mac));
        assert_eq!(Content::of(&frame), Content::NeighbourDiscovery);
        frame[HOP_LIMIT_AT] = 254;
        assert!(matches!(Content::of(&frame), Content::Ip(_)));
    }
}
