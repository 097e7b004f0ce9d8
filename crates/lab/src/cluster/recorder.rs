//! What clients asked for, when, and what they were told.

use fabric::Operation;
use machine::nanos::{Span, Time};
use sim::linearizability::entry::{Input, Output};
use sim::linearizability::{History, Ticket};

use crate::cluster_record::{Latencies, OperationRecord};

/// Operations that are remembered to be checked; of longer runs nobody says whether they are linearizable.
const HISTORY_MAX: usize = 400_000;

/// A run while it goes on.
#[derive(Debug)]
pub(super) struct Recorder {
    history: History<Input, Output>,
    is_cut: bool,
    operations: Vec<Timed>,
    /// Requests that ended in an error, or without an answer.
    pub failed: u64,
    /// What the first of them was told.
    pub first_failure: Option<String>,
    /// Since when writes are asked and none has succeeded.
    waiting_since: Option<Time>,
    unavailable_max: Option<Span>,
}

#[derive(Debug)]
struct Timed {
    operation: Operation,
    latencies_ns: Vec<u64>,
    span: Span,
}

impl Recorder {
    /// For these operations.
    pub fn new(operations: &[Operation]) -> Self {
        let timed = |&operation: &Operation| Timed { operation, latencies_ns: Vec::new(), span: Span::ZERO };
        Self {
            history: History::new(),
            is_cut: false,
            operations: operations.iter().map(timed).collect(),
            failed: 0,
            first_failure: None,
            waiting_since: None,
            unavailable_max: None,
        }
    }

    /// A client asks for something that is to be checked.
    pub fn invoked(&mut self, client: u32, now: Time, input: Input) -> Option<Ticket> {
        self.is_cut |= self.history.operations().len() >= HISTORY_MAX;
        (!self.is_cut).then(|| self.history.invoked(client, now, input))
    }

    /// A client is told what came of it.
    pub fn returned(&mut self, ticket: Option<Ticket>, now: Time, output: Output) {
        if let Some(ticket) = ticket {
            self.history.returned(ticket, now, output);
        }
    }

    /// A request of this operation took so long.
    pub fn took(&mut self, operation: Operation, latency: Span) {
        if let Some(timed) = self.operations.iter_mut().find(|timed| timed.operation == operation) {
            timed.latencies_ns.push(latency.as_ns());
        }
    }

    /// This operation was asked for so long.
    pub fn lasted(&mut self, operation: Operation, span: Span) {
        if let Some(timed) = self.operations.iter_mut().find(|timed| timed.operation == operation) {
            timed.span = timed.span + span;
        }
    }

    /// A request came to nothing.
    pub fn fail(&mut self, why: impl FnOnce() -> String) {
        self.failed += 1;
        self.first_failure.get_or_insert_with(why);
    }

    /// From now on writes are asked; or no longer.
    pub fn ask_writes(&mut self, now: Time, asked: bool) {
        self.close_gap(now);
        self.waiting_since = asked.then_some(now);
    }

    /// A write has succeeded.
    pub fn wrote(&mut self, now: Time) {
        self.close_gap(now);
    }

    fn close_gap(&mut self, now: Time) {
        if let Some(since) = self.waiting_since.replace(now) {
            let gap = now.since(since);
            self.unavailable_max = Some(self.unavailable_max.map_or(gap, |max| max.max(gap)));
        }
    }

    /// All that is to be checked; `None` if it was too much to be remembered.
    pub fn history(&self) -> Option<&History<Input, Output>> {
        (!self.is_cut).then_some(&self.history)
    }

    /// In the order in which they were asked.
    pub fn operations(&self) -> Vec<OperationRecord> {
        let record = |timed: &Timed| OperationRecord {
            operation: timed.operation,
            seconds: timed.span.as_secs_f64(),
            latencies: Latencies::of(&timed.latencies_ns),
        };
        self.operations.iter().map(record).collect()
    }

    /// The longest time in which writes were asked and none succeeded.
    pub fn unavailable_max_seconds(&self) -> Option<f64> {
        self.unavailable_max.map(Span::as_secs_f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_without_a_write_counts_its_ends() {
        let at = |ms: u64| Time::ZERO + Span::from_ms(ms);
        let mut recorder = Recorder::new(&[Operation::Update]);
        assert_eq!(recorder.unavailable_max_seconds(), None);
        recorder.ask_writes(at(10), true);
        recorder.wrote(at(30));
        recorder.wrote(at(35));
        recorder.ask_writes(at(95), false);
        assert_eq!(recorder.unavailable_max_seconds(), Some(0.06));
        recorder.ask_writes(at(1_000), true);
        recorder.ask_writes(at(1_010), false);
        assert_eq!(recorder.unavailable_max_seconds(), Some(0.06), "reads meanwhile are no outage");
    }
}
