//! What the leader of meta has in hand for the whole cluster.

use std::collections::BTreeMap;

use machine::ServerId;
use machine::nanos::Time;
use placement::{Leadership, Mover, leadership};

use crate::protocol::Error;

/// What the leader of meta has in hand for the whole cluster.
#[derive(Debug)]
pub(super) struct MetaLeader {
    /// Prefixes on their way from shard to shard. Begun anew by each leader.
    pub(super) mover: Mover,
    /// Who should lead what.
    pub(super) leadership: Leadership,
    /// Servers that somebody wants to be removed.
    pub(super) removals: Questions,
}

impl MetaLeader {
    pub(super) fn new() -> Self {
        let leadership = Leadership::new(leadership::Config::default());
        Self { mover: Mover::new(), leadership, removals: Questions::new() }
    }
}

/// The servers whose removal is asked for.
pub(super) type Questions = BTreeMap<ServerId, Question>;

/// A removal that somebody asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) since: Time,
    pub(super) last: Time,
    /// The end of meta's log when it was asked first: who knows this to be committed knows the members.
    pub(super) meta: u64,
}

/// What is to be done with a removal now.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It may be proposed.
    Go,
    /// It is not known yet which servers are there.
    Wait,
    /// Some shard would lose its majority, or has no leader that could be relied on.
    Refuse(Error),
}
