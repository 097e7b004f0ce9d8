//! Clients that say nothing more and still read, as `nc -N` does: they get the answers to what they have asked, and then the end.
//!
//! Such a connection counts as a client's until it is gone. It watches and offers nothing any more, since it could not say
//! when that has to end.

use std::collections::HashMap;

use machine::Control;
use machine::nanos::{Span, Time};
use mio::Token;
use store::Input;

use super::{EventLoop, Kind};

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
}

impl EventLoop {
    /// The other side of a connection says nothing more.
    pub(super) fn input_ended(&mut self, now: Time, token: Token) {
        let Some(connection) = self.connections.get(&token) else { return };
        let Kind::Client { client, .. } = connection.kind else {
            // A client that only looks whether somebody listens is refused nothing.
            return self.end(now, token, "closed by the other side", false);
        };
        let half = self.half_closed.all.entry(token);
        let half = half.or_insert(Half { until: now + ANSWER_PATIENCE, is_silent: false });
        // What it has sent may have to wait until the server holds less for it.
        if !half.is_silent && !connection.stream.has_frame() {
            half.is_silent = true;
            self.parts.server.handle(now, Input::ClientSilent(client));
        }
        self.half_closed.note_sent(token);
    }

    /// Ends the connections of those who have all they are owed; whether there were any. The server has nothing to say at this
    /// moment.
    pub(super) fn end_answered(&mut self, now: Time) -> bool {
        let mut has_ended = false;
        for token in std::mem::take(&mut self.half_closed.sent) {
            let is_silent = self.half_closed.all.get(&token).is_some_and(|half| half.is_silent);
            let Some(connection) = self.connections.get_mut(&token).filter(|_| is_silent) else { continue };
            let Kind::Client { client, .. } = connection.kind else { continue };
            if connection.stream.is_sent() && !self.parts.server.owes_answers(client) {
                connection.stream.say_end();
                self.end(now, token, "closed by the other side, and answered", false);
                has_ended = true;
            }
        }
        has_ended
    }

    /// Ends the connections of those whose time is over.
    pub(super) fn end_unanswered(&mut self, now: Time) {
        let is_over = |(token, half): (&Token, &Half)| (half.until <= now).then_some(*token);
        let over: Vec<Token> = self.half_closed.all.iter().filter_map(is_over).collect();
        for token in over {
            if let Some(connection) = self.connections.get_mut(&token) {
                connection.stream.say_end();
            }
            self.end(now, token, "closed by the other side, and not answered in time", false);
        }
    }
}
