//! A backup: all data of a cluster and the map of its shards, as one stream of bytes.
//!
//! ```text
//!   0         8
//!   +---------+--------+--------+-----+--------+
//!   | MAGIC   | record | record | ... | record |      MAGIC: "HEDDLEB" and the format's number, 1
//!   +---------+--------+--------+-----+--------+
//!
//!   0         4         8             8 + length
//!   +---------+---------+-------------+
//!   | length  | CRC-32  | body        |              both little endian; the CRC is the body's (IEEE 802.3)
//!   +---------+---------+-------------+
//! ```
//!
//! A body is a [`Record`] in postcard's wire format. They come in this order: the head; for each shard of data, by number,
//! its entries in chunks, in order, and its end; the end of all. Ends repeat counts and sums of what came before them, so
//! that nothing can be missing, doubled or changed unnoticed.
//!
//! [`Reader`] takes nothing for granted: whatever it accepts is sorted, belongs to the shard that it stands in, and fits the
//! bounds of the store.

use placement::{Map, ShardId};
use serde::{Deserialize, Serialize};
use tree::Entry;
use tree::transaction::MAX_VALUE_BYTES;

/// What a backup begins with; the last byte is the format.
pub const MAGIC: [u8; 8] = *b"HEDDLEB\x01";

/// Longest body of a record, in bytes.
pub const RECORD_MAX: usize = 32 << 20;

/// Bytes of a record before its body.
const HEADER: usize = 8;

/// What a backup is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// The first record: what the backup is of.
    Head(Head),
    /// Some entries of a shard.
    Entries {
        /// The shard's number in the head's map.
        shard: ShardId,
        /// The entries, in the order of datastore and path.
        entries: Vec<Entry>,
    },
    /// There is no more of this shard.
    ShardEnd {
        /// The shard that ends here.
        shard: ShardId,
        /// What it was.
        content: Content,
    },
    /// The last record: how much there was.
    End {
        /// The CRC-32 of all bytes before this record.
        crc: u32,
    },
}

/// What a backup is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The version of the program that made it.
    pub program: String,
    /// When, in seconds since 1970.
    pub taken_unix_s: u64,
    /// The cluster's number.
    pub cluster: u64,
    /// The map, as [`Map::encode`] gives it.
    pub map: Vec<u8>,
}

/// How much there is of a shard, and a sum over it. Entity tags are left out: values that were restored have new ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Entries that it holds.
    pub entries: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// The CRC-32 of all locations and values, each in postcard's wire format, in order.
    pub crc: u32,
}

impl Content {
    /// Adds entries that follow those before.
    pub fn add(&mut self, entries: &[Entry]) {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.crc);
        for entry in entries {
            let (at, value) = (&entry.at, &entry.value.bytes);
            hasher.update(&postcard::to_stdvec(&(at, value)).expect("a Vec takes everything"));
            self.entries += 1;
            self.bytes += entry.value.bytes.len() as u64;
        }
        self.crc = hasher.finalize();
    }
}

/// Why bytes are not a backup. Positions are bytes from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// It begins like something else.
    #[error("this is no backup of a Heddle cluster; hint: expected a file that `heddle cluster backup` made")]
    NotABackup,
    /// Another version of the format.
    #[error("format {found} of backups is not known, expected {}; hint: use the program that made it, or a newer one", MAGIC[7])]
    Format {
        /// The format that it is in.
        found: u8,
    },
    /// A checksum is wrong, or a record makes no sense.
    #[error("the backup is damaged at byte {at}: {why}; hint: use another copy of it")]
    Damaged {
        /// Where the record begins.
        at: u64,
        /// What is wrong.
        why: String,
    },
    /// It stops in the middle.
    #[error("the backup ends too early, in what begins at byte {at}; hint: copy it again, or use another backup")]
    Short {
        /// Where the record begins that is not whole.
        at: u64,
    },
}

/// Makes the bytes of a backup. A clone goes on from the same place, for a second try of a shard.
#[derive(Clone, Debug)]
pub struct Writer {
    sum: crc32fast::Hasher,
    content: Content,
}

impl Writer {
    /// Begins, with the head.
    pub fn new(head: Head, out: &mut Vec<u8>) -> Self {
        let mut writer = Self { sum: crc32fast::Hasher::new(), content: Content::default() };
        writer.sum.update(&MAGIC);
        out.extend_from_slice(&MAGIC);
        writer.put(&Record::Head(head), out);
        writer
    }

    /// Entries of the shard that is under way.
    pub fn entries(&mut self, shard: ShardId, entries: Vec<Entry>, out: &mut Vec<u8>) {
        if !entries.is_empty() {
            self.content.add(&entries);
            self.put(&Record::Entries { shard, entries }, out);
        }
    }

    /// The shard is complete.
    pub fn end_shard(&mut self, shard: ShardId, out: &mut Vec<u8>) -> Content {
        let content = std::mem::take(&mut self.content);
        self.put(&Record::ShardEnd { shard, content }, out);
        content
    }

    /// Everything is there.
    pub fn end(mut self, out: &mut Vec<u8>) {
        let crc = self.sum.clone().finalize();
        self.put(&Record::End { crc }, out);
    }

    fn put(&mut self, record: &Record, out: &mut Vec<u8>) {
        let body = postcard::to_stdvec(record).expect("a Vec takes everything");
        // A server's answers are shorter than a frame of its protocol, and so is a map.
        assert!(body.len() <= RECORD_MAX, "a record of {} bytes", body.len());
        let start = out.len();
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
        out.extend_from_slice(&body);
        self.sum.update(&out[start..]);
    }
}

/// What a [`Reader`] found.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// What it is of, and the map in it. Numbers of shards are those of this map.
    Head(Box<(Head, Map)>),
    /// Entries of a shard.
    Entries(ShardId, Vec<Entry>),
    /// The shard is complete.
    ShardEnd(ShardId, Content),
    /// It is whole.
    End,
}

/// Reads a backup, and checks all that can be checked.
#[derive(Debug, Default)]
pub struct Reader {
    sum: crc32fast::Hasher,
    at: u64,
    map: Option<Map>,
    /// The shard that is under way.
    shard: Option<ShardId>,
    content: Content,
    last: Option<tree::Location>,
    is_done: bool,
}

impl Reader {
    /// A reader at the beginning of a backup.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next part, and how many bytes it took; `None` if there are not enough bytes for one.
    ///
    /// # Errors
    /// [`BackupError`]: then it must not be asked again.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Option<(Part, usize)>, BackupError> {
        let start = if self.at == 0 { behind_magic(bytes)? } else { Some(0) };
        let Some(start) = start else { return Ok(None) };
        let at = self.at + start as u64;
        let damaged = |why: &str| BackupError::Damaged { at, why: why.to_owned() };
        let bytes = &bytes[start..];
        if self.is_done {
            return if bytes.is_empty() { Ok(None) } else { Err(damaged("something follows its end")) };
        }
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
        let [a, b, c, d, crc @ ..] = *header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > RECORD_MAX {
            return Err(damaged("a record is too long"));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        if crc32fast::hash(body) != u32::from_le_bytes(crc) {
            return Err(damaged("a checksum is wrong"));
        }
        let record = match postcard::take_from_bytes::<Record>(body) {
            Ok((record, [])) => record,
            Ok(_) => return Err(damaged("a record is longer than it says")),
            Err(error) => return Err(damaged(&format!("a record makes no sense ({error})"))),
        };
        if start > 0 {
            self.sum.update(&MAGIC);
        }
        let part = self.accept(record).map_err(|why| damaged(&why))?;
        let took = HEADER + length;
        self.sum.update(&bytes[..took]);
        self.at += (start + took) as u64;
        Ok(Some((part, start + took)))
    }

    /// There are no more bytes.
    ///
    /// # Errors
    /// [`BackupError::Short`] if there should be.
    pub fn finish(&self) -> Result<(), BackupError> {
        if self.is_done { Ok(()) } else { Err(BackupError::Short { at: self.at }) }
    }

    fn accept(&mut self, record: Record) -> Result<Part, String> {
        match (record, &self.map) {
            (Record::Head(head), None) => {
                let map = Map::decode(&head.map).map_err(|error| error.to_string())?;
                self.shard = next_shard(&map, ShardId::META);
                self.map = Some(map.clone());
                Ok(Part::Head(Box::new((head, map))))
            }
            (_, None) => Err("its head is missing".into()),
            (Record::Head(_), Some(_)) => Err("it has two heads".into()),
            (Record::Entries { shard, entries }, Some(map)) => {
                if Some(shard) != self.shard {
                    return Err(format!("entries of shard {shard} are out of place"));
                }
                for entry in &entries {
                    if self.last.as_ref().is_some_and(|last| *last >= entry.at) {
                        return Err(format!("{} is out of order", entry.at));
                    }
                    let path = &entry.at.path;
                    if map.route(path) != shard || path.is_root() || path.is_module() {
                        return Err(format!("{path} does not belong to shard {shard}"));
                    }
                    if entry.value.bytes.len() > MAX_VALUE_BYTES {
                        return Err(format!("the value at {path} is too large"));
                    }
                    self.last = Some(entry.at.clone());
                }
                self.content.add(&entries);
                Ok(Part::Entries(shard, entries))
            }
            (Record::ShardEnd { shard, content }, Some(map)) => {
                if Some(shard) != self.shard || content != self.content {
                    return Err(format!("something of shard {shard} is missing"));
                }
                self.shard = next_shard(map, shard);
                self.content = Content::default();
                self.last = None;
                Ok(Part::ShardEnd(shard, content))
            }
            (Record::End { crc }, Some(_)) => {
                if let Some(shard) = self.shard {
                    return Err(format!("shard {shard} is missing"));
                }
                if crc != self.sum.clone().finalize() {
                    return Err("the checksum of all of it is wrong".into());
                }
                self.is_done = true;
                Ok(Part::End)
            }
        }
    }
}

/// Where the records begin; none while that is not known.
fn behind_magic(bytes: &[u8]) -> Result<Option<usize>, BackupError> {
    let shared = bytes.len().min(MAGIC.len() - 1);
    if bytes[..shared] != MAGIC[..shared] {
        return Err(BackupError::NotABackup);
    }
    match bytes.get(MAGIC.len() - 1) {
        None => Ok(None),
        Some(format) if *format == MAGIC[7] => Ok(Some(MAGIC.len())),
        Some(format) => Err(BackupError::Format { found: *format }),
    }
}

/// Shards of data in the order in which a backup has them.
fn next_shard(map: &Map, after: ShardId) -> Option<ShardId> {
    map.shards().keys().copied().find(|shard| *shard > after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use tree::{Location, Path, Value};

    fn head() -> Head {
        let mut map = Map::new();
        let add = |n: u64| placement::Command::AddServer {
            name: format!("n{n}"),
            address: format!("127.0.0.1:{}", 6640 + n),
            metrics: None,
            nonce: n,
        };
        map.apply(1, add(1)).unwrap();
        let create = placement::Command::CreateShard {
            name: "cars".into(),
            prefixes: BTreeSet::new(),
            replicas: placement::Replicas::All,
        };
        map.apply(2, create).unwrap();
        Head { program: "0.1.0".into(), taken_unix_s: 1_763_700_000, cluster: 7, map: map.encode() }
    }

    fn entry(n: u64, bytes: &[u8]) -> Entry {
        let path = Path::parse(&format!("/car:cars/car-entry={n:06}")).unwrap();
        Entry { at: Location::config(path), value: Value { etag: n + 1, bytes: bytes.into() } }
    }

    fn backup(count: u64, chunk: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(head(), &mut out);
        let all: Vec<Entry> = (0..count).map(|n| entry(n, &n.to_le_bytes())).collect();
        for part in all.chunks(chunk) {
            writer.entries(ShardId::DEFAULT, part.to_vec(), &mut out);
        }
        writer.end_shard(ShardId::DEFAULT, &mut out);
        writer.end_shard(ShardId(2), &mut out);
        writer.end(&mut out);
        out
    }

    fn read(bytes: &[u8]) -> Result<Vec<Part>, BackupError> {
        let (mut reader, mut rest, mut parts) = (Reader::new(), bytes, Vec::new());
        while let Some((part, took)) = reader.next(rest)? {
            rest = &rest[took..];
            parts.push(part);
        }
        reader.finish().map(|()| parts)
    }

    #[test]
    fn what_was_written_is_read() {
        let parts = read(&backup(10, 4)).unwrap();
        let entries: Vec<Entry> = parts
            .iter()
            .filter_map(|part| if let Part::Entries(_, entries) = part { Some(entries.clone()) } else { None })
            .flatten()
            .collect();
        assert_eq!(entries, (0..10_u64).map(|n| entry(n, &n.to_le_bytes())).collect::<Vec<_>>());
        assert!(matches!(&parts[0], Part::Head(head) if head.0.cluster == 7));
        let Part::ShardEnd(_, content) = parts[4] else { panic!("{parts:?}") };
        assert_eq!((content.entries, content.bytes), (10, 80));
        assert_eq!(parts.last(), Some(&Part::End));
    }

    #[test]
    fn anything_changed_missing_or_added_is_noticed() {
        let whole = backup(3, 2);
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            assert!(read(&changed).is_err(), "byte {at}");
            assert!(read(&whole[..at]).is_err(), "cut at {at}");
        }
        assert!(read(&[&whole[..], b"x"].concat()).is_err());
        let newer = [&MAGIC[..7], &[2], &whole[8..]].concat();
        assert_eq!(read(&newer), Err(BackupError::Format { found: 2 }));
        assert_eq!(read(b"PK\x03\x04"), Err(BackupError::NotABackup));
    }

    #[test]
    fn entries_that_cannot_be_are_refused_though_sums_are_right() {
        let stray = Entry { at: Location::config(Path::root()), ..entry(1, b"") };
        let large = entry(1, &vec![0; MAX_VALUE_BYTES + 1]);
        for entries in
            [vec![entry(2, b""), entry(1, b"")], vec![entry(1, b""), entry(1, b"")], vec![stray], vec![large]]
        {
            let mut out = Vec::new();
            let mut writer = Writer::new(head(), &mut out);
            writer.entries(ShardId::DEFAULT, entries, &mut out);
            writer.end_shard(ShardId::DEFAULT, &mut out);
            writer.end_shard(ShardId(2), &mut out);
            writer.end(&mut out);
            assert!(matches!(read(&out), Err(BackupError::Damaged { .. })));
        }
        // A shard that the map has and the backup has not; a shard in which nothing belongs.
        let mut out = Vec::new();
        Writer::new(head(), &mut out).end(&mut out);
        assert!(matches!(read(&out), Err(BackupError::Damaged { .. })));
        let mut out = Vec::new();
        let mut writer = Writer::new(head(), &mut out);
        writer.end_shard(ShardId::DEFAULT, &mut out);
        writer.entries(ShardId(2), vec![entry(1, b"")], &mut out);
        writer.end_shard(ShardId(2), &mut out);
        writer.end(&mut out);
        assert!(matches!(read(&out), Err(BackupError::Damaged { .. })));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256), magic in any::<bool>()) {
            let bytes = if magic { [&MAGIC[..], &bytes].concat() } else { bytes };
            prop_assert!(read(&bytes).is_err());
        }

        #[test]
        fn bytes_may_come_in_any_pieces(count in 0..20_u64, chunk in 1..5_usize, piece in 1..64_usize) {
            let whole = backup(count, chunk);
            let (mut reader, mut waiting, mut parts) = (Reader::new(), Vec::new(), Vec::new());
            for bytes in whole.chunks(piece) {
                waiting.extend_from_slice(bytes);
                while let Some((part, took)) = reader.next(&waiting).unwrap() {
                    waiting.drain(..took);
                    parts.push(part);
                }
            }
            reader.finish().unwrap();
            prop_assert_eq!(parts, read(&whole).unwrap());
        }
    }
}
