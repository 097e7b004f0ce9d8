//! Identifies clients, and notes what they do.

use std::net::SocketAddr;

use machine::Control;
use machine::nanos::Time;
use placement::access::Credentials;
use store::protocol::{ClientMessage, Response, ServerMessage, Token};
use store::{About, Caller, ClientId, Input, RequestId};

use super::connections::Connection;
use super::requests::OWN_CLIENT;
use super::state::EventLoop;
use crate::remote::RemoteHost;
use crate::subject::common_name;
use crate::token;

impl EventLoop {
    /// The server's own requests are nobody else's to allow.
    pub(super) fn identify_self(&mut self, now: Time) {
        self.parts.server.handle(now, Input::Caller { client: OWN_CLIENT, caller: Caller::Server });
        self.report_wall_clock(now);
    }

    /// Tokens expire by the clock on the wall.
    pub(super) fn report_wall_clock(&mut self, now: Time) {
        self.parts.server.handle(now, Input::WallClock(token::wall_seconds()));
    }

    /// Reports to the server what a client has shown.
    pub(super) fn identify(
        &mut self,
        now: Time,
        client: ClientId,
        connection: &Connection,
        token: Option<&Token>,
    ) -> Result<(), String> {
        let address = connection.stream.peer_address();
        let certificates = connection.stream.certificates();
        if token.is_some() {
            self.admit_token(now, connection, address)?;
        }
        let certificate = certificates.and_then(|chain| common_name(chain.first()?));
        // Over TLS the certificate says who it is, and nothing else.
        let uid = match connection.host {
            Some(RemoteHost::Local(uid)) if certificates.is_none() => uid,
            Some(RemoteHost::Local(_) | RemoteHost::V4(_) | RemoteHost::V6(_)) | None => None,
        };
        let credentials = Credentials { certificate, token: token.map(token::hash), uid };
        self.parts.server.handle(now, Input::Caller { client, caller: Caller::Client(credentials) });
        if let Some(host) = connection.host {
            self.parts.server.handle(now, Input::Host { client, host: host.to_string() });
        }
        Ok(())
    }

    /// Whether a token may come by this connection at all.
    fn admit_token(&mut self, now: Time, connection: &Connection, address: Option<SocketAddr>) -> Result<(), String> {
        let Some(address) = address else { return Err("the connection is over".into()) };
        if connection.stream.certificates().is_none() && !address.ip().to_canonical().is_loopback() {
            return Err(
                "a token is taken over TLS or from this machine only: it has been shown to the network, replace it"
                    .into(),
            );
        }
        if let Some(host) = connection.host
            && let Some(wait) = self.logins.refuses(now, host)
        {
            let seconds = wait.as_ns() / 1_000_000_000 + 1;
            let why = format!("too many log-ins from {host} have failed: wait {seconds} s");
            if let Some(audit) = &mut self.parts.audit {
                audit.refused_log_in(&connection.stream.peer(), &why);
            }
            return Err(format!(
                "{why}; hint: wrong tokens came from there; until then a good one is not taken from there either"
            ));
        }
        Ok(())
    }

    /// A client has asked for something. Gives the answer if that cannot be noted, and has to be.
    pub(super) fn note_request(
        &mut self,
        (client, id): (ClientId, RequestId),
        connection: &Connection,
        message: &ClientMessage,
    ) -> Option<ServerMessage> {
        let audit = self.parts.audit.as_mut()?;
        let ClientMessage::Request(request) = message else { return None };
        let who = (self.parts.server.user(client), &self.parts.server.party(client));
        let error = audit.begin((client, id), &connection.stream.peer(), who, request)?;
        Some(ServerMessage::Response(Response { sequence: request.sequence, leader: None, result: Err(error) }))
    }

    /// A client is answered, or notified that its watch has ended.
    pub(super) fn note_answer(&mut self, client: ClientId, about: &About, message: &ServerMessage) {
        let (Some(audit), ServerMessage::Response(response)) = (&mut self.parts.audit, message) else { return };
        match about {
            About::Request(id) => audit.end((client, *id), self.parts.server.user(client), &response.result),
            About::EndOfWatch { session, at } => {
                let connection = self.clients.token(client).and_then(|token| self.connections.get(&token));
                // A client that has gone has ended it itself.
                let Some(connection) = connection else { return };
                let (address, watch) = (connection.stream.peer(), (*session, response.sequence));
                audit.end_of_watch(client, &address, watch, at, &response.result);
            }
            About::News => {}
        }
    }

    /// A client has sent a token that is worth nothing, and was refused.
    pub(super) fn bad_token(&mut self, now: Time, client: ClientId) {
        let Some(token) = self.clients.token(client) else { return };
        if let Some(connection) = self.connections.get(&token) {
            tracing::warn!("{}: a token that is worth nothing", connection.stream.peer());
            if let Some(host) = connection.host {
                self.logins.failed(now, host);
            }
        }
        // The answer gets there before the connection is closed.
        if self.send(now, token) {
            self.close(now, token, "its token is worth nothing");
        }
    }
}
