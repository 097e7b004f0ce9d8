//! Which shard a path belongs to and who leads it, as learned from responses.

use std::collections::BTreeMap;

use placement::ShardId;
use tree::Path;

/// Prefixes that are remembered; then they are learned anew.
const PREFIXES_MAX: usize = 1_024;

/// A prefix that was contradicted so often in a row is wrong, instead of having an exception below it.
const CONTRADICTIONS_MAX: u8 = 4;

/// A prefix whose paths belong to a shard, unless a longer one says otherwise.
#[derive(Debug)]
struct Known {
    shard: ShardId,
    contradictions: u8,
}

/// What is known. A wrong guess costs a forwarding, nothing else.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// By the text of a path up to one of its [`ends`].
    prefixes: BTreeMap<Box<str>, Known>,
    /// The `host:port` of the leader of each shard.
    leaders: BTreeMap<ShardId, String>,
}

/// Where the prefixes of a path end that may be a shard's: its module, then each node, a list before its entry.
fn ends(path: &str) -> impl DoubleEndedIterator<Item = usize> + '_ {
    let first_colon = path.find(':');
    let boundary = move |(at, byte): (usize, u8)| {
        ((at > 0 && matches!(byte, b'/' | b'=')) || Some(at) == first_colon).then_some(at)
    };
    path.bytes().enumerate().filter_map(boundary).chain(core::iter::once(path.len()))
}

impl Routes {
    /// The longest known prefix: where it ends in the path.
    fn longest(&self, path: &str) -> Option<usize> {
        ends(path).rev().find(|&end| self.prefixes.contains_key(&path[..end]))
    }

    /// The `host:port` of the leader of the shard that `path` belongs to.
    pub fn leader(&self, path: &Path) -> Option<&str> {
        let path = path.as_str();
        let known = &self.prefixes[&path[..self.longest(path)?]];
        self.leaders.get(&known.shard).map(String::as_str)
    }

    /// A response says that `path` belongs to `shard`, and who leads that.
    pub fn learn(&mut self, path: &Path, shard: ShardId, leader: &str) {
        if self.leaders.get(&shard).is_none_or(|known| known != leader) {
            self.leaders.insert(shard, leader.to_owned());
        }
        let path = path.as_str();
        let Some(end) = self.longest(path) else {
            let end = ends(path).next().expect("the whole path is the last of them");
            return self.insert(&path[..end], shard);
        };
        let known = self.prefixes.get_mut(&path[..end]).expect("it was found");
        if known.shard == shard {
            known.contradictions = 0;
            return;
        }
        known.contradictions += 1;
        match ends(path).find(|&longer| longer > end) {
            Some(longer) if known.contradictions < CONTRADICTIONS_MAX => self.insert(&path[..longer], shard),
            _ => {
                *known = Known { shard, contradictions: 0 };
            }
        }
    }

    fn insert(&mut self, prefix: &str, shard: ShardId) {
        if self.prefixes.len() >= PREFIXES_MAX {
            self.prefixes.clear();
        }
        self.prefixes.insert(prefix.into(), Known { shard, contradictions: 0 });
    }

    /// A server is lost: whatever it led, somebody else will.
    pub fn forget(&mut self, address: &str) {
        self.leaders.retain(|_, leader| leader != address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    #[test]
    fn a_module_is_one_shard_until_a_part_of_it_is_not() {
        let mut routes = Routes::default();
        assert_eq!(routes.leader(&path("/car:cars/car-entry=1")), None);
        routes.learn(&path("/car:cars/car-entry=1"), ShardId(1), "a:1");
        assert_eq!(routes.leader(&path("/car:cars/car-entry=2")), Some("a:1"));
        assert_eq!(routes.leader(&path("/carpet:cars")), None);
        // A prefix shard within: found by going deeper, one step an answer.
        for _ in 0..3 {
            routes.learn(&path("/car:fleet/big=7"), ShardId(2), "b:1");
            routes.learn(&path("/car:cars/car-entry=1"), ShardId(1), "a:1");
        }
        assert_eq!(routes.leader(&path("/car:fleet/big=9")), Some("b:1"));
        assert_eq!(routes.leader(&path("/car:cars/car-entry=9")), Some("a:1"));
    }

    #[test]
    fn a_module_that_has_moved_is_learned_anew_within_few_answers() {
        let mut routes = Routes::default();
        routes.learn(&path("/car:cars/car-entry=0"), ShardId(1), "a:1");
        for key in 0..40 {
            routes.learn(&path(&format!("/car:cars/car-entry={key}")), ShardId(2), "b:1");
        }
        assert_eq!(routes.leader(&path("/car:cars/car-entry=999")), Some("b:1"));
        assert_eq!(routes.leader(&path("/car:cars")), Some("b:1"));
    }

    #[test]
    fn it_stays_bounded_and_forgets_lost_leaders() {
        let mut routes = Routes::default();
        for n in 0..5_000_u64 {
            routes.learn(&path(&format!("/m{n}:top")), ShardId(n % 7), "a:1");
        }
        assert!(routes.prefixes.len() <= PREFIXES_MAX);
        assert_eq!(routes.leader(&path("/m4999:top/x")), Some("a:1"));
        routes.forget("a:1");
        assert_eq!(routes.leader(&path("/m4999:top/x")), None);
    }
}
