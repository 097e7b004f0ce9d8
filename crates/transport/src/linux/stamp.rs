//! Times as segments carry them (RFC 7323).

use machine::{Span, Time};

/// A time as timestamps have it: in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(u64);

impl Stamp {
    pub const fn of(time: Time) -> Self {
        Self(time.as_ps() / 1_000_000_000)
    }

    /// As a segment carries it: it wraps after 49 days.
    pub const fn to_wire(self) -> u32 {
        self.0 as u32
    }

    /// From an earlier stamp on, a millisecond at least.
    pub fn since(self, earlier: Self) -> Span {
        Span::from_ms(self.0.saturating_sub(earlier.0).max(1))
    }
}
