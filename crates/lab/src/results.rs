//! What the runs of a plan amount to: summaries, comparisons, verdicts.

use fabric::{DriverKind, Experiment, Fabric, Metric, Operation, Work};
use serde::{Deserialize, Serialize};
use topology::{NodeKind, Side};

use crate::bonds::{self, BondResult};
use crate::environment::Environment;
use crate::judge::{Verdict, judge};
use crate::metric::{metric_value, usual};
use crate::plan::{Plan, driver_name, not_live_in_words, why_not_simulated};
use crate::record::{Labels, Record};
use crate::statistics::{Difference, Summary, paired, summarise};
use crate::words;

/// Every metric of traffic, in the order in which they are shown.
const METRICS: [Metric; 13] = [
    Metric::GoodputMean,
    Metric::GoodputMin,
    Metric::GoodputMax,
    Metric::GoodputSum,
    Metric::Fairness,
    Metric::Retransmits,
    Metric::FastRetransmits,
    Metric::Timeouts,
    Metric::Reordered,
    Metric::ReorderExtent,
    Metric::Drops,
    Metric::UtilisationMean,
    Metric::UtilisationMax,
];

/// Further ones of traffic at a constant rate.
const OF_A_RATE: [Metric; 3] = [Metric::Lost, Metric::Duplicates, Metric::LongestGap];

/// So many failures of an experiment are told one by one.
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

/// How long a run took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The experiment's name.
    pub experiment: String,
    /// The case.
    pub labels: Labels,
    /// Which repetition, from 1.
    pub repeat: u32,
    /// Who drove it.
    pub driver: DriverKind,
    /// By the clock on the wall.
    pub wall_seconds: f64,
    /// CPU time of the thread that ran it; simulated runs only.
    pub cpu_seconds: Option<f64>,
}

impl Timing {
    /// Of a run that began then and ends now.
    pub(crate) fn since(started: std::time::Instant, run: &crate::PlannedRun) -> Self {
        Self {
            experiment: run.experiment.clone(),
            labels: run.labels.clone(),
            repeat: run.repeat,
            driver: run.driver,
            wall_seconds: started.elapsed().as_secs_f64(),
            cpu_seconds: None,
        }
    }
}

/// How fast the simulator was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatorSpeed {
    /// One packet or ACK over one link is one packet-hop.
    pub packet_hops: u64,
    /// CPU time of all simulated runs together, set-up of each run included.
    pub cpu_seconds: f64,
    /// Packet-hops a second on one core.
    pub per_second: f64,
}

impl Network {
    fn of(fabric: &Fabric) -> Self {
        let tier = |kind: &NodeKind| match kind {
            NodeKind::Host(_) => 0,
            NodeKind::Switch { tier, .. } => *tier,
        };
        Self {
            name: fabric.name.clone(),
            description: fabric.description.clone(),
            hosts: fabric.topology.hosts,
            nodes: fabric
                .topology
                .nodes
                .iter()
                .map(|node| NetworkNode {
                    name: node.name.clone(),
                    tier: tier(&node.kind),
                    x_permille: node.x_permille,
                })
                .collect(),
            links: fabric
                .topology
                .links
                .iter()
                .map(|link| NetworkLink {
                    a: link.end(Side::A).node.0,
                    b: link.end(Side::B).node.0,
                    rate_bps: link.spec.rate_bps,
                })
                .collect(),
            controllers: fabric.controllers.as_ref().map(|controllers| controllers.nodes),
        }
    }
}

impl Results {
    pub(crate) fn new(fabric: &Fabric, plan: &Plan, measured: Vec<(Record, Timing)>, environment: Environment) -> Self {
        let (records, timings): (Vec<_>, Vec<_>) = measured.into_iter().unzip();
        let mut drivers: Vec<DriverKind> = records.iter().map(|record| record.driver).collect();
        drivers.sort_unstable();
        drivers.dedup();
        let experiments = plan
            .cases
            .iter()
            .enumerate()
            .map(|(slot, (index, cases))| {
                let of_slot = |left_out: &[(usize, usize)]| {
                    left_out.iter().filter(|at| at.0 == slot).map(|at| at.1).collect::<Vec<usize>>()
                };
                let left_out = (of_slot(&plan.not_simulated), of_slot(&plan.not_live));
                let labels = cases.iter().map(|case| Labels(case.labels.clone())).collect();
                experiment_result(&fabric.experiments[*index], labels, &records, &drivers, left_out)
            })
            .collect();
        let simulator = speed(&records, &timings);
        let environment = Environment { simulator, timings, ..environment };
        Self { network: Network::of(fabric), seed: plan.seed, drivers, experiments, records, environment }
    }

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

    /// What a reader must know of how the runs went, if anything: packets that the machine lost.
    pub(crate) fn warning(&self) -> Option<String> {
        let lost: u64 = self.records.iter().filter_map(|record| record.lost_outside_links).sum();
        (lost > 0).then(|| {
            format!("live: {lost} packets lost in the machine, not in a link: the machine is too slow for these rates")
        })
    }

    /// What went wrong with the controllers of an experiment: requests that failed, answers that contradict each other.
    pub(crate) fn notes(&self, experiment: &ExperimentResult) -> Vec<String> {
        let mut notes = Vec::new();
        for record in self.records.iter().filter(|record| record.experiment == experiment.name) {
            let Some(cluster) = &record.cluster else { continue };
            let run = format!("{}, {}, repeat {}", record.labels, driver_name(record.driver), record.repeat);
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

fn records_of<'a>(
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
        let why_not_simulated = why_not_simulated(!self.asks.is_empty());
        let both =
            [(&self.not_simulated, why_not_simulated), (&self.not_live, not_live_in_words(!self.asks.is_empty()))];
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

fn experiment_result(
    experiment: &Experiment,
    labels: Vec<Labels>,
    records: &[Record],
    drivers: &[DriverKind],
    (not_simulated, not_live): (Vec<usize>, Vec<usize>),
) -> ExperimentResult {
    let is_left_out = |driver, case: usize| match driver {
        DriverKind::Live => not_live.contains(&case),
        DriverKind::Sim => not_simulated.contains(&case),
    };
    let metrics = if experiment.report.is_empty() { usual(&experiment.work) } else { experiment.report.clone() };
    let asks = experiment.work.cluster().map_or_else(Vec::new, |load| load.operations.clone());
    let known: Vec<Metric> = match &experiment.work {
        Work::Traffic(traffic) if traffic.rate_pps.is_some() => METRICS.into_iter().chain(OF_A_RATE).collect(),
        Work::Traffic(_) => METRICS.to_vec(),
        Work::Cluster(_) => Metric::all().filter(|metric| metric.is_of_cluster()).collect(),
    };
    let values = |case: usize, driver, metric| -> Vec<f64> {
        records_of(records, &experiment.name, case, driver).filter_map(|r| metric_value(r, metric)).collect()
    };
    let cases: Vec<CaseResult> = labels
        .into_iter()
        .enumerate()
        .map(|(case, labels)| CaseResult {
            cells: known.iter().filter_map(|&metric| cell(metric, |driver| values(case, driver, metric))).collect(),
            bonds: drivers
                .iter()
                .flat_map(|&driver| bonds::results(driver, records_of(records, &experiment.name, case, driver)))
                .collect(),
            published: (experiment.published.iter())
                .filter(|published| labels.contain(&published.only))
                .map(|published| (published.metric, published.value))
                .collect(),
            labels,
        })
        .collect();
    ExperimentResult {
        name: experiment.name.clone(),
        title: experiment.title.clone(),
        traffic: words::of(experiment),
        asks,
        seconds: experiment.duration.as_secs_f64(),
        warm_up_seconds: experiment.warm_up.as_secs_f64(),
        repeat: experiment.repeat,
        comparisons: comparisons(experiment, &cases, drivers, metrics[0], values),
        verdicts: judge(experiment, &cases, drivers, is_left_out),
        not_simulated,
        not_live,
        metrics,
        cases,
    }
}

fn cell(metric: Metric, values: impl Fn(DriverKind) -> Vec<f64>) -> Option<Cell> {
    let (live, sim) = (values(DriverKind::Live), values(DriverKind::Sim));
    let difference = if live.len() == sim.len() { paired(&live, &sim) } else { None };
    let cell = Cell { metric, live: summarise(&live), sim: summarise(&sim), difference };
    (cell.live.is_some() || cell.sim.is_some()).then_some(cell)
}

/// Each value of a policy axis against the axis's first one, all else equal.
fn comparisons(
    experiment: &Experiment,
    cases: &[CaseResult],
    drivers: &[DriverKind],
    metric: Metric,
    values: impl Fn(usize, DriverKind, Metric) -> Vec<f64>,
) -> Vec<Comparison> {
    let mut found = Vec::new();
    for axis in experiment.vary.iter().filter(|axis| axis.values.iter().all(|(_, setting)| setting.is_policy())) {
        let Some((against, _)) = axis.values.first() else { continue };
        for (case, result) in cases.iter().enumerate() {
            let Some(value) = result.labels.get(&axis.key).filter(|value| value != against) else { continue };
            let others = without(&result.labels, &axis.key);
            let base = cases.iter().position(|other| {
                other.labels.get(&axis.key) == Some(against) && without(&other.labels, &axis.key) == others
            });
            let Some(base) = base else { continue };
            for &driver in drivers {
                let (a, b) = (values(case, driver, metric), values(base, driver, metric));
                if let Some(difference) = paired(&a, &b).filter(|_| a.len() == b.len()) {
                    found.push(Comparison {
                        axis: axis.key.clone(),
                        value: value.to_owned(),
                        against: against.clone(),
                        labels: others.clone(),
                        metric,
                        driver,
                        difference,
                    });
                }
            }
        }
    }
    found
}

fn without(labels: &Labels, key: &str) -> Labels {
    Labels(labels.0.iter().filter(|(k, _)| k != key).cloned().collect())
}

fn speed(records: &[Record], timings: &[Timing]) -> Option<SimulatorSpeed> {
    let packet_hops: u64 = records.iter().filter_map(|record| record.packet_hops).sum();
    let cpu_seconds: f64 = timings.iter().filter_map(|timing| timing.cpu_seconds).sum();
    (packet_hops > 0 && cpu_seconds > 0.0).then(|| SimulatorSpeed {
        packet_hops,
        cpu_seconds,
        per_second: packet_hops as f64 / cpu_seconds,
    })
}
