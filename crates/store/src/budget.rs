//! Memory that a server holds for others, counted, so that nobody can make it hold more than it has.
//!
//! Every queue has a bound of its own; their sum has none, since there is one for each client, watch and peer. So whatever
//! a server keeps for somebody is counted here when it is taken in, and given back when it goes:
//!
//! ```text
//!   0            used                                  limit - reserve       limit
//!   +--------------+----------------------+------------------+--------------+
//!   | by owner     | free: an owner may   | for those who    | short answers|
//!   | and kind     | hold as much as that | hold little      | that are owed|
//!   +--------------+----------------------+------------------+--------------+
//! ```
//!
//! What always holds: what is used is the sum over all owners, and an owner of nothing is forgotten. An owner may hold as
//! much as is still free for all the others, and a quarter of the limit at most (dynamic thresholds; Choudhury and Hahne,
//! IEEE/ACM Transactions on Networking 6(2), 1998): who takes all he can get leaves as much to whoever comes. When many have
//! done so, the last quarter is there for those who hold next to nothing.

use std::collections::BTreeMap;

use machine::ServerId;
use machine::nanos::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::ClientId;

/// Bytes that a server holds for others by default.
pub const DEFAULT_BYTES: usize = 512 << 20;

/// The least that may be set: the largest request and the largest answer fit a client's share of it.
pub const MIN_BYTES: usize = 64 << 20;

/// One client or peer holds at most this part of the limit.
const SHARE: usize = 4;

/// This part of the limit is for owners who hold little.
const FOR_SMALL: usize = 4;

/// Little: so many bytes, or this part of the limit.
const SMALL: (usize, usize) = (64 << 10, 64);

/// Events for watchers have this part of the limit at most, however many there are: what finds no room they read again, while a
/// request that finds none is not carried out, and they may never read.
const FOR_WATCHES: usize = 4;

/// This part of the limit is for short answers that are owed whatever happens.
const RESERVE: usize = 16;

/// A client that may come back is asked to wait so long, at least and at most.
const RETRY_AFTER_MS: (u64, u64) = (20, 1_000);

/// Refusals of the last time count half after this.
const REFUSALS_HALVE: Span = Span::from_secs(1);

/// The party that something is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A connection of a client.
    Client(ClientId),
    /// Another server of the cluster.
    Peer(ServerId),
    /// Nobody in particular: moves, the log, buffers of all connections together.
    Server,
}

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// Requests that are not answered.
    Requests,
    /// Entries of logs that were proposed here and are not applied.
    Proposals,
    /// Messages for clients that are not sent.
    Answers,
    /// Events that watchers have not been sent.
    Watches,
    /// What content keeps alive that is being backed up and has changed since.
    Backups,
    /// Inputs of RPCs that are not answered.
    Calls,
    /// Parts of messages of clients and peers that have not come as a whole.
    Received,
    /// Messages for peers that are not sent.
    Peers,
}

impl Kind {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::Requests,
        Self::Proposals,
        Self::Answers,
        Self::Watches,
        Self::Backups,
        Self::Calls,
        Self::Received,
        Self::Peers,
    ];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Proposals => "proposals",
            Self::Answers => "answers",
            Self::Watches => "watches",
            Self::Backups => "backups",
            Self::Calls => "calls",
            Self::Received => "received",
            Self::Peers => "peers",
        }
    }
}

/// Bytes by kind.
type Held = [usize; Kind::ALL.len()];

/// What is held, and for whom.
#[derive(Clone, Debug)]
pub struct Budget {
    limit: usize,
    used: usize,
    kinds: Held,
    owners: BTreeMap<Owner, Held>,
    peak: usize,
    refused: [u64; Kind::ALL.len()],
    pressure: Pressure,
}

/// How many requests were refused lately: who is asked to come back is given the more time, the more there are.
#[derive(Clone, Debug, Default)]
struct Pressure {
    lately: u64,
    halve_at: Time,
}

/// How much is held, for a status page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes that may be held.
    pub limit_bytes: u64,
    /// Bytes that are held now.
    pub used_bytes: u64,
    /// The most that were ever held.
    pub peak_bytes: u64,
    /// Bytes and refusals since the start, by kind.
    pub kinds: BTreeMap<Kind, (u64, u64)>,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Self {
        let none = [0; Kind::ALL.len()];
        let (owners, pressure) = (BTreeMap::new(), Pressure::default());
        Self { limit, used: 0, kinds: none, owners, peak: 0, refused: [0; Kind::ALL.len()], pressure }
    }

    /// Bytes that may be held.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that are held.
    pub fn used(&self) -> usize {
        self.used
    }

    /// The most that one owner may ever hold.
    pub fn share(&self) -> usize {
        self.limit / SHARE
    }

    /// Bytes that are held of one kind.
    pub fn of_kind(&self, kind: Kind) -> usize {
        self.kinds[kind as usize]
    }

    /// Bytes that are held for one owner.
    pub fn of_owner(&self, owner: Owner) -> usize {
        self.owners.get(&owner).map_or(0, |held| held.iter().sum())
    }

    /// Bytes of one kind that are held for one owner.
    pub fn of(&self, owner: Owner, kind: Kind) -> usize {
        self.owners.get(&owner).map_or(0, |held| held[kind as usize])
    }

    /// Whether an owner may hold so much more.
    pub fn admits(&self, owner: Owner, bytes: usize) -> bool {
        let after = self.of_owner(owner).saturating_add(bytes);
        let free = (self.limit - self.limit / RESERVE).saturating_sub(self.used);
        if after <= SMALL.0.min(self.limit / SMALL.1) {
            return bytes <= free;
        }
        let free = free.saturating_sub(self.limit / FOR_SMALL);
        bytes <= free && after <= free.min(self.share())
    }

    /// Takes something in, if the owner may hold so much more; whether it may. If not, that is counted.
    #[must_use]
    pub fn take(&mut self, owner: Owner, kind: Kind, bytes: usize) -> bool {
        let has_room = kind != Kind::Watches || self.of_kind(kind) + bytes <= self.limit / FOR_WATCHES;
        let admitted = has_room && self.admits(owner, bytes);
        if admitted {
            self.add(owner, kind, bytes);
        } else {
            self.refused[kind as usize] += 1;
        }
        admitted
    }

    /// Takes something in that has its bound elsewhere.
    pub fn add(&mut self, owner: Owner, kind: Kind, bytes: usize) {
        if bytes > 0 {
            self.owners.entry(owner).or_insert([0; Kind::ALL.len()])[kind as usize] += bytes;
            self.kinds[kind as usize] += bytes;
            self.used += bytes;
            self.peak = self.peak.max(self.used);
        }
    }

    /// What was taken has gone.
    ///
    /// # Panics
    /// If it never was taken.
    pub fn give_back(&mut self, owner: Owner, kind: Kind, bytes: usize) {
        let held = self.of(owner, kind);
        assert!(bytes <= held, "{bytes} bytes of {kind:?} given back for {owner:?}, who holds {held}");
        self.set(owner, kind, held - bytes);
    }

    /// The owner holds so much of this kind now.
    pub fn set(&mut self, owner: Owner, kind: Kind, bytes: usize) {
        let held = self.of(owner, kind);
        if bytes >= held {
            return self.add(owner, kind, bytes - held);
        }
        self.kinds[kind as usize] -= held - bytes;
        self.used -= held - bytes;
        let all = self.owners.get_mut(&owner).expect("it holds something");
        all[kind as usize] = bytes;
        if all.iter().all(|bytes| *bytes == 0) {
            self.owners.remove(&owner);
        }
    }

    /// Something was refused without having been weighed.
    pub fn note_refused(&mut self, kind: Kind) {
        self.refused[kind as usize] += 1;
    }

    /// Somebody is refused, and may come back after so many milliseconds.
    pub(crate) fn retry_after_ms(&mut self, now: Time) -> u32 {
        let pressure = &mut self.pressure;
        while pressure.lately > 0 && now >= pressure.halve_at {
            pressure.lately /= 2;
            pressure.halve_at += REFUSALS_HALVE;
        }
        if pressure.lately == 0 {
            pressure.halve_at = now + REFUSALS_HALVE;
        }
        pressure.lately += 1;
        (RETRY_AFTER_MS.0 + pressure.lately).min(RETRY_AFTER_MS.1) as u32
    }

    /// How often something was refused.
    pub fn refusals(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// What is held, for a status page.
    pub fn usage(&self) -> Usage {
        let of = |kind: &Kind| (*kind, (self.of_kind(*kind) as u64, self.refused[*kind as usize]));
        Usage {
            limit_bytes: self.limit as u64,
            used_bytes: self.used as u64,
            peak_bytes: self.peak as u64,
            kinds: Kind::ALL.iter().map(of).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u64) -> Owner {
        Owner::Client(ClientId(number))
    }

    #[test]
    fn what_is_taken_is_given_back_to_the_byte() {
        let mut budget = Budget::new(1_600);
        assert!(budget.take(client(1), Kind::Requests, 100));
        assert!(budget.take(client(1), Kind::Watches, 50));
        budget.add(Owner::Server, Kind::Proposals, 30);
        assert_eq!((budget.used(), budget.of_owner(client(1)), budget.of_kind(Kind::Watches)), (180, 150, 50));
        budget.set(client(1), Kind::Watches, 10);
        budget.give_back(client(1), Kind::Requests, 100);
        budget.give_back(client(1), Kind::Watches, 10);
        budget.set(Owner::Server, Kind::Proposals, 0);
        assert_eq!((budget.used(), budget.owners.len()), (0, 0));
        assert_eq!(budget.usage().peak_bytes, 180);
    }

    #[test]
    #[should_panic(expected = "given back")]
    fn what_was_not_taken_is_not_given_back() {
        let mut budget = Budget::new(1_000);
        budget.add(client(1), Kind::Requests, 10);
        budget.give_back(client(2), Kind::Requests, 10);
    }

    #[test]
    fn greed_leaves_something_to_whoever_comes() {
        let mut budget = Budget::new(16 << 20);
        for greedy in 0..50 {
            // All of them large at once, and then as much more as there is.
            let _ = budget.take(client(greedy), Kind::Requests, 100_000);
            while budget.take(client(greedy), Kind::Requests, 1_000) {}
            assert!(budget.of_owner(client(greedy)) <= budget.share());
        }
        assert!(budget.used() < budget.limit() - budget.limit() / RESERVE);
        for modest in 100..110 {
            assert!(budget.take(client(modest), Kind::Requests, 1_000), "{} are used", budget.used());
        }
        assert!(budget.usage().kinds[&Kind::Requests].1 >= 50);
    }
    #[test]
    fn watchers_that_never_read_leave_room_for_requests() {
        let mut budget = Budget::new(64 << 20);
        for idle in 0..60 {
            while budget.take(client(idle), Kind::Watches, 1 << 20) {}
        }
        assert!(budget.of_kind(Kind::Watches) <= budget.limit() / FOR_WATCHES);
        // A value of a mebibyte, as a request and as an entry of the log.
        assert!(
            budget.take(client(100), Kind::Requests, 1 << 20) && budget.take(client(100), Kind::Proposals, 1 << 20)
        );
    }
}
