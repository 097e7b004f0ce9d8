//! The loop of a load: one thread, as many connections as there are clients.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use machine::{Control as _, Span, Step, Time};
use workload::service::{Failure, Finished, Generator, Measured, Outcome, Start};

use super::client::Client;
use super::config::{Connections, LoadConfig, Progress};
use super::connect::Connector;
use super::parted::Parted;
use crate::clock::{Clock, Poller};
use crate::error::Error;

/// Events that are taken at a time.
const EVENTS: usize = 1_024;
/// What is read at a time, in bytes.
const SCRATCH: usize = 64 << 10;
/// How often requests are looked at that take too long, and progress is reported.
const SWEEP: Span = Span::from_ms(50);
/// Puts a load on a service, and measures, until its time is over or `ending` is set; then nothing new begins.
///
/// # Errors
/// [`Error::SourceFamily`], [`Error::System`].
pub fn run(config: &LoadConfig, ending: &AtomicBool, progress: impl FnMut(&Progress)) -> Result<Measured, Error> {
    run_following(config, ending, progress, || None)
}

/// The same with targets that move: `moved` is asked some twenty times a second, and says where they are when that has changed. New connections go there; those that there are stay.
///
/// # Errors
/// As [`run`].
pub fn run_following(
    config: &LoadConfig,
    ending: &AtomicBool,
    progress: impl FnMut(&Progress),
    moved: impl FnMut() -> Option<Vec<SocketAddr>>,
) -> Result<Measured, Error> {
    crate::descriptors::raise_limit();
    let connector = Connector::new(&config.targets, &config.sources)?;
    let generator = Generator::new(&config.generator, config.seed);
    let slots = config.generator.arrivals.slots() as usize;
    let mut clients = Vec::new();
    clients.resize_with(slots, Client::default);
    let load = Load {
        config,
        head: head(config),
        clock: Clock::start(),
        poller: Poller::new(EVENTS)?,
        connector,
        generator,
        clients,
        scratch: vec![0; SCRATCH],
        failed_at_once: Vec::new(),
        happened: Vec::new(),
        unread: Vec::new(),
        parted: Parted::new(slots),
        waited: Span::ZERO,
    };
    load.run(ending, progress, moved)
}

/// What follows the path in each request.
fn head(config: &LoadConfig) -> Vec<u8> {
    let host = config.host.clone().unwrap_or_else(|| config.targets[0].to_string());
    let close = if config.connections == Connections::New { "Connection: close\r\n" } else { "" };
    format!(" HTTP/1.1\r\nHost: {host}\r\nUser-Agent: heddle\r\n{close}\r\n").into_bytes()
}

/// What has happened to a connection.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "epoll says so")]
struct Happened {
    slot: usize,
    is_readable: bool,
    is_writable: bool,
    is_closed: bool,
    is_error: bool,
}

struct Load<'a> {
    config: &'a LoadConfig,
    head: Vec<u8>,
    clock: Clock,
    poller: Poller,
    connector: Connector,
    generator: Generator,
    clients: Vec<Client>,
    scratch: Vec<u8>,
    /// Requests that could not even begin. They count as ended once all that is due has begun.
    failed_at_once: Vec<Finished>,
    happened: Vec<Happened>,
    /// Clients whose servers had sent more than a turn reads.
    unread: Vec<usize>,
    /// Connections that servers are to close.
    parted: Parted,
    /// For how long nothing was to be done.
    waited: Span,
}

impl Load<'_> {
    fn run(
        mut self,
        ending: &AtomicBool,
        mut progress: impl FnMut(&Progress),
        mut moved: impl FnMut() -> Option<Vec<SocketAddr>>,
    ) -> Result<Measured, Error> {
        let whole = self.config.generator.warm_up + self.config.generator.lasts;
        let mut next_sweep = Time::ZERO + SWEEP;
        loop {
            let due = self.begin_requests();
            let now = self.clock.now();
            if self.generator.is_over(now) {
                break;
            }
            if now >= next_sweep {
                next_sweep = now + SWEEP;
                if ending.load(Ordering::Relaxed) {
                    self.generator.stop(now);
                }
                self.sweep(now);
                if let Some(targets) = moved() {
                    self.connector.retarget(&targets, &self.config.sources);
                }
                let (done, failed) = (self.generator.measured().done(), self.generator.measured().failures().total());
                let in_flight = self.generator.in_flight();
                let (passed, waited) = (now.since(Time::ZERO), self.waited);
                progress(&Progress { passed, whole, waited, done, failed, in_flight });
            }
            let until = if self.unread.is_empty() { due.min(next_sweep) } else { now };
            let before = self.clock.now();
            self.poller.wait(until.since(before))?;
            self.waited = self.waited + self.clock.now().since(before);
            self.handle_events();
        }
        Ok(self.generator.into_measured())
    }

    /// Begins what is due, and says when the next request is.
    fn begin_requests(&mut self) -> Time {
        let due = loop {
            let now = self.clock.now();
            match self.generator.poll(now) {
                Step::Wait(until) => break until,
                Step::Do(start) => self.begin(now, start),
            }
        };
        if self.failed_at_once.is_empty() {
            return due;
        }
        let now = self.clock.now();
        for finished in self.failed_at_once.drain(..) {
            self.generator.handle(now, finished);
        }
        // They may be due again.
        now
    }

    fn begin(&mut self, now: Time, start: Start) {
        let client = &mut self.clients[start.slot as usize];
        let request = client.request_buffer();
        request.extend_from_slice(b"GET ");
        match &self.config.path {
            Some(path) => request.write_all(path.as_bytes()).expect("a Vec takes everything"),
            None => start.target.write_path(request),
        }
        request.extend_from_slice(&self.head);
        if let Some(outcome) = client.begin(now, start.slot, &mut self.connector, self.poller.poll.registry()) {
            self.failed_at_once.push(Finished { slot: start.slot, outcome });
        }
    }

    fn handle_events(&mut self) {
        let mut happened = std::mem::take(&mut self.happened);
        // A connection that was closed meanwhile has nothing left.
        let clients = &mut self.clients;
        let unread = self.unread.drain(..).filter(|&slot| clients[slot].take_unread());
        happened.extend(unread.map(|slot| Happened {
            slot,
            is_readable: true,
            is_writable: false,
            is_closed: false,
            is_error: false,
        }));
        happened.extend(self.poller.events.iter().map(|event| Happened {
            slot: event.token().0,
            is_readable: event.is_readable(),
            is_writable: event.is_writable(),
            is_closed: event.is_read_closed(),
            is_error: event.is_error(),
        }));
        for event in happened.drain(..) {
            if self.parted.handle(event.slot, event.is_closed || event.is_error) {
                continue;
            }
            if let Some(outcome) = self.handle(event) {
                self.finish(event.slot as u32, outcome);
            }
        }
        self.happened = happened;
    }

    fn handle(&mut self, event: Happened) -> Option<Outcome> {
        let client = &mut self.clients[event.slot];
        if event.is_error
            && let Some(outcome) = client.connection_error()
        {
            return Some(outcome);
        }
        if event.is_writable
            && let Some(outcome) = client.send()
        {
            return Some(outcome);
        }
        if !event.is_readable && !event.is_closed {
            return None;
        }
        let was_listed = client.has_unread();
        let outcome = client.read(&mut self.scratch, event.is_closed);
        if client.has_unread() && !was_listed {
            self.unread.push(event.slot);
        }
        outcome
    }

    fn finish(&mut self, slot: u32, outcome: Outcome) {
        let client = &mut self.clients[slot as usize];
        if self.config.connections == Connections::New {
            client.part();
        }
        if let Some(stream) = client.take_parted() {
            self.parted.take(self.clock.now(), stream, self.poller.poll.registry());
        }
        self.generator.handle(self.clock.now(), Finished { slot, outcome });
    }

    /// Gives up what takes too long.
    fn sweep(&mut self, now: Time) {
        self.parted.sweep(now);
        for slot in 0..self.clients.len() {
            let client = &mut self.clients[slot];
            let is_late = client.began().is_some_and(|began| now.since(began) >= self.config.timeout);
            if is_late && let Some(outcome) = client.fail(Failure::TimedOut) {
                self.finish(slot as u32, outcome);
            }
        }
    }
}
