//! A run begins when its network's bonds have converged.

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
