//! A server of a service: which requests it works on, which wait, which it refuses, and the faults that an experiment injects.
//!
//! ```text
//!              arrive            Begin                      finish
//!   a request --------> queue --------> at most so many at --------> answered
//!                 |       bounded       a time, within the
//!                 |                     memory that there is
//!                 +---> Refuse: the queue is full, or memory
//! ```
//!
//! What always holds: no more than [`ServerSpec::at_a_time`] requests are worked on, they take no more than [`ServerSpec::memory_limit`] together, and no more than
//! [`ServerSpec::queue_max`] wait, first come, first served.

use std::collections::{BTreeMap, VecDeque};

use machine::{Rng, Span, Time};
use serde::Serialize;

use super::distribution::Distribution;
use super::quantity::Share;

/// What happens to a request for which there is no memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WithoutMemory {
    /// It waits until others have ended.
    #[default]
    Wait,
    /// It is refused.
    Refuse,
}

/// Faults of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// Requests of this share fail.
    pub fail: Share,
    /// They do so at once, without work and without waiting.
    pub fail_fast: bool,
    /// Requests of this share are never answered.
    pub hang: Share,
    /// Work takes so many times as long, in hundredths.
    pub slow_percent: u32,
    /// From this time on after the start.
    pub from: Span,
    /// Until this time.
    pub until: Span,
}

impl Default for Faults {
    /// None.
    fn default() -> Self {
        let (from, until) = (Span::ZERO, Time::NEVER.since(Time::ZERO));
        Self { fail: Share::NONE, fail_fast: false, hang: Share::NONE, slow_percent: 100, from, until }
    }
}

/// A server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerSpec {
    /// So many requests are worked on at a time; any number if nothing is said.
    pub at_a_time: Option<u32>,
    /// So many wait.
    pub queue_max: u32,
    /// Bytes of memory that they may take together.
    pub memory_limit: Option<u64>,
    /// What happens to a request that would take more.
    pub without_memory: WithoutMemory,
    /// Memory of a request that does not say it, in bytes.
    pub size: Option<Distribution>,
    /// Duration of one that does not say it, in nanoseconds.
    pub duration: Option<Distribution>,
    /// What goes wrong.
    pub faults: Faults,
}

/// Why a request gets no work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many wait.
    QueueFull,
    /// It takes more memory than there is.
    Memory,
    /// It was to fail at once.
    Failed,
}

/// What is to be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Work on it, then say that it is finished.
    Begin {
        /// Which.
        id: u64,
        /// Memory to take, in bytes.
        size: u64,
        /// How long to work.
        lasts: Span,
        /// Whether its answer is then an error.
        fails: bool,
    },
    /// Answer it with an error.
    Refuse {
        /// Which.
        id: u64,
        /// Why.
        refusal: Refusal,
    },
}

/// What a server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// Requests that came.
    pub arrived: u64,
    /// Those that were worked on to the end, and answered.
    pub answered: u64,
    /// Those of them whose answer was an error.
    pub failed: u64,
    /// Those that were refused since too many waited.
    pub refused_queue: u64,
    /// Those that were refused since there was no memory.
    pub refused_memory: u64,
    /// Those that failed at once.
    pub failed_fast: u64,
    /// Those that are never answered.
    pub hung: u64,
    /// Those whose client went before.
    pub withdrawn: u64,
    /// The most that waited at a time.
    pub queued_max: u64,
    /// The most bytes that were taken at a time.
    pub memory_max: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    size: u64,
    lasts: Span,
    fails: bool,
}

/// A server under way.
#[derive(Debug)]
pub struct Server {
    spec: ServerSpec,
    started: Time,
    sizes: Rng,
    durations: Rng,
    faults: Rng,
    queue: VecDeque<Waiting>,
    /// Memory of each that is worked on, by its number.
    working: BTreeMap<u64, Waiting>,
    memory_used: u64,
    refused: VecDeque<(u64, Refusal)>,
    counts: ServerCounts,
}

impl Server {
    /// A server that starts now.
    pub fn new(spec: ServerSpec, now: Time, seed: u64) -> Self {
        let rng = Rng::new(seed);
        let [sizes, durations, faults] = [0, 1, 2].map(|label| rng.fork(label));
        Self {
            spec,
            started: now,
            sizes,
            durations,
            faults,
            queue: VecDeque::new(),
            working: BTreeMap::new(),
            memory_used: 0,
            refused: VecDeque::new(),
            counts: ServerCounts::default(),
        }
    }

    fn is_faulty(&self, now: Time) -> bool {
        let since = now.since(self.started);
        self.spec.faults.from <= since && since < self.spec.faults.until
    }

    /// A request comes, whose number no other one has that is here. What it does not say of itself is drawn.
    pub fn arrive(&mut self, now: Time, id: u64, size: Option<u64>, lasts: Option<Span>) {
        self.counts.arrived += 1;
        let size = size.unwrap_or_else(|| self.spec.size.map_or(0, |it| it.draw(&mut self.sizes)));
        let drawn = |rng| Span::from_ns(self.spec.duration.map_or(0, |it| it.draw(rng)));
        let lasts = lasts.unwrap_or_else(|| drawn(&mut self.durations));
        let Faults { fail, fail_fast, hang, .. } = self.spec.faults;
        let is_faulty = self.is_faulty(now);
        let [hangs, fails] = [hang, fail].map(|share| is_faulty && share.draw(&mut self.faults));
        if hangs {
            self.counts.hung += 1;
        } else if fails && fail_fast {
            self.counts.failed_fast += 1;
            self.refused.push_back((id, Refusal::Failed));
        } else {
            self.admit(Waiting { id, size, lasts, fails });
        }
    }

    fn admit(&mut self, request: Waiting) {
        let limit = self.spec.memory_limit.unwrap_or(u64::MAX);
        let refuses = self.spec.without_memory == WithoutMemory::Refuse;
        if request.size > limit || (refuses && request.size > limit - self.memory_used) {
            self.counts.refused_memory += 1;
            self.refused.push_back((request.id, Refusal::Memory));
        } else if self.queue.is_empty() && self.fits(&request) {
            // `poll` takes it out at once: it is no part of those that wait.
            self.queue.push_back(request);
        } else if self.queue.len() >= self.spec.queue_max as usize {
            self.counts.refused_queue += 1;
            self.refused.push_back((request.id, Refusal::QueueFull));
        } else {
            self.queue.push_back(request);
            self.counts.queued_max = self.counts.queued_max.max(self.queue.len() as u64);
        }
    }

    fn fits(&self, request: &Waiting) -> bool {
        let has_slot = self.spec.at_a_time.is_none_or(|at_a_time| self.working.len() < at_a_time as usize);
        has_slot && request.size <= self.spec.memory_limit.unwrap_or(u64::MAX).saturating_sub(self.memory_used)
    }

    /// The next thing to do; called until there is nothing after each arrival, end and withdrawal.
    pub fn poll(&mut self, now: Time) -> Option<Action> {
        if let Some((id, refusal)) = self.refused.pop_front() {
            return Some(Action::Refuse { id, refusal });
        }
        let first = *self.queue.front()?;
        if !self.fits(&first) {
            return None;
        }
        self.queue.pop_front();
        self.working.insert(first.id, first);
        self.memory_used += first.size;
        self.counts.memory_max = self.counts.memory_max.max(self.memory_used);
        let percent = if self.is_faulty(now) { self.spec.faults.slow_percent } else { 100 };
        let lasts = first.lasts * u64::from(percent) / 100;
        Some(Action::Begin { id: first.id, size: first.size, lasts, fails: first.fails })
    }

    /// The work on a request is done, and its memory free.
    pub fn finish(&mut self, id: u64) {
        if let Some(done) = self.working.remove(&id) {
            self.memory_used -= done.size;
            self.counts.answered += 1;
            self.counts.failed += u64::from(done.fails);
        }
    }

    /// The client of a request has gone. What waits is forgotten; what is worked on goes on to its end, since no server notices before, and is then
    /// [finished](Self::finish).
    pub fn withdraw(&mut self, id: u64) {
        self.counts.withdrawn += 1;
        if !self.working.contains_key(&id) {
            self.queue.retain(|waiting| waiting.id != id);
        }
    }

    /// What it has counted.
    pub const fn counts(&self) -> &ServerCounts {
        &self.counts
    }

    /// Counts from zero again, and times of [`Faults`] count from now.
    pub fn restart(&mut self, now: Time) {
        self.started = now;
        self.counts = ServerCounts::default();
    }

    /// How many wait.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Whether this one is worked on.
    pub fn is_working(&self, id: u64) -> bool {
        self.working.contains_key(&id)
    }

    /// How many are worked on.
    pub fn working(&self) -> usize {
        self.working.len()
    }

    /// Bytes that are taken.
    pub const fn memory_used(&self) -> u64 {
        self.memory_used
    }

    /// How much of its memory is taken, from 0 to 1; nothing if there is no limit.
    pub fn memory_utilisation(&self) -> Option<f64> {
        self.spec.memory_limit.filter(|&limit| limit > 0).map(|limit| self.memory_used as f64 / limit as f64)
    }

    /// How much of what it can do at a time is asked of it: above 1 if requests wait; nothing if there is no such limit.
    pub fn utilisation(&self) -> Option<f64> {
        let at_a_time = self.spec.at_a_time?;
        Some((self.working.len() + self.queue.len()) as f64 / f64::from(at_a_time))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Span = Span::from_ms(1);

    fn actions(server: &mut Server, now: Time) -> Vec<Action> {
        std::iter::from_fn(|| server.poll(now)).collect()
    }

    fn begins(id: u64, size: u64, lasts: Span) -> Action {
        Action::Begin { id, size, lasts, fails: false }
    }

    #[test]
    fn one_at_a_time_and_a_bounded_queue() {
        let spec = ServerSpec { at_a_time: Some(1), queue_max: 2, ..ServerSpec::default() };
        let mut server = Server::new(spec, Time::ZERO, 1);
        for id in 0..4 {
            server.arrive(Time::ZERO, id, Some(10), Some(MS));
            let expected = match id {
                0 => vec![begins(0, 10, MS)],
                3 => vec![Action::Refuse { id, refusal: Refusal::QueueFull }],
                _ => vec![],
            };
            assert_eq!(actions(&mut server, Time::ZERO), expected);
        }
        assert_eq!((server.working(), server.queued(), server.utilisation()), (1, 2, Some(3.0)));
        server.withdraw(1);
        server.finish(0);
        assert_eq!(actions(&mut server, Time::ZERO), [begins(2, 10, MS)]);
        server.finish(2);
        assert_eq!((server.counts().answered, server.counts().refused_queue, server.memory_used()), (2, 1, 0));
    }

    #[test]
    fn memory_is_waited_for_or_refused() {
        let spec = ServerSpec { memory_limit: Some(100), queue_max: 9, ..ServerSpec::default() };
        let mut server = Server::new(spec, Time::ZERO, 1);
        for (id, size) in [(0, 60), (1, 60), (2, 101)] {
            server.arrive(Time::ZERO, id, Some(size), Some(MS));
        }
        let too_large = Action::Refuse { id: 2, refusal: Refusal::Memory };
        assert_eq!(actions(&mut server, Time::ZERO), [too_large, begins(0, 60, MS)]);
        server.finish(0);
        assert_eq!(actions(&mut server, Time::ZERO), [begins(1, 60, MS)]);
        let refusing = ServerSpec { without_memory: WithoutMemory::Refuse, ..spec };
        let mut server = Server::new(refusing, Time::ZERO, 1);
        for id in 0..2 {
            server.arrive(Time::ZERO, id, Some(60), Some(MS));
            assert_eq!(actions(&mut server, Time::ZERO).len(), 1);
        }
        assert_eq!((server.counts().refused_memory, server.memory_utilisation()), (1, Some(0.6)));
    }

    #[test]
    fn faults_have_their_time() {
        let faults = Faults { slow_percent: 1_000, from: MS * 10, until: MS * 20, ..Faults::default() };
        let spec = ServerSpec { faults, duration: Some(Distribution::Fixed(1_000_000)), ..ServerSpec::default() };
        let mut server = Server::new(spec, Time::ZERO + MS, 1);
        for (ms, lasts_ms) in [(10, 1), (11, 10), (20, 10), (21, 1)] {
            let now = Time::ZERO + MS * ms;
            server.arrive(now, ms, None, None);
            assert_eq!(actions(&mut server, now), [begins(ms, 0, MS * lasts_ms)]);
        }
        server.restart(Time::ZERO + MS * 100);
        server.arrive(Time::ZERO + MS * 111, 9, None, None);
        assert_eq!(actions(&mut server, Time::ZERO + MS * 111), [begins(9, 0, MS * 10)]);
    }

    #[test]
    fn some_fail_and_some_hang() {
        let faults = Faults { fail: Share::percent(30), hang: Share::percent(20), ..Faults::default() };
        for fail_fast in [false, true] {
            let faults = Faults { fail_fast, ..faults };
            let mut server = Server::new(ServerSpec { faults, ..ServerSpec::default() }, Time::ZERO, 1);
            for id in 0..1_000 {
                server.arrive(Time::ZERO, id, None, None);
                for action in actions(&mut server, Time::ZERO) {
                    if let Action::Begin { id, .. } = action {
                        server.finish(id);
                    }
                }
            }
            let ServerCounts { failed, failed_fast, hung, .. } = *server.counts();
            assert!((150..250).contains(&hung) && (200..280).contains(&(failed + failed_fast)), "{hung} {failed}");
            assert_eq!(failed == 0, fail_fast);
        }
    }

    proptest! {
        /// Whatever comes, each request is somewhere, and the bounds hold.
        #[test]
        fn nothing_is_lost_and_bounds_hold(at_a_time in 1..4_u32, queue_max in 0..4_u32, limit in 50..200_u64, refuses: bool, steps in prop::collection::vec((0..3_u8, 0..220_u64), 0..200)) {
            let without_memory = if refuses { WithoutMemory::Refuse } else { WithoutMemory::Wait };
            let spec = ServerSpec { at_a_time: Some(at_a_time), queue_max, memory_limit: Some(limit), without_memory, ..ServerSpec::default() };
            let mut server = Server::new(spec, Time::ZERO, 1);
            let (mut working, mut waiting, mut refused) = (Vec::new(), Vec::new(), 0_u64);
            for (id, (step, size)) in steps.into_iter().enumerate() {
                match step {
                    0 if !working.is_empty() => server.finish(working.remove(0)),
                    1 if !waiting.is_empty() => server.withdraw(waiting.remove(0)),
                    _ => {
                        waiting.push(id as u64);
                        server.arrive(Time::ZERO, id as u64, Some(size), Some(MS));
                    }
                }
                for action in actions(&mut server, Time::ZERO) {
                    let (Action::Begin { id, .. } | Action::Refuse { id, .. }) = action;
                    waiting.retain(|other| *other != id);
                    match action {
                        Action::Begin { .. } => working.push(id),
                        Action::Refuse { .. } => refused += 1,
                    }
                }
                prop_assert!(server.working() <= at_a_time as usize && server.queued() <= queue_max as usize);
                prop_assert!(server.memory_used() <= limit);
                prop_assert_eq!((server.working(), server.queued()), (working.len(), waiting.len()));
                let counts = server.counts();
                prop_assert_eq!(counts.refused_queue + counts.refused_memory, refused);
            }
        }
    }
}
