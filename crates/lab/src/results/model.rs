//! What the runs of a plan amount to: what tables, plots, pages and files are made of.

use std::collections::BTreeMap;

use fabric::{DriverKind, Metric, Operation};
use serde::{Deserialize, Serialize};

use super::bonds::BondResult;
use crate::counted::counted;
use crate::labels::Labels;
use crate::live_times::LiveTimes;
use crate::measure::environment::{Environment, SimulatorSpeed};
use crate::measure::metric::metric_name;
use crate::measure::precision::Precision;
use crate::measure::record::Record;
use crate::measure::statistics::{Difference, Summary};
use crate::plan::{not_live_in_words, not_simulated_in_words};

/// So many failures of an experiment are listed one by one.
const NOTES_MAX: usize = 10;

/// Everything that a report needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Results {
    /// Which version of the program has measured, with the commit that it is made of; empty: an earlier one.
    #[serde(default)]
    pub version: String,
    /// The network that was measured.
    pub network: Network,
    /// Where chance started.
    pub seed: u64,
    /// Who drove the runs.
    pub drivers: Vec<DriverKind>,
    /// How many runs there were to be; fewer have ended if they were interrupted, or one failed.
    #[serde(default)]
    pub planned_runs: usize,
    /// In the order of the file.
    pub experiments: Vec<ExperimentResult>,
    /// One a run, in the order of the plan. Kept in `samples.jsonl`.
    #[serde(skip)]
    pub records: Vec<Record>,
    /// What it ran on, when, and how long it took. Kept in `machine.json`.
    #[serde(skip)]
    pub environment: Environment,
    /// The text of the fabric file that was measured; empty: it is not known. Kept in `fabric.yaml`.
    #[serde(skip)]
    pub file: String,
}

/// The network, as far as a report shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Network {
    /// The fabric's name.
    pub name: String,
    /// One line about it; may be empty.
    pub description: String,
    /// How many of `nodes` are hosts; they come first.
    pub hosts: u32,
    /// How many of those, the last ones, are ports of functions of chains: two an instance.
    #[serde(default)]
    pub function_ports: u32,
    /// Functions of chains, those without ports among them. What earlier versions have written has none.
    #[serde(default)]
    pub functions: u32,
    /// How many of them are further interfaces of others.
    #[serde(default)]
    pub interfaces: u32,
    /// Hosts with several interfaces: the node of one, and that of its next one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joints: Vec<[u32; 2]>,
    /// Hosts, then switches.
    pub nodes: Vec<NetworkNode>,
    /// In the fabric's order.
    pub links: Vec<NetworkLink>,
    /// How many controllers the file has, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controllers: Option<u32>,
}

/// A node in a drawing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NetworkNode {
    /// Unique name.
    pub name: String,
    /// 0 for hosts; switches count from the hosts; 0 for switches of explicit topologies too.
    pub tier: u8,
    /// From the left edge of the drawing, in thousandths of its width.
    pub x_permille: u16,
}

/// A link in a drawing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NetworkLink {
    /// Index of the node at end A.
    pub a: u32,
    /// Index of the node at end B.
    pub b: u32,
    /// Bits a second; `None`: as fast as the machine goes.
    pub rate_bps: Option<u64>,
    /// Number of the bond that it is a member of, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bond: Option<u32>,
}

/// What came of one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ExperimentResult {
    /// Its name.
    pub name: String,
    /// One line about it; may be empty.
    pub title: String,
    /// Its traffic, or what is asked of the controllers, in words, as far as no axis varies it.
    pub traffic: String,
    /// What is asked of the controllers; nothing where hosts talk to hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<Operation>,
    /// Measured time of each run, seconds.
    pub seconds: f64,
    /// The same of live runs of TCP, where iperf3's whole seconds are others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_seconds: Option<f64>,
    /// Time left out before it, seconds.
    pub warm_up_seconds: f64,
    /// The same of live runs of TCP, where it is another one: of the case with most flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_warm_up_seconds: Option<f64>,
    /// Runs of each case and driver; with `precision`: at most.
    pub repeat: u32,
    /// How well each mean was to be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// What tables show, in order.
    pub metrics: Vec<Metric>,
    /// What the file names itself, to be shown or as an expectation, where hosts talk to hosts. [`Results::compare_drivers`] judges it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Metric>,
    /// In the order of the plan.
    pub cases: Vec<CaseResult>,
    /// How policies compare, paired by seed.
    pub comparisons: Vec<Comparison>,
    /// What came of its expectations.
    pub verdicts: Vec<Verdict>,
    /// Cases, by index, that ran live only: on links without rate and delay simulated time stands still; not all that
    /// is injected into controllers is simulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_simulated: Vec<usize>,
    /// Whether that is since their flows are between subnets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_routed: bool,
    /// Cases, by index, that were simulated only: not all that simulated controllers do is run live, nor can
    /// programs be started in hosts behind devices of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_live: Vec<usize>,
}

/// One case in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// Axis and value as written.
    pub labels: Labels,
    /// Every metric that at least one driver knows.
    pub cells: Vec<Cell>,
    /// What each direction of each bond did, by driver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bonds: Vec<BondResult>,
    /// What others measured, in the metric's unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<(Metric, f64)>,
}

/// One metric of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What was measured.
    pub metric: Metric,
    /// Over the live runs.
    pub live: Option<Summary>,
    /// Over the simulated runs.
    pub sim: Option<Summary>,
    /// Live minus simulated, paired by repetition.
    pub difference: Option<Difference>,
}

/// Two cases that differ in one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What differs: `spread`, `routes`, `transport`, `reorder`; of controllers `nodes`, `shards`, `at`, `election-timeout`, `pre-vote`.
    pub axis: String,
    /// The value that is looked at.
    pub value: String,
    /// The value that it is held against: the first on the axis.
    pub against: String,
    /// What both have in common.
    pub labels: Labels,
    /// What was measured.
    pub metric: Metric,
    /// Who drove the runs.
    pub driver: DriverKind,
    /// `value` minus `against`, paired by repetition.
    pub difference: Difference,
}

/// What came of one expectation in one case with one driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Index of the case in its experiment.
    pub case: usize,
    /// Axis and value as written.
    pub labels: Labels,
    /// Who drove the runs.
    pub driver: DriverKind,
    /// What was looked at.
    pub metric: Metric,
    /// The expectation as written in the file.
    pub text: String,
    /// Its line in the file, from 1.
    pub line: usize,
    /// The mean over the runs, in the metric's unit; `None` if nothing was measured.
    pub measured: Option<f64>,
    /// Whether the expectation is met. What could not be measured is not met.
    pub passed: bool,
}

impl Results {
    /// Whether every expectation is met.
    pub fn passed(&self) -> bool {
        self.verdicts().all(|(_, verdict)| verdict.passed)
    }

    /// Every verdict, with its experiment.
    pub fn verdicts(&self) -> impl Iterator<Item = (&ExperimentResult, &Verdict)> {
        self.experiments.iter().flat_map(|experiment| experiment.verdicts.iter().map(move |v| (experiment, v)))
    }

    /// How fast the simulator was; `None` without simulated runs.
    pub const fn simulator_speed(&self) -> Option<SimulatorSpeed> {
        self.environment.simulator
    }

    /// What a reader must know of how the runs went, if anything: runs that did not take place, packets that the machine lost.
    pub(crate) fn warning(&self) -> Option<String> {
        let (ended, planned) = (self.records.len(), self.planned_runs);
        let missing = (ended < planned).then(|| format!("{ended} of {planned} runs: the others did not take place"));
        let lost: u64 = self.records.iter().filter_map(|record| record.lost_outside_links).sum();
        let lost = (lost > 0).then(|| {
            format!(
                "live: {} lost in the machine, not in a link: the machine is too slow for these rates",
                counted(lost, "packet")
            )
        });
        let warnings: Vec<String> = missing.into_iter().chain(lost).collect();
        (!warnings.is_empty()).then(|| warnings.join("; "))
    }

    /// What a reader must know of an experiment: means that are not known well enough, requests that failed, answers that contradict each other.
    pub(crate) fn notes(&self, experiment: &ExperimentResult) -> Vec<String> {
        let mut notes = experiment.imprecise();
        for record in self.records.iter().filter(|record| record.experiment == experiment.name) {
            let run = || format!("{}, {}, repeat {}", record.labels, record.driver.word(), record.repeat);
            let failed = record.flows.iter().filter_map(|flow| Some((flow, flow.failure.as_ref()?)));
            if let Some((flow, why)) = failed.clone().next() {
                let (from, to, count) = (&flow.from, &flow.to, failed.count());
                let others = if count > 1 {
                    format!(" (and {})", counted(count as u64 - 1, "other flow"))
                } else {
                    String::new()
                };
                notes.push(format!(
                    "{}: the flow {from} -> {to} failed, and counts with what came of it: {why}{others}",
                    run()
                ));
            }
            let Some(cluster) = &record.cluster else { continue };
            let run = run();
            if let Some(first) = &cluster.first_failure {
                notes.push(format!("{run}: {} failed; the first: {first}", counted(cluster.failed, "request")));
            }
            if let Some(counterexample) = &cluster.counterexample {
                notes.push(format!("{run}: {counterexample}"));
            }
        }
        notes.extend(self.lost_in(&experiment.name));
        notes.truncate(NOTES_MAX);
        notes
    }

    /// What went nowhere in an experiment's runs and no link has counted, by driver and reason.
    fn lost_in(&self, experiment: &str) -> Vec<String> {
        let mut all: BTreeMap<(&str, &str), (u64, usize)> = BTreeMap::new();
        for record in self.records.iter().filter(|record| record.experiment == experiment) {
            for (reason, lost) in &record.lost {
                let (sum, runs) = all.entry((record.driver.word(), reason)).or_default();
                *sum += lost;
                *runs += 1;
            }
        }
        let word = |((driver, reason), (lost, runs)): (&(&str, &str), &(u64, usize))| {
            let (lost, runs) = (counted(*lost, "packet"), counted(*runs as u64, "run"));
            format!("{driver}: {lost} lost in {runs}, no link's doing: {reason}")
        };
        all.iter().map(word).collect()
    }

    /// The records of one case and driver, in the order of the repetitions.
    pub(crate) fn records_of<'a>(
        &'a self,
        experiment: &'a ExperimentResult,
        case: usize,
        driver: DriverKind,
    ) -> impl Iterator<Item = &'a Record> {
        records_of(&self.records, &experiment.name, case, driver)
    }
}

/// The records of one case and driver, in the order of the repetitions.
pub(super) fn records_of<'a>(
    records: &'a [Record],
    experiment: &'a str,
    case: usize,
    driver: DriverKind,
) -> impl Iterator<Item = &'a Record> {
    records.iter().filter(move |r| r.driver == driver && r.case == case && r.experiment == experiment)
}

impl ExperimentResult {
    /// Which of these drivers have measured anything.
    pub(crate) fn drivers_of(&self, drivers: &[DriverKind]) -> Vec<DriverKind> {
        let measured = |driver: &DriverKind| {
            self.cases.iter().flat_map(|case| &case.cells).any(|cell| cell.summary(*driver).is_some())
        };
        drivers.iter().copied().filter(measured).collect()
    }

    /// Whether any run has measured anything: there is something to put into a table.
    pub(crate) fn is_measured(&self) -> bool {
        self.cases.iter().any(|case| !case.cells.is_empty())
    }

    /// Which cases have no simulated or no live runs, and why: a line each.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let asks = !self.asks.is_empty();
        let both = [
            (&self.not_simulated, not_simulated_in_words(asks, self.is_routed)),
            (&self.not_live, not_live_in_words(asks)),
        ];
        both.into_iter()
            .filter(|(cases, _)| !cases.is_empty())
            .map(|(cases, why)| self.without_runs(cases, why))
            .collect()
    }

    /// Which cases that both drivers could have run only one of them has: a line each.
    pub(super) fn of_one_driver(&self) -> Vec<String> {
        let ran = |number: usize, driver| self.cases[number].cells.iter().any(|cell| cell.summary(driver).is_some());
        let both = [(DriverKind::Live, DriverKind::Sim, "live"), (DriverKind::Sim, DriverKind::Live, "simulated")];
        let lines = both.into_iter().filter_map(|(driver, other, word)| {
            let left_out = |number: &usize| self.not_simulated.contains(number) || self.not_live.contains(number);
            let is_alone = |number: &usize| ran(*number, driver) && !ran(*number, other) && !left_out(number);
            let alone: Vec<usize> = (0..self.cases.len()).filter(is_alone).collect();
            (!alone.is_empty()).then(|| self.without_runs(&alone, &format!("only {word} runs are there")))
        });
        lines.collect()
    }

    fn without_runs(&self, cases: &[usize], why: &str) -> String {
        if cases.len() == self.cases.len() {
            return why.to_owned();
        }
        let case = |number: &usize| self.cases.get(*number).map_or_else(String::new, |case| case.labels.to_string());
        format!("{}: {why}", cases.iter().map(case).collect::<Vec<_>>().join("; "))
    }

    /// How many runs each case has: `3 runs`, `5 to 30 runs`.
    pub(crate) fn runs_in_words(&self) -> String {
        match (self.repeat, self.precision.map(|precision| precision.at_least)) {
            (1, _) => "1 run".to_owned(),
            (most, Some(least)) if least < most => format!("{least} to {most} runs"),
            (most, _) => format!("{most} runs"),
        }
    }

    /// How long each run is measured: `0.5 s`, `0.5 s (live TCP: 1 s)`.
    pub(crate) fn seconds_in_words(&self) -> String {
        let live = self.live_seconds.map_or_else(String::new, |live| format!(" (live TCP: {live} s)"));
        format!("{} s{live}", self.seconds)
    }

    /// How long live runs of TCP take and how long simulated ones do, where both are not alike: a line each.
    pub(crate) fn unlike_times(&self) -> Vec<String> {
        let in_words = |times: LiveTimes| {
            let simulated =
                format!("simulated runs warm up for {} s and last {} s", self.warm_up_seconds, self.seconds);
            vec![times.in_words(), simulated]
        };
        self.live_times().map_or_else(Vec::new, in_words)
    }

    /// The same for what shows the results of these drivers, and says in its heading for how long live runs are measured: where they warm up otherwise.
    pub(crate) fn unlike_warm_up(&self, drivers: &[DriverKind]) -> Vec<String> {
        let is_compared = self.drivers_of(drivers).len() > 1;
        if is_compared && self.live_warm_up_seconds.is_some() { self.unlike_times() } else { Vec::new() }
    }

    /// How long live runs of TCP take, where simulated ones take as long as the experiment says.
    fn live_times(&self) -> Option<LiveTimes> {
        let asked = self.warm_up_seconds.ceil() as u64;
        (self.live_seconds.is_some() || self.live_warm_up_seconds.is_some()).then(|| {
            let warm_up = self.live_warm_up_seconds.map_or(asked, |seconds| seconds as u64);
            let measured = self.live_seconds.unwrap_or(self.seconds) as u64;
            LiveTimes { warm_up, measured, start_late: warm_up > asked }
        })
    }

    /// Cases whose means are not known as well as the file asks, after all the runs that it allows: a line each.
    fn imprecise(&self) -> Vec<String> {
        let Some(precision) = self.precision else { return Vec::new() };
        let mut lines = Vec::new();
        for case in &self.cases {
            let name = if case.labels.0.is_empty() { String::new() } else { format!("{}, ", case.labels) };
            for driver in [DriverKind::Live, DriverKind::Sim] {
                let Some(summary) = case.summary(precision.metric, driver) else { continue };
                if summary.n < precision.at_most || precision.is_met(summary) {
                    continue;
                }
                let wide = match summary.interval.map(|half| half / summary.mean.abs()) {
                    Some(share) if share.is_finite() => format!("±{} % of it", rounded(share)),
                    _ => "wider than the mean itself".to_owned(),
                };
                lines.push(format!(
                    "{name}{}: after {} runs, the 99 % interval of {} is still {wide}, not ±{} %",
                    driver.word(),
                    summary.n,
                    metric_name(precision.metric),
                    rounded(precision.share),
                ));
            }
        }
        lines
    }
}

/// A share in per cent, with two significant digits.
fn rounded(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = usize::from(percent < 9.95);
    let text = format!("{percent:.decimals$}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

impl Comparison {
    /// What is held against what: `packet-scatter against ecmp`, `nodes 3 against 1`.
    pub(crate) fn policies(&self) -> String {
        format!("{} against {}", Labels(vec![(self.axis.clone(), self.value.clone())]), self.against)
    }
}

impl CaseResult {
    /// The cell of `metric`.
    pub fn cell(&self, metric: Metric) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.metric == metric)
    }

    /// How many runs of `driver` it had.
    pub fn runs(&self, driver: DriverKind) -> u32 {
        self.cells.iter().filter_map(|cell| cell.summary(driver)).map(|summary| summary.n).max().unwrap_or(0)
    }

    /// The summary of `metric` over the runs of `driver`.
    pub fn summary(&self, metric: Metric, driver: DriverKind) -> Option<&Summary> {
        self.cell(metric)?.summary(driver)
    }

    /// What others measured of `metric`, in its unit.
    pub fn published(&self, metric: Metric) -> Option<f64> {
        self.published.iter().find(|(of, _)| *of == metric).map(|(_, value)| *value)
    }
}

impl Cell {
    /// The summary over the runs of `driver`.
    pub const fn summary(&self, driver: DriverKind) -> Option<&Summary> {
        match driver {
            DriverKind::Live => self.live.as_ref(),
            DriverKind::Sim => self.sim.as_ref(),
        }
    }
}
