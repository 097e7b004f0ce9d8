//! balance-alb: which member's address the bond announces to each peer.

use std::net::{IpAddr, Ipv6Addr};

use bond::{Accept, Carrier, Kind, Refusal, Summary, Transmit};
use machine::Time;
use wire::{
    ArpOperation, ArpPacket, ArpRepr, BROADCAST, EthernetPacket, EthernetRepr, Ipv6Packet, Ipv6Repr, NeighbourPacket,
    NeighbourRepr, ethertype, protocol,
};

use super::{bond, chosen, drain, flow, id, mac, ms, sent};

fn arp(operation: ArpOperation, from: ([u8; 6], [u8; 4]), to: ([u8; 6], [u8; 4]), dst: [u8; 6]) -> Vec<u8> {
    let message = ArpRepr {
        operation,
        sender_mac: from.0,
        sender_ipv4: from.1.into(),
        target_mac: to.0,
        target_ipv4: to.1.into(),
    };
    let header = EthernetRepr { dst, src: from.0, vlan: None, ethertype: ethertype::ARP };
    let mut frame = vec![0; 14 + message.buffer_len()];
    header.emit(&mut frame);
    message.emit(&mut frame[14..]);
    frame
}

pub fn arp_request(from: [u8; 6], sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    arp(ArpOperation::Request, (from, sender), ([0; 6], target), BROADCAST)
}

fn arp_reply(from: [u8; 6], sender: [u8; 4], to: [u8; 6], target: [u8; 4]) -> Vec<u8> {
    arp(ArpOperation::Reply, (from, sender), (to, target), to)
}

fn announced_mac(frame: &[u8]) -> [u8; 6] {
    let ethernet = EthernetPacket::new_checked(frame).unwrap();
    let arp = ArpPacket::new_checked(ethernet.payload()).unwrap();
    assert_eq!(ethernet.src(), arp.sender_mac());
    arp.sender_mac()
}

const LOCAL: [u8; 4] = [10, 0, 0, 1];

/// The host answers the peers `n` from 1 on: which member's address is announced to each.
fn answer(bond: &mut bond::Bond, n: u8) -> usize {
    let mut reply = arp_reply(mac(0), LOCAL, mac(50 + n), [10, 0, 0, 50 + n]);
    let Transmit::One(member) = bond.transmit_frame(Time::ZERO, &mut reply) else { panic!("not sent") };
    assert_eq!(announced_mac(&reply), bond.member(member).unwrap().mac());
    member.index()
}

#[test]
fn peers_are_spread_over_the_members_and_stay() {
    let mut bond = bond("mode=6", 3);
    let first: Vec<_> = (1..=6).map(|n| answer(&mut bond, n)).collect();
    assert_eq!(first, [0, 1, 2, 0, 1, 2]);
    assert_eq!((1..=6).map(|n| answer(&mut bond, n)).collect::<Vec<_>>(), first);
    assert_eq!(bond.peers().filter(|(_, _, member)| *member == id(2)).count(), 2);
    let second = (IpAddr::from(LOCAL), IpAddr::from([10, 0, 0, 52]), id(1));
    assert!(bond.peers().any(|peer| peer == second));
}

#[test]
fn another_address_is_announced_to_peers_of_a_lost_member() {
    let mut bond = bond("mode=6", 2);
    for n in 1..=4 {
        answer(&mut bond, n);
    }
    bond.carrier(ms(1), id(1), Carrier::DOWN);
    let frames: Vec<_> =
        sent(&drain(&mut bond, ms(1))).into_iter().filter(|(_, frame)| frame[12..14] == [8, 6]).collect();
    let peers: Vec<_> = frames.iter().map(|(member, frame)| (*member, frame[5], announced_mac(frame)[5])).collect();
    assert_eq!(peers, [(0, 52, 0), (0, 54, 0)]);
    // Once more, since a frame may be lost; then silence.
    assert_eq!(sent(&drain(&mut bond, ms(101))).len(), 2);
    assert!(sent(&drain(&mut bond, ms(900))).is_empty());
    // Back again: half of them go back.
    bond.carrier(ms(901), id(1), Carrier::up(1_000));
    let frames = sent(&drain(&mut bond, ms(901)));
    // The switch learns at once that the member has its address again.
    let (taught, frames): (Vec<_>, Vec<_>) = frames.into_iter().partition(|(_, frame)| frame[12..14] == [0x90, 0]);
    assert_eq!(taught.iter().map(|(member, frame)| (*member, frame[6..12] == mac(1))).collect::<Vec<_>>(), [(1, true)]);
    assert_eq!(frames.iter().filter(|(member, frame)| *member == 1 && announced_mac(frame) == mac(1)).count(), 2);
}

#[test]
fn after_a_broadcast_request_all_is_announced_again() {
    let mut bond = bond("mode=6", 2);
    for n in 1..=3 {
        answer(&mut bond, n);
    }
    let mut request = arp_request(mac(0), LOCAL, [10, 0, 0, 99]);
    assert_eq!(bond.transmit_frame(Time::ZERO, &mut request), Transmit::One(id(0)));
    assert_eq!(announced_mac(&request), mac(0));
    assert_eq!(bond.next_deadline(), ms(100));
    assert_eq!(sent(&drain(&mut bond, ms(100))).len(), 3);
    // The answer makes the fourth known.
    bond.receive_frame(ms(300), id(0), &arp_reply(mac(99), [10, 0, 0, 99], mac(0), LOCAL));
    let frames = sent(&drain(&mut bond, ms(400)));
    assert!(
        frames.iter().any(|(member, frame)| *member == 1 && frame[5] == 99 && announced_mac(frame) == mac(1)),
        "{frames:?}"
    );
}

#[test]
fn what_others_say_is_not_rewritten() {
    let mut bond = bond("mode=6", 2);
    for n in 1..4 {
        let mut reply = arp_reply(mac(70), [10, 0, 0, 70], mac(50 + n), [10, 0, 0, 50 + n]);
        let before = reply.clone();
        assert_eq!(bond.transmit_frame(Time::ZERO, &mut reply), Transmit::One(id(0)));
        assert_eq!(reply, before);
    }
}

pub fn advertisement(from: [u8; 6], src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
    let message = NeighbourRepr::Advertisement {
        router: false,
        solicited: true,
        override_known: true,
        target: src,
        target_link_layer: Some(from),
    };
    neighbour(&message, from, src, dst)
}

fn neighbour(message: &NeighbourRepr, from: [u8; 6], src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
    let ip = Ipv6Repr {
        src,
        dst,
        next_header: protocol::ICMPV6,
        hop_limit: 255,
        traffic_class: 0,
        flow_label: 0,
        payload_len: message.buffer_len() as u16,
    };
    let [.., last] = dst.octets();
    let header = EthernetRepr { dst: mac(last), src: from, vlan: None, ethertype: ethertype::IPV6 };
    let mut frame = vec![0; 54 + message.buffer_len()];
    header.emit(&mut frame);
    ip.emit(&mut frame[14..]);
    message.emit(src, dst, &mut frame[54..]);
    frame
}

/// The link-layer address in a neighbour message, which is the frame's source, too.
pub fn advertised(frame: &[u8]) -> [u8; 6] {
    let ethernet = EthernetPacket::new_checked(frame).unwrap();
    let ip = Ipv6Packet::new_checked(ethernet.payload()).unwrap();
    let message = NeighbourPacket::new_checked(ip.payload()).unwrap();
    NeighbourRepr::parse(&message, ip.src(), ip.dst()).expect("the checksum is right");
    assert_eq!(message.link_layer(), Some(ethernet.src()));
    ethernet.src()
}

#[test]
fn ipv6_peers_are_spread_by_neighbour_discovery() {
    let mut bond = bond("mode=6", 2);
    let local = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    let peer = |n: u16| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n);
    for (n, member) in [(60, 0), (61, 1), (62, 0), (61, 1)] {
        let mut frame = advertisement(mac(0), local, peer(n));
        assert_eq!(bond.transmit_frame(Time::ZERO, &mut frame), Transmit::One(id(member)));
        assert_eq!(advertised(&frame), mac(member as u8));
    }
    // A solicitation announces an address to the one that is asked, and to nobody else.
    let message = NeighbourRepr::Solicitation { target: peer(61), source_link_layer: Some(mac(0)) };
    let mut frame = neighbour(&message, mac(0), local, peer(61));
    assert_eq!(bond.transmit_frame(Time::ZERO, &mut frame), Transmit::One(id(1)));
    assert_eq!(advertised(&frame), mac(1));
    bond.carrier(ms(1), id(1), Carrier::DOWN);
    let frames: Vec<_> =
        sent(&drain(&mut bond, ms(1))).into_iter().filter(|(_, frame)| frame[12..14] == [0x86, 0xdd]).collect();
    assert_eq!(frames.len(), 1);
    assert_eq!((frames[0].1[5], advertised(&frames[0].1)), (61, mac(0)));
}

#[test]
fn sending_is_balanced_by_the_peer_and_the_source_address_follows() {
    let mut bond = bond("mode=6", 2);
    assert_eq!([1, 2, 3].map(|peer| chosen(&mut bond, &flow(peer))), [0, 1, 0].map(Some));
    assert_eq!(chosen(&mut bond, &Summary { kind: Kind::IpPinned, ..flow(2) }), Some(0));
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&mac(90));
    frame[6..12].copy_from_slice(&mac(0));
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[33] = 2;
    assert_eq!(bond.transmit_frame(Time::ZERO, &mut frame), Transmit::One(id(1)));
    assert_eq!(frame[6..12], mac(1));
}

#[test]
fn inactive_members_receive_what_is_for_them_alone() {
    let bond = bond("mode=6", 2);
    let to = |dst_mac: [u8; 6]| Summary { dst_mac, ..flow(1) };
    assert_eq!(bond.accept(id(1), &to(mac(1))), Accept::DeliverTo(mac(0)));
    assert_eq!(bond.accept(id(0), &to(mac(0))), Accept::Deliver);
    assert_eq!(bond.accept(id(1), &to(BROADCAST)), Accept::Drop(Refusal::Inactive));
    assert_eq!(bond.accept(id(0), &to(BROADCAST)), Accept::Deliver);
}

#[test]
fn no_more_peers_are_known_than_there_is_room_for() {
    let mut bond = bond("mode=6", 2);
    for n in 0..2_000_u32 {
        let [.., a, b] = n.to_be_bytes();
        let mut reply = arp_reply(mac(0), LOCAL, [4, 0, 0, 0, a, b], [10, 1, a, b]);
        bond.transmit_frame(ms(u64::from(n)), &mut reply);
    }
    drain(&mut bond, ms(2_000));
    bond.carrier(ms(3_000), id(1), Carrier::DOWN);
    let replies = sent(&drain(&mut bond, ms(3_000))).iter().filter(|(_, frame)| frame[12..14] == [8, 6]).count();
    assert_eq!(replies, bond::PEERS_MAX / 2);
}

#[test]
fn the_one_address_is_announced_to_peers_when_the_mode_ends() {
    let mut bond = bond("mode=6", 2);
    for n in 1..=4 {
        answer(&mut bond, n);
    }
    bond.set_config(ms(1), "mode=6 lp_interval=5".parse().unwrap());
    assert_eq!(bond.peers().count(), 4, "they stay while the mode does");
    drain(&mut bond, ms(1));
    bond.set_config(ms(2), "mode=2".parse().unwrap());
    let frames = sent(&drain(&mut bond, ms(2)));
    let peers: Vec<_> = frames.iter().map(|(_, frame)| (frame[5], announced_mac(frame))).collect();
    assert_eq!(peers, [51, 52, 53, 54].map(|peer| (peer, mac(0))));
    assert_eq!((bond.peers().count(), bond.next_deadline()), (0, Time::from_ps(u64::MAX)));
}

/// A switch that does not know where an address is sends it over all members: exactly one takes it, as long as one has carrier.
#[test]
fn what_comes_by_all_members_is_accepted_once() {
    for downs in [&[][..], &[0], &[1], &[2], &[0, 1], &[1, 2]] {
        let mut bond = bond("mode=6", 3);
        for &down in downs {
            bond.carrier(ms(1), id(down), Carrier::DOWN);
        }
        drain(&mut bond, ms(1));
        for to in 0..3 {
            let frame = Summary { dst_mac: mac(to), ..flow(1) };
            let takers: Vec<usize> = (0..3)
                .filter(|member| {
                    !downs.contains(member) && !matches!(bond.accept(id(*member), &frame), Accept::Drop(_))
                })
                .collect();
            assert_eq!(takers.len(), 1, "to {to} without {downs:?}: {takers:?}");
        }
    }
}
