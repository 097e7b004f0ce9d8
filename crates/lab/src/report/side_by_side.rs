//! Two folders of results side by side: what was measured in both, before and after a change perhaps.

use std::fmt::Write as _;

use fabric::{DriverKind, KeyDifference, Metric, Source};
use serde::Serialize;

use super::html::{driver_word, table};
use super::quantity::{self, Scale};
use super::svg::escape;
use super::table::{block, label_lines, opening_line, optional};
use crate::doubts::{MORE_RUNS, few_runs_in_words};
use crate::error::{Error, NotJoined};
use crate::grid::{Grid, WIDTH_OF_PIPE, for_terminal, quoted};
use crate::labels::Labels;
use crate::measure::metric::{metric_name, metric_value};
use crate::measure::statistics::{Difference, Summary, independent};
use crate::results::{CaseResult, ExperimentResult, Results};

/// What two folders have in common.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SideBySide<'a> {
    /// The first folder.
    pub a: Side<'a>,
    /// The second one.
    pub b: Side<'a>,
    /// Experiments of both, in the first one's order.
    pub experiments: Vec<ExperimentOfBoth<'a>>,
    /// What only one of them has, a line each.
    pub left_out: Vec<String>,
    /// How experiments of both were run otherwise, a line each: their means differ for that, too.
    pub run_otherwise: Vec<String>,
    /// The keys of the files that differ; `None`: what one of them was is not known.
    pub file: Option<Vec<KeyDifference>>,
}

/// So many keys are listed one by one.
const KEYS_MAX: usize = 12;

/// So long are values that are listed.
const VALUE_MAX: usize = 60;

/// One of the folders.
#[derive(Clone, Debug, Serialize)]
pub struct Side<'a> {
    /// What it is called.
    pub name: String,
    /// When it was measured, UTC.
    pub date: &'a str,
    /// Version of Heddle.
    pub version: &'a str,
    /// Where randomness started.
    pub seed: u64,
}

/// An experiment of both.
#[derive(Clone, Debug, Serialize)]
pub struct ExperimentOfBoth<'a> {
    /// Its name.
    pub name: &'a str,
    /// One line about it; may be empty.
    #[serde(skip)]
    title: &'a str,
    /// Case by case.
    pub rows: Vec<Row<'a>>,
}

/// A metric of a case, by one driver.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row<'a> {
    /// The case.
    pub labels: &'a Labels,
    /// What was measured.
    pub metric: Metric,
    /// Who drove the runs.
    pub driver: DriverKind,
    /// In the first folder.
    pub a: Summary,
    /// In the second one.
    pub b: Summary,
    /// The second minus the first, by Welch's method: runs of two calls do not form pairs. Nothing where they are identical.
    pub difference: Difference,
    /// Whether each run of the first folder measured just what that of the same number did in the second one, as simulated runs of the same file and seed do.
    pub identical: bool,
    /// Whether the difference is more than chance makes it in one of a hundred cases; `None`: too few runs to tell.
    pub apart: Option<bool>,
}

impl<'a> SideBySide<'a> {
    /// Of two folders, each with what it is to be called.
    ///
    /// # Errors
    /// If they have nothing in common.
    pub fn of(a: (String, &'a Results), b: (String, &'a Results)) -> Result<Self, Error> {
        let mut left_out = Vec::new();
        let mut experiments = Vec::new();
        let mut run_otherwise = Vec::new();
        for experiment in &a.1.experiments {
            match b.1.experiments.iter().find(|other| other.name == experiment.name) {
                Some(other) => {
                    run_otherwise.extend(differences(experiment, other));
                    let both = of_both((&a.0, a.1, experiment), (&b.0, b.1, other), &mut left_out);
                    if both.rows.is_empty() {
                        left_out.push(format!("{}: no case was measured in both", experiment.name));
                    } else {
                        experiments.push(both);
                    }
                }
                None => left_out.push(format!("{}: only in {}", experiment.name, a.0)),
            }
        }
        let only_b = |other: &&ExperimentResult| a.1.experiments.iter().all(|one| one.name != other.name);
        left_out.extend(b.1.experiments.iter().filter(only_b).map(|it| format!("{}: only in {}", it.name, b.0)));
        if experiments.is_empty() {
            return Err(nothing_in_common(a, b));
        }
        let side = |(name, results): (String, &'a Results)| Side {
            name,
            date: &results.environment.date,
            version: &results.environment.version,
            seed: results.seed,
        };
        let file = differing_keys(a.1, b.1);
        Ok(Self { a: side(a), b: side(b), experiments, left_out, run_otherwise, file })
    }

    /// For the terminal that stdout is, or for a pipe.
    pub fn table(&self) -> String {
        for_terminal(WIDTH_OF_PIPE, |width| self.table_within(width))
    }

    /// In lines of at most `width` columns, as far as their words allow.
    pub fn table_within(&self, width: u16) -> String {
        let mut text = String::new();
        for (letter, side) in [("A", &self.a), ("B", &self.b)] {
            let Side { name, date, version, seed } = side;
            let _ = writeln!(text, "{letter}: {name}, {date} UTC, heddle {version}, seed {seed}");
        }
        for line in self.lines_of_file() {
            let _ = writeln!(text, "{line}");
        }
        text.push('\n');
        for experiment in &self.experiments {
            text.push_str(&opening_line(experiment.name, experiment.title));
            let mut grid = Grid::new(&HEADINGS).ruled();
            for rows in experiment.rows.chunk_by(|one, other| one.labels == other.labels) {
                let lines = rows.iter().map(|row| cells(row, scale(&experiment.rows, row.metric)).to_vec());
                grid.row(block(label_lines(rows[0].labels), lines, HEADINGS.len()));
            }
            text.push_str(&grid.render_within(&[3, 4, 5], width));
            text.push('\n');
        }
        for line in self.lines_below() {
            let _ = writeln!(text, "{line}");
        }
        text + &self.closing_line() + "\n"
    }

    /// What differs between the files.
    fn lines_of_file(&self) -> Vec<String> {
        let keys = match &self.file {
            None => {
                let why = "one of the folders has no fabric.yaml, as those of earlier versions";
                return vec![format!("What differs between the files is not known: {why}")];
            }
            Some(keys) if keys.is_empty() => return vec!["Both files have the same keys and values".to_owned()],
            Some(keys) => keys,
        };
        let value = |value: &Option<String>| match value {
            Some(text) if text.chars().count() > VALUE_MAX => {
                text.chars().take(VALUE_MAX - 2).collect::<String>() + ".."
            }
            Some(text) => text.clone(),
            None => "(not there)".to_owned(),
        };
        let line = |KeyDifference { key, a, b }: &KeyDifference| format!("  {key}: {} | {}", value(a), value(b));
        let more = (keys.len() > KEYS_MAX).then(|| format!("  and {} more (-o json has all)", keys.len() - KEYS_MAX));
        let first = std::iter::once("What differs between the files (A | B):".to_owned());
        first.chain(keys.iter().take(KEYS_MAX).map(line)).chain(more).collect()
    }

    /// What is to be known of the tables.
    fn lines_below(&self) -> Vec<String> {
        let differing = self.experiments.iter().flat_map(|experiment| &experiment.rows).filter(|row| !row.identical);
        let few = differing.map(|row| row.a.n.min(row.b.n)).min();
        let few = few.filter(|runs| few_runs_in_words(*runs, true).is_some()).map(|runs| match runs {
            0 | 1 => {
                format!("One run does not say how far the next one lies, so nobody can tell what is apart: {MORE_RUNS}")
            }
            runs => format!(
                "{runs} runs are too few to tell small differences from chance, and \"no\" says little: {MORE_RUNS}"
            ),
        });
        self.run_otherwise.iter().chain(&self.left_out).cloned().chain(few).collect()
    }

    fn closing_line(&self) -> String {
        let rows = || self.experiments.iter().flat_map(|experiment| &experiment.rows);
        let apart = rows().filter(|row| row.apart == Some(true)).count();
        let identical = match rows().filter(|row| row.identical).count() {
            0 => String::new(),
            some => format!(", {some} are identical, run by run"),
        };
        format!("{apart} of {} means lie apart by more than chance (99 %){identical}", rows().count())
    }

    /// All of it as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data") + "\n"
    }

    /// One line for each experiment, case, metric and driver.
    pub fn csv(&self) -> String {
        let mut text = "experiment,case,metric,driver,a-n,a-mean,a-interval,b-n,b-mean,b-interval,difference,interval,\
                        relative,apart\n"
            .to_owned();
        for experiment in &self.experiments {
            for Row { labels, metric, driver, a, b, difference, identical: _, apart } in &experiment.rows {
                let words = [quoted(experiment.name), quoted(&labels.to_string()), metric.word().to_owned()];
                let side = |it: &Summary| format!("{},{},{}", it.n, it.mean, optional(it.interval));
                let _ = writeln!(
                    text,
                    "{},{},{},{},{},{},{},{}",
                    words.join(","),
                    driver.word(),
                    side(a),
                    side(b),
                    difference.mean,
                    optional(difference.interval),
                    optional(difference.relative),
                    apart.map_or_else(String::new, |apart| apart.to_string())
                );
            }
        }
        text
    }

    /// As one page that needs nothing else.
    pub fn html(&self) -> String {
        let mut html = super::page::opening(&format!("{} and {}", self.a.name, self.b.name));
        let _ = writeln!(
            html,
            "<header>\n<p class=\"eyebrow\">Heddle · two results side by side</p>\n<h1>{} and {}</h1>\n<p class=\"lead\">{}</p>\n</header>",
            escape(&self.a.name),
            escape(&self.b.name),
            self.closing_line()
        );
        let side = |letter: &str, side: &Side| {
            let Side { name, date, version, seed } = side;
            let (name, date, version) = (escape(name), escape(date), escape(version));
            format!("<dt>{letter}</dt><dd>{name}, {date} UTC, heddle {version}, seed {seed}</dd>\n")
        };
        let _ = writeln!(html, "<div class=\"card\"><dl>\n{}{}</dl></div>", side("A", &self.a), side("B", &self.b));
        for line in self.lines_of_file() {
            let _ = writeln!(html, "<p class=\"small\">{}</p>", escape(line.trim_start()));
        }
        for experiment in &self.experiments {
            let title = if experiment.title.is_empty() { experiment.name } else { experiment.title };
            let _ = writeln!(html, "<section>\n<h2>{}</h2>\n<div class=\"card\">", escape(title));
            let mut head = String::new();
            for (at, heading) in HEADINGS.iter().enumerate() {
                let _ = write!(head, "<th class=\"{}\">{heading}</th>", if (1..3).contains(&at) { "left" } else { "" });
            }
            let mut rows = String::new();
            for (number, row) in experiment.rows.iter().enumerate() {
                let is_new = number == 0 || experiment.rows[number - 1].labels != row.labels;
                let about = if is_new { escape(&row.labels.to_string()) } else { String::new() };
                let class = if is_new { "begins" } else { "" };
                let [metric, driver, a, b, difference, apart] =
                    cells(row, scale(&experiment.rows, row.metric)).map(|cell| escape(&cell));
                let _ = writeln!(
                    rows,
                    "<tr class=\"{class}\"><th scope=\"row\">{about}</th><td class=\"left\">{metric}</td><td class=\"left\">{driver}</td>\
                     <td>{a}</td><td>{b}</td><td>{difference}</td><td>{apart}</td></tr>"
                );
            }
            let _ = writeln!(html, "{}</div>\n</section>", table("", &format!("<tr>{head}</tr>"), &rows));
        }
        for line in self.lines_below() {
            let _ = writeln!(html, "<p class=\"small\">{}</p>", escape(&line));
        }
        html + "<footer><p>B − A with its 99 % confidence interval by Welch’s method, in per cent of A where that is something; apart: the \
                interval does not hold zero.</p></footer>\n</main>\n</body>\n</html>\n"
    }
}

const HEADINGS: [&str; 7] = ["case", "metric", "driver", "A", "B", "B − A", "apart"];

/// The keys that differ between the files that were measured, as far as both are known.
fn differing_keys(a: &Results, b: &Results) -> Option<Vec<KeyDifference>> {
    let [a, b] = [a, b].map(|results| Source { name: "fabric.yaml".to_owned(), text: results.file.clone() });
    if a.text.is_empty() || b.text.is_empty() { None } else { fabric::differences(&a, &b) }
}

/// Drivers that have measured a case in one of the folders alone.
fn of_one_driver(experiment: &str, cases: (&CaseResult, &CaseResult), names: (&str, &str)) -> Vec<String> {
    let lines = [DriverKind::Live, DriverKind::Sim].into_iter().filter_map(|driver| {
        let only = match (cases.0.runs(driver) > 0, cases.1.runs(driver) > 0) {
            (true, false) => names.0,
            (false, true) => names.1,
            _ => return None,
        };
        let driver = driver_word(driver);
        Some(format!("{experiment}, {}: {driver} runs only in {only}", cases.0.labels))
    });
    lines.collect()
}

/// How an experiment was run otherwise in the second folder.
fn differences(a: &ExperimentResult, b: &ExperimentResult) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |what: &str, [of_a, of_b]: [String; 2]| {
        if of_a != of_b {
            lines.push(format!("{}: {what}: {of_a} in A, {of_b} in B", a.name));
        }
    };
    if a.asks.is_empty() && b.asks.is_empty() {
        add("measured for", [a, b].map(ExperimentResult::seconds_in_words));
        add("warm-up", [a, b].map(|it| format!("{} s", it.warm_up_seconds)));
    }
    add("runs of a case", [a, b].map(ExperimentResult::runs_in_words));
    add("traffic", [a, b].map(|it| it.traffic.clone()));
    lines
}

/// Why two folders cannot stand side by side.
fn nothing_in_common(a: (String, &Results), b: (String, &Results)) -> Error {
    match a.1.joined(b.1) {
        Err(reason) if reason != NotJoined::SameDriver => Results::not_joined(a, b, reason),
        _ => Error::NothingInCommon { a: a.0, b: b.0 },
    }
}

impl Results {
    /// Who drove the runs: `live`, `simulated`, or both.
    pub fn drivers_in_words(&self) -> String {
        self.drivers.iter().map(|driver| driver_word(*driver)).collect::<Vec<_>>().join(" and ")
    }
}

fn of_both<'a>(
    (of_a, all_a, a): (&str, &Results, &'a ExperimentResult),
    (of_b, all_b, b): (&str, &Results, &'a ExperimentResult),
    left_out: &mut Vec<String>,
) -> ExperimentOfBoth<'a> {
    let mut rows = Vec::new();
    for (number_a, case) in a.cases.iter().enumerate() {
        let found = b.cases.iter().enumerate().find(|(_, other)| other.labels == case.labels);
        let Some((number_b, other)) = found else {
            left_out.push(format!("{}, {}: only in {of_a}", a.name, case.labels));
            continue;
        };
        left_out.extend(of_one_driver(&a.name, (case, other), (of_a, of_b)));
        for &metric in &a.metrics {
            for driver in [DriverKind::Live, DriverKind::Sim] {
                let Some(both) = case.summary(metric, driver).zip(other.summary(metric, driver)) else { continue };
                let values = |all: &Results, experiment, number| {
                    let records = all.records_of(experiment, number, driver);
                    records
                        .map(|record| (record.repeat, metric_value(record, metric).map(f64::to_bits)))
                        .collect::<Vec<_>>()
                };
                let identical = values(all_a, a, number_a) == values(all_b, b, number_b);
                rows.push(row(&case.labels, metric, driver, (*both.0, *both.1), identical));
            }
        }
    }
    let only_b = b.cases.iter().filter(|other| a.cases.iter().all(|case| case.labels != other.labels));
    left_out.extend(only_b.map(|case| format!("{}, {}: only in {of_b}", b.name, case.labels)));
    ExperimentOfBoth { name: &a.name, title: &a.title, rows }
}

fn row(labels: &Labels, metric: Metric, driver: DriverKind, (a, b): (Summary, Summary), identical: bool) -> Row<'_> {
    let difference = independent(&b, &a);
    let apart = difference.interval.map(|half| difference.mean.abs() > half);
    if !identical {
        return Row { labels, metric, driver, a, b, difference, identical, apart };
    }
    // Welch's method takes the runs for different ones, and their spread for what is not known.
    let relative_interval = difference.relative.map(|_| 0.0);
    let difference = Difference { interval: Some(0.0), relative_interval, ..difference };
    Row { labels, metric, driver, a, b, difference, identical, apart: Some(false) }
}

/// The scale that suits a metric in all rows.
fn scale(rows: &[Row<'_>], metric: Metric) -> Scale {
    let means = rows.iter().filter(|row| row.metric == metric).flat_map(|row| [row.a.mean, row.b.mean]);
    Scale::of(metric.unit(), means.fold(0.0, f64::max))
}

/// What stands beside a case's labels.
fn cells(row: &Row<'_>, scale: Scale) -> [String; HEADINGS.len() - 1] {
    let name = metric_name(row.metric);
    [
        if scale.unit.is_empty() { name.to_owned() } else { format!("{name} ({})", scale.unit) },
        driver_word(row.driver).to_owned(),
        scale.with_interval(&row.a),
        scale.with_interval(&row.b),
        if row.identical { "identical".to_owned() } else { quantity::difference(&row.difference, row.metric.unit()) },
        match row.apart {
            Some(true) => "yes".to_owned(),
            Some(false) => "no".to_owned(),
            None => "too few".to_owned(),
        },
    ]
}
