//! A second witness of how far the log goes: without it nobody would miss a tail, or a last segment, that was durable once.
//!
//! ```text
//! witness  slot, zeros up to 4096, slot, zeros up to 8192
//! slot 56  "heddlewt" format(4) cluster(16) server(8) segment(8) batch(8) crc(4)
//! ```
//!
//! Batches take turns with the two slots; the one with the higher number counts. A slot is written right after its
//! batch is durable, and not synced with it: that would be a second sync for each write. It is in the system's memory then,
//! and so exact whatever becomes of the process; [`Log::sync_witness`](crate::Log::sync_witness) makes it durable now and
//! then, beside the log. So it never says too much, and after a loss of power it may say too little.

use bytes::Bytes;

use crate::codec::Reader;
use crate::identity::owner;
use crate::{Error, FileName, Identity, Operation};

/// The file's name.
const FILE: &str = "witness";

/// Format of this file, and the newest that is read.
const FORMAT: u32 = 1;

const MAGIC: [u8; 8] = *b"heddlewt";

/// Length of a slot's content.
const SLOT_BYTES: usize = 56;

/// From one slot to the next: no disk writes both at once.
const STRIDE_BYTES: usize = 4_096;

const SLOTS: usize = 2;

/// What the log has noted and synced of it, in batches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WitnessState {
    pub(crate) noted: u64,
    pub(crate) synced: u64,
}

/// The last batch that is durable for sure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Witness {
    /// Its number; 0 is before the first.
    pub(crate) sequence: u64,
    /// The segment in which it is.
    pub(crate) segment: u64,
}

impl Witness {
    /// Name of its file.
    pub(crate) fn file() -> FileName {
        FileName::made(FILE.to_owned())
    }

    fn encode(self, identity: &Identity) -> [u8; SLOT_BYTES] {
        let mut out = [0; SLOT_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        out[12..28].copy_from_slice(&identity.cluster.to_le_bytes());
        out[28..36].copy_from_slice(&identity.server.0.to_le_bytes());
        out[36..44].copy_from_slice(&self.segment.to_le_bytes());
        out[44..52].copy_from_slice(&self.sequence.to_le_bytes());
        let checksum = crc32fast::hash(&out[..52]);
        out[52..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Puts the file in place, both slots saying this.
    pub(crate) fn begin(self, identity: &Identity) -> Operation {
        let mut bytes = vec![0; SLOTS * STRIDE_BYTES];
        for slot in bytes.chunks_exact_mut(STRIDE_BYTES) {
            slot[..SLOT_BYTES].copy_from_slice(&self.encode(identity));
        }
        Operation::Replace { file: Self::file(), bytes: bytes.into() }
    }

    /// Writes the batch's slot.
    pub(crate) fn note(self, identity: &Identity) -> Operation {
        let offset = self.sequence % SLOTS as u64 * STRIDE_BYTES as u64;
        Operation::WriteAt { file: Self::file(), offset, bytes: Bytes::copy_from_slice(&self.encode(identity)) }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if neither slot can be read or the length is another, [`Error::NewerVersion`],
    /// [`Error::OtherCluster`].
    pub(crate) fn read(bytes: &[u8], identity: &Identity) -> Result<Self, Error> {
        let corrupt = |found: String| Error::Corrupt {
            file: Self::file(),
            offset: 0,
            expected: "the witness of the log's end".to_owned(),
            found,
        };
        if bytes.len() != SLOTS * STRIDE_BYTES {
            return Err(corrupt(format!("{} bytes", bytes.len())));
        }
        let mut newest = None;
        for slot in bytes.chunks_exact(STRIDE_BYTES) {
            newest = newest.max(Self::read_slot(slot, identity)?);
        }
        newest.ok_or_else(|| corrupt("no slot whose checksum fits".to_owned()))
    }

    /// Reads a slot; `None` if its checksum does not fit: it was torn, and the other one counts.
    fn read_slot(slot: &[u8], identity: &Identity) -> Result<Option<Self>, Error> {
        let (content, checksum) = slot[..SLOT_BYTES].split_at(SLOT_BYTES - 4);
        if content[..8] != MAGIC || checksum != crc32fast::hash(content).to_le_bytes() {
            return Ok(None);
        }
        let mut reader = Reader::new(&content[8..]);
        let mut read = || Ok::<_, &str>((reader.u32()?, reader.u128()?, reader.u64()?, reader.u64()?, reader.u64()?));
        let (format, cluster, server, segment, sequence) = read().expect("a slot is long enough");
        if format > FORMAT {
            return Err(Error::NewerVersion { file: Self::file(), found: format, known: FORMAT });
        }
        if (cluster, server) != (identity.cluster, identity.server.0) {
            return Err(Error::OtherCluster {
                file: Self::file(),
                expected: owner(identity.cluster, identity.server.0),
                found: owner(cluster, server),
            });
        }
        Ok(Some(Self { sequence, segment }))
    }
}

#[cfg(test)]
mod tests {
    use machine::ServerId;

    use super::*;

    fn identity(server: u64) -> Identity {
        Identity { format: 1, cluster: 1 << 100, server: ServerId(server), name: "one".into() }
    }

    fn file(first: Witness, notes: &[Witness]) -> Vec<u8> {
        let Operation::Replace { bytes, .. } = first.begin(&identity(3)) else { unreachable!() };
        let mut bytes = bytes.to_vec();
        for note in notes {
            let Operation::WriteAt { offset, bytes: slot, .. } = note.note(&identity(3)) else { unreachable!() };
            bytes[offset as usize..offset as usize + slot.len()].copy_from_slice(&slot);
        }
        bytes
    }

    #[test]
    fn the_newer_slot_counts_and_a_torn_one_does_not() {
        let at = |sequence| Witness { sequence, segment: 2 };
        let bytes = file(at(6), &[at(7), at(8), at(9)]);
        assert_eq!(Witness::read(&bytes, &identity(3)), Ok(at(9)));
        let mut torn = bytes.clone();
        torn[STRIDE_BYTES + 45] ^= 1;
        assert_eq!(Witness::read(&torn, &identity(3)), Ok(at(8)));
        torn[50] ^= 1;
        assert!(matches!(Witness::read(&torn, &identity(3)), Err(Error::Corrupt { .. })));
        assert!(matches!(Witness::read(&bytes[..8_191], &identity(3)), Err(Error::Corrupt { .. })));
        assert!(matches!(Witness::read(&[], &identity(3)), Err(Error::Corrupt { .. })));
        assert!(matches!(Witness::read(&bytes, &identity(4)), Err(Error::OtherCluster { .. })));
    }
}
