//! One simulated run.

use std::sync::Arc;

use bond::End;
use fabric::{Fabric, LinkFault};
use machine::{Span, Time};
use serde::Serialize;
use topology::{NodeId, Routes, Side};
use transport::TransportSpec;
use transport::paced;
use vswitch::{Pipelines, Spread};

use crate::engine::{Engine, Flow, Udp};

/// What to simulate. Links' overrides have already been applied to `fabric`.
#[derive(Clone, Copy, Debug)]
pub struct Scenario<'a> {
    /// The network to simulate.
    pub fabric: &'a Fabric,
    /// The routes of the network.
    pub routes: &'a Arc<Routes>,
    /// How packets are spread.
    pub spread: Spread,
    /// The flows' transport.
    pub transport: &'a TransportSpec,
    /// The flows: which host sends to which, from when on; each sends without end.
    pub flows: &'a [FlowSpec],
    /// When measuring starts.
    pub warm_up: Span,
    /// How long it is measured.
    pub duration: Span,
    /// Of UDP: numbered datagrams a second of each flow, at an even pace. `None`: as fast as it goes.
    pub rate_pps: Option<u64>,
    /// Faults of links, by the time since measuring began.
    pub faults: &'a [LinkFault],
    /// What switches do besides forwarding along the routes.
    pub pipelines: &'a Pipelines,
    /// The seed of all randomness.
    pub seed: u64,
}

/// A flow that sends without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The host that sends.
    pub from: NodeId,
    /// The host that receives.
    pub to: NodeId,
    /// When it starts.
    pub start: Time,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// In the order of [`Scenario::flows`].
    pub flows: Vec<FlowOutcome>,
    /// In the order of [`Fabric::links`].
    pub links: Vec<LinkOutcome>,
    /// In the order of [`Fabric::bonds`]; warm-up included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bonds: Vec<BondOutcome>,
    /// One packet or ACK over one link is one packet-hop; warm-up included.
    pub packet_hops: u64,
}

/// What a flow did while it was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowOutcome {
    /// Payload bytes that reached the receiving application, in order.
    pub delivered_bytes: u64,
    /// Segments sent, also again.
    pub segments: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Times that the duplicate-ACK threshold was reached.
    pub fast_retransmits: u64,
    /// Retransmission timeouts that expired.
    pub timeouts: u64,
    /// Reordering seen by the receiver.
    pub reordering: transport::reordering::Counters,
    /// What became of the datagrams, where they were sent at an even pace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<paced::Outcome>,
}

/// What a link did while it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkOutcome {
    /// From end A to end B.
    pub forward: link::Counters,
    /// From end B to end A.
    pub backward: link::Counters,
}

/// What a bond's end has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BondOutcome {
    /// Frames handed on, or held until they were.
    pub accepted: u64,
    /// Frames dropped since their member did not receive.
    pub inactive: u64,
    /// What resequencing did, where it is on.
    pub reordering: Option<bond::reorder::Counters>,
}

impl BondOutcome {
    pub(crate) fn of<P>(end: &End<P>) -> Self {
        Self {
            accepted: end.counters().accepted,
            inactive: end.counters().inactive,
            reordering: end.reordering().copied(),
        }
    }
}

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
    let before = measure_flows(&mut engine, segment_bytes);
    links(&mut engine, scenario);
    engine.run_through_faults(start, scenario.duration, scenario.faults);
    let after = measure_flows(&mut engine, segment_bytes);
    let mut flows: Vec<_> = after.iter().zip(&before).map(|(after, before)| since(after, before)).collect();
    let links = links(&mut engine, scenario);
    if scenario.rate_pps.is_some() {
        // What was sent at the end is still under way.
        engine.run_before(start + scenario.duration + paced::TAIL);
        note_datagrams(&mut engine, &mut flows);
    }
    Outcome { flows, links, bonds: engine.bonds(), packet_hops: engine.packet_hops() }
}

/// What each flow has done since the start; its reordering since this was asked last.
fn measure_flows(engine: &mut Engine<'_>, segment_bytes: u64) -> Vec<FlowOutcome> {
    let (flows, udp) = engine.flows();
    let tcp = |flow: &mut Flow| {
        let sent = flow.sender.counters();
        FlowOutcome {
            delivered_bytes: flow.receiver.delivered_bytes(),
            segments: sent.segments,
            retransmits: sent.retransmits,
            fast_retransmits: sent.fast_retransmits,
            timeouts: sent.timeouts,
            reordering: flow.meter.take(),
            datagrams: None,
        }
    };
    if udp.is_empty() {
        return flows.iter_mut().map(tcp).collect();
    }
    let did = |udp: &Udp| match udp {
        Udp::Bulk { sender, receiver } => (receiver.complete() * u64::from(transport::udp::FRAGMENTS), sender.sent()),
        Udp::Paced { sender, receiver } => (receiver.arrived(), sender.sent()),
    };
    let udp = flows.iter_mut().zip(udp).map(|(flow, udp)| FlowOutcome {
        delivered_bytes: did(udp).0 * segment_bytes,
        segments: did(udp).1,
        retransmits: 0,
        fast_retransmits: 0,
        timeouts: 0,
        reordering: flow.meter.take(),
        datagrams: None,
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
        segments: now.segments - before.segments,
        retransmits: now.retransmits - before.retransmits,
        fast_retransmits: now.fast_retransmits - before.fast_retransmits,
        timeouts: now.timeouts - before.timeouts,
        reordering: now.reordering,
        datagrams: now.datagrams,
    }
}

/// What the links have done since this was asked last.
fn links(engine: &mut Engine<'_>, scenario: &Scenario<'_>) -> Vec<LinkOutcome> {
    (scenario.fabric.topology.links.keys())
        .map(|id| LinkOutcome {
            forward: engine.link(id, Side::A).take_counters(),
            backward: engine.link(id, Side::B).take_counters(),
        })
        .collect()
}
