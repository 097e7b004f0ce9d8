//! What is refused, and how it is said.

use machine::ServerId;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{MoveId, ShardId};

/// What somebody has chosen, for a line of text: it neither ends the line nor moves what follows.
pub(crate) fn shown(text: &str) -> String {
    let visible = |c: char| if matches!(c, '"' | '\'' | '\\') { c.to_string() } else { c.escape_debug().to_string() };
    text.chars().map(visible).collect()
}

/// Why a command changed nothing. The same on every server, since all apply the same log.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Refusal {
    /// A name that cannot be one.
    #[error(
        "\"{}\" is not a name: expected 1 to 128 letters, digits, '-', '_' or '.', starting with a letter; \
         hint: choose one such as \"topology\"",
        shown(name)
    )]
    BadName {
        /// What was given.
        name: String,
    },
    /// An address that cannot be one.
    #[error(
        "\"{}\" is not an address: expected host:port; hint: write 10.0.0.1:7000 or [fd00::1]:7000",
        shown(address)
    )]
    BadAddress {
        /// What was given.
        address: String,
    },
    /// A name is in use.
    #[error("the name \"{name}\" is taken by server {by}; hint: choose another, or replace server {by}")]
    ServerNameTaken {
        /// The name that was given.
        name: String,
        /// Who has it.
        by: ServerId,
    },
    /// An address is in use.
    #[error(
        "the address {address} belongs to server {by}, which has another data folder; \
         hint: if that server has lost its data, replace it: `heddle cluster replace {by}`"
    )]
    AddressTaken {
        /// The address that was given.
        address: String,
        /// Who has it.
        by: ServerId,
    },
    /// A server that was removed asks to join again with its old data.
    #[error(
        "this data folder belonged to server {id}, which was removed from the cluster; \
         hint: start it with an empty data folder to join as a new server"
    )]
    WasRemoved {
        /// The number that it had.
        id: ServerId,
    },
    /// No such server.
    #[error("there is no server {id} in this cluster; hint: `heddle cluster status` lists them")]
    NoSuchServer {
        /// What was given.
        id: ServerId,
    },
    /// No such shard.
    #[error("there is no shard {id}; hint: `heddle cluster shards` lists them")]
    NoSuchShard {
        /// What was given.
        id: ShardId,
    },
    /// No such move, which may also have ended.
    #[error("there is no move {id}, or it is over; hint: `heddle cluster shards` lists those under way")]
    NoSuchMove {
        /// What was given.
        id: MoveId,
    },
    /// The cluster would be empty.
    #[error("server {id} is the last one of this cluster; hint: add another first, or stop it and delete its data")]
    LastServer {
        /// The number of the server.
        id: ServerId,
    },
    /// Shards with a list of replicas would have none.
    #[error(
        "without server {id} no replica of {} would be left; hint: give {} other replicas first",
        shards.join(", "), if shards.len() == 1 { "it" } else { "them" }
    )]
    LastReplica {
        /// The number of the server.
        id: ServerId,
        /// Names of the shards.
        shards: Vec<String>,
    },
    /// A shard's name is in use.
    #[error("a shard \"{name}\" exists (number {by}) and is not like this one; hint: choose another name")]
    ShardNameTaken {
        /// The name that was given.
        name: String,
        /// Who has it.
        by: ShardId,
    },
    /// Something of which there are as many as may be.
    #[error("there are {max} {what} already, which is the most; hint: {hint}")]
    TooMany {
        /// What there are too many of.
        what: String,
        /// How many there may be.
        max: u64,
        /// What to do.
        hint: String,
    },
    /// A prefix that cannot be owned by the shard.
    #[error("the prefix {} cannot be given to a shard: {why}; hint: {hint}", shown(prefix))]
    BadPrefix {
        /// The prefix that was given.
        prefix: String,
        /// Why it cannot be.
        why: String,
        /// What to do.
        hint: String,
    },
    /// A list of replicas that cannot be one.
    #[error("these replicas are not possible: {why}; hint: {hint}")]
    BadReplicas {
        /// Why it cannot be.
        why: String,
        /// What to do.
        hint: String,
    },
    /// `meta` and `default` are always there.
    #[error("shard {id} ({name}) is always there {what}; hint: {hint}")]
    BuiltIn {
        /// The number of the shard.
        id: ShardId,
        /// The name that was given.
        name: String,
        /// What cannot be done with it.
        what: String,
        /// What to do.
        hint: String,
    },
    /// The shard is on its way out.
    #[error("shard {name} is being deleted; hint: wait until it is gone, or choose another")]
    Deleting {
        /// The name that was given.
        name: String,
    },
    /// The same prefix is on its way already.
    #[error(
        "{} is on its way to shard {to} (move {by}); hint: wait for that: `heddle cluster shards` shows it",
        shown(prefix)
    )]
    Moving {
        /// The prefix that was given.
        prefix: String,
        /// Name of the shard that it goes to.
        to: String,
        /// The number of the move.
        by: MoveId,
    },
    /// A step of a move that is not its next one.
    #[error("move {id} is {phase}, so it cannot be {step}; hint: the move goes on by itself, ask again")]
    OutOfOrder {
        /// The number of the move.
        id: MoveId,
        /// How far it is.
        phase: String,
        /// What was asked for.
        step: String,
    },
    /// The server does not hold the shard, so it cannot lead it.
    #[error("server {server} holds no replica of {shard}, so it cannot lead it; hint: {hint}")]
    NotAReplica {
        /// The number of the server.
        server: ServerId,
        /// Name of the shard.
        shard: String,
        /// What to do.
        hint: String,
    },
    /// A change of roles or users that is not possible.
    #[error("{}; hint: {}", shown(why), shown(hint))]
    Access {
        /// Why it cannot be.
        why: String,
        /// What to do.
        hint: String,
    },
}

impl Refusal {
    /// There would be more than `max` of something.
    pub(crate) fn too_many(what: &str, max: usize, hint: &str) -> Self {
        Self::TooMany { what: what.to_owned(), max: max as u64, hint: hint.to_owned() }
    }

    /// Roles or users cannot be changed so. Names that were given are cut to what a person reads.
    pub(crate) fn access(why: &str, hint: &str) -> Self {
        Self::Access { why: why.chars().take(400).collect(), hint: hint.to_owned() }
    }
}

/// A transaction touches more than one shard.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error(
    "the transaction spans shards {}; expected all paths in one; hint: split it by shard, or move the prefixes into one",
    names.join(", ")
)]
pub struct SpansShards {
    /// Names of the shards, sorted.
    pub names: Vec<String>,
}

/// Bytes that are no command or no map.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Written by a version that this one does not know.
    #[error(
        "format {found} of {what} is not known, expected {expected}; hint: a newer Heddle wrote it, update this one"
    )]
    Version {
        /// Command or map.
        what: &'static str,
        /// The version found.
        found: u8,
        /// The version that this program writes.
        expected: u8,
    },
    /// Not what the format says.
    #[error(
        "bytes of a {what} make no sense: {why}; hint: the log or snapshot is damaged, restore this server from the others"
    )]
    Malformed {
        /// Command or map.
        what: &'static str,
        /// What was wrong.
        why: String,
    },
}
