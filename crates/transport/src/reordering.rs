//! Reordering as an observer near the receiver sees it (RFC 4737).
//!
//! The same meter watches simulated segments and, live, the frames that a switch hands to a host.

use serde::{Deserialize, Serialize};

/// What was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Data segments observed.
    pub segments: u64,
    /// Segments that arrived after one with a higher sequence number that was sent no earlier.
    pub reordered: u64,
    /// The largest extent (RFC 4737, 4.2.1): how many segments arrived between the earliest one with a higher sequence number and the late one.
    pub extent_max: u32,
}
