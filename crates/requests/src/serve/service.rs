//! What is done with each request.

use std::sync::Arc;

use machine::{Span, Time};
use mio::Waker;
use workload::service::{Action, Refusal, Server as Admission, Target};

use super::block::Block;
use super::config::{Mode, ServeConfig};
use super::holding::{Holding, Work};
use super::push::Pusher;
use super::stats::{self, Meter};
use super::workers::{Job, Workers};
use crate::clock::{Clock, duration};
use crate::error::Error;
use crate::http::{Request, Response};
use crate::server::{Reply, ServerCounters, Service, Ticket};

/// Memory up to this size is taken in the event loop, in bytes; more of it by a thread.
const INLINE_MAX: u64 = 64 << 10;

/// The server's requests.
pub(super) struct Worksite {
    clock: Clock,
    admission: Admission,
    workers: Workers,
    holding: Holding,
    /// Answers that are due with the next [`Service::poll`].
    finished: Vec<(Ticket, Response)>,
    meter: Meter,
    mode: Mode,
    body_bytes: u64,
    has_tree: bool,
    reports: bool,
    push: Option<(Pusher, Span)>,
    next_push: Time,
}

impl Worksite {
    pub fn new(config: &ServeConfig, clock: Clock, waker: &Arc<Waker>) -> Result<Self, Error> {
        let now = clock.now();
        let push = match &config.push {
            Some((to, every)) => {
                let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1_000_000);
                Some((Pusher::start(to.clone())?, Span::from_ns(every_ns)))
            }
            None => None,
        };
        Ok(Self {
            clock,
            admission: Admission::new(config.server, now, config.seed),
            workers: Workers::start(config.threads, waker)?,
            holding: Holding::default(),
            finished: Vec::new(),
            meter: Meter::new(now),
            mode: config.mode,
            body_bytes: config.body_bytes,
            has_tree: config.has_tree,
            reports: config.reports,
            next_push: if push.is_some() { now } else { Time::NEVER },
            push,
        })
    }

    /// A page of the server itself; nothing if it is none.
    fn own_page(&mut self, now: Time, request: &Request<'_>, counters: &ServerCounters) -> Option<Response> {
        match (request.method, request.path) {
            ("GET" | "HEAD", "/.heddle/stats") => {
                self.meter.advance(now, self.admission.counts());
                Some(Response::json(&stats::page(now, &self.meter, &self.admission, counters)))
            }
            ("POST", "/.heddle/restart") => {
                self.admission.restart(now);
                self.meter = Meter::new(now);
                Some(Response::empty(200))
            }
            (_, path) if path.starts_with("/.heddle/") => {
                Some(Response::text(404, "expected GET /.heddle/stats or POST /.heddle/restart"))
            }
            _ => None,
        }
    }

    /// Bytes of the answer; nothing if there is no such page.
    const fn answer_bytes(&self, target: &Target) -> Option<u64> {
        match target {
            Target::Root | Target::Work { .. } => Some(self.body_bytes),
            Target::Static(page) | Target::Dynamic { page, .. } if self.has_tree => Some(page.bytes() as u64),
            Target::Static(_) | Target::Dynamic { .. } => None,
        }
    }

    fn advance(&mut self, now: Time) {
        while let Some(action) = self.admission.poll(now) {
            match action {
                Action::Begin { id, size, lasts, fails } => self.begin(now, id, size, lasts, fails),
                Action::Refuse { id, refusal } => {
                    self.holding.remove(id);
                    self.refuse(id, refusal);
                }
            }
        }
    }

    fn begin(&mut self, now: Time, id: u64, size: u64, lasts: Span, fails: bool) {
        let Some(work) = self.holding.get_mut(id) else {
            // It was withdrawn, and the machine knows.
            self.admission.finish(id);
            return;
        };
        (work.until, work.fails) = (now + lasts, fails);
        let computes = if self.mode == Mode::Busy { lasts } else { Span::ZERO };
        if size > INLINE_MAX || computes > Span::ZERO {
            self.workers.give(Job { id, size, computes: duration(computes) });
            return;
        }
        let block = (size > 0).then(|| Block::take(size));
        self.hold(now, id, block.unwrap_or_else(|| Block::take(0)));
    }

    /// The memory is there: it is held until the request's time is over.
    fn hold(&mut self, now: Time, id: u64, block: Option<Block>) {
        let Some(work) = self.holding.get_mut(id) else { return };
        if block.is_none() {
            // The kernel has no such memory, whatever the limit says.
            self.holding.remove(id);
            self.admission.finish(id);
            self.refuse(id, Refusal::Memory);
            return;
        }
        work.block = block;
        if self.mode == Mode::Sleep && work.until > now {
            self.holding.wait(id);
        } else {
            self.finish(id);
        }
    }

    fn finish(&mut self, id: u64) {
        self.admission.finish(id);
        let Some(Work { fails, answer_bytes, .. }) = self.holding.remove(id) else { return };
        let response =
            if fails { Response::text(500, "this request was to fail") } else { Response::filler(answer_bytes) };
        self.reply(id, response);
    }

    fn refuse(&mut self, id: u64, refusal: Refusal) {
        let reason = match refusal {
            Refusal::QueueFull => "too many requests wait",
            Refusal::Memory => "there is no memory for it",
            Refusal::Failed => "this request was to fail at once",
        };
        self.reply(id, Response::text(503, reason));
    }

    fn reply(&mut self, id: u64, mut response: Response) {
        if self.reports {
            response.load_report = Some(self.meter.report(&self.admission).header());
        }
        self.finished.push((Ticket(id), response));
    }

    fn push(&mut self, now: Time) {
        if let Some((pusher, every)) = &self.push
            && self.next_push <= now
        {
            pusher.put(self.meter.report(&self.admission).json().to_string());
            self.next_push = now + *every;
        }
    }
}

impl Service for Worksite {
    fn request(&mut self, now: Time, ticket: Ticket, request: &Request<'_>, counters: &ServerCounters) -> Reply {
        if let Some(page) = self.own_page(now, request, counters) {
            return Reply::Now(page);
        }
        if !matches!(request.method, "GET" | "HEAD" | "POST") {
            return Reply::Now(Response::empty(405));
        }
        let target = match Target::parse(request.path) {
            Ok(target) => target,
            Err(error) => {
                let status = if matches!(error, workload::service::TargetError::NotFound) { 404 } else { 400 };
                return Reply::Now(Response::text(status, &error.to_string()));
            }
        };
        let Some(answer_bytes) = self.answer_bytes(&target) else {
            return Reply::Now(Response::text(404, "there is no web tree: `heddle serve --tree` has one"));
        };
        let id = ticket.0;
        self.holding.insert(id, Work { until: now, fails: false, answer_bytes, block: None });
        let (size, lasts) = target.demand();
        self.admission.arrive(now, id, size, lasts);
        self.advance(now);
        // The usual case: it is done already.
        match self.finished.pop_if(|(finished, _)| *finished == ticket) {
            Some((_, response)) => Reply::Now(response),
            None => Reply::Later,
        }
    }

    fn withdraw(&mut self, _: Time, ticket: Ticket) {
        self.admission.withdraw(ticket.0);
        // One that is worked on goes on to its end.
        if !self.admission.is_working(ticket.0) {
            self.holding.remove(ticket.0);
        }
    }

    fn poll(&mut self, now: Time, answers: &mut Vec<(Ticket, Response)>) -> Time {
        self.meter.advance(now, self.admission.counts());
        while let Some(done) = self.workers.take_done() {
            self.hold(self.clock.now(), done.id, done.block);
        }
        while let Some(id) = self.holding.pop_due(now) {
            self.finish(id);
        }
        self.advance(now);
        self.push(now);
        answers.append(&mut self.finished);
        self.holding.next().min(self.next_push)
    }

    fn line(&mut self, _: Time) -> String {
        // `serve` listens for HTTP only.
        String::new()
    }
}
