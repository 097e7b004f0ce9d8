//! Clients that follow a script, in one thread and one event loop: a latency is measured from before the request is encoded to after its
//! answer is decoded, and no other thread has to wake up meanwhile.

use std::collections::HashMap;
use std::time::Duration;

use machine::Rng;
use machine::nanos::{Span, Time};
use mio::{Events, Poll, Registry, Token};
use store::client::{ClientConfig, Input, Output};
use workload::{Next, Script};

use super::caller::{Caller, Tokens};
use super::clock::{BootClock, random_bits};
use super::{Error, Tls};

/// A script is asked at least so often whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a client of a script connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `host:port`s. The first is asked first.
    pub endpoints: Vec<String>,
    /// How a client behaves that connects to it.
    pub client: ClientConfig,
}

/// Lets so many clients follow the script until all are done, or it leaves what is under way.
///
/// Times are those of `clock`. A client has a connection of its own to each target that it asks.
///
/// # Errors
/// [`Error::System`] if the event loop fails. Requests that fail are reported to the script.
pub fn drive(
    clock: &BootClock,
    clients: usize,
    targets: &[Target],
    tls: Option<&Tls>,
    script: &mut impl Script,
) -> Result<(), Error> {
    let mut poll = Poll::new().map_err(Error::system("make an event loop"))?;
    let mut events = Events::with_capacity(1_024);
    let mut tokens = Tokens::from(0);
    let mut owners: HashMap<Token, (usize, usize)> = HashMap::new();
    let mut workers: Vec<Worker> = (0..clients).map(|_| Worker::new(targets, tls)).collect();
    let mut touched: Vec<usize> = (0..clients).collect();
    let mut wakes = vec![Time::NEVER; clients];
    loop {
        let mut answered = false;
        for index in std::mem::take(&mut touched) {
            let opened = |target, token| {
                owners.insert(token, (index, target));
            };
            let turn = workers[index].turn(index, *clock, poll.registry(), &mut tokens, script, opened);
            wakes[index] = turn.wake;
            answered |= turn.answered;
        }
        if answered {
            touched.extend((0..clients).filter(|&index| workers[index].state == State::Waiting));
        }
        if workers.iter().all(|worker| worker.state == State::Done) || script.is_left(clock.now()) {
            return Ok(());
        }
        let wake = wakes.iter().min().copied().unwrap_or(Time::NEVER);
        let span = if touched.is_empty() { wake.since(clock.now()) } else { Span::ZERO };
        let timeout = Duration::from_nanos(span.as_ns().saturating_add(u64::from(touched.is_empty())));
        match poll.poll(&mut events, Some(timeout.min(LOOK_EVERY))) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            outcome => outcome.map_err(Error::system("wait for events"))?,
        }
        let now = clock.now();
        for event in &events {
            if let Some(&(index, target)) = owners.get(&event.token()) {
                if let Some(caller) = &mut workers[index].callers[target] {
                    caller.ready(now, poll.registry(), event.token(), Some(event));
                }
                if touched.last() != Some(&index) {
                    touched.push(index);
                }
            }
        }
        touched.extend((0..clients).filter(|&index| wakes[index] <= now));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Asked,
    Paused(Time),
    Waiting,
    Done,
}

struct Turn {
    wake: Time,
    answered: bool,
}

struct Worker<'a> {
    targets: &'a [Target],
    tls: Option<&'a Tls>,
    /// One for each target that was asked.
    callers: Vec<Option<Caller>>,
    state: State,
    /// Requests so far.
    asked: u64,
}

impl<'a> Worker<'a> {
    fn new(targets: &'a [Target], tls: Option<&'a Tls>) -> Self {
        Self { targets, tls, callers: targets.iter().map(|_| None).collect(), state: State::Idle, asked: 0 }
    }

    fn caller(&mut self, target: usize) -> &mut Caller {
        self.callers[target].get_or_insert_with(|| {
            let Target { endpoints, client } = &self.targets[target];
            let session = random_bits();
            Caller::new(session, endpoints.clone(), Rng::new(session), client.clone(), self.tls.cloned())
        })
    }

    /// Goes on until the client waits for something.
    fn turn(
        &mut self,
        index: usize,
        clock: BootClock,
        registry: &Registry,
        tokens: &mut Tokens,
        script: &mut impl Script,
        mut opened: impl FnMut(usize, Token),
    ) -> Turn {
        let mut answered = false;
        loop {
            self.go_on(index, clock.now(), script);
            let mut result = None;
            let mut wake = match self.state {
                State::Paused(until) => until,
                _ => Time::NEVER,
            };
            let callers = self.callers.iter_mut().enumerate();
            for (target, caller) in callers.filter_map(|(target, caller)| Some((target, caller.as_mut()?))) {
                for token in caller.unfinished() {
                    caller.ready(clock.now(), registry, token, None);
                }
                let deliver = |output| {
                    if let Output::Answer { result: this, .. } = output {
                        result = Some(this);
                    }
                };
                wake = wake.min(caller.drain(clock.now(), registry, tokens, deliver, |token| opened(target, token)));
            }
            let Some(result) = result else {
                let wake = if self.state == State::Done { Time::NEVER } else { wake };
                return Turn { wake, answered };
            };
            self.state = State::Idle;
            answered = true;
            script.answered(index, clock.now(), result);
        }
    }

    /// Asks the script if there is nothing else to do.
    fn go_on(&mut self, index: usize, now: Time, script: &mut impl Script) {
        let is_free = match self.state {
            State::Idle | State::Waiting => true,
            State::Paused(until) => until <= now,
            State::Asked | State::Done => false,
        };
        if !is_free {
            return;
        }
        self.state = match script.next(index, now) {
            Next::Ask { target, body, timeout } => {
                self.asked += 1;
                let token = self.asked;
                self.caller(target).handle(now, Input::Request { token, body, timeout });
                State::Asked
            }
            Next::Until(time) => State::Paused(time),
            Next::Wait => State::Waiting,
            Next::Done => State::Done,
        };
    }
}
