//! What is read of a packet that may belong to a connection.

use vswitch::conntrack::Segment;
use wire::{EthernetPacket, Ipv4Packet, Ipv6Packet, ethertype, protocol, tcp_flags};

/// Reads a frame. `None` for a fragment, which does not say what it belongs to, and for what is malformed or no IP packet.
pub(crate) fn parse(headers: &[u8]) -> Option<Segment> {
    let ethernet = EthernetPacket::new_checked(headers).ok()?;
    match ethernet.ethertype() {
        ethertype::IPV4 => Segment::parse(false, ethernet.payload()),
        ethertype::IPV6 => Segment::parse(true, ethernet.payload()),
        _ => None,
    }
}

/// Where a frame with an IP packet goes, a fragment or not, and whether that is an address of IPv6.
pub(crate) fn destination(headers: &[u8]) -> Option<(bool, u128)> {
    let ethernet = EthernetPacket::new_checked(headers).ok()?;
    match ethernet.ethertype() {
        ethertype::IPV4 => Some((false, Ipv4Packet::new_checked(ethernet.payload()).ok()?.dst().to_bits().into())),
        ethertype::IPV6 => Some((true, Ipv6Packet::new_checked(ethernet.payload()).ok()?.dst().to_bits())),
        _ => None,
    }
}

/// Whether a segment with these flags begins a connection, with or without an offer of ECN (RFC 3168, 6.1.1).
pub(crate) const fn is_first_segment(flags: u8) -> bool {
    flags & (tcp_flags::SYN | tcp_flags::ACK | tcp_flags::RST | tcp_flags::FIN) == tcp_flags::SYN
}

/// Whether a frame may have such a segment in it, by a look at where its flags stand if it has neither tags nor extension headers: false if they stand there and say otherwise.
pub(crate) fn may_be_first(frame: &[u8]) -> bool {
    const IP_AT: usize = 14;
    let Some(start) = frame.first_chunk::<{ IP_AT + 20 }>() else { return true };
    let (flags_at, protocol) = match u16::from_be_bytes([start[12], start[13]]) {
        ethertype::IPV4 if start[IP_AT + 9] != protocol::TCP => return false,
        ethertype::IPV4 => (IP_AT + usize::from(start[IP_AT] & 0xf) * 4 + 13, protocol::TCP),
        ethertype::IPV6 => (IP_AT + 40 + 13, start[IP_AT + 6]),
        _ => return true,
    };
    protocol != protocol::TCP || frame.get(flags_at).is_some_and(|flags| is_first_segment(*flags))
}
