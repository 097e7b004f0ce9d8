//! Drives one [`store::client::Client`] over real connections, within somebody's event loop.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use machine::nanos::{Step, Time};
use machine::{Control, Rng};
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Registry, Token};
use store::client::{Client, ClientConfig, ConnectionId, Input, Output};
use store::protocol::{
    ClientMessage, Error, FRAME_MAX, Hello, Response, Role, ServerMessage, VERSION, VERSION_MIN, VERSION_WITH_PROOF,
    Welcome, decode, spoken_by_refuser,
};

use super::stream::{Received, Stream};
use super::{LoginToken, Tls};

/// Bytes that may wait for a server; a connection with more is given up.
const OUTBOX_BYTES_MAX: usize = 256 << 20;

/// Tokens of connections, from which nothing else of the loop may come.
#[derive(Debug)]
pub(super) struct Tokens {
    next: usize,
}

impl Tokens {
    /// Numbers from this one on.
    pub fn from(first: usize) -> Self {
        Self { next: first }
    }

    pub fn next(&mut self) -> Token {
        self.next += 1;
        Token(self.next - 1)
    }
}

/// The addresses behind a `host:port`. Blocks if it is a name.
pub(super) fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(numeric) = address.parse() {
        return Ok(vec![numeric]);
    }
    let found: Vec<_> = address.to_socket_addrs()?.collect();
    if found.is_empty() { Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")) } else { Ok(found) }
}

/// The host of a `host:port`, without the brackets of an IPv6 address.
pub(super) fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host)
}

/// Starts a connection to one of the addresses; which one, `attempt` decides.
pub(super) fn dial(address: &str, addresses: &[SocketAddr], attempt: u64, tls: Option<&Tls>) -> Result<Stream, String> {
    let tls = tls.map(|tls| tls.connect(host(address))).transpose()?;
    let target = addresses[attempt as usize % addresses.len()];
    let socket = TcpStream::connect(target).map_err(|error| error.to_string())?;
    Ok(Stream::connecting(socket, tls))
}

#[derive(Debug)]
struct Link {
    id: ConnectionId,
    stream: Stream,
    is_welcome: bool,
    /// The version that is spoken.
    version: u32,
    address: String,
    /// It waits to be received from without an event.
    has_more: bool,
}

/// A client and its connections.
#[derive(Debug)]
pub(super) struct Caller {
    client: Client,
    tls: Option<Tls>,
    links: HashMap<Token, Link>,
    tokens: HashMap<ConnectionId, Token>,
    /// Connections with something to send.
    dirty: Vec<Token>,
    dialled: u64,
    /// Servers that have refused our version, and said that they speak the oldest: it is asked for at the next attempt.
    older: BTreeSet<String>,
    /// The token by which it logs in.
    token: Option<LoginToken>,
}

impl Caller {
    pub fn new(session: u64, endpoints: Vec<String>, rng: Rng, config: ClientConfig, tls: Option<Tls>) -> Self {
        Self {
            client: Client::new(session, endpoints, rng, config),
            tls,
            links: HashMap::new(),
            tokens: HashMap::new(),
            dirty: Vec::new(),
            dialled: 0,
            older: BTreeSet::new(),
            token: None,
        }
    }

    /// Logs in with this token on every connection that is made from now on.
    pub fn log_in(&mut self, token: LoginToken) {
        self.token = Some(token);
    }

    /// What a connection begins with.
    fn role(&self, addresses: &[SocketAddr]) -> Result<Role, String> {
        let session = self.client.session();
        let Some(token) = &self.token else { return Ok(Role::Client { session }) };
        if self.tls.is_none() && !addresses.iter().all(|address| address.ip().to_canonical().is_loopback()) {
            return Err("a token is sent over TLS or within this machine only: give the certificates as well".into());
        }
        Ok(Role::User { session, token: token.secret().clone() })
    }

    /// Hands the client an input of the user.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.client.handle(now, input);
    }

    /// An event of a connection.
    pub fn ready(&mut self, now: Time, registry: &Registry, token: Token, event: Option<&Event>) {
        let Some(link) = self.links.get_mut(&token) else { return };
        let outcome = Self::receive(&mut self.client, &mut self.older, link, now, event).and_then(|received| {
            link.has_more = received == Received::More;
            link.stream.flush().map(|()| received)
        });
        match outcome {
            Ok(Received::All | Received::More) => {}
            Ok(Received::Ended) => self.close(now, registry, token, "the server has closed it"),
            Err(reason) => self.close(now, registry, token, &reason),
        }
    }

    fn receive(
        client: &mut Client,
        older: &mut BTreeSet<String>,
        link: &mut Link,
        now: Time,
        event: Option<&Event>,
    ) -> Result<Received, String> {
        let received = link.stream.receive(event)?;
        while let Some(body) = link.stream.frame().map_err(|error| error.to_string())? {
            let length = body.len();
            if link.is_welcome {
                let message: ServerMessage = decode(body).map_err(|error| error.to_string())?;
                client.handle(now, Input::Message { connection: link.id, message });
            } else {
                match decode(body).map_err(|error| error.to_string())? {
                    Welcome::Accepted { version, cluster, .. } => {
                        link.is_welcome = true;
                        link.stream.limit_frames(FRAME_MAX);
                        link.version = version;
                        client.handle(now, Input::Connected { connection: link.id, cluster });
                    }
                    Welcome::Refused(reason) => {
                        if spoken_by_refuser(&reason).is_some() {
                            older.insert(link.address.clone());
                        }
                        return Err(reason);
                    }
                    Welcome::Challenge { .. } | Welcome::Proven { .. } | Welcome::Removed(_) => {
                        return Err("it takes this client for a server".into());
                    }
                }
            }
            link.stream.took(length);
        }
        Ok(received)
    }

    fn close(&mut self, now: Time, registry: &Registry, token: Token, reason: &str) {
        let Some(mut link) = self.links.remove(&token) else { return };
        link.stream.deregister(registry);
        self.tokens.remove(&link.id);
        let input = if link.is_welcome {
            Input::Closed(link.id)
        } else {
            Input::Failed { connection: link.id, reason: reason.to_owned() }
        };
        tracing::debug!("connection to a server: {reason}");
        self.client.handle(now, input);
    }

    /// Carries out what the client wants, hands what is for the user to `deliver`, sends, and says when to come back at the
    /// latest.
    pub fn drain(
        &mut self,
        now: Time,
        registry: &Registry,
        tokens: &mut Tokens,
        mut deliver: impl FnMut(Output),
        mut opened: impl FnMut(Token),
    ) -> Time {
        loop {
            let wait = loop {
                match self.client.poll(now) {
                    Step::Wait(until) => break until,
                    Step::Do(output) => self.carry_out(now, registry, tokens, output, &mut deliver, &mut opened),
                }
            };
            let mut broken = false;
            for token in std::mem::take(&mut self.dirty) {
                let Some(link) = self.links.get_mut(&token) else { continue };
                let too_much = (link.stream.waiting() > OUTBOX_BYTES_MAX).then_some("the server does not read");
                let outcome = link.stream.flush().and_then(|()| too_much.map_or(Ok(()), |reason| Err(reason.into())));
                if let Err(reason) = outcome {
                    self.close(now, registry, token, &reason);
                    broken = true;
                }
            }
            if !broken {
                return wait;
            }
        }
    }

    /// Connections that had more than one turn's worth.
    pub fn unfinished(&self) -> Vec<Token> {
        self.links.iter().filter(|(_, link)| link.has_more).map(|(token, _)| *token).collect()
    }

    fn carry_out(
        &mut self,
        now: Time,
        registry: &Registry,
        tokens: &mut Tokens,
        output: Output,
        deliver: &mut impl FnMut(Output),
        opened: &mut impl FnMut(Token),
    ) {
        match output {
            Output::Connect { connection, address } => match self.connect(registry, tokens, connection, &address) {
                Ok(token) => opened(token),
                Err(reason) => self.client.handle(now, Input::Failed { connection, reason }),
            },
            Output::Send { connection, message } => {
                let Some(&token) = self.tokens.get(&connection) else { return };
                let link = self.links.get_mut(&token).expect("each number has its link");
                if self.dirty.last() != Some(&token) {
                    self.dirty.push(token);
                }
                let needed = match &message {
                    ClientMessage::Request(request) => request.body.version(),
                    ClientMessage::Reply { .. } => VERSION_MIN,
                };
                if needed > link.version {
                    let reason = format!(
                        "it needs version {needed} of the protocol, and the server at {} speaks {}: all servers have to be upgraded first",
                        link.address, link.version
                    );
                    self.refuse(now, connection, message, &reason);
                } else if let Err(error) = link.stream.put(&message) {
                    // What does not fit a frame fits nowhere: the request is answered, the connection goes on.
                    self.refuse(now, connection, message, &format!("it does not fit a frame: {error}"));
                }
            }
            Output::Disconnect(connection) => {
                if let Some(token) = self.tokens.remove(&connection)
                    && let Some(mut link) = self.links.remove(&token)
                {
                    link.stream.deregister(registry);
                }
            }
            other => deliver(other),
        }
    }

    /// Answers a request that is not sent.
    fn refuse(&mut self, now: Time, connection: ConnectionId, message: ClientMessage, reason: &str) {
        match message {
            ClientMessage::Request(request) => {
                let result = Err(Error::Invalid(format!("the request was not sent: {reason}")));
                let response = Response { sequence: request.sequence, leader: None, result };
                self.client.handle(now, Input::Message { connection, message: ServerMessage::Response(response) });
            }
            ClientMessage::Reply { call, .. } => {
                let result = Err(format!("the output was not sent: {reason}"));
                self.client.handle(now, Input::Reply { connection, call, result });
            }
        }
    }

    fn connect(
        &mut self,
        registry: &Registry,
        tokens: &mut Tokens,
        id: ConnectionId,
        address: &str,
    ) -> Result<Token, String> {
        let addresses = resolve(address).map_err(|error| error.to_string())?;
        self.dialled += 1;
        let mut stream = dial(address, &addresses, self.dialled, self.tls.as_ref())?;
        let version = if self.older.remove(address) { VERSION_MIN } else { VERSION };
        let role = self.role(&addresses)?;
        if version < VERSION_WITH_PROOF && matches!(role, Role::User { .. }) {
            return Err("it speaks an older version, which knows no users: upgrade it, or ask without a token".into());
        }
        let hello = Hello::in_version(role, version);
        stream.put(&hello).expect("a hello is short");
        let token = tokens.next();
        stream.register(registry, token).map_err(|error| error.to_string())?;
        self.links.insert(
            token,
            Link { id, stream, is_welcome: false, version, address: address.to_owned(), has_more: false },
        );
        self.tokens.insert(id, token);
        Ok(token)
    }
}
