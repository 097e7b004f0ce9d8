//! What the server says, on its way out; and how much of it, and of what others say, waits here. The server hears of it, since
//! it decides how much memory it holds for whom.

use machine::nanos::Time;
use machine::{Control, ServerId};
use mio::Token;
use store::budget::Kind as Held;
use store::peer::Envelope;
use store::protocol::{Error as Refusal, FrameError, Response, ServerMessage};
use store::{About, ClientId, Input};

use super::connections::Kind;
use super::greeting;
use super::requests::OWN_CLIENT;
use super::state::EventLoop;
use crate::refusals;

/// So many bytes for a client are sent before the turn is over.
const SEND_BYTES: usize = 256 << 10;

/// Bytes that may wait for all peers, as a part of the memory that may be held; further envelopes are dropped: Raft says
/// everything again that matters.
const PEERS_SHARE: usize = 4;

/// The same for parts of frames of clients.
const RECEIVED_SHARE: usize = 8;

impl EventLoop {
    pub(super) fn send_to_peer(&mut self, to: ServerId, envelope: &Envelope) {
        let token = self.peers.token(to);
        let Some((token, connection)) = token.and_then(|token| Some((token, self.connections.get_mut(&token)?))) else {
            self.waiting.dropped_envelopes += 1;
            return;
        };
        let before = connection.stream.waiting();
        let others = self.parts.server.map().members().len().saturating_sub(1).max(1);
        if before > self.parts.memory_bytes / PEERS_SHARE / others {
            self.waiting.dropped_envelopes += 1;
            return;
        }
        match connection.stream.put(envelope) {
            Ok(()) => {
                self.dirty.push(token);
            }
            Err(error) => {
                // The server cuts envelopes so that they fit.
                self.waiting.dropped_envelopes += 1;
                tracing::error!("an envelope for server {to} was dropped: {error}");
            }
        }
    }

    pub(super) fn send_to_client(&mut self, now: Time, client: ClientId, message: &ServerMessage, about: &About) {
        if client == OWN_CLIENT
            && let ServerMessage::Response(Response { result: Err(error), .. }) = message
        {
            tracing::warn!("our own request: {error}");
        }
        if client != OWN_CLIENT {
            self.note_answer(client, about, message);
        }
        let Some(token) = self.clients.token(client) else {
            self.parts.server.handle(now, Input::Waiting { client, bytes: 0 });
            return;
        };
        let connection = self.connections.get_mut(&token).expect("each client has its connection");
        let Kind::Client { version, .. } = connection.kind else { unreachable!("a client's connection is a client's") };
        if let ServerMessage::Response(Response { result: Err(error), .. }) = message
            && let Some(reason) = refusals::reason(error)
        {
            self.refusals.count(&connection.caller(), "request", reason, &error.to_string());
        }
        let admission = greeting::admission(&self.parts.secrets, self.parts.server.map(), version, message);
        let message = admission.as_ref().unwrap_or(message);
        let completed = self.refusals.complete(message, || self.parts.disk.wants());
        let message = completed.as_ref().unwrap_or(message);
        if let Err(FrameError::TooLong(bytes)) = connection.stream.put(&*message.for_version(version)) {
            let ServerMessage::Response(response) = message else {
                // The server cuts events so that they fit; a call's input has a bound.
                tracing::error!("a message of {bytes} bytes for a client was dropped");
                self.close(now, token, "what it has to know cannot be sent to it");
                return;
            };
            let result = Err(Refusal::TooLarge(bytes as u64));
            let response = Response { sequence: response.sequence, leader: response.leader.clone(), result };
            connection.stream.put(&ServerMessage::Response(response)).expect("a refusal is short");
        }
        if connection.stream.waiting() > SEND_BYTES {
            // At once, while the kernel takes it: there may be as much again to come.
            self.send(now, token);
        } else if self.dirty.last() != Some(&token) {
            self.dirty.push(token);
        }
    }

    /// Sends what waits. Whether the server has something to do by that: connections were lost, or there is room for more.
    pub(super) fn flush(&mut self, now: Time) -> bool {
        let mut lost = false;
        for token in std::mem::take(&mut self.dirty) {
            lost |= !self.send(now, token);
        }
        self.read_on();
        lost || self.parts.server.has_output()
    }

    /// Sends what waits for one connection; `false` if it is lost by that.
    pub(super) fn send(&mut self, now: Time, token: Token) -> bool {
        let Some(connection) = self.connections.get_mut(&token) else { return true };
        let outcome = connection.stream.flush();
        let waiting = connection.stream.waiting();
        let kind = connection.kind;
        if matches!(kind, Kind::To { .. }) {
            self.note_waiting(now, token, waiting);
        }
        if let Err(reason) = outcome {
            self.close(now, token, &reason);
            return false;
        }
        if let Kind::Client { client, .. } = kind {
            self.parts.server.handle(now, Input::Waiting { client, bytes: waiting });
            self.half_closed.note_sent(token);
        }
        true
    }

    /// Whether a connection is not read for now. Then it is, when the server holds less for it.
    pub(super) fn holds_back(&mut self, token: Token) -> bool {
        let Some(Kind::Client { client, .. }) = self.connections.get(&token).map(|connection| connection.kind) else {
            return false;
        };
        let held = !self.parts.server.may_read(client);
        if held {
            self.waiting.hold_back(token);
        }
        held
    }

    /// Clients whose turn it is again.
    fn read_on(&mut self) {
        if self.waiting.held_back.is_empty() {
            return;
        }
        for token in std::mem::take(&mut self.waiting.held_back) {
            if self.connections.contains_key(&token) && !self.holds_back(token) {
                self.turns.add_again(token, false);
            }
        }
    }

    /// So many bytes wait for a peer now, whoever has sent some of them.
    fn note_waiting(&mut self, now: Time, token: Token, bytes: usize) {
        let before =
            if bytes == 0 { self.waiting.to_peers.remove(&token) } else { self.waiting.to_peers.insert(token, bytes) };
        self.waiting.peers = self.waiting.peers + bytes - before.unwrap_or_default();
        let bytes = self.waiting.peers;
        self.parts.server.handle(now, Input::Held { kind: Held::Peers, bytes });
    }

    /// A connection has been read: what it holds of a frame that is not whole. Those who hold most make
    /// room.
    pub(super) fn note_received(&mut self, now: Time, token: Token) {
        let to_peer = self.connections.get(&token).filter(|connection| matches!(connection.kind, Kind::To { .. }));
        if let Some(waiting) = to_peer.map(|connection| connection.stream.waiting()) {
            self.note_waiting(now, token, waiting);
        }
        let bytes = self.connections.get(&token).map_or(0, |connection| connection.stream.received());
        let since = self.waiting.partial.get(&token).copied();
        if bytes == since.map_or(0, |(_, bytes)| bytes) {
            return;
        }
        self.waiting.received = self.waiting.received + bytes - since.map_or(0, |(_, bytes)| bytes);
        if bytes == 0 {
            self.waiting.partial.remove(&token);
        } else {
            self.waiting.partial.insert(token, (since.map_or(now, |(since, _)| since), bytes));
        }
        while self.waiting.received > self.parts.memory_bytes / RECEIVED_SHARE {
            let Some(greediest) = self.greediest() else { break };
            self.waiting.unfinished_frames += 1;
            self.close(now, greediest, "its message does not come to an end, and others want the room");
        }
        let bytes = self.waiting.received;
        self.parts.server.handle(now, Input::Held { kind: Held::Received, bytes });
    }

    /// A connection is closed: nothing waits in it any more.
    pub(super) fn forget_waiting(&mut self, now: Time, token: Token, kind: Kind) {
        if let Some((_, bytes)) = self.waiting.partial.remove(&token) {
            self.waiting.received -= bytes;
            let bytes = self.waiting.received;
            self.parts.server.handle(now, Input::Held { kind: Held::Received, bytes });
        }
        if matches!(kind, Kind::To { .. }) {
            self.note_waiting(now, token, 0);
        }
    }
}
