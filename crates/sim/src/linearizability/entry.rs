//! The model of one list entry with two leaves, `a` and `b`: what the clients of the simulated and of the live cluster
//! ask for.
//!
//! Values are numbers that tests never write twice, so a value read names the write that it comes from. Each leaf has an
//! entity tag (RFC 8040, section 3.5.2): the revision of the write that it comes from. Revisions grow with each change
//! of the entry, also over a time at which it was deleted.

use std::fmt::{self, Display};

use super::hindsight::resolve;
use super::{Check, Limits, Model, Operation};

/// What a client asks of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads one leaf.
    Get(Leaf),
    /// Both leaves as they are at one moment.
    List,
    /// A change, if the condition holds.
    Write {
        /// What is to hold, if anything.
        condition: Option<Condition>,
        /// What is to change.
        change: Change,
    },
}

/// What must hold for a change to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The leaf that is looked at.
    pub leaf: Leaf,
    /// What it must be.
    pub expect: Expect,
}

/// What a condition expects of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The leaf must have no value.
    Absent,
    /// The leaf must have a value.
    Present,
    /// The value of this entity tag. Clients only use one that a linearizable operation returned before.
    Tag(u64),
    /// The leaf must have this value.
    Value(u64),
}

/// A change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets a leaf that is absent, or is refused.
    Create(Leaf, u64),
    /// Sets a leaf.
    Put(Leaf, u64),
    /// Sets a leaf that is present, or is refused.
    Replace(Leaf, u64),
    /// Sets both leaves in one transaction.
    PutBoth {
        /// The value for leaf `a`.
        a: u64,
        /// The value for leaf `b`.
        b: u64,
    },
    /// Deletes both leaves, or is refused if both are absent.
    Delete,
    /// Deletes what there is.
    Remove,
}

/// A leaf of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leaf {
    /// The first leaf of an entry.
    A,
    /// The second leaf of an entry.
    B,
}

/// An [`Action`] on one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// The entry's list key.
    pub entry: u32,
    /// What to do.
    pub action: Action,
}

/// A leaf's value and its entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tagged {
    /// The value that was written.
    pub value: u64,
    /// The entity tag.
    pub tag: u64,
}

/// The answer that a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The answer to [`Action::Get`].
    Leaf(Option<Tagged>),
    /// Of [`Action::List`]: `a` and `b`.
    Leaves(Option<Tagged>, Option<Tagged>),
    /// Of [`Action::Write`]: done.
    Written {
        /// The entity tag of what was written.
        revision: u64,
    },
    /// Of [`Action::Write`]: the client got no answer, but somebody saw what it wrote. [`check`] puts it in.
    Seen {
        /// The entity tag that was seen.
        revision: u64,
    },
    /// Of [`Action::Write`]: a condition, or what the change itself asks for, did not hold.
    Refused,
    /// The operation had no effect and never will: it was turned away before it was tried.
    NotDone,
}

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
    /// Nobody has seen it yet; it lies between these, both excluded.
    Between(u64, u64),
}

/// The model of an entry with two leaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct EntryModel;

/// Checks a history of entries, in which no value is written twice and none is zero.
///
/// It finds what [`super::check`] finds with an [`EntryModel`], but many writes of unknown outcome cost it little: what
/// others saw shows which of them took effect.
pub fn check(history: &[Operation<Input, Output>], limits: Limits) -> Check<u32> {
    super::check(&EntryModel, &resolve(history), limits)
}

impl State {
    fn is_present(&self) -> bool {
        self.leaves.iter().any(Option::is_some)
    }

    /// Whether a condition holds.
    ///
    /// A tag that nobody has seen is not one that a client can ask for: clients know tags from the answers of
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

    /// The state after a change that is done and has this revision, if it is known.
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

    /// The state after somebody has seen a leaf's tag.
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

impl Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.action {
            Action::Get(leaf) => write!(f, "get {leaf}"),
            Action::List => f.write_str("list"),
            Action::Write { condition: None, change } => change.fmt(f),
            Action::Write { condition: Some(Condition { leaf, expect }), change } => {
                write!(f, "{change} if {leaf} {expect}")
            }
        }
    }
}

impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(leaf, value) => write!(f, "create {leaf}={value}"),
            Self::Put(leaf, value) => write!(f, "put {leaf}={value}"),
            Self::Replace(leaf, value) => write!(f, "replace {leaf}={value}"),
            Self::PutBoth { a, b } => write!(f, "put a={a} and b={b}"),
            Self::Delete => f.write_str("delete"),
            Self::Remove => f.write_str("remove"),
        }
    }
}

impl Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("is absent"),
            Self::Present => f.write_str("is present"),
            Self::Tag(tag) => write!(f, "has tag {tag}"),
            Self::Value(value) => write!(f, "is {value}"),
        }
    }
}

impl Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "a",
            Self::B => "b",
        })
    }
}

impl Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |seen: Option<Tagged>| {
            seen.map_or("absent".to_owned(), |Tagged { value, tag }| format!("{value} (tag {tag})"))
        };
        match *self {
            Self::Leaf(seen) => f.write_str(&show(seen)),
            Self::Leaves(a, b) => write!(f, "a={} b={}", show(a), show(b)),
            Self::Written { revision } => write!(f, "written with tag {revision}"),
            Self::Seen { revision } => write!(f, "unknown, seen with tag {revision}"),
            Self::Refused => f.write_str("refused"),
            Self::NotDone => f.write_str("not done"),
        }
    }
}
