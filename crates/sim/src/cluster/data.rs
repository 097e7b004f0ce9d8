//! The entries that clients work on, as paths and bytes.

use store::protocol::{Consistency, RequestBody};
use tree::{Bytes, Location, Path};
use workload::Layout;
use workload::entry::Leaf;

/// Entries are spread over these modules: module, container, list.
const LISTS: [(&str, &str, &str); 2] = [("car", "cars", "car-entry"), ("people", "people", "person")];

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

/// What a client sends to list all entries of a module.
pub fn list_container(module: u32, consistency: Consistency) -> RequestBody {
    RequestBody::List { at: container(module), after: None, limit: CONTAINER_LIMIT, consistency }
}

/// Whether a path lies in an entry.
pub fn is_of(number: u32, at: &Path) -> bool {
    entry(number).path.contains(at)
}

/// How clients write requests and read answers.
#[derive(Clone, Copy, Debug)]
pub struct Entries;

impl Layout for Entries {
    fn entry(&self, number: u32) -> Location {
        entry(number)
    }

    fn leaf(&self, number: u32, which: Leaf) -> Location {
        leaf(number, which)
    }

    fn value(&self, to: u64) -> Bytes {
        value(to)
    }

    fn number(&self, bytes: &[u8]) -> Option<u64> {
        number(bytes)
    }
}

#[cfg(test)]
mod tests {
    use workload::entry::{Output, Tagged};

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
    fn leaves_are_distinguished() {
        let found = vec![(leaf(3, Leaf::B).path, 9, value(7).to_vec())];
        assert_eq!(Entries.listed(3, &found), Some(Output::Leaves(None, Some(Tagged { value: 7, tag: 9 }))));
        assert_eq!(Entries.listed(4, &found), None);
        assert!(container(3).contains(&entry(3)) && !container(2).contains(&entry(3)));
    }
}
