//! What a file may expect: nothing that could never fail, and nothing that its driver cannot know.

use fabric::{Case, DriverKind, Experiment};

use crate::error::Error;
use crate::labels::Labels;
use crate::measure::metric::{is_known_to, metric_name};

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
                driver: driver.word(),
            });
        }
    }
    Ok(())
}

/// Whether something is expected of the case that only the runs of this driver can know.
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
