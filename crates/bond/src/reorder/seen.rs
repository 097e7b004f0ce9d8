//! Which numbers of a window have come: one bit each, in a ring.

/// One bit for each number of a window that moves on. Numbers that lie a multiple of the size apart share a bit, so whoever
/// moves the window clears what enters it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    words: Box<[u64]>,
    /// Bits less one; their count is a power of two.
    mask: u64,
}

/// The bits of one word that stand for some numbers.
struct Piece {
    word: usize,
    bits: u64,
    /// The number that the word's lowest bit would stand for, wrapping.
    base: u64,
    len: u64,
}

impl Seen {
    /// None of `bits` numbers has come. `bits` is a power of two.
    pub(super) fn new(bits: u64) -> Self {
        assert!(bits.is_power_of_two(), "the ring is indexed by a mask");
        Self { words: vec![0; bits.div_ceil(64) as usize].into(), mask: bits - 1 }
    }

    #[inline]
    const fn place(&self, number: u64) -> (usize, u64) {
        let bit = number & self.mask;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    #[inline]
    pub(super) fn contains(&self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        self.words[word] & bit != 0
    }

    /// Notes a number; false if it was noted before.
    #[inline]
    pub(super) fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    #[inline]
    pub(super) fn remove(&mut self, number: u64) {
        let (word, bit) = self.place(number);
        self.words[word] &= !bit;
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Forgets the numbers `from..to`, of which there may be more than bits.
    pub(super) fn remove_range(&mut self, from: u64, to: u64) {
        if to - from > self.mask {
            return self.clear();
        }
        let mut at = from;
        while at < to {
            let piece = self.piece(at, to);
            self.words[piece.word] &= !piece.bits;
            at += piece.len;
        }
    }

    /// The first number of `from..to` that has come. There are at most as many numbers as bits.
    pub(super) fn first(&self, from: u64, to: u64) -> Option<u64> {
        let mut at = from;
        while at < to {
            let piece = self.piece(at, to);
            let found = self.words[piece.word] & piece.bits;
            if found != 0 {
                return Some(piece.base.wrapping_add(u64::from(found.trailing_zeros())));
            }
            at += piece.len;
        }
        None
    }

    /// The numbers from `at` on, before `to`, whose bits stand in one word.
    fn piece(&self, at: u64, to: u64) -> Piece {
        let bit = at & self.mask;
        let shift = bit % 64;
        let len = (64 - shift).min(self.mask + 1 - bit).min(to - at);
        let bits = (u64::MAX >> (64 - len)) << shift;
        Piece { word: (bit / 64) as usize, bits, base: at.wrapping_sub(shift), len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set_within_its_window(
            log in 1_u32..9,
            start in 0_u64..1_000,
            steps in proptest::collection::vec((0_u64..300, 0_u64..300, any::<bool>()), 1..60),
        ) {
            let bits = 1 << log;
            let mut seen = Seen::new(bits);
            let mut model = BTreeSet::new();
            for (a, b, insert) in steps {
                let (from, to) = (start + a.min(b) % bits, start + a.max(b) % bits);
                if insert {
                    prop_assert_eq!(seen.insert(from), model.insert(from));
                } else if from <= to {
                    seen.remove_range(from, to);
                    model.retain(|&number| number < from || number >= to);
                } else {
                    seen.remove(from);
                    model.remove(&from);
                }
                for number in start..start + bits {
                    prop_assert_eq!(seen.contains(number), model.contains(&number));
                    prop_assert_eq!(seen.first(number, start + bits), model.range(number..).next().copied());
                }
            }
            seen.remove_range(start, start + 3 * bits);
            prop_assert_eq!(seen.first(start, start + bits), None);
        }
    }
}
