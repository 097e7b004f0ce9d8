//! Sysctls in simulated hosts with Linux's TCP: what they change, and that results say them.

use crate::pair::run;
use fabric::{DriverKind, Metric};

/// Receivers get some packets twice.
const EXPERIMENTS: &str = "
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

#[test]
fn a_sender_that_is_not_informed_of_duplicates_takes_fewer_recoveries_back() {
    let results = run(EXPERIMENTS);
    assert!(results.passed(), "{}", results.table_within(140));
    let goodput = |case: usize| {
        let case = &results.experiments[0].cases[case];
        case.summary(Metric::GoodputSum, DriverKind::Sim).expect("measured").mean
    };
    assert!(goodput(0) > 1.05 * goodput(1), "{} and {}", goodput(0), goodput(1));
}

#[test]
fn results_say_what_is_set_and_not_varied() {
    let results = run(EXPERIMENTS);
    let words = |experiment: usize| results.experiments[experiment].traffic.as_str();
    assert!(words(0).contains("tcp_frto 0") && !words(0).contains("tcp_dsack"), "{}", words(0));
    assert!(words(1).contains("tcp_frto 0, tcp_dsack 0") && !words(1).contains("tcp_reordering"), "{}", words(1));
}
