//! Leases: values that go away when nobody says any more that they are needed.
//!
//! A lease has a *home*, the path that it was granted for, and lives in the shard that holds it, beside the values that are
//! attached to it. When a part of these moves to another shard, the lease is in both: each shard ends its part by itself,
//! and the part at the home knows a path in each of the others, so that its keeper can keep all of them alive.
//!
//! There is no clock here. The shard's leader counts the time of each lease and says by a command which are over; what
//! that command names is `granted_at`, the log index since which it is here, so that a lease that was granted or
//! brought anew is not taken for the one before.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::marks::covers;
use crate::transfer::ENTRY_BYTES;
use crate::{Change, Datastore, Location, Path, Refusal};

/// The most leases of one shard that can be granted; moves may bring more.
pub const MAX_LEASES: usize = 16_384;
/// The most values that are attached to one lease: they go away in one transaction.
pub const MAX_LEASE_VALUES: usize = 1_024;
/// The shortest time to live, in milliseconds: longer than it takes to elect another leader.
pub const LEASE_TTL_MIN_MS: u64 = 1_000;
/// The longest: thirty days.
pub const LEASE_TTL_MAX_MS: u64 = 30 * 24 * 3_600_000;
/// The most other parts that a lease knows of. The one that would be one too many is not kept alive through the home.
pub const MAX_LEASE_PARTS: usize = 64;

/// A lease. Whoever asks for it chooses its number at random; it must be unique in the cluster.
///
/// Written as sixteen hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for LeaseId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = !text.is_empty() && text.len() <= 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u64::from_str_radix(text, 16) {
            Ok(number) if digits && number != 0 => Ok(Self(number)),
            _ => Err(format!("`{text}` is no lease: expected up to sixteen hexadecimal digits, not all 0")),
        }
    }
}

/// One lease, or the part of it that is in this shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its time to live, in milliseconds.
    pub ttl_ms: u64,
    /// The path that it was granted for.
    pub home: Path,
    /// The log index at which it was granted, or came here with what was moved.
    pub granted_at: u64,
    /// The values that go with it.
    pub values: OrdSet<Location>,
    /// A path in each other part of it, as far as is known.
    pub parts: BTreeSet<Path>,
}

impl Lease {
    /// A path of it that this shard has, if it has any: the home, or a value.
    pub fn place(&self, has: impl Fn(&Path) -> bool) -> Option<&Path> {
        core::iter::once(&self.home).chain(self.values.iter().map(|at| &at.path)).find(|path| has(path))
    }
}

/// A lease as it is written into snapshots, and sent along when data moves to another shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// The number of the lease.
    pub id: LeaseId,
    /// Its time to live, in milliseconds.
    pub ttl_ms: u64,
    /// The path that it was granted for.
    pub home: Path,
    /// Since which log index it is in the shard that the record comes from.
    pub granted_at: u64,
    /// The values that go with it, ascending.
    pub values: Vec<Location>,
    /// A path in each other part of it.
    pub parts: Vec<Path>,
}

impl LeaseRecord {
    /// Bytes in memory and on the wire, about.
    pub fn weight(&self) -> usize {
        let values = self.values.iter().map(|at| at.path.as_str().len() + ENTRY_BYTES);
        let parts = self.parts.iter().map(|path| path.as_str().len() + ENTRY_BYTES);
        3 * ENTRY_BYTES + self.home.as_str().len() + values.chain(parts).sum::<usize>()
    }

    /// Whether it can be one.
    pub(crate) fn is_sound(&self) -> bool {
        self.id.0 != 0
            && (LEASE_TTL_MIN_MS..=LEASE_TTL_MAX_MS).contains(&self.ttl_ms)
            && self.values.len() <= MAX_LEASE_VALUES
            && self.parts.len() <= MAX_LEASE_PARTS
            && self.values.is_sorted_by(|a, b| a < b)
    }
}

/// All leases of a shard. A clone shares its content.
///
/// Always: a value is attached to one lease at most, and that has it among its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    all: OrdMap<LeaseId, Arc<Lease>>,
    attached: OrdMap<Location, LeaseId>,
}

impl Leases {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// One of them.
    pub fn get(&self, id: LeaseId) -> Option<&Lease> {
        self.all.get(&id).map(|lease| &**lease)
    }

    /// All of them, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.all.iter().map(|(id, lease)| (*id, &**lease))
    }

    /// The lease that a value is attached to.
    pub fn of(&self, at: &Location) -> Option<LeaseId> {
        self.attached.get(at).copied()
    }

    /// Whether no lease was granted, attached to or ended between these two; takes no time.
    pub fn is_same(&self, other: &Leases) -> bool {
        self.all.ptr_eq(&other.all)
    }

    /// Refuses a lease that cannot be granted.
    pub(crate) fn grant(&mut self, id: LeaseId, ttl_ms: u64, home: &Path, index: u64) -> Result<(), Refusal> {
        if !(LEASE_TTL_MIN_MS..=LEASE_TTL_MAX_MS).contains(&ttl_ms) {
            return Err(Refusal::LeaseTtl { ttl_ms });
        }
        if id.0 == 0 || self.all.contains_key(&id) {
            return Err(Refusal::LeaseExists { lease: id });
        }
        if self.all.len() >= MAX_LEASES {
            return Err(Refusal::TooManyLeases);
        }
        let (home, values, parts) = (home.clone(), OrdSet::new(), BTreeSet::new());
        self.all.insert(id, Arc::new(Lease { ttl_ms, home, granted_at: index, values, parts }));
        Ok(())
    }

    /// Refuses changes that attach values to leases that are not here or have no room.
    pub(crate) fn admit(&self, changes: &[Change]) -> Result<(), Refusal> {
        let mut more: std::collections::BTreeMap<LeaseId, usize> = std::collections::BTreeMap::new();
        for change in changes {
            let Change::PutWithLease { at, lease, .. } = change else { continue };
            let found = self.all.get(lease).ok_or(Refusal::NoLease { lease: *lease })?;
            if !found.values.contains(at) {
                let more = more.entry(*lease).or_default();
                *more += 1;
                if found.values.len() + *more > MAX_LEASE_VALUES {
                    return Err(Refusal::LeaseFull { lease: *lease });
                }
            }
        }
        Ok(())
    }

    /// Changes were made: a value that is written goes with the lease that it was written with, or with none.
    pub(crate) fn follow(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::PutWithLease { at, lease, .. } => {
                    self.detach(at);
                    self.attach(at.clone(), *lease);
                }
                Change::Create { at, .. } | Change::Put { at, .. } | Change::Replace { at, .. } => self.detach(at),
                Change::Delete { at } | Change::Remove { at } => {
                    for at in self.below(at.datastore, &at.path) {
                        self.detach(&at);
                    }
                }
            }
        }
    }

    fn attach(&mut self, at: Location, id: LeaseId) {
        if let Some(lease) = self.all.get_mut(&id) {
            Arc::make_mut(lease).values.insert(at.clone());
            self.attached.insert(at, id);
        }
    }

    fn detach(&mut self, at: &Location) {
        if self.attached.is_empty() {
            return;
        }
        if let Some(id) = self.attached.remove(at)
            && let Some(lease) = self.all.get_mut(&id)
        {
            Arc::make_mut(lease).values.remove(at);
        }
    }

    /// A prefix without `except` begins to arrive: what of it may have been here counts no more.
    pub(crate) fn arrives(&mut self, prefix: &Path, except: &[Path]) {
        let here: Vec<Location> = self.attached.keys().filter(|at| covers(prefix, except, &at.path)).cloned().collect();
        for at in here {
            self.detach(&at);
        }
    }

    /// Attached values at and below a path.
    fn below(&self, datastore: Datastore, path: &Path) -> Vec<Location> {
        let end = Location { datastore, path: path.subtree_end() };
        let range = Location { datastore, path: path.clone() }..end;
        self.attached.range(range).map(|(at, _)| at.clone()).collect()
    }

    /// Ends a lease and gives what goes with it.
    pub(crate) fn end(&mut self, id: LeaseId) -> Vec<Location> {
        let Some(lease) = self.all.remove(&id) else { return Vec::new() };
        for at in &lease.values {
            self.attached.remove(at);
        }
        lease.values.iter().cloned().collect()
    }

    /// The records behind `after`.
    pub(crate) fn records(&self, after: Option<LeaseId>) -> impl Iterator<Item = LeaseRecord> + '_ {
        use core::ops::Bound::{Excluded, Unbounded};
        let bounds = (after.map_or(Unbounded, Excluded), Unbounded);
        self.all.range(bounds).map(|(id, lease)| record(*id, lease))
    }

    /// What of the leases behind `after` goes along when a prefix without `except` moves.
    pub(crate) fn moving<'a>(
        &'a self,
        prefix: &'a Path,
        except: &'a [Path],
        after: Option<LeaseId>,
    ) -> impl Iterator<Item = LeaseRecord> + 'a {
        let goes = move |path: &Path| covers(prefix, except, path);
        self.records(after).filter_map(move |mut record| {
            let stays = record.values.iter().find(|at| !goes(&at.path)).map(|at| at.path.clone());
            record.values.retain(|at| goes(&at.path));
            let home_goes = goes(&record.home);
            record.parts.retain(|path| !goes(path));
            if home_goes && record.parts.len() < MAX_LEASE_PARTS {
                record.parts.extend(stays);
            }
            (home_goes || !record.values.is_empty()).then_some(record)
        })
    }

    /// A prefix without `except` has gone to another shard.
    pub(crate) fn moved(&mut self, prefix: &Path, except: &[Path]) {
        let goes = |path: &Path| covers(prefix, except, path);
        let ids: Vec<LeaseId> = self.all.keys().copied().collect();
        for id in ids {
            let lease = &self.all[&id];
            let gone: Vec<Location> = lease.values.iter().filter(|at| goes(&at.path)).cloned().collect();
            let home_goes = goes(&lease.home);
            if gone.is_empty() && !home_goes {
                continue;
            }
            for at in &gone {
                self.detach(at);
            }
            let lease = Arc::make_mut(self.all.get_mut(&id).expect("it was just seen"));
            if home_goes && lease.values.is_empty() {
                self.all.remove(&id);
            } else if !home_goes && lease.parts.len() < MAX_LEASE_PARTS {
                lease.parts.insert(prefix.clone());
            }
        }
    }

    /// A prefix without `except` has come from another shard, with these. `is_there` says where values are.
    pub(crate) fn arrived(
        &mut self,
        records: Vec<LeaseRecord>,
        (prefix, except): (&Path, &[Path]),
        index: u64,
        is_there: impl Fn(&Location) -> bool,
    ) {
        for LeaseRecord { id, ttl_ms, home, values, parts, .. } in records {
            let known = self.all.remove(&id);
            let mut lease = known.map_or_else(
                || Lease { ttl_ms, home, granted_at: index, values: OrdSet::new(), parts: BTreeSet::new() },
                |lease| Lease::clone(&lease),
            );
            // Its time begins anew: its keeper could not know where it was.
            lease.granted_at = index;
            lease.parts.extend(parts);
            lease.parts.retain(|path| !covers(prefix, except, path) && lease.values.iter().all(|at| at.path != *path));
            while lease.parts.len() > MAX_LEASE_PARTS {
                lease.parts.pop_last();
            }
            self.all.insert(id, Arc::new(lease));
            for at in values.into_iter().filter(|at| is_there(at)) {
                self.detach(&at);
                self.attach(at, id);
            }
        }
    }

    /// Puts a record of a snapshot of these very leases back. `false` if it cannot be one of them.
    pub(crate) fn restore(&mut self, record: LeaseRecord, is_there: impl Fn(&Location) -> bool) -> bool {
        let LeaseRecord { id, ttl_ms, home, granted_at, values, parts } = record;
        if self.all.contains_key(&id) || !values.iter().all(|at| is_there(at) && !self.attached.contains_key(at)) {
            return false;
        }
        for at in &values {
            self.attached.insert(at.clone(), id);
        }
        let (values, parts) = (values.into_iter().collect(), parts.into_iter().collect());
        self.all.insert(id, Arc::new(Lease { ttl_ms, home, granted_at, values, parts }));
        true
    }

    /// Mixes all content into a digest.
    pub(crate) fn digest(&self, digest: &mut Digest) {
        for record in self.records(None) {
            digest_record(digest, &record);
        }
    }
}

fn record(id: LeaseId, lease: &Lease) -> LeaseRecord {
    LeaseRecord {
        id,
        ttl_ms: lease.ttl_ms,
        home: lease.home.clone(),
        granted_at: lease.granted_at,
        values: lease.values.iter().cloned().collect(),
        parts: lease.parts.iter().cloned().collect(),
    }
}

pub(crate) fn digest_record(digest: &mut Digest, record: &LeaseRecord) {
    for number in [record.id.0, record.ttl_ms, record.granted_at, record.values.len() as u64] {
        digest.number(number);
    }
    digest.bytes(record.home.as_str().as_bytes());
    for at in &record.values {
        digest.number(at.datastore as u64);
        digest.bytes(at.path.as_str().as_bytes());
    }
    for path in &record.parts {
        digest.bytes(path.as_str().as_bytes());
    }
}
