//! The receiver: puts segments in order and acknowledges them.
//!
//! Invariant: bytes below `next` have all arrived and were given to the application; `early` marks whole segments
//! beyond the gap at `next`.

use machine::{Control, Span, Step, Time};

use crate::bitmap::Bitmap;
use crate::segment::{Ack, Block, Blocks, Ecn, Offer, Segment};
use crate::{TransportKind, TransportSpec};

/// How many recent arrivals beyond a gap are remembered to choose the blocks of an acknowledgement.
const RECENT: usize = 8;

/// What can happen to a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A segment arrived.
    Data(Segment),
    /// A segment arrived that the host has joined to the one before it, which was given as [`Input::Data`] or as this, and nobody was polled since: to
    /// TCP as Linux has it, both are one.
    Joined(Segment),
    /// Time passed; what is due is done.
    Tick,
}

/// A TCP receiver whose application reads at once.
#[derive(Clone, Debug)]
pub struct Receiver {
    segment_bytes: u64,
    /// The receive window in segments.
    window: u64,
    delayed_ack: Option<Span>,
    selective: bool,
    ack_due: bool,
    /// Full segments that are not acknowledged yet.
    unacknowledged: u8,
    /// `RCV.NXT`: what the cumulative acknowledgement says.
    next: u64,
    /// What was acknowledged last (RFC 7323, `Last.ACK.sent`).
    acknowledged: u64,
    /// The stamp to echo (RFC 7323, `TS.Recent`).
    stamp: Time,
    /// When a delayed acknowledgement is due.
    deadline: Time,
    /// Segments beyond `next` that have arrived, by their distance from it.
    early: Bitmap,
    /// Offsets of the last segments that arrived early, newest first.
    recent: [u64; RECENT],
    discarded: u64,
}

impl Receiver {
    /// A receiver that has seen nothing.
    pub fn new(spec: &TransportSpec) -> Self {
        let window = crate::window(spec);
        Self {
            segment_bytes: u64::from(spec.segment_bytes.max(1)),
            window: u64::from(window),
            delayed_ack: spec.delayed_ack,
            selective: spec.kind == TransportKind::Sack,
            ack_due: false,
            unacknowledged: 0,
            next: 0,
            acknowledged: 0,
            stamp: Time::ZERO,
            deadline: Time::NEVER,
            early: Bitmap::new(window),
            recent: [0; RECENT],
            discarded: 0,
        }
    }

    /// Bytes given to the application, in order.
    pub const fn delivered_bytes(&self) -> u64 {
        self.next
    }

    /// Segments that lay beyond the window or not on a segment's border.
    pub const fn discarded(&self) -> u64 {
        self.discarded
    }

    #[inline]
    fn on_data(&mut self, now: Time, segment: Segment) {
        // RFC 7323, 4.3: the stamp to echo is that of the segment at the left edge of what was acknowledged.
        if segment.seq <= self.acknowledged && segment.stamp > self.stamp {
            self.stamp = segment.stamp;
        }
        if segment.seq == self.next {
            self.in_order(now);
        } else {
            // RFC 5681, 4.2: what is out of order is acknowledged at once; so is what came before (RFC 9293, 3.10.7.4).
            self.ack_due = true;
            if segment.seq > self.next {
                self.out_of_order(segment.seq);
            }
        }
    }

    #[inline]
    fn in_order(&mut self, now: Time) {
        if self.early.ones() == 0 {
            self.next += self.segment_bytes;
            self.early.advance(1);
            self.delay_ack(now);
        } else {
            // RFC 5681, 4.2: a segment that fills a gap, in whole or in part, is acknowledged at once.
            let run = self.early.first_clear(1, self.window).unwrap_or(self.window);
            self.next += run * self.segment_bytes;
            self.early.advance(run);
            self.ack_due = true;
        }
    }

    /// RFC 1122, 4.2.3.2 and RFC 5681, 4.2: at least every second full segment, and within the delay.
    #[inline]
    fn delay_ack(&mut self, now: Time) {
        let Some(delay) = self.delayed_ack else {
            self.ack_due = true;
            return;
        };
        self.unacknowledged += 1;
        if self.unacknowledged >= 2 {
            self.ack_due = true;
        } else {
            self.deadline = now + delay;
        }
    }

    fn out_of_order(&mut self, seq: u64) {
        let (distance, rest) = ((seq - self.next) / self.segment_bytes, (seq - self.next) % self.segment_bytes);
        if distance >= self.window || rest != 0 {
            self.discarded += 1;
            return;
        }
        self.early.set(distance);
        if self.selective {
            self.remember(seq, distance);
        }
    }

    /// Puts the newest arrival first and forgets those that are of the same run: the rest stand for one block each.
    fn remember(&mut self, seq: u64, distance: u64) {
        let (start, end) = self.early.run(distance, self.window);
        let run = self.next + start * self.segment_bytes..self.next + end * self.segment_bytes;
        let mut newest = seq;
        for place in &mut self.recent {
            let older = core::mem::replace(place, newest);
            if run.contains(&older) || older <= self.next {
                break;
            }
            newest = older;
        }
    }

    /// RFC 2018, section 4: the block of the newest segment first, then those reported most recently.
    fn blocks(&self) -> Blocks {
        let mut blocks = Blocks::NONE;
        for &seq in self.recent.iter().filter(|&&seq| seq > self.next) {
            let distance = (seq - self.next) / self.segment_bytes;
            let offset = (distance * self.segment_bytes) as u32;
            // A later arrival may have made one run of two.
            if blocks.as_slice().iter().any(|b| (b.start..b.end).contains(&offset)) {
                continue;
            }
            let (start, end) = self.early.run(distance, self.window);
            let bytes = |segments: u64| (segments * self.segment_bytes) as u32;
            if !blocks.push(Block { start: bytes(start), end: bytes(end) }) {
                break;
            }
        }
        blocks
    }
}

impl Control for Receiver {
    type Input = Input;
    type Output = Ack;

    #[inline]
    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Data(segment) | Input::Joined(segment) => self.on_data(now, segment),
            Input::Tick => self.ack_due |= now >= self.deadline,
        }
    }

    #[inline]
    fn poll(&mut self, _now: Time) -> Step<Ack> {
        if !self.ack_due {
            return Step::Wait(self.deadline);
        }
        self.ack_due = false;
        self.unacknowledged = 0;
        self.deadline = Time::NEVER;
        self.acknowledged = self.next;
        let blocks = if self.selective && self.early.ones() > 0 { self.blocks() } else { Blocks::NONE };
        Step::Do(Ack { ack: self.next, echo: self.stamp, blocks, ecn: Ecn::NONE, offer: Offer::NONE })
    }
}
