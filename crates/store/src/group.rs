//! One Raft group on one server: a replica of one shard.
//!
//! raft-rs decides; this gives it time, stores what it wants stored, applies what it commits, and answers who asked.
//! What always holds: nothing is acknowledged (a vote, an entry) before the log batch that holds it is on the disk, and
//! no read is answered unless a majority of voters have confirmed this leader at or after the moment the read came, or
//! within the lease (see [`crate::config::Config`]).
//!
//! `replica` has the group itself. What it is made of stands below it: `proposals`, `held`, `timers`, `unsynced`, `promises`, `limits`,
//! `failure`; what it does with that above: `batch`, `commits`, `election`, `persist`, `check`, `guard`, `apply`, `send`.

mod apply;
mod batch;
mod check;
mod commits;
mod election;
mod failure;
mod guard;
mod held;
mod limits;
mod persist;
mod promises;
mod proposals;
mod replica;
mod send;
mod timers;
mod unsynced;

pub(crate) use replica::{Group, Opening};
