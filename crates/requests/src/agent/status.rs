//! What an agent knows.

use serde_json::Value;

use crate::load_report::LoadReport;

/// What waits can be for, as the kernel's pressure stall information (PSI) has it.
pub(super) const PRESSURES: [&str; 3] = ["cpu", "memory", "io"];

/// How loaded the machine is, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Status {
    /// What ORCA has fields for.
    pub report: LoadReport,
    /// The share of the last sample's time in which something waited, for each of [`PRESSURES`].
    pub pressure: [Option<f64>; 3],
    /// Tasks that run or could run, for each processor.
    pub run_queue: Option<f64>,
    /// TCP connections of this network namespace.
    pub connections: Option<u64>,
}

impl Status {
    /// As `/load` answers: what has no field of its own is a named metric.
    pub fn json(&self) -> Value {
        let mut report = self.report.clone();
        let pressures = PRESSURES.iter().zip(self.pressure);
        let pressures = pressures.filter_map(|(name, share)| Some((format!("pressure.{name}"), share?)));
        let connections = self.connections.map(|count| count as f64);
        let counts = [("run_queue", self.run_queue), ("connections", connections)];
        let counts = counts.into_iter().filter_map(|(name, count)| Some((name.to_owned(), count?)));
        // What the application calls as we do is the machine's.
        let own: Vec<(String, f64)> = pressures.chain(counts).collect();
        report.named_metrics.retain(|(name, _)| !own.iter().any(|(other, _)| other == name));
        report.named_metrics.extend(own);
        report.json()
    }
}
