//! The configuration of a server.

use std::collections::BTreeSet;

use machine::ServerId;
use machine::nanos::Span;
use placement::{ShardId, TimeoutConfig};

use crate::planted::Planted;

/// The ticks of Raft's clock in one election timeout: its resolution. A follower refuses votes for this many ticks after
/// it has heard its leader, and campaigns itself after one to two times as many.
pub const ELECTION_TICKS: usize = 10;

/// The ticks between two heartbeats.
pub const HEARTBEAT_TICKS: usize = 2;

/// No lease is longer, whatever was promised. So long a server that has restarted takes part in no election: it has forgotten
/// what it promised, perhaps under another configuration.
pub const LEASE_MAX: Span = Span::from_ms(200);

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// The number of the cluster.
    pub cluster: u64,
    /// Who it is.
    pub server: ServerId,
    /// What people call it.
    pub name: String,
    /// Where other servers reach it, `host:port`: for those whose map does not have it (any more).
    pub address: String,
    /// Bounds of the election timeout, or a fixed one.
    pub election: TimeoutConfig,
    /// How reads are made linearizable.
    pub reads: Reads,
    /// Whether candidates ask first if they would be elected (Raft, 9.6). Off only to show what happens without.
    pub pre_vote: bool,
    /// Whether leaders move to where requests come from and spread over the servers.
    pub balance_leaders: bool,
    /// Bytes of log in memory, per group, that make a snapshot worth while.
    pub snapshot_log_bytes: u64,
    /// Bytes of log that stay behind a snapshot, for followers that are a little late.
    pub keep_log_bytes: u64,
    /// Bytes of log in memory of all groups together, past which those with the longest logs make snapshots.
    pub log_memory_bytes: u64,
    /// Bytes of log on the disk past which what still lives in the oldest segments is written again, so that they can go. It has
    /// to be more than twice `log_memory_bytes`, or the same entries would be written again and again.
    pub log_disk_bytes: u64,
    /// Requests being carried out at most; more are refused as busy.
    pub operations_max: usize,
    /// Bytes that are held for clients and peers at most ([`crate::budget`]).
    pub memory_bytes: usize,
    /// Bytes of data that this server may hold, about: when the data of all its replicas together reach them, shards that it leads
    /// refuse what would add to them. None: as much as there is memory for.
    pub quota_bytes: Option<u64>,
    /// Bytes of events in one message to a watcher, if each of them is shorter.
    pub watch_message_bytes: usize,
    /// Raised with every start of this server (wall clock or counter): orders its words in the RPC registry.
    pub incarnation: u64,
    /// Replicas that are emptied if they have stopped, to be filled again by their leaders, each once. Those that are whole are left alone.
    pub rebuild: BTreeSet<ShardId>,
    /// Bytes of one snapshot that another server may send, at most.
    pub snapshot_bytes_max: u64,
    /// The secret that this server proposes for the cluster, if the driver has servers prove one.
    pub secret: Option<crate::Secret>,
    /// An error on purpose, to prove that the simulation finds it. None can be planted without the feature `planted-bugs`.
    pub planted: Planted,
}

/// How reads are made linearizable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// By the leader's lease: right as long as two servers' clocks differ in speed by at most this share, in parts per
    /// thousand.
    Lease {
        /// How far the speeds of two clocks may be apart, per mille.
        drift_per_mille: u64,
    },
    /// By a round of heartbeats for each batch of reads (Raft, 6.4): right whatever the clocks do.
    Index,
}

impl Config {
    /// What suits most clusters.
    pub fn new(cluster: u64, server: ServerId, name: impl Into<String>) -> Self {
        Self {
            cluster,
            server,
            name: name.into(),
            address: String::new(),
            election: TimeoutConfig::default(),
            reads: Reads::Lease { drift_per_mille: 50 },
            pre_vote: true,
            balance_leaders: true,
            snapshot_log_bytes: 16 << 20,
            keep_log_bytes: 2 << 20,
            log_memory_bytes: 64 << 20,
            log_disk_bytes: 136 << 20,
            operations_max: 65_536,
            memory_bytes: crate::budget::DEFAULT_BYTES,
            quota_bytes: Some(crate::alarm::DEFAULT_QUOTA_BYTES),
            watch_message_bytes: 256 << 10,
            incarnation: 1,
            rebuild: BTreeSet::new(),
            snapshot_bytes_max: 16 << 30,
            secret: None,
            planted: Planted::default(),
        }
    }

    /// How long this server refuses to elect another after it has heard its leader, by its own clock: [`ELECTION_TICKS`]
    /// ticks, of which the first may be cut short; a tick is never shorter than the smallest election timeout allows.
    pub(crate) fn promise(&self) -> Span {
        let shortest = self.election.fixed.unwrap_or(self.election.min);
        shortest / ELECTION_TICKS as u64 * (ELECTION_TICKS as u64 - 1)
    }
}

impl Reads {
    /// How long a leader may answer reads after it asked a majority of voters and they answered, if each of the voters has
    /// promised that much. The drift counts twice: the leader's clock may be slow while the voter's is fast.
    pub(crate) fn lease(self, promised: Span) -> Option<Span> {
        self.lease_without_bound(promised.min(LEASE_MAX))
    }

    /// The same without [`LEASE_MAX`].
    pub(crate) fn lease_without_bound(self, promised: Span) -> Option<Span> {
        let Self::Lease { drift_per_mille } = self else { return None };
        Some(promised / 1_000 * 1_000_u64.saturating_sub(2 * drift_per_mille))
    }
}
