//! Whether what was measured is what the file expects.

use fabric::{Bound, Case, DriverKind, Expectation, Experiment, Metric};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::metric::{is_known_to, metric_name};
use crate::plan::driver_name;
use crate::record::Labels;
use crate::results::CaseResult;

/// What came of one expectation in one case with one driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Index of the case in its experiment.
    pub case: usize,
    /// Axis and value as written.
    pub labels: Labels,
    /// Who drove the runs.
    pub driver: DriverKind,
    /// What was looked at.
    pub metric: Metric,
    /// The expectation as written in the file.
    pub text: String,
    /// Its line in the file, from 1.
    pub line: usize,
    /// The mean over the runs, in the metric's unit; `None` if nothing was measured.
    pub measured: Option<f64>,
    /// Whether the expectation is met. What could not be measured is not met.
    pub passed: bool,
}

/// Refuses expectations that could never fail: of no case, or of what their driver cannot know.
pub(crate) fn check(experiment: &Experiment, cases: &[Case]) -> Result<(), Error> {
    for expectation in &experiment.expect {
        let matches = |case: &&Case| expectation.only.iter().all(|label| case.labels.contains(label));
        if !cases.iter().any(|case| matches(&case)) {
            return Err(Error::ExpectationMatchesNothing {
                experiment: experiment.name.clone(),
                text: expectation.text.clone(),
                line: expectation.line,
            });
        }
        if let Some(driver) = expectation.driver.filter(|&driver| !is_known_to(expectation.metric, driver)) {
            return Err(Error::ExpectationCannotBeMeasured {
                experiment: experiment.name.clone(),
                text: expectation.text.clone(),
                line: expectation.line,
                metric: metric_name(expectation.metric),
                driver: driver_name(driver),
            });
        }
    }
    Ok(())
}

/// Whether something is expected of the case that only the runs of this driver can tell.
pub(crate) fn needs(driver: DriverKind, experiment: &Experiment, labels: &Labels) -> bool {
    let other = match driver {
        DriverKind::Live => DriverKind::Sim,
        DriverKind::Sim => DriverKind::Live,
    };
    experiment.expect.iter().any(|expectation| {
        labels.contain(&expectation.only)
            && (expectation.driver == Some(driver) || !is_known_to(expectation.metric, other))
    })
}

/// Holds every expectation against every case that it speaks of, for each driver that ran. Nothing is expected of the
/// runs of the cases that a driver leaves out: there are none.
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
