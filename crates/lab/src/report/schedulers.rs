//! The last page: which scheduler to take for which workload, with the evidence.

use std::fmt::Write as _;

use fabric::Unit;

use super::html::{driver_word, table};
use super::quantity::Scale;
use super::svg::escape;
use crate::measure::statistics::Summary;
use crate::results::{Candidate, Results, SchedulerChoice};

/// The comparisons on the page; nothing where there are none.
pub(super) fn section(results: &Results) -> String {
    let choices = results.scheduler_choices();
    if choices.is_empty() {
        return String::new();
    }
    let candidates = || choices.iter().flat_map(|choice| &choice.candidates);
    let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let scales = (
        Scale::of(Unit::PerSecond, largest(&mut candidates().map(|it| it.rate.mean))),
        Scale::of(Unit::Seconds, largest(&mut candidates().filter_map(|it| it.p99).map(|p99| p99.mean))),
    );
    let names_drivers = choices.iter().any(|choice| choice.driver != choices[0].driver);
    let driver_head = if names_drivers { "<th class=\"left\">driver</th>" } else { "" };
    let head = format!(
        "<tr><th class=\"left\">experiment</th>{driver_head}<th class=\"left\">scheduler</th><th>requests ({})</th><th>against the first</th>\
         <th>response, p99 ({})</th><th>failed</th><th class=\"left\">take it</th></tr>",
        scales.0.unit, scales.1.unit
    );
    let rows = choices.iter().fold(String::new(), |rows, choice| rows + &block(choice, scales, names_drivers));
    format!(
        "<section id=\"schedulers\">\n<h2>Which scheduler to take</h2>\n<p class=\"lead\">At the highest load of each experiment: requests answered a second, as against \
         the first scheduler, and the response time that 99 of 100 do not exceed, with 99 % intervals of the means. Those to take answer most, and of those who answer as many, \
         as far as the intervals tell, respond soonest. <em>Cannot tell</em>: no interval sets one of them apart from another; more repeats may.</p>\n<div class=\"card\">{}</div>\n</section>\n",
        table("wraps", &head, &rows)
    )
}

/// A row for each scheduler.
fn block(choice: &SchedulerChoice<'_>, (rate, time): (Scale, Scale), names_drivers: bool) -> String {
    let is_all = choice.candidates.iter().all(|candidate| candidate.is_best);
    let is_none = choice.candidates.iter().all(|candidate| !candidate.is_best);
    let first = choice.candidates.first().map_or(0.0, |candidate| candidate.rate.mean);
    let mut html = String::new();
    for (number, candidate) in choice.candidates.iter().enumerate() {
        let Candidate { scheduler, rate: answered, p99, failed, is_best } = candidate;
        let (class, about) = if number == 0 { ("begins", about(choice)) } else { ("", String::new()) };
        let take = match (is_best, number) {
            (_, 0) if is_all => "cannot tell",
            (_, 0) if is_none => "none",
            (true, _) if !is_all => "yes",
            _ => "",
        };
        let _ = write!(html, "<tr class=\"{class}\"><th scope=\"row\">{}</th>", escape(&about));
        if names_drivers {
            let driver = if number == 0 { driver_word(choice.driver) } else { "" };
            let _ = write!(html, "<td class=\"left\">{driver}</td>");
        }
        let against = if first > 0.0 { format!("\u{d7} {:.2}", answered.mean / first) } else { "-".to_owned() };
        let p99 = p99.as_ref().map_or_else(|| "-".to_owned(), |p99: &Summary| time.with_interval(p99));
        let _ = writeln!(
            html,
            "<td class=\"left\">{}</td><td>{}</td><td>{against}</td><td>{p99}</td><td>{failed:.0}</td><td class=\"left\"><b>{take}</b></td></tr>",
            escape(scheduler),
            rate.with_interval(answered),
        );
    }
    html
}

/// Which experiment it is, and of which of its cases.
fn about(choice: &SchedulerChoice<'_>) -> String {
    let circumstances: Vec<String> =
        choice.circumstances.0.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
    if circumstances.is_empty() {
        return choice.experiment.to_owned();
    }
    format!("{}: {}", choice.experiment, circumstances.join(", "))
}
