//! All runs of a plan, from the file to the results.

use fabric::{DriverKind, Fabric, Source};

use crate::cluster;
use crate::error::Error;
use crate::journal::{Journal, fingerprint};
use crate::live::{LiveRuns, look_for_programs, program_of};
use crate::measure::environment::Environment;
use crate::options::Options;
use crate::plan::{Plan, PlannedRun, plan};
use crate::results::Results;
use crate::simulate::simulate;

/// What came of a call.
#[derive(Debug)]
pub struct Ran {
    /// Of all runs that have ended.
    pub results: Results,
    /// Why the others have not, if there are others.
    pub stopped: Option<Error>,
}

/// Plans and runs the experiments of `fabric`, which `source` is the text of, and judges them. Each run is kept in `journal` when it ends; what is in there
/// already is not run again.
///
/// The live network comes up first, since it is what can fail. Then the simulated runs go side by side; then the live ones,
/// one after another, with the machine for themselves.
///
/// # Errors
/// If the plan makes no sense, a program is missing, or nothing was measured since a run failed. A missed expectation is no error.
pub fn run(source: &Source, fabric: &Fabric, options: &Options, journal: &Journal) -> Result<Ran, Error> {
    let plan = plan(fabric, options)?;
    let mut iperf3 = None;
    let stopped = run_all(source, fabric, options, (&plan, journal), &mut iperf3).err();
    let measured = journal.take_measured();
    match stopped {
        Some(error) if measured.is_empty() => Err(error),
        stopped => {
            let is_simulated = plan.runs.iter().any(|run| run.driver == DriverKind::Sim);
            let hosts = options.hosts.filter(|_| is_simulated);
            let made_from = fingerprint(source, options);
            let environment = Environment { made_from, hosts, ..Environment::look(iperf3, &options.version) };
            let results = Results::new(fabric, &plan, measured, environment);
            let left_out = plan.runs.iter().filter(|run| journal.is_enough(run)).count();
            let file = source.text.clone();
            let results = Results { planned_runs: results.planned_runs - left_out, file, ..results };
            Ok(Ran { results, stopped })
        }
    }
}

fn run_all(
    source: &Source,
    fabric: &Fabric,
    options: &Options,
    (plan, journal): (&Plan, &Journal),
    iperf3: &mut Option<String>,
) -> Result<(), Error> {
    let (live, sim): (Vec<&PlannedRun>, Vec<&PlannedRun>) =
        journal.left_to_do(plan).into_iter().partition(|run| run.driver == DriverKind::Live);
    let (asking, talking): (Vec<&PlannedRun>, Vec<&PlannedRun>) =
        live.into_iter().partition(|run| plan.asks_controllers(fabric, run));
    let mut network = None;
    if !talking.is_empty() {
        *iperf3 = Some(look_for_programs(talking.iter().map(|run| program_of(&plan.cases[run.at.0].1[run.at.1])))?);
        let mut hosts = LiveRuns::start(source, fabric, options)?;
        hosts.try_settings(plan, &talking)?;
        network = Some(hosts);
    }
    if !sim.is_empty() {
        simulate(fabric, plan, &sim, (options, journal))?;
    }
    if let Some(network) = network {
        network.run(plan, &talking, journal)?;
    }
    cluster::run(fabric, plan, &asking, (options, journal))
}
