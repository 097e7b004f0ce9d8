//! One list entry with two leaves, `a` and `b`: what clients ask of it, and what they are told.
//!
//! Values are numbers. Where answers are checked, no number is written twice, so that a value that is read names the write that it comes
//! from.

use std::fmt::{self, Display};

/// What a client asks of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// One leaf.
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
    /// No value.
    Absent,
    /// Any value.
    Present,
    /// The value of this entity tag. Clients only use one that a linearizable operation told them before.
    Tag(u64),
    /// This value.
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
        /// Leaf `a`.
        a: u64,
        /// Leaf `b`.
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
    /// The first.
    A,
    /// The second.
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
    /// The value.
    pub value: u64,
    /// The entity tag.
    pub tag: u64,
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Of [`Action::Get`].
    Leaf(Option<Tagged>),
    /// Of [`Action::List`]: `a` and `b`.
    Leaves(Option<Tagged>, Option<Tagged>),
    /// Of [`Action::Write`]: done.
    Written {
        /// The entity tag of what was written.
        revision: u64,
    },
    /// Of [`Action::Write`]: nobody told the client, but somebody saw what it wrote. The checker of histories puts it in.
    Seen {
        /// The entity tag that was seen.
        revision: u64,
    },
    /// Of [`Action::Write`]: a condition, or what the change itself asks for, did not hold.
    Refused,
    /// The operation had no effect and never will: it was turned away before it was tried.
    NotDone,
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
