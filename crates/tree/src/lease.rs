//! One lease, and what a shard can have of them at most.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeSet;

use imbl::OrdSet;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::entry::ENTRY_BYTES;
use crate::{Location, Path};

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
    /// A path in each other part of it, as far as is known. The home is among them if it is in another shard (since protocol version 4).
    pub parts: BTreeSet<Path>,
}

impl Lease {
    /// Whether its home is known to be in another shard.
    pub fn is_away(&self) -> bool {
        self.parts.contains(&self.home)
    }

    /// Whether values can be attached to it here (since protocol version 4). Where it has values, the home leads to it. Where it has none
    /// any more but knows other parts, it may be that no path leads here, so that nobody would keep what is attached alive.
    pub fn takes_values(&self) -> bool {
        !self.is_away() || !self.values.is_empty() || self.other_parts().next().is_none()
    }

    /// The other parts, by paths that are not the home.
    pub fn other_parts(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().filter(|path| **path != self.home)
    }

    /// The home is in another shard.
    pub(crate) fn set_away(&mut self) {
        self.parts.insert(self.home.clone());
        self.cut_parts(true);
    }

    /// Forgets parts that are too many, but not the home if that is named among them.
    pub(crate) fn cut_parts(&mut self, names_homes: bool) {
        while self.parts.len() > MAX_LEASE_PARTS {
            let last = self.parts.iter().rev().find(|path| !names_homes || **path != self.home).cloned();
            let Some(last) = last else { return };
            self.parts.remove(&last);
        }
    }

    /// A path of it that this shard has, if it has any: the home, or a value.
    pub fn place(&self, has: impl Fn(&Path) -> bool) -> Option<&Path> {
        core::iter::once(&self.home).chain(self.values.iter().map(|at| &at.path)).find(|path| has(path))
    }

    /// The lease as it is written, under its number.
    pub(crate) fn record(&self, id: LeaseId) -> LeaseRecord {
        LeaseRecord {
            id,
            ttl_ms: self.ttl_ms,
            home: self.home.clone(),
            granted_at: self.granted_at,
            values: self.values.iter().cloned().collect(),
            parts: self.parts.iter().cloned().collect(),
        }
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

    /// Mixes it into a digest.
    pub(crate) fn digest(&self, digest: &mut Digest) {
        for number in [self.id.0, self.ttl_ms, self.granted_at, self.values.len() as u64] {
            digest.number(number);
        }
        digest.bytes(self.home.as_str().as_bytes());
        for at in &self.values {
            digest.number(at.datastore as u64);
            digest.bytes(at.path.as_str().as_bytes());
        }
        for path in &self.parts {
            digest.bytes(path.as_str().as_bytes());
        }
    }
}
