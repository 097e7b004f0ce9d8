//! Which runs there will be, in which order, and where the chance of each starts.
//!
//! Live and simulated runs of a case have the same pairs of hosts. With `ecmp`, single flows still take other paths live
//! than simulated: live flows hash the ports that the kernel gave them, which are chosen anew in each run.

pub(crate) mod controllers;
mod expectations;
mod named;
mod standstill;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use fabric::{
    Case, Controllers, DriverKind, Experiment, Fabric, NetworkSetting, RequestLoad, Setting, Traffic, TrafficSetting,
    Work,
};
use machine::{Rng, Span, mix};
use serde::Serialize;
use topology::{NodeId, Rerouting};

use self::standstill::Standstill;
use crate::error::Error;
use crate::grid::{Grid, for_terminal, quoted};
use crate::labels::Labels;
use crate::linux_limits;
use crate::live_times::{LiveTimes, live_times};
use crate::measure::carried::Excess;
use crate::measure::environment::Timing;
use crate::measure::precision::{CaseKey, Precision};
use crate::measure::record::Record;
use crate::options::Options;
use crate::pattern::{self, NoPairs};

/// What `heddle run` will do.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The fabric's name.
    pub fabric: String,
    /// Where chance starts.
    pub seed: u64,
    /// Simulated runs first, then live ones: those need the machine for themselves. Within a repetition the cases take
    /// turns (A B A B), so that a slow change of the machine touches all cases alike.
    pub runs: Vec<PlannedRun>,
    /// The experiments that take part, by their index in the fabric, with their cases.
    #[serde(skip)]
    pub(crate) cases: Vec<(usize, Vec<Case>)>,
    /// Cases (index into `cases`, index of the case there) of which only the live runs take place, since simulated time
    /// would stand still, or simulated controllers are not put through that.
    #[serde(skip)]
    pub(crate) not_simulated: Vec<(usize, usize)>,
    /// Experiments (index into `cases`) of which cases have no simulated runs since their flows are between subnets.
    #[serde(skip)]
    pub(crate) routed: Vec<usize>,
    /// Cases of which only the simulated runs take place: processes have neither delays nor eyes for a new leader, and no
    /// program can be started in a host behind devices of the machine.
    #[serde(skip)]
    pub(crate) not_live: Vec<(usize, usize)>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedRun {
    /// The experiment's name.
    pub experiment: String,
    /// Axis and value as written.
    pub labels: Labels,
    /// Which repetition, from 1.
    pub repeat: u32,
    /// Who drives it.
    pub driver: DriverKind,
    /// Where its chance starts: the same for runs that are compared.
    pub seed: u64,
    /// How many flows it has, or clients that ask the controllers.
    pub flows: usize,
    /// Seconds of warm-up and measurement, on the driver's clock. Where controllers are asked it is an estimate.
    pub seconds: f64,
    /// Whether it takes place only if its case's mean is not known well enough by then (`repeat: { until: .. }`).
    #[serde(rename = "optional", skip_serializing_if = "std::ops::Not::not")]
    pub is_optional: bool,
    /// How long it is driven live, where that is not as long as the file says.
    #[serde(skip)]
    pub(crate) live_times: Option<LiveTimes>,
    /// How well its case's mean shall be known.
    #[serde(skip)]
    pub(crate) precision: Option<Precision>,
    /// Its place in [`Plan::runs`].
    #[serde(skip)]
    pub(crate) number: usize,
    /// Index into `Plan::cases`, and the index of the case there.
    #[serde(skip)]
    pub(crate) at: (usize, usize),
}

/// What tells the runs of one file from each other.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct RunKey {
    driver: DriverKind,
    experiment: String,
    /// Its number in the experiment.
    case: usize,
    repeat: u32,
    seed: u64,
}

impl RunKey {
    /// That of the run which a record is of.
    pub(crate) fn of(record: &Record) -> Self {
        let experiment = record.experiment.clone();
        Self { driver: record.driver, experiment, case: record.case, repeat: record.repeat, seed: record.seed }
    }
}

impl PlannedRun {
    /// Its record, when nothing has been measured but for how long that took.
    pub(crate) fn record(&self, seconds: f64) -> Record {
        Record {
            experiment: self.experiment.clone(),
            case: self.at.1,
            labels: self.labels.clone(),
            repeat: self.repeat,
            seed: self.seed,
            driver: self.driver,
            seconds,
            flows: Vec::new(),
            links: Vec::new(),
            bonds: Vec::new(),
            packet_hops: None,
            reordered: None,
            reorder_extent: None,
            lost_outside_links: None,
            lost: BTreeMap::new(),
            late_max_us: None,
            time_series: None,
            busy_cores: None,
            requests: None,
            cluster: None,
        }
    }

    /// The case and driver whose run it is.
    pub(crate) const fn case_key(&self) -> CaseKey {
        (self.driver, self.at)
    }

    /// What tells it from the other runs of its file.
    pub(crate) fn key(&self) -> RunKey {
        let experiment = self.experiment.clone();
        RunKey { driver: self.driver, experiment, case: self.at.1, repeat: self.repeat, seed: self.seed }
    }

    /// The error of a run in which more was delivered than links carry.
    pub(crate) fn more_than_carried(&self, excess: Excess) -> Error {
        Error::MoreThanCarried {
            experiment: self.experiment.clone(),
            case: self.labels.to_string(),
            repeat: self.repeat,
            driver: match self.driver {
                DriverKind::Live => "live",
                DriverKind::Sim => "sim",
            },
            excess: Box::new(excess),
        }
    }

    /// How long it took, if it began then and ends now.
    pub(crate) fn timing(&self, started: Instant) -> Timing {
        Timing {
            experiment: self.experiment.clone(),
            labels: self.labels.clone(),
            repeat: self.repeat,
            driver: self.driver,
            wall_seconds: started.elapsed().as_secs_f64(),
            cpu_seconds: None,
        }
    }
}

/// Who sends to whom in a run of traffic: the same for every driver, spread, window and transport.
pub(crate) fn pairs_of(fabric: &Fabric, case: &Case, seed: u64) -> Result<Vec<(NodeId, NodeId)>, NoPairs> {
    pattern::pairs(fabric, &traffic_of(case).pattern, &mut Rng::new(seed).fork(1))
}

/// What hosts do in a case of traffic.
pub(crate) fn traffic_of(case: &Case) -> &Traffic {
    case.work.traffic().expect("the case is one of traffic")
}

/// Lists the runs of `fabric` under `options`, and checks that each of them can be run and judged.
///
/// A case is named by all that distinguishes it (`stride(1), ecmp`), by one value, alone or with its axis (`ecmp`, `spread ecmp`, `spread=ecmp`), or, where none is named so, by a
/// part of that.
///
/// # Errors
/// If there is nothing to run, a pattern yields no pairs, or an expectation could never be judged.
pub fn plan(fabric: &Fabric, options: &Options) -> Result<Plan, Error> {
    let seed = options.seed.unwrap_or(fabric.seed);
    let chosen = choose(fabric, &options.only)?;
    let mut cases = Vec::new();
    for index in chosen {
        let experiment = &fabric.experiments[index];
        let of_experiment = experiment.cases();
        expectations::check(experiment, &of_experiment)?;
        cases.push((index, of_experiment));
    }
    named::choose(&mut cases, &options.cases)?;
    let mut runs = Vec::new();
    let mut drivers = options.drivers.clone();
    drivers.sort_unstable_by_key(|&driver| std::cmp::Reverse(driver));
    drivers.dedup();
    check_controllers(fabric, &cases, &drivers)?;
    let not_live =
        if drivers.contains(&DriverKind::Live) { only_simulated(fabric, &cases, &drivers)? } else { Vec::new() };
    let not_simulated =
        if drivers.contains(&DriverKind::Sim) { stand_still(fabric, &cases, seed, &drivers)? } else { Vec::new() };
    let is_routed = |(slot, number): &(usize, usize)| {
        let (index, of_experiment) = &cases[*slot];
        routed_flow(fabric, &fabric.experiments[*index], &of_experiment[*number], seed).map(|_| *slot)
    };
    let routed = not_simulated.iter().filter_map(is_routed).collect();
    for driver in drivers {
        for (slot, (index, of_experiment)) in cases.iter().enumerate() {
            let experiment = &fabric.experiments[*index];
            for repeat in 1..=experiment.repeat {
                for (number, case) in of_experiment.iter().enumerate() {
                    let left_out = if driver == DriverKind::Sim { &not_simulated } else { &not_live };
                    if left_out.contains(&(slot, number)) {
                        continue;
                    }
                    let run = planned(fabric, experiment, case, (seed, repeat), driver)?;
                    runs.push(PlannedRun { number: runs.len(), at: (slot, number), ..run });
                }
            }
        }
    }
    Ok(Plan { fabric: fabric.name.clone(), seed, runs, cases, not_simulated, routed, not_live })
}

/// Refuses what controllers cannot be put through by any driver, if they shall run live.
fn check_controllers(fabric: &Fabric, cases: &[(usize, Vec<Case>)], drivers: &[DriverKind]) -> Result<(), Error> {
    if !drivers.contains(&DriverKind::Live) {
        return Ok(());
    }
    for (index, of_experiment) in cases {
        for case in of_experiment {
            let Some(load) = case.work.cluster() else { continue };
            if let Some(reason) = controllers::why_never(&controllers_of(fabric, case), load) {
                let (experiment, case) = (fabric.experiments[*index].name.clone(), labels_of(case).to_string());
                return Err(Error::NotLive { experiment, case, reason });
            }
        }
    }
    Ok(())
}

/// Whether a case has traffic from or to a host that is not made.
fn meets_external_host(fabric: &Fabric, case: &Case) -> bool {
    let is_external = |host: NodeId| fabric.topology.nodes[host].is_external();
    fabric.topology.nodes.iter().any(topology::Node::is_external)
        && pairs_of(fabric, case, fabric.seed)
            .is_ok_and(|pairs| pairs.into_iter().any(|(from, to)| is_external(from) || is_external(to)))
}

/// Whether a case gives a host that is not made more or fewer links than it has devices.
fn lacks_devices(fabric: &Fabric, case: &Case) -> bool {
    let is_external = fabric.topology.nodes.iter().any(topology::Node::is_external);
    let lacks = |node: &topology::Node| node.is_external() && node.devices.len() != node.ports.len();
    is_external && fabric.with(&case.overrides).topology.nodes.iter().any(lacks)
}

/// Why a case cannot run live; `None`: it can.
fn why_not_live(fabric: &Fabric, case: &Case) -> Option<&'static str> {
    match &case.work {
        Work::Cluster(load) => controllers::why_not_live(&controllers_of(fabric, case), load),
        Work::Traffic(_) if lacks_devices(fabric, case) => {
            Some("a bond has other members there than its host has devices of the machine")
        }
        Work::Traffic(_) if meets_external_host(fabric, case) => {
            Some("a host takes part that is behind devices of the machine: no iperf3 can be started in it")
        }
        Work::Traffic(Traffic { rate_pps: None, transfers: None, requests: None, transport, .. }) => {
            linux_limits::why_not_live(transport, || fabric.with(&case.overrides).topology.is_shaped())
        }
        Work::Traffic(_) => None,
    }
}

/// The cases that are only simulated. They are left out, and refused if something is expected that
/// only a live run can know, or if nothing else is left to run.
fn only_simulated(
    fabric: &Fabric,
    cases: &[(usize, Vec<Case>)],
    drivers: &[DriverKind],
) -> Result<Vec<(usize, usize)>, Error> {
    let mut found = Vec::new();
    let mut first_refused = None;
    for (slot, (index, of_experiment)) in cases.iter().enumerate() {
        let experiment = &fabric.experiments[*index];
        for (number, case) in of_experiment.iter().enumerate() {
            let Some(reason) = why_not_live(fabric, case) else { continue };
            let labels = labels_of(case);
            let refused = Error::NotLive { experiment: experiment.name.clone(), case: labels.to_string(), reason };
            if expectations::needs(DriverKind::Live, experiment, &labels) {
                return Err(refused);
            }
            first_refused.get_or_insert(refused);
            found.push((slot, number));
        }
    }
    let all: usize = cases.iter().map(|(_, cases)| cases.len()).sum();
    match first_refused.filter(|_| drivers == [DriverKind::Live] && found.len() == all) {
        Some(refused) => Err(refused),
        None => Ok(found),
    }
}

/// The controllers as a case has them.
pub(crate) fn controllers_of(fabric: &Fabric, case: &Case) -> Controllers {
    fabric.with(&case.overrides).controllers.expect("a file whose experiments ask controllers has some")
}

fn labels_of(case: &Case) -> Labels {
    Labels(case.labels.clone())
}

/// The cases that cannot be simulated: those in which simulated time would stand still, and what the simulated controllers
/// are not put through. They are left out if they run live as well, and refused if something is expected that only a
/// simulated run can know. Were they to be simulated only, the former are refused; the latter if nothing else is left to run.
fn stand_still(
    fabric: &Fabric,
    cases: &[(usize, Vec<Case>)],
    seed: u64,
    drivers: &[DriverKind],
) -> Result<Vec<(usize, usize)>, Error> {
    let standstill = Standstill::new(fabric);
    let mut found = Vec::new();
    let mut first_refused = None;
    for (slot, (index, of_experiment)) in cases.iter().enumerate() {
        let experiment = &fabric.experiments[*index];
        for (number, case) in of_experiment.iter().enumerate() {
            let labels = labels_of(case);
            if let Work::Cluster(load) = &case.work {
                let Some(reason) = controllers::why_not_simulated(&controllers_of(fabric, case), load) else {
                    continue;
                };
                let (experiment, case) = (experiment.name.clone(), labels.to_string());
                let refused = Error::NotSimulated { experiment, case, reason };
                if expectations::needs(DriverKind::Sim, &fabric.experiments[*index], &labels) {
                    return Err(refused);
                }
                first_refused.get_or_insert(refused);
                found.push((slot, number));
                continue;
            }
            if let Some(flow) = routed_flow(fabric, experiment, case, seed) {
                let refused = Error::Routed { experiment: experiment.name.clone(), case: labels.to_string(), flow };
                if drivers == [DriverKind::Sim] || expectations::needs(DriverKind::Sim, experiment, &labels) {
                    return Err(refused);
                }
                found.push((slot, number));
                continue;
            }
            if !standstill.is_possible(&case.overrides) {
                continue;
            }
            let reroutes = case.overrides.rerouting(fabric) == Rerouting::Follow && !traffic_of(case).faults.is_empty();
            let flow = (1..=experiment.repeat).find_map(|repeat| {
                // A pattern without pairs is reported with the first run that it concerns.
                let pairs = pairs_of(fabric, case, run_seed(seed, experiment, &labels, repeat)).ok()?;
                standstill.find(&case.overrides, &pairs, reroutes)
            });
            let Some((from, to)) = flow else { continue };
            let flow = format!("{} -> {}", fabric.topology.nodes[from].name, fabric.topology.nodes[to].name);
            let refused = Error::StandsStill { experiment: experiment.name.clone(), case: labels.to_string(), flow };
            // Who takes the links' times away says that it is not to be simulated.
            let is_meant = case.overrides.0.contains(&NetworkSetting::Shaping(false).into());
            if (drivers == [DriverKind::Sim] && !is_meant) || expectations::needs(DriverKind::Sim, experiment, &labels)
            {
                return Err(refused);
            }
            first_refused.get_or_insert(refused);
            found.push((slot, number));
        }
    }
    let all: usize = cases.iter().map(|(_, cases)| cases.len()).sum();
    if let Some(refused) = first_refused.filter(|_| drivers == [DriverKind::Sim] && found.len() == all) {
        return Err(refused);
    }
    Ok(found)
}

/// Whether a case runs both live and simulated.
pub(crate) fn runs_both_ways(fabric: &Fabric, experiment: usize, case: &Case) -> bool {
    let alone = [(experiment, vec![case.clone()])];
    let both = [DriverKind::Sim, DriverKind::Live];
    why_not_live(fabric, case).is_none()
        && stand_still(fabric, &alone, fabric.seed, &both).is_ok_and(|left_out| left_out.is_empty())
}

/// The first flow of a case of traffic, in any of its runs, that is between two subnets.
fn routed_flow(fabric: &Fabric, experiment: &Experiment, case: &Case, seed: u64) -> Option<String> {
    let topology = &fabric.topology;
    let mut hosts = topology.end_hosts().map(|(host, _)| host);
    let first = hosts.next().filter(|_| case.work.traffic().is_some())?;
    if hosts.all(|other| topology.share_subnet(first, other)) {
        return None;
    }
    let labels = labels_of(case);
    let (from, to) = (1..=experiment.repeat).find_map(|repeat| {
        // A pattern without pairs is reported with the first run that it concerns.
        let pairs = pairs_of(fabric, case, run_seed(seed, experiment, &labels, repeat)).ok()?;
        pairs.into_iter().find(|(from, to)| !topology.share_subnet(*from, *to))
    })?;
    Some(format!("{} -> {}", topology.nodes[from].name, topology.nodes[to].name))
}

/// Why `run --sim` refuses experiments of this file: an error for each of which a case can't be simulated.
pub fn not_simulated(fabric: &Fabric) -> Vec<Error> {
    let refused = |index: usize| {
        let cases = [(index, fabric.experiments[index].cases())];
        stand_still(fabric, &cases, fabric.seed, &[DriverKind::Sim]).err()
    };
    (0..fabric.experiments.len()).filter_map(refused).collect()
}

fn choose(fabric: &Fabric, only: &[String]) -> Result<Vec<usize>, Error> {
    let all = &fabric.experiments;
    if all.is_empty() {
        return Err(Error::NoExperiments { fabric: fabric.name.clone() });
    }
    check_known(only, all.iter().map(|experiment| experiment.name.as_str()), &fabric.name)?;
    Ok((0..all.len()).filter(|&i| only.is_empty() || only.contains(&all[i].name)).collect())
}

/// Refuses a name that none of the experiments has.
pub(crate) fn check_known<'a>(
    only: &[String],
    experiments: impl Iterator<Item = &'a str>,
    fabric: &str,
) -> Result<(), Error> {
    let known: Vec<&str> = experiments.collect();
    match only.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            Err(Error::UnknownExperiment { name: name.clone(), fabric: fabric.to_owned(), known: known.join(", ") })
        }
        None => Ok(()),
    }
}

fn planned(
    fabric: &Fabric,
    experiment: &Experiment,
    case: &Case,
    (seed, repeat): (u64, u32),
    driver: DriverKind,
) -> Result<PlannedRun, Error> {
    let labels = labels_of(case);
    let seed = run_seed(seed, experiment, &labels, repeat);
    let lasts = (experiment.warm_up + experiment.duration).as_secs_f64();
    let mut otherwise = None;
    let (flows, seconds) = match &case.work {
        Work::Traffic(_) => {
            let pairs = pairs_of(fabric, case, seed).map_err(|reason| Error::Pattern {
                experiment: experiment.name.clone(),
                case: labels.to_string(),
                reason,
            })?;
            let flows = traffic_of(case).requests.as_deref().map(at_once);
            otherwise = live_times(experiment, case, pairs.len()).filter(|_| driver == DriverKind::Live);
            let lasts = otherwise.map_or(lasts, LiveTimes::seconds);
            (flows.unwrap_or(pairs.len() * traffic_of(case).streams as usize), lasts)
        }
        Work::Cluster(load) => {
            let asks = controllers::seconds_of(&controllers_of(fabric, case), load);
            (load.clients as usize, lasts.max(asks))
        }
    };
    let (name, precision) = (experiment.name.clone(), Precision::of(experiment));
    Ok(PlannedRun {
        experiment: name,
        labels,
        repeat,
        driver,
        seed,
        flows,
        seconds,
        live_times: otherwise,
        is_optional: precision.is_some_and(|precision| repeat > precision.at_least),
        precision,
        number: 0,
        at: (0, 0),
    })
}

/// Requests that are under way at a time: a closed loop's clients; of an open loop, the hosts from which they come.
const fn at_once(load: &RequestLoad) -> usize {
    if load.rate_milli.is_some() { load.from.len() } else { load.clients as usize }
}

/// Only the pattern distinguishes cases here: whatever else varies is compared under the same seed.
fn run_seed(seed: u64, experiment: &Experiment, labels: &Labels, repeat: u32) -> u64 {
    let mut state = mix(seed ^ mix(fnv1a(experiment.name.as_bytes())));
    for axis in &experiment.vary {
        if axis.values.iter().any(|(_, setting)| matches!(setting, Setting::Traffic(TrafficSetting::Pattern(_)))) {
            let value = labels.get(&axis.key).unwrap_or_default();
            state = mix(state ^ fnv1a(value.as_bytes()));
        }
    }
    mix(state ^ u64::from(repeat))
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo): the same on every machine and in every version, unlike the standard library's.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Plan {
    /// Whether controllers are asked in a run.
    pub(crate) fn asks_controllers(&self, fabric: &Fabric, run: &PlannedRun) -> bool {
        fabric.experiments[self.cases[run.at.0].0].work.cluster().is_some()
    }

    /// How many runs there are: `12 runs`, `10 to 60 runs`.
    pub fn runs_in_words(&self) -> String {
        let (most, least) = (self.runs.len(), self.runs.iter().filter(|run| !run.is_optional).count());
        match most {
            1 => "1 run".to_owned(),
            _ if least < most => format!("{least} to {most} runs"),
            _ => format!("{most} runs"),
        }
    }

    /// How long all of them are, by who drives them: `3.6 s live, 3.6 s simulated`.
    pub fn time_in_words(&self) -> String {
        let of = |driver: DriverKind, word: &str| {
            let seconds = |is_counted: &dyn Fn(&PlannedRun) -> bool| {
                let runs = self.runs.iter().filter(|run| run.driver == driver && is_counted(run));
                runs.map(|run| run.seconds).sum::<f64>()
            };
            let (least, most) = (seconds(&|run| !run.is_optional), seconds(&|_| true));
            let is_there = self.runs.iter().any(|run| run.driver == driver);
            let least = if least < most { format!("{least:.1} to ") } else { String::new() };
            is_there.then(|| format!("{least}{most:.1} s {word}"))
        };
        let both = [of(DriverKind::Live, "live"), of(DriverKind::Sim, "simulated")];
        both.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The runs for the terminal that stdout is, or for a pipe: a line for each case and driver.
    pub fn table(&self) -> String {
        for_terminal(u16::MAX, |width| self.table_within(width))
    }

    /// The runs in a table of at most `width` columns.
    fn table_within(&self, width: u16) -> String {
        let asks = |slot: usize| self.cases[slot].1.first().is_some_and(|case| case.work.cluster().is_some());
        let flows = match (0..self.cases.len()).filter(|&slot| asks(slot)).count() {
            0 => "flows",
            all if all == self.cases.len() => "clients",
            _ => "flows, clients",
        };
        let mut grid = Grid::new(&["experiment", "case", "driver", flows, "runs", "each", "together"]);
        for (run, runs) in self.grouped() {
            let each = Span::from_ps((run.seconds * 1e12).round() as u64).to_string();
            let together = |runs: u32| format!("{:.1} s", run.seconds * f64::from(runs));
            let (runs, together) = match run.precision.map(|precision| precision.at_least) {
                Some(least) if least < runs => {
                    (format!("{least} to {runs}"), format!("{} to {}", together(least), together(runs)))
                }
                _ => (runs.to_string(), together(runs)),
            };
            let driver = run.driver.word().to_owned();
            let (name, case) = (run.experiment.clone(), run.labels.to_string());
            grid.row(vec![name, case, driver, run.flows.to_string(), runs, each, together]);
        }
        let mut text = grid.render_within(&[3, 4, 5, 6], width);
        text.push_str(&self.live_times_in_words());
        for (slot, number) in &self.not_simulated {
            let case = &self.cases[*slot].1[*number];
            let _ = writeln!(text, "{}: {}", labels_of(case), self.why_not_simulated(*slot, case));
        }
        for (slot, number) in &self.not_live {
            let case = &self.cases[*slot].1[*number];
            let why = not_live_in_words(case.work.cluster().is_some());
            let _ = writeln!(text, "{}: {why}", labels_of(case));
        }
        text
    }

    /// How live runs last otherwise than the file says, a line for each experiment.
    fn live_times_in_words(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for run in &self.runs {
            let line = run.live_times.map(|times| format!("{}: {}\n", run.experiment, times.in_words()));
            lines.extend(line.filter(|line| !lines.contains(line)));
        }
        lines.concat()
    }

    /// The runs, one a line, after RFC 4180 with LF.
    pub fn csv(&self) -> String {
        let mut text = "experiment,case,repeat,driver,seed,flows,seconds\n".to_owned();
        for run in &self.runs {
            let (name, case) = (quoted(&run.experiment), quoted(&run.labels.to_string()));
            let driver = run.driver.word();
            let _ = writeln!(text, "{name},{case},{},{driver},{},{},{}", run.repeat, run.seed, run.flows, run.seconds);
        }
        text
    }

    fn why_not_simulated(&self, slot: usize, case: &Case) -> &'static str {
        not_simulated_in_words(case.work.cluster().is_some(), self.routed.contains(&slot))
    }

    /// Each case and driver once, with the number of its runs, in the order of the file.
    fn grouped(&self) -> Vec<(&PlannedRun, u32)> {
        let mut groups: Vec<(&PlannedRun, u32)> = Vec::new();
        for run in &self.runs {
            match groups.iter_mut().find(|(first, _)| (first.at, first.driver) == (run.at, run.driver)) {
                Some((_, runs)) => *runs += 1,
                None => groups.push((run, 1)),
            }
        }
        groups.sort_by_key(|(run, _)| (run.at, run.driver));
        groups
    }
}

/// Why a case has no simulated runs.
pub(crate) const fn not_simulated_in_words(asks_controllers: bool, is_routed: bool) -> &'static str {
    if asks_controllers {
        "not simulated: faults, routed RPCs and lists of shards are run live"
    } else if is_routed {
        "not simulated: flows are between subnets, and simulated hosts are no routers"
    } else {
        "not simulated: links without rate and delay take no time"
    }
}

/// Why a case has no live runs.
pub(crate) const fn not_live_in_words(asks_controllers: bool) -> &'static str {
    if asks_controllers {
        "not run live: `delay` and `until: leader` are simulated"
    } else {
        "not run live: a host behind devices of the machine takes part, or has another number of them"
    }
}
