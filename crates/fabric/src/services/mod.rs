//! `services`: several servers behind one address.

mod balancers;
mod behind;
mod health;
mod names;
mod reach;
mod source;
mod text;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use balance::{ClientLimit, CountryRules, Persistence, ServerSpec, ServiceSpec, SourceFilter};
use datapath::{AgentSpec, CountriesSpec, KernelUse, Server, Service, VirtualAddress};
use machine::Span;
use vswitch::conntrack::NatRange;

pub(crate) use names::{DnsName, NameText, names};
pub use text::ServiceSetting;
pub(crate) use text::{ServiceAxis, ServiceText};

use crate::HostSetup;
use crate::document::File;
use crate::error::Problems;
use crate::graph::Graph;
use crate::names::{canonical, reaches};
use crate::quantity::Whole;
use crate::read::Name;
use crate::source::At;
use crate::subnets::Subnets;
use health::health;
use reach::{Reach, ReadService};
use text::{CountriesText, CountryCode, Prefix, ServedProtocol, ServerText};

/// The most services of a file.
const MOST: usize = datapath::SERVICES_MAX;

/// How often agents are asked at most.
const AGENT_INTERVAL_MIN: Span = Span::from_ms(10);
/// How often they are asked if nothing is said.
const AGENT_INTERVAL: Span = Span::from_secs(1);
/// Clients whose limits are known at once.
const CLIENTS_LIMITED: u32 = 65_536;

/// IP's number of TCP.
const TCP: u8 = 6;
/// IP's number of UDP.
const UDP: u8 = 17;

/// Reads the services of a file, which are to be known before chains take their packets.
pub(crate) fn services(
    file: &File,
    (graph, setups): (&Graph, &BTreeMap<String, HostSetup>),
    problems: &mut Problems<'_>,
) -> Vec<Service> {
    let Some(section) = &file.services else { return Vec::new() };
    let mut reach = Reach::new(&graph.topology, Subnets::new(&graph.topology, setups));
    let mtu = file.mtu.map(|mtu| mtu.0);
    if section.value.0.len() > MOST {
        let message = format!("{} services are more than {MOST}", section.value.0.len());
        problems.add(section.place, message, "too many", "use several networks");
        return Vec::new();
    }
    let mut services: Vec<Service> = Vec::new();
    for (name, text) in &section.value.0 {
        if let Some(service) = service(graph, &mut reach, &services, (name, &text.value), problems) {
            if mtu.is_some_and(|mtu| mtu < service.mtu_min()) {
                let (least, place) = (service.mtu_min(), text.value.address.place);
                let message = format!(
                    "with `mtu` below {least} no packet of 1280 bytes fits a tunnel, as IPv6 needs it (RFC 8200, 5)"
                );
                problems.add(place, message, "of IPv6", format!("write `mtu: {least}`, or another `forward`"));
            }
            services.push(service);
        }
    }
    services
}

fn service(
    graph: &Graph,
    reach: &mut Reach<'_>,
    others: &[Service],
    (name, text): (&At<Name>, &ServiceText),
    problems: &mut Problems<'_>,
) -> Option<Service> {
    let before = problems.noted();
    let is_taken = graph.topology.nodes.iter().any(|node| canonical(&node.name) == canonical(&name.value.0));
    if is_taken {
        let message = format!("there is a node `{}` already", name.value.0);
        problems.add(name.place, message, "there already", "give the service another name: hosts find it by that");
    }
    if let Some(whom) = reaches(&name.value.0) {
        let message = format!("by the name `{}` programs reach {whom}", name.value.0);
        problems.add(name.place, message, "reaches somebody else", "give the service another name");
    }
    let protocol = if text.protocol == Some(ServedProtocol::Udp) { UDP } else { TCP };
    let addresses = addresses((graph, reach), others, (text, protocol), problems);
    let (servers, specs) = servers(graph, text, &addresses, problems);
    let mut spec = ServiceSpec::new(text.scheduler.map_or(balance::Scheduler::Lc, |choice| choice.0), specs);
    if let Some(slow_start) = &text.slow_start {
        spec.slow_start = slow_start.0;
    }
    if let Some(persistence) = &text.persistence {
        spec.persistence = Some(Persistence { timeout: persistence.0, ..Persistence::default() });
    }
    if let Some(limit) = text.client_limit {
        spec.client_limit = Some(ClientLimit { rate: limit.get(), burst: limit.get(), clients_max: CLIENTS_LIMITED });
    }
    spec.filter = filter(text, problems);
    if let Some(expiry) = &text.report_expiry {
        spec.report_expiry = expiry.0;
    }
    if problems.noted() == before
        && let Err(error) = spec.check()
    {
        problems.add(text.servers.place, error.to_string(), "cannot be", "see `heddle help file`, services");
    }
    let forwarding = text.forward.map(|choice| choice.0).unwrap_or_default();
    let sources = source::sources(graph, others, (text, forwarding, &addresses), problems);
    let (at, vrrp) = balancers::balancers(graph, others, (text, forwarding, &addresses, &sources), problems);
    let read = ReadService { text, forwarding, addresses: &addresses, sources: &sources, servers: &servers, at: &at };
    reach.check(&read, problems);
    let health = text.health.as_ref().map(|text| health(text, protocol == UDP, problems));
    let agent = text.agent.as_ref().map(|At { value: text, .. }| AgentSpec {
        port: text.port.value.get() as u16,
        interval: text.every.as_ref().map_or(AGENT_INTERVAL, |every| every.0),
    });
    if let (Some(agent), Some(text)) = (agent, &text.agent)
        && agent.interval < AGENT_INTERVAL_MIN
    {
        let message = format!("{} is too often for a question over a connection of its own", agent.interval);
        problems.add(text.place, message, "too short", format!("`every: {AGENT_INTERVAL_MIN}` is the least"));
    }
    let countries = text.countries.as_ref().map(|text| countries(text, problems));
    let name = name.value.0.clone();
    let kernel = text.kernel.as_ref().map_or(KernelUse::No, |text| text.value.0);
    let service = Service {
        name,
        addresses,
        forwarding,
        sources,
        at,
        vrrp,
        half_open_max: text.half_open.as_ref().map_or(datapath::HALF_OPEN_MAX, |most| most.value.get()),
        servers,
        spec,
        health,
        agent,
        countries,
        kernel,
    };
    if let (KernelUse::Yes, Some(text), Some(why)) = (kernel, &text.kernel, service.offload_refusal()) {
        let message = format!("the kernel carries none of its connections: {why}");
        problems.add(text.place, message, "has no effect", "take `kernel` away; `auto` takes it where it can be had");
    }
    (problems.noted() == before).then_some(service)
}

/// Which clients may open connections, if not all may.
fn filter(text: &ServiceText, problems: &mut Problems<'_>) -> Option<Arc<SourceFilter>> {
    if text.allow.is_none() && text.deny.is_none() {
        return None;
    }
    let ranges =
        |prefixes: &Option<Vec<At<Prefix>>>| -> Vec<_> { prefixes.iter().flatten().map(|it| it.value.0).collect() };
    let (allow, deny) = (ranges(&text.allow), ranges(&text.deny));
    if text.allow.is_some() && allow.is_empty() {
        let hint = "name a prefix in it, or remove it";
        problems.add(text.address.place, "`allow` lets nobody in", "nobody may come", hint);
    }
    // Prefixes are within each other, or apart.
    SourceFilter::new(&allow, &deny).ok().map(Arc::new)
}

/// Which countries' clients may.
fn countries(At { value: text, place, .. }: &At<CountriesText>, problems: &mut Problems<'_>) -> CountriesSpec {
    let codes = |codes: &Option<Vec<At<CountryCode>>>| codes.iter().flatten().map(|code| code.value.0).collect();
    let rules = CountryRules { allow: codes(&text.allow), deny: codes(&text.deny) };
    if text.allow.is_none() && text.deny.is_none() {
        let hint = "add `deny: [..]`, or `allow: [..]`";
        problems.add(*place, "no country is allowed or denied", "decides nothing", hint);
    }
    CountriesSpec { file: text.file.value.path().to_owned(), rules }
}

/// Where clients find it: nobody else.
fn addresses(
    (graph, reach): (&Graph, &Reach<'_>),
    others: &[Service],
    (text, protocol): (&ServiceText, u8),
    problems: &mut Problems<'_>,
) -> Vec<VirtualAddress> {
    let mut read: Vec<VirtualAddress> = Vec::new();
    for At { value: endpoint, place, .. } in &text.address.value.0 {
        let (ip, port) = (endpoint.0.ip(), endpoint.0.port());
        if !reach.check_address(ip, *place, problems) {
            continue;
        }
        if let Some(owner) = host_with(graph, ip) {
            let message = format!("`{owner}` has the address {ip}");
            let hint = "take an address of 10.0.0.0/8 that no host has; `heddle show nodes FILE` lists those of hosts";
            problems.add(*place, message, "of a host", hint);
            continue;
        }
        let address =
            VirtualAddress { is_ipv6: ip.is_ipv6(), address: balance::config::address_bits(ip), protocol, port };
        let other = others.iter().find(|other| {
            other.addresses.iter().any(|known| (known.is_ipv6, known.address) == (address.is_ipv6, address.address))
        });
        if let Some(other) = other.filter(|other| other.addresses.contains(&address)) {
            let message = format!("the service `{}` has {} already", other.name, endpoint.0);
            problems.add(*place, message, "there already", "give it another port or address");
            continue;
        }
        let is_source = |other: &&Service| {
            let has_it = |range: &NatRange| {
                let (first, last) = range.addresses;
                range.is_ipv6 == address.is_ipv6 && (first..=last).contains(&address.address)
            };
            other.sources.iter().any(has_it)
        };
        if let Some(other) = others.iter().find(is_source) {
            let message = format!("servers of `{}` see its connections come from {ip}", other.name);
            problems.add(*place, message, "of another service", "give it another address");
            continue;
        }
        if read.contains(&address) {
            problems.add(*place, format!("{} is there twice", endpoint.0), "there already", "keep one of them");
            continue;
        }
        read.push(address);
    }
    read
}

/// The host that has an address.
fn host_with(graph: &Graph, ip: IpAddr) -> Option<&str> {
    let has_it = |own: &topology::HostAddress| match ip {
        IpAddr::V4(ip) => own.ipv4 == ip,
        IpAddr::V6(ip) => own.ipv6 == ip,
    };
    let mut hosts = graph.topology.hosts();
    let (_, node) = hosts.find(|(host, _)| graph.topology.address(*host).is_some_and(has_it))?;
    Some(&node.name)
}

/// The servers, and what schedulers know of them.
fn servers(
    graph: &Graph,
    text: &ServiceText,
    addresses: &[VirtualAddress],
    problems: &mut Problems<'_>,
) -> (Vec<Server>, Vec<ServerSpec>) {
    let (mut servers, mut specs) = (Vec::new(), Vec::new());
    if text.servers.value.is_empty() && text.servers.sound {
        problems.add(text.servers.place, "a service needs servers", "empty", "name a host: `servers: [h5, h6]`");
    }
    for server in &text.servers.value {
        let name = server.value.host();
        let Some(host) = graph.end_host(name, problems) else { continue };
        let Some(address) = graph.topology.address(host) else { continue };
        if specs.iter().any(|spec: &ServerSpec| spec.name == name.value.0) {
            let message = format!("`{}` is a server of it already", name.value.0);
            problems.add(name.place, message, "there already", "give it a higher `weight` instead");
            continue;
        }
        let long = match &server.value {
            ServerText::Short(_) => None,
            ServerText::Long(long) => Some(&**long),
        };
        let port = long.and_then(|long| long.port.as_ref()).map(|port| port.value.get() as u16);
        let first = addresses.first().map_or(0, |address| address.port);
        let mut spec = ServerSpec::new(&name.value.0, address.ipv4.into(), port.unwrap_or(first));
        if let Some(long) = long {
            spec.weight = long.weight.map_or(1, Whole::get);
            spec.connections_max = long.max_connections.map(Whole::get);
            if let (Some(port), Some(forward)) = (&long.port, text.forward.map(|choice| choice.0))
                && forward.keeps_address()
                && addresses.iter().any(|address| u32::from(address.port) != port.value.get())
            {
                let message =
                    format!("`forward: {}` leaves packets as they are, with the service's port", forward.name());
                problems.add(port.place, message, "another port", "take `port` away, or `forward: nat`");
            }
        }
        servers.push(Server { host, port });
        specs.push(spec);
    }
    (servers, specs)
}
