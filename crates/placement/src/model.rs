//! What the map is made of.

use std::collections::BTreeSet;

use machine::ServerId;
use serde::{Deserialize, Serialize};
use tree::Path;

use crate::{MoveId, Prefix, ShardId};

/// A server of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number, given when it joined.
    pub id: ServerId,
    /// What people call it; unique.
    pub name: String,
    /// Where other servers reach it, `host:port`; unique.
    pub address: String,
    /// Where its `/metrics` are, `host:port`, if it serves them.
    pub metrics: Option<String>,
    /// A number that its data folder drew once. A server that asks to join a second time is known by it.
    pub nonce: u64,
}

/// How modules are spread over shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// Everything is in `default`, but for shards that were made by hand.
    #[default]
    Single,
    /// Each module gets a shard of its own when it is first written.
    Distributed,
}

/// Most voters of a shard; further replicas are learners, which hold the data without making writes wait.
pub const VOTERS_MAX: usize = 7;

/// The servers that hold a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Replicas {
    /// Every server; those beyond [`VOTERS_MAX`] as learners.
    #[default]
    All,
    /// These servers, and no others.
    Servers(BTreeSet<ServerId>),
    /// So many servers, picked by rendezvous hashing.
    Count(u8),
}

/// One shard as the map has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Its number, also the number of its Raft group.
    pub id: ShardId,
    /// What people call it; unique.
    pub name: String,
    /// What it owns now. Prefixes on their way to it are in [`Map::moves`](crate::Map::moves) instead.
    pub prefixes: BTreeSet<Prefix>,
    /// The servers that should hold it.
    pub replicas: Replicas,
    /// The server that should lead it whatever the load, if someone said so.
    pub pinned: Option<ServerId>,
    /// Made by [`Strategy::Distributed`], so [`Strategy::Single`] takes it away again.
    pub automatic: bool,
    /// Its first replicas: they begin its Raft group, all with the same members.
    pub founders: BTreeSet<ServerId>,
    /// To be removed as soon as its prefixes have moved back.
    pub deleting: bool,
}

/// How far a move has come.
///
/// ```text
///  Queued -> Copying -> Imported -> Dropping -> (gone)
///            BeginMove  MoveImported FinishMove  MoveDropped
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// An earlier move overlaps it. Where from, where to and what stays is decided when its turn comes.
    Queued,
    /// `from` freezes the prefix, and its content is copied to `to`.
    Copying,
    /// `to` holds everything; `from` still owns it, frozen.
    Imported,
    /// `to` owns it; `from` has yet to drop what it held.
    Dropping,
}

/// A prefix on its way from one shard to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Its number. Of two that overlap, the lower goes first.
    pub id: MoveId,
    /// What moves: a module or a path.
    pub prefix: Prefix,
    /// What lies within the prefix but stays where it is: the outermost prefixes that have owners of their own.
    pub except: Vec<Path>,
    /// The owner until [`Phase::Dropping`].
    pub from: ShardId,
    /// The owner from then on.
    pub to: ShardId,
    /// How far it has come.
    pub phase: Phase,
    /// The prefix goes back to whoever owns what is around it, because its shard is being deleted.
    pub back: bool,
}

impl core::fmt::Display for Phase {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Queued => "waiting for an earlier one",
            Self::Copying => "being copied",
            Self::Imported => "copied",
            Self::Dropping => "being cleaned up",
        })
    }
}

impl Move {
    /// What moves, as a path; what is in `except` stays.
    pub fn territory(&self) -> Path {
        match &self.prefix {
            Prefix::Everything => Path::root(),
            Prefix::Path(path) => path.clone(),
            Prefix::Module(module) => Path::of_module(module).expect("the map takes only names of modules"),
        }
    }
}
