//! Every header's view on the same bytes. What can be read is emitted and read again: it must come out the same.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use wire::{
    ArpPacket, ArpRepr, Encapsulation, EthernetPacket, EthernetRepr, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr,
    NeighbourPacket, NeighbourRepr, Pseudo, TcpPacket, TcpRepr, UdpPacket, UdpRepr, VRRP_GROUP_V4, VRRP_GROUP_V6,
    VirtioNetLayout, VirtioNetPacket, VirtioNetRepr, VrrpPacket, VrrpRepr, protocol,
};

const SRC: Ipv6Addr = Ipv6Addr::LOCALHOST;
const DST: Ipv6Addr = Ipv6Addr::LOCALHOST;

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    match which % 11 {
        0 => ethernet(bytes),
        1 => arp(bytes),
        2 => ipv4(bytes),
        3 => ipv6(bytes),
        4 => tcp(bytes),
        5 => udp(bytes),
        6 => neighbour(bytes),
        7 => virtio_net(bytes, VirtioNetLayout::Short),
        8 => tunnel(bytes),
        10 => vrrp(bytes),
        _ => virtio_net(bytes, VirtioNetLayout::Mergeable),
    }
});

fn tunnel(bytes: &[u8]) {
    for kind in [Encapsulation::Vxlan, Encapsulation::Geneve] {
        let Some((vni, at)) = kind.parse(bytes) else { continue };
        let again = [&kind.emit(vni)[..], &bytes[at..]].concat();
        assert_eq!(kind.parse(&again), Some((vni, Encapsulation::HEADER_LEN)));
    }
}

fn vrrp(bytes: &[u8]) {
    let v4 = Pseudo::V4 { src: Ipv4Addr::LOCALHOST, dst: VRRP_GROUP_V4, protocol: protocol::VRRP };
    let v6 = Pseudo::V6 { src: SRC, dst: VRRP_GROUP_V6, protocol: protocol::VRRP };
    for pseudo in [v4, v6] {
        let Ok(packet) = VrrpPacket::new_checked(bytes, &pseudo) else { continue };
        let addresses: Vec<IpAddr> = packet.addresses().collect();
        let (router, priority, interval_cs) = (packet.router(), packet.priority(), packet.interval_cs());
        let again = VrrpRepr { router, priority, interval_cs, addresses: &addresses }.emit(&pseudo);
        // The checksum may be of another kind, and what is reserved may be set.
        assert_eq!((again.len(), &again[..4], &again[8..]), (bytes.len(), &bytes[..4], &bytes[8..]));
    }
}

fn ethernet(bytes: &[u8]) {
    let Ok(packet) = EthernetPacket::new_checked(bytes) else { return };
    let repr = EthernetRepr::parse(&packet);
    let mut buffer = vec![0; repr.buffer_len()];
    repr.emit(&mut buffer);
    assert_eq!(buffer, bytes[..buffer.len()]);
}

fn arp(bytes: &[u8]) {
    let Ok(packet) = ArpPacket::new_checked(bytes) else { return };
    let repr = ArpRepr::parse(&packet);
    let mut buffer = vec![0; repr.buffer_len()];
    repr.emit(&mut buffer);
    assert_eq!(buffer, bytes[..buffer.len()]);
}

fn ipv4(bytes: &[u8]) {
    let Ok(packet) = Ipv4Packet::new_checked(bytes) else { return };
    let Ok(repr) = Ipv4Repr::parse(&packet) else { return };
    let mut buffer = vec![0; repr.buffer_len() + packet.payload().len()];
    repr.emit(&mut buffer);
    let again = Ipv4Packet::new_checked(&buffer).expect("what was emitted is well-formed");
    assert_eq!(Ipv4Repr::parse(&again), Ok(repr));
}

fn ipv6(bytes: &[u8]) {
    let Ok(packet) = Ipv6Packet::new_checked(bytes) else { return };
    if let Ok(upper) = packet.upper_layer() {
        assert!(upper.payload.len() <= packet.payload().len());
    }
    let repr = Ipv6Repr::parse(&packet);
    let mut buffer = vec![0; repr.buffer_len()];
    repr.emit(&mut buffer);
    assert_eq!(buffer, bytes[..buffer.len()]);
}

fn tcp(bytes: &[u8]) {
    let Ok(packet) = TcpPacket::new_checked(bytes) else { return };
    let repr = TcpRepr::parse(&packet);
    let mut buffer = vec![0; repr.buffer_len()];
    repr.emit(&mut buffer);
    let again = TcpPacket::new_checked(&buffer).expect("what was emitted is well-formed");
    assert_eq!(TcpRepr::parse(&again), repr);
}

fn udp(bytes: &[u8]) {
    let Ok(packet) = UdpPacket::new_checked(bytes) else { return };
    let repr = UdpRepr::parse(&packet);
    let mut buffer = vec![0; repr.buffer_len() + packet.payload().len()];
    repr.emit(&mut buffer);
    let again = UdpPacket::new_checked(&buffer).expect("what was emitted is well-formed");
    assert_eq!(UdpRepr::parse(&again), repr);
}

/// The checksum is made right first: else nothing would get past it.
fn neighbour(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if let Some(field) = bytes.get_mut(2..4) {
        field.fill(0);
        let pseudo = wire::Pseudo::V6 { src: SRC, dst: DST, protocol: wire::protocol::ICMPV6 };
        let checksum = wire::checksum::transport(&pseudo, &bytes);
        bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
    let Ok(packet) = NeighbourPacket::new_checked(&bytes) else { return };
    let repr = NeighbourRepr::parse(&packet, SRC, DST).expect("the checksum is right, and both addresses are unicast");
    let mut buffer = vec![0; repr.buffer_len()];
    repr.emit(SRC, DST, &mut buffer);
    let again = NeighbourPacket::new_checked(&buffer).expect("what was emitted is well-formed");
    assert_eq!(NeighbourRepr::parse(&again, SRC, DST), Ok(repr));
}

fn virtio_net(bytes: &[u8], layout: VirtioNetLayout) {
    let Ok(packet) = VirtioNetPacket::new_checked(bytes, layout) else { return };
    let repr = VirtioNetRepr::parse(&packet);
    let mut buffer = vec![0; repr.buffer_len()];
    repr.emit(&mut buffer);
    let again = VirtioNetPacket::new_checked(&buffer, layout).expect("what was emitted is well-formed");
    assert_eq!(VirtioNetRepr::parse(&again), repr);
}
