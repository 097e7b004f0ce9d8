//! The event queue and simulated hosts.
#![forbid(unsafe_code)]

mod run;

pub use run::{FlowOutcome, FlowSpec, LinkOutcome, Outcome, Scenario, run};
