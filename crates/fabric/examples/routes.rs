//! What routes cost: `cargo run --release -p heddle-fabric --example routes -- 48`.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::time::Instant;

use fabric::Source;
use machine::Rng;
use topology::{NodeId, Routes};

/// Lookups to time.
const LOOKUPS: usize = 1 << 22;

fn main() -> miette::Result<()> {
    let k = std::env::args().nth(1).unwrap_or_else(|| "48".to_owned());
    let text = format!("topology: {{ fat-tree: {{ k: {k} }} }}");
    let start = Instant::now();
    let fabric = fabric::parse(&Source { name: "routes".to_owned(), text })?;
    println!(
        "k = {k}: {} hosts, {} switches, laid out in {:?}",
        fabric.topology.hosts,
        fabric.topology.nodes.len() as u32 - fabric.topology.hosts,
        start.elapsed()
    );

    let start = Instant::now();
    let routes = Routes::compute(&fabric.topology);
    println!("routes: {:?}, {:.1} MB", start.elapsed(), routes.bytes() as f64 / 1e6);

    // Places drawn beforehand, so that caches meet what a simulation asks for and not a stride.
    let mut rng = Rng::new(1);
    let switches = fabric.topology.nodes.len() as u32 - fabric.topology.hosts;
    let asked: Vec<(NodeId, NodeId)> = (0..LOOKUPS)
        .map(|_| (NodeId(fabric.topology.hosts + rng.below(switches)), NodeId(rng.below(fabric.topology.hosts))))
        .collect();
    let start = Instant::now();
    let ports: usize = asked.iter().map(|&(at, to)| routes.next_hops(at, to).len()).sum();
    println!(
        "{LOOKUPS} lookups of random places: {:.1} ns each ({ports} ports)",
        start.elapsed().as_nanos() as f64 / LOOKUPS as f64
    );
    Ok(())
}
