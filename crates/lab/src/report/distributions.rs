//! How long packets and transfers take, as cumulative distributions: a small drawing for each case, a line a driver.

use std::fmt::Write as _;

use fabric::{DriverKind, Metric, SizeClass, Unit};

use super::charts::tick_text;
use super::html::{driver_class, driver_word};
use super::quantity::Scale;
use super::svg::{Anchor, Svg};
use crate::grid::quoted;
use crate::measure::metric::{completion_times, completion_times_of, delays};
use crate::measure::record::Record;
use crate::measure::statistics::quantile;
use crate::results::{ExperimentResult, Results};

const WIDTH: f64 = 480.0;
const LEFT: f64 = 34.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 18.0;
/// Of the drawing of a case.
const CURVE: f64 = 96.0;
/// What is below it.
const FOOT: f64 = 20.0;

/// Of more cases the first ones are drawn.
const CASES_MAX: usize = 8;
/// Points of a curve.
const POINTS_MAX: usize = 100;

/// Times in seconds, and the share of all that are no longer.
type Curve = Vec<(f64, f64)>;

/// Title, note, drawing, and the data behind it.
pub(super) type Drawn = (String, &'static str, String, String);

/// The distributions that an experiment has: of delays, of completion times where connections come and go, and of those of classes that its tables show.
pub(super) fn all(results: &Results, experiment: &ExperimentResult) -> Vec<Drawn> {
    let mut all = Vec::new();
    all.extend(of(results, experiment, "one-way delay of packets", &|records| delay_curve(records)));
    let completions = |times: &dyn Fn(&Record) -> Vec<f64>, records: &[&Record]| {
        let mut sorted: Vec<f64> = records.iter().flat_map(|record| times(record)).collect();
        sorted.sort_by(f64::total_cmp);
        curve_of(&sorted)
    };
    all.extend(of(results, experiment, "completion time", &|records| completions(&completion_times, records)));
    for class in SizeClass::ALL {
        let shown = |metric: &Metric| matches!(metric, Metric::CompletionOf(of, _) if *of == class);
        if experiment.metrics.iter().any(shown) {
            let name = class_in_words(class);
            let times = |record: &Record| completion_times_of(record, class);
            all.extend(of(results, experiment, name, &|records| completions(&times, records)));
        }
    }
    all
}

/// All packets of all runs together.
fn delay_curve(records: &[&Record]) -> Curve {
    let sum = records.iter().filter_map(|record| delays(record)).reduce(|mut sum, delays| {
        sum.add(&delays);
        sum
    });
    sum.map_or_else(Vec::new, |delays| delays.distribution())
}

fn curve_of(sorted: &[f64]) -> Curve {
    if sorted.is_empty() {
        return Vec::new();
    }
    let points = sorted.len().min(POINTS_MAX);
    let share = |point: usize| (point + 1) as f64 / points as f64;
    (0..points).map(|point| (quantile(sorted, share(point)), share(point))).collect()
}

fn of(
    results: &Results,
    experiment: &ExperimentResult,
    title: &str,
    curve: &dyn Fn(&[&Record]) -> Curve,
) -> Option<Drawn> {
    let mut cases: Vec<(String, Vec<(DriverKind, Curve)>)> = Vec::new();
    let mut csv = "case,driver,seconds,share\n".to_owned();
    for (number, case) in experiment.cases.iter().enumerate().take(CASES_MAX) {
        let curves: Vec<(DriverKind, Curve)> = (results.drivers.iter())
            .map(|&driver| (driver, curve(&results.records_of(experiment, number, driver).collect::<Vec<_>>())))
            .filter(|(_, curve)| !curve.is_empty())
            .collect();
        if curves.is_empty() {
            continue;
        }
        let labels = case.labels.to_string();
        for (driver, curve) in &curves {
            for (seconds, share) in curve {
                let _ = writeln!(csv, "{},{},{seconds},{share:.5}", quoted(&labels), driver.word());
            }
        }
        cases.push((labels, curves));
    }
    let times = || cases.iter().flat_map(|(_, curves)| curves).flat_map(|(_, curve)| curve).map(|(time, _)| *time);
    let most = times().fold(0.0, f64::max);
    if most <= 0.0 || !most.is_finite() {
        return None;
    }
    let least = times().filter(|time| *time > 0.0).fold(most, f64::min);
    let axis = Axis { least: least.min(most / 2.0), most };
    let row = TOP + CURVE + FOOT;
    let mut svg = Svg::new(WIDTH, row * cases.len() as f64);
    for (number, (labels, curves)) in cases.iter().enumerate() {
        draw(&mut svg, row * number as f64, (labels, curves), &axis);
    }
    let drawing = svg.finish(&format!("Cumulative distribution of {title} in {}", experiment.name));
    let scale = Scale::of(Unit::Seconds, most);
    let note = "share of all that take no longer, all runs together; times on a logarithmic axis";
    Some((format!("{title} ({}), distribution", scale.unit), note, drawing, csv))
}

/// A logarithmic axis of times.
struct Axis {
    least: f64,
    most: f64,
}

impl Axis {
    fn x(&self, seconds: f64) -> f64 {
        let share = (seconds.max(self.least) / self.least).ln() / (self.most / self.least).ln();
        LEFT + (WIDTH - LEFT - RIGHT) * share.clamp(0.0, 1.0)
    }

    /// 1, 2 and 5 times the powers of ten.
    fn ticks(&self) -> Vec<f64> {
        let first = self.least.log10().floor() as i32;
        let last = (self.most.log10().ceil() as i32).min(first + 12);
        let all = (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
        all.filter(|tick| (self.least..=self.most).contains(tick)).collect()
    }
}

fn draw(svg: &mut Svg, top: f64, (labels, curves): (&str, &[(DriverKind, Curve)]), axis: &Axis) {
    let y = |share: f64| top + TOP + CURVE * (1.0 - share.clamp(0.0, 1.0));
    svg.label((LEFT, top + 12.0), labels);
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        svg.line("grid", (LEFT, y(share)), (WIDTH - RIGHT, y(share)));
        svg.text("tick", (LEFT - 5.0, y(share) + 3.5), Anchor::End, &tick_text(share, 0.01));
    }
    let scale = Scale::of(Unit::Seconds, axis.most);
    let mut end = f64::NEG_INFINITY;
    for tick in axis.ticks() {
        let (x, text) = (axis.x(tick), scale.plain(tick));
        svg.line("grid", (x, y(1.0)), (x, y(0.0)));
        let half = 3.2 * text.chars().count() as f64;
        if x - half > end + 3.0 {
            svg.text("tick", (x, y(0.0) + 13.0), Anchor::Middle, &text);
            end = x + half;
        }
    }
    for (driver, curve) in curves {
        let start = curve.first().map(|(time, _)| (axis.x(*time), y(0.0)));
        let points = start.into_iter().chain(curve.iter().map(|(time, share)| (axis.x(*time), y(*share))));
        svg.polyline(&format!("course {}", driver_class(*driver)), points, driver_word(*driver));
    }
}

const fn class_in_words(class: SizeClass) -> &'static str {
    match class {
        SizeClass::Short => "completion time up to 100 kB",
        SizeClass::Medium => "completion time to 10 MB",
        SizeClass::Long => "completion time over 10 MB",
    }
}
