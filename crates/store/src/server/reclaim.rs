//! The log is kept short: in memory and on the disk, whatever is written, by however many groups.
//!
//! A group makes a snapshot when its log has grown long, or when all logs together have. That bounds what is in memory. On
//! the disk all groups share segments, which go in order: one entry that still lives in the oldest keeps all later ones there.
//! Hence what still lives in the oldest segment, once there are many, is written again at the log's end: the little that small or
//! idle groups keep for followers that lag, and what no snapshot can hold yet, as in a group without a majority. What is long
//! goes by a snapshot first.
//!
//! So a server takes on its disk about the content twice (a snapshot, and the next one on its way), and
//! [`log_disk_bytes`](crate::Config::log_disk_bytes) of log, with a little more while snapshots are written: at most the
//! content three times and 256 MiB. If the disk cannot follow, writes are refused before it is more.

use machine::nanos::{Span, Time};
use placement::ShardId;

use super::Server;
use super::disk::Job;
use crate::group::Group;
use crate::status::{DiskStatus, StoppedReplica};

/// The log of a group may grow to a part of its content before a new snapshot is worth while, but not beyond this: it is
/// in memory.
const SNAPSHOT_LOG_MAX: u64 = 64 << 20;

/// Longer logs are not written again: a snapshot lets most of them go. So much is written again in one turn, and at least one
/// group's.
const REWRITE_MAX: u64 = 4 << 20;

/// What the log may take on the disk beyond its limit and the content before writes are refused.
const LATE_MAX: u64 = 48 << 20;

/// The witness of the log's end is synced so often, if there is anything new.
const WITNESS_EVERY: Span = Span::from_ms(200);

impl Server {
    /// Gives back what is not needed any more.
    pub(super) fn reclaim(&mut self, now: Time) {
        self.begin_snapshots();
        self.free_segments();
        self.sync_witness(now);
    }

    /// What each group keeps behind its snapshot, for followers that lag.
    fn keep_log_bytes(&self) -> u64 {
        let share = self.config.log_memory_bytes / 2 / self.groups.len().max(1) as u64;
        self.config.keep_log_bytes.min(share)
    }

    /// Lets go of a group's log what its snapshot makes needless.
    pub(super) fn release(&mut self, shard: ShardId) {
        let keep = self.keep_log_bytes();
        if let Some(group) = self.groups.get_mut(&shard) {
            group.release(keep, &mut self.log);
        }
    }

    /// Begins a snapshot where the log has grown long, and where it is longest if all together are too long.
    fn begin_snapshots(&mut self) {
        let keep = self.keep_log_bytes();
        let mut logs: Vec<(u64, ShardId)> =
            self.groups.values().map(|group| (group.storage().bytes(), group.id)).collect();
        logs.sort_unstable_by(|one, other| other.cmp(one));
        let mut total: u64 = logs.iter().map(|(bytes, _)| bytes).sum();
        for (bytes, shard) in logs {
            let group = &self.groups[&shard];
            let worth = self.config.snapshot_log_bytes.max((group.content.bytes() / 4).min(SNAPSHOT_LOG_MAX));
            let is_crowded = total > self.config.log_memory_bytes && bytes > 2 * keep;
            if bytes <= worth && !is_crowded {
                continue;
            }
            total = total.saturating_sub(bytes.saturating_sub(keep));
            if group.applied() > group.snapshot_index {
                self.begin_snapshot(shard);
            } else {
                self.release(shard);
            }
        }
    }

    fn begin_snapshot(&mut self, shard: ShardId) {
        let Some(group) = self.groups.get(&shard) else { return };
        if self.disk.has_job_of(shard) {
            return;
        }
        let meta = group.snapshot_meta();
        let writer = Some(self.log.snapshot_writer(shard.0, meta.index));
        let reader = group.content.reader();
        self.disk.add(Job { shard, meta, reader, writer, mark: None, received: None });
    }

    /// Has what lives in old segments leave them, if there are too many, or if somebody has asked for it.
    fn free_segments(&mut self) {
        let live: u64 = self.groups.values().map(|group| group.storage().bytes()).sum();
        let content: u64 = self.groups.values().map(|group| group.content.bytes()).sum();
        // What lives must be less than half of it, or the same entries would be written again and again.
        let limit = self.config.log_disk_bytes.max(2 * live);
        self.disk.reclaim.is_late = self.log.bytes() > limit + content + LATE_MAX;
        self.disk.reclaim.target.take_if(|target| self.log.oldest_segment() >= *target);
        let end = match self.disk.reclaim.target {
            Some(target) => target,
            None if self.log.bytes() > limit => self.log.oldest_segment() + 1,
            None => return,
        };
        let mut written = 0;
        for group in self.log.living_before(end) {
            written += self.leave_segments(ShardId(group), end, written);
        }
        // What was let go is not news that would leave by itself.
        self.log.flush();
    }

    /// Has one group leave the segments before `end`. Gives how many bytes it has written again for that.
    fn leave_segments(&mut self, shard: ShardId, end: u64, written: u64) -> u64 {
        self.release(shard);
        let Some(group) = self.groups.get(&shard) else {
            self.let_go_of_stopped(shard);
            return 0;
        };
        if !self.log.lives_before(shard.0, end) {
            return 0;
        }
        let bytes = group.storage().bytes();
        let has_snapshot = group.snapshot_index > 0;
        if group.applied() > group.snapshot_index && (bytes > REWRITE_MAX || !has_snapshot) {
            self.begin_snapshot(shard);
            return 0;
        }
        let is_turn_over = written > 0 && written + bytes > REWRITE_MAX;
        if is_turn_over || self.log.backlog_bytes() as u64 > REWRITE_MAX || !has_snapshot {
            return 0;
        }
        group.rewrite(&mut self.log);
        bytes
    }

    /// A replica that has stopped would keep all of the log from its own on. It is filled again by its leader as soon as somebody has
    /// decided so, and needs none of it for that; but where no other server leads the shard, its log may be the last one there is.
    fn let_go_of_stopped(&mut self, shard: ShardId) {
        let is_led = self.peers.leader_of(shard).is_some_and(|leader| leader != self.config.server);
        let Some(stopped) = self.absent.halted.get(&shard).filter(|_| is_led && !self.disk.has_job_of(shard)).cloned()
        else {
            return;
        };
        self.empty_replica(shard);
        // Until the next start: nothing fills it while somebody may look into why it has stopped.
        let reason = format!(
            "{}. Its log is given up, as it took room on the disk: the next start fills it again",
            stopped.reason
        );
        self.absent.halted.insert(shard, StoppedReplica { reason, ..stopped });
    }

    /// Begins to give back all that can be, now: snapshots of all groups, and no segment but the one that is written.
    pub(super) fn defragment(&mut self) {
        let news = |group: &&Group| group.applied() > group.snapshot_index;
        let shards: Vec<ShardId> = self.groups.values().filter(news).map(|group| group.id).collect();
        for shard in shards {
            self.begin_snapshot(shard);
        }
        self.disk.reclaim.target = Some(self.log.begin_segment());
    }

    /// What this server takes on its disk, and of log in memory.
    pub fn disk_status(&self) -> DiskStatus {
        DiskStatus {
            log_bytes: self.log.bytes(),
            log_segments: self.log.segments() as u64,
            snapshot_bytes: self.disk.snapshot_bytes.values().sum(),
            log_memory_bytes: self.groups.values().map(|group| group.storage().bytes()).sum(),
            content_bytes: self.content_bytes(),
            is_defragmenting: self.disk.reclaim.target.is_some_and(|target| self.log.oldest_segment() < target)
                || (self.disk.reclaim.target.is_some() && self.disk.has_jobs()),
        }
    }

    fn sync_witness(&mut self, now: Time) {
        if self.disk.reclaim.witness_at.is_some_and(|at| now < at) {
            return;
        }
        self.disk.reclaim.witness_at = Some(now + WITNESS_EVERY);
        self.disk.again();
        self.disk.aside.extend(self.log.sync_witness());
    }
}
