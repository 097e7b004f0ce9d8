//! What a log does to leases: grants, ends, and their way from shard to shard.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::State;
use crate::digest::Digest;
use crate::lease::MAX_LEASES;
use crate::marks::{MAX_MARKS, covers};
use crate::{Change, Committed, Event, LeaseId, LeaseRecord, Mark, Outcome, Path, Refusal, Value};

/// The version of the protocol since which a part of a lease names its home if that is in another shard.
pub const PROTOCOL_WITH_AWAY_PARTS: u32 = 4;

/// Leases that came ahead of the values that they go with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The move that brings them.
    pub move_id: u64,
    /// What the other shard has of each.
    pub leases: BTreeMap<LeaseId, LeaseRecord>,
}

/// Some of the leases that go with a prefix to another shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseChunk {
    /// The leases by their numbers.
    pub leases: Vec<LeaseRecord>,
    /// Where to go on; none after the last.
    pub next: Option<LeaseId>,
}

impl State {
    /// A part of the leases that go along when `prefix` without `except` moves: those behind `after`, of about
    /// `limit_bytes`. Asked for under the move's freeze.
    pub fn export_leases(
        &self,
        prefix: &Path,
        except: &[Path],
        after: Option<LeaseId>,
        limit_bytes: usize,
    ) -> LeaseChunk {
        let (mut leases, mut bytes) = (Vec::new(), 0);
        for record in self.leases.moving(prefix, except, after, self.names_homes()) {
            bytes += record.weight();
            let id = record.id;
            leases.push(record);
            if bytes >= limit_bytes {
                return LeaseChunk { leases, next: Some(id) };
            }
        }
        LeaseChunk { leases, next: None }
    }

    /// Whether the lease, or its part at `path`, is here.
    ///
    /// # Errors
    /// [`Refusal::Moving`] or [`Refusal::Moved`] if it may be where `path` has gone; else [`Refusal::NoLease`].
    pub fn finds_lease(&self, lease: LeaseId, path: &Path) -> Result<(), Refusal> {
        if self.leases.get(lease).is_some() {
            return Ok(());
        }
        self.serves(path)?;
        Err(Refusal::NoLease { lease })
    }

    /// The same without leases and what belongs to them: what a backup keeps. Its revision is that of this state.
    #[must_use]
    pub fn lasting(&self) -> State {
        let mut state = self.clone();
        for (id, _) in self.leases.iter() {
            let values = state.leases.end(id);
            state.tree.forget(&values);
        }
        state.staged.clear();
        state.protocol = 0;
        state
    }

    pub(super) fn grant(&mut self, lease: LeaseId, ttl_ms: u64, home: &Path, index: u64) -> Outcome {
        self.leases.grant(lease, ttl_ms, home, index)?;
        Ok(self.committed())
    }

    pub(super) fn revoke(&mut self, lease: LeaseId, note: &mut impl FnMut(Event, Option<Value>)) -> Outcome {
        if self.leases.get(lease).is_none() {
            return Err(Refusal::NoLease { lease });
        }
        self.end_lease(lease, note);
        Ok(self.committed())
    }

    /// Ends those of the leases that are still the ones that were meant, and don't wait for a move.
    pub(super) fn expire(
        &mut self,
        leases: &[(LeaseId, u64)],
        note: &mut impl FnMut(Event, Option<Value>),
    ) -> Committed {
        for (id, granted_at) in leases {
            let is_meant = self.leases.get(*id).is_some_and(|lease| lease.granted_at == *granted_at);
            if is_meant && self.is_lease_at_rest(*id).is_ok() {
                self.end_lease(*id, note);
            }
        }
        self.committed()
    }

    /// Refuses to end a lease of which a part is on its way to another shard: that has been copied already.
    ///
    /// # Errors
    /// [`Refusal::Moving`].
    pub fn is_lease_at_rest(&self, lease: LeaseId) -> Result<(), Refusal> {
        let Some(lease) = self.leases.get(lease).filter(|_| !self.frozen.is_empty()) else { return Ok(()) };
        let moving = |path: &Path| Mark::find(&self.frozen, path, false).is_some();
        match lease.place(moving) {
            Some(path) => Err(Refusal::Moving { prefix: path.clone() }),
            None => Ok(()),
        }
    }

    /// Whether parts of leases name the home that is elsewhere.
    pub(super) fn names_homes(&self) -> bool {
        self.protocol >= PROTOCOL_WITH_AWAY_PARTS
    }

    fn end_lease(&mut self, lease: LeaseId, note: &mut impl FnMut(Event, Option<Value>)) {
        let values = self.leases.end(lease);
        self.tree.take_away(&values, note);
    }

    pub(super) fn stage_leases(
        &mut self,
        (prefix, except): (&Path, &[Path]),
        move_id: u64,
        leases: &[LeaseRecord],
    ) -> Outcome {
        if self.is_completed(prefix, move_id) || self.staged.get(prefix).is_some_and(|it| it.move_id > move_id) {
            return Ok(self.committed());
        }
        let belongs =
            |record: &LeaseRecord| record.is_sound() && record.values.iter().all(|at| covers(prefix, except, &at.path));
        if !leases.iter().all(belongs) {
            return Err(Refusal::UnsoundChunk { prefix: prefix.clone(), number: 0 });
        }
        let known = self.staged.get(prefix).filter(|it| it.move_id == move_id).map_or(0, |it| it.leases.len());
        if self.staged.len() >= MAX_MARKS || known + leases.len() > 2 * MAX_LEASES {
            return Err(Refusal::TooManyMarks);
        }
        let staged = self.staged.entry(prefix.clone()).or_insert_with(|| Staged { move_id, leases: BTreeMap::new() });
        if staged.move_id != move_id {
            *staged = Staged { move_id, leases: BTreeMap::new() };
        }
        staged.leases.extend(leases.iter().map(|record| (record.id, record.clone())));
        Ok(self.committed())
    }

    /// The values of a move are all here: its leases begin to count.
    pub(super) fn adopt_leases(&mut self, (prefix, except): (&Path, &[Path]), move_id: u64, index: u64) {
        let Some(staged) = self.staged.remove(prefix).filter(|staged| staged.move_id == move_id) else { return };
        let (tree, names_homes) = (&self.tree, self.names_homes());
        let is_there = |at: &crate::Location| tree.get(at).is_some();
        self.leases.arrived(staged.leases.into_values().collect(), (prefix, except), (index, names_homes), is_there);
    }

    /// Refuses changes that attach values to leases that are not here, or have no room.
    pub(super) fn attach(&mut self, changes: &[Change], note: &mut impl FnMut(Event, Option<Value>)) -> Outcome {
        self.leases.admit(changes, self.names_homes())?;
        let committed = self.tree.commit(changes, note)?;
        self.leases.follow(changes);
        Ok(committed)
    }

    pub(super) fn digest_leases(&self, digest: &mut Digest) {
        self.leases.digest(digest);
        for (prefix, staged) in &self.staged {
            digest.bytes(prefix.as_str().as_bytes());
            digest.number(staged.move_id);
            for record in staged.leases.values() {
                record.digest(digest);
            }
        }
    }
}
