//! The controllers' log beside raft-engine and beside nothing but the disk: `log-bench FOLDER ROUNDS [WORKLOAD..]`.
//!
//! One thread writes batches and waits for each to be durable. The systems take turns (A B A B), each on an empty
//! folder; what is printed are medians over the rounds. A turn begins when the CPUs are idle, and does not count if
//! others used them meanwhile, unless there are too few others. `WAIT=N` waits at most so many seconds for idle CPUs
//! (15); `MINUTES=N` ends after so long with what there is.

mod floor;
mod heddle;
mod quiet;
mod theirs;
mod workload;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use floor::Floor;
use heddle::HeddleLog;
use theirs::Theirs;
use workload::{FILE_BYTES, Figures, Log, Pool, Workload, measure};

/// Entries that a log is opened with.
const REOPEN_ENTRIES: u64 = 1_000_000;
const REOPEN_BATCH: Workload = Workload { groups: 16, entries: 64 };

/// Undisturbed turns from which a median is taken; if there are fewer, all turns count.
const TURNS_MIN: usize = 3;

const SYSTEMS: [&str; 6] =
    ["heddle", "heddle, no zeros", "raft-engine, recycling", "raft-engine", "append", "overwrite"];

fn open(system: &str, folder: &Path, workload: Workload) -> Box<dyn Log> {
    match system {
        "heddle" => Box::new(HeddleLog::new(folder, wal::ALLOCATE_BYTES)),
        "heddle, no zeros" => Box::new(HeddleLog::new(folder, 0)),
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
    sync_folder(folder);
}

fn sync_folder(folder: &Path) {
    let sync = Command::new("sync").arg("-f").arg(folder).status().expect("coreutils are there");
    assert!(sync.success(), "sync failed");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What a system's turns with a workload came to.
type Turns = Vec<(f64, Figures)>;

/// One turn, with the CPUs that others used meanwhile.
fn turn(folder: &Path, system: &str, workload: Workload, seed: u64) -> (f64, Figures) {
    clear(folder);
    let mut log = open(system, folder, workload);
    sync_folder(folder);
    quiet::wait();
    let watch = quiet::Watch::start();
    let figures = measure(&mut *log, workload, &mut Pool::new(seed));
    (watch.others_cpus(), figures)
}

/// All systems, one after another; who begins changes, so that nobody always follows the same one.
fn round(folder: &Path, round: usize, workload: Workload, turns: &mut [Turns]) {
    for place in 0..SYSTEMS.len() {
        let system = (place + round) % SYSTEMS.len();
        turns[system].push(turn(folder, SYSTEMS[system], workload, round as u64));
    }
}

/// The turns that count: those that others did not disturb, if there are enough of them.
fn counted(turns: &Turns) -> (bool, Vec<Figures>) {
    let quiet = |turn: &&(f64, Figures)| turn.0 <= quiet::OTHERS_CPUS_MAX;
    let undisturbed: Vec<_> = turns.iter().filter(quiet).map(|turn| turn.1).collect();
    if undisturbed.len() >= TURNS_MIN {
        return (true, undisturbed);
    }
    (false, turns.iter().map(|turn| turn.1).collect())
}

fn print_table(title: &str, results: &[(Workload, Vec<Turns>)], value: fn(&Figures) -> Cell) {
    println!("\n{title}\n\n| groups x entries | {} |\n|---{}|", SYSTEMS.join(" | "), "|---".repeat(SYSTEMS.len()));
    for (workload, turns) in results {
        let cell = |turns: &Turns| {
            let (is_quiet, figures) = counted(turns);
            if figures.is_empty() {
                return "-".to_owned();
            }
            let (values, decimals): (Vec<f64>, Vec<usize>) = figures.iter().map(value).unzip();
            format!("{:.*}{}", decimals[0], median(values), if is_quiet { "" } else { " (disturbed)" })
        };
        let cells: Vec<_> = turns.iter().map(cell).collect();
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
    let (heddle_folder, theirs_folder) = (folder.join("heddle"), folder.join("theirs"));
    clear(folder);
    clear(&heddle_folder);
    clear(&theirs_folder);
    fill(&mut HeddleLog::new(&heddle_folder, wal::ALLOCATE_BYTES));
    fill(&mut Theirs::new(&theirs_folder, None));
    sync_folder(folder);
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        quiet::wait();
        let start = Instant::now();
        let (_, recovered) = heddle::recover(&heddle_folder);
        times[0].push(start.elapsed().as_secs_f64());
        assert_eq!(recovered.groups.values().map(|group| group.entries.len()).sum::<usize>(), entries);
        drop(recovered);
        let start = Instant::now();
        let theirs = Theirs::reopen(&theirs_folder);
        times[1].push(start.elapsed().as_secs_f64());
        assert_eq!(theirs.read_all(REOPEN_BATCH.groups), entries);
        times[2].push(start.elapsed().as_secs_f64());
    }
    let [heddle, opened, read] = times.map(median);
    println!(
        "\nTime to open a log of {entries} entries, in s\n\n| heddle | raft-engine | raft-engine, all entries read |"
    );
    println!("|---|---|---|\n| {heddle:.2} | {opened:.2} | {read:.2} |");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, rounds, only @ ..] = &arguments[..] else {
        panic!("usage: log-bench FOLDER ROUNDS [1x8 reopen ..]")
    };
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|it| it == name);
    let (folder, rounds) = (Path::new(folder), rounds.parse().expect("a number of rounds"));
    let minutes_max = std::env::var("MINUTES").map_or(u64::MAX, |text| text.parse().expect("a number of minutes"));
    let workloads = [1, 16, 256].into_iter().flat_map(|groups| [1, 8, 64].map(|entries| Workload { groups, entries }));
    let wanted = workloads.filter(|it| is_wanted(&format!("{}x{}", it.groups, it.entries)));
    let mut results: Vec<_> = wanted.map(|workload| (workload, vec![Turns::new(); SYSTEMS.len()])).collect();
    let start = Instant::now();
    'rounds: for number in 0..rounds {
        for (workload, turns) in &mut results {
            if start.elapsed().as_secs() / 60 >= minutes_max {
                break 'rounds;
            }
            round(folder, number, *workload, turns);
        }
        let all = || results.iter().flat_map(|(_, turns)| turns).flatten();
        let undisturbed = all().filter(|turn| turn.0 <= quiet::OTHERS_CPUS_MAX).count();
        let (all, minutes) = (all().count(), start.elapsed().as_secs() / 60);
        eprintln!("round {} of {rounds}, {undisturbed} of {all} turns undisturbed, {minutes} min", number + 1);
    }
    print_table("p10 of a durable batch, in us", &results, |it| (it.p10.as_secs_f64() * 1e6, 0));
    print_table("p50 of a durable batch, in us", &results, |it| (it.p50.as_secs_f64() * 1e6, 0));
    print_table("p99 of a durable batch, in us", &results, |it| (it.p99.as_secs_f64() * 1e6, 0));
    print_table("Thousand entries/s", &results, |it| (it.entries_per_s / 1e3, 1));
    print_table("Bytes written by payload byte", &results, |it| (it.amplification, 2));
    if is_wanted("reopen") {
        print_reopen(folder, rounds);
    }
}
