//! Connections that others make: how many, and what they may say before they have said who they are.

use std::io;

use machine::Time;
use mio::net::TcpStream;

use super::{Connection, Kind, Node};
use crate::cluster::Tls;
use crate::cluster::stream::Stream;

/// Connections that others made, at most; the limit of open files holds as well.
const CONNECTIONS_MAX: usize = 16_384;

/// Longest first frame of somebody unknown.
const GREETING_BYTES_MAX: usize = 1_024;

/// Connections accepted in one turn.
const ACCEPTS_A_TURN: usize = 64;

impl Node {
    pub(super) fn accept(&mut self, now: Time) {
        self.accepts = false;
        for _ in 0..ACCEPTS_A_TURN {
            match self.parts.listener.accept() {
                Ok((socket, _)) if self.connections.len() < CONNECTIONS_MAX => self.admit(now, socket),
                // It is closed at once.
                Ok((_, address)) => tracing::warn!("{address} refused: {CONNECTIONS_MAX} connections are open"),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of descriptors, or the other side has gone already. The sweep comes back to it.
                    tracing::warn!("cannot accept a connection: {error}");
                    return;
                }
            }
        }
        self.accepts = true;
    }

    fn admit(&mut self, now: Time, socket: TcpStream) {
        let tls = match self.parts.tls.as_ref().map(Tls::accept).transpose() {
            Ok(tls) => tls,
            Err(error) => return tracing::error!("TLS: {error}"),
        };
        let mut stream = Stream::accepted(socket, tls);
        stream.limit_frames(GREETING_BYTES_MAX);
        let token = self.tokens.next();
        match stream.register(self.parts.poll.registry(), token) {
            Ok(()) => drop(self.connections.insert(token, Connection { stream, kind: Kind::Unknown { since: now } })),
            Err(error) => tracing::warn!("cannot watch a connection: {error}"),
        }
    }
}
