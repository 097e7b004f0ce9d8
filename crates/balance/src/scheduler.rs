//! Who gets the next connection: a module for each scheduler, all behind one trait.

mod hash;
mod least;
mod maglev;
mod random;
mod round_robin;
pub(crate) mod schedule;
mod shortest_delay;
mod source_hash;
mod weighted_round_robin;

use schedule::Schedule;

use crate::config::{Scheduler, ServiceSpec};

/// The scheduler that a service asks for.
pub(crate) fn new(spec: &ServiceSpec) -> Box<dyn Schedule> {
    let by_hash = hash::Options { has_port: spec.hash_port, has_fallback: spec.hash_fallback };
    match spec.scheduler {
        Scheduler::Rr => Box::new(round_robin::RoundRobin::default()),
        Scheduler::Wrr => Box::new(weighted_round_robin::WeightedRoundRobin::default()),
        Scheduler::Lc => Box::new(least::LeastConnections),
        Scheduler::Wlc => Box::new(least::WeightedLeastConnections),
        Scheduler::Sed => Box::new(shortest_delay::ShortestExpectedDelay),
        Scheduler::Nq => Box::new(shortest_delay::NeverQueue),
        Scheduler::Sh => Box::new(source_hash::SourceHash::new(by_hash)),
        Scheduler::Mh => Box::new(maglev::Maglev::new(by_hash)),
        Scheduler::P2c => Box::new(random::TwoAtRandom),
    }
}
