//! Bonds in the simulation: what two links together carry, in every mode.

use fabric::{Fabric, Overrides, Reordering, Routes, Source, Spread, TransportKind, TransportSpec};
use machine::{Span, Time};
use sim::{FlowSpec, Outcome, Scenario, run};

const PAIR: &str = "
name: pair
nodes: { h1: host, h2: host, s1: switch }
link-defaults: { rate: 1Gbit, delay: 20us, queue: 250 }
links:
  - between: [h1, s1]
  - between: [h2, s1]
bonds:
  - { host: h1, members: 2 }
  - { host: h2, members: 2 }
";

fn fabric(text: &str, overrides: &Overrides) -> Fabric {
    let source = Source { name: "test".into(), text: text.into() };
    fabric::parse(&source).unwrap_or_else(|error| panic!("{error:?}")).with(overrides)
}

fn simulate(fabric: &Fabric, kind: TransportKind, flows: u32) -> Outcome {
    let transport = TransportSpec {
        kind,
        window: 256,
        initial_window: 10,
        duplicate_ack_threshold: 3,
        delayed_ack: Some(Span::from_ms(40)),
        segment_bytes: 1_460,
        header_bytes: 54,
        rto_min: Span::from_ms(200),
    };
    let (from, to) = (fabric::NodeId(0), fabric::NodeId(1));
    let start = |n: u32| Time::ZERO + Span::from_us(700) * u64::from(n);
    let flows: Vec<_> = (0..flows).map(|n| FlowSpec { from, to, start: start(n) }).collect();
    run(&Scenario {
        fabric,
        routes: &Routes::compute(fabric),
        spread: Spread::Single,
        transport: &transport,
        flows: &flows,
        warm_up: Span::from_secs(2),
        duration: Span::from_ms(500),
        seed: 3,
    })
}

/// In Mbit/s, of all flows.
fn goodput(outcome: &Outcome) -> f64 {
    outcome.flows.iter().map(|flow| flow.delivered_bytes as f64 * 8.0 / 0.5 / 1e6).sum()
}

fn case(mode: &str, members: u32, reorder: Reordering) -> Overrides {
    Overrides {
        bond_mode: Some(mode.parse().expect("it is a mode")),
        bond_members: Some(members),
        reorder: Some(reorder),
        ..Overrides::default()
    }
}

#[test]
fn tcp_gains_from_round_robin_once_arrivals_are_in_order() {
    let with = simulate(&fabric(PAIR, &case("balance-rr", 2, Reordering::On)), TransportKind::Sack, 1);
    assert!(goodput(&with) > 1_850.0, "{} Mbit/s", goodput(&with));
    assert_eq!(with.flows[0].reordering.reordered, 0);
    let udp = simulate(&fabric(PAIR, &case("balance-rr", 2, Reordering::Off)), TransportKind::Udp, 1);
    assert!(goodput(&udp) > 1_900.0, "{} Mbit/s", goodput(&udp));
}

#[test]
fn every_mode_carries_every_number_of_members() {
    for mode in ["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"] {
        for members in [1, 2, 8] {
            for kind in [TransportKind::Sack, TransportKind::Udp] {
                let outcome = simulate(&fabric(PAIR, &case(mode, members, Reordering::On)), kind, 1);
                let one = goodput(&outcome);
                assert!(one > 900.0, "{mode} over {members} members, {kind:?}: {one} Mbit/s");
                let many = mode == "balance-rr" && members > 1;
                assert!(many || one < 970.0, "{mode} over {members} members, {kind:?}: {one} Mbit/s of one flow");
            }
        }
    }
}

#[test]
fn flows_spread_over_members_where_a_hash_chooses() {
    let mut options = String::from(PAIR);
    options =
        options.replace("members: 2 }", "members: 2, mode: 802.3ad, xmit_hash_policy: layer3+4, lacp_rate: fast }");
    let outcome = simulate(&fabric(&options, &Overrides::default()), TransportKind::Sack, 16);
    assert!(goodput(&outcome) > 1_800.0, "{} Mbit/s", goodput(&outcome));
    let flows = &outcome.flows;
    assert!(flows.iter().all(|flow| flow.reordering.reordered == 0), "a flow stays on its member");
}

#[test]
fn copies_of_broadcast_come_once_where_arrivals_are_numbered() {
    let with = simulate(&fabric(PAIR, &case("broadcast", 2, Reordering::On)), TransportKind::Sack, 1);
    let copies: u64 = with.bonds.iter().filter_map(|bond| bond.reordering).map(|counters| counters.duplicates).sum();
    let segments = with.flows[0].segments;
    assert!(copies > segments, "{copies} copies of {segments} segments");
    assert_eq!(with.flows[0].retransmits, 0);
}

#[test]
fn a_run_gives_the_same_outcome_again() {
    for mode in ["balance-rr", "802.3ad", "balance-alb"] {
        let fabric = fabric(PAIR, &case(mode, 4, Reordering::On));
        let outcomes: Vec<_> = (0..2).map(|_| simulate(&fabric, TransportKind::Sack, 3)).collect();
        assert_eq!(outcomes[0], outcomes[1], "{mode}");
    }
}
