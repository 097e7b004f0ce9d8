//! Service chains as they are written out: with names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use link::LinkSpec;
use serde::Serialize;
use topology::{NodeId, Topology};
use vswitch::chain::{Chains, FunctionKind};
use vswitch::functions::{BuiltIn, FirewallRule, FirewallRules, NatRules, PortForward, RateLimit};

/// A function.
#[derive(Serialize)]
pub(super) struct WrittenFunction<'a> {
    name: &'a str,
    /// Ingress and egress of each instance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    instances: Vec<[&'a str; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    #[serde(flatten)]
    built_in: Option<WrittenBuiltIn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated: Option<&'a LinkSpec>,
}

/// What a built-in function is.
#[derive(Default, Serialize)]
struct WrittenBuiltIn<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outbound: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inbound: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forwards: Vec<WrittenForward<'a>>,
}

/// A port that is forwarded.
#[derive(Serialize)]
struct WrittenForward<'a> {
    protocol: &'static str,
    address: IpAddr,
    port: u16,
    to: &'a str,
    to_port: u16,
}

fn written_built_in<'a>(topology: &'a Topology, built_in: &'a BuiltIn) -> WrittenBuiltIn<'a> {
    let kind = built_in.kind();
    let rules = |rules: &[FirewallRule]| {
        let verb = |rule: &FirewallRule| if rule.allows { "allow" } else { "deny" };
        rules.iter().map(|rule| format!("{}: {}", verb(rule), rule.matching)).collect()
    };
    match built_in {
        BuiltIn::Counter => WrittenBuiltIn { kind, ..WrittenBuiltIn::default() },
        BuiltIn::RateLimit(RateLimit { rate_bps, burst_bytes }) => WrittenBuiltIn {
            kind,
            rate_bps: Some(*rate_bps),
            burst_bytes: Some(*burst_bytes),
            ..WrittenBuiltIn::default()
        },
        BuiltIn::Mirror(to) => {
            WrittenBuiltIn { kind, to: Some(&topology.nodes[*to].name), ..WrittenBuiltIn::default() }
        }
        BuiltIn::Firewall(FirewallRules { outbound, inbound }) => {
            WrittenBuiltIn { kind, outbound: rules(outbound), inbound: rules(inbound), ..WrittenBuiltIn::default() }
        }
        BuiltIn::Nat(NatRules { source, forwards }) => WrittenBuiltIn {
            kind,
            source: source.map(|range| range.to_string()),
            forwards: forwards.iter().map(|forward| written_forward(topology, forward)).collect(),
            ..WrittenBuiltIn::default()
        },
    }
}

fn written_forward<'a>(topology: &'a Topology, forward: &PortForward) -> WrittenForward<'a> {
    let PortForward { course: _, protocol, is_ipv6, address, port, to, to_port } = *forward;
    let owner = topology.hosts().find(|(host, _)| {
        topology
            .address(*host)
            .is_some_and(|own| if is_ipv6 { own.ipv6.to_bits() } else { own.ipv4.to_bits().into() } == to)
    });
    WrittenForward {
        protocol: if protocol == PortForward::UDP { "udp" } else { "tcp" },
        address: if is_ipv6 { Ipv6Addr::from_bits(address).into() } else { Ipv4Addr::from_bits(address as u32).into() },
        port,
        to: owner.map_or("", |(_, node)| &node.name),
        to_port,
    }
}

/// A chain.
#[derive(Serialize)]
pub(super) struct WrittenChain<'a> {
    name: &'a str,
    from: Vec<&'a str>,
    to: Vec<&'a str>,
    #[serde(rename = "match", skip_serializing_if = "String::is_empty")]
    matching: String,
    functions: Vec<&'a str>,
    both_directions: bool,
    on_failure: &'static str,
}

pub(super) fn written_functions<'a>(
    topology: &'a Topology,
    chains: &'a Chains,
    simulated: &'a [LinkSpec],
) -> Vec<WrittenFunction<'a>> {
    let name = |node: NodeId| topology.nodes[node].name.as_str();
    let functions = chains.functions.iter().zip(simulated);
    let written = functions.map(|(function, simulated)| WrittenFunction {
        name: &function.name,
        instances: function.instances().iter().map(|ports| ports.map(name)).collect(),
        timeout: match &function.kind {
            FunctionKind::External { timeout, .. } => Some(timeout.to_string()),
            FunctionKind::BuiltIn(_) => None,
        },
        built_in: function.built_in().map(|built_in| written_built_in(topology, built_in)),
        simulated: Some(simulated).filter(|spec| **spec != LinkSpec::default()),
    });
    written.collect()
}

pub(super) fn written_chains<'a>(topology: &'a Topology, chains: &'a Chains) -> Vec<WrittenChain<'a>> {
    let names = |hosts: &[NodeId]| hosts.iter().map(|host| topology.nodes[*host].name.as_str()).collect();
    let written = chains.chains.iter().map(|chain| WrittenChain {
        name: &chain.name,
        from: names(&chain.from),
        to: names(&chain.to),
        matching: chain.matching.to_string(),
        functions: chain.functions.iter().map(|function| chains.functions[*function].name.as_str()).collect(),
        both_directions: chain.is_both_ways,
        on_failure: chain.on_failure.name(),
    });
    written.collect()
}
