//! Time as whole picoseconds: at 400 Gbit/s a byte lasts 20 ps, and 64 bits reach 213 days.

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub};

use serde::{Deserialize, Serialize};

/// A moment, in picoseconds since the driver's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(u64);

/// A length of time, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(u64);

impl Time {
    /// The driver's start.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `ps` picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// The moment `ns` nanoseconds after the start.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns.saturating_mul(1_000))
    }

    /// Picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds since the start.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }

    /// Seconds since the start, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The time since `earlier`, zero if that lies ahead.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns.saturating_mul(1_000))
    }

    /// `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000_000))
    }

    /// `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000_000))
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000_000))
    }

    /// Picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }

    /// Seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// How long `bytes` take at `rate_bps` bits a second, rounded up to a whole picosecond.
    ///
    /// # Panics
    /// If `rate_bps` is zero: the fabric file refuses such a rate.
    pub const fn transmission(bytes: u64, rate_bps: u64) -> Self {
        let ps = (bytes as u128 * 8 * 1_000_000_000_000).div_ceil(rate_bps as u128);
        Self(if ps > u64::MAX as u128 { u64::MAX } else { ps as u64 })
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub for Time {
    type Output = Span;
    fn sub(self, earlier: Self) -> Span {
        self.since(earlier)
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Mul<u64> for Span {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl fmt::Display for Span {
    /// The largest unit that leaves a whole number: `50us`, `1500ns`, `2s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (per, unit) = [(1_000_000_000_000, "s"), (1_000_000_000, "ms"), (1_000_000, "us"), (1_000, "ns")]
            .into_iter()
            .find(|(per, _)| self.0 != 0 && self.0.is_multiple_of(*per))
            .unwrap_or((1, "ps"));
        if self.0 == 0 { f.write_str("0s") } else { write!(f, "{}{unit}", self.0 / per) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmission_rounds_up_and_never_overflows() {
        assert_eq!(Span::transmission(1_040, 1_000_000_000), Span::from_ns(8_320));
        assert_eq!(Span::transmission(1, 3_000_000_000_000), Span::from_ps(3));
        assert_eq!(Span::transmission(u64::MAX, 1), Span::from_ps(u64::MAX));
    }

    #[test]
    fn spans_read_as_they_are_written() {
        assert_eq!(Span::from_us(50).to_string(), "50us");
        assert_eq!(Span::from_ns(1_500).to_string(), "1500ns");
        assert_eq!(Span::ZERO.to_string(), "0s");
    }

    #[test]
    fn time_saturates() {
        assert_eq!(Time::NEVER + Span::from_secs(1), Time::NEVER);
        assert_eq!(Time::ZERO.since(Time::NEVER), Span::ZERO);
    }
}
