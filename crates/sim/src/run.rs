//! One simulated run.

use std::ops::Range;

use machine::{Span, Time};
use topology::Side;
use transport::{paced, transfers};

use crate::capture::Capturing;
use crate::engine::{Engine, Flow};
use crate::udp::Udp;
use crate::{FlowOutcome, FlowSample, LinkOutcome, Outcome, Sample, Scenario};

/// Simulates one run. The same scenario gives the same outcome on every machine.
///
/// What happens at `warm_up` is measured, what happens at its end (`warm_up + duration`) is not.
///
/// # Panics
/// If a flow's end is not a host of the fabric, if the fabric is not connected, or if time stands still because a flow
/// crosses only links without rate and delay.
pub fn run(scenario: &Scenario<'_>) -> Outcome {
    run_while(scenario, &|| true).expect("nobody ends it")
}

/// The same, as long as `goes_on` says so; then `None`. It is asked after each [`SLICE`] of simulated time at the latest.
pub fn run_while(scenario: &Scenario<'_>, goes_on: &dyn Fn() -> bool) -> Option<Outcome> {
    run_capturing(scenario, goes_on, &mut Capturing { ports: &[], show: &mut |_| {} })
}

/// The same, and what passes some ports is shown, from the warm-up on. Nothing else is otherwise for it.
pub fn run_capturing(
    scenario: &Scenario<'_>,
    goes_on: &dyn Fn() -> bool,
    capturing: &mut Capturing<'_>,
) -> Option<Outcome> {
    let mut engine = Engine::new(scenario, capturing.ports);
    let start = Time::ZERO + engine.convergence() + scenario.warm_up;
    let segment_bytes = u64::from(scenario.transport.segment_bytes);
    for slice in slices(Span::ZERO..start - Time::ZERO, capturing.slice()) {
        engine.run_before(Time::ZERO + slice.end);
        capturing.show_until(&mut engine, Time::ZERO + slice.end);
        goes_on().then_some(())?;
    }
    let dropped_before = engine.host_drops();
    let lost_before = engine.lost().clone();
    let before = measure_flows(&mut engine, segment_bytes);
    links(&mut engine, scenario, start);
    let samples = run_in_steps(&mut engine, (scenario, start), goes_on, capturing)?;
    let end = start + scenario.duration;
    let after = measure_flows(&mut engine, segment_bytes);
    let mut flows: Vec<_> = after.iter().zip(&before).map(|(after, before)| since(after, before)).collect();
    let links = links(&mut engine, scenario, end);
    let host_drops = engine.host_drops().zip(dropped_before).map(|(now, before)| now - before);
    let lost = engine.lost().iter().map(|(reason, lost)| (*reason, lost - lost_before.get(reason).unwrap_or(&0)));
    let lost = lost.filter(|(_, lost)| *lost > 0).collect();
    if scenario.rate_pps.is_some() {
        // What was sent at the end is still under way.
        run_on(&mut engine, end..end + paced::TAIL, capturing);
        note_datagrams(&mut engine, &mut flows);
    }
    if scenario.transfers.is_some() {
        run_on(&mut engine, end..end + transfers::PATIENCE, capturing);
        for (flow, came) in flows.iter_mut().zip(engine.transfers()) {
            flow.transfers = Some(came);
        }
    }
    if let Some(load) = scenario.requests {
        // What has begun ends by then.
        run_on(&mut engine, end..end + load.timeout + Span::from_ms(1), capturing);
    }
    capturing.show_until(&mut engine, Time::NEVER);
    Some(Outcome {
        flows,
        requests: engine.take_requests(),
        links,
        bonds: engine.bonds(),
        functions: engine.functions(),
        built_in: engine.built_in_functions(),
        packet_hops: engine.packet_hops(),
        samples,
        host_drops,
        lost,
    })
}

/// How much is simulated before it is asked whether to go on: some ten thousand packets of one fast link.
const SLICE: Span = Span::from_ms(10);
/// The same of a run that is captured: what waits to be shown is kept in memory.
const CAPTURED_SLICE: Span = Span::from_us(100);

/// A time in pieces of such a length, of which the last may be shorter.
fn slices(time: Range<Span>, length: Span) -> impl Iterator<Item = Range<Span>> {
    let mut at = time.start;
    std::iter::from_fn(move || {
        let slice = at..time.end.min(at + length);
        at = slice.end;
        (!slice.is_empty()).then_some(slice)
    })
}

/// Lets happen what is left when all is measured.
fn run_on(engine: &mut Engine<'_>, time: Range<Time>, capturing: &mut Capturing<'_>) {
    for slice in slices(time.start - Time::ZERO..time.end - Time::ZERO, capturing.slice()) {
        engine.run_before(Time::ZERO + slice.end);
        capturing.show_until(engine, Time::ZERO + slice.end);
    }
}

/// Runs through the measured time, and notes how things stand after each step where that is asked for.
fn run_in_steps(
    engine: &mut Engine<'_>,
    (scenario, start): (&Scenario<'_>, Time),
    goes_on: &dyn Fn() -> bool,
    capturing: &mut Capturing<'_>,
) -> Option<Vec<Sample>> {
    let recorded = scenario.time_series.filter(|step| *step > Span::ZERO);
    let mut samples = Vec::new();
    samples.extend(recorded.map(|_| sample(engine, scenario, start, Span::ZERO)));
    for step in slices(Span::ZERO..scenario.duration, recorded.unwrap_or(scenario.duration)) {
        let end = step.end;
        for slice in slices(step, capturing.slice()) {
            let until = start + slice.end;
            engine.run_through_faults(start, slice, scenario.faults);
            capturing.show_until(engine, until);
            goes_on().then_some(())?;
        }
        samples.extend(recorded.map(|_| sample(engine, scenario, start, end)));
    }
    Some(samples)
}

impl Capturing<'_> {
    const fn slice(&self) -> Span {
        if self.ports.is_empty() { SLICE } else { CAPTURED_SLICE }
    }

    /// Shows what has passed until then.
    fn show_until(&mut self, engine: &mut Engine<'_>, until: Time) {
        engine.take_captured(until).into_iter().for_each(&mut *self.show);
    }
}

fn sample(engine: &mut Engine<'_>, scenario: &Scenario<'_>, start: Time, at: Span) -> Sample {
    let links = scenario.fabric.topology.links.keys().map(|link| engine.link_counters(link, start + at)).collect();
    if scenario.transfers.is_some() {
        return Sample { at, flows: Vec::new(), links };
    }
    let segment_bytes = u64::from(scenario.transport.segment_bytes);
    let (flows, udp) = engine.flows();
    let of = |(number, flow): (usize, &mut Flow)| match udp.get(number) {
        None => flow.sample(),
        Some(udp) => FlowSample {
            delivered_bytes: received_and_sent(udp).0 * segment_bytes,
            arrived_bytes: flow.meter.delivered(),
            retransmits: 0,
            reordered: flow.meter.counters().reordered,
            cwnd_bytes: None,
            rtt: None,
        },
    };
    Sample { at, flows: flows.iter_mut().enumerate().map(of).collect(), links }
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
    let did = flows.iter_mut().zip(udp).map(|(flow, udp)| {
        let (received, segments) = received_and_sent(udp);
        FlowOutcome {
            delivered_bytes: received * segment_bytes,
            arrived_bytes: flow.meter.delivered(),
            segments,
            reordering: flow.meter.take(),
            delays: flow.delays.take(),
            ..FlowOutcome::default()
        }
    });
    did.collect()
}

/// Packets of UDP that have reached the program, and those that were sent.
fn received_and_sent(udp: &Udp) -> (u64, u64) {
    match udp {
        Udp::Bulk { sender, receiver, .. } => {
            let fragments = u64::from(transport::udp::FRAGMENTS);
            (receiver.complete() * fragments, sender.sent() * fragments)
        }
        Udp::Paced { sender, receiver } => (receiver.arrived(), sender.sent()),
    }
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
        delays: now.delays.clone(),
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
