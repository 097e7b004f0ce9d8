//! Pacing: when the next burst may leave (`tcp_update_skb_after_send`, `tcp_pacing_check`), as a sender does it itself where no `fq` is before it.

use machine::{Span, Time};

/// Segments at the beginning that leave without it.
const UNPACED: u64 = 10;

/// The clock of what leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    /// Bytes a second.
    pub rate: u64,
    /// The next burst leaves then at the earliest (`tcp_wstamp_ns`).
    next: Time,
    /// Something waits for that.
    waits: bool,
}

impl Pacing {
    pub const fn new(rate: u64) -> Self {
        Self { rate, next: Time::ZERO, waits: false }
    }

    /// Whether nothing may leave now; then [`Pacing::wake_at`] says when something may.
    pub fn holds(&mut self, now: Time) -> bool {
        self.waits = self.next > now;
        self.waits
    }

    /// When somebody is to look again.
    pub const fn wake_at(&self) -> Time {
        if self.waits { self.next } else { Time::NEVER }
    }

    /// Whether what waited may leave now; it is asked for once.
    pub fn is_due(&mut self, now: Time) -> bool {
        let due = self.waits && now >= self.next;
        self.waits &= !due;
        due
    }

    /// When the last burst had left, at its pace.
    pub const fn last(&self) -> Time {
        self.next
    }

    /// How long until something may leave.
    pub fn delay(&self, now: Time) -> Span {
        if self.next > now { self.next.since(now) } else { Span::ZERO }
    }

    /// A burst of so many bytes leaves; `segments` have left so far.
    pub fn on_sent(&mut self, now: Time, bytes: u64, segments: u64) {
        let before = self.next;
        self.next = before.max(now);
        if self.rate == 0 || segments < UNPACED {
            return;
        }
        let span = (u128::from(bytes) * 1_000_000_000_000 / u128::from(self.rate)) as u64;
        // Who comes late may catch up, by half a burst at most.
        let late = self.next.since(before).as_ps();
        self.next += Span::from_ps(span - late.min(span / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_leave_at_the_rate_and_those_that_are_late_catch_up_by_half_of_one() {
        let at = |us: u64| Time::ZERO + Span::from_us(us);
        let mut pacing = Pacing::new(1_000_000);
        pacing.on_sent(at(1_000), 1_000, 3);
        assert!(!pacing.holds(at(1_000)), "the first ones are not paced");
        pacing.on_sent(at(1_000), 1_000, 10);
        assert!(pacing.holds(at(1_500)));
        assert_eq!(pacing.wake_at(), at(2_000));
        assert!(!pacing.is_due(at(1_999)) && pacing.is_due(at(2_000)) && !pacing.is_due(at(2_000)));
        pacing.on_sent(at(2_100), 1_000, 11);
        assert_eq!(pacing.delay(at(2_100)), Span::from_us(900));
        pacing.on_sent(at(9_000), 1_000, 12);
        assert_eq!(pacing.delay(at(9_000)), Span::from_us(500));
    }
}
