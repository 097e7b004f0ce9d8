//! What is asked of the controllers. Live: a process a node, clients in one thread, faults in another. Simulated: the same
//! script on [`sim::cluster::session`], see [`simulated`].
//!
//! ```text
//!   nodes: processes, data folders <--kill, pause-- faults --partition--> relay (only where there are partitions)
//!     ^                                                                     |
//!     +-- frames -- node::drive <-- script --> recorder --> history: lost? linearizable? --> ClusterRecord
//! ```
//!
//! A cluster is kept for the next run if that one wants the same controllers and no fault was injected.

mod elections;
mod faults;
mod history;
mod nodes;
mod provider;
mod recorder;
mod relay;
mod script;
pub(crate) mod simulated;
mod targets;

use std::path::Path;
use std::time::Instant;

use fabric::{Case, ClusterLoad, Fabric, Operation, Work};
use node::BootClock;
use workload::{CARS, PEOPLE};

use self::history::LiveReader;
use self::nodes::Nodes;
use self::provider::Provider;
use self::script::{Mode, Script};
use crate::error::Error;
use crate::journal::Journal;
use crate::measure::cluster_record::ClusterRecord;
use crate::measure::record::Record;
use crate::options::Options;
use crate::plan::controllers::has_partitions;
use crate::plan::{Plan, PlannedRun, controllers_of};
use crate::progress::{Progress, RunTime};

/// Runs `runs`, all of which ask controllers, in their order, and keeps what each measured.
pub(crate) fn run(
    fabric: &Fabric,
    plan: &Plan,
    runs: &[&PlannedRun],
    (options, journal): (&Options, &Journal),
) -> Result<(), Error> {
    let progress = Progress::start(options.progress, "live", RunTime::Asking, runs);
    let mut kept: Option<Nodes> = None;
    for run in runs {
        if journal.is_enough(run) {
            progress.leave_out(run);
            continue;
        }
        journal.check()?;
        let (index, cases) = &plan.cases[run.at.0];
        progress.begin(run);
        let duration = fabric.experiments[*index].duration;
        let case = &cases[run.at.1];
        let started = Instant::now();
        let (cluster, seconds) = one(fabric, case, duration, &options.program, &mut kept).map_err(|message| {
            let (experiment, case) = (run.experiment.clone(), run.labels.to_string());
            Error::Controllers { experiment, case, repeat: run.repeat, message }
        })?;
        journal.keep(run, (record(run, cluster, seconds), run.timing(started)))?;
        progress.end(run);
    }
    Ok(())
}

/// A run's record: nothing of flows and links.
pub(crate) fn record(run: &PlannedRun, cluster: ClusterRecord, seconds: f64) -> Record {
    Record { cluster: Some(Box::new(cluster)), ..run.record(seconds) }
}

/// Runs one case, on `kept` if that will do. What it leaves there is fit for another run.
fn one(
    fabric: &Fabric,
    case: &Case,
    duration: machine::Span,
    program: &Path,
    kept: &mut Option<Nodes>,
) -> Result<(ClusterRecord, f64), String> {
    let Work::Cluster(load) = &case.work else { unreachable!("the runs all ask controllers") };
    let controllers = controllers_of(fabric, case);
    let relayed = has_partitions(load);
    let mut nodes = match kept.take() {
        Some(nodes) if nodes.are(&controllers, relayed) => nodes,
        _ => Nodes::start(program, &controllers, relayed)?,
    };
    let started = Instant::now();
    let outcome = if load.is_election() { elections::run(&mut nodes, load) } else { ask(&mut nodes, load, duration) };
    let record = outcome.map_err(|message| nodes.explain(&message))?;
    let seconds = started.elapsed().as_secs_f64();
    if load.faults.is_empty() {
        *kept = Some(nodes);
    }
    Ok((record, seconds))
}

/// Asks, has faults happen meanwhile, and looks what is left.
fn ask(nodes: &mut Nodes, load: &ClusterLoad, duration: machine::Span) -> Result<ClusterRecord, String> {
    let module = if load.operations == [Operation::Rpc] { PEOPLE } else { CARS };
    nodes.make_ready(&[CARS, PEOPLE])?;
    let calm = load.faults.is_empty();
    let leader = if calm { nodes.pin_leader(module)? } else { nodes.leader(module)? };
    let provider = load.operations.contains(&Operation::Rpc).then(|| Provider::start(nodes, leader)).transpose()?;
    let targets = targets::of(nodes, load, leader);
    let mode = if calm { Mode::InTurn } else { Mode::Contended };
    let first_entry = nodes.entries_used();
    let clock = BootClock::start();
    let lasts = duration.max(load.faults_end()).into();
    let mut script = Script::new(load, mode, targets.len(), first_entry, (clock.now(), lasts));
    let tls = nodes.tls().cloned();
    let mut happened = Vec::new();
    std::thread::scope(|scope| {
        let faults = scope.spawn(|| faults::run(nodes, &load.faults, module));
        let driven = node::drive(&clock, load.clients as usize, &targets, tls.as_ref(), &mut script);
        happened = faults.join().expect("the thread of faults does not panic")?;
        driven.map_err(|error| error.to_string())
    })?;
    nodes.heal()?;
    drop(provider);
    let (mut recorder, used) = script.finish(clock.now());
    nodes.use_entries(used);
    history::read_all(&mut LiveReader::new(nodes, clock)?, &mut recorder)?;
    let resident = nodes.resident_max_bytes();
    let mut record = history::conclude(&recorder);
    record.resident_max_bytes = resident;
    record.faults = happened;
    Ok(record)
}
