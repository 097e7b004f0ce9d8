//! What is remembered of clients, in a table whose size does not change.

use machine::{Rebase, Span, Time, mix};

/// Places that a client may have. Of those it takes a free one, or the one that was not used for longest.
const WAYS: usize = 8;

/// Values by clients' addresses, each until its time is over.
#[derive(Clone, Debug)]
pub(crate) struct ClientTable<V> {
    /// [`WAYS`] for each set.
    entries: Vec<Entry<V>>,
    /// By it hashes differ from run to run, so that nobody knows who shares a set with whom.
    seed: u64,
    /// Values that were still good when another client took their place.
    evicted: u64,
}

#[derive(Clone, Debug)]
struct Entry<V> {
    address: u128,
    /// From then on it is free.
    expires: Time,
    value: V,
}

impl<V: Default + Clone> ClientTable<V> {
    /// A table for `clients_max` clients or a few more.
    pub fn new(clients_max: usize, seed: u64) -> Self {
        let sets = clients_max.div_ceil(WAYS).max(1);
        let free = Entry { address: 0, expires: Time::ZERO, value: V::default() };
        Self { entries: vec![free; sets * WAYS], seed, evicted: 0 }
    }

    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    fn set(&mut self, address: u128) -> &mut [Entry<V>] {
        let hash = mix(mix(address as u64 ^ self.seed) ^ (address >> 64) as u64);
        let sets = self.entries.len() / WAYS;
        let set = ((u128::from(hash) * sets as u128) >> 64) as usize;
        &mut self.entries[set * WAYS..(set + 1) * WAYS]
    }

    /// The client's value, if it has one that is still good.
    pub fn get(&mut self, now: Time, address: u128) -> Option<&mut V> {
        let entry = self.set(address).iter_mut().find(|entry| entry.address == address && now < entry.expires)?;
        Some(&mut entry.value)
    }

    /// Keeps a client's value until `expires`.
    pub fn put(&mut self, now: Time, address: u128, expires: Time, value: V) {
        let rank = |entry: &Entry<V>| {
            let is_own = entry.address == address;
            (!is_own, now < entry.expires, entry.expires)
        };
        let Some(entry) = self.set(address).iter_mut().min_by_key(|entry| rank(entry)) else { return };
        let is_lost = entry.address != address && now < entry.expires;
        *entry = Entry { address, expires, value };
        self.evicted += u64::from(is_lost);
    }
}

impl<V: Rebase> Rebase for ClientTable<V> {
    fn rebase(&mut self, by: Span) {
        let Self { entries, seed: _, evicted: _ } = self;
        for Entry { address: _, expires, value } in entries {
            expires.rebase(by);
            value.rebase(by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_what_it_has_room_for_and_drops_the_oldest() {
        let mut table = ClientTable::<u32>::new(64, 7);
        let at = |s| Time::ZERO + Span::from_secs(s);
        for n in 0..1_000 {
            table.put(at(1), n, at(10 + n as u64), n as u32);
            assert_eq!(table.get(at(1), n), Some(&mut (n as u32)));
        }
        let kept: Vec<_> = (0..1_000).filter(|&n| table.get(at(1), n).is_some()).collect();
        assert_eq!(kept.len(), 64);
        assert_eq!(table.evicted(), 936);
        assert!(kept.iter().all(|&n| n > 500), "{kept:?}");
        assert_eq!(table.get(at(2_000), 999), None);
    }
}
