//! Captures of simulated links: one run of a file, of which others see what passes some ports. What it measures is not kept.

use std::sync::Arc;

use fabric::{DriverKind, Fabric};
pub use sim::CapturedFrame;
use sim::Capturing;
use topology::{LinkId, Routes, Side, Topology};

use crate::error::Error;
use crate::options::Options;
use crate::plan::{PlannedRun, plan};
use crate::simulate::TrafficRun;

/// Which of a file's simulated runs is captured.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The case, as tables show it; `None`: the first one.
    pub case: Option<String>,
    /// Which repetition, from 1.
    pub repeat: u32,
}

/// Finds the run that is meant, and hands it to `then`.
///
/// # Errors
/// If there is no such run, or none of traffic that can be simulated; what `then` says besides.
pub fn with_run<T>(
    fabric: &Fabric,
    options: &Options,
    choice: &Choice,
    then: impl FnOnce(&CapturedRun<'_>) -> T,
) -> Result<T, Error> {
    let options = Options { drivers: vec![DriverKind::Sim], ..options.clone() };
    let plan = plan(fabric, &options)?;
    let is_traffic = |run: &&PlannedRun| plan.cases[run.at.0].1[run.at.1].work.traffic().is_some();
    let mut runs = plan.runs.iter().filter(is_traffic).peekable();
    let Some(first) = runs.peek().copied() else { return Err(Error::NothingToCapture) };
    let is_meant = |run: &&PlannedRun| match &choice.case {
        Some(case) => run.labels.to_string() == *case,
        None => run.at == first.at,
    };
    let mut cases: Vec<String> = Vec::new();
    let mut repeats = 0;
    let mut found = None;
    for run in runs {
        if is_meant(&run) {
            repeats = repeats.max(run.repeat);
            found = found.or((run.repeat == choice.repeat).then_some(run));
        }
        let case = run.labels.to_string();
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    let Some(run) = found else {
        return Err(match &choice.case {
            Some(case) if repeats == 0 => Error::UnknownCase { case: case.clone(), known: cases.join("; ") },
            _ => Error::UnknownRepeat { repeat: choice.repeat, repeats },
        });
    };
    let (index, cases) = &plan.cases[run.at.0];
    let routes = Arc::new(Routes::compute(&fabric.topology));
    let simulated = TrafficRun::new((fabric, &routes), &fabric.experiments[*index], &cases[run.at.1], run, &options)?;
    Ok(then(&CapturedRun { run, simulated }))
}

/// A run that can be captured.
pub struct CapturedRun<'a> {
    run: &'a PlannedRun,
    simulated: TrafficRun<'a>,
}

impl CapturedRun<'_> {
    /// Its network: bonds may have other members in one case than in another.
    pub fn topology(&self) -> &Topology {
        &self.fabric().topology
    }

    /// The same with all else that its file says.
    pub fn fabric(&self) -> &Fabric {
        &self.simulated.fabric
    }

    /// What it is called: `scatter, ecmp, run 1`.
    pub fn name(&self) -> String {
        format!("{}, {}, run {}", self.run.experiment, self.run.labels, self.run.repeat)
    }

    /// Simulates it as long as `goes_on` says so, and shows each frame that passes one of these ports.
    pub fn simulate(&self, ports: &[(LinkId, Side)], show: &mut dyn FnMut(CapturedFrame), goes_on: &dyn Fn() -> bool) {
        sim::run_capturing(&self.simulated.scenario(), goes_on, &mut Capturing { ports, show });
    }
}
