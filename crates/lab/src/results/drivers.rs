//! Live against simulated: how far the two drivers lie apart, and where.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use fabric::{DriverKind, Metric};
use serde::Serialize;

use super::means::Means;
use super::model::{CaseResult, Cell, ExperimentResult, Results};
use super::over_time::Parting;
use crate::error::Error;
use crate::labels::Labels;
use crate::measure::metric::{completion_times, is_known_to};
use crate::measure::record::{LinkRecord, Record, number_among_parallel};
use crate::measure::statistics::{Difference, RankTest, Summary, mean, rank_test};
use crate::measure::tolerance::Tolerance;
use crate::plan::check_known;

/// So many flows are listed, and so many links.
const LISTED_MAX: usize = 10;

/// Links are ranked by how much of what they could carry the drivers differ. No link is judged.
const UTILISATION: Tolerance = Tolerance { relative: 0.0, absolute: 0.05 };

/// What both drivers measured, side by side.
#[derive(Clone, Debug, Serialize)]
pub struct DriverComparison<'a> {
    /// Name of the fabric.
    pub network: &'a str,
    /// How many means have a tolerance.
    pub judged: usize,
    /// How many of those lie within it.
    pub within: usize,
    /// How many have one and are not judged, since a driver has not measured them.
    pub unjudged: usize,
    /// In the order of the file.
    pub experiments: Vec<ComparedExperiment<'a>>,
    /// The flows that differ most, by multiples of the tolerances.
    pub flows: Vec<ComparedFlow<'a>>,
    /// The directions of links that differ most, likewise.
    pub links: Vec<ComparedLink<'a>>,
    /// From when on the drivers part, where runs were recorded over time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partings: Vec<Parting<'a>>,
    /// What a reader must know of how the runs went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// One experiment as both drivers saw it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ComparedExperiment<'a> {
    /// Its name.
    pub name: &'a str,
    /// One line about it; may be empty.
    pub title: &'a str,
    /// Those that ran both live and simulated.
    pub cases: Vec<ComparedCase<'a>>,
    /// Which cases only one driver ran, and why: a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// What tables take its units from.
    #[serde(skip)]
    pub(crate) result: &'a ExperimentResult,
}

/// One case as both drivers saw it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ComparedCase<'a> {
    /// Axis and value as written.
    pub labels: &'a Labels,
    /// What is always judged, what the file asks for, which is judged as well, and what the experiment shows besides.
    pub metrics: Vec<ComparedMetric>,
    /// How long the transfers of all live runs took (`a`), and those of all simulated ones (`b`). It is not judged: of enough transfers any difference shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_times: Option<RankTest>,
}

/// One metric as both drivers saw it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ComparedMetric {
    /// What was measured.
    pub metric: Metric,
    /// Over the live runs.
    pub live: Option<Summary>,
    /// Over the simulated runs.
    pub sim: Option<Summary>,
    /// Live minus simulated: paired by repetition, or without an interval where repetitions do not form pairs.
    pub difference: Option<Difference>,
    /// How far they may lie apart; `None`: the metric is not judged.
    pub tolerance: Option<Tolerance>,
    /// Whether they lie within it; `None` if there is no tolerance, or one of the drivers measured nothing.
    pub within: Option<bool>,
}

/// One flow as both drivers saw it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ComparedFlow<'a> {
    /// Its experiment.
    pub experiment: &'a str,
    /// Its case.
    pub labels: &'a Labels,
    /// The sending host.
    pub from: &'a str,
    /// The receiving host.
    pub to: &'a str,
    /// Payload delivered, bit/s.
    pub goodput_bps: Means,
    /// Segments sent again.
    pub retransmits: Means,
}

/// One direction of a link as both drivers saw it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedLink<'a> {
    /// The experiment.
    pub experiment: &'a str,
    /// The case.
    pub labels: &'a Labels,
    /// The node that sends in this direction.
    pub from: &'a str,
    /// The node that receives.
    pub to: &'a str,
    /// Which of parallel links, from 1; `None` if there is one only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<usize>,
    /// Share of the time in transmission, 0 to 1; `None` for a link without a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<Means>,
    /// Packets turned away by a full queue.
    pub drops: Means,
}

impl Results {
    /// Holds live against simulated in the experiments of these names; in all if there are none.
    ///
    /// # Errors
    /// If one of the experiments is not there, or none of them has a case that ran both live and simulated.
    pub fn compare_drivers(&self, only: &[String]) -> Result<DriverComparison<'_>, Error> {
        check_known(only, self.experiments.iter().map(|experiment| experiment.name.as_str()), &self.network.name)?;
        let is_chosen = |experiment: &&ExperimentResult| only.is_empty() || only.contains(&experiment.name);
        let experiments: Vec<ComparedExperiment> =
            self.experiments.iter().filter(is_chosen).map(|result| ComparedExperiment::of(self, result)).collect();
        if experiments.iter().all(|experiment| experiment.cases.is_empty()) {
            let reasons: Vec<&str> =
                experiments.iter().flat_map(|experiment| &experiment.left_out).map(String::as_str).collect();
            let reasons = reasons.join("; ");
            return Err(Error::NothingToCompare { network: self.network.name.clone(), reasons });
        }
        let judged = || {
            let cases = experiments.iter().flat_map(|experiment| &experiment.cases);
            cases.flat_map(|case| &case.metrics).filter(|metric| metric.tolerance.is_some())
        };
        let verdicts = || judged().filter_map(|metric| metric.within);
        let (mut flows, mut links) = (Vec::new(), Vec::new());
        for experiment in &experiments {
            let result = experiment.result;
            for (number, case) in result.cases.iter().enumerate() {
                let runs = |driver| self.records_of(result, number, driver).collect::<Vec<_>>();
                let (live, sim) = (runs(DriverKind::Live), runs(DriverKind::Sim));
                flows.extend(compared_flows(&result.name, &case.labels, &live, &sim));
                links.extend(compared_links(&result.name, &case.labels, &live, &sim));
            }
        }
        Ok(DriverComparison {
            network: &self.network.name,
            judged: verdicts().count(),
            within: verdicts().filter(|within| *within).count(),
            unjudged: judged().filter(|metric| metric.within.is_none()).count(),
            flows: most_apart(flows, ComparedFlow::times),
            links: most_apart(links, ComparedLink::times),
            partings: experiments.iter().flat_map(|experiment| self.partings(experiment.result)).collect(),
            warning: self.warning(),
            experiments,
        })
    }
}

impl DriverComparison<'_> {
    /// Whether live and simulated lie within all tolerances.
    pub const fn passed(&self) -> bool {
        self.within == self.judged
    }
}

impl<'a> ComparedExperiment<'a> {
    fn of(results: &'a Results, result: &'a ExperimentResult) -> Self {
        let times = |case, driver| {
            let records = results.records_of(result, case, driver);
            records.flat_map(completion_times).collect::<Vec<f64>>()
        };
        let compared = |(number, case)| {
            let compared = compared_case(result, case)?;
            let [live, sim] = [DriverKind::Live, DriverKind::Sim].map(|driver| times(number, driver));
            Some(ComparedCase { completion_times: rank_test(&live, &sim), ..compared })
        };
        let cases: Vec<ComparedCase> = result.cases.iter().enumerate().filter_map(compared).collect();
        // Where none is compared, that is said of all together.
        let of_one = if cases.is_empty() { Vec::new() } else { result.of_one_driver() };
        let left_out = result.left_out().into_iter().chain(of_one).collect();
        Self { name: &result.name, title: &result.title, cases, left_out, result }
    }
}

/// A case in which both drivers have measured anything.
fn compared_case<'a>(experiment: &ExperimentResult, case: &'a CaseResult) -> Option<ComparedCase<'a>> {
    let ran = |driver| case.cells.iter().any(|cell| cell.summary(driver).is_some());
    if !ran(DriverKind::Live) || !ran(DriverKind::Sim) {
        return None;
    }
    // Hardly any link has marks or losses: that there are none says nothing.
    let is_idle = |cell: &Cell| {
        matches!(
            cell.metric,
            Metric::Marks
                | Metric::LinkLosses
                | Metric::LinkDuplicates
                | Metric::LinkCorruptions
                | Metric::LinkOvertakes
        ) && [cell.live, cell.sim].iter().flatten().all(|summary| summary.max == 0.0)
    };
    let is_asked = |metric| experiment.asked.contains(&metric);
    let is_shown = |cell: &&Cell| {
        let metric = cell.metric;
        let is_of_table = experiment.metrics.contains(&metric) || is_asked(metric);
        ((Tolerance::of(metric).is_some() && !is_idle(cell)) || is_of_table)
            && [DriverKind::Live, DriverKind::Sim].into_iter().all(|driver| is_known_to(metric, driver))
    };
    Some(ComparedCase {
        labels: &case.labels,
        metrics: (case.cells.iter().filter(is_shown))
            .map(|cell| {
                let asked = is_asked(cell.metric).then(|| Tolerance::of_asked(cell.metric));
                compared_metric(cell, asked.or_else(|| Tolerance::of(cell.metric)))
            })
            .collect(),
        completion_times: None,
    })
}

fn compared_metric(cell: &Cell, tolerance: Option<Tolerance>) -> ComparedMetric {
    let Cell { metric, live, sim, difference } = *cell;
    let means = live.zip(sim).map(|(live, sim)| Means { live: live.mean, sim: sim.mean });
    ComparedMetric {
        metric,
        live,
        sim,
        difference: difference.or_else(|| means.map(Means::difference)),
        tolerance,
        within: tolerance.zip(means).map(|(tolerance, means)| tolerance.allows(means.live, means.sim)),
    }
}

impl ComparedFlow<'_> {
    fn times(&self) -> f64 {
        self.goodput_bps.times_of(Metric::GoodputMean).max(self.retransmits.times_of(Metric::Retransmits))
    }
}

impl ComparedLink<'_> {
    fn times(&self) -> f64 {
        self.utilisation.map_or(0.0, |means| means.times(UTILISATION)).max(self.drops.times_of(Metric::Drops))
    }
}

/// Those that differ at all, most first, as many as are listed.
fn most_apart<T>(all: Vec<T>, times: impl Fn(&T) -> f64) -> Vec<T> {
    let mut apart: Vec<(f64, T)> = all.into_iter().map(|one| (times(&one), one)).filter(|(by, _)| *by > 0.0).collect();
    apart.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    apart.into_iter().take(LISTED_MAX).map(|(_, one)| one).collect()
}

/// The flows that both drivers had in a case. Where pairs of hosts are drawn by lot, a flow is in some repetitions only.
fn compared_flows<'a>(
    experiment: &'a str,
    labels: &'a Labels,
    live: &[&'a Record],
    sim: &[&'a Record],
) -> Vec<ComparedFlow<'a>> {
    let measured = |runs: &[&'a Record]| {
        let flows = runs.iter().flat_map(|run| &run.flows);
        means(flows.map(|flow| {
            let key = (flow.from.as_str(), flow.to.as_str());
            (key, [Some(flow.goodput_bps), Some(flow.retransmits as f64)])
        }))
    };
    let compared = |((from, to), [goodput, retransmits]): ((&'a str, &'a str), [Option<Means>; 2])| {
        let (goodput_bps, retransmits) = goodput.zip(retransmits)?;
        Some(ComparedFlow { experiment, labels, from, to, goodput_bps, retransmits })
    };
    of_both(&measured(live), &measured(sim)).filter_map(compared).collect()
}

/// The directions of links of a case. They have the same order in all its runs.
fn compared_links<'a>(
    experiment: &'a str,
    labels: &'a Labels,
    live: &[&'a Record],
    sim: &[&'a Record],
) -> Vec<ComparedLink<'a>> {
    let measured = |runs: &[&'a Record]| {
        let links = runs.iter().flat_map(|run| run.links.iter().enumerate());
        means(links.map(|(at, link)| (at, [link.utilisation, Some(link.drops as f64)])))
    };
    let links: &[LinkRecord] = live.first().map_or(&[], |run| &run.links);
    let compared = |(at, [utilisation, drops]): (usize, [Option<Means>; 2])| {
        let LinkRecord { from, to, .. } = links.get(at)?;
        let number = number_among_parallel(links, at);
        Some(ComparedLink { experiment, labels, from, to, number, utilisation, drops: drops? })
    };
    of_both(&measured(live), &measured(sim)).filter_map(compared).collect()
}

/// Two quantities of each key, if they were known each time: the means over all samples of it.
fn means<K: Ord>(samples: impl Iterator<Item = (K, [Option<f64>; 2])>) -> BTreeMap<K, [Option<f64>; 2]> {
    let mut by_key: BTreeMap<K, Vec<[Option<f64>; 2]>> = BTreeMap::new();
    for (key, sample) in samples {
        by_key.entry(key).or_default().push(sample);
    }
    let mean_of = |samples: &[[Option<f64>; 2]], which: usize| {
        mean(&samples.iter().map(|sample| sample[which]).collect::<Option<Vec<f64>>>()?)
    };
    by_key.into_iter().map(|(key, samples)| (key, [mean_of(&samples, 0), mean_of(&samples, 1)])).collect()
}

/// The keys that both drivers have.
fn of_both<K: Ord + Copy>(
    live: &BTreeMap<K, [Option<f64>; 2]>,
    sim: &BTreeMap<K, [Option<f64>; 2]>,
) -> impl Iterator<Item = (K, [Option<Means>; 2])> {
    live.iter().filter_map(|(key, live)| {
        let sim = sim.get(key)?;
        let both = |which: usize| Some(Means { live: live[which]?, sim: sim[which]? });
        Some((*key, [both(0), both(1)]))
    })
}
