//! What went on from step to step: a small drawing for each case and quantity, a line a driver.

use std::fmt::Write as _;

use fabric::DriverKind;

use super::charts::{nice_step, tick_text, ticks};
use super::data;
use super::html::{driver_class, driver_key, driver_word};
use super::quantity::Scale;
use super::svg::{Anchor, Svg, escape};
use crate::results::{Course, ExperimentResult, Quantity, Results};

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 118.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 18.0;

/// Of more cases the first ones are drawn.
const CASES_MAX: usize = 12;

/// The drawings of an experiment; nothing if it was not recorded.
pub(super) fn section(results: &Results, experiment: &ExperimentResult) -> String {
    let drawings: Vec<String> = (0..experiment.cases.len())
        .map(|case| of_case(results, experiment, case))
        .filter(|it| !it.is_empty())
        .collect();
    if drawings.is_empty() {
        return String::new();
    }
    let key = driver_key(&experiment.drivers_of(&results.drivers));
    let runs = if experiment.repeat > 1 { "mean over the runs" } else { "one run each" };
    let left_out = drawings.len().saturating_sub(CASES_MAX);
    let more = if left_out > 0 { format!("; {left_out} more cases are in the samples") } else { String::new() };
    let drawings: String = drawings.into_iter().take(CASES_MAX).collect();
    let name = format!("{}-{}-over-time", results.network.name, experiment.name);
    let data = data::link(&name, &data::over_time(results, experiment));
    format!(
        "<div class=\"card\"><h3>Over time</h3><p class=\"small\">seconds since measuring began; {runs}{more}</p>{key}{drawings}{data}</div>\n"
    )
}

fn of_case(results: &Results, experiment: &ExperimentResult, case: usize) -> String {
    let labels = experiment.cases[case].labels.to_string();
    let mut figures = String::new();
    for quantity in Quantity::ALL {
        let courses: Vec<(DriverKind, Course)> = (results.drivers.iter())
            .filter_map(|&driver| Some((driver, results.course(experiment, case, driver, quantity)?)))
            .collect();
        let is_flat = courses.iter().all(|(_, course)| course.values.iter().all(|value| *value == 0.0));
        if courses.is_empty() || is_flat {
            continue;
        }
        let (scale, drawing) = draw(&courses, quantity, &labels);
        let unit = if scale.unit.is_empty() { String::new() } else { format!(" ({})", scale.unit) };
        let _ = write!(figures, "<figure>{drawing}<figcaption>{}{unit}</figcaption></figure>", quantity.name());
    }
    if figures.is_empty() {
        return figures;
    }
    let title = if labels.is_empty() { String::new() } else { format!("<h4>{}</h4>", escape(&labels)) };
    format!("{title}<div class=\"courses\">\n{figures}</div>\n")
}

fn draw(courses: &[(DriverKind, Course)], quantity: Quantity, labels: &str) -> (Scale, String) {
    let largest = |values: &mut dyn Iterator<Item = f64>| values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    let most = largest(&mut courses.iter().flat_map(|(_, course)| course.values.iter().copied()));
    let end = largest(&mut courses.iter().filter_map(|(_, course)| course.ends.last().copied())).max(f64::MIN_POSITIVE);
    let scale = Scale::of(quantity.unit(), most);
    let x = |seconds: f64| LEFT + (WIDTH - LEFT - RIGHT) * (seconds / end).clamp(0.0, 1.0);
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / most).clamp(0.0, 1.0);
    let mut svg = Svg::new(WIDTH, HEIGHT);
    let step = nice_step(most / scale.one / 5.0);
    for tick in 0..=ticks(most / scale.one, step) {
        let value = f64::from(tick) * step;
        svg.line("grid", (LEFT, y(value * scale.one)), (WIDTH - RIGHT, y(value * scale.one)));
        svg.text("tick", (LEFT - 5.0, y(value * scale.one) + 3.5), Anchor::End, &tick_text(value, step));
    }
    let step = nice_step(end / 5.0);
    for tick in 0..=ticks(end, step) {
        let seconds = f64::from(tick) * step;
        svg.text("tick", (x(seconds), HEIGHT - 4.0), Anchor::Middle, &tick_text(seconds, step));
    }
    for (driver, Course { ends, values }) in courses {
        let points = ends.iter().zip(values).map(|(end, value)| (x(*end), y(*value)));
        svg.polyline(&format!("course {}", driver_class(*driver)), points, driver_word(*driver));
    }
    let about = if labels.is_empty() { String::new() } else { format!(", {labels}") };
    (scale, svg.finish(&format!("{} over time{about}", quantity.name())))
}
