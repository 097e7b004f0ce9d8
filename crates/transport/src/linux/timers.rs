//! Timers: retransmission, the tail loss probe, and the wait for what came late.

use machine::{Span, Time};

use super::arrivals::Arrivals;
use super::sender::Sender;
use super::state::State;
use super::timer::{JIFFY, Timer, timer};

/// The least that a timer waits (`TCP_TIMEOUT_MIN_US`).
const LEAST: Span = Span::from_ms(2);

impl Sender {
    /// Sets a timer.
    pub(super) fn set(&mut self, kind: Timer, now: Time, span: Span) {
        self.timer = kind;
        self.deadline = timer(now, span);
    }

    /// `tcp_set_xmit_timer`.
    pub(super) fn set_timer(&mut self, now: Time) {
        if !self.schedule_probe(now, true) {
            self.rearm_retransmission(now);
        }
    }

    /// How long until the timeout of the first segment, since it was sent last; less than nothing: it has passed.
    fn until_timeout(&self, now: Time) -> Option<Span> {
        let sent = self.queue.get(self.queue.first()).at;
        let due = sent + self.rtt.timeout();
        (due > now).then(|| due.since(now))
    }

    /// `tcp_rearm_rto`.
    pub(super) fn rearm_retransmission(&mut self, now: Time) {
        if self.queue.len() == 0 {
            (self.timer, self.deadline) = (Timer::None, Time::NEVER);
            return;
        }
        let span = match self.timer {
            Timer::Probe | Timer::Reordering => self.until_timeout(now).unwrap_or(JIFFY),
            Timer::None | Timer::Retransmission | Timer::Window => self.rtt.timeout(),
        };
        self.set(Timer::Retransmission, now, span);
    }

    /// Sets the timer for a probe after two round trips (`tcp_schedule_loss_probe`), unless there is none to be sent. `anew`: the retransmission
    /// timeout would begin now.
    pub(super) fn schedule_probe(&mut self, now: Time, anew: bool) -> bool {
        let open = matches!(self.state, State::Open | State::Cwr);
        if !self.settings.probes_tail() || !open || self.queue.len() == 0 {
            return false;
        }
        let patience = match self.rtt.smoothed() {
            // A single segment's acknowledgement may be delayed.
            Some(rtt) if self.queue.len() == 1 => rtt + rtt + self.rtt.least(),
            Some(rtt) => rtt + rtt + LEAST,
            None => Span::from_secs(1),
        };
        let timeout = if anew { Some(self.rtt.timeout()) } else { self.until_timeout(now) };
        let patience = timeout.map_or(patience, |timeout| timeout.min(patience));
        self.set(Timer::Probe, now, patience);
        true
    }

    /// Losses are looked for, and the timer for what is late is set (`tcp_rack_mark_lost`). Whether it was.
    pub(super) fn detect_losses(&mut self, arrivals: &mut Arrivals) -> bool {
        if !self.rack.advanced {
            return false;
        }
        self.rack.advanced = false;
        let path = self.path();
        let detected = self.rack.detect(arrivals.now, &mut self.queue, &path);
        arrivals.lost += detected.lost;
        self.lost = self.lost.wrapping_add(detected.lost);
        if let Some(timeout) = detected.timeout {
            self.set(Timer::Reordering, arrivals.now, timeout + LEAST);
        }
        detected.timeout.is_some()
    }

    /// What is due is done.
    pub(super) fn on_tick(&mut self, now: Time) {
        self.resume(now);
        if now < self.deadline {
            return;
        }
        match core::mem::replace(&mut self.timer, Timer::None) {
            Timer::None => self.deadline = Time::NEVER,
            Timer::Retransmission => self.time_out(now),
            Timer::Probe => self.send_probe(now),
            Timer::Reordering => self.give_up_what_is_late(now),
            Timer::Window => self.probe_window(),
        }
    }

    /// `tcp_retransmit_timer`.
    fn time_out(&mut self, now: Time) {
        if self.queue.len() == 0 {
            self.deadline = Time::NEVER;
            return;
        }
        self.counters.timeouts += 1;
        self.enter_loss(now);
        self.timeouts_in_row += 1;
        self.output.resend_first = true;
        self.rtt.back_off();
        self.set(Timer::Retransmission, now, self.rtt.timeout());
    }

    /// `tcp_send_loss_probe`.
    fn send_probe(&mut self, now: Time) {
        if self.probe.is_none() && self.queue.len() > 0 {
            self.output.probe = true;
        } else {
            // One probe has no answer yet.
            self.timer = Timer::Probe;
            self.rearm_retransmission(now);
        }
    }

    /// There is something to send, nothing under way, and no room: unless the receiver says more by then, it is asked (`tcp_check_probe_timer`).
    pub(super) fn await_window(&mut self, now: Time) {
        let is_closed = self.queue.next() >= self.window_end && self.queue.next() < self.application.end();
        if self.is_offered && is_closed && self.queue.len() == 0 && self.timer == Timer::None {
            self.set(Timer::Window, now, self.rtt.timeout());
        }
    }

    /// A segment leaves that the receiver has no room for: its acknowledgement says how much there is (RFC 9293, 3.8.6.1).
    fn probe_window(&mut self) {
        self.deadline = Time::NEVER;
        self.window_end = self.window_end.max(self.queue.next() + 1);
        self.output.push = true;
    }

    /// `tcp_rack_reo_timeout`.
    fn give_up_what_is_late(&mut self, now: Time) {
        let in_flight = self.queue.in_flight();
        let path = self.path();
        let detected = self.rack.detect(now, &mut self.queue, &path);
        self.lost = self.lost.wrapping_add(detected.lost);
        self.timer = Timer::Reordering;
        if in_flight != self.queue.in_flight() {
            if self.state != State::Recovery {
                self.enter_recovery(false);
                self.window.reduce(1, self.queue.in_flight(), false);
            }
            self.output.resend = true;
        }
        match detected.timeout {
            Some(timeout) => self.set(Timer::Reordering, now, timeout + LEAST),
            None => self.rearm_retransmission(now),
        }
    }

    /// What an acknowledgement says about the probe (`tcp_process_tlp_ack`).
    pub(super) fn answer_probe(&mut self, arrivals: &Arrivals) {
        let Some(probe) = self.probe.filter(|probe| arrivals.first >= *probe) else { return };
        let is_plain_duplicate = !arrivals.advanced && !arrivals.updates_window && !arrivals.selected;
        if !self.probe_is_resent || arrivals.duplicate_is_probe {
            self.probe = None;
        } else if arrivals.first > probe {
            // The probe has repaired a loss.
            self.begin_reduction();
            self.state = State::Cwr;
            self.window.end_reduction(true);
            self.try_keep_open();
        } else if is_plain_duplicate {
            self.probe = None;
        }
    }
}
