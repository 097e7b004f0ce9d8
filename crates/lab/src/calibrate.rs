//! What this machine can do as all hosts of a network: measured with real programs, for simulations ([`HostCosts`]).
//!
//! The runs are live runs of a file that is a part of the program, in rounds in which all of them take turns. From one round come:
//!
//! - of each flow of TCP, the time of a core that a segment takes: busy cores over segments a second. Two lengths of segments give what a byte takes
//!   and what a segment takes without its bytes;
//! - of datagrams likewise, after their bytes are taken off;
//! - the wake-up: a connection with a few bytes crosses an idle network three times until they are read (SYN, its answer, data). Simulated cores wake up
//!   for the first of these when it is sent, and for each when it comes.
//!
//! Costs come from medians over the rounds. Each median has the interval that holds the median of any distribution with 99 % (by ranks, from eight rounds on).

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use fabric::{DriverKind, Source};
use serde::Serialize;

use crate::disk::write_whole;
use crate::error::Error;
use crate::grid::Grid;
use crate::journal::Journal;
use crate::live::{IPERF3, LiveRuns, look_for_programs};
use crate::measure::cpu::CpuReading;
use crate::measure::environment::Environment;
use crate::measure::hosts::{HostCosts, NoHostCosts};
use crate::measure::record::Record;
use crate::measure::statistics::{CONFIDENCE, median_interval};
use crate::options::Options;
use crate::plan::{PlannedRun, plan};

const FILE: &str = include_str!("calibrate.fabric.yaml");
/// Bytes of a frame besides the segment: Ethernet, IPv4, TCP with timestamps.
const HEADERS: f64 = 66.0;
/// Payload of the two lengths of segments, and of a datagram; as in the file.
const SEGMENT: f64 = 1_448.0;
const LARGE_SEGMENT: f64 = 8_948.0;
const DATAGRAM: f64 = 88.0;
const DATAGRAM_HEADERS: f64 = 42.0;
/// How often a simulated core wakes up until the bytes of a connection are read, and how many packets take time until then.
const WAKE_UPS: f64 = 4.0;
const PACKETS: f64 = 2.0;
/// For how long others' work is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Others that keep so much of a core busy are worth a warning.
const BUSY_BEFORE: f64 = 0.1;

/// What was measured, as it stands in the file.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Calibration {
    /// The machine, with [`Environment::hosts`].
    #[serde(flatten)]
    pub environment: Environment,
    /// How many cores other programs kept busy when it began. What they took since then is in the figures.
    pub busy_before_cores: Option<f64>,
    /// What the costs come from.
    pub measured: Vec<Figure>,
}

/// Something that was measured in each round.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What it is.
    pub what: String,
    /// Its unit.
    pub unit: &'static str,
    /// Over how many rounds.
    pub rounds: usize,
    /// The median.
    pub median: f64,
    /// What holds the median of all rounds that there could be, with 99 %: from the one to the other.
    pub interval: (f64, f64),
}

/// Measures what hosts cost this machine, in so many rounds: eight at least, for the intervals. Of `options` it takes the program and whether to draw a progress
/// bar.
///
/// # Errors
/// If a program is missing, the network cannot be started, or a run fails.
pub fn calibrate(options: &Options, rounds: u32) -> Result<Calibration, Error> {
    let iperf3 = look_for_programs(std::iter::once(IPERF3))?;
    let before = CpuReading::now();
    std::thread::sleep(LOOK);
    let busy_before_cores = CpuReading::now().busy_cores_since(before);
    let source = Source { name: "calibrate".to_owned(), text: FILE.replace("ROUNDS", &rounds.to_string()) };
    let fabric = fabric::parse(&source).expect("the file is a part of the program");
    let options = Options { drivers: vec![DriverKind::Live], seed: None, only: Vec::new(), ..options.clone() };
    let plan = plan(&fabric, &options)?;
    let mut runs: Vec<&PlannedRun> = plan.runs.iter().collect();
    runs.sort_by_key(|run| run.repeat);
    let mut network = LiveRuns::start(&source, &fabric, &options)?;
    network.try_settings(&plan, &runs)?;
    let journal = Journal::in_memory();
    network.run(&plan, &runs, &journal)?;
    let records: Vec<Record> = journal.take_measured().into_iter().map(|(record, _)| record).collect();
    let mut environment = Environment::look(Some(iperf3), &options.version);
    let (costs, measured) = evaluate(&records, environment.cores as u32);
    environment.hosts = Some(costs);
    Ok(Calibration { environment, busy_before_cores, measured })
}

/// What a round says.
#[derive(Clone, Debug, Default)]
struct Round {
    /// Busy cores, and payload in bit/s, of segments with one stream and with four, then of large ones.
    flows: Vec<(f64, f64)>,
    /// The time that each takes, with its bytes.
    segment_ns: f64,
    large_segment_ns: f64,
    datagram_ns: f64,
    /// What a connection takes until its bytes are read, by the clock.
    connection_ns: f64,
}

fn evaluate(records: &[Record], cores: u32) -> (HostCosts, Vec<Figure>) {
    let most = records.iter().map(|record| record.repeat).max().unwrap_or(0);
    let rounds: Vec<Round> =
        (1..=most).map(|round| of_round(records.iter().filter(|run| run.repeat == round))).collect();
    let figure = |what: &str, unit, of: &dyn Fn(&Round) -> f64| {
        let samples: Vec<f64> = rounds.iter().map(of).collect();
        let (median, interval) = median_interval(&samples).unwrap_or_default();
        Figure { what: what.to_owned(), unit, rounds: samples.len(), median, interval }
    };
    let mut figures = vec![
        figure("CPU time, segment of 1448 B", "ns", &|round| round.segment_ns),
        figure("CPU time, segment of 8948 B", "ns", &|round| round.large_segment_ns),
        figure("CPU time, datagram of 88 B", "ns", &|round| round.datagram_ns),
        figure("connection, until 100 B are read", "ns", &|round| round.connection_ns),
    ];
    let [segment, large, datagram, connection] = [0, 1, 2, 3].map(|at: usize| figures[at].median);
    let flows = ["1448 B, 1 stream", "1448 B, 4 streams", "8948 B, 1 stream", "8948 B, 4 streams"];
    for (at, flow) in flows.into_iter().enumerate() {
        let of = |round: &Round| round.flows.get(at).copied().unwrap_or_default();
        figures.push(figure(&format!("goodput, segments of {flow}"), "Gbit/s", &|round| of(round).1 / 1e9));
        figures.push(figure(&format!("busy, segments of {flow}"), "cores", &|round| of(round).0));
    }
    // Of medians, as differences within a round are mostly noise where others work, too. Bytes give no time back, and take no more than there is.
    let byte_ns = ((large - segment) / (LARGE_SEGMENT - SEGMENT)).clamp(0.0, segment / (SEGMENT + HEADERS));
    let segment_ns = segment - byte_ns * (SEGMENT + HEADERS);
    let datagram_ns = (datagram - byte_ns * (DATAGRAM + DATAGRAM_HEADERS)).max(0.0);
    let wake_up_ns = ((connection - PACKETS * segment_ns) / WAKE_UPS).max(0.0);
    (HostCosts { cores, segment_ns, datagram_ns, byte_ns, wake_up_ns }, figures)
}

fn of_round<'a>(runs: impl Iterator<Item = &'a Record>) -> Round {
    let (mut small, mut large, mut round) = (Vec::new(), Vec::new(), Round::default());
    for run in runs {
        let Some(flow) = run.flows.first() else { continue };
        let busy = run.busy_cores.unwrap_or(0.0);
        let each_ns = |bytes: f64, bits: f64| busy * 1e9 * bytes * 8.0 / bits.max(1.0);
        let load = (busy, flow.goodput_bps);
        match run.experiment.as_str() {
            "segments" => small.push((load, each_ns(SEGMENT, flow.goodput_bps))),
            "large-segments" => large.push((load, each_ns(LARGE_SEGMENT, flow.goodput_bps))),
            // What its receiver had, as the fabric counts copies as well.
            "datagrams" => round.datagram_ns = each_ns(DATAGRAM, flow.program_goodput_bps.unwrap_or(flow.goodput_bps)),
            _ => round.connection_ns = flow.transfers.as_ref().map_or(0.0, |did| median_ns(&did.times_ns)),
        }
    }
    let mean = |runs: &[((f64, f64), f64)]| runs.iter().map(|(_, ns)| ns).sum::<f64>() / runs.len().max(1) as f64;
    (round.segment_ns, round.large_segment_ns) = (mean(&small), mean(&large));
    round.flows = small.into_iter().chain(large).map(|(load, _)| load).collect();
    round
}

fn median_ns(times_ns: &[u64]) -> f64 {
    let times: Vec<f64> = times_ns.iter().map(|ns| *ns as f64).collect();
    median_interval(&times).map_or(0.0, |(median, _)| median)
}

impl Calibration {
    /// For a terminal.
    pub fn table(&self) -> String {
        let interval = format!("{:.0} % interval", CONFIDENCE * 100.0);
        let mut grid = Grid::new(&["measured", "unit", "median", interval.as_str()]);
        for Figure { what, unit, median, interval: (low, high), .. } in &self.measured {
            grid.row(vec![
                what.clone(),
                (*unit).to_owned(),
                shown(*median),
                format!("{} to {}", shown(*low), shown(*high)),
            ]);
        }
        let costs = self.environment.hosts.iter().flat_map(|costs| {
            [
                ("segment-ns", costs.segment_ns),
                ("datagram-ns", costs.datagram_ns),
                ("byte-ns", costs.byte_ns),
                ("wake-up-ns", costs.wake_up_ns),
            ]
        });
        for (name, cost) in costs {
            grid.row(vec![format!("from that: {name}"), "ns".to_owned(), shown(cost), String::new()]);
        }
        grid.render(&[2, 3])
    }

    /// One line a figure, after RFC 4180 with LF.
    pub fn csv(&self) -> String {
        let mut text = "measured,unit,rounds,median,low,high\n".to_owned();
        for Figure { what, unit, rounds, median, interval: (low, high) } in &self.measured {
            let _ = writeln!(text, "{},{unit},{rounds},{median},{low},{high}", crate::grid::quoted(what));
        }
        text
    }

    /// As it stands in its file.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("figures are plain data") + "\n"
    }

    /// What is to be known before the figures are used; `None`: nothing.
    pub fn warning(&self) -> Option<String> {
        let busy = self.busy_before_cores.filter(|busy| *busy > BUSY_BEFORE)?;
        let cores = self.environment.cores;
        Some(format!(
            "other programs kept {busy:.1} of {cores} cores busy when it began: what they took is a part of the figures, which hold under the same load"
        ))
    }

    /// Writes it into a file that [`HostCosts::read`] reads. Another file is not overwritten.
    ///
    /// # Errors
    /// If there is another file, or this one cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        check_place(path)?;
        write_whole(path, &self.json())
    }
}

/// Whether what is measured may be written there: nothing is there yet, or an older one.
///
/// # Errors
/// If there is something else.
pub fn check_place(path: &Path) -> Result<(), Error> {
    if !path.exists() || HostCosts::read(path).is_ok() {
        return Ok(());
    }
    let message = "it is there and is not what `heddle calibrate` writes, so it is not overwritten".to_owned();
    Err(NoHostCosts { path: path.to_owned(), message }.into())
}

/// Four digits.
fn shown(figure: f64) -> String {
    match figure {
        0.0 => "0".to_owned(),
        _ if figure >= 1_000.0 => format!("{figure:.0}"),
        _ if figure >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use transport::transfers::Outcome;

    use std::fs;

    use super::*;
    use crate::FlowRecord;
    use crate::testing::empty_record;

    /// What a machine measures whose costs are these.
    fn records(rounds: u32, costs: HostCosts) -> Vec<Record> {
        let blank = |goodput_bps| FlowRecord::new("h1".to_owned(), "h2".to_owned(), goodput_bps);
        let flow = |goodput_bps| FlowRecord { program_goodput_bps: Some(goodput_bps), ..blank(goodput_bps) };
        let run = |experiment: &str, repeat, busy, flow| Record {
            experiment: experiment.to_owned(),
            repeat,
            busy_cores: Some(busy),
            flows: vec![flow],
            ..empty_record()
        };
        let bits = |busy: f64, each_ns: f64, payload: f64| busy * 1e9 / each_ns * payload * 8.0;
        let segment = |payload: f64| costs.segment_ns + costs.byte_ns * (payload + HEADERS);
        let datagram = costs.datagram_ns + costs.byte_ns * (DATAGRAM + DATAGRAM_HEADERS);
        let crossing = (PACKETS * costs.segment_ns + WAKE_UPS * costs.wake_up_ns) as u64;
        let mut records = Vec::new();
        for round in 1..=rounds {
            for busy in [1.5, 2.0] {
                records.push(run("segments", round, busy, flow(bits(busy, segment(SEGMENT), SEGMENT))));
                records.push(run(
                    "large-segments",
                    round,
                    busy,
                    flow(bits(busy, segment(LARGE_SEGMENT), LARGE_SEGMENT)),
                ));
            }
            records.push(run("datagrams", round, 2.0, flow(bits(2.0, datagram, DATAGRAM))));
            let transfers =
                Some(Outcome { started: 3, unfinished: 0, times_ns: vec![crossing; 3], sizes_bytes: Vec::new() });
            records.push(run("wake-up", round, 0.1, FlowRecord { transfers, ..blank(0.0) }));
        }
        records
    }

    fn calibration() -> (HostCosts, Calibration) {
        let costs =
            HostCosts { cores: 2, segment_ns: 3_000.0, datagram_ns: 9_000.0, byte_ns: 0.25, wake_up_ns: 20_000.0 };
        let (found, measured) = evaluate(&records(8, costs), 2);
        let environment = Environment { hosts: Some(found), ..crate::testing::environment() };
        (costs, Calibration { environment, busy_before_cores: Some(0.04), measured })
    }

    #[test]
    fn costs_are_found_again() {
        let (costs, calibration) = calibration();
        let found = calibration.environment.hosts.unwrap();
        for (found, is) in [
            (found.segment_ns, costs.segment_ns),
            (found.datagram_ns, costs.datagram_ns),
            (found.byte_ns, costs.byte_ns),
            (found.wake_up_ns, costs.wake_up_ns),
        ] {
            assert!((found - is).abs() < is * 1e-6, "{found}, {is}");
        }
        assert_eq!(calibration.measured.len(), 12);
        assert!(calibration.table().contains("wake-up-ns") && calibration.csv().lines().count() == 13);
    }

    #[test]
    fn the_file_is_read_again_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.json");
        let (_, mut calibration) = calibration();
        for _ in 0..2 {
            calibration.write(&path).unwrap();
        }
        assert_eq!(HostCosts::read(&path).unwrap(), calibration.environment.hosts.unwrap());
        let other = folder.path().join("lab.fabric.yaml");
        fs::write(&other, "name: lab\n").unwrap();
        assert!(calibration.write(&other).unwrap_err().to_string().contains("not overwritten"));
        assert_eq!(fs::read_to_string(&other).unwrap(), "name: lab\n");
        assert_eq!(calibration.warning(), None);
        calibration.busy_before_cores = Some(1.24);
        assert!(calibration.warning().unwrap().contains("1.2 of 2 cores"));
    }

    #[test]
    fn the_file_that_is_run_has_no_mistake() {
        let source = Source { name: "calibrate".to_owned(), text: FILE.replace("ROUNDS", "8") };
        let fabric = fabric::parse(&source).unwrap();
        let options = Options { drivers: vec![DriverKind::Live], ..Options::default() };
        assert_eq!(plan(&fabric, &options).unwrap().runs.len(), 48);
    }
}
