//! Puts arrivals back in order.
//!
//! A bond in balance-rr sends one TCP flow over several links. Each link is first in, first out, but they differ in
//! delay, so frames overtake one another, and TCP takes that for loss. The receiving bond repairs it: what comes too
//! early waits until what is missing has come, or until there is no more sense in waiting.
//!
//! Two machines share one interface, [`Reorder`]: [`BySequence`] where the peer is internal and numbers its frames,
//! [`ByTcp`] where it is not and TCP's own sequence numbers have to do.
//!
//! What always holds, whatever comes in:
//! - No packet waits longer than the timeout, if the driver comes back at [`Reorder::deadline`].
//! - A packet comes out exactly once. Only a copy of a frame that an internal peer numbered is dropped, and counted.
//! - Memory is taken once, at the start; the work a packet causes is bounded or was paid for by packets that waited.
//!
//! A gap is given up (see [`GivenUp`]) after the timeout, or as soon as *every member in use has delivered something
//! later*: since links are first in, first out, what is missing is lost then (RFC 1990, section 4.1), or when there is
//! no room to wait.

use machine::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::MEMBERS_MAX as MEMBERS;

mod by_sequence;
mod by_tcp;
mod flows;
mod seen;
mod segment;
mod slots;

pub use by_sequence::{BySequence, Numbered};
pub use by_tcp::{ByTcp, TcpConfig, Timeout};
pub use segment::Segment;

/// The smallest buffer, in packets.
pub const BUFFER_MIN: u32 = 2;
/// The largest buffer, in packets: 100 Gbit/s for 8 ms in frames of 1,500 bytes.
pub const BUFFER_MAX: u32 = 1 << 16;
/// The longest timeout. Whoever waits longer is slower than TCP's own repair.
pub const TIMEOUT_MAX: Span = Span::from_secs(1);
/// Where the internal, 64 bits wide count of a 32-bit number starts, so that it can be counted backwards from there.
const ORIGIN: u64 = 1 << 32;

/// What puts packets `P` back in order.
///
/// After each call that takes `out`, come back with [`Reorder::expire`] at [`Reorder::deadline`]. Time never runs
/// backwards between calls. `out` is called once for each packet that leaves, in order.
pub trait Reorder<P> {
    /// What has to be known of a packet.
    type Header: Copy;

    /// A packet arrives on `member`, an index below [`MEMBERS`](crate::MEMBERS_MAX). A copy that nobody gets comes back.
    ///
    /// # Panics
    /// If there can be no such member.
    fn offer(&mut self, now: Time, member: u8, header: Self::Header, packet: P, out: &mut impl FnMut(P)) -> Option<P>;

    /// When [`Reorder::expire`] has to be called; `None` while nothing waits.
    fn deadline(&self) -> Option<Time>;

    /// Gives up the gaps that were waited for until `now` in vain.
    fn expire(&mut self, now: Time, out: &mut impl FnMut(P));

    /// Hands on all that waits, in order.
    fn flush(&mut self, now: Time, out: &mut impl FnMut(P));

    /// From now on the peer uses these members: bit `n` stands for member `n`. While a member of the set is silent, a gap is
    /// waited for until the timeout; with no members known, always.
    fn set_members(&mut self, now: Time, members: u32, out: &mut impl FnMut(P));

    /// How many packets wait.
    fn waiting(&self) -> u32;

    /// What it has done so far.
    fn counters(&self) -> &Counters;
}

/// How much may wait, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Packets that may wait, and how far ahead of the number that is missing a frame may be: a power of two from
    /// [`BUFFER_MIN`] to [`BUFFER_MAX`].
    pub buffer: u32,
    /// No packet waits longer; above zero and at most [`TIMEOUT_MAX`].
    pub timeout: Span,
}

impl Default for Config {
    /// 1,024 frames, which are 12 ms at 1 Gbit/s, and 10 ms.
    fn default() -> Self {
        Self { buffer: 1_024, timeout: Span::from_ms(10) }
    }
}

impl Config {
    /// Whether a buffer can be made of this.
    ///
    /// # Errors
    /// [`Error::Buffer`], [`Error::Timeout`].
    pub fn check(self) -> Result<(), Error> {
        check_buffer(self.buffer)?;
        check_timeout(self.timeout)
    }
}

/// What is wrong with a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The buffer's size.
    #[error("the reordering buffer has {0} packets, expected a power of two from {BUFFER_MIN} to {BUFFER_MAX}")]
    Buffer(u32),
    /// The timeout's length.
    #[error("the reordering timeout is {0}, expected more than zero and at most {TIMEOUT_MAX}")]
    Timeout(Span),
    /// The flow table's size.
    #[error("the reordering table has {0} flows, expected a power of two from {min} to {max}", min = flows::FLOWS_MIN, max = flows::FLOWS_MAX)]
    Flows(u32),
}

const fn check_buffer(buffer: u32) -> Result<(), Error> {
    let good = buffer >= BUFFER_MIN && buffer <= BUFFER_MAX && buffer.is_power_of_two();
    if good { Ok(()) } else { Err(Error::Buffer(buffer)) }
}

fn check_timeout(timeout: Span) -> Result<(), Error> {
    let good = timeout > Span::ZERO && timeout <= TIMEOUT_MAX;
    if good { Ok(()) } else { Err(Error::Timeout(timeout)) }
}

/// Why a gap is not waited for any more.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Timeout,
    Overtaken,
    Full,
    Urgent,
    Reset,
}

/// How many gaps were given up, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// What was missing did not come in time.
    pub timeout: u64,
    /// Every member in use had delivered something later (RFC 1990, section 4.1).
    pub overtaken: u64,
    /// There was no more room to wait.
    pub full: u64,
    /// What came must not wait: a segment with SACK blocks, a retransmission, SYN or RST.
    pub urgent: u64,
    /// The peer started anew, the flow left the table, or the driver asked for all that waited.
    pub reset: u64,
}

impl GivenUp {
    /// All of them, for any reason.
    pub const fn total(&self) -> u64 {
        self.timeout + self.overtaken + self.full + self.urgent + self.reset
    }
}

/// How many buckets [`Counters::holds`] has.
pub const HOLD_BUCKETS: usize = 22;

/// What a resequencer did, and what it cost in latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Packets that came in.
    pub offered: u64,
    /// Packets that had to wait.
    pub held: u64,
    /// Packets that came behind a later one and left in their place.
    pub repaired: u64,
    /// Packets that came behind one that had been handed on: they left at once, out of order. With TCP, also retransmissions.
    pub late: u64,
    /// Copies that were dropped. Zero with TCP, whose copies are its receiver's business.
    pub duplicates: u64,
    /// Flows and peers that were found to have started anew without saying so.
    pub restarts: u64,
    /// Flows that had to leave a full table.
    pub evicted: u64,
    /// Gaps that were given up.
    pub given_up: GivenUp,
    /// Frames (TCP: bytes) that were missing in the gaps that were given up.
    pub missing: u64,
    /// The most packets that waited at once.
    pub waiting_peak: u32,
    /// The longest that a packet waited.
    pub hold_max: Span,
    /// All waits together, in picoseconds: divided by `offered`, what the repair costs a packet on average. Where thousands of packets wait at a time, 64 bits
    /// would last a few hours.
    pub hold_total_ps: u128,
    /// Waits by their length: the first bucket those under 1 us, bucket `n` those from 2^(n-1) us to under 2^n us, the last all others.
    pub holds: [u64; HOLD_BUCKETS],
}

impl Counters {
    /// How much longer a packet is on its way, on average over all.
    pub fn hold_mean(&self) -> Span {
        Span::from_ps(u64::try_from(self.hold_total_ps / u128::from(self.offered.max(1))).unwrap_or(u64::MAX))
    }

    fn released(&mut self, hold: Span) {
        self.hold_max = self.hold_max.max(hold);
        self.hold_total_ps += u128::from(hold.as_ps());
        let us = hold.as_ns() / 1_000;
        let bucket = (u64::BITS - us.leading_zeros()) as usize;
        self.holds[bucket.min(HOLD_BUCKETS - 1)] += 1;
    }

    fn holds_one_more(&mut self, waiting: u32) {
        self.held += 1;
        self.waiting_peak = self.waiting_peak.max(waiting);
    }

    fn gave_up(&mut self, rule: Rule, missing: u64) {
        let gaps = &mut self.given_up;
        let gaps = match rule {
            Rule::Timeout => &mut gaps.timeout,
            Rule::Overtaken => &mut gaps.overtaken,
            Rule::Full => &mut gaps.full,
            Rule::Urgent => &mut gaps.urgent,
            Rule::Reset => &mut gaps.reset,
        };
        *gaps += 1;
        self.missing += missing;
    }
}

/// The 64-bit count of a 32-bit number that lies within 2^31 of `near` (RFC 1982; at exactly 2^31 it lies behind).
#[inline]
const fn extend(near: u64, number: u32) -> u64 {
    near.wrapping_add_signed(number.wrapping_sub(near as u32).cast_signed() as i64)
}

/// All that lies before is either here or lost: the least of what the members in use have delivered last; 0 for nothing yet.
/// `None` without members.
#[inline]
fn overtaken_below(newest: &[u64; MEMBERS], mut members: u32) -> Option<u64> {
    let mut least = None;
    while members != 0 {
        let one = newest[members.trailing_zeros() as usize % MEMBERS];
        least = Some(least.map_or(one, |least: u64| least.min(one)));
        members &= members - 1;
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_on_across_the_wrap() {
        let near = ORIGIN + u64::from(u32::MAX);
        assert_eq!(extend(near, 0), near + 1);
        assert_eq!(extend(near + 1, u32::MAX), near);
        assert_eq!(extend(near, (1 << 31) - 2), near + (1 << 31) - 1);
        assert_eq!(extend(near, (1 << 31) - 1), near - (1 << 31), "the opposite number lies behind");
    }

    #[test]
    fn holds_are_sorted_by_their_length() {
        let mut counters = Counters { offered: 8, ..Counters::default() };
        for (us, bucket) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1_000, 10), (1_048_575, 20), (9_000_000, 21)] {
            let before = counters.holds[bucket];
            counters.released(Span::from_us(us));
            assert_eq!(counters.holds[bucket], before + 1, "{us} us");
        }
        assert_eq!(counters.hold_max, Span::from_secs(9));
        assert_eq!(counters.hold_mean(), Span::from_ns(10_049_585_000 / 8));
    }

    #[test]
    fn the_slowest_member_decides() {
        let mut newest = [0; MEMBERS];
        (newest[0], newest[3], newest[31]) = (7, 5, 9);
        assert_eq!(overtaken_below(&newest, 0), None);
        assert_eq!(overtaken_below(&newest, 1 | 1 << 31), Some(7));
        assert_eq!(overtaken_below(&newest, 1 | 1 << 3 | 1 << 31), Some(5));
        assert_eq!(overtaken_below(&newest, 1 | 1 << 1), Some(0));
    }

    #[test]
    fn sizes_and_times_are_checked() {
        assert_eq!(Config::default().check(), Ok(()));
        for buffer in [0, 1, 3, 1_000, BUFFER_MAX * 2] {
            let config = Config { buffer, ..Config::default() };
            assert_eq!(config.check(), Err(Error::Buffer(buffer)));
        }
        for timeout in [Span::ZERO, Span::from_ms(1_001)] {
            let config = Config { timeout, ..Config::default() };
            assert_eq!(config.check(), Err(Error::Timeout(timeout)));
        }
    }
}
