//! Leases: values that go away when nobody says any more that they are needed.
//!
//! A lease has a *home*, the path that it was granted for, and lives in the shard that holds it, beside the values that are
//! attached to it. When a part of these moves to another shard, the lease is in both: each shard ends its part by itself,
//! and the part at the home knows a path in each of the others, so that its keeper can keep all of them alive.
//! A part whose home is elsewhere names this among its parts; it is left as a way to others when its values move on.
//! So whoever follows the paths from the home comes to every value, in however many shards they are.
//!
//! There is no clock here. The shard's leader counts the time of each lease and says by a command which are over; what
//! that command names is `granted_at`, the log index since which it is here, so that a lease that was granted or
//! brought anew is not taken for the one before.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::digest::Digest;
pub use crate::lease::{LEASE_TTL_MAX_MS, LEASE_TTL_MIN_MS, MAX_LEASE_PARTS, MAX_LEASE_VALUES, MAX_LEASES};
use crate::marks::covers;
use crate::{Change, Datastore, Lease, LeaseId, LeaseRecord, Location, Path, Refusal};

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
    pub(crate) fn admit(&self, changes: &[Change], names_homes: bool) -> Result<(), Refusal> {
        let mut more: std::collections::BTreeMap<LeaseId, usize> = std::collections::BTreeMap::new();
        for change in changes {
            let Change::PutWithLease { at, lease, .. } = change else { continue };
            let found = self.all.get(lease).filter(|found| !names_homes || found.takes_values());
            let found = found.ok_or(Refusal::NoLease { lease: *lease })?;
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
        self.all.range(bounds).map(|(id, lease)| lease.record(*id))
    }

    /// What of the leases behind `after` goes along when a prefix without `except` moves. `names_homes`: parts name the home that is
    /// in another shard.
    pub(crate) fn moving<'a>(
        &'a self,
        prefix: &'a Path,
        except: &'a [Path],
        after: Option<LeaseId>,
        names_homes: bool,
    ) -> impl Iterator<Item = LeaseRecord> + 'a {
        let goes = move |path: &Path| covers(prefix, except, path);
        self.records(after).filter_map(move |mut record| {
            let stays = record.values.iter().find(|at| !goes(&at.path)).map(|at| at.path.clone());
            record.values.retain(|at| goes(&at.path));
            let home_goes = goes(&record.home);
            let is_away = names_homes && record.parts.contains(&record.home);
            // The other shard sees itself that the home does not come to it.
            record.parts.retain(|path| !goes(path) && (!names_homes || *path != record.home));
            if home_goes || is_away {
                if record.parts.len() < MAX_LEASE_PARTS {
                    record.parts.extend(stays);
                }
            } else if names_homes {
                // The home stays, and leads to all the others.
                record.parts.clear();
            }
            // A path that led here leads there now, so what was found behind this part must be found behind that one.
            let leads_on = is_away && !record.parts.is_empty();
            (home_goes || leads_on || !record.values.is_empty()).then_some(record)
        })
    }

    /// A prefix without `except` has gone to another shard.
    pub(crate) fn moved(&mut self, prefix: &Path, except: &[Path], names_homes: bool) {
        let goes = |path: &Path| covers(prefix, except, path);
        let ids: Vec<LeaseId> = self.all.keys().copied().collect();
        for id in ids {
            let lease = &self.all[&id];
            let gone: Vec<Location> = lease.values.iter().filter(|at| goes(&at.path)).cloned().collect();
            let home_goes = goes(&lease.home);
            // The way to a part without values may have gone, although no value did.
            let is_left = names_homes && lease.is_away() && lease.values.is_empty();
            if gone.is_empty() && !home_goes && !is_left {
                continue;
            }
            for at in &gone {
                self.detach(at);
            }
            let lease = Arc::make_mut(self.all.get_mut(&id).expect("it was just seen"));
            if home_goes && lease.values.is_empty() {
                self.all.remove(&id);
            } else if home_goes && names_homes {
                lease.set_away();
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
        (index, names_homes): (u64, bool),
        is_there: impl Fn(&Location) -> bool,
    ) {
        for LeaseRecord { id, ttl_ms, home, values, parts, .. } in records {
            let known = self.all.remove(&id);
            let is_away = names_homes && known.is_none() && !covers(prefix, except, &home);
            let mut lease = known.map_or_else(
                || Lease { ttl_ms, home, granted_at: index, values: OrdSet::new(), parts: BTreeSet::new() },
                |lease| Lease::clone(&lease),
            );
            // Its time begins anew: its keeper could not know where it was.
            lease.granted_at = index;
            lease.parts.extend(parts);
            lease.parts.retain(|path| !covers(prefix, except, path) && lease.values.iter().all(|at| at.path != *path));
            lease.cut_parts(names_homes);
            if is_away {
                lease.set_away();
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
            record.digest(digest);
        }
    }
}
