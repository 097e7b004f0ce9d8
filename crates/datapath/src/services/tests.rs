//! Connections to services, segment by segment.

use std::net::{IpAddr, Ipv4Addr};

use balance::{Scheduler, ServerSpec, ServiceSpec};
use machine::{Span, Time};
use topology::{HostAddress, NodeId, Topology};
use vswitch::conntrack::Conntrack;
use vswitch::{Field, HostTable};
use wire::tcp_flags::{ACK, FIN, PSH, RST, SYN};
use wire::{EthernetRepr, Ipv4Repr, Pseudo, TcpRepr, ethertype, protocol};

mod balancers;
mod fragments;
mod full_nat;
mod offload;
mod sites;
mod syn_cookies;
mod tunnel;
mod validity;

use super::state::Decision;
use super::validity::FromClient;
use super::{AddressRange, ForwardingMethod, HALF_OPEN_MAX, Server, Service, ServiceState, Services, VirtualAddress};
use crate::driver::Loss;
use crate::offload::KernelUse;

const VIRTUAL: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 80);

/// Where servers listen.
const SERVER_PORT: u16 = 8_080;

/// A client, and servers of services.
struct Bed {
    topology: Topology,
    host_table: HostTable,
    services: Services,
    state: ServiceState,
    now: Time,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Endpoint(Ipv4Addr, u16);

const fn host(number: u32) -> NodeId {
    NodeId(number)
}

impl Bed {
    /// With a host and as many servers, and a service of all of them at each of these ports.
    fn new(servers: u32, ports: &[u16]) -> Self {
        Self::with(servers, ports, |_| {})
    }

    /// The same, of services that are otherwise.
    fn with(servers: u32, ports: &[u16], change: impl Fn(&mut Service)) -> Self {
        let mut topology = Topology::default();
        for number in 0..=servers {
            let ipv4 = Ipv4Addr::new(10, 0, 0, 1 + number as u8);
            let mac = [2, 0, 0, 0, 0, 1 + number as u8];
            let ipv6 = ipv4.to_ipv6_mapped();
            let address = HostAddress { mac, ipv4, ipv4_prefix: 8, ipv6, ipv6_prefix: 64, pod: None };
            topology.add_host(format!("h{number}"), address);
        }
        let mut services: Vec<Service> = ports.iter().map(|port| service(&topology, servers, *port)).collect();
        services.iter_mut().for_each(change);
        let host_table = HostTable::new(&topology, &[]);
        let services = Services::new(&topology, &services, 1_500);
        let now = Time::ZERO + Span::from_secs(1_000);
        let state = ServiceState::new(now, &services, 7);
        Self { topology, host_table, services, state, now }
    }

    fn address(&self, number: u32) -> Ipv4Addr {
        self.topology.address(host(number)).expect("it is a host").ipv4
    }

    fn client(&self, port: u16) -> Endpoint {
        Endpoint(self.address(0), port)
    }

    /// A segment of a client comes: to which server it goes, and what is written into it.
    fn send(&mut self, from: Endpoint, port: u16, flags: u8, seq: u32, ack: u32) -> (Decision, Vec<Field>) {
        self.send_by(host(0), (from, port), flags, (seq, ack))
    }

    /// The same of one that this host has sent, whoever it says that its sender is.
    fn send_by(
        &mut self,
        by: NodeId,
        (from, port): (Endpoint, u16),
        flags: u8,
        numbers: (u32, u32),
    ) -> (Decision, Vec<Field>) {
        let frame = frame(from, Endpoint(VIRTUAL, port), flags, numbers);
        let mut fields = Vec::new();
        let (services, sender) = (&self.services, (&self.host_table, by));
        let decision = self.state.process_from_client(self.now, (services, sender), &whole(&frame), &mut fields);
        (decision, fields)
    }

    /// A segment of a server comes.
    fn answer(&mut self, server: u32, to: Endpoint, flags: u8, numbers: (u32, u32)) -> (Decision, Vec<Field>) {
        self.answer_by(host(server), (server, to), flags, numbers)
    }

    /// The same of one that this host has sent, whoever it says that its sender is.
    fn answer_by(
        &mut self,
        by: NodeId,
        (server, to): (u32, Endpoint),
        flags: u8,
        numbers: (u32, u32),
    ) -> (Decision, Vec<Field>) {
        let frame = frame(Endpoint(self.address(server), SERVER_PORT), to, flags, numbers);
        let mut fields = Vec::new();
        let decision = self.state.process_from_server(self.now, by, (&frame, frame.len() as u32), &mut fields);
        (decision, fields)
    }

    /// Connections of a service by its place: active ones of all its servers, and failures.
    fn counts(&mut self, service: usize) -> (u32, u64) {
        let now = self.now;
        let view = self.state.views().nth(service).expect("it is there");
        let all: Vec<_> = view.machine.status(now).collect();
        (all.iter().map(|it| it.active).sum(), all.iter().map(|it| it.failed + it.refused).sum())
    }
}

impl ServiceState {
    /// So many connections at most: a test need not make a million.
    fn bound(&mut self, connections: usize) {
        self.conntrack = Some(Conntrack::new(7, connections).noting_removals());
    }
}

fn service(topology: &Topology, servers: u32, port: u16) -> Service {
    let spec = |number: u32| {
        let address = topology.address(host(number)).expect("it is a host").ipv4;
        ServerSpec::new(format!("h{number}"), IpAddr::from(address), SERVER_PORT)
    };
    let address = VirtualAddress { is_ipv6: false, address: VIRTUAL.to_bits().into(), protocol: protocol::TCP, port };
    Service {
        name: format!("web{port}"),
        addresses: vec![address],
        forwarding: ForwardingMethod::Nat,
        sources: Vec::new(),
        at: Vec::new(),
        vrrp: None,
        half_open_max: HALF_OPEN_MAX,
        kernel: KernelUse::No,
        servers: (1..=servers).map(|number| Server { host: host(number), port: Some(SERVER_PORT) }).collect(),
        spec: ServiceSpec::new(Scheduler::Rr, (1..=servers).map(spec).collect()),
        health: None,
        agent: None,
        countries: None,
    }
}

fn frame(from: Endpoint, to: Endpoint, flags: u8, (seq, ack): (u32, u32)) -> Vec<u8> {
    let tcp = TcpRepr { src_port: from.1, dst_port: to.1, seq, ack, flags, window: 1_000, urgent: 0, timestamps: None };
    let ip = Ipv4Repr {
        src: from.0,
        dst: to.0,
        protocol: protocol::TCP,
        ttl: 64,
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: tcp.buffer_len() as u16,
    };
    let ethernet = EthernetRepr { dst: [2; 6], src: [4; 6], vlan: None, ethertype: ethertype::IPV4 };
    let mut frame = vec![0; ethernet.buffer_len() + ip.buffer_len() + tcp.buffer_len()];
    ethernet.emit(&mut frame);
    ip.emit(&mut frame[ethernet.buffer_len()..]);
    let segment = &mut frame[ethernet.buffer_len() + ip.buffer_len()..];
    tcp.emit(segment);
    TcpRepr::fill_checksum(segment, &Pseudo::V4 { src: from.0, dst: to.0, protocol: protocol::TCP });
    frame
}

/// A frame that has come from a client as it was sent.
fn whole(frame: &[u8]) -> FromClient<'_> {
    FromClient { headers: frame, bytes: frame.len() as u32, fault: &|| None }
}

/// Where a server sees its client, after a first segment.
fn seen_at(client: Endpoint, fields: &[Field]) -> Endpoint {
    let port = fields.iter().find_map(|field| if let Field::SrcPort(port) = field { Some(*port) } else { None });
    Endpoint(client.0, port.unwrap_or(client.1))
}

/// A reset ends a connection if it has the number that its receiver waits for, and does nothing otherwise, whoever has sent it.
#[test]
fn resets_with_wrong_numbers_end_nothing() {
    let mut bed = Bed::new(1, &[80]);
    let client = bed.client(4_000);
    assert_eq!(bed.send(client, 80, SYN, 1_000, 0).0, Decision::To(host(1)));
    let refusal = bed.answer(1, client, RST | ACK, (0, 7));
    assert_eq!((refusal.0, bed.counts(0)), (Decision::Drop, (1, 0)), "it refuses nothing that was asked");
    assert_eq!(bed.answer(1, client, SYN | ACK, (5_000, 1_001)).0, Decision::Translated);
    assert_eq!(bed.send(client, 80, ACK, 1_001, 5_001).0, Decision::To(host(1)));
    for seq in [0, 900, 1_000, 1_000_000, 1_001 + (1 << 31)] {
        assert_eq!(bed.send(client, 80, RST, seq, 0).0, Decision::Drop, "{seq}");
    }
    for seq in [0, 4_999, 5_000, 1_000_000] {
        assert_eq!(bed.answer(1, client, RST | ACK, (seq, 1_001)).0, Decision::Drop, "{seq}");
    }
    // Within the window it goes on: its receiver asks whether it is meant.
    assert_eq!(bed.send(client, 80, RST, 1_100, 0).0, Decision::To(host(1)));
    assert_eq!(bed.counts(0), (1, 0));
    assert_eq!(bed.send(client, 80, PSH | ACK, 1_001, 5_001).0, Decision::To(host(1)));
    assert_eq!(bed.answer(1, client, RST | ACK, (5_001, 1_001)).0, Decision::Translated);
    assert_eq!(bed.counts(0), (0, 1), "a server that resets what it was asked has failed");
}

/// A client that keeps a connection which its server has closed keeps no work at it: schedulers that count connections would send others elsewhere.
#[test]
fn a_server_that_has_closed_is_not_at_work() {
    let mut bed = Bed::new(1, &[80]);
    let client = bed.client(4_000);
    bed.send(client, 80, SYN, 1_000, 0);
    bed.answer(1, client, SYN | ACK, (5_000, 1_001));
    bed.send(client, 80, PSH | ACK, 1_001, 5_001);
    // What lies far outside the windows changes nothing.
    bed.answer(1, client, FIN | ACK, (900_000_000, 1_001));
    assert_eq!(bed.counts(0), (1, 0));
    bed.answer(1, client, FIN | PSH | ACK, (5_001, 1_001));
    assert_eq!(bed.counts(0), (0, 0));
    bed.send(client, 80, ACK, 1_001, 5_002);
    bed.send(client, 80, FIN | ACK, 1_001, 5_002);
    bed.answer(1, client, ACK, (5_002, 1_002));
    assert_eq!(bed.counts(0), (0, 0));

    // Whoever has asked all that he asks waits for the answer.
    let client = bed.client(4_001);
    bed.send(client, 80, SYN, 1_000, 0);
    bed.answer(1, client, SYN | ACK, (5_000, 1_001));
    bed.send(client, 80, FIN | PSH | ACK, 1_001, 5_001);
    bed.answer(1, client, ACK, (5_001, 1_002));
    assert_eq!(bed.counts(0), (1, 0));
    bed.answer(1, client, FIN | ACK, (5_001, 1_002));
    assert_eq!(bed.counts(0), (0, 0));
}

/// Two services that share a server: one client may have a connection of each from the same port.
#[test]
fn services_that_share_a_server_share_no_connections() {
    let mut bed = Bed::new(1, &[80, 81]);
    let client = bed.client(4_000);
    let mut seen = Vec::new();
    for port in [80, 81] {
        let (decision, fields) = bed.send(client, port, SYN, 1_000, 0);
        assert_eq!(decision, Decision::To(host(1)));
        seen.push((port, seen_at(client, &fields)));
    }
    assert_eq!(seen[0].1, client);
    assert_ne!(seen[1].1, client);
    for (port, at) in seen {
        let (decision, fields) = bed.answer(1, at, SYN | ACK, (9_000, 1_001));
        assert_eq!(decision, Decision::Translated);
        assert!(fields.contains(&Field::Ipv4Src(VIRTUAL)) && fields.contains(&Field::SrcPort(port)), "{fields:?}");
        assert_eq!(fields.contains(&Field::DstPort(client.1)), at != client, "{fields:?}");
        let (decision, fields) = bed.send(client, port, ACK, 1_001, 9_001);
        assert_eq!((decision, seen_at(client, &fields)), (Decision::To(host(1)), at));
    }
    assert_eq!((bed.counts(0), bed.counts(1)), ((1, 0), (1, 0)));
}

/// A server that answers nothing any more resets nothing, either: it is taken out by its silence, and clients that ask once more get another one.
#[test]
fn a_server_that_falls_silent_is_out_and_its_clients_are_moved() {
    let mut bed = Bed::new(2, &[80]);
    let mut left = Vec::new();
    for number in 0..400 {
        let client = bed.client(4_000 + number);
        let Decision::To(server) = bed.send(client, 80, SYN, 1_000, 0).0 else { panic!("nobody gets it") };
        if server == host(1) || number < 100 {
            bed.now += Span::from_us(200);
            bed.answer(server.0, client, SYN | ACK, (5_000, 1_001));
        } else {
            left.push(client);
        }
        bed.now += Span::from_ms(1);
    }
    assert!((20..40).contains(&left.len()), "{}", left.len());
    let now = bed.now;
    let out = |view: super::ServiceView<'_>| {
        view.machine.status(now).filter(|server| server.unavailable.is_some()).map(|server| server.name).collect()
    };
    let names: Vec<String> = bed.state.views().next().map(out).expect("it is there");
    assert_eq!(names, ["h2"]);
    for client in left {
        assert_eq!(bed.send(client, 80, SYN, 1_000, 0).0, Decision::To(host(1)));
    }
}

/// First segments from addresses that nobody has are answered by nobody, and that is no server's failure.
#[test]
fn forged_first_segments_eject_no_server() {
    let mut bed = Bed::new(2, &[80]);
    for number in 0..10_000_u32 {
        let forged = Endpoint(Ipv4Addr::from_bits(0x0a63_0000 + number), 4_000);
        assert!(matches!(bed.send(forged, 80, SYN, number, 0).0, Decision::To(_)));
        bed.now += Span::from_ms(30);
        bed.state.clear_expired(bed.now);
    }
    bed.now += Span::from_secs(600);
    (0..100).for_each(|_| bed.state.clear_expired(bed.now));
    assert_eq!(bed.counts(0), (0, 0));
    let now = bed.now;
    let view = bed.state.views().next().expect("it is there");
    assert!(view.machine.status(now).all(|server| server.unavailable.is_none() && server.opened > 0));
}

/// A server that refuses clients behind a router fails as others do; that a router may be between says nothing of addresses that nobody has behind it.
#[test]
fn failures_of_clients_behind_a_router_count() {
    let mut bed = Bed::with(2, &[80], |service| {
        service.servers.truncate(1);
        service.spec.servers.truncate(1);
    });
    let bits = u128::from(bed.address(2).to_bits());
    let range = AddressRange { is_ipv6: false, addresses: (bits, bits + 7) };
    let nobody = Ipv4Addr::from_bits(bed.address(2).to_bits() + 1);
    let refuse = |bed: &mut Bed, client: Endpoint| {
        assert_eq!(bed.send(client, 80, SYN, 1_000, 0).0, Decision::To(host(1)));
        assert_eq!(bed.answer(1, client, RST | ACK, (0, 1_001)).0, Decision::Translated);
        bed.counts(0).1
    };
    let behind = Endpoint(bed.address(2), 4_000);
    bed.services = bed.services.clone().with_clients_behind([((host(0), 0), vec![range])].into());
    assert_eq!(refuse(&mut bed, Endpoint(nobody, 4_001)), 0, "nobody is there");
    assert_eq!(refuse(&mut bed, Endpoint(behind.0, 4_002)), 1);
}

/// Whoever sends from another host's address would get what that one is answered, in its name: it begins nothing. A host with several interfaces may send by any, and a router what is behind it.
#[test]
fn nobody_opens_connections_in_another_hosts_name() {
    for forwarding in [ForwardingMethod::Nat, ForwardingMethod::FullNat, ForwardingMethod::DirectRouting] {
        let mut bed = Bed::with(3, &[80], |service| service.forwarding = forwarding);
        let client = bed.client(4_000);
        let (lost, none) = (Decision::Lost(Loss::Martian), Some(0));
        for flags in [SYN, ACK, FIN | ACK] {
            assert_eq!(bed.send_by(host(2), (client, 80), flags, (1_000, 0)).0, lost);
            assert_eq!(bed.state.conntrack().map(|it| it.counters().connections), none);
        }
        assert!(matches!(bed.send(client, 80, SYN, 7_000, 0).0, Decision::To(_)));
        let nobody = Endpoint(Ipv4Addr::new(10, 9, 9, 9), 4_000);
        assert!(matches!(bed.send_by(host(3), (nobody, 80), SYN, (1_000, 0)).0, Decision::To(_)));
        bed.topology.add_host(
            "h4".to_owned(),
            HostAddress {
                ipv4: Ipv4Addr::new(10, 0, 0, 99),
                mac: [2; 6],
                ..bed.topology.address(host(0)).expect("it is a host").clone()
            },
        );
        bed.topology.interfaces = vec![host(2)];
        bed.host_table = HostTable::new(&bed.topology, &[]);
        bed.services = Services::new(&bed.topology, bed.services.all(), 1_500);
        let other_interface = Endpoint(bed.address(2), 4_000);
        assert!(matches!(bed.send_by(host(4), (other_interface, 80), SYN, (1_000, 0)).0, Decision::To(_)));
        // A host with several interfaces may route, whatever the file says of it.
        assert!(matches!(bed.send_by(host(4), (bed.client(4_009), 80), SYN, (1_000, 0)).0, Decision::To(_)));
        let unused = Endpoint(other_interface.0, 4_001);
        assert_eq!(bed.send_by(host(3), (unused, 80), SYN, (1_000, 0)).0, lost);
    }
}

/// A service that a file has left out keeps its place as long as anything is left of its connections: what those say is not said of another one.
#[test]
fn connections_of_a_service_that_is_gone_are_not_another_ones() {
    let mut bed = Bed::new(1, &[80]);
    let client = bed.client(4_000);
    bed.send(client, 80, SYN, 1_000, 0);
    bed.answer(1, client, SYN | ACK, (5_000, 1_001));
    bed.send(client, 80, ACK, 1_001, 5_001);
    bed.send(client, 80, RST | ACK, 1_001, 5_001);
    assert_eq!(bed.counts(0), (0, 0));
    let other = Services::new(&bed.topology, &[service(&bed.topology, 1, 81)], 1_500);
    let mut made = ServiceState::new(bed.now, &other, 8);
    let nodes = (0..2).map(|number| Some(host(number))).collect();
    made.take_over(bed.now, &mut bed.state, (&other, &nodes));
    (bed.services, bed.state) = (other, made);
    // What comes late is not of the service that is there now.
    bed.send(client, 80, ACK, 1_001, 5_001);
    bed.answer(1, client, ACK, (5_001, 1_001));
    let traffic = bed.state.views().next().expect("it is there").servers[0].1;
    assert_eq!((traffic.in_packets, traffic.out_packets), (0, 0));
    assert_eq!(bed.send(client, 81, SYN, 2_000, 0).0, Decision::To(host(1)));
    assert_eq!(bed.counts(0), (1, 0));
}

/// A full table: what nobody has answered makes room, what is in use stays, and who finds none is refused and counted.
#[test]
fn a_full_table_keeps_what_is_in_use() {
    let mut bed = Bed::new(1, &[80]);
    bed.state.bound(8);
    let clients: Vec<Endpoint> = (0..8).map(|number| bed.client(4_000 + number)).collect();
    for client in &clients[..6] {
        bed.send(*client, 80, SYN, 1_000, 0);
        bed.answer(1, *client, SYN | ACK, (5_000, 1_001));
        bed.send(*client, 80, ACK, 1_001, 5_001);
    }
    // A flood of first segments.
    for number in 0..1_000_u32 {
        let forged = Endpoint(Ipv4Addr::from_bits(0x0a63_0000 + number), 4_000);
        assert!(matches!(bed.send(forged, 80, SYN, number, 0).0, Decision::To(_)));
    }
    for client in &clients[..6] {
        assert_eq!(bed.send(*client, 80, ACK, 1_001, 5_001).0, Decision::To(host(1)), "{client:?}");
        assert_eq!(bed.answer(1, *client, ACK, (5_001, 1_001)).0, Decision::Translated);
    }
    assert_eq!(bed.counts(0).0, 8);
    for client in &clients[6..] {
        bed.send(*client, 80, SYN, 1_000, 0);
        bed.answer(1, *client, SYN | ACK, (5_000, 1_001));
        bed.send(*client, 80, ACK, 1_001, 5_001);
    }
    let late = bed.client(5_000);
    assert_eq!(bed.send(late, 80, SYN, 1_000, 0).0, Decision::Refuse);
    assert_eq!(bed.state.views().next().expect("it is there").counters.full, 1);
    assert_eq!(bed.counts(0), (8, 0));
    // One that ends makes room.
    bed.send(clients[0], 80, RST | ACK, 1_001, 5_001);
    assert_eq!(bed.send(late, 80, SYN, 1_000, 0).0, Decision::To(host(1)));
}

/// Connections to a server itself: those of a service that have ended are in nobody's way, with an offer of ECN or without.
#[test]
fn a_first_segment_to_a_server_itself_makes_room() {
    const ECN: u8 = 0xc0;
    for flags in [SYN, SYN | ECN] {
        let mut bed = Bed::new(1, &[80]);
        let client = bed.client(4_000);
        bed.send(client, 80, SYN, 1_000, 0);
        assert_eq!(bed.answer(1, client, RST | ACK, (0, 1_001)).0, Decision::Translated);
        let server = Endpoint(bed.address(1), SERVER_PORT);
        bed.state.note_direct(bed.now, &frame(client, server, ACK, (2_000, 1)));
        assert_eq!(bed.answer(1, client, ACK, (0, 1_001)).0, Decision::Translated);
        bed.state.note_direct(bed.now, &frame(client, server, flags, (2_000, 0)));
        assert_eq!(bed.answer(1, client, SYN | ACK, (7, 2_001)).0, Decision::Pass, "{flags:#x}");
    }
}

/// Whoever is sent a wrong number resets that and acknowledges nothing: a client that has servers do so has none of them held for dead.
#[test]
fn resets_that_acknowledge_nothing_are_no_failure() {
    for (flags, failed) in [(RST, 0), (RST | ACK, 1)] {
        let mut bed = Bed::new(1, &[80]);
        let client = bed.client(4_000);
        bed.send(client, 80, SYN, 1_000, 0);
        bed.answer(1, client, SYN | ACK, (5_000, 1_001));
        bed.send(client, 80, ACK, 1_001, 5_001);
        assert_eq!(bed.counts(0), (1, 0));
        assert_eq!(bed.answer(1, client, flags, (5_001, 1_001)).0, Decision::Translated);
        assert_eq!(bed.counts(0), (0, failed), "{flags:#x}");
    }
}

/// A fragment does not say of which connection it is, but whose address it goes to: that service counts it.
#[test]
fn fragments_are_counted_where_they_go_to() {
    let other = Ipv4Addr::new(10, 1, 0, 81);
    let mut bed = Bed::with(1, &[80, 81], |service| {
        if service.name == "web81" {
            service.addresses[0].address = other.to_bits().into();
        }
    });
    let client = bed.client(4_000);
    for (to, expected) in [(other, [0, 1]), (other, [0, 2]), (VIRTUAL, [1, 2]), (Ipv4Addr::new(10, 1, 0, 82), [1, 2])] {
        let mut frame = frame(client, Endpoint(to, 80), SYN, (1_000, 0));
        // More fragments follow.
        frame[EthernetRepr { dst: [2; 6], src: [4; 6], vlan: None, ethertype: ethertype::IPV4 }.buffer_len() + 6] |=
            0x20;
        let sender = (&bed.services, (&bed.host_table, host(0)));
        let decision = bed.state.process_from_client(bed.now, sender, &whole(&frame), &mut Vec::new());
        assert_eq!(decision, Decision::Drop);
        let counted: Vec<u64> = bed.state.views().map(|view| view.counters.fragments).collect();
        assert_eq!(counted, expected, "{to}");
    }
}

/// What a server answers may leave by another interface of its host than that by which it was asked.
#[test]
fn a_server_may_answer_by_any_of_its_interfaces() {
    let mut bed = Bed::new(1, &[80]);
    bed.topology.add_host("h2".to_owned(), bed.topology.address(host(0)).expect("it is a host").clone());
    bed.topology.interfaces = vec![host(1)];
    let services = Services::new(&bed.topology, bed.services.all(), 1_500);
    let is_server = |services: &Services| {
        let state = ServiceState::new(bed.now, services, 7);
        [0, 1, 2, 3].map(|number| state.is_server(host(number)))
    };
    assert_eq!(is_server(&services), [false, true, true, false]);
    assert_eq!(is_server(&bed.services), [false, true, false, false]);
}
