//! Which shard holds which data, which servers replicate it, who should lead it.
//!
//! [`Map`] is the state of Raft group 0, *meta*: members of the cluster, shards with the prefixes of the data that they
//! own, and prefixes on their way from one shard to another. It changes by [`Command`]s in the log's order only, so that
//! every server routes alike. Around it stand policies, each a function or machine of its own:
//!
//! | module | decides |
//! |---|---|
//! | [`mover`] | the next step of every prefix that is on its way |
//! | [`membership`] | the next configuration change that brings a Raft group to its desired replicas |
//! | [`leadership`] | which server should lead each shard |
//! | [`access`] | who may do what: roles and users |
//! | [`timeout`] | how long a follower waits for its leader |
//!
//! Always: every path belongs to exactly one shard, [`ShardId::DEFAULT`] where no other claims it; a number of a server,
//! a shard or a move is never given twice.
#![forbid(unsafe_code)]

pub mod access;
mod address;
mod command;
mod error;
mod id;
pub mod leadership;
mod map;
pub mod membership;
mod model;
pub mod mover;
mod prefix;
mod replicas;
mod route;
pub mod timeout;

pub use access::{Access, AccessCommand};
pub use command::{Command, Effect, PREFIXES_PER_SHARD_MAX};
pub use error::{DecodeError, Refusal, SpansShards};
pub use id::{MoveId, ShardId};
pub use leadership::{Leadership, Transfer};
pub use map::{MEMBERS_MAX, MOVES_MAX, Map, PREFIXES_MAX, REMOVED_MAX, SHARDS_MAX};
pub use membership::{Configuration, Next};
pub use model::{Member, Move, Phase, Replicas, Shard, Strategy, VOTERS_MAX};
pub use mover::{Mover, Step};
pub use prefix::{MODULE_LEN_MAX, Prefix};
pub use replicas::{DesiredReplicas, META_VOTERS_MAX};
pub use timeout::{Config as TimeoutConfig, ElectionTimeout};
