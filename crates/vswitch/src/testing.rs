//! Topologies and frames for the tests of this crate.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use topology::{HostAddress, Topology};
use wire::{
    ArpOperation, ArpRepr, EthernetRepr, Ipv4Repr, Ipv6Repr, MplsRepr, NeighbourRepr, Pseudo, TcpRepr, Timestamps,
    UdpRepr, ethertype, multicast_mac, protocol, tcp_flags,
};

/// The timestamps of every segment made here.
pub const TIMESTAMPS: Timestamps = Timestamps { value: 77, echo: 66 };

/// The addresses of host number `id`.
pub fn address(id: u32) -> HostAddress {
    let [_, _, high, low] = id.to_be_bytes();
    HostAddress {
        mac: [2, 0, 0, 0, high, low],
        ipv4: Ipv4Addr::new(10, 0, high, low),
        ipv4_prefix: 16,
        ipv6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, id as u16),
        ipv6_prefix: 64,
        pod: None,
    }
}

/// That many hosts and nothing else.
pub fn topology_of(hosts: u32) -> Topology {
    let mut topology = Topology::default();
    for id in 0..hosts {
        topology.add_host(format!("h{id}"), address(id));
    }
    topology
}

fn ethernet(from: [u8; 6], to: [u8; 6], vlan: Option<u16>, ethertype: u16) -> Vec<u8> {
    let repr = EthernetRepr { dst: to, src: from, vlan, ethertype };
    let mut frame = vec![0; repr.buffer_len()];
    repr.emit(&mut frame);
    frame
}

/// An ARP message about `target`.
pub fn arp(operation: ArpOperation, from: &HostAddress, target: Ipv4Addr, to: [u8; 6], vlan: Option<u16>) -> Vec<u8> {
    let repr =
        ArpRepr { operation, sender_mac: from.mac, sender_ipv4: from.ipv4, target_mac: [0; 6], target_ipv4: target };
    let mut body = vec![0; repr.buffer_len()];
    repr.emit(&mut body);
    [ethernet(from.mac, to, vlan, ethertype::ARP), body].concat()
}

/// A neighbour solicitation for `target`, sent from the address `src`.
pub fn solicitation(from: &HostAddress, src: Ipv6Addr, target: Ipv6Addr, advertised: Option<[u8; 6]>) -> Vec<u8> {
    let [.., seventh, eighth] = target.segments();
    let dst = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | seventh & 0xff, eighth);
    let repr = NeighbourRepr::Solicitation { target, source_link_layer: advertised };
    let mut message = vec![0; repr.buffer_len()];
    repr.emit(src, dst, &mut message);
    let header = ipv6(src, dst, protocol::ICMPV6, message.len(), 255);
    [ethernet(from.mac, multicast_mac(dst), None, ethertype::IPV6), header, message].concat()
}

fn ipv6(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, payload_len: usize, hop_limit: u8) -> Vec<u8> {
    let payload_len = payload_len as u16;
    let repr = Ipv6Repr { src, dst, next_header, hop_limit, traffic_class: 0, flow_label: 0, payload_len };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes
}

fn segment(src_port: u16, dst_port: u16, payload_len: usize, pseudo: &Pseudo) -> Vec<u8> {
    let repr = TcpRepr {
        src_port,
        dst_port,
        seq: u32::MAX,
        // What a first segment with this number is answered with.
        ack: 0,
        flags: tcp_flags::ACK,
        window: 1_000,
        urgent: 0,
        timestamps: Some(TIMESTAMPS),
    };
    let mut bytes = vec![0; repr.buffer_len() + payload_len];
    repr.emit(&mut bytes);
    TcpRepr::fill_checksum(&mut bytes, pseudo);
    bytes
}

/// A TCP segment over IPv4.
pub fn tcp(from: &HostAddress, to: &HostAddress, src_port: u16, dst_port: u16, payload_len: usize) -> Vec<u8> {
    let pseudo = Pseudo::V4 { src: from.ipv4, dst: to.ipv4, protocol: protocol::TCP };
    let segment = segment(src_port, dst_port, payload_len, &pseudo);
    let repr = Ipv4Repr::new(from.ipv4, to.ipv4, protocol::TCP, segment.len() as u16);
    let mut header = vec![0; repr.buffer_len()];
    repr.emit(&mut header);
    [ethernet(from.mac, to.mac, None, ethertype::IPV4), header, segment].concat()
}

/// A TCP segment over IPv6.
pub fn tcp_v6(from: &HostAddress, to: &HostAddress, src_port: u16, dst_port: u16, payload_len: usize) -> Vec<u8> {
    let pseudo = Pseudo::V6 { src: from.ipv6, dst: to.ipv6, protocol: protocol::TCP };
    let segment = segment(src_port, dst_port, payload_len, &pseudo);
    let header = ipv6(from.ipv6, to.ipv6, protocol::TCP, segment.len(), 64);
    [ethernet(from.mac, to.mac, None, ethertype::IPV6), header, segment].concat()
}

/// A frame with this label stack on it, the uppermost entry first; the last one, and no other one, says that it is.
pub fn labelled(mut frame: Vec<u8>, entries: &[u32]) -> Vec<u8> {
    for (number, entry) in entries.iter().rev().enumerate() {
        let entry = MplsRepr { is_bottom: number == 0, ..MplsRepr::parse(*entry) };
        wire::push_mpls(&mut frame, ethertype::MPLS, entry.bits()).expect("it has an Ethernet header");
    }
    frame
}

/// A datagram of UDP over IPv4 with identification 7; or a fragment of that length, at an offset in units of eight bytes, and whether more follow.
pub fn ipv4_udp(
    from: &HostAddress,
    to: &HostAddress,
    (src_port, dst_port): (u16, u16),
    payload_len: usize,
    (fragment_offset, more_fragments): (u16, bool),
) -> Vec<u8> {
    let udp = UdpRepr { src_port, dst_port, payload_len: payload_len as u16 };
    let mut datagram = vec![0; udp.buffer_len() + payload_len];
    udp.emit(&mut datagram);
    let repr = Ipv4Repr {
        src: from.ipv4,
        dst: to.ipv4,
        protocol: protocol::UDP,
        ttl: 64,
        traffic_class: 0,
        identification: 7,
        dont_fragment: false,
        more_fragments,
        fragment_offset,
        payload_len: datagram.len() as u16,
    };
    let mut header = vec![0; repr.buffer_len()];
    repr.emit(&mut header);
    [ethernet(from.mac, to.mac, None, ethertype::IPV4), header, datagram].concat()
}

/// A segment or a datagram over IPv4 of which some bytes are others, and which may be cut off.
pub fn usual_frame() -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((0_usize..60, any::<u8>()), 0..3);
    (any::<bool>(), any::<(u16, u16)>(), 0_usize..40, changes, 0_usize..120).prop_map(
        |(is_tcp, ports, payload, changes, length)| {
            let (a, b) = (address(1), address(2));
            let mut frame =
                if is_tcp { tcp(&a, &b, ports.0, ports.1, payload) } else { ipv4_udp(&a, &b, ports, 64, (0, false)) };
            for (at, value) in changes {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = value;
                }
            }
            frame.truncate(length);
            frame
        },
    )
}
