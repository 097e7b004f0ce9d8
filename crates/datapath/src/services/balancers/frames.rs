//! What balancers send by themselves, and what they read of what comes to them, as frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use balance::Advertisement;
use wire::{
    ALL_NODES, ArpOperation, ArpRepr, BROADCAST, EthernetPacket, EthernetRepr, Ipv4Packet, Ipv4Repr, Ipv6Packet,
    Ipv6Repr, NeighbourRepr, Pseudo, UdpPacket, UdpRepr, VRRP_GROUP_V4, VRRP_GROUP_V6, VrrpPacket, VrrpRepr, ethertype,
    multicast_mac, protocol, vrrp_mac,
};

use super::VrrpSettings;
use crate::services::sync::SYNC_PORT;
use crate::services::{BalancerHost, MAC, VirtualAddress};

/// Internetwork control, as DSCP writes it into the traffic class (RFC 2474, 4.2.2.2).
const CS6: u8 = 0xc0;
/// Hops of what goes to another balancer.
const TTL: u8 = 64;
/// What does not leave a link (RFC 9568, 5.1.1.3; RFC 4861, 4.4).
const ONE_LINK: u8 = 255;
/// The MAC address of [`VRRP_GROUP_V4`].
const GROUP_MAC_V4: [u8; 6] = [1, 0, 0x5e, 0, 0, 18];

fn join(ethernet: &EthernetRepr, ip: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet.buffer_len()];
    ethernet.emit(&mut frame);
    frame.extend(ip);
    frame.extend(payload);
    frame
}

fn ipv4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, ttl: u8, length: usize) -> Vec<u8> {
    let ip = Ipv4Repr { ttl, traffic_class: CS6, ..Ipv4Repr::new(src, dst, protocol, length as u16) };
    let mut header = vec![0; ip.buffer_len()];
    ip.emit(&mut header);
    header
}

fn ipv6(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, length: usize) -> Vec<u8> {
    let ip =
        Ipv6Repr { hop_limit: ONE_LINK, traffic_class: CS6, ..Ipv6Repr::new(src, dst, next_header, length as u16) };
    let mut header = vec![0; ip.buffer_len()];
    ip.emit(&mut header);
    header
}

/// A datagram from one balancer to another.
pub(super) fn sync(from: &BalancerHost, to: &BalancerHost, message: &[u8]) -> Vec<u8> {
    let udp = UdpRepr { src_port: SYNC_PORT, dst_port: SYNC_PORT, payload_len: message.len() as u16 };
    let mut datagram = vec![0; udp.buffer_len()];
    udp.emit(&mut datagram);
    datagram.extend(message);
    UdpRepr::fill_checksum(&mut datagram, &Pseudo::V4 { src: from.ipv4, dst: to.ipv4, protocol: protocol::UDP });
    let ethernet = EthernetRepr { dst: to.mac, src: from.mac, vlan: None, ethertype: ethertype::IPV4 };
    join(&ethernet, &ipv4(from.ipv4, to.ipv4, protocol::UDP, TTL, datagram.len()), &datagram)
}

/// Who has sent such a datagram to this address, and what; `None` if it is none.
pub(super) fn read_sync(frame: &[u8], own: Ipv4Addr) -> Option<(Ipv4Addr, &[u8])> {
    let ethernet = EthernetPacket::new_checked(frame).ok().filter(|it| it.ethertype() == ethertype::IPV4)?;
    let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    if ip.dst() != own || ip.protocol() != protocol::UDP || ip.is_fragment() {
        return None;
    }
    let udp = UdpPacket::new_checked(ip.payload()).ok().filter(|udp| udp.dst_port() == SYNC_PORT)?;
    Some((ip.src(), udp.payload()))
}

/// An advertisement for the addresses of a service, by the family of the first one.
pub(super) fn advertisement(
    from: &BalancerHost,
    settings: &VrrpSettings,
    priority: u8,
    addresses: &[VirtualAddress],
) -> Vec<u8> {
    let is_ipv6 = addresses.first().is_some_and(|address| address.is_ipv6);
    let mut own: Vec<IpAddr> = addresses.iter().filter(|it| it.is_ipv6 == is_ipv6).map(VirtualAddress::ip).collect();
    own.dedup();
    // A backup of IPv6 is to find a link-local address first (RFC 9568, 5.2.9).
    if is_ipv6 {
        own.insert(0, from.vrrp_ip(true));
    }
    let (router, interval_cs) = (settings.router, settings.interval_cs);
    let message = VrrpRepr { router, priority, interval_cs, addresses: &own };
    let src = vrrp_mac(router, is_ipv6);
    match from.vrrp_ip(is_ipv6) {
        IpAddr::V4(own) => {
            let payload = message.emit(&Pseudo::V4 { src: own, dst: VRRP_GROUP_V4, protocol: protocol::VRRP });
            let ethernet = EthernetRepr { dst: GROUP_MAC_V4, src, vlan: None, ethertype: ethertype::IPV4 };
            join(&ethernet, &ipv4(own, VRRP_GROUP_V4, protocol::VRRP, ONE_LINK, payload.len()), &payload)
        }
        IpAddr::V6(own) => {
            let payload = message.emit(&Pseudo::V6 { src: own, dst: VRRP_GROUP_V6, protocol: protocol::VRRP });
            let dst = multicast_mac(VRRP_GROUP_V6);
            let ethernet = EthernetRepr { dst, src, vlan: None, ethertype: ethertype::IPV6 };
            join(&ethernet, &ipv6(own, VRRP_GROUP_V6, protocol::VRRP, payload.len()), &payload)
        }
    }
}

/// Whether a frame is one of VRRP, right or wrong: nobody but balancers and their partners is to send any.
pub(super) fn is_vrrp(frame: &[u8]) -> bool {
    let Ok(ethernet) = EthernetPacket::new_checked(frame) else { return false };
    match ethernet.ethertype() {
        ethertype::IPV4 => Ipv4Packet::new_checked(ethernet.payload()).is_ok_and(|ip| ip.protocol() == protocol::VRRP),
        ethertype::IPV6 => Ipv6Packet::new_checked(ethernet.payload())
            .is_ok_and(|ip| ip.upper_layer().is_ok_and(|upper| upper.protocol == protocol::VRRP)),
        _ => false,
    }
}

/// Reads an advertisement, and whether it is one of IPv6; `None` if it is none that counts (RFC 9568, 7.1).
pub(super) fn read_advertisement(frame: &[u8]) -> Option<(bool, Advertisement)> {
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    let (sender, payload, pseudo) = match ethernet.ethertype() {
        ethertype::IPV4 => {
            let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
            if ip.ttl() != ONE_LINK || ip.protocol() != protocol::VRRP || ip.is_fragment() {
                return None;
            }
            let (src, dst) = (ip.src(), ip.dst());
            (u128::from(src.to_bits()), ip.payload(), Pseudo::V4 { src, dst, protocol: protocol::VRRP })
        }
        ethertype::IPV6 => {
            let ip = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
            if ip.hop_limit() != ONE_LINK || ip.next_header() != protocol::VRRP {
                return None;
            }
            let (src, dst) = (ip.src(), ip.dst());
            (src.to_bits(), ip.payload(), Pseudo::V6 { src, dst, protocol: protocol::VRRP })
        }
        _ => return None,
    };
    let packet = VrrpPacket::new_checked(payload, &pseudo).ok()?;
    let (router, priority, interval_cs) = (packet.router(), packet.priority(), packet.interval_cs());
    let is_ipv6 = matches!(pseudo, Pseudo::V6 { .. });
    Some((is_ipv6, Advertisement { router, priority, interval_cs, sender }))
}

/// Everybody is to know that an address of a service is where it is: a gratuitous ARP, or an unsolicited neighbour advertisement.
pub(super) fn announcement(address: &VirtualAddress) -> Vec<u8> {
    match address.ip() {
        IpAddr::V4(own) => {
            let message = ArpRepr {
                operation: ArpOperation::Request,
                sender_mac: MAC,
                sender_ipv4: own,
                target_mac: [0; 6],
                target_ipv4: own,
            };
            let ethernet = EthernetRepr { dst: BROADCAST, src: MAC, vlan: None, ethertype: ethertype::ARP };
            let mut payload = vec![0; message.buffer_len()];
            message.emit(&mut payload);
            join(&ethernet, &[], &payload)
        }
        IpAddr::V6(own) => {
            let message = NeighbourRepr::Advertisement {
                router: false,
                solicited: false,
                override_known: true,
                target: own,
                target_link_layer: Some(MAC),
            };
            let mut payload = vec![0; message.buffer_len()];
            message.emit(own, ALL_NODES, &mut payload);
            let dst = multicast_mac(ALL_NODES);
            let ethernet = EthernetRepr { dst, src: MAC, vlan: None, ethertype: ethertype::IPV6 };
            join(&ethernet, &ipv6(own, ALL_NODES, protocol::ICMPV6, payload.len()), &payload)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use topology::NodeId;

    use super::*;

    fn host(number: u8) -> BalancerHost {
        let ipv4 = Ipv4Addr::new(10, 0, 0, number);
        BalancerHost { host: NodeId(number.into()), mac: [2, 0, 0, 0, 0, number], ipv4 }
    }

    fn address(is_ipv6: bool) -> VirtualAddress {
        VirtualAddress { is_ipv6, address: 0x0a01_0050, protocol: protocol::TCP, port: 80 }
    }

    #[test]
    fn what_is_sent_is_read() {
        let frame = sync(&host(1), &host(2), b"hello");
        assert_eq!(read_sync(&frame, host(2).ipv4), Some((host(1).ipv4, &b"hello"[..])));
        assert_eq!(read_sync(&frame, host(3).ipv4), None);
        let settings = VrrpSettings { router: 7, interval_cs: 5, partners: Vec::new() };
        for is_ipv6 in [false, true] {
            let frame = advertisement(&host(1), &settings, 200, &[address(is_ipv6)]);
            let sender = host(1).vrrp_address(is_ipv6);
            let expected = Advertisement { router: 7, priority: 200, interval_cs: 5, sender };
            assert!(is_vrrp(&frame));
            assert_eq!(read_advertisement(&frame), Some((is_ipv6, expected)));
            assert_eq!(read_advertisement(&announcement(&address(is_ipv6))), None);
            // One that was forwarded is from elsewhere.
            let mut far = frame.clone();
            far[if is_ipv6 { 14 + 7 } else { 14 + 8 }] = 254;
            assert_eq!(read_advertisement(&far), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_not(bytes in prop::collection::vec(any::<u8>(), 0..120), at in 0..80_usize, value: u8) {
            let settings = VrrpSettings { router: 7, interval_cs: 5, partners: Vec::new() };
            for mut frame in [advertisement(&host(1), &settings, 200, &[address(false)]), sync(&host(1), &host(2), b"hello"), bytes] {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = value;
                }
                let _ = (read_advertisement(&frame), read_sync(&frame, host(2).ipv4), is_vrrp(&frame));
            }
        }
    }
}
