//! Live runs and simulated ones of one file that were run by two calls, as if one call had run both.

use fabric::{DriverKind, Experiment, Fabric, Source};

use super::{ExperimentResult, Results, experiment_result, speed};
use crate::error::{Error, NotJoined};
use crate::labels::Labels;
use crate::measure::environment::Environment;
use crate::measure::record::Record;

impl Results {
    /// Both as one, with the cases that only one of them has.
    ///
    /// Runs of the same number have the same seed, so they form pairs as those of one call do. The machine is that of the live runs: simulated ones say the same on each.
    ///
    /// # Errors
    /// If they are not live runs and simulated ones of the same file and seed, or have no case in common.
    pub fn joined(&self, other: &Self) -> Result<Self, NotJoined> {
        let (live, sim) = match (&self.drivers[..], &other.drivers[..]) {
            ([DriverKind::Live], [DriverKind::Sim]) => (self, other),
            ([DriverKind::Sim], [DriverKind::Live]) => (other, self),
            _ => return Err(NotJoined::SameDriver),
        };
        if live.file.is_empty() || sim.file.is_empty() {
            return Err(NotJoined::UnknownFile);
        }
        if live.file != sim.file {
            return Err(NotJoined::OtherFile);
        }
        if live.seed != sim.seed {
            return Err(NotJoined::OtherSeed { live: live.seed, sim: sim.seed });
        }
        let source = Source { name: live.network.name.clone(), text: live.file.clone() };
        let fabric = fabric::parse(&source).map_err(|_| NotJoined::OtherCases)?;
        let both = [sim, live];
        let cases = cases_of_any(&fabric, both)?;
        let is_of_both = |(experiment, labels): &(&Experiment, Vec<Labels>)| {
            labels.iter().any(|labels| both.iter().all(|it| it.case_number(&experiment.name, labels).is_some()))
        };
        if !cases.iter().any(is_of_both) {
            return Err(NotJoined::NoCaseOfBoth);
        }
        // In the order of a plan.
        let mut records: Vec<Record> = both.iter().flat_map(|it| &it.records).cloned().collect();
        for record in &mut records {
            let of_experiment = cases.iter().find(|(experiment, _)| experiment.name == record.experiment);
            let number = of_experiment.and_then(|(_, all)| all.iter().position(|labels| *labels == record.labels));
            record.case = number.ok_or(NotJoined::OtherCases)?;
        }
        let drivers = vec![DriverKind::Live, DriverKind::Sim];
        let joined = |(experiment, labels): (&Experiment, Vec<Labels>)| {
            let of = |results: &Self, left_out: fn(&ExperimentResult) -> &Vec<usize>| {
                let is_left_out = |labels: &Labels| {
                    let found = results.case_number(&experiment.name, labels);
                    found.is_some_and(|(result, number)| left_out(result).contains(&number))
                };
                (0..labels.len()).filter(|number| is_left_out(&labels[*number])).collect::<Vec<usize>>()
            };
            let left_out = (of(sim, |it| &it.not_simulated), of(live, |it| &it.not_live));
            let is_routed = sim.experiments.iter().any(|it| it.name == experiment.name && it.is_routed);
            ExperimentResult { is_routed, ..experiment_result(experiment, labels, &records, &drivers, left_out) }
        };
        let experiments = cases.into_iter().map(joined).collect();
        let timings: Vec<_> = both.iter().flat_map(|it| it.environment.timings.clone()).collect();
        let environment = Environment {
            // Nobody goes on with what two calls have run.
            made_from: String::new(),
            hosts: sim.environment.hosts,
            simulator: speed(&records, &timings),
            timings,
            ..live.environment.clone()
        };
        Ok(Self {
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

    /// The error of two folders that could not be joined, each with what it is called.
    pub fn not_joined(a: (String, &Self), b: (String, &Self), reason: NotJoined) -> Error {
        Error::OtherDrivers { of_a: a.1.drivers_in_words(), of_b: b.1.drivers_in_words(), a: a.0, b: b.0, reason }
    }

    /// A case's experiment, and its number there.
    fn case_number(&self, experiment: &str, labels: &Labels) -> Option<(&ExperimentResult, usize)> {
        let result = self.experiments.iter().find(|it| it.name == experiment)?;
        Some((result, result.cases.iter().position(|case| case.labels == *labels)?))
    }
}

/// The experiments that are in any of them with the cases that are in any of them, in the order of the file.
fn cases_of_any<'a>(fabric: &'a Fabric, both: [&Results; 2]) -> Result<Vec<(&'a Experiment, Vec<Labels>)>, NotJoined> {
    let is_there = |experiment: &Experiment, labels: &Labels| {
        both.iter().any(|results| results.case_number(&experiment.name, labels).is_some())
    };
    let of_experiment = |experiment: &'a Experiment| {
        let all = experiment.cases().into_iter().map(|case| Labels(case.labels));
        (experiment, all.filter(|labels| is_there(experiment, labels)).collect::<Vec<_>>())
    };
    let found: Vec<_> = fabric.experiments.iter().map(of_experiment).filter(|(_, labels)| !labels.is_empty()).collect();
    let is_known = |experiment: &str, labels: &Labels| {
        found.iter().any(|(known, all)| known.name == experiment && all.contains(labels))
    };
    let mut cases =
        both.iter().flat_map(|results| &results.experiments).flat_map(|it| it.cases.iter().map(move |case| (it, case)));
    if cases.all(|(it, case)| is_known(&it.name, &case.labels)) { Ok(found) } else { Err(NotJoined::OtherCases) }
}
