//! Bars with whiskers, strips of dots, and differences around zero. Case by case from top to bottom, so that labels of
//! any length have room, and a phone shows them in readable size.

use fabric::{DriverKind, Metric};

use super::html::{driver_class, driver_word};
use super::latency::latency_scale;
use super::quantity::{self, Scale};
use super::svg::{Anchor, Svg};
use super::table::scale_of;
use crate::measure::metric::metric_name;
use crate::measure::statistics::quantile;
use crate::results::{ExperimentResult, Results};

const WIDTH: f64 = 480.0;
const LEFT: f64 = 4.0;
/// Room for the values that are written behind the bars.
const RIGHT: f64 = 96.0;
const TOP: f64 = 22.0;
const LABEL: f64 = 17.0;
const BAR: f64 = 12.0;
const GAP: f64 = 9.0;
/// A strip shows at most this many dots; more are thinned out to as many quantiles.
const DOTS_MAX: usize = 120;
/// All strips of a drawing together show so many, but each this many at least.
const DOTS_ALL: usize = 2_400;
const DOTS_MIN: usize = 20;

/// An interval may stretch the axis by this share of its mean; a longer one runs out of the picture, without an end.
const WHISKER_ROOM: f64 = 0.35;

/// Axes have about five.
const TICKS_MAX: u32 = 100;

/// A linear axis from zero, left to right.
struct Axis {
    max: f64,
    step: f64,
    scale: Scale,
}

impl Axis {
    fn new(max: f64, scale: Scale) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { scale.one };
        let step = nice_step(max / scale.one / 5.0) * scale.one;
        Self { max, step, scale }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (value / self.max).clamp(0.0, 1.0)
    }

    /// Grid lines with their values on top.
    fn draw(&self, svg: &mut Svg, height: f64) {
        for tick in 0..=ticks(self.max, self.step) {
            let value = f64::from(tick) * self.step;
            let x = self.x(value);
            svg.line("grid", (x, TOP - 4.0), (x, height));
            let anchor = if tick == 0 { Anchor::Start } else { Anchor::Middle };
            svg.text("tick", (x, TOP - 9.0), anchor, &tick_text(value / self.scale.one, self.step / self.scale.one));
        }
    }
}

/// A tick's value with the decimals that its step needs.
pub(super) fn tick_text(value: f64, step: f64) -> String {
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.decimals$}")
}

/// How many steps an axis has up to its end. None, where numbers in an edited file lie beyond what can be drawn.
pub(super) fn ticks(end: f64, step: f64) -> u32 {
    let ticks = (end / step + 1e-9).floor();
    if ticks <= f64::from(TICKS_MAX) { ticks as u32 } else { 0 }
}

/// The least of 1, 2, 5, 10, 20, ... that is no less than `x`.
pub(super) fn nice_step(x: f64) -> f64 {
    if !(x.is_finite() && x > 0.0) {
        return 1.0;
    }
    let ten = 10_f64.powf(x.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * ten).find(|&step| step >= x * (1.0 - 1e-9)).unwrap_or(10.0 * ten)
}

/// The metric's mean in each case, one bar a driver, with its 99 % interval as a whisker. None if all is zero.
pub(super) fn bars(experiment: &ExperimentResult, drivers: &[DriverKind], metric: Metric) -> Option<String> {
    let reach = |case: &crate::results::CaseResult| {
        let summaries = drivers.iter().filter_map(|&driver| case.summary(metric, driver));
        let measured = summaries.map(|s| s.mean + s.interval.unwrap_or(0.0).min(s.mean * WHISKER_ROOM));
        measured.chain(case.published(metric)).fold(0.0, f64::max)
    };
    let max = experiment.cases.iter().map(reach).fold(0.0, f64::max);
    if max <= 0.0 {
        return None;
    }
    let scale = match metric {
        Metric::Latency(..) => latency_scale(experiment),
        _ => scale_of(experiment, metric),
    };
    let axis = Axis::new(max, scale);
    let published = experiment.cases.iter().any(|case| case.published(metric).is_some());
    let row = LABEL + BAR * (drivers.len() + usize::from(published)) as f64 + GAP;
    let height = TOP + row * experiment.cases.len() as f64;
    let mut svg = Svg::new(WIDTH, height);
    axis.draw(&mut svg, height - GAP / 2.0);
    for (i, case) in experiment.cases.iter().enumerate() {
        let y = TOP + row * i as f64;
        svg.label((LEFT, y + 12.0), &case.labels.to_string());
        for (j, &driver) in drivers.iter().enumerate() {
            let y = y + LABEL + BAR * j as f64;
            let Some(summary) = case.summary(metric, driver) else {
                svg.text("value", (LEFT + 4.0, y + 9.5), Anchor::Start, "not known");
                continue;
            };
            let shown = axis.scale.with_interval(summary);
            let tip = format!("{}, {}: {shown} {}", case.labels, driver_word(driver), axis.scale.unit);
            let end = axis.x(summary.mean);
            svg.rect(&format!("bar {}", driver_class(driver)), [LEFT, y + 1.0, end - LEFT, BAR - 2.0], &tip);
            let mut label_x = end;
            if let Some(half) = summary.interval.filter(|half| *half > 0.0) {
                let (low, high) = (summary.mean - half, summary.mean + half);
                let ends = [(axis.x(low), low >= 0.0), (axis.x(high), high <= axis.max)];
                whisker(&mut svg, ends, y + BAR / 2.0);
                label_x = label_x.max(ends[1].0);
            }
            svg.text("value", (label_x + 5.0, y + 9.5), Anchor::Start, &shown);
        }
        if let Some(value) = case.published(metric) {
            let (y, end) = (y + LABEL + BAR * drivers.len() as f64, axis.x(value));
            let shown = axis.scale.plain(value);
            let tip = format!("{}, published: {shown} {}", case.labels, axis.scale.unit);
            svg.rect("bar theirs", [LEFT, y + 1.0, end - LEFT, BAR - 2.0], &tip);
            svg.text("value", (end + 5.0, y + 9.5), Anchor::Start, &shown);
        }
    }
    Some(svg.finish(&format!("{} of each case of {}", metric_name(metric), experiment.name)))
}

/// A line between two ends (x, and whether it ends there or goes on out of the picture, which an arrow says).
fn whisker(svg: &mut Svg, ends: [(f64, bool); 2], y: f64) {
    let mut lines = vec![[(ends[0].0, y), (ends[1].0, y)]];
    for ((x, inside), way) in ends.into_iter().zip([-1.0, 1.0]) {
        if inside {
            lines.push([(x, y - 2.5), (x, y + 2.5)]);
        } else {
            svg.polygon("cut", &[(x + 4.0 * way, y), (x - 2.0 * way, y - 3.5), (x - 2.0 * way, y + 3.5)], CUT);
        }
    }
    svg.lines("whisker", &lines);
}

/// The same upright: from the lower end to the upper one.
pub(super) fn vertical_whisker(svg: &mut Svg, class: &str, x: f64, ends: [(f64, bool); 2]) {
    let mut lines = vec![[(x, ends[0].0), (x, ends[1].0)]];
    for ((y, inside), way) in ends.into_iter().zip([1.0, -1.0]) {
        if inside {
            lines.push([(x - 2.5, y), (x + 2.5, y)]);
        } else {
            let corners = [(x, y + 4.0 * way), (x - 3.5, y - 2.0 * way), (x + 3.5, y - 2.0 * way)];
            svg.polygon(&format!("cut {class}"), &corners, CUT);
        }
    }
    svg.lines(&format!("whisker {class}"), &lines);
}

/// What an arrow at the end of a whisker says.
const CUT: &str = "the interval goes on beyond the picture";

/// Every flow's goodput as a dot, all repetitions together, with a stroke at the median.
pub(super) fn strips(results: &Results, experiment: &ExperimentResult) -> Option<String> {
    let goodputs = |case: usize, driver: DriverKind| -> Vec<f64> {
        let records = results.records_of(experiment, case, driver);
        let mut values: Vec<f64> = records.flat_map(|r| r.flows.iter().map(|flow| flow.goodput_bps)).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let max = (0..experiment.cases.len())
        .flat_map(|case| results.drivers.iter().filter_map(move |&driver| goodputs(case, driver).last().copied()))
        .fold(0.0, f64::max);
    if max <= 0.0 {
        return None;
    }
    let axis = Axis::new(max, Scale::of(Metric::GoodputMean.unit(), max));
    let row = LABEL + BAR * results.drivers.len() as f64 + GAP;
    let height = TOP + row * experiment.cases.len() as f64;
    let mut svg = Svg::new(WIDTH, height);
    axis.draw(&mut svg, height - GAP / 2.0);
    let strips = experiment.cases.len() * results.drivers.len();
    let dots_max = (DOTS_ALL / strips.max(1)).clamp(DOTS_MIN, DOTS_MAX);
    for (i, case) in experiment.cases.iter().enumerate() {
        let y = TOP + row * i as f64;
        svg.label((LEFT, y + 12.0), &case.labels.to_string());
        for (j, &driver) in results.drivers.iter().enumerate() {
            let middle = y + LABEL + BAR * (j as f64 + 0.5);
            strip(&mut svg, &axis, &goodputs(i, driver), (middle, dots_max), driver);
        }
    }
    Some(svg.finish(&format!("Goodput of each flow in each case of {}", experiment.name)))
}

fn strip(svg: &mut Svg, axis: &Axis, sorted: &[f64], (middle, dots_max): (f64, usize), driver: DriverKind) {
    if sorted.is_empty() {
        return;
    }
    let strip = Strip { middle, height: BAR, radius: 2.2, dots_max };
    samples(svg, |value| axis.x(value), sorted, strip, driver);
    let (least, most) = (axis.scale.short(sorted[0]), axis.scale.short(sorted[sorted.len() - 1]));
    let range = if least == most { least } else { format!("{least}–{most}") };
    svg.text("value", (WIDTH - RIGHT + 8.0, middle + 3.5), Anchor::Start, &range);
}

/// Where and how samples are drawn, in the drawing's units.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    pub(super) middle: f64,
    pub(super) height: f64,
    /// Of a dot.
    pub(super) radius: f64,
    /// More are thinned out to as many quantiles.
    pub(super) dots_max: usize,
}

/// Samples as dots in a strip, and their median as a line.
pub(super) fn samples(svg: &mut Svg, x: impl Fn(f64) -> f64, sorted: &[f64], strip: Strip, driver: DriverKind) {
    let Strip { middle, height, radius, dots_max } = strip;
    let dots = sorted.len().min(dots_max);
    for dot in 0..dots {
        let value = quantile(sorted, if dots == 1 { 0.5 } else { dot as f64 / (dots - 1) as f64 });
        // The golden ratio spreads neighbours evenly without chance.
        let offset = ((dot as f64 * 0.618_034).fract() - 0.5) * (height - 5.0);
        svg.circle(&format!("dot {}", driver_class(driver)), (x(value), middle + offset), radius, "");
    }
    let median = x(quantile(sorted, 0.5));
    svg.line("median", (median, middle - height / 2.0 + 0.5), (median, middle + height / 2.0 - 0.5));
}

/// How policies compare: each difference in per cent with its interval, around a line at zero.
pub(super) fn forest(experiment: &ExperimentResult) -> Option<String> {
    // What is held against next to nothing has no place on the axis, but a row.
    let shown = &experiment.comparisons;
    let reach = |comparison: &crate::results::Comparison| {
        let relative = comparison.difference.relative?.abs();
        Some(relative + comparison.difference.relative_interval.unwrap_or(0.0).min(relative.max(0.05)))
    };
    let max = shown.iter().filter_map(reach).fold(0.01, f64::max);
    if shown.is_empty() || !max.is_finite() {
        return None;
    }
    let label = |comparison: &crate::results::Comparison| {
        let common = if comparison.labels.0.is_empty() { String::new() } else { format!("{}: ", comparison.labels) };
        common + &comparison.policies()
    };
    let labels: Vec<String> = shown.iter().map(label).collect();
    let is_new = |i: usize| i == 0 || labels[i] != labels[i - 1];
    let groups = (0..shown.len()).filter(|&i| is_new(i)).count();
    let height = TOP + (LABEL + GAP) * groups as f64 + BAR * shown.len() as f64;
    let (middle, half_width) = ((WIDTH - RIGHT) / 2.0, (WIDTH - RIGHT) / 2.0 - 16.0);
    let x = |relative: f64| middle + half_width * (relative / max).clamp(-1.0, 1.0);
    let mut svg = Svg::new(WIDTH, height);
    let step = nice_step(max * 100.0 / 2.0) / 100.0;
    let ticks = ticks(max, step).cast_signed();
    for tick in -ticks..=ticks {
        let at = f64::from(tick) * step;
        svg.line(if tick == 0 { "zero" } else { "grid" }, (x(at), TOP - 4.0), (x(at), height - GAP / 2.0));
        let text = if tick == 0 { "0".to_owned() } else { format!("{:+} %", (at * 100.0 * 1e6).round() / 1e6) };
        svg.text("tick", (x(at), TOP - 9.0), Anchor::Middle, &text.replace('-', "−"));
    }
    let mut y = TOP - GAP;
    for (i, comparison) in shown.iter().enumerate() {
        if is_new(i) {
            y += GAP + LABEL;
            svg.label((LEFT, y - LABEL + 12.0), &labels[i]);
        }
        y += BAR;
        let middle = y - BAR / 2.0;
        let relative = comparison.difference.relative;
        if let Some((relative, half)) = relative.zip(comparison.difference.relative_interval) {
            let (low, high) = (relative - half, relative + half);
            whisker(&mut svg, [(x(low), low >= -max), (x(high), high <= max)], middle);
        }
        let shown = quantity::difference(&comparison.difference, comparison.metric.unit());
        let tip = format!("{}, {}: {shown}", labels[i], driver_word(comparison.driver));
        if let Some(relative) = relative {
            svg.circle(&format!("point {}", driver_class(comparison.driver)), (x(relative), middle), 4.0, &tip);
        }
        svg.text("value", (WIDTH - RIGHT + 8.0, middle + 3.5), Anchor::Start, &shown);
    }
    Some(svg.finish(&format!("How policies compare in {}", experiment.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_numbers() {
        let steps = [0.3, 1.0, 1.2, 60.0, 61.4, 120.0, 0.0].map(|x| tick_text(nice_step(x), nice_step(x)));
        assert_eq!(steps, ["0.5", "1", "2", "100", "100", "200", "1"]);
        assert_eq!([ticks(11.0, 2.0), ticks(1e308, 0.01), ticks(1e-320, 0.0), ticks(f64::NAN, 1.0)], [5, 0, 0, 0]);
    }
}
