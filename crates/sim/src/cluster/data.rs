//! The entries that clients work on, as paths and transactions.

use store::protocol::{Consistency, RequestBody};
use tree::{Bytes, Location, Path, Transaction};

use crate::linearizability::entry::{Action, Change, Condition, Expect, Leaf, Output, Tagged};

/// Entries are spread over these modules: module, container, list.
const LISTS: [(&str, &str, &str); 2] = [("car", "cars", "car-entry"), ("people", "people", "person")];

/// Most values in an entry, and more than that.
const LIST_LIMIT: u32 = 16;

/// Most values of a module, and more than that.
const CONTAINER_LIMIT: u32 = 256;

/// How many modules there are.
pub const MODULES: u32 = LISTS.len() as u32;

/// The name of a module.
pub fn module(number: u32) -> &'static str {
    LISTS[number as usize % LISTS.len()].0
}

/// The container that holds all entries of a module in one datastore.
pub fn container(number: u32) -> Location {
    let (module, container, _) = LISTS[number as usize % LISTS.len()];
    Location::config(path(&format!("/{module}:{container}")))
}

/// Places of so many entries are made once a thread: clients, watchers and checkers ask for them all the time.
const KNOWN: u32 = 16;

// By thread: simulations beside each other would wait for each other's counts of clones.
thread_local! {
    static ENTRIES: Vec<Location> = (0..KNOWN).map(make_entry).collect();
    static LEAVES: Vec<[Location; 2]> =
        (0..KNOWN).map(|number| [Leaf::A, Leaf::B].map(|leaf| make_leaf(number, leaf))).collect();
}

/// Where an entry is.
pub fn entry(number: u32) -> Location {
    ENTRIES.with(|known| known.get(number as usize).cloned()).unwrap_or_else(|| make_entry(number))
}

/// Where a leaf of an entry is.
pub fn leaf(number: u32, leaf: Leaf) -> Location {
    let known = LEAVES.with(|known| known.get(number as usize).map(|leaves| leaves[leaf as usize].clone()));
    known.unwrap_or_else(|| make_leaf(number, leaf))
}

fn make_entry(number: u32) -> Location {
    let (module, container, list) = LISTS[number as usize % LISTS.len()];
    Location::config(path(&format!("/{module}:{container}/{list}={number}")))
}

fn make_leaf(number: u32, leaf: Leaf) -> Location {
    let name = if leaf == Leaf::A { "a" } else { "b" };
    Location::config(entry(number).path.child(name, &[]).expect("a valid name"))
}

fn path(text: &str) -> Path {
    Path::parse(text).expect("a valid path")
}

/// The first number of a value that is large.
pub const LARGE: u64 = 1 << 40;

/// A value's bytes: its number, and some more, so that logs and snapshots have something to hold.
pub fn value(number: u64) -> Bytes {
    let mut bytes = Vec::with_capacity(8 + more_bytes(number));
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.resize(8 + more_bytes(number), 0xa5);
    bytes.into()
}

/// Bytes of a value behind its number: up to 200; or up to 225 KiB, and now and then a mebibyte.
fn more_bytes(number: u64) -> usize {
    match (number >= LARGE, (number % 11) as usize) {
        (false, nth) => nth * 20,
        (true, 10) => (1 << 20) - 8,
        (true, nth) => (nth * 25) << 10,
    }
}

/// The number in a value's bytes.
pub fn number(bytes: &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    let number = u64::from_le_bytes(*number);
    (rest.len() == more_bytes(number)).then_some(number)
}

/// What a client sends for an action.
pub fn request(number: u32, action: Action, consistency: Consistency) -> RequestBody {
    match action {
        Action::Get(which) => RequestBody::Get { at: leaf(number, which), consistency },
        Action::List => RequestBody::List { at: entry(number), after: None, limit: LIST_LIMIT, consistency },
        Action::Write { condition, change } => RequestBody::Write(transaction(number, condition, change)),
    }
}

/// What a client sends to list all entries of a module.
pub fn list_container(module: u32, consistency: Consistency) -> RequestBody {
    RequestBody::List { at: container(module), after: None, limit: CONTAINER_LIMIT, consistency }
}

/// Whether a path lies in an entry.
pub fn is_of(number: u32, at: &Path) -> bool {
    entry(number).path.contains(at)
}

fn transaction(number: u32, condition: Option<Condition>, change: Change) -> Transaction {
    let at = |which| leaf(number, which);
    let changes = match change {
        Change::Create(which, to) => vec![tree::Change::Create { at: at(which), value: value(to) }],
        Change::Put(which, to) => vec![tree::Change::Put { at: at(which), value: value(to) }],
        Change::Replace(which, to) => vec![tree::Change::Replace { at: at(which), value: value(to) }],
        Change::PutBoth { a, b } => vec![
            tree::Change::Put { at: at(Leaf::A), value: value(a) },
            tree::Change::Put { at: at(Leaf::B), value: value(b) },
        ],
        Change::Delete => vec![tree::Change::Delete { at: entry(number) }],
        Change::Remove => vec![tree::Change::Remove { at: entry(number) }],
    };
    let conditions = condition.map(|Condition { leaf: which, expect }| tree::Condition {
        at: at(which),
        expect: match expect {
            Expect::Absent => tree::Expect::Absent,
            Expect::Present => tree::Expect::Present,
            Expect::Tag(tag) => tree::Expect::Etag(tag),
            Expect::Value(to) => tree::Expect::Value(value(to)),
        },
    });
    Transaction { conditions: conditions.into_iter().collect(), changes }
}

/// A leaf as it was read; nothing if the bytes are none that a client wrote.
pub fn tagged(tag: u64, bytes: &[u8]) -> Option<Tagged> {
    Some(Tagged { value: number(bytes)?, tag })
}

/// An entry as it was read; nothing if there is something in it that no client wrote.
pub fn listed(number: u32, found: &[(Path, u64, Vec<u8>)]) -> Option<Output> {
    let mut leaves = [None; 2];
    for (path, tag, bytes) in found {
        let which = [Leaf::A, Leaf::B].into_iter().find(|which| leaf(number, *which).path == *path)?;
        leaves[which as usize] = Some(tagged(*tag, bytes)?);
    }
    Some(Output::Leaves(leaves[0], leaves[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_name_their_write() {
        for to in [0, 1, 10, 12_345, LARGE, LARGE + 9] {
            assert_eq!(number(&value(to)), Some(to));
        }
        assert_eq!(number(&value(10)[..20]), None);
        assert_eq!(number(b"short"), None);
    }

    #[test]
    fn leaves_are_told_apart() {
        let found = vec![(leaf(3, Leaf::B).path, 9, value(7).to_vec())];
        assert_eq!(listed(3, &found), Some(Output::Leaves(None, Some(Tagged { value: 7, tag: 9 }))));
        assert_eq!(listed(4, &found), None);
        assert!(container(3).contains(&entry(3)) && !container(2).contains(&entry(3)));
    }
}
