//! Header fields that a switch can write.

mod discovery;
mod frame;
mod label;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{
    Coverage, Error, EthernetPacketMut, Ipv4Packet, Ipv4PacketMut, Ipv6Packet, Ipv6PacketMut, MplsRepr,
    TransportPacketMut, ethertype, protocol,
};

use discovery::LinkLayer;
pub(crate) use frame::ethertype_of;
use frame::payload;

/// A header field and what it is to be: the set-field action of `OpenFlow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// Source MAC address.
    EthSrc([u8; 6]),
    /// Destination MAC address.
    EthDst([u8; 6]),
    /// Control information of the 802.1Q tag: priority, drop eligibility and VLAN.
    VlanTci(u16),
    /// Source address of an IPv4 packet.
    Ipv4Src(Ipv4Addr),
    /// Destination address of an IPv4 packet.
    Ipv4Dst(Ipv4Addr),
    /// Source address of an IPv6 packet.
    Ipv6Src(Ipv6Addr),
    /// Destination address of an IPv6 packet.
    Ipv6Dst(Ipv6Addr),
    /// Source port of TCP or UDP.
    SrcPort(u16),
    /// Destination port of TCP or UDP.
    DstPort(u16),
    /// Sequence number of a segment of TCP.
    TcpSeq(u32),
    /// Acknowledgement number of a segment of TCP.
    TcpAck(u32),
    /// Differentiated services code point of an IP packet (RFC 2474): the upper six bits of its traffic class.
    Dscp(u8),
    /// Explicit congestion notification of an IP packet (RFC 3168): the lower two bits of its traffic class.
    Ecn(u8),
    /// Time to live of an IPv4 packet, hop limit of an IPv6 packet.
    Ttl(u8),
    /// Label of the uppermost entry of a label stack: 20 bits.
    MplsLabel(u32),
    /// Traffic class of the uppermost entry of a label stack (RFC 5462): 3 bits.
    MplsTrafficClass(u8),
    /// Time to live of the uppermost entry of a label stack.
    MplsTtl(u8),
    /// Time to live of what is behind the uppermost entry of a label stack: another one, or an IP packet.
    LabelledTtl(u8),
    /// Whom a neighbour solicitation asks for, or an advertisement is about.
    NdTarget(Ipv6Addr),
    /// The source's link-layer address of a neighbour solicitation, if it has one.
    NdSourceLinkLayer([u8; 6]),
    /// The target's link-layer address of a neighbour advertisement, if it has one.
    NdTargetLinkLayer([u8; 6]),
    /// The network of the tunnel that it leaves by. It stands in no header of the frame itself.
    TunnelId(u32),
    /// Source address of the packet that an ICMP error quotes.
    QuotedSrc(IpAddr),
    /// Destination address of the packet that an ICMP error quotes.
    QuotedDst(IpAddr),
    /// Source and destination port of the packet that an ICMP error quotes.
    QuotedPorts(u16, u16),
}

/// The end of a flow that an address or a port belongs to.
#[derive(Clone, Copy)]
enum Endpoint {
    Source,
    Destination,
}

impl Field {
    /// Writes it into a frame, whose checksums fit then if they did before. `coverage` says what the checksum field of TCP, UDP or `ICMPv6` holds.
    ///
    /// An address that is changed in the first fragment of a datagram is changed in the checksum of all of it. The packet that an ICMP error quotes
    /// stays as it is, unless it is what is written.
    ///
    /// # Errors
    /// If a header is malformed, or the frame does not have the field: it may be changed in part then.
    pub fn write(self, frame: &mut [u8], coverage: Coverage) -> Result<(), Error> {
        match self {
            Self::EthSrc(mac) => EthernetPacketMut::new_checked(frame)?.set_src(mac),
            Self::EthDst(mac) => EthernetPacketMut::new_checked(frame)?.set_dst(mac),
            Self::VlanTci(tci) => EthernetPacketMut::new_checked(frame)?.set_vlan(tci)?,
            Self::Ipv4Src(to) => write_ipv4(frame, (Endpoint::Source, to), coverage)?,
            Self::Ipv4Dst(to) => write_ipv4(frame, (Endpoint::Destination, to), coverage)?,
            Self::Ipv6Src(to) => write_ipv6(frame, (Endpoint::Source, to), coverage)?,
            Self::Ipv6Dst(to) => write_ipv6(frame, (Endpoint::Destination, to), coverage)?,
            Self::SrcPort(port) => write_port(frame, (Endpoint::Source, port), coverage)?,
            Self::DstPort(port) => write_port(frame, (Endpoint::Destination, port), coverage)?,
            Self::TcpSeq(number) => write_number(frame, (4, number), coverage)?,
            Self::TcpAck(number) => write_number(frame, (8, number), coverage)?,
            Self::Dscp(dscp) => write_ip(frame, IpField::TrafficClass { bits: dscp << 2, mask: 0xfc })?,
            Self::Ecn(ecn) => write_ip(frame, IpField::TrafficClass { bits: ecn, mask: 0x03 })?,
            Self::Ttl(ttl) => write_ip(frame, IpField::Ttl(ttl))?,
            Self::MplsLabel(_) | Self::MplsTrafficClass(_) | Self::MplsTtl(_) => {
                label::write(frame, |entry| self.in_entry(entry))?;
            }
            Self::LabelledTtl(ttl) => label::write_inner_ttl(frame, ttl)?,
            Self::NdTarget(target) => discovery::write_target(frame, target, coverage)?,
            Self::NdSourceLinkLayer(mac) => discovery::write_link_layer(frame, (LinkLayer::Source, mac), coverage)?,
            Self::NdTargetLinkLayer(mac) => discovery::write_link_layer(frame, (LinkLayer::Target, mac), coverage)?,
            Self::TunnelId(_) => {}
            Self::QuotedSrc(address) => write_quoted(frame, Quoted::Address(Endpoint::Source, address))?,
            Self::QuotedDst(address) => write_quoted(frame, Quoted::Address(Endpoint::Destination, address))?,
            Self::QuotedPorts(src, dst) => write_quoted(frame, Quoted::Ports(src, dst))?,
        }
        Ok(())
    }
}

impl fmt::Display for Field {
    /// As the actions of flows write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mac = |[first, rest @ ..]: [u8; 6]| {
            rest.iter().fold(format!("{first:02x}"), |text, byte| format!("{text}:{byte:02x}"))
        };
        match *self {
            Self::EthSrc(address) => write!(f, "mod_dl_src:{}", mac(address)),
            Self::EthDst(address) => write!(f, "mod_dl_dst:{}", mac(address)),
            Self::VlanTci(tci) => write!(f, "mod_vlan_vid:{},mod_vlan_pcp:{}", tci & 0xfff, tci >> 13),
            Self::Ipv4Src(address) => write!(f, "mod_nw_src:{address}"),
            Self::Ipv4Dst(address) => write!(f, "mod_nw_dst:{address}"),
            Self::Ipv6Src(address) => write!(f, "set_field:{address}->ipv6_src"),
            Self::Ipv6Dst(address) => write!(f, "set_field:{address}->ipv6_dst"),
            Self::SrcPort(port) => write!(f, "mod_tp_src:{port}"),
            Self::DstPort(port) => write!(f, "mod_tp_dst:{port}"),
            Self::Dscp(dscp) => write!(f, "mod_nw_tos:{}", dscp << 2),
            Self::Ecn(ecn) => write!(f, "mod_nw_ecn:{ecn}"),
            Self::Ttl(ttl) => write!(f, "mod_nw_ttl:{ttl}"),
            Self::MplsLabel(label) => write!(f, "set_mpls_label:{label}"),
            Self::MplsTrafficClass(class) => write!(f, "set_mpls_tc:{class}"),
            Self::MplsTtl(ttl) => write!(f, "set_mpls_ttl:{ttl}"),
            Self::LabelledTtl(ttl) => write!(f, "copy_ttl_in ({ttl})"),
            Self::NdTarget(address) => write!(f, "set_field:{address}->nd_target"),
            Self::NdSourceLinkLayer(address) => write!(f, "set_field:{}->nd_sll", mac(address)),
            Self::NdTargetLinkLayer(address) => write!(f, "set_field:{}->nd_tll", mac(address)),
            Self::TunnelId(vni) => write!(f, "set_tunnel:{vni:#x}"),
            // No flow writes these, but `ct` with `nat`, and services.
            Self::TcpSeq(number) => write!(f, "sequence number {number}"),
            Self::TcpAck(number) => write!(f, "acknowledgement number {number}"),
            Self::QuotedSrc(address) => write!(f, "quoted source {address}"),
            Self::QuotedDst(address) => write!(f, "quoted destination {address}"),
            Self::QuotedPorts(src, dst) => write!(f, "quoted ports {src} and {dst}"),
        }
    }
}

impl Field {
    /// An entry of a label stack in which this is written. Fields that are none of its leave it as it is.
    pub(crate) const fn in_entry(self, entry: MplsRepr) -> MplsRepr {
        match self {
            Self::MplsLabel(label) => MplsRepr { label, ..entry },
            Self::MplsTrafficClass(traffic_class) => MplsRepr { traffic_class, ..entry },
            Self::MplsTtl(ttl) => MplsRepr { ttl, ..entry },
            _ => entry,
        }
    }
}

/// A field that both versions of IP have.
#[derive(Clone, Copy)]
enum IpField {
    /// Those bits of it that are in the mask.
    TrafficClass {
        bits: u8,
        mask: u8,
    },
    Ttl(u8),
}

fn write_ip(frame: &mut [u8], field: IpField) -> Result<(), Error> {
    if ethertype_of(frame)? == ethertype::IPV6 {
        let mut packet = Ipv6PacketMut::new_checked(payload(frame, ethertype::IPV6, "34525 (IPv6)")?)?;
        match field {
            IpField::TrafficClass { bits, mask } => packet.set_traffic_class(bits, mask),
            IpField::Ttl(ttl) => packet.set_hop_limit(ttl),
        }
        return Ok(());
    }
    let mut packet = Ipv4PacketMut::new_checked(payload(frame, ethertype::IPV4, "2048 (IPv4) or 34525 (IPv6)")?)?;
    match field {
        IpField::TrafficClass { bits, mask } => packet.set_traffic_class(bits, mask),
        IpField::Ttl(ttl) => packet.set_ttl(ttl),
    }
    Ok(())
}

fn write_ipv4(frame: &mut [u8], (endpoint, new): (Endpoint, Ipv4Addr), coverage: Coverage) -> Result<(), Error> {
    let bytes = payload(frame, ethertype::IPV4, "2048 (IPv4)")?;
    let packet = Ipv4Packet::new_checked(bytes)?;
    let (protocol, has_transport) = (packet.protocol(), packet.fragment_offset() == 0);
    let mut packet = Ipv4PacketMut::new_checked(bytes)?;
    let old = match endpoint {
        Endpoint::Source => packet.set_src(new),
        Endpoint::Destination => packet.set_dst(new),
    };
    if has_transport
        && protocol != protocol::ICMPV6
        && let Some(mut transport) = TransportPacketMut::new_checked(protocol, packet.into_payload(), coverage)?
    {
        transport.address_changed(&old.octets(), &new.octets());
    }
    Ok(())
}

fn write_ipv6(frame: &mut [u8], (endpoint, new): (Endpoint, Ipv6Addr), coverage: Coverage) -> Result<(), Error> {
    let bytes = payload(frame, ethertype::IPV6, "34525 (IPv6)")?;
    let packet = Ipv6Packet::new_checked(bytes)?;
    let upper = packet.upper_layer()?;
    let (protocol, has_transport) = (upper.protocol, upper.fragment.is_none_or(|fragment| fragment.offset == 0));
    let mut packet = Ipv6PacketMut::new_checked(bytes)?;
    let old = match endpoint {
        Endpoint::Source => packet.set_src(new),
        Endpoint::Destination => packet.set_dst(new),
    };
    if has_transport
        && let Some(mut transport) = TransportPacketMut::new_checked(protocol, packet.into_upper_layer()?, coverage)?
    {
        transport.address_changed(&old.octets(), &new.octets());
    }
    Ok(())
}

fn write_port(frame: &mut [u8], (endpoint, port): (Endpoint, u16), coverage: Coverage) -> Result<(), Error> {
    let (protocol, is_later, bytes) = if ethertype_of(frame)? == ethertype::IPV6 {
        let bytes = payload(frame, ethertype::IPV6, "34525 (IPv6)")?;
        let upper = Ipv6Packet::new_checked(bytes)?.upper_layer()?;
        let (protocol, is_later) = (upper.protocol, upper.fragment.is_some_and(|fragment| fragment.offset > 0));
        (protocol, is_later, Ipv6PacketMut::new_checked(bytes)?.into_upper_layer()?)
    } else {
        let bytes = payload(frame, ethertype::IPV4, "2048 (IPv4) or 34525 (IPv6)")?;
        let packet = Ipv4Packet::new_checked(bytes)?;
        let (protocol, is_later) = (packet.protocol(), packet.fragment_offset() > 0);
        (protocol, is_later, Ipv4PacketMut::new_checked(bytes)?.into_payload())
    };
    let lacks = |field, value, expected| Error::Field { header: "IP", field, value, expected };
    if is_later {
        // The first one has the ports of all of the datagram.
        return Err(lacks("fragment", 1, "0 (a datagram's beginning)"));
    }
    if !matches!(protocol, protocol::TCP | protocol::UDP) {
        return Err(lacks("protocol", u32::from(protocol), "6 (TCP) or 17 (UDP)"));
    }
    if let Some(mut transport) = TransportPacketMut::new_checked(protocol, bytes, coverage)? {
        match endpoint {
            Endpoint::Source => transport.set_src_port(port),
            Endpoint::Destination => transport.set_dst_port(port),
        }
    }
    Ok(())
}

/// Writes a number of 32 bits at a place of a TCP header.
fn write_number(frame: &mut [u8], (at, number): (usize, u32), coverage: Coverage) -> Result<(), Error> {
    let is_ipv6 = ethertype_of(frame)? == ethertype::IPV6;
    let (protocol, segment) = if is_ipv6 {
        let bytes = payload(frame, ethertype::IPV6, "34525 (IPv6)")?;
        let upper = Ipv6Packet::new_checked(bytes)?.upper_layer()?;
        let protocol = if upper.fragment.is_some() { 0 } else { upper.protocol };
        (protocol, Ipv6PacketMut::new_checked(bytes)?.into_upper_layer()?)
    } else {
        let bytes = payload(frame, ethertype::IPV4, "2048 (IPv4) or 34525 (IPv6)")?;
        let packet = Ipv4Packet::new_checked(bytes)?;
        let protocol = if packet.is_fragment() { 0 } else { packet.protocol() };
        (protocol, Ipv4PacketMut::new_checked(bytes)?.into_payload())
    };
    let have = segment.len();
    if protocol != protocol::TCP {
        let expected = "6 (TCP), not in a fragment";
        return Err(Error::Field { header: "IP", field: "protocol", value: u32::from(protocol), expected });
    }
    let Some(header) = segment.first_chunk_mut::<20>() else {
        return Err(Error::Truncated { header: "TCP", need: 20, have });
    };
    let place = &mut header[at..at + 4];
    let (old, new) = ([place[0], place[1], place[2], place[3]], number.to_be_bytes());
    place.copy_from_slice(&new);
    // Where the checksum is still to be made, it is made of what stands there then.
    if coverage == Coverage::Complete {
        let sum = wire::checksum::update(u16::from_be_bytes([header[16], header[17]]), &old, &new);
        header[16..18].copy_from_slice(&sum.to_be_bytes());
    }
    Ok(())
}

/// What is written of the packet that an ICMP error quotes.
#[derive(Clone, Copy)]
enum Quoted {
    Address(Endpoint, IpAddr),
    Ports(u16, u16),
}

/// Bytes of an ICMP error in front of the packet that it quotes.
const ICMP_HEADER: usize = 8;

/// Writes into the packet that an ICMP error quotes, with the checksums of its own headers as far as they are there, and has the error's checksum fit.
fn write_quoted(frame: &mut [u8], quoted: Quoted) -> Result<(), Error> {
    let is_ipv6 = ethertype_of(frame)? == ethertype::IPV6;
    let (protocol, message) = if is_ipv6 {
        let bytes = payload(frame, ethertype::IPV6, "34525 (IPv6)")?;
        let protocol = Ipv6Packet::new_checked(bytes)?.upper_layer()?.protocol;
        (protocol, Ipv6PacketMut::new_checked(bytes)?.into_upper_layer()?)
    } else {
        let bytes = payload(frame, ethertype::IPV4, "2048 (IPv4) or 34525 (IPv6)")?;
        let protocol = Ipv4Packet::new_checked(bytes)?.protocol();
        (protocol, Ipv4PacketMut::new_checked(bytes)?.into_payload())
    };
    if protocol != (if is_ipv6 { protocol::ICMPV6 } else { protocol::ICMP }) {
        let expected = "1 (ICMP) or 58 (ICMPv6)";
        return Err(Error::Field { header: "IP", field: "protocol", value: u32::from(protocol), expected });
    }
    let have = message.len();
    let (Some((header, packet)), true) = (message.split_first_chunk_mut::<ICMP_HEADER>(), have > ICMP_HEADER) else {
        return Err(Error::Truncated { header: "ICMP error", need: ICMP_HEADER + 1, have });
    };
    // Only what comes before the payload may change, of which the checksum needs to know.
    let covered = packet.len().min(QUOTED_HEADERS);
    let mut before = [0; QUOTED_HEADERS];
    before[..covered].copy_from_slice(&packet[..covered]);
    write_beginning(packet, is_ipv6, quoted)?;
    let checksum = u16::from_be_bytes([header[2], header[3]]);
    let even = covered.next_multiple_of(2);
    let mut after = [0; QUOTED_HEADERS];
    after[..covered].copy_from_slice(&packet[..covered]);
    let checksum = wire::checksum::update(checksum, &before[..even], &after[..even]);
    header[2..4].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// The longest headers in which something may be written: of IPv4 with options, and of TCP up to its checksum.
const QUOTED_HEADERS: usize = 60 + 18;

/// The beginning of a packet, of which the rest may be cut off.
fn write_beginning(packet: &mut [u8], is_ipv6: bool, quoted: Quoted) -> Result<(), Error> {
    let have = packet.len();
    let (header_len, protocol_at) = if is_ipv6 { (40, 6) } else { (usize::from(packet[0] & 0xf) * 4, 9) };
    if have < header_len + 4 || header_len < 20 {
        return Err(Error::Truncated { header: "quoted packet", need: header_len.max(20) + 4, have });
    }
    let (header, upper) = packet.split_at_mut(header_len);
    let transport = TransportPacketMut::new_checked(header[protocol_at], upper, Coverage::Complete);
    match quoted {
        Quoted::Address(endpoint, address) => {
            let (mut old, mut new) = ([0; 16], [0; 16]);
            let length = match address {
                IpAddr::V4(_) => 4,
                IpAddr::V6(_) => 16,
            };
            if (length == 16) != is_ipv6 {
                let expected = "an address of the packet's version";
                return Err(Error::Field {
                    header: "quoted packet",
                    field: "version",
                    value: u32::from(header[0] >> 4),
                    expected,
                });
            }
            match address {
                IpAddr::V4(address) => new[..4].copy_from_slice(&address.octets()),
                IpAddr::V6(address) => new = address.octets(),
            }
            let first = match (is_ipv6, endpoint) {
                (false, Endpoint::Source) => 12,
                (false, Endpoint::Destination) => 16,
                (true, Endpoint::Source) => 8,
                (true, Endpoint::Destination) => 24,
            };
            let place = &mut header[first..first + length];
            old[..length].copy_from_slice(place);
            place.copy_from_slice(&new[..length]);
            if !is_ipv6 {
                let checksum = u16::from_be_bytes([header[10], header[11]]);
                let checksum = wire::checksum::update(checksum, &old[..length], &new[..length]);
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            // One that is cut off before its checksum has none to correct.
            if let Ok(Some(mut transport)) = transport {
                transport.address_changed(&old[..length], &new[..length]);
            }
        }
        Quoted::Ports(src, dst) => {
            if let Ok(Some(mut transport)) = transport {
                transport.set_src_port(src);
                transport.set_dst_port(dst);
            } else {
                let ports = &mut packet[header_len..header_len + 4];
                ports[..2].copy_from_slice(&src.to_be_bytes());
                ports[2..].copy_from_slice(&dst.to_be_bytes());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowKey;
    use crate::testing::{address, tcp, tcp_v6};
    use proptest::prelude::*;
    use wire::{ArpOperation, Pseudo, checksum};

    fn written(mut frame: Vec<u8>, fields: &[Field]) -> Vec<u8> {
        for field in fields {
            field.write(&mut frame, Coverage::Complete).unwrap();
        }
        frame
    }

    #[test]
    fn a_rewritten_frame_is_the_one_that_another_host_would_have_sent() {
        let [a, b, c, d] = [1, 2, 3, 4].map(address);
        let fields = [
            Field::EthSrc(c.mac),
            Field::EthDst(d.mac),
            Field::Ipv4Src(c.ipv4),
            Field::Ipv4Dst(d.ipv4),
            Field::SrcPort(7),
            Field::DstPort(9),
        ];
        assert_eq!(written(tcp(&a, &b, 4_000, 80, 33), &fields), tcp(&c, &d, 7, 9, 33));
        let [src, dst] = [Field::Ipv6Src(c.ipv6), Field::Ipv6Dst(d.ipv6)];
        let fields = [fields[0], fields[1], src, dst, fields[4], fields[5]];
        assert_eq!(written(tcp_v6(&a, &b, 4_000, 80, 33), &fields), tcp_v6(&c, &d, 7, 9, 33));
    }

    #[test]
    fn a_field_that_is_not_there_is_named() {
        let (a, b) = (address(1), address(2));
        let refused =
            |frame: &[u8], field: Field| field.write(&mut frame.to_vec(), Coverage::Complete).unwrap_err().to_string();
        let arp = crate::testing::arp(ArpOperation::Request, &a, b.ipv4, b.mac, None);
        assert_eq!(refused(&arp, Field::Ipv4Dst(b.ipv4)), "Ethernet: ethertype is 2054, 2048 (IPv4) expected");
        assert_eq!(
            refused(&arp, Field::DstPort(1)),
            "Ethernet: ethertype is 2054, 2048 (IPv4) or 34525 (IPv6) expected"
        );
        let mut frame = tcp(&a, &b, 1, 2, 64);
        frame[23] = protocol::ICMP;
        assert_eq!(refused(&frame, Field::DstPort(1)), "IP: protocol is 1, 6 (TCP) or 17 (UDP) expected");
        frame[21] = 1;
        assert_eq!(refused(&frame, Field::DstPort(1)), "IP: fragment is 1, 0 (a datagram's beginning) expected");
        assert_eq!(refused(&frame[..13], Field::EthDst(a.mac)), "Ethernet: 13 bytes, at least 14 expected");
    }

    #[test]
    fn traffic_class_and_time_to_live_are_those_of_the_headers() {
        let (a, b) = (address(1), address(2));
        let fields = [Field::Dscp(46), Field::Ecn(2), Field::Ttl(7)];
        let frame = written(tcp(&a, &b, 1, 2, 9), &fields);
        let packet = wire::Ipv4Packet::new_checked(&frame[14..]).unwrap();
        assert_eq!((packet.traffic_class(), packet.ttl(), packet.is_checksum_right()), (46 << 2 | 2, 7, true));
        let frame = written(tcp_v6(&a, &b, 1, 2, 9), &fields);
        let packet = wire::Ipv6Packet::new_checked(&frame[14..]).unwrap();
        assert_eq!((packet.traffic_class(), packet.hop_limit(), packet.flow_label()), (46 << 2 | 2, 7, 0));
    }

    /// All fragments get the address, and the checksum, which the first one has, is of all.
    #[test]
    fn fragments_keep_a_checksum_that_fits_all_of_them() {
        let [a, b, c] = [1, 2, 3].map(address);
        let whole = tcp(&a, &b, 4_000, 80, 64);
        let (headers, cut) = (14 + 20, 14 + 20 + 48);
        let fragment = |range: std::ops::Range<usize>, flags_and_offset: u16| {
            let mut frame = [&whole[..headers], &whole[range]].concat();
            let total = (frame.len() - 14) as u16;
            frame[16..18].copy_from_slice(&total.to_be_bytes());
            frame[20..22].copy_from_slice(&flags_and_offset.to_be_bytes());
            frame
        };
        let to_c = [Field::Ipv4Dst(c.ipv4)];
        let first = written(fragment(headers..cut, 0x2000), &[to_c[0], Field::DstPort(81)]);
        let last = written(fragment(cut..whole.len(), 48 / 8), &to_c);
        let segment = [&first[headers..], &last[headers..]].concat();
        let pseudo = Pseudo::V4 { src: a.ipv4, dst: c.ipv4, protocol: protocol::TCP };
        assert_eq!(checksum::transport(&pseudo, &segment), 0);
        assert_eq!(FlowKey::parse(&last).unwrap().dst, u128::from(c.ipv4.to_bits()));
    }

    #[test]
    fn numbers_of_tcp_are_written_with_their_checksum() {
        let [a, b] = [1, 2].map(address);
        for frame in [tcp(&a, &b, 4_000, 80, 9), tcp_v6(&a, &b, 4_000, 80, 9)] {
            let written = written(frame.clone(), &[Field::TcpSeq(0xfedc_ba98), Field::TcpAck(7)]);
            let is_ipv6 = frame[12] == 0x86;
            let at = 14 + if is_ipv6 { 40 } else { 20 };
            let segment = wire::TcpPacket::new_checked(&written[at..]).unwrap();
            assert_eq!((segment.seq(), segment.ack(), segment.src_port()), (0xfedc_ba98, 7, 4_000));
            let pseudo = if is_ipv6 {
                Pseudo::V6 { src: a.ipv6, dst: b.ipv6, protocol: protocol::TCP }
            } else {
                Pseudo::V4 { src: a.ipv4, dst: b.ipv4, protocol: protocol::TCP }
            };
            assert_eq!(checksum::transport(&pseudo, &written[at..]), 0);
            // Whoever completes the checksum does so with what stands there then.
            let mut unfinished = frame;
            let before = [unfinished[at + 16], unfinished[at + 17]];
            Field::TcpSeq(5).write(&mut unfinished, Coverage::PseudoHeader).unwrap();
            assert_eq!([unfinished[at + 16], unfinished[at + 17]], before);
        }
        let mut arp = vec![0; 60];
        arp[12..14].copy_from_slice(&[8, 6]);
        assert!(Field::TcpAck(1).write(&mut arp, Coverage::Complete).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_written_or_refused(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..120), ip in 0_usize..5, which in 0_usize..27, value: [u8; 16],
        ) {
            if let Some(place) = bytes.get_mut(12..15) {
                place.copy_from_slice(&[[8, 0, 0x45], [0x86, 0xdd, 0x60], [8, 6, 0], [0x81, 0, 0], [0x88, 0x47, 0]][ip]);
            }
            let four = Ipv4Addr::new(value[0], value[1], value[2], value[3]);
            let mac = [value[0], value[1], value[2], value[3], value[4], value[5]];
            let port = u16::from_be_bytes([value[0], value[1]]);
            let field = [
                Field::EthSrc(mac), Field::EthDst(mac), Field::Ipv4Src(four), Field::Ipv4Dst(four),
                Field::Ipv6Src(value.into()), Field::Ipv6Dst(value.into()), Field::SrcPort(port), Field::DstPort(port),
                Field::Dscp(value[0] & 0x3f), Field::Ecn(value[0] & 3), Field::Ttl(value[0]),
                Field::VlanTci(port), Field::QuotedSrc(four.into()), Field::QuotedDst(four.into()),
                Field::QuotedSrc(IpAddr::V6(value.into())), Field::QuotedDst(IpAddr::V6(value.into())), Field::QuotedPorts(port, !port),
                Field::TcpSeq(u32::from(four)), Field::TcpAck(u32::from(four)), Field::MplsLabel(u32::from(four) >> 12),
                Field::MplsTrafficClass(value[0] >> 5), Field::MplsTtl(value[0]), Field::LabelledTtl(value[0]),
                Field::NdTarget(value.into()), Field::NdSourceLinkLayer(mac), Field::NdTargetLinkLayer(mac),
                Field::TunnelId(u32::from(four) >> 8),
            ][which];
            let before = FlowKey::parse(&bytes).ok();
            if field.write(&mut bytes, Coverage::Complete).is_ok() && let Some(before) = before {
                let key = FlowKey::parse(&bytes).unwrap();
                let expected = match field {
                    Field::EthSrc(mac) => FlowKey { eth_src: mac, ..before },
                    Field::VlanTci(tci) => FlowKey { vlan: Some(tci), ..before },
                    Field::EthDst(mac) => FlowKey { eth_dst: mac, ..before },
                    Field::Ipv4Src(to) => FlowKey { src: to.to_bits().into(), ..before },
                    Field::Ipv4Dst(to) => FlowKey { dst: to.to_bits().into(), ..before },
                    Field::Ipv6Src(to) => FlowKey { src: to.to_bits(), ..before },
                    Field::Ipv6Dst(to) => FlowKey { dst: to.to_bits(), ..before },
                    Field::SrcPort(port) => FlowKey { src_port: port, ..before },
                    Field::DstPort(port) => FlowKey { dst_port: port, ..before },
                    Field::Dscp(_)
                    | Field::Ecn(_)
                    | Field::Ttl(_)
                    | Field::QuotedSrc(_)
                    | Field::QuotedDst(_)
                    | Field::QuotedPorts(..)
                    | Field::TcpSeq(_)
                    | Field::TcpAck(_)
                    | Field::MplsLabel(_)
                    | Field::MplsTrafficClass(_)
                    | Field::MplsTtl(_)
                    | Field::LabelledTtl(_)
                    | Field::NdTarget(_)
                    | Field::NdSourceLinkLayer(_)
                    | Field::NdTargetLinkLayer(_)
                    | Field::TunnelId(_) => before,
                };
                prop_assert_eq!(key, expected);
            }
        }
    }
}
