//! Gives connections their turns: what they have sent is taken in by shares.
//!
//! A turn of the loop takes a share of each connection that has something, answers, and begins anew; what is left of a
//! connection waits behind all others. So a request waits for one share of each connection that was there before, however much
//! these have asked for. Peers come first, and whole: without them nobody is answered.
//!
//! ```text
//!   events --> queue --next--> a share of frames --> more is there: to the queue's end
//!                                    `------------> the server holds enough for it: held back, until `read_on`
//! ```
//!
//! What always holds: a connection of which something may be there to be read, or to be taken in, waits in the queue, is held
//! back, or will have an event.

use std::collections::{HashMap, VecDeque};

use machine::Control;
use machine::nanos::Time;
use mio::Token;
use store::protocol::{Hello, decode, decode_client};
use store::{About, Input};

use super::{Connection, EventLoop, Kind};
use crate::stream::{Received, TURN_BYTES, TURN_BYTES_MAX};

/// What a turn takes of all clients together, about: a frame costs one, and so do [`COST_BYTES`] that are received, read for an
/// answer, or answered at once.
const TURN_COST: usize = 1_024;

/// What a turn takes of one client, at least and at most: less, the more there are. One frame in any case.
const SHARE_COST: (usize, usize) = (8, 64);

/// So many bytes cost as much as a frame.
const COST_BYTES: usize = 1 << 10;

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

    fn len(&self) -> usize {
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

    fn next(&mut self) -> Option<(Token, Cause)> {
        let token = self.queue.pop_front()?;
        Some((token, self.causes.remove(&token).unwrap_or_default()))
    }

    /// Those that are chosen, which do not wait any more.
    fn take(&mut self, is_chosen: impl Fn(Token) -> bool) -> Vec<(Token, Cause)> {
        let (chosen, rest) = self.queue.iter().copied().partition(|token| is_chosen(*token));
        self.queue = rest;
        let chosen: VecDeque<Token> = chosen;
        chosen.into_iter().map(|token| (token, self.causes.remove(&token).unwrap_or_default())).collect()
    }
}

impl EventLoop {
    /// A share of each connection that waits, as far as one turn goes.
    pub(super) fn take_turns(&mut self, now: Time) {
        let connections = &self.connections;
        let is_peers = |token| {
            let kind = connections.get(&token).map(|connection| connection.kind);
            matches!(kind, Some(Kind::From(_) | Kind::To { .. }))
        };
        for (token, cause) in self.turns.take(is_peers) {
            self.receive(now, token, cause, usize::MAX);
        }
        let waiting = self.turns.len();
        let share = (TURN_COST / waiting.max(1)).clamp(SHARE_COST.0, SHARE_COST.1);
        let mut cost = 0;
        for _ in 0..waiting {
            let Some((token, cause)) = self.turns.next() else { break };
            cost += self.receive(now, token, cause, share);
            if cost >= TURN_COST {
                break;
            }
        }
        if !self.turns.is_empty() {
            // Nobody asks whether their events are as old as this turn.
            self.turns.causes.values_mut().for_each(|cause| cause.is_late = true);
        }
    }

    /// Takes in a share of what a connection has sent; gives what that cost.
    fn receive(&mut self, now: Time, token: Token, cause: Cause, share: usize) -> usize {
        if !cause.is_over && self.holds_back(token) {
            // It may take more of what is sent to it.
            self.dirty.push(token);
            return 0;
        }
        let Some(mut connection) = self.connections.remove(&token) else { return 0 };
        let mut cost = 0;
        let outcome = self.take_in(now, token, &mut connection, cause, (&mut cost, share));
        if matches!(connection.kind, Kind::Client { client, .. } if self.parts.server.unread_bytes(client) > 0) {
            // Some of it may have gone.
            self.dirty.push(token);
        }
        self.connections.insert(token, connection);
        self.note_received(now, token);
        match outcome {
            Ok(Received::All) => {}
            Ok(Received::More) => self.turns.add_again(token, cause.is_over),
            Ok(Received::Ended) => self.input_ended(now, token),
            Err(reason) => self.close(now, token, &reason),
        }
        cost
    }

    /// Receives, and handles whole frames until they have cost the share. The connection is out of the table meanwhile.
    fn take_in(
        &mut self,
        now: Time,
        token: Token,
        connection: &mut Connection,
        cause: Cause,
        (cost, share): (&mut usize, usize),
    ) -> Result<Received, String> {
        let is_held = matches!(connection.kind, Kind::Client { client, .. } if !self.parts.server.may_read(client));
        // What is there is taken in before more is read: nobody's frames wait here by the megabyte.
        let received = if !connection.stream.has_frame() || is_held {
            let turn_bytes = if share == usize::MAX || is_held { TURN_BYTES_MAX } else { TURN_BYTES };
            let before = connection.stream.pending();
            let received = connection.stream.receive_some(cause.is_over || cause.is_late, turn_bytes)?;
            *cost += (connection.stream.pending() - before) / COST_BYTES;
            received
        } else {
            Received::More
        };
        self.check_long_request(connection)?;
        if is_held {
            self.waiting.hold_back(token);
            return Ok(if received == Received::Ended { received } else { Received::All });
        }
        let mut is_first = true;
        while let Some(body) = connection.stream.frame().map_err(|error| error.to_string())? {
            if *cost >= share && !std::mem::take(&mut is_first) {
                connection.stream.flush()?;
                return Ok(Received::More);
            }
            let length = body.len();
            let (unread, read) = (self.unread_bytes(connection.kind), self.parts.server.read_bytes());
            self.take_frame(now, token, connection)?;
            connection.stream.took(length);
            self.check_long_request(connection)?;
            let answered = self.unread_bytes(connection.kind).saturating_sub(unread);
            let read = (self.parts.server.read_bytes() - read) as usize;
            *cost += 1 + answered.max(read) / COST_BYTES;
            if matches!(connection.kind, Kind::Client { client, .. } if !self.parts.server.may_read(client)) {
                // What else is there waits where it is.
                self.waiting.hold_back(token);
                connection.stream.flush()?;
                return Ok(if received == Received::Ended { received } else { Received::All });
            }
        }
        connection.stream.flush()?;
        Ok(received)
    }

    /// Messages to a client that have not been sent.
    fn unread_bytes(&self, kind: Kind) -> usize {
        if let Kind::Client { client, .. } = kind { self.parts.server.unread_bytes(client) } else { 0 }
    }

    /// Handles the frame that is there.
    fn take_frame(&mut self, now: Time, token: Token, connection: &mut Connection) -> Result<(), String> {
        let Some(body) = connection.stream.frame().map_err(|error| error.to_string())? else { return Ok(()) };
        match connection.kind {
            Kind::Client { client, version } => match decode_client(body) {
                Ok(message) => {
                    let id = self.next_request();
                    if let Some(refusal) = self.note_request((client, id), connection, &message) {
                        connection.stream.put(&refusal).expect("a refusal is short");
                    } else if let Some(refusal) = self.refuse_join(now, version, &message, connection) {
                        self.note_answer(client, &About::Request(id), &refusal);
                        connection.stream.put(&refusal).expect("a refusal is short");
                    } else {
                        // By the clock of this moment: a lease must not be judged by what it showed before this was read.
                        self.parts.server.handle(self.parts.clock.now(), Input::Client { client, id, message });
                    }
                }
                Err(unreadable) => self.refuse_unreadable(connection, unreadable)?,
            },
            Kind::From(from) => {
                let envelope = decode(body).map_err(|error| error.to_string())?;
                self.parts.server.handle(self.parts.clock.now(), Input::Peer { from, envelope });
            }
            Kind::To { peer, .. } => {
                let welcome = decode(body).map_err(|error| error.to_string())?;
                self.answered(now, (token, peer), connection, welcome)?;
            }
            Kind::Unknown { .. } => {
                let hello: Hello = decode(body).map_err(|error| error.to_string())?;
                let outcome = self.greeted(now, token, connection, &hello);
                self.welcome(now, connection, outcome)?;
            }
            Kind::Challenged { server, .. } => {
                let proof = decode(body).map_err(|error| error.to_string())?;
                let outcome = self.proved(now, (token, server), connection, &proof);
                self.welcome(now, connection, outcome)?;
            }
        }
        Ok(())
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
