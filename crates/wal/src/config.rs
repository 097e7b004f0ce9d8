//! What can be set.

/// A segment's size at which the next one begins, unless set. What is not needed any more is given back in such pieces.
pub const SEGMENT_BYTES: u64 = 32 << 20;

/// Zeros that are written ahead of the batches at a time, unless set. So much takes about half a millisecond, as
/// long as a few batches; a step of 4 MiB takes 6 ms and more, and every batch would wait for it.
pub const ALLOCATE_BYTES: u64 = 256 << 10;

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
    /// A batch that reaches the end of its segment's file extends it with zeros to the next multiple of this, though
    /// not beyond `segment_bytes`, and not if it is larger than a quarter of this; 0 never does. See [`Operation::Allocate`](crate::Operation::Allocate).
    pub allocate_bytes: u64,
    /// Bytes that may wait; [`Log::append`](crate::Log::append) refuses more.
    pub backlog_bytes_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cluster: None,
            segment_bytes: SEGMENT_BYTES,
            allocate_bytes: ALLOCATE_BYTES,
            backlog_bytes_max: BACKLOG_BYTES_MAX,
        }
    }
}
