//! What is on its way to the disk, and how far giving room back is.

use std::collections::{BTreeMap, VecDeque};

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::ShardId;

use crate::content::{Content, Reader};
use crate::message::{RaftMessage, SnapshotMeta};
use crate::status::Latencies;

/// Snapshots on their way to the disk, one at a time, beside the log.
#[derive(Default)]
pub(super) struct Disk {
    pub(super) jobs: VecDeque<Job>,
    pub(super) writes: u64,
    pub(super) in_flight: Option<u64>,
    /// When the log write in flight was handed out, and how long such writes take.
    pub(super) log_in_flight: Option<(u64, Time)>,
    pub(super) latency: Span,
    /// How long each of them took.
    pub(super) log_latencies: Latencies,
    pub(super) full: Option<String>,
    /// A batch that found no room is tried again then.
    pub(super) retry_at: Time,
    /// To be carried out beside the log, before the next part of a snapshot: files that nothing refers to, the witness.
    pub(super) aside: Vec<wal::Operation>,
    /// The same, while it is carried out, or if it failed.
    pub(super) aside_taken: Vec<wal::Operation>,
    /// The snapshots on the disk, by group, in bytes.
    pub(super) snapshot_bytes: BTreeMap<ShardId, u64>,
    /// Where the log is, for people.
    pub(super) place: String,
    /// Bytes that came in for logs since the log was last given anything: not in its backlog yet.
    pub(super) unlogged: usize,
    /// How far it is with giving room back.
    pub(super) reclaim: Reclaim,
}

impl Disk {
    /// How long a log write takes, smoothed.
    pub(super) fn latency(&self) -> Span {
        self.latency
    }

    pub(super) fn has_job_of(&self, shard: ShardId) -> bool {
        self.jobs.iter().any(|job| job.shard == shard)
    }

    pub(super) fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    pub(super) fn add(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    /// What failed is tried again.
    pub(super) fn again(&mut self) {
        if self.in_flight.is_none() {
            self.aside.append(&mut self.aside_taken);
        }
    }

    /// A snapshot's file to which the log does not refer.
    pub(super) fn discard(&mut self, file: wal::FileName) {
        self.aside.push(wal::Operation::Delete { file });
    }

    /// A snapshot that is given up: what there is of it goes.
    pub(super) fn abort(&mut self, job: Job) {
        if let Some(writer) = job.writer {
            self.aside.extend(writer.abort());
        }
        if let Some(mark) = job.mark {
            self.discard(wal::temporary_name(&mark.file));
            self.discard(mark.file);
        }
    }
}

pub(super) struct Job {
    pub(super) shard: ShardId,
    pub(super) meta: SnapshotMeta,
    pub(super) reader: Reader,
    pub(super) writer: Option<wal::SnapshotWriter>,
    /// Once the last write is under way.
    pub(super) mark: Option<wal::SnapshotMark>,
    /// If it came from another server: sender, message and content for Raft.
    pub(super) received: Option<(ServerId, RaftMessage, Content)>,
}

/// How far a server is with giving room back.
#[derive(Default)]
pub(super) struct Reclaim {
    /// Segments before this one are to go, whether they are many or not.
    pub(super) target: Option<u64>,
    /// The log is much longer than it should be.
    pub(super) is_late: bool,
    pub(super) witness_at: Option<Time>,
}
