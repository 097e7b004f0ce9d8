//! Live runs and simulated ones of one file that were run by two calls, as if one call had run both.

use fabric::{DriverKind, Source};

use super::{Results, experiment_result, speed};
use crate::labels::Labels;
use crate::measure::environment::Environment;

impl Results {
    /// Both as one; `None`: they are not of the same file, seed and cases, or one driver is in both.
    ///
    /// Runs of the same number have the same seed, so they form pairs as those of one call do. The machine is that of the live runs: simulated ones say the same on each.
    pub fn joined(&self, other: &Self) -> Option<Self> {
        let (live, sim) = match (&self.drivers[..], &other.drivers[..]) {
            ([DriverKind::Live], [DriverKind::Sim]) => (self, other),
            ([DriverKind::Sim], [DriverKind::Live]) => (other, self),
            _ => return None,
        };
        let cases = |results: &Self| -> Vec<(String, Vec<Labels>)> {
            let labels = |it: &super::ExperimentResult| it.cases.iter().map(|case| case.labels.clone()).collect();
            results.experiments.iter().map(|it| (it.name.clone(), labels(it))).collect()
        };
        let is_same = !live.file.is_empty() && live.file == sim.file && live.seed == sim.seed;
        if !is_same || cases(live) != cases(sim) {
            return None;
        }
        let source = Source { name: live.network.name.clone(), text: live.file.clone() };
        let fabric = fabric::parse(&source).ok()?;
        // In the order of a plan.
        let records: Vec<_> = sim.records.iter().chain(&live.records).cloned().collect();
        let drivers = vec![DriverKind::Live, DriverKind::Sim];
        let experiments = live.experiments.iter().zip(&sim.experiments).map(|(of_live, of_sim)| {
            let experiment = fabric.experiments.iter().find(|experiment| experiment.name == of_live.name)?;
            let labels = of_live.cases.iter().map(|case| case.labels.clone()).collect();
            let left_out = (of_sim.not_simulated.clone(), of_live.not_live.clone());
            let mut joined = experiment_result(experiment, labels, &records, &drivers, left_out);
            joined.is_routed = of_sim.is_routed;
            Some(joined)
        });
        let experiments = experiments.collect::<Option<Vec<_>>>()?;
        let timings: Vec<_> = [sim, live].iter().flat_map(|it| it.environment.timings.clone()).collect();
        let environment = Environment {
            // Nobody goes on with what two calls have run.
            made_from: String::new(),
            hosts: sim.environment.hosts,
            simulator: speed(&records, &timings),
            timings,
            ..live.environment.clone()
        };
        Some(Self {
            version: live.version.clone(),
            network: live.network.clone(),
            seed: live.seed,
            drivers,
            planned_runs: live.planned_runs + sim.planned_runs,
            experiments,
            records,
            environment,
            file: live.file.clone(),
        })
    }
}
