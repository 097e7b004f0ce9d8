//! What a client was told last of the leaves of entries.

use std::collections::BTreeMap;

use crate::entry::{Action, Change, Input, Leaf, Output, Tagged};

/// Values and entity tags, for conditions to come.
#[derive(Clone, Debug, Default)]
pub struct Known(BTreeMap<(u32, Leaf), Tagged>);

impl Known {
    /// What is known of a leaf.
    pub fn get(&self, entry: u32, leaf: Leaf) -> Option<Tagged> {
        self.0.get(&(entry, leaf)).copied()
    }

    /// What an answer tells. It must be linearizable: a condition on a tag that only a stale read told is none that a checker knows.
    pub fn learn(&mut self, input: Input, output: Output) {
        let mut know = |leaf, seen: Option<Tagged>| match seen {
            Some(seen) => {
                self.0.insert((input.entry, leaf), seen);
            }
            None => {
                self.0.remove(&(input.entry, leaf));
            }
        };
        match (input.action, output) {
            (Action::Get(leaf), Output::Leaf(seen)) => know(leaf, seen),
            (Action::List, Output::Leaves(a, b)) => {
                know(Leaf::A, a);
                know(Leaf::B, b);
            }
            (Action::Write { change, .. }, Output::Written { revision: tag }) => match change {
                Change::Create(leaf, value) | Change::Put(leaf, value) | Change::Replace(leaf, value) => {
                    know(leaf, Some(Tagged { value, tag }));
                }
                Change::PutBoth { a, b } => {
                    know(Leaf::A, Some(Tagged { value: a, tag }));
                    know(Leaf::B, Some(Tagged { value: b, tag }));
                }
                Change::Delete | Change::Remove => {}
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_teach() {
        let mut known = Known::default();
        let write = |change| Action::Write { condition: None, change };
        known.learn(Input { entry: 1, action: write(Change::PutBoth { a: 5, b: 6 }) }, Output::Written { revision: 9 });
        assert_eq!(known.get(1, Leaf::B), Some(Tagged { value: 6, tag: 9 }));
        known.learn(Input { entry: 1, action: write(Change::Put(Leaf::A, 7)) }, Output::Refused);
        assert_eq!(known.get(1, Leaf::A), Some(Tagged { value: 5, tag: 9 }), "what is refused changes nothing");
        known.learn(Input { entry: 1, action: Action::Get(Leaf::A) }, Output::Leaf(None));
        assert_eq!((known.get(1, Leaf::A), known.get(2, Leaf::B)), (None, None));
    }
}
