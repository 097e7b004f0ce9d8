//! The list entries that are asked for, as paths and values.
//!
//! The entry's own value is leaf `a` of [`sim::linearizability::entry`], a child is leaf `b`. Values begin with a number
//! that is written once, so that a value that is read names the write that it comes from.

use sim::linearizability::entry::{Action, Change, Condition, Expect, Leaf, Output, Tagged};
use store::protocol::{Consistency, RequestBody};
use tree::{Bytes, Location, Path, Transaction};

/// The module of most operations.
pub(super) const CARS: &str = "car";
/// The module of the routed RPC.
pub(super) const PEOPLE: &str = "people";
/// The routed RPC.
pub(super) const ADD_PERSON: &str = "people:add-person";

/// Bytes of a number at the head of a value.
const NUMBER_BYTES: usize = 8;
/// Most entries in one answer to a list: an entry has two values.
const LIST_LIMIT: u32 = 16;

/// The container of a module's list.
pub(super) fn container(module: &str) -> Location {
    let text = if module == PEOPLE { "/people:people" } else { "/car:cars" };
    Location::config(path(text))
}

/// An entry of `car`.
pub(super) fn car(entry: u32) -> Location {
    Location::config(path(&format!("/car:cars/car-entry={entry}")))
}

/// An entry of `people`.
pub(super) fn person(entry: u64) -> Location {
    Location::config(path(&format!("/people:people/person={entry}")))
}

fn path(text: &str) -> Path {
    Path::parse(text).expect("a valid path")
}

fn leaf(entry: u32, leaf: Leaf) -> Location {
    let at = car(entry);
    match leaf {
        Leaf::A => at,
        Leaf::B => Location::config(at.path.child("b", &[]).expect("a valid name")),
    }
}

/// A value of `bytes` bytes, eight at least, that begins with its number.
pub(super) fn value(number: u64, bytes: u32) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    value.resize((bytes as usize).max(NUMBER_BYTES), b'v');
    value
}

/// The number of a value.
pub(super) fn number(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|number| u64::from_le_bytes(*number))
}

/// What a client sends for an action on an entry.
pub(super) fn request(entry: u32, action: Action, value_bytes: u32) -> RequestBody {
    let consistency = Consistency::Linearizable;
    match action {
        Action::Get(which) => RequestBody::Get { at: leaf(entry, which), consistency },
        Action::List => RequestBody::List { at: car(entry), after: None, limit: LIST_LIMIT, consistency },
        Action::Write { condition, change } => RequestBody::Write(transaction(entry, condition, change, value_bytes)),
    }
}

fn transaction(entry: u32, condition: Option<Condition>, change: Change, value_bytes: u32) -> Transaction {
    let to = |number| Bytes::from(value(number, value_bytes));
    let changes = match change {
        Change::Create(which, number) => vec![tree::Change::Create { at: leaf(entry, which), value: to(number) }],
        Change::Put(which, number) => vec![tree::Change::Put { at: leaf(entry, which), value: to(number) }],
        Change::Replace(which, number) => vec![tree::Change::Replace { at: leaf(entry, which), value: to(number) }],
        Change::PutBoth { a, b } => vec![
            tree::Change::Put { at: leaf(entry, Leaf::A), value: to(a) },
            tree::Change::Put { at: leaf(entry, Leaf::B), value: to(b) },
        ],
        Change::Delete => vec![tree::Change::Delete { at: car(entry) }],
        Change::Remove => vec![tree::Change::Remove { at: car(entry) }],
    };
    let conditions = condition.map(|Condition { leaf: which, expect }| tree::Condition {
        at: leaf(entry, which),
        expect: match expect {
            Expect::Absent => tree::Expect::Absent,
            Expect::Present => tree::Expect::Present,
            Expect::Tag(tag) => tree::Expect::Etag(tag),
            Expect::Value(number) => tree::Expect::Value(to(number)),
        },
    });
    Transaction { conditions: conditions.into_iter().collect(), changes }
}

/// An entry as it was listed; nothing if there is something in it that no client wrote.
pub(super) fn listed(entry: u32, found: &[(Path, u64, Vec<u8>)]) -> Option<Output> {
    let mut leaves = [None; 2];
    for (path, tag, bytes) in found {
        let which = [Leaf::A, Leaf::B].into_iter().find(|which| leaf(entry, *which).path == *path)?;
        leaves[which as usize] = Some(Tagged { value: number(bytes)?, tag: *tag });
    }
    Some(Output::Leaves(leaves[0], leaves[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_name_their_write_whatever_their_length() {
        for (to, bytes) in [(1, 0), (7, 8), (u64::MAX, 200)] {
            let value = value(to, bytes);
            assert_eq!((number(&value), value.len()), (Some(to), (bytes as usize).max(8)));
        }
        assert_eq!(number(b"short"), None);
    }

    #[test]
    fn an_entry_is_its_own_value_and_a_child() {
        let found = vec![(leaf(3, Leaf::A).path, 4, value(9, 20)), (leaf(3, Leaf::B).path, 5, value(10, 20))];
        let tagged = |value, tag| Some(Tagged { value, tag });
        assert_eq!(listed(3, &found), Some(Output::Leaves(tagged(9, 4), tagged(10, 5))));
        assert_eq!(listed(4, &found), None, "another entry's");
        assert!(container(CARS).contains(&car(3)) && container(PEOPLE).contains(&person(3)));
    }
}
