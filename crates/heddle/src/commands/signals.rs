//! Signals that ask for an end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use miette::{IntoDiagnostic, Report};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Exit status of a program that was interrupted, as shells have it.
pub const INTERRUPTED: i32 = 130;

/// SIGINT, SIGTERM and SIGHUP set `interrupted`; the second one ends the program at once.
pub fn await_end(interrupted: &Arc<AtomicBool>) -> Result<(), Report> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order the first one finds it not set yet.
        flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(interrupted)).into_diagnostic()?;
        flag::register(signal, Arc::clone(interrupted)).into_diagnostic()?;
    }
    Ok(())
}
