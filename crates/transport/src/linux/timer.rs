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
    /// Nothing is in flight, since the receiver has no room.
    Window,
}

/// The kernel's tick: Debian's kernels have `CONFIG_HZ=250`.
pub(super) const JIFFY: Span = Span::from_ms(4);

/// Steps of the wheel that timers wait on, from one level to the next: eight times as long (`LVL_CLK_SHIFT`).
const SHIFT: u32 = 3;
/// Timers of a level wait for less than so many of its steps.
const STEPS: u64 = 63;
/// The last level.
const LEVELS: u32 = 8;

/// When a timer fires that is set to go off in `span`. Timers count whole ticks, and never fire early: the tick that has begun does not count. Who waits longer waits
/// on a level of the wheel with longer steps (`calc_wheel_index`).
pub(super) fn timer(now: Time, span: Span) -> Time {
    let jiffy = JIFFY.as_ps();
    let ticks = span.as_ps().div_ceil(jiffy);
    let mut shift = 0;
    while ticks >> shift >= STEPS && shift < SHIFT * LEVELS {
        shift += SHIFT;
    }
    let expires = (now.as_ps() / jiffy).saturating_add(ticks);
    let fires = ((expires >> shift) + 1) << shift;
    Time::from_ps(fires.saturating_mul(jiffy))
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

    #[test]
    fn long_timers_fire_at_steps_of_their_level() {
        let tick = |n: u64| Time::ZERO + Span::from_ms(4 * n);
        let ticks = |n: u64| Span::from_ms(4 * n);
        assert_eq!(timer(tick(3), ticks(62)), tick(66));
        assert_eq!(timer(tick(3), ticks(63)), tick(72), "eight ticks a step");
        assert_eq!(timer(tick(3), ticks(503)), tick(512));
        assert_eq!(timer(tick(3), ticks(504)), tick(512), "sixty-four");
        assert_eq!(timer(tick(5), ticks(504)), tick(512));
        assert_eq!(timer(tick(9), ticks(504)), tick(576));
    }
}
