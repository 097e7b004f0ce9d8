//! What an agent answers.

use machine::{Span, Time};

use super::config::AgentConfig;
use super::pushed::Pushed;
use super::sampler::Sampler;
use super::status::Status;
use super::weight::WeightConfig;
use crate::clock::Clock;
use crate::error::Error;
use crate::http::{Request, Response};
use crate::server::{Reply, ServerCounters, Service, Ticket};

/// The agent's answers.
pub(super) struct AgentService {
    sampler: Sampler,
    every: Span,
    next_sample: Time,
    push_lasts: Span,
    pushed: Option<(Time, Pushed)>,
    weight: WeightConfig,
}

impl AgentService {
    pub fn new(config: &AgentConfig, clock: Clock) -> Result<Self, Error> {
        let span = |time: std::time::Duration| Span::from_ns(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let now = clock.now();
        let every = span(config.every).max(Span::from_ms(1));
        Ok(Self {
            sampler: Sampler::new(&config.sources, now)?,
            every,
            next_sample: now + every,
            push_lasts: span(config.push_lasts),
            pushed: None,
            weight: config.weight,
        })
    }

    /// What the kernel and the application say.
    fn status(&self, now: Time) -> Status {
        let mut status = self.sampler.status().clone();
        let is_fresh = |at: Time| now.since(at) < self.push_lasts;
        if let Some((_, Pushed(pushed))) = self.pushed.as_ref().filter(|(at, _)| is_fresh(*at)) {
            let report = &mut status.report;
            report.cpu_utilization = pushed.cpu_utilization.or(report.cpu_utilization);
            report.mem_utilization = pushed.mem_utilization.or(report.mem_utilization);
            report.application_utilization = pushed.application_utilization;
            (report.rps_fractional, report.eps) = (pushed.rps_fractional, pushed.eps);
            report.named_metrics.clone_from(&pushed.named_metrics);
        }
        status
    }

    fn push(&mut self, now: Time, body: &[u8]) -> Response {
        match Pushed::parse(body) {
            Ok(pushed) => {
                self.pushed = Some((now, pushed));
                Response::empty(200)
            }
            Err(expected) => Response::text(400, &expected),
        }
    }
}

impl Service for AgentService {
    fn request(&mut self, now: Time, _: Ticket, request: &Request<'_>, _: &ServerCounters) -> Reply {
        Reply::Now(match (request.method, request.path) {
            ("GET" | "HEAD", "/load") => Response::json(&self.status(now).json()),
            ("POST", "/push") => self.push(now, request.body),
            (_, "/load" | "/push") => Response::empty(405),
            _ => Response::text(404, "expected GET /load or POST /push"),
        })
    }

    fn withdraw(&mut self, _: Time, _: Ticket) {}

    fn poll(&mut self, now: Time, _: &mut Vec<(Ticket, Response)>) -> Time {
        if self.next_sample <= now {
            self.sampler.sample(now);
            self.next_sample = now + self.every;
        }
        self.next_sample
    }

    fn line(&mut self, now: Time) -> String {
        self.weight.answer(self.weight.load(&self.status(now))).line()
    }
}
