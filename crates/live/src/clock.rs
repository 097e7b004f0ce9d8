//! The machine's monotonic clock as [`Time`].

use std::time::Instant;

use machine::Time;

/// Time since the network was brought up. Copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that stands at zero now.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// What it shows.
    #[inline]
    pub fn now(&self) -> Time {
        Time::from_ns(self.start.elapsed().as_nanos() as u64)
    }
}
