//! Who gets the next connection: a module for each scheduler, all behind one trait.

mod hash;
mod learned;
mod least;
mod maglev;
mod peak_ewma;
mod prequal;
mod random;
mod round_robin;
pub(crate) mod schedule;
mod shortest_delay;
mod source_hash;
mod utilisation;
mod weighted_round_robin;

use schedule::Schedule;

use crate::config::{Scheduler, ServiceSpec};

/// The scheduler that a service asks for. ARR and ALC differ from RR and LC in who may get connections, which is not theirs to say.
pub(crate) fn new(spec: &ServiceSpec) -> Box<dyn Schedule> {
    let by_hash = hash::Options { has_port: spec.hash_port, has_fallback: spec.hash_fallback };
    match spec.scheduler {
        Scheduler::Rr | Scheduler::Arr => Box::new(round_robin::RoundRobin::default()),
        Scheduler::Wrr => Box::new(weighted_round_robin::WeightedRoundRobin::default()),
        Scheduler::Lc | Scheduler::Alc => Box::new(least::LeastConnections),
        Scheduler::Wlc => Box::new(least::WeightedLeastConnections),
        Scheduler::Sed => Box::new(shortest_delay::ShortestExpectedDelay),
        Scheduler::Nq => Box::new(shortest_delay::NeverQueue),
        Scheduler::Sh => Box::new(source_hash::SourceHash::new(by_hash)),
        Scheduler::Mh => Box::new(maglev::Maglev::new(by_hash)),
        Scheduler::P2c => Box::new(random::TwoAtRandom),
        Scheduler::PeakEwma => Box::new(peak_ewma::PeakEwma { half_life: spec.half_life }),
        Scheduler::Learned => Box::new(learned::Learned { half_life: spec.half_life }),
        Scheduler::Prequal => Box::new(prequal::Prequal::new(spec.half_life, spec.report_expiry)),
        Scheduler::Utilisation => Box::new(utilisation::Utilisation::new(spec.report_expiry, spec.blackout)),
    }
}
