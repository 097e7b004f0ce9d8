//! The receiver: puts segments in order, and says what has come, when Linux does.
//!
//! Every second segment is acknowledged, or after [`DELAY`]; each one in quick-ACK phases: at the beginning, after a duplicate, and after a pause. Beyond a
//! hole the first three segments are acknowledged at once; then acknowledgements are compressed, so that one says for several what has come: by a twentieth of the
//! round trip that the handshake had. Over a path that was empty then, this is less than from one segment to the next.
//!
//! Segments that the host has joined ([`Input::Joined`], GRO) come one by one, but nobody polls in between, so that they are acknowledged as the one packet
//! that they are to the kernel: at once if they are two or more in order, and counted once beyond a hole.
//!
//! Invariant: segments below `next` have all arrived and were given to the application; `early` marks those beyond the hole at `next`.

use core::cmp::Ordering;

use machine::{Control, Span, Step, Time};

use super::ecn::{Check, Receiving};
use super::handshake::Answering;
use super::stamp::Stamp;
use super::timer::timer;
use crate::bitmap::Bitmap;
use crate::receiver::Input;
use crate::segment::{Block, Blocks, Ecn};
use crate::sysctl::Settings;
use crate::{Ack, Segment, TransportSpec};

/// How long an acknowledgement waits for a second segment (`TCP_ATO_MIN`).
const DELAY: Span = Span::from_ms(40);
/// The least timeout, also of a host that receives (`TCP_RTO_MIN`).
const TIMEOUT_LEAST: Span = Span::from_ms(200);
/// Acknowledgements of a quick-ACK phase (`TCP_MAX_QUICKACKS`).
const QUICK: u32 = 16;
/// Those after a mark.
const QUICK_MARKED: u32 = 2;
/// Runs beyond holes that are remembered (`TCP_NUM_SACKS`).
const RUNS: usize = 4;
/// Runs that an acknowledgement is sure to have room for beside a duplicate (`TCP_SACK_BLOCKS_EXPECTED`).
const RUNS_SENT: usize = 2;
/// Acknowledgements beyond a hole that are not compressed (`TCP_FASTRETRANS_THRESH`).
const AT_ONCE: u32 = 3;
/// The share of a round trip that an acknowledgement is held back: a twentieth.
const SHARE: u64 = 20;

/// A TCP receiver whose application reads at once.
#[expect(clippy::struct_excessive_bools, reason = "each is one sign, as the kernel's flags are")]
#[derive(Clone, Debug)]
pub struct Receiver {
    settings: Settings,
    segment_bytes: u64,
    /// The receive window in segments.
    window: u64,
    /// No acknowledgement is ever delayed.
    always_quick: bool,
    /// `RCV.NXT`, in segments.
    next: u64,
    /// What was acknowledged last.
    acknowledged: u64,
    early: Bitmap,
    /// Runs beyond holes, the newest first.
    runs: Vec<(u64, u64)>,
    /// A run that came twice.
    twice: Option<(u64, u64)>,
    /// The stamp to echo (RFC 7323, `TS.Recent`).
    stamp: Time,
    /// When data came last; never: none has.
    came: Time,
    /// Acknowledgements that are left of a quick-ACK phase.
    quick: u32,
    delayed: Option<Time>,
    /// When compressed acknowledgements are sent.
    compressed_until: Option<Time>,
    compressed: u32,
    at_once: u32,
    at_once_next: u64,
    /// What has just come is a part of what came before it (GRO): what is counted by packets is counted already.
    joined: bool,
    handshake: Answering,
    ecn: Receiving,
    /// The answer to a SYN is to be sent.
    answers: bool,
    /// The round trip, as segments in one window show it.
    rtt: Span,
    /// The segment whose arrival ends the measurement of a round trip, and when that began.
    rtt_round: (u64, Time),
    due: bool,
    /// The sender or a mark asks for it (`ICSK_ACK_NOW`), so that it is none of those that are counted beyond a hole.
    is_asked: bool,
    /// An acknowledgement that leaves before the one that is due: it does not know yet what has just come.
    before: Option<Ack>,
    discarded: u64,
}

impl Receiver {
    /// A receiver that has seen nothing.
    pub fn new(spec: &TransportSpec) -> Self {
        let window = crate::window(spec);
        Self {
            settings: spec.linux,
            segment_bytes: u64::from(spec.segment_bytes.max(1)),
            window: u64::from(window),
            always_quick: spec.delayed_ack.is_none_or(|delay| delay == Span::ZERO),
            next: 0,
            acknowledged: 0,
            early: Bitmap::new(window),
            runs: Vec::with_capacity(RUNS + 1),
            twice: None,
            stamp: Time::ZERO,
            came: Time::NEVER,
            quick: 0,
            delayed: None,
            compressed_until: None,
            compressed: 0,
            at_once: 0,
            at_once_next: 0,
            joined: false,
            handshake: Answering::Rest,
            ecn: Receiving::new(&spec.linux),
            answers: false,
            rtt: Span::ZERO,
            rtt_round: (0, Time::ZERO),
            due: false,
            is_asked: false,
            before: None,
            discarded: 0,
        }
    }

    /// Bytes given to the application, in order.
    pub const fn delivered_bytes(&self) -> u64 {
        self.next * self.segment_bytes
    }

    /// Segments that lay beyond the window or not on a segment's border, or were sent before one that came in their place.
    pub const fn discarded(&self) -> u64 {
        self.discarded
    }

    fn on_data(&mut self, now: Time, data: Segment) {
        let is_asked_first = self.handshake == Answering::Rest;
        if (self.next == 0 || !data.carries_data())
            && let Some(answers) = self.handshake.take(now, &data)
        {
            if answers {
                (self.answers, self.stamp) = (true, data.stamp);
            }
            if answers && is_asked_first {
                self.ecn.on_syn(data.ecn);
            }
            return;
        }
        // What comes in order, as most does, is known without a division.
        let (segment, rest) = if data.seq == self.next * self.segment_bytes {
            (self.next, 0)
        } else {
            (data.seq / self.segment_bytes, data.seq % self.segment_bytes)
        };
        if rest != 0 || segment >= self.next + self.window {
            self.discarded += 1;
            self.due = true;
            return;
        }
        if data.stamp < self.stamp && Stamp::of(data.stamp) < Stamp::of(self.stamp) {
            return self.on_outdated(segment);
        }
        // RFC 7323, 4.3; what lies below the window as a whole says nothing (`tcp_sequence`).
        let is_expected = (self.acknowledged..=self.acknowledged + 1).contains(&(segment + 1));
        if is_expected && data.stamp > self.stamp {
            self.stamp = data.stamp;
        }
        self.is_asked |= self.ecn.hears_reduced(data.ecn);
        self.due |= self.is_asked;
        match segment.cmp(&self.next) {
            Ordering::Less => {
                self.came_twice(segment);
                self.quick = self.quick.max(self.quick_phase());
                if segment + 1 < self.acknowledged {
                    self.answer_at_once();
                } else {
                    self.due = true;
                }
            }
            Ordering::Equal => self.in_order(now, data.push, data.ecn),
            Ordering::Greater => {
                self.check_marks(data.ecn, self.next);
                self.beyond_a_hole(now, segment);
            }
        }
    }

    /// A segment was sent before one that has filled the hole in the meantime: it may be of an earlier use of its sequence number, and is dropped (RFC 7323, 5.3).
    fn on_outdated(&mut self, segment: u64) {
        self.discarded += 1;
        if segment < self.next {
            self.came_twice(segment);
            self.quick = self.quick.max(self.quick_phase());
        }
        self.answer_at_once();
    }

    /// An answer that does not count in a quick phase, unless there was something to be acknowledged (`tcp_send_dupack`).
    fn answer_at_once(&mut self) {
        let is_free = self.quick > 0 && self.delayed.is_none() && self.compressed == 0;
        self.quick += u32::from(is_free);
        self.due = true;
    }

    fn came_twice(&mut self, segment: u64) {
        if self.settings.dsack {
            self.twice = match self.twice {
                // Runs that touch are one (`tcp_dsack_extend`).
                Some((start, end)) if segment <= end && segment + 1 >= start => {
                    Some((start.min(segment), end.max(segment + 1)))
                }
                _ => Some((segment, segment + 1)),
            };
        }
    }

    /// `tcp_incr_quickack`.
    fn quick_phase(&self) -> u32 {
        ((self.window / 2).max(2) as u32).min(QUICK)
    }

    /// `tcp_data_ecn_check`.
    fn check_marks(&mut self, ecn: Ecn, next: u64) {
        let Check { quick, before } = self.ecn.check(ecn, next);
        if quick {
            self.quick = self.quick.max(self.quick_phase().min(QUICK_MARKED));
        }
        let Some((before, ecn)) = before else { return };
        if self.delayed.is_some() {
            self.before = Some(self.acknowledge(before, ecn));
        }
        self.is_asked = true;
    }

    fn in_order(&mut self, now: Time, push: bool, ecn: Ecn) {
        self.measure_rtt(now);
        // At the beginning, and after a pause longer than the sender's timeout may be.
        let pause = now.since(self.came);
        let is_long = pause > TIMEOUT_LEAST && pause > self.handshake.timeout(TIMEOUT_LEAST);
        if self.came == Time::NEVER || is_long {
            self.quick = self.quick.max(self.quick_phase());
        }
        self.grow_window();
        self.came = now;
        self.check_marks(ecn, self.next + 1);
        let had_holes = self.early.ones() > 0;
        let run = if had_holes { self.early.first_clear(1, self.window).unwrap_or(self.window) } else { 1 };
        self.next += run;
        self.early.advance(run);
        if had_holes {
            self.runs.retain(|run| run.1 > self.next);
        }
        let has_none = self.early.ones() == 0;
        // The application has read all that there is: that is said at once of what was pushed, and where it opens the window to twice of what was left of it
        // (`tcp_cleanup_rbuf`).
        let is_read = has_none && (push || 2 * (self.next - self.acknowledged) >= self.window);
        self.check_ack(now, (had_holes && has_none) || is_read);
    }

    /// A round trip is the time in which a whole window comes (`tcp_rcv_rtt_measure`).
    fn measure_rtt(&mut self, now: Time) {
        let (end, began) = self.rtt_round;
        if self.next >= end {
            if end > 0 && began < now {
                let sample = now.since(began);
                let shorter = self.rtt == Span::ZERO || sample < self.rtt;
                self.rtt = if shorter { sample } else { self.rtt };
            }
            self.rtt_round = (self.next + self.window, now);
        }
    }

    /// With the first segment the window grows, and that asks for an acknowledgement at once (`__tcp_grow_window`).
    fn grow_window(&mut self) {
        self.quick |= u32::from(self.came == Time::NEVER);
    }

    fn beyond_a_hole(&mut self, now: Time, segment: u64) {
        self.grow_window();
        // What begins so has no quick-ACK phase at its beginning.
        self.came = self.came.min(now);
        if self.early.set(segment - self.next) {
            if self.remember(segment) {
                // Nothing is due any more, this segment's own acknowledgement neither (`tcp_ack_snd_check`).
                return;
            }
        } else {
            self.came_twice(segment);
        }
        self.check_ack(now, false);
    }

    /// The newest run goes first, and grows with what touches it (RFC 2018, section 4). Whether that has sent what was held back.
    fn remember(&mut self, segment: u64) -> bool {
        let touches = |run: &(u64, u64)| segment <= run.1 && segment + 1 >= run.0;
        let found = self.runs.iter().position(touches);
        let mut run = (segment, segment + 1);
        if let Some(old) = found.and_then(|place| self.runs.get_mut(place)) {
            run = (run.0.min(old.0), run.1.max(old.1));
            *old = run;
        }
        let sends = self.compressed > 0 && found.unwrap_or(self.runs.len()) >= RUNS_SENT;
        if sends {
            // Lest it be pushed out of what fits into an acknowledgement (`tcp_sack_compress_send_ack`).
            self.before = Some(self.acknowledge(self.next, self.ecn.ack()));
            self.quick = self.quick.saturating_sub(1);
        }
        if let Some(place) = found {
            self.runs.remove(place);
            // It may have closed the gap to another one.
            self.runs.retain(|other| {
                let apart = other.1 < run.0 || other.0 > run.1;
                if !apart {
                    run = (run.0.min(other.0), run.1.max(other.1));
                }
                apart
            });
        }
        self.runs.truncate(RUNS - 1);
        self.runs.insert(0, run);
        sends
    }

    /// An acknowledgement up to `next`. Nothing is held back any more.
    fn acknowledge(&mut self, next: u64, ecn: Ecn) -> Ack {
        (self.delayed, self.compressed_until, self.compressed) = (None, None, 0);
        self.acknowledged = next;
        let blocks = self.blocks(next);
        self.twice = None;
        Ack { ack: next * self.segment_bytes, echo: self.stamp, blocks, ecn }
    }

    /// Whether an acknowledgement leaves now (`__tcp_ack_snd_check`). `at_once`: it does in any case.
    fn check_ack(&mut self, now: Time, at_once: bool) {
        if self.next > self.acknowledged + 1 || self.always_quick || self.quick > 0 || self.is_asked || at_once {
            self.due = true;
            return;
        }
        if self.early.ones() == 0 {
            self.delayed.get_or_insert_with(|| timer(now, DELAY));
            return;
        }
        if self.settings.compressed_acks <= self.compressed {
            self.due = true;
            return;
        }
        if self.at_once_next != self.next {
            (self.at_once, self.at_once_next) = (0, self.next);
        }
        if self.joined && self.due {
            return;
        }
        if self.at_once < AT_ONCE {
            self.at_once += 1;
            self.due = true;
            return;
        }
        self.compressed += u32::from(!self.joined);
        let round_trip = match self.handshake.round_trip() {
            Some(own) if self.rtt == Span::ZERO || own < self.rtt => own,
            _ => self.rtt,
        };
        let share = Span::from_ps(round_trip.as_ps() / SHARE).min(self.settings.compressed_ack_delay);
        self.compressed_until.get_or_insert(now + share + self.settings.compressed_ack_slack);
    }

    /// Of an acknowledgement up to `next`.
    fn blocks(&self, next: u64) -> Blocks {
        let mut blocks = Blocks::NONE;
        // Distances below the acknowledgement wrap.
        let offset = |segment: u64| (segment.wrapping_sub(next).wrapping_mul(self.segment_bytes)) as u32;
        for (start, end) in self.twice.iter().chain(&self.runs) {
            if !blocks.push(Block { start: offset(*start), end: offset(*end) }) {
                break;
            }
        }
        blocks
    }

    fn deadline(&self) -> Time {
        let never = Time::NEVER;
        self.delayed.unwrap_or(never).min(self.compressed_until.unwrap_or(never))
    }
}

impl Control for Receiver {
    type Input = Input;
    type Output = Ack;

    #[inline]
    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Data(segment) => {
                self.joined = false;
                self.on_data(now, segment);
            }
            Input::Joined(segment) => {
                self.joined = true;
                self.on_data(now, segment);
            }
            Input::Tick => self.due |= now >= self.deadline(),
        }
    }

    #[inline]
    fn poll(&mut self, _now: Time) -> Step<Ack> {
        if self.answers {
            self.answers = false;
            return Step::Do(Ack { ack: 0, echo: self.stamp, blocks: Blocks::NONE, ecn: self.ecn.answer() });
        }
        if let Some(ack) = self.before.take() {
            return Step::Do(ack);
        }
        if !self.due {
            return Step::Wait(self.deadline());
        }
        (self.due, self.is_asked) = (false, false);
        self.quick = self.quick.saturating_sub(1);
        Step::Do(self.acknowledge(self.next, self.ecn.ack()))
    }
}
