//! What the runs of a plan amount to: what tables, plots, pages and files are made of.

use fabric::{DriverKind, Metric, Operation};
use serde::{Deserialize, Serialize};

use super::bonds::BondResult;
use crate::labels::Labels;
use crate::measure::environment::{Environment, SimulatorSpeed};
use crate::measure::record::Record;
use crate::measure::statistics::{Difference, Summary};
use crate::plan::{not_live_in_words, not_simulated_in_words};

/// So many failures of an experiment are listed one by one.
const NOTES_MAX: usize = 10;

/// Everything that a report needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
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
}

/// The network, as far as a report shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// The fabric's name.
    pub name: String,
    /// One line about it; may be empty.
    pub description: String,
    /// How many of `nodes` are hosts; they come first.
    pub hosts: u32,
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
    /// Time left out before it, seconds.
    pub warm_up_seconds: f64,
    /// Runs of each case and driver.
    pub repeat: u32,
    /// What tables show, in order.
    pub metrics: Vec<Metric>,
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
            format!("live: {lost} packets lost in the machine, not in a link: the machine is too slow for these rates")
        });
        let warnings: Vec<String> = missing.into_iter().chain(lost).collect();
        (!warnings.is_empty()).then(|| warnings.join("; "))
    }

    /// What went wrong with the controllers of an experiment: requests that failed, answers that contradict each other.
    pub(crate) fn notes(&self, experiment: &ExperimentResult) -> Vec<String> {
        let mut notes = Vec::new();
        for record in self.records.iter().filter(|record| record.experiment == experiment.name) {
            let Some(cluster) = &record.cluster else { continue };
            let run = format!("{}, {}, repeat {}", record.labels, record.driver.word(), record.repeat);
            if let Some(first) = &cluster.first_failure {
                notes.push(format!("{run}: {} requests failed; the first: {first}", cluster.failed));
            }
            if let Some(counterexample) = &cluster.counterexample {
                notes.push(format!("{run}: {counterexample}"));
            }
        }
        notes.truncate(NOTES_MAX);
        notes
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
        let both = [(&self.not_simulated, not_simulated_in_words(asks)), (&self.not_live, not_live_in_words(asks))];
        both.into_iter()
            .filter(|(cases, _)| !cases.is_empty())
            .map(|(cases, why)| self.without_runs(cases, why))
            .collect()
    }

    fn without_runs(&self, cases: &[usize], why: &str) -> String {
        if cases.len() == self.cases.len() {
            return why.to_owned();
        }
        let case = |number: &usize| self.cases.get(*number).map_or_else(String::new, |case| case.labels.to_string());
        format!("{}: {why}", cases.iter().map(case).collect::<Vec<_>>().join("; "))
    }
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
