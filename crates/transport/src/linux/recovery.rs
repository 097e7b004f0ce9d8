//! The states of loss recovery, and what takes a recovery back (`tcp_fastretrans_alert`).

use machine::Time;

use super::arrivals::Arrivals;
use super::sender::{Sender, Undo};
use super::stamp::Stamp;
use super::state::State;

impl Sender {
    /// An acknowledgement came that is out of the ordinary, or one in a state that is.
    pub(super) fn recover(&mut self, arrivals: &mut Arrivals) {
        if arrivals.congested {
            // Whatever else it says, the window has to become smaller.
            self.window.forget();
        }
        if self.state == State::Open {
            self.resend_stamp = None;
        } else if self.queue.first() >= self.high {
            self.leave_reduction();
        }
        let resends = match self.state {
            State::Recovery => self.continue_recovery(arrivals),
            State::Loss => {
                self.continue_loss(arrivals);
                self.identify_losses(arrivals);
                (self.state == State::Open || arrivals.lost_again) && self.begin_recovery_if_lost(arrivals)
            }
            State::Open | State::Disorder | State::Cwr => self.begin_recovery_if_lost(arrivals),
        };
        self.output.resend |= resends;
    }

    /// All that was sent before the reduction began is acknowledged.
    fn leave_reduction(&mut self) {
        match self.state {
            State::Cwr if self.queue.first() != self.high => {
                self.window.end_reduction(true);
                self.state = State::Open;
            }
            State::Recovery => {
                self.try_undo_recovery();
                self.window.end_reduction(self.undo.is_some());
            }
            State::Open | State::Disorder | State::Cwr | State::Loss => {}
        }
    }

    /// Whether what is lost is to be sent again.
    fn continue_recovery(&mut self, arrivals: &mut Arrivals) -> bool {
        if arrivals.advanced && self.try_undo_partial(arrivals) {
            return false;
        }
        if self.try_undo_by_duplicates() {
            self.try_to_open(arrivals.congested);
        }
        self.identify_losses(arrivals);
        if self.state != State::Recovery {
            if self.queue.lost() == 0 {
                return false;
            }
            self.enter_recovery(arrivals.congested);
        }
        true
    }

    fn begin_recovery_if_lost(&mut self, arrivals: &mut Arrivals) -> bool {
        if self.state <= State::Disorder {
            self.try_undo_by_duplicates();
        }
        self.identify_losses(arrivals);
        if self.queue.lost() == 0 {
            self.try_to_open(arrivals.congested);
            return false;
        }
        self.enter_recovery(arrivals.congested);
        true
    }

    /// `tcp_identify_packet_loss`.
    fn identify_losses(&mut self, arrivals: &mut Arrivals) {
        if self.queue.len() == 0 {
            return;
        }
        let resent = self.queue.resent();
        if self.detect_losses(arrivals) {
            arrivals.set_timer = false;
        }
        arrivals.lost_again |= resent > self.queue.resent();
    }

    /// The reduction of the window begins (`tcp_init_cwnd_reduction`).
    pub(super) fn begin_reduction(&mut self) {
        self.high = self.queue.next();
        self.probe = None;
        self.save_window();
        self.window.begin_reduction();
        self.ecn.reduced();
    }

    /// A mark makes the window smaller: once until all that is in flight is acknowledged, and not to be undone (`tcp_enter_cwr`).
    fn enter_cwr(&mut self) {
        self.window.forget();
        if self.state < State::Cwr {
            self.undo = None;
            self.begin_reduction();
            self.state = State::Cwr;
        }
    }

    /// `tcp_enter_recovery`. `congested`: the window would have become smaller without a loss.
    pub(super) fn enter_recovery(&mut self, congested: bool) {
        self.counters.recoveries += 1;
        if !self.any_resent() {
            self.resend_stamp = None;
        }
        self.window.forget();
        self.init_undo();
        if !self.in_reduction() {
            if !congested {
                self.window.remember();
            }
            self.begin_reduction();
        }
        self.window.note_loss();
        self.state = State::Recovery;
    }

    /// `tcp_enter_loss`.
    pub(super) fn enter_loss(&mut self, now: Time) {
        let is_first = self.state < State::Recovery;
        self.mark_lost_by_timeout(now);
        let anew = self.state <= State::Disorder
            || self.high <= self.queue.first()
            || (self.state == State::Loss && self.timeouts_in_row == 0);
        if anew {
            self.save_window();
        }
        self.window.time_out(anew);
        if anew {
            self.init_undo();
        }
        self.window.collapse(now, self.queue.in_flight(), self.queue.next());
        if self.state <= State::Disorder && self.queue.arrived() >= self.settings.reordering {
            // So many had arrived beyond the hole, and nothing was sent again: too much reordering was reckoned with.
            self.reordering = self.reordering.min(self.settings.reordering);
        }
        self.state = State::Loss;
        self.notify_model_of_timeout(now);
        self.high = self.queue.next();
        self.probe = None;
        self.ecn.reduced();
        // RFC 5682, 3.1, step 1.
        self.frto = self.settings.frto > 0 && (is_first || self.timeouts_in_row > 0);
    }

    /// All is taken for lost but what was sent within the last round trip (`tcp_timeout_mark_lost`).
    fn mark_lost_by_timeout(&mut self, now: Time) {
        for segment in self.queue.first()..self.queue.next() {
            let remaining = self.rack.remaining(now, self.queue.get(segment), machine::Span::ZERO);
            if segment == self.queue.first() || remaining <= 0 {
                self.lost = self.lost.wrapping_add(self.queue.mark_lost(segment));
            }
        }
    }

    fn init_undo(&mut self) {
        let resent = self.queue.resent() + u32::from(self.probe.is_some() && self.probe_is_resent);
        self.undo = Some(Undo { marker: self.queue.first(), resent: (resent > 0).then_some(resent) });
    }

    /// `tcp_any_retrans_done`.
    fn any_resent(&self) -> bool {
        self.queue.resent() > 0 || (self.queue.len() > 0 && self.queue.get(self.queue.first()).was_resent())
    }

    fn try_to_open(&mut self, congested: bool) {
        if !self.any_resent() {
            self.resend_stamp = None;
        }
        if congested {
            self.enter_cwr();
        }
        if self.state != State::Cwr {
            self.try_keep_open();
        }
    }

    /// `tcp_try_keep_open`.
    pub(super) fn try_keep_open(&mut self) {
        let left = self.queue.arrived() + self.queue.lost() > 0;
        let state = if left || self.any_resent() { State::Disorder } else { State::Open };
        if self.state != state {
            self.state = state;
            self.high = self.queue.next();
        }
    }

    /// Whether what arrived was on its way before anything was sent again (`tcp_packet_delayed`).
    fn was_delayed(&self, echo: Stamp) -> bool {
        self.resend_stamp.is_none_or(|stamp| echo < stamp)
    }

    /// `tcp_may_undo`.
    fn may_undo(&self) -> bool {
        self.undo.is_some_and(|undo| undo.resent == Some(0) || self.was_delayed(self.output.echo))
    }

    /// `tcp_undo_cwnd_reduction`.
    fn undo_reduction(&mut self, unmark: bool) {
        if unmark {
            self.queue.unmark_lost();
        }
        if self.window.undo() {
            self.ecn.undone();
        }
        self.notify_model_of_undo();
        self.undo = None;
        self.rack.advanced = true;
        self.counters.undone += 1;
    }

    /// At the end of a recovery, which may have been one too many.
    fn try_undo_recovery(&mut self) {
        if self.may_undo() {
            self.undo_reduction(false);
        } else {
            self.rack.recovery_was_real();
        }
        self.state = State::Open;
    }

    /// All that was sent again came twice (`tcp_try_undo_dsack`).
    fn try_undo_by_duplicates(&mut self) -> bool {
        let undo = self.undo.is_some_and(|undo| undo.resent == Some(0));
        if undo {
            self.rack.recovery_was_spurious();
            self.undo_reduction(false);
        }
        undo
    }

    /// A hole was filled by what was only late (`tcp_try_undo_partial`). Whether nothing more is to be done.
    fn try_undo_partial(&mut self, arrivals: &Arrivals) -> bool {
        if self.undo.is_none() || !self.was_delayed(arrivals.echo) {
            return false;
        }
        self.check_reordering(arrivals.prior_first);
        if self.queue.resent() > 0 {
            return true;
        }
        if !self.any_resent() {
            self.resend_stamp = None;
        }
        self.undo_reduction(true);
        self.try_keep_open();
        false
    }

    /// `tcp_try_undo_loss`.
    fn try_undo_loss(&mut self, by_frto: bool) -> bool {
        if !by_frto && !self.may_undo() {
            return false;
        }
        self.undo_reduction(true);
        self.timeouts_in_row = 0;
        self.state = State::Open;
        true
    }

    /// `tcp_process_loss`: F-RTO (RFC 5682, 3.1).
    fn continue_loss(&mut self, arrivals: &Arrivals) {
        let recovered = self.queue.first() >= self.high;
        if arrivals.advanced && self.try_undo_loss(false) {
            return;
        }
        if self.frto {
            // Step 3.b: what was never sent again has arrived.
            if arrivals.original && self.try_undo_loss(true) {
                return;
            }
            if self.queue.next() > self.high {
                if arrivals.selected || !arrivals.advanced {
                    self.frto = false;
                }
            } else if arrivals.advanced && !recovered {
                // Step 2.b: new data show what the network does with them.
                self.high = self.queue.next();
                if self.sendable_end() > self.queue.next() {
                    self.output.new_first = true;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery();
            return;
        }
        self.output.resend = true;
    }
}
