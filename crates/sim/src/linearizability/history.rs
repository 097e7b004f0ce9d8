//! What clients asked for, when, and the answers that they got.

use machine::nanos::Time;

/// One operation of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation<I, O> {
    /// The client that asked; only shown to the reader of a counterexample.
    pub client: u32,
    /// When the client asked.
    pub invoked: Time,
    /// What it asked for.
    pub input: I,
    /// What came of it.
    pub outcome: Outcome<O>,
}

/// What a client knows of its operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<O> {
    /// The client got an answer.
    Returned {
        /// When; not before the invocation.
        at: Time,
        /// The answer that came.
        output: O,
    },
    /// It gave up, died or still waits: the operation may yet take effect, or never.
    Unknown,
}

/// Operations while they happen.
#[derive(Clone, Debug, Default)]
pub struct History<I, O> {
    operations: Vec<Operation<I, O>>,
}

/// An operation of a [`History`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(usize);

impl<I, O> History<I, O> {
    /// Nothing has happened yet.
    pub const fn new() -> Self {
        Self { operations: Vec::new() }
    }

    /// A client asks. Until [`History::returned`] is called, the outcome is unknown.
    pub fn invoked(&mut self, client: u32, now: Time, input: I) -> Ticket {
        self.operations.push(Operation { client, invoked: now, input, outcome: Outcome::Unknown });
        Ticket(self.operations.len() - 1)
    }

    /// A client gets the answer to its operation.
    ///
    /// # Panics
    /// If the ticket is not of this history, if the operation has returned before, or if `now` lies before its invocation.
    pub fn returned(&mut self, ticket: Ticket, now: Time, output: O) {
        let operation = &mut self.operations[ticket.0];
        assert!(matches!(operation.outcome, Outcome::Unknown), "an operation returns once");
        assert!(now >= operation.invoked, "an operation returns after it was invoked");
        operation.outcome = Outcome::Returned { at: now, output };
    }

    /// All operations, in the order of their invocations.
    pub fn operations(&self) -> &[Operation<I, O>] {
        &self.operations
    }

    /// One operation.
    ///
    /// # Panics
    /// If the ticket is not of this history.
    pub fn operation(&self, ticket: Ticket) -> &Operation<I, O> {
        &self.operations[ticket.0]
    }
}
