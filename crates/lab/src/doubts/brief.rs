//! Runs that end before anything can have arrived.

use std::collections::HashMap;

use fabric::{Case, Experiment, Fabric};
use machine::Span;
use topology::{NodeId, PortId, Routes, Topology};
use transport::TransportKind;

use super::cases::{is_drawn, of_case};
use super::doubt::Doubt;
use crate::plan::pairs_of;

/// Of a network of how many nodes it is looked at: paths are followed to their ends.
const NODES_MAX: usize = 2_000;

/// A flow of which nothing arrives before the run is over: noted at the first one of an experiment, in so many of its cases at most.
pub(super) fn too_brief(fabric: &Fabric, experiment: &Experiment, cases_max: usize) -> Option<Doubt> {
    let lasts = experiment.warm_up + experiment.duration;
    let of_case_of = |case: &Case| {
        let traffic = case.work.traffic().filter(|it| it.switched_by.is_heddle() && it.requests.is_none())?;
        let pairs = pairs_of(fabric, case, fabric.seed).ok().filter(|_| !is_drawn(&traffic.pattern))?;
        let changed = fabric.with(&case.overrides);
        let topology = &changed.topology;
        // However they go, they cross no node twice: most networks need no look at their routes.
        let longest = topology.links.iter().flat_map(topology::Link::specs).map(|spec| spec.delay).max()?;
        if topology.nodes.len() > NODES_MAX || longest * topology.nodes.len() as u64 * 3 <= lasts {
            return None;
        }
        let routes = Routes::compute(topology);
        let takes = |(from, to): (NodeId, NodeId)| {
            let out = least_delay(topology, &routes, (from, to))?;
            if traffic.transport.kind == TransportKind::Udp {
                return Some((out, "their way"));
            }
            Some((out * 2 + least_delay(topology, &routes, (to, from))?, "a handshake and the way of what follows"))
        };
        let late = |pair: (NodeId, NodeId)| takes(pair).filter(|(span, _)| *span >= lasts).map(|found| (pair, found));
        let ((from, to), (span, what)) = pairs.into_iter().find_map(late)?;
        let name = |host: NodeId| &topology.nodes[host].name;
        let flow = format!("of the flow from `{}` to `{}`{}", name(from), name(to), of_case(case));
        Some(format!("simulated, nothing {flow} arrives within {lasts}: links alone take {span} for {what}"))
    };
    let message = experiment.cases().iter().take(cases_max).find_map(of_case_of)?;
    let place = ["experiments", &experiment.name, "for"].map(str::to_owned).to_vec();
    Some(Doubt { place, message, hint: "measure for longer, after a `warm-up` of several round-trip times" })
}

/// The shortest time that links take for a packet from host to host, on any of the routes that it may take; `None`: none leads there.
fn least_delay(topology: &Topology, routes: &Routes, (from, to): (NodeId, NodeId)) -> Option<Span> {
    let mut known = HashMap::from([(to, Some(Span::ZERO))]);
    least_from(topology, routes, (from, to), &mut known)
}

fn least_from(
    topology: &Topology,
    routes: &Routes,
    (at, to): (NodeId, NodeId),
    known: &mut HashMap<NodeId, Option<Span>>,
) -> Option<Span> {
    if let Some(found) = known.get(&at) {
        return *found;
    }
    let by = |port: PortId| {
        let (link, side) = topology.nodes[at].ports[port];
        let link = &topology.links[link];
        Some(link.spec_from(side).delay + least_from(topology, routes, (link.end(side.other()).node, to), known)?)
    };
    let least = routes.next_hops(at, to).iter().copied().filter_map(by).min();
    known.insert(at, least);
    least
}

#[cfg(test)]
mod tests {
    use fabric::Source;

    use crate::doubts::doubts;

    #[test]
    fn runs_that_end_before_anything_arrives_are_doubted() {
        let found = |transport: &str, times: &str| {
            let text = format!(
                "topology: {{ single: {{ hosts: 2 }} }}\nlinks: {{ rate: 10 Mbit/s, delay: 100ms }}\n\
                 experiments: {{ a: {{ traffic: {{ pattern: {{ pairs: [[h1, h2]] }}{transport} }}, {times}, repeat: 5 }} }}\n"
            );
            let doubts = doubts(&fabric::parse(&Source { name: "net".to_owned(), text }).unwrap());
            let of_time = |doubt: super::Doubt| (doubt.place.last()? == "for").then_some(doubt.message);
            doubts.into_iter().filter_map(of_time).collect::<Vec<_>>()
        };
        let nothing = |lasts: &str, why: &str| {
            vec![format!(
                "simulated, nothing of the flow from `h1` to `h2` arrives within {lasts}: links alone take {why}"
            )]
        };
        let handshake = "600ms for a handshake and the way of what follows";
        assert_eq!(found("", "for: 500ms"), nothing("500ms", handshake));
        assert_eq!(found("", "warm-up: 100ms, for: 500ms"), nothing("600ms", handshake));
        assert_eq!(found("", "warm-up: 200ms, for: 500ms"), Vec::<String>::new());
        let udp = ", transport: udp, rate: 1 Mbit/s";
        assert_eq!(found(udp, "for: 200ms"), nothing("200ms", "200ms for their way"));
        assert_eq!(found(udp, "for: 300ms"), Vec::<String>::new());
    }
}
