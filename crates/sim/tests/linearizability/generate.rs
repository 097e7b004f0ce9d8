//! Histories of clients that work on single copies, each operation taking effect at one moment; with an error if asked to.

use machine::Rng;
use machine::nanos::Time;

use sim::linearizability::entry::{Action, Change, Condition, Expect, Input, Leaf, Output, Tagged};
use sim::linearizability::{Operation, Outcome};

/// What goes wrong, at one operation in thirty that it can happen to (transactions are rarer: one in three).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A read shows the entry as it was some changes ago.
    StaleRead,
    /// A write is acknowledged and not done.
    LostUpdate,
    /// A write is done again some time later, as by a retry that was not recognised.
    DoubledWrite,
    /// A write is shown to readers, then taken back and reported as not done.
    DirtyRead,
    /// The second half of a transaction comes some time after the first.
    TornTransaction,
    /// A write does not give the entry a new revision.
    RepeatedRevision,
}

/// A single copy of an entry, written without a look at the model.
#[derive(Clone, Default)]
pub struct Copy {
    a: Option<Tagged>,
    b: Option<Tagged>,
    revision: u64,
}

impl Copy {
    pub fn perform(&mut self, action: Action) -> Output {
        let (condition, change) = match action {
            Action::Get(Leaf::A) => return Output::Leaf(self.a),
            Action::Get(Leaf::B) => return Output::Leaf(self.b),
            Action::List => return Output::Leaves(self.a, self.b),
            Action::Write { condition, change } => (condition, change),
        };
        let refuses = match change {
            Change::Create(leaf, _) => self.leaf(leaf).is_some(),
            Change::Replace(leaf, _) => self.leaf(leaf).is_none(),
            Change::Delete => self.a.is_none() && self.b.is_none(),
            Change::Put(..) | Change::PutBoth { .. } | Change::Remove => false,
        };
        if refuses || condition.is_some_and(|condition| !self.holds(condition)) {
            return Output::Refused;
        }
        self.change(change);
        Output::Written { revision: self.revision }
    }

    fn leaf(&mut self, leaf: Leaf) -> &mut Option<Tagged> {
        if leaf == Leaf::A { &mut self.a } else { &mut self.b }
    }

    fn holds(&mut self, condition: Condition) -> bool {
        let leaf = *self.leaf(condition.leaf);
        match condition.expect {
            Expect::Absent => leaf.is_none(),
            Expect::Present => leaf.is_some(),
            Expect::Tag(tag) => leaf.map(|leaf| leaf.tag) == Some(tag),
            Expect::Value(value) => leaf.map(|leaf| leaf.value) == Some(value),
        }
    }

    fn change(&mut self, change: Change) {
        self.revision += 1;
        let tag = self.revision;
        match change {
            Change::Create(leaf, value) | Change::Put(leaf, value) | Change::Replace(leaf, value) => {
                *self.leaf(leaf) = Some(Tagged { value, tag });
            }
            Change::PutBoth { a, b } => {
                self.a = Some(Tagged { value: a, tag });
                self.b = Some(Tagged { value: b, tag });
            }
            Change::Delete | Change::Remove => (self.a, self.b) = (None, None),
        }
    }
}

/// One entry, what it was before, and what goes wrong with it later.
#[derive(Clone, Default)]
struct Entry {
    copy: Copy,
    past: Vec<Copy>,
    later: Option<(u32, Later)>,
    /// The tag that a client saw last.
    answered: u64,
}

#[derive(Clone)]
enum Later {
    Change(Change),
    TakeBack(Copy),
}

/// Operations of clients over five entries.
pub fn generate(rng: &mut Rng, clients: u32, operations: usize, error: Option<Error>) -> Vec<Operation<Input, Output>> {
    over(rng, clients, operations, error, 5)
}

/// Operations of clients on one entry.
pub fn on_one_key(
    rng: &mut Rng,
    clients: u32,
    operations: usize,
    error: Option<Error>,
) -> Vec<Operation<Input, Output>> {
    over(rng, clients, operations, error, 1)
}

/// Clients take turns at random: one invokes, has its operation take effect, or returns. One in fifty never returns.
fn over(
    rng: &mut Rng,
    clients: u32,
    operations: usize,
    error: Option<Error>,
    entries: u32,
) -> Vec<Operation<Input, Output>> {
    #[derive(Clone, Copy)]
    enum Phase {
        Idle,
        Invoked(usize),
        Performed(usize, Output),
    }
    let mut world = vec![Entry::default(); entries as usize];
    let mut phases = vec![Phase::Idle; clients as usize];
    let mut history = Vec::new();
    let mut now = 0;
    while history.len() < operations || phases.iter().any(|phase| !matches!(phase, Phase::Idle)) {
        now += 1 + u64::from(rng.below(1_000));
        let client = rng.below(clients);
        let phase = &mut phases[client as usize];
        *phase = match *phase {
            Phase::Idle if history.len() >= operations => Phase::Idle,
            Phase::Idle => {
                let entry = rng.below(entries);
                let action = action(rng, history.len() as u64 * 2 + 1, &mut world[entry as usize]);
                let invoked = Time::from_ns(now);
                let input = Input { entry, action };
                history.push(Operation { client, invoked, input, outcome: Outcome::Unknown });
                Phase::Invoked(history.len() - 1)
            }
            Phase::Invoked(index) => {
                let Input { entry, action } = history[index].input;
                let output = perform(&mut world[entry as usize], action, rng, error);
                Phase::Performed(index, output)
            }
            // A client that does not return gets no answer; another client takes its place.
            Phase::Performed(..) if rng.below(50) == 0 => Phase::Idle,
            Phase::Performed(index, output) => {
                let answered = &mut world[history[index].input.entry as usize].answered;
                match output {
                    Output::Leaf(Some(Tagged { tag, .. })) | Output::Written { revision: tag } => *answered = tag,
                    _ => {}
                }
                history[index].outcome = Outcome::Returned { at: Time::from_ns(now), output };
                Phase::Idle
            }
        };
    }
    history
}

fn action(rng: &mut Rng, value: u64, entry: &mut Entry) -> Action {
    let leaf = if rng.below(2) == 0 { Leaf::A } else { Leaf::B };
    let expect = match rng.below(8) {
        0 => Some(Expect::Absent),
        1 => Some(Expect::Present),
        2 => Some(Expect::Tag(entry.answered)),
        3 => entry.copy.leaf(leaf).map(|leaf| Expect::Value(leaf.value)),
        _ => None,
    };
    let change = match rng.below(14) {
        0..4 => return Action::Get(leaf),
        4..7 => return Action::List,
        7 => Change::Create(leaf, value),
        8 => Change::Replace(leaf, value),
        9 if rng.below(2) == 0 => Change::Delete,
        10 if rng.below(2) == 0 => Change::Remove,
        11 => Change::PutBoth { a: value, b: value + 1 },
        _ => Change::Put(leaf, value),
    };
    Action::Write { condition: expect.map(|expect| Condition { leaf, expect }), change }
}

/// Performs an action, and what was left for later once its time has come.
fn perform(entry: &mut Entry, action: Action, rng: &mut Rng, error: Option<Error>) -> Output {
    match entry.later.take() {
        Some((0, Later::Change(change))) => entry.copy.change(change),
        Some((0, Later::TakeBack(before))) => entry.copy = before,
        Some((n, later)) => entry.later = Some((n - 1, later)),
        None => {}
    }
    let before = entry.copy.clone();
    let output = entry.copy.perform(action);
    let changed = entry.copy.revision != before.revision;
    if changed {
        entry.past.push(before.clone());
    }
    let one_in = if error == Some(Error::TornTransaction) { 3 } else { 30 };
    let Some(error) = error.filter(|_| entry.later.is_none() && rng.below(one_in) == 0) else { return output };
    let Action::Write { change, .. } = action else {
        if error != Error::StaleRead || entry.past.len() < 12 {
            return output;
        }
        return entry.past[entry.past.len() - 12].clone().perform(action);
    };
    match error {
        Error::LostUpdate if changed => entry.copy = before,
        Error::DoubledWrite if changed => entry.later = Some((8, Later::Change(change))),
        Error::DirtyRead if changed => {
            entry.later = Some((8, Later::TakeBack(before)));
            return Output::NotDone;
        }
        Error::TornTransaction => {
            if let (true, Change::PutBoth { a, b }) = (changed, change) {
                entry.copy = before;
                entry.copy.change(Change::Put(Leaf::A, a));
                entry.later = Some((8, Later::Change(Change::Put(Leaf::B, b))));
            }
        }
        Error::RepeatedRevision if changed && before.revision > 0 => {
            entry.copy = before;
            entry.copy.revision -= 1;
            return entry.copy.perform(action);
        }
        _ => {}
    }
    output
}
