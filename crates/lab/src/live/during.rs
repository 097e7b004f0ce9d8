//! What goes on while flows are measured: faults are injected into links at their times, and how things stand is recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::flow::FlowFailure;
use super::recorder::Recorder;

/// What goes on in one run.
pub(crate) struct During<'a> {
    /// When, by the time since measuring began; ascending.
    fault_times: Vec<Duration>,
    /// Carries out the fault with this number.
    inject: &'a mut dyn FnMut(usize) -> Result<(), FlowFailure>,
    recorder: Option<&'a mut Recorder>,
    /// Set by somebody who wants it to end.
    interrupted: Arc<AtomicBool>,
}

/// How often it is looked whether it shall end.
const POLL: Duration = Duration::from_millis(50);

impl<'a> During<'a> {
    /// Faults at these times, and a recorder where there is one.
    pub fn new(
        fault_times: Vec<Duration>,
        inject: &'a mut dyn FnMut(usize) -> Result<(), FlowFailure>,
        recorder: Option<&'a mut Recorder>,
    ) -> Self {
        Self { fault_times, inject, recorder, interrupted: Arc::default() }
    }

    /// It fails soon after this has been set.
    #[must_use]
    pub fn until(self, interrupted: Arc<AtomicBool>) -> Self {
        Self { interrupted, ..self }
    }

    /// Waits until a moment before that; `wait` as in [`Self::pass`].
    pub fn wait_until(
        &self,
        moment: Instant,
        mut wait: impl FnMut(Instant) -> Result<(), FlowFailure>,
    ) -> Result<(), FlowFailure> {
        wait_until(&self.interrupted, moment, &mut wait)
    }

    /// Sees to all of it from `begin` until `duration` has passed. `wait` sleeps until a moment, and fails when the run has failed.
    pub fn pass(
        &mut self,
        begin: Instant,
        duration: Duration,
        mut wait: impl FnMut(Instant) -> Result<(), FlowFailure>,
    ) -> Result<(), FlowFailure> {
        let mut wait = |moment| wait_until(&self.interrupted, moment, &mut wait);
        let mut faults = || {
            for (number, time) in self.fault_times.iter().enumerate() {
                wait(begin + *time)?;
                (self.inject)(number)?;
            }
            wait(begin + duration)
        };
        let Some(recorder) = &mut self.recorder else { return faults() };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let recording = scope.spawn(|| recorder.record(begin, duration, &stop));
            let passed = faults();
            stop.store(passed.is_err(), Ordering::Relaxed);
            let recorded = recording.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            passed.and(recorded)
        })
    }
}

/// Waits until a moment, and fails soon after `interrupted` has been set.
fn wait_until(
    interrupted: &AtomicBool,
    moment: Instant,
    wait: &mut impl FnMut(Instant) -> Result<(), FlowFailure>,
) -> Result<(), FlowFailure> {
    loop {
        if interrupted.load(Ordering::Relaxed) {
            let (flow, host) = (String::new(), String::new());
            return Err(FlowFailure { flow, host, message: "interrupted".to_owned() });
        }
        let next = moment.min(Instant::now() + POLL);
        wait(next)?;
        if next == moment {
            return Ok(());
        }
    }
}
