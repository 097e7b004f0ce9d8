//! Changes that happen all or none, under conditions.
//!
//! Conditions and changes speak of the value that stands exactly at a location; only [`Change::Delete`] and
//! [`Change::Remove`] speak of the whole subtree. All conditions are judged first, on the state before the transaction; then
//! changes are made in their order, each seeing those before it.

use serde::{Deserialize, Serialize};

use crate::{Bytes, LeaseId, Location, Path, lease, marks};

/// The most changes in a transaction.
pub const MAX_CHANGES: usize = 1_024;
/// The most conditions in a transaction.
pub const MAX_CONDITIONS: usize = 1_024;
/// The most bytes in one value.
pub const MAX_VALUE_BYTES: usize = 1 << 20;
/// The most bytes in all paths and values of a transaction: it must fit one entry of the log.
pub const MAX_TRANSACTION_BYTES: usize = 8 << 20;

/// What must be so for a transaction to happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The location in the tree.
    pub at: Location,
    /// What must be there.
    pub expect: Expect,
}

/// What a condition expects exactly at its location.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expect {
    /// There must be no value.
    Absent,
    /// There must be a value.
    Present,
    /// The value that has this entity tag (RFC 9110 section 8.8.3).
    Etag(u64),
    /// A value of these bytes.
    Value(Bytes),
    // From here on: since protocol version 2.
    /// A value that has another entity tag.
    NotEtag(u64),
    /// A value of other bytes.
    NotValue(Bytes),
    /// A value whose entity tag is smaller: it was last written before that revision.
    EtagBelow(u64),
    /// A value whose entity tag is larger.
    EtagAbove(u64),
}

impl Expect {
    /// The bytes that it compares with, if it does.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Expect::Value(bytes) | Expect::NotValue(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Whether servers of protocol version 1 know it.
    pub fn is_of_version_1(&self) -> bool {
        matches!(self, Expect::Absent | Expect::Present | Expect::Etag(_) | Expect::Value(_))
    }
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Writes a value where there is none; refused if there is one.
    Create {
        /// The location in the tree.
        at: Location,
        /// The value to write.
        value: Bytes,
    },
    /// Writes a value.
    Put {
        /// The location in the tree.
        at: Location,
        /// The value to write.
        value: Bytes,
    },
    /// Writes a value in place of another; refused if there is none.
    Replace {
        /// The location in the tree.
        at: Location,
        /// The value to write.
        value: Bytes,
    },
    /// Takes the values at and below a location away; refused if there are none.
    Delete {
        /// The location in the tree.
        at: Location,
    },
    /// Takes the values at and below a location away, if there are any.
    Remove {
        /// The location in the tree.
        at: Location,
    },
    /// Writes a value that goes away with a lease (since protocol version 2). The other ways to write a value take it from
    /// its lease.
    PutWithLease {
        /// The location in the tree.
        at: Location,
        /// The value to write.
        value: Bytes,
        /// The number of the lease.
        lease: LeaseId,
    },
}

impl Change {
    /// Where the change is made.
    pub fn at(&self) -> &Location {
        match self {
            Change::Create { at, .. }
            | Change::Put { at, .. }
            | Change::Replace { at, .. }
            | Change::Delete { at }
            | Change::Remove { at }
            | Change::PutWithLease { at, .. } => at,
        }
    }

    /// What is written; none for a change that takes away.
    pub fn value(&self) -> Option<&Bytes> {
        match self {
            Change::Create { value, .. }
            | Change::Put { value, .. }
            | Change::Replace { value, .. }
            | Change::PutWithLease { value, .. } => Some(value),
            Change::Delete { .. } | Change::Remove { .. } => None,
        }
    }

    /// Whether the change reaches below its location.
    pub fn is_subtree(&self) -> bool {
        self.value().is_none()
    }
}

/// Changes that happen all or none, if all conditions hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// What must hold before.
    pub conditions: Vec<Condition>,
    /// What is done, in this order.
    pub changes: Vec<Change>,
}

impl Transaction {
    /// A transaction of one change without conditions.
    pub fn of(change: Change) -> Self {
        Self { conditions: Vec::new(), changes: vec![change] }
    }

    /// Every location that is read or written, doubled ones too; whether its subtree is meant says
    /// [`Change::is_subtree`].
    pub fn locations(&self) -> impl Iterator<Item = &Location> {
        self.conditions.iter().map(|condition| &condition.at).chain(self.changes.iter().map(Change::at))
    }

    /// Whether servers of protocol version 1 know all of it.
    pub fn is_of_version_1(&self) -> bool {
        self.conditions.iter().all(|condition| condition.expect.is_of_version_1())
            && !self.changes.iter().any(|change| matches!(change, Change::PutWithLease { .. }))
    }

    /// Checks the bounds.
    ///
    /// # Errors
    /// [`Invalid`] with the first bound that is broken.
    pub fn check(&self) -> Result<(), Invalid> {
        self.check_with(&[])
    }

    /// Checks the bounds of this and of what is done when the conditions don't hold.
    ///
    /// # Errors
    /// [`Invalid`] with the first bound that is broken; changes of `otherwise` count on from the others.
    pub fn check_with(&self, otherwise: &[Change]) -> Result<(), Invalid> {
        if self.conditions.len() > MAX_CONDITIONS {
            return Err(Invalid::Conditions { count: self.conditions.len() as u64 });
        }
        let count = self.changes.len() + otherwise.len();
        if count > MAX_CHANGES {
            return Err(Invalid::Changes { count: count as u64 });
        }
        let mut total_bytes = 0;
        for condition in &self.conditions {
            total_bytes += condition.at.path.as_str().len();
            total_bytes += condition.expect.bytes().map_or(0, |value| value.len());
        }
        for (index, change) in self.changes.iter().chain(otherwise).enumerate() {
            total_bytes += change.at().path.as_str().len();
            if let Some(value) = change.value() {
                total_bytes += value.len();
                if value.len() > MAX_VALUE_BYTES {
                    return Err(Invalid::Value { index: index as u32, bytes: value.len() as u64 });
                }
                if change.at().path.is_root() || change.at().path.is_module() {
                    return Err(Invalid::Root { index: index as u32 });
                }
            }
        }
        if total_bytes > MAX_TRANSACTION_BYTES {
            return Err(Invalid::Size { bytes: total_bytes as u64 });
        }
        Ok(())
    }
}

/// The bound that a transaction breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Invalid {
    /// Too many changes.
    #[error("transaction has {count} changes, expected at most {MAX_CHANGES}; hint: make several transactions")]
    Changes {
        /// How many it has.
        count: u64,
    },
    /// Too many conditions.
    #[error("transaction has {count} conditions, expected at most {MAX_CONDITIONS}")]
    Conditions {
        /// How many it has.
        count: u64,
    },
    /// A value is too large.
    #[error("value of change {index} has {bytes} bytes, expected at most {MAX_VALUE_BYTES}; hint: cut it into several")]
    Value {
        /// The change, from 0.
        index: u32,
        /// The value's length.
        bytes: u64,
    },
    /// All paths and values together are too large.
    #[error("transaction has {bytes} bytes, expected at most {MAX_TRANSACTION_BYTES}; hint: make several transactions")]
    Size {
        /// Bytes of paths and values.
        bytes: u64,
    },
    /// A value is to be written at the root or at all of a module, where none can be.
    #[error("change {index} writes a value at no node; hint: write at a module's node, such as /car:cars")]
    Root {
        /// The change, from 0.
        index: u32,
    },
}

/// What a transaction that happened left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Committed {
    /// The shard's revision with the transaction in it, and the entity tag of every value that it wrote.
    pub revision: u64,
}

/// What became of a command: done, or refused and nothing changed.
pub type Outcome = Result<Committed, Refusal>;

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// A condition does not hold.
    #[error("condition {index} does not hold: {}", found(*.actual))]
    ConditionFailed {
        /// The condition, from 0.
        index: u32,
        /// The entity tag of the value that is there; none if there is no value.
        actual: Option<u64>,
    },
    /// There is a value already where one was to be created.
    #[error("{at} has a value already; hint: put or replace it")]
    Exists {
        /// The location in the tree.
        at: Location,
    },
    /// There is nothing where something was to be replaced or deleted.
    #[error("{at} has no value; hint: create or put it")]
    Missing {
        /// The location in the tree.
        at: Location,
    },
    /// The transaction breaks a bound.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The write's outcome is no longer known; it may have happened or not.
    #[error("the outcome of this write is no longer known; hint: read before writing again")]
    Forgotten,
    /// The data is on its way to or from another shard. Retry.
    #[error("{prefix} is being moved between shards; hint: retry")]
    Moving {
        /// What is moved.
        prefix: Path,
    },
    /// The data went to another shard. Retry there.
    #[error("{prefix} is now in shard {to}; hint: retry there")]
    Moved {
        /// What was moved.
        prefix: Path,
        /// The shard that has it.
        to: u64,
    },
    /// A chunk of a move came before the one that precedes it.
    #[error("chunk of the move of {prefix} is out of order, expected chunk {expected}")]
    OutOfOrder {
        /// What is moved.
        prefix: Path,
        /// The next chunk's number.
        expected: u32,
    },
    /// A chunk of a move claims what cannot be: an entity tag above its shard's revision, or an absurd revision.
    #[error("chunk {number} of the move of {prefix} has an entity tag above its revision; hint: export it again")]
    UnsoundChunk {
        /// What is moved.
        prefix: Path,
        /// The chunk's number.
        number: u32,
    },
    /// There are too many moved, frozen or arriving prefixes in this shard.
    #[error("shard holds {} marks of moves; hint: merge prefixes", marks::MAX_MARKS)]
    TooManyMarks,
    // From here on: since protocol version 2.
    /// A condition does not hold, so what was to be done otherwise was done: the only refusal that changes something.
    #[error("condition {condition} does not hold, what was to be done otherwise is done: {}", found(*.actual))]
    Otherwise {
        /// The shard's revision with that in it.
        revision: u64,
        /// The condition, from 0.
        condition: u32,
        /// The entity tag of the value that was there; none if there was no value.
        actual: Option<u64>,
    },
    /// There is no such lease where it was looked for, or it has ended.
    #[error("there is no lease {lease} here; hint: it has ended, or is of data in another shard")]
    NoLease {
        /// The number of the lease.
        lease: LeaseId,
    },
    /// A lease of this number is there already.
    #[error("lease {lease} is there already; hint: choose another number at random")]
    LeaseExists {
        /// The number of the lease.
        lease: LeaseId,
    },
    /// A lease's time to live is out of bounds.
    #[error(
        "a lease cannot live for {ttl_ms} ms; hint: from {} ms to {} ms",
        lease::LEASE_TTL_MIN_MS,
        lease::LEASE_TTL_MAX_MS
    )]
    LeaseTtl {
        /// What was asked for.
        ttl_ms: u64,
    },
    /// The shard has as many leases as it may have.
    #[error("the shard has {} leases already; hint: attach several values to one lease", lease::MAX_LEASES)]
    TooManyLeases,
    /// The lease has as many values as it may have.
    #[error("lease {lease} has {} values already; hint: grant another", lease::MAX_LEASE_VALUES)]
    LeaseFull {
        /// The number of the lease.
        lease: LeaseId,
    },
    // From here on: since protocol version 3.
    /// The quota is reached, and the transaction would make the data larger.
    #[error(
        "the quota on data is reached, and this would add to them; hint: delete something, or start the servers with a higher --quota; \
         `heddle cluster alarms` shows how much there is"
    )]
    Full,
}

impl Refusal {
    /// Whether the same request can succeed when it is repeated later or elsewhere without another change of the data.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Refusal::Moving { .. } | Refusal::Moved { .. } | Refusal::OutOfOrder { .. })
    }
}

fn found(actual: Option<u64>) -> String {
    match actual {
        Some(etag) => format!("there is a value with entity tag {etag}"),
        None => "there is no value".to_owned(),
    }
}
