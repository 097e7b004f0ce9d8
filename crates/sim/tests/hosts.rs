//! Hosts with several ports: at two switches, and in a `BCube`, where they forward.

use std::sync::Arc;

use crate::network::reno;
use crate::scenario;
use fabric::{Fabric, LinkFault, Source};
use machine::{Span, Time};
use sim::{FlowSpec, Outcome, Scenario};
use topology::Routes;
use vswitch::Spread;

/// A host at two switches, between which there is a third.
const DUAL_HOMED: &str = "
nodes: { h1: host, h2: host, a: switch, b: switch, c: switch }
link-defaults: { rate: 100Mbit, delay: 20us, queue: 100 }
links:
  - { between: [h1, a] }
  - { between: [h1, b] }
  - { between: [a, c] }
  - { between: [b, c] }
  - { between: [h2, c] }
";

/// `h1` and `h3` are at no common switch: `h2` is at both of theirs.
const CHAIN: &str = "
nodes: { h1: host, h2: { kind: host, forward: true }, h3: host, a: switch, b: switch }
link-defaults: { rate: 100Mbit, delay: 20us, queue: 100 }
links:
  - { between: [h1, a] }
  - { between: [h2, a] }
  - { between: [h2, b] }
  - { between: [h3, b] }
";

const BCUBE: &str = "
topology: { bcube: { n: 2, k: 1 } }
links: { rate: 100Mbit, delay: 20us, queue: 100 }
";

fn read(text: &str) -> Fabric {
    fabric::parse(&Source { name: "hosts".into(), text: text.to_owned() }).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Eight flows between two hosts for a second, while these links go down, or come up: the time in milliseconds, the ends.
fn run(fabric: &Fabric, (from, to): (&str, &str), spread: Spread, faults: &[(u64, (&str, &str), bool)]) -> Outcome {
    let node = |name: &str| fabric.topology.node(name).unwrap();
    let fault = |&(ms, (a, b), up): &(u64, (&str, &str), bool)| LinkFault {
        at: Span::from_ms(ms),
        between: (node(a), node(b)),
        number: None,
        up,
    };
    let flow = |n: u64| FlowSpec { from: node(from), to: node(to), start: Time::from_ns(n * 700_000) };
    sim::run(&Scenario {
        spread,
        warm_up: Span::from_ms(100),
        faults: &faults.iter().map(fault).collect::<Vec<_>>(),
        ..scenario::plain(
            fabric,
            &Arc::new(Routes::compute(&fabric.topology)),
            &reno(10),
            &(0..8).map(flow).collect::<Vec<_>>(),
        )
    })
}

/// Packets that a link has carried away from `from`.
fn carried(fabric: &Fabric, outcome: &Outcome, from: &str, to: &str) -> u64 {
    let node = |name: &str| fabric.topology.node(name).unwrap();
    let link = fabric.topology.links_between(node(from), node(to)).next().unwrap();
    let counters = outcome.links[usize::from(link)];
    let is_forward = fabric.topology.links[link].a.node == node(from);
    if is_forward { counters.forward.packets } else { counters.backward.packets }
}

fn least_delivered(outcome: &Outcome) -> u64 {
    outcome.flows.iter().map(|flow| flow.delivered_bytes).min().unwrap()
}

#[test]
fn a_dual_homed_host_sends_and_receives_by_both_links() {
    let fabric = read(DUAL_HOMED);
    for spread in [Spread::Ecmp, Spread::PacketScatter] {
        let out = run(&fabric, ("h1", "h2"), spread, &[]);
        let back = run(&fabric, ("h2", "h1"), spread, &[]);
        assert!(least_delivered(&out) > 0 && least_delivered(&back) > 0, "{spread:?}");
        for switch in ["a", "b"] {
            assert!(carried(&fabric, &out, "h1", switch) > 1_000, "{spread:?}: from h1 by {switch}");
            assert!(carried(&fabric, &back, switch, "h1") > 1_000, "{spread:?}: to h1 by {switch}");
        }
    }
    // By one path only, as a routing protocol without multipath.
    let single = run(&fabric, ("h1", "h2"), Spread::Single, &[]);
    assert_eq!((carried(&fabric, &single, "h1", "a") > 1_000, carried(&fabric, &single, "h1", "b")), (true, 0));
}

#[test]
fn a_dual_homed_host_goes_on_by_the_link_that_is_left() {
    let fabric = read(DUAL_HOMED);
    // Its own link, and one that it cannot see.
    for cut in [("h1", "a"), ("a", "c")] {
        for (from, to) in [("h1", "h2"), ("h2", "h1")] {
            let outcome = run(&fabric, (from, to), Spread::Ecmp, &[(0, cut, false)]);
            assert!(least_delivered(&outcome) > 200_000, "{cut:?}: {outcome:?}");
            assert_eq!(carried(&fabric, &outcome, "h1", "a") + carried(&fabric, &outcome, "a", "h1"), 0, "{cut:?}");
        }
    }
    let back = run(&fabric, ("h1", "h2"), Spread::Ecmp, &[(0, ("h1", "a"), false), (500, ("h1", "a"), true)]);
    assert!(carried(&fabric, &back, "h1", "a") > 500, "it is used again: {back:?}");
}

#[test]
fn packets_for_others_go_through_a_host_that_forwards() {
    let fabric = read(CHAIN);
    let outcome = run(&fabric, ("h1", "h3"), Spread::Ecmp, &[]);
    assert!(least_delivered(&outcome) > 200_000, "{outcome:?}");
    let sent = carried(&fabric, &outcome, "h1", "a");
    let through = carried(&fabric, &outcome, "h2", "b");
    assert!(sent.abs_diff(through) <= 160, "{sent} packets from h1, {through} of them through h2");
    // It also has flows of its own.
    assert!(least_delivered(&run(&fabric, ("h2", "h3"), Spread::Ecmp, &[])) > 200_000);
    assert!(least_delivered(&run(&fabric, ("h3", "h2"), Spread::Ecmp, &[])) > 200_000);
}

#[test]
fn flows_cross_the_levels_of_a_bcube_through_servers() {
    let fabric = read(BCUBE);
    // h1 and h4 differ in both digits: the way is through h2 or h3.
    for spread in [Spread::Ecmp, Spread::PacketScatter] {
        let outcome = run(&fabric, ("h1", "h4"), spread, &[]);
        assert!(least_delivered(&outcome) > 200_000, "{spread:?}: {outcome:?}");
        for (server, first, second) in [("h2", "s0.1", "s1.2"), ("h3", "s1.1", "s0.2")] {
            let came = carried(&fabric, &outcome, first, server);
            let left = carried(&fabric, &outcome, server, second);
            assert!(came > 1_000 && came.abs_diff(left) < 160, "{spread:?}: {came} to {server}, {left} from there");
        }
    }
    // One digit: by the switch of its level alone.
    let outcome = run(&fabric, ("h1", "h2"), Spread::Ecmp, &[]);
    assert_eq!(carried(&fabric, &outcome, "h1", "s1.1"), 0);
    // Without that link, by the other level and through two servers.
    let outcome = run(&fabric, ("h1", "h2"), Spread::Ecmp, &[(0, ("h1", "s0.1"), false)]);
    assert!(least_delivered(&outcome) > 200_000, "{outcome:?}");
    assert!(carried(&fabric, &outcome, "h3", "s0.2") > 1_000 && carried(&fabric, &outcome, "h4", "s1.2") > 1_000);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let fabric = read(BCUBE);
    let once = || run(&fabric, ("h1", "h4"), Spread::PacketScatterRandom, &[(300, ("h4", "s1.2"), false)]);
    assert_eq!(once(), once());
}
