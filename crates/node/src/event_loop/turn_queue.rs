//! Connections that wait for their turn.

use std::collections::{HashMap, VecDeque};

use mio::Token;

/// Why a connection has its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cause {
    /// The other side has ended it, or it is broken: it is looked at even if it is held back.
    pub is_over: bool,
    /// There was an event before this turn: what it said may be old.
    pub is_late: bool,
}

/// Connections that wait for their turn, each once.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queue: VecDeque<Token>,
    causes: HashMap<Token, Cause>,
}

impl Turns {
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// An event says that there is something.
    pub fn add(&mut self, token: Token, is_over: bool) {
        self.put(token, Cause { is_over, is_late: false });
    }

    /// There may be more of one that had its turn.
    pub fn add_again(&mut self, token: Token, is_over: bool) {
        self.put(token, Cause { is_over, is_late: true });
    }

    fn put(&mut self, token: Token, cause: Cause) {
        let known = self.causes.entry(token).or_insert_with(|| {
            self.queue.push_back(token);
            cause
        });
        *known = Cause { is_over: known.is_over || cause.is_over, is_late: known.is_late || cause.is_late };
    }

    pub fn next(&mut self) -> Option<(Token, Cause)> {
        let token = self.queue.pop_front()?;
        Some((token, self.causes.remove(&token).unwrap_or_default()))
    }

    /// Those that are chosen, which do not wait any more.
    pub fn take(&mut self, is_chosen: impl Fn(Token) -> bool) -> Vec<(Token, Cause)> {
        let (chosen, rest) = self.queue.iter().copied().partition(|token| is_chosen(*token));
        self.queue = rest;
        let chosen: VecDeque<Token> = chosen;
        chosen.into_iter().map(|token| (token, self.causes.remove(&token).unwrap_or_default())).collect()
    }
    /// Those that are left wait for a later turn: nobody asks whether their events are as old as this one.
    pub fn leave_for_later(&mut self) {
        self.causes.values_mut().for_each(|cause| cause.is_late = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_waits_once_and_behind_those_that_were_there_before() {
        let mut turns = Turns::default();
        for token in [3, 4, 3, 5] {
            turns.add(Token(token), false);
        }
        let (first, cause) = turns.next().unwrap();
        assert_eq!((first, cause), (Token(3), Cause::default()));
        turns.add_again(first, false);
        // It ends while it waits, and keeps its place.
        turns.add(Token(4), true);
        let order: Vec<(Token, Cause)> = std::iter::from_fn(|| turns.next()).collect();
        let (over, late) = (Cause { is_over: true, is_late: false }, Cause { is_over: false, is_late: true });
        assert_eq!(order, [(Token(4), over), (Token(5), Cause::default()), (Token(3), late)]);
        assert!(turns.is_empty() && turns.causes.is_empty());
    }

    #[test]
    fn the_chosen_are_taken_out_in_order() {
        let mut turns = Turns::default();
        (3..9).for_each(|token| turns.add(Token(token), false));
        let odd: Vec<usize> = turns.take(|token| token.0 % 2 == 1).into_iter().map(|(token, _)| token.0).collect();
        assert_eq!((odd, turns.len(), turns.causes.len()), (vec![3, 5, 7], 3, 3));
    }
}
