//! Simulates clusters. `cluster SEED` runs one and tells all that happened, `cluster FIRST COUNT` runs that many on all
//! cores and sums them up; with the word `hostile` behind the numbers one of the servers lies to the others.
//! `cluster --resume FILE --until N --for SECONDS` goes on where the last call with this file ended, seeds 0 to N, for so
//! long: many seeds can be done in slices. Of ten seeds the last is hostile there. The file says which are done, and by which
//! commit (`--commit`, else what git says): always all up to some seed, however many are under way (`--jobs`, else as many
//! as there are cores).
//! `cluster --fingerprints FIRST COUNT` prints a number for each seed that stands for all that happened: what makes the
//! simulation faster leaves them as they are.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what drives the simulation keeps its progress in a file"
)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sim::cluster::{Report, Scenario, run};

/// Large values come and go all the time: the system's allocator gives their pages back and asks for them again, which
/// is a tenth of what seeds cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Seeds that are done before the file is written again.
const BATCH: u64 = 200;

/// Does the work of each seed on so many threads, until there are no more or `goes_on` says no, and takes what came of it
/// one seed after the other. No seed is left out: those that were begun are finished.
fn in_order<T: Send>(
    seeds: std::ops::Range<u64>,
    jobs: usize,
    goes_on: impl Fn() -> bool + Sync,
    work: impl Fn(u64) -> T + Sync,
    mut take: impl FnMut(u64, T),
) {
    let next = AtomicU64::new(seeds.start);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (next, goes_on, work, sender) = (&next, &goes_on, &work, sender.clone());
            scope.spawn(move || {
                while goes_on() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || sender.send((seed, work(seed))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let (mut due, mut waiting) = (seeds.start, BTreeMap::new());
        for (seed, done) in receiver {
            waiting.insert(seed, done);
            while let Some(done) = waiting.remove(&due) {
                take(due, done);
                due += 1;
            }
        }
        assert!(waiting.is_empty(), "every seed before the last was begun, and is done");
    });
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

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
        let mut sum = Self::default();
        in_order(
            first..first + count,
            cores(),
            || true,
            |seed| run(seed, &scenario(seed)),
            |_, report| sum.add(report),
        );
        sum
    }

    fn add(&mut self, report: Report) {
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

    fn print(&self) {
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
    jobs: usize,
}

impl Slices {
    fn parse(args: &[String]) -> Option<Self> {
        let (file, jobs) = (PathBuf::new(), cores());
        let mut slices = Self { file, until: u64::MAX, seconds: u64::MAX, commit: String::new(), jobs };
        for pair in args.chunks(2) {
            let [name, value] = pair else { return None };
            match name.as_str() {
                "--resume" => slices.file = value.into(),
                "--until" => slices.until = value.parse().ok()?,
                "--for" => slices.seconds = value.parse().ok()?,
                "--commit" => slices.commit.clone_from(value),
                "--jobs" => slices.jobs = value.parse().ok().filter(|jobs| *jobs > 0)?,
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
        let goes_on = || start.elapsed() < Duration::from_secs(self.seconds);
        let (mut first, mut began, mut sum) = (progress.next(), start, Sum::default());
        let mut keep = |first: u64, sum: Sum, seconds: f64| {
            let (seeds, bad) = (sum.seeds, sum.bad.len());
            progress.add(&self.commit, first, sum, seconds);
            progress.write(&self.file);
            println!("seeds {first} to {}: bad {bad}, {seconds:.1} s", first + seeds - 1);
            let _ = std::io::stdout().flush();
        };
        in_order(
            first..self.until,
            self.jobs,
            goes_on,
            |seed| run(seed, &mixed(seed)),
            |seed, report| {
                if !report.is_good() {
                    print!("{report}");
                }
                sum.add(report);
                if sum.seeds == BATCH {
                    keep(first, std::mem::take(&mut sum), began.elapsed().as_secs_f64());
                    (first, began) = (seed + 1, Instant::now());
                }
            },
        );
        if sum.seeds > 0 {
            keep(first, sum, began.elapsed().as_secs_f64());
        }
        progress.print();
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

/// Prints a number for each seed that stands for its report and for the record of what happened.
fn fingerprints(first: u64, count: u64) -> ExitCode {
    let fingerprint = |seed| {
        let report = run(seed, &Scenario { trace: true, ..mixed(seed) });
        let bytes = serde_json::to_vec(&report).expect("numbers and text are always JSON");
        (report.is_good(), bytes.iter().fold(0, |sum, byte| machine::mix(sum ^ u64::from(*byte))))
    };
    let mut all_good = true;
    in_order(
        first..first + count,
        cores(),
        || true,
        fingerprint,
        |seed, (is_good, number)| {
            println!("seed {seed}: {number:016x}{}", if is_good { "" } else { " bad" });
            all_good &= is_good;
        },
    );
    if all_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(slices) = Slices::parse(&args).filter(|_| args.iter().any(|arg| arg == "--resume")) {
        return slices.run();
    }
    if let [word, first, count] = args.as_slice()
        && word == "--fingerprints"
        && let (Ok(first), Ok(count)) = (first.parse(), count.parse())
    {
        return fingerprints(first, count);
    }
    let scenario = if args.pop_if(|word| word == "hostile").is_some() { Scenario::hostile } else { Scenario::drawn };
    let numbers: Option<Vec<u64>> = args.iter().map(|text| text.parse().ok()).collect();
    match numbers.as_deref() {
        Some([seed]) => one(*seed, scenario),
        Some([first, count]) => many(*first, *count, scenario),
        _ => {
            eprintln!(
                "usage: cluster SEED [hostile] | cluster FIRST COUNT [hostile] | cluster --fingerprints FIRST COUNT | cluster --resume FILE [--until SEED] [--for SECONDS] [--commit NAME] [--jobs THREADS]"
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
