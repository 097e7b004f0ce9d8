//! Services as they are written out: with names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use datapath::{ServedName, Service, VirtualAddress};
use machine::Span;
use serde::Serialize;
use topology::{NodeId, Topology};

/// A service.
#[derive(Serialize)]
pub(super) struct WrittenService<'a> {
    name: &'a str,
    addresses: Vec<SocketAddr>,
    protocol: &'static str,
    scheduler: &'static str,
    forward: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    source: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    at: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vrrp: Option<WrittenVrrp<'a>>,
    servers: Vec<WrittenServer<'a>>,
    slow_start: String,
    report_expiry: String,
}

/// How one of its balancers is made the active one.
#[derive(Serialize)]
struct WrittenVrrp<'a> {
    router: u8,
    interval: String,
    partners: Vec<&'a str>,
}

/// A server of it.
#[derive(Serialize)]
struct WrittenServer<'a> {
    host: &'a str,
    port: u16,
    weight: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_connections: Option<u32>,
}

/// A name that leads to services.
#[derive(Serialize)]
pub(super) struct WrittenName<'a> {
    name: String,
    asked_at: &'a [IpAddr],
    ttl_s: u32,
    shed_from_percent: u32,
    sites: Vec<WrittenSite<'a>>,
}

/// A site of it.
#[derive(Serialize)]
struct WrittenSite<'a> {
    site: &'a str,
    service: &'a str,
    addresses: &'a [IpAddr],
    weight: u32,
    backup: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    clients: Vec<String>,
}

pub(super) fn written_names<'a>(names: &'a [ServedName], services: &'a [Service]) -> Vec<WrittenName<'a>> {
    let written = names.iter().map(|ServedName { spec, services: numbers }| WrittenName {
        name: spec.name.to_string(),
        asked_at: &spec.asked_at,
        ttl_s: spec.ttl_s,
        shed_from_percent: spec.shed_from_percent,
        sites: spec
            .sites
            .iter()
            .zip(numbers)
            .map(|(site, number)| WrittenSite {
                site: &site.name,
                service: &services[*number].name,
                addresses: &site.addresses,
                weight: site.weight,
                backup: site.is_backup,
                clients: site.clients.iter().map(ToString::to_string).collect(),
            })
            .collect(),
    });
    written.collect()
}

/// Where clients find a service.
pub fn socket_address(address: &VirtualAddress) -> SocketAddr {
    let VirtualAddress { is_ipv6, address, protocol: _, port } = *address;
    let ip =
        if is_ipv6 { IpAddr::V6(Ipv6Addr::from_bits(address)) } else { Ipv4Addr::from_bits(address as u32).into() };
    SocketAddr::new(ip, port)
}

fn names<'a>(topology: &'a Topology, hosts: &[NodeId]) -> Vec<&'a str> {
    hosts.iter().map(|host| topology.nodes[*host].name.as_str()).collect()
}

pub(super) fn written_services<'a>(topology: &'a Topology, services: &'a [Service]) -> Vec<WrittenService<'a>> {
    let written = services.iter().map(|service| WrittenService {
        name: &service.name,
        addresses: service.addresses.iter().map(socket_address).collect(),
        protocol: service.addresses.first().map_or("tcp", VirtualAddress::protocol_name),
        scheduler: service.spec.scheduler.name(),
        forward: service.forwarding.name(),
        at: names(topology, &service.at),
        vrrp: service.vrrp.as_ref().map(|vrrp| WrittenVrrp {
            router: vrrp.router,
            interval: Span::from_ms(u64::from(vrrp.interval_cs) * 10).to_string(),
            partners: names(topology, &vrrp.partners),
        }),
        source: service.sources.iter().map(ToString::to_string).collect(),
        servers: service
            .servers
            .iter()
            .zip(&service.spec.servers)
            .map(|(server, spec)| WrittenServer {
                host: &topology.nodes[server.host].name,
                port: spec.port,
                weight: spec.weight,
                max_connections: spec.connections_max,
            })
            .collect(),
        slow_start: service.spec.slow_start.to_string(),
        report_expiry: service.spec.report_expiry.to_string(),
    });
    written.collect()
}
