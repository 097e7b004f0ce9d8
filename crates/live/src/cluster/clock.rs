//! The clock that a cluster's leases and timeouts are measured by.

use machine::Time;
use nix::time::{ClockId, clock_gettime};

/// Time since the process's start, on Linux's `CLOCK_BOOTTIME`: it goes on while the machine is suspended, so that a leader that
/// wakes up does not believe in its lease. Copies agree.
#[derive(Clone, Copy, Debug)]
pub struct BootClock {
    start_ns: u64,
}

impl BootClock {
    /// A clock that stands at zero now.
    pub fn start() -> Self {
        Self { start_ns: boot_ns() }
    }

    /// What it shows.
    pub fn now(&self) -> Time {
        Time::from_ns(boot_ns() - self.start_ns)
    }
}

fn boot_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has this clock since 2.6.39");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// 64 random bits from the kernel.
pub(super) fn random_bits() -> u64 {
    let mut bytes = [0_u8; 8];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).expect("Linux always has random bits");
    u64::from_le_bytes(bytes)
}
