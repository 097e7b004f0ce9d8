//! What goes into a server and what comes out.

use std::collections::BTreeMap;

use machine::ServerId;
use placement::access::Credentials;
use tree::Location;

use crate::id::{ClientId, RequestId};
use crate::peer::Envelope;
use crate::protocol::{ClientMessage, ServerMessage};
use crate::status::StoppedReplica;

/// The request of a client that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub sequence: u64,
    pub id: RequestId,
}

/// The caller at the end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// This server's own process: it may do everything.
    Server,
    /// A client, and what it has shown.
    Client(Credentials),
}

/// What a message to a client is about, for drivers that note what comes of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// The answer to this request: there is one.
    Request(RequestId),
    /// A watch that ran has ended, and not by the will of its client.
    EndOfWatch {
        /// The session that had asked for it.
        session: u64,
        /// What it watched.
        at: Location,
    },
    /// Events of a watch, or a call.
    News,
}

/// What comes in.
#[derive(Clone, Debug)]
pub enum Input {
    /// An envelope has come from another server.
    Peer {
        /// The server that it came from.
        from: ServerId,
        /// The envelope.
        envelope: Envelope,
    },
    /// A connection to a peer was made, and this version is spoken on it: the lower one of both servers'.
    PeerSpeaks {
        /// The server that it is about.
        peer: ServerId,
        /// The version that the server speaks.
        version: u32,
    },
    /// A connection to a peer was lost: what was sent lately may not have arrived.
    PeerLost(ServerId),
    /// A message has come from a client.
    Client {
        /// The connection of the client.
        client: ClientId,
        /// Which request of it, if it is one.
        id: RequestId,
        /// The message.
        message: ClientMessage,
    },
    /// A client says nothing more, and still reads: what it has asked is answered. It watches and offers nothing any more.
    ClientSilent(ClientId),
    /// Identifies the caller at the end of a client's connection; before anything else that comes by it. A connection that nobody speaks of has
    /// shown nothing.
    Caller {
        /// The connection of the client.
        client: ClientId,
        /// The caller behind the connection.
        caller: Caller,
    },
    /// Where a client's connection comes from, by whatever counts as one host; before anything else that comes by it. What there is
    /// only so much of is shared between users, and where these are not known, between hosts.
    Host {
        /// The connection of the client.
        client: ClientId,
        /// The host that it came from.
        host: String,
    },
    /// The clock on the wall shows so many seconds since 1970. Without it, no token is good that expires.
    WallClock(u64),
    /// A client's connection ended.
    ClientGone(ClientId),
    /// So many bytes wait to be sent to a client. The driver says so after it was given an [`Output::Client`], as soon as it
    /// has sent what can be sent, and each time that it has sent more.
    Waiting {
        /// The connection of the client; it may have ended.
        client: ClientId,
        /// How many bytes wait.
        bytes: usize,
    },
    /// So many bytes of a kind are held by the driver, for all together.
    Held {
        /// What the bytes are of.
        kind: crate::budget::Kind,
        /// How many bytes are held.
        bytes: usize,
    },
    /// A [`wal::Write`] has been carried out; all in it will survive a loss of power.
    Written(u64),
    /// A [`wal::Write`] could not be carried out.
    WriteFailed {
        /// The number of the write.
        write: u64,
        /// Why it failed.
        error: wal::DiskError,
    },
    /// An [`Output::KeepSecret`] was carried out.
    SecretKept {
        /// The server that handed it over.
        from: ServerId,
        /// The secret's digest.
        digest: [u8; 32],
    },
    /// This server, whom the caller has made sure of, says that we were removed from the cluster, and that no group there needs us.
    Disowned(ServerId),
    /// Nothing but the passing of time.
    Tick,
}

/// What goes out.
#[derive(Clone, Debug)]
pub enum Output {
    /// An envelope goes to another server.
    Peer {
        /// The server that it goes to.
        to: ServerId,
        /// The envelope.
        envelope: Envelope,
    },
    /// A message goes to a client.
    Client {
        /// The connection of the client.
        client: ClientId,
        /// The message.
        message: ServerMessage,
        /// What the message is about.
        about: About,
    },
    /// A client has sent a token that is worth nothing: its connection is to be closed, once the answer was sent, and its
    /// address to be watched.
    BadToken(ClientId),
    /// A write goes to the disk.
    Disk(wal::Write),
    /// The other servers and their addresses, whenever they change.
    Peers(BTreeMap<ServerId, String>),
    /// A replica has stopped while the others go on: for the log of the process. The text says what to do.
    ReplicaStopped(StoppedReplica),
    /// Keep this secret, if it fits its digest, beside those that are there already; then [`Input::SecretKept`].
    KeepSecret {
        /// The server that has handed it over.
        from: ServerId,
        /// The secret that the servers share.
        secret: crate::Secret,
    },
    /// This server must stop.
    Stop(Stop),
}

/// Why a server must stop. The text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// No group needs it any more.
    #[error("server {0} is no member of the cluster any more: its data folder may be deleted")]
    NoMember(ServerId),
    /// Others say that they do not know it.
    #[error("server {0} was removed from the cluster: its data folder may be deleted")]
    Removed(ServerId),
    /// Its log has failed.
    #[error("{0}")]
    Log(String),
}
