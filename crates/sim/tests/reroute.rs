//! Links go down, and flows take the ways that are left.

use std::sync::Arc;

use crate::network::reno;
use crate::scenario;
use fabric::{Fabric, LinkFault, Source};
use machine::{Span, Time};
use sim::{FlowSpec, Outcome, Scenario};
use topology::{NodeId, Routes};
use vswitch::Spread;

/// Two racks with two ways between them.
const RACKS: &str = "
name: racks
nodes: { h1: host, h2: host, s1: switch, s2: switch, a: switch, b: switch }
link-defaults: { rate: 100Mbit, delay: 20us, queue: 100 }
links:
  - { between: [h1, s1] }
  - { between: [h2, s2] }
  - { between: [s1, a] }
  - { between: [s1, b] }
  - { between: [s2, a] }
  - { between: [s2, b] }
";

const MEASURED: Span = Span::from_secs(2);

fn racks(routes: &str) -> Fabric {
    let source = Source { name: "racks".into(), text: format!("{RACKS}routes: {routes}\n") };
    fabric::parse(&source).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Eight flows from one rack to the other, while `faults` come over the links between these names: the time, and whether they come up.
fn run(fabric: &Fabric, faults: &[(u64, (&str, &str), bool)]) -> Outcome {
    let node = |name: &str| fabric.topology.node(name).unwrap();
    let fault = |&(ms, (a, b), up): &(u64, (&str, &str), bool)| LinkFault {
        at: Span::from_ms(ms),
        between: (node(a), node(b)),
        number: None,
        up,
    };
    let flow = |n: u64| FlowSpec { from: NodeId(0), to: NodeId(1), start: Time::from_ns(n * 700_000) };
    sim::run(&Scenario {
        spread: Spread::Ecmp,
        warm_up: Span::from_ms(100),
        duration: MEASURED,
        faults: &faults.iter().map(fault).collect::<Vec<_>>(),
        ..scenario::plain(
            fabric,
            &Arc::new(Routes::compute(&fabric.topology)),
            &reno(20),
            &(0..8).map(flow).collect::<Vec<_>>(),
        )
    })
}

/// Packets from a rack to a spine, forward.
fn to_spine(fabric: &Fabric, outcome: &Outcome, spine: &str) -> (u64, u64) {
    let link = fabric.topology.links_between(fabric.topology.node("s1").unwrap(), fabric.topology.node(spine).unwrap());
    let counters = outcome.links[usize::from(link.into_iter().next().unwrap())].forward;
    (counters.packets, counters.cut)
}

fn least_delivered(outcome: &Outcome) -> u64 {
    outcome.flows.iter().map(|flow| flow.delivered_bytes).min().unwrap()
}

#[test]
fn flows_go_on_by_the_ways_that_are_left() {
    let fabric = racks("follow");
    let whole = run(&fabric, &[]);
    assert!(["a", "b"].iter().all(|spine| to_spine(&fabric, &whole, spine).0 > 1_000), "{whole:?}");
    // Near the sender, and where its switch cannot see it.
    for near in ["s1", "s2"] {
        let outcome = run(&fabric, &[(0, (near, "a"), false)]);
        assert_eq!(to_spine(&fabric, &outcome, "a").0, 0, "{near}");
        assert!(least_delivered(&outcome) > 1_000_000, "{near}: {outcome:?}");
        // Only what was under way is lost.
        let cut: u64 = outcome.links.iter().map(|link| link.forward.cut + link.backward.cut).sum();
        assert!(cut < 200, "{near}: {cut}");
    }
}

#[test]
fn what_comes_back_is_used_again() {
    let fabric = racks("follow");
    let outcome = run(&fabric, &[(0, ("s2", "a"), false), (1_000, ("s2", "a"), true)]);
    let whole = run(&fabric, &[]);
    let (used, all) = (to_spine(&fabric, &outcome, "a").0, to_spine(&fabric, &whole, "a").0);
    assert!(used > all / 4 && used < all * 3 / 4, "{used} of {all}");
}

#[test]
fn a_host_that_is_cut_off_is_reached_again() {
    let fabric = racks("follow");
    let outcome = run(&fabric, &[(200, ("h2", "s2"), false), (400, ("h2", "s2"), true)]);
    assert!(least_delivered(&outcome) > 0, "{outcome:?}");
    assert!(outcome.flows.iter().all(|flow| flow.timeouts > 0));
}

#[test]
fn fixed_routes_lose_what_goes_by_the_link() {
    let fabric = racks("fixed");
    let outcome = run(&fabric, &[(0, ("s2", "a"), false)]);
    assert_eq!(least_delivered(&outcome), 0, "a flow whose path is down gets nothing through: {outcome:?}");
    assert!(outcome.flows.iter().any(|flow| flow.delivered_bytes > 1_000_000));
}
