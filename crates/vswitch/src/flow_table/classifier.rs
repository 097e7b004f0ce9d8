//! Tuple-space search: entries with the same mask are one hash table.
//!
//! Tables are searched in the order of their highest priorities, so that a search ends with the first entry that no other table can outdo. Its cost is bounded by how
//! many masks there are, and that by whoever fills it. A change looks at one table, which it finds by its mask. A table is searched in
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
    /// In no order.
    tables: Vec<Subtable>,
    /// The number of each by the hash of its mask.
    by_mask: Slots,
    /// The highest priority of each and its number: the highest first.
    order: Vec<(u16, u32)>,
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

/// Entries with the same match: the one with the highest priority, and the others if there are any.
#[derive(Debug)]
struct Node {
    key: Key,
    priority: u16,
    value: u32,
    lower: BTreeMap<u16, u32>,
}

impl Node {
    /// Adds one. Returns the value of one with the same priority, whose place it takes.
    fn insert(&mut self, priority: u16, value: u32) -> Option<u32> {
        if priority == self.priority {
            return Some(std::mem::replace(&mut self.value, value));
        }
        let (mut priority, mut value) = (priority, value);
        if priority > self.priority {
            std::mem::swap(&mut self.priority, &mut priority);
            std::mem::swap(&mut self.value, &mut value);
        }
        self.lower.insert(priority, value)
    }

    fn get(&self, priority: u16) -> Option<u32> {
        if priority == self.priority {
            return Some(self.value);
        }
        self.lower.get(&priority).copied()
    }

    /// Removes one that is not the only one.
    fn remove(&mut self, priority: u16) -> Option<u32> {
        if priority != self.priority {
            return self.lower.remove(&priority);
        }
        let (next, value) = self.lower.pop_last()?;
        self.priority = next;
        Some(std::mem::replace(&mut self.value, value))
    }

    fn values(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::once(self.value).chain(self.lower.values().copied())
    }
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

    /// All numbers.
    fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter().map(|(_, number)| *number).filter(|number| *number != NONE)
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

    /// The entries with this match: their slot and their node.
    fn node(&self, seed: u64, key: &Key) -> Option<(usize, u32)> {
        let hash = extend(seed, key, &self.mask, 0..WORDS);
        self.entries.with(hash).find(|(_, node)| self.nodes[*node as usize].key == *key)
    }

    fn insert(&mut self, seed: u64, key: Key, priority: u16, value: u32) -> Option<u32> {
        if let Some((_, at)) = self.node(seed, &key) {
            let old = self.nodes[at as usize].insert(priority, value);
            if old.is_some() {
                return old;
            }
        } else {
            let node = Node { key, priority, value, lower: BTreeMap::new() };
            let new = if let Some(new) = self.free.pop() {
                self.nodes[new as usize] = node;
                new
            } else {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            };
            self.entries.insert(extend(seed, &key, &self.mask, 0..WORDS), new);
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
        let (slot, at) = self.node(seed, key)?;
        let node = &mut self.nodes[at as usize];
        let value = if node.lower.is_empty() {
            if node.priority != priority {
                return None;
            }
            self.entries.remove(slot);
            self.free.push(at);
            node.value
        } else {
            node.remove(priority)?
        };
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
    pub fn new(seed: u64) -> Self {
        Self { tables: Vec::new(), by_mask: Slots::default(), order: Vec::new(), seed }
    }

    /// Adds an entry. Returns the value of one with the same match and priority, whose place it takes.
    pub fn insert(&mut self, Match { key, mask }: &Match, priority: u16, value: u32) -> Option<u32> {
        let number = self.table(mask).map_or_else(|| self.add_table(mask), |(_, number)| number);
        let table = &mut self.tables[number as usize];
        let before = table.highest;
        let old = table.insert(self.seed, *key, priority, value);
        self.reorder(number, before);
        old
    }

    /// Removes an entry. Returns its value, if it was there.
    pub fn remove(&mut self, Match { key, mask }: &Match, priority: u16) -> Option<u32> {
        let (slot, number) = self.table(mask)?;
        let table = &mut self.tables[number as usize];
        let before = table.highest;
        let value = table.remove(self.seed, key, priority)?;
        if table.priorities.is_empty() {
            self.remove_table(number, (slot, before));
        } else {
            self.reorder(number, before);
        }
        Some(value)
    }

    /// The value of the entry with exactly this match and priority.
    pub fn get(&self, Match { key, mask }: &Match, priority: u16) -> Option<u32> {
        let (_, number) = self.table(mask)?;
        let table = &self.tables[number as usize];
        let (_, node) = table.node(self.seed, key)?;
        table.nodes[node as usize].get(priority)
    }

    /// Whether an entry has this mask.
    pub fn has_mask(&self, mask: &Key) -> bool {
        self.table(mask).is_some()
    }

    /// Adds the values of all entries that are for no other packets than `matching`. What is looked at and found is taken from `work`; if that is not enough, it is 0 in
    /// the end, and not all of them were found.
    pub fn covered(&self, matching: &Match, work: &mut usize, values: &mut Vec<u32>) {
        for table in &self.tables {
            let is_same = table.mask == matching.mask;
            let is_narrower = matching.mask.is_within(&table.mask);
            let costs = if is_narrower && !is_same { table.entries.slots.len() } else { 1 };
            *work = work.saturating_sub(costs);
            if *work == 0 {
                return;
            }
            let before = values.len();
            if is_same {
                let node = table.node(self.seed, &matching.key).map(|(_, node)| &table.nodes[node as usize]);
                values.extend(node.into_iter().flat_map(Node::values).take(*work));
            } else if is_narrower {
                let nodes = table.entries.numbers().map(|node| &table.nodes[node as usize]);
                let covered = nodes.filter(|node| matching.key.agrees(&node.key, &matching.mask));
                values.extend(covered.flat_map(Node::values).take(*work));
            }
            *work = work.saturating_sub(values.len() - before);
            if *work == 0 {
                return;
            }
        }
    }

    /// The table of a mask: its slot and its number.
    fn table(&self, mask: &Key) -> Option<(usize, u32)> {
        let hash = self.hash(mask);
        self.by_mask.with(hash).find(|(_, number)| self.tables[*number as usize].mask == *mask)
    }

    fn hash(&self, mask: &Key) -> u64 {
        extend(self.seed, mask, &Key::ALL, 0..WORDS)
    }

    fn add_table(&mut self, mask: &Key) -> u32 {
        let number = self.tables.len() as u32;
        self.tables.push(Subtable::new(*mask));
        self.by_mask.insert(self.hash(mask), number);
        self.order.push((0, number));
        number
    }

    /// Removes a table that is in this slot, and was in the order by this priority. The last one gets its number.
    fn remove_table(&mut self, number: u32, (slot, priority): (usize, u16)) {
        self.by_mask.remove(slot);
        self.order.remove(self.place(number, priority));
        self.tables.swap_remove(number as usize);
        let last = self.tables.len() as u32;
        if let Some(moved) = self.tables.get(number as usize) {
            let (place, hash) = (self.place(last, moved.highest), self.hash(&moved.mask));
            self.order[place].1 = number;
            let slot = self.by_mask.with(hash).find(|(_, it)| *it == last).map(|(slot, _)| slot);
            if let Some(slot) = slot {
                self.by_mask.slots[slot].1 = number;
            }
        }
    }

    /// Where a table is in the order that has this highest priority there.
    fn place(&self, number: u32, priority: u16) -> usize {
        let first = self.order.partition_point(|(other, _)| *other > priority);
        first + self.order[first..].iter().take_while(|(_, other)| *other != number).count()
    }

    /// A table whose highest priority was `before` goes where it belongs now.
    fn reorder(&mut self, number: u32, before: u16) {
        let now = self.tables[number as usize].highest;
        if now != before {
            self.order.remove(self.place(number, before));
            let place = self.order.partition_point(|(other, _)| *other >= now);
            self.order.insert(place, (now, number));
        }
    }

    /// The value of the entry of the highest priority that matches a packet; of several with the same priority, any. `looked_at` gets the bits of the packet that
    /// it took to know: all packets that agree with it in those have the same entry.
    #[inline]
    pub fn find(&self, key: &Key, looked_at: &mut Key) -> Option<u32> {
        let mut best: Option<(u16, u32)> = None;
        for (highest, number) in &self.order {
            if best.is_some_and(|(priority, _)| priority >= *highest) {
                break;
            }
            if let Some(found) = self.tables[*number as usize].find(self.seed, key, looked_at)
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
