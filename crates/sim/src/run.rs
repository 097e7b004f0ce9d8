//! One simulated run.

use machine::Time;
use topology::Side;
use transport::{paced, transfers};

use crate::engine::{Engine, Flow};
use crate::udp::Udp;
use crate::{FlowOutcome, LinkOutcome, Outcome, Scenario};

/// Simulates one run. The same scenario gives the same outcome on every machine.
///
/// What happens at `warm_up` is measured, what happens at its end (`warm_up + duration`) is not.
///
/// # Panics
/// If a flow's end is not a host of the fabric, if the fabric is not connected, or if time stands still because a flow
/// crosses only links without rate and delay.
pub fn run(scenario: &Scenario<'_>) -> Outcome {
    let mut engine = Engine::new(scenario);
    let start = Time::ZERO + engine.convergence() + scenario.warm_up;
    engine.run_before(start);
    let segment_bytes = u64::from(scenario.transport.segment_bytes);
    let dropped_before = engine.host_drops();
    let before = measure_flows(&mut engine, segment_bytes);
    links(&mut engine, scenario, start);
    engine.run_through_faults(start, scenario.duration, scenario.faults);
    let after = measure_flows(&mut engine, segment_bytes);
    let mut flows: Vec<_> = after.iter().zip(&before).map(|(after, before)| since(after, before)).collect();
    let links = links(&mut engine, scenario, start + scenario.duration);
    let host_drops = engine.host_drops().zip(dropped_before).map(|(now, before)| now - before);
    if scenario.rate_pps.is_some() {
        // What was sent at the end is still under way.
        engine.run_before(start + scenario.duration + paced::TAIL);
        note_datagrams(&mut engine, &mut flows);
    }
    if scenario.transfers.is_some() {
        engine.run_before(start + scenario.duration + transfers::PATIENCE);
        for (flow, came) in flows.iter_mut().zip(engine.transfers()) {
            flow.transfers = Some(came);
        }
    }
    Outcome { flows, links, bonds: engine.bonds(), packet_hops: engine.packet_hops(), host_drops }
}

/// What each flow has done since the start; its reordering since this was asked last.
fn measure_flows(engine: &mut Engine<'_>, segment_bytes: u64) -> Vec<FlowOutcome> {
    if let Some(pairs) = engine.pairs() {
        return pairs;
    }
    let (flows, udp) = engine.flows();
    if udp.is_empty() {
        return flows.iter_mut().map(Flow::outcome).collect();
    }
    let did = |udp: &Udp| match udp {
        Udp::Bulk { sender, receiver, .. } => {
            let fragments = u64::from(transport::udp::FRAGMENTS);
            (receiver.complete() * fragments, sender.sent() * fragments)
        }
        Udp::Paced { sender, receiver } => (receiver.arrived(), sender.sent()),
    };
    let udp = flows.iter_mut().zip(udp).map(|(flow, udp)| FlowOutcome {
        delivered_bytes: did(udp).0 * segment_bytes,
        arrived_bytes: flow.meter.delivered(),
        segments: did(udp).1,
        reordering: flow.meter.take(),
        ..FlowOutcome::default()
    });
    udp.collect()
}

fn note_datagrams(engine: &mut Engine<'_>, flows: &mut [FlowOutcome]) {
    for (flow, udp) in flows.iter_mut().zip(engine.flows().1) {
        if let Udp::Paced { receiver, .. } = udp {
            flow.datagrams = Some(receiver.outcome());
        }
    }
}

fn since(now: &FlowOutcome, before: &FlowOutcome) -> FlowOutcome {
    FlowOutcome {
        delivered_bytes: now.delivered_bytes - before.delivered_bytes,
        arrived_bytes: now.arrived_bytes - before.arrived_bytes,
        segments: now.segments - before.segments,
        retransmits: now.retransmits - before.retransmits,
        fast_retransmits: now.fast_retransmits - before.fast_retransmits,
        timeouts: now.timeouts - before.timeouts,
        reordering: now.reordering,
        datagrams: now.datagrams,
        transfers: None,
    }
}

/// What the links have done until `now` since this was asked last.
fn links(engine: &mut Engine<'_>, scenario: &Scenario<'_>, now: Time) -> Vec<LinkOutcome> {
    (scenario.fabric.topology.links.keys())
        .map(|id| LinkOutcome {
            forward: engine.link(id, Side::A).take_counters(now),
            backward: engine.link(id, Side::B).take_counters(now),
        })
        .collect()
}
