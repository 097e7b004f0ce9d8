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

/// How a quantity of a case went, by driver.
type Courses = Vec<(DriverKind, Course)>;

/// The drawings of an experiment; nothing if it was not recorded.
pub(super) fn section(results: &Results, experiment: &ExperimentResult) -> String {
    let of = |case, quantity| -> Courses {
        let course = |&driver: &DriverKind| Some((driver, results.course(experiment, case, driver, quantity)?));
        results.drivers.iter().filter_map(course).collect()
    };
    let of_case = |case| Quantity::ALL.map(|quantity| of(case, quantity));
    let all: Vec<(usize, [Courses; Quantity::ALL.len()])> = (0..experiment.cases.len())
        .map(|case| (case, of_case(case)))
        .filter(|(_, quantities)| quantities.iter().any(|courses| largest(courses) > 0.0))
        .collect();
    if all.is_empty() {
        return String::new();
    }
    let key = driver_key(&experiment.drivers_of(&results.drivers));
    let runs = if experiment.repeat > 1 { "mean over the runs" } else { "one run each" };
    let left_out = all.len().saturating_sub(CASES_MAX);
    let more = if left_out > 0 { format!("; {left_out} more cases are in the samples") } else { String::new() };
    let shown = &all[..all.len() - left_out];
    // Cases are compared: each quantity has one axis for all of them.
    let most: [f64; Quantity::ALL.len()] = std::array::from_fn(|quantity| {
        shown.iter().map(|(_, quantities)| largest(&quantities[quantity])).fold(0.0, f64::max)
    });
    let drawings: String = shown
        .iter()
        .map(|(case, quantities)| drawings_of_case(&experiment.cases[*case].labels.to_string(), quantities, most))
        .collect();
    let name = format!("{}-{}-over-time", results.network.name, experiment.name);
    let data = data::link(&name, &data::over_time(results, experiment));
    format!(
        "<div class=\"card\"><h3>Over time</h3><p class=\"small\">seconds since measuring began; {runs}{more}</p>{key}{drawings}{data}</div>\n"
    )
}

/// The largest value of these.
fn largest(courses: &Courses) -> f64 {
    let values = courses.iter().flat_map(|(_, course)| course.values.iter().copied());
    values.filter(|value| value.is_finite()).fold(0.0, f64::max)
}

fn drawings_of_case<const N: usize>(labels: &str, quantities: &[Courses; N], most: [f64; N]) -> String {
    let mut figures = String::new();
    // What other cases have a drawing of.
    let mut none = Vec::new();
    for ((quantity, courses), most) in Quantity::ALL.into_iter().zip(quantities).zip(most) {
        if largest(courses) == 0.0 {
            none.extend((most > 0.0 && !courses.is_empty()).then(|| quantity.name()));
            continue;
        }
        let (scale, drawing) = draw(courses, (quantity, most), labels);
        let unit = if scale.unit.is_empty() { quantity.counted() } else { scale.unit };
        let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
        let _ = write!(figures, "<figure>{drawing}<figcaption>{}{unit}</figcaption></figure>", quantity.name());
    }
    let title = if labels.is_empty() { String::new() } else { format!("<h4>{}</h4>", escape(labels)) };
    let none =
        if none.is_empty() { String::new() } else { format!("<p class=\"small\">none here: {}</p>", none.join(", ")) };
    format!("{title}<div class=\"courses\">\n{figures}</div>\n{none}")
}

fn draw(courses: &Courses, (quantity, most): (Quantity, f64), labels: &str) -> (Scale, String) {
    let ends = courses.iter().filter_map(|(_, course)| course.ends.last().copied());
    let end = ends.filter(|end| end.is_finite()).fold(f64::MIN_POSITIVE, f64::max);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Journal, Options};

    /// The words beside the axes of the drawings of a quantity, one text a case.
    fn axes(page: &str, quantity: &str) -> Vec<String> {
        let figures = page.split("<figure>").skip(1).filter(|figure| figure.contains(quantity));
        let words = |figure: &str| {
            let ticks = figure.split("<text").skip(1).filter_map(|text| text.split(['>', '<']).nth(1));
            ticks.collect::<Vec<_>>().join(" ")
        };
        figures.map(words).collect()
    }

    #[test]
    fn cases_share_axes_and_what_none_of_one_has_is_said() {
        let text = "nodes: { h1: host, h2: host, s1: switch }\n\
                    links: [{ between: [h1, s1] }, { between: [h2, s1], rate: 10Mbit, delay: 1ms, queue: 400 }]\n\
                    experiments:\n  a:\n    traffic: { pattern: { pairs: [[h1, h2]] } }\n    warm-up: 100ms\n    for: 300ms\n    \
                    time-series: 50ms\n    vary: { links.h2-s1.queue: [4, 400] }\n";
        let source = fabric::Source { name: "a".to_owned(), text: text.to_owned() };
        let fabric = fabric::parse(&source).unwrap();
        let options = Options { drivers: vec![DriverKind::Sim], ..Options::default() };
        let results = crate::run(&source, &fabric, &options, &Journal::in_memory()).unwrap().results;
        let page = section(&results, &results.experiments[0]);
        assert!(page.contains("congestion window of a flow (segments)"), "{page}");
        let windows = axes(&page, "congestion window");
        assert_eq!(windows.len(), 2);
        assert_eq!(windows[0], windows[1], "one case has a far larger window than the other");
        assert_eq!(axes(&page, "retransmits of all flows (segments)").len(), 1);
        assert!(page.contains("none here: retransmits of all flows"), "{page}");
    }
}
