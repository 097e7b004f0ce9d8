//! `show`: rows about a running network or a file.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum as _;
use fabric::{Fabric, link_keys, link_keys_both};
use link::LinkSpec;
use live::Instance;
use live::control::SwitchFlows;
use machine::Span;
use miette::{Report, miette};
use serde_json::{Map, Value, json};
use topology::{Link, LinkId, NodeKind, Rerouting, Routes, Topology};

use super::chains::{chains, chains_of_file};
use super::explain;
use super::flow::{NO_TABLES, are_named, connections, flows, meters, name_ports};
use super::instance::{Subject, connect, definition, is_file, running, subject};
use super::macs::mac_rows;
use super::names::{names, names_of_file};
use super::program::{program_rows, programs_of_file};
use super::rstp::bridges;
use super::services::{services, services_of_file};
use super::watch::again;
use crate::cli::{Format, FromArg, Show, ShowTopic};
use crate::output::{Rows, put};

/// Shows one aspect of a running network or a file.
pub fn show(args: &Show, format: Format) -> Result<(), Report> {
    if args.switch.is_some() && !has_switches(args.topic) {
        return Err(miette!(
            help = "leave it out",
            "`--switch` is for `flows`, `caches`, `connections`, `macs` and `rstp`: the others are shown of all switches at once"
        ));
    }
    let (from, seconds) = interval(args)?;
    let repeated = seconds.map(|seconds| (Duration::from_secs(u64::from(seconds.max(1))), args.count));
    let title = format!("heddle show {}", topic_name(args.topic));
    if let Some(switch) = switch_of_the_only_network(args, &from)? {
        let instance = connect(&running(None, "`heddle show TOPIC NETWORK --switch SWITCH`")?)?;
        let fabric = definition(&instance)?;
        return show_running((&instance, &fabric), (args.topic, Some(&switch)), (&title, repeated), format);
    }
    match subject(&from, "`heddle show TOPIC --name NETWORK`")? {
        Subject::File(fabric, _) => {
            let file = from.topo.as_ref().map(|word| format!("--topo {word}")).or_else(|| from.from.clone());
            put(&of_file(&fabric, args.topic, &file.unwrap_or_default(), format)?.render(format))
        }
        Subject::Running(instance, fabric) => {
            let switch = args.switch.as_deref();
            show_running((&instance, &fabric), (args.topic, switch), (&title, repeated), format)
        }
    }
}

/// Shows a topic of a running network once, or again and again as long as it is up.
fn show_running(
    (instance, fabric): (&Instance, &Fabric),
    (topic, switch): (ShowTopic, Option<&str>),
    (title, repeated): (&str, Option<(Duration, Option<u64>)>),
    format: Format,
) -> Result<(), Report> {
    let Some((every, count)) = repeated else {
        return put(&text(instance, fabric, (topic, switch), format)?);
    };
    again((title, every, count), format, || text(instance, fabric, (topic, switch), format))
}

/// What is meant by a file or a network, and how often it is shown. `--watch 2` is what `watch` takes: a number that no network has as its name is the interval.
fn interval(args: &Show) -> Result<(FromArg, Option<u32>), Report> {
    let mut from = args.from.clone();
    let number = from.from.as_deref().filter(|_| args.watch.is_some()).and_then(|word| word.parse().ok());
    let Some(seconds) = number else { return Ok((from, args.watch)) };
    let word = from.from.take_if(|word| !Path::new(word).exists());
    let is_network = Instance::list().map_err(explain)?.iter().any(|name| Some(name) == word.as_ref());
    if word.is_none() || is_network {
        return Ok((args.from.clone(), args.watch));
    }
    Ok((from, Some(seconds)))
}

/// As it stands on the command line.
fn topic_name(topic: ShowTopic) -> String {
    topic.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Whether a topic may be shown of one switch.
fn has_switches(topic: ShowTopic) -> bool {
    matches!(topic, ShowTopic::Flows | ShowTopic::Caches | ShowTopic::Connections | ShowTopic::Macs | ShowTopic::Rstp)
}

/// The switch that is named where a network's name may stand, if no network has that name.
fn switch_of_the_only_network(args: &Show, from: &FromArg) -> Result<Option<String>, Report> {
    let Some(word) = from.from.as_deref().filter(|_| has_switches(args.topic)) else { return Ok(None) };
    if args.switch.is_some() || is_file(word) || Instance::list().map_err(explain)?.iter().any(|name| name == word) {
        return Ok(None);
    }
    let Ok(network) = running(None, "") else { return Ok(None) };
    let topology = definition(&connect(&network)?)?.topology;
    let is_switch = topology.node(word).is_some_and(|node| !topology.is_host(node));
    Ok(is_switch.then(|| word.to_owned()))
}

fn of_file(fabric: &Fabric, topic: ShowTopic, path: &str, format: Format) -> Result<Rows, Report> {
    match topic {
        ShowTopic::Nodes => Ok(nodes(fabric)),
        ShowTopic::Links => Ok(links(fabric, None, |_| true, format)),
        ShowTopic::Routes
        | ShowTopic::Flows
        | ShowTopic::Caches
        | ShowTopic::Connections
        | ShowTopic::Macs
        | ShowTopic::Rstp
        | ShowTopic::Meters
        | ShowTopic::Counters
        | ShowTopic::Bonds => Err(miette!(
            help = format!("heddle up {path}"),
            "routes, flows, addresses, counters and bonds are those of a running network"
        )),
        ShowTopic::Chains => Ok(chains_of_file(fabric)),
        ShowTopic::Services => Ok(services_of_file(fabric)),
        ShowTopic::Names => Ok(names_of_file(fabric)),
        ShowTopic::Programs => Ok(programs_of_file(fabric)),
    }
}

/// A topic of a running network, of one of its switches where that is said.
fn text(
    instance: &Instance,
    fabric: &Fabric,
    (topic, switch): (ShowTopic, Option<&str>),
    format: Format,
) -> Result<String, Report> {
    let counters = || instance.counters().map_err(explain);
    let rows = match topic {
        ShowTopic::Flows => {
            let mut all = instance.flows(switch, "").map_err(explain)?;
            if format == Format::Table && are_named(false, false) {
                name_ports(&mut all, &fabric.topology);
            }
            return Ok(flows(&all, switch, format));
        }
        ShowTopic::Connections => {
            return Ok(connections(&instance.connections(switch).map_err(explain)?, format));
        }
        ShowTopic::Meters => return Ok(meters(&instance.flows(None, NO_ENTRIES).map_err(explain)?, None, format)),
        ShowTopic::Nodes => nodes(fabric),
        ShowTopic::Links => links(fabric, Some(&counters()?), |_| true, format),
        ShowTopic::Routes => routes(fabric, &counters()?),
        ShowTopic::Caches => caches(&instance.flows(switch, NO_ENTRIES).map_err(explain)?),
        ShowTopic::Macs => mac_rows(&instance.macs(switch).map_err(explain)?),
        ShowTopic::Rstp => bridges(instance, switch, format)?,
        ShowTopic::Bonds => bonds(&fabric.topology, &counters()?, format),
        ShowTopic::Counters => counters_rows(&fabric.topology, &counters()?, format),
        ShowTopic::Chains => chains(instance)?,
        ShowTopic::Services => services(instance, format)?,
        ShowTopic::Names => names(instance)?,
        ShowTopic::Programs => program_rows(&instance.programs().map_err(explain)?),
    };
    Ok(rows.render(format))
}

/// The switches are asked for, and not their flows, of which few stand in the last table.
const NO_ENTRIES: &str = "table=253";

/// One row for each switch that has tables of flows.
fn caches(switches: &[SwitchFlows]) -> Rows {
    let columns =
        ["switch", "exact-hits", "megaflow-hits", "misses", "revalidations", "evictions", "megaflows", "masks"];
    let mut rows = Rows::new(&columns).or_say(NO_TABLES).with_spare(&["masks", "evictions", "revalidations"]);
    for SwitchFlows { switch, cache, .. } in switches {
        rows.push([
            json!(switch),
            json!(cache.exact_hits),
            json!(cache.megaflow_hits),
            json!(cache.misses),
            json!(cache.revalidations),
            json!(cache.evictions),
            json!(cache.megaflows),
            json!(cache.masks),
        ]);
    }
    rows
}

/// One row for each switch and destination, also for the switches in multi-homed hosts; and one for each route that the file gives a host.
fn routes(fabric: &Fabric, counters: &live::Counters) -> Rows {
    // As the links are now, unless routes are fixed.
    let links = fabric.topology.links.keys().zip(&counters.links);
    let down = links.filter(|(_, link)| !link.up && fabric.rerouting == Rerouting::Follow).map(|(id, _)| id);
    let routes = Routes::without(&fabric.topology, &down.collect::<Vec<_>>());
    let counted: BTreeMap<(&str, &str), u64> =
        counters.forwarded.iter().map(|entry| ((&*entry.switch, &*entry.host), entry.packets)).collect();
    let mut rows = Rows::new(&["node", "to", "ports", "packets"]);
    let switches = fabric.topology.switches().map(|(id, _)| id).chain(fabric.topology.multi_homed());
    for id in switches {
        let switch = &fabric.topology.nodes[id];
        for (to, host) in fabric.topology.hosts().filter(|(to, _)| *to != id) {
            let ports: Vec<String> = routes.next_hops(id, to).iter().map(|port| port.0.to_string()).collect();
            let packets = counted.get(&(&*switch.name, &*host.name)).copied().unwrap_or(0);
            rows.push([json!(switch.name), json!(host.name), json!(ports.join(" ")), json!(packets)]);
        }
    }
    let of_hosts = fabric.topology.end_hosts().filter_map(|(_, host)| Some((host, fabric.setups.get(&host.name)?)));
    for (host, route) in of_hosts.flat_map(|(host, setup)| setup.routes.iter().map(move |route| (host, route))) {
        rows.push([json!(host.name), json!(route.to_string()), json!(null), json!(null)]);
    }
    rows
}

/// One row for each member of each end of a bond. For people, what is counted of the bond stands at its first member.
fn bonds(topology: &Topology, counters: &live::Counters, format: Format) -> Rows {
    let columns =
        ["node", "bond", "mode", "member", "to", "link", "state", "sends", "why", "accepted", "held", "wait-mean-us"];
    let mut rows = Rows::new(&columns)
        .or_say("No bonds: `bonds: [{ between: [h1, s1], members: 2, mode: 802.3ad }]` in the file makes one.")
        .with_rare(&["held", "wait-mean-us"])
        .with_spare(&["wait-mean-us", "held", "accepted", "to", "mode", "state"]);
    for bond in &counters.bonds {
        let is_it = |end: &topology::BondEnd| topology.nodes[end.node].name == bond.node && end.name == bond.name;
        let mut links = topology.bonds.position(is_it).into_iter().flat_map(|end| topology.bond_links(end));
        let held = bond.reordering.map(|counters| (counters.held, counters.hold_mean().as_ns() as f64 / 1e3));
        for (position, member) in bond.members.iter().enumerate() {
            let is_counted = position == 0 || format != Format::Table;
            let held = held.filter(|_| is_counted);
            rows.push([
                json!(bond.node),
                json!(bond.name),
                json!(bond.mode),
                json!(member.name),
                json!(member.to),
                json!(links.next().map(|link| topology.numbered_link_name(link))),
                json!(member.link),
                json!(if member.sends { "yes" } else { "no" }),
                json!(member.why),
                json!(is_counted.then_some(bond.accepted)),
                json!(held.map(|(held, _)| held)),
                json!(held.map(|(_, mean)| mean)),
            ]);
        }
    }
    rows
}

/// One row for each direction of each link, one for what each host's port took and one for what is wrong with it, one for each reason for which a host's frames went nowhere, and
/// the same of all hosts together.
fn counters_rows(topology: &Topology, counters: &live::Counters, format: Format) -> Rows {
    const COLUMNS: usize = 14;
    let mut rows = Rows::new(&[
        "from",
        "to",
        "packets",
        "bytes",
        "drops",
        "marks",
        "cut",
        "losses",
        "duplicates",
        "corruptions",
        "overtakes",
        "queue-peak",
        "link",
        "kind",
    ])
    .with_hidden(&["kind"])
    .with_rare(&["link", "marks", "cut", "losses", "duplicates", "corruptions", "overtakes", "queue-peak"]);
    for (id, link) in topology.links.keys().zip(&counters.links) {
        // Where no other one has the same ends, people see which it is.
        let name = topology.numbered_link_name(id);
        let name = (format != Format::Table || name != topology.link_name(id)).then_some(name);
        for (from, to, counted) in [(&link.a, &link.b, link.forward), (&link.b, &link.a, link.backward)] {
            rows.push([
                json!(from),
                json!(to),
                json!(counted.packets),
                json!(counted.bytes),
                json!(counted.drops),
                json!(counted.marks),
                json!(counted.cut),
                json!(counted.losses),
                json!(counted.duplicates),
                json!(counted.corruptions),
                json!(counted.overtakes),
                json!(counted.queue_peak),
                json!(name),
                json!("link"),
            ]);
        }
    }
    // What only links have is empty.
    let mut push = |kind: &str, cells: [serde_json::Value; 5]| {
        let mut row = [const { serde_json::Value::Null }; COLUMNS];
        row[..cells.len()].clone_from_slice(&cells);
        row[COLUMNS - 1] = json!(kind);
        rows.push(row);
    };
    let null = || serde_json::Value::Null;
    for port in &counters.ports {
        let traffic = port.traffic;
        let (host, name, _) = port_name(topology, &port.host);
        let (packets, bytes) = (json!(traffic.received_packets), json!(traffic.received_bytes));
        push("port", [json!(host), json!(name), packets, bytes, json!(traffic.drops)]);
        if let Some(fault) = &port.fault {
            push("fault", [json!(port_name(topology, &port.host).2), json!(fault), null(), null(), null()]);
        }
    }
    let mut refuse = |host: &str, (reason, drops): (&str, u64)| {
        push("reason", [json!(host), json!(reason), null(), null(), json!(drops)]);
    };
    for port in &counters.ports {
        for counted in reasons(&port.traffic.refused).into_iter().filter(|(_, drops)| *drops > 0) {
            refuse(&port_name(topology, &port.host).2, counted);
        }
    }
    // On a terminal they would take more lines than all else.
    let is_shown = |drops: u64| drops > 0 || format != Format::Table;
    for counted in reasons(&counters.refused).into_iter().filter(|(_, drops)| is_shown(*drops)) {
        refuse("any host", counted);
    }
    rows
}

/// A host, and a port of it by its device, `r1:eth1` of what is made as `r1.eth1`; and by what both are called where little room is: `h1` has one only.
fn port_name<'a>(topology: &'a Topology, made_as: &'a str) -> (&'a str, String, String) {
    let (host, device) = topology.node(made_as).map_or((made_as, 0), |node| {
        let (host, device) = topology.device_of(node);
        (topology.nodes[host].name.as_str(), device)
    });
    let name = format!("{host}:eth{device}");
    let short = if device == 0 { host.to_owned() } else { name.clone() };
    (host, name, short)
}

/// Why frames went nowhere, and how many.
const fn reasons(refused: &live::control::Refusals) -> [(&'static str, u64); 24] {
    [
        ("unknown destination", refused.unknown_destination),
        ("storm control", refused.storm_control),
        ("malformed", refused.malformed),
        ("no buffer", refused.no_buffer),
        ("link's share of buffers used up", refused.buffer_share),
        ("ring between workers full", refused.ring_full),
        ("spoofed", refused.spoofed),
        ("no route to host", refused.no_route),
        ("forwarding loop", refused.looped),
        ("dropped by a flow", refused.dropped_by_flow),
        ("dropped by a meter", refused.dropped_by_meter),
        ("dropped by a function of a chain", refused.dropped_by_function),
        ("function of a chain down", refused.function_down),
        ("stray in a chain", refused.stray),
        ("not in its VLAN", refused.vlan),
        ("port does not forward (RSTP)", refused.discarding),
        ("not served", refused.service),
        ("no source port left", refused.no_port),
        ("wrong checksum", refused.checksum),
        ("martian source", refused.martian),
        ("TTL 0", refused.hop_limit),
        ("control message of a tunnel", refused.tunnel_control),
        ("bond without a usable member", refused.no_member),
        ("link or host removed", refused.removed),
    ]
}

/// The rows of `show nodes`.
fn nodes(fabric: &Fabric) -> Rows {
    let mut rows = Rows::new(&["name", "kind", "tier", "pod", "ports", "mac", "ipv4", "ipv6", "addresses"])
        .with_rare(&["pod", "addresses"])
        .with_spare(&["tier", "pod", "ports", "mac"]);
    for (id, node) in fabric.topology.nodes.iter_enumerated() {
        let name = json!(node.name);
        let further = fabric.setups.get(&node.name).map(|setup| &setup.addresses).filter(|all| !all.is_empty());
        let further = further.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
        let ports = json!(node.ports.len());
        match &node.kind {
            NodeKind::Host(host) => {
                let mac = host.mac.map(|byte| format!("{byte:02x}")).join(":");
                let ipv4 = format!("{}/{}", host.ipv4, host.ipv4_prefix);
                let ipv6 = format!("{}/{}", host.ipv6, host.ipv6_prefix);
                rows.push([
                    name,
                    json!(match node {
                        _ if node.is_external() => format!("host on {}", node.devices.join(", ")),
                        _ if fabric.topology.interface_owner(id).is_some() => "interface".to_owned(),
                        _ if node.forwards => "forwarding host".to_owned(),
                        _ => "host".to_owned(),
                    }),
                    json!(0),
                    json!(host.pod),
                    ports,
                    json!(mac),
                    json!(ipv4),
                    json!(ipv6),
                    json!(further),
                ]);
            }
            NodeKind::Switch { tier, pod } => {
                rows.push([
                    name,
                    json!("switch"),
                    json!(tier),
                    json!(pod),
                    ports,
                    json!(null),
                    json!(null),
                    json!(null),
                    json!(null),
                ]);
            }
        }
    }
    rows
}

/// What a link does, for a table.
fn in_words(spec: &LinkSpec) -> [(&'static str, Value); DOES] {
    let share = |ppb: u32| json!((ppb > 0).then(|| format!("{} %", percent(ppb))));
    let rate = link_keys(spec).into_iter().find(|(key, _)| *key == "rate");
    let time = |span: Span| json!((span > Span::ZERO).then(|| span.to_string()));
    [
        ("rate", json!(rate.map(|(_, rate)| rate))),
        ("delay", json!(spec.delay.to_string())),
        ("queue", json!(spec.queue_packets)),
        ("ecn", json!(spec.ecn_packets)),
        ("overhead", json!((spec.overhead_bytes > 0).then_some(spec.overhead_bytes))),
        ("loss", share(spec.loss_ppb)),
        ("jitter", time(spec.jitter())),
        ("coalesce", time(spec.coalesce())),
        ("duplicate", share(spec.duplicate_ppb)),
        ("corrupt", share(spec.corrupt_ppb)),
        ("reorder", share(spec.reorder_ppb)),
    ]
}

/// The same as numbers, for programs.
fn in_numbers(spec: &LinkSpec) -> [(&'static str, Value); DOES] {
    [
        ("rate-bps", json!(spec.rate_bps)),
        ("delay-ns", json!(spec.delay.as_ns())),
        ("queue-packets", json!(spec.queue_packets)),
        ("ecn-packets", json!(spec.ecn_packets)),
        ("overhead-bytes", json!(spec.overhead_bytes)),
        ("loss-percent", json!(percent(spec.loss_ppb))),
        ("jitter-ns", json!(spec.jitter_ns)),
        ("coalesce-ns", json!(spec.coalesce_ns)),
        ("duplicate-percent", json!(percent(spec.duplicate_ppb))),
        ("corrupt-percent", json!(percent(spec.corrupt_ppb))),
        ("reorder-percent", json!(percent(spec.reorder_ppb))),
    ]
}

/// How many cells say what a link does.
const DOES: usize = 11;

fn percent(ppb: u32) -> f64 {
    f64::from(ppb) / 1e7
}

/// What is otherwise in the direction from the second node to the first: by the file's keys for a table, as numbers for programs.
fn back(link: &Link, format: Format) -> Value {
    let otherwise: Map<String, Value> = if format == Format::Table {
        let keys = link_keys_both(link).into_iter();
        keys.filter_map(|(key, value)| Some((key.strip_prefix("back.")?.to_owned(), json!(value)))).collect()
    } else {
        let both = link.back.iter().flat_map(|back| in_numbers(back).into_iter().zip(in_numbers(&link.spec)));
        both.filter(|(back, forth)| back != forth).map(|((key, value), _)| (key.to_owned(), value)).collect()
    };
    if otherwise.is_empty() { Value::Null } else { Value::Object(otherwise) }
}

/// The rows of `show links`, of those that are wanted; of a running network with what they are now.
pub fn links(
    fabric: &Fabric,
    counters: Option<&live::Counters>,
    is_wanted: impl Fn(LinkId) -> bool,
    format: Format,
) -> Rows {
    let does: fn(&LinkSpec) -> [(&'static str, Value); DOES] =
        if format == Format::Table { in_words } else { in_numbers };
    let mut columns = vec!["link", "a", "a-port", "b", "b-port"];
    columns.extend(does(&LinkSpec::UNSHAPED).map(|(column, _)| column));
    columns.extend(["back", "state"]);
    let mut rows = Rows::new(&columns)
        .with_rare(&["ecn", "overhead", "loss", "jitter", "coalesce", "duplicate", "corrupt", "reorder", "back"])
        .with_spare(&[
            "a-port",
            "b-port",
            "a",
            "b",
            "overhead",
            "coalesce",
            "duplicate",
            "corrupt",
            "reorder",
            "ecn",
            "jitter",
        ]);
    let state = |id: LinkId| {
        let link = counters.and_then(|counters| counters.links.get(usize::from(id)));
        link.map(|link| if link.up { "up" } else { "down" })
    };
    for id in side_by_side(&fabric.topology).into_iter().filter(|id| is_wanted(*id)) {
        let link = &fabric.topology.links[id];
        let end = |end: topology::LinkEnd| json!(fabric.topology.nodes[end.node].name);
        let mut row = vec![
            json!(fabric.topology.numbered_link_name(id)),
            end(link.a),
            json!(link.a.port.0),
            end(link.b),
            json!(link.b.port.0),
        ];
        row.extend(does(&link.spec).map(|(_, value)| value));
        row.extend([back(link, format), json!(state(id))]);
        rows.push_row(row);
    }
    rows
}

/// All links in their order, but those of the same two nodes one after the other.
fn side_by_side(topology: &Topology) -> Vec<LinkId> {
    let mut first = HashMap::new();
    let mut ids: Vec<(LinkId, LinkId)> = Vec::new();
    for (id, link) in topology.links.iter_enumerated() {
        let (a, b) = (link.a.node.min(link.b.node), link.a.node.max(link.b.node));
        ids.push((*first.entry((a, b)).or_insert(id), id));
    }
    ids.sort_unstable();
    ids.into_iter().map(|(_, id)| id).collect()
}
