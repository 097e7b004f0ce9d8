//! The registry: a bucket of offers for each server, spread by gossip.
//!
//! ```text
//!   A                                   B
//!   | ---- Status: versions of A ---->  |   B holds something newer: it answers with these buckets.
//!   | <--- Envelope: buckets ---------- |
//!   | <--- Status: versions of B ------ |   B holds something older: it says so,
//!   | ---- Envelope: buckets ---------> |   and A sends what is newer.
//! ```
//!
//! Always: only this server changes its own bucket, and each change raises its version; a bucket of another server is replaced only by one of a
//! higher version; a bucket is held only for members. So any order, loss or repetition of messages ends in the same buckets.

use std::collections::{BTreeMap, BTreeSet};

use machine::ServerId;

use crate::config::{ENVELOPE_BYTES_MAX, ENVELOPE_OFFERS_MAX, SERVERS_MAX};
use crate::{Bucket, Error, Message, Offer, Version};

/// What each server offers, as far as this one knows.
#[derive(Clone, Debug)]
pub struct Registry {
    own: ServerId,
    /// The incarnation, chosen at the start.
    incarnation: u64,
    /// The own bucket is always among them.
    buckets: BTreeMap<ServerId, Bucket>,
    /// The other servers of the cluster.
    members: BTreeSet<ServerId>,
}

/// What a message changed, and what is to be answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The buckets that are newer here, to be sent to who sent the message.
    pub envelope: Option<Message>,
    /// Whether the sender holds something newer, and is to learn so by a status.
    pub wants_more: bool,
    /// Servers whose buckets were replaced, each with its version before.
    pub replaced: Vec<(ServerId, Option<Version>)>,
    /// Whether the own bucket got a higher version, because somebody claimed that it had one.
    pub is_own_refuted: bool,
}

impl Registry {
    /// The registry of `own`, which offers nothing yet. `incarnation` must be higher than at any start before (see [`Version`]).
    pub fn new(own: ServerId, incarnation: u64) -> Self {
        let bucket = Bucket { version: Version::first(incarnation), offers: BTreeSet::new() };
        let incarnation = bucket.version.incarnation;
        Self { own, incarnation, buckets: BTreeMap::from([(own, bucket)]), members: BTreeSet::new() }
    }

    /// The number of this server.
    pub fn own(&self) -> ServerId {
        self.own
    }

    /// All buckets, the own one among them.
    pub fn buckets(&self) -> &BTreeMap<ServerId, Bucket> {
        &self.buckets
    }

    /// This server's bucket.
    pub fn own_bucket(&self) -> &Bucket {
        &self.buckets[&self.own]
    }

    /// Whether this process has, or began with, this incarnation.
    pub fn is_own_incarnation(&self, incarnation: u64) -> bool {
        incarnation == self.incarnation || incarnation == self.own_bucket().version.incarnation
    }

    /// The other servers of the cluster.
    pub fn members(&self) -> &BTreeSet<ServerId> {
        &self.members
    }

    /// Changes what this server offers: what it no longer does, and what it does from now on. True if that is a change.
    pub fn change_own(&mut self, gone: &[Offer], fresh: Vec<Offer>) -> bool {
        if gone.is_empty() && fresh.is_empty() {
            return false;
        }
        let own = self.own_mut();
        for offer in gone {
            own.offers.remove(offer);
        }
        own.offers.extend(fresh);
        own.version = own.version.next();
        true
    }

    fn own_mut(&mut self) -> &mut Bucket {
        self.buckets.get_mut(&self.own).expect("the own bucket is always held")
    }

    /// Sets who belongs to the cluster and drops the buckets of all others. Of more than [`SERVERS_MAX`] servers the last are left out.
    pub fn set_members(&mut self, members: impl IntoIterator<Item = ServerId>) {
        let own = self.own;
        let mut members: BTreeSet<_> = members.into_iter().filter(|&server| server != own).collect();
        while members.len() >= SERVERS_MAX {
            members.pop_last();
        }
        self.buckets.retain(|server, _| *server == own || members.contains(server));
        self.members = members;
    }

    /// What to tell a peer about the versions held here.
    pub fn status(&self) -> Message {
        Message::Status { versions: self.buckets.iter().map(|(&server, bucket)| (server, bucket.version)).collect() }
    }

    /// Compares a peer's versions with those held here.
    ///
    /// # Errors
    /// [`Error::TooManyServers`], [`Error::Version`]; then nothing changes.
    pub fn hear_status(&mut self, versions: &BTreeMap<ServerId, Version>) -> Result<Heard, Error> {
        check_count(versions.len())?;
        versions.iter().try_for_each(|(&server, version)| version.check(server))?;
        let mut heard = Heard::default();
        if let Some(&claimed) = versions.get(&self.own) {
            heard.is_own_refuted = self.refute(claimed);
        }
        heard.envelope = self.newer_than(versions);
        heard.wants_more = versions.iter().any(|(&server, &version)| self.wants(server, version));
        Ok(heard)
    }

    /// Takes what is newer.
    ///
    /// # Errors
    /// [`Error::TooManyServers`] and what [`Bucket::check`] finds; then nothing changes.
    pub fn hear_envelope(&mut self, buckets: BTreeMap<ServerId, Bucket>) -> Result<Heard, Error> {
        check_count(buckets.len())?;
        buckets.iter().try_for_each(|(&server, bucket)| bucket.check(server))?;
        let mut heard = Heard::default();
        for (server, bucket) in buckets {
            if server == self.own {
                let is_same = bucket == *self.own_bucket();
                heard.is_own_refuted = !is_same && self.refute(bucket.version);
            } else if self.wants(server, bucket.version) {
                let before = self.buckets.insert(server, bucket);
                heard.replaced.push((server, before.map(|bucket| bucket.version)));
            }
        }
        Ok(heard)
    }

    /// Whether this version of another server's bucket is to be had.
    fn wants(&self, server: ServerId, version: Version) -> bool {
        self.members.contains(&server) && self.buckets.get(&server).is_none_or(|held| held.version < version)
    }

    /// Somebody holds a version of the own bucket that is not below the true one, but is not it: go beyond, so that the true one wins.
    fn refute(&mut self, claimed: Version) -> bool {
        let own = self.own_mut();
        let is_beyond = claimed > own.version;
        if is_beyond {
            own.version = claimed.beyond();
        }
        is_beyond
    }

    /// The buckets that are newer here, as many as fit, or nothing.
    fn newer_than(&self, versions: &BTreeMap<ServerId, Version>) -> Option<Message> {
        let is_newer = |server: &ServerId, bucket: &Bucket| versions.get(server).is_none_or(|&v| v < bucket.version);
        let newer = self.buckets.iter().filter(|(server, bucket)| is_newer(server, bucket));
        let mut newer: Vec<_> = newer.collect();
        // The own one first: whatever a peer does not take of the others, it gets this one.
        newer.sort_by_key(|(server, _)| **server != self.own);
        let (mut bytes, mut offers) = (0, 0);
        let mut buckets = BTreeMap::new();
        for (&server, bucket) in newer {
            bytes += bucket.bytes();
            offers += bucket.offers.len();
            if (bytes > ENVELOPE_BYTES_MAX || offers > ENVELOPE_OFFERS_MAX) && !buckets.is_empty() {
                break;
            }
            buckets.insert(server, bucket.clone());
        }
        if buckets.is_empty() { None } else { Some(Message::Envelope { buckets }) }
    }
}

fn check_count(servers: usize) -> Result<(), Error> {
    if servers > SERVERS_MAX { Err(Error::TooManyServers { servers: servers as u64 }) } else { Ok(()) }
}
