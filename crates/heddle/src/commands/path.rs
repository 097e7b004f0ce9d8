//! `path`: which nodes and links packets of a flow take, by the decisions of the switches themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;

use fabric::Fabric;
use miette::{Report, miette};
use serde_json::json;
use topology::{HostAddress, LinkId, NodeId, Rerouting, Routes, Topology};
use vswitch::spread::FlowHash;
use vswitch::{FlowKey, Hop, Spread, Switch, Trace, trace};
use wire::protocol;

use super::explain;
use super::instance::{Subject, host, subject};
use crate::Ending;
use crate::cli::{Format, Path, Protocol};
use crate::output::{Rows, put};

/// ICMP echo requests: the type, which stands where others have the source port.
const ECHO: u16 = 8;
const ECHO_V6: u16 = 128;

/// Shows the path.
pub fn path(args: &Path, format: Format) -> Result<Ending, Report> {
    let (fabric, salts, down) = match subject(&args.from, "`heddle path HOST HOST --name NETWORK`")? {
        Subject::File(fabric) => (fabric, None, BTreeSet::new()),
        Subject::Running(instance, fabric) => {
            let links = instance.counters().map_err(explain)?.links;
            let down =
                fabric.topology.links.keys().zip(&links).filter(|(_, link)| !link.up).map(|(id, _)| id).collect();
            let salts = instance.salts().map_err(explain)?;
            (fabric, Some(salts), down)
        }
    };
    let topology = &fabric.topology;
    let ends = (host(topology, &args.source)?, host(topology, &args.destination)?);
    if ends.0 == ends.1 {
        return Err(miette!("`{}` is both ends: expected two hosts", args.source));
    }
    let hash = hash(args, topology, ends)?;
    let trace = follow(&fabric, salts.as_deref(), &down, ends, hash);
    put(&match format {
        Format::Table => {
            format!("{}\n{}", rows(topology, &trace, format).render(format), summary(topology, &trace, ends))
        }
        Format::Json | Format::Csv => rows(topology, &trace, format).render(format),
    })?;
    if hash.is_none() && fabric.spread == Spread::Ecmp && trace.paths > 1 {
        eprintln!(
            "Switches choose by a hash of addresses, protocol and both ports: with --port and --source-port it is one path."
        );
    }
    let arrives = trace.arrives > 1.0 - 1e-6;
    Ok(if arrives { Ending::Passed } else { Ending::Missed })
}

/// The hash of the flow, if it is known.
fn hash(args: &Path, topology: &Topology, (from, to): (NodeId, NodeId)) -> Result<Option<FlowHash>, Report> {
    let (ports, number) = match (args.protocol, args.ipv6) {
        (Protocol::Tcp, _) => (args.source_port.zip(args.port), protocol::TCP),
        (Protocol::Udp, _) => (args.source_port.zip(args.port), protocol::UDP),
        (Protocol::Icmp, _) if args.source_port.or(args.port).is_some() => {
            return Err(miette!(help = "leave --port and --source-port out", "ICMP has no ports"));
        }
        (Protocol::Icmp, false) => (Some((ECHO, 0)), protocol::ICMP),
        (Protocol::Icmp, true) => (Some((ECHO_V6, 0)), protocol::ICMPV6),
    };
    let end = |host: NodeId, port: u16| -> Option<SocketAddr> {
        let HostAddress { ipv4, ipv6, .. } = topology.address(host)?;
        Some(if args.ipv6 { (*ipv6, port).into() } else { (*ipv4, port).into() })
    };
    let hash = |(source, destination)| Some(FlowKey::of_flow(number, end(from, source)?, end(to, destination)?).hash());
    Ok(ports.and_then(hash))
}

/// Follows packets through a network of which these links have no carrier. Of one that runs, `salts` are those of its switches, and then of its multi-homed
/// hosts; one that comes up has them from its seed.
fn follow(
    fabric: &Fabric,
    salts: Option<&[u64]>,
    down: &BTreeSet<LinkId>,
    ends: (NodeId, NodeId),
    hash: Option<FlowHash>,
) -> Trace {
    let topology = &fabric.topology;
    let carries = |link: LinkId| !down.contains(&link);
    let routes = match fabric.rerouting {
        Rerouting::Follow => Routes::around(topology, carries),
        Rerouting::Fixed => Routes::compute(topology),
    };
    let nodes = topology.switches().map(|(id, _)| id).chain(topology.multi_homed()).enumerate();
    let switch = |(at, id): (usize, NodeId)| {
        let switch = Switch::new(id, fabric.spread, &routes, fabric.seed);
        (
            id,
            match salts.and_then(|salts| salts.get(at)) {
                Some(salt) => switch.with_salt(*salt),
                None => switch,
            },
        )
    };
    let switches: BTreeMap<NodeId, Switch> = nodes.map(switch).collect();
    trace(topology, &routes, |id| switches.get(&id), ends, (hash, carries))
}

fn rows(topology: &Topology, trace: &Trace, format: Format) -> Rows {
    let mut rows = Rows::new(&["hop", "from", "to", "link", "share", "state"]);
    for hop in &trace.hops {
        let share = if format == Format::Table { json!(per_cent(hop.share)) } else { json!(hop.share) };
        rows.push([
            json!(hop.number),
            json!(topology.nodes[hop.from].name),
            json!(topology.nodes[hop.to].name),
            json!(links(topology, hop)),
            share,
            json!(if hop.carries { "up" } else { "down" }),
        ]);
    }
    rows
}

fn links(topology: &Topology, hop: &Hop) -> String {
    let names: Vec<String> = hop.links.iter().map(|link| topology.numbered_link_name(*link)).collect();
    names.join(", ")
}

/// What all of it comes to, in a line or a few.
fn summary(topology: &Topology, trace: &Trace, (from, to): (NodeId, NodeId)) -> String {
    let name = |id: NodeId| topology.nodes[id].name.as_str();
    let mut lines = String::new();
    let hops = trace.hops.iter().filter(|hop| hop.to == to).map(|hop| hop.number).max().unwrap_or(0);
    let is_one = trace.paths == 1 && trace.hops.len() == hops as usize;
    if is_one {
        let nodes: Vec<&str> = std::iter::once(from).chain(trace.hops.iter().map(|hop| hop.to)).map(name).collect();
        let _ = writeln!(lines, "{}", nodes.join(" - "));
    } else if trace.paths > 0 {
        let plural = if trace.paths == 1 { "path" } else { "equal paths" };
        let _ = writeln!(lines, "{} -> {}: {} {plural} of {hops} links", name(from), name(to), trace.paths);
    }
    for hop in trace.hops.iter().filter(|hop| !hop.carries) {
        let _ = writeln!(lines, "{} of what is sent is lost: {} is down", per_cent(hop.share), links(topology, hop));
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
