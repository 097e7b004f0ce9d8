//! Simulates clusters: `cluster FIRST COUNT` runs that many seeds on all cores and sums them up, `cluster SEED` runs one
//! and tells all that happened. With the word `hostile` behind the numbers one of the servers lies to the others.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use sim::cluster::{Report, Scenario, run};

/// Sums over many runs.
#[derive(Default)]
struct Sum {
    seeds: u64,
    operations: u64,
    unknown: u64,
    stale: u64,
    elections: u64,
    events: u64,
    snapshots: u64,
    simulated_ms: u64,
    recovered_ms: Vec<u64>,
    faults: BTreeMap<&'static str, u64>,
    bad: Vec<Report>,
}

impl Sum {
    fn add(mut self, report: Report) -> Self {
        self.seeds += 1;
        self.operations += report.operations.checked;
        self.unknown += report.operations.unknown;
        self.stale += report.operations.stale;
        self.elections += report.elections.won;
        self.events += report.events;
        self.snapshots += report.snapshots.1;
        self.simulated_ms += report.simulated_ms;
        self.recovered_ms.push(report.recovered_ms);
        for (kind, count) in &report.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        if !report.is_good() {
            self.bad.push(report);
        }
        self
    }

    fn and(mut self, other: Self) -> Self {
        self.seeds += other.seeds;
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.stale += other.stale;
        self.elections += other.elections;
        self.events += other.events;
        self.snapshots += other.snapshots;
        self.simulated_ms += other.simulated_ms;
        self.recovered_ms.extend(other.recovered_ms);
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        self.bad.extend(other.bad);
        self
    }
}

#[allow(clippy::disallowed_methods)]
fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let scenario = if std::env::args().any(|word| word == "hostile") { Scenario::hostile } else { Scenario::drawn };
    match numbers[..] {
        [seed] => {
            let start = Instant::now();
            let report = run(seed, &Scenario { trace: true, ..scenario(seed) });
            report.trace.iter().for_each(|line| println!("{line}"));
            print!("{report}");
            eprintln!("{:.3} s", start.elapsed().as_secs_f64());
            if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        [first, count] => many(first, count, scenario),
        _ => {
            eprintln!("usage: cluster SEED | cluster FIRST COUNT");
            ExitCode::from(2)
        }
    }
}

#[allow(clippy::disallowed_methods)]
fn many(first: u64, count: u64, scenario: fn(u64) -> Scenario) -> ExitCode {
    let start = Instant::now();
    let mut sum = (first..first + count)
        .into_par_iter()
        .map(|seed| Sum::default().add(run(seed, &scenario(seed))))
        .reduce(Sum::default, Sum::and);
    sum.bad.sort_by_key(|report| report.seed);
    sum.bad.iter().for_each(|report| print!("{report}"));
    sum.recovered_ms.sort_unstable();
    let recovered = |share: usize| sum.recovered_ms[(sum.recovered_ms.len() - 1) * share / 1_000];
    println!("seeds {}, bad {}", sum.seeds, sum.bad.len());
    println!("operations checked {}, of these unknown {}; stale reads {}", sum.operations, sum.unknown, sum.stale);
    println!("faults {}: {:?}", sum.faults.values().sum::<u64>(), sum.faults);
    println!("elections won {}, snapshots sent {}, events {}", sum.elections, sum.snapshots, sum.events);
    println!("recovered after (ms): p50 {}, p99 {}, max {}", recovered(500), recovered(990), recovered(1_000));
    let (simulated, real) = (sum.simulated_ms as f64 / 1_000.0, start.elapsed().as_secs_f64());
    println!("{simulated:.0} s simulated in {real:.1} s, {:.1} ms a seed", real * 1_000.0 / sum.seeds as f64);
    if sum.bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
