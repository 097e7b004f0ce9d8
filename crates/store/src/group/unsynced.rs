//! What of a group is not on the disk yet.

use std::collections::VecDeque;

use raft::eraftpb::{HardState, Message};

/// A batch of Raft's output that is not on the disk yet.
#[derive(Debug)]
pub(super) struct Unpersisted {
    pub(super) ready: u64,
    pub(super) messages: Vec<Message>,
    /// The log write that holds it; none while it is being gathered.
    pub(super) write: Option<u64>,
}

/// What of a group is not on the disk yet.
#[derive(Debug)]
pub(super) struct Unsynced {
    /// Raft's output, the oldest first.
    pub(super) batches: VecDeque<Unpersisted>,
    /// What was last handed to the log.
    pub(super) logged: HardState,
    /// The index of a snapshot that was taken over and whose mark is not on the disk yet. Until it is, raft-rs may neither
    /// be stepped nor ticked: it looks for entries that are gone.
    pub(super) installing: Option<u64>,
}

impl Unsynced {
    /// Of a group whose log on the disk has this state.
    pub(super) fn new(logged: HardState) -> Self {
        Self { batches: VecDeque::new(), logged, installing: None }
    }

    /// Whether a snapshot was taken over and raft-rs has to stand still until its mark is on the disk.
    pub(super) fn is_installing(&self) -> bool {
        self.installing.is_some()
    }
}
