//! Latencies of controllers as a table: a line for each case, operation and driver; what others measured stands beside.

use fabric::{DriverKind, Metric, Operation, Statistic};

use crate::metric::Unit;
use crate::quantity::Scale;
use crate::results::{CaseResult, ExperimentResult};

/// The columns when the file names none.
const USUAL: [Statistic; 4] = [Statistic::Min, Statistic::Mean, Statistic::P99, Statistic::Max];

/// In the order of their columns.
const STATISTICS: [Statistic; 5] =
    [Statistic::Min, Statistic::Mean, Statistic::P50, Statistic::P99, Statistic::Max];

/// Latencies of an experiment.
#[derive(Clone, Debug)]
pub(crate) struct LatencyTable {
    /// Of the columns of numbers.
    pub headings: Vec<String>,
    /// What the column of others' figures is called, if there are any.
    pub published: Option<String>,
    /// In the order of cases, operations, drivers.
    pub rows: Vec<LatencyRow>,
}

/// One case, operation and driver.
#[derive(Clone, Debug)]
pub(crate) struct LatencyRow {
    /// Index of the case.
    pub case: usize,
    pub operation: Operation,
    pub driver: DriverKind,
    /// As many as there are headings.
    pub cells: Vec<String>,
    /// What others measured.
    pub published: Option<String>,
}

/// Metrics of the experiment that are not latencies of an operation, nor its rate.
pub(crate) fn other_metrics(experiment: &ExperimentResult) -> Vec<Metric> {
    let is_other = |metric: &&Metric| !matches!(metric, Metric::Latency(..) | Metric::Throughput(_));
    experiment.metrics.iter().filter(is_other).copied().collect()
}

/// The unit that suits all latencies of an experiment, others' too.
pub(crate) fn latency_scale(experiment: &ExperimentResult) -> Scale {
    let of_case = |case: &CaseResult| {
        let ours = case.cells.iter().filter(|cell| matches!(cell.metric, Metric::Latency(_, Statistic::Mean)));
        let ours = ours.flat_map(|cell| [&cell.live, &cell.sim]).flatten().map(|summary| summary.mean);
        let theirs = case.published.iter().filter(|(metric, _)| matches!(metric, Metric::Latency(..)));
        ours.chain(theirs.map(|(_, value)| *value)).fold(0.0, f64::max)
    };
    Scale::of(Unit::Seconds, experiment.cases.iter().map(of_case).fold(0.0, f64::max))
}

impl LatencyTable {
    /// The table; `None` if the experiment shows no latency.
    pub fn of(experiment: &ExperimentResult, drivers: &[DriverKind]) -> Option<Self> {
        let shown = |statistic: &Statistic| {
            experiment.metrics.iter().any(|metric| matches!(metric, Metric::Latency(_, s) if s == statistic))
        };
        let mut statistics: Vec<Statistic> = STATISTICS.into_iter().filter(shown).collect();
        let rates = experiment.metrics.iter().any(|metric| matches!(metric, Metric::Throughput(_)));
        if experiment.asks.is_empty() || (statistics.is_empty() && !rates) {
            return None;
        }
        if statistics.is_empty() {
            statistics = USUAL.to_vec();
        }
        let scale = latency_scale(experiment);
        let mut headings: Vec<String> = statistics.iter().map(|s| format!("{} ({})", word(*s), scale.unit)).collect();
        if rates {
            headings.push("a second".to_owned());
        }
        let mut rows = Vec::new();
        for (case, result) in experiment.cases.iter().enumerate() {
            for &operation in &experiment.asks {
                let published = published(result, operation, scale);
                let measured = drivers.iter().filter(|driver| is_measured(result, operation, **driver));
                for (nth, &driver) in measured.enumerate() {
                    let mut cells: Vec<String> =
                        statistics.iter().map(|&s| cell(result, operation, s, driver, scale)).collect();
                    if rates {
                        cells.push(rate(result, operation, driver));
                    }
                    let published = published.clone().filter(|_| nth == 0);
                    rows.push(LatencyRow { case, operation, driver, cells, published });
                }
            }
        }
        let published = heading_of_published(experiment, scale);
        Some(Self { headings, published, rows })
    }

    /// Whether there is more than one line a case.
    pub fn has_blocks(&self) -> bool {
        self.rows.windows(2).any(|pair| pair[0].case == pair[1].case)
    }
}

fn is_measured(case: &CaseResult, operation: Operation, driver: DriverKind) -> bool {
    case.summary(Metric::Latency(operation, Statistic::Mean), driver).is_some()
        || case.summary(Metric::Failed, driver).is_some()
}

/// The least of all runs and the most of all runs; of other statistics the mean over the runs with its interval.
fn cell(case: &CaseResult, operation: Operation, statistic: Statistic, driver: DriverKind, scale: Scale) -> String {
    let Some(summary) = case.summary(Metric::Latency(operation, statistic), driver) else { return "-".to_owned() };
    match statistic {
        Statistic::Min => scale.plain(summary.min),
        Statistic::Max => scale.plain(summary.max),
        Statistic::Mean | Statistic::P50 | Statistic::P99 => scale.with_interval(summary),
    }
}

fn rate(case: &CaseResult, operation: Operation, driver: DriverKind) -> String {
    let summary = case.summary(Metric::Throughput(operation), driver);
    summary.map_or_else(|| "-".to_owned(), |s| Scale { one: 1.0, unit: "" }.with_interval(s))
}

/// Which statistics others gave of an operation.
fn given(case: &CaseResult, operation: Operation) -> Vec<(Statistic, f64)> {
    let of = |statistic| Some((statistic, case.published(Metric::Latency(operation, statistic))?));
    STATISTICS.into_iter().filter_map(of).collect()
}

fn published(case: &CaseResult, operation: Operation, scale: Scale) -> Option<String> {
    let figures = given(case, operation);
    let texts = figures.iter().map(|(_, value)| scale.plain(*value)).collect::<Vec<_>>().join(" / ");
    (!figures.is_empty()).then_some(texts)
}

fn heading_of_published(experiment: &ExperimentResult, scale: Scale) -> Option<String> {
    let all = experiment.cases.iter().flat_map(|case| experiment.asks.iter().map(|&asked| given(case, asked)));
    let longest = all.max_by_key(Vec::len).filter(|figures| !figures.is_empty())?;
    let words = longest.iter().map(|(statistic, _)| word(*statistic)).collect::<Vec<_>>().join(" / ");
    Some(format!("published {words} ({})", scale.unit))
}

const fn word(statistic: Statistic) -> &'static str {
    match statistic {
        Statistic::Min => "min",
        Statistic::Mean => "mean",
        Statistic::P50 => "p50",
        Statistic::P99 => "p99",
        Statistic::Max => "max",
    }
}
