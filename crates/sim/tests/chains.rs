//! Service chains: simulated packets pass functions, in order and back.

use std::sync::Arc;

use fabric::{Fabric, LinkFault, Source, parse};
use machine::{Span, Time};
use sim::{FlowSpec, FunctionOutcome, Outcome, Scenario};
use topology::{NodeId, Routes};
use vswitch::Pipelines;

use crate::network::reno;
use crate::scenario;

/// Hosts h1 at s1, h2 at s2, and h3 at s2; functions at s1, s2 or both.
fn fabric(more: &str) -> Fabric {
    let text = format!(
        "\
name: chains
nodes: {{ h1: host, h2: host, h3: host, s1: switch, s2: switch }}
link-defaults: {{ rate: 1Gbit, delay: 10us, queue: 200 }}
links: [{{ between: [h1, s1] }}, {{ between: [h2, s2] }}, {{ between: [h3, s2] }}, {{ between: [s1, s2] }}]
{more}"
    );
    parse(&Source { name: "chains.fabric.yaml".into(), text }).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Flows from h1 to h2 and to h3, for two seconds: several timeouts of TCP.
fn run(fabric: &Fabric, faults: &[LinkFault]) -> Outcome {
    let routes = Arc::new(Routes::compute(&fabric.topology));
    let transport = reno(20);
    let flow = |to| FlowSpec { from: NodeId(0), to: NodeId(to), start: Time::ZERO };
    sim::run(&Scenario {
        duration: Span::from_secs(2),
        pipelines: &Pipelines::default(),
        faults,
        ..scenario::plain(fabric, &routes, &transport, &[flow(1), flow(2)])
    })
}

fn delivered(outcome: &Outcome) -> [u64; 2] {
    [outcome.flows[0].delivered_bytes, outcome.flows[1].delivered_bytes]
}

#[test]
fn packets_pass_functions_in_order_and_come_back_in_reverse_order() {
    let outcome = run(
        &fabric(
            "\
functions:
  fw: { at: s1, simulated: { delay: 100us } }
  ids: { at: [s2, s1], simulated: { delay: 50us } }
chains:
  all: { from: h1, to: h2, functions: [fw, ids] }
",
        ),
        &[],
    );
    let [fw, ids] = outcome.functions[..] else { panic!("two instances") };
    let passed = |[forward, reverse]: [FunctionOutcome; 2]| {
        assert!(forward.in_packets > 1_000 && reverse.in_packets > 100, "{forward:?} {reverse:?}");
        // A window at most is under way at the end.
        assert!(forward.in_packets - forward.out_packets <= 20, "{forward:?}");
        [forward.delay_mean, reverse.delay_mean].map(|delay| delay.expect("some were timed"))
    };
    // With the links on the way there, from the host or the function before: those of functions take no time, the others at least 10 us.
    let [ahead, back] = passed(fw);
    assert!(ahead >= Span::from_us(110) && back >= Span::from_us(100), "{ahead:?} {back:?}");
    // Its ingress is at the other switch, and its egress at that of the function before.
    let [ahead, back] = passed(ids);
    assert!(ahead >= Span::from_us(60) && back >= Span::from_us(70), "{ahead:?} {back:?}");
    // The other flow passes by.
    let [chained, other] = delivered(&outcome);
    assert!(chained > 0 && other > chained, "{chained} {other}");
}

#[test]
fn a_slow_function_is_the_bottleneck_and_loses_what_does_not_fit() {
    let outcome = run(
        &fabric(
            "\
functions: { fw: { at: s1, simulated: { rate: 100Mbit, queue: 10 } } }
chains: { all: { from: h1, to: h2, functions: fw } }
",
        ),
        &[],
    );
    let [[forward, _]] = outcome.functions[..] else { panic!("one instance") };
    assert!(forward.in_packets > forward.out_packets + 5, "{forward:?}");
    let [chained, other] = delivered(&outcome);
    // 100 Mbit/s are 25 MB in two seconds.
    assert!(chained < 25_000_000 && other > 2 * chained, "{chained} {other}");
}

#[test]
fn a_chain_takes_what_it_matches_and_back() {
    let chain = |matching: &str| {
        let outcome = run(
            &fabric(&format!(
                "functions: {{ fw: {{ at: s2 }} }}\nchains: {{ some: {{ from: h1, to: [h2, h3], match: '{matching}', functions: fw }} }}\n"
            )),
            &[],
        );
        let [[forward, reverse]] = outcome.functions[..] else { panic!("one instance") };
        assert!(delivered(&outcome).iter().all(|bytes| *bytes > 0), "both arrive where they go");
        (forward.out_packets > 0, reverse.out_packets > 0)
    };
    assert_eq!(chain("tcp,tp_dst=5201"), (true, true));
    assert_eq!(chain("tcp,tp_dst=80"), (false, false));
    assert_eq!(chain("udp"), (false, false));
}

#[test]
fn a_function_without_a_carrier_is_passed_by_or_blocks() {
    for (on_failure, goes_on) in [("bypass", true), ("block", false)] {
        let fabric = fabric(&format!(
            "functions: {{ fw: {{ at: s1 }}, ids: {{ at: s1 }} }}\nchains: {{ all: {{ from: h1, to: h2, functions: [fw, ids], on-failure: {on_failure} }} }}\n"
        ));
        let node = |name| fabric.topology.node(name).expect("it is there");
        let fault =
            |ms, up| LinkFault { at: Span::from_ms(ms), between: (node("fw.out"), node("s1")), number: None, up };
        let down = run(&fabric, &[fault(1, false)]);
        let [[fw, _], [ids, _]] = down.functions[..] else { panic!("two instances") };
        assert_eq!(delivered(&down)[0] > 5_000_000, goes_on, "{on_failure}: {fw:?} {ids:?}");
        assert!(!goes_on || ids.in_packets > 10 * fw.in_packets, "{fw:?} {ids:?}");
        // What it is tried with goes on past it, and is not counted for it.
        let never = run(&fabric, &[fault(0, false)]);
        assert!(!goes_on || never.functions[0][0].in_packets == 0, "{:?}", never.functions);
        // It is back by itself.
        let back = run(&fabric, &[fault(1, false), fault(2, true)]);
        let [[fw, _], _] = back.functions[..] else { panic!("two instances") };
        assert!(fw.out_packets > 100, "{fw:?}");
    }
}

#[test]
fn flows_stay_with_their_instance() {
    let fabric = fabric(
        "\
functions: { fw: { at: s1, instances: 3 } }
chains: { all: { from: h1, to: [h2, h3], functions: fw } }
",
    );
    let outcome = run(&fabric, &[]);
    assert_eq!(outcome.functions.len(), 3);
    let took: Vec<bool> = outcome.functions.iter().map(|[forward, _]| forward.in_packets > 0).collect();
    // Two flows, and both directions of a flow at one instance.
    assert!(took.iter().filter(|took| **took).count() <= 2, "{took:?}");
    for [forward, reverse] in &outcome.functions {
        assert_eq!(forward.in_packets > 0, reverse.in_packets > 0);
    }
    // The others take the flows of one that goes.
    let own = took.iter().position(|took| *took).expect("some instance has them") + 1;
    let node = |name: &str| fabric.topology.node(name).expect("it is there");
    let between = (node(&format!("fw-{own}")), node("s1"));
    let down = run(&fabric, &[LinkFault { at: Span::from_ms(1), between, number: None, up: false }]);
    assert!(delivered(&down).iter().all(|bytes| *bytes > 1_000_000), "{:?}", delivered(&down));
    let lost = &down.functions[own - 1][0];
    assert!(lost.in_packets < outcome.functions[own - 1][0].in_packets / 10, "{lost:?}");
}

#[test]
fn built_in_functions_stand_before_between_and_behind_others() {
    let outcome = run(
        &fabric(
            "\
functions:
  count: { kind: counter }
  fw: { at: s1, simulated: { delay: 100us } }
  wall: { kind: firewall }
  nat: { kind: nat, source: 10.9.0.1 }
chains:
  all: { from: h1, to: h2, functions: [count, fw, wall, nat] }
",
        ),
        &[],
    );
    let [[ahead, back]] = outcome.functions[..] else { panic!("one instance") };
    assert_eq!(outcome.built_in.len(), 3);
    for [forward, reverse] in &outcome.built_in {
        assert!(forward.in_packets > 1_000 && reverse.in_packets > 100, "{forward:?} {reverse:?}");
        assert_eq!((forward.in_packets, reverse.in_packets), (forward.out_packets, reverse.out_packets));
    }
    let [[counted, _], [_, walled], [translated, _]] = outcome.built_in[..] else { panic!("three functions") };
    assert_eq!((counted.in_packets, ahead.out_packets), (ahead.in_packets, translated.in_packets));
    assert_eq!(walled.out_packets, back.in_packets, "what comes back passes them in reverse order");
    // The other flow has neither the delay nor the functions.
    let [chained, other] = delivered(&outcome);
    assert!(chained > 1_000_000 && other > chained, "{chained} {other}");
}

#[test]
fn a_rate_limit_holds_in_a_simulation() {
    let outcome = run(
        &fabric(
            "\
functions: { slow: { kind: rate-limit, rate: 20Mbit, burst: 15kB } }
chains: { all: { from: h1, to: h2, functions: slow } }
",
        ),
        &[],
    );
    let [[forward, reverse]] = outcome.built_in[..] else { panic!("one function") };
    assert!(forward.in_packets > forward.out_packets && reverse.in_packets == reverse.out_packets, "{forward:?}");
    assert!(outcome.lost["dropped by a function of a chain"] > 0 && outcome.lost.len() == 1, "{:?}", outcome.lost);
    let [chained, other] = delivered(&outcome);
    // 20 Mbit/s are 5 MB in two seconds; what comes in a round trip is less than a segment, so Reno waits for its timer most of the time.
    assert!((50_000..5_050_000).contains(&chained) && other > 10 * chained, "{chained} {other}");
}

#[test]
fn a_firewall_keeps_out_what_begins_outside() {
    let run = |rules: &str, (from, to): (&str, &str)| {
        let outcome = run(
            &fabric(&format!(
                "functions: {{ fw: {{ kind: firewall{rules} }} }}\nchains: {{ all: {{ from: {from}, to: {to}, functions: fw }} }}\n"
            )),
            &[],
        );
        let [[forward, reverse]] = outcome.built_in[..] else { panic!("one function") };
        (delivered(&outcome)[0], forward, reverse)
    };
    let (bytes, ..) = run(", outbound: [{ allow: 'tcp,tp_dst=5201' }, { deny: all }]", ("h1", "h2"));
    assert!(bytes > 1_000_000, "{bytes}");
    let (bytes, forward, reverse) = run(", outbound: [{ deny: 'tcp,tp_dst=5201' }]", ("h1", "h2"));
    assert_eq!((bytes, forward.out_packets, reverse.in_packets), (0, 0, 0));
    // The same flow begins at the chain's other end.
    let (bytes, forward, reverse) = run("", ("h2", "h1"));
    assert_eq!((bytes, forward.in_packets, reverse.out_packets), (0, 0, 0));
    let (bytes, ..) = run(", inbound: [{ allow: tcp }]", ("h2", "h1"));
    assert!(bytes > 1_000_000, "{bytes}");
}

#[test]
fn a_mirror_shows_packets_to_a_host_that_takes_none_of_them() {
    let text = "\
functions: { tap: { kind: mirror, to: h3 } }
chains: { all: { from: h1, to: h2, functions: tap } }
";
    let fabric = fabric(text);
    let routes = Arc::new(Routes::compute(&fabric.topology));
    let transport = reno(20);
    let flow = [FlowSpec { from: NodeId(0), to: NodeId(1), start: Time::ZERO }];
    let outcome = sim::run(&scenario::plain(&fabric, &routes, &transport, &flow));
    assert!(outcome.flows[0].delivered_bytes > 1_000_000, "{:?}", outcome.flows);
    let [[forward, reverse]] = outcome.built_in[..] else { panic!("one function") };
    let sent = |from: &str, to: &str| {
        let name = format!("{from}-{to}");
        let link = fabric.topology.links.keys().position(|link| fabric.topology.link_name(link) == name);
        let link = &outcome.links[link.expect("a link")];
        [link.forward, link.backward].map(|it| it.packets + it.drops)
    };
    // The sender's link has no more to carry, and nobody answers what is only shown.
    assert_eq!(sent("h1", "s1")[0], forward.in_packets);
    let [answers, shown] = sent("h3", "s2");
    let both = sent("s1", "s2")[0];
    assert!(answers == 0 && shown > both / 3, "{shown} {both} {reverse:?}");
}
