//! The Internet protocol, version 6 (RFC 8200).

use std::net::Ipv6Addr;

use crate::Error;
use crate::error::{room, split, split_at, split_mut};
use crate::ipv4::ECN;

const NAME: &str = "IPv6";
const EXTENSION: &str = "IPv6 extension header";
const HEADER: usize = 40;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// All nodes on the link (RFC 4291, section 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// How many extension headers are walked through at most. RFC 8200 names six kinds, of which one may come twice.
pub const EXTENSION_HEADERS_MAX: usize = 8;

/// The Ethernet address of a multicast group (RFC 2464, section 7).
pub const fn multicast_mac(group: Ipv6Addr) -> [u8; 6] {
    let o = group.octets();
    [0x33, 0x33, o[12], o[13], o[14], o[15]]
}

/// A view of a packet. Checked: version 6; the payload length lies within the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Packet<'a> {
    header: &'a [u8; HEADER],
    payload: &'a [u8],
}

/// What the extension headers lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer<'a> {
    /// Number of the header that `payload` starts with; in a fragment that is not the first, of the one that the
    /// datagram's fragmentable part starts with.
    pub protocol: u8,
    /// What follows the extension headers.
    pub payload: &'a [u8],
    /// Which part of a datagram it is, if it is one.
    pub fragment: Option<Fragment>,
}

/// A part of a datagram (RFC 8200, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where it belongs, in units of 8 bytes.
    pub offset: u16,
    /// Whether more follow.
    pub more: bool,
    /// What the fragments of one datagram share.
    pub identification: u32,
}

impl<'a> Ipv6Packet<'a> {
    /// Checks an Ethernet payload; what follows the payload length is padding. Jumbograms (RFC 2675) are not handled: their
    /// payload appears empty.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for a wrong version.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        let (header, rest) = split::<HEADER>(NAME, bytes)?;
        if header[0] >> 4 != 6 {
            return Err(Error::field(NAME, "version", u32::from(header[0] >> 4), "6"));
        }
        let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let (payload, _padding) = split_at(NAME, rest, payload_len).map_err(|_| Error::Truncated {
            header: NAME,
            need: HEADER + payload_len,
            have: bytes.len(),
        })?;
        Ok(Self { header, payload })
    }

    /// Source address.
    pub fn src(&self) -> Ipv6Addr {
        self.address(8)
    }

    /// Destination address.
    pub fn dst(&self) -> Ipv6Addr {
        self.address(24)
    }

    fn address(&self, at: usize) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.header[at..at + 16]);
        Ipv6Addr::from(octets)
    }

    /// Differentiated services and congestion notification.
    pub const fn traffic_class(&self) -> u8 {
        self.header[0] << 4 | self.header[1] >> 4
    }

    /// Flow label, 20 bits (RFC 6437).
    pub const fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.header[1] & 0xf, self.header[2], self.header[3]])
    }

    /// Number of the next header: an extension header, or the upper layer's.
    pub const fn next_header(&self) -> u8 {
        self.header[6]
    }

    /// Hop limit.
    pub const fn hop_limit(&self) -> u8 {
        self.header[7]
    }

    /// What follows the fixed header, extension headers included.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Walks through the extension headers: hop-by-hop options, routing, destination options, authentication (RFC 4302),
    /// fragment. It stops at any other number, and at a fragment that is not the first, since what follows is not a header.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] if there are more than [`EXTENSION_HEADERS_MAX`].
    #[inline]
    pub fn upper_layer(&self) -> Result<UpperLayer<'a>, Error> {
        let here = UpperLayer { protocol: self.next_header(), payload: self.payload, fragment: None };
        // Most packets have no extension header: they should not pay for a loop.
        if is_extension(here.protocol) { skip_extensions(here) } else { Ok(here) }
    }
}

const fn is_extension(protocol: u8) -> bool {
    matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS)
}

#[cold]
fn skip_extensions(mut here: UpperLayer<'_>) -> Result<UpperLayer<'_>, Error> {
    for _ in 0..EXTENSION_HEADERS_MAX {
        if !is_extension(here.protocol) {
            return Ok(here);
        }
        let (start, _) = split::<8>(EXTENSION, here.payload)?;
        let len = match here.protocol {
            FRAGMENT => 8,
            AUTHENTICATION => (usize::from(start[1]) + 2) * 4,
            _ => (usize::from(start[1]) + 1) * 8,
        };
        let (_, rest) = split_at(EXTENSION, here.payload, len)?;
        let is_fragment = here.protocol == FRAGMENT;
        here = UpperLayer { protocol: start[0], payload: rest, ..here };
        if is_fragment {
            let offset_and_flags = u16::from_be_bytes([start[2], start[3]]);
            let fragment = Fragment {
                offset: offset_and_flags >> 3,
                more: offset_and_flags & 1 == 1,
                identification: u32::from_be_bytes([start[4], start[5], start[6], start[7]]),
            };
            here.fragment = Some(fragment);
            if fragment.offset > 0 {
                return Ok(here);
            }
        }
    }
    if is_extension(here.protocol) {
        return Err(Error::field(EXTENSION, "number of headers", EXTENSION_HEADERS_MAX as u32 + 1, "at most 8"));
    }
    Ok(here)
}

/// A view of a packet that may be changed. Checked as an [`Ipv6Packet`].
#[derive(Debug)]
pub struct Ipv6PacketMut<'a> {
    header: &'a mut [u8; HEADER],
    payload: &'a mut [u8],
}

impl<'a> Ipv6PacketMut<'a> {
    /// Checks an Ethernet payload; what follows the payload length is padding.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for a wrong version.
    #[inline]
    pub fn new_checked(bytes: &'a mut [u8]) -> Result<Self, Error> {
        let payload = Ipv6Packet::new_checked(bytes)?.payload().len();
        let (header, rest) = split_mut::<HEADER>(NAME, bytes)?;
        Ok(Self { header, payload: &mut rest[..payload] })
    }

    /// Changes the source address. Returns what it was.
    #[inline]
    pub fn set_src(&mut self, address: Ipv6Addr) -> Ipv6Addr {
        self.set_address(8, address)
    }

    /// Changes the destination address. Returns what it was. A routing header that has segments left (RFC 8200, section 4.4) stays as it is.
    #[inline]
    pub fn set_dst(&mut self, address: Ipv6Addr) -> Ipv6Addr {
        self.set_address(24, address)
    }

    /// Marks it (CE, RFC 3168), unless whoever sent it would not understand that. Whether it is marked now.
    #[inline]
    pub const fn mark_congestion(&mut self) -> bool {
        // The traffic class lies in the middle of the first two bytes.
        let is_capable = self.header[1] & ECN << 4 != 0;
        if is_capable {
            self.header[1] |= ECN << 4;
        }
        is_capable
    }

    /// Changes those bits of the traffic class that are in `mask`.
    pub const fn set_traffic_class(&mut self, bits: u8, mask: u8) {
        let [first, second] = [self.header[0], self.header[1]];
        self.header[0] = first & !(mask >> 4) | (bits & mask) >> 4;
        self.header[1] = second & !(mask << 4) | (bits & mask) << 4;
    }

    /// Changes the hop limit.
    pub const fn set_hop_limit(&mut self, hop_limit: u8) {
        self.header[7] = hop_limit;
    }

    fn set_address(&mut self, at: usize, address: Ipv6Addr) -> Ipv6Addr {
        let mut octets = address.octets();
        self.header[at..at + 16].swap_with_slice(&mut octets);
        octets.into()
    }

    /// What follows the extension headers, as [`Ipv6Packet::upper_layer`] finds it.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn into_upper_layer(self) -> Result<&'a mut [u8], Error> {
        let packet = Ipv6Packet { header: self.header, payload: self.payload };
        let extensions = self.payload.len() - packet.upper_layer()?.payload.len();
        Ok(&mut self.payload[extensions..])
    }
}

/// What a fixed header says. Valid while `flow_label` has 20 bits; more are cut off by [`Ipv6Repr::emit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Repr {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Number of the next header.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Differentiated services and congestion notification.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes that follow the fixed header.
    pub payload_len: u16,
}

impl Ipv6Repr {
    /// A packet as hosts send it, with a hop limit of 64.
    pub const fn new(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, payload_len: u16) -> Self {
        Self { src, dst, next_header, hop_limit: 64, traffic_class: 0, flow_label: 0, payload_len }
    }

    /// What the view says.
    pub fn parse(packet: &Ipv6Packet<'_>) -> Self {
        Self {
            src: packet.src(),
            dst: packet.dst(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            payload_len: packet.payload().len() as u16,
        }
    }

    /// Bytes that [`Ipv6Repr::emit`] writes: the header alone.
    pub const fn buffer_len(&self) -> usize {
        HEADER
    }

    /// Writes the header to the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` has less than `buffer_len()` bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let header = room::<HEADER>(buffer);
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        header[6] = self.next_header;
        header[7] = self.hop_limit;
        header[8..24].copy_from_slice(&self.src.octets());
        header[24..].copy_from_slice(&self.dst.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol;
    use proptest::prelude::*;

    fn packet(next_header: u8, payload: &[u8]) -> Vec<u8> {
        let repr = Ipv6Repr {
            src: Ipv6Addr::LOCALHOST,
            dst: ALL_NODES,
            next_header,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            payload_len: payload.len() as u16,
        };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn extension_headers_are_skipped() {
        let mut payload = vec![DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0];
        payload.extend([AUTHENTICATION, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        payload.extend([FRAGMENT, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        payload.extend([protocol::UDP, 0, 0, 1, 0, 0, 0, 9]);
        payload.extend([1, 2, 3]);
        let bytes = packet(HOP_BY_HOP, &payload);
        let upper = Ipv6Packet::new_checked(&bytes).unwrap().upper_layer().unwrap();
        let fragment = Some(Fragment { offset: 0, more: true, identification: 9 });
        assert_eq!(upper, UpperLayer { protocol: protocol::UDP, payload: &[1, 2, 3], fragment });
    }

    #[test]
    fn a_later_fragment_is_not_taken_for_a_header() {
        let bytes = packet(FRAGMENT, &[HOP_BY_HOP, 0, 0, 8, 0, 0, 0, 9, 255, 255]);
        let upper = Ipv6Packet::new_checked(&bytes).unwrap().upper_layer().unwrap();
        assert_eq!((upper.protocol, upper.payload), (HOP_BY_HOP, &[255, 255][..]));
        assert_eq!(upper.fragment.unwrap().offset, 1);
    }

    #[test]
    fn a_chain_without_end_is_refused() {
        let chain = |n: usize| {
            let mut payload = [DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0].repeat(n - 1);
            payload.extend([protocol::TCP, 0, 1, 4, 0, 0, 0, 0]);
            packet(DESTINATION_OPTIONS, &payload)
        };
        let upper = |bytes: &[u8]| {
            Ipv6Packet::new_checked(bytes).unwrap().upper_layer().map(|u| u.protocol).map_err(|e| e.to_string())
        };
        assert_eq!(upper(&chain(EXTENSION_HEADERS_MAX)), Ok(protocol::TCP));
        assert_eq!(
            upper(&chain(EXTENSION_HEADERS_MAX + 1)),
            Err("IPv6 extension header: number of headers is 9, at most 8 expected".into())
        );
        assert_eq!(
            upper(&packet(ROUTING, &[6, 9, 0, 0, 0, 0, 0, 0])),
            Err("IPv6 extension header: 8 bytes, at least 80 expected".into())
        );
    }

    proptest! {
        #[test]
        fn emitted_and_parsed_is_the_same(
            (src, dst, next_header, hop_limit, traffic_class) in any::<(u128, u128, u8, u8, u8)>(),
            flow_label in 0_u32..1 << 20,
            payload_len: u16,
        ) {
            let repr = Ipv6Repr {
                src: src.into(), dst: dst.into(), next_header, hop_limit, traffic_class, flow_label, payload_len,
            };
            let mut buffer = vec![0; repr.buffer_len() + usize::from(payload_len)];
            repr.emit(&mut buffer);
            prop_assert_eq!(Ipv6Repr::parse(&Ipv6Packet::new_checked(&buffer).unwrap()), repr);
        }

        #[test]
        fn a_mark_is_what_emitting_it_gives(traffic_class: u8, flow_label in 0_u32..1 << 20) {
            let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
            let repr = Ipv6Repr { src, dst, next_header: 6, hop_limit: 64, traffic_class, flow_label, payload_len: 0 };
            let mut buffer = vec![0; repr.buffer_len()];
            repr.emit(&mut buffer);
            let marks = Ipv6PacketMut::new_checked(&mut buffer).unwrap().mark_congestion();
            prop_assert_eq!(marks, traffic_class % 4 != 0);
            let class_after = if marks { traffic_class | 3 } else { traffic_class };
            let after = Ipv6Repr::parse(&Ipv6Packet::new_checked(&buffer).unwrap());
            prop_assert_eq!(after, Ipv6Repr { traffic_class: class_after, ..repr });
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..160), steer: bool) {
            if steer && bytes.len() > 6 {
                bytes[0] = 0x60;
                bytes[4] = 0;
                bytes[5] %= 100;
                bytes[6] = [HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION][usize::from(bytes[6] % 4)];
            }
            if let Ok(packet) = Ipv6Packet::new_checked(&bytes)
                && let Ok(upper) = packet.upper_layer() {
                    prop_assert!(upper.payload.len() <= packet.payload().len());
                }
        }
    }
}
