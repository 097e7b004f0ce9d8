//! Two hosts, each with two links to a switch, of which one is longer: packets that take them by turns overtake each other.

use fabric::{DriverKind, Source};
use lab::{Options, Results};

const NETWORK: &str = "
name: pair
nodes: { h1: host, h2: host, s1: switch }
link-defaults: { rate: 100Mbit, delay: 20us, queue: 250 }
links:
  - between: [h1, s1]
  - between: [h1, s1]
  - between: [h2, s1]
  - { between: [h2, s1], delay: 800us }
bonds:
  - { host: h1, mode: balance-rr }
  - { host: h2, mode: balance-rr }
";

/// Simulates these experiments.
pub fn run(experiments: &str) -> Results {
    let source = Source { name: "pair.fabric.yaml".to_owned(), text: format!("{NETWORK}experiments:\n{experiments}") };
    let fabric = fabric::parse(&source).expect("the file is right");
    let options = Options { drivers: vec![DriverKind::Sim], ..Options::default() };
    lab::run(&source, &fabric, &options, &lab::Journal::in_memory()).expect("simulated runs don't fail").results
}
