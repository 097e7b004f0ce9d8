//! Sums up the runs of a plan: summaries, comparisons, verdicts.

mod bonds;
mod drivers;
mod joined;
mod judge;
mod means;
mod model;
mod over_time;
mod schedulers;
mod words;

use std::collections::BTreeMap;

use fabric::{Case, DriverKind, Experiment, Fabric, Metric, Work};
use machine::Span;
use topology::{LinkId, NodeId, NodeKind, Side, Topology};

pub use self::bonds::BondResult;
pub use self::drivers::{
    ComparedCase, ComparedExperiment, ComparedFlow, ComparedLink, ComparedMetric, DriverComparison,
};
use self::judge::judge;
pub use self::means::Means;
use self::model::records_of;
pub use self::model::{
    CaseResult, Cell, Comparison, ExperimentResult, Network, NetworkLink, NetworkNode, Results, Verdict,
};
pub(crate) use self::over_time::Course;
pub use self::over_time::{Parting, Quantity};
pub use self::schedulers::{Candidate, SchedulerChoice};
use crate::labels::Labels;
use crate::live_times::live_times;
use crate::measure::environment::{Environment, SimulatorSpeed, Timing};
use crate::measure::metric::{metric_value, usual};
use crate::measure::precision::Precision;
use crate::measure::record::Record;
use crate::measure::statistics::{Difference, paired, summarise};
use crate::plan::Plan;

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
                let result = experiment_result(&fabric.experiments[*index], labels, &records, &drivers, left_out);
                ExperimentResult { is_routed: plan.routed.contains(&slot), ..result }
            })
            .collect();
        let simulator = speed(&records, &timings);
        let environment = Environment { simulator, timings, ..environment };
        let planned_runs = plan.runs.len();
        Self {
            version: environment.version.clone(),
            network: Network::of(fabric),
            seed: plan.seed,
            drivers,
            planned_runs,
            experiments,
            records,
            environment,
            file: String::new(),
        }
    }
}

impl Network {
    pub(crate) fn of(fabric: &Fabric) -> Self {
        let bonds = fabric.topology.bonds.keys().flat_map(|end| {
            // Both ends of a bond follow each other.
            fabric.topology.bond_links(end).map(move |link| (link, end.0 / 2))
        });
        let bonds: BTreeMap<LinkId, u32> = bonds.collect();
        let tier = |kind: &NodeKind| match kind {
            NodeKind::Host(_) => 0,
            NodeKind::Switch { tier, .. } => *tier,
        };
        Self {
            name: fabric.name.clone(),
            description: fabric.description.clone(),
            hosts: fabric.topology.hosts,
            function_ports: fabric.topology.function_ports,
            functions: fabric.chains.functions.len() as u32,
            interfaces: fabric.topology.interfaces.len() as u32,
            joints: joints(&fabric.topology),
            nodes: fabric
                .topology
                .nodes
                .iter()
                .zip(places(&fabric.topology))
                .map(|(node, x_permille)| NetworkNode { name: node.name.clone(), tier: tier(&node.kind), x_permille })
                .collect(),
            links: fabric
                .topology
                .links
                .iter_enumerated()
                .map(|(id, link)| NetworkLink {
                    a: link.end(Side::A).node.0,
                    b: link.end(Side::B).node.0,
                    rate_bps: link.spec.rate_bps,
                    bond: bonds.get(&id).copied(),
                })
                .collect(),
            controllers: fabric.controllers.as_ref().map(|controllers| controllers.nodes),
        }
    }
}

/// Each interface of a host that has several, with its next one.
fn joints(topology: &Topology) -> Vec<[u32; 2]> {
    let mut last: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    let further = topology.nodes.keys().filter_map(|id| Some((id, topology.interface_owner(id)?)));
    further.map(|(id, owner)| [last.insert(owner, id).unwrap_or(owner).0, id.0]).collect()
}

/// Where nodes stand from left to right. What was put to its switch, as ports of functions are, stands beside others that are there; interfaces of a host stand beside each
/// other.
fn places(topology: &Topology) -> Vec<u16> {
    let mut places: Vec<u16> = topology.nodes.iter().map(|node| node.x_permille).collect();
    let hosts = topology.hosts as usize;
    let mut order: Vec<usize> = (0..hosts).collect();
    order.sort_by_key(|host| {
        let owner = usize::from(topology.owner(NodeId(*host as u32)));
        (places[owner], owner, *host)
    });
    let is_crowded = !topology.interfaces.is_empty() || order.windows(2).any(|two| places[two[0]] == places[two[1]]);
    // In thousandths of the width, more have no places of their own.
    if is_crowded && hosts <= 500 {
        for (nth, host) in order.into_iter().enumerate() {
            places[host] = ((2 * nth + 1) * 500 / hosts) as u16;
        }
    }
    places
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
    // What controllers do takes the machine's disk and cores, which cost nothing in simulations.
    let is_judged = experiment.work.cluster().is_none();
    let named = experiment.expect.iter().map(|expectation| expectation.metric);
    let mut asked: Vec<Metric> = experiment.report.iter().copied().chain(named).filter(|_| is_judged).collect();
    asked.sort_unstable();
    asked.dedup();
    let asks = experiment.work.cluster().map_or_else(Vec::new, |load| load.operations.clone());
    let known: Vec<Metric> = match &experiment.work {
        Work::Traffic(traffic) if traffic.requests.is_some() => (Metric::all())
            .filter(|metric| metric.is_of_requests() || !(metric.is_of_cluster() || metric.is_of_flows()))
            .filter(|metric| !(metric.is_of_a_rate() || metric.is_of_transfers()))
            .collect(),
        Work::Traffic(traffic) => (Metric::all().filter(|metric| !metric.is_of_cluster() && !metric.is_of_requests()))
            .filter(|metric| traffic.rate_pps.is_some() || !metric.is_of_a_rate())
            .filter(|metric| traffic.transfers.is_some() || !metric.is_of_transfers())
            .collect(),
        Work::Cluster(_) => Metric::all().filter(|metric| metric.is_of_cluster()).collect(),
    };
    let values = |case: usize, driver, metric| -> Vec<(u32, f64)> {
        let records = records_of(records, &experiment.name, case, driver);
        records.filter_map(|record| Some((record.repeat, metric_value(record, metric)?))).collect()
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
    let live = live_seconds(experiment, records, drivers);
    ExperimentResult {
        name: experiment.name.clone(),
        title: experiment.title.clone(),
        traffic: words::of(experiment),
        asks,
        seconds: experiment.duration.as_secs_f64(),
        live_seconds: live.map(|(_, measured)| measured).filter(is_otherwise(experiment.duration)),
        warm_up_seconds: experiment.warm_up.as_secs_f64(),
        live_warm_up_seconds: live.map(|(warm_up, _)| warm_up).filter(is_otherwise(experiment.warm_up)),
        repeat: experiment.repeat,
        precision: Precision::of(experiment),
        comparisons: comparisons(experiment, &cases, drivers, metrics[0], values),
        // Of who was interrupted nothing is expected that was to come.
        verdicts: judge(experiment, &cases, drivers, |driver, case| {
            is_left_out(driver, case) || records_of(records, &experiment.name, case, driver).next().is_none()
        }),
        not_simulated,
        is_routed: false,
        not_live,
        metrics,
        asked,
        cases,
    }
}

/// How long live runs of TCP warm up, at most of all cases, and are measured, if otherwise than the experiment says.
fn live_seconds(experiment: &Experiment, records: &[Record], drivers: &[DriverKind]) -> Option<(f64, f64)> {
    // Records have the numbers of those cases that were chosen.
    let of_case = |case: &Case| {
        let is_run = |it: &&Record| {
            it.driver == DriverKind::Live && it.experiment == experiment.name && it.labels.0 == case.labels
        };
        live_times(experiment, case, records.iter().find(is_run)?.flows.len())
    };
    let times = experiment.cases().iter().filter_map(of_case).max_by_key(|times| times.warm_up);
    let times = times.filter(|_| drivers.contains(&DriverKind::Live))?;
    Some((times.warm_up as f64, times.measured as f64))
}

/// Whether so many seconds are others than what was asked for.
fn is_otherwise(asked: Span) -> impl Fn(&f64) -> bool {
    move |seconds| seconds.to_bits() != asked.as_secs_f64().to_bits()
}

/// What was measured in each repetition.
type Values = Vec<(u32, f64)>;

fn cell(metric: Metric, values: impl Fn(DriverKind) -> Values) -> Option<Cell> {
    let (live, sim) = (values(DriverKind::Live), values(DriverKind::Sim));
    let summary = |values: &Values| summarise(&values.iter().map(|(_, value)| *value).collect::<Vec<f64>>());
    let cell = Cell { metric, live: summary(&live), sim: summary(&sim), difference: by_repetition(&live, &sim) };
    (cell.live.is_some() || cell.sim.is_some()).then_some(cell)
}

/// The difference over the repetitions that both have. One that only happens to be there on both sides, among others, says nothing.
fn by_repetition(a: &Values, b: &Values) -> Option<Difference> {
    let of_b: BTreeMap<u32, f64> = b.iter().copied().collect();
    let pairs = a.iter().filter_map(|(repeat, a)| Some((*a, *of_b.get(repeat)?)));
    let (of_a, of_b): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let are_pairs = of_a.len() > 1 || a.len() == b.len();
    paired(&of_a, &of_b).filter(|_| are_pairs)
}

/// Each value of a policy axis against the axis's first one, all else equal.
fn comparisons(
    experiment: &Experiment,
    cases: &[CaseResult],
    drivers: &[DriverKind],
    metric: Metric,
    values: impl Fn(usize, DriverKind, Metric) -> Values,
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
                if let Some(difference) = by_repetition(&a, &b) {
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
