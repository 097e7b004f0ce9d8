//! Latencies of controllers as a table: a line for each case, operation and driver; what others measured stands beside.

use fabric::{DriverKind, Metric, Operation, Statistic, Unit};

use super::quantity::Scale;
use crate::results::{CaseResult, ExperimentResult};

/// The columns when the file names none.
const USUAL: [Statistic; 4] = [Statistic::Min, Statistic::Mean, Statistic::P99, Statistic::Max];

/// In the order of their columns.
const STATISTICS: [Statistic; 7] =
    [Statistic::Min, Statistic::Mean, Statistic::P50, Statistic::P90, Statistic::P99, Statistic::P999, Statistic::Max];

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
        let measured = case.cells.iter().filter(|cell| matches!(cell.metric, Metric::Latency(_, Statistic::Mean)));
        let measured = measured.flat_map(|cell| [&cell.live, &cell.sim]).flatten().map(|summary| summary.mean);
        let theirs = case.published.iter().filter(|(metric, _)| matches!(metric, Metric::Latency(..)));
        measured.chain(theirs.map(|(_, value)| *value)).fold(0.0, f64::max)
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
        Statistic::Mean | Statistic::P50 | Statistic::P90 | Statistic::P99 | Statistic::P999 => {
            scale.with_interval(summary)
        }
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
    let texts = figures.iter().map(|(_, value)| as_published(&scale.plain(*value))).collect::<Vec<_>>().join(" / ");
    (!figures.is_empty()).then_some(texts)
}

/// Without digits that others did not give.
fn as_published(number: &str) -> String {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.').to_owned() } else { number.to_owned() }
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
        Statistic::P90 => "p90",
        Statistic::P99 => "p99",
        Statistic::P999 => "p99.9",
        Statistic::Max => "max",
    }
}

#[cfg(test)]
mod tests {
    use fabric::Fabric;

    use super::*;
    use crate::measure::cluster_record::{ClusterRecord, Latencies, OperationRecord};
    use crate::measure::environment::Timing;
    use crate::plan::plan;
    use crate::results::Results;
    use crate::{Options, cluster};

    const FILE: &str = "\
controllers: { nodes: 3 }
experiments:
  crud:
    cluster: { operations: [create, read] }
    vary: { at: [leader, follower] }
    repeat: 2
    report: [create-min, create-mean, create-max, read-rate, failed]
    published:
      create-min: { where: { at: leader }, is: 8.18 ms }
      create-mean: [ { where: { at: leader }, is: 12.6 ms }, { where: { at: follower }, is: 16.7 ms } ]
    expect: { failed: \"<= 0\", create-mean: \"<= 2 ms\" }
";

    /// As if it had run: latencies of 1, 2, .. 10 ms, times 1 for creates and 0.1 for reads, and twice as long in second runs.
    fn results(failed: u64) -> Results {
        let source = fabric::Source { name: "crud.fabric.yaml".to_owned(), text: FILE.to_owned() };
        let fabric: Fabric = fabric::parse(&source).unwrap();
        let options = Options { drivers: vec![DriverKind::Live], ..Options::default() };
        let plan = plan(&fabric, &options).unwrap();
        let record = |operation, step: u64| OperationRecord {
            operation,
            seconds: 2.0,
            latencies: Latencies::of(&(1..=10).map(|n| n * step).collect::<Vec<_>>()),
        };
        let measured = plan.runs.iter().map(|run| {
            let step = 1_000_000 * u64::from(run.repeat);
            let cluster = ClusterRecord {
                operations: vec![record(Operation::Create, step), record(Operation::Read, step / 10)],
                failed,
                first_failure: (failed > 0).then(|| "create: no answer within 10000 ms".to_owned()),
                ..ClusterRecord::default()
            };
            let timing = Timing {
                experiment: run.experiment.clone(),
                labels: run.labels.clone(),
                repeat: run.repeat,
                driver: run.driver,
                wall_seconds: 1.0,
                cpu_seconds: None,
            };
            (cluster::record(run, cluster, 4.0), timing)
        });
        Results::new(&fabric, &plan, measured.collect(), crate::testing::environment())
    }

    #[test]
    fn what_others_measured_stands_beside() {
        let results = results(0);
        let table = LatencyTable::of(&results.experiments[0], &[DriverKind::Live]).unwrap();
        assert_eq!(table.headings, ["min (ms)", "mean (ms)", "max (ms)", "a second"]);
        assert_eq!(table.published.as_deref(), Some("published min / mean (ms)"));
        let published: Vec<Option<&str>> = table.rows.iter().map(|row| row.published.as_deref()).collect();
        assert_eq!(published, [Some("8.18 / 12.6"), None, Some("16.7"), None]);
        // The least and the most of all runs, the mean of the runs' means.
        assert_eq!((&table.rows[0].cells[0][..], &table.rows[0].cells[2][..]), ("1", "20"));
        assert!(table.rows[0].cells[1].starts_with("8 ±"), "{}", table.rows[0].cells[1]);
        assert_eq!(table.rows[0].cells[3], "5 ± 0", "ten requests in two seconds");
        insta::assert_snapshot!(results.table_within(120));
    }

    #[test]
    fn failures_are_reported_in_their_own_words() {
        let results = results(3);
        let text = "leader, live, repeat 1: 3 requests failed; the first: create: no answer within 10000 ms";
        assert!(results.table_within(120).contains(text) && results.html().contains(text));
        assert!(!results.passed());
        assert_eq!(results.csv().lines().filter(|line| line.contains(",failed,2,3,")).count(), 2, "{}", results.csv());
    }
}
