//! When a case has been run often enough: the interval of its mean is as narrow as the file asks.
//!
//! Runs count in the order of their repetitions, whatever the order in which they end: what is kept of them does not depend on how many go side by side. An
//! interval that decides when to stop covers a little less than it says, since it is looked at again and again; hence the least number of runs.

use std::collections::{BTreeMap, HashMap};

use fabric::{DriverKind, Experiment, Metric};
use serde::{Deserialize, Serialize};

use super::metric::{is_known_to, metric_value, usual};
use super::record::Record;
use super::statistics::{Summary, summarise};

/// How well the mean of a metric shall be known, and how many runs may be spent on that.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Precision {
    /// Of what.
    pub metric: Metric,
    /// Half the width of the 99 % confidence interval at most, as a fraction of the mean.
    pub share: f64,
    /// No fewer runs of a case.
    pub at_least: u32,
    /// No more.
    pub at_most: u32,
}

impl Precision {
    /// What an experiment asks; `None`: its cases have a fixed number of runs.
    pub(crate) fn of(experiment: &Experiment) -> Option<Self> {
        let until = experiment.until?;
        let shown = || experiment.report.first().copied().or_else(|| usual(&experiment.work).first().copied());
        let metric = until.of.or_else(shown).unwrap_or(Metric::GoodputMean);
        Some(Self { metric, share: until.share, at_least: until.at_least, at_most: experiment.repeat })
    }

    /// Whether an interval is as narrow as that.
    pub(crate) fn is_met(&self, summary: &Summary) -> bool {
        summary.interval.is_some_and(|half| half <= self.share * summary.mean.abs())
    }
}

/// The runs of one case with one driver, as far as they have ended.
#[derive(Debug, Default)]
struct Tally {
    /// Those whose turn has not come: an earlier one is still under way.
    waiting: BTreeMap<u32, Option<f64>>,
    /// Repetitions that have been looked at.
    runs: u32,
    /// What they measured.
    values: Vec<f64>,
    /// After so many the mean was known well enough.
    enough: Option<u32>,
}

impl Tally {
    fn add(&mut self, precision: &Precision, is_known: bool, repeat: u32, value: Option<f64>) {
        self.waiting.insert(repeat, value);
        while let Some(value) = self.waiting.remove(&(self.runs + 1)) {
            self.runs += 1;
            self.values.extend(value);
            // What a driver cannot know is not waited for.
            let is_met = || !is_known || summarise(&self.values).is_some_and(|summary| precision.is_met(&summary));
            if self.enough.is_none() && self.runs >= precision.at_least && is_met() {
                self.enough = Some(self.runs);
            }
        }
    }
}

/// One case: the driver, and the place of the case in the plan.
pub(crate) type CaseKey = (DriverKind, (usize, usize));

/// Runs by case.
#[derive(Debug, Default)]
pub(crate) struct Tallies(HashMap<CaseKey, Tally>);

impl Tallies {
    /// A run of a case has ended.
    pub fn add(&mut self, key: CaseKey, precision: &Precision, record: &Record) {
        let is_known = is_known_to(precision.metric, key.0);
        self.0.entry(key).or_default().add(precision, is_known, record.repeat, metric_value(record, precision.metric));
    }

    /// After how many runs the mean of a case was known well enough; `None`: it is not yet.
    pub fn enough(&self, key: CaseKey) -> Option<u32> {
        self.0.get(&key)?.enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRECISION: Precision = Precision { metric: Metric::GoodputMean, share: 0.05, at_least: 3, at_most: 10 };

    fn enough(values: &[(u32, f64)]) -> Option<u32> {
        let mut tally = Tally::default();
        for (repeat, value) in values {
            tally.add(&PRECISION, true, *repeat, Some(*value));
        }
        tally.enough
    }

    #[test]
    fn a_case_is_done_when_its_interval_is_narrow() {
        assert_eq!(enough(&[(1, 100.0), (2, 100.0)]), None, "fewer than the least");
        assert_eq!(enough(&[(1, 100.0), (2, 100.0), (3, 100.0)]), Some(3));
        assert_eq!(enough(&[(1, 0.0), (2, 0.0), (3, 0.0)]), Some(3), "nothing, each time");
        let spread = [(1, 90.0), (2, 100.0), (3, 110.0), (4, 100.0)];
        assert_eq!(enough(&spread), None);
        let more: Vec<(u32, f64)> = spread.into_iter().chain((5..=40).map(|repeat| (repeat, 100.0))).collect();
        let after = enough(&more).expect("narrow at last");
        assert!((5..40).contains(&after), "{after}");
    }

    #[test]
    fn runs_count_in_their_order_however_they_end() {
        let values: Vec<(u32, f64)> = (1..=8).map(|repeat| (repeat, 100.0 + f64::from(repeat % 3))).collect();
        let in_order = enough(&values);
        assert!(in_order.is_some());
        let backwards: Vec<(u32, f64)> = values.iter().rev().copied().collect();
        assert_eq!(enough(&backwards), in_order);
        assert_eq!(enough(&values[1..]), None, "the first one is missing");
    }

    #[test]
    fn what_a_driver_can_not_know_is_not_waited_for() {
        let mut tally = Tally::default();
        (1..=3).for_each(|repeat| tally.add(&PRECISION, false, repeat, None));
        assert_eq!(tally.enough, Some(3));
        let mut unmeasured = Tally::default();
        (1..=10).for_each(|repeat| unmeasured.add(&PRECISION, true, repeat, None));
        assert_eq!(unmeasured.enough, None);
    }
}
