//! Damaged packets, and those from nowhere: they begin nothing, and nobody hears of them.

use std::net::Ipv6Addr;

use balance::names::{NameSpec, SiteSpec, WireName};
use link::LinkSpec;
use topology::{NetPort, Rerouting, Routes, TiVec};
use vswitch::chain::Chains;
use vswitch::{Pipelines, Spread};
use wire::{Ipv6Repr, UdpRepr, checksum};

use super::*;
use crate::services::{MAC, ServedName};
use crate::tracer::TraceEnd;
use crate::{Loss, Map, PortTable, Steering, Tables, Tracer};

const AT_BALANCER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 81);
const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 53);
const BALANCER: NodeId = NodeId(2);

/// A client, a server and a balancer at a switch; a service at the switch, another one at the balancer, and a name server, each of them at its IPv4 address as an IPv6 one, too.
fn tracer() -> Tracer {
    let mut bed = Bed::with(2, &[80, 81], |service| {
        service.servers.truncate(1);
        service.spec.servers.truncate(1);
        if service.name == "web81" {
            service.addresses[0].address = AT_BALANCER.to_bits().into();
            (service.at, service.forwarding) = (vec![BALANCER], ForwardingMethod::FullNat);
        }
        let bits = Ipv4Addr::from_bits(service.addresses[0].address as u32);
        service.addresses.push(VirtualAddress { is_ipv6: true, address: ipv6(bits).to_bits(), ..service.addresses[0] });
    });
    let switch = bed.topology.add_switch("s1".to_owned(), 1, None);
    for number in 0..3 {
        bed.topology.connect(host(number), switch, LinkSpec::default());
    }
    let site = SiteSpec {
        name: "all".to_owned(),
        addresses: vec![VIRTUAL.into()],
        weight: 1,
        is_backup: false,
        clients: Vec::new(),
    };
    let spec = NameSpec {
        name: WireName::parse("www.example").expect("a name"),
        asked_at: vec![NAME_SERVER.into(), ipv6(NAME_SERVER).into()],
        ttl_s: 5,
        shed_from_percent: 80,
        answers_max: 1_000,
        sites: vec![site],
    };
    let names = [ServedName { spec, services: vec![0] }];
    let services = bed.services.all();
    let aliases = Service::aliases(services).chain(ServedName::aliases(&names, services)).collect();
    let tables = Tables {
        map: Map::new(&bed.topology),
        host_table: HostTable::new(&bed.topology, &[]).with_aliases(aliases),
        bonds: TiVec::new(),
        rerouting: Rerouting::Follow,
        pipelines: Pipelines::default(),
        steering: Steering::new(&bed.topology, &Chains::default(), true),
        services: Services::new(&bed.topology, services, 1_500).with_names(&names),
        ports: PortTable::default(),
    };
    let routes = Routes::compute(&bed.topology);
    Tracer::new(&bed.topology, tables, (routes, &[]), (Spread::Single, 1, &[]))
}

fn ipv6(address: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(address.to_bits()))
}

/// What a packet carries, without its checksum, and where that stands.
#[derive(Clone, Copy, Debug)]
enum Upper {
    Tcp(u16),
    Udp(u16, &'static [u8]),
    Echo,
}

const QUESTION: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";

impl Upper {
    fn emit(self, pseudo: impl Fn(u8) -> Pseudo) -> (u8, Vec<u8>) {
        let (number, mut bytes, at) = match self {
            Self::Tcp(port) => {
                let tcp = TcpRepr {
                    src_port: 4_000,
                    dst_port: port,
                    seq: 1,
                    ack: 0,
                    flags: SYN,
                    window: 1_000,
                    urgent: 0,
                    timestamps: None,
                };
                let mut bytes = vec![0; tcp.buffer_len()];
                tcp.emit(&mut bytes);
                (protocol::TCP, bytes, 16)
            }
            Self::Udp(port, message) => {
                let mut bytes = vec![0; 8];
                UdpRepr { src_port: 4_000, dst_port: port, payload_len: message.len() as u16 }.emit(&mut bytes);
                bytes.extend(message);
                (protocol::UDP, bytes, 6)
            }
            Self::Echo if matches!(pseudo(0), Pseudo::V6 { .. }) => {
                (protocol::ICMPV6, vec![128, 0, 0, 0, 0, 1, 0, 1], 2)
            }
            Self::Echo => (protocol::ICMP, vec![8, 0, 0, 0, 0, 1, 0, 1], 2),
        };
        let sum = match number {
            protocol::ICMP => checksum::internet(&bytes),
            _ => checksum::transport(&pseudo(number), &bytes),
        };
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        (number, bytes)
    }
}

const IP_AT: usize = 14;

/// A packet of the client for a virtual address, from this source and with so many hops left.
fn packet(src: IpAddr, to: Ipv4Addr, upper: Upper, ttl: u8) -> Vec<u8> {
    let ethertype = if src.is_ipv6() { ethertype::IPV6 } else { ethertype::IPV4 };
    let mut frame = vec![0; IP_AT];
    EthernetRepr { dst: MAC, src: [2, 0, 0, 0, 0, 1], vlan: None, ethertype }.emit(&mut frame);
    let (mut header, payload) = match src {
        IpAddr::V4(src) => {
            let (number, payload) = upper.emit(|protocol| Pseudo::V4 { src, dst: to, protocol });
            let ip = Ipv4Repr { ttl, ..Ipv4Repr::new(src, to, number, payload.len() as u16) };
            let mut header = vec![0; ip.buffer_len()];
            ip.emit(&mut header);
            (header, payload)
        }
        IpAddr::V6(src) => {
            let dst = ipv6(to);
            let (number, payload) = upper.emit(|protocol| Pseudo::V6 { src, dst, protocol });
            let ip = Ipv6Repr { hop_limit: ttl, ..Ipv6Repr::new(src, dst, number, payload.len() as u16) };
            let mut header = vec![0; ip.buffer_len()];
            ip.emit(&mut header);
            (header, payload)
        }
    };
    frame.append(&mut header);
    frame.extend(payload);
    frame
}

/// How a packet of the client ends: at the server, answered, or lost for a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Served,
    Answered,
    Lost(Loss),
}

fn fate(frame: &[u8]) -> Fate {
    let mut tracer = tracer();
    let ends: Vec<TraceEnd> = tracer.send(host(0), frame).expect("a frame").iter().map(|it| it.end).collect();
    let server: NetPort = tracer.tables().map.port(host(1), topology::PortId(0));
    match ends[..] {
        [TraceEnd::Delivered(port)] if port == server => Fate::Served,
        [TraceEnd::Lost(None)] => Fate::Answered,
        [TraceEnd::Lost(Some(loss))] => Fate::Lost(loss),
        _ => panic!("{ends:?}"),
    }
}

/// What is asked of each address, and what becomes of it.
const ALL: [(Ipv4Addr, Upper, Fate); 9] = [
    (VIRTUAL, Upper::Tcp(80), Fate::Served),
    (VIRTUAL, Upper::Tcp(99), Fate::Answered),
    (VIRTUAL, Upper::Udp(99, b"odd"), Fate::Answered),
    (VIRTUAL, Upper::Echo, Fate::Answered),
    (AT_BALANCER, Upper::Tcp(99), Fate::Answered),
    (AT_BALANCER, Upper::Echo, Fate::Answered),
    (NAME_SERVER, Upper::Udp(53, QUESTION), Fate::Answered),
    (NAME_SERVER, Upper::Tcp(53), Fate::Answered),
    (NAME_SERVER, Upper::Echo, Fate::Answered),
];

fn clients() -> [IpAddr; 2] {
    [Ipv4Addr::new(10, 0, 0, 1).into(), ipv6(Ipv4Addr::new(10, 0, 0, 1)).into()]
}

#[test]
fn damaged_packets_begin_nothing_and_are_not_answered() {
    for (client, (to, upper, whole)) in clients().into_iter().flat_map(|client| ALL.map(|it| (client, it))) {
        let frame = packet(client, to, upper, 1);
        assert_eq!(fate(&frame), whole, "{client} {upper:?}");
        let last = frame.len() - 1;
        let mut wrong = frame.clone();
        wrong[last] ^= 1;
        assert_eq!(fate(&wrong), Fate::Lost(Loss::Checksum), "{client} {upper:?}");
        if client.is_ipv4() {
            // Nothing above IP has this byte of the header under its checksum.
            let mut wrong = frame.clone();
            wrong[IP_AT + 1] ^= 4;
            assert_eq!(fate(&wrong), Fate::Lost(Loss::Checksum), "{upper:?}");
        }
        // A datagram of IPv4 need not have a checksum, one of IPv6 has to.
        if matches!(upper, Upper::Udp(..)) {
            let mut without = frame.clone();
            let at = IP_AT + if client.is_ipv4() { 20 } else { 40 } + 6;
            without[at..at + 2].fill(0);
            let expected = if client.is_ipv4() { whole } else { Fate::Lost(Loss::Checksum) };
            assert_eq!(fate(&without), expected, "{client} {upper:?}");
        }
        // What is between IP and the end of the frame is padding.
        let padded = [frame, vec![7; 9]].concat();
        assert_eq!(fate(&padded), whole, "{client} {upper:?}");
    }
}

#[test]
fn packets_from_nobody_begin_nothing_and_are_not_answered() {
    let martians: [IpAddr; 12] = [
        Ipv4Addr::new(224, 0, 0, 5).into(),
        Ipv4Addr::BROADCAST.into(),
        // That of the hosts' subnet.
        Ipv4Addr::new(10, 255, 255, 255).into(),
        Ipv4Addr::LOCALHOST.into(),
        Ipv4Addr::UNSPECIFIED.into(),
        VIRTUAL.into(),
        NAME_SERVER.into(),
        "ff02::1".parse().expect("an address"),
        Ipv6Addr::LOCALHOST.into(),
        Ipv6Addr::UNSPECIFIED.into(),
        ipv6(VIRTUAL).into(),
        Ipv4Addr::new(10, 0, 0, 9).to_ipv6_mapped().into(),
    ];
    for (source, (to, upper, _)) in martians.into_iter().flat_map(|source| ALL.map(|it| (source, it))) {
        assert_eq!(fate(&packet(source, to, upper, 64)), Fate::Lost(Loss::Martian), "{source} {upper:?}");
    }
    // One that nobody of the network has is somebody's outside.
    for source in [IpAddr::from([192, 0, 2, 1]), "2001:db8::1".parse().expect("an address")] {
        assert_eq!(fate(&packet(source, VIRTUAL, Upper::Tcp(99), 64)), Fate::Answered, "{source}");
    }
}

#[test]
fn packets_whose_hops_are_used_up_begin_nothing_and_are_not_answered() {
    for (client, (to, upper, _)) in clients().into_iter().flat_map(|client| ALL.map(|it| (client, it))) {
        assert_eq!(fate(&packet(client, to, upper, 0)), Fate::Lost(Loss::HopLimit), "{client} {upper:?}");
    }
}

#[test]
fn what_is_damaged_ends_no_connection() {
    let mut bed = Bed::new(2, &[80]);
    let client = bed.client(4_000);
    let send = |bed: &mut Bed, flags: u8, numbers: (u32, u32), fault: Option<Loss>| {
        let frame = frame(client, Endpoint(VIRTUAL, 80), flags, numbers);
        let packet = FromClient { fault: &|| fault, ..whole(&frame) };
        bed.state.process_from_client(bed.now, (&bed.services, (&bed.host_table, host(0))), &packet, &mut Vec::new())
    };
    let Decision::To(server) = send(&mut bed, SYN, (1_000, 0), None) else { panic!("nobody gets it") };
    bed.answer(server.0, client, SYN | ACK, (5_000, 1_001));
    assert_eq!(send(&mut bed, ACK, (1_001, 5_001), None), Decision::To(server));
    assert_eq!(send(&mut bed, RST, (1_001, 0), Some(Loss::Checksum)), Decision::Lost(Loss::Checksum));
    let active = |bed: &Bed| {
        let view = bed.state.views().next().expect("it is there");
        view.machine.status(bed.now).map(|server| server.active).sum::<u32>()
    };
    assert_eq!(active(&bed), 1);
    assert_eq!(send(&mut bed, FIN | ACK, (1_001, 5_001), Some(Loss::Checksum)), Decision::Lost(Loss::Checksum));
    assert_eq!(send(&mut bed, RST, (1_001, 0), None), Decision::To(server));
    assert_eq!(active(&bed), 0);
}

/// A first segment that comes again damaged says nothing of the server that its client waits for.
#[test]
fn damaged_first_segments_leave_servers_in() {
    let mut bed = Bed::new(2, &[80]);
    let send = |bed: &mut Bed, port: u16, fault: Option<Loss>| {
        let frame = frame(bed.client(port), Endpoint(VIRTUAL, 80), SYN, (1_000, 0));
        let packet = FromClient { fault: &|| fault, ..whole(&frame) };
        bed.state.process_from_client(bed.now, (&bed.services, (&bed.host_table, host(0))), &packet, &mut Vec::new())
    };
    let client = bed.client(4_000);
    let Decision::To(other) = send(&mut bed, 4_000, None) else { panic!("nobody gets it") };
    bed.answer(other.0, client, SYN | ACK, (5_000, 1_001));
    assert!(matches!(send(&mut bed, 4_001, None), Decision::To(server) if server != other));
    for _ in 0..20 {
        assert_eq!(send(&mut bed, 4_001, Some(Loss::Checksum)), Decision::Lost(Loss::Checksum));
    }
    let is_out = |bed: &mut Bed, port: u16| {
        // Servers are looked at when somebody wants one.
        send(bed, port, None);
        let view = bed.state.views().next().expect("it is there");
        view.machine.status(bed.now).any(|server| server.unavailable.is_some())
    };
    let talk = |bed: &mut Bed| {
        for _ in 0..100 {
            bed.now += Span::from_ms(5);
            bed.answer(other.0, client, ACK, (5_001, 1_001));
        }
    };
    talk(&mut bed);
    assert!(!is_out(&mut bed, 5_000));
    // Whole ones do.
    (0..5).for_each(|_| assert!(matches!(send(&mut bed, 4_001, None), Decision::To(_))));
    talk(&mut bed);
    assert!(is_out(&mut bed, 5_001));
    assert_eq!(send(&mut bed, 9_999, Some(Loss::Martian)), Decision::Lost(Loss::Martian));
}
