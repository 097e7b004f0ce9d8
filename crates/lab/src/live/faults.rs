//! Faults that are injected into links of a live run, at times since measuring began.

use std::time::{Duration, Instant};

use super::flow::FlowFailure;

/// Faults of one run, and how they are carried out.
pub(crate) struct Faults<'a> {
    /// When, by the time since measuring began; ascending.
    times: Vec<Duration>,
    /// Carries out the fault with this number.
    inject: &'a mut dyn FnMut(usize) -> Result<(), FlowFailure>,
}

impl<'a> Faults<'a> {
    /// Faults at these times.
    pub fn new(times: Vec<Duration>, inject: &'a mut dyn FnMut(usize) -> Result<(), FlowFailure>) -> Self {
        Self { times, inject }
    }

    /// Carries out each at its time. `wait` sleeps until a moment, and fails when the run has failed.
    pub fn carry_out(
        &mut self,
        begin: Instant,
        mut wait: impl FnMut(Instant) -> Result<(), FlowFailure>,
    ) -> Result<(), FlowFailure> {
        for (number, time) in self.times.iter().enumerate() {
            wait(begin + *time)?;
            (self.inject)(number)?;
        }
        Ok(())
    }
}
