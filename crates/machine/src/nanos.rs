//! The time of controllers, in nanoseconds: it reaches 584 years.

use crate::{Nano, time};

/// A moment, in nanoseconds since the driver's start.
pub type Time = time::Time<Nano>;

/// A length of time, in nanoseconds.
pub type Span = time::Span<Nano>;

/// The next thing that a controller wants, or until when it waits.
pub type Step<O> = crate::Step<O, Nano>;

/// Events of a simulated cluster.
pub type Calendar<T> = crate::Calendar<T, Nano>;

/// For `#[serde(with = ...)]`: a [`Span`] in picoseconds, as controllers tell it each other since their first version. What is too long for 64 bits of them (213
/// days) is told as the longest.
pub mod in_picoseconds {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Span;

    /// Writes a span.
    ///
    /// # Errors
    /// The format's.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub fn serialize<S: Serializer>(span: &Span, serializer: S) -> Result<S::Ok, S::Error> {
        span.as_ns().saturating_mul(1_000).serialize(serializer)
    }

    /// Reads a span, rounded down to a whole nanosecond.
    ///
    /// # Errors
    /// The format's.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        Ok(Span::from_ns(u64::deserialize(deserializer)? / 1_000))
    }
}
