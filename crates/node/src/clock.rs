//! The clock that a cluster's leases and timeouts are measured by.

use std::sync::{Mutex, PoisonError};

use machine::nanos::Time;
use nix::time::{ClockId, clock_gettime};

/// No step is longer, in nanoseconds. A machine that slept so long has lost every lease all the same, and [`Time`] stays far from its
/// end, whatever the clock is set to.
const STEP_MAX_NS: u64 = 3_600_000_000_000;

/// Time since the process's start, on Linux's `CLOCK_BOOTTIME`: it goes on while the machine is suspended, so that a leader that
/// wakes up does not believe in its lease. Copies agree.
///
/// It never goes back, whatever the kernel's clock does: a virtual machine that is restored, a checkpoint that goes on elsewhere and
/// a time namespace set it back or far forward.
#[derive(Clone, Copy, Debug)]
pub struct BootClock {
    start_ns: u64,
}

/// All clocks of the process.
static CLOCKS: Mutex<Monotone> = Mutex::new(Monotone { last: None, now_ns: 0 });

impl BootClock {
    /// A clock that stands at zero now.
    pub fn start() -> Self {
        Self { start_ns: process_ns() }
    }

    /// What it shows.
    pub fn now(&self) -> Time {
        Time::from_ns(process_ns() - self.start_ns)
    }
}

fn process_ns() -> u64 {
    // It is read within the lock, so that two threads cannot take each other's order for a clock that was set back.
    CLOCKS.lock().unwrap_or_else(PoisonError::into_inner).advance(Reading::take())
}

/// What the kernel's clocks show at one moment, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    boot: u64,
    /// Without the time in which the machine was suspended.
    monotonic: u64,
}

impl Reading {
    fn take() -> Self {
        Self { boot: read_ns(ClockId::CLOCK_BOOTTIME), monotonic: read_ns(ClockId::CLOCK_MONOTONIC) }
    }
}

fn read_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("Linux has this clock since 2.6.39");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Time that only grows, made of clocks that may not.
#[derive(Debug)]
struct Monotone {
    last: Option<Reading>,
    now_ns: u64,
}

impl Monotone {
    /// Goes on to a new reading; returns the time since the first, nanoseconds.
    fn advance(&mut self, reading: Reading) -> u64 {
        let Some(last) = self.last.replace(reading) else { return self.now_ns };
        let step = reading.boot.checked_sub(last.boot).unwrap_or_else(|| {
            let back_ms = (last.boot - reading.boot) / 1_000_000;
            tracing::warn!("CLOCK_BOOTTIME was set back by {back_ms} ms: goes on as if it had not been");
            // How long it really was since then, the other clock may know.
            reading.monotonic.saturating_sub(last.monotonic)
        });
        if step > STEP_MAX_NS {
            tracing::warn!(
                "CLOCK_BOOTTIME was set forward by {} s, or the machine slept: takes it for an hour",
                step / 1_000_000_000
            );
        }
        self.now_ns += step.min(STEP_MAX_NS);
        self.now_ns
    }
}

/// 64 random bits from the kernel.
pub(super) fn random_bits() -> u64 {
    let mut bytes = [0_u8; 8];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).expect("Linux always has random bits");
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// What is shown after each of these readings (boot, monotonic), in seconds.
    fn shown(readings: &[(u64, u64)]) -> Vec<u64> {
        let mut clock = Monotone { last: None, now_ns: 0 };
        let read = |(boot, monotonic): &(u64, u64)| {
            clock.advance(Reading { boot: boot * SECOND, monotonic: monotonic * SECOND }) / SECOND
        };
        readings.iter().map(read).collect()
    }

    #[test]
    fn it_shows_what_passes_also_while_the_machine_sleeps() {
        assert_eq!(shown(&[(100, 50), (101, 51), (701, 52)]), [0, 1, 601]);
    }

    #[test]
    fn set_back_it_goes_on() {
        // Only this clock; both; and it counts from there.
        assert_eq!(shown(&[(100, 50), (10, 51), (12, 53)]), [0, 1, 3]);
        assert_eq!(shown(&[(100, 50), (10, 5), (12, 7), (0, 0), (1, 1)]), [0, 0, 2, 2, 3]);
    }

    #[test]
    fn set_far_forward_it_stays_far_from_its_end() {
        assert_eq!(shown(&[(0, 0), (u64::MAX / SECOND, 1), (1, 2), (2, 3)]), [0, 3_600, 3_601, 3_602]);
    }

    #[test]
    fn copies_agree_and_never_go_back() {
        let clock = BootClock::start();
        let copy = clock;
        let mut before = clock.now();
        for _ in 0..10_000 {
            let now = copy.now();
            assert!(now >= before);
            before = clock.now();
            assert!(before >= now);
        }
    }
}
