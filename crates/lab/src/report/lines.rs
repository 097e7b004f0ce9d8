//! A metric over an axis of numbers, as lines: thirty-six bars do not show what becomes of it.

use fabric::{DriverKind, Metric};

use super::charts::{nice_step, tick_text, ticks, vertical_whisker};
use super::html::{driver_class, driver_word};
use super::svg::{Anchor, Svg};
use super::table::scale_of;
use crate::labels::Labels;
use crate::measure::metric::metric_name;
use crate::measure::statistics::Summary;
use crate::results::{CaseResult, ExperimentResult};

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 44.0;
/// Room for the names of the lines.
const RIGHT: f64 = 116.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 36.0;
/// From one name of a line to the next at least.
const NAME: f64 = 13.0;

/// Of fewer values bars say as much.
const VALUES_MIN: usize = 4;
/// More lines are a tangle.
const SERIES_MAX: usize = 6;
/// Where the largest value is so many times the least, the axis is logarithmic.
const LOGARITHMIC: f64 = 50.0;
/// An interval may stretch the axis by this share of its mean.
const WHISKER_ROOM: f64 = 0.35;

/// Units of labels, in one of each kind.
const UNITS: [(&str, f64); 24] = [
    ("", 1.0),
    ("%", 1.0),
    ("ps", 1e-12),
    ("ns", 1e-9),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("bit", 1.0),
    ("kbit", 1e3),
    ("Mbit", 1e6),
    ("Gbit", 1e9),
    ("Tbit", 1e12),
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("Tbit/s", 1e12),
    ("B", 1.0),
    ("kB", 1e3),
    ("KiB", 1_024.0),
    ("MB", 1e6),
    ("MiB", 1_048_576.0),
    ("pps", 1.0),
];

/// The number that a label stands for, in one of its kind; `None`: it stands for none.
fn number(label: &str) -> Option<f64> {
    let end = label.find(|c: char| !c.is_ascii_digit() && !"._".contains(c)).unwrap_or(label.len());
    let value: f64 = label[..end].replace('_', "").parse().ok()?;
    let unit = label[end..].trim();
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, one)| value * one)
}

/// The axis of an experiment whose values are numbers, if they are many: what it is called, and its values, ascending, as numbers and as written.
struct Numbers {
    key: String,
    values: Vec<(f64, String)>,
}

impl Numbers {
    fn of(experiment: &ExperimentResult) -> Option<Self> {
        let first = experiment.cases.first()?;
        let of_key = |(key, _): &(String, String)| {
            let mut values = Vec::new();
            for case in &experiment.cases {
                let label = case.labels.get(key)?;
                values.push((number(label)?, label.to_owned()));
            }
            values.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            values.dedup_by(|(a, _), (b, _)| a.total_cmp(b).is_eq());
            (values.len() >= VALUES_MIN).then(|| Self { key: key.clone(), values })
        };
        first.labels.0.iter().filter_map(of_key).max_by_key(|numbers| numbers.values.len())
    }
}

/// A line: what it is about, who drove it, and its points.
struct Series<'a> {
    about: String,
    /// Which of those that differ in what they are about.
    number: usize,
    driver: DriverKind,
    points: Vec<(f64, &'a CaseResult, &'a Summary)>,
}

/// The metric in each case over the axis of numbers, a line for each driver and each combination of the other axes. None where there is no such axis, more lines than can
/// be told apart, or nothing but zeros.
pub(super) fn draw(experiment: &ExperimentResult, drivers: &[DriverKind], metric: Metric) -> Option<String> {
    if experiment.cases.iter().any(|case| case.published(metric).is_some()) {
        return None;
    }
    let numbers = Numbers::of(experiment)?;
    let series = series(experiment, &numbers.key, drivers, metric)?;
    let points = || series.iter().flat_map(|series| &series.points);
    let reach = |summary: &Summary| summary.mean + summary.interval.unwrap_or(0.0).min(summary.mean * WHISKER_ROOM);
    let most = points().map(|(_, _, summary)| reach(summary)).fold(0.0, f64::max);
    if most <= 0.0 || !most.is_finite() {
        return None;
    }
    let axes = Axes::new(&numbers, most);
    let scale = scale_of(experiment, metric);
    let mut svg = Svg::new(WIDTH, HEIGHT);
    axes.grid(&mut svg, &numbers, scale.one);
    for Series { about, number, driver, points } in &series {
        let places = points.iter().map(|(at, _, summary)| (axes.x(*at), axes.y(summary.mean)));
        let class = format!("course {} dash{number}", driver_class(*driver));
        svg.polyline(&class, places, &format!("{about} {}", driver_word(*driver)));
        for (at, case, summary) in points {
            let (x, y) = (axes.x(*at), axes.y(summary.mean));
            if let Some(half) = summary.interval.filter(|half| *half > 0.0) {
                let (low, high) = (summary.mean - half, summary.mean + half);
                // Those of both drivers stand beside each other.
                let x = x + if drivers.len() < 2 { 0.0 } else { whisker_offset(*driver) };
                vertical_whisker(
                    &mut svg,
                    driver_class(*driver),
                    x,
                    [(axes.y(low.max(0.0)), low >= 0.0), (axes.y(high), high <= axes.most)],
                );
            }
            let shown = scale.with_interval(summary);
            let tip = format!("{}, {}: {shown} {}", case.labels, driver_word(*driver), scale.unit);
            svg.circle(&format!("point {}", driver_class(*driver)), (x, y), 3.0, &tip);
        }
    }
    name_lines(&mut svg, &axes, &series, drivers.len() > 1);
    Some(svg.finish(&format!("{} over {} in {}", metric_name(metric), numbers.key, experiment.name)))
}

fn series<'a>(
    experiment: &'a ExperimentResult,
    key: &str,
    drivers: &[DriverKind],
    metric: Metric,
) -> Option<Vec<Series<'a>>> {
    let about = |labels: &Labels| {
        let others: Vec<_> = labels.0.iter().filter(|(other, _)| other != key).cloned().collect();
        if others.is_empty() { String::new() } else { Labels(others).to_string() }
    };
    let mut names: Vec<String> = Vec::new();
    for case in &experiment.cases {
        let name = about(&case.labels);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.len() * drivers.len() > SERIES_MAX {
        return None;
    }
    let mut all = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        for &driver in drivers {
            let cases = experiment.cases.iter().filter(|case| about(&case.labels) == name);
            let mut points: Vec<_> = cases
                .filter_map(|case| Some((self::number(case.labels.get(key)?)?, case, case.summary(metric, driver)?)))
                .collect();
            points.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
            if !points.is_empty() {
                all.push(Series { about: name.clone(), number, driver, points });
            }
        }
    }
    Some(all)
}

const fn whisker_offset(driver: DriverKind) -> f64 {
    match driver {
        DriverKind::Live => -2.5,
        DriverKind::Sim => 2.5,
    }
}

/// Where numbers lie in the drawing.
struct Axes {
    least: f64,
    greatest: f64,
    is_logarithmic: bool,
    most: f64,
}

impl Axes {
    fn new(numbers: &Numbers, most: f64) -> Self {
        let (least, greatest) = (numbers.values[0].0, numbers.values[numbers.values.len() - 1].0);
        let is_logarithmic = least > 0.0 && greatest / least >= LOGARITHMIC;
        Self { least: if is_logarithmic { least } else { 0.0_f64.min(least) }, greatest, is_logarithmic, most }
    }

    fn x(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic {
            (value / self.least).ln() / (self.greatest / self.least).ln()
        } else {
            (value - self.least) / (self.greatest - self.least)
        };
        LEFT + (WIDTH - LEFT - RIGHT) * share.clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / self.most).clamp(0.0, 1.0)
    }

    /// Lines and values of both axes; the values of the file stand below, as far as there is room.
    fn grid(&self, svg: &mut Svg, numbers: &Numbers, one: f64) {
        let step = nice_step(self.most / one / 5.0);
        for tick in 0..=ticks(self.most / one, step) {
            let value = f64::from(tick) * step;
            let y = self.y(value * one);
            svg.line("grid", (LEFT, y), (WIDTH - RIGHT, y));
            svg.text("tick", (LEFT - 5.0, y + 3.5), Anchor::End, &tick_text(value, step));
        }
        let mut end = f64::NEG_INFINITY;
        for (value, label) in &numbers.values {
            let x = self.x(*value);
            svg.line("grid", (x, HEIGHT - BOTTOM), (x, HEIGHT - BOTTOM + 4.0));
            let half = 3.2 * label.chars().count() as f64;
            if x - half > end + 4.0 {
                svg.text("tick", (x, HEIGHT - BOTTOM + 16.0), Anchor::Middle, label);
                end = x + half;
            }
        }
        let kind = if self.is_logarithmic { " (logarithmic)" } else { "" };
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        svg.text("value", (middle, HEIGHT - 4.0), Anchor::Middle, &format!("{}{kind}", numbers.key));
    }
}

/// Names at the ends of lines, one below the other where these are close.
fn name_lines(svg: &mut Svg, axes: &Axes, series: &[Series<'_>], both: bool) {
    let name = |series: &Series<'_>| match (series.about.as_str(), both) {
        ("", _) => driver_word(series.driver).to_owned(),
        (about, false) => about.to_owned(),
        (about, true) => format!("{about}, {}", series.driver.word()),
    };
    let end = |series: &Series<'_>| series.points.last().map_or(0.0, |(_, _, summary)| axes.y(summary.mean));
    let mut ends: Vec<(f64, String, DriverKind)> =
        series.iter().map(|series| (end(series), name(series), series.driver)).collect();
    ends.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    let mut last = f64::NEG_INFINITY;
    let mut places: Vec<f64> = Vec::new();
    for (y, ..) in &ends {
        last = y.max(last + NAME);
        places.push(last);
    }
    // What was pushed out at the foot goes up again.
    let mut below = HEIGHT - BOTTOM + NAME / 2.0;
    for place in places.iter_mut().rev() {
        *place = place.min(below);
        below = *place - NAME;
    }
    for ((y, name, driver), place) in ends.iter().zip(places) {
        let x = WIDTH - RIGHT + 4.0;
        svg.line("grid", (x, *y), (x + 6.0, place));
        svg.text(&format!("who {}", driver_class(*driver)), (x + 9.0, place + 3.5), Anchor::Start, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_numbers_with_units() {
        for (label, expected) in
            [("20", Some(20.0)), ("1.5ms", Some(0.0015)), ("20kB", Some(20_000.0)), ("2.5 Gbit/s", Some(2.5e9))]
        {
            assert_eq!(number(label), expected, "{label}");
        }
        for label in ["single", "", "20 apples", "ms"] {
            assert_eq!(number(label), None, "{label}");
        }
    }
}
