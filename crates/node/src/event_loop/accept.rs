//! Connections that others make: how many, and what they may say before they have said who they are.

use machine::nanos::Time;
use mio::net::TcpStream;
use store::protocol::{Error as Refusal, Response, ServerMessage, Unreadable, request_sequence};

use super::accepting::Next;
use super::connections::{Connection, Kind};
use super::state::EventLoop;
use crate::Tls;
use crate::remote::RemoteHost;
use crate::stream::Stream;

/// Longest first frame of somebody unknown.
const GREETING_BYTES_MAX: usize = 1_024;

/// Longest request of somebody who is no user, in a cluster that has users: whatever such a client may ask is short.
const NOBODY_BYTES_MAX: usize = 64 << 10;

/// So many bytes say which request it is.
const HEAD_BYTES: usize = 32;

/// Connections accepted in one turn.
const ACCEPTS_A_TURN: usize = 64;

impl EventLoop {
    pub(super) fn accept(&mut self, now: Time) {
        for _ in 0..ACCEPTS_A_TURN {
            match self.accepting.next(&self.parts.listener) {
                Next::Socket(socket) => self.admit(now, socket),
                Next::Gone => {}
                Next::Nobody => return,
            }
        }
    }

    fn admit(&mut self, now: Time, socket: TcpStream) {
        let tls = match self.parts.tls.as_ref().map(Tls::accept).transpose() {
            Ok(tls) => tls,
            Err(error) => return tracing::error!("TLS: {error}"),
        };
        let (Ok(peer), Ok(local)) = (socket.peer_addr(), socket.local_addr()) else { return };
        let host = RemoteHost::of(&socket, peer, local);
        let mut stream = Stream::accepted(socket, tls);
        stream.limit_frames(GREETING_BYTES_MAX);
        let token = self.tokens.next();
        if let Err(error) = stream.register(self.parts.poll.registry(), token) {
            return tracing::warn!("cannot watch a connection: {error}");
        }
        let connection = Connection { stream, kind: Kind::Unknown { since: now }, host: Some(host) };
        self.connections.insert(token, connection);
        if let Some(displaced) = self.strangers.insert(token, host) {
            let reason = "it has not said who it is, and another one wants its place";
            self.close(now, displaced, reason);
        }
    }

    /// A long request is not waited for, nor read, if it comes from nobody known.
    ///
    /// # Errors
    /// Why the connection is to be closed. The client hears of it as well.
    pub(super) fn check_long_request(&mut self, connection: &mut Connection) -> Result<(), String> {
        let Kind::Client { client, .. } = connection.kind else { return Ok(()) };
        let Some((length, start)) = connection.stream.announced().filter(|(length, start)| {
            *length > NOBODY_BYTES_MAX && start.len() >= HEAD_BYTES && !self.parts.server.takes_long_requests(client)
        }) else {
            return Ok(());
        };
        let reason = format!(
            "a request of {length} bytes of nobody known: whoever has not logged in may send {NOBODY_BYTES_MAX} at most; hint: \
             --token-file FILE or HEDDLE_TOKEN, or the certificate of a user"
        );
        let sequence = request_sequence(start);
        self.refusals.count(&connection.caller(), "request", "too long", &reason);
        if let Some(audit) = &mut self.parts.audit {
            audit.refused_unread(&connection.stream.peer(), &reason);
        }
        if let Some(sequence) = sequence {
            let response = Response { sequence, leader: None, result: Err(Refusal::Denied(reason.clone())) };
            connection.stream.put(&ServerMessage::Response(response)).expect("a refusal is short");
            // The answer gets there before the connection is closed.
            connection.stream.flush()?;
        }
        Err(reason)
    }

    /// A client hears what is wrong with its request. Only what is no request at all costs it the connection.
    ///
    /// # Errors
    /// Why the connection is to be closed.
    pub(super) fn refuse_unreadable(
        &mut self,
        connection: &mut Connection,
        unreadable: Unreadable,
    ) -> Result<(), String> {
        let caller = connection.caller();
        match unreadable {
            Unreadable::Request { sequence, reason } => {
                self.refusals.count(&caller, "request", "invalid", &reason);
                let response = Response { sequence, leader: None, result: Err(Refusal::Invalid(reason)) };
                connection.stream.put(&ServerMessage::Response(response)).expect("a refusal is short");
                Ok(())
            }
            Unreadable::Frame(error) => {
                self.refusals.count(&caller, "connection", "no message", &error.to_string());
                Err(error.to_string())
            }
        }
    }
}
