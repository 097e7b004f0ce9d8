//! Service chains as they are written out: with names.

use link::LinkSpec;
use serde::Serialize;
use topology::{NodeId, Topology};
use vswitch::chain::Chains;

/// A function.
#[derive(Serialize)]
pub(super) struct WrittenFunction<'a> {
    name: &'a str,
    /// Ingress and egress of each instance.
    instances: Vec<[&'a str; 2]>,
    timeout: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated: Option<&'a LinkSpec>,
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
        instances: function.instances.iter().map(|ports| ports.map(name)).collect(),
        timeout: function.timeout.to_string(),
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
