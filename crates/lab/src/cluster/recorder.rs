//! What clients asked for, when, and what they were answered.

use fabric::Operation;
use machine::nanos::{Span, Time};
use sim::linearizability::{History, Ticket};
use workload::entry::{Input, Output};
use workload::{Failures, Tally};

use crate::measure::cluster_record::{Latencies, OperationRecord};

/// Operations that are remembered to be checked; of longer runs nobody says whether they are linearizable.
const HISTORY_MAX: usize = 400_000;

/// A run while it goes on.
#[derive(Debug)]
pub(super) struct Recorder {
    history: History<Input, Output>,
    is_cut: bool,
    /// Requests that succeeded, in the order in which their operations are asked.
    operations: Vec<(Operation, Tally)>,
    /// Requests of all operations that ended in an error, or without an answer.
    pub failures: Failures,
    /// Since when writes are asked and none has succeeded.
    waiting_since: Option<Time>,
    unavailable_max: Option<Span>,
}

impl Recorder {
    /// For these operations.
    pub fn new(operations: &[Operation]) -> Self {
        Self {
            history: History::new(),
            is_cut: false,
            operations: operations.iter().map(|&operation| (operation, Tally::default())).collect(),
            failures: Failures::default(),
            waiting_since: None,
            unavailable_max: None,
        }
    }

    /// A client asks for something that is to be checked.
    pub fn invoked(&mut self, client: u32, now: Time, input: Input) -> Option<Ticket> {
        self.is_cut |= self.history.operations().len() >= HISTORY_MAX;
        (!self.is_cut).then(|| self.history.invoked(client, now, input))
    }

    /// A client is answered.
    pub fn returned(&mut self, ticket: Option<Ticket>, now: Time, output: Output) {
        if let Some(ticket) = ticket {
            self.history.returned(ticket, now, output);
        }
    }

    /// A request of this operation took so long.
    pub fn took(&mut self, operation: Operation, latency: Span) {
        if let Some(tally) = self.tally(operation) {
            tally.took(latency);
        }
    }

    /// This operation was asked for so long.
    pub fn lasted(&mut self, operation: Operation, span: Span) {
        if let Some(tally) = self.tally(operation) {
            tally.lasted = tally.lasted + span;
        }
    }

    fn tally(&mut self, operation: Operation) -> Option<&mut Tally> {
        self.operations.iter_mut().find(|(other, _)| *other == operation).map(|(_, tally)| tally)
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
        let record = |(operation, tally): &(Operation, Tally)| OperationRecord {
            operation: *operation,
            seconds: tally.lasted.as_secs_f64(),
            latencies: Latencies::of(&tally.latencies_ns),
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
