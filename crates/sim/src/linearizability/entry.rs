//! The model of one list entry with two leaves, `a` and `b`: what the clients of the simulated and of the live cluster
//! ask for.
//!
//! Values are numbers that tests never write twice, so a value read names the write that it comes from. Each leaf has an
//! entity tag (RFC 8040, section 3.5.2): the revision of the write that it comes from. Revisions grow with each change
//! of the entry, also over a time at which it was deleted.

pub use workload::entry::{Action, Change, Condition, Expect, Input, Leaf, Output, Tagged};

use super::hindsight::resolve;
use super::{Check, Limits, Model, Operation};

/// The entry as the model knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    leaves: [Option<(u64, Tag)>; 2],
    /// Both leaves come from one write, so their tags are equal.
    joint: bool,
    /// The last revision that is known, of a deletion too.
    revision: u64,
}

/// What is known of a leaf's entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Tag {
    Known(u64),
    /// Nobody has heard it yet; it lies between these, both excluded.
    Between(u64, u64),
}

/// The model of an entry with two leaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct EntryModel;

/// Checks a history of entries, in which no value is written twice and none is zero.
///
/// It finds what [`super::check`] finds with an [`EntryModel`], but many writes of unknown outcome cost it little: what
/// others saw tells which of them took effect.
pub fn check(history: &[Operation<Input, Output>], limits: Limits) -> Check<u32> {
    super::check(&EntryModel, &resolve(history), limits)
}

impl State {
    fn is_present(&self) -> bool {
        self.leaves.iter().any(Option::is_some)
    }

    /// Whether a condition holds.
    ///
    /// A tag that nobody was given is not one that a client can ask for: clients know tags from the answers of
    /// linearizable operations, which the order has placed before.
    fn holds(&self, condition: Condition) -> bool {
        let leaf = self.leaves[condition.leaf as usize];
        match condition.expect {
            Expect::Absent => leaf.is_none(),
            Expect::Present => leaf.is_some(),
            Expect::Tag(tag) => leaf.is_some_and(|(_, known)| known == Tag::Known(tag)),
            Expect::Value(value) => leaf.is_some_and(|(other, _)| other == value),
        }
    }

    /// Whether the change itself may be done.
    fn admits(&self, change: Change) -> bool {
        match change {
            Change::Create(leaf, _) => self.leaves[leaf as usize].is_none(),
            Change::Replace(leaf, _) => self.leaves[leaf as usize].is_some(),
            Change::Delete => self.is_present(),
            Change::Put(..) | Change::PutBoth { .. } | Change::Remove => true,
        }
    }

    /// The state after a change that is done and has this revision, if it was answered.
    fn changed(mut self, change: Change, revision: Option<u64>) -> Option<Self> {
        if matches!(change, Change::Remove | Change::Delete) && !self.is_present() {
            return Some(self);
        }
        if let Some(revision) = revision {
            self = self.at(revision)?;
        }
        let tag = revision.map_or(Tag::Between(self.revision, u64::MAX), Tag::Known);
        self.joint = matches!(change, Change::PutBoth { .. });
        match change {
            Change::Create(leaf, value) | Change::Put(leaf, value) | Change::Replace(leaf, value) => {
                self.leaves[leaf as usize] = Some((value, tag));
            }
            Change::PutBoth { a, b } => self.leaves = [Some((a, tag)), Some((b, tag))],
            Change::Delete | Change::Remove => self.leaves = [None; 2],
        }
        Some(self)
    }

    /// The state just before a change of this revision, which must be larger than all before.
    fn at(mut self, revision: u64) -> Option<Self> {
        for (_, tag) in self.leaves.iter_mut().flatten() {
            if let Tag::Between(after, before) = *tag {
                *tag = Tag::Between(after, before.min(revision));
            }
        }
        (revision > self.revision).then_some(Self { revision, ..self })
    }

    /// The state in which a leaf is what somebody read.
    fn read(self, leaf: Leaf, seen: Option<Tagged>) -> Option<Self> {
        match (self.leaves[leaf as usize], seen) {
            (None, None) => Some(self),
            (Some((value, Tag::Known(tag))), Some(seen)) => (Tagged { value, tag } == seen).then_some(self),
            (Some((value, Tag::Between(after, before))), Some(seen)) => {
                let fits = value == seen.value && after < seen.tag && seen.tag < before;
                fits.then(|| self.answered(leaf, seen.tag))
            }
            _ => None,
        }
    }

    /// The state after somebody was given a leaf's tag.
    fn answered(mut self, leaf: Leaf, tag: u64) -> Self {
        for other in [Leaf::A, Leaf::B].into_iter().filter(|&other| other == leaf || self.joint) {
            if let Some((_, known)) = &mut self.leaves[other as usize] {
                *known = Tag::Known(tag);
            }
        }
        self.revision = self.revision.max(tag);
        self
    }
}

impl Model for EntryModel {
    type Key = u32;
    type State = State;
    type Input = Input;
    type Output = Output;

    fn key(&self, input: &Input) -> u32 {
        input.entry
    }

    fn initial(&self, _: &u32) -> State {
        State::default()
    }

    fn step(&self, state: &State, input: &Input, output: Option<&Output>) -> Option<State> {
        let state = *state;
        match (input.action, output) {
            (_, Some(Output::NotDone)) | (Action::Get(_) | Action::List, None) => Some(state),
            (Action::Get(leaf), Some(&Output::Leaf(seen))) => state.read(leaf, seen),
            (Action::List, Some(&Output::Leaves(a, b))) => state.read(Leaf::A, a)?.read(Leaf::B, b),
            (Action::Write { condition, change }, _) => {
                let done = condition.is_none_or(|condition| state.holds(condition)) && state.admits(change);
                match output {
                    Some(&(Output::Written { revision } | Output::Seen { revision })) if done => {
                        state.changed(change, Some(revision))
                    }
                    None if done => state.changed(change, None),
                    Some(Output::Refused) | None if !done => Some(state),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn has_no_effect(&self, input: &Input, output: Option<&Output>) -> bool {
        matches!(input.action, Action::Get(_) | Action::List)
            || matches!(output, Some(Output::Refused | Output::NotDone))
    }

    /// Writes go by their revisions. A removal of nothing has no revision of its own.
    fn place(&self, input: &Input, output: &Output) -> Option<u64> {
        match (input.action, output) {
            (Action::Write { change: Change::Remove, .. }, _) => None,
            (Action::Write { .. }, Output::Written { revision } | Output::Seen { revision }) => Some(*revision),
            _ => None,
        }
    }
}
