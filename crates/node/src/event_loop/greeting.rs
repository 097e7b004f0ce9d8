//! Identifies what is at the other end of a connection, and decides whether it may be there.
//!
//! ```text
//!   dialer                                        acceptor
//!     Hello { Peer { cluster, server, to } }  -->   member, by the map? certificate, or the process's user?
//!                                             <--   Challenge { nonce, secret }
//!     certificate, or the process's user?
//!     Proof { nonce, proof }                  -->   right?
//!                                             <--   Proven { proof }
//!     right?
//!     envelopes                               -->
//! ```
//!
//! Without TLS both look up whose process the other is, since another user may wait where a server is expected as well as he may
//! connect. A peer of version 1 is answered `Accepted` instead, while the map's protocol is 1. Decision 13 has the reasons.

use machine::nanos::Time;
use machine::{Control, ServerId};
use mio::Token;
use placement::Map;
use store::protocol::{
    Admin, Answer, ClientMessage, Error, FRAME_MAX, Hello, Proof, Request, RequestBody, Response, Role, ServerMessage,
    VERSION, VERSION_MIN, VERSION_WITH_PROOF, Welcome, spoken_by_refuser,
};
use store::{Input, Membership, Secret};

use super::connections::{Connection, Kind};
use super::handshake::Handshake;
use super::peer_refusals::{Reason, Refused};
use super::state::EventLoop;
use crate::Tls;
use crate::caller::host;
use crate::owner;
use crate::secret::{Secrets, Side, Transcript, random};
use crate::stream::Stream;

/// Why a server is not let in.
fn too_old(version: u32, spoken: u32) -> Refused {
    let text = format!(
        "all servers of this cluster speak version {spoken} of the protocol, and this program only {version}: start the server with the \
         release of the others"
    );
    Refused::new(Reason::Version, text)
}

/// The answer to a joiner of version 2: with the secret, once there is one.
pub(super) fn admission(secrets: &Secrets, map: &Map, version: u32, message: &ServerMessage) -> Option<ServerMessage> {
    let ServerMessage::Response(Response { sequence, leader, result: Ok(Answer::Joined { cluster, server, members }) }) =
        message
    else {
        return None;
    };
    if version == VERSION_MIN {
        return None;
    }
    let secret = map.secret().or(secrets.active()).and_then(|digest| secrets.find(digest)).cloned();
    let answer = Answer::Admitted { cluster: *cluster, server: *server, members: members.clone(), secret };
    Some(ServerMessage::Response(Response { sequence: *sequence, leader: leader.clone(), result: Ok(answer) }))
}

impl EventLoop {
    /// The digest of the secret that peers have to prove; none while the cluster has not agreed on one.
    fn demanded(&self) -> Option<[u8; 32]> {
        self.parts.server.map().secret().or(self.parts.secrets.active()).copied()
    }

    /// The version that all servers speak. A server that has joined knows it before it has the map.
    fn spoken(&self) -> u32 {
        let known = if self.demanded().is_some() { VERSION_WITH_PROOF } else { VERSION_MIN };
        self.parts.server.protocol().max(known)
    }

    /// Answers who has said who he is, or has proved it.
    pub(super) fn welcome(
        &mut self,
        now: Time,
        connection: &mut Connection,
        outcome: Result<Welcome, Refused>,
    ) -> Result<(), String> {
        let (welcome, end) = match outcome {
            Ok(welcome) => (welcome, Ok(())),
            Err(refused) => {
                self.peer_refusals.note(now, &connection.stream.peer(), &refused);
                let text = refused.text.clone();
                let proves = matches!(connection.kind, Kind::Challenged { .. });
                let welcome = match refused.reason {
                    Some(Reason::Removed) if proves => Welcome::Removed(text),
                    _ => Welcome::Refused(text),
                };
                (welcome, Err(refused.text))
            }
        };
        connection.stream.put(&welcome).expect("a welcome is short");
        // The reason gets there before the connection is closed.
        connection.stream.flush()?;
        end
    }

    /// A connection identifies itself.
    pub(super) fn greeted(
        &mut self,
        now: Time,
        token: Token,
        connection: &mut Connection,
        hello: &Hello,
    ) -> Result<Welcome, Refused> {
        let version = hello.check().map_err(|text| Refused::new(Reason::Version, text))?;
        match hello.role {
            Role::Client { .. } | Role::User { .. } => {
                self.clients.admit(connection.host, &self.parts.shares).map_err(Refused::client)?;
                connection.stream.limit_frames(FRAME_MAX);
                self.strangers.remove(token);
                let client = self.clients.number();
                let shown = if let Role::User { token, .. } = &hello.role { Some(token) } else { None };
                if let Err(text) = self.identify(now, client, connection, shown) {
                    self.clients.leave(connection.host);
                    return Err(Refused::client(text));
                }
                connection.kind = Kind::Client { client, version };
                self.clients.insert(client, token);
                Ok(self.accepted(version))
            }
            Role::Peer { cluster, server, to } => {
                self.check_addressee(cluster, server, to)?;
                if version < self.spoken() {
                    return Err(too_old(version, self.spoken()));
                }
                if version > VERSION_MIN {
                    return self.challenge(now, (token, server), connection, version);
                }
                self.check_peer(server, connection)?;
                tracing::warn!("server {server} speaks version 1 of the protocol, and is believed without a proof");
                self.let_in(now, (token, server), connection);
                self.handshakes.believe(token);
                Ok(self.accepted(version))
            }
        }
    }

    fn accepted(&self, version: u32) -> Welcome {
        let (cluster, server, name) = (self.parts.cluster, self.parts.server.id(), self.parts.name.clone());
        Welcome::Accepted { version, cluster, server, name }
    }

    fn check_addressee(&self, cluster: u64, server: ServerId, to: ServerId) -> Result<(), Refused> {
        let (own, own_cluster) = (self.parts.server.id(), self.parts.cluster);
        if cluster != own_cluster {
            let text = format!(
                "server {own} belongs to cluster {own_cluster:016x}, not to {cluster:016x}: is an address of another cluster in use?"
            );
            return Err(Refused::new(Reason::Cluster, text));
        }
        if to != own || server == own {
            let text = format!("server {server} looks for server {to}, and this is server {own}");
            return Err(Refused::new(Reason::Cluster, text));
        }
        Ok(())
    }

    fn challenge(
        &mut self,
        now: Time,
        (token, server): (Token, ServerId),
        connection: &mut Connection,
        version: u32,
    ) -> Result<Welcome, Refused> {
        connection.kind = Kind::Challenged { since: now, server };
        self.check_peer(server, connection)?;
        let failed = |text: String| Refused::new(Reason::Secret, text);
        let nonce = random().map_err(|error| failed(error.to_string()))?;
        let transcript = Transcript {
            cluster: self.parts.cluster,
            dialer: server,
            acceptor: self.parts.server.id(),
            acceptor_nonce: nonce,
            dialer_nonce: [0; 32],
            channel: connection.stream.channel().map_err(failed)?,
        };
        self.handshakes.begin(token, Handshake { transcript, secret: None, version });
        Ok(Welcome::Challenge { version, nonce, secret: self.demanded() })
    }

    /// A peer has answered a challenge.
    pub(super) fn proved(
        &mut self,
        now: Time,
        (token, server): (Token, ServerId),
        connection: &mut Connection,
        proof: &Proof,
    ) -> Result<Welcome, Refused> {
        let own = self.parts.server.id();
        let wrong = |why: &str| {
            let text = format!("server {own} does not take you for server {server}: {why}");
            Err(Refused::new(Reason::Secret, text))
        };
        let Some(mut handshake) = self.handshakes.take(token) else { return wrong("there was no challenge") };
        handshake.transcript.dialer_nonce = proof.nonce;
        let demanded = self.demanded();
        let known = proof.proof.as_ref().and_then(|(digest, proof)| Some((self.parts.secrets.find(digest)?, proof)));
        let answer = match known {
            Some((secret, _)) if demanded.is_some_and(|digest| digest != secret.digest) => {
                return wrong("it proves another secret than the cluster's");
            }
            Some((secret, proof)) if handshake.transcript.verify(secret, Side::Dialer, proof) => {
                Some(handshake.transcript.prove(secret, Side::Acceptor))
            }
            Some(_) => return wrong("its proof of the cluster's secret is wrong"),
            None if demanded.is_some() => return wrong("it does not prove that it knows the cluster's secret"),
            None => {
                tracing::info!("server {server} is believed without a proof: the cluster has not agreed on a secret");
                self.handshakes.believe(token);
                None
            }
        };
        self.let_in(now, (token, server), connection);
        Ok(Welcome::Proven { server: own, proof: answer })
    }

    /// Once the cluster has agreed on a secret, who was believed without one has to come again and prove it.
    pub(super) fn end_unproven(&mut self, now: Time) {
        if self.demanded().is_some() {
            for token in self.handshakes.take_unproven() {
                self.close(now, token, "the cluster has a secret now, which has to be proved");
            }
        }
    }

    /// From now on this connection is that of the peer.
    fn let_in(&mut self, now: Time, (token, server): (Token, ServerId), connection: &mut Connection) {
        connection.stream.limit_frames(FRAME_MAX);
        self.strangers.remove(token);
        connection.kind = Kind::From(server);
        if let Some(old) = self.incoming.insert(server, token) {
            self.close(now, old, "the peer has connected again");
        }
        self.peers.heard(now, server);
    }

    /// Whether this connection may be that of this server, but for the proof.
    fn check_peer(&self, server: ServerId, connection: &Connection) -> Result<(), Refused> {
        let own = self.parts.server.id();
        if self.parts.server.membership(server) == Membership::Removed {
            let text = format!("server {server} was removed from the cluster: its data folder may be deleted");
            return Err(Refused::new(Reason::Removed, text));
        }
        let Some(tls) = &self.parts.tls else {
            return check_owner(&connection.stream).map_err(|reason| {
                Refused::new(Reason::User, format!("server {own} does not take you for server {server}: {reason}"))
            });
        };
        self.check_certificate(tls, server, &connection.stream).map_err(|reason| {
            let text = format!(
                "server {own} does not take you for server {server}: {reason}; a server that moves to another host needs a \
                 certificate for both until the cluster knows of it"
            );
            Refused::new(Reason::Certificate, text)
        })
    }

    /// A peer's certificate has to be a server's, and for the host where that server is: so says the map, or the answer at joining.
    /// A server that is not known yet (it joined while this one was away, and may be the only one that knows it) proves by the secret
    /// that it was let in; its certificate may not be that of a server that was removed.
    fn check_certificate(&self, tls: &Tls, server: ServerId, stream: &Stream) -> Result<(), String> {
        let map = self.parts.server.map();
        let in_map = map.members().get(&server).map(|member| member.address.as_str());
        let address = in_map.or_else(|| self.peers.address(server)).map(host);
        tls.check_server(stream.certificates(), address)?;
        if self.parts.server.membership(server) != Membership::Unknown {
            return Ok(());
        }
        let stays = |removed: &str| map.members().values().any(|member| host(&member.address) == removed);
        let removed = map.removed_addresses().iter().map(|(id, address)| (id, host(address)));
        let is_its = |(_, host): &(&ServerId, &str)| !stays(host) && Tls::is_for(stream.certificates(), host);
        match removed.into_iter().find(is_its) {
            None => Ok(()),
            Some((id, host)) => Err(format!("its certificate is for {host}, where server {id} was, which was removed")),
        }
    }

    /// Answers a server that wants to join and may not: one of an older version than the cluster's would be let in by nobody afterwards,
    /// and who joins is given the cluster's secret.
    pub(super) fn refuse_join(
        &mut self,
        now: Time,
        version: u32,
        message: &ClientMessage,
        connection: &Connection,
    ) -> Option<ServerMessage> {
        let ClientMessage::Request(Request { sequence, body, .. }) = message else { return None };
        let RequestBody::Admin(Admin::Join { address, .. }) = body else { return None };
        let refused = self.check_joiner(version, address, &connection.stream).err()?;
        self.peer_refusals.note(now, &connection.stream.peer(), &refused);
        let result = Err(Error::Invalid(refused.text));
        Some(ServerMessage::Response(Response { sequence: *sequence, leader: None, result }))
    }

    fn check_joiner(&self, version: u32, address: &str, stream: &Stream) -> Result<(), Refused> {
        if version < self.spoken() {
            return Err(too_old(version, self.spoken()));
        }
        match &self.parts.tls {
            None => check_owner(stream)
                .map_err(|reason| Refused::new(Reason::User, format!("it may not join the cluster: {reason}"))),
            Some(tls) => tls
                .check_server(stream.certificates(), Some(host(address)))
                .map_err(|reason| Refused::new(Reason::Certificate, format!("it may not join the cluster: {reason}"))),
        }
    }

    /// A peer has answered our greeting, or our proof.
    pub(super) fn answered(
        &mut self,
        now: Time,
        (token, peer): (Token, ServerId),
        connection: &mut Connection,
        welcome: Welcome,
    ) -> Result<(), String> {
        let outcome = self.check_answer(now, (token, peer), connection, welcome);
        if let Err(reason) = &outcome {
            tracing::warn!("server {peer} at {}: {reason}", connection.stream.peer());
        }
        outcome
    }

    fn check_answer(
        &mut self,
        now: Time,
        (token, peer): (Token, ServerId),
        connection: &mut Connection,
        welcome: Welcome,
    ) -> Result<(), String> {
        match welcome {
            Welcome::Accepted { version, cluster, server, .. } => {
                if cluster != self.parts.cluster || server != peer {
                    return Err(format!("server {server} of cluster {cluster:016x} answers there"));
                }
                if version < self.spoken() || version != VERSION_MIN {
                    return Err(format!(
                        "it speaks version {version} of the protocol, and the cluster {}",
                        self.spoken()
                    ));
                }
                self.check_acceptor(connection)?;
                self.connected(now, peer, connection, version);
                Ok(())
            }
            Welcome::Challenge { version, nonce, secret } => {
                self.check_acceptor(connection)?;
                self.prove(token, peer, connection, (version, nonce, secret))
            }
            Welcome::Proven { server, proof } => {
                let handshake = self.handshakes.take(token).ok_or("it answers a proof that was not sent")?;
                let right = match (&handshake.secret, &proof) {
                    (Some(secret), Some(proof)) => handshake.transcript.verify(secret, Side::Acceptor, proof),
                    // It holds no secret, or another one: as long as there need not be one.
                    (_, None) => self.demanded().is_none(),
                    (None, Some(_)) => false,
                };
                if server != peer || !right {
                    return Err("it does not prove that it knows the cluster's secret".into());
                }
                self.connected(now, peer, connection, handshake.version);
                Ok(())
            }
            Welcome::Removed(reason) => {
                self.check_acceptor(connection)?;
                self.parts.server.handle(now, Input::Disowned(peer));
                Err(reason)
            }
            Welcome::Refused(reason) if self.spoken() == VERSION_MIN && spoken_by_refuser(&reason).is_some() => {
                self.peers.fall_back(peer);
                Err("it speaks version 1 of the protocol".into())
            }
            Welcome::Refused(reason) => Err(format!("it refuses: {reason}")),
        }
    }

    /// Checks which user's process is at the other end; with TLS its certificate was checked by then.
    fn check_acceptor(&self, connection: &Connection) -> Result<(), String> {
        if self.parts.tls.is_some() { Ok(()) } else { check_owner(&connection.stream) }
    }

    /// Answers a challenge.
    fn prove(
        &mut self,
        token: Token,
        peer: ServerId,
        connection: &mut Connection,
        (version, nonce, secret): (u32, [u8; 32], Option<[u8; 32]>),
    ) -> Result<(), String> {
        if !(VERSION_WITH_PROOF.max(self.spoken())..=VERSION).contains(&version) {
            return Err(format!(
                "it wants to speak version {version} of the protocol, and the cluster speaks {}",
                self.spoken()
            ));
        }
        let demanded = self.demanded();
        if demanded.is_some() && secret.is_some() && demanded != secret {
            return Err("it names another secret than the cluster's".into());
        }
        let secret = demanded.or(secret).and_then(|digest| self.parts.secrets.find(&digest)).cloned();
        let transcript = Transcript {
            cluster: self.parts.cluster,
            dialer: self.parts.server.id(),
            acceptor: peer,
            acceptor_nonce: nonce,
            dialer_nonce: random().map_err(|error| error.to_string())?,
            channel: connection.stream.channel()?,
        };
        let proof = secret.as_ref().map(|secret| (secret.digest, transcript.prove(secret, Side::Dialer)));
        let answer = Proof { nonce: transcript.dialer_nonce, proof };
        connection.stream.put(&answer).expect("a proof is short");
        self.handshakes.begin(token, Handshake { transcript, secret, version });
        Ok(())
    }

    fn connected(&mut self, now: Time, peer: ServerId, connection: &mut Connection, version: u32) {
        tracing::debug!("connected to server {peer}, protocol version {version}");
        connection.kind = Kind::To { peer, welcomed: true };
        self.peers.welcomed(peer);
        self.parts.server.handle(now, Input::PeerSpeaks { peer, version });
    }

    /// The leader of meta has handed over the secret that it proposes.
    pub(super) fn keep_secret(&mut self, now: Time, from: ServerId, secret: &Secret) {
        match self.parts.secrets.keep(secret) {
            Ok(()) => self.parts.server.handle(now, Input::SecretKept { from, digest: secret.digest }),
            Err(error) => tracing::error!("the secret of server {from} is not kept: {error}"),
        }
    }
}

/// Whether the other end is a process of our user, or of root.
fn check_owner(stream: &Stream) -> Result<(), String> {
    let (local, remote) = stream.ends().map_err(|error| format!("it has closed: {error}"))?;
    owner::check_other_end(stream, local, remote)
}
