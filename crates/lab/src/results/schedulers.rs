//! Which scheduler to take: what experiments that vary it have found, at the highest load of each.

use fabric::{DriverKind, Metric, Statistic};

use super::model::{CaseResult, ExperimentResult, Results};
use crate::labels::Labels;
use crate::measure::statistics::Summary;

/// The axis of schedulers.
const SCHEDULER: &str = "services.scheduler";
/// The axes that are load, of which the last value is the highest.
const LOADS: [&str; 2] = ["requests.clients", "requests.rate"];
/// What is so much worse than the best is no worse, as far as one run can tell.
const ALIKE: f64 = 0.02;

/// A comparison of schedulers under the same circumstances.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerChoice<'a> {
    /// The experiment's name.
    pub experiment: &'a str,
    /// What else the cases have, the load among it.
    pub circumstances: Labels,
    /// Who drove the runs.
    pub driver: DriverKind,
    /// In the order of the file.
    pub candidates: Vec<Candidate<'a>>,
}

/// What one scheduler did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate<'a> {
    /// As the file writes it.
    pub scheduler: &'a str,
    /// Requests a second.
    pub rate: Summary,
    /// The response time that 99 of 100 requests did not exceed, seconds; `None`: none was answered.
    pub p99: Option<Summary>,
    /// Requests that failed, on the mean.
    pub failed: f64,
    /// Whether no other one answers more, nor as many in less time, as far as its interval says.
    pub is_best: bool,
}

impl Results {
    /// The comparisons of schedulers that the experiments make, in their order; empty if none varies them.
    pub fn scheduler_choices(&self) -> Vec<SchedulerChoice<'_>> {
        let of_experiment = |experiment| self.drivers.iter().flat_map(move |&driver| choices(experiment, driver));
        self.experiments.iter().flat_map(of_experiment).collect()
    }
}

fn choices(experiment: &ExperimentResult, driver: DriverKind) -> Vec<SchedulerChoice<'_>> {
    let highest = LOADS.map(|axis| experiment.cases.last().and_then(|case| case.labels.get(axis)));
    let is_highest = |case: &&CaseResult| LOADS.iter().zip(highest).all(|(axis, value)| case.labels.get(axis) == value);
    let mut all: Vec<SchedulerChoice<'_>> = Vec::new();
    for case in experiment.cases.iter().filter(is_highest) {
        let Some(candidate) = candidate(case, driver) else { continue };
        let others = case.labels.0.iter().filter(|(axis, _)| axis != SCHEDULER).cloned();
        let circumstances = Labels(others.collect());
        match all.iter_mut().find(|choice| choice.circumstances == circumstances) {
            Some(choice) => choice.candidates.push(candidate),
            None => all.push(SchedulerChoice {
                experiment: &experiment.name,
                circumstances,
                driver,
                candidates: vec![candidate],
            }),
        }
    }
    all.retain(|choice| choice.candidates.len() > 1);
    all.iter_mut().for_each(SchedulerChoice::judge);
    all
}

fn candidate(case: &CaseResult, driver: DriverKind) -> Option<Candidate<'_>> {
    let summary = |metric| case.summary(metric, driver).copied();
    Some(Candidate {
        scheduler: case.labels.get(SCHEDULER)?,
        rate: summary(Metric::RequestRate)?,
        p99: summary(Metric::Response(Statistic::P99)),
        failed: summary(Metric::Failed).map_or(0.0, |failed| failed.mean),
        is_best: false,
    })
}

impl SchedulerChoice<'_> {
    /// Who answers most, and of those who answer as many, who has the shortest response times.
    fn judge(&mut self) {
        let room = |summary: &Summary| summary.interval.unwrap_or(ALIKE * summary.mean);
        let rates = self.candidates.iter().map(|candidate| candidate.rate);
        let Some(most) = rates.max_by(|a, b| a.mean.total_cmp(&b.mean)) else { return };
        let answers_most =
            |candidate: &Candidate<'_>| candidate.rate.mean + room(&candidate.rate) >= most.mean - room(&most);
        let times = self.candidates.iter().filter(|candidate| answers_most(candidate)).filter_map(|it| it.p99);
        let Some(least) = times.min_by(|a, b| a.mean.total_cmp(&b.mean)) else { return };
        for candidate in &mut self.candidates {
            let is_quick = candidate.p99.is_some_and(|p99| p99.mean - room(&p99) <= least.mean + room(&least));
            candidate.is_best = is_quick && answers_most(candidate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(mean: f64, interval: f64) -> Summary {
        let (min, max, p50, p99) = (mean, mean, mean, mean);
        Summary { n: 3, min, mean, max, p50, p99, standard_deviation: Some(0.0), interval: Some(interval) }
    }

    fn best(candidates: &[(&'static str, f64, f64)]) -> Vec<&'static str> {
        let candidates = candidates.iter().map(|&(scheduler, rate, p99)| Candidate {
            scheduler,
            rate: summary(rate, 1.0),
            p99: Some(summary(p99, 0.001)),
            failed: 0.0,
            is_best: false,
        });
        let mut choice = SchedulerChoice {
            experiment: "e",
            circumstances: Labels::default(),
            driver: DriverKind::Sim,
            candidates: candidates.collect(),
        };
        choice.judge();
        choice.candidates.iter().filter(|candidate| candidate.is_best).map(|candidate| candidate.scheduler).collect()
    }

    #[test]
    fn who_answers_most_is_best_and_then_who_is_quickest() {
        assert_eq!(best(&[("lc", 100.0, 0.1), ("alc", 120.0, 0.3), ("learned", 110.0, 0.1)]), ["alc"]);
        assert_eq!(best(&[("lc", 100.0, 0.1), ("alc", 101.0, 0.3), ("learned", 100.5, 0.05)]), ["learned"]);
        assert_eq!(best(&[("lc", 100.0, 0.1), ("alc", 101.0, 0.1005), ("learned", 90.0, 0.01)]), ["lc", "alc"]);
    }
}
