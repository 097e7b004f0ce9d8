//! A run begins when its network's bonds have converged, and the first one when the guests in its chains have booted.

use std::thread;
use std::time::{Duration, Instant};

use fabric::Fabric;
use live::Instance;

use crate::error::Error;
use crate::plan::PlannedRun;

/// Waits until bonds carry all that they can, [`live::CONVERGENCE_MAX`] at most. A run whose bonds do not goes on; the log says so.
pub(crate) fn wait_converged(network: &Instance, run: &PlannedRun) -> Result<(), Error> {
    for bond in network.wait_converged(|_| ())? {
        tracing::warn!("{}, {}, run {}: {bond}", run.experiment, run.labels, run.repeat);
    }
    Ok(())
}

/// How long the guests of a network may take to boot, all of them at once.
const BOOT_MAX: Duration = Duration::from_secs(60);

/// How often they are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits until all functions that are virtual machines have attached to their ports, [`BOOT_MAX`] at most. Runs begin all the same then; the log says so.
pub(crate) fn wait_booted(network: &Instance, fabric: &Fabric) -> Result<(), Error> {
    let is_guest = |name: &str| fabric.setups.get(name).is_some_and(|setup| setup.vm.is_some());
    let started = Instant::now();
    loop {
        let chains = network.counters()?.chains;
        let hops = chains.iter().flat_map(|chain| &chain.hops);
        let Some(down) = hops.into_iter().find(|hop| !hop.up && is_guest(&hop.function)) else { return Ok(()) };
        if started.elapsed() > BOOT_MAX {
            let seconds = BOOT_MAX.as_secs();
            tracing::warn!(
                "the virtual machine of function {} has not attached to its ports in {seconds} s",
                down.function
            );
            return Ok(());
        }
        thread::sleep(LOOK_EVERY);
    }
}
