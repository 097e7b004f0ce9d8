//! What other servers are to this one, and what was heard about versions and secrets.

use std::collections::{BTreeMap, BTreeSet};

use machine::ServerId;
use machine::nanos::Time;

/// Servers that say that this one was removed; no cluster has more.
pub(super) const DISOWNERS_MAX: usize = placement::MEMBERS_MAX;

/// What another server is, by the map here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It is a member of the cluster.
    Member,
    /// It was removed, and is in a group here that has not done without it yet.
    Leaving,
    /// It was removed.
    Removed,
    /// The map here has not heard of it: it may have joined while this server was away.
    Unknown,
}

/// What was heard about versions, secrets and membership.
#[derive(Debug, Default)]
pub(super) struct Greeting {
    pub(super) next_raise: Time,
    /// Servers that have said that a secret is on their disks, since the connections to them were made.
    pub(super) kept: BTreeMap<ServerId, [u8; 32]>,
    /// The cluster's secret is lost: alone, this server may put its own in its place.
    pub(super) secret_lost: bool,
    pub(super) disowned_by: BTreeSet<ServerId>,
}

impl Greeting {
    pub(super) fn note_kept(&mut self, server: ServerId, digest: [u8; 32]) {
        if self.kept.len() < placement::MEMBERS_MAX || self.kept.contains_key(&server) {
            self.kept.insert(server, digest);
            // The last one may have said so.
            self.next_raise = Time::ZERO;
        }
    }

    /// The connection is lost: it may come back as an older program.
    pub(super) fn forget(&mut self, server: ServerId) {
        self.kept.remove(&server);
    }

    pub(super) fn disowned_by(&mut self, server: ServerId) {
        if self.disowned_by.len() < DISOWNERS_MAX {
            self.disowned_by.insert(server);
        }
    }
}
