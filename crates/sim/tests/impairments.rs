//! Links that lose, duplicate, corrupt and reorder packets, and whose delays differ.

use std::sync::Arc;

use crate::network::{self, GIGABIT};
use crate::scenario;
use link::LinkSpec;
use machine::{Span, Time};
use sim::{FlowSpec, Outcome, Scenario};
use topology::{NodeId, Routes};
use transport::linux::{CongestionControl, Settings};
use transport::{TransportKind, TransportSpec};

/// One flow for ten seconds over a link of 20 Mbit/s and ten milliseconds, and that has something besides.
fn run(seed: u64, congestion_control: CongestionControl, impair: impl Fn(&mut LinkSpec)) -> Outcome {
    let delay = Span::from_ms(10);
    let mut slow = LinkSpec { rate_bps: Some(20_000_000), delay, queue_packets: Some(100), ..GIGABIT };
    impair(&mut slow);
    let fabric = network::network(2, 1, &[(0, 2, GIGABIT), (1, 2, slow)]);
    let routes = Arc::new(Routes::compute(&fabric.topology));
    let transport = TransportSpec {
        kind: TransportKind::Linux,
        initial_window: 10,
        delayed_ack: Some(Span::from_ms(40)),
        linux: Settings { congestion_control, ..Settings::default() },
        ..network::reno(1_000)
    };
    sim::run(&Scenario {
        duration: Span::from_secs(10),
        hosts: scenario::AWAKE,
        seed,
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

/// Reno over random losses gets what Mathis and others say (CCR 1997): sqrt(3/2) segments a round trip over the square root of the share that is lost, 8 Mbit/s here, less
/// what timeouts and acknowledgements cost.
#[test]
fn what_a_link_loses_is_sent_again_and_slows_reno_as_it_should() {
    for seed in 1..4 {
        let lossy = run(seed, CongestionControl::Reno, |link| {
            link.loss_ppb = 10_000_000;
            link.queue_packets = Some(2_000);
        });
        let to_receiver = lossy.links[1].backward;
        assert!(to_receiver.losses > 20 && to_receiver.drops == 0, "{to_receiver:?}");
        let again = lossy.flows[0].retransmits;
        assert!(
            again + 5 > to_receiver.losses && again < to_receiver.losses + 20,
            "{again} for {}",
            to_receiver.losses
        );
        let goodput = megabits(&lossy);
        assert!((4.0..9.0).contains(&goodput), "{goodput}");
        assert!(lossy.links[1].forward.losses > 5, "acknowledgements are lost, too");
        let sound = run(seed, CongestionControl::Reno, |_| {});
        assert_eq!(sound.links[1].backward.losses, 0);
        assert!(megabits(&sound) > 17.0, "{}", megabits(&sound));
    }
}

/// BBR does not take losses for congestion.
#[test]
fn bbr_goes_on_where_reno_does_not() {
    let lossy = |control| megabits(&run(1, control, |link| link.loss_ppb = 10_000_000));
    let (bbr, reno) = (lossy(CongestionControl::Bbr), lossy(CongestionControl::Reno));
    assert!(bbr > 15.0 && bbr > 2.0 * reno, "{bbr} and {reno}");
}

#[test]
fn jitter_reorders_nothing() {
    let late = run(1, CongestionControl::Cubic, |link| {
        link.jitter_ns = 5_000_000;
        link.queue_packets = Some(2_000);
    });
    let flow = &late.flows[0];
    assert_eq!((flow.reordering.reordered, flow.retransmits, late.links[1].backward.losses), (0, 0, 0), "{flow:?}");
    assert!(megabits(&late) > 15.0, "{}", megabits(&late));
}

/// Who gets a segment twice says so (DSACK), and its sender does not take that for a loss.
#[test]
fn what_comes_twice_costs_nothing() {
    let twice = run(1, CongestionControl::Cubic, |link| {
        link.duplicate_ppb = 20_000_000;
        link.queue_packets = Some(2_000);
    });
    let (flow, link) = (&twice.flows[0], twice.links[1].backward);
    assert!(link.duplicates > 200 && link.packets > 10_000, "{link:?}");
    assert!(flow.retransmits < 10, "{flow:?}");
    assert!(megabits(&twice) > 17.0, "{}", megabits(&twice));
}

/// To who sends, a segment that its receiver drops is one that was lost.
#[test]
fn what_is_corrupted_is_sent_again() {
    let corrupt = run(1, CongestionControl::Reno, |link| {
        link.corrupt_ppb = 10_000_000;
        link.queue_packets = Some(2_000);
    });
    let (flow, link) = (&corrupt.flows[0], corrupt.links[1].backward);
    assert!(link.corruptions > 20 && (link.losses, link.drops) == (0, 0), "{link:?}");
    assert!(flow.retransmits + 5 > link.corruptions && flow.retransmits < link.corruptions + 20, "{flow:?}");
    assert!((4.0..9.0).contains(&megabits(&corrupt)), "as if they were lost: {}", megabits(&corrupt));
}

/// Linux learns how far a path reorders (RACK, RFC 8985): what overtakes others costs little.
#[test]
fn what_overtakes_is_counted_and_is_no_loss() {
    let overtaken = run(1, CongestionControl::Cubic, |link| {
        link.reorder_ppb = 10_000_000;
        link.queue_packets = Some(2_000);
    });
    let (flow, link) = (&overtaken.flows[0], overtaken.links[1].backward);
    assert!(link.overtakes > 100 && link.losses == 0, "{link:?}");
    assert!(flow.reordering.reordered > link.overtakes / 2, "{flow:?}");
    assert!(megabits(&overtaken) > 15.0, "{}", megabits(&overtaken));
}
