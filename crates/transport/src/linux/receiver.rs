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

use super::autotuning::Autotuning;
use super::ecn::{Check, Receiving};
use super::handshake::Answering;
use super::stamp::Stamp;
use super::timer::timer;
use crate::bitmap::Bitmap;
use crate::receiver::Input;
use crate::segment::{Block, Blocks, Ecn, Offer};
use crate::sysctl::Settings;
use crate::{Ack, ReceiveWindow, Segment, TransportSpec};

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
    /// The receive window in segments; with `tuning` the largest.
    window: u64,
    /// What finds out how much to offer, if nobody has said that.
    tuning: Option<Box<Autotuning>>,
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
    /// It is due when the application has read what is there.
    reads_first: bool,
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
        let segment_bytes = u64::from(spec.segment_bytes.max(1));
        let is_tuned = spec.window == ReceiveWindow::Auto;
        Self {
            settings: spec.linux,
            segment_bytes,
            window: u64::from(window),
            tuning: is_tuned.then(|| Box::new(Autotuning::new(segment_bytes))),
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
            reads_first: false,
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
        if let Some(tuning) = &mut self.tuning
            && data.seq != Segment::SYN
        {
            tuning.open(now);
        }
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
        if let Some(tuning) = &mut self.tuning {
            tuning.note_echo(now, data.echo);
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
        let segments = match &self.tuning {
            None => (self.window / 2).max(2),
            Some(tuning) => match tuning.offered() / (2 * self.segment_bytes) {
                0 => 2,
                segments => segments,
            },
        };
        (segments as u32).min(QUICK)
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
        let grows = self.measure(now);
        // At the beginning, and after a pause longer than the sender's timeout may be.
        let pause = now.since(self.came);
        let is_long = pause > TIMEOUT_LEAST && pause > self.handshake.timeout(TIMEOUT_LEAST);
        if self.came == Time::NEVER || is_long {
            self.quick = self.quick.max(self.quick_phase());
        }
        self.quick |= u32::from(grows);
        self.came = now;
        self.check_marks(ecn, self.next + 1);
        let had_holes = self.early.ones() > 0;
        let run = if had_holes { self.early.first_clear(1, self.window).unwrap_or(self.window) } else { 1 };
        self.next += run;
        self.early.advance(run);
        if had_holes {
            self.runs.retain(|run| run.1 > self.next);
            if let Some(tuning) = &mut self.tuning {
                tuning.fill(self.next * self.segment_bytes, self.early.ones(), self.runs.len() as u64);
            }
        }
        let has_none = self.early.ones() == 0;
        let fills = had_holes && has_none;
        if self.tuning.is_some() {
            self.check_ack(now, fills);
            if push && has_none && !self.due {
                (self.due, self.reads_first) = (true, true);
            }
            return;
        }
        // The application has read all that there is: that is said at once of what was pushed, and where it opens the window to twice of what was left of it
        // (`tcp_cleanup_rbuf`).
        let is_read = has_none && (push || 2 * (self.next - self.acknowledged) >= self.window);
        self.check_ack(now, fills || is_read);
    }

    /// What a segment in order says about the path, and whether the window grows with it.
    fn measure(&mut self, now: Time) -> bool {
        if let Some(tuning) = &mut self.tuning {
            let grows = tuning.arrive(now, (self.next + 1) * self.segment_bytes);
            self.rtt = Span::from_ns(tuning.rtt_ns());
            return grows;
        }
        self.measure_rtt(now);
        // With the first segment the window grows, and that asks for an acknowledgement at once (`__tcp_grow_window`).
        self.came == Time::NEVER
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

    fn beyond_a_hole(&mut self, now: Time, segment: u64) {
        let distance = segment - self.next;
        let follows = self.tuning.is_some() && self.early.get(distance - 1);
        let is_news = self.early.set(distance);
        // The window grows with the first segment, where it is fixed. Where it is not, one that stands alone is counted when it has been remembered.
        if self.tuning.is_none() {
            self.quick |= u32::from(self.came == Time::NEVER);
        } else if follows {
            self.tune_early(segment, is_news, true);
        }
        // What begins so has no quick-ACK phase at its beginning.
        self.came = self.came.min(now);
        let sends = is_news && self.remember(segment);
        if !follows && self.tuning.is_some() {
            self.tune_early(segment, is_news, false);
        }
        if is_news {
            if sends {
                // Nothing is due any more, this segment's own acknowledgement neither (`tcp_ack_snd_check`).
                return;
            }
        } else {
            self.came_twice(segment);
        }
        self.check_ack(now, false);
    }

    /// A segment beyond a hole, and behind one that is there, makes the window grow, and the buffer.
    fn tune_early(&mut self, segment: u64, is_news: bool, follows: bool) {
        let Some(tuning) = &mut self.tuning else { return };
        let grows = tuning.arrive_early((segment + 1) * self.segment_bytes, is_news, follows);
        tuning.reserve(self.next * self.segment_bytes);
        self.rtt = Span::from_ns(tuning.rtt_ns());
        self.quick |= u32::from(grows);
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
        let ack = next * self.segment_bytes;
        let mut offer = Offer::NONE;
        if let Some(tuning) = &mut self.tuning {
            if tuning.select().1 {
                self.quick = 0;
            }
            offer.window = tuning.offer(ack);
        }
        Ack { ack, echo: self.stamp, blocks, ecn, offer }
    }

    /// An acknowledgement leaves now.
    fn send(&self, now: Time, mut ack: Ack) -> Step<Ack> {
        if self.tuning.is_some() {
            ack.offer.stamp = Stamp::of(now).to_wire();
        }
        Step::Do(ack)
    }

    /// The application reads what is there. Whether that asks for an acknowledgement.
    fn read(&mut self, now: Time) -> bool {
        let Some(tuning) = &mut self.tuning else { return false };
        tuning.read(now, self.next * self.segment_bytes)
    }

    /// Whether an acknowledgement leaves now (`__tcp_ack_snd_check`). `at_once`: it does in any case.
    fn check_ack(&mut self, now: Time, at_once: bool) {
        let several = self.next > self.acknowledged + 1;
        let has_room = several && (self.tuning.is_none() || self.has_room());
        if has_room || self.always_quick || self.quick > 0 || self.is_asked || at_once {
            (self.due, self.reads_first) = (true, false);
            return;
        }
        self.hold_back(now);
        if several && !self.due {
            (self.due, self.reads_first) = (true, true);
        }
    }

    /// An acknowledgement waits for others, unless it is one of the first beyond a hole.
    fn hold_back(&mut self, now: Time) {
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

    /// Whether there is as much room as was offered: segments that leave less are not acknowledged before they are read (`__tcp_ack_snd_check`).
    fn has_room(&mut self) -> bool {
        let Some(tuning) = &self.tuning else { return true };
        let (window, is_short) = tuning.select();
        if is_short {
            self.quick = 0;
        }
        window >= tuning.offered()
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
    fn poll(&mut self, now: Time) -> Step<Ack> {
        if self.answers {
            self.answers = false;
            let window = self.tuning.as_ref().map_or(0, |tuning| tuning.first_offer());
            let offer = Offer { window, ..Offer::NONE };
            return self
                .send(now, Ack { ack: 0, echo: self.stamp, blocks: Blocks::NONE, ecn: self.ecn.answer(), offer });
        }
        if let Some(ack) = self.before.take() {
            return self.send(now, ack);
        }
        if self.tuning.is_some() && (self.reads_first || !self.due) {
            self.due |= self.read(now);
        }
        if !self.due {
            return Step::Wait(self.deadline());
        }
        (self.due, self.is_asked, self.reads_first) = (false, false, false);
        self.quick = self.quick.saturating_sub(1);
        let ack = self.acknowledge(self.next, self.ecn.ack());
        self.send(now, ack)
    }
}
