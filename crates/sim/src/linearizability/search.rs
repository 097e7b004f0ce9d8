//! The search for an order: Wing and Gong (1993) with Lowe's memo (2017), over an undo stack and a linked list of
//! events as in porcupine (Athalye).
//!
//! ```text
//! events of calls that must be placed, by time:  [call 0] [call 1] [return 1] [call 2] [return 0] ...
//! candidates: the calls before the first return, then what may be placed and was invoked before it
//! ```
//!
//! A call is *placed* when it has been given its moment: its two events leave the list. The first return that is left
//! bounds the candidates: a call that was invoked later cannot come before it. Calls that never returned have no
//! return; they may be placed or not, and are tried last, since most have an effect that somebody sees or none at all.
//!
//! Six branches are not taken, since another one leads at least as far:
//! - A call that must be placed, fits now and never changes anything is placed at once, without alternatives.
//! - A call that may be placed and changes nothing is not placed.
//! - After a call that may be placed, none is placed that would lead to the same state without it.
//! - Where the search has been with the same state and fewer calls that may be placed, it does not go again.
//! - A call that must be placed does not go before one that [`Model::place`] puts before it.
//! - Of calls that may be placed and ask for the same, the first is placed first.

use std::hash::Hash;

use machine::nanos::Time;

use super::model::Model;
use super::seen::{Seen, digest, token};

/// An operation as the search sees it.
#[derive(Debug)]
pub struct Call<'a, M: Model> {
    pub client: u32,
    pub invoked: Time,
    /// `None`: it may be placed, but need not be.
    pub returned: Option<Time>,
    pub input: &'a M::Input,
    /// What it must have returned if it is placed.
    pub output: Option<&'a M::Output>,
}

impl<M: Model> Clone for Call<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Model> Copy for Call<'_, M> {}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchResult {
    /// Every call that returned was placed.
    Order,
    /// There is no order.
    None,
    /// The limit came first.
    OutOfSteps,
}

/// One event of a call that must be placed. The list is circular; event 0 is its end.
#[derive(Clone, Copy)]
struct Event {
    previous: u32,
    next: u32,
    call: u32,
    is_return: bool,
    time: Time,
}

/// Where the search goes on among the candidates.
#[derive(Clone, Copy)]
enum Cursor {
    /// Among the calls that never change anything: one that fits now is placed before others are tried.
    Idle(u32),
    Event(u32),
    /// The place in `optional`.
    Optional(usize),
}

/// A placed call, and how to take it back.
struct Frame<S> {
    call: u32,
    before: S,
    cursor: Cursor,
    /// Placed without alternatives.
    forced: bool,
}

enum Tried {
    Placed,
    DoesNotFit,
    /// It was the only branch to take, and has been taken before.
    DeadEnd,
    OutOfSteps,
}

pub struct Search<'a, M: Model> {
    model: &'a M,
    calls: &'a [Call<'a, M>],
    events: Vec<Event>,
    /// The two events of a call, or (0, 0).
    places: Vec<(u32, u32)>,
    /// Calls without a return, by invocation.
    optional: Vec<u32>,
    /// The last one before each with the same input, both without an output. Twins are placed in their order.
    twins: Vec<Option<u32>>,
    /// Which of them are placed, a bit each.
    optional_set: Vec<u64>,
    /// Digest of the others that are placed.
    set: u128,
    state: M::State,
    stack: Vec<Frame<M::State>>,
    seen: Seen,
    /// The calls that [`Model::place`] orders, in that order.
    ordered: Vec<u32>,
    /// How many of them are placed.
    ordered_placed: usize,
    /// Whether a call is one of them.
    is_ordered: Vec<bool>,
    /// Whether a call must be placed and never changes anything.
    is_idle: Vec<bool>,
    steps: u64,
    steps_max: u64,
}

impl<'a, M: Model> Search<'a, M>
where
    M::State: Hash,
{
    pub fn new(model: &'a M, key: &M::Key, calls: &'a [Call<'a, M>], steps_max: u64) -> Self {
        let mut optional: Vec<u32> =
            (0..calls.len() as u32).filter(|&i| calls[i as usize].returned.is_none()).collect();
        optional.sort_by_key(|&i| calls[i as usize].invoked);
        let (events, places) = list(calls);
        let words = optional.len().div_ceil(64);
        let ordered = ordered(model, calls);
        let mut is_ordered = vec![false; calls.len()];
        for &call in &ordered {
            is_ordered[call as usize] = true;
        }
        let is_idle = |call: &Call<'_, M>| call.returned.is_some() && model.has_no_effect(call.input, call.output);
        Self {
            is_idle: calls.iter().map(is_idle).collect(),
            model,
            calls,
            events,
            places,
            optional_set: vec![0; words],
            twins: twins(calls, &optional),
            optional,
            set: 0,
            state: model.initial(key),
            stack: Vec::new(),
            seen: Seen::new(words),
            ordered,
            ordered_placed: 0,
            is_ordered,
            steps: 0,
            steps_max,
        }
    }

    /// Steps taken so far.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    pub fn run(&mut self) -> SearchResult {
        let mut cursor = Cursor::Idle(self.events[0].next);
        while self.events[0].next != 0 {
            let Some(call) = self.candidate(&mut cursor) else {
                match self.take_back() {
                    Some(next) => cursor = next,
                    None => return SearchResult::None,
                }
                continue;
            };
            cursor = match self.place(call, cursor) {
                Tried::Placed => Cursor::Idle(self.events[0].next),
                Tried::DoesNotFit => self.following(cursor),
                Tried::OutOfSteps => return SearchResult::OutOfSteps,
                Tried::DeadEnd => match self.take_back() {
                    Some(next) => next,
                    None => return SearchResult::None,
                },
            };
        }
        SearchResult::Order
    }

    /// The candidate at the cursor, which moves on to the next kind at the first return. Nothing if there is no more.
    fn candidate(&self, cursor: &mut Cursor) -> Option<u32> {
        if let Cursor::Idle(mut at) = *cursor {
            while !self.events[at as usize].is_return {
                let Event { call, next, .. } = self.events[at as usize];
                if self.is_idle[call as usize] {
                    *cursor = Cursor::Idle(at);
                    return Some(call);
                }
                at = next;
            }
            *cursor = Cursor::Event(self.events[0].next);
        }
        if let Cursor::Event(at) = *cursor {
            let event = self.events[at as usize];
            if !event.is_return {
                return Some(event.call);
            }
            *cursor = Cursor::Optional(0);
        }
        let Cursor::Optional(mut at) = *cursor else { unreachable!("set above") };
        let until = self.first_return();
        while let Some(&call) = self.optional.get(at).filter(|&&call| self.calls[call as usize].invoked <= until) {
            if !self.is_placed(at) && !self.has_twin_before(at) {
                *cursor = Cursor::Optional(at);
                return Some(call);
            }
            at += 1;
        }
        None
    }

    fn is_placed(&self, optional: usize) -> bool {
        self.optional_set[optional / 64] & 1 << (optional % 64) != 0
    }

    /// Whether an earlier candidate asks for the same.
    fn has_twin_before(&self, optional: usize) -> bool {
        self.twins[optional].is_some_and(|twin| !self.is_placed(twin as usize))
    }

    fn first_return(&self) -> Time {
        let mut at = self.events[0].next;
        while !self.events[at as usize].is_return {
            at = self.events[at as usize].next;
        }
        self.events[at as usize].time
    }

    fn following(&self, cursor: Cursor) -> Cursor {
        match cursor {
            Cursor::Idle(at) => Cursor::Idle(self.events[at as usize].next),
            Cursor::Event(at) => Cursor::Event(self.events[at as usize].next),
            Cursor::Optional(at) => Cursor::Optional(at + 1),
        }
    }

    fn place(&mut self, call: u32, cursor: Cursor) -> Tried {
        if self.steps >= self.steps_max {
            return Tried::OutOfSteps;
        }
        if self.is_ordered[call as usize] && self.ordered[self.ordered_placed] != call {
            return Tried::DoesNotFit;
        }
        self.steps += 1;
        let Call { input, output, returned, .. } = self.calls[call as usize];
        let Some(after) = self.model.step(&self.state, input, output) else { return Tried::DoesNotFit };
        let changes_nothing = after == self.state;
        let forced = matches!(cursor, Cursor::Idle(_));
        let needless = if forced { !changes_nothing } else { changes_nothing && returned.is_none() };
        if needless || self.makes_the_last_needless(call, &after) {
            return Tried::DoesNotFit;
        }
        self.flip(call, cursor);
        if !self.seen.insert(digest(self.set, &after), &self.optional_set) {
            self.flip(call, cursor);
            return if forced { Tried::DeadEnd } else { Tried::DoesNotFit };
        }
        self.unlink(call);
        self.ordered_placed += usize::from(self.is_ordered[call as usize]);
        let before = std::mem::replace(&mut self.state, after);
        self.stack.push(Frame { call, before, cursor, forced });
        Tried::Placed
    }

    /// Adds a call to the placed ones, or takes it from them.
    fn flip(&mut self, call: u32, cursor: Cursor) {
        match cursor {
            Cursor::Idle(_) | Cursor::Event(_) => self.set ^= token(call as usize),
            Cursor::Optional(at) => self.optional_set[at / 64] ^= 1 << (at % 64),
        }
    }

    /// Whether the call placed last need not have been placed for this one to lead to the state `after`.
    fn makes_the_last_needless(&mut self, call: u32, after: &M::State) -> bool {
        let Some(last) = self.stack.last() else { return false };
        if self.calls[last.call as usize].returned.is_some() {
            return false;
        }
        self.steps += 1;
        let Call { input, output, .. } = self.calls[call as usize];
        self.model.step(&last.before, input, output).is_some_and(|without| without == *after)
    }

    /// Takes back the last placed call that had alternatives. Where the search goes on, or nothing if there was none.
    fn take_back(&mut self) -> Option<Cursor> {
        loop {
            let frame = self.stack.pop()?;
            self.flip(frame.call, frame.cursor);
            self.ordered_placed -= usize::from(self.is_ordered[frame.call as usize]);
            self.relink(frame.call);
            self.state = frame.before;
            if !frame.forced {
                return Some(self.following(frame.cursor));
            }
        }
    }

    fn unlink(&mut self, call: u32) {
        let (call, its_return) = self.places[call as usize];
        for at in [call, its_return].into_iter().filter(|&at| at != 0) {
            let Event { previous, next, .. } = self.events[at as usize];
            self.events[previous as usize].next = next;
            self.events[next as usize].previous = previous;
        }
    }

    /// Undoes [`Self::unlink`]; in the reverse order, as the two events may have been neighbours.
    fn relink(&mut self, call: u32) {
        let (call, its_return) = self.places[call as usize];
        for at in [its_return, call].into_iter().filter(|&at| at != 0) {
            let Event { previous, next, .. } = self.events[at as usize];
            self.events[previous as usize].next = at;
            self.events[next as usize].previous = at;
        }
    }
}

/// For each optional call, the last one before it that may stand for it.
fn twins<M: Model>(calls: &[Call<'_, M>], optional: &[u32]) -> Vec<Option<u32>> {
    let input = |place: usize| {
        let call = calls[optional[place] as usize];
        call.output.is_none().then_some(call.input)
    };
    let twin = |place: usize| (0..place).rev().find(|&before| input(place).is_some() && input(before) == input(place));
    (0..optional.len()).map(|place| twin(place).map(|before| before as u32)).collect()
}

/// The calls that must be placed and that the model orders.
fn ordered<M: Model>(model: &M, calls: &[Call<'_, M>]) -> Vec<u32> {
    let place =
        |call: &Call<'_, M>| call.output.filter(|_| call.returned.is_some()).and_then(|o| model.place(call.input, o));
    let mut order: Vec<(u64, u32)> = (0..).zip(calls).filter_map(|(index, call)| Some((place(call)?, index))).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, index)| index).collect()
}

/// The events of the calls that returned, linked in the order of their times; at one time, calls before returns.
fn list<M: Model>(calls: &[Call<'_, M>]) -> (Vec<Event>, Vec<(u32, u32)>) {
    let mut order: Vec<(Time, bool, u32)> = Vec::with_capacity(calls.len() * 2);
    for (index, call) in calls.iter().enumerate() {
        if let Some(returned) = call.returned {
            assert!(returned >= call.invoked, "an operation returns after it was invoked");
            order.push((call.invoked, false, index as u32));
            order.push((returned, true, index as u32));
        }
    }
    order.sort_unstable();
    let end = order.len() as u32;
    let mut places = vec![(0, 0); calls.len()];
    let mut events =
        vec![Event { previous: end, next: u32::from(end > 0), call: 0, is_return: true, time: Time::NEVER }];
    for (at, (time, is_return, call)) in (1..).zip(order) {
        let next = if at == end { 0 } else { at + 1 };
        events.push(Event { previous: at - 1, next, call, is_return, time });
        if is_return { places[call as usize].1 = at } else { places[call as usize].0 = at }
    }
    (events, places)
}
