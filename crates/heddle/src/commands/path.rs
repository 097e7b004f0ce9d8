//! `path`: which nodes and links packets of a flow take, by the decisions of the switches themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;

use fabric::Fabric;
use miette::{Report, miette};
use serde_json::json;
use topology::{HostAddress, LinkId, NodeId, Rerouting, Routes, Topology};
use vswitch::chain::{Chain, Function, flow_of, rendezvous};
use vswitch::flow_table::Match;
use vswitch::functions::Course;
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
    let flow = flow(args, topology, ends)?;
    let hash = flow.as_ref().map(FlowKey::hash);
    let (chain, may_be) = chain_of(args, &fabric, ends, flow.as_ref());
    let legs: Vec<Leg<'_>> = legs_of(&fabric, chain, ends, flow.as_ref())
        .into_iter()
        .map(|(ends, passed)| Leg { ends, passed, trace: follow(&fabric, salts.as_deref(), &down, ends, hash) })
        .collect();
    let rows = rows(topology, &legs, format).render(format);
    put(&match format {
        Format::Table => {
            let lines = legs.iter().map(|leg| summary(topology, &leg.trace, leg.ends));
            format!("{rows}\n{}{}", chain_words(&fabric, chain), lines.collect::<String>())
        }
        Format::Json | Format::Csv => rows,
    })?;
    if let Some(chain) = may_be {
        eprintln!(
            "The chain `{}` takes packets of these that match `{}`: with --protocol, --port and --source-port it is said whether this flow passes it.",
            chain.name, chain.matching
        );
    }
    if hash.is_none() && fabric.spread == Spread::Ecmp && legs.iter().any(|leg| leg.trace.paths > 1) {
        eprintln!(
            "Switches choose by a hash of addresses, protocol and both ports: with --port and --source-port it is one path."
        );
    }
    let arrives = legs.iter().all(|leg| leg.trace.arrives > 1.0 - 1e-6);
    Ok(if arrives { Ending::Passed } else { Ending::Missed })
}

/// A part of the path: from a host, or a port of a function, to the next one.
struct Leg<'a> {
    ends: (NodeId, NodeId),
    /// Functions that packets pass where it begins: one with ports, from whose other port it begins, and built-in ones.
    passed: Vec<&'a Function>,
    trace: Trace,
}

/// The flow, if all of it is known.
fn flow(args: &Path, topology: &Topology, (from, to): (NodeId, NodeId)) -> Result<Option<FlowKey>, Report> {
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
    let key = |(source, destination)| Some(FlowKey::of_flow(number, end(from, source)?, end(to, destination)?));
    Ok(ports.and_then(key))
}

/// The chain that takes the flow; and one that may take it, if not all of the flow is known.
fn chain_of<'a>(
    args: &Path,
    fabric: &'a Fabric,
    (from, to): (NodeId, NodeId),
    flow: Option<&FlowKey>,
) -> (Option<(&'a Chain, Course)>, Option<&'a Chain>) {
    let fits = |matching: &Match| match flow {
        Some(flow) => matching.has_flow(flow),
        None => matching.is_for_all(),
    };
    let chain = fabric.chains.find(from, to, fits);
    let first = fabric.chains.find(from, to, |matching| {
        let number = if matches!(args.protocol, Protocol::Udp) { protocol::UDP } else { protocol::TCP };
        flow.map_or_else(|| matching.may_have_protocol(number), |_| fits(matching))
    });
    let is_other = |(other, _): &(&Chain, Course)| chain.is_none_or(|(chain, _)| chain.name != other.name);
    (chain, first.filter(is_other).map(|(chain, _)| chain))
}

/// The parts of a flow's path: from where to where, and the functions that it passes before.
fn legs_of<'a>(
    fabric: &'a Fabric,
    chain: Option<(&Chain, Course)>,
    (from, to): (NodeId, NodeId),
    flow: Option<&FlowKey>,
) -> Vec<((NodeId, NodeId), Vec<&'a Function>)> {
    let (mut legs, mut start, mut passed) = (Vec::new(), from, Vec::new());
    if let Some((chain, course)) = chain {
        for function in fabric.chains.functions_on(chain, course) {
            let instances = function.instances();
            // Without a flow, one of several stands for all.
            let chosen = flow.and_then(|flow| rendezvous(flow_of(flow), instances.len(), |_| true)).unwrap_or(0);
            if let Some([ingress, egress]) = instances.get(chosen) {
                let (into, out_of) = match course {
                    Course::Forward => (*ingress, *egress),
                    Course::Reverse => (*egress, *ingress),
                };
                legs.push(((start, into), std::mem::take(&mut passed)));
                start = out_of;
            }
            passed.push(function);
        }
    }
    legs.push(((start, to), passed));
    legs
}

/// Which chain packets pass, in a line.
fn chain_words(fabric: &Fabric, chain: Option<(&Chain, Course)>) -> String {
    let Some((chain, course)) = chain else { return String::new() };
    format!("They pass the chain `{}`, {}: {}\n", chain.name, course.name(), functions_in_words(fabric, chain, course))
}

/// The functions of a chain in the order in which packets pass them.
pub(super) fn functions_in_words(fabric: &Fabric, chain: &Chain, course: Course) -> String {
    let names = fabric.chains.functions_on(chain, course).into_iter().map(function_in_words);
    names.collect::<Vec<_>>().join(", ")
}

fn function_in_words(function: &Function) -> String {
    match (function.built_in(), function.instances().len()) {
        (Some(built_in), _) => format!("{} ({})", function.name, built_in.kind()),
        (None, 1) => function.name.clone(),
        (None, several) => format!("{} (one of {several})", function.name),
    }
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

fn rows(topology: &Topology, legs: &[Leg<'_>], format: Format) -> Rows {
    let mut rows = Rows::new(&["hop", "from", "to", "link", "share", "state"]);
    let share = |share: f64| if format == Format::Table { json!(per_cent(share)) } else { json!(share) };
    let mut before = 0;
    for (number, Leg { ends, passed, trace }) in legs.iter().enumerate() {
        for function in passed {
            let last = legs.get(number.wrapping_sub(1)).map_or(ends.0, |leg| leg.ends.1);
            let from = if function.instances().is_empty() { ends.0 } else { last };
            rows.push([
                json!(null),
                json!(topology.nodes[from].name),
                json!(topology.nodes[ends.0].name),
                json!(format!("function {}", function_in_words(function))),
                share(1.0),
                json!(null),
            ]);
        }
        for hop in &trace.hops {
            rows.push([
                json!(before + hop.number),
                json!(topology.nodes[hop.from].name),
                json!(topology.nodes[hop.to].name),
                json!(links(topology, hop)),
                share(hop.share),
                json!(if hop.carries { "up" } else { "down" }),
            ]);
        }
        before += trace.hops.iter().map(|hop| hop.number).max().unwrap_or(0);
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
