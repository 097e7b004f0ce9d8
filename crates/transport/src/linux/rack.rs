//! Loss detection by time (RFC 8985): a segment is lost when one that was sent after it has arrived, and a round trip and a window for reordering have passed.

use machine::{Span, Time};

use super::queue::{Queue, Sent};

/// After so many recoveries without a sign of reordering the window is the first one again (`TCP_RACK_RECOVERY_THRESH`).
const PERSISTENCE: u8 = 16;

/// What is known of the segment that was sent last of those that have arrived, and of reordering.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    sent_at: Time,
    /// Behind that segment.
    end: u64,
    rtt: Span,
    /// Something has arrived since losses were looked for.
    pub advanced: bool,
    /// Quarters of the shortest round trip that a segment may be late.
    steps: u8,
    persist: u8,
    /// A segment came twice, which says that the window was too short.
    pub duplicate_seen: bool,
    /// How much had been delivered when the window was set.
    set_at: u32,
}

/// What the window for reordering depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub shortest_rtt: Span,
    pub smoothed_rtt: Option<Span>,
    pub reordering_seen: bool,
    pub in_recovery: bool,
    /// As many as `tcp_reordering` have arrived beyond a hole.
    pub threshold_reached: bool,
}

/// What a look for losses found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Detected {
    /// Segments that were marked.
    pub lost: u32,
    /// How long until the last of the others is lost, unless it arrives.
    pub timeout: Option<Span>,
}

impl Rack {
    pub const fn new() -> Self {
        Self {
            sent_at: Time::ZERO,
            end: 0,
            rtt: Span::ZERO,
            advanced: false,
            steps: 1,
            persist: 0,
            duplicate_seen: false,
            set_at: 0,
        }
    }

    /// A segment has arrived (`tcp_rack_advance`).
    pub fn advance(&mut self, now: Time, segment: u64, sent: &Sent, shortest_rtt: Span) {
        let rtt = now.since(sent.at);
        if sent.was_resent() && rtt < shortest_rtt {
            // So soon after it was sent again, the first copy has arrived.
            return;
        }
        self.advanced = true;
        self.rtt = rtt;
        if (sent.at, segment + 1) > (self.sent_at, self.end) {
            (self.sent_at, self.end) = (sent.at, segment + 1);
        }
    }

    /// How late a segment may be (`tcp_rack_reo_wnd`).
    fn window(&self, path: &Path) -> Span {
        if !path.reordering_seen && (path.in_recovery || path.threshold_reached) {
            return Span::ZERO;
        }
        let late = Span::from_ps((path.shortest_rtt.as_ps() / 4).saturating_mul(u64::from(self.steps)));
        late.min(path.smoothed_rtt.unwrap_or(Span::ZERO))
    }

    /// How long until a segment is lost; zero or less: it is (`tcp_rack_skb_timeout`).
    pub fn remaining(&self, now: Time, sent: &Sent, window: Span) -> i64 {
        (self.rtt + window).as_ps().cast_signed() - now.since(sent.at).as_ps().cast_signed()
    }

    /// Marks what is lost (`tcp_rack_detect_loss`).
    pub fn detect(&self, now: Time, queue: &mut Queue, path: &Path) -> Detected {
        let window = self.window(path);
        let mut detected = Detected::default();
        let mut candidate = queue.oldest();
        while let Some(segment) = candidate {
            candidate = queue.newer_than(segment);
            let sent = queue.get(segment);
            if sent.is_lost() && !sent.is_resent() {
                continue;
            }
            if (self.sent_at, self.end) <= (sent.at, segment + 1) {
                break;
            }
            let remaining = self.remaining(now, sent, window);
            if remaining <= 0 {
                detected.lost += queue.mark_lost(segment);
                queue.leave_order(segment);
            } else {
                let remaining = Span::from_ps(remaining as u64);
                detected.timeout = detected.timeout.max(Some(remaining));
            }
        }
        detected
    }

    /// Adapts the window for reordering (`tcp_rack_update_reo_wnd`). `prior_delivered`: how much had been delivered when the segment was sent that has
    /// arrived now; `delivered`: how much has been.
    pub fn update_window(&mut self, prior_delivered: u32, delivered: u32) {
        // The counts wrap.
        if prior_delivered.wrapping_sub(self.set_at).cast_signed() < 0 {
            // No round trip has passed since.
            self.duplicate_seen = false;
        }
        if self.duplicate_seen {
            self.steps = self.steps.saturating_add(1);
            self.duplicate_seen = false;
            self.set_at = delivered;
            self.persist = PERSISTENCE;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// A recovery was undone since all that was sent again had arrived before.
    pub fn recovery_was_spurious(&mut self) {
        self.persist = (self.persist + 1).min(PERSISTENCE);
    }

    /// A recovery ended that was none too many.
    pub const fn recovery_was_real(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_us(100);

    fn path() -> Path {
        Path {
            shortest_rtt: RTT,
            smoothed_rtt: Some(RTT),
            reordering_seen: false,
            in_recovery: false,
            threshold_reached: false,
        }
    }

    /// Ten segments, sent one a microsecond from the first microsecond on.
    fn queue() -> Queue {
        let mut queue = Queue::new();
        (0..10).for_each(|n| _ = queue.push(Time::from_ns(1_000 * n + 1_000), 0));
        queue
    }

    fn arrive(rack: &mut Rack, queue: &mut Queue, segment: u64) -> Time {
        let now = queue.get(segment).at + RTT;
        rack.advance(now, segment, queue.get(segment), RTT);
        queue.arrive(segment);
        now
    }

    #[test]
    fn a_quarter_of_the_round_trip_is_waited_for_what_is_late() {
        let (mut rack, mut queue) = (Rack::new(), queue());
        let now = arrive(&mut rack, &mut queue, 2);
        let detected = rack.detect(now, &mut queue, &path());
        assert_eq!((detected.lost, detected.timeout), (0, Some(Span::from_us(24))));
        let detected = rack.detect(now + Span::from_us(23), &mut queue, &path());
        assert_eq!((detected.lost, detected.timeout), (1, Some(Span::from_us(1))));
    }

    #[test]
    fn after_three_nothing_is_waited_for_until_reordering_is_seen() {
        let (mut rack, mut queue) = (Rack::new(), queue());
        let now = arrive(&mut rack, &mut queue, 3);
        let reached = Path { threshold_reached: true, ..path() };
        let seen = Path { reordering_seen: true, ..reached };
        assert_eq!(rack.detect(now, &mut queue, &seen).lost, 0);
        assert_eq!(rack.detect(now, &mut queue, &reached).lost, 3);
    }

    #[test]
    fn duplicates_widen_the_window_once_a_round_trip() {
        let mut rack = Rack::new();
        let seen = Path { reordering_seen: true, smoothed_rtt: Some(Span::from_us(70)), ..path() };
        assert_eq!(rack.window(&seen), Span::from_us(25));
        rack.duplicate_seen = true;
        rack.update_window(5, 10);
        assert_eq!(rack.window(&seen), Span::from_us(50));
        rack.duplicate_seen = true;
        rack.update_window(9, 12);
        assert_eq!(rack.window(&seen), Span::from_us(50), "what was sent before it was set says nothing new");
        rack.duplicate_seen = true;
        rack.update_window(10, 14);
        assert_eq!(rack.window(&seen), Span::from_us(70), "never more than the smoothed round trip");
        for _ in 0..16 {
            rack.recovery_was_real();
        }
        rack.update_window(15, 15);
        assert_eq!(rack.window(&seen), Span::from_us(25));
    }

    #[test]
    fn counts_of_what_was_delivered_wrap() {
        let mut rack = Rack::new();
        let seen = Path { reordering_seen: true, smoothed_rtt: Some(RTT), ..path() };
        rack.set_at = u32::MAX - 10;
        rack.duplicate_seen = true;
        rack.update_window(5, 10);
        assert_eq!(rack.window(&seen), Span::from_us(50), "5 lies behind the wrap");
    }

    #[test]
    fn an_echo_too_early_is_the_first_copy_s() {
        let (mut rack, mut queue) = (Rack::new(), queue());
        queue.mark_lost(0);
        queue.resend(0, Time::from_ns(60_000), 0);
        rack.advance(Time::from_ns(101_000), 0, queue.get(0), RTT);
        assert!(!rack.advanced);
        rack.advance(Time::from_ns(161_000), 0, queue.get(0), RTT);
        assert!(rack.advanced);
    }
}
