//! What comes of a group's work, and who waits for it.

use machine::ServerId;
use placement::ShardId;

use crate::message::RaftMessage;
use crate::peer::{Item, PeerAnswer};

/// The party that waits for an answer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asker {
    /// An operation of this server.
    Here(u64),
    /// Another server's question to this group.
    There(ServerId, ShardId, u64),
    /// What comes of it shows in the content.
    Nobody,
}

/// Why a group does not take something now. Whoever asked tries again, perhaps elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// This replica does not lead.
    NotLeader,
    /// Too much is uncommitted, or leadership is being handed over.
    NotNow,
}

/// What comes of a group's work, gathered for the server.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Messages for other servers.
    pub(crate) items: Vec<(ServerId, Item)>,
    /// Bytes of proposals that wait no longer.
    pub(crate) released_bytes: usize,
    /// Answers to those who asked.
    pub(crate) answers: Vec<(Asker, Result<PeerAnswer, Miss>)>,
    /// Snapshots that Raft wants to have sent.
    pub(crate) snapshots: Vec<(ServerId, ShardId, RaftMessage)>,
    /// Events of data, by shard, with the revision after them.
    pub(crate) events: Vec<(ShardId, tree::Event)>,
    /// Groups whose leader, members or content (meta) changed.
    pub(crate) changed: Vec<ShardId>,
    /// What meta's log did.
    pub(crate) placed: Vec<placement::Effect>,
    /// The highest index that was applied has risen in these groups.
    pub(crate) applied: Vec<ShardId>,
}
