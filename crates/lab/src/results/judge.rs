//! Whether what was measured is what the file expects.

use fabric::{Bound, DriverKind, Expectation, Experiment};

use super::model::{CaseResult, Verdict};
use crate::measure::metric::is_known_to;

/// Holds every expectation against every case that it speaks of, for each driver that ran. Nothing is expected of the
/// runs of the cases that a driver leaves out, or has not come to: there are none.
pub(crate) fn judge(
    experiment: &Experiment,
    cases: &[CaseResult],
    drivers: &[DriverKind],
    is_left_out: impl Fn(DriverKind, usize) -> bool,
) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for expectation in &experiment.expect {
        for (number, case) in cases.iter().enumerate().filter(|(_, case)| case.labels.contain(&expectation.only)) {
            let asked = |driver: &&DriverKind| {
                expectation.driver.is_none_or(|only| only == **driver)
                    && is_known_to(expectation.metric, **driver)
                    && !is_left_out(**driver, number)
            };
            for &driver in drivers.iter().filter(asked) {
                verdicts.push(verdict(expectation, number, case, driver));
            }
        }
    }
    verdicts
}

fn verdict(expectation: &Expectation, number: usize, case: &CaseResult, driver: DriverKind) -> Verdict {
    let measured = case.summary(expectation.metric, driver).map(|summary| summary.mean);
    Verdict {
        case: number,
        labels: case.labels.clone(),
        driver,
        metric: expectation.metric,
        text: expectation.text.clone(),
        line: expectation.line,
        measured,
        passed: measured.is_some_and(|mean| holds(expectation.bound, mean)),
    }
}

fn holds(bound: Bound, mean: f64) -> bool {
    match bound {
        Bound::AtLeast(least) => mean >= least,
        Bound::AtMost(most) => mean <= most,
        Bound::Within { of, by } => (mean - of).abs() <= by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_include_their_ends() {
        assert!(holds(Bound::AtLeast(2.0), 2.0) && !holds(Bound::AtLeast(2.0), 1.9));
        assert!(holds(Bound::AtMost(2.0), 2.0) && !holds(Bound::AtMost(2.0), 2.1));
        assert!(holds(Bound::Within { of: 10.0, by: 1.0 }, 9.0) && !holds(Bound::Within { of: 10.0, by: 1.0 }, 11.5));
        assert!(!holds(Bound::AtLeast(0.0), f64::NAN) && !holds(Bound::Within { of: 0.0, by: 1.0 }, f64::NAN));
    }
}
