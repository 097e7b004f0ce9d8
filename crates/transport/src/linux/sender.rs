//! The sender: what it knows, and what becomes of an acknowledgement.
//!
//! ```text
//!            something came late or twice             a segment is lost               (recovery.rs)
//!   Open ------------------------------> Disorder --------------------> Recovery
//!    ^ ^                                    |                               |
//!    | +------------------------------------+                               | timeout (timers.rs)
//!    |         all that was sent before is acknowledged, or                 v
//!    +------- it turns out that nothing was lost (undo) --------------- Loss
//! ```
//!
//! Invariant: what is in flight is at most the receiver's window, and is timed.

use machine::{Control, Span, Step, Time};
use serde::{Deserialize, Serialize};

use super::application::{Application, whole_burst};
use super::arrivals::Arrivals;
use super::autotuning::first_window;
use super::dctcp::Delivered;
use super::ecn::Sending;
use super::handshake::{Asked, Opening};
use super::model::Model;
use super::pending::Pending;
use super::queue::Queue;
use super::rack::{Path, Rack};
use super::rtt::Rtt;
use super::stamp::Stamp;
use super::state::State;
use super::timer::Timer;
use super::window::Window;
use crate::sender::Input;
use crate::sysctl::{CongestionControl, Settings};
use crate::{Ack, ReceiveWindow, Segment, TransportSpec};

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Segments sent, also again.
    pub segments: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Times that recovery began.
    pub recoveries: u64,
    /// Retransmission timeouts that expired.
    pub timeouts: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Reductions of the window that were taken back.
    pub undone: u64,
}

/// What would undo a reduction of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// The first segment without acknowledgement when the window was reduced.
    pub marker: u64,
    /// Segments sent again since then that are not known to have come twice; `None`: none was sent.
    pub resent: Option<u32>,
}

/// A TCP sender with endless data.
#[expect(clippy::struct_excessive_bools, reason = "each is one sign, as the kernel's flags are")]
#[derive(Clone, Debug)]
pub struct Sender {
    pub(super) settings: Settings,
    pub(super) segment_bytes: u64,
    /// Segments of the largest burst.
    pub(super) whole: u32,
    /// Segments that the receiver has room for at most.
    pub(super) receive_window: u64,
    /// Behind the last segment that the receiver has room for.
    pub(super) window_end: u64,
    /// The receiver says how much room it has, which changes.
    pub(super) is_offered: bool,
    /// What it has room for, in bytes (`snd_wnd`).
    pub(super) offered: u64,
    /// When the last acknowledgement was sent, in its sender's milliseconds (`ts_recent`).
    echo: u32,
    pub(super) application: Application,
    pub(super) queue: Queue,
    pub(super) rtt: Rtt,
    pub(super) rack: Rack,
    pub(super) window: Window,
    pub(super) state: State,
    /// `high_seq`: recovery lasts until all before it is acknowledged.
    pub(super) high: u64,
    pub(super) undo: Option<Undo>,
    /// When the first segment was sent again in this recovery, as its timestamp says (`retrans_stamp`).
    pub(super) resend_stamp: Option<Stamp>,
    /// How far segments are known to overtake each other.
    pub(super) reordering: u32,
    pub(super) reordering_seen: bool,
    /// A timeout may still turn out to have been one too many.
    pub(super) frto: bool,
    /// Timeouts since something new was acknowledged.
    pub(super) timeouts_in_row: u32,
    /// Behind the last segment when a probe was sent that has no answer yet.
    pub(super) probe: Option<u64>,
    /// The probe was a segment that had been sent before.
    pub(super) probe_is_resent: bool,
    pub(super) timer: Timer,
    pub(super) deadline: Time,
    /// Segments that are known to have arrived, each as often as it did.
    pub(super) delivered: u32,
    /// Segments that were found lost.
    pub(super) lost: u32,
    /// Segments that came twice.
    pub(super) duplicates: u64,
    pub(super) model: Option<Box<Model>>,
    /// Where its randomness starts.
    pub(super) seed: u64,
    opening: Opening,
    pub(super) ecn: Sending,
    /// Of `delivered`, what came with acknowledgements that said that there were marks.
    pub(super) marked: u32,
    pub(super) output: Pending,
    pub(super) counters: Counters,
}

impl Sender {
    /// A sender that waits for [`Input::Start`]. A field of `spec` that is zero where that makes no sense counts as one.
    pub fn new(spec: &TransportSpec) -> Self {
        let settings = spec.linux;
        let receive_window = u64::from(crate::window(spec));
        let segment_bytes = u64::from(spec.segment_bytes.max(1));
        let is_offered = spec.window == ReceiveWindow::Auto;
        let offered = if is_offered { first_window(segment_bytes) } else { receive_window * segment_bytes };
        Self {
            settings,
            segment_bytes,
            whole: whole_burst(segment_bytes),
            receive_window,
            window_end: offered / segment_bytes,
            is_offered,
            offered,
            echo: 0,
            application: Application::endless(),
            queue: Queue::new(),
            rtt: Rtt::new(spec.rto_min),
            rack: Rack::new(),
            window: Window::new(settings.congestion_control, spec.initial_window),
            state: State::Open,
            high: 0,
            undo: None,
            resend_stamp: None,
            reordering: settings.reordering,
            reordering_seen: false,
            frto: false,
            timeouts_in_row: 0,
            probe: None,
            probe_is_resent: false,
            timer: Timer::None,
            deadline: Time::NEVER,
            // The kernel has counted the segment that opened the connection.
            delivered: 1,
            lost: 0,
            duplicates: 0,
            model: None,
            seed: 0,
            opening: Opening::Rest,
            ecn: Sending::new(&settings),
            marked: 0,
            output: Pending::default(),
            counters: Counters::default(),
        }
    }

    /// Where the randomness of a congestion control starts that has some.
    pub const fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// What it has done.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        u64::from(self.window.size()) * self.segment_bytes
    }

    /// The smoothed round-trip time; `None` before the first one was measured.
    pub const fn smoothed_rtt(&self) -> Option<Span> {
        self.rtt.smoothed()
    }

    /// Slow-start threshold in bytes; `u64::MAX` before the first loss.
    pub fn ssthresh(&self) -> u64 {
        self.window.ssthresh().map_or(u64::MAX, |segments| u64::from(segments) * self.segment_bytes)
    }

    /// Whether a loss is being repaired.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Bytes sent and not yet acknowledged. Never above the receive window.
    pub fn flight(&self) -> u64 {
        u64::from(self.queue.len()) * self.segment_bytes
    }

    /// The first byte that is not acknowledged.
    pub const fn unacknowledged(&self) -> u64 {
        self.queue.first() * self.segment_bytes
    }

    /// When the timer that is set goes off.
    pub const fn deadline(&self) -> Time {
        self.deadline
    }

    /// `bytes` as whole segments.
    #[inline]
    pub(super) const fn segments(&self, bytes: u64) -> u64 {
        bytes / self.segment_bytes
    }

    pub(super) const fn in_reduction(&self) -> bool {
        matches!(self.state, State::Cwr | State::Recovery)
    }

    /// What the window for reordering depends on.
    pub(super) fn path(&self) -> Path {
        Path {
            shortest_rtt: self.rtt.shortest(),
            smoothed_rtt: self.rtt.smoothed(),
            reordering_seen: self.reordering_seen,
            in_recovery: self.state >= State::Recovery,
            threshold_reached: self.queue.arrived() >= self.reordering,
        }
    }

    fn start(&mut self, now: Time) {
        self.output.started = true;
        self.output.push = true;
        self.window.start(now, 0, self.ecn.is_on());
        if self.settings.congestion_control == CongestionControl::Bbr {
            self.make_model(now);
        }
    }

    /// The connection stands (`tcp_rcv_synsent_state_process`).
    fn on_opened(&mut self, now: Time, ack: &Ack, asked: Asked) {
        let rtt = now.since(ack.echo);
        self.rtt.sample(rtt, 0, 0);
        self.rtt.note_shortest(rtt);
        self.output.echo = Stamp::of(ack.echo);
        self.ecn.on_answer(ack.ecn);
        self.deadline = Time::NEVER;
        self.opening = Opening::Answer;
        if self.is_offered {
            (self.offered, self.window_end) = (0, 0);
            self.take_offer(ack, true);
        }
        if asked.lost_two(ack.echo) {
            self.window.begin_with_one();
        }
        self.start(now);
    }

    /// `tcp_ack`.
    fn on_ack(&mut self, now: Time, ack: &Ack) {
        let first = self.segments(ack.ack);
        if !self.output.started || first > self.queue.next() || first + self.receive_window < self.queue.first() {
            // RFC 9293, 3.10.7.4; RFC 5961, 5.2: what was never sent, and what is too old, is ignored.
            return;
        }
        if first < self.queue.first() {
            return self.on_old_ack(now, ack);
        }
        let before = self.delivered;
        self.output.echo = Stamp::of(ack.echo);
        let mut arrivals = Arrivals::new(now, first, ack.echo, &self.queue);
        arrivals.congested = self.ecn.is_congested(ack.ecn);
        if self.is_offered {
            arrivals.updates_window = self.take_offer(ack, arrivals.advanced);
        } else {
            self.window_end = self.window_end.max(first + self.receive_window);
        }
        if arrivals.advanced {
            self.timeouts_in_row = 0;
        }
        if let Some(model) = &mut self.model {
            model.begin_ack(self.queue.in_flight());
        }
        self.note_blocks(&mut arrivals, ack);
        self.note_acknowledged(&mut arrivals);
        if let Some(delivered) = arrivals.prior_delivered() {
            self.rack.update_window(delivered, self.delivered);
        }
        if arrivals.congested {
            self.marked = self.marked.wrapping_add(self.delivered.wrapping_sub(before));
        }
        self.window.note_delivered(first, self.queue.next(), Delivered { all: self.delivered, marked: self.marked });
        self.answer_probe(&arrivals);
        if arrivals.is_dubious() || self.state != State::Open {
            self.recover(&mut arrivals);
        }
        if arrivals.set_timer {
            self.set_timer(now);
        }
        self.adapt_window(now, self.delivered - before, &arrivals);
        self.output.push = true;
    }

    /// How much the receiver has room for by now (`tcp_ack_update_window`). Whether that is news.
    fn take_offer(&mut self, ack: &Ack, advanced: bool) -> bool {
        let window = u64::from(ack.offer.window);
        self.echo = self.echo.max(ack.offer.stamp);
        let is_news = advanced || window > self.offered || window == 0;
        if is_news {
            self.offered = window;
            self.window_end = self.window_end.max(self.segments(ack.ack + window));
        }
        is_news
    }

    /// An acknowledgement that a later one overtook: its blocks may be news all the same.
    fn on_old_ack(&mut self, now: Time, ack: &Ack) {
        if ack.blocks.as_slice().is_empty() {
            return;
        }
        let mut arrivals = Arrivals::new(now, self.segments(ack.ack), ack.echo, &self.queue);
        self.note_blocks(&mut arrivals, ack);
        self.recover(&mut arrivals);
        self.output.push = true;
    }

    /// `tcp_cong_control`.
    fn adapt_window(&mut self, now: Time, delivered: u32, arrivals: &Arrivals) {
        if self.follow_model(now, delivered, arrivals) {
            return;
        }
        if self.in_reduction() {
            let advanced = arrivals.advanced && arrivals.lost == 0;
            self.window.reduce(delivered, self.queue.in_flight(), advanced);
        } else if arrivals.advanced || (arrivals.selected && self.reordering > self.settings.reordering) {
            // Where segments overtake each other, what arrives early counts as well (`tcp_may_raise_cwnd`).
            self.window.grow(now, delivered);
        }
    }
}

impl Control for Sender {
    type Input = Input;
    type Output = Segment;

    #[inline]
    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Ack(ack) => match self.opening {
                Opening::Asked(asked) => self.on_opened(now, &ack, asked),
                _ => self.on_ack(now, &ack),
            },
            Input::Tick => match self.opening {
                Opening::Asked(asked) if now >= self.deadline => self.opening = Opening::Ask(asked),
                _ => self.on_tick(now),
            },
            Input::Start if !self.output.started => {
                self.ecn.assume();
                self.start(now);
            }
            Input::Connect if !self.output.started && self.opening == Opening::Rest => {
                self.opening = Opening::Ask(Asked::NONE);
            }
            Input::Start | Input::Connect => {}
        }
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Step<Segment> {
        if let Some((segment, until)) = self.opening.next(now, &mut self.ecn) {
            self.deadline = until;
            return Step::Do(segment);
        }
        let next = self.queue.next();
        match self.next_segment(now) {
            Some((segment, push)) => {
                let ecn = self.ecn.segment(segment == next);
                Step::Do(Segment { seq: segment * self.segment_bytes, stamp: now, push, ecn, echo: self.echo })
            }
            None => Step::Wait(self.deadline.min(self.paced_until())),
        }
    }
}
