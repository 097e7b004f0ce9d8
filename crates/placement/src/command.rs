//! What changes the map, and what came of it.

use std::collections::BTreeSet;

use machine::ServerId;
use serde::{Deserialize, Serialize};
use tree::bounded::{self, Entries};

use crate::access::AccessCommand;
use crate::address::{check_address, check_name};
use crate::prefix::is_identifier;
use crate::{DecodeError, MoveId, Prefix, Refusal, Replicas, ShardId, Strategy, VOTERS_MAX};

/// The format that [`Command::encode`] writes.
const FORMAT: u8 = 1;

/// Most prefixes that one [`Command::CreateShard`] may name.
pub const PREFIXES_PER_SHARD_MAX: usize = 64;

/// One change of the map, as it stands in the log of group 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A server joins. With a `nonce` that is known this changes nothing and yields the number given before.
    AddServer {
        /// What people call it.
        name: String,
        /// `host:port` of its cluster port.
        address: String,
        /// `host:port` of its metrics, if any.
        metrics: Option<String>,
        /// The number that its data folder drew.
        nonce: u64,
    },
    /// A server leaves for good.
    RemoveServer {
        /// The number of the server.
        id: ServerId,
    },
    /// A server has moved to another address.
    UpdateAddress {
        /// The number of the server.
        id: ServerId,
        /// Its new address.
        address: String,
        /// Its new metrics address.
        metrics: Option<String>,
    },
    /// A new server takes the place of an old one: lists of replicas and pins change from one to the other.
    ReplaceServer {
        /// The server that leaves.
        old: ServerId,
        /// What people call the new one; may be the old one's name.
        name: String,
        /// The new one's address; may be the old one's.
        address: String,
        /// The new one's metrics address.
        metrics: Option<String>,
        /// The number that the new one's data folder drew.
        nonce: u64,
    },
    /// Changes how modules are spread over shards.
    SetStrategy {
        /// The new strategy.
        strategy: Strategy,
    },
    /// Under [`Strategy::Distributed`], gives a module a shard of its own, if it has none.
    EnsureModule {
        /// The name of the module.
        module: String,
    },
    /// Makes a shard, and begins to move these prefixes to it.
    CreateShard {
        /// What people call it.
        name: String,
        /// What it shall own; may be empty.
        prefixes: BTreeSet<Prefix>,
        /// The servers that shall hold it.
        replicas: Replicas,
    },
    /// Moves a shard's prefixes back to who owns what is around them, then removes it.
    DeleteShard {
        /// The number of the shard.
        id: ShardId,
    },
    /// Changes who holds a shard.
    SetReplicas {
        /// The number of the shard.
        id: ShardId,
        /// The servers that shall hold it.
        replicas: Replicas,
    },
    /// Says who leads a shard, whatever the load.
    Pin {
        /// The number of the shard.
        id: ShardId,
        /// The server that should lead it.
        server: ServerId,
    },
    /// Leaves it to the load again who leads a shard.
    Unpin {
        /// The number of the shard.
        id: ShardId,
    },
    /// Begins to move a prefix to a shard.
    BeginMove {
        /// A module or a path.
        prefix: Prefix,
        /// Where it goes.
        to: ShardId,
    },
    /// The new owner holds everything.
    MoveImported {
        /// The number of the move.
        id: MoveId,
    },
    /// From now on the new owner owns it.
    FinishMove {
        /// The number of the move.
        id: MoveId,
    },
    /// The old owner has dropped what it held.
    MoveDropped {
        /// The number of the move.
        id: MoveId,
    },
    /// Every server speaks this version of the protocol, and holds the cluster's secret. Changes nothing if it would lower the version,
    /// or if a member is not among those of whom that is known.
    RaiseProtocol {
        /// The version to speak from now on.
        to: u32,
        /// The servers of which it is known.
        servers: BTreeSet<ServerId>,
        /// The digest of the secret by which servers know each other.
        secret: Option<[u8; 32]>,
    },
    /// Changes roles or users.
    Access {
        /// Only if they are as of this [`Access::revision`](crate::Access::revision): a repetition that is late must not give back a
        /// right that was taken away meanwhile. None: whatever they are.
        revision: Option<u64>,
        /// What is done.
        command: AccessCommand,
    },
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Nothing was left to do.
    Unchanged,
    /// The server has this number, new or known.
    Server(ServerId),
    /// This server is no member any more.
    Removed(ServerId),
    /// The new server has taken the old one's place.
    Replaced {
        /// The server that left.
        old: ServerId,
        /// The server that came in its place.
        new: ServerId,
    },
    /// The shard has this number, new or known; `moves` bring its prefixes.
    Shard {
        /// The number of the shard.
        id: ShardId,
        /// Unfinished moves towards it.
        moves: Vec<MoveId>,
    },
    /// The move has this number, new or known.
    Move(MoveId),
    /// These shards are gone from the map: their replicas may be destroyed.
    ShardsGone(Vec<ShardId>),
    /// Something else changed.
    Changed,
}

impl Command {
    /// What can be told without the map: names, addresses, numbers, sizes.
    ///
    /// # Errors
    /// The refusal that [`Map::apply`](crate::Map::apply) would give.
    pub fn check(&self) -> Result<(), Refusal> {
        match self {
            Self::AddServer { name, address, metrics, .. } | Self::ReplaceServer { name, address, metrics, .. } => {
                check_name(name)?;
                check_addresses(address, metrics.as_deref())
            }
            Self::UpdateAddress { address, metrics, .. } => check_addresses(address, metrics.as_deref()),
            Self::EnsureModule { module } => check_prefix(&Prefix::Module(module.clone())),
            Self::CreateShard { name, prefixes, replicas } => {
                check_name(name)?;
                check_prefixes(prefixes)?;
                check_replicas(replicas)
            }
            Self::SetReplicas { replicas, .. } => check_replicas(replicas),
            Self::BeginMove { prefix, .. } => check_prefix(prefix),
            Self::Access { command, .. } => command.check(),
            _ => Ok(()),
        }
    }

    /// Whether only servers may propose it: it states what they have found, or have agreed on.
    pub fn is_internal(&self) -> bool {
        match self {
            Self::RaiseProtocol { .. }
            | Self::MoveImported { .. }
            | Self::FinishMove { .. }
            | Self::MoveDropped { .. } => true,
            Self::AddServer { .. }
            | Self::RemoveServer { .. }
            | Self::UpdateAddress { .. }
            | Self::ReplaceServer { .. }
            | Self::SetStrategy { .. }
            | Self::EnsureModule { .. }
            | Self::CreateShard { .. }
            | Self::DeleteShard { .. }
            | Self::SetReplicas { .. }
            | Self::Pin { .. }
            | Self::Unpin { .. }
            | Self::BeginMove { .. }
            | Self::Access { .. } => false,
        }
    }

    /// The same command with its prefixes in their [canonical](Prefix::canonical) form.
    pub(crate) fn canonical(self) -> Self {
        match self {
            Self::CreateShard { name, prefixes, replicas } => {
                let prefixes = prefixes.into_iter().map(Prefix::canonical).collect();
                Self::CreateShard { name, prefixes, replicas }
            }
            Self::BeginMove { prefix, to } => Self::BeginMove { prefix: prefix.canonical(), to },
            other => other,
        }
    }

    /// As bytes for the log: a format number, then postcard.
    pub fn encode(&self) -> Vec<u8> {
        encode(FORMAT, self)
    }

    /// From bytes of the log or of another server.
    ///
    /// # Errors
    /// [`DecodeError`] on bytes that [`Command::encode`] never makes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_bounded(bytes, &mut Entries::unbounded())
    }

    /// The same of bytes that another server has sent: with no more entries of lists and maps than are left.
    ///
    /// # Errors
    /// As [`Command::decode`].
    pub fn decode_bounded(bytes: &[u8], entries: &mut Entries) -> Result<Self, DecodeError> {
        let what = "command";
        let bytes = body(what, FORMAT, bytes)?;
        bounded::decode(bytes, entries).map_err(|reason| DecodeError::Malformed { what, why: reason.to_string() })
    }
}

/// Bytes of a value: a format number, then postcard.
pub(crate) fn encode<T: Serialize>(format: u8, value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![format]).expect("writing to memory does not fail")
}

/// What follows the number of the format, which must be this one.
fn body<'a>(what: &'static str, format: u8, bytes: &'a [u8]) -> Result<&'a [u8], DecodeError> {
    match bytes.split_first() {
        None => Err(DecodeError::Malformed { what, why: "there are none".to_owned() }),
        Some((&found, _)) if found != format => Err(DecodeError::Version { what, found, expected: format }),
        Some((_, rest)) => Ok(rest),
    }
}

/// The value at the front of bytes that [`encode`] began, and what follows it.
pub(crate) fn decode_front<'a, T: Deserialize<'a>>(
    what: &'static str,
    format: u8,
    bytes: &'a [u8],
) -> Result<(T, &'a [u8]), DecodeError> {
    let malformed = |error: postcard::Error| DecodeError::Malformed { what, why: error.to_string() };
    postcard::take_from_bytes(body(what, format, bytes)?).map_err(malformed)
}

fn check_addresses(address: &str, metrics: Option<&str>) -> Result<(), Refusal> {
    check_address(address)?;
    metrics.map_or(Ok(()), check_address)
}

fn check_replicas(replicas: &Replicas) -> Result<(), Refusal> {
    let (why, hint) = match replicas {
        Replicas::Servers(servers) if servers.is_empty() => ("the list is empty", "name at least one server, or all"),
        Replicas::Count(0) => ("a shard needs one replica at least", "three survive the loss of one server"),
        Replicas::Count(n) if usize::from(*n) > VOTERS_MAX => {
            ("more than 7 voters make every write slower", "ask for all: servers beyond 7 become learners")
        }
        _ => return Ok(()),
    };
    Err(Refusal::BadReplicas { why: why.to_owned(), hint: hint.to_owned() })
}

/// Refuses what no shard but `default` can own.
fn check_prefix(prefix: &Prefix) -> Result<(), Refusal> {
    let bad = |why: &str, hint: &str| {
        let prefix = prefix.to_string().chars().take(200).collect();
        Err(Refusal::BadPrefix { prefix, why: why.to_owned(), hint: hint.to_owned() })
    };
    match prefix {
        Prefix::Everything => bad("`default` owns everything that no other claims", "name a module or a path"),
        Prefix::Module(module) if !is_identifier(module) => {
            bad("that is not the name of a module (RFC 7950, 6.2)", "it looks like \"ietf-interfaces\"")
        }
        Prefix::Path(path) if path.module().is_none() => {
            bad("the root is everything", "name a module or a path below the root, such as /car:cars")
        }
        _ => Ok(()),
    }
}

fn check_prefixes(prefixes: &BTreeSet<Prefix>) -> Result<(), Refusal> {
    if prefixes.len() > PREFIXES_PER_SHARD_MAX {
        return Err(Refusal::TooMany {
            what: "prefixes in one command".to_owned(),
            max: PREFIXES_PER_SHARD_MAX as u64,
            hint: "create the shard with fewer, then move the rest to it".to_owned(),
        });
    }
    prefixes.iter().try_for_each(check_prefix)?;
    let nested = |inner: &&Prefix| prefixes.iter().any(|outer| outer != *inner && outer.includes(inner));
    match prefixes.iter().find(nested) {
        None => Ok(()),
        Some(prefix) => Err(Refusal::BadPrefix {
            prefix: prefix.to_string(),
            why: "it lies within another prefix of the same shard".to_owned(),
            hint: "leave it out, the outer one is enough".to_owned(),
        }),
    }
}
