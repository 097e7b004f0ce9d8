//! The event queue: a calendar queue (Brown, 1988) with a fixed ring of buckets and a heap for what lies beyond it.
//!
//! ```text
//!            current, sorted        buckets: unsorted lists            beyond the horizon
//! pop <---- [t0 t1 t2]      [ . | x | . | x x | . | . | x ] ...        heap
//!            ^ bucket `at`    at+1 ...            at+BUCKETS-1
//! ```
//!
//! Invariants: what is in `current` has bucket `at` or an earlier one, and so has what is in `after`, which comes out behind
//! all of `current`; each list holds exactly one bucket of
//! `at+1 .. at+BUCKETS`; the heap holds only what lies at or beyond `at+BUCKETS`. So an event that was pushed far ahead
//! is in its list before a later push can reach the same bucket, and equal times leave in the order of their pushes.
//!
//! The bucket width follows the density of events: every [`EPOCH`] pops it is set anew if it is far off.

use core::cmp::Reverse;
use core::marker::PhantomData;
use core::mem;
use std::collections::BinaryHeap;

use crate::time::{Pico, Time, Unit};

/// How many buckets the ring has. Two streams of the lists' heads are hot: those around now, and those one link's delay ahead.
const BUCKETS: usize = 1 << 14;
/// Width of a bucket at first, as a power of two of units: 2^18 ps = 262 ns, right for some ten million events a second.
const fn first_shift<U: Unit>() -> u32 {
    last_shift::<U>() - 22
}
/// Wider buckets than 2^40 ps (1 s) would gain nothing.
const fn last_shift<U: Unit>() -> u32 {
    U::PER_SECOND.ilog2() + 1
}
/// Up to so many events of the current bucket are kept in order by looking at each.
const FEW: usize = 32;
/// Pops between two looks at the bucket width.
const EPOCH: u32 = 1 << 14;
/// The end of a list.
const NIL: u32 = u32::MAX;

/// Events in the order of their times; equal times in the order of their pushes.
///
/// Push and pop cost the same whatever the number of events, and neither allocates once the queue has held as many
/// events as it will. What is popped is taken out by [`Default`], so that events need not be `Copy`.
#[derive(Clone, Debug)]
pub struct Calendar<T, U = Pico> {
    unit: PhantomData<U>,
    /// A bucket is `time >> shift`.
    shift: u32,
    /// No narrower than this: at narrower buckets too much lay beyond the horizon.
    shift_min: u32,
    /// The bucket that `current` was filled from.
    at: u64,
    /// Latest first; of equal times the newest first: the next event is the last one.
    current: Vec<Due<T>>,
    /// What was pushed into a full `current` and lies behind all of it: earliest first, of equal times the oldest first.
    after: Vec<Due<T>>,
    /// First node of each bucket's list, newest first.
    heads: Box<[u32; BUCKETS]>,
    /// The lists that are not empty.
    filled: Bitmap,
    nodes: Vec<Node<T>>,
    /// First unused node.
    free: u32,
    /// How many events are in the lists.
    listed: usize,
    far: BinaryHeap<Far<T>>,
    /// The bucket of the earliest event in `far`; `u64::MAX` when there is none.
    far_at: u64,
    /// Numbers the pushes into `far`.
    far_pushes: u64,
    epoch: Epoch,
}

#[derive(Clone, Debug)]
struct Due<T> {
    time: u64,
    event: T,
}

#[derive(Clone, Debug)]
struct Node<T> {
    time: u64,
    next: u32,
    event: T,
}

/// What the choice of the bucket width goes by.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    start: u64,
    pops: u32,
    far_pushes_before: u64,
}

#[derive(Clone, Debug)]
struct Far<T> {
    key: Reverse<(u64, u64)>,
    event: T,
}

impl<T> PartialEq for Far<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<T> Eq for Far<T> {}
impl<T> PartialOrd for Far<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Far<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// Which buckets are filled, in two levels, so that a gap costs a few words to skip.
#[derive(Clone, Debug)]
struct Bitmap {
    words: Box<[u64; BUCKETS / 64]>,
    /// The words that are not zero.
    summary: [u64; BUCKETS / 4096],
}

impl Bitmap {
    fn new() -> Self {
        Self { words: Box::new([0; BUCKETS / 64]), summary: [0; BUCKETS / 4096] }
    }

    #[inline]
    fn set(&mut self, slot: usize) {
        self.words[slot / 64 % (BUCKETS / 64)] |= 1 << (slot % 64);
        self.summary[slot / 4096 % (BUCKETS / 4096)] |= 1 << (slot / 64 % 64);
    }

    #[inline]
    fn clear(&mut self, slot: usize) {
        let word = &mut self.words[slot / 64 % (BUCKETS / 64)];
        *word &= !(1 << (slot % 64));
        if *word == 0 {
            self.summary[slot / 4096 % (BUCKETS / 4096)] &= !(1 << (slot / 64 % 64));
        }
    }

    /// The first filled slot at or after `slot`, around the ring. At least one must be filled.
    #[inline]
    fn next(&self, slot: usize) -> usize {
        let word = slot / 64 % (BUCKETS / 64);
        let rest = self.words[word] >> (slot % 64);
        if rest != 0 {
            return slot + rest.trailing_zeros() as usize;
        }
        self.next_word((word + 1) % (BUCKETS / 64))
    }

    fn next_word(&self, word: usize) -> usize {
        let mut group = word / 64;
        let mut rest = self.summary[group] & (!0 << (word % 64));
        while rest == 0 {
            group = (group + 1) % self.summary.len();
            rest = self.summary[group];
        }
        let word = group * 64 + rest.trailing_zeros() as usize;
        word * 64 + self.words[word].trailing_zeros() as usize
    }
}

impl<T: Default, U: Unit> Default for Calendar<T, U> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Default, U: Unit> Calendar<T, U> {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            unit: PhantomData,
            shift: first_shift::<U>(),
            shift_min: 0,
            at: 0,
            current: Vec::with_capacity(64),
            after: Vec::new(),
            heads: vec![NIL; BUCKETS].try_into().expect("it has that length"),
            filled: Bitmap::new(),
            nodes: Vec::new(),
            free: NIL,
            listed: 0,
            far: BinaryHeap::new(),
            far_at: u64::MAX,
            far_pushes: 0,
            epoch: Epoch::default(),
        }
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.current.len() + self.after.len() + self.listed + self.far.len()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an event. One that lies before what was popped last is not lost: it comes out next.
    ///
    /// What nearly every event needs stands here and calls nothing, so that it costs no saving of registers.
    #[inline]
    pub fn push(&mut self, time: Time<U>, event: T) {
        let time = time.units();
        let bucket = time >> self.shift;
        // Ahead by 1 ..= BUCKETS - 1; what lies behind wraps to a large number.
        let is_within_ring = bucket.wrapping_sub(self.at).wrapping_sub(1) < BUCKETS as u64 - 1;
        if is_within_ring && (self.free as usize) < self.nodes.len() {
            self.list(time, event);
        } else {
            self.push_elsewhere(time, event);
        }
    }

    /// Adds an event to the current bucket, beyond the horizon, or where no node is unused.
    #[inline(never)]
    fn push_elsewhere(&mut self, time: u64, event: T) {
        let bucket = time >> self.shift;
        if bucket <= self.at {
            self.insert(time, event);
        } else if bucket - self.at >= BUCKETS as u64 {
            self.push_far(time, event);
        } else {
            self.list(time, event);
        }
    }

    /// Adds an event to the list of its bucket, in the ring.
    #[inline]
    fn list(&mut self, time: u64, event: T) {
        let slot = (time >> self.shift) as usize % BUCKETS;
        let next = self.heads[slot];
        let node = self.free;
        if let Some(unused) = self.nodes.get_mut(node as usize) {
            self.free = unused.next;
            *unused = Node { time, next, event };
            self.heads[slot] = node;
        } else {
            self.heads[slot] = self.nodes.len() as u32;
            self.nodes.push(Node { time, next, event });
        }
        self.filled.set(slot);
        self.listed += 1;
    }

    /// Puts an event among those of the current bucket. It is the newest, so those of its time come out before it.
    #[inline]
    fn insert(&mut self, time: u64, event: T) {
        if self.current.len() >= FEW || !self.after.is_empty() {
            return self.insert_among_many(time, event);
        }
        let behind = self.current.iter().rev().take_while(|due| due.time <= time).count();
        self.current.insert(self.current.len() - behind, Due { time, event });
    }

    /// Many events at one time, as when all flows start at once, must not cost the square of their number.
    #[cold]
    fn insert_among_many(&mut self, time: u64, event: T) {
        let due = Due { time, event };
        let lies_after = match (self.current.first(), self.after.first()) {
            (Some(last), _) => time >= last.time,
            (None, Some(first)) => time >= first.time,
            (None, None) => false,
        };
        if !lies_after {
            let place = self.current.partition_point(|other| other.time > time);
            self.current.insert(place, due);
        } else if self.after.last().is_none_or(|last| time >= last.time) {
            self.after.push(due);
        } else {
            let place = self.after.partition_point(|other| other.time <= time);
            self.after.insert(place, due);
        }
    }

    #[cold]
    fn push_far(&mut self, time: u64, event: T) {
        self.far.push(Far { key: Reverse((time, self.far_pushes)), event });
        self.far_pushes += 1;
        self.far_at = self.far_at.min(time >> self.shift);
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time<U>, T)> {
        self.pop_until(Time::NEVER)
    }

    /// Takes the next event unless it lies after `limit`.
    #[inline]
    pub fn pop_until(&mut self, limit: Time<U>) -> Option<(Time<U>, T)> {
        if self.current.is_empty() && !self.turn(limit.units()) {
            return None;
        }
        if self.current.last()?.time > limit.units() {
            return None;
        }
        let due = self.current.pop()?;
        self.epoch.pops += 1;
        if self.epoch.pops == EPOCH {
            self.adapt(due.time);
        }
        Some((Time::from_units(due.time), due.event))
    }

    /// When the next event is due. Looks only; costs as much as its bucket is full.
    pub fn next_time(&self) -> Option<Time<U>> {
        if let Some(due) = self.current.last() {
            return Some(Time::from_units(due.time));
        }
        if let Some(due) = self.after.first() {
            return Some(Time::from_units(due.time));
        }
        if self.listed == 0 {
            return self.far.peek().map(|far| Time::from_units(far.key.0.0));
        }
        let slot = self.filled.next((self.at as usize + 1) % BUCKETS);
        let mut node = self.heads[slot];
        let mut earliest = u64::MAX;
        while let Some(Node { time, next, .. }) = self.nodes.get(node as usize) {
            earliest = earliest.min(*time);
            node = *next;
        }
        Some(Time::from_units(earliest))
    }

    /// Moves on to what is left of the bucket, or to the next one that holds something, unless it begins after `limit`. False if none is reached.
    #[inline]
    fn turn(&mut self, limit: u64) -> bool {
        if !self.after.is_empty() {
            self.turn_to_after();
            return true;
        }
        let last = limit >> self.shift;
        let next = if self.listed > 0 {
            let after = self.at + 1;
            let slot = self.filled.next(after as usize % BUCKETS);
            after + ((slot as u64).wrapping_sub(after) % BUCKETS as u64)
        } else {
            self.far_at
        };
        if next > last || next == u64::MAX {
            // Nothing lies between, so the ring may follow the clock; pushes then find it where they need it.
            if limit != u64::MAX {
                self.move_to(self.at.max(last));
            }
            return false;
        }
        self.move_to(next);
        self.fill_current();
        true
    }

    #[cold]
    fn turn_to_after(&mut self) {
        mem::swap(&mut self.current, &mut self.after);
        self.current.reverse();
    }

    /// Makes `at` the current bucket. All buckets from the old one up to it, itself excluded, are empty.
    #[inline]
    fn move_to(&mut self, at: u64) {
        self.at = at;
        if self.far_at < at.saturating_add(BUCKETS as u64) {
            self.draw_near();
        }
    }

    /// Moves what is within the horizon by now from the heap into lists.
    #[cold]
    fn draw_near(&mut self) {
        let horizon = self.at.saturating_add(BUCKETS as u64);
        while self.far.peek().is_some_and(|far| far.key.0.0 >> self.shift < horizon) {
            if let Some(Far { key: Reverse((time, _)), event }) = self.far.pop() {
                self.list(time, event);
            }
        }
        self.far_at = self.far.peek().map_or(u64::MAX, |far| far.key.0.0 >> self.shift);
    }

    /// Moves the list of bucket `at` into `current`, which is empty.
    #[inline]
    fn fill_current(&mut self) {
        let slot = self.at as usize % BUCKETS;
        let mut node = mem::replace(&mut self.heads[slot], NIL);
        self.filled.clear(slot);
        while let Some(Node { time, next, event }) = self.nodes.get_mut(node as usize) {
            self.current.push(Due { time: *time, event: mem::take(event) });
            let after = mem::replace(next, self.free);
            self.free = node;
            node = after;
        }
        self.listed -= self.current.len();
        if self.current.len() > 1 {
            // Stable: equal times stay newest first.
            self.current.sort_by_key(|due| Reverse(due.time));
        }
    }

    /// Sets the bucket width to about two events' distance, if it is off by a factor of four.
    #[cold]
    fn adapt(&mut self, now: u64) {
        let far = self.far_pushes - self.epoch.far_pushes_before;
        if far > u64::from(EPOCH / 8) {
            self.shift_min = (self.shift + 1).min(last_shift::<U>());
        }
        let distance = (now.saturating_sub(self.epoch.start) / u64::from(EPOCH)).max(1);
        let ideal = (distance.ilog2() + 1).clamp(self.shift_min, last_shift::<U>());
        self.epoch = Epoch { start: now, pops: 0, far_pushes_before: self.far_pushes };
        if ideal.abs_diff(self.shift) >= 2 || self.shift < self.shift_min {
            self.rebuild(ideal, now);
        }
    }

    /// Sorts everything into buckets of another width. Events are pushed anew in their order, so ties keep theirs.
    fn rebuild(&mut self, shift: u32, now: u64) {
        let epoch = self.epoch;
        let mut all = Vec::with_capacity(self.len());
        while !self.is_empty() {
            if self.current.is_empty() {
                self.turn(u64::MAX);
            }
            all.extend(self.current.drain(..).rev());
        }
        self.shift = shift;
        self.at = now >> shift;
        self.far_at = u64::MAX;
        for Due { time, event } in all {
            self.push(Time::from_units(time), event);
        }
        self.epoch = Epoch { far_pushes_before: self.far_pushes, ..epoch };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use proptest::prelude::*;

    fn drain(calendar: &mut Calendar<u32>) -> Vec<(u64, u32)> {
        core::iter::from_fn(|| calendar.pop()).map(|(time, n)| (time.as_ps(), n)).collect()
    }

    #[test]
    fn equal_times_leave_in_the_order_of_their_pushes_also_across_the_horizon() {
        let mut calendar = Calendar::new();
        let far = Time::from_ps((BUCKETS as u64 + 7) << first_shift::<Pico>());
        calendar.push(far, 1_u32);
        calendar.push(far, 2);
        // The first pop moves the horizon beyond `far`.
        calendar.push(Time::from_ps(20 << first_shift::<Pico>()), 0);
        assert_eq!(calendar.pop(), Some((Time::from_ps(20 << first_shift::<Pico>()), 0)));
        calendar.push(far, 3);
        assert_eq!(drain(&mut calendar).iter().map(|e| e.1).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_limit_holds_events_back_and_none_is_lost() {
        let mut calendar = Calendar::new();
        calendar.push(Time::from_ns(500_000_000), 2_u32);
        calendar.push(Time::from_ns(10), 1);
        assert_eq!(calendar.pop_until(Time::from_ns(9)), None);
        assert_eq!(calendar.next_time(), Some(Time::from_ns(10)));
        assert_eq!(calendar.pop_until(Time::from_ns(10)), Some((Time::from_ns(10), 1)));
        assert_eq!(calendar.pop_until(Time::from_ns(499_999_999)), None);
        calendar.push(Time::from_ns(499_999_999), 3);
        // Behind the clock: out at once.
        calendar.push(Time::from_ns(20), 4);
        assert_eq!(calendar.next_time(), Some(Time::from_ns(20)));
        assert_eq!(drain(&mut calendar).iter().map(|e| e.1).collect::<Vec<_>>(), [4, 3, 2]);
        assert!(calendar.is_empty());
    }

    /// At the cost of a scan or a shift for each, this would take minutes.
    #[test]
    fn very_many_equal_times_leave_in_order() {
        let mut calendar = Calendar::new();
        let (now, soon) = (Time::from_ps(5), Time::from_ps(6));
        for n in 0..300_000_u32 {
            calendar.push(now, n);
        }
        for n in 0..300_000_u32 {
            assert_eq!(calendar.next_time(), Some(now));
            assert_eq!(calendar.pop(), Some((now, n)));
            calendar.push(soon, 300_000 + n);
        }
        assert_eq!(calendar.len(), 300_000);
        assert!(drain(&mut calendar).into_iter().eq((300_000..600_000).map(|n| (6, n))));
    }

    #[test]
    fn the_last_moment_is_a_moment() {
        let mut calendar = Calendar::new();
        calendar.push(Time::NEVER, 2_u32);
        calendar.push(Time::from_ps(u64::MAX - 1), 1);
        assert_eq!(calendar.next_time(), Some(Time::from_ps(u64::MAX - 1)));
        assert_eq!(drain(&mut calendar), [(u64::MAX - 1, 1), (u64::MAX, 2)]);
    }

    #[test]
    fn nothing_is_allocated_in_steady_state() {
        let mut calendar = Calendar::new();
        for n in 0..1_000_u32 {
            calendar.push(Time::from_ns(u64::from(n) * 37), n);
        }
        let mut rng = crate::Rng::new(1);
        let mut step = |calendar: &mut Calendar<u32>| {
            let (now, n) = calendar.pop().expect("as many events as at the start");
            calendar.push(now + crate::Span::from_ns(50_000 + u64::from(rng.below(8_000))), n);
        };
        for _ in 0..100_000 {
            step(&mut calendar);
        }
        let before = (calendar.nodes.capacity(), calendar.far.capacity(), calendar.shift);
        for _ in 0..500_000 {
            step(&mut calendar);
        }
        assert_eq!((calendar.nodes.capacity(), calendar.far.capacity(), calendar.shift), before);
        assert_eq!(calendar.len(), 1_000);
    }

    #[test]
    fn the_width_follows_the_density() {
        for gap_ns in [1_u64, 1_000, 1_000_000, 50_000_000] {
            let mut calendar = Calendar::new();
            for n in 0..64 {
                calendar.push(Time::from_ns(n * gap_ns), n as u32);
            }
            for _ in 0..3 * EPOCH {
                let (now, n) = calendar.pop().expect("64 events");
                calendar.push(now + crate::Span::from_ns(64 * gap_ns), n);
            }
            let width = 1_u64 << calendar.shift;
            assert!((gap_ns * 500..=gap_ns * 8_000).contains(&width), "gap {gap_ns} ns, width {width} ps");
            let order: Vec<_> = drain(&mut calendar).iter().map(|e| e.0).collect();
            assert!(order.len() == 64 && order.is_sorted());
        }
    }

    /// The obvious queue: a heap of (time, number of the push).
    #[derive(Default)]
    struct Reference {
        heap: BinaryHeap<Reverse<(u64, u32)>>,
    }

    #[derive(Clone, Debug)]
    enum Op {
        /// This far ahead of the last pop.
        Push(u64),
        /// This far ahead of the last pop, so many.
        Burst(u64, u32),
        Pop,
        /// Pop what is due this far ahead of the last pop.
        PopUntil(u64),
        /// Set the bucket width.
        Rebuild(u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0_u64..4).prop_map(Op::Push),
            4 => (0_u64..(1 << 19)).prop_map(Op::Push),
            4 => (0_u64..(1 << 28)).prop_map(Op::Push),
            2 => (0_u64..(1 << 36)).prop_map(Op::Push),
            1 => (0_u64..(1 << 50)).prop_map(Op::Push),
            // The edges of buckets and of the horizon.
            2 => (BUCKETS as u64 - 2..BUCKETS as u64 + 3, 0_u64..2).prop_map(|(n, off)| Op::Push((n << first_shift::<Pico>()) - off)),
            1 => (0_u64..3, 1_u32..90).prop_map(|(ahead, count)| Op::Burst(ahead, count)),
            1 => (0_u64..(1 << 19), 1_u32..90).prop_map(|(ahead, count)| Op::Burst(ahead, count)),
            10 => Just(Op::Pop),
            3 => (0_u64..(1 << 30)).prop_map(Op::PopUntil),
            1 => (4_u32..30).prop_map(Op::Rebuild),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn agrees_with_a_heap(ops in proptest::collection::vec(op(), 1..300)) {
            let mut calendar = Calendar::new();
            let mut reference = Reference::default();
            let mut now = 0_u64;
            let mut pushes = 0_u32;
            for op in ops {
                let limit = match op {
                    Op::Push(ahead) | Op::Burst(ahead, _) => {
                        let time = now.saturating_add(ahead);
                        for _ in 0..if let Op::Burst(_, count) = op { count } else { 1 } {
                            calendar.push(Time::from_ps(time), pushes);
                            reference.heap.push(Reverse((time, pushes)));
                            pushes += 1;
                        }
                        continue;
                    }
                    Op::Rebuild(shift) => {
                        calendar.rebuild(shift, now);
                        continue;
                    }
                    Op::Pop => u64::MAX,
                    Op::PopUntil(ahead) => now.saturating_add(ahead),
                };
                prop_assert_eq!(calendar.next_time().map(Time::as_ps), reference.heap.peek().map(|r| r.0.0));
                let due = reference.heap.peek().is_some_and(|r| r.0.0 <= limit);
                let expected = if due { reference.heap.pop().map(|r| r.0) } else { None };
                let got = calendar.pop_until(Time::from_ps(limit)).map(|(time, n)| (time.as_ps(), n));
                prop_assert_eq!(got, expected);
                now = match got {
                    Some((time, _)) => time,
                    None if limit != u64::MAX => limit,
                    None => now,
                };
                prop_assert_eq!(calendar.len(), reference.heap.len());
            }
            let rest: Vec<_> = core::iter::from_fn(|| reference.heap.pop()).map(|r| r.0).collect();
            prop_assert_eq!(drain(&mut calendar), rest);
        }
    }
}
