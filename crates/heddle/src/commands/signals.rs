//! Signals that ask for an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use miette::{IntoDiagnostic, Report};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Exit status of a program that was interrupted, as shells have it.
pub const INTERRUPTED: i32 = 130;

/// What comes within so long is one signal: `timeout` sends it to the program, and then to its group.
const TOGETHER: Duration = Duration::from_secs(1);

/// SIGINT, SIGTERM and SIGHUP set `interrupted`; the second one ends the program at once.
pub fn await_end(interrupted: &Arc<AtomicBool>) -> Result<(), Report> {
    register(interrupted, interrupted)
}

/// The same for what takes a while to end, and loses something if it doesn't: the second one has to come a moment later, and it is said what that does.
pub fn await_slow_end(interrupted: &Arc<AtomicBool>, what_is_lost: &'static str) -> Result<(), Report> {
    let at_once = Arc::default();
    register(interrupted, &at_once)?;
    let interrupted = Arc::clone(interrupted);
    // It ends with the program.
    thread::spawn(move || {
        while !interrupted.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
        thread::sleep(TOGETHER);
        at_once.store(true, Ordering::Relaxed);
        eprintln!("Ending; interrupted once more, it ends at once, without {what_is_lost}");
    });
    Ok(())
}

/// Signals set `interrupted`, and end the program while `at_once` is set.
fn register(interrupted: &Arc<AtomicBool>, at_once: &Arc<AtomicBool>) -> Result<(), Report> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order the first one finds it not set yet.
        flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(at_once)).into_diagnostic()?;
        flag::register(signal, Arc::clone(interrupted)).into_diagnostic()?;
    }
    Ok(())
}
