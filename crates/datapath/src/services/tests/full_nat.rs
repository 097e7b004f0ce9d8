//! Full NAT: servers see the balancer's own addresses.

use vswitch::conntrack::{NatRange, TranslatedEnd};
use vswitch::translate;

use super::*;
use crate::segment::parse;

/// The balancer's own address.
const OWN: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 200);

fn full_nat(ports: Option<(u16, u16)>) -> impl Fn(&mut Service) {
    move |service| {
        service.forwarding = ForwardingMethod::FullNat;
        let bits = u128::from(OWN.to_bits());
        let range = NatRange { end: TranslatedEnd::Source, is_ipv6: false, addresses: (bits, bits), ports };
        service.sources = vec![range];
    }
}

impl Bed {
    /// Where the server sees who has just sent a first segment.
    fn open(&mut self, from: Endpoint) -> Endpoint {
        self.open_by(host(0), from)
    }

    /// The same of one that this host has sent.
    fn open_by(&mut self, by: NodeId, from: Endpoint) -> Endpoint {
        let (decision, fields) = self.send_by(by, (from, 80), SYN, (1_000, 0));
        assert!(matches!(decision, Decision::To(_)), "{decision:?}");
        let address = fields.iter().find_map(|it| if let Field::Ipv4Src(address) = it { Some(*address) } else { None });
        let port = fields.iter().find_map(|it| if let Field::SrcPort(port) = it { Some(*port) } else { None });
        Endpoint(address.expect("it is the balancer's"), port.unwrap_or(from.1))
    }

    /// To whom a segment of a server goes.
    fn client_of(&mut self, from: Endpoint, to: Endpoint) -> Option<(NodeId, [u8; 6])> {
        self.state.client_of_answer(self.now, &frame(from, to, ACK, (5_000, 1_001)))
    }
}

#[test]
fn a_server_sees_the_balancer_and_the_client_the_service() {
    let mut bed = Bed::with(1, &[80], full_nat(None));
    assert!(bed.state.may_answer(host(1)) && !bed.state.may_answer(host(0)));
    let (client, server) = (bed.client(4_000), Endpoint(bed.address(1), SERVER_PORT));
    let seen = bed.open(client);
    assert_eq!(seen, Endpoint(OWN, client.1), "its own port is free");
    assert_eq!(bed.client_of(server, seen), Some((host(0), [4; 6])), "its MAC address is that of the frame");
    assert_eq!(bed.client_of(server, Endpoint(OWN, 4_001)), None);
    // What a server sends to a service as a client of it is no answer.
    assert_eq!(bed.client_of(client, Endpoint(VIRTUAL, 80)), None);
    let (decision, fields) = bed.answer(1, seen, SYN | ACK, (5_000, 1_001));
    assert_eq!(decision, Decision::Translated);
    let expected =
        [Field::Ipv4Src(VIRTUAL), Field::Ipv4Dst(client.0), Field::SrcPort(80)].map(|field| fields.contains(&field));
    assert_eq!((expected, fields.len()), ([true; 3], 3), "{fields:?}");
    assert_eq!(bed.send(client, 80, ACK, 1_001, 5_001).0, Decision::To(host(1)));
    assert_eq!(bed.counts(0), (1, 0));
    // A server may be its own client: it sees the balancer.
    let own = Endpoint(bed.address(1), 4_000);
    let seen = bed.open_by(host(1), own);
    assert!(seen.0 == OWN && seen.1 != client.1, "{seen:?}");
}

#[test]
fn its_own_address_is_the_virtual_one_when_nothing_is_said() {
    let mut bed = Bed::with(1, &[80], |service| service.forwarding = ForwardingMethod::FullNat);
    let seen = bed.open(bed.client(700));
    assert!(seen.0 == VIRTUAL && seen.1 >= 1_024, "{seen:?}");
}

/// An error of the server, about what it sees, comes to the client as one about what that has sent.
#[test]
fn errors_follow_their_connection() {
    let mut bed = Bed::with(1, &[80], full_nat(Some((9_000, 9_999))));
    let (client, server) = (bed.client(4_000), Endpoint(bed.address(1), SERVER_PORT));
    let seen = bed.open(client);
    let error = error_about(server.0, &frame(seen, server, SYN, (1_000, 0)));
    let towards = bed.state.client_of_answer(bed.now, &error);
    assert_eq!(towards, Some((host(0), [4; 6])), "to the MAC address of the frame, which may be a router's");
    let segment = parse(&error).expect("it is an error");
    let tracked = bed.state.revisit(bed.now, &segment, crate::services::state::EXISTING).expect("it is known");
    let mut fields = Vec::new();
    translate(&segment, &tracked, |field| fields.push(field));
    let expected = [
        Field::Ipv4Src(VIRTUAL),
        Field::Ipv4Dst(client.0),
        Field::QuotedSrc(client.0.into()),
        Field::QuotedDst(VIRTUAL.into()),
        Field::QuotedPorts(client.1, 80),
    ];
    assert_eq!(fields, expected);
}

/// A host cannot be reached, since a port is not: type 3, code 3 (RFC 792), with all of the packet behind.
fn error_about(from: Ipv4Addr, about: &[u8]) -> Vec<u8> {
    let quoted = &about[14..];
    let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
    message.extend(quoted);
    let sum = wire::checksum::internet(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let ip = Ipv4Repr {
        src: from,
        dst: OWN,
        protocol: protocol::ICMP,
        ttl: 64,
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: message.len() as u16,
    };
    let ethernet = EthernetRepr { dst: [2; 6], src: [4; 6], vlan: None, ethertype: ethertype::IPV4 };
    let mut frame = vec![0; ethernet.buffer_len() + ip.buffer_len()];
    ethernet.emit(&mut frame);
    ip.emit(&mut frame[ethernet.buffer_len()..]);
    frame.extend(message);
    frame
}

/// Each port has one connection to each server. Who finds none is refused and counted; what has ended makes room.
#[test]
fn ports_are_bounded() {
    let mut bed = Bed::with(1, &[80], full_nat(Some((9_000, 9_001))));
    let clients: Vec<Endpoint> = (0..3).map(|number| bed.client(4_000 + number)).collect();
    let seen: Vec<Endpoint> = clients[..2].iter().map(|client| bed.open(*client)).collect();
    assert!(seen.iter().all(|it| it.0 == OWN && (9_000..=9_001).contains(&it.1)) && seen[0] != seen[1], "{seen:?}");
    assert_eq!(bed.send(clients[2], 80, SYN, 1_000, 0).0, Decision::Exhausted);
    let counters = bed.state.views().next().expect("it is there").counters;
    assert_eq!((counters.no_port, counters.full, bed.counts(0)), (1, 0, (2, 0)));
    // Both ends of one have said all.
    bed.answer(1, seen[0], SYN | ACK, (5_000, 1_001));
    bed.send(clients[0], 80, ACK, 1_001, 5_001);
    bed.send(clients[0], 80, FIN | ACK, 1_001, 5_001);
    bed.answer(1, seen[0], FIN | ACK, (5_001, 1_002));
    bed.send(clients[0], 80, ACK, 1_002, 5_002);
    // Who has just looked in vain looks no more for a while.
    bed.now += Span::from_ms(20);
    assert_eq!(bed.open(clients[2]), seen[0]);
    assert_eq!(bed.send(clients[1], 80, SYN, 1_000, 0).0, Decision::To(host(1)));
    assert_eq!(bed.counts(0), (2, 0));
}
