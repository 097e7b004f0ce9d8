//! Live against simulated, for a terminal, as data, and on the page.

use std::fmt::Write as _;

use fabric::Unit;

use super::html::table;
use super::quantity::{self, Scale};
use super::svg::escape;
use super::table::{block, heading, label_lines, opening_line, optional, scale_of, stand_on_one_line};
use crate::grid::{Grid, WIDTH_OF_PIPE, for_terminal, quoted};
use crate::labels::Labels;
use crate::measure::statistics::{RankTest, Summary};
use crate::results::{
    ComparedCase, ComparedExperiment, ComparedFlow, ComparedLink, ComparedMetric, DriverComparison, Means, Parting,
    Results,
};

/// The columns of [`DriverComparison::csv`].
pub(super) const CSV_HEADINGS: &str = "experiment,case,metric,live-n,live-mean,live-interval,sim-n,sim-mean,\
                                       sim-interval,difference,relative,within";

/// What stands in each line of a case.
pub(super) const HEADINGS: [&str; 7] = ["case", "metric", "live", "simulated", "difference", "tolerance", "within"];
/// From this column on they are figures.
pub(super) const FIGURES: usize = 2;

/// Below this probability times are said to lie apart.
const SIGNIFICANCE: f64 = 0.01;

/// A longer table on the page is folded.
const ROWS_OPEN: usize = 40;

impl DriverComparison<'_> {
    /// The comparison for the terminal that stdout is, or for a pipe.
    pub fn table(&self) -> String {
        for_terminal(WIDTH_OF_PIPE, |width| self.table_within(width))
    }

    /// The comparison in lines of at most `width` columns, as far as their words allow.
    pub fn table_within(&self, width: u16) -> String {
        let mut text = String::new();
        for experiment in &self.experiments {
            text.push_str(&opening_line(experiment.name, experiment.title));
            if !experiment.cases.is_empty() {
                let mut grid = Grid::new(&HEADINGS).ruled();
                for ComparedCase { labels, metrics, completion_times: _ } in &experiment.cases {
                    let lines = metrics.iter().map(|metric| line(experiment, metric).to_vec());
                    grid.row(block(label_lines(labels), lines, HEADINGS.len()));
                }
                text.push_str(&grid.render_within(&(FIGURES..HEADINGS.len()).collect::<Vec<_>>(), width));
            }
            for note in notes_of(experiment) {
                let _ = writeln!(text, "  {note}");
            }
            text.push('\n');
        }
        let tables = [partings(&self.partings), flows(&self.flows), links(&self.links)];
        for MostApart { title, headings, rows } in tables.into_iter().flatten() {
            let _ = writeln!(text, "{title}");
            let mut grid = Grid::new(&headings);
            for row in rows {
                grid.row(row);
            }
            text.push_str(&grid.render_within(&(MostApart::FIGURES..headings.len()).collect::<Vec<_>>(), width));
            text.push('\n');
        }
        if let Some(warning) = &self.warning {
            let _ = writeln!(text, "{warning}");
        }
        text + &self.closing_line() + "\n"
    }

    fn closing_line(&self) -> String {
        let mut line = match self.judged {
            0 => "nothing that was compared has a tolerance".to_owned(),
            judged => format!("{} of {judged} within tolerance", self.within),
        };
        if self.unjudged > 0 {
            let _ = write!(line, "; {} not judged, since only one driver has measured it", self.unjudged);
        }
        line
    }

    /// All of it as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data") + "\n"
    }

    /// One line for each experiment, case and metric, in the units of [`Results::csv`]. `difference` is live minus simulated, `relative` that as
    /// a fraction of the simulated mean, empty where that is near nothing; `within` is `true`, `false`, or empty for what is not judged.
    pub fn csv(&self) -> String {
        CSV_HEADINGS.to_owned() + "\n" + &self.csv_lines("")
    }

    /// The lines below the headings, each with `start` before it.
    pub(super) fn csv_lines(&self, start: &str) -> String {
        let mut text = String::new();
        for experiment in &self.experiments {
            for case in &experiment.cases {
                for metric in &case.metrics {
                    let difference = metric.difference;
                    let cells = [
                        quoted(experiment.name),
                        quoted(&case.labels.to_string()),
                        metric.metric.word().to_owned(),
                        csv_summary(metric.live),
                        csv_summary(metric.sim),
                        optional(difference.map(|difference| difference.mean)),
                        optional(difference.and_then(|difference| difference.relative)),
                        metric.within.map_or_else(String::new, |within| within.to_string()),
                    ];
                    let _ = writeln!(text, "{start}{}", cells.join(","));
                }
            }
        }
        text
    }
}

fn csv_summary(summary: Option<Summary>) -> String {
    let Some(Summary { n, mean, interval, .. }) = summary else { return "0,,".to_owned() };
    format!("{n},{mean},{}", optional(interval))
}

/// What is said below an experiment's table: a line each.
pub(super) fn notes_of(experiment: &ComparedExperiment) -> Vec<String> {
    let times = if experiment.cases.is_empty() { Vec::new() } else { experiment.result.unlike_times() };
    completion_times(experiment).into_iter().chain(times).chain(not_compared(experiment)).collect()
}

/// Where connections come and go: whether their times may be of one distribution. A line each case.
fn completion_times(experiment: &ComparedExperiment) -> Vec<String> {
    let line = |case: &ComparedCase| {
        let RankTest { a, b, a_larger, p } = case.completion_times?;
        let about = if case.labels.0.is_empty() { String::new() } else { format!("{}: ", case.labels) };
        let verdict = if p < SIGNIFICANCE { "apart" } else { "not apart" };
        Some(format!(
            "{about}completion times of {a} transfers live and {b} simulated: p = {p:.2e} (Mann-Whitney), {verdict} at \
             {:.0} %; live takes longer in {:.1} % of pairs",
            100.0 * SIGNIFICANCE,
            100.0 * a_larger
        ))
    };
    experiment.cases.iter().filter_map(line).collect()
}

/// Which cases are not compared, and why.
fn not_compared(experiment: &ComparedExperiment) -> Vec<String> {
    if experiment.cases.is_empty() && experiment.left_out.is_empty() {
        return vec!["not compared: no case ran both live and simulated".to_owned()];
    }
    experiment.left_out.iter().map(|why| format!("not compared: {why}")).collect()
}

/// What stands beside a case's labels.
pub(super) fn line(experiment: &ComparedExperiment, compared: &ComparedMetric) -> [String; HEADINGS.len() - 1] {
    let ComparedMetric { metric, live, sim, difference, tolerance, within } = compared;
    let scale = scale_of(experiment.result, *metric);
    let unknown = || "-".to_owned();
    let show = |summary: &Option<Summary>| summary.as_ref().map_or_else(unknown, |s| scale.with_interval(s));
    [
        heading(experiment.result, *metric),
        show(live),
        show(sim),
        difference.as_ref().map_or_else(unknown, |by| quantity::difference(by, metric.unit())),
        tolerance.map_or_else(String::new, |tolerance| tolerance.words(*metric)),
        match within {
            Some(true) => "yes".to_owned(),
            Some(false) => "NO".to_owned(),
            None if tolerance.is_some() => unknown(),
            None => String::new(),
        },
    ]
}

/// The flows, or the directions of links, that differ most.
pub(super) struct MostApart {
    pub title: &'static str,
    pub headings: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl MostApart {
    /// From this column on they are figures.
    pub const FIGURES: usize = 3;

    fn new(title: &'static str, names: [&str; 3], rows: Vec<Vec<String>>) -> Self {
        let [what, first, second] = names;
        let of =
            |quantity: &str| [format!("{quantity}\nlive"), "simulated".to_owned(), "difference".to_owned()].into_iter();
        let words = ["experiment", "case", what].map(str::to_owned);
        let mut headings: Vec<String> = words.into_iter().chain(of(first)).chain(of(second)).collect();
        stand_on_one_line(&mut headings);
        Self { title, headings, rows }
    }
}

/// Where and from when on live and simulated part.
pub(super) fn partings(partings: &[Parting]) -> Option<MostApart> {
    let row = |parting: &Parting| {
        let Parting { experiment, labels, quantity, from_seconds, means, most_at, most } = parting;
        let largest = [Some(*means), *most].into_iter().flatten().fold(0.0, larger);
        let scale = Scale::of(quantity.unit(), largest);
        let name = if scale.unit.is_empty() {
            quantity.name().to_owned()
        } else {
            format!("{} ({})", quantity.name(), scale.unit)
        };
        let from = [format!("{from_seconds:.2} s")].into_iter();
        let most_at = most_at.clone().unwrap_or_else(|| "-".to_owned());
        let figures = |means| figures((quantity.unit(), scale), means);
        let figures = from.chain(figures(Some(*means))).chain([most_at]).chain(figures(*most));
        part_row(experiment, labels, name, figures)
    };
    let words = ["experiment", "case", "what parts", "from", "live", "simulated", "difference"];
    let most = ["most at", "live", "simulated", "difference"];
    let headings = words.into_iter().chain(most).map(str::to_owned).collect();
    let title = "from when on live and simulated lie apart, up to the end";
    (!partings.is_empty()).then(|| MostApart { title, headings, rows: partings.iter().map(row).collect() })
}

fn flows(flows: &[ComparedFlow]) -> Option<MostApart> {
    let largest = flows.iter().map(|flow| flow.goodput_bps).fold(0.0, larger);
    let goodput = (Unit::BitsPerSecond, Scale::of(Unit::BitsPerSecond, largest));
    let count = (Unit::Count, Scale::of(Unit::Count, 0.0));
    let row = |flow: &ComparedFlow| {
        let way = format!("{} > {}", flow.from, flow.to);
        let figures = figures(goodput, Some(flow.goodput_bps)).chain(figures(count, Some(flow.retransmits)));
        part_row(flow.experiment, flow.labels, way, figures)
    };
    let names = ["flow", &format!("goodput\n({})", goodput.1.unit), "retransmits"];
    let title = "flows that differ most";
    (!flows.is_empty()).then(|| MostApart::new(title, names, flows.iter().map(row).collect()))
}

fn links(links: &[ComparedLink]) -> Option<MostApart> {
    let share = (Unit::Share, Scale::of(Unit::Share, 0.0));
    let count = (Unit::Count, Scale::of(Unit::Count, 0.0));
    let row = |link: &ComparedLink| {
        let number = link.number.map_or_else(String::new, |number| format!(":{number}"));
        let way = format!("{} > {}{number}", link.from, link.to);
        let figures = figures(share, link.utilisation).chain(figures(count, Some(link.drops)));
        part_row(link.experiment, link.labels, way, figures)
    };
    let title = "links that differ most";
    let names = ["link", "utilisation\n(%)", "drops"];
    (!links.is_empty()).then(|| MostApart::new(title, names, links.iter().map(row).collect()))
}

fn larger(largest: f64, means: Means) -> f64 {
    largest.max(means.live).max(means.sim)
}

fn part_row(experiment: &str, labels: &Labels, way: String, figures: impl Iterator<Item = String>) -> Vec<String> {
    [experiment.to_owned(), labels.to_string(), way].into_iter().chain(figures).collect()
}

/// Live, simulated, and the difference.
fn figures((unit, scale): (Unit, Scale), means: Option<Means>) -> impl Iterator<Item = String> {
    let texts = means.map(|means| {
        let difference = quantity::difference(&means.difference(), unit);
        [scale.plain(means.live), scale.plain(means.sim), difference]
    });
    texts.unwrap_or_else(|| [const { "-" }; 3].map(str::to_owned)).into_iter()
}

/// The comparison on the page; nothing where there is none.
pub(super) fn section(results: &Results) -> String {
    let Ok(comparison) = results.compare_drivers(&[]) else { return String::new() };
    if comparison.judged == 0 {
        return String::new();
    }
    let class = if comparison.passed() { "met" } else { "missed" };
    let mut html = format!(
        "<section id=\"drivers\">\n<h2>Live against simulated</h2>\n<p class=\"lead\"><span class=\"{class}\">{}</span></p>\n",
        comparison.closing_line()
    );
    for experiment in comparison.experiments.iter().filter(|experiment| !experiment.cases.is_empty()) {
        let rows: usize = experiment.cases.iter().map(|case| case.metrics.len()).sum();
        let open = if rows > ROWS_OPEN { "" } else { " open" };
        let notes = completion_times(experiment)
            .iter()
            .fold(String::new(), |notes, note| notes + "<p>" + &escape(note) + "</p>");
        let _ = writeln!(
            html,
            "<details class=\"card\"{open}><summary>{}</summary>{}{notes}</details>",
            escape(experiment.name),
            experiment_table(experiment)
        );
    }
    let tables = [partings(&comparison.partings), flows(&comparison.flows), links(&comparison.links)];
    for MostApart { title, headings, rows } in tables.into_iter().flatten() {
        let rows = rows.iter().map(|row| html_row("", row, MostApart::FIGURES)).collect::<String>();
        let head = html_head(headings.iter().map(|heading| heading.trim().replace('\n', " ")), MostApart::FIGURES);
        let _ = writeln!(html, "<div class=\"card\"><h3>{}</h3>{}</div>", escape(title), table("wraps", &head, &rows));
    }
    html + "</section>\n"
}

fn experiment_table(experiment: &ComparedExperiment) -> String {
    let mut rows = String::new();
    for case in &experiment.cases {
        for (number, metric) in case.metrics.iter().enumerate() {
            let about = if number == 0 { case.labels.to_string() } else { String::new() };
            let cells: Vec<String> = std::iter::once(about).chain(line(experiment, metric)).collect();
            rows.push_str(&html_row(if number == 0 { "begins" } else { "" }, &cells, FIGURES));
        }
    }
    table("", &html_head(HEADINGS.iter().map(ToString::to_string), FIGURES), &rows)
}

fn html_head(headings: impl Iterator<Item = String>, figures: usize) -> String {
    let head =
        |(at, heading): (usize, String)| format!("<th class=\"{}\">{}</th>", side(at, figures), escape(&heading));
    format!("<tr>{}</tr>", headings.enumerate().map(head).collect::<String>())
}

fn html_row(class: &str, cells: &[String], figures: usize) -> String {
    let cell = |(at, cell): (usize, &String)| match at {
        0 => format!("<th scope=\"row\">{}</th>", escape(cell)),
        _ if cell == "NO" => format!("<td class=\"missed\">{cell}</td>"),
        _ => format!("<td class=\"{}\">{}</td>", side(at, figures), escape(cell)),
    };
    format!("<tr class=\"{class}\">{}</tr>\n", cells.iter().enumerate().map(cell).collect::<String>())
}

const fn side(at: usize, figures: usize) -> &'static str {
    if at < figures { "left" } else { "" }
}
