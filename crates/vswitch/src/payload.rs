//! What a frame carries for a program, as far as those need it who count what was delivered.

use wire::{EthernetPacket, Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket, ethertype, protocol};

/// What a frame carries for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A segment of TCP with payload.
    Segment(TcpSegment),
    /// A whole datagram of UDP: the bytes of its payload, at least 1.
    Datagram(u32),
    /// A fragment of a datagram of UDP, over IPv4.
    Fragment(UdpFragment),
}

/// What the meter needs of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSegment {
    /// Sequence number of the first byte of payload.
    pub seq: u32,
    /// Bytes of payload, at least 1.
    pub payload_len: u32,
}

impl TcpSegment {
    /// Sequence number of the byte after the last.
    pub const fn end(&self) -> u32 {
        self.seq.wrapping_add(self.payload_len)
    }
}

/// A fragment of a datagram of UDP over IPv4 (RFC 791).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFragment {
    /// The datagram's identification.
    pub identification: u16,
    /// Where it lies in what the IP packet carries, the header of UDP included; bytes.
    pub offset: u32,
    /// Its length, bytes, at least 1.
    pub len: u32,
    /// Whether more fragments follow it.
    pub more: bool,
    /// Source and destination, which only the first fragment shows.
    pub ports: Option<(u16, u16)>,
}

impl UdpFragment {
    /// Where the fragment ends in what the IP packet carries.
    pub const fn end(&self) -> u32 {
        self.offset + self.len
    }
}

/// Reads what a frame carries for a program; `None` of frames that carry nothing, are malformed, or are of another protocol. Of fragments, only
/// those of UDP over IPv4 are read.
#[inline]
pub fn payload(frame: &[u8]) -> Option<Payload> {
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    match ethernet.ethertype() {
        ethertype::IPV4 => {
            let packet = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
            if packet.is_fragment() { fragment(&packet) } else { whole(packet.protocol(), packet.payload()) }
        }
        ethertype::IPV6 => {
            let upper = Ipv6Packet::new_checked(ethernet.payload()).ok()?.upper_layer().ok()?;
            if upper.fragment.is_some() { None } else { whole(upper.protocol, upper.payload) }
        }
        _ => None,
    }
}

#[inline]
fn whole(protocol: u8, bytes: &[u8]) -> Option<Payload> {
    match protocol {
        protocol::TCP => {
            let tcp = TcpPacket::new_checked(bytes).ok()?;
            let payload_len = tcp.payload().len() as u32;
            (payload_len > 0).then(|| Payload::Segment(TcpSegment { seq: tcp.seq(), payload_len }))
        }
        protocol::UDP => {
            let len = UdpPacket::new_checked(bytes).ok()?.payload().len() as u32;
            (len > 0).then_some(Payload::Datagram(len))
        }
        _ => None,
    }
}

#[inline]
fn fragment(packet: &Ipv4Packet<'_>) -> Option<Payload> {
    let (offset, bytes) = (u32::from(packet.fragment_offset()) * 8, packet.payload());
    let ports = || match *bytes.first_chunk::<4>()? {
        [a, b, c, d] if offset == 0 => Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))),
        _ => None,
    };
    (packet.protocol() == protocol::UDP && !bytes.is_empty()).then(|| {
        Payload::Fragment(UdpFragment {
            identification: packet.identification(),
            offset,
            len: bytes.len() as u32,
            more: packet.more_fragments(),
            ports: ports(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{address, ipv4_udp, tcp, tcp_v6};
    use proptest::prelude::*;

    #[test]
    fn segments_are_read() {
        let (a, b) = (address(1), address(2));
        for frame in [tcp(&a, &b, 1, 2, 1_448), tcp_v6(&a, &b, 1, 2, 1_448)] {
            let expected = TcpSegment { seq: u32::MAX, payload_len: 1_448 };
            assert_eq!(payload(&frame), Some(Payload::Segment(expected)));
            assert_eq!(expected.end(), 1_447);
        }
        assert_eq!(payload(&tcp(&a, &b, 1, 2, 0)), None);
        let mut fragment = tcp(&a, &b, 1, 2, 100);
        fragment[20] = 0x20;
        assert_eq!(payload(&fragment), None, "of another protocol than UDP");
    }

    #[test]
    fn datagrams_and_their_fragments_are_read() {
        let (a, b) = (address(1), address(2));
        assert_eq!(payload(&ipv4_udp(&a, &b, (1, 2), 100, (0, false))), Some(Payload::Datagram(100)));
        assert_eq!(payload(&ipv4_udp(&a, &b, (1, 2), 0, (0, false))), None);
        let first = UdpFragment { identification: 7, offset: 0, len: 108, more: true, ports: Some((1, 2)) };
        assert_eq!(payload(&ipv4_udp(&a, &b, (1, 2), 100, (0, true))), Some(Payload::Fragment(first)));
        let last = UdpFragment { offset: 160, more: false, ports: None, ..first };
        assert_eq!(payload(&ipv4_udp(&a, &b, (1, 2), 100, (20, false))), Some(Payload::Fragment(last)));
        assert_eq!(last.end(), 268);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), ip in 0_usize..2) {
            if let Some(place) = bytes.get_mut(12..15) {
                place.copy_from_slice(&[[8, 0, 0x45], [0x86, 0xdd, 0x60]][ip]);
            }
            if let Some(Payload::Fragment(fragment)) = payload(&bytes) {
                prop_assert!(fragment.len > 0 && fragment.end() <= 8 * 0x1fff + 120);
            }
        }
    }
}
