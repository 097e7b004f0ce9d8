//! What can be set, and the bounds that cannot.

use machine::nanos::Span;

/// Offers in one bucket at most.
pub const OFFERS_MAX: usize = 4_096;
/// Bytes of the names and paths in one bucket at most.
pub const BUCKET_BYTES_MAX: usize = 512 << 10;
/// Bytes of a procedure's name at most.
pub const NAME_BYTES_MAX: usize = 256;
/// Servers in one cluster at most: buckets in a registry, entries in a status.
pub const SERVERS_MAX: usize = 256;
/// An envelope takes no further bucket beyond so many bytes; the rest follows in later rounds.
pub const ENVELOPE_BYTES_MAX: usize = 2 << 20;
/// Offers in an envelope with several buckets: who gets it takes only so many parts in a message.
pub const ENVELOPE_OFFERS_MAX: usize = 16 * OFFERS_MAX;
/// Bytes of a call's input, of its output, and (as text) of a provider's error at most.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Calls of local clients that are under way at most.
pub const CALLS_MAX: usize = 16_384;
/// Bytes of the inputs of these calls at most.
pub const CALL_BYTES_MAX: usize = 64 << 20;
/// Calls under way to one other server at most.
pub const CALLS_PER_SERVER_MAX: usize = 4_096;
/// Deliveries to local providers that are not answered yet, for callers here and elsewhere, at most.
pub const EXECUTIONS_MAX: usize = 16_384;
/// Of these, for callers on one other server at most.
pub const EXECUTIONS_PER_SERVER_MAX: usize = CALLS_PER_SERVER_MAX;
/// How many of the last attempts of a server are remembered, so that a repeat is not executed.
pub const SEEN_MAX: u64 = 16_384;
/// Providers that one call tries at most.
pub const ATTEMPTS_MAX: usize = 8;
/// Offers that turned out to be gone, remembered until the gossip says so, at most.
pub const ABSENT_MAX: usize = 1_024;
/// A longer timeout is refused.
pub const TIMEOUT_MAX: Span = Span::from_secs(3_600);
/// Names that a hint shows at most.
pub const HINTS_MAX: usize = 3;
/// Names that are looked at for a hint at most.
pub const HINT_NAMES_MAX: usize = 128;
/// Longer names are not compared, and not shown.
pub const HINT_BYTES_MAX: usize = 64;

/// What the driver can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// A status goes to a random live server so often.
    pub gossip_interval: Span,
    /// Changes of the own bucket are announced to all live servers at once, but not more often than this.
    pub announce_interval: Span,
    /// An idempotent call that has not been answered for so long goes to the next provider, if there is one.
    pub attempt_timeout: Span,
    /// For so long an offer that turned out to be gone is not tried, unless its server's bucket changes before.
    pub absent_for: Span,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            gossip_interval: Span::from_ms(100),
            announce_interval: Span::from_ms(10),
            attempt_timeout: Span::from_secs(1),
            absent_for: Span::from_secs(1),
        }
    }
}
