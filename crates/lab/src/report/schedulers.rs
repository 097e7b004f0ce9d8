//! The last page: which scheduler to take for which workload, with the evidence.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fabric::Unit;

use super::html::{driver_word, table};
use super::quantity::Scale;
use super::svg::escape;
use crate::results::{Candidate, Results, SchedulerChoice};

/// The comparisons on the page; nothing where there are none.
pub(super) fn section(results: &Results) -> String {
    let choices = results.scheduler_choices();
    if choices.is_empty() {
        return String::new();
    }
    let mut names: Vec<&str> = Vec::new();
    for candidate in choices.iter().flat_map(|choice| &choice.candidates) {
        if !names.contains(&candidate.scheduler) {
            names.push(candidate.scheduler);
        }
    }
    let names_drivers = choices.iter().map(|choice| choice.driver).collect::<BTreeSet<_>>().len() > 1;
    let heads = names.iter().fold(String::new(), |head, name| head + "<th>" + &escape(name) + "</th>");
    let driver_head = if names_drivers { "<th></th>" } else { "" };
    let head = format!("<tr><th>experiment</th>{driver_head}<th>take</th>{heads}</tr>");
    let rows = choices.iter().fold(String::new(), |rows, choice| rows + &row(choice, &names, names_drivers));
    format!(
        "<section id=\"schedulers\">\n<h2>Which scheduler to take</h2>\n<p class=\"lead\">At the highest load of each experiment: requests a second, as against the \
         first scheduler, and the response time that 99 of 100 do not exceed. Those to take answer most, and of those who answer as many, as far as the 99 % intervals of \
         the means tell, respond soonest.</p>\n<div class=\"card\">{}</div>\n</section>\n",
        table("figures", &head, &rows)
    )
}

fn row(choice: &SchedulerChoice<'_>, names: &[&str], names_drivers: bool) -> String {
    let best: Vec<&str> =
        choice.candidates.iter().filter(|candidate| candidate.is_best).map(|candidate| candidate.scheduler).collect();
    let take = match best.len() {
        0 => "none".to_owned(),
        all if all == choice.candidates.len() => "any".to_owned(),
        _ => best.join(", "),
    };
    let circumstances = choice.circumstances.to_string();
    let mut html = format!("<tr><td>{}: {}</td>", escape(choice.experiment), escape(&circumstances));
    if names_drivers {
        let _ = write!(html, "<td>{}</td>", driver_word(choice.driver));
    }
    let _ = write!(html, "<td><b>{}</b></td>", escape(&take));
    let first = choice.candidates.first().map_or(0.0, |candidate| candidate.rate.mean);
    for name in names {
        let found = choice.candidates.iter().find(|candidate| candidate.scheduler == *name);
        let text = found.map_or_else(|| "-".to_owned(), |candidate| evidence(candidate, first));
        let _ = write!(html, "<td>{}</td>", escape(&text));
    }
    html + "</tr>\n"
}

/// `1234 ± 5 /s (x 1.03), p99 12.3 ms`
fn evidence(candidate: &Candidate<'_>, first: f64) -> String {
    let rate = Scale::of(Unit::PerSecond, candidate.rate.mean);
    let mut text = format!("{} {}", rate.with_interval(&candidate.rate), rate.unit);
    if first > 0.0 {
        let _ = write!(text, " (x {:.2})", candidate.rate.mean / first);
    }
    if let Some(p99) = &candidate.p99 {
        let scale = Scale::of(Unit::Seconds, p99.mean);
        let _ = write!(text, ", p99 {} {}", scale.with_interval(p99), scale.unit);
    }
    if candidate.failed > 0.0 {
        let _ = write!(text, ", {:.0} failed", candidate.failed);
    }
    text
}
