//! Balancers at hosts: one is gone in the middle of a run.

use std::sync::Arc;

use fabric::{Fabric, LinkFault, Source, parse};
use machine::Span;
use sim::{RequestOutcome, Scenario};
use topology::Routes;
use vswitch::Pipelines;

use crate::scenario;

fn fabric(service: &str, experiment: &str) -> Fabric {
    let text = format!(
        "\
name: balancers
nodes: {{ c1: host, c2: host, h1: host, h2: host, lb1: host, lb2: host, s1: switch }}
link-defaults: {{ rate: 100Mbit, delay: 100us, queue: 1000 }}
links:
  - between: [c1, s1]
  - between: [c2, s1]
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [lb1, s1]
  - between: [lb2, s1]
services:
  web: {{ address: 10.1.0.80:80, servers: [h1, h2], forward: full-nat, at: [lb1, lb2]{service} }}
experiments:
  a:
    traffic: {{ requests: {{ to: web, from: [c1, c2], {experiment} }} }}
"
    );
    parse(&Source { name: "balancers.fabric.yaml".into(), text }).unwrap_or_else(|error| panic!("{error:?}"))
}

fn run(fabric: &Fabric, faults: &[LinkFault], seconds: u64) -> RequestOutcome {
    let routes = Arc::new(Routes::compute(&fabric.topology));
    let traffic = fabric.experiments[0].work.traffic().expect("it is of traffic");
    let outcome = sim::run(&Scenario {
        duration: Span::from_secs(seconds),
        requests: traffic.requests.as_deref(),
        pipelines: &Pipelines::default(),
        hosts: scenario::AWAKE,
        seed: 1,
        faults,
        ..scenario::plain(fabric, &routes, &traffic.transport, &[])
    });
    outcome.requests.expect("there were requests")
}

fn fault(fabric: &Fabric, balancer: &str, at_ms: u64, up: bool) -> LinkFault {
    let node = |name: &str| fabric.topology.node(name).expect("it is in the file");
    LinkFault { at: Span::from_ms(at_ms), between: (node(balancer), node("s1")), number: None, up }
}

/// Connections that last go on, whichever balancer is gone; requests take no longer than it takes to notice, and TCP to send again.
#[test]
fn no_connection_is_lost_with_a_balancer() {
    for service in ["", ", vrrp: { router: 51 }", ", half-open: 0", ", vrrp: { router: 51 }, half-open: 0"] {
        let load = fabric(service, "clients: 4, timeout: 5s, servers: { duration: 2ms }");
        let whole = run(&load, &[], 3);
        assert!(whole.failures.is_empty() && whole.done > 2_500, "{service}: {whole:?}");
        for balancer in ["lb1", "lb2"] {
            let faults = [fault(&load, balancer, 1_000, false), fault(&load, balancer, 2_000, true)];
            let outcome = run(&load, &faults, 3);
            assert!(outcome.failures.is_empty(), "{service} {balancer}: {outcome:?}");
            assert!(outcome.done > whole.done / 2, "{service} {balancer}: {outcome:?}");
        }
    }
}

/// New connections are opened by whoever is left, and those that have just been opened are reset by nobody: peers were told of each before its server was.
#[test]
fn new_connections_find_the_other_balancer() {
    for (service, at_us) in ["", ", vrrp: { router: 51, interval: 50ms }", ", half-open: 0"]
        .into_iter()
        .flat_map(|service| (0..2).map(move |number| (service, 500_000 + number * 437)))
    {
        let load = fabric(service, "clients: 4, new-connections: true, timeout: 5s, servers: { duration: 2ms }");
        let faults = [LinkFault { at: Span::from_us(at_us), ..fault(&load, "lb1", 0, false) }];
        let outcome = run(&load, &faults, 3);
        assert!(outcome.failures.is_empty() && outcome.done > 500, "{service} {at_us}: {outcome:?}");
        // What was asked when it was gone waits for the second or third first segment.
        let longest = outcome.latency.expect("some were answered").max;
        assert!(longest < Span::from_ms(3_500), "{service} {at_us}: {longest}");
    }
}
