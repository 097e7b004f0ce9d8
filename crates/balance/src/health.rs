//! Active health checks of a service's servers: when each is probed, and what follows of the results.
//!
//! A server that is up goes down after `fall` failures one after the other, and comes up after `rise` successes. A probe without a result in time has
//! failed; a result that comes later says nothing.
//!
//! A new server is taken for up, and its first failure takes it down, as with `HAProxy`: else a server that was never there would be used for a while.
//! Until its first success it *starts*: one success makes it up, as with Envoy, since there is no bad state that it might fall back to; and as programs begin
//! to listen some moments after the network is up, it is probed in quick succession for the first ten seconds.
//!
//! ```text
//!            first failure             success (the first ever)
//!   new, up ---------------> starting -------------------------> up <-------+
//!      |                                                          | fall     | rise
//!      +------ success ------------------------------------> up   +--> down -+
//! ```
//!
//! [`Health`] says when to probe whom. What a probe does is a [`Check`], which its driver carries out; what an answer says is read here, too: [`http`], `dns`, [`grpc`].

mod bad_answer;
mod check;
mod dns;
pub mod grpc;
pub mod http;

pub use bad_answer::BadAnswer;
pub use check::{Check, DnsCheck, HttpCheck, RecordType, Trust};
pub use dns::MESSAGE_MAX;

use machine::{Control, Rebase, Rng, Span, Step, Time};

/// How servers are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSpec {
    /// What a probe does.
    pub check: Check,
    /// Another port than the server's own.
    pub port: Option<u16>,
    /// From probe to probe.
    pub interval: Span,
    /// The same while a server is about to go down or to come up.
    pub fast_interval: Span,
    /// The same while it is down.
    pub down_interval: Span,
    /// A probe without a result after this time has failed.
    pub timeout: Span,
    /// Successes one after the other until a server is up.
    pub rise: u32,
    /// Failures one after the other until it is down.
    pub fall: u32,
    /// Intervals are longer or shorter by up to this share, so that probes of many balancers don't meet.
    pub jitter_permille: u32,
}

impl HealthSpec {
    /// Checks every two seconds, two successes, three failures: the defaults of `HAProxy`.
    pub fn new(check: Check) -> Self {
        Self {
            check,
            port: None,
            interval: Span::from_secs(2),
            fast_interval: Span::from_secs(2),
            down_interval: Span::from_secs(2),
            timeout: Span::from_secs(2),
            rise: 2,
            fall: 3,
            jitter_permille: 100,
        }
    }

    /// Finds what is wrong with it.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn check(&self) -> Result<(), HealthError> {
        let shortest = self.interval.min(self.fast_interval).min(self.down_interval).min(self.timeout);
        if shortest < Span::from_ms(1) {
            return Err(HealthError("intervals and timeout are 1 ms at least"));
        }
        if self.rise == 0 || self.fall == 0 {
            return Err(HealthError("rise and fall are 1 at least"));
        }
        if self.jitter_permille > 1_000 {
            return Err(HealthError("jitter is 100 % at most"));
        }
        Ok(())
    }
}

/// A server without a success is probed in quick succession for so long.
pub const START_TIME: Span = Span::from_secs(10);

/// From probe to probe at the beginning of that time. Later it is a tenth of what has passed, so that a check that takes a program of its own costs little where nobody will ever answer.
const START_INTERVAL: Span = Span::from_ms(100);

/// A setting of a health check makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("health check: {0}")]
pub struct HealthError(&'static str);

/// What a driver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<K> {
    /// A server is to be checked.
    Add(K),
    /// It no longer is.
    Remove(K),
    /// A probe has had a result.
    Result {
        /// The server.
        server: K,
        /// The number of the probe.
        probe: u64,
        /// Whether it was good.
        is_good: bool,
    },
}

/// What a driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output<K> {
    /// Probe this server now.
    Probe {
        /// The server.
        server: K,
        /// Which probe it is, for [`Input::Result`].
        probe: u64,
        /// When its result is no longer of interest.
        deadline: Time,
    },
    /// The server is up again: see [`crate::Service::set_healthy`].
    Up(K),
    /// The server is down.
    Down(K),
}

/// The health of a service's servers, by whatever its driver knows them by.
#[derive(Clone, Debug)]
pub struct Health<K> {
    spec: HealthSpec,
    rng: Rng,
    servers: Vec<Checked<K>>,
    probes: u64,
}

/// One server.
#[derive(Clone, Debug)]
struct Checked<K> {
    server: K,
    is_up: bool,
    /// Whether the driver has been notified that it is up or down.
    is_notified: bool,
    /// When it was added, until its first success.
    starts_since: Option<Time>,
    /// Results one after the other that speak for a change.
    against: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The next probe is due then.
    Waiting { until: Time },
    /// A probe is under way.
    Probing { probe: u64, began: Time, deadline: Time },
}

impl<K: Copy + PartialEq> Health<K> {
    /// Checks nobody yet.
    ///
    /// # Errors
    /// What is wrong with the specification.
    pub fn new(spec: HealthSpec, seed: u64) -> Result<Self, HealthError> {
        spec.check()?;
        Ok(Self { spec, rng: Rng::new(seed), servers: Vec::new(), probes: 0 })
    }

    /// What and how often is checked.
    pub const fn spec(&self) -> &HealthSpec {
        &self.spec
    }

    /// Whether a server is up; nothing if it is not checked.
    pub fn is_up(&self, server: K) -> Option<bool> {
        self.servers.iter().find(|checked| checked.server == server).map(|checked| checked.is_up)
    }

    /// Whether a server has had no success yet, and is new: no failure of it says that something is wrong.
    pub fn is_starting(&self, now: Time, server: K) -> bool {
        let checked = self.servers.iter().find(|checked| checked.server == server);
        checked.and_then(|checked| checked.starts_since).is_some_and(|since| now.since(since) < START_TIME)
    }

    fn add(&mut self, now: Time, server: K) {
        if self.is_up(server).is_some() {
            return;
        }
        // The first probes of many servers are spread over an interval.
        let spread = self.spec.interval.min(START_INTERVAL);
        let delay = Span::from_ps((spread.as_ps() as f64 * self.rng.fraction()) as u64);
        let state = State::Waiting { until: now + delay };
        let against = self.spec.fall - 1;
        self.servers.push(Checked { server, is_up: true, is_notified: true, starts_since: Some(now), against, state });
    }

    fn result(&mut self, now: Time, place: usize, is_good: bool) {
        let State::Probing { began, .. } = self.servers[place].state else { return };
        let checked = &mut self.servers[place];
        let is_first = is_good && checked.starts_since.take().is_some();
        if is_good == checked.is_up {
            checked.against = 0;
        } else {
            checked.against += 1;
            let enough = match (checked.is_up, is_first) {
                (true, _) => self.spec.fall,
                (false, false) => self.spec.rise,
                (false, true) => 1,
            };
            if checked.against >= enough {
                checked.is_up = is_good;
                checked.is_notified = !checked.is_notified;
                checked.against = 0;
            }
        }
        let interval = match checked {
            Checked { against: 1.., .. } => self.spec.fast_interval,
            Checked { is_up: true, .. } => self.spec.interval,
            Checked { is_up: false, .. } => self.spec.down_interval,
        };
        let passed = checked.starts_since.map(|since| now.since(since)).filter(|passed| *passed < START_TIME);
        let interval = passed.map_or(interval, |passed| {
            let tenth = Span::from_ps(passed.as_ps() / 10);
            interval.min(START_INTERVAL.max(tenth))
        });
        // From 1 - jitter to 1 + jitter.
        let jitter = self.spec.jitter_permille;
        let permille = 1_000 + self.rng.below(2 * jitter + 1) - jitter;
        let length = Span::from_ps((u128::from(interval.as_ps()) * u128::from(permille) / 1_000) as u64);
        checked.state = State::Waiting { until: (began + length).max(now) };
    }
}

impl<K: Copy + PartialEq> Control for Health<K> {
    type Input = Input<K>;
    type Output = Output<K>;

    fn handle(&mut self, now: Time, input: Input<K>) {
        match input {
            Input::Add(server) => self.add(now, server),
            Input::Remove(server) => self.servers.retain(|checked| checked.server != server),
            Input::Result { server, probe: number, is_good } => {
                let is_this = |checked: &Checked<K>| {
                    let State::Probing { probe, deadline, .. } = checked.state else { return false };
                    checked.server == server && probe == number && now < deadline
                };
                if let Some(place) = self.servers.iter().position(is_this) {
                    self.result(now, place, is_good);
                }
            }
        }
    }

    fn poll(&mut self, now: Time) -> Step<Output<K>> {
        let mut next = Time::NEVER;
        for place in 0..self.servers.len() {
            if matches!(self.servers[place].state, State::Probing { deadline, .. } if now >= deadline) {
                self.result(now, place, false);
            }
            let checked = &mut self.servers[place];
            let server = checked.server;
            if !checked.is_notified {
                checked.is_notified = true;
                return Step::Do(if checked.is_up { Output::Up(server) } else { Output::Down(server) });
            }
            match checked.state {
                State::Waiting { until } if now >= until => {
                    let (probe, deadline) = (self.probes, now + self.spec.timeout);
                    self.probes += 1;
                    checked.state = State::Probing { probe, began: now, deadline };
                    return Step::Do(Output::Probe { server, probe, deadline });
                }
                State::Waiting { until } => next = next.min(until),
                State::Probing { deadline, .. } => next = next.min(deadline),
            }
        }
        Step::Wait(next)
    }
}

impl<K> Rebase for Health<K> {
    fn rebase(&mut self, by: Span) {
        let Self { spec: _, rng: _, servers, probes: _ } = self;
        for Checked { server: _, is_up: _, is_notified: _, starts_since, against: _, state } in servers {
            if let Some(since) = starts_since {
                since.rebase(by);
            }
            match state {
                State::Waiting { until } => until.rebase(by),
                State::Probing { probe: _, began, deadline } => {
                    began.rebase(by);
                    deadline.rebase(by);
                }
            }
        }
    }
}
