//! What Linux's congestion controls make of a queue.

use std::sync::Arc;

use crate::network::{self, GIGABIT};
use crate::scenario;
use fabric::Fabric;
use link::LinkSpec;
use machine::{Span, Time};
use sim::{FlowSpec, Outcome, Scenario};
use topology::{NodeId, Routes};
use transport::linux::{CongestionControl, Settings};
use transport::{TransportKind, TransportSpec};

/// Four hosts that send to a fifth over one link of 100 Mbit/s and a millisecond.
fn incast(queue: u32, ecn: Option<u32>) -> Fabric {
    let slow = LinkSpec {
        rate_bps: Some(100_000_000),
        delay: Span::from_ms(1),
        queue_packets: Some(queue),
        ecn_packets: ecn.and_then(std::num::NonZeroU32::new),
        ..GIGABIT
    };
    let links: Vec<_> = (0..4).map(|host| (host, 5, GIGABIT)).chain([(4, 5, slow)]).collect();
    network::network(5, 1, &links)
}

fn run(fabric: &Fabric, linux: Settings) -> Outcome {
    run_of(4, fabric, linux)
}

/// With so many of the senders.
fn run_of(senders: u32, fabric: &Fabric, linux: Settings) -> Outcome {
    let routes = Arc::new(Routes::compute(&fabric.topology));
    let flows: Vec<_> = (0..senders)
        .map(|n| FlowSpec { from: NodeId(n), to: NodeId(4), start: Time::from_ns(u64::from(n) * 70_000) })
        .collect();
    let transport = TransportSpec {
        kind: TransportKind::Linux,
        initial_window: 10,
        delayed_ack: Some(Span::from_ms(40)),
        linux,
        ..network::reno(1_000)
    };
    sim::run(&Scenario {
        warm_up: Span::from_ms(500),
        duration: Span::from_secs(2),
        hosts: scenario::AWAKE,
        ..scenario::plain(fabric, &routes, &transport, &flows)
    })
}

/// Of the link to the receiver: bits a second that the flows got, packets dropped and marked, and the longest queue.
fn at_the_receiver(outcome: &Outcome) -> (u64, u64, u64, u32) {
    let delivered: u64 = outcome.flows.iter().map(|flow| flow.delivered_bytes).sum();
    let link = outcome.links[4].backward;
    (delivered * 8 / 2, link.drops, link.marks, link.queue_peak)
}

#[test]
fn marks_take_the_place_of_drops() {
    let asks = Settings { ecn: 1, ..Settings::default() };
    for congestion_control in [CongestionControl::Cubic, CongestionControl::Reno] {
        let without =
            at_the_receiver(&run(&incast(60, Some(30)), Settings { congestion_control, ..Settings::default() }));
        assert!(without.1 > 0 && without.2 == 0, "nobody asks for marks: {without:?}");
        let outcome = run(&incast(200, Some(30)), Settings { congestion_control, ..asks });
        let marked = at_the_receiver(&outcome);
        assert!(marked.0 > 88_000_000 && marked.1 == 0 && marked.2 > 10, "{congestion_control:?}: {marked:?}");
        assert!(outcome.flows.iter().all(|flow| flow.retransmits == 0), "{congestion_control:?}");
        let forth: u64 = outcome.links.iter().map(|link| link.forward.marks).sum();
        assert_eq!(forth, 0, "acknowledgements are never marked, nor do they wait");
    }
}

/// DCTCP keeps the queue at its threshold, where Reno lets it run half empty or needs a longer one (Alizadeh et al., SIGCOMM 2010).
#[test]
fn dctcp_fills_a_link_over_a_short_queue() {
    let with = |congestion_control| {
        let settings = Settings { congestion_control, ecn: 1, ..Settings::default() };
        at_the_receiver(&run(&incast(200, Some(8)), settings))
    };
    let (dctcp, reno) = (with(CongestionControl::Dctcp), with(CongestionControl::Reno));
    assert!(dctcp.0 > 93_000_000 && dctcp.1 == 0 && dctcp.0 > reno.0, "{dctcp:?} {reno:?}");
    assert!(dctcp.2 > 2 * reno.2, "it needs many marks: {dctcp:?} {reno:?}");
}

/// BBR's window follows what the link carries, and not what its queue holds (Cardwell et al., CACM 2017).
#[test]
fn bbr_fills_a_link_over_a_long_queue_that_stays_short() {
    let with = |congestion_control| {
        let settings = Settings { congestion_control, ..Settings::default() };
        at_the_receiver(&run_of(1, &incast(1_000, None), settings))
    };
    let (bbr, cubic) = (with(CongestionControl::Bbr), with(CongestionControl::Cubic));
    assert!(bbr.0 > 93_000_000 && bbr.1 == 0 && bbr.3 < 60, "{bbr:?}");
    assert!(cubic.3 > 4 * bbr.3, "{cubic:?} {bbr:?}");
}

/// Where a queue is shorter than the path, BBR goes on at the rate of the link, though much is lost, and four flows share it.
#[test]
fn bbr_does_not_take_losses_for_congestion() {
    let settings = Settings { congestion_control: CongestionControl::Bbr, ..Settings::default() };
    let outcome = run(&incast(20, None), settings);
    let bbr = at_the_receiver(&outcome);
    assert!(bbr.0 > 85_000_000 && bbr.1 > 0, "{bbr:?}");
    assert!(outcome.flows.iter().all(|flow| flow.delivered_bytes * 8 / 2 > 5_000_000), "{outcome:?}");
}
