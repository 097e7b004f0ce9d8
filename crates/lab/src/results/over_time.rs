//! What went on from step to step, as the mean over the runs of a case; and where and from when on live and simulated part.

use std::collections::BTreeMap;

use fabric::{DriverKind, Metric, Unit};
use serde::Serialize;

use super::means::Means;
use super::model::{CaseResult, ExperimentResult, Results};
use crate::labels::Labels;
use crate::measure::record::{LinkRecord, Record, number_among_parallel};
use crate::measure::time_series::{FlowSeries, TimeSeries};
use crate::measure::tolerance::Tolerance;

/// What is recorded over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Payload delivered of a flow, on the mean over the flows, bit/s.
    Goodput,
    /// Congestion window of a flow, on the mean over the flows, segments.
    Cwnd,
    /// Segments sent again, of all flows together, since measuring began.
    Retransmits,
    /// Segments that came late, of all flows together, since measuring began.
    Reordered,
    /// Packets that wait at all links together.
    Queue,
    /// Smoothed round-trip time of a flow, on the mean over the flows, seconds.
    RoundTrip,
    /// Packets marked at all links together, since measuring began.
    Marks,
}

/// Round-trip times are those of queues, but no count of packets.
const ROUND_TRIP: Tolerance = Tolerance { relative: 0.2, absolute: 0.001 };

impl Quantity {
    /// All of them, as they are shown.
    pub const ALL: [Self; 7] =
        [Self::Goodput, Self::Cwnd, Self::RoundTrip, Self::Retransmits, Self::Reordered, Self::Queue, Self::Marks];

    /// What tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput of a flow",
            Self::Cwnd => "congestion window of a flow",
            Self::Retransmits => "retransmits of all flows",
            Self::Reordered => "reordered segments of all flows",
            Self::Queue => "packets in all queues",
            Self::RoundTrip => "round-trip time of a flow",
            Self::Marks => "packets marked at all links",
        }
    }

    /// What is counted, where its name does not say so.
    pub const fn counted(self) -> &'static str {
        match self {
            Self::Cwnd | Self::Retransmits => "segments",
            Self::Goodput | Self::RoundTrip | Self::Reordered | Self::Queue | Self::Marks => "",
        }
    }

    /// What it is measured in.
    pub const fn unit(self) -> Unit {
        match self {
            Self::Goodput => Unit::BitsPerSecond,
            Self::RoundTrip => Unit::Seconds,
            Self::Cwnd | Self::Retransmits | Self::Reordered | Self::Queue | Self::Marks => Unit::Count,
        }
    }

    /// How far live and simulated may lie apart in it.
    fn tolerance(self) -> Option<Tolerance> {
        Tolerance::of(match self {
            Self::Goodput => Metric::GoodputMean,
            // The window has no metric, and is no count of packets that came to be.
            Self::Cwnd | Self::Queue => Metric::QueueMean,
            Self::Retransmits => Metric::Retransmits,
            Self::Reordered => Metric::Reordered,
            Self::Marks => Metric::Marks,
            Self::RoundTrip => return Some(ROUND_TRIP),
        })
    }

    /// Whether steps add up; of the others the mean is looked at.
    const fn adds_up(self) -> bool {
        matches!(self, Self::Retransmits | Self::Reordered | Self::Marks)
    }

    /// Whether all flows or links are looked at together; else their mean.
    const fn is_of_all(self) -> bool {
        matches!(self, Self::Retransmits | Self::Reordered | Self::Queue | Self::Marks)
    }

    fn of_flow(self, flow: &FlowSeries) -> Vec<f64> {
        match self {
            Self::Goodput => flow.goodput_bps.iter().map(|bps| *bps as f64).collect(),
            Self::Cwnd => flow.cwnd.clone(),
            Self::Retransmits => flow.retransmits.iter().map(|number| *number as f64).collect(),
            Self::Reordered => flow.reordered.iter().map(|number| *number as f64).collect(),
            Self::RoundTrip => flow.rtt_us.iter().map(|us| *us as f64 * 1e-6).collect(),
            Self::Queue | Self::Marks => Vec::new(),
        }
    }

    /// The parts of a run that it is known of, by what they are called in the record.
    fn parts<'a>(self, run: &'a Record, series: &'a TimeSeries) -> Vec<(Part<'a>, Vec<f64>)> {
        let links = run.links.iter().zip(&series.links).enumerate();
        let flows = run.flows.iter().zip(&series.flows);
        // A link of which nothing is recorded has marked nothing.
        let marked = |marks: &[u64]| match marks {
            [] => vec![0.0; series.steps()],
            marks => marks.iter().map(|count| *count as f64).collect(),
        };
        let parts: Vec<_> = match self {
            Self::Queue => links.map(|(at, (_, link))| (Part::Link(at), link.queue.clone())).collect(),
            Self::Marks => links.map(|(at, (_, link))| (Part::Link(at), marked(&link.marks))).collect(),
            Self::Goodput | Self::Cwnd | Self::RoundTrip | Self::Retransmits | Self::Reordered => {
                flows.map(|(flow, series)| (Part::Flow(&flow.from, &flow.to), self.of_flow(series))).collect()
            }
        };
        parts.into_iter().filter(|(_, steps)| !steps.is_empty()).collect()
    }
}

/// A flow, or a direction of a link by its place in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Flow(&'a str, &'a str),
    Link(usize),
}

/// A quantity of one case over time, by one driver.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Course {
    /// When each step ends, seconds since measuring began.
    pub ends: Vec<f64>,
    /// The mean over the runs; of what adds up the sum so far.
    pub values: Vec<f64>,
}

/// From when on live and simulated part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Parting<'a> {
    /// The experiment.
    pub experiment: &'a str,
    /// The case.
    pub labels: &'a Labels,
    /// What parts.
    pub quantity: Quantity,
    /// From then on the means over all steps so far (of what adds up: the sums) lie further apart than the tolerance; seconds since measuring began.
    pub from_seconds: f64,
    /// The mean over the measured time; of segments sent again or late the sum.
    pub means: Means,
    /// The flow or the direction of a link that differs most: `h1 > h2`. Nothing where no part is in runs of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_at: Option<String>,
    /// What that one had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<Means>,
}

impl Results {
    /// How a quantity of a case went, by one driver; `None` if it was not recorded.
    pub(crate) fn course(
        &self,
        experiment: &ExperimentResult,
        case: usize,
        driver: DriverKind,
        quantity: Quantity,
    ) -> Option<Course> {
        let steps = mean_of_runs(&self.recorded(experiment, case, driver), quantity)?;
        let (record, series) = self.recorded(experiment, case, driver).into_iter().next()?;
        let ends = series.ends(record.seconds).take(steps.len()).collect();
        let values = if quantity.adds_up() { sums(&steps) } else { steps };
        Some(Course { ends, values })
    }

    /// Where and from when on live and simulated part, in the cases of an experiment.
    pub(super) fn partings<'a>(&'a self, experiment: &'a ExperimentResult) -> Vec<Parting<'a>> {
        let cases = experiment.cases.iter().enumerate();
        let of_case = |(number, case)| {
            let case: &CaseResult = case;
            let [live, sim] = [DriverKind::Live, DriverKind::Sim].map(|it| self.recorded(experiment, number, it));
            let of = move |quantity| parting(&experiment.name, &case.labels, quantity, (&live, &sim));
            Quantity::ALL.into_iter().filter_map(of).collect::<Vec<_>>()
        };
        cases.flat_map(of_case).collect()
    }

    fn recorded<'a>(
        &'a self,
        experiment: &'a ExperimentResult,
        case: usize,
        driver: DriverKind,
    ) -> Vec<(&'a Record, &'a TimeSeries)> {
        let runs = self.records_of(experiment, case, driver);
        runs.filter_map(|run| Some((run, run.time_series.as_deref()?))).collect()
    }
}

type Runs<'a> = [(&'a Record, &'a TimeSeries)];

fn parting<'a>(
    experiment: &'a str,
    labels: &'a Labels,
    quantity: Quantity,
    (live, sim): (&Runs<'_>, &Runs<'_>),
) -> Option<Parting<'a>> {
    let (of_live, of_sim) = (mean_of_runs(live, quantity)?, mean_of_runs(sim, quantity)?);
    let tolerance = quantity.tolerance()?;
    let so_far = |steps: &[f64]| if quantity.adds_up() { sums(steps) } else { means(steps) };
    let pairs: Vec<(f64, f64)> = so_far(&of_live).into_iter().zip(so_far(&of_sim)).collect();
    let together = pairs.iter().rposition(|(live, sim)| tolerance.allows(*live, *sim));
    let from = together.map_or(0, |last| last + 1);
    // Up to the end they lie within.
    let _ = pairs.get(from)?;
    let (record, series) = live.first()?;
    let begin = from.checked_sub(1).and_then(|step| series.ends(record.seconds).nth(step)).unwrap_or(0.0);
    let (live_mean, sim_mean) = *pairs.last()?;
    let most = part_most_apart(quantity, (live, sim), from);
    let links: &[LinkRecord] = &record.links;
    let name = |part: Part<'_>| match part {
        Part::Flow(from, to) => format!("{from} > {to}"),
        Part::Link(at) => {
            let number = number_among_parallel(links, at).map_or_else(String::new, |number| format!(":{number}"));
            format!("{} > {}{number}", links[at].from, links[at].to)
        }
    };
    Some(Parting {
        experiment,
        labels,
        quantity,
        from_seconds: begin,
        means: Means { live: live_mean, sim: sim_mean },
        most_at: most.map(|(part, _)| name(part)),
        most: most.map(|(_, means)| means),
    })
}

/// The flow or link whose sum over the steps from this one on differs most, with its mean (or sum) over them.
fn part_most_apart<'a>(
    quantity: Quantity,
    (live, sim): (&Runs<'a>, &Runs<'a>),
    from: usize,
) -> Option<(Part<'a>, Means)> {
    let by_part = |runs: &Runs<'a>| {
        let mut sums: BTreeMap<Part<'a>, (f64, u32)> = BTreeMap::new();
        for (run, series) in runs {
            for (part, steps) in quantity.parts(run, series) {
                let late = steps.get(from..).unwrap_or_default();
                let count = if quantity.adds_up() { 1.0 } else { late.len().max(1) as f64 };
                let sum = sums.entry(part).or_default();
                *sum = (sum.0 + late.iter().sum::<f64>() / count, sum.1 + 1);
            }
        }
        sums.into_iter().map(|(part, (sum, runs))| (part, sum / f64::from(runs))).collect::<BTreeMap<_, f64>>()
    };
    let (live, sim) = (by_part(live), by_part(sim));
    let both = live.into_iter().filter_map(|(part, live)| Some((part, Means { live, sim: *sim.get(&part)? })));
    both.max_by(|(_, a), (_, b)| (a.live - a.sim).abs().total_cmp(&(b.live - b.sim).abs()))
}

/// A quantity of each step: all flows or links together or their mean, on the mean over the runs. `None` if it is not known of them.
fn mean_of_runs(runs: &Runs<'_>, quantity: Quantity) -> Option<Vec<f64>> {
    let of_run = |(run, series): &(&Record, &TimeSeries)| {
        let parts = quantity.parts(run, series);
        let count = if quantity.is_of_all() { 1.0 } else { parts.len() as f64 };
        let sum = parts.into_iter().map(|(_, steps)| steps).reduce(added)?;
        Some(sum.into_iter().map(|value| value / count).collect::<Vec<f64>>())
    };
    let of_runs: Vec<Vec<f64>> = runs.iter().filter_map(of_run).collect();
    let count = of_runs.len() as f64;
    let sum = of_runs.into_iter().reduce(added)?;
    Some(sum.into_iter().map(|value| value / count).collect())
}

fn added(a: Vec<f64>, b: Vec<f64>) -> Vec<f64> {
    a.into_iter().zip(b).map(|(a, b)| a + b).collect()
}

fn sums(steps: &[f64]) -> Vec<f64> {
    let add = |sum: &mut f64, step: &f64| {
        *sum += step;
        Some(*sum)
    };
    steps.iter().scan(0.0, add).collect()
}

fn means(steps: &[f64]) -> Vec<f64> {
    sums(steps).into_iter().enumerate().map(|(number, sum)| sum / (number + 1) as f64).collect()
}
