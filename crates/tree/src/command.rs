//! What a shard's replicated log holds.

use serde::{Deserialize, Serialize};

use crate::bounded::{self, Entries};
use crate::{Change, Entry, LeaseId, LeaseRecord, Path, SessionId, SessionRecord, Transaction, TreeError};

/// The newest format of commands, and the one that is written. It is the first byte of an encoded command.
pub const COMMAND_FORMAT: u8 = 1;

/// One entry of a shard's log.
///
/// Move ids are given by who plans moves: each larger than all before, never used twice, not even for the same prefix
/// after a move was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A client's transaction.
    Write {
        /// The client's session.
        session: SessionId,
        /// The write's number in the session.
        sequence: u64,
        /// The client knows the outcomes of all sequences below.
        acknowledged: u64,
        /// What to do.
        transaction: Transaction,
    },
    /// Stops reads and writes of a prefix, which is about to go to another shard.
    Freeze {
        /// What will be moved.
        prefix: Path,
        /// Prefixes in it that are not moved.
        except: Vec<Path>,
        /// The number of the move.
        move_id: u64,
    },
    /// Ends a freeze, since the move was given up.
    Thaw {
        /// What is not moved after all.
        prefix: Path,
        /// The number of the move.
        move_id: u64,
    },
    /// Brings a part of a prefix's content from another shard.
    Import {
        /// The number of the move.
        move_id: u64,
        /// What is moved.
        prefix: Path,
        /// Prefixes in it that are not moved.
        except: Vec<Path>,
        /// The chunk's number, from 0.
        number: u32,
        /// The values that are moved.
        entries: Vec<Entry>,
        /// What the other shard knows of writes that it has done.
        sessions: Vec<SessionRecord>,
        /// The other shard's revision.
        revision: u64,
        /// Whether this is the last chunk: from here on the prefix is served here.
        last: bool,
    },
    /// Drops a prefix's content and remembers where it went. Ends a freeze or, if the move was given up, an import.
    Dropped {
        /// What was moved.
        prefix: Path,
        /// The number of the move.
        move_id: u64,
        /// The shard that has it now.
        to: u64,
    },
    // From here on: since protocol version 2.
    /// A client's transaction that says what is done when its conditions don't hold.
    WriteOrElse {
        /// The client's session.
        session: SessionId,
        /// The write's number in the session.
        sequence: u64,
        /// The client knows the outcomes of all sequences below.
        acknowledged: u64,
        /// What to do if the conditions hold.
        transaction: Transaction,
        /// What to do if they don't.
        otherwise: Vec<Change>,
    },
    /// Begins a lease.
    Grant {
        /// The client's session.
        session: SessionId,
        /// The write's number in the session.
        sequence: u64,
        /// The client knows the outcomes of all sequences below.
        acknowledged: u64,
        /// The number of the lease.
        lease: LeaseId,
        /// Its time to live, in milliseconds.
        ttl_ms: u64,
        /// The path that it is granted for: where this goes, the lease goes.
        home: Path,
    },
    /// Ends a lease, or the part of it that is in this shard, and takes its values away.
    Revoke {
        /// The client's session.
        session: SessionId,
        /// The write's number in the session.
        sequence: u64,
        /// The client knows the outcomes of all sequences below.
        acknowledged: u64,
        /// The number of the lease.
        lease: LeaseId,
        /// The path by which it was looked for here.
        at: Path,
    },
    /// Ends leases whose time is over, says the shard's leader, and takes their values away.
    Expire {
        /// Each with the log index at which it was granted ([`crate::leases::Lease::granted_at`]).
        leases: Vec<(LeaseId, u64)>,
    },
    /// Brings leases ahead of a prefix's content; they count when all of that is here.
    ImportLeases {
        /// The number of the move.
        move_id: u64,
        /// What is moved.
        prefix: Path,
        /// Prefixes in it that are not moved.
        except: Vec<Path>,
        /// What goes with it of each.
        leases: Vec<LeaseRecord>,
    },
    // From here on: since protocol version 3.
    /// Whether the data may grow: a leader says that they may not when the server's quota is reached.
    Growth {
        /// Whether the data may grow.
        allowed: bool,
    },
    // From here on: since protocol version 4.
    /// All servers of the cluster speak this version: entries behind this one mean what they mean in it.
    Protocol {
        /// The version.
        version: u32,
    },
}

impl Command {
    /// The command as bytes: the format's number, then postcard.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = vec![COMMAND_FORMAT];
        postcard::to_extend(self, bytes).expect("a command consists of what postcard can write")
    }

    /// Reads what [`Command::encode`] wrote.
    ///
    /// # Errors
    /// [`TreeError`] for all other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, TreeError> {
        Self::decode_bounded(bytes, &mut Entries::unbounded())
    }

    /// The same of bytes that another server has sent: with no more entries of lists than are left.
    ///
    /// # Errors
    /// As [`Command::decode`].
    pub fn decode_bounded(bytes: &[u8], entries: &mut Entries) -> Result<Self, TreeError> {
        let error = |reason: String| TreeError::Command { bytes: bytes.len(), reason };
        match bytes.split_first() {
            None => Err(error("no bytes".to_owned())),
            Some((&COMMAND_FORMAT, rest)) => bounded::decode(rest, entries).map_err(|reason| error(reason.to_string())),
            Some((&found, _)) => Err(TreeError::CommandFormat { found, expected: COMMAND_FORMAT }),
        }
    }
}
