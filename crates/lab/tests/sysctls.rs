//! Sysctls in simulated hosts with Linux's TCP: what they change, and that results say them.

use fabric::{DriverKind, Metric, Source};
use lab::{Options, Results};

/// Two links of different length that packets take by turns: later ones overtake earlier ones, and receivers get some twice.
const FILE: &str = "
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
experiments:
  varied:
    traffic: { pattern: { pairs: [[h1, h2]] }, transport: linux, sysctl: { tcp_frto: 0 } }
    vary: { sysctl: [{ tcp_dsack: 1 }, { tcp_dsack: 0 }] }
    warm-up: 100ms
    for: 500ms
    expect: { goodput-sum: { where: { sysctl: 'tcp_dsack: 1' }, is: '>= 1 Mbit/s' } }
  fixed:
    traffic: { pattern: { pairs: [[h1, h2]] }, transport: linux, sysctl: { tcp_dsack: 0, tcp_frto: 0, tcp_reordering: 3 } }
    warm-up: 100ms
    for: 500ms
";

fn run() -> Results {
    let source = Source { name: "pair.fabric.yaml".to_owned(), text: FILE.to_owned() };
    let fabric = fabric::parse(&source).expect("the file is right");
    let options = Options { drivers: vec![DriverKind::Sim], ..Options::default() };
    lab::run(&source, &fabric, &options).expect("simulated runs don't fail")
}

#[test]
fn a_sender_that_is_not_informed_of_duplicates_takes_fewer_recoveries_back() {
    let results = run();
    assert!(results.passed(), "{}", results.table_within(140));
    let goodput = |case: usize| {
        let case = &results.experiments[0].cases[case];
        case.summary(Metric::GoodputSum, DriverKind::Sim).expect("measured").mean
    };
    assert!(goodput(0) > 1.05 * goodput(1), "{} and {}", goodput(0), goodput(1));
}

#[test]
fn results_say_what_is_set_and_not_varied() {
    let results = run();
    let words = |experiment: usize| results.experiments[experiment].traffic.as_str();
    assert!(words(0).contains("tcp_frto 0") && !words(0).contains("tcp_dsack"), "{}", words(0));
    assert!(words(1).contains("tcp_frto 0, tcp_dsack 0") && !words(1).contains("tcp_reordering"), "{}", words(1));
}
