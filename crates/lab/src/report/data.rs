//! The numbers behind a plot, as a file that the page holds itself.

use std::fmt::Write as _;

use fabric::{DriverKind, Metric};

use super::svg::escape;
use crate::grid::quoted;
use crate::results::{ExperimentResult, Quantity, Results};

/// What of a time series goes into the page; the rest is in the samples.
const LINES_MAX: usize = 2_000;

/// A link that saves `csv` as a file of this name.
pub(super) fn link(name: &str, csv: &str) -> String {
    let mut data = String::with_capacity(csv.len() + csv.len() / 4);
    for byte in csv.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' | b',' | b'-' | b'_' | b'/' | b':' => {
                data.push(char::from(byte));
            }
            _ => {
                let _ = write!(data, "%{byte:02X}");
            }
        }
    }
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(safe).collect();
    format!(
        "<a class=\"data\" download=\"{}.csv\" href=\"data:text/csv;charset=utf-8,{data}\">data (CSV)</a>",
        escape(&name)
    )
}

/// A metric of each case and driver, in its own unit.
pub(super) fn of_metric(experiment: &ExperimentResult, drivers: &[DriverKind], metric: Metric) -> String {
    let mut csv = "case,driver,n,mean,interval,min,max\n".to_owned();
    for case in &experiment.cases {
        for &driver in drivers {
            let Some(summary) = case.summary(metric, driver) else { continue };
            let interval = summary.interval.map_or_else(String::new, |half| half.to_string());
            let _ = writeln!(
                csv,
                "{},{},{},{},{interval},{},{}",
                quoted(&case.labels.to_string()),
                driver.word(),
                summary.n,
                summary.mean,
                summary.min,
                summary.max
            );
        }
    }
    csv
}

/// What was recorded over time of an experiment: each quantity of each case, step by step, as it is drawn.
pub(super) fn over_time(results: &Results, experiment: &ExperimentResult) -> String {
    let mut csv = "case,driver,quantity,seconds,value\n".to_owned();
    let mut lines = 0;
    for (number, case) in experiment.cases.iter().enumerate() {
        for &driver in &results.drivers {
            for quantity in Quantity::ALL {
                let Some(course) = results.course(experiment, number, driver, quantity) else { continue };
                if lines + course.values.len() > LINES_MAX {
                    return csv;
                }
                lines += course.values.len();
                let labels = quoted(&case.labels.to_string());
                for (end, value) in course.ends.iter().zip(&course.values) {
                    let _ = writeln!(csv, "{labels},{},{},{end:.3},{value:.6}", driver.word(), quoted(quantity.name()));
                }
            }
        }
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_file_says_stays_within_the_link() {
        let link = link("a\"b<c", "case\n\"x\" onload='y'>,1\n");
        assert_eq!(
            link,
            "<a class=\"data\" download=\"a-b-c.csv\" \
             href=\"data:text/csv;charset=utf-8,case%0A%22x%22%20onload%3D%27y%27%3E,1%0A\">data (CSV)</a>"
        );
    }
}
