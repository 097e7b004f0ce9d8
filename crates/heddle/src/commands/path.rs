//! `path`: which nodes and links packets of a flow take, and what becomes of them on the way, by the decisions of the machines themselves.

mod course;
mod members;
mod network;
mod packet;
mod routed;
mod rows;
mod site;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use balance::Scheduler;
use fabric::Fabric;
use miette::{Report, miette};
use topology::{HostAddress, NodeId, Topology};
use vswitch::chain::Chain;
use vswitch::flow_table::Match;
use vswitch::functions::Course as Direction;
use vswitch::{FlowKey, Spread, Trace, actions_in_words};
use wire::protocol;

use super::instance::{Subject, host, subject};
use crate::Ending;
use crate::cli::{Format, Path, Protocol};
use crate::output::put;
use course::{Answerer, Target, function_in_words, name};
use network::ServerNow;
use packet::{ECHO, ECHO_V6};
use routed::Stage;

pub(super) use course::{Course, follow, follow_from, service_has};
pub(super) use network::{Network, unbalanced};
pub(super) use packet::HOP_LIMIT;
pub(super) use routed::{Hop, RoutedPath, Routing, mac_words};
pub(super) use rows::data;
pub(super) use site::{name_number, site};

/// Where the ports of a flow are not named, packets of it have these: the first of those that clients have (RFC 6335), and that of discard (RFC 863).
const SOURCE_PORT: u16 = 49_152;
const PORT: u16 = 9;

/// Shows the path.
pub fn path(args: &Path, format: Format) -> Result<Ending, Report> {
    let (mut network, instance) = match subject(&args.from, "`heddle path HOST HOST --name NETWORK`")? {
        Subject::File(fabric, folder) => (Network::of_file(*fabric, &folder)?, None),
        Subject::Running(instance, fabric) => (Network::running(&instance, *fabric)?, Some(instance)),
    };
    let by_cookie = network.open_without_cookies();
    let fabric = &network.fabric;
    let topology = &fabric.topology;
    let from = host(topology, &args.source)?;
    let routing = Routing::new(&network, instance.as_deref());
    let destination = destination(args, (fabric, from), &routing)?;
    if destination.host.is_some_and(|to| topology.owner(to) == topology.owner(from)) {
        return Err(miette!("`{}` is both ends: expected two hosts", args.source));
    }
    let way = match routing.next(from, destination.address, None) {
        Ok(hop) => {
            let source = routing.source(from, destination.address);
            let (key, is_known) = flow(args, (topology, hop), source, &destination)?;
            routing.follow(hop, &key, is_known)?
        }
        Err(why) => RoutedPath { stages: Vec::new(), lost: Some((from, why)) },
    };
    put(&match format {
        Format::Table => {
            let summary = summary(&network, &way, Some(&destination));
            let service = destination.service.map(|number| &fabric.services[number].name);
            let nobody = service.and_then(|service| network.unbalanced(service)).map(|why| why + "\n");
            let (chains, nobody) = (chains_words(fabric, &way), nobody.unwrap_or_default());
            format!("{}\n{chains}{summary}{nobody}", rows::table(topology, &way).render(format))
        }
        Format::Json => {
            let mut data = rows::data(topology, &way);
            data["servers"] = rows::servers(&network, &destination).objects().into();
            format!("{data:#}\n")
        }
        Format::Csv => rows::csv(&network, &way, &destination).render(format),
    })?;
    if let Some(site) = &destination.site {
        eprintln!("{site}.");
    }
    if let Some(number) = destination.service.filter(|number| by_cookie.contains(number)) {
        let name = &fabric.services[number].name;
        eprintln!(
            "First segments to `{name}` are answered with a SYN cookie (`half-open: 0`), at {}; whoever answers it takes this path.",
            balanced_at(&fabric.services[number])
        );
    }
    notes(&network, &way, known_ports(args, &destination));
    if routing.is_by_file() {
        eprintln!("{BY_FILE}");
    }
    let delivered = way.last().and_then(|course| course.delivered);
    let is_it = |host: NodeId, to: NodeId| topology.owner(host) == topology.owner(to);
    let is_there = destination.host.is_none_or(|to| delivered.is_none_or(|host| is_it(host, to)));
    Ok(if way.arrives() && is_there { Ending::Passed } else { Ending::Missed })
}

/// What is said where nobody has asked a kernel for its routes.
const BY_FILE: &str = "Routes of hosts are those of the file: what routing daemons add is known only of a network that runs (`heddle exec HOST ip route get ADDRESS`).";

/// Where packets go.
pub(super) struct Destination {
    /// As it was written.
    name: String,
    host: Target,
    address: IpAddr,
    /// Of a service, or written behind the address: its port.
    port: Option<u16>,
    /// The service, by its number in the file.
    service: Option<usize>,
    /// Of a name: to which site it leads, in words.
    site: Option<String>,
}

/// The host, the service or the address that packets are for.
fn destination(args: &Path, (fabric, from): (&Fabric, NodeId), routing: &Routing<'_>) -> Result<Destination, Report> {
    let topology = &fabric.topology;
    let written = args.destination.clone();
    let is_it = |service: &datapath::Service| service.name == written && topology.node(&written).is_none();
    let mut number_of = fabric.services.iter().position(is_it);
    let mut site_words = None;
    if let Some(number) = name_number(fabric, &written) {
        let found = site_of(args, (fabric, from), routing, number)?;
        (number_of, site_words) = (Some(found.service), Some(found.words));
    }
    if let Some(number_of) = number_of {
        let service = &fabric.services[number_of];
        let number = if matches!(args.protocol, Protocol::Udp) { protocol::UDP } else { protocol::TCP };
        let mut fitting = service.addresses.iter().filter(|it| it.protocol == number);
        // As hosts do, it takes the family that there is, unless one is wanted.
        let of_family = fitting.clone().find(|it| it.is_ipv6 == args.ipv6);
        let Some(at) = of_family.or_else(|| fitting.next().filter(|_| !args.ipv6)) else {
            let has = service
                .addresses
                .iter()
                .map(|it| format!("{} {}", it.protocol_name(), if it.is_ipv6 { "IPv6" } else { "IPv4" }));
            let has = has.collect::<Vec<_>>().join(", ");
            return Err(miette!(help = format!("it has {has}"), "the service `{}` has no such address", service.name));
        };
        let address = if at.is_ipv6 { IpAddr::V6(at.address.into()) } else { IpAddr::V4((at.address as u32).into()) };
        let (port, service) = (Some(at.port), Some(number_of));
        return Ok(Destination { name: written, host: None, address, port, service, site: site_words });
    }
    let with_port = written.parse::<SocketAddr>().map(|at| (at.ip(), Some(at.port())));
    if let Ok((address, port)) = with_port.or_else(|_| written.parse::<IpAddr>().map(|ip| (ip, None))) {
        let Some((host, _)) = routing.resolve(address) else {
            let owner = &topology.nodes[topology.owner(from)].name;
            let has_uplink = fabric.setups.get(owner).is_some_and(|setup| setup.uplink.is_some());
            let hint = if has_uplink {
                format!(
                    "{owner} has an uplink: what it sends to addresses of nobody leaves the network there, and is not followed"
                )
            } else {
                "`heddle show nodes` has the hosts' addresses, `heddle show services` those of services".to_owned()
            };
            return Err(miette!(help = hint, "nobody has the address {address}"));
        };
        let has_it = |it: &datapath::VirtualAddress| it.ip() == address;
        let service = fabric.services.iter().position(|service| service.addresses.iter().any(has_it));
        return Ok(Destination { name: written, host, address, port, service, site: None });
    }
    let to = host(topology, &written).or_else(|error| service_meant(fabric, &written).map_or(Err(error), Err))?;
    let HostAddress { ipv4, ipv6, .. } = *topology.address(to).expect("it is a host");
    let address = if args.ipv6 { ipv6.into() } else { ipv4.into() };
    Ok(Destination { name: written, host: Some(to), address, port: None, service: None, site: None })
}

/// The site to which a name leads a host that asks for it.
fn site_of(
    args: &Path,
    (fabric, from): (&Fabric, NodeId),
    routing: &Routing<'_>,
    number: usize,
) -> Result<site::Site, Report> {
    let own = fabric.topology.address(from).expect("it is a host").ipv4.into();
    let asked_at = fabric.names[number].spec.asked_at.first();
    let client = asked_at.and_then(|asked_at| routing.source(from, *asked_at)).unwrap_or(own);
    let statuses = routing.network().names();
    // As hosts do, it takes the family that there is, unless one is wanted.
    let found = site(fabric, statuses, number, (args.ipv6, client));
    let found = found.or_else(|| site(fabric, statuses, number, (true, client)));
    found.ok_or_else(|| {
        let hint = "`heddle show names` has its sites";
        miette!(help = hint, "no site of `{}` has an address of that family", fabric.names[number].spec.name)
    })
}

/// That a name is no service's, where one has a similar name, or there are some; `None`: a node has it, or there are no services.
pub(super) fn service_meant(fabric: &Fabric, name: &str) -> Option<Report> {
    if fabric.services.is_empty() || fabric.topology.node(name).is_some() {
        return None;
    }
    let services = || fabric.services.iter().map(|service| service.name.as_str());
    let hosts = fabric::host_hint(&fabric.topology, name);
    let hint = match fabric::nearest(name, services()) {
        _ if hosts.starts_with("did you mean") => hosts,
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let services: Vec<String> = services().map(|service| format!("`{service}`")).collect();
            format!("{hosts}; the services are {}", services.join(", "))
        }
    };
    Some(miette!(help = hint, "there is no host and no service `{name}`"))
}

/// Whether it is known from which port the flow comes, and to which it goes.
fn known_ports(args: &Path, to: &Destination) -> (bool, bool) {
    let is_icmp = matches!(args.protocol, Protocol::Icmp);
    (is_icmp || args.source_port.is_some(), is_icmp || args.port.or(to.port).is_some())
}

/// Whether all of the flow is known, not only its addresses.
fn is_known(args: &Path, to: &Destination) -> bool {
    known_ports(args, to) == (true, true)
}

/// The first packet of the flow, as it leaves a host by this hop from this address; and whether all of the flow is known.
fn flow(
    args: &Path,
    (topology, hop): (&Topology, Hop),
    source: Option<IpAddr>,
    to: &Destination,
) -> Result<(FlowKey, bool), Report> {
    let port = args.port.or(to.port);
    let is_icmp = matches!(args.protocol, Protocol::Icmp);
    if is_icmp && args.source_port.or(args.port).is_some() {
        return Err(miette!(help = "leave --port and --source-port out", "ICMP has no ports"));
    }
    let is_ipv6 = to.address.is_ipv6();
    let number = match (args.protocol, is_ipv6) {
        (Protocol::Tcp, _) => protocol::TCP,
        (Protocol::Udp, _) => protocol::UDP,
        (Protocol::Icmp, false) => protocol::ICMP,
        (Protocol::Icmp, true) => protocol::ICMPV6,
    };
    let ports = match (is_icmp, is_ipv6) {
        (true, false) => (ECHO, 0),
        (true, true) => (ECHO_V6, 0),
        (false, _) => (args.source_port.unwrap_or(SOURCE_PORT), port.unwrap_or(PORT)),
    };
    let HostAddress { mac, ipv4, ipv6, .. } = *topology.address(hop.from).expect("it is a host");
    let own = source.unwrap_or_else(|| if is_ipv6 { ipv6.into() } else { ipv4.into() });
    let ends = (SocketAddr::new(own, ports.0), SocketAddr::new(to.address, ports.1));
    let key = FlowKey { eth_src: mac, eth_dst: hop.mac, vlan: args.vlan, ..FlowKey::of_flow(number, ends.0, ends.1) };
    Ok((key, is_known(args, to)))
}

/// Which chains packets pass, a line each.
fn chains_words(fabric: &Fabric, way: &RoutedPath<'_>) -> String {
    let of_stage = |stage: &Stage<'_>| {
        let to = stage.ends.1?;
        fabric.chains.find(stage.ends.0, to, |it| it.has_flow(&stage.course.sent))
    };
    way.stages.iter().map(|stage| chain_words(fabric, of_stage(stage))).collect()
}

/// Which chain packets pass, in a line.
fn chain_words(fabric: &Fabric, chain: Option<(&Chain, Direction)>) -> String {
    let Some((chain, course)) = chain else { return String::new() };
    format!("They pass the chain `{}`, {}: {}\n", chain.name, course.name(), functions_in_words(fabric, chain, course))
}

/// The functions of a chain in the order in which packets pass them.
pub(super) fn functions_in_words(fabric: &Fabric, chain: &Chain, course: Direction) -> String {
    let names = fabric.chains.functions_on(chain, course).into_iter().map(function_in_words);
    names.collect::<Vec<_>>().join(", ")
}

/// What is not in the rows, for whoever reads them.
fn notes(network: &Network, way: &RoutedPath<'_>, known_ports: (bool, bool)) {
    let is_known = known_ports == (true, true);
    let fabric = &network.fabric;
    let Some(Stage { ends: (from, to), course, .. }) = way.stages.first() else { return };
    let chain = |fits: &dyn Fn(&Match) -> bool| fabric.chains.find(*from, (*to)?, fits).map(|(chain, _)| chain);
    let taken = chain(&|it| it.has_flow(&course.sent));
    let first = chain(&|it| it.may_have_flow(&course.sent, known_ports));
    if let Some(chain) = first.filter(|first| taken.is_none_or(|taken| taken.name != first.name)) {
        eprintln!(
            "The chain `{}` takes packets of these that match `{}`: with --protocol, --port and --source-port it is said whether this flow passes it.",
            chain.name, chain.matching
        );
    } else if let Some(chain) = chain(&|_| true).filter(|_| first.is_none()) {
        eprintln!("The chain `{}` takes what matches `{}`, and not these.", chain.name, chain.matching);
    }
    let looks_at_ports = network.has_flows() || !fabric.chains.chains.is_empty() || !fabric.services.is_empty();
    let mut legs = way.stages.iter().flat_map(|stage| &stage.course.legs);
    if !is_known && fabric.spread == Spread::Ecmp && legs.any(|leg| leg.trace.paths > 1) {
        eprintln!(
            "Switches choose by a hash of addresses, protocol and both ports: with --port and --source-port it is one path."
        );
    } else if !is_known && looks_at_ports {
        let FlowKey { src_port, dst_port, .. } = course.sent;
        eprintln!(
            "Flows, functions and services may look at ports: this is a packet from port {src_port} to port {dst_port}; --source-port and --port name others."
        );
    }
    for (links, why) in of_bonds(network, way, is_known) {
        eprintln!("{links} are a bond: {why}.");
    }
    let has_state = network.has_flows() || !fabric.chains.chains.is_empty() || !fabric.services.is_empty();
    if network.is_running() && has_state {
        eprintln!("Connections that exist are not looked at: this is the first packet of a new one.");
    }
}

/// Links of bonds of which it is not known which one packets take, and why not.
fn of_bonds(network: &Network, way: &RoutedPath<'_>, is_known: bool) -> BTreeMap<String, String> {
    let legs = way.stages.iter().flat_map(|stage| &stage.course.legs);
    let several = legs.flat_map(|leg| &leg.trace.hops).filter(|hop| hop.links.len() > 1);
    let why = |hop: &vswitch::Hop| {
        let why = members::why_any(network, (hop.from, hop.port), is_known)?;
        Some((rows::links(&network.fabric.topology, hop), why))
    };
    several.filter_map(why).collect()
}

/// What all of it comes to, in a line or a few.
pub(super) fn summary(network: &Network, way: &RoutedPath<'_>, destination: Option<&Destination>) -> String {
    let topology = &network.fabric.topology;
    let mut lines = String::new();
    for Stage { router, course, .. } in &way.stages {
        if let Some(router) = router {
            let (came, leaves) = router.interfaces;
            let host = name(topology, topology.owner(came));
            let _ = writeln!(lines, "{host} routes it: it leaves {} with {}", name(topology, leaves), router.words());
        }
        lines += &summary_of_course(topology, course);
    }
    if let Some((at, why)) = &way.lost {
        let _ = writeln!(lines, "It is lost at {}: {why}", name(topology, *at));
        return lines;
    }
    let Some(course) = way.last() else { return lines };
    let Some(destination) = destination else {
        let delivered = course.delivered.map(|host| format!("{} gets it\n", name(topology, host)));
        return lines + &delivered.unwrap_or_default();
    };
    match (destination.host, course.delivered) {
        (None, Some(host)) => {
            let (host, wanted) = (name(topology, host), &destination.name);
            let _ = match destination.service {
                Some(number) => writeln!(lines, "{host} gets it, for {wanted}: {}", choice(network, number)),
                None => writeln!(lines, "{host} gets it, for {wanted}"),
            };
        }
        (Some(to), Some(host)) if topology.owner(host) != topology.owner(to) => {
            let _ = writeln!(lines, "{} gets it, and not {}", name(topology, host), name(topology, to));
        }
        _ => {}
    }
    lines
}

/// What a part of it between routers comes to.
fn summary_of_course(topology: &Topology, course: &Course<'_>) -> String {
    let mut lines: String = course.legs.iter().map(|leg| summary_of(topology, &leg.trace, leg.ends)).collect();
    for (switch, actions) in &course.by_flows {
        let _ = writeln!(lines, "Flows of {} do: {}", name(topology, *switch), actions_in_words(actions));
    }
    if let Some((_, why)) = &course.refused {
        let _ = writeln!(
            lines,
            "Only answers come through, as this one does: what begins a connection is lost, since {why}"
        );
    }
    if let Some((at, why)) = &course.lost {
        let _ = writeln!(lines, "It is lost at {}: {why}", name(topology, *at));
    }
    match course.answered {
        Some(Answerer::Service(service)) => {
            let (name, place) = (&service.name, balanced_at(service));
            let _ = writeln!(lines, "The service `{name}` answers it itself, at {place}: no server hears of it");
        }
        Some(Answerer::NameServer) => lines.push_str(
            "The network answers it itself, at the switch next to its sender: the address is its name server's, which is asked by UDP at port 53\n",
        ),
        None => {}
    }
    lines
}

/// Where a service sees what clients send.
const fn balanced_at(service: &datapath::Service) -> &'static str {
    if service.at.is_empty() { "the switch next to its sender" } else { "the host that balances it" }
}

/// The share of connections that each of these servers gets, where the scheduler takes turns, whoever is busy; `None`: it depends on more than their weights.
fn shares<'a>(service: &datapath::Service, servers: impl Iterator<Item = &'a ServerNow>) -> Option<Vec<f64>> {
    let part = |server: &ServerNow| match service.spec.scheduler {
        Scheduler::Rr => Some(1.0),
        Scheduler::Wrr => Some(f64::from(server.weight)),
        Scheduler::Lc
        | Scheduler::Wlc
        | Scheduler::Sed
        | Scheduler::Nq
        | Scheduler::Sh
        | Scheduler::Mh
        | Scheduler::P2c
        | Scheduler::Arr
        | Scheduler::Alc
        | Scheduler::PeakEwma
        | Scheduler::Prequal
        | Scheduler::Learned
        | Scheduler::Utilisation => None,
    };
    let parts: Vec<f64> = servers.map(part).collect::<Option<_>>()?;
    let whole: f64 = parts.iter().sum();
    (whole > 0.0).then(|| parts.iter().map(|part| part / whole).collect())
}

/// Who of a service's servers may get a connection.
fn choice(network: &Network, number: usize) -> String {
    let service = &network.fabric.services[number];
    let (out, may): (Vec<ServerNow>, Vec<ServerNow>) =
        network.servers(service).into_iter().partition(|server| server.out.is_some());
    let of_all = shares(service, may.iter()).filter(|_| network.is_running());
    let may_words = may.iter().enumerate().map(|(at, server)| match (&of_all, server.weight) {
        (Some(shares), _) => format!("{} ({})", server.name, per_cent(shares[at])),
        (None, 1) => server.name.clone(),
        (None, weight) => format!("{} (weight {weight})", server.name),
    });
    let may_words = may_words.collect::<Vec<_>>().join(", ");
    let scheduler = service.spec.scheduler.name();
    let mut words = match (may.len(), network.is_running()) {
        (0 | 1, _) => "no other server of it gets connections now".to_owned(),
        (_, true) if of_all.is_some() => {
            format!("`{scheduler}` chooses one of {may_words} for each connection; this is the way to one of them")
        }
        (_, true) => format!("`{scheduler}` chooses one of {may_words} for each connection"),
        (_, false) => format!(
            "the first connection since the network came up; for each, `{scheduler}` chooses one of {may_words}"
        ),
    };
    let out: Vec<String> =
        out.into_iter().filter_map(|server| Some(format!("{} is {}", server.name, server.out?))).collect();
    if !out.is_empty() {
        let _ = write!(words, " ({})", out.join(", "));
    }
    words
}

/// What a part of it comes to.
fn summary_of(topology: &Topology, trace: &Trace, (from, to): (NodeId, NodeId)) -> String {
    let name = |id: NodeId| topology.nodes[id].name.as_str();
    let mut lines = String::new();
    let hops = trace.hops.iter().filter(|hop| hop.to == to).map(|hop| hop.number).max().unwrap_or(0);
    let is_one = trace.paths == 1 && trace.hops.len() == hops as usize && hops > 0;
    if is_one {
        let nodes: Vec<&str> = std::iter::once(from).chain(trace.hops.iter().map(|hop| hop.to)).map(name).collect();
        let _ = writeln!(lines, "{}", nodes.join(" - "));
    } else if trace.paths > 0 && hops > 0 {
        let plural = if trace.paths == 1 { "path" } else { "equal paths" };
        let _ = writeln!(lines, "{} -> {}: {} {plural} of {hops} links", name(from), name(to), trace.paths);
    }
    for hop in trace.hops.iter().filter(|hop| !hop.carries) {
        let _ =
            writeln!(lines, "{} of what is sent is lost: {} is down", per_cent(hop.share), rows::links(topology, hop));
    }
    for (node, share) in &trace.stuck {
        let share = per_cent(*share);
        let _ = writeln!(lines, "{share} of what is sent ends at {}: no link leads on from there", name(*node));
    }
    lines
}

/// A share of all, with three digits at most.
fn per_cent(share: f64) -> String {
    let percent = share * 100.0;
    if (percent - percent.round()).abs() < 0.005 { format!("{percent:.0} %") } else { format!("{percent:.2} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_short() {
        assert_eq!([1.0, 0.25, 1.0 / 3.0, 0.125, 0.0].map(per_cent), ["100 %", "25 %", "33.33 %", "12.50 %", "0 %"]);
    }
}
