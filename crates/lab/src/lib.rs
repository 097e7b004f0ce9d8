//! Plans, runs, measures, judges and reports experiments.
//!
//! The way through this crate is a straight line, and no module uses one that stands further on (`heddle`'s test of the architecture holds
//! that):
//!
//! ```text
//! measure ──> plan ──> live, cluster, simulate ──> results ──> report
//!                      └──────────── run ────────────────┘
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | `labels`, `pattern`, `terminal`, `grid`, `progress`, `options`, `error` | what everybody needs |
//! | `measure` | records of runs, their metrics, statistics over them, the machine they ran on |
//! | `plan` | which runs there are, and which of them no driver can do |
//! | `live` | real traffic between the hosts of a network |
//! | `calibrate` | what hosts cost this machine, by live runs, for simulated ones |
//! | `cluster` | controllers that are asked, live and simulated |
//! | `simulate` | simulated runs side by side |
//! | `capture` | one of them again, and what passes ports in it |
//! | `results` | runs summed up, compared, and judged by what the file expects |
//! | `report` | results as tables, a page, data, and the folder that holds them |
//!
//! A [`Plan`] lists runs (experiment x case x repeat x driver), each with its own seed. Both drivers yield the same
//! [`Record`], so whatever comes after does not know which clock drove the network. Runs that are compared (live and
//! simulated; values of `spread`, `window`, `transport`) share their seed, hence their pairs of hosts: comparisons are
//! paired.
//!
//! What always holds: simulated records depend on the file and the seed only, not on the number of threads, the
//! machine, or the time of day.
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod capture;
mod cluster;
mod counted;
mod disk;
mod doubts;
mod error;
mod grid;
mod journal;
mod kernel;
mod labels;
mod linux_limits;
mod live;
mod live_times;
mod measure;
mod options;
pub mod pattern;
mod plan;
mod progress;
mod report;
mod results;
mod run;
mod simulate;
mod starts;
pub mod terminal;
#[cfg(test)]
mod testing;

pub use self::live::iperf;
pub use doubts::{Doubt, crowded_buffers, doubts, unlike_warm_up};
pub use error::{Error, NotJoined};
pub use grid::quoted;
pub use journal::{JOURNAL, Journal};
pub use kernel::check_kernel;
pub use labels::Labels;
pub use measure::carried::Excess;
pub use measure::cluster_record::{ClusterRecord, Latencies, OperationRecord, RAW_MAX};
pub use measure::environment::{Environment, SimulatorSpeed, Timing};
pub use measure::hosts::{HostCosts, NoHostCosts};
pub use measure::metric::{metric_name, metric_value};
pub use measure::precision::Precision;
pub use measure::record::{BondRecord, FlowRecord, LinkRecord, OrderRecord, Record};
pub use measure::statistics;
pub use measure::time_series::{FlowSeries, LinkSeries, TimeSeries};
pub use measure::tolerance::Tolerance;
pub use options::Options;
pub use plan::{Plan, PlannedRun, not_simulated, plan};
pub use report::{
    Comparisons, ExperimentOfBoth, REPORT, Row, SUMMARY, Side, SideBySide, graph, load, load_finished, quantity,
    set_aside,
};
pub use results::{
    BondResult, CaseResult, Cell, ComparedCase, ComparedExperiment, ComparedFlow, ComparedLink, ComparedMetric,
    Comparison, DriverComparison, ExperimentResult, Means, Network, NetworkLink, NetworkNode, Parting, Quantity,
    Results, Verdict,
};
pub use run::{Ran, run};
