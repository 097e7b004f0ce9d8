//! What a link counts.

use machine::{Span, nanos};
use serde::{Deserialize, Serialize};

/// What a link has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Packets that the link accepted.
    pub packets: u64,
    /// Bytes that the link accepted.
    pub bytes: u64,
    /// Packets turned away by a full queue.
    pub drops: u64,
    /// Packets that were marked since the queue was long.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub marks: u64,
    /// Packets lost because the carrier went: offered without one, or under way when it went.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u64,
    /// Packets that the link accepted and then lost at random.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub losses: u64,
    /// Packets that the link accepted and made two of, at random. The second ones are among what was offered to it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicates: u64,
    /// Packets of which the link flipped a bit, at random.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corruptions: u64,
    /// Packets that did not take the link's delay, at random.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overtakes: u64,
    /// Time spent transmitting what was accepted (zero without a rate). It is counted modulo 2^64 ps (213 days): [`Span::wrapping_sub`] gives what lies
    /// between two readings.
    pub busy: Span,
    /// The most packets that waited at once.
    pub queue_peak: u32,
    /// How long packets have waited behind the one in transmission, all of them together. Divided by the time between two readings this is how many waited on
    /// the mean (Little's law). It is counted modulo 2^64 ns, as `busy` is modulo 2^64 ps.
    #[serde(default)]
    pub waited: nanos::Span,
}

impl Counters {
    /// Adds what another part of the same link has done.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.drops += other.drops;
        self.marks += other.marks;
        self.cut += other.cut;
        self.losses += other.losses;
        self.duplicates += other.duplicates;
        self.corruptions += other.corruptions;
        self.overtakes += other.overtakes;
        self.busy = self.busy.wrapping_add(other.busy);
        self.queue_peak = self.queue_peak.max(other.queue_peak);
        self.waited = self.waited.wrapping_add(other.waited);
    }
}

/// What hardly any link has is left out.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
