//! Frames that a bond sends of its own accord: announcements, probes, learning frames.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::{
    ALL_NODES, ArpOperation, ArpRepr, BROADCAST, EthernetRepr, Ipv6Repr, NeighbourRepr, ethertype, multicast_mac,
    protocol,
};

/// Room for a tagged neighbour message with its option.
const LEN_MAX: usize = 96;
/// The least that Ethernet carries, without the frame check sequence.
const LEN_MIN: usize = 60;
/// Ethernet's configuration test protocol, which the kernel's learning frames have as their type.
const LOOPBACK: u16 = 0x9000;
/// RFC 4861, 7.1: what crossed a router is not believed.
const HOP_LIMIT: u8 = 255;

/// A whole Ethernet frame of at most 96 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ControlFrame {
    bytes: [u8; LEN_MAX],
    len: u8,
}

impl ControlFrame {
    /// The frame, from its destination address on.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// A frame that was written elsewhere, padded with zeros to Ethernet's least; `None` if it is longer than 96 bytes.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let mut bytes = [0; LEN_MAX];
        bytes.get_mut(..frame.len())?.copy_from_slice(frame);
        Some(Self { bytes, len: frame.len().max(LEN_MIN) as u8 })
    }

    /// An Ethernet header with a payload that `fill` writes; padded with zeros.
    fn new(header: &EthernetRepr, payload_len: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        let mut bytes = [0; LEN_MAX];
        header.emit(&mut bytes);
        let len = header.buffer_len() + payload_len;
        fill(&mut bytes[header.buffer_len()..len]);
        Self { bytes, len: len.max(LEN_MIN) as u8 }
    }

    /// An ARP message. Requests and announcements go to everyone.
    pub(crate) fn arp(message: &ArpRepr, dst: [u8; 6], vlan: Option<u16>) -> Self {
        let header = EthernetRepr { dst, src: message.sender_mac, vlan, ethertype: ethertype::ARP };
        Self::new(&header, message.buffer_len(), |payload| message.emit(payload))
    }

    /// A request that asks for its own sender (RFC 5227, 3): all neighbours put the address right.
    pub(crate) fn gratuitous_arp(mac: [u8; 6], address: Ipv4Addr, vlan: Option<u16>) -> Self {
        Self::arp_request(mac, address, address, vlan)
    }

    /// An ARP request for `target`.
    pub(crate) fn arp_request(mac: [u8; 6], sender: Ipv4Addr, target: Ipv4Addr, vlan: Option<u16>) -> Self {
        let message = ArpRepr {
            operation: ArpOperation::Request,
            sender_mac: mac,
            sender_ipv4: sender,
            target_mac: [0; 6],
            target_ipv4: target,
        };
        Self::arp(&message, BROADCAST, vlan)
    }

    fn neighbour(
        message: &NeighbourRepr,
        mac: [u8; 6],
        dst_mac: [u8; 6],
        ends: (Ipv6Addr, Ipv6Addr),
        vlan: Option<u16>,
    ) -> Self {
        let header = EthernetRepr { dst: dst_mac, src: mac, vlan, ethertype: ethertype::IPV6 };
        let ip = Ipv6Repr {
            src: ends.0,
            dst: ends.1,
            next_header: protocol::ICMPV6,
            hop_limit: HOP_LIMIT,
            traffic_class: 0,
            flow_label: 0,
            payload_len: message.buffer_len() as u16,
        };
        Self::new(&header, ip.buffer_len() + message.buffer_len(), |payload| {
            ip.emit(payload);
            message.emit(ip.src, ip.dst, &mut payload[ip.buffer_len()..]);
        })
    }

    /// A neighbour advertisement that nobody asked for (RFC 4861, 7.2.6), to one peer or to all.
    pub(crate) fn advertisement(
        mac: [u8; 6],
        address: Ipv6Addr,
        peer: Option<([u8; 6], Ipv6Addr)>,
        vlan: Option<u16>,
    ) -> Self {
        let message = NeighbourRepr::Advertisement {
            router: false,
            solicited: false,
            override_known: true,
            target: address,
            target_link_layer: Some(mac),
        };
        let (dst_mac, dst) = peer.unwrap_or((multicast_mac(ALL_NODES), ALL_NODES));
        Self::neighbour(&message, mac, dst_mac, (address, dst), vlan)
    }

    /// A neighbour solicitation for `target`, to its solicited-node address.
    pub(crate) fn solicitation(mac: [u8; 6], sender: Ipv6Addr, target: Ipv6Addr, vlan: Option<u16>) -> Self {
        let [.., a, b] = target.segments();
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (a & 0xff), b);
        let source_link_layer = (!sender.is_unspecified()).then_some(mac);
        let message = NeighbourRepr::Solicitation { target, source_link_layer };
        Self::neighbour(&message, mac, multicast_mac(group), (sender, group), vlan)
    }

    /// An IGMP message, with these options in its IPv4 header, from one address to another (a group's).
    pub(crate) fn igmp(
        mac: [u8; 6],
        (src, dst): (Ipv4Addr, Ipv4Addr),
        options: [u8; 4],
        message: &[u8],
        vlan: Option<u16>,
    ) -> Self {
        let [_, a, b, c] = dst.octets();
        // RFC 1112, 6.4: the low 23 bits.
        let header = EthernetRepr { dst: [1, 0, 0x5e, a & 0x7f, b, c], src: mac, vlan, ethertype: ethertype::IPV4 };
        let mut ip = [0; 24];
        let total_len = (ip.len() + message.len()) as u16;
        // Six words of header, precedence "internetwork control", not to be fragmented, one hop, protocol 2.
        ip[..12].copy_from_slice(&[0x46, 0xc0, 0, 0, 0, 0, 0x40, 0, 1, 2, 0, 0]);
        ip[2..4].copy_from_slice(&total_len.to_be_bytes());
        ip[12..16].copy_from_slice(&src.octets());
        ip[16..20].copy_from_slice(&dst.octets());
        ip[20..].copy_from_slice(&options);
        let sum = wire::checksum::internet(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        Self::new(&header, total_len.into(), |payload| {
            payload[..ip.len()].copy_from_slice(&ip);
            payload[ip.len()..].copy_from_slice(message);
        })
    }

    /// A frame from an address to itself: switches learn where the address is.
    pub(crate) fn learning(mac: [u8; 6]) -> Self {
        let header = EthernetRepr { dst: mac, src: mac, vlan: None, ethertype: LOOPBACK };
        Self::new(&header, 0, |_| {})
    }
}

impl std::fmt::Debug for ControlFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ControlFrame({:02x?})", self.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{ArpPacket, EthernetPacket, Ipv6Packet, NeighbourPacket};

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

    #[test]
    fn frames_can_be_read() {
        let frame = ControlFrame::gratuitous_arp(MAC, Ipv4Addr::new(10, 0, 0, 7), Some(5));
        let ethernet = EthernetPacket::new_checked(frame.as_bytes()).unwrap();
        assert_eq!((ethernet.dst(), ethernet.src(), ethernet.vlan()), (BROADCAST, MAC, Some(5)));
        let arp = ArpPacket::new_checked(ethernet.payload()).unwrap();
        assert_eq!(arp.sender_ipv4(), arp.target_ipv4());
        assert_eq!(frame.as_bytes().len(), LEN_MIN);

        let address = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x1234, 0x5678);
        for (frame, dst_mac) in [
            (ControlFrame::advertisement(MAC, address, None, None), [0x33, 0x33, 0, 0, 0, 1]),
            (ControlFrame::solicitation(MAC, address, address, Some(1)), [0x33, 0x33, 0xff, 0x34, 0x56, 0x78]),
        ] {
            let ethernet = EthernetPacket::new_checked(frame.as_bytes()).unwrap();
            assert_eq!(ethernet.dst(), dst_mac);
            let ip = Ipv6Packet::new_checked(ethernet.payload()).unwrap();
            let message = NeighbourPacket::new_checked(ip.payload()).unwrap();
            NeighbourRepr::parse(&message, ip.src(), ip.dst()).unwrap();
            assert_eq!(message.link_layer(), Some(MAC));
        }
    }
}
