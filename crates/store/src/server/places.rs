//! Places of which there are only so many, and who may have how many of them.
//!
//! As with memory ([`crate::budget`]), nobody is refused for what he has not taken himself: a client may have a quarter of the places,
//! and its party, which is all clients of one user or host, as many as are still free for all the others, and half of them at
//! most. So one party that takes all it can get leaves as many to whoever comes. A party that has next to none gets one as long as there
//! are any.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ClientId;

/// One client has at most this part of all places.
const SHARE_OF_CLIENT: usize = 4;

/// All clients of one party together.
const SHARE_OF_PARTY: usize = 2;

/// A party that has less than this part has next to nothing.
const SMALL: usize = 64;

/// A party that takes places.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// A user by the map.
    User(Arc<str>),
    /// Nobody knows the user, but where he is.
    Host(Arc<str>),
    /// A client of which not even the host is known.
    Client(ClientId),
}

/// What there is only so much of.
#[derive(Debug)]
pub struct Places {
    max: usize,
    /// What clients and parties have their shares of; less than the maximum if some of the places are alike.
    shared: usize,
    used: usize,
    /// What each client has, and for which party: it stays with that as long as it has anything.
    clients: BTreeMap<ClientId, (Party, usize)>,
    parties: BTreeMap<Party, usize>,
}

impl Places {
    /// So many places, all of them free.
    pub fn new(max: usize) -> Self {
        Self::with_shares_of(max, max)
    }

    /// So many places, of which each has no more than a share of `shared`.
    pub fn with_shares_of(shared: usize, max: usize) -> Self {
        Self { max, shared, used: 0, clients: BTreeMap::new(), parties: BTreeMap::new() }
    }

    /// How many places are taken.
    pub const fn used(&self) -> usize {
        self.used
    }

    /// How many places a client has.
    pub fn of(&self, client: ClientId) -> usize {
        self.clients.get(&client).map_or(0, |(_, places)| *places)
    }

    /// Whether a client of this party may have so many more.
    pub fn admits(&self, client: ClientId, party: &Party, places: usize) -> bool {
        let (party, of_client) = self.clients.get(&client).map_or((party, 0), |(party, of_client)| (party, *of_client));
        let of_party = self.parties.get(party).copied().unwrap_or_default() + places;
        let free = self.max.saturating_sub(self.used);
        if of_party <= self.shared / SMALL {
            return places <= free;
        }
        places <= free
            && of_client + places <= self.shared / SHARE_OF_CLIENT
            && of_party <= free.min(self.shared / SHARE_OF_PARTY)
    }

    /// Takes places; that there are some was seen to before.
    pub fn take(&mut self, client: ClientId, party: &Party, places: usize) {
        if places == 0 {
            return;
        }
        let (party, of_client) = self.clients.entry(client).or_insert_with(|| (party.clone(), 0));
        *of_client += places;
        self.used += places;
        match self.parties.get_mut(party) {
            Some(of_party) => *of_party += places,
            None => drop(self.parties.insert(party.clone(), places)),
        }
    }

    /// Gives places back that were taken.
    ///
    /// # Panics
    /// If they were not.
    pub fn give_back(&mut self, client: ClientId, places: usize) {
        if places == 0 {
            return;
        }
        let (party, of_client) = self.clients.get_mut(&client).expect("who gives back has taken");
        let of_party = self.parties.get_mut(party).expect("what a client has, its party has");
        *of_client -= places;
        *of_party -= places;
        self.used -= places;
        if *of_party == 0 {
            self.parties.remove(party);
        }
        if *of_client == 0 {
            self.clients.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Party {
        Party::Host(name.into())
    }

    /// Takes until there is no more; how many.
    fn take_all(places: &mut Places, clients: std::ops::Range<u64>, party: &Party) -> usize {
        let mut taken = 0;
        for client in clients.map(ClientId) {
            while places.admits(client, party, 1) {
                places.take(client, party, 1);
                taken += 1;
            }
        }
        taken
    }

    #[test]
    fn who_takes_all_he_can_get_leaves_as_many_to_whoever_comes() {
        let mut places = Places::new(6_400);
        assert_eq!(take_all(&mut places, 0..1, &host("a")), 1_600, "one client has a quarter");
        assert_eq!(take_all(&mut places, 1..50, &host("a")), 1_600, "all of its host have half");
        assert_eq!(take_all(&mut places, 50..99, &Party::User("b".into())), 1_600);
        for modest in (100..110).map(ClientId) {
            assert!(places.admits(modest, &Party::Client(modest), 50));
            places.take(modest, &Party::Client(modest), 50);
        }
    }

    #[test]
    fn what_is_given_back_is_forgotten() {
        let mut places = Places::new(64);
        places.take(ClientId(1), &host("a"), 3);
        // It has become somebody else meanwhile: what it has stays where it was counted.
        places.take(ClientId(1), &Party::User("b".into()), 2);
        places.take(ClientId(2), &host("a"), 1);
        assert_eq!((places.of(ClientId(1)), places.used), (5, 6));
        places.give_back(ClientId(1), 4);
        places.give_back(ClientId(2), 1);
        places.give_back(ClientId(1), 1);
        assert!(places.used == 0 && places.clients.is_empty() && places.parties.is_empty());
    }
}
