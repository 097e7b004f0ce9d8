//! What controllers did, for the page: a table of latencies, every request as a dot, the faults that were injected.

use std::fmt::Write as _;

use fabric::{DriverKind, Metric, Operation, Statistic};

use super::charts;
use super::html::{self, driver_class, driver_key, driver_word};
use super::latency::{LatencyTable, latency_scale};
use super::quantity::Scale;
use super::svg::{Anchor, Svg, escape};
use crate::results::{ExperimentResult, Results};

const WIDTH: f64 = 480.0;
const LEFT: f64 = 4.0;
/// Room for the range that is written behind the dots.
const RIGHT: f64 = 104.0;
const TOP: f64 = 22.0;
const LABEL: f64 = 17.0;
const STRIP: f64 = 14.0;
const GAP: f64 = 9.0;
/// More requests are thinned out to as many quantiles.
const DOTS_MAX: usize = 160;

/// A line for each case, operation and driver.
pub(super) fn latency_table(experiment: &ExperimentResult, drivers: &[DriverKind]) -> Option<String> {
    let table = LatencyTable::of(experiment, drivers)?;
    let both = drivers.len() > 1;
    let mut head = "<tr><th>case</th><th class=\"left\">operation</th>".to_owned();
    if both {
        head.push_str("<th class=\"left\">driver</th>");
    }
    for heading in table.headings.iter().chain(&table.published) {
        let _ = write!(head, "<th>{}</th>", escape(heading));
    }
    let mut rows = String::new();
    let mut last = None;
    for row in &table.rows {
        let is_new = last != Some(row.case);
        last = Some(row.case);
        let case = if is_new { escape(&experiment.cases[row.case].labels.to_string()) } else { String::new() };
        let class = if is_new { " class=\"begins\"" } else { "" };
        let _ =
            write!(rows, "<tr{class}><th scope=\"row\">{case}</th><td class=\"left\">{}</td>", row.operation.word());
        if both {
            let _ = write!(
                rows,
                "<td class=\"left\"><span class=\"{}\">{}</span></td>",
                driver_class(row.driver),
                driver_word(row.driver)
            );
        }
        row.cells.iter().for_each(|cell| {
            let _ = write!(rows, "<td>{}</td>", escape(cell));
        });
        if table.published.is_some() {
            let _ = write!(rows, "<td class=\"theirs\">{}</td>", escape(row.published.as_deref().unwrap_or_default()));
        }
        rows.push_str("</tr>\n");
    }
    Some(html::table("", &(head + "</tr>"), &rows))
}

/// For each operation its mean in each case, and every request.
pub(super) fn plots(
    results: &Results,
    experiment: &ExperimentResult,
    drivers: &[DriverKind],
    interval: &str,
) -> String {
    let key = driver_key(drivers);
    let unit = latency_scale(experiment).unit;
    let mut html = String::from("<div class=\"two\">\n");
    let mut card = |title: &str, note: &str, drawing: Option<String>| {
        if let Some(drawing) = drawing {
            let (title, note) = (escape(title), escape(note));
            let _ =
                writeln!(html, "<div class=\"card\"><h3>{title}</h3><p class=\"small\">{note}</p>{key}{drawing}</div>");
        }
    };
    for &operation in &experiment.asks {
        let metric = Metric::Latency(operation, Statistic::Mean);
        let published = experiment.cases.iter().any(|case| case.published(metric).is_some());
        let note = if published { format!("{interval}; grey: published") } else { interval.to_owned() };
        let word = operation.word();
        card(&format!("{word}, mean ({unit})"), &note, charts::bars(experiment, drivers, metric));
        let note = "a dot a request, a stroke at the median; logarithmic";
        card(&format!("every {word} ({unit})"), note, strips(results, experiment, operation, drivers));
    }
    html + "</div>\n"
}

/// The faults that were injected in the first run of each case.
pub(super) fn faults(results: &Results, experiment: &ExperimentResult) -> String {
    let mut html = String::new();
    for (number, case) in experiment.cases.iter().enumerate() {
        let first = results.records_of(experiment, number, DriverKind::Live).find_map(|record| record.cluster.as_ref());
        let Some(cluster) = first.filter(|cluster| !cluster.faults.is_empty()) else { continue };
        let _ = write!(html, "<h3>{}</h3><ul class=\"small\">", escape(&case.labels.to_string()));
        for line in &cluster.faults {
            let _ = write!(html, "<li>{}</li>", escape(line));
        }
        html.push_str("</ul>");
    }
    if html.is_empty() {
        html
    } else {
        format!("<div class=\"card\"><h3>Faults that were injected (first run)</h3>{html}</div>\n")
    }
}

/// A logarithmic axis.
struct LogAxis {
    low: f64,
    high: f64,
    scale: Scale,
}

impl LogAxis {
    /// Around these, with something to spare. They are above zero.
    fn new(low: f64, high: f64, scale: Scale) -> Self {
        Self { low: low / 1.15, high: high * 1.15, scale }
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        LEFT + (WIDTH - LEFT - RIGHT) * share.clamp(0.0, 1.0)
    }

    /// At 1, 2 and 5 of each power of ten; at 1 alone where there are many.
    fn draw(&self, svg: &mut Svg, height: f64) {
        let steps: &[f64] = if self.high / self.low > 150.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        // No number has more digits.
        let power = |value: f64| (value / self.scale.one).log10().clamp(-400.0, 400.0);
        let powers = power(self.low).floor() as i32..=power(self.high).ceil() as i32;
        for value in powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power))) {
            let own = value * self.scale.one;
            if (self.low..=self.high).contains(&own) {
                let x = self.x(own);
                svg.line("grid", (x, TOP - 4.0), (x, height));
                svg.text("tick", (x, TOP - 9.0), Anchor::Middle, &self.scale.short(own));
            }
        }
    }
}

fn strips(
    results: &Results,
    experiment: &ExperimentResult,
    operation: Operation,
    drivers: &[DriverKind],
) -> Option<String> {
    let latencies = |case: usize, driver: DriverKind| -> Vec<f64> {
        let records = results.records_of(experiment, case, driver).filter_map(|record| record.cluster.as_ref());
        let raw = records.filter_map(|cluster| cluster.operation(operation)).flat_map(|it| &it.latencies.raw_ns);
        let mut all: Vec<f64> = raw.map(|&ns| ns.max(1) as f64 * 1e-9).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let all: Vec<Vec<Vec<f64>>> = (0..experiment.cases.len())
        .map(|case| drivers.iter().map(|&driver| latencies(case, driver)).collect())
        .collect();
    let ends = all.iter().flatten().filter_map(|sorted| Some((*sorted.first()?, *sorted.last()?)));
    let (low, high) = ends.reduce(|(low, high), (first, last)| (low.min(first), high.max(last)))?;
    let axis = LogAxis::new(low, high, latency_scale(experiment));
    let row = LABEL + STRIP * drivers.len() as f64 + GAP;
    let height = TOP + row * experiment.cases.len() as f64;
    let mut svg = Svg::new(WIDTH, height);
    axis.draw(&mut svg, height - GAP / 2.0);
    for (i, case) in experiment.cases.iter().enumerate() {
        let y = TOP + row * i as f64;
        svg.label((LEFT, y + 12.0), &case.labels.to_string());
        for (j, &driver) in drivers.iter().enumerate() {
            strip(&mut svg, &axis, &all[i][j], y + LABEL + STRIP * (j as f64 + 0.5), driver);
        }
    }
    Some(svg.finish(&format!("Latency of each {} in each case of {}", operation.word(), experiment.name)))
}

fn strip(svg: &mut Svg, axis: &LogAxis, sorted: &[f64], middle: f64, driver: DriverKind) {
    if sorted.is_empty() {
        svg.text("value", (LEFT + 4.0, middle + 3.5), Anchor::Start, "none");
        return;
    }
    let strip = charts::Strip { middle, height: STRIP, radius: 2.0, dots_max: DOTS_MAX };
    charts::samples(svg, |value| axis.x(value), sorted, strip, driver);
    let (least, most) = (axis.scale.short(sorted[0]), axis.scale.short(sorted[sorted.len() - 1]));
    svg.text("value", (WIDTH - RIGHT + 8.0, middle + 3.5), Anchor::Start, &format!("{least}–{most}"));
}
