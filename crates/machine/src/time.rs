//! Time as a whole number of a unit, in 64 bits. Networks count picoseconds: at 400 Gbit/s a byte lasts 20 of them, and they reach 213 days. Controllers count
//! nanoseconds, which reach 584 years. What counts in one unit is never mixed with what counts in the other: that does not compile.

use core::fmt;
use core::hash::Hash;
use core::marker::PhantomData;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

use serde::{Deserialize, Serialize};

/// What a clock counts.
pub trait Unit: Copy + fmt::Debug + Default + Ord + Hash + 'static {
    /// So many are a second: a multiple of a billion.
    const PER_SECOND: u64;
}

/// Picoseconds: 64 bits reach 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pico;

/// Nanoseconds: 64 bits reach 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nano;

impl Unit for Pico {
    const PER_SECOND: u64 = 1_000_000_000_000;
}

impl Unit for Nano {
    const PER_SECOND: u64 = 1_000_000_000;
}

/// A moment, in units since the driver's start.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent, bound = "")]
pub struct Time<U>(u64, PhantomData<U>);

/// A length of time, in units.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent, bound = "")]
pub struct Span<U>(u64, PhantomData<U>);

impl<U: Unit> Time<U> {
    /// The driver's start.
    pub const ZERO: Self = Self::new(0);
    /// Later than anything that happens.
    pub const NEVER: Self = Self::new(u64::MAX);

    #[inline]
    const fn new(units: u64) -> Self {
        Self(units, PhantomData)
    }

    /// In units since the start: for what sorts moments by their bits.
    #[inline]
    pub(crate) const fn units(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) const fn from_units(units: u64) -> Self {
        Self::new(units)
    }

    /// The moment `ns` nanoseconds after the start.
    #[inline]
    pub const fn from_ns(ns: u64) -> Self {
        Self::new(ns.saturating_mul(U::PER_SECOND / 1_000_000_000))
    }

    /// Whole nanoseconds since the start.
    #[inline]
    pub const fn as_ns(self) -> u64 {
        self.0 / (U::PER_SECOND / 1_000_000_000)
    }

    /// Seconds since the start, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / U::PER_SECOND as f64
    }

    /// The time since `earlier`, zero if that lies ahead.
    #[inline]
    pub const fn since(self, earlier: Self) -> Span<U> {
        Span::new(self.0.saturating_sub(earlier.0))
    }
}

impl Time<Pico> {
    /// The moment `ps` picoseconds after the start.
    #[inline]
    pub const fn from_ps(ps: u64) -> Self {
        Self::new(ps)
    }

    /// Picoseconds since the start.
    #[inline]
    pub const fn as_ps(self) -> u64 {
        self.0
    }
}

impl<U: Unit> Span<U> {
    /// No time at all.
    pub const ZERO: Self = Self::new(0);

    #[inline]
    const fn new(units: u64) -> Self {
        Self(units, PhantomData)
    }

    /// `ns` nanoseconds.
    #[inline]
    pub const fn from_ns(ns: u64) -> Self {
        Self::new(ns.saturating_mul(U::PER_SECOND / 1_000_000_000))
    }

    /// `us` microseconds.
    #[inline]
    pub const fn from_us(us: u64) -> Self {
        Self::new(us.saturating_mul(U::PER_SECOND / 1_000_000))
    }

    /// `ms` milliseconds.
    #[inline]
    pub const fn from_ms(ms: u64) -> Self {
        Self::new(ms.saturating_mul(U::PER_SECOND / 1_000))
    }

    /// `s` seconds.
    #[inline]
    pub const fn from_secs(s: u64) -> Self {
        Self::new(s.saturating_mul(U::PER_SECOND))
    }

    /// Whole nanoseconds.
    #[inline]
    pub const fn as_ns(self) -> u64 {
        self.0 / (U::PER_SECOND / 1_000_000_000)
    }

    /// Seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / U::PER_SECOND as f64
    }

    /// Both together, counted modulo 2^64 units, as counters that run for ever are: see [`Span::wrapping_sub`].
    #[inline]
    #[must_use]
    pub const fn wrapping_add(self, other: Self) -> Self {
        Self::new(self.0.wrapping_add(other.0))
    }

    /// By how much a counter has grown since it stood at `before`, if that was by less than 2^64 units.
    #[inline]
    #[must_use]
    pub const fn wrapping_sub(self, before: Self) -> Self {
        Self::new(self.0.wrapping_sub(before.0))
    }
}

impl Span<Pico> {
    /// `ps` picoseconds.
    #[inline]
    pub const fn from_ps(ps: u64) -> Self {
        Self::new(ps)
    }

    /// Picoseconds.
    #[inline]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// How long `bytes` take at `rate_bps` bits a second, rounded up to a whole picosecond.
    ///
    /// # Panics
    /// If `rate_bps` is zero: the fabric file refuses such a rate.
    pub const fn transmission(bytes: u64, rate_bps: u64) -> Self {
        let ps = (bytes as u128 * 8 * 1_000_000_000_000).div_ceil(rate_bps as u128);
        Self::new(if ps > u64::MAX as u128 { u64::MAX } else { ps as u64 })
    }
}

impl<U: Unit> Add<Span<U>> for Time<U> {
    type Output = Self;
    #[inline]
    fn add(self, span: Span<U>) -> Self {
        Self::new(self.0.saturating_add(span.0))
    }
}

impl<U: Unit> AddAssign<Span<U>> for Time<U> {
    #[inline]
    fn add_assign(&mut self, span: Span<U>) {
        *self = *self + span;
    }
}

impl<U: Unit> Sub for Time<U> {
    type Output = Span<U>;
    #[inline]
    fn sub(self, earlier: Self) -> Span<U> {
        self.since(earlier)
    }
}

impl<U: Unit> Add for Span<U> {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self::new(self.0.saturating_add(other.0))
    }
}

impl<U: Unit> Mul<u64> for Span<U> {
    type Output = Self;
    #[inline]
    fn mul(self, n: u64) -> Self {
        Self::new(self.0.saturating_mul(n))
    }
}

impl<U: Unit> Div<u64> for Span<U> {
    type Output = Self;
    /// Rounded down to a whole unit.
    #[inline]
    fn div(self, n: u64) -> Self {
        Self::new(self.0 / n)
    }
}

impl From<Span<Pico>> for Span<Nano> {
    /// Rounded down to a whole nanosecond.
    fn from(span: Span<Pico>) -> Self {
        Self::from_ns(span.as_ns())
    }
}

impl<U> fmt::Debug for Time<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Time").field(&self.0).finish()
    }
}

impl<U> fmt::Debug for Span<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Span").field(&self.0).finish()
    }
}

impl<U: Unit> fmt::Display for Span<U> {
    /// The largest unit that leaves a whole number: `50us`, `1500ns`, `2s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (per, unit) = [(1, "s"), (1_000, "ms"), (1_000_000, "us"), (1_000_000_000, "ns")]
            .into_iter()
            .map(|(parts, unit)| (U::PER_SECOND / parts, unit))
            .find(|(per, _)| self.0 != 0 && self.0.is_multiple_of(*per))
            .unwrap_or((1, "ps"));
        if self.0 == 0 { f.write_str("0s") } else { write!(f, "{}{unit}", self.0 / per) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Span, Time, nanos};

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
        assert_eq!(Span::from_ps(7).to_string(), "7ps");
        assert_eq!(Span::ZERO.to_string(), "0s");
        assert_eq!(nanos::Span::from_us(50).to_string(), "50us");
        assert_eq!(nanos::Span::from_ns(1_500).to_string(), "1500ns");
        assert_eq!(nanos::Span::ZERO.to_string(), "0s");
    }

    #[test]
    fn time_saturates() {
        assert_eq!(Time::NEVER + Span::from_secs(1), Time::NEVER);
        assert_eq!(Time::ZERO.since(Time::NEVER), Span::ZERO);
    }

    #[test]
    fn each_unit_reaches_as_far_as_it_says() {
        const DAY: u64 = 24 * 3_600;
        let reaches = |days: u64| Time::ZERO + Span::from_secs(days * DAY) < Time::NEVER;
        assert_eq!((reaches(213), reaches(214)), (true, false));
        let century = nanos::Span::from_secs(36_525 * DAY);
        assert_eq!((nanos::Time::ZERO + century * 5).as_ns(), 5 * 36_525 * DAY * Nano::PER_SECOND);
    }

    #[test]
    fn what_a_network_measures_is_rounded_down_for_controllers() {
        assert_eq!(nanos::Span::from(Span::from_ps(1_999)), nanos::Span::from_ns(1));
        assert_eq!(Span::from_ps(1_999) / 2, Span::from_ps(999));
    }

    #[test]
    fn a_counter_that_wraps_still_shows_by_how_much_it_grew() {
        let before = Span::from_ps(u64::MAX - 4);
        assert_eq!(before.wrapping_add(Span::from_ps(12)).wrapping_sub(before), Span::from_ps(12));
    }
}
