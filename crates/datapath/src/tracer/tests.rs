//! Advertisements of VRRP come from balancers and their partners, whatever they are sent to.

use std::net::Ipv4Addr;

use balance::{Scheduler, ServerSpec, ServiceSpec};
use topology::{HostAddress, Rerouting, TiVec};
use vswitch::chain::Chains;
use vswitch::{HostTable, Pipelines};
use wire::tcp_flags::SYN;
use wire::{EthernetRepr, Ipv4Repr, Pseudo, TcpRepr, ethertype, protocol};

use super::*;
use crate::services::{ForwardingMethod, HALF_OPEN_MAX, MAC, Server, Service, Services, VirtualAddress, VrrpSettings};
use crate::{KernelUse, Map, PortTable, Steering};

const CLIENT: NodeId = NodeId(0);
const SERVER: NodeId = NodeId(1);
const BALANCER: NodeId = NodeId(2);
const PARTNER: NodeId = NodeId(3);

const VIRTUAL: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 80);

fn address(host: NodeId) -> HostAddress {
    let ipv4 = Ipv4Addr::new(10, 0, 0, 1 + host.0 as u8);
    let mac = [2, 0, 0, 0, 0, 1 + host.0 as u8];
    HostAddress { mac, ipv4, ipv4_prefix: 8, ipv6: ipv4.to_ipv6_mapped(), ipv6_prefix: 64, pod: None }
}

/// Four hosts at a switch: one of them is the balancer of a service, and another one its partner.
fn tracer() -> Tracer {
    let mut topology = Topology::default();
    for host in [CLIENT, SERVER, BALANCER, PARTNER] {
        topology.add_host(format!("h{}", host.0), address(host));
    }
    let switch = topology.add_switch("s1".to_owned(), 1, None);
    for host in [CLIENT, SERVER, BALANCER, PARTNER] {
        topology.connect(host, switch, LinkSpec::default());
    }
    let server = ServerSpec::new("h1", address(SERVER).ipv4.into(), 80);
    let virtual_address = VIRTUAL.to_bits().into();
    let services = [Service {
        name: "web".to_owned(),
        addresses: vec![VirtualAddress { is_ipv6: false, address: virtual_address, protocol: protocol::TCP, port: 80 }],
        forwarding: ForwardingMethod::FullNat,
        sources: Vec::new(),
        at: vec![BALANCER],
        vrrp: Some(VrrpSettings { router: 51, interval_cs: 5, partners: vec![PARTNER] }),
        half_open_max: HALF_OPEN_MAX,
        servers: vec![Server { host: SERVER, port: None }],
        spec: ServiceSpec::new(Scheduler::Rr, vec![server]),
        health: None,
        agent: None,
        countries: None,
        kernel: KernelUse::No,
    }];
    let tables = Tables {
        map: Map::new(&topology),
        host_table: HostTable::new(&topology, &[]).with_aliases(Service::aliases(&services).collect()),
        bonds: TiVec::new(),
        rerouting: Rerouting::Follow,
        pipelines: Pipelines::default(),
        steering: Steering::new(&topology, &Chains::default(), true),
        services: Services::new(&topology, &services, 1_500),
        ports: PortTable::default(),
    };
    let routes = Routes::compute(&topology);
    Tracer::new(&topology, tables, (routes, &[]), (Spread::Single, 1, &[]))
}

/// Whether the service's own loss is what becomes of a packet that a host sends, and whether it comes no further than to a service.
fn sent(from: NodeId, to: [u8; 6], ip: &Ipv4Repr, payload: &[u8]) -> (bool, bool) {
    let ethernet = EthernetRepr { dst: to, src: address(from).mac, vlan: None, ethertype: ethertype::IPV4 };
    let mut frame = vec![0; ethernet.buffer_len() + ip.buffer_len()];
    ethernet.emit(&mut frame);
    ip.emit(&mut frame[ethernet.buffer_len()..]);
    frame.extend(payload);
    let mut tracer = tracer();
    let mut packet = tracer.packet(&frame, None).expect("it is a frame");
    if packet.forwarding.to == UNKNOWN {
        // As live.
        packet.forwarding.to = FLOOD;
    }
    let port = tracer.tables.map.port(from, PortId(0));
    tracer.graph.depart(tracer.tables.at(tracer.now), &mut tracer.medium, port, packet);
    let is_refused = tracer.follow().iter().any(|packet| packet.end == TraceEnd::Lost(Some(Loss::Service)));
    (is_refused, tracer.graph.services.stopped() == 1)
}

/// The same of an advertisement.
fn is_refused(from: NodeId, to: [u8; 6], protocol: u8) -> bool {
    let ip = Ipv4Repr { ttl: 255, ..Ipv4Repr::new(address(from).ipv4, Ipv4Addr::new(224, 0, 0, 18), protocol, 0) };
    let (is_refused, is_stopped) = sent(from, to, &ip, &[]);
    assert_eq!(is_refused, is_stopped);
    is_refused
}

/// A host that sends much of this rests: it is a flood.
#[test]
fn what_comes_no_further_than_to_a_service_is_counted() {
    let segment = |from: Ipv4Addr, to: Ipv4Addr, dst_port: u16| {
        let (src_port, window) = (4_000, 1_000);
        let tcp = TcpRepr { src_port, dst_port, seq: 1, ack: 0, flags: SYN, window, urgent: 0, timestamps: None };
        let mut bytes = vec![0; tcp.buffer_len()];
        tcp.emit(&mut bytes);
        TcpRepr::fill_checksum(&mut bytes, &Pseudo::V4 { src: from, dst: to, protocol: protocol::TCP });
        (Ipv4Repr::new(from, to, protocol::TCP, bytes.len() as u16), bytes)
    };
    let (client, server) = (address(CLIENT).ipv4, address(SERVER).ipv4);
    let is_stopped = |from, to, port| {
        let (ip, bytes) = segment(from, to, port);
        let mac = if to == server { address(SERVER).mac } else { MAC };
        sent(CLIENT, mac, &ip, &bytes).1
    };
    assert!(!is_stopped(client, VIRTUAL, 80), "a server gets it");
    assert!(!is_stopped(client, server, 80), "it is for no service");
    assert!(is_stopped(client, VIRTUAL, 81), "its balancer refuses it");
    assert!(is_stopped(Ipv4Addr::new(224, 0, 0, 1), VIRTUAL, 80), "nobody has such an address");
}

#[test]
fn nobody_else_advertises_to_whatever_address() {
    let group = [1, 0, 0x5e, 0, 0, 18];
    let unknown = [2, 9, 9, 9, 9, 9];
    for to in [group, unknown, address(BALANCER).mac] {
        assert!(is_refused(CLIENT, to, protocol::VRRP), "{to:?}");
        assert!(!is_refused(PARTNER, to, protocol::VRRP), "{to:?}");
        assert!(!is_refused(CLIENT, to, protocol::UDP), "{to:?}");
    }
    // What goes to another host does not come to a balancer.
    assert!(!is_refused(CLIENT, address(SERVER).mac, protocol::VRRP));
}
