//! A hash over a state's content: FNV-1a (Fowler, Noll, Vo) over 64-bit words instead of bytes, with a shift mixed in so
//! that high bits reach low ones. Finds accidents, not adversaries.

use std::collections::BTreeMap;

use crate::Bytes;

/// Values of so many bytes are digested once, if the caller keeps what came of it.
const LARGE_BYTES: usize = 1_024;

/// Digests of large values, for a caller that digests states again and again. Values never change: one that is kept alive
/// here stays where it is and as it was.
#[derive(Clone, Debug, Default)]
pub struct DigestCache {
    /// By where the bytes are: the value, its digest, and whether it was asked for since the last sweep.
    known: BTreeMap<usize, (Bytes, u64, bool)>,
}

impl DigestCache {
    fn digest(&mut self, value: &Bytes) -> u64 {
        let fresh = || {
            let mut digest = Digest::new();
            digest.bytes(value);
            (value.clone(), digest.finish(), true)
        };
        let (_, digest, is_used) = self.known.entry(value.as_ptr().addr()).or_insert_with(fresh);
        *is_used = true;
        *digest
    }

    /// Lets go of values that were not asked for since the last sweep.
    pub fn sweep(&mut self) {
        self.known.retain(|_, (_, _, is_used)| std::mem::take(is_used));
    }
}

pub(crate) struct Digest(u64);

impl Digest {
    const PRIME: u64 = 0x0100_0000_01b3;
    const LANES: usize = 8;

    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.0 = Self::mixed(self.0, number);
    }

    fn mixed(sum: u64, number: u64) -> u64 {
        let mixed = (sum ^ number).wrapping_mul(Self::PRIME);
        mixed ^ (mixed >> 29)
    }

    /// A value's content, by way of its digest if it is large.
    pub(crate) fn value(&mut self, value: &Bytes, cache: &mut DigestCache) {
        if value.len() < LARGE_BYTES {
            self.bytes(value);
        } else {
            self.number(cache.digest(value));
        }
    }

    /// Length and content, so that `ab` `c` differs from `a` `bc`.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        let rest = self.blocks(bytes);
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            self.number(u64::from_le_bytes(*word));
        }
        for &byte in rest {
            self.number(u64::from(byte));
        }
    }

    /// Mixes whole blocks in, and gives what is left. Each word of a block has a sum of its own, so that no multiplication
    /// waits for the one before: large values are digested several times as fast.
    fn blocks<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (blocks, rest) = bytes.as_chunks::<{ 8 * Self::LANES }>();
        if blocks.is_empty() {
            return rest;
        }
        let mut lanes = [self.0; Self::LANES];
        for block in blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
                *lane = Self::mixed(*lane, u64::from_le_bytes(*word));
            }
        }
        for lane in lanes {
            self.number(lane);
        }
        rest
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_as_long_as_it_is_asked_for() {
        let (mut cache, value) = (DigestCache::default(), Bytes::from(vec![7; LARGE_BYTES]));
        let mut of = |value: &Bytes| cache.digest(value);
        let first = of(&value);
        assert_eq!(of(&value), first);
        assert_eq!(of(&Bytes::from(vec![7; LARGE_BYTES])), first, "other bytes with the same content");
        assert_ne!(of(&Bytes::from(vec![8; LARGE_BYTES])), first);
        assert_eq!(cache.known.len(), 3);
        cache.sweep();
        cache.digest(&value);
        cache.sweep();
        assert_eq!(cache.known.len(), 1);
    }

    #[test]
    fn every_bit_and_the_length_count() {
        let of = |bytes: &[u8]| {
            let mut digest = Digest::new();
            digest.bytes(bytes);
            digest.finish()
        };
        let mut bytes: Vec<u8> = (0..203).collect();
        let whole = of(&bytes);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(of(&bytes), whole, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let (first, second) = (bytes[..64].to_vec(), bytes[64..128].to_vec());
        assert_ne!(of(&[&first[..], &second].concat()), of(&[&second[..], &first].concat()));
        let lengths: std::collections::BTreeSet<u64> = (0..300).map(|len| of(&vec![0; len])).collect();
        assert_eq!(lengths.len(), 300);
    }
}
