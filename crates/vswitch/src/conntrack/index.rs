//! Where connections are, by the hash of a tuple: open addressing in a table that never grows.

/// Numbers by hashes. An empty slot is 0.
#[derive(Debug)]
pub struct Index {
    /// The upper half of a hash, and a number plus one.
    slots: Vec<u64>,
}

impl Index {
    /// For so many numbers at most.
    pub fn new(numbers: usize) -> Self {
        // Half of the slots stay empty, so that no search is long.
        Self { slots: vec![0; (numbers * 2).next_power_of_two()] }
    }

    const fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    /// Where the search for a slot's content begins.
    const fn home(&self, slot: u64) -> usize {
        (slot >> 32) as usize & self.mask()
    }

    /// The number with this hash that is the one.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let (tag, mut at) = (hash >> 32, self.home(hash));
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            let number = slot as u32 - 1;
            if slot >> 32 == tag && is_it(number) {
                return Some(number);
            }
            at = (at + 1) & self.mask();
        }
    }

    /// Adds a number.
    pub fn insert(&mut self, hash: u64, number: u32) {
        let mut at = self.home(hash);
        while self.slots[at] != 0 {
            at = (at + 1) & self.mask();
        }
        self.slots[at] = hash >> 32 << 32 | (u64::from(number) + 1);
    }

    /// Removes a number, and moves those behind it that would not be found any more.
    pub fn remove(&mut self, hash: u64, number: u32) {
        let wanted = hash >> 32 << 32 | (u64::from(number) + 1);
        let mask = self.mask();
        let mut gap = self.home(hash);
        while self.slots[gap] != wanted {
            assert!(self.slots[gap] != 0, "each connection is in the index by both tuples");
            gap = (gap + 1) & mask;
        }
        let mut next = gap;
        loop {
            self.slots[gap] = 0;
            loop {
                next = (next + 1) & mask;
                let slot = self.slots[next];
                if slot == 0 {
                    return;
                }
                // Whether its home lies at the gap or before it, going round.
                if next.wrapping_sub(self.home(slot)) & mask >= next.wrapping_sub(gap) & mask {
                    break;
                }
            }
            self.slots[gap] = self.slots[next];
            gap = next;
        }
    }
}
