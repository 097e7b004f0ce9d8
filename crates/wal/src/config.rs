//! What can be set.

/// A segment's size at which the next one begins, unless set.
pub const SEGMENT_BYTES: u64 = 64 << 20;

/// Segments after which the group that holds the oldest one should make a snapshot, unless set.
pub const SEGMENTS_MAX: usize = 8;

/// What may wait for the next batch: one megabyte less than the length field of a batch can hold would do, but a
/// server that is so far behind its disk has to push back much earlier.
pub const BACKLOG_BYTES_MAX: usize = 64 << 20;

/// Settings of a [`Log`](crate::Log).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The cluster that this folder has to belong to, if it is known; another is refused.
    pub cluster: Option<u128>,
    /// A segment that has reached this many bytes takes no further batch.
    pub segment_bytes: u64,
    /// [`Log::pinned_by`](crate::Log::pinned_by) speaks when there are more segments than this.
    pub segments_max: usize,
    /// Bytes that may wait; [`Log::append`](crate::Log::append) refuses more.
    pub backlog_bytes_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cluster: None,
            segment_bytes: SEGMENT_BYTES,
            segments_max: SEGMENTS_MAX,
            backlog_bytes_max: BACKLOG_BYTES_MAX,
        }
    }
}
