//! Entries as paths and bytes: how a request is written, and how an answer is read.

use store::protocol::{Answer, Consistency, RequestBody};
use tree::{Bytes, Location, Path, Transaction};

use crate::entry::{Action, Change, Condition, Expect, Input, Leaf, Output, Tagged};

/// Most values in one answer to a list, and more than an entry has.
const LIST_LIMIT: u32 = 16;

/// Where entries are, and what their values look like.
pub trait Layout {
    /// Where an entry is.
    fn entry(&self, number: u32) -> Location;

    /// Where a leaf of an entry is.
    fn leaf(&self, number: u32, leaf: Leaf) -> Location;

    /// A value's bytes.
    fn value(&self, number: u64) -> Bytes;

    /// Which value these bytes are; nothing if no client wrote them.
    fn number(&self, value: &[u8]) -> Option<u64>;

    /// What a client sends.
    fn request(&self, Input { entry, action }: Input, consistency: Consistency) -> RequestBody {
        match action {
            Action::Get(which) => RequestBody::Get { at: self.leaf(entry, which), consistency },
            Action::List => RequestBody::List { at: self.entry(entry), after: None, limit: LIST_LIMIT, consistency },
            Action::Write { condition, change } => RequestBody::Write(self.transaction(entry, condition, change)),
        }
    }

    /// A change of an entry, if a condition holds.
    fn transaction(&self, entry: u32, condition: Option<Condition>, change: Change) -> Transaction {
        let at = |which| self.leaf(entry, which);
        let changes = match change {
            Change::Create(which, to) => vec![tree::Change::Create { at: at(which), value: self.value(to) }],
            Change::Put(which, to) => vec![tree::Change::Put { at: at(which), value: self.value(to) }],
            Change::Replace(which, to) => vec![tree::Change::Replace { at: at(which), value: self.value(to) }],
            Change::PutBoth { a, b } => vec![
                tree::Change::Put { at: at(Leaf::A), value: self.value(a) },
                tree::Change::Put { at: at(Leaf::B), value: self.value(b) },
            ],
            Change::Delete => vec![tree::Change::Delete { at: self.entry(entry) }],
            Change::Remove => vec![tree::Change::Remove { at: self.entry(entry) }],
        };
        let conditions = condition.map(|Condition { leaf: which, expect }| tree::Condition {
            at: at(which),
            expect: match expect {
                Expect::Absent => tree::Expect::Absent,
                Expect::Present => tree::Expect::Present,
                Expect::Tag(tag) => tree::Expect::Etag(tag),
                Expect::Value(to) => tree::Expect::Value(self.value(to)),
            },
        });
        Transaction { conditions: conditions.into_iter().collect(), changes }
    }

    /// What an answer to `input` says.
    ///
    /// # Errors
    /// If no server that is asked so by these clients answers that; the text says what is wrong.
    fn output(&self, input: Input, answer: &Answer) -> Result<Output, String> {
        let strange = || format!("the answer to {input} holds what no client wrote");
        match (input.action, answer) {
            (Action::Get(_), Answer::Value(None)) => Ok(Output::Leaf(None)),
            (Action::Get(_), Answer::Value(Some((tag, bytes)))) => {
                Ok(Output::Leaf(Some(self.tagged(*tag, bytes).ok_or_else(strange)?)))
            }
            (Action::List, Answer::Values { entries, more: false }) => {
                self.listed(input.entry, entries).ok_or_else(strange)
            }
            (Action::Write { .. }, Answer::Written { revision }) => Ok(Output::Written { revision: *revision }),
            (_, answer) => Err(format!("{answer:?} is no answer to {input}")),
        }
    }

    /// A leaf as it was read; nothing if the bytes are none that a client wrote.
    fn tagged(&self, tag: u64, bytes: &[u8]) -> Option<Tagged> {
        Some(Tagged { value: self.number(bytes)?, tag })
    }

    /// An entry as it was listed; nothing if there is something in it that no client wrote.
    fn listed(&self, number: u32, found: &[(Path, u64, Vec<u8>)]) -> Option<Output> {
        let mut leaves = [None; 2];
        for (path, tag, bytes) in found {
            let which = [Leaf::A, Leaf::B].into_iter().find(|which| self.leaf(number, *which).path == *path)?;
            leaves[which as usize] = Some(self.tagged(*tag, bytes)?);
        }
        Some(Output::Leaves(leaves[0], leaves[1]))
    }
}
