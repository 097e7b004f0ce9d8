//! Flows that another switch carries, to compare with: what their experiments can't have.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use topology::Topology;
use transport::TransportKind;
use vswitch::chain::{Chain, Function};
use vswitch::flow_table::Match;

use crate::chains::only_forwards;
use crate::document::NetworkSetting;
use crate::error::Problems;
use crate::experiment::{Functions, transports, varied_patterns};
use crate::overrides::{fabric_settings, traffic_settings};
use crate::parameters::Plain;
use crate::read::Read;
use crate::source::{At, Place};
use crate::traffic::{TrafficSetting, TrafficText};
use crate::tree::Node;
use crate::words::{Words, word_of, words};
use crate::{Axis, Override, Pattern, SwitchedBy, Traffic};

words!(SwitchedBy, "SwitchedBy", "a switch", {
    "heddle" => SwitchedBy::Heddle,
    "linux-bridge" => SwitchedBy::LinuxBridge,
    "openvswitch" => SwitchedBy::Openvswitch,
});

impl Plain for SwitchedBy {
    type Value = Self;

    fn plain(&self) -> Self {
        *self
    }
}

impl SwitchedBy {
    /// As the file writes it.
    pub fn word(self) -> &'static str {
        word_of(self)
    }
}

/// Notes what another switch does not do, and what is not measured of it. `time_series`: where a step is written.
pub(crate) fn check(
    text: &At<TrafficText>,
    traffic: &Traffic,
    axes: &[Axis],
    ((topology, functions), time_series): ((&Topology, Functions<'_>), Option<Place>),
    problems: &mut Problems<'_>,
) {
    let varied = traffic_settings(axes).filter_map(|setting| match setting {
        TrafficSetting::SwitchedBy(by) => Some(*by),
        _ => None,
    });
    let Some(other) = varied.chain([traffic.switched_by]).find(|by| !by.is_heddle()) else { return };
    let (place, other) = (text.value.switched_by.as_ref().map_or(text.place, |by| by.place), other.word());
    let text = &text.value;
    let refused = [
        (transports(text, axes).contains(&TransportKind::Udp), "UDP", "write another `transport`"),
        (text.transfers.is_some(), "transfers", "remove `transfers`"),
        (text.requests.is_some(), "requests", "remove `requests`"),
        (text.faults.is_some(), "faults of links", "remove `faults`"),
        (time_series.is_some(), "what happens over time", "remove `time-series`"),
    ];
    for (_, what, hint) in refused.into_iter().filter(|(is_there, ..)| *is_there) {
        let message = format!("over `{other}` goes TCP as fast as it goes, and not {what}");
        problems.add(place, message, "not over another switch", hint);
    }
    let is_unshaped = |setting: &Override| matches!(setting, Override::Network(NetworkSetting::Shaping(false)));
    let is_shaping = |setting: &Override| matches!(setting, Override::Network(NetworkSetting::Shaping(true)));
    let is_of_links = |setting: &Override| matches!(setting, Override::Link(_) | Override::OneLink(_));
    let is_compared = !topology.is_shaped() || fabric_settings(axes).any(is_unshaped);
    if !is_compared || fabric_settings(axes).any(is_shaping) || fabric_settings(axes).any(is_of_links) {
        problems.add(
            place,
            format!("links of this network have rates or delays, and those of `{other}` have none"),
            "nothing to compare with",
            "leave out axes of links, and add `shaping: [false]` to `vary`",
        );
    }
    for chain in chains_of(functions, traffic, axes) {
        let mut through = chain.functions.iter().map(|function| &functions.chains.functions[*function]);
        let why = through.find_map(|function| unlike(topology, functions, function));
        let Some(why) = why.or_else(|| one_sided(chain)) else { continue };
        problems.add(
            place,
            format!("over `{other}` packets of the chain `{}` are steered by ports alone: {why}", chain.name),
            "not over another switch",
            "leave its hosts out of the pattern, or make another chain of functions with `at` alone",
        );
    }
}

/// The chains that flows of these patterns pass.
fn chains_of<'a>(functions: Functions<'a>, traffic: &Traffic, axes: &[Axis]) -> Vec<&'a Chain> {
    let is_of = |chain: &Chain, pattern: &Pattern| match pattern {
        Pattern::Pairs(pairs) => pairs.iter().any(|(from, to)| {
            let found = functions.chains.find(*from, *to, |_| true);
            found.is_some_and(|(found, _)| found.name == chain.name)
        }),
        // Who talks to whom is drawn for each run.
        _ => true,
    };
    let chains = functions.chains.chains.iter();
    chains
        .filter(|chain| varied_patterns(axes).chain([&traffic.pattern]).any(|pattern| is_of(chain, pattern)))
        .collect()
}

/// What another switch cannot do for a chain.
fn one_sided(chain: &Chain) -> Option<String> {
    if !chain.is_both_ways {
        return Some("they pass its functions in both directions".to_owned());
    }
    (chain.matching != Match::default())
        .then(|| "all between its hosts pass its functions, and no `match` chooses".to_owned())
}

/// Why a function can't stand at another switch as it stands in this network.
fn unlike(topology: &Topology, functions: Functions<'_>, function: &Function) -> Option<String> {
    let name = &function.name;
    match function.instances() {
        [] => Some(format!("`{name}` is built into Heddle's switches")),
        [[ingress, _]] => {
            let setup = functions.setups.get(&topology.nodes[*ingress].name);
            let why = format!("`{name}` has programs or devices of its own, which know the ports in this network only");
            (!setup.is_some_and(only_forwards)).then_some(why)
        }
        _ => Some(format!("`{name}` has several instances, between which none chooses")),
    }
}
