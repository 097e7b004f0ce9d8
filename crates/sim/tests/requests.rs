//! Requests to a service: clients, the graph with its service, servers.

use std::sync::Arc;

use fabric::{Fabric, Source, parse};
use machine::Span;
use sim::{LatencyOutcome, Outcome, RequestOutcome, Scenario};
use topology::Routes;
use vswitch::Pipelines;

use crate::scenario;

/// A client and four servers at one switch, at 100 Mbit/s and a millisecond from it.
fn fabric(service: &str, experiment: &str) -> Fabric {
    let text = format!(
        "\
name: requests
nodes: {{ c1: host, c2: host, h1: host, h2: host, h3: host, h4: host, s1: switch }}
link-defaults: {{ rate: 100Mbit, delay: 1ms, queue: 1000 }}
links:
  - between: [c1, s1]
  - between: [c2, s1]
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [h3, s1]
  - between: [h4, s1]
services:
  web: {{ address: 10.1.0.80:80, servers: [h1, h2, h3, h4], {service} }}
experiments:
  a:
    traffic: {{ requests: {{ to: web, {experiment} }} }}
"
    );
    parse(&Source { name: "requests.fabric.yaml".into(), text }).unwrap_or_else(|error| panic!("{error:?}"))
}

fn simulate(fabric: &Fabric, seconds: u64, seed: u64) -> Outcome {
    let routes = Arc::new(Routes::compute(&fabric.topology));
    let traffic = fabric.experiments[0].work.traffic().expect("it is of traffic");
    sim::run(&Scenario {
        duration: Span::from_secs(seconds),
        requests: traffic.requests.as_deref(),
        pipelines: &Pipelines::default(),
        hosts: scenario::AWAKE,
        seed,
        ..scenario::plain(fabric, &routes, &traffic.transport, &[])
    })
}

fn run(service: &str, experiment: &str, seconds: u64) -> RequestOutcome {
    let outcome = simulate(&fabric(service, experiment), seconds, 1);
    outcome.requests.expect("there were requests")
}

fn latency(outcome: &RequestOutcome) -> LatencyOutcome {
    outcome.latency.unwrap_or_else(|| panic!("some were answered: {outcome:?}"))
}

/// The time between is that in which hosts think, a microsecond for each packet at most.
fn assert_about(measured: Span, expected_ns: u64) {
    let expected = Span::from_ns(expected_ns);
    assert!((expected..expected + Span::from_us(16)).contains(&measured), "{measured}, expected {expected}");
}

#[test]
fn a_request_takes_what_its_packets_and_its_work_take() {
    // A byte takes 80 ns on each link. Request and answer are 58 and 38 bytes with 66 of headers: 14.03648 ms with 10 ms of work; the ACK of the answer before
    // goes ahead of all but the first request, 5.28 us.
    for (forward, expected_ns) in [
        ("nat", 14_041_760),
        ("full-nat", 14_041_760),
        ("dr", 14_041_760),
        // 20 bytes more on both links, of the request and of the ACK before.
        ("tunnel", 14_041_760 + 3 * 1_600),
    ] {
        let outcome = run(&format!("forward: {forward}"), "clients: 1, servers: { duration: 10ms }", 2);
        assert_eq!((outcome.failures.len(), outcome.answered.iter().filter(|it| **it > 0).count()), (0, 1));
        assert_eq!(outcome.answered.iter().sum::<u64>(), outcome.done, "{outcome:?}");
        assert_about(latency(&outcome).p50, expected_ns);
        // A request follows the other.
        assert!((70.0..=71.3).contains(&outcome.per_second), "{outcome:?}");
    }
    // With a connection of its own, each has the handshake before (4 x 66 bytes, 4.02112 ms), and says `Connection: close`, as its answer does (76 x 80 ns). ACK and FIN of the
    // connection before go ahead of it, and the ACK of the handshake ahead of the request (3 x 5.28 us).
    let outcome = run("forward: nat", "clients: 1, new-connections: true, servers: { duration: 10ms }", 2);
    assert_about(latency(&outcome).p50, 18_079_520);
    assert!(outcome.failures.is_empty(), "{outcome:?}");
    // All servers had some, in turn: none has a connection left when the next one comes.
    assert!(outcome.answered.iter().all(|answered| *answered > 20), "{outcome:?}");
}

/// With SYN cookies a client hears of the service before its server does: the answer crosses its link, a millisecond. Nothing else is different, however packets come to servers.
#[test]
fn connections_that_begin_with_a_cookie_take_longer_to_open() {
    for forward in ["nat", "full-nat", "dr", "tunnel"] {
        let load = "clients: 1, new-connections: true, servers: { duration: 10ms }";
        let [plain, by_cookie] =
            ["", ", half-open: 0"].map(|limit| run(&format!("forward: {forward}{limit}"), load, 2));
        assert!(by_cookie.failures.is_empty() && by_cookie.answered.iter().all(|answered| *answered > 20));
        let [plain, by_cookie] = [plain, by_cookie].map(|outcome| latency(&outcome).p50);
        let longer = Span::from_ps(by_cookie.as_ps().saturating_sub(plain.as_ps()));
        // Each of both is measured to 16 us.
        assert!((Span::from_us(970)..Span::from_us(1_020)).contains(&longer), "{forward}: {longer}");
    }
    // What asks again on a connection that is there does not notice.
    let outcome = run("half-open: 0", "clients: 4, servers: { duration: 1ms, body: 100000 }", 2);
    assert!(outcome.failures.is_empty() && outcome.done > 100, "{outcome:?}");
}

#[test]
fn the_same_seed_has_the_same_outcome_and_another_one_another() {
    let fabric = fabric(
        "scheduler: learned",
        "rate: 300/s, poisson: true, new-connections: true, servers: { at-a-time: 1, duration: exp:5ms }",
    );
    let [first, again, other] = [1, 1, 2].map(|seed| simulate(&fabric, 1, seed));
    assert_eq!(first, again);
    assert_ne!(first.requests, other.requests);
}

#[test]
fn large_answers_take_several_segments() {
    // 100 kB in segments of 1448 bytes, over two links of 100 Mbit/s: 8.4 ms at least.
    let outcome = run("scheduler: lc", "clients: 1, servers: { body: 100000 }", 1);
    let all = latency(&outcome);
    assert!(all.min > Span::from_us(12_400) && outcome.failures.is_empty(), "{outcome:?}");
}

#[test]
fn a_slow_server_gets_little_of_who_learns() {
    let load = "path: /work, rate: 1100/s, poisson: true, new-connections: true, servers: { at-a-time: 1, duration: exp:2ms }, by-server: { h4: { duration: exp:10ms } }";
    let [rr, lc, learned] = ["rr", "lc", "learned"].map(|scheduler| run(&format!("scheduler: {scheduler}"), load, 4));
    let p99 = |outcome: &RequestOutcome| latency(outcome).p99;
    assert!(p99(&learned) < p99(&lc) && p99(&lc) < p99(&rr), "{rr:?} {lc:?} {learned:?}");
    let slow = |outcome: &RequestOutcome| outcome.answered[3] as f64 / outcome.answered.iter().sum::<u64>() as f64;
    assert!(slow(&learned) < slow(&lc) && slow(&lc) < slow(&rr), "{rr:?} {lc:?} {learned:?}");
}

#[test]
fn servers_that_fail_or_hang_are_counted_as_what_they_are() {
    let outcome = run(
        "scheduler: rr",
        "clients: 4, new-connections: true, timeout: 50ms, servers: { duration: 1ms }, by-server: { h1: { fail: 100%, fail-fast: true }, h2: { hang: 100% } }",
        2,
    );
    let failed = |kind: &str| outcome.failures.iter().find(|(name, _)| *name == kind).map_or(0, |(_, count)| *count);
    assert!(failed("status-5xx") > 0 && failed("timed-out") > 0, "{outcome:?}");
    assert_eq!(outcome.failures.len(), 2, "{outcome:?}");
    assert_eq!((outcome.answered[0], outcome.answered[1]), (0, 0));
    assert!(outcome.done > 100, "{outcome:?}");
}

#[test]
fn a_service_without_servers_refuses() {
    let service = "scheduler: wlc, client-limit: 1";
    let outcome = run(service, "clients: 2, from: [c1], new-connections: true", 1);
    assert!(outcome.failures.iter().any(|(kind, count)| *kind == "refused" && *count > 50), "{outcome:?}");
    assert!(outcome.done > 0, "one connection a second is not refused: {outcome:?}");
}

#[test]
fn agents_say_which_servers_have_no_memory_left() {
    let load = "workload: vsvd, clients: 24, new-connections: true, servers: { memory-limit: 256MiB, queue: 1000 }";
    let [lc, alc] = ["lc", "alc"]
        .map(|scheduler| run(&format!("scheduler: {scheduler}, agent: {{ port: 7777, every: 50ms }}"), load, 8));
    assert_ne!(lc, alc, "reports have come");
    assert!(alc.done > 300 && alc.failures.is_empty(), "{alc:?}");
}

#[test]
fn all_workloads_are_answered() {
    for workload in ["fine-grain", "fsfd", "fsvd", "vsfd", "vsvd", "htm-memory", "web-tree"] {
        for new in [false, true] {
            let load =
                format!("workload: {workload}, clients: 8, new-connections: {new}, servers: {{ memory-limit: 1GiB }}");
            let outcome = run("scheduler: lc", &load, 2);
            assert!(outcome.done >= 20 && outcome.failures.is_empty(), "{workload}: {outcome:?}");
        }
    }
}
