//! The header fields that a switch looks at, and their hash.

use std::net::{IpAddr, SocketAddr};

use machine::mix;
use wire::{ArpPacket, Error, EthernetPacket, Ipv4Packet, Ipv6Packet, ethertype, kind, protocol};

use crate::spread::FlowHash;
use crate::usual::UsualHeaders;

/// The header fields that a switch looks at. Fields that a frame does not have are 0.
///
/// All fragments of a datagram have ports 0, also the first one, so that they stay together on one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Destination MAC address.
    pub eth_dst: [u8; 6],
    /// Source MAC address.
    pub eth_src: [u8; 6],
    /// 802.1Q tag control information, if there is a tag.
    pub vlan: Option<u16>,
    /// What the frame carries.
    pub ethertype: u16,
    /// IP protocol, behind any extension headers.
    pub protocol: u8,
    /// Source port (TCP, UDP) or message type (ICMP).
    pub src_port: u16,
    /// Destination port (TCP, UDP) or message code (ICMP).
    pub dst_port: u16,
    /// Source IP address; an IPv4 address stands in the low 32 bits. ARP: the sender's.
    pub src: u128,
    /// Destination IP address, likewise. ARP: the target's.
    pub dst: u128,
}

impl FlowKey {
    /// What packets of a flow have in common, by the number of its protocol and by both ends. Of ICMP the ports are type and code.
    pub fn of_flow(protocol: u8, from: SocketAddr, to: SocketAddr) -> Self {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        Self {
            ethertype: if from.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 },
            protocol,
            src_port: from.port(),
            dst_port: to.port(),
            src: bits(from.ip()),
            dst: bits(to.ip()),
            ..Self::default()
        }
    }

    /// Reads a frame's headers.
    ///
    /// A transport header that is cut off leaves the ports 0: the switch does not need them, and hosts judge for themselves.
    ///
    /// # Errors
    /// If the Ethernet, ARP or IP header is malformed.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Self, Error> {
        let mut key = Self::default();
        key.read(frame)?;
        Ok(key)
    }

    /// Reads a frame's headers in place: a key that is moved as soon as it is written waits for its parts.
    ///
    /// # Errors
    /// As [`FlowKey::parse`]; the key is of no use then.
    #[inline]
    pub(crate) fn read(&mut self, frame: &[u8]) -> Result<(), Error> {
        if self.read_usual(frame) {
            return Ok(());
        }
        self.read_any(frame)
    }

    /// Reads the headers that almost every packet has. False of any other packet, of which nothing is read.
    #[inline]
    fn read_usual(&mut self, frame: &[u8]) -> bool {
        let Some(headers) = UsualHeaders::read(frame) else { return false };
        (self.eth_dst, self.eth_src) = (mac_of(headers.eth_dst), mac_of(headers.eth_src));
        (self.ethertype, self.protocol) = (ethertype::IPV4, headers.protocol);
        (self.src, self.dst) = (headers.src.into(), headers.dst.into());
        (self.src_port, self.dst_port) = ((headers.ports >> 16) as u16, headers.ports as u16);
        true
    }

    fn read_any(&mut self, frame: &[u8]) -> Result<(), Error> {
        let ethernet = EthernetPacket::new_checked(frame)?;
        self.eth_dst = ethernet.dst();
        self.eth_src = ethernet.src();
        self.vlan = ethernet.vlan();
        self.ethertype = ethernet.ethertype();
        match self.ethertype {
            ethertype::IPV4 => self.read_ipv4(&Ipv4Packet::new_checked(ethernet.payload())?),
            ethertype::IPV6 => self.read_ipv6(&Ipv6Packet::new_checked(ethernet.payload())?)?,
            ethertype::ARP => self.read_arp(&ArpPacket::new_checked(ethernet.payload())?),
            _ => {}
        }
        Ok(())
    }

    #[inline]
    fn read_ipv4(&mut self, packet: &Ipv4Packet<'_>) {
        self.src = u128::from(packet.src().to_bits());
        self.dst = u128::from(packet.dst().to_bits());
        self.protocol = packet.protocol();
        if !packet.is_fragment() {
            self.read_ports(packet.payload());
        }
    }

    #[inline]
    fn read_ipv6(&mut self, packet: &Ipv6Packet<'_>) -> Result<(), Error> {
        let upper = packet.upper_layer()?;
        self.src = packet.src().to_bits();
        self.dst = packet.dst().to_bits();
        self.protocol = upper.protocol;
        if upper.fragment.is_none() {
            self.read_ports(upper.payload);
        }
        Ok(())
    }

    fn read_arp(&mut self, packet: &ArpPacket<'_>) {
        self.src = u128::from(packet.sender_ipv4().to_bits());
        self.dst = u128::from(packet.target_ipv4().to_bits());
    }

    /// TCP and UDP have their ports at the same place; ICMP's type and code stand in their stead, as in `OpenFlow`.
    #[inline]
    fn read_ports(&mut self, payload: &[u8]) {
        let Some(&[a, b, c, d]) = payload.first_chunk::<4>() else { return };
        match self.protocol {
            protocol::TCP | protocol::UDP => {
                self.src_port = u16::from_be_bytes([a, b]);
                self.dst_port = u16::from_be_bytes([c, d]);
            }
            protocol::ICMP | protocol::ICMPV6 => {
                self.src_port = u16::from(a);
                self.dst_port = u16::from(b);
            }
            _ => {}
        }
    }

    /// Whether it is an ARP message or a neighbour solicitation: what [`crate::neighbour`] may answer.
    #[inline]
    pub const fn asks_for_neighbour(&self) -> bool {
        match self.ethertype {
            ethertype::ARP => true,
            ethertype::IPV6 => {
                self.protocol == protocol::ICMPV6 && self.src_port == kind::NEIGHBOUR_SOLICITATION as u16
            }
            _ => false,
        }
    }

    /// The flow's hash: of the 5-tuple where there is one, else of the MAC addresses. The same at every switch and in every
    /// run; not meant to withstand who chooses his ports.
    #[inline]
    pub fn hash(&self) -> FlowHash {
        let ports = u32::from(self.src_port) << 16 | u32::from(self.dst_port);
        let ends = if self.src | self.dst == 0 {
            (u128::from(mac_bits(self.eth_src)), u128::from(mac_bits(self.eth_dst)))
        } else {
            (self.src, self.dst)
        };
        hash_of_tuple(self.ethertype, self.protocol, ports, ends)
    }
}

impl UsualHeaders<'_> {
    /// As [`FlowKey::hash`].
    #[inline]
    pub fn hash(&self) -> FlowHash {
        let ends = if self.src | self.dst == 0 {
            (self.eth_src.into(), self.eth_dst.into())
        } else {
            (self.src.into(), self.dst.into())
        };
        hash_of_tuple(ethertype::IPV4, self.protocol, self.ports, ends)
    }
}

/// The hash of a flow between these ends; the source port is in the upper half of the ports.
#[inline]
fn hash_of_tuple(ethertype: u16, protocol: u8, ports: u32, (src, dst): (u128, u128)) -> FlowHash {
    // Each word is spread by a multiplication of its own, so that the processor can do them side by side.
    let tuple = fold(u64::from(ports) | u64::from(protocol) << 32 | u64::from(ethertype) << 40, KEYS[0]);
    let src = fold(src as u64 ^ KEYS[1], (src >> 64) as u64 ^ KEYS[2]);
    let dst = fold(dst as u64 ^ KEYS[3], (dst >> 64) as u64 ^ KEYS[4]);
    FlowHash(mix(tuple ^ src ^ dst.rotate_left(32)))
}

/// Odd numbers with evenly spread bits: the fractional parts of the square roots of 2, 3, 5, 7, 11 (SHA-512's first words), made odd.
const KEYS: [u64; 5] =
    [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1, 0x510e_527f_ade6_82d1];

/// The two halves of a full product, laid over each other: each bit of the result depends on all bits of both factors.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// A MAC address as a number below 2^48.
#[inline]
pub const fn mac_bits(mac: [u8; 6]) -> u64 {
    u64::from_be_bytes([0, 0, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]])
}

/// The MAC address that a number below 2^48 is.
#[inline]
pub const fn mac_of(bits: u64) -> [u8; 6] {
    let [_, _, mac @ ..] = bits.to_be_bytes();
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spread::ecmp;
    use crate::testing::{address, tcp, tcp_v6, usual_frame};
    use proptest::prelude::*;

    #[test]
    fn the_fields_of_both_families_are_read() {
        let (a, b) = (address(1), address(2));
        let expected = FlowKey {
            eth_dst: b.mac,
            eth_src: a.mac,
            vlan: None,
            ethertype: ethertype::IPV4,
            protocol: protocol::TCP,
            src_port: 4_000,
            dst_port: 5_201,
            src: u128::from(a.ipv4.to_bits()),
            dst: u128::from(b.ipv4.to_bits()),
        };
        assert_eq!(FlowKey::parse(&tcp(&a, &b, 4_000, 5_201, 10)), Ok(expected));
        let expected = FlowKey { ethertype: ethertype::IPV6, src: a.ipv6.to_bits(), dst: b.ipv6.to_bits(), ..expected };
        assert_eq!(FlowKey::parse(&tcp_v6(&a, &b, 4_000, 5_201, 10)), Ok(expected));
    }

    #[test]
    fn fragments_stay_together() {
        let frame = tcp(&address(1), &address(2), 4_000, 5_201, 64);
        let fragment = |flags_and_offset: u16| {
            let mut frame = frame.clone();
            frame[20..22].copy_from_slice(&flags_and_offset.to_be_bytes());
            FlowKey::parse(&frame).unwrap()
        };
        let (first, middle, last) = (fragment(0x2000), fragment(0x2008), fragment(0x0010));
        assert_eq!((first.src_port, first.dst_port), (0, 0));
        assert_eq!(first, middle);
        assert_eq!(first.hash(), last.hash());
    }

    #[test]
    fn a_transport_header_that_is_cut_off_has_no_ports() {
        let frame = tcp(&address(1), &address(2), 4_000, 5_201, 0);
        let mut cut = frame[..14 + 20 + 3].to_vec();
        cut[16..18].copy_from_slice(&23_u16.to_be_bytes());
        let key = FlowKey::parse(&cut).unwrap();
        assert_eq!((key.protocol, key.src_port, key.dst_port), (protocol::TCP, 0, 0));
        assert!(FlowKey::parse(&frame[..14 + 19]).is_err());
    }

    /// Flows as they are made: neighbouring addresses, neighbouring ports. Each of four next hops should get a quarter.
    #[test]
    fn flows_that_look_alike_spread_evenly() {
        for v6 in [false, true] {
            let mut taken = [[0_u32; 4]; 4];
            for n in 0..16_000_u32 {
                let (a, b) = (address(n % 16), address(16 + n / 16 % 16));
                let port = 40_000 + (n / 256) as u16;
                let frame = if v6 { tcp_v6(&a, &b, port, 5_201, 0) } else { tcp(&a, &b, port, 5_201, 0) };
                let hash = FlowKey::parse(&frame).unwrap().hash();
                taken[ecmp(hash, 1, 4) as usize][ecmp(hash, 2, 4) as usize] += 1;
            }
            assert!(taken.iter().flatten().all(|n| (850..1_150).contains(n)), "{taken:?}");
        }
    }

    #[test]
    fn a_flow_has_the_hash_of_its_frames() {
        let (a, b) = (address(1), address(2));
        let ends =
            [((a.ipv4, 40_000).into(), (b.ipv4, 5_201).into()), ((a.ipv6, 40_000).into(), (b.ipv6, 5_201).into())];
        for ((from, to), frame) in
            ends.into_iter().zip([tcp(&a, &b, 40_000, 5_201, 0), tcp_v6(&a, &b, 40_000, 5_201, 0)])
        {
            assert_eq!(FlowKey::of_flow(protocol::TCP, from, to).hash(), FlowKey::parse(&frame).unwrap().hash());
            assert_ne!(FlowKey::of_flow(protocol::UDP, from, to).hash(), FlowKey::parse(&frame).unwrap().hash());
        }
    }

    proptest! {
        /// Whatever becomes of the frame's bytes and of its length.
        #[test]
        fn what_is_read_at_once_is_what_is_read_field_by_field(frame in usual_frame()) {
            let (mut at_once, mut by_field) = (FlowKey::default(), FlowKey::default());
            if at_once.read_usual(&frame) {
                prop_assert_eq!(by_field.read_any(&frame), Ok(()));
                prop_assert_eq!(at_once, by_field);
                prop_assert_eq!(UsualHeaders::read(&frame).map(|headers| headers.hash()), Some(by_field.hash()));
            } else {
                prop_assert_eq!(at_once, FlowKey::default());
            }
        }

        #[test]
        fn each_field_of_the_tuple_moves_the_hash(
            (src, dst, src_port, dst_port) in any::<(u128, u128, u16, u16)>(), bit in 0_u32..16,
        ) {
            let key = FlowKey {
                ethertype: ethertype::IPV6, protocol: 6, src_port, dst_port, src, dst, ..FlowKey::default()
            };
            let mut others = vec![
                FlowKey { src_port: src_port ^ 1 << bit, ..key },
                FlowKey { dst_port: dst_port ^ 1 << bit, ..key },
                FlowKey { protocol: 17, ..key },
            ];
            others.extend((0..8).map(|word| FlowKey { src: src ^ 1 << (word * 16 + bit), ..key }));
            others.extend((0..8).map(|word| FlowKey { dst: dst ^ 1 << (word * 16 + bit), ..key }));
            for other in others {
                prop_assert_ne!(other.hash(), key.hash());
            }
            let elsewhere = FlowKey { eth_dst: [1; 6], eth_src: [2; 6], vlan: Some(3), ..key };
            prop_assume!(src | dst != 0);
            prop_assert_eq!(elsewhere.hash(), key.hash());
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), ip in 0_usize..3) {
            if let Some(place) = bytes.get_mut(12..15) {
                place.copy_from_slice(&[[8, 0, 0x45], [0x86, 0xdd, 0x60], [8, 6, 0]][ip]);
            }
            let _ = FlowKey::parse(&bytes).map(|key| key.hash());
        }
    }
}
