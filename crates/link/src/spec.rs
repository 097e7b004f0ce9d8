//! What a link does to packets.

use machine::Span;
use serde::Serialize;

/// What a link does to packets, in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkSpec {
    /// Bits a second; `None`: as fast as the machine goes.
    pub rate_bps: Option<u64>,
    /// Propagation delay.
    pub delay: Span,
    /// How many packets wait behind the one in transmission; the next one is dropped. `None`: no bound of its own
    /// (only links without a rate, on which nothing waits).
    pub queue_packets: Option<u32>,
    /// Bytes that each packet takes on the wire besides its own, as `overhead` of tc-stab(8): Ethernet's preamble, start of frame,
    /// checksum and gap are 24. Only links with a rate have a use for it.
    #[serde(skip_serializing_if = "is_zero")]
    pub overhead_bytes: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl LinkSpec {
    /// Whether packets are delayed or limited at all.
    pub const fn is_shaped(&self) -> bool {
        self.rate_bps.is_some() || self.delay.as_ps() > 0
    }
}
