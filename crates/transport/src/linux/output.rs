//! What is sent, and how much of it at once.

use machine::{Span, Time};

use super::application::BURST_BYTES;
use super::bbr::Bbr;
use super::sender::Sender;
use super::stamp::Stamp;
use super::state::State;
use super::timer::{JIFFY, Timer};
use super::window::Usage;

/// The least burst that there are segments for (`tcp_min_tso_segs`).
const BURST_LEAST: u32 = 2;
/// The share of a window that is worth a burst (`tcp_tso_win_divisor`).
const WINDOW_SHARE: u64 = 3;
/// Only what follows a burst so soon is held back, and only for what comes so soon.
const RECENT: Span = Span::from_ms(1);

impl Sender {
    /// The application writes: from now on there is no more to send than this, in bytes since the beginning, of which whole segments count. Without it data are
    /// endless. As after an input, the driver polls.
    pub fn write(&mut self, now: Time, bytes: u64) {
        self.application.write(self.segments(bytes), self.queue.first());
        self.output.push = self.output.started;
        if self.queue.len() == 0 && self.output.last > Time::ZERO {
            self.restart(now);
        }
    }

    /// After a pause longer than the timeout the window is halved for each, down to the initial one (`tcp_cwnd_restart`).
    fn restart(&mut self, now: Time) {
        let ticks = |ps: u64| ps / JIFFY.as_ps();
        let timeout = self.rtt.timeout().as_ps().div_ceil(JIFFY.as_ps());
        let idle = ticks(now.as_ps()) - ticks(self.output.last.as_ps());
        if idle > timeout {
            self.window.restart(((idle - 1) / timeout) as u32);
        }
    }

    /// The next segment that leaves, if any does now, and whether it is pushed.
    pub(super) fn next_segment(&mut self, now: Time) -> Option<(u64, bool)> {
        if core::mem::take(&mut self.output.resend_first) {
            let segment = self.resend(now, self.queue.first());
            self.queue.end_burst(segment);
            return Some((segment, self.application.ends_with(segment)));
        }
        if core::mem::take(&mut self.output.probe) {
            let segment = self.probe_end(now);
            return Some((segment, self.application.ends_with(segment)));
        }
        if self.output.new_first {
            if let Some(segment) = self.next_new(now) {
                return Some(segment);
            }
            self.output.new_first = false;
            if self.queue.next() <= self.high {
                self.frto = false;
                self.output.resend = true;
            }
        }
        if self.output.resend {
            if let Some(segment) = self.next_resent(now) {
                return Some(segment);
            }
            self.output.resend = false;
            if core::mem::take(&mut self.output.rearm) {
                self.set(Timer::Retransmission, now, self.rtt.timeout());
            }
        }
        if self.output.push {
            if let Some(segment) = self.next_new(now) {
                return Some(segment);
            }
            self.output.push = false;
        }
        None
    }

    /// Behind the last segment that is there and that the receiver has room for.
    pub(super) fn sendable_end(&self) -> u64 {
        self.window_end.min(self.application.end())
    }

    /// `tcp_xmit_retransmit_queue`. What was sent as a burst is so again, as far as the window lets it.
    fn next_resent(&mut self, now: Time) -> Option<(u64, bool)> {
        let room = self.window.size().saturating_sub(self.queue.in_flight());
        if room == 0 || (self.output.burst_again == 0 && self.is_paced(now)) {
            return None;
        }
        let segment = self.queue.first_to_resend()?;
        if self.output.burst_again == 0 {
            let most = room.min(self.burst_max(self.whole));
            self.output.burst_again = self.queue.burst_to_resend(segment, most);
            self.output.is_burst = self.output.burst_again > 1;
        }
        self.output.burst_again -= 1;
        self.output.rearm |= segment == self.queue.first() && self.timer != Timer::Reordering;
        if self.in_reduction() {
            self.window.note_sent(1);
        }
        self.resend(now, segment);
        Some((segment, (self.output.burst_again == 0 && self.output.is_burst) || self.application.ends_with(segment)))
    }

    fn resend(&mut self, now: Time, segment: u64) -> u64 {
        self.queue.resend(segment, now, self.delivered);
        self.resend_stamp.get_or_insert(Stamp::of(now));
        if let Some(undo) = &mut self.undo {
            undo.resent = Some(undo.resent.unwrap_or(0) + 1);
        }
        self.note_sent(now, segment, false);
        self.counters.segments += 1;
        self.counters.retransmits += 1;
        self.output.last = now;
        self.pace(now, 1);
        segment
    }

    /// A new segment if the receiver has room, else the last one again.
    fn probe_end(&mut self, now: Time) -> u64 {
        self.counters.probes += 1;
        self.probe_is_resent = self.queue.next() >= self.sendable_end();
        let segment = if self.probe_is_resent {
            let last = self.queue.next() - 1;
            self.queue.probe(last, now, self.delivered);
            self.queue.end_burst(last);
            self.note_sent(now, last, false);
            self.counters.segments += 1;
            self.counters.retransmits += 1;
            self.output.last = now;
            last
        } else {
            self.send_new(now)
        };
        self.pace(now, 1);
        self.probe = Some(self.queue.next());
        self.timer = Timer::None;
        self.rearm_retransmission(now);
        segment
    }

    fn send_new(&mut self, now: Time) -> u64 {
        let idle = self.queue.len() == 0;
        if idle {
            self.window.resume(now, self.output.last);
        }
        let restarts = idle || self.timer == Timer::Probe;
        let segment = self.queue.push(now, self.delivered);
        self.note_sent(now, segment, idle);
        if restarts {
            self.rearm_retransmission(now);
        }
        self.counters.segments += 1;
        self.output.buffered = self.output.buffered.saturating_sub(1);
        self.output.last = now;
        segment
    }

    /// `tcp_write_xmit`. The last of a burst is pushed (`__tcp_transmit_skb`).
    fn next_new(&mut self, now: Time) -> Option<(u64, bool)> {
        let begins = self.output.burst == 0;
        if begins {
            let is_limiting = match self.next_burst(now) {
                Ok(burst) => {
                    self.output.burst = burst;
                    self.output.is_burst = burst > 1;
                    false
                }
                Err(is_limiting) => is_limiting,
            };
            if self.output.burst == 0 {
                self.stop_sending(now, is_limiting);
                return None;
            }
        }
        self.output.burst -= 1;
        self.output.sent += 1;
        if self.in_reduction() {
            self.window.note_sent(1);
        }
        let segment = self.send_new(now);
        if begins {
            self.pace(now, self.output.burst + 1);
        }
        if self.output.burst > 0 {
            self.application.join(segment, self.output.burst);
            return Some((segment, false));
        }
        self.queue.end_burst(segment);
        Some((segment, self.output.is_burst || self.application.ends_with(segment)))
    }

    fn stop_sending(&mut self, now: Time, deferred_for_window: bool) {
        let sent = core::mem::take(&mut self.output.sent);
        let is_limiting = deferred_for_window || self.queue.in_flight() >= self.window.size();
        if sent > 0 || is_limiting {
            let (packets, first, next) = (self.queue.len(), self.queue.first(), self.queue.next());
            self.window.note_usage(Usage { is_limiting, packets, first, next });
        }
        if sent > 0 {
            self.schedule_probe(now, false);
        }
        self.await_window(now);
    }

    /// How many segments leave together; else whether the congestion window is what keeps them.
    fn next_burst(&mut self, now: Time) -> Result<u32, bool> {
        if self.is_paced(now) {
            return Err(false);
        }
        let room = self.window.size().saturating_sub(self.queue.in_flight());
        if room == 0 {
            return Err(true);
        }
        if self.output.buffered == 0 {
            self.output.buffered = self.whole;
        }
        let receivable = self.window_end.saturating_sub(self.queue.next()) as u32;
        let left = self.application.end() - self.queue.next();
        if receivable == 0 || left == 0 {
            return Err(false);
        }
        // A single segment leaves whatever the rate: what that says is not cheap to know.
        let is_single = room.min(receivable) == 1 && self.model.is_none();
        let most = if is_single { BURST_LEAST } else { self.burst_max(self.whole) };
        // At least two bursts are to be under way (`tcp_cwnd_test`).
        let quota = room.min((self.window.size() / 2).max(1)).min(most);
        // What follows in another buffer is brought over as far as it can be sent now (`tcp_grow_skb`).
        let written = left.min(u64::from(quota)) as u32;
        let buffered = self.output.buffered.min(self.application.left(self.queue.next())).max(written);
        if buffered > 1
            && let Some(is_limiting) = self.defers(now, Rooms { room, receivable, buffered, most })
        {
            return Err(is_limiting);
        }
        Ok(written.min(receivable))
    }

    /// Segments of a burst that the rate asks for: what leaves within a millisecond, and more where the round trip is short (`tcp_tso_autosize`).
    fn burst_max(&self, whole: u32) -> u32 {
        if let Some(model) = &self.model {
            let pace = model.pacing.rate;
            return self.burst_at(pace, Bbr::burst_least(pace), whole);
        }
        let Some(rtt) = self.rtt.smoothed() else { return whole };
        let ratio = if self.window.in_early_slow_start() { 200 } else { 120 };
        let in_flight = u64::from(self.window.size().max(self.queue.len()));
        let rtt_us = (rtt.as_ns() / 1_000).max(1);
        let per_second = in_flight * self.segment_bytes * ratio * 10_000 / rtt_us;
        self.burst_at(per_second, BURST_LEAST, whole)
    }

    /// The same at a rate in bytes a second.
    fn burst_at(&self, per_second: u64, least: u32, whole: u32) -> u32 {
        let shortest = (self.rtt.shortest().as_ns() / 1_000) >> 9;
        let more = if shortest < 32 { BURST_BYTES >> shortest } else { 0 };
        let bytes = ((per_second >> 10) + more).min(BURST_BYTES);
        ((bytes / self.segment_bytes) as u32).clamp(least, whole.max(least))
    }

    /// Whether it is better to wait for the next acknowledgement and a larger burst; and if so, whether for the congestion window
    /// (`tcp_tso_should_defer`).
    fn defers(&self, now: Time, rooms: Rooms) -> Option<bool> {
        let Rooms { room, receivable, buffered, most } = rooms;
        let last = self.model.as_ref().map_or(self.output.last, |model| model.pacing.last());
        if self.state >= State::Recovery || now.since(last) > RECENT || self.queue.len() == 0 {
            return None;
        }
        let limit = room.min(receivable);
        // In bytes, of which a share need not be whole segments.
        let share = (u64::from(self.window.size()) * self.segment_bytes).min(self.offered) / WINDOW_SHARE;
        if limit >= most || limit >= buffered || u64::from(limit) * self.segment_bytes >= share {
            return None;
        }
        // An acknowledgement that is not due soon comes too late: the first segment's, a round trip after it was sent.
        let rtt = self.rtt.smoothed()?;
        let due = self.queue.get(self.queue.first()).at + rtt;
        if due.since(now) > RECENT.min(Span::from_ps(rtt.as_ps() / 2)) {
            return None;
        }
        Some(room < receivable)
    }
}

/// What bounds a burst, in segments.
#[derive(Clone, Copy, Debug)]
struct Rooms {
    /// In the congestion window.
    room: u32,
    /// In the receiver's.
    receivable: u32,
    /// In the buffer that is next.
    buffered: u32,
    /// The largest burst.
    most: u32,
}
