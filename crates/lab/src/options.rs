//! What a run is asked for besides the file.

use std::path::PathBuf;

use fabric::DriverKind;

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
    /// The `heddle` program, which live runs start as the network's process.
    pub program: PathBuf,
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
            program: PathBuf::from("heddle"),
            time_series: false,
            hosts: None,
            progress: false,
        }
    }
}
