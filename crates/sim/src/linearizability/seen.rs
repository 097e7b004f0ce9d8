//! The configurations that a search has been in: Lowe's memo ("Testing for linearizability", 2017).
//!
//! A configuration is which calls have been given their moment, and the model's state. It is kept as a digest of 128
//! bits, as sets of calls are long and configurations many: the digest of a set is the exclusive or of its calls'
//! tokens (Zobrist, 1970), so that adding or taking one call costs the same whatever the set's size. Two of `n`
//! configurations share a digest with a probability of about `n * n / 2^129`, below 10^-25 for the two million of the default limit.

use std::hash::{Hash, Hasher};

use machine::mix;

/// The digest of one call for the digest of a set of them.
pub fn token(call: usize) -> u128 {
    let low = mix((call as u64).wrapping_add(0x9e37_79b9_7f4a_7c15));
    let high = mix(low ^ 0xd1b5_4a32_d192_ed03);
    u128::from(high) << 64 | u128::from(low)
}

/// The digest of a configuration.
pub fn digest<S: Hash>(set: u128, state: &S) -> u128 {
    let mut lanes = Lanes { low: set as u64 ^ 0x2545_f491_4f6c_dd1d, high: (set >> 64) as u64 };
    state.hash(&mut lanes);
    u128::from(lanes.high) << 64 | u128::from(lanes.low)
}

/// Two hashes at once. The standard library's hasher has 64 bits only and a key of its own choice.
struct Lanes {
    low: u64,
    high: u64,
}

impl Hasher for Lanes {
    fn finish(&self) -> u64 {
        self.low
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, x: u8) {
        self.write_u64(u64::from(x));
    }

    fn write_u32(&mut self, x: u32) {
        self.write_u64(u64::from(x));
    }

    fn write_u64(&mut self, x: u64) {
        self.low = mix(self.low.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ x);
        self.high = mix(self.high.rotate_left(29).wrapping_add(0xa076_1d64_78bd_642f) ^ x);
    }

    fn write_usize(&mut self, x: usize) {
        self.write_u64(x as u64);
    }
}

/// The configurations that were seen: a hash table with open addressing, at most half full, over lists of sets.
///
/// A configuration has two sets of placed calls: those that must be placed are part of its digest, those that may be are
/// kept beside it. Where one with fewer of these has been, one with more leads no further.
pub struct Seen {
    /// Digest and first set of the list; a digest of zero is an unused slot.
    slots: Vec<(u128, u32)>,
    len: usize,
    /// Words of a set.
    words: usize,
    sets: Vec<u64>,
    /// The set that follows in the list.
    next: Vec<u32>,
}

/// The end of a list.
const NIL: u32 = u32::MAX;
/// So many sets of a list are compared, the newest; with more, the search may only do something twice.
const COMPARED: usize = 64;

impl Seen {
    /// For sets of `words` words.
    pub fn new(words: usize) -> Self {
        Self { slots: vec![(0, NIL); 64], len: 0, words, sets: Vec::new(), next: Vec::new() }
    }

    /// Adds a configuration. False if it leads no further than one that was there.
    pub fn insert(&mut self, digest: u128, set: &[u64]) -> bool {
        let digest = digest.max(1);
        let at = slot(&self.slots, digest);
        let head = self.slots[at].1;
        if self.holds_part_of(head, set) {
            return false;
        }
        self.len += usize::from(self.slots[at].0 == 0);
        self.slots[at] = (digest, self.next.len() as u32);
        self.next.push(head);
        self.sets.extend_from_slice(set);
        if self.len * 2 > self.slots.len() {
            let mut wider = vec![(0, NIL); self.slots.len() * 2];
            for &old in self.slots.iter().filter(|slot| slot.0 != 0) {
                let at = slot(&wider, old.0);
                wider[at] = old;
            }
            self.slots = wider;
        }
        true
    }

    /// Whether the list that begins at `head` has a set that `set` contains.
    fn holds_part_of(&self, head: u32, set: &[u64]) -> bool {
        let mut at = head;
        for _ in 0..COMPARED {
            let Some(&next) = self.next.get(at as usize) else { return false };
            let start = at as usize * self.words;
            let seen = &self.sets[start..start + self.words];
            if seen.iter().zip(set).all(|(seen, word)| seen & !word == 0) {
                return true;
            }
            at = next;
        }
        false
    }
}

/// Where a digest is, or belongs.
fn slot(slots: &[(u128, u32)], digest: u128) -> usize {
    let mask = slots.len() - 1;
    let mut at = digest as usize & mask;
    while slots[at].0 != 0 && slots[at].0 != digest {
        at = (at + 1) & mask;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_new_once() {
        let mut seen = Seen::new(0);
        assert!((0..10_000).all(|call| seen.insert(token(call), &[])));
        assert!((0..10_000).all(|call| !seen.insert(token(call), &[])));
        assert!(seen.insert(0, &[]) && !seen.insert(0, &[]));
    }

    #[test]
    fn more_calls_that_need_not_be_placed_are_not_new() {
        let mut seen = Seen::new(1);
        assert!(seen.insert(5, &[0b0110]));
        assert!(!seen.insert(5, &[0b0111]));
        assert!(seen.insert(5, &[0b0100]) && seen.insert(5, &[0b1001]));
        assert!(!seen.insert(5, &[0b1101]) && seen.insert(6, &[0b1101]));
    }

    #[test]
    fn a_set_and_a_state_make_a_configuration() {
        let set = token(1) ^ token(2);
        assert_eq!(digest(set, &(1_u64, 2_u32)), digest(token(2) ^ token(1), &(1_u64, 2_u32)));
        assert_ne!(digest(set, &1_u64), digest(set, &2_u64));
        assert_ne!(digest(set, &1_u64), digest(token(1), &1_u64));
        assert_ne!(digest(set, &"one"), digest(set, &"two"));
    }
}
