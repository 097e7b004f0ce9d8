//! All runs of a plan, from the file to the results.

use fabric::{DriverKind, Fabric, Source};

use crate::cluster;
use crate::error::Error;
use crate::live::{LiveRuns, look_for_programs};
use crate::measure::environment::Environment;
use crate::options::Options;
use crate::plan::{PlannedRun, plan};
use crate::results::Results;
use crate::simulate::simulate;

/// Plans and runs the experiments of `fabric`, which `source` is the text of, and judges them.
///
/// The live network comes up first, since it is what can fail. Then the simulated runs go side by side; then the live ones,
/// one after another, with the machine for themselves.
///
/// # Errors
/// If the plan makes no sense, a program is missing, or a run fails. A missed expectation is no error.
pub fn run(source: &Source, fabric: &Fabric, options: &Options) -> Result<Results, Error> {
    let plan = plan(fabric, options)?;
    let of = |driver| plan.runs.iter().filter(move |run| run.driver == driver).collect::<Vec<&PlannedRun>>();
    let (sim, live) = (of(DriverKind::Sim), of(DriverKind::Live));
    let (asking, talking): (Vec<&PlannedRun>, Vec<&PlannedRun>) =
        live.into_iter().partition(|run| plan.asks_controllers(fabric, run));
    let mut iperf3 = None;
    let mut network = None;
    if !talking.is_empty() {
        iperf3 = Some(look_for_programs()?);
        let mut hosts = LiveRuns::start(source, fabric, options)?;
        hosts.try_settings(&plan, &talking)?;
        network = Some(hosts);
    }
    let mut measured = if sim.is_empty() { Vec::new() } else { simulate(fabric, &plan, &sim, options)? };
    if let Some(network) = network {
        measured.extend(network.run(&plan, &talking)?);
    }
    measured.extend(cluster::run(fabric, &plan, &asking, options)?);
    let hosts = options.hosts.filter(|_| !sim.is_empty());
    Ok(Results::new(fabric, &plan, measured, Environment { hosts, ..Environment::look(iperf3) }))
}
