//! What the clients ask for, one thing after another.
//!
//! [`Mode::InTurn`]: all clients together ask the first operation for one entry after another, then all the second, and so
//! on: each latency is that of one kind of request. [`Mode::Contended`]: each client goes through the operations by itself,
//! on a few entries that all share, with conditions: what goes wrong in between shows in the answers.

use std::collections::BTreeMap;

use fabric::{ClusterLoad, Operation};
use machine::Rng;
use machine::nanos::{Span, Time};
use sim::linearizability::Ticket;
use store::protocol::{Answer, Consistency, Error, RequestBody};
use workload::entry::{Action, Change, Condition, Expect, Input, Leaf};
use workload::{CARS, Cars, Clients, Next, PEOPLE, container};

use super::recorder::Recorder;

/// Where an operation needs no entry of its own, so many are enough.
const SHARED_ENTRIES: u32 = 10_000;
/// Entries that contending clients share: so many for each client.
const ENTRIES_A_CLIENT: u32 = 2;
/// Contending clients pause between two requests, so that hours of faults leave a history that can be checked.
const THINK: Span = Span::from_ms(2);
/// A request that is not answered by then has failed.
const TIMEOUT: Span = Span::from_secs(10);

/// Who asks what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// One operation after the other.
    InTurn,
    /// All at once, on the same entries.
    Contended,
}

/// All clients of a run.
#[derive(Debug)]
pub(super) struct Script {
    load: ClusterLoad,
    mode: Mode,
    targets: usize,
    begun: Time,
    /// The load goes on until then.
    until: Time,
    rng: Rng,
    clients: Clients<Cars, Note>,
    /// By client.
    pauses_until: Vec<Option<Time>>,
    /// The first entry of this round, and how many it has.
    first: u32,
    entries: u32,
    phases: Vec<Phase>,
    phase: usize,
    /// Requests of each operation that were asked.
    asked: BTreeMap<Operation, u32>,
    recorder: Recorder,
}

/// One operation, asked by all clients together.
#[derive(Clone, Copy, Debug)]
struct Phase {
    operation: Operation,
    /// Otherwise it prepares what follows.
    counts: bool,
    requests: u32,
    asked: u32,
    answered: u32,
    begun: Option<Time>,
}

/// What is noted of a request.
#[derive(Clone, Copy, Debug)]
struct Note {
    /// Nothing while it warms up.
    operation: Option<Operation>,
    /// Otherwise it prepares what follows.
    counts: bool,
    ticket: Option<Ticket>,
}

impl Script {
    /// A load that begins at a time and lasts for so long at least, with entries from `first` on.
    pub fn new(load: &ClusterLoad, mode: Mode, targets: usize, first: u32, (begun, lasts): (Time, Span)) -> Self {
        let has = |operation| load.operations.contains(&operation);
        let own = has(Operation::Create) || has(Operation::Delete);
        let entries = match mode {
            Mode::Contended => load.clients * ENTRIES_A_CLIENT,
            Mode::InTurn if own => load.requests,
            Mode::InTurn => load.requests.min(SHARED_ENTRIES),
        };
        let phase =
            |operation, counts, requests| Phase { operation, counts, requests, asked: 0, answered: 0, begun: None };
        let mut phases: Vec<Phase> = load.operations.iter().map(|&it| phase(it, true, load.requests)).collect();
        let needs_entries =
            load.operations.iter().find(|&&it| it != Operation::Rpc).is_some_and(|&it| it != Operation::Create);
        if needs_entries {
            phases.insert(0, phase(Operation::Create, false, entries));
        }
        Self {
            load: load.clone(),
            mode,
            targets,
            begun,
            until: begun + lasts,
            rng: Rng::new(u64::from(first) + 1),
            clients: Clients::new(Cars::numbered(load.value_bytes), load.clients as usize),
            pauses_until: vec![None; load.clients as usize],
            first,
            entries,
            phases,
            phase: 0,
            asked: BTreeMap::new(),
            recorder: Recorder::new(&load.operations),
        }
    }

    /// What was recorded, and the first entry that was not used.
    pub fn finish(mut self, now: Time) -> (Recorder, u32) {
        if self.mode == Mode::Contended {
            self.recorder.ask_writes(now, false);
            for &operation in &self.load.operations {
                self.recorder.lasted(operation, now.since(self.begun));
            }
        }
        (self.recorder, self.first + self.entries)
    }

    /// One read from each target, so that connections are there and leaders are known.
    fn warm_up(&mut self, client: usize, now: Time) -> Next {
        let target = self.clients.requests(client);
        let rpc = self.load.operations == [Operation::Rpc];
        let at = container(if rpc { PEOPLE } else { CARS });
        let body = RequestBody::Get { at, consistency: Consistency::Linearizable };
        self.clients.ask_else(client, now, Note { operation: None, counts: false, ticket: None });
        Next::Ask { target, body, timeout: TIMEOUT }
    }

    fn is_warm(&self) -> bool {
        let is_warm = |client: usize| {
            let asked = self.clients.requests(client);
            asked > self.targets || (asked == self.targets && !self.clients.is_waiting(client))
        };
        (0..self.pauses_until.len()).all(is_warm)
    }

    fn in_turn(&mut self, client: usize, now: Time) -> Next {
        if !self.is_warm() {
            return Next::Wait;
        }
        let Some(phase) = self.phases.get_mut(self.phase) else { return Next::Done };
        if phase.asked == phase.requests {
            return Next::Wait;
        }
        let (operation, counts, nth) = (phase.operation, phase.counts, phase.asked);
        phase.asked += 1;
        if phase.begun.is_none() {
            phase.begun = Some(now);
            self.recorder.ask_writes(now, is_write(operation));
        }
        let entry = self.first + nth % self.entries;
        let action = match operation {
            Operation::Create => write(Change::Create(Leaf::A, self.clients.value())),
            Operation::Read => Action::Get(Leaf::A),
            Operation::Update => write(Change::Replace(Leaf::A, self.clients.value())),
            Operation::Delete => write(Change::Delete),
            Operation::Rpc | Operation::Election => return self.call(client, now, counts),
        };
        self.request(client, now, (operation, counts), entry, action)
    }

    /// The phase is over when all its answers are there.
    fn answered_in_turn(&mut self, now: Time) {
        let phase = &mut self.phases[self.phase];
        phase.answered += 1;
        if phase.answered < phase.requests {
            return;
        }
        let Phase { operation, counts, begun, .. } = *phase;
        if counts {
            self.recorder.lasted(operation, now.since(begun.unwrap_or(now)));
        }
        self.recorder.ask_writes(now, false);
        self.phase += 1;
        if self.phase == self.phases.len() && now < self.until {
            self.begin_again();
        }
    }

    /// Another round: on the same entries if they are as they were at the start of the last.
    fn begin_again(&mut self) {
        let has = |operation| self.load.operations.contains(&operation);
        let used_up = has(Operation::Create) != has(Operation::Delete);
        if used_up {
            self.first += self.entries;
        }
        let prepares = self.phases.iter().position(|phase| !phase.counts);
        // Entries that were read and updated only are still there; so are those that were deleted before they were created.
        let is_prepared = !used_up && prepares.is_some();
        for phase in &mut self.phases {
            (phase.asked, phase.answered, phase.begun) = (0, 0, None);
        }
        self.phase = usize::from(is_prepared);
    }

    fn contend(&mut self, client: usize, now: Time) -> Next {
        let enough = |it: &Operation| self.asked.get(it).is_some_and(|&asked| asked >= self.load.requests);
        if now >= self.until && self.load.operations.iter().all(enough) {
            return Next::Done;
        }
        if let Some(until) = self.pauses_until[client].take() {
            return Next::Until(until);
        }
        if self.asked.is_empty() {
            self.recorder.ask_writes(now, self.load.operations.iter().any(|&it| is_write(it)));
        }
        let operation = self.load.operations[(client + self.clients.requests(client)) % self.load.operations.len()];
        *self.asked.entry(operation).or_default() += 1;
        let entry = self.first + self.rng.below(self.entries);
        let action = match operation {
            Operation::Create => write(Change::Create(Leaf::A, self.clients.value())),
            Operation::Read if self.rng.below(4) == 0 => Action::List,
            Operation::Read => Action::Get(Leaf::A),
            Operation::Update => self.update(client, entry),
            Operation::Delete if self.rng.below(2) == 0 => write(Change::Remove),
            Operation::Delete => write(Change::Delete),
            Operation::Rpc | Operation::Election => return self.call(client, now, true),
        };
        self.request(client, now, (operation, true), entry, action)
    }

    fn update(&mut self, client: usize, entry: u32) -> Action {
        let known = self.clients.known(client).get(entry, Leaf::A);
        match (self.rng.below(4), known) {
            (0, _) => write(Change::PutBoth { a: self.clients.value(), b: self.clients.value() }),
            (1, _) => write(Change::Replace(Leaf::A, self.clients.value())),
            (2, Some(known)) => Action::Write {
                condition: Some(Condition { leaf: Leaf::A, expect: Expect::Tag(known.tag) }),
                change: Change::Put(Leaf::A, self.clients.value()),
            },
            _ => write(Change::Put(Leaf::A, self.clients.value())),
        }
    }

    fn request(&mut self, client: usize, now: Time, what: (Operation, bool), entry: u32, action: Action) -> Next {
        let (input, target) = (Input { entry, action }, self.target(client));
        let ticket = self.recorder.invoked(client as u32, now, input);
        let note = Note { operation: Some(what.0), counts: what.1, ticket };
        let body = self.clients.ask(client, now, input, Consistency::Linearizable, note);
        Next::Ask { target, body, timeout: TIMEOUT }
    }

    fn call(&mut self, client: usize, now: Time, counts: bool) -> Next {
        let number = u64::from(self.first) + self.clients.value();
        let target = self.target(client);
        self.clients.ask_else(client, now, Note { operation: Some(Operation::Rpc), counts, ticket: None });
        Next::Ask { target, body: self.clients.layout().call(number), timeout: TIMEOUT }
    }

    /// All targets in turn, each client beginning at another.
    fn target(&self, client: usize) -> usize {
        (client + self.clients.requests(client)) % self.targets
    }
}

fn write(change: Change) -> Action {
    Action::Write { condition: None, change }
}

/// Whether the operation writes an entry.
const fn is_write(operation: Operation) -> bool {
    matches!(operation, Operation::Create | Operation::Update | Operation::Delete)
}

impl workload::Script for Script {
    fn next(&mut self, client: usize, now: Time) -> Next {
        if self.clients.requests(client) < self.targets {
            return self.warm_up(client, now);
        }
        match self.mode {
            Mode::InTurn => self.in_turn(client, now),
            Mode::Contended => self.contend(client, now),
        }
    }

    fn answered(&mut self, client: usize, now: Time, result: Result<Answer, Error>) {
        let answered = self.clients.answered(client, now, &result);
        let Note { operation, counts, ticket } = answered.note;
        let Some(operation) = operation else { return };
        if let (Some(input), Some(output)) = (answered.input, answered.output) {
            self.recorder.returned(ticket, now, output);
            self.clients.learn(client, input, output);
        }
        // Contending clients are refused all the time: that is an answer.
        let is_refusal = self.mode == Mode::Contended && matches!(result, Err(Error::Refused(_)));
        match &result {
            Err(error) if !is_refusal => self.recorder.failures.count(|| format!("{}: {error}", operation.word())),
            _ if counts => self.recorder.took(operation, answered.latency),
            _ => {}
        }
        if result.is_ok() && answered.input.is_some_and(|input| matches!(input.action, Action::Write { .. })) {
            self.recorder.wrote(now);
        }
        match self.mode {
            Mode::InTurn => self.answered_in_turn(now),
            Mode::Contended => self.pauses_until[client] = Some(now + THINK),
        }
    }
}
