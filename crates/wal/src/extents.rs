//! The bytes of a file in memory as the pieces in which they were written. Pieces are shared with whoever wrote them and
//! with copies of the file; what was never written is zero. So zeros written ahead, syncs and copies cost next to nothing.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

/// Fewer bytes are copied: they may be a small part of a large buffer, such as a batch's, which would be kept with them.
const SHARED_BYTES: usize = 16 << 10;

/// A file's bytes. Pieces are not empty, don't overlap, and end at `len` or before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents {
    len: usize,
    pieces: BTreeMap<usize, Bytes>,
}

impl Extents {
    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Cuts it, or extends it with zeros.
    pub(crate) fn resize(&mut self, len: usize) {
        self.erase(len..self.len);
        self.len = len;
    }

    /// Puts bytes at an offset; the file grows if they end behind its end.
    pub(crate) fn write(&mut self, offset: usize, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let bytes = if bytes.len() < SHARED_BYTES { Bytes::copy_from_slice(&bytes) } else { bytes };
        let end = offset + bytes.len();
        self.erase(offset..end);
        self.len = self.len.max(end);
        self.pieces.insert(offset, bytes);
    }

    /// Makes a range the same as in another file, and zero where that has nothing. It ends at the end of this one or before.
    pub(crate) fn copy_from(&mut self, other: &Self, range: Range<usize>) {
        debug_assert!(range.end <= self.len, "a copy does not make a file longer");
        self.erase(range.clone());
        self.pieces.extend(other.within(range));
    }

    /// Flips bits of a byte. False if there is no such byte.
    pub(crate) fn flip(&mut self, offset: usize, bits: u8) -> bool {
        if offset >= self.len {
            return false;
        }
        let byte = self.within(offset..offset + 1).next().map_or(0, |(_, bytes)| bytes[0]);
        self.write(offset, Bytes::copy_from_slice(&[byte ^ bits]));
        true
    }

    /// The bytes of all extents, copied together.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut all = vec![0; self.len];
        for (start, bytes) in &self.pieces {
            all[*start..start + bytes.len()].copy_from_slice(bytes);
        }
        all
    }

    /// What was written within a range, with where it begins.
    fn within(&self, range: Range<usize>) -> impl Iterator<Item = (usize, Bytes)> {
        let Range { start, end } = range;
        let first = self.pieces.range(..start).next_back().map_or(start, |(first, _)| *first);
        self.pieces.range(first..end.max(first)).filter_map(move |(&at, bytes)| {
            let (from, to) = (start.max(at), end.min(at + bytes.len()));
            (from < to).then(|| (from, bytes.slice(from - at..to - at)))
        })
    }

    /// Makes a range zero. Of pieces that lie in it in part the rest stays.
    fn erase(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let mut behind = None;
        if let Some((&start, bytes)) = self.pieces.range_mut(..range.start).next_back()
            && start + bytes.len() > range.start
        {
            behind = (start + bytes.len() > range.end).then(|| bytes.slice(range.end - start..));
            bytes.truncate(range.start - start);
        }
        while let Some(start) = self.pieces.range(range.clone()).next().map(|(start, _)| *start) {
            let bytes = self.pieces.remove(&start).expect("it was just found");
            behind = (start + bytes.len() > range.end).then(|| bytes.slice(range.end - start..));
        }
        if let Some(bytes) = behind {
            self.pieces.insert(range.end, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use machine::Rng;

    use super::*;

    fn check(extents: &Extents, expected: &[u8]) {
        assert_eq!(extents.to_vec(), expected);
        let mut end = 0;
        for (start, bytes) in &extents.pieces {
            assert!(*start >= end && !bytes.is_empty(), "{extents:?}");
            end = start + bytes.len();
        }
        assert!(end <= extents.len(), "{extents:?}");
    }

    #[test]
    fn a_file_of_pieces_is_a_file_of_bytes() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let mut files = [(Extents::default(), Vec::new()), (Extents::default(), Vec::new())];
            for step in 0..100 {
                let (one, two) = files.split_at_mut(1);
                let ((extents, bytes), (other, other_bytes)) = (&mut one[0], &mut two[0]);
                match rng.below(6) {
                    0 => {
                        let len = rng.below(60) as usize;
                        extents.resize(len);
                        bytes.resize(len, 0);
                    }
                    1 | 2 => {
                        let offset = rng.below(bytes.len() as u32 + 1) as usize;
                        let new = vec![step + 1; rng.below(20) as usize];
                        bytes.resize(bytes.len().max(offset + new.len()), 0);
                        bytes[offset..offset + new.len()].copy_from_slice(&new);
                        extents.write(offset, new.into());
                    }
                    3 => {
                        let end = rng.below(bytes.len().min(other_bytes.len()) as u32 + 1) as usize;
                        let start = rng.below(end as u32 + 1) as usize;
                        bytes[start..end].copy_from_slice(&other_bytes[start..end]);
                        extents.copy_from(other, start..end);
                    }
                    4 => {
                        let offset = rng.below(60) as usize;
                        assert_eq!(extents.flip(offset, 4), offset < bytes.len());
                        if let Some(byte) = bytes.get_mut(offset) {
                            *byte ^= 4;
                        }
                    }
                    _ => files.swap(0, 1),
                }
                for (extents, bytes) in &files {
                    check(extents, bytes);
                }
            }
        }
    }
}
