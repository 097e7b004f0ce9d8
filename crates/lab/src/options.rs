//! What a run is asked for besides the file.

use std::path::PathBuf;

use fabric::{DriverKind, Experiment, Metric};
use machine::Span;

use crate::measure::hosts::HostCosts;

/// What the command line decides about a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which drivers run; each experiment runs on each.
    pub drivers: Vec<DriverKind>,
    /// Where chance starts; `None`: the file's seed.
    pub seed: Option<u64>,
    /// How many simulated runs go side by side; 0: one on each core.
    pub threads: usize,
    /// The folder in which [`crate::Results::write`]'s caller keeps results (`results/NAME`).
    pub results: PathBuf,
    /// Only the experiments of these names; empty: all.
    pub only: Vec<String>,
    /// Only the cases that one of these names, by its name or by a value; empty: all.
    pub cases: Vec<String>,
    /// The `heddle` program, which live runs start as the network's process.
    pub program: PathBuf,
    /// Which version of the program it is, with the commit that it is made of.
    pub version: String,
    /// Whether runs are recorded over time where the file names no step for it.
    pub time_series: bool,
    /// What simulated hosts cost the machine that all of them are on; `None`: nothing.
    pub hosts: Option<HostCosts>,
    /// Whether to draw a progress bar on stderr.
    pub progress: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            drivers: vec![DriverKind::Sim],
            seed: None,
            threads: 0,
            results: PathBuf::from("results"),
            only: Vec::new(),
            cases: Vec::new(),
            program: PathBuf::from("heddle"),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time_series: false,
            hosts: None,
            progress: false,
        }
    }
}

/// Where a file names no step, one run has so many.
const STEPS: u64 = 50;
/// And none is shorter.
const STEP_LEAST: Span = Span::from_ms(50);

impl Options {
    /// The step in which an experiment's runs are recorded, if they are.
    pub(crate) fn step_of(&self, experiment: &Experiment) -> Option<Span> {
        let usual = || STEP_LEAST.max(Span::from_ps(experiment.duration.as_ps() / STEPS));
        let is_asked = || self.time_series || is_of_steps(experiment);
        experiment.time_series.or_else(|| (experiment.work.traffic().is_some() && is_asked()).then(usual))
    }
}

/// Whether an experiment is about what is known from step to step only.
fn is_of_steps(experiment: &Experiment) -> bool {
    let expected = experiment.expect.iter().map(|expectation| expectation.metric);
    let until = experiment.until.iter().filter_map(|until| until.of);
    experiment.report.iter().copied().chain(expected).chain(until).any(|metric| matches!(metric, Metric::RoundTrip(_)))
}
