//! Hosts that cost something: flows over links that are faster than the machine.

use std::sync::Arc;

use crate::network::{self, GIGABIT};
use crate::scenario;
use fabric::{Fabric, Transfers};
use link::LinkSpec;
use machine::{Span, Time};
use sim::{FlowSpec, HostCosts, Outcome, PacketCost, Scenario};
use topology::{NodeId, Routes};
use transport::transfers::Sizes;
use transport::{TransportKind, TransportSpec};

const FAST: LinkSpec = LinkSpec {
    rate_bps: Some(100_000_000_000),
    delay: Span::from_us(1),
    queue_packets: Some(10_000),
    ..LinkSpec::UNSHAPED
};
const MILLISECONDS: u64 = 50;

/// Two microseconds to send a segment of 1,000 bytes, and to receive it.
fn costs(cores: u32) -> HostCosts {
    let cost = PacketCost { packet: Span::from_us(2), byte: Span::ZERO };
    HostCosts { cores, sent: cost, received: cost, wake_up: Span::ZERO }
}

/// Two hosts and a switch.
fn pair(spec: LinkSpec) -> Fabric {
    network::network(2, 1, &[(0, 2, spec), (1, 2, spec)])
}

struct Load {
    kind: TransportKind,
    flows: usize,
    rate_pps: Option<u64>,
    transfers: Option<Transfers>,
}

const TCP: Load = Load { kind: TransportKind::Linux, flows: 1, rate_pps: None, transfers: None };

fn run(fabric: &Fabric, load: &Load, hosts: Option<HostCosts>) -> Outcome {
    let transport = TransportSpec { kind: load.kind, initial_window: 10, ..network::reno(500) };
    sim::run(&Scenario {
        warm_up: Span::from_ms(50),
        duration: Span::from_ms(MILLISECONDS),
        rate_pps: load.rate_pps,
        transfers: load.transfers.as_ref(),
        requests: None,
        hosts,
        ..scenario::plain(
            fabric,
            &Arc::new(Routes::compute(&fabric.topology)),
            &transport,
            &vec![FlowSpec { from: NodeId(0), to: NodeId(1), start: Time::ZERO }; load.flows],
        )
    })
}

/// Segments of 1,000 bytes a millisecond that came, of all flows.
fn segments_a_ms(outcome: &Outcome) -> f64 {
    let bytes: u64 = outcome.flows.iter().map(|flow| flow.arrived_bytes).sum();
    bytes as f64 / 1_000.0 / MILLISECONDS as f64
}

#[test]
fn a_link_that_is_faster_than_its_hosts_carries_what_they_can() {
    for kind in [TransportKind::Linux, TransportKind::Sack] {
        for (cores, flows, capacity) in [
            (1, 1, 250.0),
            (1, 4, 250.0),
            (2, 1, 500.0),
            // A flow has one core on each side at most.
            (8, 1, 500.0),
            (8, 3, 1_500.0),
        ] {
            let outcome = run(&pair(FAST), &Load { kind, flows, ..TCP }, Some(costs(cores)));
            let came = segments_a_ms(&outcome);
            assert!(
                (came / capacity - 1.0).abs() < 0.02,
                "{kind:?}, {flows} flows on {cores} cores: {came} of {capacity}"
            );
            let retransmits: u64 = outcome.flows.iter().map(|flow| flow.retransmits).sum();
            assert_eq!((outcome.host_drops, retransmits), (Some(0), 0), "nothing is lost: senders wait");
        }
    }
}

#[test]
fn a_slow_link_is_as_slow_with_hosts_that_have_time() {
    let rates = [None, Some(costs(2))].map(|hosts| segments_a_ms(&run(&pair(GIGABIT), &TCP, hosts)));
    assert!((rates[0] / rates[1] - 1.0).abs() < 0.01, "{rates:?}");
}

#[test]
fn datagrams_at_a_pace_that_is_too_fast_come_as_fast_as_they_can() {
    let load = |rate_pps| Load { kind: TransportKind::Udp, rate_pps: Some(rate_pps), ..TCP };
    let came = |load: &Load| segments_a_ms(&run(&pair(FAST), load, Some(costs(1))));
    assert!((came(&load(100_000)) - 100.0).abs() < 0.5);
    assert!((came(&load(1_000_000)) / 250.0 - 1.0).abs() < 0.02);
}

/// Sending is cheap here, so that the receiver falls behind.
#[test]
fn what_a_receiver_has_no_time_for_is_dropped_and_counted() {
    let costs = HostCosts { sent: PacketCost::default(), ..costs(1) };
    let load = Load { kind: TransportKind::Udp, rate_pps: Some(1_000_000), ..TCP };
    let outcome = run(&pair(FAST), &load, Some(costs));
    let dropped = outcome.host_drops.expect("hosts cost something") as f64 / MILLISECONDS as f64;
    assert!((dropped / 500.0 - 1.0).abs() < 0.02, "{dropped} of 1000 a millisecond; 500 can be received");
}

/// A core wakes up for the request for a connection, and whenever something comes: request, answer, data. Who has just received something is awake when it answers.
#[test]
fn idle_hosts_answer_later() {
    let transfers = Some(Transfers { size: Sizes::fixed(1_000), every: Span::from_ms(5) });
    let fabric = pair(FAST);
    let fastest = |wake_up| {
        let outcome =
            run(&fabric, &Load { transfers: transfers.clone(), ..TCP }, Some(HostCosts { wake_up, ..costs(2) }));
        let transfers = outcome.flows[0].transfers.clone().expect("they come and go");
        assert!(transfers.unfinished == 0 && transfers.started > 0, "{transfers:?}");
        *transfers.times_ns.iter().min().expect("there are some")
    };
    let later = fastest(Span::from_us(30)) as f64 - fastest(Span::ZERO) as f64;
    assert!((later - 120_000.0).abs() < 1_000.0, "{later} ns");
}

#[test]
fn messages_as_fast_as_they_go_are_held_back() {
    let outcome = run(&pair(FAST), &Load { kind: TransportKind::Udp, ..TCP }, Some(costs(1)));
    let came = segments_a_ms(&outcome);
    assert!((200.0..251.0).contains(&came), "{came}");
    assert_eq!(outcome, run(&pair(FAST), &Load { kind: TransportKind::Udp, ..TCP }, Some(costs(1))));
}
