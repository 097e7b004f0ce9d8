//! Packet-hops a second on one core: `cargo run --release -p heddle-sim --example hops [-- KIND WINDOW SECONDS]`.
//!
//! Fat-trees of k = 4, 8 and 16, every link 1 Gbit/s, 50 us, 250 packets; every host sends to one other and receives
//! from one other, full TCP with 1,000-byte segments. The best and the median of five runs each.
#![allow(clippy::disallowed_methods, reason = "it measures the machine")]

#[path = "../tests/network/mod.rs"]
mod network;

use std::sync::Arc;
use std::time::Instant;

use machine::{Rng, Span, Time};
use sim::{FlowSpec, Scenario};
use topology::{NodeId, Routes};
use transport::TransportKind;
use vswitch::{Pipelines, Spread};

/// Host x sends to host (x + `by`) mod n; starts are spread over 100 us.
fn stride(hosts: u32, by: u32) -> Vec<FlowSpec> {
    let mut rng = Rng::new(1);
    (0..hosts)
        .map(|x| FlowSpec {
            from: NodeId(x),
            to: NodeId((x + by) % hosts),
            start: Time::from_ns(u64::from(rng.below(100_000))),
        })
        .collect()
}

/// A random order of the hosts; each sends to the next one in it.
fn permutation(hosts: u32) -> Vec<FlowSpec> {
    let mut order: Vec<u32> = (0..hosts).collect();
    Rng::new(7).shuffle(&mut order);
    let mut flows = stride(hosts, 1);
    for flow in &mut flows {
        let to = order[(flow.from.0 as usize + 1) % order.len()];
        *flow = FlowSpec { from: NodeId(order[flow.from.0 as usize]), to: NodeId(to), start: flow.start };
    }
    flows
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let kind = match arguments.first().map(String::as_str) {
        Some("newreno") => TransportKind::NewReno,
        Some("sack") => TransportKind::Sack,
        Some("linux") => TransportKind::Linux,
        _ => TransportKind::Reno,
    };
    let transport = transport::TransportSpec {
        kind,
        ..network::reno(arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(20))
    };
    // Less than one is for counting instructions.
    let seconds: f64 = arguments.get(2).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    println!("{kind:?}, window {}", transport.window);
    println!("{:>3} {:12} {:27} {:>9} {:>9} {:>11}", "k", "traffic", "spread", "best M/s", "median", "Mbit/s mean");
    for k in [4, 8, 16] {
        let fabric = network::fat_tree(k, network::GIGABIT);
        let routes = Arc::new(Routes::compute(&fabric.topology));
        // As many packet-hops for each k: some ten million a run.
        let duration = Span::from_us((seconds * 64e6) as u64 / u64::from(k * k * k));
        for (traffic, flows) in [
            ("permutation", permutation(fabric.topology.hosts)),
            ("stride", stride(fabric.topology.hosts, fabric.topology.hosts / 2)),
        ] {
            for &spread in &Spread::ALL[1..] {
                let scenario = Scenario {
                    pipelines: &Pipelines::default(),
                    fabric: &fabric,
                    routes: &routes,
                    spread,
                    transport: &transport,
                    flows: &flows,
                    warm_up: Span::ZERO,
                    duration,
                    rate_pps: None,
                    transfers: None,
                    requests: None,
                    time_series: None,
                    faults: &[],
                    hosts: None,
                    seed: 1,
                };
                report(k, traffic, &scenario);
            }
        }
    }
}

fn report(k: u32, traffic: &str, scenario: &Scenario<'_>) {
    let mut rates: Vec<f64> = Vec::new();
    let mut goodput = 0.0;
    for _ in 0..5 {
        let start = Instant::now();
        let outcome = sim::run(scenario);
        rates.push(outcome.packet_hops as f64 / start.elapsed().as_secs_f64() / 1e6);
        let bytes: u64 = outcome.flows.iter().map(|flow| flow.delivered_bytes).sum();
        goodput = bytes as f64 * 8.0 / scenario.duration.as_secs_f64() / outcome.flows.len() as f64 / 1e6;
    }
    rates.sort_by(f64::total_cmp);
    let spread = format!("{:?}", scenario.spread);
    println!("{k:>3} {traffic:12} {spread:27} {:9.1} {:9.1} {goodput:11.1}", rates[4], rates[2]);
}
