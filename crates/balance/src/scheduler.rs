//! Who gets the next connection: a module for each scheduler, all behind one trait.

mod least;
mod round_robin;
pub(crate) mod schedule;

use schedule::Schedule;

use crate::config::{Scheduler, ServiceSpec};

/// The scheduler that a service asks for.
pub(crate) fn new(spec: &ServiceSpec) -> Box<dyn Schedule> {
    match spec.scheduler {
        Scheduler::Rr => Box::new(round_robin::RoundRobin::default()),
        Scheduler::Lc => Box::new(least::LeastConnections),
    }
}
