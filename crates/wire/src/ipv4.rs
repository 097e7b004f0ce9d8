//! The Internet protocol, version 4 (RFC 791).

use std::net::Ipv4Addr;

use crate::error::{room, split, split_at, split_mut};
use crate::{Error, checksum};

const NAME: &str = "IPv4";
const HEADER: usize = 20;
/// The bits of the traffic class that are about congestion: none of them is of who does not understand marks, all of them are the mark (RFC 3168, 5).
pub(crate) const ECN: u8 = 0x03;

/// Protocol numbers that Heddle distinguishes; IPv6 uses the same ones.
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// A packet of IPv4 in another packet: RFC 2003.
    pub const IPV4: u8 = 4;
    /// TCP: RFC 9293.
    pub const TCP: u8 = 6;
    /// UDP: RFC 768.
    pub const UDP: u8 = 17;
    /// A packet of IPv6 in another packet: RFC 2473.
    pub const IPV6: u8 = 41;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// VRRP: RFC 9568.
    pub const VRRP: u8 = 112;
}

/// A view of a packet. Checked: version 4; the header lies within the total length, and that within the bytes.
/// Not checked: the header checksum ([`Ipv4Packet::is_checksum_right`]).
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Packet<'a> {
    header: &'a [u8; HEADER],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ipv4Packet<'a> {
    /// Checks an Ethernet payload; what follows the total length is padding.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for a wrong version or header length.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        let (header, _) = split::<HEADER>(NAME, bytes)?;
        if header[0] >> 4 != 4 {
            return Err(Error::field(NAME, "version", u32::from(header[0] >> 4), "4"));
        }
        let header_len = usize::from(header[0] & 0xf) * 4;
        let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let (packet, _padding) = split_at(NAME, bytes, total_len)?;
        let (header, rest) = split::<HEADER>(NAME, packet)?;
        let Some((options, payload)) =
            header_len.checked_sub(HEADER).and_then(|options_len| rest.split_at_checked(options_len))
        else {
            return Err(Error::field(NAME, "header length", header_len as u32, "20 to the total length"));
        };
        Ok(Self { header, options, payload })
    }

    /// Source address.
    pub const fn src(&self) -> Ipv4Addr {
        let h = self.header;
        Ipv4Addr::new(h[12], h[13], h[14], h[15])
    }

    /// Destination address.
    pub const fn dst(&self) -> Ipv4Addr {
        let h = self.header;
        Ipv4Addr::new(h[16], h[17], h[18], h[19])
    }

    /// Protocol number of the payload.
    pub const fn protocol(&self) -> u8 {
        self.header[9]
    }

    /// Time to live.
    pub const fn ttl(&self) -> u8 {
        self.header[8]
    }

    /// Differentiated services (6 bits, RFC 2474) and congestion notification (2 bits, RFC 3168).
    pub const fn traffic_class(&self) -> u8 {
        self.header[1]
    }

    /// What the fragments of one datagram share.
    pub const fn identification(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]])
    }

    /// Whether routers must not fragment it.
    pub const fn dont_fragment(&self) -> bool {
        self.header[6] & 0x40 != 0
    }

    /// Whether fragments follow.
    pub const fn more_fragments(&self) -> bool {
        self.header[6] & 0x20 != 0
    }

    /// Where the payload belongs in the datagram, in units of 8 bytes.
    pub const fn fragment_offset(&self) -> u16 {
        u16::from_be_bytes([self.header[6] & 0x1f, self.header[7]])
    }

    /// Whether this is a part of a datagram, be it the first.
    pub const fn is_fragment(&self) -> bool {
        u16::from_be_bytes([self.header[6] & 0x3f, self.header[7]]) != 0
    }

    /// The options, padded to whole words.
    pub const fn options(&self) -> &'a [u8] {
        self.options
    }

    /// What the total length leaves after the header.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Whether the header checksum fits.
    pub fn is_checksum_right(&self) -> bool {
        // The options come in whole words, so the two sums can be taken apart and added.
        let sum = u32::from(!checksum::internet(self.header)) + u32::from(!checksum::internet(self.options));
        matches!(sum, 0xffff | 0x1_fffe)
    }
}

/// A view of a packet that may be changed. Checked as an [`Ipv4Packet`].
#[derive(Debug)]
pub struct Ipv4PacketMut<'a> {
    header: &'a mut [u8; HEADER],
    payload: &'a mut [u8],
}

impl<'a> Ipv4PacketMut<'a> {
    /// Checks an Ethernet payload; what follows the total length is padding.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for a wrong version or header length.
    #[inline]
    pub fn new_checked(bytes: &'a mut [u8]) -> Result<Self, Error> {
        let packet = Ipv4Packet::new_checked(bytes)?;
        let (options, payload) = (packet.options().len(), packet.payload().len());
        let (header, rest) = split_mut::<HEADER>(NAME, bytes)?;
        Ok(Self { header, payload: &mut rest[options..options + payload] })
    }

    /// Changes the source address, and the header checksum with it. Returns what it was.
    #[inline]
    pub fn set_src(&mut self, address: Ipv4Addr) -> Ipv4Addr {
        self.set_address(12, address)
    }

    /// Changes the destination address, and the header checksum with it. Returns what it was.
    #[inline]
    pub fn set_dst(&mut self, address: Ipv4Addr) -> Ipv4Addr {
        self.set_address(16, address)
    }

    /// Marks it (CE, RFC 3168), and changes the header checksum with it, unless whoever sent it would not understand that. Whether it is marked now.
    #[inline]
    pub fn mark_congestion(&mut self) -> bool {
        if self.header[1] & ECN == 0 {
            return false;
        }
        self.set_byte(1, self.header[1] | ECN);
        true
    }

    /// Changes those bits of the traffic class that are in `mask`, and the header checksum with it.
    pub fn set_traffic_class(&mut self, bits: u8, mask: u8) {
        self.set_byte(1, self.header[1] & !mask | bits & mask);
    }

    /// Changes the time to live, and the header checksum with it.
    pub fn set_ttl(&mut self, ttl: u8) {
        self.set_byte(8, ttl);
    }

    /// Changes one byte in front of the checksum.
    fn set_byte(&mut self, at: usize, byte: u8) {
        let word = at & !1;
        let old = [self.header[word], self.header[word + 1]];
        self.header[at] = byte;
        let new = [self.header[word], self.header[word + 1]];
        let checksum = u16::from_be_bytes([self.header[10], self.header[11]]);
        let checksum = checksum::update(checksum, &old, &new);
        self.header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }

    fn set_address(&mut self, at: usize, address: Ipv4Addr) -> Ipv4Addr {
        let (before, place) = self.header.split_at_mut(at);
        let checksum = u16::from_be_bytes([before[10], before[11]]);
        let old = [place[0], place[1], place[2], place[3]];
        let checksum = checksum::update(checksum, &old, &address.octets());
        before[10..12].copy_from_slice(&checksum.to_be_bytes());
        place[..4].copy_from_slice(&address.octets());
        old.into()
    }

    /// What the total length leaves after the header.
    pub fn into_payload(self) -> &'a mut [u8] {
        self.payload
    }
}

/// What a header without options says. Valid while `payload_len` is at most 65,515 and `fragment_offset` at most 8,191;
/// larger values are cut off by [`Ipv4Repr::emit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Repr {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Differentiated services and congestion notification.
    pub traffic_class: u8,
    /// What the fragments of one datagram share.
    pub identification: u16,
    /// Whether routers must not fragment it.
    pub dont_fragment: bool,
    /// Whether fragments follow.
    pub more_fragments: bool,
    /// Where the payload belongs in the datagram, in units of 8 bytes.
    pub fragment_offset: u16,
    /// Bytes of payload.
    pub payload_len: u16,
}

impl Ipv4Repr {
    /// A datagram as hosts send it: whole, not to be fragmented, with a time to live of 64.
    pub const fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload_len: u16) -> Self {
        Self {
            src,
            dst,
            protocol,
            ttl: 64,
            traffic_class: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len,
        }
    }

    /// What the view says, without its options.
    ///
    /// # Errors
    /// [`Error::Checksum`]
    pub fn parse(packet: &Ipv4Packet<'_>) -> Result<Self, Error> {
        if !packet.is_checksum_right() {
            return Err(Error::Checksum { header: NAME });
        }
        Ok(Self {
            src: packet.src(),
            dst: packet.dst(),
            protocol: packet.protocol(),
            ttl: packet.ttl(),
            traffic_class: packet.traffic_class(),
            identification: packet.identification(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
            payload_len: packet.payload().len() as u16,
        })
    }

    /// Bytes that [`Ipv4Repr::emit`] writes: the header alone.
    pub const fn buffer_len(&self) -> usize {
        HEADER
    }

    /// Writes the header with its checksum to the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` has less than `buffer_len()` bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let header = room::<HEADER>(buffer);
        header[0] = 0x45;
        header[1] = self.traffic_class;
        header[2..4].copy_from_slice(&self.payload_len.saturating_add(HEADER as u16).to_be_bytes());
        header[4..6].copy_from_slice(&self.identification.to_be_bytes());
        let flags = u16::from(self.dont_fragment) << 14 | u16::from(self.more_fragments) << 13;
        header[6..8].copy_from_slice(&(flags | self.fragment_offset & 0x1fff).to_be_bytes());
        header[8] = self.ttl;
        header[9] = self.protocol;
        header[10..12].fill(0);
        header[12..16].copy_from_slice(&self.src.octets());
        header[16..].copy_from_slice(&self.dst.octets());
        let checksum = checksum::internet(header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A header of 24 bytes (router alert) around 4 bytes of payload, then 2 bytes of padding.
    const WITH_OPTION: [u8; 30] = [
        0x46, 0xc0, 0, 28, 0, 0, 0x40, 0, 1, 2, 0x41, 0x1b, 0, 0, 0, 0, 224, 0, 0, 22, 0x94, 4, 0, 0, 1, 2, 3, 4, 0, 0,
    ];

    #[test]
    fn options_are_skipped_and_padding_is_cut() {
        let mut bytes = WITH_OPTION;
        bytes[10..12].fill(0);
        let sum = checksum::internet(&bytes[..24]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        let packet = Ipv4Packet::new_checked(&bytes).unwrap();
        assert_eq!(packet.options(), [0x94, 4, 0, 0]);
        assert_eq!(packet.payload(), [1, 2, 3, 4]);
        assert!(packet.is_checksum_right() && packet.dont_fragment() && !packet.is_fragment());
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let refused = |at: usize, value: u8| {
            let mut bytes = WITH_OPTION;
            bytes[at] = value;
            Ipv4Packet::new_checked(&bytes).unwrap_err().to_string()
        };
        assert_eq!(refused(0, 0x66), "IPv4: version is 6, 4 expected");
        assert_eq!(refused(0, 0x44), "IPv4: header length is 16, 20 to the total length expected");
        assert_eq!(refused(0, 0x4f), "IPv4: header length is 60, 20 to the total length expected");
        assert_eq!(refused(3, 31), "IPv4: 30 bytes, at least 31 expected");
        assert_eq!(refused(3, 19), "IPv4: 19 bytes, at least 20 expected");
    }

    proptest! {
        #[test]
        fn emitted_and_parsed_is_the_same(
            (src, dst, protocol, ttl) in any::<(u32, u32, u8, u8)>(),
            (traffic_class, identification, dont_fragment, more_fragments) in any::<(u8, u16, bool, bool)>(),
            fragment_offset in 0_u16..0x2000,
            payload_len in 0_u16..=65_515,
        ) {
            let repr = Ipv4Repr {
                src: src.into(), dst: dst.into(), protocol, ttl, traffic_class, identification,
                dont_fragment, more_fragments, fragment_offset, payload_len,
            };
            let mut buffer = vec![0; repr.buffer_len() + usize::from(payload_len)];
            repr.emit(&mut buffer);
            let packet = Ipv4Packet::new_checked(&buffer).unwrap();
            prop_assert_eq!(packet.is_fragment(), more_fragments || fragment_offset > 0);
            prop_assert_eq!(Ipv4Repr::parse(&packet).unwrap(), repr);
        }

        #[test]
        fn a_changed_address_is_what_emitting_it_gives((src, dst, src_after, dst_after) in any::<(u32, u32, u32, u32)>()) {
            let repr = Ipv4Repr {
                src: src.into(), dst: dst.into(), protocol: 6, ttl: 64, traffic_class: 0, identification: 7,
                dont_fragment: true, more_fragments: false, fragment_offset: 0, payload_len: 2,
            };
            let mut buffer = vec![0; 22];
            repr.emit(&mut buffer);
            let mut packet = Ipv4PacketMut::new_checked(&mut buffer).unwrap();
            packet.set_src(src_after.into());
            packet.set_dst(dst_after.into());
            prop_assert_eq!(packet.into_payload().len(), 2);
            let mut expected = vec![0; 22];
            Ipv4Repr { src: src_after.into(), dst: dst_after.into(), ..repr }.emit(&mut expected);
            prop_assert_eq!(buffer, expected);
        }

        #[test]
        fn a_mark_is_what_emitting_it_gives(traffic_class: u8, src: u32) {
            let repr = Ipv4Repr {
                src: src.into(), dst: src.into(), protocol: 6, ttl: 64, traffic_class, identification: 7,
                dont_fragment: true, more_fragments: false, fragment_offset: 0, payload_len: 0,
            };
            let mut buffer = vec![0; 20];
            repr.emit(&mut buffer);
            let marks = Ipv4PacketMut::new_checked(&mut buffer).unwrap().mark_congestion();
            prop_assert_eq!(marks, traffic_class % 4 != 0);
            let mut expected = vec![0; 20];
            let class_after = if marks { traffic_class | 3 } else { traffic_class };
            Ipv4Repr { traffic_class: class_after, ..repr }.emit(&mut expected);
            prop_assert_eq!(buffer, expected);
        }

        #[test]
        fn a_flipped_bit_fails_the_checksum(bit in 0_usize..160, src: u32, dst: u32) {
            let repr = Ipv4Repr {
                src: src.into(), dst: dst.into(), protocol: 6, ttl: 64, traffic_class: 0, identification: 7,
                dont_fragment: true, more_fragments: false, fragment_offset: 0, payload_len: 0,
            };
            let mut buffer = vec![0; 20];
            repr.emit(&mut buffer);
            buffer[bit / 8] ^= 1 << (bit % 8);
            let read = Ipv4Packet::new_checked(&buffer).and_then(|packet| Ipv4Repr::parse(&packet));
            prop_assert!(read.is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), steer: bool) {
            if steer && bytes.len() > 3 {
                bytes[0] = 0x40 | bytes[0] & 0xf;
                bytes[2] = 0;
                bytes[3] %= 90;
            }
            if let Ok(packet) = Ipv4Packet::new_checked(&bytes) {
                prop_assert!(HEADER + packet.options().len() + packet.payload().len() <= bytes.len());
                let _ = Ipv4Repr::parse(&packet);
            }
        }
    }
}
