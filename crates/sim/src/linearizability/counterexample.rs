//! Why a history is not linearizable, in as few operations as a short search finds.

use std::fmt::{self, Display};

use machine::nanos::Time;

use super::model::Model;
use super::search::{Call, Search, SearchResult};

/// Steps that one attempt to leave operations out may take.
const STEPS_AN_ATTEMPT: u64 = 200_000;
/// Steps that all of them may take.
const STEPS: u64 = 3_000_000;
/// So many of the last operations are looked at one by one.
const LAST: usize = 32;

/// Operations of one key that no order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample<K> {
    /// What they are about.
    pub key: K,
    /// The operations that contradict each other, by invocation: whichever of the others took effect, and whenever,
    /// these cannot have had these outputs, after those before. (If the search for a small set ran out of steps, some
    /// may be needless.)
    pub window: Vec<Line>,
    /// Operations that returned long before the culprit and had to be left as they were.
    pub before: usize,
    /// The other operations of the key, which do not matter.
    pub others: usize,
}

/// An operation for the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The client that asked.
    pub client: u32,
    /// When it asked.
    pub invoked: Time,
    /// When the answer came.
    pub returned: Time,
    /// The request and its answer.
    pub text: String,
    /// Up to the return of this one no order was found; without it, there is one.
    pub is_culprit: bool,
}

impl<K> Counterexample<K> {
    /// Makes the smallest counterexample that it finds from the calls of a key that have no order.
    pub(super) fn new<M: Model<Key = K>>(model: &M, key: K, calls: Vec<Call<'_, M>>) -> Self {
        let all = calls.len();
        let (window, before) = Shrink::new(model, &key, calls).window();
        Self { key, others: all - window.len() - before, before, window }
    }
}

impl<K: Display> Display for Counterexample<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}: no order explains the results of these operations", self.key)?;
        if self.before > 0 {
            write!(f, ", after the {} before", self.before)?;
        }
        if self.others > 0 {
            write!(f, ", whatever the {} others did", self.others)?;
        }
        for line in &self.window {
            let (from, to) = (line.invoked.as_secs_f64(), line.returned.as_secs_f64());
            write!(f, "\n  client {:<3} {from:>12.6} s .. {to:>12.6} s  {}", line.client, line.text)?;
            if line.is_culprit {
                f.write_str("   <- does not fit")?;
            }
        }
        Ok(())
    }
}

/// Takes the obligation to be placed from as many calls as it can, while there is still no order.
///
/// A call without that obligation may take effect at any time after its invocation, or never: that allows more
/// histories, so what is illegal then was illegal before. A read without it says nothing at all and is left out.
struct Shrink<'a, 'k, M: Model> {
    model: &'a M,
    key: &'k M::Key,
    calls: Vec<Call<'a, M>>,
    /// The returns as they were.
    returns: Vec<Option<Time>>,
    culprit: usize,
    steps_left: u64,
}

impl<'a, 'k, M: Model> Shrink<'a, 'k, M> {
    fn new(model: &'a M, key: &'k M::Key, calls: Vec<Call<'a, M>>) -> Self {
        let mut order: Vec<usize> = (0..calls.len()).filter(|&index| calls[index].returned.is_some()).collect();
        order.sort_by_key(|&index| calls[index].returned);
        let returns = calls.iter().map(|call| call.returned).collect();
        let mut shrink = Self { model, key, calls, returns, culprit: 0, steps_left: u64::MAX };
        let last = shrink.first_return_without_order(&order);
        shrink.release_after(&order, last);
        shrink.culprit = order[last];
        shrink.returns = shrink.calls.iter().map(|call| call.returned).collect();
        shrink.steps_left = STEPS;
        shrink
    }

    /// The first place in the order of returns up to which there is no order; what is true of one is true of all later.
    fn first_return_without_order(&mut self, order: &[usize]) -> usize {
        let (mut low, mut high) = (0, order.len() - 1);
        while low < high {
            let middle = usize::midpoint(low, high);
            self.release_after(order, middle);
            if self.is_illegal() { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// Releases exactly the calls that returned after this place.
    fn release_after(&mut self, order: &[usize], last: usize) {
        for (place, &index) in order.iter().enumerate() {
            self.calls[index].returned = self.returns[index].filter(|_| place <= last);
        }
    }

    /// The calls that are needed, and how many before them.
    fn window(mut self) -> (Vec<Line>, usize) {
        let mut order: Vec<usize> = (0..self.calls.len()).filter(|&i| self.calls[i].returned.is_some()).collect();
        order.retain(|&index| index != self.culprit);
        order.sort_by_key(|&index| self.calls[index].returned);
        let last = order.split_off(order.len().saturating_sub(LAST));
        let before = if self.release(&order) { 0 } else { order.len() };
        self.release_what_can_be(&last);
        let mut lines: Vec<Line> = last.iter().chain([&self.culprit]).filter_map(|&index| self.line(index)).collect();
        lines.sort_by_key(|line| (line.invoked, line.returned));
        (lines, before)
    }

    /// Releases all of these calls, or else what it can of their halves.
    fn release_what_can_be(&mut self, calls: &[usize]) {
        if !self.release(calls) && calls.len() > 1 {
            let (first, second) = calls.split_at(calls.len() / 2);
            self.release_what_can_be(first);
            self.release_what_can_be(second);
        }
    }

    /// Releases all of these calls if there is no order still. Whether it did.
    fn release(&mut self, calls: &[usize]) -> bool {
        for &index in calls {
            self.calls[index].returned = None;
        }
        if calls.is_empty() || self.is_illegal() {
            return true;
        }
        for &index in calls {
            self.calls[index].returned = self.returns[index];
        }
        false
    }

    fn is_illegal(&mut self) -> bool {
        let says_something =
            |call: &&Call<'a, M>| call.returned.is_some() || !self.model.has_no_effect(call.input, call.output);
        let calls: Vec<Call<'a, M>> = self.calls.iter().filter(says_something).copied().collect();
        let mut search = Search::new(self.model, self.key, &calls, STEPS_AN_ATTEMPT.min(self.steps_left));
        let found = search.run();
        self.steps_left = self.steps_left.saturating_sub(search.steps());
        matches!(found, SearchResult::None)
    }

    /// A call that is needed, as it was recorded.
    fn line(&self, index: usize) -> Option<Line> {
        let Call { client, invoked, returned, input, output } = self.calls[index];
        let text = format!("{input} -> {}", output?);
        Some(Line { client, invoked, returned: returned?, text, is_culprit: index == self.culprit })
    }
}
