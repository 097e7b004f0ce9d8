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

use machine::Control;
use machine::nanos::Time;
use mio::Token;
use store::protocol::{Hello, decode, decode_client};
use store::{About, Input};

use super::connections::{Connection, Kind};
use super::state::EventLoop;
use super::turn_queue::Cause;
use crate::stream::{Received, TURN_BYTES, TURN_BYTES_MAX};

/// What a turn takes of all clients together, about: a frame costs one, and so do [`COST_BYTES`] that are received, read for an
/// answer, or answered at once.
const TURN_COST: usize = 1_024;

/// What a turn takes of one client, at least and at most: less, the more there are. One frame in any case.
const SHARE_COST: (usize, usize) = (8, 64);

/// So many bytes cost as much as a frame.
const COST_BYTES: usize = 1 << 10;

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
        self.turns.leave_for_later();
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
                    let id = self.requests.number();
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
