//! The machine's clock as the time of machines, and waiting for it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use machine::{Span, Time};
use mio::{Events, Poll};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::error::Error;

/// How late the kernel may wake us, in nanoseconds. Its default is 50,000, and a timer that is as late is a request that is as much longer.
const TIMER_SLACK_NS: u64 = 1_000;

/// Time since it was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Begins at zero.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time now.
    pub fn now(&self) -> Time {
        Time::from_ns(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A span as the standard library has it.
pub fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_ns())
}

/// Waits for events. epoll counts milliseconds, which is too coarse for requests that take two of them; `ppoll` counts nanoseconds.
pub struct Poller {
    /// Where sockets are registered.
    pub poll: Poll,
    /// What has happened.
    pub events: Events,
}

impl Poller {
    /// Nothing is registered; so many events at a time.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn new(capacity: usize) -> Result<Self, Error> {
        // Without it, timers are less exact.
        let _ = nix::sys::prctl::set_timerslack(TIMER_SLACK_NS);
        let poll = Poll::new().map_err(Error::system("make an event loop"))?;
        Ok(Self { poll, events: Events::with_capacity(capacity) })
    }

    /// Waits until something happens, or this time has passed.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn wait(&mut self, at_most: Span) -> Result<(), Error> {
        self.look()?;
        if !self.events.is_empty() || at_most == Span::ZERO {
            return Ok(());
        }
        let mut descriptors = [PollFd::new(self.poll.registry().as_fd(), PollFlags::POLLIN)];
        // An interruption is no error: what was to be looked at is looked at.
        let _ = ppoll(&mut descriptors, Some(TimeSpec::from_duration(duration(at_most))), None);
        self.look()
    }

    /// Takes what has happened.
    fn look(&mut self) -> Result<(), Error> {
        match self.poll.poll(&mut self.events, Some(Duration::ZERO)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                self.events.clear();
                Ok(())
            }
            outcome => outcome.map_err(Error::system("wait for events")),
        }
    }
}
