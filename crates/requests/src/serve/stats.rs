//! What a server knows of itself: rates and utilisation over the last window, and its page of statistics.

use std::time::Duration;

use machine::{Span, Time};
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use workload::service::{Server, ServerCounts};

use crate::load_report::LoadReport;
use crate::server::ServerCounters;

/// Rates are those of a window of this length.
const WINDOW: Span = Span::from_ms(100);

/// Rates of a server.
#[derive(Debug)]
pub(super) struct Meter {
    /// Processors that it may use.
    processors: f64,
    began: Time,
    cpu_before: Duration,
    counts_before: ServerCounts,
    cpu: Option<f64>,
    rps: Option<f64>,
    eps: Option<f64>,
}

impl Meter {
    pub fn new(now: Time) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let counts_before = ServerCounts::default();
        Self { processors, began: now, cpu_before: process_time(), counts_before, cpu: None, rps: None, eps: None }
    }

    /// Ends the window if its time is over.
    pub fn advance(&mut self, now: Time, counts: &ServerCounts) {
        let passed = now.since(self.began);
        if passed < WINDOW {
            return;
        }
        let seconds = passed.as_secs_f64();
        let cpu_now = process_time();
        let errors =
            |counts: &ServerCounts| counts.failed + counts.failed_fast + counts.refused_queue + counts.refused_memory;
        let answers = |counts: &ServerCounts| errors(counts) + counts.answered - counts.failed;
        let rate = |now: u64, before: u64| Some(now.saturating_sub(before) as f64 / seconds);
        self.cpu = Some(cpu_now.saturating_sub(self.cpu_before).as_secs_f64() / seconds / self.processors);
        self.rps = rate(answers(counts), answers(&self.counts_before));
        self.eps = rate(errors(counts), errors(&self.counts_before));
        (self.began, self.cpu_before, self.counts_before) = (now, cpu_now, *counts);
    }

    /// How loaded the server is.
    pub fn report(&self, server: &Server) -> LoadReport {
        LoadReport {
            cpu_utilization: self.cpu,
            mem_utilization: server.memory_utilisation(),
            application_utilization: server.utilisation(),
            rps_fractional: self.rps,
            eps: self.eps,
            named_metrics: Vec::new(),
        }
    }
}

/// Time of processors that this process has used.
fn process_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The page `/.heddle/stats`.
pub(super) fn page(now: Time, meter: &Meter, server: &Server, connections: &ServerCounters) -> Value {
    let counts = server.counts();
    json!({
        "uptime-s": now.as_secs_f64(),
        "arrived": counts.arrived,
        "answered": counts.answered,
        "failed": counts.failed,
        "failed-fast": counts.failed_fast,
        "refused-queue": counts.refused_queue,
        "refused-memory": counts.refused_memory,
        "hung": counts.hung,
        "withdrawn": counts.withdrawn,
        "working": server.working(),
        "queued": server.queued(),
        "queued-max": counts.queued_max,
        "memory-bytes": server.memory_used(),
        "memory-max-bytes": counts.memory_max,
        "connections": connections.connections,
        "connections-accepted": connections.accepted,
        "connections-displaced": connections.displaced,
        "connections-timed-out": connections.timed_out,
        "malformed": connections.malformed,
        "load": meter.report(server).json(),
    })
}
