//! How a run stands from step to step.

use std::sync::Arc;

use crate::network::{self, GIGABIT};
use crate::scenario;
use fabric::LinkFault;
use link::LinkSpec;
use machine::{Span, Time};
use sim::{FlowSpec, Outcome, Scenario};
use topology::{NodeId, Routes};
use transport::{TransportKind, TransportSpec};

/// A flow over a link of 20 Mbit/s, whose cable is out for half a second.
fn run(kind: TransportKind, time_series: Option<Span>) -> Outcome {
    let slow = LinkSpec { rate_bps: Some(20_000_000), delay: Span::from_ms(2), queue_packets: Some(20), ..GIGABIT };
    let fabric = network::network(2, 1, &[(0, 2, GIGABIT), (1, 2, slow)]);
    let routes = Arc::new(Routes::compute(&fabric.topology));
    let transport = TransportSpec { kind, initial_window: 10, window: 200.into(), ..network::reno(1_000) };
    let fault =
        |ms: u64, up: bool| LinkFault { at: Span::from_ms(ms), between: (NodeId(1), NodeId(2)), number: None, up };
    sim::run(&Scenario {
        warm_up: Span::from_ms(500),
        duration: Span::from_ms(2_950),
        time_series,
        faults: &[fault(1_000, false), fault(1_500, true)],
        ..scenario::plain(
            &fabric,
            &routes,
            &transport,
            &[FlowSpec { from: NodeId(0), to: NodeId(1), start: Time::ZERO }],
        )
    })
}

/// What an outcome says besides its samples.
fn without_samples(outcome: &Outcome) -> Outcome {
    Outcome { samples: Vec::new(), ..outcome.clone() }
}

#[test]
fn to_be_recorded_changes_nothing() {
    for kind in [TransportKind::Linux, TransportKind::Sack, TransportKind::Udp] {
        let step = Span::from_ms(100);
        let (recorded, plain) = (run(kind, Some(step)), run(kind, None));
        assert!(plain.samples.is_empty());
        assert_eq!(without_samples(&recorded), plain, "{kind:?}");
        // The last step is half as long as the others.
        assert_eq!(recorded.samples.len(), 31);
        assert_eq!((recorded.samples[0].at, recorded.samples[30].at), (Span::ZERO, Span::from_ms(2_950)));
    }
}

#[test]
fn samples_add_up_to_the_outcome() {
    for kind in [TransportKind::Linux, TransportKind::Sack] {
        let outcome = run(kind, Some(Span::from_ms(100)));
        let (first, last) = (&outcome.samples[0], &outcome.samples[30]);
        let flow = &outcome.flows[0];
        assert_eq!(last.flows[0].arrived_bytes - first.flows[0].arrived_bytes, flow.arrived_bytes, "{kind:?}");
        assert_eq!(last.flows[0].delivered_bytes - first.flows[0].delivered_bytes, flow.delivered_bytes, "{kind:?}");
        assert_eq!(last.flows[0].retransmits - first.flows[0].retransmits, flow.retransmits, "{kind:?}");
        assert_eq!(last.links, outcome.links, "{kind:?}");
        assert!(outcome.samples.iter().all(|sample| sample.flows[0].cwnd_bytes.is_some_and(|cwnd| cwnd >= 1_000)));
        let came = |ms: std::ops::Range<usize>| {
            outcome.samples[ms.end].flows[0].arrived_bytes - outcome.samples[ms.start].flows[0].arrived_bytes
        };
        assert_eq!(came(11..15), 0, "{kind:?}: the cable is out");
        assert!(came(0..10) > 1_000_000 && came(20..30) > 500_000, "{kind:?}");
    }
}
