//! Simulates clusters. `cluster SEED` runs one and tells all that happened, `cluster FIRST COUNT` runs that many on all
//! cores and sums them up; with the word `hostile` behind the numbers one of the servers lies to the others.
//! `cluster --resume FILE --until N --for SECONDS` goes on where the last call with this file ended, seeds 0 to N, for so
//! long: many seeds can be done in slices. Of ten seeds the last is hostile there. The file says which are done, and by which
//! commit (`--commit`, else what git says).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what drives the simulation keeps its progress in a file"
)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::{Deserialize, Serialize};
use sim::cluster::{Report, Scenario, run};

/// Seeds that are done together before the file is written again.
const BATCH: u64 = 200;

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
    disk_bytes_max: u64,
    recovered_ms: Vec<u64>,
    faults: BTreeMap<String, u64>,
    bad: Vec<Report>,
}

impl Sum {
    fn of(first: u64, count: u64, scenario: fn(u64) -> Scenario) -> Self {
        let seeds = (first..first + count).into_par_iter();
        let mut sum =
            seeds.map(|seed| Self::default().add(run(seed, &scenario(seed)))).reduce(Self::default, Self::and);
        sum.bad.sort_by_key(|report| report.seed);
        sum
    }

    fn add(mut self, report: Report) -> Self {
        self.seeds += 1;
        self.operations += report.operations.checked;
        self.unknown += report.operations.unknown;
        self.stale += report.operations.stale;
        self.elections += report.elections.won;
        self.events += report.events;
        self.snapshots += report.snapshots.1;
        self.simulated_ms += report.simulated_ms;
        self.disk_bytes_max = self.disk_bytes_max.max(report.disk_bytes_max);
        self.recovered_ms.push(report.recovered_ms);
        for (kind, count) in &report.faults {
            *self.faults.entry((*kind).to_owned()).or_default() += count;
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
        self.disk_bytes_max = self.disk_bytes_max.max(other.disk_bytes_max);
        self.recovered_ms.extend(other.recovered_ms);
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        self.bad.extend(other.bad);
        self
    }
}

/// What was done so far, as the file has it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Progress {
    /// First and last seed, by the commit that ran them.
    ranges: Vec<Range>,
    operations: u64,
    events: u64,
    simulated_ms: u64,
    faults: BTreeMap<String, u64>,
    /// Seeds in which something was found, and what.
    bad: BTreeMap<u64, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Range {
    commit: String,
    first: u64,
    last: u64,
    seconds: f64,
}

impl Progress {
    fn read(path: &Path) -> Self {
        match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
            Err(_) => Self::default(),
        }
    }

    /// The first seed that is not done.
    fn next(&self) -> u64 {
        self.ranges.iter().map(|range| range.last + 1).max().unwrap_or(0)
    }

    fn add(&mut self, commit: &str, first: u64, sum: Sum, seconds: f64) {
        let last = first + sum.seeds - 1;
        match self.ranges.last_mut().filter(|range| range.commit == commit && range.last + 1 == first) {
            Some(range) => (range.last, range.seconds) = (last, range.seconds + seconds),
            None => self.ranges.push(Range { commit: commit.to_owned(), first, last, seconds }),
        }
        self.operations += sum.operations;
        self.events += sum.events;
        self.simulated_ms += sum.simulated_ms;
        for (kind, count) in sum.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for report in sum.bad {
            self.bad.insert(report.seed, report.findings.iter().map(ToString::to_string).collect());
        }
    }

    /// As a whole, or not at all.
    fn write(&self, path: &Path) {
        let part = path.with_extension("part");
        let text = serde_json::to_string_pretty(self).expect("numbers and text are always JSON");
        let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, path));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    fn tell(&self) {
        for Range { commit, first, last, seconds } in &self.ranges {
            println!("seeds {first} to {last} by {commit}: {seconds:.0} s");
        }
        println!(
            "operations checked {}, faults {}, events {}, {:.0} s simulated, bad seeds {}",
            self.operations,
            self.faults.values().sum::<u64>(),
            self.events,
            self.simulated_ms as f64 / 1_000.0,
            self.bad.len()
        );
        for (seed, findings) in &self.bad {
            println!("seed {seed}: {}", findings.join("; "));
        }
    }
}

/// What `--resume` needs.
struct Slices {
    file: PathBuf,
    until: u64,
    seconds: u64,
    commit: String,
}

impl Slices {
    fn parse(args: &[String]) -> Option<Self> {
        let mut slices = Self { file: PathBuf::new(), until: u64::MAX, seconds: u64::MAX, commit: String::new() };
        for pair in args.chunks(2) {
            let [name, value] = pair else { return None };
            match name.as_str() {
                "--resume" => slices.file = value.into(),
                "--until" => slices.until = value.parse().ok()?,
                "--for" => slices.seconds = value.parse().ok()?,
                "--commit" => slices.commit.clone_from(value),
                _ => return None,
            }
        }
        if slices.commit.is_empty() {
            slices.commit = commit();
        }
        (!slices.file.as_os_str().is_empty()).then_some(slices)
    }

    fn run(&self) -> ExitCode {
        let mut progress = Progress::read(&self.file);
        let start = Instant::now();
        while progress.next() < self.until && start.elapsed() < Duration::from_secs(self.seconds) {
            let (first, began) = (progress.next(), Instant::now());
            let sum = Sum::of(first, BATCH.min(self.until - first), mixed);
            let (seeds, bad) = (sum.seeds, sum.bad.len());
            sum.bad.iter().for_each(|report| print!("{report}"));
            let seconds = began.elapsed().as_secs_f64();
            progress.add(&self.commit, first, sum, seconds);
            progress.write(&self.file);
            println!("seeds {first} to {}: bad {bad}, {seconds:.1} s", first + seeds - 1);
            let _ = std::io::stdout().flush();
        }
        progress.tell();
        if progress.bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// One server of a cluster lies in a tenth of the seeds.
fn mixed(seed: u64) -> Scenario {
    if seed % 10 == 9 { Scenario::hostile(seed) } else { Scenario::drawn(seed) }
}

/// The commit that is checked out, with a mark if files differ from it.
fn commit() -> String {
    let output = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    text.map_or_else(|| "an unknown commit".to_owned(), |text| String::from_utf8_lossy(&text).trim().to_owned())
}

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(slices) = Slices::parse(&args).filter(|_| args.iter().any(|arg| arg == "--resume")) {
        return slices.run();
    }
    let scenario = if args.pop_if(|word| word == "hostile").is_some() { Scenario::hostile } else { Scenario::drawn };
    let numbers: Option<Vec<u64>> = args.iter().map(|text| text.parse().ok()).collect();
    match numbers.as_deref() {
        Some([seed]) => one(*seed, scenario),
        Some([first, count]) => many(*first, *count, scenario),
        _ => {
            eprintln!(
                "usage: cluster SEED [hostile] | cluster FIRST COUNT [hostile] | cluster --resume FILE [--until SEED] [--for SECONDS] [--commit NAME]"
            );
            ExitCode::from(2)
        }
    }
}

fn one(seed: u64, scenario: fn(u64) -> Scenario) -> ExitCode {
    let start = Instant::now();
    let report = run(seed, &Scenario { trace: true, ..scenario(seed) });
    report.trace.iter().for_each(|line| println!("{line}"));
    print!("{report}");
    eprintln!("{:.3} s", start.elapsed().as_secs_f64());
    if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn many(first: u64, count: u64, scenario: fn(u64) -> Scenario) -> ExitCode {
    let start = Instant::now();
    let mut sum = Sum::of(first, count, scenario);
    sum.bad.iter().for_each(|report| print!("{report}"));
    sum.recovered_ms.sort_unstable();
    let recovered = |share: usize| sum.recovered_ms[(sum.recovered_ms.len() - 1) * share / 1_000];
    println!("seeds {}, bad {}", sum.seeds, sum.bad.len());
    println!("operations checked {}, of these unknown {}; stale reads {}", sum.operations, sum.unknown, sum.stale);
    println!("faults {}: {:?}", sum.faults.values().sum::<u64>(), sum.faults);
    println!("elections won {}, snapshots sent {}, events {}", sum.elections, sum.snapshots, sum.events);
    println!("disks held at most {} bytes beyond three times the content", sum.disk_bytes_max);
    println!("recovered after (ms): p50 {}, p99 {}, max {}", recovered(500), recovered(990), recovered(1_000));
    let (simulated, real) = (sum.simulated_ms as f64 / 1_000.0, start.elapsed().as_secs_f64());
    println!("{simulated:.0} s simulated in {real:.1} s, {:.1} ms a seed", real * 1_000.0 / sum.seeds as f64);
    if sum.bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
