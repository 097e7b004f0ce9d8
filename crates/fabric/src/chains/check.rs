//! Chains, held against the network and its functions.

use std::collections::BTreeMap;

use topology::NodeId;
use vswitch::AddressAlias;
use vswitch::chain::{Chain, Chains, Function, FunctionKind, OnFailure};
use vswitch::flow_table::Match;

use super::built_in::fit;
use super::matching::{ALL, matching};
use super::text::{ChainText, Names};
use crate::document::File;
use crate::error::Problems;
use crate::graph::Graph;
use crate::names::nearest;
use crate::read::Name;
use crate::source::At;

/// The most chains of a file.
const MOST: usize = 256;

/// Reads the chains of a file; each function is in one at most.
pub(crate) fn chains(file: &File, graph: &Graph, functions: Vec<Function>, problems: &mut Problems<'_>) -> Chains {
    let mut chains = Chains { functions, chains: Vec::new() };
    let Some(section) = &file.chains else { return chains };
    if section.value.0.len() > MOST {
        let message = format!("{} chains are more than {MOST}", section.value.0.len());
        problems.add(section.place, message, "too many", "let one chain take the packets of several hosts");
        return chains;
    }
    // By function: the chain that has it.
    let mut taken: BTreeMap<usize, String> = BTreeMap::new();
    for (name, text) in &section.value.0 {
        let text = &text.value;
        let from = hosts(graph, &text.from, problems);
        let to = hosts(graph, &text.to, problems);
        let named = functions_of(&chains.functions, (&name.value.0, text), &mut taken, problems);
        let matching = match &text.matching {
            Some(text) => matching(text, "a chain", problems),
            None => Some(Match::default()),
        };
        let (Some(from), Some(to), Some(named), Some(matching)) = (from, to, named, matching) else { continue };
        if let ([only], [same]) = (&*from, &*to)
            && only == same
        {
            let host = &graph.topology.nodes[*only].name;
            problems.add(text.to.place, format!("`{host}` would talk to itself"), "the same host", "name another one");
            continue;
        }
        let chain = Chain {
            name: name.value.0.clone(),
            from,
            to,
            matching,
            functions: named,
            is_both_ways: text.both.is_none_or(|both| both.0),
            on_failure: text.on_failure.map_or(OnFailure::default(), |word| word.0),
        };
        for (function, name) in chain.functions.iter().zip(&text.functions.value.0) {
            let texts = file.functions.iter().flat_map(|functions| &functions.value.0);
            let mut texts = texts.filter(|(own, _)| own.value == name.value).map(|(_, text)| &text.value);
            let function = &mut chains.functions[*function];
            fit(&graph.topology, function, (&chain, texts.next(), name.place), problems);
        }
        chains.chains.push(chain);
    }
    note_shared_addresses(file, &chains, problems);
    chains
}

/// The hosts that are named, ascending.
fn hosts(graph: &Graph, names: &At<Names>, problems: &mut Problems<'_>) -> Option<Vec<NodeId>> {
    let topology = &graph.topology;
    if let [only] = &*names.value.0
        && only.value.0 == ALL
        && topology.node(ALL).is_none()
    {
        return Some(topology.end_hosts().map(|(id, _)| id).collect());
    }
    let mut found = Vec::with_capacity(names.value.0.len());
    for name in &names.value.0 {
        match topology.node(&name.value.0) {
            Some(host) if topology.is_host(host) && !topology.is_function_port(host) => found.push(host),
            other => {
                let what = match other {
                    None => "is not a host of this network",
                    Some(node) if topology.is_host(node) => "is a function; a chain begins and ends at hosts",
                    Some(_) => "is a switch; a chain begins and ends at hosts",
                };
                let hint = problems.hint(|| graph.host_hint(&name.value.0));
                problems.add(name.place, format!("`{}` {what}", name.value.0), "not a host", hint);
                return None;
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}

/// The functions that a chain names, by their place.
fn functions_of(
    all: &[Function],
    (chain, text): (&str, &ChainText),
    taken: &mut BTreeMap<usize, String>,
    problems: &mut Problems<'_>,
) -> Option<Vec<usize>> {
    let mut named = Vec::with_capacity(text.functions.value.0.len());
    for At { value: Name(name), place, .. } in &text.functions.value.0 {
        let Some(function) = all.iter().position(|function| function.name == *name) else {
            let known = all.iter().map(|function| function.name.as_str());
            let hint = problems.hint(|| match nearest(name, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("add it: `functions: {{ {name}: {{ at: s1 }} }}`"),
            });
            problems.add(*place, format!("there is no function `{name}`"), "unknown function", hint);
            return None;
        };
        if named.contains(&function) {
            problems.add(
                *place,
                format!("packets of this chain would come to `{name}` twice, and nobody could tell the first time from the second"),
                "in it already",
                "make another function of it, with a name of its own",
            );
            return None;
        }
        if let Some(other) = taken.insert(function, chain.to_owned()) {
            problems.add(
                *place,
                format!("`{name}` is a function of the chain `{other}`: {}", why_one_chain(&all[function])),
                "in another chain",
                "make another function of it; or let one chain take the packets of both",
            );
            return None;
        }
        named.push(function);
    }
    Some(named)
}

const fn why_one_chain(function: &Function) -> &'static str {
    match function.kind {
        FunctionKind::External { .. } => "what comes back from it could be of either",
        FunctionKind::BuiltIn(_) => "what it counts and knows is of one chain",
    }
}

/// Notes addresses that two functions would translate to: answers could be for either.
fn note_shared_addresses(file: &File, chains: &Chains, problems: &mut Problems<'_>) {
    let mut known: Vec<(AddressAlias, &str)> = Vec::new();
    for chain in &chains.chains {
        for function in chain.functions.iter().map(|function| &chains.functions[*function]) {
            let only = Chain { functions: vec![0], ..chain.clone() };
            let own = Chains { functions: vec![function.clone()], chains: vec![only] }.aliases();
            let is_shared = |alias: &AddressAlias| {
                let overlaps = |other: &AddressAlias| {
                    alias.is_ipv6 == other.is_ipv6
                        && alias.addresses.0 <= other.addresses.1
                        && other.addresses.0 <= alias.addresses.1
                };
                known.iter().find(|(other, _)| overlaps(other)).map(|(_, name)| *name)
            };
            if let Some(other) = own.iter().find_map(is_shared) {
                let mut texts = file.functions.iter().flat_map(|functions| &functions.value.0);
                if let Some((name, _)) = texts.find(|(name, _)| name.value.0 == function.name) {
                    let message = format!("`{}` and `{other}` have an address in common", function.name);
                    problems.add(name.place, message, "not its own", "give each function addresses of its own");
                }
            }
            known.extend(own.into_iter().map(|alias| (alias, function.name.as_str())));
        }
    }
}
