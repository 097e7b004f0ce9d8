//! What is asked of a disk, as values. A driver carries them out: `node` on files, [`MemoryDisk`](crate::MemoryDisk) in
//! memory.

use core::fmt;

use bytes::Bytes;

use crate::FileName;

/// What a disk writes at once: a sector is either written or it isn't. (Disks of 4,096-byte sectors keep this, too.)
pub const SECTOR_BYTES: usize = 512;

/// One step of a [`Write`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Adds bytes to the end of a file, which is created if it is missing.
    Append {
        /// The name of the file.
        file: FileName,
        /// What is added.
        bytes: Bytes,
    },
    /// Writes bytes at an offset of a file, which is created if it is missing, and grows if they end behind its end.
    /// Carried out again, it changes nothing.
    WriteAt {
        /// The name of the file.
        file: FileName,
        /// Where they begin, in bytes from the file's start; no further than its end.
        offset: u64,
        /// What is written.
        bytes: Bytes,
    },
    /// Extends a file with zeros to `len` bytes; a file that is as long stays as it is. Later writes into the zeros
    /// then change neither length nor place of the file, so that a sync has no more to do than to write the sectors.
    /// Hence a driver *writes* the zeros: space that is only reserved (`fallocate`) is marked as unwritten, and the
    /// file system notes in its journal when that changes. It is no error if not all of them find room: that counts
    /// only when it is needed.
    Allocate {
        /// The name of the file.
        file: FileName,
        /// Its length afterwards, in bytes.
        len: u64,
    },
    /// Cuts a file to `len` bytes. A file that is missing or no longer than that stays as it is.
    Truncate {
        /// The name of the file.
        file: FileName,
        /// Bytes that stay.
        len: u64,
    },
    /// Puts a whole file in place of another, or where there was none; after a crash it is the old or the new one.
    /// A driver writes a temporary file beside it ([`temporary_name`](crate::temporary_name)), syncs it, renames it, and syncs the folder.
    Replace {
        /// The name of the file.
        file: FileName,
        /// Its whole content.
        bytes: Bytes,
    },
    /// Gives a file another name; a file of that name is replaced. If `from` is missing, `to` has to be there
    /// already (a repeated write).
    Rename {
        /// The old name.
        from: FileName,
        /// The new name.
        to: FileName,
    },
    /// Removes a file; it is no error if there is none.
    Delete {
        /// The name of the file.
        file: FileName,
    },
    /// Makes the content, the length, **and the name** of a file durable: after the file's creation or a rename, that
    /// takes a sync of the folder as well.
    Sync {
        /// The name of the file.
        file: FileName,
    },
}

/// The lane that a write goes by: it says who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The log: everything waits for it. At most one write of this lane is under way.
    Log,
    /// Snapshot files, which must not make the log wait.
    Snapshot,
}

/// Operations that are carried out in order, and answered once: *done* when all of them are carried out, with
/// everything durable that a [`Operation::Sync`], [`Operation::Replace`] or [`Operation::Rename`] among them covers, or
/// a [`DiskError`] at the first that failed; the later ones are then not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Number by which it is answered; unique within its lane.
    pub id: u64,
    /// Which of the two lanes it belongs to.
    pub lane: Lane,
    /// The operations on the disk, in order.
    pub operations: Vec<Operation>,
}

impl Write {
    /// A write of the snapshot lane, whose numbers the caller gives.
    pub fn snapshot(id: u64, operations: Vec<Operation>) -> Self {
        Self { id, lane: Lane::Snapshot, operations }
    }

    /// Bytes that it puts on the disk, without the zeros of [`Operation::Allocate`].
    pub fn bytes(&self) -> usize {
        let bytes = |operation: &Operation| match operation {
            Operation::Append { bytes, .. } | Operation::WriteAt { bytes, .. } | Operation::Replace { bytes, .. } => {
                bytes.len()
            }
            _ => 0,
        };
        self.operations.iter().map(bytes).sum()
    }
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// No space left, reported by a *write* (`ENOSPC`, `EDQUOT`): what was not written can be tried again. A sync that
    /// fails is always [`DiskError::Failed`], whatever its error number, because the kernel may have dropped the pages.
    Full,
    /// Anything else, in the words of the system.
    Failed(String),
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("no space left on the disk"),
            Self::Failed(text) => f.write_str(text),
        }
    }
}

/// The server's folder, as recovery reads it: one file at a time, so that it needs no more memory than the largest
/// segment and the live entries take. Snapshot files are listed, not read.
pub trait Folder {
    /// Every file with its length in bytes, in any order. Names that [`FileName`] refuses are not the log's: skip them.
    ///
    /// # Errors
    /// The system's, if a single file may be missing from the list: a folder that cannot be listed is not an empty one.
    fn list(&self) -> Result<Vec<(FileName, u64)>, DiskError>;

    /// The whole content of a file.
    ///
    /// # Errors
    /// The system's, if the file cannot be read.
    fn read(&self, file: &FileName) -> Result<Vec<u8>, DiskError>;
}

impl Folder for std::collections::BTreeMap<FileName, Vec<u8>> {
    fn list(&self) -> Result<Vec<(FileName, u64)>, DiskError> {
        Ok(self.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect())
    }

    fn read(&self, file: &FileName) -> Result<Vec<u8>, DiskError> {
        self.get(file).cloned().ok_or_else(|| DiskError::Failed(format!("{file}: no such file")))
    }
}
