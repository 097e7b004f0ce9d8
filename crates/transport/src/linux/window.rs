//! The congestion window: how it grows, and what recovery makes of it (RFC 6937).

use machine::{Span, Time};

use super::cubic::{Cubic, Sample};
use super::dctcp::{Dctcp, Delivered};
use crate::sysctl::CongestionControl;

/// As large as it gets; also the first threshold.
const INFINITE: u32 = 0x7fff_ffff;

#[derive(Clone, Debug)]
enum Control {
    Cubic(Box<Cubic>),
    Reno,
    Dctcp(Box<Dctcp>),
    /// The window is what a model of the path says ([`super::bbr`]).
    Model,
}

/// The window and its threshold, in segments.
#[derive(Clone, Debug)]
pub(super) struct Window {
    size: u32,
    /// What it was at the beginning.
    initial: u32,
    ssthresh: u32,
    /// Acknowledged segments that have not raised it yet.
    count: u32,
    /// The threshold before the last reduction; `None`: that is not to be undone.
    prior_ssthresh: Option<u32>,
    /// The size before the last reduction.
    prior: u32,
    /// Segments that have arrived, and that were sent, since recovery began.
    delivered: u32,
    sent: u32,
    /// Whether it was what kept from sending more, in the flight that ends with `usage_end`.
    is_limiting: bool,
    packets_max: u32,
    usage_end: u64,
    control: Control,
}

/// What a sender had in flight when it stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub is_limiting: bool,
    pub packets: u32,
    pub first: u64,
    pub next: u64,
}

/// What is left of a window after a loss.
fn half(window: u32) -> u32 {
    (window / 2).max(2)
}

impl Window {
    pub fn new(control: CongestionControl, initial: u32) -> Self {
        Self {
            size: initial.max(1),
            initial: initial.max(1),
            ssthresh: INFINITE,
            count: 0,
            prior_ssthresh: None,
            prior: 0,
            delivered: 0,
            sent: 0,
            is_limiting: false,
            packets_max: 0,
            usage_end: 0,
            control: match control {
                CongestionControl::Cubic => Control::Cubic(Box::default()),
                CongestionControl::Reno => Control::Reno,
                CongestionControl::Bbr => Control::Model,
                CongestionControl::Dctcp => Control::Dctcp(Box::new(Dctcp::new())),
            },
        }
    }

    pub const fn size(&self) -> u32 {
        self.size
    }

    /// What the model says.
    pub const fn set_size(&mut self, size: u32) {
        self.size = size;
    }

    const fn is_of_model(&self) -> bool {
        matches!(self.control, Control::Model)
    }

    pub fn ssthresh(&self) -> Option<u32> {
        (self.ssthresh < INFINITE).then_some(self.ssthresh)
    }

    pub const fn in_slow_start(&self) -> bool {
        self.size < self.ssthresh
    }

    /// Less than half of the threshold, where the rate is reckoned to double.
    pub const fn in_early_slow_start(&self) -> bool {
        self.size < self.ssthresh / 2
    }

    /// The connection stands; `has_ecn`: both ends know what marks are.
    pub fn start(&mut self, now: Time, next: u64, has_ecn: bool) {
        match &mut self.control {
            Control::Cubic(cubic) => cubic.start(now, next),
            // `dctcp_init`.
            Control::Dctcp(_) if !has_ecn => self.control = Control::Reno,
            Control::Reno | Control::Dctcp(_) | Control::Model => {}
        }
    }

    /// An acknowledgement has been taken in.
    pub fn note_delivered(&mut self, first: u64, next: u64, delivered: Delivered) {
        if let Control::Dctcp(dctcp) = &mut self.control {
            dctcp.on_ack(first, next, delivered);
        }
    }

    /// A sender stopped sending (`tcp_cwnd_validate`).
    pub fn note_usage(&mut self, usage: Usage) {
        let is_more = !self.is_limiting && usage.packets > self.packets_max;
        if usage.first >= self.usage_end || usage.is_limiting || is_more {
            self.is_limiting = usage.is_limiting;
            self.packets_max = usage.packets;
            self.usage_end = usage.next;
        }
    }

    const fn was_used(&self) -> bool {
        self.is_limiting || (self.in_slow_start() && self.size < 2 * self.packets_max)
    }

    /// Segments were acknowledged outside of recovery.
    pub fn grow(&mut self, now: Time, acked: u32) {
        if !self.was_used() {
            return;
        }
        let mut acked = acked;
        if self.in_slow_start() {
            let size = (self.size + acked).min(self.ssthresh);
            acked -= size - self.size;
            self.size = size;
            if acked == 0 {
                return;
            }
        }
        let count = match &mut self.control {
            Control::Cubic(cubic) => cubic.count(now, self.size, acked),
            Control::Reno | Control::Dctcp(_) | Control::Model => self.size,
        };
        self.avoid(count.max(1), acked);
    }

    /// `count` acknowledged segments raise it by one (`tcp_cong_avoid_ai`).
    fn avoid(&mut self, count: u32, acked: u32) {
        if self.count >= count {
            self.count = 0;
            self.size += 1;
        }
        self.count += acked;
        self.size += self.count / count;
        self.count %= count;
        self.size = self.size.min(INFINITE);
    }

    /// A round trip was measured.
    pub fn sample(&mut self, now: Time, rtt: Span, first: u64, next: u64) {
        let (window, in_slow_start) = (self.size, self.in_slow_start());
        if let Control::Cubic(cubic) = &mut self.control
            && cubic.sample(&Sample { now, rtt, window, in_slow_start, first, next })
        {
            self.ssthresh = self.size;
        }
    }

    pub const fn begin_with_one(&mut self) {
        self.size = 1;
    }

    /// Data are sent after a pause, the first since `last` (`CA_EVENT_TX_START`).
    pub fn resume(&mut self, now: Time, last: Time) {
        if let Control::Cubic(cubic) = &mut self.control {
            cubic.resume(now, last);
        }
    }

    /// Data are written after a pause in which so many timeouts have passed.
    pub fn restart(&mut self, timeouts: u32) {
        self.ssthresh = self.current_ssthresh();
        let least = self.initial.min(self.size);
        for _ in 0..timeouts {
            if self.size <= least {
                break;
            }
            self.size /= 2;
        }
        self.size = self.size.max(least);
    }

    /// The threshold after a loss or a mark.
    fn reduced(&mut self) -> u32 {
        match &mut self.control {
            Control::Cubic(cubic) => cubic.ssthresh(self.size),
            Control::Reno => half(self.size),
            Control::Dctcp(dctcp) => dctcp.ssthresh(self.size),
            Control::Model => self.ssthresh,
        }
    }

    /// Something was lost. What DCTCP does then is what Reno does (RFC 8257, 3.5; `dctcp_react_to_loss`).
    pub fn note_loss(&mut self) {
        if let Control::Dctcp(_) = &self.control {
            self.ssthresh = half(self.size);
        }
    }

    /// `tcp_current_ssthresh`, outside of a reduction.
    const fn current_ssthresh(&self) -> u32 {
        let three_quarters = self.size / 2 + self.size / 4;
        if self.ssthresh > three_quarters { self.ssthresh } else { three_quarters }
    }

    /// What comes next may turn out to be one too many; outside of a reduction.
    pub fn remember(&mut self) {
        self.prior_ssthresh = Some(self.current_ssthresh());
    }

    /// What comes next cannot be undone.
    pub const fn forget(&mut self) {
        self.prior_ssthresh = None;
    }

    /// A reduction begins (`tcp_init_cwnd_reduction`).
    pub fn begin_reduction(&mut self) {
        self.count = 0;
        self.prior = self.size;
        (self.delivered, self.sent) = (0, 0);
        self.ssthresh = self.reduced();
    }

    /// Segments arrived during recovery (`tcp_cwnd_reduction`). `advanced`: the cumulative acknowledgement did, and nothing new was lost.
    pub fn reduce(&mut self, arrived: u32, in_flight: u32, advanced: bool) {
        if arrived == 0 || self.prior == 0 || self.is_of_model() {
            return;
        }
        self.delivered += arrived;
        let allowed = if in_flight > self.ssthresh {
            let share = u64::from(self.ssthresh) * u64::from(self.delivered) + u64::from(self.prior) - 1;
            (share / u64::from(self.prior)).cast_signed() - i64::from(self.sent)
        } else {
            let banked = (i64::from(self.delivered) - i64::from(self.sent)).max(i64::from(arrived));
            (banked + i64::from(advanced)).min(i64::from(self.ssthresh - in_flight))
        };
        // The first retransmission leaves whatever the share says.
        let allowed = allowed.max(i64::from(self.sent == 0));
        self.size = (i64::from(in_flight) + allowed).max(0) as u32;
    }

    /// Segments were sent during recovery.
    pub const fn note_sent(&mut self, segments: u32) {
        self.sent += segments;
    }

    /// Recovery is over; `is_real`: it was not undone.
    pub const fn end_reduction(&mut self, is_real: bool) {
        if is_real && self.ssthresh < INFINITE && !self.is_of_model() {
            self.size = self.ssthresh;
        }
    }

    /// The timer expired. `anew`: the loss was not known before.
    pub fn time_out(&mut self, anew: bool) {
        if anew {
            self.remember();
            self.prior = self.size;
            self.ssthresh = self.reduced();
            self.note_loss();
        }
    }

    /// Behind [`Window::time_out`], once it is known what is in flight still.
    pub fn collapse(&mut self, now: Time, in_flight: u32, next: u64) {
        self.size = in_flight + 1;
        self.count = 0;
        if let Control::Cubic(cubic) = &mut self.control {
            cubic.reset(now, next);
        }
    }

    /// The last reduction was one too many. Whether it is as if there had been none.
    pub fn undo(&mut self) -> bool {
        let Some(ssthresh) = self.prior_ssthresh else { return false };
        if !self.is_of_model() {
            self.size = self.size.max(self.prior);
        }
        let was_lower = self.ssthresh < ssthresh;
        self.ssthresh = self.ssthresh.max(ssthresh);
        was_lower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6937, section 3: the window comes down to the threshold within one flight, a segment for about two that arrive.
    #[test]
    fn a_reduction_sends_its_share() {
        let mut window = Window::new(CongestionControl::Reno, 20);
        window.remember();
        window.begin_reduction();
        assert_eq!(window.ssthresh(), Some(10));
        let mut in_flight = 19;
        let mut sent = 0;
        for _ in 0..18 {
            in_flight -= 1;
            window.reduce(1, in_flight, false);
            let segments = window.size().saturating_sub(in_flight);
            window.note_sent(segments);
            in_flight += segments;
            sent += segments;
        }
        assert_eq!((sent, in_flight), (9, 10));
    }

    #[test]
    fn undo_brings_back_what_was() {
        let mut window = Window::new(CongestionControl::Cubic, 100);
        window.remember();
        window.begin_reduction();
        window.reduce(1, 60, false);
        window.end_reduction(true);
        assert_eq!((window.size(), window.ssthresh()), (70, Some(70)));
        window.undo();
        assert_eq!((window.size(), window.ssthresh()), (100, None), "there was no threshold yet");
    }

    #[test]
    fn what_is_not_used_does_not_grow() {
        let mut window = Window::new(CongestionControl::Reno, 10);
        window.note_usage(Usage { is_limiting: false, packets: 2, first: 0, next: 2 });
        window.grow(Time::ZERO, 2);
        assert_eq!(window.size(), 10);
        window.note_usage(Usage { is_limiting: true, packets: 10, first: 2, next: 12 });
        window.grow(Time::ZERO, 2);
        assert_eq!(window.size(), 12);
    }

    #[test]
    fn a_window_that_limited_did_so_for_a_whole_flight() {
        let mut window = Window::new(CongestionControl::Reno, 12);
        window.begin_reduction();
        window.end_reduction(true);
        window.note_usage(Usage { is_limiting: true, packets: 6, first: 20, next: 26 });
        // More are under way, and there is room for yet more.
        window.note_usage(Usage { is_limiting: false, packets: 7, first: 21, next: 28 });
        window.grow(Time::ZERO, 6);
        assert_eq!(window.size(), 7);
        window.note_usage(Usage { is_limiting: false, packets: 2, first: 26, next: 28 });
        window.grow(Time::ZERO, 7);
        assert_eq!(window.size(), 7);
    }
}
