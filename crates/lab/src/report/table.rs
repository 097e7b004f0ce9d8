//! Results for a terminal, and as data.

use std::fmt::Write as _;

use fabric::{DriverKind, Metric, Statistic};

use super::bonds::BondTable;
use super::latency::{LatencyTable, other_metrics};
use super::quantity::{self, Scale};
use crate::doubts::{MORE_RUNS, few_runs_in_words};
use crate::grid::{Grid, WIDTH_OF_PIPE, for_terminal, quoted};
use crate::labels::Labels;
use crate::measure::metric::metric_name;
use crate::measure::statistics::Summary;
use crate::results::{CaseResult, ExperimentResult, Results, Verdict};

/// An expectation that is met in more cases than this has one line.
const VERDICTS_MAX: usize = 4;

/// More rows about bonds than this are left to the report.
const BOND_ROWS_MAX: usize = 24;

impl Results {
    /// The results for the terminal that stdout is, or for a pipe.
    pub fn table(&self) -> String {
        for_terminal(WIDTH_OF_PIPE, |width| self.table_within(width))
    }

    /// The results in lines of at most `width` columns, as far as their words allow.
    pub fn table_within(&self, width: u16) -> String {
        let mut text = String::new();
        for experiment in &self.experiments {
            let runs = experiment.runs_in_words();
            text.push_str(&opening_line(&experiment.name, &experiment.title));
            if experiment.asks.is_empty() {
                let _ = writeln!(text, "{}; {runs} of {} a case", experiment.traffic, experiment.seconds_in_words());
            } else {
                let _ = writeln!(text, "{}; {runs} a case", experiment.traffic);
            }
            if experiment.is_measured() {
                text.push_str(&tables(experiment, &self.drivers, width));
            } else {
                text.push_str("  nothing was measured\n");
            }
            if experiment.is_measured()
                && experiment.repeat > 1
                && experiment.asks.is_empty()
                && experiment.metrics.iter().any(|it| is_percentile(*it))
            {
                let of = percentiles_of(experiment);
                let _ = writeln!(text, "  percentiles: of all {of} of a run; shown is their mean over the runs");
            }
            text.push_str(&bond_table(experiment, width));
            for comparison in &experiment.comparisons {
                let common =
                    if comparison.labels.0.is_empty() { String::new() } else { format!("{}: ", comparison.labels) };
                let _ = writeln!(
                    text,
                    "  {common}{}: {} {} ({})",
                    comparison.policies(),
                    metric_name(comparison.metric),
                    quantity::difference(&comparison.difference, comparison.metric.unit()),
                    comparison.driver.word()
                );
            }
            for left_out in experiment.left_out() {
                let _ = writeln!(text, "  {left_out}");
            }
            for note in experiment.unlike_warm_up(&self.drivers).into_iter().chain(self.notes(experiment)) {
                let _ = writeln!(text, "  {note}");
            }
            text.push_str(&verdict_lines(experiment));
            let few = few_runs_in_words(experiment.repeat, true).filter(|_| !experiment.verdicts.is_empty());
            if let Some(few) = few {
                let _ = writeln!(text, "  {few}: {MORE_RUNS}");
            }
            text.push('\n');
        }
        if let Some(warning) = self.warning() {
            let _ = writeln!(text, "{warning}");
        }
        text.push_str(&self.closing_line());
        text
    }

    fn closing_line(&self) -> String {
        let (held, all) = self.verdicts().fold((0, 0), |(held, all), (_, v)| (held + u32::from(v.passed), all + 1));
        let mut line = match all {
            0 => "no expectations".to_owned(),
            1 if held == 1 => "the expectation is met".to_owned(),
            _ if held == all => format!("all {all} expectations are met"),
            _ => format!("{} of {all} expectations missed", all - held),
        };
        if let Some(speed) = self.simulator_speed() {
            let _ = write!(line, "; simulator: {} packet-hops/s on one core", quantity::rough(speed.per_second));
        }
        line + "\n"
    }

    /// Everything but the samples as JSON.
    pub fn json(&self) -> String {
        let mut value = serde_json::to_value(self).expect("results are plain data");
        value["simulator"] = serde_json::to_value(self.simulator_speed()).expect("plain numbers");
        serde_json::to_string_pretty(&value).expect("plain data") + "\n"
    }

    /// One line for each experiment, case, driver and metric (RFC 4180 with LF). Values are in bit/s, counts, and
    /// shares from 0 to 1; `interval` is half the width of the 99 % confidence interval.
    pub fn csv(&self) -> String {
        let mut text = "experiment,case,driver,metric,n,mean,interval,min,p50,p99,max,standard-deviation\n".to_owned();
        for experiment in &self.experiments {
            for case in &experiment.cases {
                for cell in &case.cells {
                    for &driver in &self.drivers {
                        if let Some(summary) = cell.summary(driver) {
                            let start = [
                                quoted(&experiment.name),
                                quoted(&case.labels.to_string()),
                                driver.word().to_owned(),
                                cell.metric.word().to_owned(),
                            ];
                            let _ = writeln!(text, "{},{}", start.join(","), csv_numbers(summary));
                        }
                    }
                }
            }
        }
        text
    }
}

/// A number of comma-separated values; empty where there is none.
pub(crate) fn optional(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn csv_numbers(summary: &Summary) -> String {
    let Summary { n, min, mean, max, p50, p99, standard_deviation, interval } = summary;
    format!("{n},{mean},{},{min},{p50},{p99},{max},{}", optional(*interval), optional(*standard_deviation))
}

/// The scale that suits a metric over all cases of an experiment.
pub(crate) fn scale_of(experiment: &ExperimentResult, metric: Metric) -> Scale {
    let means = experiment.cases.iter().filter_map(|case| case.cell(metric));
    let max = means.flat_map(|cell| [&cell.live, &cell.sim]).flatten().map(|summary| summary.mean).fold(0.0, f64::max);
    Scale::of(metric.unit(), max)
}

/// A heading such as `goodput, mean (Mbit/s)`.
pub(crate) fn heading(experiment: &ExperimentResult, metric: Metric) -> String {
    let unit = scale_of(experiment, metric).unit;
    if unit.is_empty() { metric_name(metric).to_owned() } else { format!("{} ({unit})", metric_name(metric)) }
}

/// What an experiment's part of a table begins with.
pub(super) fn opening_line(name: &str, title: &str) -> String {
    if title.is_empty() { format!("{name}\n") } else { format!("{name}: {title}\n") }
}

/// Whether a metric is of a kind.
type IsOf = fn(Metric) -> bool;

/// What a run has many of, of which an experiment shows percentiles.
fn percentiles_of(experiment: &ExperimentResult) -> String {
    let shows = |is: IsOf| experiment.metrics.iter().any(|metric| is_percentile(*metric) && is(*metric));
    let kinds: [(&str, IsOf); 4] = [
        ("packets", |metric| matches!(metric, Metric::Delay(_))),
        ("round trips", |metric| matches!(metric, Metric::RoundTrip(_))),
        ("transfers", Metric::is_of_transfers),
        ("requests", Metric::is_of_requests),
    ];
    kinds.iter().filter(|(_, is)| shows(*is)).map(|(kind, _)| *kind).collect::<Vec<_>>().join(" or ")
}

/// Whether a metric is a percentile of what one run has many of.
const fn is_percentile(metric: Metric) -> bool {
    let (Metric::Delay(statistic)
    | Metric::RoundTrip(statistic)
    | Metric::Completion(statistic)
    | Metric::Response(statistic)
    | Metric::CompletionOf(_, statistic)) = metric
    else {
        return false;
    };
    matches!(statistic, Statistic::P50 | Statistic::P90 | Statistic::P99 | Statistic::P999)
}

/// What was measured, by hosts that talk to hosts or by those who ask the controllers.
fn tables(experiment: &ExperimentResult, drivers: &[DriverKind], width: u16) -> String {
    if experiment.asks.is_empty() {
        experiment_table(experiment, &experiment.metrics, drivers, width)
    } else {
        cluster_tables(experiment, drivers, width)
    }
}

/// A column a metric where that fits; otherwise the metrics below each other within each case.
fn experiment_table(experiment: &ExperimentResult, metrics: &[Metric], drivers: &[DriverKind], width: u16) -> String {
    let wide = wide_table(experiment, metrics, drivers);
    let fits = wide.lines().all(|line| line.chars().count() <= usize::from(width));
    if fits { wide } else { long_table(experiment, metrics, drivers, width) }
}

/// Latencies, then whatever else the experiment shows.
fn cluster_tables(experiment: &ExperimentResult, drivers: &[DriverKind], width: u16) -> String {
    let drivers = &experiment.drivers_of(drivers);
    let mut text = String::new();
    if let Some(latencies) = LatencyTable::of(experiment, drivers) {
        text.push_str(&latency_table(experiment, &latencies, drivers, width));
    }
    let others = other_metrics(experiment);
    if !others.is_empty() {
        text.push_str(&experiment_table(experiment, &others, drivers, width));
    }
    text
}

/// A block a case with a line for each operation.
fn latency_table(
    experiment: &ExperimentResult,
    latencies: &LatencyTable,
    drivers: &[DriverKind],
    width: u16,
) -> String {
    let both = drivers.len() > 1;
    let mut headings = vec!["case".to_owned(), "operation".to_owned()];
    headings.extend(both.then(|| "driver".to_owned()));
    let words = headings.len();
    headings.extend(latencies.headings.iter().chain(&latencies.published).cloned());
    let grid = Grid::new(&headings);
    let mut grid = if latencies.has_blocks() { grid.ruled() } else { grid };
    for (number, case) in experiment.cases.iter().enumerate() {
        let lines = latencies.rows.iter().filter(|row| row.case == number).map(|row| {
            let mut line = vec![row.operation.word().to_owned()];
            line.extend(both.then(|| row.driver.word().to_owned()));
            line.extend(row.cells.iter().cloned());
            line.extend(latencies.published.as_ref().map(|_| row.published.clone().unwrap_or_default()));
            line
        });
        let about = with_runs(experiment, case, drivers, case.labels.to_string());
        grid.row(block(about, lines, headings.len()));
    }
    grid.render_within(&(words..headings.len()).collect::<Vec<_>>(), width)
}

/// What bonds did: a line for each direction that carried data, as far as a terminal has room for it.
fn bond_table(experiment: &ExperimentResult, width: u16) -> String {
    let Some(BondTable { headings, rows, figures }) = BondTable::of(experiment) else { return String::new() };
    let mut grid = Grid::new(&headings);
    let more = rows.len().saturating_sub(BOND_ROWS_MAX);
    rows.into_iter().take(BOND_ROWS_MAX).for_each(|row| grid.row(row));
    let mut text = "bonds: what each sent by its members, and what order on arrival cost at the other end\n".to_owned();
    text.push_str(&grid.render_within(&(figures..headings.len()).collect::<Vec<_>>(), width));
    if more > 0 {
        let _ = writeln!(text, "  {more} more rows in the report");
    }
    text
}

fn wide_table(experiment: &ExperimentResult, metrics: &[Metric], drivers: &[DriverKind]) -> String {
    let both = drivers.len() > 1;
    let mut headings = vec!["case".to_owned()];
    headings.extend(experiment.precision.map(|_| "runs".to_owned()));
    for &metric in metrics {
        let name = heading(experiment, metric).replace(' ', "\n");
        if both {
            headings.extend([format!("{name}\nlive"), "simulated".to_owned(), "difference".to_owned()]);
        } else {
            headings.push(name);
        }
        if has_published(experiment, metric) {
            headings.push("published".to_owned());
        }
    }
    stand_on_one_line(&mut headings);
    let mut grid = Grid::new(&headings);
    for case in &experiment.cases {
        let mut row = vec![case.labels.to_string()];
        row.extend(experiment.precision.map(|_| runs_text(case, drivers)));
        for &metric in metrics {
            row.extend(cells(experiment, case, metric, drivers));
            if has_published(experiment, metric) {
                row.push(published_text(experiment, case, metric));
            }
        }
        grid.row(row);
    }
    grid.render(&(1..headings.len()).collect::<Vec<_>>())
}

/// What a block is about, and how many runs that was where it differs from case to case.
fn with_runs(experiment: &ExperimentResult, case: &CaseResult, drivers: &[DriverKind], about: String) -> String {
    let runs = experiment.precision.map(|_| runs_text(case, drivers) + " runs");
    let lines = [Some(about).filter(|about| !about.is_empty()), runs];
    lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// How many runs a case had, one number a driver.
pub(crate) fn runs_text(case: &CaseResult, drivers: &[DriverKind]) -> String {
    drivers.iter().map(|&driver| case.runs(driver).to_string()).collect::<Vec<_>>().join(" / ")
}

/// Puts empty lines above headings of fewer lines than the tallest one.
pub(crate) fn stand_on_one_line(headings: &mut [String]) {
    let tallest = headings.iter().map(|heading| heading.matches('\n').count()).max().unwrap_or(0);
    for heading in headings {
        *heading = "\n".repeat(tallest - heading.matches('\n').count()) + heading;
    }
}

fn long_table(experiment: &ExperimentResult, metrics: &[Metric], drivers: &[DriverKind], width: u16) -> String {
    let both = drivers.len() > 1;
    let mut headings = vec!["case", "metric"];
    headings.extend(drivers.iter().map(|driver| match driver {
        DriverKind::Live => "live",
        DriverKind::Sim => "simulated",
    }));
    if both {
        headings.push("difference");
    }
    let published = metrics.iter().any(|&metric| has_published(experiment, metric));
    headings.extend(published.then_some("published"));
    let mut grid = Grid::new(&headings).ruled();
    for case in &experiment.cases {
        let lines = metrics.iter().map(|&metric| {
            let mut line = vec![heading(experiment, metric)];
            line.extend(cells(experiment, case, metric, drivers));
            line.extend(published.then(|| published_text(experiment, case, metric)));
            line
        });
        let about = with_runs(experiment, case, drivers, label_lines(&case.labels));
        grid.row(block(about, lines, headings.len()));
    }
    grid.render_within(&(2..headings.len()).collect::<Vec<_>>(), width)
}

/// A row of a grid: what a block is about, and its lines below each other in the other columns.
pub(crate) fn block(about: String, lines: impl Iterator<Item = Vec<String>>, columns: usize) -> Vec<String> {
    let mut cells = vec![Vec::new(); columns - 1];
    for line in lines {
        cells.iter_mut().zip(line).for_each(|(column, cell)| column.push(cell));
    }
    std::iter::once(about).chain(cells.into_iter().map(|column| column.join("\n"))).collect()
}

/// Whether others have measured the metric in any case.
pub(crate) fn has_published(experiment: &ExperimentResult, metric: Metric) -> bool {
    experiment.cases.iter().any(|case| case.published(metric).is_some())
}

/// What others measured, in the scale of the table; empty where they did not.
pub(crate) fn published_text(experiment: &ExperimentResult, case: &CaseResult, metric: Metric) -> String {
    case.published(metric).map_or_else(String::new, |value| scale_of(experiment, metric).plain(value))
}

/// A line a label.
pub(crate) fn label_lines(labels: &Labels) -> String {
    let line = |(key, value): &(String, String)| Labels(vec![(key.clone(), value.clone())]).to_string();
    labels.0.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The cells of one metric: one a driver, and the difference if there are two.
fn cells(experiment: &ExperimentResult, case: &CaseResult, metric: Metric, drivers: &[DriverKind]) -> Vec<String> {
    let scale = scale_of(experiment, metric);
    let show = |summary: Option<&Summary>| summary.map_or_else(|| "-".to_owned(), |s| scale.with_interval(s));
    let mut texts: Vec<String> = drivers.iter().map(|&driver| show(case.summary(metric, driver))).collect();
    if drivers.len() > 1 {
        let difference = case.cell(metric).and_then(|cell| cell.difference.as_ref());
        texts.push(difference.map_or_else(|| "-".to_owned(), |by| quantity::difference(by, metric.unit())));
    }
    texts
}

fn verdict_lines(experiment: &ExperimentResult) -> String {
    let mut text = String::new();
    for same in alike(&experiment.verdicts) {
        let Verdict { line, metric, text: claim, .. } = &same[0];
        if is_summed_up(same) {
            let _ = writeln!(text, "  met    line {line}: {} {claim}, {} times", metric.word(), same.len());
        } else {
            text.push_str(&each_verdict(same));
        }
    }
    text
}

/// What came of one expectation after the other.
pub(crate) fn alike(verdicts: &[Verdict]) -> impl Iterator<Item = &[Verdict]> {
    verdicts.chunk_by(|a, b| a.line == b.line && a.metric == b.metric && a.text == b.text)
}

/// Whether one line is enough.
pub(crate) fn is_summed_up(same: &[Verdict]) -> bool {
    same.len() > VERDICTS_MAX && same.iter().all(|verdict| verdict.passed)
}

fn each_verdict(verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    for verdict in verdicts {
        let word = if verdict.passed { "met   " } else { "MISSED" };
        let scale = Scale::of(verdict.metric.unit(), verdict.measured.unwrap_or(0.0));
        let measured = verdict.measured.map_or_else(|| "not measured".to_owned(), |mean| scale.with_unit(mean));
        let _ = writeln!(
            text,
            "  {word} line {}: {} {}, {}, {}: {measured}",
            verdict.line,
            verdict.metric.word(),
            verdict.text,
            verdict.labels,
            verdict.driver.word()
        );
    }
    text
}
