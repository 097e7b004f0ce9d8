//! Tuple-space search: entries with the same mask are one hash table.
//!
//! Tables are searched in the order of their highest priorities, so that a search ends with the first entry that no other table can outdo. A table is searched in
//! stages ([`STAGES`]): where none of its entries agrees with a packet in its first fields, the others are not looked at, and do not count as looked at. Both are as in
//! Open vSwitch (Pfaff et al., NSDI 2015, sections 4 and 5).

use std::collections::BTreeMap;

use machine::mix;

use super::key::{Key, STAGES, WORDS};
use super::matching::Match;

/// Nothing is there.
const NONE: u32 = u32::MAX;

/// Entries by match and priority.
#[derive(Debug)]
pub struct Classifier {
    /// By their highest priorities, the highest first.
    tables: Vec<Subtable>,
    /// Where hashes start, so that nobody can choose what collides.
    seed: u64,
}

/// Entries with one mask.
#[derive(Debug)]
struct Subtable {
    mask: Key,
    /// By stage: the mask of it and those before.
    stage_masks: [Key; STAGES.len()],
    /// How many entries have each priority.
    priorities: BTreeMap<u16, usize>,
    highest: u16,
    /// By stage that is not the last one in which something is matched: hashes of what entries have there.
    stages: [Option<Slots>; STAGES.len() - 1],
    entries: Slots,
    /// The entries that the slots name.
    nodes: Vec<Node>,
    free: Vec<u32>,
}

/// An entry. Those with the same match are a list, the highest priority first.
#[derive(Debug)]
struct Node {
    key: Key,
    priority: u16,
    value: u32,
    next: u32,
}

/// A hash table of hashes: each with a number, by open addressing.
#[derive(Debug, Default)]
struct Slots {
    /// Hash and number; a number of [`NONE`] is an empty slot. As many as a power of two.
    slots: Vec<(u64, u32)>,
    used: usize,
}

impl Slots {
    /// All numbers with this hash.
    fn with(&self, hash: u64) -> impl Iterator<Item = (usize, u32)> + '_ {
        let mask = self.slots.len().wrapping_sub(1);
        let probe = move |step: usize| (hash as usize).wrapping_add(step) & mask;
        let used = (0..self.slots.len()).map(probe).take_while(|at| self.slots[*at].1 != NONE);
        used.filter(move |at| self.slots[*at].0 == hash).map(|at| (at, self.slots[at].1))
    }

    fn insert(&mut self, hash: u64, number: u32) {
        if (self.used + 1) * 2 > self.slots.len() {
            let size = (self.slots.len() * 2).max(8);
            let old = std::mem::replace(&mut self.slots, vec![(0, NONE); size]);
            old.into_iter().filter(|(_, number)| *number != NONE).for_each(|(hash, number)| self.place(hash, number));
        }
        self.used += 1;
        self.place(hash, number);
    }

    fn place(&mut self, hash: u64, number: u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].1 != NONE {
            at = (at + 1) & mask;
        }
        self.slots[at] = (hash, number);
    }

    /// Empties a slot, and moves those behind it that would not be found any more.
    fn remove(&mut self, mut at: usize) {
        let mask = self.slots.len() - 1;
        self.used -= 1;
        let mut next = at;
        loop {
            self.slots[at].1 = NONE;
            loop {
                next = (next + 1) & mask;
                let (hash, number) = self.slots[next];
                if number == NONE {
                    return;
                }
                let home = hash as usize & mask;
                // Whether its home lies behind the gap, going round.
                if next.wrapping_sub(home) & mask >= next.wrapping_sub(at) & mask {
                    break;
                }
            }
            self.slots[at] = self.slots[next];
            at = next;
        }
    }

    /// Counts one more of a hash: the number is how many there are.
    fn count(&mut self, hash: u64) {
        let found = self.with(hash).next();
        match found {
            Some((at, _)) => self.slots[at].1 += 1,
            None => self.insert(hash, 1),
        }
    }

    fn discount(&mut self, hash: u64) {
        let found = self.with(hash).next();
        match found {
            Some((at, 1)) => self.remove(at),
            Some((at, _)) => self.slots[at].1 -= 1,
            None => {}
        }
    }

    fn has(&self, hash: u64) -> bool {
        self.with(hash).next().is_some()
    }
}

impl Subtable {
    fn new(mask: Key) -> Self {
        let stage_masks = STAGES.map(|end| Key(std::array::from_fn(|word| if word < end { mask.0[word] } else { 0 })));
        // A stage is of use if something is matched in it, and something behind it.
        let is_of_use = |stage: usize| {
            let start = if stage == 0 { 0 } else { STAGES[stage - 1] };
            mask.0[start..STAGES[stage]].iter().any(|word| *word != 0)
                && mask.0[STAGES[stage]..].iter().any(|word| *word != 0)
        };
        let stages = std::array::from_fn(|stage| is_of_use(stage).then(Slots::default));
        Self {
            mask,
            stage_masks,
            priorities: BTreeMap::new(),
            highest: 0,
            stages,
            entries: Slots::default(),
            nodes: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Where the list of the entries with this match begins: its slot, and the first of them.
    fn list(&self, key: &Key, hash: u64) -> Option<(usize, u32)> {
        self.entries.with(hash).find(|(_, first)| self.nodes[*first as usize].key == *key)
    }

    fn insert(&mut self, seed: u64, key: Key, priority: u16, value: u32) -> Option<u32> {
        let hash = extend(seed, &key, &self.mask, 0..WORDS);
        let list = self.list(&key, hash);
        let (mut before, mut at) = (NONE, list.map_or(NONE, |(_, first)| first));
        while at != NONE && self.nodes[at as usize].priority > priority {
            (before, at) = (at, self.nodes[at as usize].next);
        }
        if at != NONE && self.nodes[at as usize].priority == priority {
            return Some(std::mem::replace(&mut self.nodes[at as usize].value, value));
        }
        let node = Node { key, priority, value, next: at };
        let new = if let Some(new) = self.free.pop() {
            self.nodes[new as usize] = node;
            new
        } else {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        };
        match (before, list) {
            (NONE, Some((slot, _))) => self.entries.slots[slot].1 = new,
            (NONE, None) => self.entries.insert(hash, new),
            (before, _) => self.nodes[before as usize].next = new,
        }
        self.each_stage(seed, &key, Slots::count);
        *self.priorities.entry(priority).or_insert(0) += 1;
        self.highest = self.highest.max(priority);
        None
    }

    fn each_stage(&mut self, seed: u64, key: &Key, change: impl Fn(&mut Slots, u64)) {
        for (stage, slots) in self.stages.iter_mut().enumerate() {
            if let Some(slots) = slots {
                change(slots, extend(seed, key, &self.mask, 0..STAGES[stage]));
            }
        }
    }

    fn remove(&mut self, seed: u64, key: &Key, priority: u16) -> Option<u32> {
        let hash = extend(seed, key, &self.mask, 0..WORDS);
        let (slot, first) = self.list(key, hash)?;
        let (mut before, mut at) = (NONE, first);
        while self.nodes[at as usize].priority != priority {
            (before, at) = (at, self.nodes[at as usize].next);
            if at == NONE {
                return None;
            }
        }
        let Node { next, value, .. } = self.nodes[at as usize];
        match (before, next) {
            (NONE, NONE) => self.entries.remove(slot),
            (NONE, next) => self.entries.slots[slot].1 = next,
            (before, next) => self.nodes[before as usize].next = next,
        }
        self.free.push(at);
        self.each_stage(seed, key, Slots::discount);
        if let Some(count) = self.priorities.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&priority);
                self.highest = self.priorities.last_key_value().map_or(0, |(highest, _)| *highest);
            }
        }
        Some(value)
    }

    /// The entry of the highest priority that matches; `looked_at` gets the bits that it took to know.
    #[inline]
    fn find(&self, seed: u64, key: &Key, looked_at: &mut Key) -> Option<(u16, u32)> {
        let (mut hash, mut start) = (seed, 0);
        for (stage, slots) in self.stages.iter().enumerate() {
            let Some(slots) = slots else { continue };
            hash = extend(hash, key, &self.mask, start..STAGES[stage]);
            start = STAGES[stage];
            if !slots.has(hash) {
                looked_at.unite(&self.stage_masks[stage]);
                return None;
            }
        }
        hash = extend(hash, key, &self.mask, start..WORDS);
        looked_at.unite(&self.mask);
        let mut lists = self.entries.with(hash);
        let (_, first) = lists.find(|(_, first)| self.nodes[*first as usize].key.agrees(key, &self.mask))?;
        let node = &self.nodes[first as usize];
        Some((node.priority, node.value))
    }
}

/// Goes on with the hash of a key's masked words.
#[inline]
fn extend(mut hash: u64, key: &Key, mask: &Key, words: std::ops::Range<usize>) -> u64 {
    for word in words {
        if mask.0[word] != 0 {
            hash = mix(hash ^ (key.0[word] & mask.0[word])).wrapping_add(word as u64);
        }
    }
    hash
}

impl Classifier {
    /// An empty one, whose hashes start at `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { tables: Vec::new(), seed }
    }

    /// Adds an entry. Returns the value of one with the same match and priority, whose place it takes.
    pub fn insert(&mut self, Match { key, mask }: &Match, priority: u16, value: u32) -> Option<u32> {
        let at = self.tables.iter().position(|table| table.mask == *mask).unwrap_or_else(|| {
            self.tables.push(Subtable::new(*mask));
            self.tables.len() - 1
        });
        let old = self.tables[at].insert(self.seed, *key, priority, value);
        self.sort();
        old
    }

    /// Removes an entry. Returns its value, if it was there.
    pub fn remove(&mut self, Match { key, mask }: &Match, priority: u16) -> Option<u32> {
        let at = self.tables.iter().position(|table| table.mask == *mask)?;
        let value = self.tables[at].remove(self.seed, key, priority)?;
        if self.tables[at].priorities.is_empty() {
            self.tables.swap_remove(at);
        }
        self.sort();
        Some(value)
    }

    fn sort(&mut self) {
        if !self.tables.is_sorted_by_key(|table| std::cmp::Reverse(table.highest)) {
            self.tables.sort_by_key(|table| std::cmp::Reverse(table.highest));
        }
    }

    /// The value of the entry of the highest priority that matches a packet; of several with the same priority, any. `looked_at` gets the bits of the packet that
    /// it took to know: all packets that agree with it in those have the same entry.
    #[inline]
    pub fn find(&self, key: &Key, looked_at: &mut Key) -> Option<u32> {
        let mut best: Option<(u16, u32)> = None;
        for table in &self.tables {
            if best.is_some_and(|(priority, _)| priority >= table.highest) {
                break;
            }
            if let Some(found) = table.find(self.seed, key, looked_at)
                && best.is_none_or(|(priority, _)| found.0 > priority)
            {
                best = Some(found);
            }
        }
        best.map(|(_, value)| value)
    }

    /// How many masks its entries have.
    pub const fn masks(&self) -> usize {
        self.tables.len()
    }
}
