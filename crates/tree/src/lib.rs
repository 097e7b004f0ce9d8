//! The data of one shard: paths, values, transactions, watches, sessions.
//!
//! A shard is a state machine. Its replicated log holds [`Command`]s; [`State::apply`] takes them one after another and
//! has no other input, so that servers with the same log have equal states ([`State::digest`]).
//!
//! | module | what it is |
//! |---|---|
//! | [`path`] | where a value lives: `/car:cars/car-entry=17`; ordered so that a subtree is one range |
//! | [`transaction`] | changes that happen all or none, under conditions |
//! | [`tree`] | the values, in a persistent map: a clone costs nothing and stays as it was |
//! | [`sessions`] | outcomes of recent writes, so that a retried one is applied once |
//! | [`leases`] | values that go away with the programs that need them |
//! | [`past`] | values as they were a while ago |
//! | [`state`] | tree, sessions, leases and the marks of moves: all that a log makes |
//! | [`transfer`] | the content of a prefix on its way to another shard |
//! | [`snapshot`] | a whole state in chunks of bytes |
//! | [`watch`] | recent changes, for watchers that come back |
//! | [`bounded`] | reads bytes of others: no more parts than honest senders make |
//!
//! What always holds: a refused command changes nothing that can be read; an entity tag is never used twice at one
//! location, moves between shards included; bytes from outside never cause a panic.
#![forbid(unsafe_code)]

pub mod bounded;
pub mod bytes;
pub mod command;
mod digest;
mod entry;
pub mod error;
mod lease;
pub mod leases;
mod location;
mod marks;
pub mod past;
pub mod path;
pub mod sessions;
pub mod snapshot;
pub mod state;
pub mod transaction;
pub mod transfer;
pub mod tree;
pub mod watch;

pub use bytes::Bytes;
pub use command::Command;
pub use digest::DigestCache;
pub use entry::{Entry, Value};
pub use error::TreeError;
pub use lease::{Lease, LeaseId, LeaseRecord};
pub use leases::Leases;
pub use location::{Datastore, Location};
pub use marks::{Import, Mark};
pub use past::{Compacted, Past};
pub use path::{Path, PathError, Segment};
pub use sessions::{Begin, SessionId, SessionRecord, Sessions};
pub use snapshot::{SnapshotBuilder, SnapshotReader};
pub use state::{LeaseChunk, PROTOCOL_WITH_AWAY_PARTS, Staged, State};
pub use transaction::{Change, Committed, Condition, Expect, Invalid, Outcome, Refusal, Transaction};
pub use transfer::{Chunk, Cursor};
pub use tree::{Subtree, Tree};
pub use watch::{Event, EventKind, History, Skipped};
