//! Who is at the other end of a connection.

use machine::{Control, ServerId, Time};
use mio::Token;
use store::protocol::{
    Admin, ClientMessage, Error, Hello, Request, RequestBody, Response, Role, ServerMessage, VERSION_MIN, Welcome,
    spoken_by_refuser,
};
use store::{ClientId, Input};

use super::{Connection, Kind, Node};
use crate::cluster::caller::host;

/// Why a server is not let in.
fn too_old(version: u32, spoken: u32) -> String {
    format!(
        "all servers of this cluster speak version {spoken} of the protocol, and this program only {version}: start the server with the \
         release of the others"
    )
}

impl Node {
    /// Somebody says who he is.
    pub(super) fn greeted(
        &mut self,
        now: Time,
        token: Token,
        connection: &mut Connection,
        hello: &Hello,
    ) -> Result<u32, String> {
        let version = hello.check()?;
        connection.stream.limit_frames(store::protocol::FRAME_MAX);
        match hello.role {
            Role::Client { .. } | Role::User { .. } => {
                self.admit_client(connection.host)?;
                self.strangers.remove(token);
                let client = ClientId(self.next_client);
                self.next_client += 1;
                let shown = if let Role::User { token, .. } = &hello.role { Some(token) } else { None };
                self.identify(now, client, connection, shown)?;
                connection.kind = Kind::Client { client, version };
                self.clients.insert(client, token);
            }
            Role::Peer { cluster, server, to } => {
                let own = self.parts.server.id();
                if cluster != self.parts.cluster {
                    return Err(format!(
                        "server {own} belongs to cluster {:016x}, not to {cluster:016x}: is an address of another cluster in use?",
                        self.parts.cluster
                    ));
                }
                if to != own || server == own {
                    return Err(format!("server {server} looks for server {to}, and this is server {own}"));
                }
                let spoken = self.parts.server.protocol();
                if version < spoken {
                    return Err(too_old(version, spoken));
                }
                self.check_peer(server, connection)?;
                self.strangers.remove(token);
                connection.kind = Kind::From(server);
                if let Some(old) = self.incoming.insert(server, token) {
                    self.close(now, old, "the peer has connected again");
                }
                self.peers.heard(now, server);
            }
        }
        Ok(version)
    }

    /// With TLS, a peer's certificate has to be a server's, and for the host where that server is: so says the map, or what was
    /// told at joining. Of a server that is not known yet (it joined while this one was away, and may be the only one that can
    /// tell), only the former can be asked.
    fn check_peer(&self, server: ServerId, connection: &Connection) -> Result<(), String> {
        let Some(tls) = &self.parts.tls else { return Ok(()) };
        let in_map = self.parts.server.map().members().get(&server).map(|member| member.address.as_str());
        let host = in_map.or_else(|| self.peers.address(server)).map(host);
        tls.check_server(connection.stream.certificates(), host).map_err(|reason| {
            let from = connection.stream.peer();
            tracing::warn!("{from} says that it is server {server}, and is refused: {reason}");
            format!(
                "server {} does not take you for server {server}: {reason}; a server that moves to another host needs a \
                 certificate for both until the cluster knows of it",
                self.parts.server.id()
            )
        })
    }

    /// A server of an older version than the cluster's would be taken in, and then be refused by everybody: what it is answered instead.
    pub(super) fn refuse_join(&self, version: u32, message: &ClientMessage) -> Option<ServerMessage> {
        let spoken = self.parts.server.protocol();
        match message {
            ClientMessage::Request(Request { sequence, body: RequestBody::Admin(Admin::Join { .. }), .. })
                if version < spoken =>
            {
                let result = Err(Error::Invalid(too_old(version, spoken)));
                Some(ServerMessage::Response(Response { sequence: *sequence, leader: None, result }))
            }
            _ => None,
        }
    }

    /// A peer has answered our greeting.
    pub(super) fn welcomed(&mut self, now: Time, peer: ServerId, welcome: Welcome) -> Result<(), String> {
        match welcome {
            Welcome::Accepted { version, cluster, server, .. } if cluster == self.parts.cluster && server == peer => {
                tracing::debug!("connected to server {peer}, protocol version {version}");
                self.peers.welcomed(peer);
                self.parts.server.handle(now, Input::PeerSpeaks { peer, version });
                Ok(())
            }
            Welcome::Accepted { cluster, server, .. } => {
                let message =
                    format!("server {server} of cluster {cluster:016x} answers where server {peer} should be");
                tracing::warn!("{message}");
                Err(message)
            }
            Welcome::Refused(reason)
                if self.parts.server.protocol() == VERSION_MIN && spoken_by_refuser(&reason).is_some() =>
            {
                self.peers.fall_back(peer);
                Err("it speaks an older version".into())
            }
            Welcome::Refused(reason) => {
                tracing::warn!("server {peer} refuses: {reason}");
                Err(reason)
            }
        }
    }
}
