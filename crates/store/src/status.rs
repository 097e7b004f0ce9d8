//! What a server says of itself and of the cluster: for `heddle cluster status` and `/metrics`.

use std::collections::BTreeMap;

use machine::ServerId;
use placement::{Map, ShardId};
use serde::{Deserialize, Serialize};

/// One server's view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The cluster's number.
    pub cluster: u64,
    /// Who says this.
    pub server: ServerId,
    /// The replicated map, as far as this server has it.
    pub map: Map,
    /// Who leads each shard, as far as is known here.
    pub leaders: BTreeMap<ShardId, ServerId>,
    /// The replicas on this server.
    pub groups: Vec<GroupStatus>,
    /// Other servers, as seen from here.
    pub peers: Vec<PeerStatus>,
    /// The election timeout now, in microseconds.
    pub election_timeout_us: u64,
    /// Counters since the start.
    pub counters: Counters,
    /// RPCs on offer, by server: name and path.
    pub offers: BTreeMap<ServerId, Vec<(String, Option<String>)>>,
    /// The version of its program.
    pub version: String,
}

/// What a server takes on its disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Of the log's segments, zeros that were written ahead included.
    pub log_bytes: u64,
    /// How many segments these are.
    pub log_segments: u64,
    /// Of snapshots; those on their way to the disk are not counted.
    pub snapshot_bytes: u64,
    /// Of the log's entries in memory.
    pub log_memory_bytes: u64,
    /// Of the data, about, in memory.
    pub content_bytes: u64,
    /// What can be given back is being given back.
    pub is_defragmenting: bool,
}

/// A replica's part in its Raft group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RaftRole {
    /// It follows.
    Follower,
    /// It asks whether it would be elected.
    PreCandidate,
    /// It asks for votes.
    Candidate,
    /// It leads.
    Leader,
    /// It follows and has no vote.
    Learner,
}

/// A replica of a shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// The shard, which is also the number of the Raft group.
    pub shard: ShardId,
    /// Its part.
    pub role: RaftRole,
    /// The Raft term.
    pub term: u64,
    /// The leader it knows.
    pub leader: Option<ServerId>,
    /// The highest index that is committed.
    pub commit: u64,
    /// The highest index that is applied.
    pub applied: u64,
    /// The first index that is still in the log.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// Voters.
    pub voters: Vec<ServerId>,
    /// Learners.
    pub learners: Vec<ServerId>,
    /// Entries of data.
    pub entries: u64,
    /// Bytes of data, about.
    pub bytes: u64,
    /// The data's revision.
    pub revision: u64,
    /// Whether reads are served by a lease now.
    pub lease: bool,
}

/// Another server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Who.
    pub server: ServerId,
    /// Heard from it lately.
    pub live: bool,
    /// Smoothed round trip in microseconds, if measured.
    pub round_trip_us: Option<u64>,
}

/// Counters since the server's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Requests of clients.
    pub requests: u64,
    /// Of these, forwarded to another server.
    pub forwarded: u64,
    /// Writes proposed here.
    pub proposals: u64,
    /// Log entries applied, all groups.
    pub applied: u64,
    /// Reads served by a lease.
    pub lease_reads: u64,
    /// Reads served by a round of read index.
    pub index_reads: u64,
    /// Stale reads.
    pub stale_reads: u64,
    /// Elections begun here.
    pub campaigns: u64,
    /// Elections won here.
    pub elected: u64,
    /// Log batches written.
    pub log_writes: u64,
    /// Bytes of these.
    pub log_bytes: u64,
    /// Snapshots written to the disk.
    pub snapshots_written: u64,
    /// Snapshots sent to other servers.
    pub snapshots_sent: u64,
    /// Requests refused since too many were waiting.
    pub busy: u64,
    /// Requests that ran out of time.
    pub timeouts: u64,
    /// Watch events told.
    pub watch_events: u64,
    /// Watches that had to skip.
    pub watch_skips: u64,
    /// Messages of peers that made no sense, and were dropped.
    pub malformed: u64,
}
