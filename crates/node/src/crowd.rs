//! Connections of which there may be so many: when there is one more, the host that has the most of them loses its oldest.
//!
//! So who opens many displaces his own, and not those of others, as long as there are not more hosts than places.

use std::collections::{HashMap, VecDeque};

use super::remote::RemoteHost;

/// Connections, from the oldest on.
#[derive(Debug)]
pub(super) struct Crowd<K> {
    all: VecDeque<(K, RemoteHost)>,
    max: usize,
    displaced: u64,
}

impl<K: Copy + PartialEq> Crowd<K> {
    /// Holds at most `max`, at least one.
    pub fn new(max: usize) -> Self {
        Self { all: VecDeque::new(), max: max.max(1), displaced: 0 }
    }

    /// Takes one in; returns the one that has to go for it, if any.
    pub fn insert(&mut self, key: K, host: RemoteHost) -> Option<K> {
        self.all.push_back((key, host));
        if self.all.len() <= self.max {
            return None;
        }
        self.displaced += 1;
        let mut counts: HashMap<RemoteHost, usize> = HashMap::new();
        for (_, host) in &self.all {
            *counts.entry(*host).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        let oldest = self.all.iter().position(|(_, host)| counts[host] == most)?;
        self.all.remove(oldest).map(|(key, _)| key)
    }

    /// It is gone, or has become something else.
    pub fn remove(&mut self, key: K) {
        self.all.retain(|(found, _)| *found != key);
    }

    /// How many had to go.
    pub const fn displaced(&self) -> u64 {
        self.displaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn user(uid: u32) -> RemoteHost {
        RemoteHost::Local(Some(uid))
    }

    #[test]
    fn who_has_the_most_loses_his_oldest() {
        let mut crowd = Crowd::new(4);
        assert_eq!(crowd.insert(1, user(7)), None);
        for key in 2..=4 {
            assert_eq!(crowd.insert(key, user(8)), None);
        }
        assert_eq!(crowd.insert(5, user(8)), Some(2));
        assert_eq!(crowd.insert(6, user(9)), Some(3));
        // The one that came first is still there.
        crowd.remove(1);
        assert_eq!(crowd.insert(7, user(9)), None);
        // As many of each: the oldest of all.
        assert_eq!(crowd.insert(8, user(7)), Some(4));
        assert_eq!(crowd.displaced(), 3);
    }

    #[test]
    fn a_crowd_of_strangers_is_never_larger_than_its_bound() {
        let mut crowd = Crowd::new(3);
        let displaced = (0..100).filter_map(|key| crowd.insert(key, user(key % 7))).count();
        assert_eq!((displaced, crowd.all.len()), (97, 3));
    }
}
