//! The loop of a server.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use machine::{Span, Time};
use mio::{Token, Waker};

use super::connection::{Connection, Phase, Progress};
use super::listener::{Listener, Protocol};
use super::{Reply, Service, Ticket};
use crate::clock::{Clock, Poller};
use crate::error::Error;
use crate::http::Response;

/// Events that are taken at a time.
const EVENTS: usize = 1_024;
/// What is read at a time, in bytes.
const SCRATCH: usize = 64 << 10;
/// How often connections are looked at that have been silent, and whether an end is wanted.
const SWEEP: Span = Span::from_ms(100);
/// The token of the waker; listeners have those below it.
const WAKER: usize = 16;
/// The first token of a connection.
const FIRST: usize = 17;

/// How much clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections_max: u32,
    /// Who is closed when one more comes.
    pub when_full: WhenFull,
    /// A connection without a request is closed after this time.
    pub idle: Span,
    /// A request has to be complete, and an answer taken, within this time.
    pub progress: Span,
    /// At the end, so long is waited for answers that are not complete.
    pub grace: Span,
}

/// Which connection is closed when there are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The new one: whoever is there is served as well as before.
    CloseNew,
    /// The one that would be given up first of those that owe a request, so that silent clients keep nobody out; the new one if there is none.
    CloseIdle,
}

impl Default for Limits {
    fn default() -> Self {
        let (idle, progress) = (Span::from_secs(60), Span::from_secs(20));
        let when_full = WhenFull::CloseNew;
        Self { connections_max: 10_000, when_full, idle, progress, grace: Span::from_secs(10) }
    }
}

/// What a server counts of its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// Open now.
    pub connections: u64,
    /// Accepted.
    pub accepted: u64,
    /// Closed since there were too many.
    pub displaced: u64,
    /// Given up, since they were too slow.
    pub timed_out: u64,
    /// Requests that were none.
    pub malformed: u64,
}

#[derive(Debug, Default)]
struct Slot {
    connection: Option<Connection>,
    /// Requests that this slot has had: a ticket is of one of them.
    sequence: u32,
    /// Connections that this slot has had: an event is of one of them.
    generation: u32,
}

/// The token of a slot's connection.
const fn token(index: usize, generation: u32) -> Token {
    Token(((generation as usize) << 32) | (FIRST + index))
}

/// A server.
pub struct Server<S> {
    service: S,
    limits: Limits,
    clock: Clock,
    poller: Poller,
    listeners: Vec<Listener>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    counters: ServerCounters,
    answers: Vec<(Ticket, Response)>,
    /// Events that are being handled: token, readable, closed by the other side.
    happened: Vec<(usize, bool, bool)>,
    scratch: Vec<u8>,
    /// Set when somebody wants it to end.
    ending: Arc<AtomicBool>,
    is_ending: bool,
    /// No descriptor was free for a connection: listeners are looked at again with the next sweep.
    accepts_late: bool,
}

impl<S: Service> Server<S> {
    /// A server at these listeners (16 at most), which are open already. `service` is given what wakes its loop.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn new(
        mut listeners: Vec<Listener>,
        limits: Limits,
        clock: Clock,
        ending: Arc<AtomicBool>,
        service: impl FnOnce(Arc<Waker>) -> Result<S, Error>,
    ) -> Result<Self, Error> {
        assert!(listeners.len() <= WAKER, "a server listens at {WAKER} places at most");
        let poller = Poller::new(EVENTS)?;
        let waker = Waker::new(poller.poll.registry(), Token(WAKER)).map_err(Error::system("make an eventfd"))?;
        for (index, listener) in listeners.iter_mut().enumerate() {
            listener.register(poller.poll.registry(), Token(index)).map_err(Error::system("listen"))?;
        }
        Ok(Self {
            service: service(Arc::new(waker))?,
            limits,
            clock,
            poller,
            listeners,
            slots: Vec::new(),
            free: Vec::new(),
            counters: ServerCounters::default(),
            answers: Vec::new(),
            happened: Vec::new(),
            scratch: vec![0; SCRATCH],
            ending,
            is_ending: false,
            accepts_late: false,
        })
    }

    /// Serves until an end is wanted, and then until what has begun is answered or [`Limits::grace`] has passed.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn run(mut self) -> Result<S, Error> {
        let mut next_sweep = self.clock.now() + SWEEP;
        let mut gives_up = Time::NEVER;
        loop {
            let now = self.clock.now();
            let due = self.poll_service(now);
            if now >= next_sweep {
                next_sweep = now + SWEEP;
                self.sweep(now);
                if !self.is_ending && self.ending.load(Ordering::Relaxed) {
                    gives_up = now + self.limits.grace;
                    self.begin_end();
                }
            }
            if self.is_ending && (self.counters.connections == 0 || now >= gives_up) {
                return Ok(self.service);
            }
            let until = due.min(next_sweep);
            self.poller.wait(until.since(self.clock.now()))?;
            self.handle_events();
        }
    }

    fn handle_events(&mut self) {
        let mut happened = std::mem::take(&mut self.happened);
        happened.extend(self.poller.events.iter().map(|event| {
            let is_closed = event.is_read_closed();
            (event.token().0, event.is_readable() || is_closed, is_closed)
        }));
        for (token, is_readable, is_closed) in happened.drain(..) {
            if token < WAKER {
                self.accept(token);
            } else if token >= FIRST {
                self.handle_connection(token, is_readable, is_closed);
            }
        }
        self.happened = happened;
    }

    fn accept(&mut self, listener: usize) {
        while let Some(listening) = self.listeners.get(listener) {
            let protocol = listening.protocol;
            match listening.accept() {
                Ok(stream) => self.add(stream, protocol),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client has gone before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::debug!("cannot accept a connection: {error}");
                    self.accepts_late = true;
                    return;
                }
            }
        }
    }

    fn add(&mut self, mut stream: super::listener::Stream, protocol: Protocol) {
        self.counters.accepted += 1;
        if self.counters.connections >= u64::from(self.limits.connections_max) {
            self.counters.displaced += 1;
            let Some(idle) = self.idle_connection() else { return };
            self.close(idle, self.clock.now());
        }
        let now = self.clock.now();
        let index = self.free.pop().unwrap_or(self.slots.len());
        let generation = self.slots.get(index).map_or(0, |slot| slot.generation);
        if stream.register(self.poller.poll.registry(), token(index, generation)).is_err() {
            if index < self.slots.len() {
                self.free.push(index);
            }
            return;
        }
        if index == self.slots.len() {
            self.slots.push(Slot::default());
        }
        self.counters.connections += 1;
        let mut connection = Connection::new(stream, now + self.limits.idle);
        if protocol == Protocol::Line {
            connection.send_line(&self.service.line(now));
            connection.deadline = now + self.limits.progress;
        }
        self.slots[index].connection = Some(connection);
        if protocol == Protocol::Line {
            self.write(index, now);
        }
    }

    /// Which connection makes room for another one.
    fn idle_connection(&self) -> Option<usize> {
        if self.limits.when_full == WhenFull::CloseNew {
            return None;
        }
        let idle = |(index, slot): (usize, &Slot)| {
            let connection = slot.connection.as_ref()?;
            matches!(connection.phase, Phase::Reading | Phase::Lingering).then_some((connection.deadline, index))
        };
        self.slots.iter().enumerate().filter_map(idle).min().map(|(_, index)| index)
    }

    fn handle_connection(&mut self, token: usize, is_readable: bool, is_closed: bool) {
        let now = self.clock.now();
        let (index, generation) = ((token & u32::MAX as usize) - FIRST, token >> 32);
        let slot = self.slots.get_mut(index).filter(|slot| slot.generation as usize == generation);
        let Some(connection) = slot.and_then(|slot| slot.connection.as_mut()) else { return };
        if connection.phase == Phase::Writing {
            self.write(index, now);
            self.proceed(index, now);
        }
        if is_readable {
            self.read(index, now);
        }
        let Some(connection) = self.slots[index].connection.as_ref() else { return };
        // A client that closes its side while its request is worked on does not wait for the answer.
        if is_closed && connection.phase != Phase::Writing {
            self.close(index, now);
        }
    }

    fn read(&mut self, index: usize, now: Time) {
        let Some(connection) = self.slots[index].connection.as_mut() else { return };
        let had_input = connection.has_input();
        let progress = connection.read(&mut self.scratch);
        if connection.phase == Phase::Reading && !had_input && connection.has_input() {
            connection.deadline = now + self.limits.progress;
        }
        self.proceed(index, now);
        let Some(connection) = self.slots[index].connection.as_ref() else { return };
        if progress == Progress::Gone && connection.phase != Phase::Writing {
            self.close(index, now);
        }
    }

    /// Goes on with what has come: requests that are whole, then what was left in the kernel since there was enough for a while.
    fn proceed(&mut self, index: usize, now: Time) {
        loop {
            self.requests(index, now);
            let Some(connection) = self.slots[index].connection.as_mut() else { return };
            if connection.phase != Phase::Reading || !connection.has_unread() {
                return;
            }
            if connection.read(&mut self.scratch) == Progress::Gone {
                self.close(index, now);
                return;
            }
        }
    }

    /// Hands on the requests that are there, one after another as they are answered.
    fn requests(&mut self, index: usize, now: Time) {
        loop {
            let slot = &mut self.slots[index];
            let Some(connection) = slot.connection.as_mut() else { return };
            if connection.phase != Phase::Reading {
                return;
            }
            let ticket = Ticket((u64::from(slot.sequence) << 32) | index as u64);
            let (service, counters) = (&mut self.service, &self.counters);
            match connection.next_request(|request| service.request(now, ticket, request, counters)) {
                Ok(None) => return,
                Ok(Some(Reply::Later)) => {
                    connection.deadline = Time::NEVER;
                    return;
                }
                Ok(Some(Reply::Now(response))) => self.answer(index, now, response),
                Err(error) => {
                    self.counters.malformed += 1;
                    connection.answer_and_close(Response::text(error.status(), &error.to_string()));
                    connection.deadline = now + self.limits.progress;
                    self.write(index, now);
                    return;
                }
            }
        }
    }

    fn answer(&mut self, index: usize, now: Time, response: Response) {
        let slot = &mut self.slots[index];
        slot.sequence = slot.sequence.wrapping_add(1);
        let Some(connection) = slot.connection.as_mut() else { return };
        connection.deadline = now + self.limits.progress;
        if self.is_ending {
            connection.answer_and_close(response);
        } else {
            connection.answer(response);
        }
        self.write(index, now);
    }

    fn write(&mut self, index: usize, now: Time) {
        let Some(connection) = self.slots[index].connection.as_mut() else { return };
        let has_progress = connection.write();
        match connection.phase {
            Phase::Reading => connection.deadline = now + self.limits.idle,
            // The last answer has gone out: whoever does not close now is given up soon.
            Phase::Lingering => connection.deadline = now + Span::from_secs(2),
            Phase::Writing if has_progress => connection.deadline = now + self.limits.progress,
            Phase::Writing | Phase::Waiting => {}
        }
        if connection.is_broken() {
            self.close(index, now);
        }
    }

    fn poll_service(&mut self, now: Time) -> Time {
        let mut answers = std::mem::take(&mut self.answers);
        let mut due = self.service.poll(now, &mut answers);
        while !answers.is_empty() {
            for (ticket, response) in answers.drain(..) {
                self.deliver(ticket, now, response);
            }
            // Who has an answer may have asked again already.
            due = self.service.poll(now, &mut answers);
        }
        self.answers = answers;
        due
    }

    fn deliver(&mut self, ticket: Ticket, now: Time, response: Response) {
        let index = (ticket.0 & u64::from(u32::MAX)) as usize;
        let slot = &self.slots[index];
        let is_waiting = slot.connection.as_ref().is_some_and(|connection| connection.phase == Phase::Waiting);
        // Otherwise its client has gone.
        if is_waiting && u64::from(slot.sequence) == ticket.0 >> 32 {
            self.answer(index, now, response);
            self.proceed(index, now);
        }
    }

    fn close(&mut self, index: usize, now: Time) {
        let slot = &mut self.slots[index];
        let Some(connection) = slot.connection.take() else { return };
        if connection.phase == Phase::Waiting {
            self.service.withdraw(now, Ticket((u64::from(slot.sequence) << 32) | index as u64));
        }
        slot.sequence = slot.sequence.wrapping_add(1);
        slot.generation = slot.generation.wrapping_add(1);
        self.counters.connections -= 1;
        self.free.push(index);
    }

    /// Gives up who is too slow.
    fn sweep(&mut self, now: Time) {
        for index in 0..self.slots.len() {
            let connection = self.slots[index].connection.as_ref();
            if connection.is_some_and(|connection| connection.deadline <= now) {
                let was_slow = connection.is_some_and(|it| it.phase == Phase::Writing || it.has_input());
                self.counters.timed_out += u64::from(was_slow);
                self.close(index, now);
            }
        }
        if std::mem::take(&mut self.accepts_late) {
            (0..self.listeners.len()).for_each(|listener| self.accept(listener));
        }
    }

    /// Accepts nobody any more, and lets go of those who have asked nothing.
    fn begin_end(&mut self) {
        self.is_ending = true;
        self.listeners.clear();
        let now = self.clock.now();
        for index in 0..self.slots.len() {
            let connection = self.slots[index].connection.as_ref();
            if connection.is_some_and(|it| it.phase == Phase::Reading && !it.has_input()) {
                self.close(index, now);
            }
        }
    }
}
