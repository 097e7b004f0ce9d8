//! A bounded ring of bits over consecutive segments: which of them have arrived.

/// Bits of the segments `first .. first + capacity`, addressed by their distance from `first`.
#[derive(Clone, Debug)]
pub(crate) struct Bitmap {
    words: Box<[u64]>,
    /// Where distance 0 is, modulo the capacity.
    origin: u64,
    ones: u64,
}

impl Bitmap {
    /// No bit is set; at least `bits` have a place.
    pub(crate) fn new(bits: u32) -> Self {
        Self { words: vec![0; (bits as usize).next_power_of_two().div_ceil(64)].into(), origin: 0, ones: 0 }
    }

    pub(crate) const fn capacity(&self) -> u64 {
        self.words.len() as u64 * 64
    }

    /// How many bits are set.
    #[inline]
    pub(crate) const fn ones(&self) -> u64 {
        self.ones
    }

    #[inline]
    fn place(&self, distance: u64) -> (usize, u64) {
        debug_assert!(distance < self.capacity(), "the window bounds what is looked at");
        let bit = self.origin.wrapping_add(distance) & (self.capacity() - 1);
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    #[inline]
    pub(crate) fn get(&self, distance: u64) -> bool {
        let (word, bit) = self.place(distance);
        self.words[word] & bit != 0
    }

    /// Sets a bit; true if it was not set before.
    #[inline]
    pub(crate) fn set(&mut self, distance: u64) -> bool {
        let (word, bit) = self.place(distance);
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.ones += u64::from(new);
        new
    }

    /// Forgets the first `n` segments: what was at distance `n` is at 0 then.
    #[inline]
    pub(crate) fn advance(&mut self, n: u64) {
        if self.ones > 0 {
            for distance in 0..n.min(self.capacity()) {
                let (word, bit) = self.place(distance);
                self.ones -= u64::from(self.words[word] & bit != 0);
                self.words[word] &= !bit;
            }
        }
        self.origin = self.origin.wrapping_add(n);
    }

    pub(crate) fn clear(&mut self) {
        if self.ones > 0 {
            self.words.fill(0);
            self.ones = 0;
        }
    }

    /// How many of `from..to` are set.
    pub(crate) fn count(&self, from: u64, to: u64) -> u64 {
        if self.ones == 0 {
            return 0;
        }
        let mut count = 0;
        let mut at = from;
        while at < to {
            let (bits, n) = self.chunk(at, to);
            count += u64::from(bits.count_ones());
            at += n;
        }
        count
    }

    /// The first distance in `from..to` whose bit is not set.
    pub(crate) fn first_clear(&self, from: u64, to: u64) -> Option<u64> {
        let mut at = from;
        while at < to {
            let (bits, n) = self.chunk(at, to);
            let ones = u64::from(bits.trailing_ones());
            if ones < n {
                return Some(at + ones);
            }
            at += n;
        }
        None
    }

    /// Bits of `at..` up to the end of their word or `to`, and how many those are.
    fn chunk(&self, at: u64, to: u64) -> (u64, u64) {
        let (word, bit) = self.place(at);
        let shift = u64::from(bit.trailing_zeros());
        let n = (64 - shift).min(to - at);
        let bits = self.words[word] >> shift;
        (if n == 64 { bits } else { bits & ((1 << n) - 1) }, n)
    }

    /// The `n`-th set bit below `to`, counted downwards from 1.
    pub(crate) fn nth_from_top(&self, to: u64, n: u64) -> Option<u64> {
        let mut left = n;
        (self.ones >= n).then_some(())?;
        (0..to).rev().find(|&distance| {
            left -= u64::from(self.get(distance));
            left == 0
        })
    }

    /// The run of set bits around `distance`, which is set, within `0..to`: first, and behind the last.
    pub(crate) fn run(&self, distance: u64, to: u64) -> (u64, u64) {
        let end = self.first_clear(distance, to).unwrap_or(to);
        let start = (0..distance).rev().find(|&d| !self.get(d)).map_or(0, |d| d + 1);
        (start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set(ops in proptest::collection::vec((0_u64..128, 0_u64..20), 1..200), from in 0_u64..128, to in 0_u64..128) {
            let mut bitmap = Bitmap::new(100);
            prop_assert_eq!(bitmap.capacity(), 128);
            let mut set = BTreeSet::new();
            let mut first = 0;
            for (distance, step) in ops {
                prop_assert_eq!(bitmap.set(distance), set.insert(first + distance));
                bitmap.advance(step);
                first += step;
                set.retain(|&n| n >= first);
                prop_assert_eq!(bitmap.ones(), set.len() as u64);
            }
            let has = |d: &u64| set.contains(&(first + d));
            prop_assert_eq!(bitmap.count(from, to), (from..to).filter(has).count() as u64);
            prop_assert_eq!(bitmap.first_clear(from, to), (from..to).find(|d| !has(d)));
            prop_assert_eq!(bitmap.nth_from_top(to, 3), (0..to).rev().filter(has).nth(2));
            if has(&from) && from < to {
                let (start, end) = bitmap.run(from, to);
                prop_assert!((start..end).all(|d| has(&d)));
                prop_assert!(start == 0 || !has(&(start - 1)));
                prop_assert!(end == to || !has(&end));
            }
        }
    }
}
