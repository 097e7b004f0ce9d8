//! How much a simulated server keeps and holds.

use machine::ServerId;

/// Bounds of a server, far below those of a real one unless a seed draws these: what happens once in an hour there happens all the time
/// here. All in bytes.
#[derive(Clone, Copy, Debug)]
pub struct ServerSizes {
    /// Log that makes a snapshot worth while.
    pub snapshot_log_bytes: u64,
    /// Log that stays behind a snapshot.
    pub keep_log_bytes: u64,
    /// Log of all shards together that makes snapshots worth while.
    pub log_memory_bytes: u64,
    /// A segment of the log on the disk.
    pub segment_bytes: u64,
    /// What a server holds for others.
    pub memory_bytes: usize,
    /// Data that a server may hold, if there is a bound.
    pub quota_bytes: Option<u64>,
    /// Events in one message to a watcher.
    pub watch_message_bytes: usize,
}

impl Default for ServerSizes {
    fn default() -> Self {
        Self {
            snapshot_log_bytes: 24 << 10,
            keep_log_bytes: 4 << 10,
            log_memory_bytes: 64 << 10,
            segment_bytes: 16 << 10,
            memory_bytes: store::budget::DEFAULT_BYTES,
            quota_bytes: None,
            watch_message_bytes: 256 << 10,
        }
    }
}

impl ServerSizes {
    /// The same with logs so small that snapshots are made all the time.
    #[must_use]
    pub fn with_tiny_logs(self) -> Self {
        let (snapshot_log_bytes, keep_log_bytes) = (2 << 10, 256);
        Self { snapshot_log_bytes, keep_log_bytes, log_memory_bytes: 8 << 10, segment_bytes: 4 << 10, ..self }
    }

    /// The same with the logs of a real server, and at least the memory that may be set for one.
    #[must_use]
    pub fn with_production_logs(self) -> Self {
        let config = store::Config::new(1, ServerId(1), "production");
        Self {
            snapshot_log_bytes: config.snapshot_log_bytes,
            keep_log_bytes: config.keep_log_bytes,
            log_memory_bytes: config.log_memory_bytes,
            segment_bytes: wal::Config::default().segment_bytes,
            memory_bytes: self.memory_bytes.max(store::budget::MIN_BYTES),
            ..self
        }
    }

    /// Log on the disk past which what lives in old segments is written again.
    pub fn log_disk_bytes(&self) -> u64 {
        2 * self.log_memory_bytes + self.segment_bytes / 4
    }

    /// What a server's disk may hold beyond three times the content, the log's limit, and twice what lives in the log.
    pub fn disk_slack_bytes(&self) -> u64 {
        4 * self.segment_bytes + (64 << 10)
    }

    /// Has a server keep to them.
    pub fn configure(&self, config: &mut store::Config) {
        config.snapshot_log_bytes = self.snapshot_log_bytes;
        config.keep_log_bytes = self.keep_log_bytes;
        config.log_memory_bytes = self.log_memory_bytes;
        config.log_disk_bytes = self.log_disk_bytes();
        config.memory_bytes = self.memory_bytes;
        config.quota_bytes = self.quota_bytes;
        config.watch_message_bytes = self.watch_message_bytes;
    }

    /// The log of one of a cluster's servers.
    pub fn log_config(&self, cluster: u64) -> wal::Config {
        wal::Config { cluster: Some(u128::from(cluster)), segment_bytes: self.segment_bytes, ..wal::Config::default() }
    }
}
