//! The controllers' log beside raft-engine and beside nothing but the disk: `log-bench FOLDER ROUNDS`.
//!
//! One thread writes batches and waits for each to be durable. The systems take turns (A B A B), each on an empty
//! folder; what is printed are medians over the rounds.

mod floor;
mod ours;
mod theirs;
mod workload;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use floor::Floor;
use ours::Ours;
use theirs::Theirs;
use workload::{FILE_BYTES, Figures, Log, Pool, Workload, measure};

/// Entries that a log is opened with.
const REOPEN_ENTRIES: u64 = 1_000_000;
const REOPEN_BATCH: Workload = Workload { groups: 16, entries: 64 };

const SYSTEMS: [&str; 6] =
    ["heddle", "heddle, no zeros", "raft-engine, recycling", "raft-engine", "append", "overwrite"];

fn open(system: &str, folder: &Path, workload: Workload) -> Box<dyn Log> {
    match system {
        "heddle" => Box::new(Ours::new(folder, wal::ALLOCATE_BYTES)),
        "heddle, no zeros" => Box::new(Ours::new(folder, 0)),
        "raft-engine, recycling" => Box::new(Theirs::new(folder, Some(workload.files()))),
        "raft-engine" => Box::new(Theirs::new(folder, None)),
        "append" => Box::new(Floor::new(folder, workload, 0)),
        _ => Box::new(Floor::new(folder, workload, (workload.files() * FILE_BYTES) as usize)),
    }
}

/// An empty folder, and a disk that has nothing else to do.
fn clear(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).expect("the folder can be made");
    settle(folder);
}

fn settle(folder: &Path) {
    let sync = Command::new("sync").arg("-f").arg(folder).status().expect("coreutils are there");
    assert!(sync.success(), "sync failed");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn turns(folder: &Path, rounds: usize, workload: Workload) -> Vec<Vec<Figures>> {
    let mut figures = vec![Vec::new(); SYSTEMS.len()];
    for round in 0..rounds {
        for turn in 0..SYSTEMS.len() {
            // Who begins changes, so that nobody always follows the same one.
            let system = (turn + round) % SYSTEMS.len();
            clear(folder);
            let mut pool = Pool::new(round as u64);
            let mut log = open(SYSTEMS[system], folder, workload);
            settle(folder);
            figures[system].push(measure(&mut *log, workload, &mut pool));
        }
    }
    figures
}

fn print_table(title: &str, results: &[(Workload, Vec<Vec<Figures>>)], value: fn(&Figures) -> Cell) {
    println!("\n{title}\n\n| groups x entries | {} |\n|---{}|", SYSTEMS.join(" | "), "|---".repeat(SYSTEMS.len()));
    for (workload, figures) in results {
        let cell = |all: &Vec<Figures>| {
            let (values, decimals): (Vec<f64>, Vec<usize>) = all.iter().map(value).unzip();
            format!("{:.*}", decimals[0], median(values))
        };
        let cells: Vec<_> = figures.iter().map(cell).collect();
        println!("| {} x {} | {} |", workload.groups, workload.entries, cells.join(" | "));
    }
}

/// A value and its decimals.
type Cell = (f64, usize);

fn fill(log: &mut dyn Log) {
    let mut pool = Pool::new(1);
    for _ in 0..REOPEN_ENTRIES.div_ceil(REOPEN_BATCH.entries_per_batch() as u64) {
        log.prepare(REOPEN_BATCH, &mut pool);
        log.write();
    }
}

fn print_reopen(folder: &Path, rounds: usize) {
    let batches = REOPEN_ENTRIES.div_ceil(REOPEN_BATCH.entries_per_batch() as u64);
    let entries = batches as usize * REOPEN_BATCH.entries_per_batch();
    let (ours_folder, theirs_folder) = (folder.join("ours"), folder.join("theirs"));
    clear(folder);
    clear(&ours_folder);
    clear(&theirs_folder);
    fill(&mut Ours::new(&ours_folder, wal::ALLOCATE_BYTES));
    fill(&mut Theirs::new(&theirs_folder, None));
    settle(folder);
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let start = Instant::now();
        let (_, recovered) = ours::recover(&ours_folder);
        times[0].push(start.elapsed().as_secs_f64());
        assert_eq!(recovered.groups.values().map(|group| group.entries.len()).sum::<usize>(), entries);
        drop(recovered);
        let start = Instant::now();
        let theirs = Theirs::reopen(&theirs_folder);
        times[1].push(start.elapsed().as_secs_f64());
        assert_eq!(theirs.read_all(REOPEN_BATCH.groups), entries);
        times[2].push(start.elapsed().as_secs_f64());
    }
    let [ours, opened, read] = times.map(median);
    println!(
        "\nTime to open a log of {entries} entries, in s\n\n| heddle | raft-engine | raft-engine, all entries read |"
    );
    println!("|---|---|---|\n| {ours:.2} | {opened:.2} | {read:.2} |");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, rounds] = &arguments[..] else { panic!("usage: log-bench FOLDER ROUNDS") };
    let (folder, rounds) = (Path::new(folder), rounds.parse().expect("a number of rounds"));
    let mut results = Vec::new();
    for groups in [1, 16, 256] {
        for entries in [1, 8, 64] {
            let workload = Workload { groups, entries };
            results.push((workload, turns(folder, rounds, workload)));
            eprintln!("{groups} x {entries} done");
        }
    }
    print_table("p50 of a durable batch, in us", &results, |it| (it.p50.as_secs_f64() * 1e6, 0));
    print_table("p99 of a durable batch, in us", &results, |it| (it.p99.as_secs_f64() * 1e6, 0));
    print_table("Thousand entries/s", &results, |it| (it.entries_per_s / 1e3, 1));
    print_table("Bytes written by payload byte", &results, |it| (it.amplification, 2));
    print_reopen(folder, rounds);
}
