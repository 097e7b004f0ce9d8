//! A load on a cluster: many clients, each with connections of its own, each asking one thing after another.
//!
//! All clients live in one thread and one event loop, so that a single core can load a cluster.

use machine::nanos::Time;
use store::protocol::{Answer, Error as RequestError};
use workload::{Load, LoadConfig, Next, Script, Tally};

use super::clock::BootClock;
use super::drive::{Target, drive};
use super::{Error, Tls};

/// How a load goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// As before.
    GoOn,
    /// Nothing more is asked; what is under way is waited for.
    AskNoMore,
    /// It ends with what has been answered.
    Leave,
}

/// Puts the load on a cluster; returns when the last request has its answer. Each client begins at another of the endpoints. `progress` is
/// shown what has been answered, again and again, and says how to go on.
///
/// # Errors
/// [`Error::System`] if the event loop fails. Requests that fail are counted.
pub fn load(
    config: &LoadConfig,
    on: &Target,
    tls: Option<&Tls>,
    progress: impl FnMut(&Tally) -> Course,
) -> Result<Tally, Error> {
    let from = |first: usize| {
        let mut endpoints = on.endpoints.clone();
        endpoints.rotate_left(first);
        Target { endpoints, client: on.client.clone() }
    };
    let targets: Vec<Target> = (0..on.endpoints.len()).map(from).collect();
    let clock = BootClock::start();
    let load = Load::new(config.clone(), targets.len().max(1), clock.now());
    let mut watched = Watched { load, progress, is_left: false };
    drive(&clock, config.clients as usize, &targets, tls, &mut watched)?;
    Ok(watched.load.finish(clock.now()))
}

/// A load that somebody may stop.
struct Watched<F> {
    load: Load,
    progress: F,
    is_left: bool,
}

impl<F: FnMut(&Tally) -> Course> Watched<F> {
    fn look(&mut self) {
        match (self.progress)(self.load.tally()) {
            Course::GoOn => {}
            Course::AskNoMore => self.load.stop(),
            Course::Leave => self.is_left = true,
        }
    }
}

impl<F: FnMut(&Tally) -> Course> Script for Watched<F> {
    fn next(&mut self, client: usize, now: Time) -> Next {
        self.look();
        self.load.next(client, now)
    }

    fn answered(&mut self, client: usize, now: Time, result: Result<Answer, RequestError>) {
        self.load.answered(client, now, result);
        self.look();
    }

    fn is_left(&mut self, _now: Time) -> bool {
        self.look();
        self.is_left
    }
}
