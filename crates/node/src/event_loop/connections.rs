//! The connections of a controller: what each is for, and which clients are at their ends.

use std::collections::HashMap;

use machine::ServerId;
use machine::nanos::Time;
use mio::Token;
use store::ClientId;

use crate::descriptors::Shares;
use crate::refusals::Caller;
use crate::remote::RemoteHost;
use crate::stream::Stream;
use crate::subject::common_name;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has not said so.
    Unknown {
        since: Time,
    },
    /// It says that it is a peer, and has to prove it.
    Challenged {
        since: Time,
        server: ServerId,
    },
    Client {
        client: ClientId,
        version: u32,
    },
    /// A peer talks to us.
    From(ServerId),
    /// We talk to a peer.
    To {
        peer: ServerId,
        welcomed: bool,
    },
}

#[derive(Debug)]
pub(super) struct Connection {
    pub stream: Stream,
    pub kind: Kind,
    /// The peer that made it; `None` if this server did.
    pub host: Option<RemoteHost>,
}

impl Connection {
    /// What is at the other end, as far as is known.
    pub fn caller(&self) -> Caller {
        let Some(host) = self.host else { return Caller::default() };
        let certificate = self.stream.certificates().and_then(|chain| common_name(chain.first()?));
        let user = || host.user().map(|uid| format!("user {uid}"));
        let client = certificate.map(|name| format!("certificate {name}")).or_else(user).unwrap_or_default();
        Caller { host: host.host(), client }
    }
}

/// The clients that are connected.
///
/// Always: each host has as many as were admitted for it and have not left.
#[derive(Debug)]
pub(super) struct Clients {
    tokens: HashMap<ClientId, Token>,
    /// How many of them each host has.
    of_host: HashMap<RemoteHost, usize>,
    next: u64,
}

impl Clients {
    /// None.
    pub fn new() -> Self {
        Self { tokens: HashMap::new(), of_host: HashMap::new(), next: 1 }
    }

    /// The connection of a client.
    pub fn token(&self, client: ClientId) -> Option<Token> {
        self.tokens.get(&client).copied()
    }

    /// A number for a client that was admitted.
    pub fn number(&mut self) -> ClientId {
        let client = ClientId(self.next);
        self.next += 1;
        client
    }

    /// The client is at the end of this connection.
    pub fn insert(&mut self, client: ClientId, token: Token) {
        self.tokens.insert(client, token);
    }

    /// A client has gone.
    pub fn remove(&mut self, client: ClientId, host: Option<RemoteHost>) {
        self.tokens.remove(&client);
        self.leave(host);
    }

    /// A place for one more client of a host.
    ///
    /// # Errors
    /// There is none: in words for the client.
    pub fn admit(&mut self, host: Option<RemoteHost>, shares: &Shares) -> Result<(), String> {
        let Some(host) = host else { return Err("a server does not connect to itself".into()) };
        let files = format!("{} open files", shares.limit);
        if self.tokens.len() >= shares.clients {
            return Err(format!(
                "{} clients are connected, and with {files} there may be no more; hint: close some, ask another server, or raise the \
                 limit of open files of this one (`ulimit -n`, LimitNOFILE of systemd)",
                self.tokens.len()
            ));
        }
        let of_host = self.of_host.entry(host).or_default();
        if *of_host >= shares.clients_of_host {
            return Err(format!(
                "{of_host} clients of {host} are connected, and with {files} one host may have no more; hint: let programs share \
                 a connection, or raise the limit of open files of this server (`ulimit -n`, LimitNOFILE of systemd)",
            ));
        }
        *of_host += 1;
        Ok(())
    }

    /// A client that was admitted is none after all, or has gone.
    pub fn leave(&mut self, host: Option<RemoteHost>) {
        let Some(host) = host else { return };
        if let Some(count) = self.of_host.get_mut(&host) {
            *count -= 1;
            if *count == 0 {
                self.of_host.remove(&host);
            }
        }
    }
}
