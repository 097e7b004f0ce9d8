//! Load for a cluster: many clients, each with connections of its own, each asking one thing after another.
//!
//! All clients live in one thread and one event loop, so that a single core can load a cluster; and a latency is measured from before the
//! request is encoded to after its answer is decoded.

use std::collections::HashMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use machine::Rng;
use machine::nanos::{Span, Time};
use mio::{Events, Poll, Token};
use store::client::{ClientConfig, Input, Output};
use store::protocol::{Answer, Consistency, RequestBody};
use tree::{Change, Location, Path, Transaction};

use super::caller::{Caller, Tokens};
use super::clock::{BootClock, random_bits};
use super::{Error, Tls};

/// The longest latency that the histogram tells apart, in nanoseconds.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Writes a car that is not there.
    Create,
    /// Reads a car, linearizably.
    Read,
    /// Reads a car from whatever the asked server has.
    StaleRead,
    /// Writes a car that is there.
    Update,
    /// Takes a car away.
    Delete,
    /// Calls `people:add-person`, routed to whoever offers it.
    Rpc,
    /// Writes a value, whether there is one or not.
    Put,
}

impl Operation {
    /// All, by name.
    pub const ALL: [(&'static str, Self); 7] = [
        ("create", Self::Create),
        ("read", Self::Read),
        ("stale-read", Self::StaleRead),
        ("update", Self::Update),
        ("delete", Self::Delete),
        ("rpc", Self::Rpc),
        ("put", Self::Put),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, operation)| *operation == self).expect("all are listed").0
    }
}

/// What load there is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// `host:port`s. The first one is asked when `client` stays at its endpoint.
    pub endpoints: Vec<String>,
    /// Clients at the same time.
    pub clients: u32,
    /// Requests of all clients together.
    pub requests: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// What is asked.
    pub operation: Operation,
    /// Numbers of the cars (and people) begin here; client `n` of `clients` has every `clients`-th from `first_key + n` on.
    pub first_key: u64,
    /// After so many numbers they begin anew.
    pub keys: u64,
    /// What the values are below, instead of the cars.
    pub below: Option<Path>,
    /// A client does not ask more often than this; zero: as often as it is answered.
    pub every: Duration,
    /// How the clients behave.
    pub client: ClientConfig,
    /// A request that is not answered by then has failed.
    pub timeout: Duration,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Latencies of all requests that succeeded, in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// The same, in the order of their answers.
    pub latencies_ns: Vec<u64>,
    /// From the first request to the last answer.
    pub duration: Duration,
    /// Requests that failed, and the words of the first that did.
    pub failed: u64,
    /// See `failed`.
    pub first_failure: Option<String>,
}

impl Load {
    fn path(&self, key: u64) -> Path {
        let key = self.first_key + (key - self.first_key) % self.keys.max(1);
        if let Some(below) = &self.below {
            // As long as a path may be, unless it is itself as long as one may be.
            return below.child("request", &[&key.to_string()]).unwrap_or_else(|_| below.clone());
        }
        let (list, entry) = match self.operation {
            Operation::Rpc => ("/people:people", "person"),
            _ => ("/car:cars", "car-entry"),
        };
        Path::parse(&format!("{list}/{entry}={key}")).expect("it is one")
    }

    fn body(&self, key: u64) -> RequestBody {
        let path = self.path(key);
        let value = || vec![b'v'; self.value_bytes].as_slice().into();
        let at = Location::config(path);
        match self.operation {
            Operation::Create => RequestBody::Write(Transaction::of(Change::Create { at, value: value() })),
            Operation::Update => RequestBody::Write(Transaction::of(Change::Replace { at, value: value() })),
            Operation::Put => RequestBody::Write(Transaction::of(Change::Put { at, value: value() })),
            Operation::Delete => RequestBody::Write(Transaction::of(Change::Delete { at })),
            Operation::Read => RequestBody::Get { at, consistency: Consistency::Linearizable },
            Operation::StaleRead => RequestBody::Get { at, consistency: Consistency::Stale },
            Operation::Rpc => RequestBody::Call {
                name: "people:add-person".into(),
                path: Some(at.path),
                input: vec![b'v'; self.value_bytes],
                idempotent: false,
            },
        }
    }
}

struct Worker {
    caller: Caller,
    /// The next car.
    key: u64,
    left: u64,
    asked: Time,
    /// When it asks next; `None` while it waits for an answer.
    asks_at: Option<Time>,
    /// When it was to ask last.
    due: Time,
}

/// Runs the load; returns when the last request has its answer.
///
/// # Errors
/// [`Error::System`] if the event loop fails. Requests that fail are counted.
pub fn run(load: &Load, tls: Option<&Tls>) -> Result<Measured, Error> {
    run_with(load, tls, |_| true)
}

/// The same; `progress` is told how many requests have been answered, each time that some have, and says whether to go on: if not,
/// what is under way is waited for, and nothing more asked.
///
/// # Errors
/// As of [`run`].
pub fn run_with(load: &Load, tls: Option<&Tls>, mut progress: impl FnMut(u64) -> bool) -> Result<Measured, Error> {
    let mut poll = Poll::new().map_err(Error::system("make an event loop"))?;
    let mut events = Events::with_capacity(1_024);
    let mut tokens = Tokens::from(0);
    let mut owners: HashMap<Token, usize> = HashMap::new();
    let clock = BootClock::start();
    let mut measured = Measured {
        latency_ns: Histogram::new_with_max(LATENCY_NS_MAX, 3).expect("the bounds are valid"),
        latencies_ns: Vec::with_capacity(load.requests as usize),
        duration: Duration::ZERO,
        failed: 0,
        first_failure: None,
    };
    let mut workers: Vec<Worker> = (0..u64::from(load.clients)).map(|n| worker(load, n, tls)).collect();
    let mut touched: Vec<usize> = (0..workers.len()).collect();
    let begun = clock.now();
    let every = Span::from_ns(load.every.as_nanos() as u64);
    for (n, worker) in workers.iter_mut().enumerate() {
        // Evenly, not all at once.
        worker.due = begun + every / u64::from(load.clients.max(1)) * n;
        worker.asks_at = Some(worker.due);
    }
    // When each worker has to be looked at again. Most of them stand far behind the next answer.
    let mut wakes = vec![Time::NEVER; workers.len()];
    loop {
        for index in touched.drain(..) {
            let wake = workers[index].turn(clock, load, poll.registry(), &mut tokens, &mut measured, |token| {
                owners.insert(token, index);
            });
            wakes[index] = wake;
        }
        if !progress(measured.latencies_ns.len() as u64 + measured.failed) {
            workers.iter_mut().for_each(Worker::finish);
        }
        if workers.iter().all(|worker| worker.left == 0) {
            measured.duration = Duration::from_nanos(clock.now().since(begun).as_ns());
            return Ok(measured);
        }
        let wake = wakes.iter().min().copied().expect("there is a client");
        let timeout = Duration::from_nanos(wake.since(clock.now()).as_ns() + 1);
        match poll.poll(&mut events, Some(timeout)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            outcome => outcome.map_err(Error::system("wait for events"))?,
        }
        let now = clock.now();
        for event in &events {
            if let Some(&index) = owners.get(&event.token()) {
                workers[index].caller.ready(now, poll.registry(), event.token(), Some(event));
                if touched.last() != Some(&index) {
                    touched.push(index);
                }
            }
        }
        touched.extend((0..workers.len()).filter(|&index| wakes[index] <= now));
    }
}

fn worker(load: &Load, n: u64, tls: Option<&Tls>) -> Worker {
    let session = random_bits();
    let clients = u64::from(load.clients);
    // Each client begins at another endpoint.
    let mut endpoints = load.endpoints.clone();
    let first = n as usize % endpoints.len().max(1);
    endpoints.rotate_left(first);
    let caller = Caller::new(session, endpoints, Rng::new(session), load.client.clone(), tls.cloned());
    let left = load.requests / clients + u64::from(n < load.requests % clients);
    Worker { caller, key: load.first_key + n, left, asked: Time::ZERO, asks_at: None, due: Time::ZERO }
}

impl Worker {
    /// Asks nothing more.
    fn finish(&mut self) {
        let is_waiting = self.asks_at.is_none();
        self.left = self.left.min(u64::from(is_waiting));
    }

    /// Asks, if it is time.
    fn ask(&mut self, now: Time, load: &Load) {
        if self.left == 0 || self.asks_at.is_none_or(|at| at > now) {
            return;
        }
        self.asks_at = None;
        let timeout = Span::from_ns(load.timeout.as_nanos() as u64);
        self.asked = now;
        self.caller.handle(now, Input::Request { token: self.key, body: load.body(self.key), timeout });
    }

    /// Goes on until the client waits for its server.
    fn turn(
        &mut self,
        clock: BootClock,
        load: &Load,
        registry: &mio::Registry,
        tokens: &mut Tokens,
        measured: &mut Measured,
        mut opened: impl FnMut(Token),
    ) -> Time {
        loop {
            if self.left == 0 {
                return Time::NEVER;
            }
            self.ask(clock.now(), load);
            let mut answer = None;
            for token in self.caller.unfinished() {
                self.caller.ready(clock.now(), registry, token, None);
            }
            let told = |output| {
                if let Output::Answer { result, .. } = output {
                    answer = Some(result);
                }
            };
            let wake = self.caller.drain(clock.now(), registry, tokens, told, &mut opened);
            let Some(result) = answer else { return self.asks_at.map_or(wake, |at| at.min(wake)) };
            let now = clock.now();
            measured.count(now.since(self.asked), result, load.operation);
            self.left -= 1;
            self.key += u64::from(load.clients);
            // Whoever is late asks at once, until it has made up for it.
            self.due += Span::from_ns(load.every.as_nanos() as u64);
            self.asks_at = Some(self.due);
        }
    }
}

impl Measured {
    fn count(&mut self, latency: Span, result: Result<Answer, store::protocol::Error>, operation: Operation) {
        let failure = match result {
            Ok(Answer::Value(None)) if matches!(operation, Operation::Read) => Some("a car is missing".to_owned()),
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        match failure {
            None => {
                self.latency_ns.saturating_record(latency.as_ns().max(1));
                self.latencies_ns.push(latency.as_ns());
            }
            Some(failure) => {
                self.failed += 1;
                self.first_failure.get_or_insert(failure);
            }
        }
    }

    /// Takes the results of another run in, as if it had come after this one.
    pub fn add(&mut self, other: &Self) {
        self.latency_ns.add(&other.latency_ns).expect("both have the same bounds");
        self.latencies_ns.extend(&other.latencies_ns);
        self.duration += other.duration;
        self.failed += other.failed;
        self.first_failure = self.first_failure.take().or_else(|| other.first_failure.clone());
    }

    /// Requests that succeeded, a second.
    pub fn per_second(&self) -> f64 {
        self.latencies_ns.len() as f64 / self.duration.as_secs_f64().max(1e-9)
    }
}
