//! A path as data: what packets pass, one after the other, and what becomes of them.

use serde_json::{Value, json};
use topology::{NodeId, Topology};

use super::course::{Leg, function_in_words, name};
use super::network::{Network, ServerNow};
use super::routed::{RoutedPath, Stage};
use super::{Destination, per_cent, shares};
use crate::output::Rows;
use vswitch::Hop as LinkHop;

/// Something that packets pass.
struct Step {
    kind: Kind,
    /// Which link of the path it is, from 1; what is no link has none.
    hop: Option<u32>,
    from: NodeId,
    to: NodeId,
    /// The links, the function, or the router's route.
    by: String,
    /// Of the packets.
    share: f64,
    state: Option<&'static str>,
}

#[derive(Clone, Copy)]
enum Kind {
    Link,
    Function,
    Router,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Function => "function",
            Self::Router => "router",
        }
    }
}

const LOST: &str = "lost";
/// The state of a path by which answers come through and what begins a connection does not.
const ANSWERS_ONLY: &str = "answers-only";

/// What becomes of packets.
struct Outcome {
    state: &'static str,
    /// The node; or the service that answers.
    at: String,
    why: Option<String>,
}

fn steps(topology: &Topology, way: &RoutedPath<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut before = 0;
    for Stage { router, course, .. } in &way.stages {
        if let Some(router) = router {
            let (from, to) = router.interfaces;
            let (by, state) = (router.words(), Some("routed"));
            steps.push(Step { kind: Kind::Router, hop: None, from, to, by, share: 1.0, state });
        }
        for Leg { ends, passed, trace } in &course.legs {
            for (at, function) in passed {
                let (from, to, by) = (*at, ends.0, function_in_words(function));
                steps.push(Step { kind: Kind::Function, hop: None, from, to, by, share: 1.0, state: None });
            }
            for hop in &trace.hops {
                steps.push(Step {
                    kind: Kind::Link,
                    hop: Some(before + hop.number),
                    from: hop.from,
                    to: hop.to,
                    by: links(topology, hop),
                    share: hop.share,
                    state: Some(if hop.carries { "up" } else { "down" }),
                });
            }
            before += trace.hops.iter().map(|hop| hop.number).max().unwrap_or(0);
        }
    }
    steps
}

pub(super) fn links(topology: &Topology, hop: &LinkHop) -> String {
    let names: Vec<String> = hop.links.iter().map(|link| topology.numbered_link_name(*link)).collect();
    names.join(", ")
}

fn outcome(topology: &Topology, way: &RoutedPath<'_>) -> Option<Outcome> {
    let course = way.last();
    if let Some((at, why)) = way.lost.as_ref().or_else(|| course?.lost.as_ref()) {
        return Some(Outcome { state: LOST, at: name(topology, *at).to_owned(), why: Some(why.clone()) });
    }
    let answered = course?.answered.map(|by| Outcome { state: "answered", at: by.name().to_owned(), why: None });
    let refused = way.stages.iter().find_map(|stage| stage.course.refused.clone());
    let state = if refused.is_some() { ANSWERS_ONLY } else { "delivered" };
    let delivered =
        |host: NodeId| Outcome { state, at: name(topology, host).to_owned(), why: refused.map(|(_, why)| why) };
    answered.or_else(|| course?.delivered.map(delivered))
}

/// Links, routers and functions in the order in which packets pass them, and what becomes of those.
pub(in crate::commands) fn data(topology: &Topology, way: &RoutedPath<'_>) -> Value {
    let hop = |step: Step| {
        json!({
            "kind": step.kind.name(),
            "hop": step.hop,
            "from": name(topology, step.from),
            "to": name(topology, step.to),
            "by": step.by,
            "share": step.share,
            "state": step.state,
        })
    };
    let hops: Vec<Value> = steps(topology, way).into_iter().map(hop).collect();
    let end = outcome(topology, way).map(|Outcome { state, at, why }| json!({ "state": state, "at": at, "why": why }));
    json!({ "hops": hops, "end": end })
}

/// For people: the summary below it says who gets packets.
pub(super) fn table(topology: &Topology, way: &RoutedPath<'_>) -> Rows {
    let mut rows = rows_of_steps(topology, way, |share| json!(per_cent(share)));
    if let Some(Outcome { state: LOST, at, why }) = outcome(topology, way) {
        rows.push([json!(null), json!(at), json!(null), json!(why), json!(per_cent(1.0)), json!(LOST)]);
    }
    rows
}

/// One table of all, also of the service's servers.
pub(super) fn csv(network: &Network, way: &RoutedPath<'_>, destination: &Destination) -> Rows {
    let topology = &network.fabric.topology;
    let mut rows = rows_of_steps(topology, way, |share| json!(share));
    if let Some(Outcome { state, at, why }) = outcome(topology, way) {
        rows.push([json!(null), json!(at), json!(null), json!(why), json!(1.0), json!(state)]);
    }
    for row in servers(network, destination).objects() {
        let weight = json!(format!("weight {}", row["weight"]));
        let [service, server, share, state] = ["service", "server", "share", "state"].map(|key| row[key].clone());
        rows.push([json!(null), service, server, weight, share, state]);
    }
    rows
}

fn rows_of_steps(topology: &Topology, way: &RoutedPath<'_>, share: impl Fn(f64) -> Value) -> Rows {
    let mut rows = Rows::new(&["hop", "from", "to", "link", "share", "state"]);
    for step in steps(topology, way) {
        let by = match step.kind {
            Kind::Link => step.by,
            Kind::Function => format!("function {}", step.by),
            Kind::Router => format!("router: {}", step.by),
        };
        let [from, to] = [step.from, step.to].map(|node| json!(name(topology, node)));
        rows.push([json!(step.hop), from, to, json!(by), share(step.share), json!(step.state)]);
    }
    rows
}

/// The servers of the service that packets are for, and whether they may get a connection: `candidate`, or why not.
pub(super) fn servers(network: &Network, destination: &Destination) -> Rows {
    let mut rows = Rows::new(&["service", "server", "weight", "share", "state"]);
    let Some(service) = destination.service.map(|number| &network.fabric.services[number]) else { return rows };
    let servers = network.servers(service);
    let may = servers.iter().filter(|server| server.out.is_none());
    let mut of_all = shares(service, may).map(Vec::into_iter);
    for ServerNow { name, weight, out } in servers {
        let share = of_all.as_mut().filter(|_| out.is_none()).and_then(Iterator::next);
        let state = out.unwrap_or_else(|| "candidate".to_owned());
        rows.push([json!(service.name), json!(name), json!(weight), json!(share), json!(state)]);
    }
    rows
}
