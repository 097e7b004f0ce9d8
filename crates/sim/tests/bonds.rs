//! Bonds in the simulation: what two links together carry, in every mode.

use crate::scenario;
use std::sync::Arc;

use fabric::{BondSetting, Fabric, LinkFault, Overrides, Reordering, Source};
use machine::{Span, Time};
use sim::{FlowSpec, Outcome, Scenario, run};
use topology::{Routes, Side};
use transport::{TransportKind, TransportSpec};

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
    simulate_with(fabric, kind, flows, None, &[])
}

fn simulate_with(
    fabric: &Fabric,
    kind: TransportKind,
    flows: u32,
    rate_pps: Option<u64>,
    faults: &[LinkFault],
) -> Outcome {
    let (from, to) = (topology::NodeId(0), topology::NodeId(1));
    let start = |n: u32| Time::ZERO + Span::from_us(700) * u64::from(n);
    let flows: Vec<_> = (0..flows).map(|n| FlowSpec { from, to, start: start(n) }).collect();
    simulate_flows(fabric, kind, &flows, rate_pps, faults)
}

fn simulate_flows(
    fabric: &Fabric,
    kind: TransportKind,
    flows: &[FlowSpec],
    rate_pps: Option<u64>,
    faults: &[LinkFault],
) -> Outcome {
    let transport = TransportSpec {
        kind,
        window: 256.into(),
        initial_window: 10,
        duplicate_ack_threshold: 3,
        delayed_ack: Some(Span::from_ms(40)),
        segment_bytes: 1_460,
        header_bytes: 54,
        rto_min: Span::from_ms(200),
        linux: transport::linux::Settings::default(),
    };
    run(&Scenario {
        warm_up: Span::from_secs(2),
        duration: Span::from_ms(500),
        rate_pps,
        faults,
        seed: 3,
        ..scenario::plain(fabric, &Arc::new(Routes::compute(&fabric.topology)), &transport, flows)
    })
}

/// In Mbit/s, of all flows.
fn goodput(outcome: &Outcome) -> f64 {
    outcome.flows.iter().map(|flow| flow.delivered_bytes as f64 * 8.0 / 0.5 / 1e6).sum()
}

fn case(mode: &str, members: u32, reorder: Reordering) -> Overrides {
    let mode = BondSetting::Mode(mode.parse().expect("it is a mode"));
    Overrides::from([mode, BondSetting::Members(members), BondSetting::Reorder(reorder)])
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
    let slower = PAIR.replace("1Gbit, delay: 20us", "100Mbit, delay: 200us");
    for mode in ["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"] {
        for members in [1, 2, 8] {
            for kind in [TransportKind::Sack, TransportKind::Udp] {
                let outcome = simulate(&fabric(&slower, &case(mode, members, Reordering::On)), kind, 1);
                let one = goodput(&outcome);
                assert!(one > 90.0, "{mode} over {members} members, {kind:?}: {one} Mbit/s");
                let many = mode == "balance-rr" && members > 1;
                assert!(many || one < 97.0, "{mode} over {members} members, {kind:?}: {one} Mbit/s of one flow");
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
    for mode in ["balance-rr", "802.3ad"] {
        let fabric = fabric(PAIR, &case(mode, 4, Reordering::On));
        let outcomes: Vec<_> = (0..2).map(|_| simulate(&fabric, TransportKind::Sack, 3)).collect();
        assert_eq!(outcomes[0], outcomes[1], "{mode}");
    }
}

/// The member with this number of h1's bond goes down, or comes up.
fn fault(fabric: &Fabric, ms: u64, number: u32, up: bool) -> LinkFault {
    let between = (fabric.topology.node("h1").unwrap(), fabric.topology.node("s1").unwrap());
    LinkFault { at: Span::from_ms(ms), between, number: Some(number), up }
}

/// The first member's carrier goes in a stream of 10,000 datagrams a second: what was on the cable is lost, nothing else, and each
/// end goes on with the next datagram. Again when the second one goes, after the first came back.
#[test]
fn a_lost_carrier_costs_what_was_on_the_cable() {
    for mode in ["balance-rr", "active-backup", "balance-xor", "802.3ad", "balance-tlb", "balance-alb"] {
        let fabric = fabric(PAIR, &case(mode, 2, Reordering::Off));
        let quiet = simulate_with(&fabric, TransportKind::Udp, 1, Some(10_000), &[]);
        let datagrams = quiet.flows[0].datagrams.expect("they are counted");
        assert_eq!((datagrams.sent, datagrams.lost, datagrams.duplicates), (5_000, 0, 0), "{mode}");
        assert!((100..=101).contains(&(datagrams.longest_gap.as_ns() / 1_000)), "{mode}: {datagrams:?}");
        let faults = [fault(&fabric, 100, 1, false), fault(&fabric, 200, 1, true), fault(&fabric, 400, 2, false)];
        // LACP takes its time to bring a member back.
        let faults = if mode == "802.3ad" { &faults[..2] } else { &faults[..] };
        let outcome = simulate_with(&fabric, TransportKind::Udp, 1, Some(10_000), faults);
        let datagrams = outcome.flows[0].datagrams.expect("they are counted");
        // 1,514 bytes take 12 us at 1 Gbit/s and 20 us on the way: hardly ever is one of them on a cable.
        assert!(datagrams.lost <= 2, "{mode}: {datagrams:?}");
        assert!(datagrams.longest_gap <= Span::from_us(300), "{mode}: {datagrams:?}");
        let cut: u64 = outcome.links.iter().map(|link| link.forward.cut + link.backward.cut).sum();
        assert!(cut >= datagrams.lost, "{mode}: {cut} on cables");
        let goodput = goodput(&outcome);
        assert!((goodput - 116.8).abs() < 0.2, "{mode}: {goodput} Mbit/s of 10,000 x 1,460 bytes");
    }
}

/// A switch's MAC-learning ports forget what they learned behind a dead member: what it sends to the host comes by the other one.
#[test]
fn what_is_sent_to_a_host_finds_the_member_that_is_left() {
    for mode in ["active-backup", "balance-tlb", "balance-alb"] {
        let fabric = fabric(PAIR, &case(mode, 2, Reordering::Off));
        // h1 sends to h2, whose own first member goes.
        let between = (fabric.topology.node("h2").unwrap(), fabric.topology.node("s1").unwrap());
        let faults = [LinkFault { at: Span::from_ms(100), between, number: Some(1), up: false }];
        let outcome = simulate_with(&fabric, TransportKind::Udp, 1, Some(10_000), &faults);
        let datagrams = outcome.flows[0].datagrams.expect("they are counted");
        assert!(datagrams.lost <= 2 && datagrams.duplicates == 0, "{mode}: {datagrams:?}");
    }
}

#[test]
fn tcp_survives_the_loss_of_each_member() {
    for mode in ["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb"] {
        let fabric = fabric(PAIR, &case(mode, 2, Reordering::On));
        let faults = [fault(&fabric, 100, 1, false), fault(&fabric, 200, 1, true), fault(&fabric, 201, 2, false)];
        let faults = if mode == "802.3ad" { &faults[..1] } else { &faults[..] };
        let outcome = simulate_with(&fabric, TransportKind::Sack, 1, None, faults);
        assert!(goodput(&outcome) > 400.0, "{mode}: {} Mbit/s", goodput(&outcome));
    }
}

/// Without a bond, a link that is down loses everything until it comes back; with the same faults, the outcome is the same.
#[test]
fn a_plain_link_loses_everything_while_it_is_down() {
    let text = PAIR.split("bonds:").next().expect("the network");
    let fabric = fabric(text, &Overrides::default());
    let faults = [fault(&fabric, 100, 1, false), fault(&fabric, 150, 1, true)];
    let outcome = simulate_with(&fabric, TransportKind::Udp, 1, Some(10_000), &faults);
    let datagrams = outcome.flows[0].datagrams.expect("they are counted");
    assert_eq!((datagrams.lost, datagrams.longest_gap), (500, Span::from_us(50_100)));
    let (h1, h2) = (outcome.links[0].forward, outcome.links[1].backward);
    assert_eq!((h1.cut, h1.drops, h2.cut), (500, 0, 0));
    // TCP finds its way back after a timeout.
    let outcome = simulate_with(&fabric, TransportKind::Sack, 1, None, &faults);
    assert!(goodput(&outcome) > 500.0 && outcome.flows[0].timeouts > 0, "{:?}", outcome.flows[0]);
    let again = simulate_with(&fabric, TransportKind::Sack, 1, None, &faults);
    assert_eq!(outcome, again);
}

/// Members that are probed live by answers to their questions and by what they carry: with nobody sending, and after each of them was
/// away. Whoever asks for an address that nobody has comes down.
#[test]
fn members_that_are_probed_live_by_answers() {
    let policies = ["active-backup, fail_over_mac: active", "active-backup, fail_over_mac: follow"];
    for mode in ["active-backup", "balance-rr", "balance-xor", "broadcast"].into_iter().chain(policies) {
        let has_active = mode.starts_with("active-backup");
        for validate in ["none", "all"].iter().filter(|validate| **validate == "none" || has_active) {
            let probing = |target: &str| {
                let options = format!(
                    "host: h1, members: 2, mode: {mode}, arp_interval: 20ms, arp_ip_target: {target}, arp_validate: {validate} "
                );
                let text = PAIR.replace("host: h1, members: 2 ", &options);
                fabric(&text, &Overrides::from([BondSetting::Reorder(Reordering::On)]))
            };
            let fabric = probing("10.0.0.2");
            let faults = [fault(&fabric, 100, 1, false), fault(&fabric, 200, 1, true), fault(&fabric, 350, 2, false)];
            let quiet = simulate_with(&fabric, TransportKind::Udp, 1, Some(10), &[]);
            let datagrams = quiet.flows[0].datagrams.expect("they are counted");
            assert_eq!((datagrams.sent, datagrams.lost), (5, 0), "{mode}, {validate}: {datagrams:?}");
            let outcome = simulate_with(&fabric, TransportKind::Udp, 1, Some(10_000), &faults);
            let datagrams = outcome.flows[0].datagrams.expect("they are counted");
            assert!(datagrams.lost <= 2, "{mode}, {validate}: {datagrams:?}");
            if has_active {
                let outcome = simulate_with(&probing("10.0.0.99"), TransportKind::Udp, 1, Some(10), &[]);
                let datagrams = outcome.flows[0].datagrams.expect("they are counted");
                assert!(datagrams.lost >= 3, "{validate}: {datagrams:?}");
            }
        }
    }
}

/// A host with three members in balance-alb, and four peers.
const PEERS: &str = "
name: peers
nodes: { h1: host, h2: host, h3: host, h4: host, h5: host, s1: switch }
link-defaults: { rate: 1Gbit, delay: 20us, queue: 250 }
links:
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [h3, s1]
  - between: [h4, s1]
  - between: [h5, s1]
bonds:
  - { host: h1, members: 3, mode: balance-alb }
";

/// What all peers send to `h1` at the same time.
fn from_all_peers(fabric: &Fabric, kind: TransportKind, rate_pps: Option<u64>, faults: &[LinkFault]) -> Outcome {
    let flows: Vec<_> =
        (1..5).map(|n| FlowSpec { from: topology::NodeId(n), to: topology::NodeId(0), start: Time::ZERO }).collect();
    simulate_flows(fabric, kind, &flows, rate_pps, faults)
}

/// By member of `h1`'s bond: packets that came to it.
fn by_member(fabric: &Fabric, outcome: &Outcome) -> Vec<u64> {
    let topology = &fabric.topology;
    let bond = topology.bonds.position(|end| end.node == topology.node("h1").unwrap()).unwrap();
    let members = topology.members(bond);
    let packets = members.map(|member| {
        let link = &outcome.links[usize::from(member.link())];
        match member.from() {
            Side::A => link.backward.packets,
            Side::B => link.forward.packets,
        }
    });
    packets.collect()
}

/// Another member's address is announced to each peer: what four peers send comes by all three members, and each flow by one.
#[test]
fn balance_alb_receives_by_all_members() {
    let fabric = fabric(PEERS, &Overrides::default());
    let outcome = from_all_peers(&fabric, TransportKind::Sack, None, &[]);
    assert!(goodput(&outcome) > 2_750.0, "{} Mbit/s over three members", goodput(&outcome));
    let packets = by_member(&fabric, &outcome);
    let total: u64 = packets.iter().sum();
    assert!(packets.iter().all(|packets| *packets > total / 4), "{packets:?}");
    assert!(outcome.flows.iter().all(|flow| flow.reordering.reordered == 0));
    // As against balance-tlb, which receives by the active one.
    let overrides = Overrides::from([BondSetting::Mode("balance-tlb".parse().unwrap())]);
    let fabric = fabric.with(&overrides);
    let outcome = from_all_peers(&fabric, TransportKind::Sack, None, &[]);
    assert!(goodput(&outcome) < 970.0, "{} Mbit/s over the active member", goodput(&outcome));
}

/// When members come and go, other addresses are announced to their peers, and nothing is lost but what was on the cable, nor does it come twice.
#[test]
fn balance_alb_announces_when_members_come_and_go() {
    let fabric = fabric(PEERS, &Overrides::default());
    let between = (fabric.topology.node("h1").unwrap(), fabric.topology.node("s1").unwrap());
    let at = |ms, number, up| LinkFault { at: Span::from_ms(ms), between, number: Some(number), up };
    // The active member goes and comes back, then another one.
    let faults = [at(100, 1, false), at(200, 1, true), at(300, 2, false), at(400, 2, true)];
    let outcome = from_all_peers(&fabric, TransportKind::Udp, Some(10_000), &faults);
    for flow in &outcome.flows {
        let datagrams = flow.datagrams.expect("they are counted");
        assert!(datagrams.lost <= 2 && datagrams.duplicates == 0, "{datagrams:?}");
    }
    let quiet = by_member(&fabric, &from_all_peers(&fabric, TransportKind::Udp, Some(10_000), &[]));
    let packets = by_member(&fabric, &outcome);
    // What nobody has learned yet goes to all members: for the time on one cable, each time.
    let (sent, came) = (quiet.iter().sum::<u64>(), packets.iter().sum::<u64>());
    assert!(came < sent + 100, "{sent} packets came as {came}");
    assert!(packets.iter().all(|packets| *packets > came / 8), "{packets:?}");
}

/// With `fail_over_mac=active`, the address of the member that takes over is announced to peers: what they send comes by it alone, also when
/// the other is back. With `follow` and `none` the one address moves.
#[test]
fn peers_hear_which_address_a_fail_over_leaves() {
    for policy in ["none", "active", "follow"] {
        let text = PEERS.replace("mode: balance-alb", &format!("mode: active-backup, fail_over_mac: {policy}"));
        let fabric = fabric(&text, &Overrides::default());
        let between = (fabric.topology.node("h1").unwrap(), fabric.topology.node("s1").unwrap());
        let at = |ms, number, up| LinkFault { at: Span::from_ms(ms), between, number: Some(number), up };
        let faults = [at(100, 1, false), at(200, 1, true), at(300, 2, false)];
        let outcome = from_all_peers(&fabric, TransportKind::Udp, Some(1_000), &faults);
        for flow in &outcome.flows {
            let datagrams = flow.datagrams.expect("they are counted");
            assert!(datagrams.lost <= 1 && datagrams.duplicates == 0, "{policy}: {datagrams:?}");
        }
        let packets = by_member(&fabric, &outcome);
        // 4 packets each ms: for 100 ms by the first member, for 200 ms by the second, and for 200 ms by the first again.
        let expected = [300 * 4, 200 * 4, 0];
        for (packets, expected) in packets.iter().zip(expected) {
            assert!(packets.abs_diff(expected) < 40, "{policy}: {packets} where {expected} were expected");
        }
    }
}
