//! What connection tracking looks at of a packet.

use wire::{Ipv4Packet, Ipv6Packet, TcpPacket, protocol, tcp_flags};

use super::icmp::{answer_to, is_error};
use super::tuple::Tuple;

/// What connection tracking looks at of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its addresses and ports.
    pub tuple: Tuple,
    /// Flags of TCP.
    pub tcp_flags: u8,
    /// Of an ICMP error, those of the packet that it is about, as it quotes them.
    pub quoted: Option<Tuple>,
    /// Of a segment of TCP that is whole, where it stands among the others.
    pub numbers: Option<SequenceNumbers>,
}

/// Where a segment of TCP stands among the others of its connection (RFC 9293, 3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceNumbers {
    /// Of its first byte, or its SYN.
    pub seq: u32,
    /// Of the byte that its sender waits for.
    pub ack: u32,
    /// How many more it takes, not scaled.
    pub window: u16,
    /// Its bytes; SYN and FIN count as one each.
    pub length: u32,
    /// Of a first segment, by how many bits windows are to be shifted, if it says so.
    pub scale: Option<u8>,
}

impl SequenceNumbers {
    fn read(segment: &[u8]) -> Option<Self> {
        let segment = TcpPacket::new_checked(segment).ok()?;
        let flags = segment.flags();
        let has = |flag: u8| u32::from(flags & flag != 0);
        Some(Self {
            seq: segment.seq(),
            ack: segment.ack(),
            window: segment.window(),
            length: segment.payload().len() as u32 + has(tcp_flags::SYN) + has(tcp_flags::FIN),
            scale: if has(tcp_flags::SYN) == 1 { segment.window_scale() } else { None },
        })
    }

    /// Those of the segment in an IP packet; `None` if that has none that is whole.
    pub fn of(is_ipv6: bool, packet: &[u8]) -> Option<Self> {
        let (tuple, upper) = read(is_ipv6, packet)?;
        if tuple.protocol == protocol::TCP { Self::read(upper) } else { None }
    }

    /// Behind its last byte.
    pub const fn end(&self) -> u32 {
        self.seq.wrapping_add(self.length)
    }

    /// Whether all of them are 0, as in a simulation's headers.
    pub const fn are_absent(&self) -> bool {
        self.seq == 0 && self.ack == 0 && self.window == 0
    }
}

/// Bytes of an ICMP header in front of what it quotes.
const HEADER: usize = 8;

impl Segment {
    /// Reads an IP packet. `None` for a fragment, which does not say what it belongs to, and for what is malformed.
    pub fn parse(is_ipv6: bool, packet: &[u8]) -> Option<Self> {
        let (mut tuple, upper) = read(is_ipv6, packet)?;
        let mut segment = Self { tuple, tcp_flags: 0, quoted: None, numbers: None };
        if tuple.is_icmp() {
            let header = upper.first_chunk::<HEADER>()?;
            tuple.dst_port = u16::from_be_bytes([header[0], header[1]]);
            tuple.src_port = u16::from_be_bytes([header[4], header[5]]);
            if is_error(is_ipv6, header[0]) {
                tuple.src_port = 0;
                segment.quoted = Some(quoted(is_ipv6, &upper[HEADER..])?);
            }
            segment.tuple = tuple;
        } else if tuple.protocol == protocol::TCP {
            segment.tcp_flags = *upper.get(13)?;
            segment.numbers = SequenceNumbers::read(upper);
        }
        Some(segment)
    }
}

/// The tuple of a packet that an error quotes, of which only its beginning may be there.
fn quoted(is_ipv6: bool, packet: &[u8]) -> Option<Tuple> {
    let (mut tuple, upper) = read_beginning(is_ipv6, packet)?;
    if tuple.is_icmp() {
        let header = upper.first_chunk::<6>()?;
        tuple.dst_port = u16::from_be_bytes([header[0], header[1]]);
        tuple.src_port = u16::from_be_bytes([header[4], header[5]]);
        // An error about an error would have no end.
        answer_to(is_ipv6, tuple.dst_port)?;
    }
    Some(tuple)
}

fn read(is_ipv6: bool, packet: &[u8]) -> Option<(Tuple, &[u8])> {
    if is_ipv6 {
        let packet = Ipv6Packet::new_checked(packet).ok()?;
        let upper = packet.upper_layer().ok().filter(|upper| upper.fragment.is_none())?;
        let (src, dst) = (packet.src().to_bits(), packet.dst().to_bits());
        let tuple = Tuple { src, dst, protocol: upper.protocol, is_ipv6, ..Tuple::default() };
        return with_ports(tuple, upper.payload);
    }
    let packet = Ipv4Packet::new_checked(packet).ok().filter(|packet| !packet.is_fragment())?;
    let (src, dst) = (packet.src().to_bits().into(), packet.dst().to_bits().into());
    with_ports(Tuple { src, dst, protocol: packet.protocol(), is_ipv6, ..Tuple::default() }, packet.payload())
}

/// The same of a packet that may be cut off.
fn read_beginning(is_ipv6: bool, packet: &[u8]) -> Option<(Tuple, &[u8])> {
    let address = |at: usize, bytes: usize| {
        packet.get(at..at + bytes).map(|it| it.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte)))
    };
    if is_ipv6 {
        // Extension headers are not followed: errors about those are about no connection that there is.
        let (src, dst) = (address(8, 16)?, address(24, 16)?);
        let tuple = Tuple { src, dst, protocol: *packet.get(6)?, is_ipv6, ..Tuple::default() };
        return (packet[0] >> 4 == 6).then(|| with_ports(tuple, packet.get(40..)?))?;
    }
    let (first, offset) = (*packet.first()?, u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff);
    let header = usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || header < 20 || offset != 0 {
        return None;
    }
    let (src, dst) = (address(12, 4)?, address(16, 4)?);
    with_ports(Tuple { src, dst, protocol: *packet.get(9)?, is_ipv6, ..Tuple::default() }, packet.get(header..)?)
}

/// SCTP has its ports where TCP and UDP have them (RFC 9260).
const SCTP: u8 = 132;

fn with_ports(mut tuple: Tuple, upper: &[u8]) -> Option<(Tuple, &[u8])> {
    if matches!(tuple.protocol, protocol::TCP | protocol::UDP | SCTP) {
        let ports = upper.first_chunk::<4>()?;
        tuple.src_port = u16::from_be_bytes([ports[0], ports[1]]);
        tuple.dst_port = u16::from_be_bytes([ports[2], ports[3]]);
    }
    Some((tuple, upper))
}
