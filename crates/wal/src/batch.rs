//! Segment headers, and the frames of batches: how a batch is sealed, and how one tells a torn batch from a corrupt
//! one.
//!
//! A crash leaves of a batch that was being written any subset of its sectors; those that are missing read as zeros, or
//! lie behind the file's end. This is the same whether the file grew or had zeros there before. So a sector of zeros has to mean *never written*. Three things see to it that no
//! sector's worth of a whole batch is zero, nor one bit away from it: the frame starts and its header ends with a byte
//! that isn't zero, so does the frame itself, and the body is combined (exclusive or) with a mask that is chosen such
//! that every sector within it has at least two words that are not zero (the mask is zero for all but odd content).

use std::collections::BTreeSet;

use crc32fast::Hasher;

use crate::codec::Reader;
use crate::identity::FORMAT;
use crate::{Error, FileName, Identity, SECTOR_BYTES};

/// Length of a segment's header.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;

/// Length of a batch's header.
pub(crate) const BATCH_HEADER_BYTES: usize = 44;

/// What a batch costs beyond its records.
pub(crate) const BATCH_OVERHEAD_BYTES: usize = BATCH_HEADER_BYTES + 1;

const SEGMENT_MAGIC: [u8; 8] = *b"heddlelg";
const BATCH_MAGIC: [u8; 4] = *b"\xd7bat";
const HEADER_END: [u8; 4] = *b"hed\xb5";
const BATCH_END: u8 = 0xe7;
const WORD: usize = 8;

/// Name of a segment's file.
pub(crate) fn segment_file(segment: u64) -> FileName {
    FileName::made(format!("log-{segment:016x}"))
}

/// The segment whose file has this name.
pub(crate) fn segment_of(file: &FileName) -> Option<u64> {
    let number = u64::from_str_radix(file.as_str().strip_prefix("log-")?, 16).ok()?;
    (segment_file(number) == *file).then_some(number)
}

/// The first bytes of a segment. They have the same shape in every format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) cluster: u128,
    pub(crate) server: u64,
    pub(crate) segment: u64,
    /// Sequence number of its first batch.
    pub(crate) sequence: u64,
    /// Whether a witness stands beside it. (Programs of before it wrote zero here, and don't read it.)
    pub(crate) is_witnessed: bool,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0; SEGMENT_HEADER_BYTES];
        out[..8].copy_from_slice(&SEGMENT_MAGIC);
        out[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        out[12..28].copy_from_slice(&self.cluster.to_le_bytes());
        out[28..36].copy_from_slice(&self.server.to_le_bytes());
        out[36..44].copy_from_slice(&self.segment.to_le_bytes());
        out[44..52].copy_from_slice(&self.sequence.to_le_bytes());
        out[52] = self.is_witnessed.into();
        let checksum = crc32fast::hash(&out[..60]);
        out[60..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads a header; `Ok(None)` if it was never written in full.
    pub(crate) fn read(file: &FileName, bytes: &[u8]) -> Result<Option<Self>, Error> {
        let Some(header) = bytes.first_chunk::<SEGMENT_HEADER_BYTES>() else { return Ok(None) };
        let sector = &bytes[..bytes.len().min(SECTOR_BYTES)];
        if is_zero(sector) {
            return Ok(None);
        }
        let corrupt = |expected: &str, found: String| {
            Err(Error::Corrupt { file: file.clone(), offset: 0, expected: expected.to_owned(), found })
        };
        let (content, checksum) = header.split_at(60);
        let wanted = crc32fast::hash(content);
        if checksum != wanted.to_le_bytes() {
            return corrupt("a segment's header whose checksum fits", format!("{checksum:02x?} for {wanted:08x}"));
        }
        if content[..8] != SEGMENT_MAGIC {
            return corrupt("a segment of the log", format!("a file that begins with {:02x?}", &content[..8]));
        }
        let mut reader = Reader::new(&content[8..]);
        let format = reader.u32().expect("the header is long enough");
        if format > FORMAT {
            return Err(Error::NewerVersion { file: file.clone(), found: format, known: FORMAT });
        }
        let mut read = || {
            Ok::<_, &str>(Self {
                cluster: reader.u128()?,
                server: reader.u64()?,
                segment: reader.u64()?,
                sequence: reader.u64()?,
                is_witnessed: reader.u8()? != 0,
            })
        };
        let header = read().expect("the header is long enough");
        if segment_file(header.segment) != *file {
            return corrupt("the segment that the file is named after", format!("segment {:016x}", header.segment));
        }
        Ok(Some(header))
    }
}

/// Where a batch stands: its checksum covers that, so that a batch in the wrong place is found out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentIdentity {
    pub(crate) cluster: u128,
    pub(crate) server: u64,
    pub(crate) segment: u64,
}

impl SegmentIdentity {
    pub(crate) fn new(identity: &Identity, segment: u64) -> Self {
        Self { cluster: identity.cluster, server: identity.server.0, segment }
    }

    /// Checksum of a batch's header without its own field.
    fn checksum(self, offset: usize, header: &[u8]) -> u32 {
        let mut hasher = Hasher::new();
        hasher.update(&self.cluster.to_le_bytes());
        hasher.update(&self.server.to_le_bytes());
        hasher.update(&self.segment.to_le_bytes());
        hasher.update(&(offset as u64).to_le_bytes());
        hasher.update(header);
        hasher.finalize()
    }
}

/// Fills in the header of a batch that starts at `offset` of its segment. `frame` is a header's room, the records, and
/// one byte.
pub(crate) fn seal(frame: &mut [u8], identity: SegmentIdentity, offset: usize, sequence: u64, oldest: u64) {
    let len = frame.len() - BATCH_OVERHEAD_BYTES;
    let (header, rest) = frame.split_at_mut(BATCH_HEADER_BYTES);
    let (body, end) = rest.split_at_mut(len);
    let body_offset = offset + BATCH_HEADER_BYTES;
    let mask = choose_mask(body, body_offset);
    apply_mask(body, body_offset, mask);
    end[0] = BATCH_END;
    header[..4].copy_from_slice(&BATCH_MAGIC);
    header[4..8].copy_from_slice(&u32::try_from(len).expect("the backlog is bounded").to_le_bytes());
    header[8..16].copy_from_slice(&sequence.to_le_bytes());
    header[16..24].copy_from_slice(&oldest.to_le_bytes());
    header[24..32].copy_from_slice(&mask.to_le_bytes());
    header[32..36].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    let checksum = identity.checksum(offset, &header[..36]);
    header[36..40].copy_from_slice(&checksum.to_le_bytes());
    header[40..].copy_from_slice(&HEADER_END);
}

/// The sectors that lie in the body as a whole.
fn whole_sectors(body: &[u8], offset: usize) -> impl Iterator<Item = &[u8; SECTOR_BYTES]> {
    let skipped = offset.next_multiple_of(SECTOR_BYTES) - offset;
    body.get(skipped..).unwrap_or_default().as_chunks().0.iter()
}

fn word(sector: &[u8; SECTOR_BYTES], index: usize) -> u64 {
    u64::from_le_bytes(sector.as_chunks().0[index])
}

/// Whether at most one word of a sector differs from `value`.
fn almost_all(sector: &[u8; SECTOR_BYTES], value: u64) -> bool {
    let (words, _) = sector.as_chunks::<WORD>();
    words.iter().filter(|word| u64::from_le_bytes(**word) != value).count() <= 1
}

/// The smallest mask that leaves no sector of the body zero but for one word. Each sector rules out one mask at most,
/// so there always is one.
fn choose_mask(body: &[u8], offset: usize) -> u64 {
    let suspect = |sector: &&[u8; SECTOR_BYTES]| word(sector, 0) == 0 || word(sector, 1) == 0;
    if !whole_sectors(body, offset).filter(suspect).any(|sector| almost_all(sector, 0)) {
        return 0;
    }
    // A value that all words but one have is that of the first word or of the second.
    let ruled_out: BTreeSet<u64> = whole_sectors(body, offset)
        .flat_map(|sector| [0, 1].map(|index| word(sector, index)).into_iter().filter(|&it| almost_all(sector, it)))
        .collect();
    (1..=u64::MAX).find(|mask| !ruled_out.contains(mask)).expect("there are more masks than sectors")
}

/// XORs the body with the mask, whose first byte falls on offsets of the segment that 8 divides. Twice is undone.
fn apply_mask(body: &mut [u8], offset: usize, mask: u64) {
    if mask == 0 {
        return;
    }
    let mask = mask.rotate_right((offset % WORD * 8) as u32).to_le_bytes();
    for piece in body.chunks_mut(WORD) {
        piece.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
}

/// A batch that is as it was written.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    /// The oldest segment that was needed when it was written.
    pub(crate) oldest: u64,
    /// Its records, freed from the mask.
    pub(crate) body: std::borrow::Cow<'a, [u8]>,
    /// Where the next one starts.
    pub(crate) end: usize,
}

/// What is at a place where a batch should start.
#[derive(Debug)]
pub(crate) enum BatchRead<'a> {
    /// Nothing: the file ends.
    End,
    /// A batch that is whole.
    Batch(Batch<'a>),
    /// A batch that was never written in full, or zeros that wait for one.
    Torn,
    /// Something else. Where, what was expected, what is there.
    Corrupt(usize, String, String),
}

/// The fields of a header whose checksum fits.
struct Header {
    len: usize,
    sequence: u64,
    oldest: u64,
    mask: u64,
    checksum: u32,
}

fn read_header(bytes: &[u8; BATCH_HEADER_BYTES], identity: SegmentIdentity, offset: usize) -> Option<Header> {
    let intact = bytes[..4] == BATCH_MAGIC
        && bytes[40..] == HEADER_END
        && bytes[36..40] == identity.checksum(offset, &bytes[..36]).to_le_bytes();
    let mut reader = Reader::new(&bytes[4..36]);
    let mut read = || {
        Ok::<_, &str>(Header {
            len: reader.u32()? as usize,
            sequence: reader.u64()?,
            oldest: reader.u64()?,
            mask: reader.u64()?,
            checksum: reader.u32()?,
        })
    };
    intact.then(|| read().expect("the header is long enough"))
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// Length of a segment without the zeros at its end.
pub(crate) fn written_bytes(segment: &[u8]) -> usize {
    segment.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

/// Whether a sector, or the part of it that lies in `from..to`, is all zero.
fn lacks_sector(segment: &[u8], from: usize, to: usize) -> bool {
    let mut start = from;
    while start < to {
        let end = (start + 1).next_multiple_of(SECTOR_BYTES).min(to);
        if is_zero(&segment[start..end]) {
            return true;
        }
        start = end;
    }
    false
}

/// Reads the batch at `offset` of a segment, which should have this sequence number.
pub(crate) fn read_batch(segment: &[u8], identity: SegmentIdentity, offset: usize, sequence: u64) -> BatchRead<'_> {
    let rest = &segment[offset..];
    if rest.is_empty() {
        return BatchRead::End;
    }
    let Some(bytes) = rest.first_chunk() else { return BatchRead::Torn };
    let body_start = offset + BATCH_HEADER_BYTES;
    let Some(header) = read_header(bytes, identity, offset) else {
        let sectors_end = body_start.next_multiple_of(SECTOR_BYTES).min(segment.len());
        if lacks_sector(segment, offset, sectors_end) {
            return BatchRead::Torn;
        }
        let expected = "a batch's header whose checksum fits".to_owned();
        return BatchRead::Corrupt(offset, expected, "other bytes, of which no sector is missing".to_owned());
    };
    if header.sequence != sequence {
        return BatchRead::Corrupt(offset, format!("batch {sequence}"), format!("batch {}", header.sequence));
    }
    let end = body_start + header.len + 1;
    if end > segment.len() {
        return BatchRead::Torn;
    }
    let body = &segment[body_start..end - 1];
    let checksum = crc32fast::hash(body);
    if checksum != header.checksum || segment[end - 1] != BATCH_END {
        // The next batch is not begun before this one is durable, so nothing can follow one that is torn.
        if lacks_sector(segment, offset, end) && is_zero(&segment[end..]) {
            return BatchRead::Torn;
        }
        let expected = format!("a batch of {} bytes with checksum {:08x}", header.len, header.checksum);
        return BatchRead::Corrupt(body_start, expected, format!("checksum {checksum:08x}, and no sign of a crash"));
    }
    let mut body = std::borrow::Cow::Borrowed(body);
    if header.mask != 0 {
        apply_mask(body.to_mut(), body_start, header.mask);
    }
    BatchRead::Batch(Batch { oldest: header.oldest, body, end })
}

/// Where a batch later than `sequence` starts behind `offset`, if there is one: what precedes it is then not torn but
/// lost, since a batch is written only after the one before it is durable.
pub(crate) fn find_later_batch(
    segment: &[u8],
    identity: SegmentIdentity,
    offset: usize,
    sequence: u64,
) -> Option<usize> {
    let is_batch = |start: &usize| {
        let header = segment[*start..].first_chunk().and_then(|bytes| read_header(bytes, identity, *start));
        header.is_some_and(|header| header.sequence > sequence)
    };
    (offset + 1..segment.len()).filter(|&start| segment[start] == BATCH_MAGIC[0]).find(is_batch)
}

/// The first segment of a log with these bytes as the records of its only batch, in a frame that is valid: what a
/// fuzzer could not guess.
#[doc(hidden)]
pub fn segment_with_records(identity: &Identity, records: &[u8]) -> Vec<u8> {
    let (cluster, server) = (identity.cluster, identity.server.0);
    let mut segment = SegmentHeader { cluster, server, segment: 1, sequence: 1, is_witnessed: false }.encode().to_vec();
    segment.resize(SEGMENT_HEADER_BYTES + BATCH_HEADER_BYTES, 0);
    segment.extend_from_slice(records);
    segment.push(0);
    seal(&mut segment[SEGMENT_HEADER_BYTES..], SegmentIdentity::new(identity, 1), SEGMENT_HEADER_BYTES, 1, 1);
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT_IDENTITY: SegmentIdentity = SegmentIdentity { cluster: 7, server: 1, segment: 3 };

    fn sealed(body: &[u8], offset: usize) -> Vec<u8> {
        let mut segment = vec![0xaa; offset];
        segment.extend([0; BATCH_HEADER_BYTES]);
        segment.extend(body);
        segment.push(0);
        seal(&mut segment[offset..], SEGMENT_IDENTITY, offset, 5, 2);
        segment
    }

    fn body(segment: &[u8], offset: usize) -> Option<Vec<u8>> {
        match read_batch(segment, SEGMENT_IDENTITY, offset, 5) {
            BatchRead::Batch(batch) => Some(batch.body.into_owned()),
            _ => None,
        }
    }

    /// Bodies that are hard to tell from missing sectors, at offsets around a sector's end.
    fn odd_cases() -> Vec<(Vec<u8>, usize)> {
        let mut mixed = vec![0; 6_000];
        for (k, sector) in mixed.chunks_mut(SECTOR_BYTES).enumerate() {
            sector.chunks_mut(WORD).for_each(|word| word[0] = k as u8);
        }
        let mut one_bit = vec![0; 2_000];
        one_bit[700] = 1;
        let bodies = [vec![], vec![0], vec![0; 511], vec![0; 5_000], vec![0x55; 3_000], mixed, one_bit];
        let offsets = [64, 450, 467, 468, 469, 511, 512, 513];
        bodies.iter().flat_map(|body| offsets.map(|offset| (body.clone(), offset))).collect()
    }

    #[test]
    fn what_is_sealed_is_read() {
        for (content, offset) in odd_cases() {
            assert_eq!(body(&sealed(&content, offset), offset), Some(content));
        }
    }

    #[test]
    fn a_flipped_bit_is_corrupt_and_a_missing_sector_is_torn() {
        for (content, offset) in odd_cases() {
            let whole = sealed(&content, offset);
            for bit in (offset * 8..whole.len() * 8).step_by(3) {
                let mut flipped = whole.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let found = read_batch(&flipped, SEGMENT_IDENTITY, offset, 5);
                assert!(matches!(found, BatchRead::Corrupt(..)), "bit {bit}: {found:?}");
            }
            let sectors = (offset / SECTOR_BYTES..=(whole.len() - 1) / SECTOR_BYTES).map(|it| it * SECTOR_BYTES);
            for start in sectors {
                let mut torn = whole.clone();
                torn[start.max(offset)..(start + SECTOR_BYTES).min(whole.len())].fill(0);
                assert!(matches!(read_batch(&torn, SEGMENT_IDENTITY, offset, 5), BatchRead::Torn), "sector at {start}");
            }
            for len in offset + 1..whole.len() {
                assert!(
                    matches!(read_batch(&whole[..len], SEGMENT_IDENTITY, offset, 5), BatchRead::Torn),
                    "cut at {len}"
                );
            }
        }
    }

    #[test]
    fn a_batch_in_the_wrong_place_is_found_out() {
        let segment = sealed(b"content", 64);
        let moved = [&segment[..64], &segment[..]].concat();
        assert!(matches!(read_batch(&moved, SEGMENT_IDENTITY, 128, 5), BatchRead::Corrupt(128, ..)));
        let elsewhere = SegmentIdentity { segment: 4, ..SEGMENT_IDENTITY };
        assert!(matches!(read_batch(&segment, elsewhere, 64, 5), BatchRead::Corrupt(64, ..)));
        assert!(matches!(read_batch(&segment, SEGMENT_IDENTITY, 64, 6), BatchRead::Corrupt(64, ..)));
    }

    #[test]
    fn a_later_batch_is_found() {
        let mut segment = sealed(&[1; 300], 64);
        let second = segment.len();
        segment.extend([0; BATCH_HEADER_BYTES + 10]);
        seal(&mut segment[second..], SEGMENT_IDENTITY, second, 6, 2);
        assert_eq!(find_later_batch(&segment, SEGMENT_IDENTITY, 64, 5), Some(second));
        assert_eq!(find_later_batch(&segment, SEGMENT_IDENTITY, second, 6), None);
    }

    #[test]
    fn a_segments_header_is_read_and_its_flips_are_found() {
        let header = SegmentHeader { cluster: 1 << 100, server: 2, segment: 3, sequence: 4, is_witnessed: true };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::read(&segment_file(3), &bytes), Ok(Some(header)));
        assert!(SegmentHeader::read(&segment_file(4), &bytes).is_err());
        assert_eq!(SegmentHeader::read(&segment_file(3), &bytes[..63]), Ok(None));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::read(&segment_file(3), &flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn names_of_segments() {
        assert_eq!(segment_of(&segment_file(0x2a)), Some(0x2a));
        for other in ["log-2a", "log-", "snapshot-1-2-3", "log-000000000000002a.part", "log-00000000000000-1"] {
            assert_eq!(segment_of(&FileName::made(other.to_owned())), None);
        }
    }
}
