//! The lists that controllers are measured with: cars that are written and read, people who are added by a routed RPC.

use store::protocol::RequestBody;
use tree::{Bytes, Location, Path};

use crate::entry::Leaf;
use crate::layout::Layout;

/// The module of most operations.
pub const CARS: &str = "car";
/// The module of the routed RPC.
pub const PEOPLE: &str = "people";
/// The routed RPC.
pub const ADD_PERSON: &str = "people:add-person";
/// Bytes of a number at the head of a value. Of shorter values nobody can say which they are.
const NUMBER_BYTES: u32 = 8;

/// The container of a module's list.
pub fn container(module: &str) -> Location {
    let text = if module == PEOPLE { "/people:people" } else { "/car:cars" };
    Location::config(path(text))
}

/// An entry of `people`.
pub fn person(entry: u64) -> Location {
    Location::config(path(&format!("/people:people/person={entry}")))
}

/// As long as a path may be, unless `below` is itself as long as one may be.
fn child_of(below: &Path, list: &str, number: u64) -> Path {
    below.child(list, &[&number.to_string()]).unwrap_or_else(|_| below.clone())
}

fn path(text: &str) -> Path {
    Path::parse(text).expect("a valid path")
}

/// Entries of `car`: an entry's own value is leaf `a`, a child is leaf `b`.
#[derive(Clone, Debug)]
pub struct Cars {
    /// Bytes of a value.
    pub value_bytes: u32,
    /// What the entries are below, instead of the container of cars.
    pub below: Option<Path>,
}

impl Cars {
    /// Cars whose values say which they are: they have so many bytes, or as many as a number needs.
    pub fn numbered(value_bytes: u32) -> Self {
        Self { value_bytes: value_bytes.max(NUMBER_BYTES), below: None }
    }

    /// The routed call that adds a person with this number.
    pub fn call(&self, number: u64) -> RequestBody {
        let person = match &self.below {
            None => person(number).path,
            Some(below) => child_of(below, "person", number),
        };
        RequestBody::Call {
            name: ADD_PERSON.to_owned(),
            path: Some(person),
            input: self.bytes(number),
            idempotent: false,
        }
    }

    fn bytes(&self, number: u64) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.value_bytes.max(NUMBER_BYTES) as usize);
        value.extend_from_slice(&number.to_le_bytes());
        value.resize(self.value_bytes as usize, b'v');
        value
    }
}

impl Layout for Cars {
    fn entry(&self, number: u32) -> Location {
        Location::config(match &self.below {
            None => path(&format!("/car:cars/car-entry={number}")),
            Some(below) => child_of(below, "request", number.into()),
        })
    }

    fn leaf(&self, number: u32, leaf: Leaf) -> Location {
        let at = self.entry(number);
        match leaf {
            Leaf::A => at,
            Leaf::B => Location::config(at.path.child("b", &[]).expect("a valid name")),
        }
    }

    fn value(&self, number: u64) -> Bytes {
        self.bytes(number).into()
    }

    fn number(&self, value: &[u8]) -> Option<u64> {
        value.first_chunk().map(|number| u64::from_le_bytes(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Output, Tagged};

    fn cars(value_bytes: u32) -> Cars {
        Cars { value_bytes, below: None }
    }

    #[test]
    fn values_name_their_write_if_they_are_long_enough() {
        for (to, bytes) in [(7, 8), (u64::MAX, 200)] {
            let value = cars(bytes).value(to);
            assert_eq!((cars(bytes).number(&value), value.len()), (Some(to), bytes as usize));
        }
        assert_eq!(cars(3).value(1).len(), 3);
        assert_eq!(cars(3).number(b"short"), None);
    }

    #[test]
    fn an_entry_is_its_own_value_and_a_child() {
        let cars = cars(20);
        let value = |leaf, tag, number| (cars.leaf(3, leaf).path, tag, cars.value(number).to_vec());
        let found = vec![value(Leaf::A, 4, 9), value(Leaf::B, 5, 10)];
        let tagged = |value, tag| Some(Tagged { value, tag });
        assert_eq!(cars.listed(3, &found), Some(Output::Leaves(tagged(9, 4), tagged(10, 5))));
        assert_eq!(cars.listed(4, &found), None, "another entry's");
        assert!(container(CARS).contains(&cars.entry(3)) && container(PEOPLE).contains(&person(3)));
    }

    #[test]
    fn entries_can_lie_elsewhere() {
        let below = Path::parse("/check:perf").unwrap();
        let there = Cars { value_bytes: 8, below: Some(below.clone()) };
        assert!(below.contains(&there.entry(3).path) && there.entry(3) != there.entry(4));
        let RequestBody::Call { path: Some(person), .. } = there.call(5) else { panic!("a call has a path") };
        assert!(below.contains(&person));
    }
}
