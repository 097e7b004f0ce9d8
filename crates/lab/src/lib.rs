//! Plans, runs, measures, judges and reports experiments.
//!
//! The way through this crate is a straight line:
//!
//! ```text
//! plan ──> simulate ──────────┐
//!      └─> traffic, cluster ──┴─> record ──> metric ──> statistics ──> judge ──> table, report, files
//! ```
//!
//! A [`Plan`] lists runs (experiment x case x repeat x driver), each with its own seed. Both drivers yield the same
//! [`Record`], so whatever comes after does not know which clock drove the network. Runs that are compared (live and
//! simulated; values of `spread`, `window`, `transport`) share their seed, hence their pairs of hosts: comparisons are
//! paired.
//!
//! What always holds: simulated records depend on the file and the seed only, not on the number of threads, the
//! machine, or the time of day.
#![forbid(unsafe_code)]

mod bonds;
mod cluster;
mod cluster_record;
mod datagrams;
mod environment;
mod error;
mod faults;
mod files;
pub mod iperf;
mod judge;
mod latency;
mod live_runs;
mod metric;
pub mod pattern;
mod plan;
mod progress;
pub mod quantity;
mod record;
mod report;
mod results;
mod run;
mod settling;
mod simulate;
mod standstill;
pub mod statistics;
mod table;
#[cfg(test)]
mod testing;
mod traffic;
mod tuning;
mod words;

use std::path::PathBuf;

use fabric::DriverKind;

pub use bonds::{BondRecord, BondResult, OrderRecord};
pub use cluster_record::{ClusterRecord, Latencies, OperationRecord, RAW_MAX};
pub use environment::Environment;
pub use error::Error;
pub use files::{REPORT, load};
pub use judge::Verdict;
pub use metric::{Unit, metric_name, metric_unit, metric_value};
pub use plan::{Plan, PlannedRun, plan, quoted};
pub use record::{FlowRecord, Labels, LinkRecord, Record};
pub use results::{
    CaseResult, Cell, Comparison, ExperimentResult, Network, NetworkLink, NetworkNode, Results, SimulatorSpeed, Timing,
};
pub use run::run;

/// What the command line decides about a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which drivers run; each experiment runs on each.
    pub drivers: Vec<DriverKind>,
    /// Where chance starts; `None`: the file's seed.
    pub seed: Option<u64>,
    /// How many simulated runs go side by side; 0: one on each core.
    pub threads: usize,
    /// The folder in which [`Results::write`]'s caller keeps results (`results/NAME`).
    pub results: PathBuf,
    /// Only the experiments of these names; empty: all.
    pub only: Vec<String>,
    /// The `heddle` program, which live runs start as the network's process.
    pub program: PathBuf,
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
            progress: false,
        }
    }
}
