//! The controller's store: a tree of data, cut into shards, each replicated by a Raft group; as a state machine.
//!
//! A [`Server`] is one process of the cluster. It gets messages of peers and clients, the passing of time, and word from
//! its disk; it gives messages and disk writes. The same code runs live (crate `node`) and, in ten thousand simulated
//! clusters with crashes and partitions, in `sim`.
//!
//! ```text
//!   client ----> requests --> operations --> drive --+--> group (leader here) --> raft-rs --> wal --> disk
//!                                                    |          |  apply                       |
//!                                                    |          v                           written
//!                                                    |       content: tree::State, placement::Map
//!                                                    +--> peers: one envelope --> the leader's server
//! ```
//!
//! What always holds:
//! - A write that was answered is on the disks of a majority of its shard's voters, and survives as long as a majority of
//!   these disks does.
//! - A linearizable read sees every write that was answered before it was asked (see the `lease` module for the clocks
//!   that the lease assumes).
//! - A write that is sent again with the same session and sequence happens once.
//!
//! | read | for |
//! |---|---|
//! | [`protocol`] | what clients say, and the frames |
//! | [`server`] | a server's parts |
//! | `expiry` | the time of leases of data |
//! | `group`, `lease`, `storage` | a replica: raft-rs and what it needs; `effects`: what comes of it |
//! | [`peer`], [`snapshots`] | what servers say to each other |
//! | [`client`] | a client that finds leaders and repeats what got lost |
//! | [`contender`] | a lock's or an election's queue: a recipe for clients |
//! | [`budget`] | memory that is held for clients and peers, counted |
//! | [`backup`] | all data of a cluster as one stream of bytes |
#![forbid(unsafe_code)]

pub mod alarm;
pub mod backup;
pub mod budget;
pub mod client;
mod config;
pub mod contender;
mod content;
mod effects;
mod expiry;
mod group;
mod id;
mod lease;
pub mod message;
pub mod peer;
mod planted;
pub mod protocol;
pub mod read;
mod secret;
pub mod server;
pub mod snapshots;
pub mod status;
mod storage;

pub use config::{Config, ELECTION_TICKS, HEARTBEAT_TICKS, LEASE_MAX, Reads};
pub use id::{ClientId, RequestId};
pub use planted::{Bug, Planted};
pub use secret::Secret;
pub use server::{About, Caller, Founding, Input, Membership, OpenError, Output, Party, Places, Server, Stop};
