//! The sender's one timer, and the kernel's ticks.

use machine::{Span, Time};

/// What the timer that is set is for. There is one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// Nothing is in flight.
    None,
    /// Retransmission.
    Retransmission,
    /// The end of the flight is probed for.
    Probe,
    /// What is late is taken for lost.
    Reordering,
}

/// The kernel's tick: Debian's kernels have `CONFIG_HZ=250`.
pub(super) const JIFFY: Span = Span::from_ms(4);

/// When a timer fires that is set to go off in `span`. Timers count whole ticks, and never fire early: the tick that has begun does not count.
pub(super) fn timer(now: Time, span: Span) -> Time {
    let jiffy = JIFFY.as_ps();
    Time::from_ps((now.as_ps() / jiffy + span.as_ps().div_ceil(jiffy) + 1).saturating_mul(jiffy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_at_ticks_and_never_early() {
        let at = |ms: u64, us: u64| Time::ZERO + Span::from_ms(ms) + Span::from_us(us);
        assert_eq!(timer(at(0, 0), Span::from_ms(200)), at(204, 0));
        assert_eq!(timer(at(3, 999), Span::from_ms(200)), at(204, 0));
        assert_eq!(timer(at(4, 1), Span::from_us(1)), at(12, 0));
    }
}
