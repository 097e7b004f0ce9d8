//! The same file and the same seed give the same bytes, whatever the number of threads.

use fabric::{DriverKind, Source};
use lab::{Options, Results};

const FILE: &str = "
name: small
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }
links: { rate: 100Mbit, delay: 50us, queue: 20 }
experiments:
  drawn:
    traffic: { pattern: random, transport: newreno }
    vary:
      pattern: [random, permutation]
      spread: [single, ecmp, packet-scatter-random]
    warm-up: 20ms
    for: 50ms
    repeat: 3
    expect: { goodput-mean: '>= 1 Mbit/s' }
  lockstep:
    traffic: { pattern: incast(3), transport: sack }
    warm-up: 0s
    for: 50ms
";

fn run(seed: Option<u64>, threads: usize) -> Results {
    run_of(FILE, seed, threads)
}

fn run_of(text: &str, seed: Option<u64>, threads: usize) -> Results {
    let source = Source { name: "small.fabric.yaml".to_owned(), text: text.to_owned() };
    let fabric = fabric::parse(&source).expect("the file is right");
    let options = Options { drivers: vec![DriverKind::Sim], seed, threads, ..Options::default() };
    lab::run(&source, &fabric, &options, &lab::Journal::in_memory()).expect("simulated runs don't fail").results
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_any_number_of_threads() {
    let one = run(Some(3), 1);
    assert_eq!(one.samples().lines().count(), 2 * 3 * 3 + 1);
    for (threads, again) in [(1, run(Some(3), 1)), (2, run(Some(3), 2)), (5, run(Some(3), 5))] {
        assert!(one.samples() == again.samples(), "other samples with {threads} threads");
        assert_eq!(one.experiments, again.experiments);
    }
}

#[test]
fn another_seed_gives_other_samples() {
    let (one, other) = (run(Some(3), 2), run(Some(4), 2));
    assert_ne!(one.samples(), other.samples());
    // Without a seed of the command line, the file's counts.
    assert_eq!(run(None, 2).seed, run(None, 2).seed);
}

#[test]
fn samples_hold_nothing_of_the_machine() {
    let results = run(Some(3), 2);
    let samples = results.samples();
    for word in ["wall", "cpu", "date", "kernel", &results.environment.kernel] {
        assert!(!samples.contains(word), "{word} in the samples");
    }
    assert!(results.simulator_speed().expect("it simulated").per_second > 0.0);
}

#[test]
fn cases_that_are_compared_share_their_pairs() {
    let results = run(Some(3), 2);
    let pairs = |spread: &str| -> Vec<Vec<(String, String)>> {
        let of = |r: &&lab::Record| r.labels.get("spread") == Some(spread) && r.labels.get("pattern") == Some("random");
        let ends = |r: &lab::Record| r.flows.iter().map(|flow| (flow.from.clone(), flow.to.clone())).collect();
        results.records.iter().filter(of).map(ends).collect()
    };
    assert_eq!(pairs("single").len(), 3);
    assert_eq!(pairs("single"), pairs("packet-scatter-random"));
    assert_ne!(pairs("single")[0], pairs("single")[1], "each repetition draws its own");
}

#[test]
fn what_is_measured_has_a_sensible_size() {
    // The mean over the flows stays below a link's rate. A single flow may exceed it for 50 ms: a hole that is filled releases
    // what arrived during the warm-up.
    let results = run(Some(3), 2);
    for case in &results.experiments[0].cases {
        let goodput = case.summary(fabric::Metric::GoodputMean, DriverKind::Sim).expect("it was measured");
        assert!(goodput.mean > 1e6 && goodput.max < 100e6, "{}: {goodput:?}", case.labels);
        assert_eq!(goodput.n, 3);
    }
    assert!(results.passed());
}

/// Of a random pattern: means differ from run to run.
const UNTIL: &str = "
name: until
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }
links: { rate: 100Mbit, delay: 50us, queue: 20 }
experiments:
  drawn:
    traffic: { pattern: random, transport: newreno }
    vary: { spread: [single, packet-scatter-random] }
    warm-up: 20ms
    for: 50ms
    repeat: { until: 40 %, at-most: 40, at-least: 3 }
  same:
    traffic: { pattern: stride(1), transport: sack }
    for: 50ms
    repeat: { until: 1 %, at-most: 7, of: fairness, at-least: 2 }
  never:
    traffic: { pattern: random, transport: newreno }
    for: 20ms
    repeat: { until: 0.0001 %, at-most: 4, at-least: 2 }
";

#[test]
fn cases_are_run_until_their_means_are_known_whatever_the_number_of_threads() {
    let one = run_of(UNTIL, Some(3), 1);
    let runs = |results: &Results, experiment: usize| -> Vec<u32> {
        results.experiments[experiment].cases.iter().map(|case| case.cells[0].sim.map_or(0, |sim| sim.n)).collect()
    };
    assert!(runs(&one, 0).iter().all(|runs| (3..40).contains(runs)), "{:?}", runs(&one, 0));
    assert_eq!((runs(&one, 1), runs(&one, 2)), (vec![2], vec![4]));
    let precision = one.experiments[0].precision.expect("it was asked for");
    for case in &one.experiments[0].cases {
        let sim = case.summary(precision.metric, DriverKind::Sim).expect("simulated");
        assert!(sim.interval.expect("several runs") <= precision.share * sim.mean, "{sim:?}");
    }
    for threads in [2, 5] {
        let again = run_of(UNTIL, Some(3), threads);
        assert!(one.samples() == again.samples(), "other samples with {threads} threads");
        assert_eq!(one.experiments, again.experiments);
    }
    let table = one.table_within(200);
    for part in ["3 to 40 runs", "sim: after 4 runs, the 99 % interval of goodput, mean is still", "runs"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert_eq!(table.matches("is still").count(), 1, "{table}");
}
