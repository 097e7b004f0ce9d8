//! A hash over a state's content: FNV-1a (Fowler, Noll, Vo) over 64-bit words instead of bytes, with a shift mixed in so
//! that high bits reach low ones. Finds accidents, not adversaries.

pub(crate) struct Digest(u64);

impl Digest {
    const PRIME: u64 = 0x0100_0000_01b3;

    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn number(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(Self::PRIME);
        self.0 = mixed ^ (mixed >> 29);
    }

    /// Length and content, so that `ab` `c` differs from `a` `bc`.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.number(u64::from_le_bytes(*word));
        }
        for &byte in rest {
            self.number(u64::from(byte));
        }
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0
    }
}
