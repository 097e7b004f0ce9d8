//! Receivers that find out how much to offer.

use std::sync::Arc;

use crate::network::{self, GIGABIT};
use crate::scenario;
use link::LinkSpec;
use machine::{Span, Time};
use sim::{FlowSpec, Outcome, Scenario};
use topology::{NodeId, Routes};
use transport::{ReceiveWindow, TransportKind, TransportSpec};

/// A flow for ten seconds over a link of 100 Mbit/s and 20 ms, which loses a share of the packets.
fn run(window: ReceiveWindow, loss_ppb: u32) -> Outcome {
    let delay = Span::from_ms(20);
    let slow = LinkSpec { rate_bps: Some(100_000_000), delay, queue_packets: Some(400), loss_ppb, ..GIGABIT };
    let fabric = network::network(2, 1, &[(0, 2, GIGABIT), (1, 2, slow)]);
    let routes = Arc::new(Routes::compute(&fabric.topology));
    let transport = TransportSpec {
        kind: TransportKind::Linux,
        window,
        initial_window: 10,
        delayed_ack: Some(Span::from_ms(40)),
        segment_bytes: 1_448,
        header_bytes: 66,
        ..network::reno(1)
    };
    sim::run(&Scenario {
        duration: Span::from_secs(10),
        ..scenario::plain(
            &fabric,
            &routes,
            &transport,
            &[FlowSpec { from: NodeId(0), to: NodeId(1), start: Time::ZERO }],
        )
    })
}

fn megabits(outcome: &Outcome) -> f64 {
    outcome.flows[0].delivered_bytes as f64 * 8.0 / 10.0 / 1e6
}

#[test]
fn a_window_grows_to_what_the_path_needs() {
    let [first, auto] = [ReceiveWindow::Segments(22), ReceiveWindow::Auto].map(|window| run(window, 0));
    // 22 segments a round trip, and a link that carries 95.6 Mbit/s of payload.
    assert!((6.0..6.4).contains(&megabits(&first)), "{}", megabits(&first));
    assert!((88.0..95.7).contains(&megabits(&auto)), "{}", megabits(&auto));
}

/// Holes, and acknowledgements that are lost which would have said that there is room again: it goes on.
#[test]
fn losses_do_not_close_a_window_for_ever() {
    let lossy = run(ReceiveWindow::Auto, 20_000_000);
    assert!(lossy.links[1].backward.losses > 20, "{:?}", lossy.links[1]);
    assert!(megabits(&lossy) > 1.0, "{}", megabits(&lossy));
}
