//! The sender: congestion control and loss recovery.
//!
//! ```text
//!            threshold-th duplicate ACK                    (RFC 5681, 3.2; RFC 6582; RFC 6675, 5)
//!   Open ---------------------------------> Recovery
//!    ^  <---------------------------------     |
//!    |    first new ACK (Reno), or             | timeout  (RFC 5681, 3.1; RFC 6298, 5)
//!    |    all that was sent before it          v
//!    +------------- timeout -----------> Open, from the first unacknowledged byte on
//! ```
//!
//! Invariant: `una <= next <= max` and `max - una <= window`, all on segments' borders.

use machine::{Control, Span, Step, Time};
use serde::{Deserialize, Serialize};

use crate::rto::Rto;
use crate::sack::Scoreboard;
use crate::segment::{Ack, Ecn, Segment};
use crate::{TransportKind, TransportSpec};

/// What can happen to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The connection stands, and the application has endless data.
    Start,
    /// The application connects, and has endless data. Only Linux's sender shakes hands; of the studies', the connection stands.
    Connect,
    /// An acknowledgement arrived.
    Ack(Ack),
    /// Time passed; what is due is done.
    Tick,
}

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Segments sent, also again.
    pub segments: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Times that duplicate ACKs called for a retransmission.
    pub fast_retransmits: u64,
    /// Retransmission timeouts that expired.
    pub timeouts: u64,
}

/// Whether a loss is being repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is sent before [`Input::Start`].
    Idle,
    /// Slow start or congestion avoidance.
    Open,
    /// It is in fast recovery.
    Recovery,
}

/// How losses are repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    Reno,
    NewReno,
    Sack,
}

impl Recovery {
    /// A specification without TCP makes no sender; one that is made all the same is Reno's.
    const fn of(kind: TransportKind) -> Self {
        match kind {
            TransportKind::Reno | TransportKind::Udp => Self::Reno,
            TransportKind::NewReno => Self::NewReno,
            TransportKind::Sack | TransportKind::Linux => Self::Sack,
        }
    }
}

/// A TCP sender with endless data, or with so much.
#[derive(Clone, Debug)]
pub struct Sender {
    kind: Recovery,
    phase: Phase,
    /// The segment at `una` is to be sent again at once.
    resend: bool,
    /// `NewReno`: a partial acknowledgement has restarted the timer in this recovery.
    restarted: bool,
    duplicates: u32,
    threshold: u32,
    segment_bytes: u64,
    /// Receive window in bytes.
    window: u64,
    /// Behind the last byte of the application.
    end: u64,
    /// `SND.UNA`: the first byte that is not acknowledged.
    una: u64,
    /// `SND.NXT`: what is sent next. Below `max` only after a timeout.
    next: u64,
    /// Behind the last byte ever sent.
    max: u64,
    /// Congestion window in bytes.
    cwnd: u64,
    ssthresh: u64,
    /// Bytes acknowledged since congestion avoidance last raised `cwnd`.
    avoided: u64,
    /// When to time out; [`Time::NEVER`] while nothing is in flight.
    deadline: Time,
    rto: Rto,
    /// What was sent before recovery or a timeout ends here. No new recovery starts before all of it is acknowledged and
    /// something beyond (RFC 6582, section 3.2, step 1). Zero: nothing to guard against.
    recover: u64,
    /// `una` at the last timeout, plus one; zero before.
    timed_out_at: u64,
    /// Bytes sent by limited transmit since the first duplicate.
    limited: u64,
    /// Behind the highest segment sent again in this recovery (RFC 6675, `HighRxt`).
    resent: u64,
    /// Whether this recovery has had its rescue retransmission (RFC 6675, `RescueRxt`).
    rescued: bool,
    board: Scoreboard,
    counters: Counters,
}

impl Sender {
    /// A sender that waits for [`Input::Start`]. A field of `spec` that is zero where that makes no sense counts as one.
    pub fn new(spec: &TransportSpec) -> Self {
        let segment_bytes = u64::from(spec.segment_bytes.max(1));
        let segments = crate::window(spec);
        let window = u64::from(segments) * segment_bytes;
        Self {
            kind: Recovery::of(spec.kind),
            phase: Phase::Idle,
            resend: false,
            restarted: false,
            duplicates: 0,
            threshold: spec.duplicate_ack_threshold.max(1),
            segment_bytes,
            window,
            end: u64::MAX,
            una: 0,
            next: 0,
            max: 0,
            cwnd: (u64::from(spec.initial_window.max(1)) * segment_bytes).min(window),
            // RFC 5681, 3.1: the initial value should be arbitrarily high.
            ssthresh: u64::MAX,
            avoided: 0,
            deadline: Time::NEVER,
            rto: Rto::new(spec.rto_min),
            recover: 0,
            timed_out_at: 0,
            limited: 0,
            resent: 0,
            rescued: false,
            board: Scoreboard::new(segments, segment_bytes),
            counters: Counters::default(),
        }
    }

    /// There is no more to send than this, in bytes since the beginning, of which whole segments count. Without it data are endless.
    pub const fn write(&mut self, bytes: u64) {
        self.end = bytes;
    }

    /// What it has done.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Congestion window in bytes.
    pub const fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// The smoothed round-trip time; `None` before the first one was measured.
    pub const fn smoothed_rtt(&self) -> Option<Span> {
        self.rto.smoothed()
    }

    /// Slow-start threshold in bytes; `u64::MAX` before the first loss.
    pub const fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// Whether a loss is being repaired.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Bytes sent and not yet acknowledged (`FlightSize` of RFC 5681). Never above the receive window.
    pub const fn flight(&self) -> u64 {
        self.max - self.una
    }

    /// The first byte that is not acknowledged.
    pub const fn unacknowledged(&self) -> u64 {
        self.una
    }

    /// When the retransmission timer expires.
    pub const fn deadline(&self) -> Time {
        self.deadline
    }

    #[inline]
    fn on_ack(&mut self, now: Time, ack: &Ack) {
        if ack.ack > self.max || self.phase == Phase::Idle {
            // RFC 9293, 3.10.7.4: an acknowledgement of what was never sent is ignored.
            return;
        }
        if ack.ack > self.una {
            self.advance(now, ack);
        } else {
            self.not_advancing(ack);
        }
    }

    /// The cumulative acknowledgement moves on.
    #[inline]
    fn advance(&mut self, now: Time, ack: &Ack) {
        let acked = ack.ack - self.una;
        self.rto.sample(now - ack.echo);
        self.una = ack.ack;
        self.next = self.next.max(self.una);
        self.duplicates = 0;
        self.limited = 0;
        let restart = match self.phase {
            Phase::Recovery => self.advance_in_recovery(acked),
            Phase::Open | Phase::Idle => {
                self.grow(acked);
                true
            }
        };
        if self.kind == Recovery::Sack {
            self.board.advance(self.segments(acked));
            let news = self.board.update(&ack.blocks, 0, self.segments(self.max - self.una));
            // RFC 6675, section 2: what says that something beyond has arrived is a duplicate, also if it acknowledges.
            if news {
                self.on_duplicate();
            }
        }
        // RFC 6298, 5.2 and 5.3.
        if self.una == self.max {
            self.deadline = Time::NEVER;
        } else if restart {
            self.deadline = now + self.rto.get();
        }
    }

    /// `bytes` as segments. Nearly always it is one, and a division costs as much as all the rest.
    #[inline]
    const fn segments(&self, bytes: u64) -> u64 {
        if bytes == self.segment_bytes { 1 } else { bytes / self.segment_bytes }
    }

    /// Slow start and congestion avoidance (RFC 5681, 3.1). The receive window bounds `cwnd`: growth beyond it would only
    /// be stored for a burst.
    #[inline]
    fn grow(&mut self, acked: u64) {
        if self.cwnd < self.ssthresh {
            self.cwnd += acked.min(self.segment_bytes);
        } else {
            self.avoided += acked;
            if self.avoided >= self.cwnd {
                self.avoided -= self.cwnd;
                self.cwnd += self.segment_bytes;
            }
        }
        self.cwnd = self.cwnd.min(self.window);
    }

    /// A new acknowledgement during recovery. True if it restarts the timer.
    fn advance_in_recovery(&mut self, acked: u64) -> bool {
        match self.kind {
            // RFC 5681, 3.2, step 6: the first one ends it.
            Recovery::Reno => self.leave_recovery(self.ssthresh),
            Recovery::NewReno if self.una >= self.recover => {
                // RFC 6582, 3.2, step 3, full acknowledgement, first choice: no burst if little is in flight.
                self.leave_recovery(self.ssthresh.min(self.flight().max(self.segment_bytes) + self.segment_bytes));
            }
            Recovery::NewReno => {
                // Partial acknowledgement: resend the next hole, deflate by what left the network.
                self.resend = true;
                self.cwnd = self.cwnd.saturating_sub(acked).max(self.segment_bytes);
                if acked >= self.segment_bytes {
                    self.cwnd += self.segment_bytes;
                }
                // RFC 6582, section 4, the "impatient" variant: only the first one restarts the timer.
                return !core::mem::replace(&mut self.restarted, true);
            }
            // RFC 6675, section 5, step A.
            Recovery::Sack if self.una >= self.recover => self.leave_recovery(self.cwnd),
            Recovery::Sack => {}
        }
        true
    }

    fn leave_recovery(&mut self, cwnd: u64) {
        self.phase = Phase::Open;
        self.cwnd = cwnd;
        self.avoided = 0;
    }

    /// The cumulative acknowledgement stays where it is, or is an old one.
    fn not_advancing(&mut self, ack: &Ack) {
        let duplicate = match self.kind {
            // RFC 5681, section 2: nothing new is acknowledged while something is in flight.
            Recovery::Reno | Recovery::NewReno => ack.ack == self.una && self.max > self.una,
            // RFC 6675, section 2: it says that something new has arrived beyond.
            Recovery::Sack => self.board.update(&ack.blocks, self.una - ack.ack, self.segments(self.max - self.una)),
        };
        if duplicate {
            self.on_duplicate();
        }
    }

    fn on_duplicate(&mut self) {
        self.duplicates = self.duplicates.saturating_add(1);
        match (self.phase, self.kind) {
            (Phase::Recovery, Recovery::Reno | Recovery::NewReno) => {
                // RFC 5681, 3.2, step 4: each one means that a segment has left the network.
                self.cwnd += self.segment_bytes;
            }
            (Phase::Open, _) if self.calls_for_recovery() => self.enter_recovery(),
            _ => {}
        }
    }

    fn calls_for_recovery(&self) -> bool {
        // RFC 6582, 3.2, step 1 and 4.1: duplicates of what was resent after a timeout are no sign of a loss.
        // RFC 6675, 5.1 asks nearly the same of SACK.
        let guarded = match self.kind {
            Recovery::Sack => self.una < self.recover,
            Recovery::Reno | Recovery::NewReno => self.recover > 0 && self.una <= self.recover,
        };
        let lost = self.duplicates >= self.threshold
            || (self.kind == Recovery::Sack && self.board.len() >= u64::from(self.threshold));
        lost && !guarded
    }

    fn enter_recovery(&mut self) {
        self.counters.fast_retransmits += 1;
        self.phase = Phase::Recovery;
        self.resend = true;
        self.restarted = false;
        self.rescued = false;
        self.avoided = 0;
        self.resent = self.una;
        self.reduce_ssthresh();
        if self.kind != Recovery::Reno {
            self.recover = self.max;
        }
        // RFC 5681, 3.2, step 3 inflates by the segments that have left; RFC 6675 counts them in `pipe`.
        let left = if self.kind == Recovery::Sack { 0 } else { u64::from(self.threshold) * self.segment_bytes };
        self.cwnd = self.ssthresh + left;
    }

    /// RFC 5681, equation 4, without what limited transmit has sent (3.2, step 2).
    fn reduce_ssthresh(&mut self) {
        let flight = self.flight().saturating_sub(self.limited);
        self.ssthresh = (flight / 2).max(2 * self.segment_bytes);
    }

    /// With SACK, what has been sent and not acknowledged is no measure of what the network holds: most of it may have arrived, and recovery
    /// goes on sending beyond it. So a recovery's own threshold stays, and what `cwnd` did not allow does not count.
    fn reduce_ssthresh_at_timeout(&mut self) {
        let before = self.ssthresh;
        self.reduce_ssthresh();
        if self.kind == Recovery::Sack {
            let most = if self.phase == Phase::Recovery { before } else { self.cwnd / 2 };
            self.ssthresh = self.ssthresh.min(most.max(2 * self.segment_bytes));
        }
    }

    fn on_tick(&mut self, now: Time) {
        if now < self.deadline {
            return;
        }
        self.counters.timeouts += 1;
        // RFC 5681, 3.1: if the same segment times out again, ssthresh stays.
        if self.timed_out_at != self.una + 1 {
            self.reduce_ssthresh_at_timeout();
            self.timed_out_at = self.una + 1;
        }
        self.cwnd = self.segment_bytes;
        self.avoided = 0;
        self.duplicates = 0;
        self.limited = 0;
        self.phase = Phase::Open;
        self.resend = false;
        self.next = self.una;
        // RFC 6582, section 4.1; RFC 6675, 5.1.
        self.recover = self.max;
        self.board.clear();
        // RFC 6298, 5.5; the timer starts again with the segment that `poll` sends (5.6).
        self.rto.back_off();
        self.deadline = Time::NEVER;
    }

    /// What may be sent now, if anything.
    #[inline]
    fn choose(&mut self) -> Option<u64> {
        if self.resend {
            self.resend = false;
            self.resent = self.una + self.segment_bytes;
            return Some(self.una);
        }
        if self.kind == Recovery::Sack && !self.board.is_empty() {
            return self.choose_by_scoreboard();
        }
        let limit = (self.una + self.window.min(self.cwnd + self.limited_transmit())).min(self.end);
        (self.next + self.segment_bytes <= limit).then_some(self.next)
    }

    /// Behind the last byte that is there and that the receiver has room for.
    #[inline]
    fn sendable_end(&self) -> u64 {
        self.end.min(self.una + self.window)
    }

    /// RFC 3042: a new segment for each duplicate before the threshold is reached, beyond `cwnd`.
    #[inline]
    fn limited_transmit(&self) -> u64 {
        if self.phase == Phase::Open && self.next == self.max && self.duplicates < self.threshold {
            u64::from(self.duplicates) * self.segment_bytes
        } else {
            0
        }
    }

    fn choose_by_scoreboard(&mut self) -> Option<u64> {
        let in_flight = self.segments(self.flight());
        let resent = self.segments(self.resent.saturating_sub(self.una));
        if self.phase == Phase::Recovery {
            let pipe = self.board.pipe(in_flight, resent, u64::from(self.threshold)) * self.segment_bytes;
            return if pipe + self.segment_bytes <= self.cwnd { self.next_segment(in_flight, resent) } else { None };
        }
        // After a timeout, what has arrived is skipped (RFC 2018, section 5). Before the threshold is reached,
        // what has arrived makes room for limited transmit (RFC 6675, section 5, step 3).
        let next = self.segments(self.next - self.una);
        if let Some(missing) = self.board.first_missing(next, in_flight) {
            self.next = self.una + missing * self.segment_bytes;
        } else {
            self.next = self.max;
        }
        let next = self.segments(self.next - self.una);
        let pipe = (next - self.board.count(0, next)) * self.segment_bytes;
        (pipe + self.segment_bytes <= self.cwnd && self.next + self.segment_bytes <= self.sendable_end())
            .then_some(self.next)
    }

    /// RFC 6675, section 4, `NextSeg`.
    fn next_segment(&mut self, in_flight: u64, resent: u64) -> Option<u64> {
        let top = self.board.top(in_flight);
        let hole = self.board.first_missing(resent, top);
        let lost = self.board.lost_below(in_flight, u64::from(self.threshold));
        let resend = |sender: &mut Self, segment: u64| {
            let seq = sender.una + segment * sender.segment_bytes;
            sender.resent = seq + sender.segment_bytes;
            Some(seq)
        };
        match hole {
            // Rule 1.
            Some(segment) if segment < lost => resend(self, segment),
            // Rule 2.
            _ if self.max + self.segment_bytes <= self.sendable_end() => Some(self.max),
            // Rule 3.
            Some(segment) => resend(self, segment),
            // Rule 4: once, the highest segment that is missing, in case the end of the flight was lost.
            None if !self.rescued => {
                self.rescued = true;
                self.board.last_missing(in_flight).map(|segment| self.una + segment * self.segment_bytes)
            }
            None => None,
        }
    }

    #[inline]
    fn transmit(&mut self, now: Time, seq: u64) -> Segment {
        let end = seq + self.segment_bytes;
        self.counters.segments += 1;
        self.counters.retransmits += u64::from(seq < self.max);
        if seq == self.next {
            self.next = end;
            if end > self.max {
                self.max = end;
                if self.duplicates > 0 && self.phase == Phase::Open {
                    self.limited += self.segment_bytes;
                }
            }
        }
        // RFC 6298, 5.1.
        if self.deadline == Time::NEVER {
            self.deadline = now + self.rto.get();
        }
        Segment { seq, stamp: now, push: false, ecn: Ecn::NONE, echo: 0 }
    }
}

impl Control for Sender {
    type Input = Input;
    type Output = Segment;

    #[inline]
    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Ack(ack) => self.on_ack(now, &ack),
            Input::Tick => self.on_tick(now),
            Input::Start | Input::Connect if self.phase == Phase::Idle => self.phase = Phase::Open,
            Input::Start | Input::Connect => {}
        }
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Step<Segment> {
        if self.phase == Phase::Idle {
            return Step::Wait(Time::NEVER);
        }
        match self.choose() {
            Some(seq) => Step::Do(self.transmit(now, seq)),
            None => Step::Wait(self.deadline),
        }
    }
}
