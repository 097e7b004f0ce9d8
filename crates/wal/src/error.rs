//! What can go wrong, in the words that the operator of the server gets to see.

use machine::ServerId;

use crate::{DiskError, FileName};

/// Why the log can't be read, or not be written any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Content that was once durable is no longer what was written.
    #[error(
        "{file}: corrupt at byte {offset}: expected {expected}, found {found}. Nothing was changed. \
         hint: put the server's folder back as it was, if it is whole somewhere else (a copy of an earlier day is no help: the \
         server would have forgotten its votes and what it confirmed since then). Otherwise replace this server: \
         `heddle cluster replace NAME` at another one says how; a server that was alone is filled from a backup of the \
         cluster (`heddle cluster restore FILE`)"
    )]
    Corrupt {
        /// The name of the file.
        file: FileName,
        /// Where in it, in bytes from its start.
        offset: u64,
        /// What should have been there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A segment, a snapshot or the identity file is not there although others refer to it.
    #[error(
        "{file} is missing: {why}. Nothing was changed. \
         hint: put the server's folder back as it was, if it is whole somewhere else (a copy of an earlier day is no help: the \
         server would have forgotten its votes and what it confirmed since then). Otherwise replace this server: \
         `heddle cluster replace NAME` at another one says how; a server that was alone is filled from a backup of the \
         cluster (`heddle cluster restore FILE`)"
    )]
    Missing {
        /// The name of the file.
        file: FileName,
        /// How that is known.
        why: String,
    },
    /// The log ends before a batch that is known to have been durable.
    #[error(
        "{file}: the log ends with batch {found}, and batch {expected} was once on the disk in this file: what was confirmed \
         since batch {found} is lost, votes perhaps too. Nothing was changed. \
         hint: put the server's folder back as it was, if it is whole somewhere else (a copy of an earlier day is no help: the \
         server would have forgotten its votes and what it confirmed since then). Otherwise replace this server: \
         `heddle cluster replace NAME` at another one says how; a server that was alone is filled from a backup of the \
         cluster (`heddle cluster restore FILE`)"
    )]
    TailLost {
        /// The segment in which the batch should be.
        file: FileName,
        /// Number of the batch that was durable.
        expected: u64,
        /// Number of the last batch that is there.
        found: u64,
    },
    /// The folder is of another cluster or another server.
    #[error(
        "{file} belongs to {found}, not to {expected}. Nothing was changed. \
         hint: check the folder's path; a server needs a folder of its own"
    )]
    OtherCluster {
        /// The file that says so.
        file: FileName,
        /// The cluster and the server that were expected.
        expected: String,
        /// The cluster and the server that the file names.
        found: String,
    },
    /// A newer program wrote the file.
    #[error(
        "{file} has format {found}; this program knows formats up to {known}. Nothing was changed. \
         hint: start the newer program again; an older one cannot read what it wrote"
    )]
    NewerVersion {
        /// The name of the file.
        file: FileName,
        /// The format that it is in.
        found: u32,
        /// The newest format that this program knows.
        known: u32,
    },
    /// A file can't be read at all.
    #[error("{file} cannot be read: {error}. hint: check the folder's permissions and the disk")]
    Unreadable {
        /// The name of the file.
        file: FileName,
        /// What the system said.
        error: DiskError,
    },
    /// It cannot be known which files there are.
    #[error(
        "the folder cannot be listed: {error}. Nothing was changed. hint: check the folder's permissions (it has to be \
         readable for who runs the server) and the disk"
    )]
    Unlistable {
        /// What the system said.
        error: DiskError,
    },
    /// A write failed in a way that may not be tried again.
    #[error(
        "server {server}: the disk failed while the log was written: {error}. What was confirmed is safe, nothing more \
         will be. hint: repair the disk, then start the server again; it continues from what is durable"
    )]
    Poisoned {
        /// The server that the log belongs to.
        server: ServerId,
        /// What the system said.
        error: String,
    },
    /// More would wait for the disk than is allowed.
    #[error("{bytes} bytes wait for the disk, {limit} may. hint: answer requests only as fast as the disk takes them")]
    BacklogFull {
        /// What would wait.
        bytes: usize,
        /// The most bytes that it may have.
        limit: usize,
    },
    /// Not an identity that a server can have.
    #[error("the server's identity is not valid: {why}")]
    Identity {
        /// What is wrong with it.
        why: String,
    },
}
