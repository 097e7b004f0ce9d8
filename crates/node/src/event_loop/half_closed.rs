//! Clients that say nothing more and still read, as `nc -N` does: they get the answers to what they have asked, and then the end.
//!
//! Such a connection counts as a client's until it is gone. It watches and offers nothing any more, since it could not say
//! when that has to end.

use std::collections::HashMap;

use machine::nanos::{Span, Time};
use mio::Token;

/// Whoever says nothing more is answered within this, or not at all.
const ANSWER_PATIENCE: Span = Span::from_secs(10);

/// How it goes on with one of them.
#[derive(Clone, Copy, Debug)]
struct Half {
    /// It is closed then in any case.
    until: Time,
    /// All that it has said is taken in.
    is_silent: bool,
}

/// Connections of such clients.
#[derive(Debug, Default)]
pub(super) struct HalfClosed {
    all: HashMap<Token, Half>,
    /// Those that may have been sent all they are owed.
    sent: Vec<Token>,
}

impl HalfClosed {
    /// Something was sent by a connection.
    pub fn note_sent(&mut self, token: Token) {
        if self.all.contains_key(&token) && self.sent.last() != Some(&token) {
            self.sent.push(token);
        }
    }

    /// A connection has ended.
    pub fn forget(&mut self, token: Token) {
        self.all.remove(&token);
    }
    /// The other side of a connection says nothing more. Gives whether all that it has said is taken in, and was not before.
    pub fn note_end(&mut self, now: Time, token: Token, has_frame: bool) -> bool {
        let half = self.all.entry(token).or_insert(Half { until: now + ANSWER_PATIENCE, is_silent: false });
        let is_news = !half.is_silent && !has_frame;
        half.is_silent |= is_news;
        is_news
    }

    /// Those that have said all, and may have been sent all they are owed.
    pub fn take_sent(&mut self) -> Vec<Token> {
        let mut sent = std::mem::take(&mut self.sent);
        sent.retain(|token| self.all.get(token).is_some_and(|half| half.is_silent));
        sent
    }

    /// Those whose time is over.
    pub fn over(&self, now: Time) -> Vec<Token> {
        self.all.iter().filter_map(|(token, half)| (half.until <= now).then_some(*token)).collect()
    }
}
