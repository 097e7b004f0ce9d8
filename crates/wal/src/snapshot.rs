//! Snapshot files: chunks, each with its checksum, and a mark at the end.
//!
//! ```text
//! header   "heddlesn" format(4) group(8) index(8) crc(4)             crc: over what precedes it
//! chunk    length(4) crc(4) content                                  crc: over the chunk's number, length and content
//! end      ff ff ff ff chunks(8) content-bytes(8) crc(4)             crc: over what precedes it, from ff on
//! ```
//!
//! A file is written under a name that ends in `.part`, and gets its own when it is complete and durable:
//! `snapshot-GROUP-INDEX-SERIAL`, in hexadecimal. The serial number is never used twice, so deleting an old file can't
//! hit a new one.

use bytes::Bytes;
use crc32fast::Hasher;

use crate::codec::Reader;
use crate::file_name::TEMPORARY;
use crate::identity::FORMAT;
use crate::{Error, FileName, Operation, SnapshotMark};

/// The longest chunk of a snapshot, bytes.
pub const CHUNK_BYTES_MAX: usize = 16 << 20;

/// After so many bytes a snapshot is synced as far as it is written, so that the disk never has much to catch up on
/// while the log waits for it.
pub const SYNC_BYTES: usize = 4 << 20;

const MAGIC: [u8; 8] = *b"heddlesn";
const HEADER_BYTES: usize = 32;
const CHUNK_HEADER_BYTES: usize = 8;
const END: u32 = u32::MAX;
const END_BYTES: usize = 24;

fn final_name(group: u64, index: u64, serial: u64) -> FileName {
    FileName::made(format!("snapshot-{group:x}-{index:x}-{serial:x}"))
}

/// The serial number of a snapshot's file, complete or not.
pub(crate) fn serial_of(file: &FileName) -> Option<u64> {
    let name = file.as_str().strip_suffix(TEMPORARY).unwrap_or(file.as_str());
    let mut numbers = name.strip_prefix("snapshot-")?.split('-').map(|text| u64::from_str_radix(text, 16).ok());
    let (Some(group), Some(index), Some(serial), None) =
        (numbers.next()?, numbers.next()?, numbers.next()?, numbers.next())
    else {
        return None;
    };
    (final_name(group, index, serial).as_str() == name).then_some(serial)
}

/// Writes a snapshot file, chunk by chunk. The operations go to the snapshot lane, in order, as
/// [`Write::snapshot`](crate::Write::snapshot). If one of them fails, [`SnapshotWriter::abort`] and begin another.
#[derive(Debug)]
pub struct SnapshotWriter {
    group: u64,
    index: u64,
    serial: u64,
    checksum: Hasher,
    bytes: u64,
    chunks: u64,
    content_bytes: u64,
    unsynced_bytes: usize,
}

impl SnapshotWriter {
    pub(crate) fn new(group: u64, index: u64, serial: u64) -> Self {
        let checksum = Hasher::new();
        Self { group, index, serial, checksum, bytes: 0, chunks: 0, content_bytes: 0, unsynced_bytes: 0 }
    }

    fn file(&self) -> FileName {
        final_name(self.group, self.index, self.serial)
    }

    fn part(&self) -> FileName {
        FileName::made(format!("{}{TEMPORARY}", self.file().as_str()))
    }

    /// Adds a chunk; every [`SYNC_BYTES`] there is a sync among the operations.
    ///
    /// # Panics
    /// If it is empty or longer than [`CHUNK_BYTES_MAX`].
    pub fn chunk(&mut self, content: &[u8]) -> Vec<Operation> {
        assert!((1..=CHUNK_BYTES_MAX).contains(&content.len()), "a chunk has 1 to {CHUNK_BYTES_MAX} bytes");
        let mut out = self.start(CHUNK_HEADER_BYTES + content.len());
        let len = content.len() as u32;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&chunk_checksum(self.chunks, len, content).to_le_bytes());
        out.extend_from_slice(content);
        self.chunks += 1;
        self.content_bytes += content.len() as u64;
        let mut operations = vec![self.append(out)];
        if self.unsynced_bytes >= SYNC_BYTES {
            self.unsynced_bytes = 0;
            operations.push(Operation::Sync { file: self.part() });
        }
        operations
    }

    /// Ends the file. Hand the mark to [`Log::snapshot`](crate::Log::snapshot) when these operations are done. `meta`
    /// is the caller's description of the snapshot; it is kept in the log, not in the file.
    pub fn finish(mut self, term: u64, meta: Bytes) -> (Vec<Operation>, SnapshotMark) {
        let mut out = self.start(END_BYTES);
        let start = out.len();
        out.extend_from_slice(&END.to_le_bytes());
        out.extend_from_slice(&self.chunks.to_le_bytes());
        out.extend_from_slice(&self.content_bytes.to_le_bytes());
        let checksum = crc32fast::hash(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
        let append = self.append(out);
        let (from, to) = (self.part(), self.file());
        let operations =
            vec![append, Operation::Sync { file: from.clone() }, Operation::Rename { from, to: to.clone() }];
        let (index, bytes, checksum) = (self.index, self.bytes, self.checksum.finalize());
        (operations, SnapshotMark { index, term, meta, file: to, bytes, checksum })
    }

    /// Gives up; removes what was written.
    pub fn abort(self) -> Vec<Operation> {
        vec![Operation::Delete { file: self.part() }]
    }

    /// Room for `len` bytes, behind the header if the file begins with them.
    fn start(&self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + len);
        if self.bytes == 0 {
            out.extend_from_slice(&MAGIC);
            out.extend_from_slice(&FORMAT.to_le_bytes());
            out.extend_from_slice(&self.group.to_le_bytes());
            out.extend_from_slice(&self.index.to_le_bytes());
            let checksum = crc32fast::hash(&out);
            out.extend_from_slice(&checksum.to_le_bytes());
        }
        out
    }

    fn append(&mut self, bytes: Vec<u8>) -> Operation {
        self.checksum.update(&bytes);
        self.bytes += bytes.len() as u64;
        self.unsynced_bytes += bytes.len();
        Operation::Append { file: self.part(), bytes: bytes.into() }
    }
}

fn chunk_checksum(number: u64, len: u32, content: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(&len.to_le_bytes());
    hasher.update(content);
    hasher.finalize()
}

/// The chunks of a snapshot file, in order. All of the file is checked before the first is given.
#[derive(Clone, Debug)]
pub struct SnapshotFile<'a> {
    chunks: Reader<'a>,
    left: u64,
}

impl<'a> SnapshotFile<'a> {
    /// Checks every checksum, the end, and that the file is the one that was marked for this group.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::NewerVersion`].
    pub fn read(group: u64, mark: &SnapshotMark, bytes: &'a [u8]) -> Result<Self, Error> {
        let mut check = Check { file: &mark.file, bytes, reader: Reader::new(bytes) };
        check.header(group, mark.index)?;
        let chunks = check.reader;
        let left = check.chunks()?;
        let checksum = crc32fast::hash(bytes);
        if (bytes.len() as u64, checksum) != (mark.bytes, mark.checksum) {
            let expected = format!("the marked snapshot: {} bytes, checksum {:08x}", mark.bytes, mark.checksum);
            return Err(check.corrupt(0, expected, format!("{} bytes, checksum {checksum:08x}", bytes.len())));
        }
        Ok(Self { chunks, left })
    }
}

impl<'a> Iterator for SnapshotFile<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let len = self.chunks.u32().expect("checked before");
        self.chunks.u32().expect("checked before");
        Some(self.chunks.take(len as usize).expect("checked before"))
    }
}

/// A file that is being checked from its start to its end.
struct Check<'a, 'f> {
    file: &'f FileName,
    bytes: &'a [u8],
    reader: Reader<'a>,
}

impl Check<'_, '_> {
    fn offset(&self) -> usize {
        self.bytes.len() - self.reader.remaining()
    }

    fn corrupt(&self, offset: usize, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::Corrupt {
            file: self.file.clone(),
            offset: offset as u64,
            expected: expected.into(),
            found: found.into(),
        }
    }

    fn header(&mut self, group: u64, index: u64) -> Result<(), Error> {
        let expected = format!("a snapshot of group {group} up to entry {index}");
        let mut read = || {
            let mut inner = Reader::new(self.reader.take(HEADER_BYTES - 4)?);
            let magic = inner.take(MAGIC.len())?;
            Ok::<_, &str>((magic == MAGIC, inner.u32()?, inner.u64()?, inner.u64()?, self.reader.u32()?))
        };
        let (is_snapshot, format, found_group, found_index, checksum) =
            read().map_err(|found| self.corrupt(0, &expected, found))?;
        if !is_snapshot || checksum != crc32fast::hash(&self.bytes[..HEADER_BYTES - 4]) {
            return Err(self.corrupt(0, &expected, "a header whose checksum doesn't fit"));
        }
        if format > FORMAT {
            return Err(Error::NewerVersion { file: self.file.clone(), found: format, known: FORMAT });
        }
        if (found_group, found_index) != (group, index) {
            let found = format!("one of group {found_group} up to entry {found_index}");
            return Err(self.corrupt(0, &expected, found));
        }
        Ok(())
    }

    /// Checks all chunks and the end. Gives the number of chunks.
    fn chunks(&mut self) -> Result<u64, Error> {
        let (mut chunks, mut content_bytes) = (0_u64, 0_u64);
        loop {
            let start = self.offset();
            let chunk = |found| self.corrupt(start, format!("chunk {chunks}, or the end"), found);
            let mut reader = self.reader;
            let len = reader.u32().map_err(chunk)?;
            if len == END {
                return self.end(chunks, content_bytes);
            }
            let checksum = reader.u32().map_err(chunk)?;
            let content = reader.take(len as usize).map_err(chunk)?;
            if content.is_empty() || len as usize > CHUNK_BYTES_MAX {
                return Err(chunk("a chunk of an impossible length"));
            }
            if checksum != chunk_checksum(chunks, len, content) {
                return Err(chunk("a chunk whose checksum doesn't fit"));
            }
            self.reader = reader;
            chunks += 1;
            content_bytes += u64::from(len);
        }
    }

    fn end(&mut self, chunks: u64, content_bytes: u64) -> Result<u64, Error> {
        let start = self.offset();
        let mut expected = END.to_le_bytes().to_vec();
        expected.extend_from_slice(&chunks.to_le_bytes());
        expected.extend_from_slice(&content_bytes.to_le_bytes());
        expected.extend_from_slice(&crc32fast::hash(&expected).to_le_bytes());
        if self.bytes[start..] == expected {
            return Ok(chunks);
        }
        Err(self.corrupt(start, format!("the end after {chunks} chunks of {content_bytes} bytes"), "something else"))
    }
}
