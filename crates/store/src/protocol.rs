//! What clients and servers say to each other, and how it becomes bytes.
//!
//! A connection carries *frames*, in both directions:
//!
//! ```text
//!   0        4                     4 + length
//!   +--------+---------------------+
//!   | length | body                |     length: u32, little endian, at most FRAME_MAX
//!   +--------+---------------------+
//! ```
//!
//! The body is one message in [postcard's wire format](https://postcard.jamesmunns.com/wire-format): the first from the
//! one who connects is a [`Hello`], the first answer a [`Welcome`]. After that a client sends [`ClientMessage`]s and
//! gets [`ServerMessage`]s; a server that connected as a peer sends [`crate::peer::Envelope`]s, and gets its own from
//! the connection that goes the other way. Enum variants are numbered in the order of their declaration: new ones are
//! added at the end, and sent to nobody who does not know them; [`VERSION`] says who does. `docs/protocol.md` has the same for people who write a
//! client in another language.

mod frame;
mod invalid;
mod leases;
mod version;

use std::collections::{BTreeMap, BTreeSet};

use machine::ServerId;
use placement::ShardId;
use serde::{Deserialize, Serialize};
use tree::{Change, Event, Location, Path, Refusal, Transaction};

pub use frame::{FRAME_HEADER, FRAME_MAX, FrameError, decode, encode_frame, frame_bytes, split_frame};
pub use invalid::{Unreadable, decode_client, request_sequence};
pub use leases::{LEASES_MAX, LeaseRequest, LeaseStatus};
pub use version::{VERSION, VERSION_MIN, VERSION_WITH_PROOF, spoken_by_refuser};

/// The first field of every [`Hello`]: what is not Heddle's is recognised at once.
pub const MAGIC: u32 = 0x4845_444c;

/// The first message on a connection, from the one who connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Always [`MAGIC`].
    pub magic: u32,
    /// The highest version that it speaks, or wants to speak here.
    pub version: u32,
    /// Who connects: a client or a server.
    pub role: Role,
}

/// Who connects to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// A client; the session number is random, and stays when the client reconnects.
    Client {
        /// The session that its writes belong to.
        session: u64,
    },
    /// Another server of the cluster.
    Peer {
        /// The number of the cluster.
        cluster: u64,
        /// Who it is.
        server: ServerId,
        /// The server that it means to reach.
        to: ServerId,
    },
    /// A client that logs in with a token. It is to be sent over TLS, or within one machine.
    User {
        /// The session, as in [`Role::Client`].
        session: u64,
        /// The token that it logs in with.
        token: Token,
    },
}

/// A token as it was drawn: nothing shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token(pub [u8; 32]);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(...)")
    }
}

/// The answer to a [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Welcome {
    /// The server takes requests.
    Accepted {
        /// The version that is spoken on this connection: the lower one of both sides'.
        version: u32,
        /// The number of the cluster.
        cluster: u64,
        /// The number of the server that answers.
        server: ServerId,
        /// The name of the server that answers.
        name: String,
    },
    /// The connection ends here; the text says why and what to do.
    Refused(String),
    /// To a peer of version 2: prove that you belong to the cluster, by a [`Proof`].
    Challenge {
        /// The version that is spoken on this connection.
        version: u32,
        /// A random number for the proofs.
        nonce: [u8; 32],
        /// The digest of the secret that has to be proved, if the server knows which one holds.
        secret: Option<[u8; 32]>,
    },
    /// To a peer that has proved itself: go on.
    Proven {
        /// The number of the server that answers.
        server: ServerId,
        /// Its own proof, by the same secret.
        proof: Option<[u8; 32]>,
    },
    /// To a peer that was removed from the cluster, and that no group here needs any more: the connection ends here.
    Removed(String),
}

/// The answer of a peer to a [`Welcome::Challenge`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// A random number for the proofs.
    pub nonce: [u8; 32],
    /// The digest of the secret and the proof by it; none if the peer holds none, as while a cluster of version 1 is being upgraded.
    pub proof: Option<([u8; 32], [u8; 32])>,
}

/// A message from a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ClientMessage {
    /// Something to be answered by one [`ServerMessage::Response`].
    Request(Request),
    /// The answer of a client that provides an RPC to a [`ServerMessage::Invoke`].
    Reply {
        /// The call that the `Invoke` named.
        call: u64,
        /// Its output, or why it failed.
        #[serde(with = "octets::result")]
        result: Result<Vec<u8>, String>,
    },
}

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The session that a write belongs to; reads don't need one.
    pub session: u64,
    /// Rises by one a request of this session. A write that is sent again carries the same number, to whichever server:
    /// it is carried out once.
    pub sequence: u64,
    /// Every request of the session before this one has been answered, and will not be sent again.
    pub acknowledged: u64,
    /// Give up after so many milliseconds.
    pub timeout_ms: u32,
    /// What is wanted.
    pub body: RequestBody,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RequestBody {
    /// Reads one value.
    Get {
        /// Where it is.
        at: Location,
        /// How fresh it must be.
        consistency: Consistency,
    },
    /// A path and what lies below it, in order.
    List {
        /// Where it begins.
        at: Location,
        /// Only what comes after this path.
        after: Option<Path>,
        /// So many entries at most (the server has a bound of its own, [`LIST_MAX`]).
        limit: u32,
        /// How fresh it must be.
        consistency: Consistency,
    },
    /// Changes of one shard, all or none.
    Write(Transaction),
    /// Notify me of every change below a path.
    Watch {
        /// The location that the subtree begins at.
        at: Location,
        /// Go on after these revisions, one a shard, as the last [`WatchEvents`] said; empty: from now on.
        from: BTreeMap<ShardId, u64>,
    },
    /// End the watch that the request with this sequence began.
    Unwatch {
        /// The sequence of the `Watch`.
        watch: u64,
    },
    /// I provide these RPCs (instead of those that I said before).
    Offer {
        /// Name and, for a routed one, the path whose data it serves.
        offers: Vec<(String, Option<Path>)>,
    },
    /// Call an RPC, wherever its provider is.
    Call {
        /// Its name, as in `people:add-person`.
        name: String,
        /// Chooses the provider of a routed RPC.
        path: Option<Path>,
        /// The input of the call.
        #[serde(with = "serde_bytes")]
        input: Vec<u8>,
        /// May be carried out twice: it is tried elsewhere when a provider is lost in the midst of it.
        idempotent: bool,
    },
    /// Runs the cluster.
    Admin(Admin),
    // From here on: since version 2.
    /// The same as `Write`, but if the conditions don't hold, other changes are made. Answered by [`Answer::Written`] or
    /// [`Answer::Otherwise`].
    WriteOrElse {
        /// What is done if the conditions hold.
        transaction: Transaction,
        /// What is done if they don't.
        otherwise: Vec<Change>,
    },
    /// One value as it was at a revision of its shard.
    GetAt {
        /// Where it is.
        at: Location,
        /// The revision that is meant.
        revision: u64,
        /// Whether the revision must be known to be there.
        consistency: Consistency,
    },
    /// A path and what lies below it, as it was at a revision of its shard.
    ListAt {
        /// Where it begins.
        at: Location,
        /// Only what comes after this path.
        after: Option<Path>,
        /// So many entries at most (the server has a bound of its own, [`LIST_MAX`]).
        limit: u32,
        /// The revision that is meant.
        revision: u64,
        /// Whether the revision must be known to be there.
        consistency: Consistency,
    },
    /// Which revisions of the shard that has this path can be read; answered by [`Answer::Window`].
    Window {
        /// The path that is meant.
        at: Path,
        /// Of the leader, or of the asked server.
        consistency: Consistency,
    },
    /// A request about a lease.
    Lease(LeaseRequest),
    /// Who am I? Anybody may ask.
    WhoAmI,
}

/// Most entries in one answer to [`RequestBody::List`].
pub const LIST_MAX: u32 = 4_096;

/// Most watches of one connection: each change is held against all of them. Our client does not ask for more.
pub const WATCHES_MAX: usize = 1_024;

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Consistency {
    /// It sees every write that was answered before it was asked.
    #[default]
    Linearizable,
    /// Whatever the asked server has, which may be old.
    Stale,
}

/// Runs the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Admin {
    /// What the asked server knows of the cluster.
    Status,
    /// A server wants to join; answered by [`Answer::Joined`].
    Join {
        /// Its name, unique in the cluster.
        name: String,
        /// `host:port` at which the others reach it.
        address: String,
        /// Random: the same request sent again is the same server.
        nonce: u64,
        /// The server that it replaces, if any.
        replaces: Option<ServerId>,
    },
    /// Change the map of shards and servers.
    Placement(placement::Command),
    /// Let a server lead a shard, now.
    MoveLeader {
        /// The shard that is meant.
        shard: ShardId,
        /// The server that should lead it.
        to: ServerId,
    },
    /// The content of one shard as it is now, chunk by chunk: ask again with each chunk's `next`. The server keeps the
    /// content of that moment for this client until the last chunk.
    Backup {
        /// The shard that is meant.
        shard: ShardId,
        /// None at the first.
        after: Option<tree::Cursor>,
    },
    /// What the asked server takes on its disk.
    Disk,
    /// Let the asked server give back all room on its disk that it can, now. Answered at once, as [`Admin::Disk`].
    Defragment,
    /// The same without values that belong to leases (since version 2): in another cluster nobody would keep them alive.
    BackupLasting {
        /// The shard that is meant.
        shard: ShardId,
        /// None at the first.
        after: Option<tree::Cursor>,
    },
    /// Roles and users, as the asked server knows them; answered by [`Answer::Access`].
    Access,
    /// Which replicas of the asked server have stopped, why, and what to do.
    StoppedReplicas,
    /// How the asked server is, and whom it has refused what.
    Health,
    /// What the asked server thinks that somebody should look at (since version 3); answered by [`Answer::Alarms`].
    Alarms,
    /// Remove a server, though a shard may lose its majority by it, for good (since version 3).
    ForceRemove(ServerId),
}

/// A message from a server to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ServerMessage {
    /// Answers one [`Request`].
    Response(Response),
    /// Something changed below a watched path.
    Watched(WatchEvents),
    /// Carry out this RPC, which you offered, and send a [`ClientMessage::Reply`].
    Invoke {
        /// Goes into the reply.
        call: u64,
        /// The name of the RPC.
        name: String,
        /// The path that chose you.
        path: Option<Path>,
        /// The input of the call.
        #[serde(with = "serde_bytes")]
        input: Vec<u8>,
    },
}

/// Answers one [`Request`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The number that the request had.
    pub sequence: u64,
    /// The leader of the shard that was asked: go there next time.
    pub leader: Option<Leader>,
    /// The answer, or why there is none.
    pub result: Result<Answer, Error>,
}

/// The leader of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// The shard that is led.
    pub shard: ShardId,
    /// The server that leads the shard.
    pub server: ServerId,
    /// The leader's `host:port`.
    pub address: String,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// Of [`RequestBody::Get`]: entity tag and value, if there is one.
    Value(#[serde(with = "octets::tagged")] Option<(u64, Vec<u8>)>),
    /// The answer to [`RequestBody::List`].
    Values {
        /// Path, entity tag and value.
        #[serde(with = "octets::entries")]
        entries: Vec<(Path, u64, Vec<u8>)>,
        /// Whether there are more after the last.
        more: bool,
    },
    /// Of [`RequestBody::Write`]: the revision, which is the entity tag of all that was written.
    Written {
        /// The revision that was committed.
        revision: u64,
    },
    /// Of [`RequestBody::Watch`]: it runs; events come after these revisions.
    Watching {
        /// One a shard.
        from: BTreeMap<ShardId, u64>,
    },
    /// The answer to [`RequestBody::Call`].
    Output(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Done, with nothing to say.
    Done,
    /// The answer to [`Admin::Status`].
    Status(Box<crate::status::Status>),
    /// The answer to [`Admin::Join`].
    Joined {
        /// The cluster's number.
        cluster: u64,
        /// The new server's.
        server: ServerId,
        /// The addresses of all servers.
        members: BTreeMap<ServerId, String>,
    },
    /// Of [`Admin::Placement`]: what it made, if anything.
    Placed(placement::Effect),
    /// The answer to [`Admin::Backup`] and [`Admin::BackupLasting`].
    Chunk {
        /// The entries, in the order of their paths.
        entries: Vec<tree::Entry>,
        /// Where to go on; none: this was the last.
        next: Option<tree::Cursor>,
    },
    // From here on: since version 2.
    /// Of [`RequestBody::WriteOrElse`]: a condition did not hold, so the other changes were made.
    Otherwise {
        /// The revision after them.
        revision: u64,
        /// The condition, from 0.
        condition: u32,
        /// The entity tag of the value that was there, if there was one.
        actual: Option<u64>,
    },
    /// The answer to [`LeaseRequest::KeepAlive`].
    Kept {
        /// For how long from when it was asked, in milliseconds.
        ttl_ms: u64,
        /// Parts of it may be in other shards: each is kept alive by a request with its path.
        parts: Vec<Path>,
    },
    /// The answer to [`LeaseRequest::Show`] and [`LeaseRequest::List`].
    Leases {
        /// The leases, in the order of their numbers.
        leases: Vec<LeaseStatus>,
        /// Whether there are more after the last.
        more: bool,
    },
    /// The answer to [`RequestBody::Window`].
    Window {
        /// The shard that the path is in.
        shard: ShardId,
        /// The oldest revision that can be read.
        oldest: u64,
        /// The newest that there is.
        newest: u64,
    },
    /// The answer to [`RequestBody::WhoAmI`].
    Identity {
        /// The user; none if nobody has logged in.
        user: Option<String>,
        /// The roles that the user has.
        roles: Vec<String>,
        /// Whether requests are checked.
        is_enabled: bool,
    },
    /// The answer to [`Admin::Access`].
    Access(Box<AccessView>),
    /// The answer to [`Admin::Disk`] and [`Admin::Defragment`].
    Disk(crate::status::DiskStatus),
    /// The answer to [`Admin::StoppedReplicas`].
    StoppedReplicas(Vec<crate::status::StoppedReplica>),
    /// The answer to [`Admin::Health`].
    Health(Box<crate::status::Health>),
    /// Of [`Admin::Join`], to a server that speaks version 2.
    Admitted {
        /// The cluster's number.
        cluster: u64,
        /// The new server's.
        server: ServerId,
        /// The addresses of all servers.
        members: BTreeMap<ServerId, String>,
        /// The secret by which servers know each other, once the cluster has agreed on one.
        secret: Option<crate::Secret>,
    },
    /// The answer to [`Admin::Alarms`].
    Alarms(Box<crate::alarm::Alarms>),
}

/// Roles and users as an administrator sees them: no hashes of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessView {
    /// Rises with every change; a change that names it is refused if there was another meanwhile.
    pub revision: u64,
    /// Whether requests are checked.
    pub is_enabled: bool,
    /// What each role may do, without `root`.
    pub roles: BTreeMap<String, BTreeMap<placement::access::Scope, BTreeSet<placement::access::Operation>>>,
    /// By name: roles, and whether it has a token, which may expire (seconds since 1970).
    pub users: BTreeMap<String, (BTreeSet<String>, Option<Option<u64>>)>,
}

/// Bytes within tuples, as bytes: one by one they would be the same on the wire, and many times slower.
mod octets {
    /// Reads and writes an `Option<(u64, Vec<u8>)>` with its bytes in one piece.
    pub(super) mod tagged {
        use serde::{Deserialize, Deserializer, Serialize, Serializer};
        use serde_bytes::{ByteBuf, Bytes};

        #[allow(clippy::ref_option, reason = "serde calls it so")]
        pub fn serialize<S: Serializer>(value: &Option<(u64, Vec<u8>)>, serializer: S) -> Result<S::Ok, S::Error> {
            value.as_ref().map(|(tag, bytes)| (tag, Bytes::new(bytes))).serialize(serializer)
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<(u64, Vec<u8>)>, D::Error> {
            let value = Option::<(u64, ByteBuf)>::deserialize(deserializer)?;
            Ok(value.map(|(tag, bytes)| (tag, bytes.into_vec())))
        }
    }

    /// Reads and writes a `Result<Vec<u8>, String>` with its bytes in one piece.
    pub(super) mod result {
        use serde::{Deserialize, Deserializer, Serialize, Serializer};
        use serde_bytes::{ByteBuf, Bytes};

        pub fn serialize<S: Serializer>(result: &Result<Vec<u8>, String>, serializer: S) -> Result<S::Ok, S::Error> {
            result.as_ref().map(|bytes| Bytes::new(bytes)).serialize(serializer)
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Result<Vec<u8>, String>, D::Error> {
            Ok(Result::<ByteBuf, String>::deserialize(deserializer)?.map(ByteBuf::into_vec))
        }
    }

    /// `Vec<(Path, u64, Vec<u8>)>`.
    pub(super) mod entries {
        use serde::{Deserialize, Deserializer, Serializer};
        use serde_bytes::{ByteBuf, Bytes};
        use tree::Path;

        type Entries = Vec<(Path, u64, Vec<u8>)>;

        pub fn serialize<S: Serializer>(entries: &[(Path, u64, Vec<u8>)], serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(entries.iter().map(|(path, tag, bytes)| (path, tag, Bytes::new(bytes))))
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Entries, D::Error> {
            let entries = Vec::<(Path, u64, ByteBuf)>::deserialize(deserializer)?;
            Ok(entries.into_iter().map(|(path, tag, bytes)| (path, tag, bytes.into_vec())).collect())
        }
    }
}

/// What changed below a watched path, in order, nothing left out unless it says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchEvents {
    /// The sequence of the `Watch`.
    pub watch: u64,
    /// The shard that it happened in.
    pub shard: ShardId,
    /// The shard's revision after the events. Where a revision's events are cut into several messages, only the last of them says
    /// so; those before it say the revision before, after which a watch goes on without a gap.
    pub revision: u64,
    /// Events could not be delivered (too slow a reader, too old a start, a shard that moved): read the subtree again. The
    /// watch goes on after `revision`.
    pub skipped: bool,
    /// The events that happened.
    pub events: Vec<Event>,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// The data say no: a condition did not hold, something exists or is missing. Nothing was changed.
    #[error("{0}")]
    Refused(Refusal),
    /// The request itself is wrong. Nothing was changed.
    #[error("{0}")]
    Invalid(String),
    /// A transaction may not span shards.
    #[error("the transaction touches the shards {}: split it, one for each shard", .0.join(", "))]
    SpansShards(Vec<String>),
    /// Nobody could carry it out before its time was over. A write may have been carried out or not: sent again with the
    /// same sequence it happens once.
    #[error("no answer within {timeout_ms} ms: {reason}")]
    Timeout {
        /// The timeout that the request had.
        timeout_ms: u32,
        /// What it was waiting for.
        reason: String,
    },
    /// The server has too much to do. Nothing was changed; try again later.
    #[error("the server has {0} requests to carry out already: try again later")]
    Busy(u64),
    /// This server cannot do it, and says who can.
    #[error("{reason}")]
    Elsewhere {
        /// Why not here.
        reason: String,
        /// Servers to ask, by address.
        servers: Vec<String>,
    },
    /// The RPC failed, or has no provider.
    #[error("{0}")]
    Rpc(String),
    /// The server's disk failed or is full: it takes no writes.
    #[error("{0}")]
    Disk(String),
    /// The answer would not fit into a frame.
    #[error("the answer has {0} bytes, more than a frame holds: ask for less at once")]
    TooLarge(u64),
    /// The revision is outside of what is kept, or is not there yet (since version 2).
    #[error(
        "only the revisions {oldest} to {newest} of this shard can be read; hint: the window is bounded in changes and \
         bytes, and begins anew when a server starts or data move"
    )]
    Compacted {
        /// The oldest that can be read.
        oldest: u64,
        /// The newest that there is.
        newest: u64,
    },
    /// Whoever asked is nobody known, or may not do this. Nothing was changed.
    #[error("{0}")]
    Denied(String),
    /// The server holds as much for this client, or for all, as it may. Nothing was changed; try again, not before that time.
    /// Clients of version 1 get [`Error::Busy`].
    #[error("the server is busy: {reason}; try again in {retry_after_ms} ms")]
    Overloaded {
        /// Milliseconds after which another attempt makes sense.
        retry_after_ms: u32,
        /// What there is too much of.
        reason: String,
    },
    /// A server stays since a shard needs it (since version 3). This attempt changed nothing; an earlier one may still do so.
    #[error("{0}")]
    Needed(String),
}

impl Error {
    /// Whether asking again (elsewhere, or a little later) may help.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Timeout { .. } | Self::Busy(_) | Self::Elsewhere { .. } | Self::Disk(_) | Self::Overloaded { .. }
        )
    }

    /// Whether it says that nothing was done.
    pub fn is_undone(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Elsewhere { .. } | Self::Overloaded { .. })
    }
}
