//! How much a receiver offers, where nobody has said how much that shall be (`window: auto`): dynamic right-sizing, as Linux 6.18 has it.
//!
//! ```text
//!   a segment comes ---> memory is taken, the round trip measured (by timestamp, by window)
//!                        the threshold grows, as far as the buffer has room            (tcp_grow_window)
//!   it is acknowledged > the window that is offered: the threshold, or what is free    (__tcp_select_window)
//!   the application reads, once a round trip: so much came in it ---> the buffer grows (tcp_rcv_space_adjust)
//! ```
//!
//! The buffer holds packets with all the memory that they take, the window counts payload: `ratio` is how much of the one is the other. Memory is that of frames
//! that come one by one through a TAP ([`Memory`]).
//!
//! Invariant: what was offered is never taken back: the byte behind the window only moves on.
//!
//! Not here, since it does not happen to an application that reads at once, on a host with memory to spare: pruning (`tcp_prune_queue`), memory pressure, and buffers that
//! the application has set (`SO_RCVBUF`).

use machine::Time;

use super::stamp::Stamp;
use crate::RECEIVE_BUFFER_MAX;

/// `tcp_rmem`: the buffer at the beginning, and the largest.
const BUFFER: u64 = 131_072;
const BUFFER_MAX: u64 = RECEIVE_BUFFER_MAX as u64;
/// The window's scale that follows from the largest buffer (`tcp_select_initial_window`): what is offered is counted in units of 128 bytes.
const SCALE: u32 = 7;
/// The largest window that can be said.
const WINDOW_MAX: u64 = 65_535 << SCALE;
/// Payload in 256 bytes of memory, before there was any segment (`TCP_DEFAULT_SCALING_RATIO`).
const RATIO: u64 = 128;
/// Segments of a round trip that the buffer is for at the beginning (`TCP_INIT_CWND`).
const FIRST_SEGMENTS: u64 = 10;
/// Segments shorter than this do not make the window grow.
const SHORT: u64 = 128;

/// What a packet takes of a buffer.
///
/// A frame that comes through a TAP is one piece of memory (`tun_build_skb`), with an `sk_buff` that describes it. A segment that comes behind another one, while both wait, is added
/// to the other's `sk_buff`, as far as that has places for it (`tcp_try_coalesce`).
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// Of the frame alone.
    frame: u64,
}

impl Memory {
    /// Ethernet, IPv4, TCP with timestamps.
    const HEADERS: u64 = 66;
    const HEAD_ROOM: u64 = 64;
    const SHARED_INFO: u64 = 320;
    const SK_BUFF: u64 = 256;
    /// Segments in an `sk_buff`: its own, and one for each fragment (`MAX_SKB_FRAGS`).
    const TOGETHER: u64 = 18;

    const fn of(segment_bytes: u64) -> Self {
        let frame = (segment_bytes + Self::HEADERS + Self::HEAD_ROOM).next_multiple_of(64) + Self::SHARED_INFO;
        Self { frame }
    }

    /// Of a segment that stands alone (`truesize`).
    const fn single(self) -> u64 {
        self.frame + Self::SK_BUFF
    }
}

/// Segments beyond holes.
#[derive(Clone, Copy, Debug, Default)]
struct Early {
    segments: u64,
    /// `sk_buff`s that they are in.
    buffers: u64,
    /// Behind the last of them, in bytes of the stream.
    end: u64,
    /// How many are in the `sk_buff` that was the last one to take one, and the segment that would be the next in it.
    last: (u64, u64),
}

/// A receiver's buffer, and the window that it offers of it. Sequence numbers are bytes.
#[derive(Clone, Debug)]
pub(super) struct Autotuning {
    segment_bytes: u64,
    memory: Memory,
    is_open: bool,
    /// Segments have shown what `ratio` is.
    is_measured: bool,
    /// `sk_rcvbuf`.
    buffer: u64,
    /// Payload in 256 bytes of memory (`scaling_ratio`).
    ratio: u64,
    /// The window grows up to here with what comes (`rcv_ssthresh`).
    threshold: u64,
    /// `window_clamp`.
    clamp: u64,
    /// What was offered last (`rcv_wnd`), and in the acknowledgement of what (`rcv_wup`).
    offered: u64,
    offered_at: u64,
    /// What came in the busiest round trip (`rcvq_space.space`), and where and when the present one began.
    space: u64,
    round: (u64, Time),
    /// Eight times the round trip in microseconds (`rcv_rtt_est.rtt_us`); 0: there is none yet.
    rtt: u64,
    /// The byte whose arrival ends the measurement by window, and when that began.
    rtt_round: (u64, Time),
    /// The last echo that was looked at (`rcv_rtt_last_tsecr`).
    echo: u32,
    /// Memory of what is in order and was not read, and where the first `sk_buff` of that ends.
    unread: u64,
    first_unread: u64,
    early: Early,
}

const fn micros(time: Time) -> u64 {
    time.as_ps() / 1_000_000
}

/// What is offered to who asks for a connection, bytes (`tcp_select_initial_window`): whole segments, where there is room for one.
pub(super) const fn first_window(segment_bytes: u64) -> u64 {
    let space = (BUFFER * RATIO) >> 8;
    if space > segment_bytes { space - space % segment_bytes } else { space }
}

impl Autotuning {
    pub fn new(segment_bytes: u64) -> Self {
        Self {
            segment_bytes,
            memory: Memory::of(segment_bytes),
            is_open: false,
            is_measured: false,
            buffer: BUFFER,
            ratio: RATIO,
            threshold: 0,
            clamp: 0,
            offered: first_window(segment_bytes),
            offered_at: 0,
            space: 0,
            round: (0, Time::ZERO),
            rtt: 0,
            rtt_round: (0, Time::ZERO),
            echo: 0,
            unread: 0,
            first_unread: 0,
            early: Early::default(),
        }
    }

    /// `tcp_win_from_space`.
    const fn payload_of(&self, memory: u64) -> u64 {
        (memory * self.ratio) >> 8
    }

    /// `tcp_space_from_win`.
    const fn memory_of(&self, payload: u64) -> u64 {
        (payload << 8) / self.ratio
    }

    const fn early_memory(&self) -> u64 {
        self.early.segments * self.memory.frame + self.early.buffers * Memory::SK_BUFF
    }

    /// Payload that there is room for (`tcp_space`).
    const fn free(&self) -> u64 {
        self.payload_of(self.buffer.saturating_sub(self.unread + self.early_memory()))
    }

    /// What was offered last, bytes.
    pub const fn offered(&self) -> u64 {
        self.offered
    }

    /// The round trip, as far as it is known: nanoseconds, zero if not.
    pub const fn rtt_ns(&self) -> u64 {
        (self.rtt >> 3) * 1_000
    }

    /// The connection stands (`tcp_init_buffer_space`).
    pub fn open(&mut self, now: Time) {
        if core::mem::replace(&mut self.is_open, true) {
            return;
        }
        let (most, segment) = (self.payload_of(self.buffer), self.segment_bytes);
        self.clamp = most.min(WINDOW_MAX);
        // Room for a segment is kept back.
        if self.clamp > 2 * segment && self.clamp + segment > most {
            self.clamp = (2 * segment).max(most.saturating_sub(segment));
        }
        self.threshold = self.offered.min(self.clamp);
        self.space = self.threshold.min(self.offered).min(FIRST_SEGMENTS * segment);
        self.round.1 = now;
    }

    /// A segment echoes this stamp (`tcp_rcv_rtt_measure_ts`).
    pub fn note_echo(&mut self, now: Time, echo: u32) {
        if core::mem::replace(&mut self.echo, echo) == echo {
            return;
        }
        let millis = Stamp::of(now).to_wire().wrapping_sub(echo);
        if millis > 0 {
            self.note_rtt(u64::from(millis) * 1_000, false);
        }
    }

    /// `tcp_rcv_rtt_update`. `by_window`: it may be too long.
    const fn note_rtt(&mut self, micros: u64, by_window: bool) {
        let sample = micros << 3;
        if self.rtt == 0 || sample < self.rtt {
            self.rtt = sample;
        } else if !by_window {
            self.rtt = self.rtt - (self.rtt >> 3) + micros;
        }
    }

    /// The first segment shows how much memory the others will take (`tcp_measure_rcv_mss`).
    fn measure(&mut self) {
        if core::mem::replace(&mut self.is_measured, true) {
            return;
        }
        let ratio = ((self.segment_bytes << 8) / self.memory.single()).clamp(1, 255);
        if core::mem::replace(&mut self.ratio, ratio) == ratio {
            return;
        }
        // `tcp_set_window_clamp`.
        let clamp = self.payload_of(self.buffer);
        if core::mem::replace(&mut self.clamp, clamp) > clamp {
            self.threshold = self.threshold.min(clamp);
        } else {
            self.threshold = self.threshold.max(self.offered.min(clamp));
        }
        self.space = self.space.min(clamp);
    }

    /// A segment comes in order; the bytes before `next` are there with it. Whether the window may grow, so that an acknowledgement is due at once.
    pub fn arrive(&mut self, now: Time, next: u64) -> bool {
        if self.unread == 0 {
            self.first_unread = next;
        }
        self.unread += self.memory.single();
        self.measure();
        self.measure_by_window(now, next);
        self.grow()
    }

    /// A round trip is the time in which a whole window comes (`tcp_rcv_rtt_measure`).
    fn measure_by_window(&mut self, now: Time, next: u64) {
        let (end, began) = self.rtt_round;
        if next >= end {
            if end > 0 {
                self.note_rtt((micros(now) - micros(began)).max(1), true);
            }
            self.rtt_round = (next + self.offered, now);
        }
    }

    /// Segments that had waited behind a hole follow the one that fills it; `next` is behind them, and `segments` and `runs` are left beyond the next hole.
    pub fn fill(&mut self, next: u64, segments: u64, runs: u64) {
        let before = self.early_memory();
        let released = self.early.segments - segments;
        self.early.segments = segments;
        let buffers = runs.max(segments.div_ceil(Memory::TOGETHER));
        self.early.buffers = if segments == 0 { 0 } else { self.early.buffers.min(buffers) };
        self.unread += before - self.early_memory();
        // They become one with the segment before them if they are few (`tcp_ofo_queue`).
        if (1..Memory::TOGETHER).contains(&released) {
            self.unread -= Memory::SK_BUFF;
            self.first_unread = next;
        }
    }

    /// A segment lies beyond a hole; `is_news`: it was not there yet, `follows`: the one before it was. Whether the window may grow.
    pub fn arrive_early(&mut self, end: u64, is_news: bool, follows: bool) -> bool {
        self.measure();
        let mut grows = false;
        if is_news && follows && self.join(end) {
            // `tcp_grow_window` sees the memory of what has become a part of another packet.
            grows = self.grow();
        } else if is_news {
            grows = self.grow();
            self.early.segments += 1;
            self.early.buffers += 1;
            self.early.last = (1, end);
        }
        self.early.end = self.early.end.max(end);
        grows
    }

    /// A segment is added to the packet before it (`tcp_ooo_try_coalesce`), unless that is full.
    fn join(&mut self, end: u64) -> bool {
        let (together, expected) = self.early.last;
        let is_known = end == expected + self.segment_bytes;
        if is_known && together == Memory::TOGETHER {
            return false;
        }
        self.early.segments += 1;
        self.early.last = if is_known { (together + 1, end) } else { (2, end) };
        true
    }

    /// What is there beyond holes makes the buffer grow (the end of `tcp_data_queue_ofo`).
    pub fn reserve(&mut self, next: u64) {
        self.grow_buffer(next, self.space);
    }

    /// `tcp_grow_window`.
    fn grow(&mut self) -> bool {
        let room = self.clamp.min(self.free()).saturating_sub(self.threshold);
        if room == 0 || self.segment_bytes < SHORT {
            return false;
        }
        let fits = self.payload_of(self.memory.single()) <= self.segment_bytes || self.fits_later();
        if fits {
            self.threshold += room.min(2 * self.segment_bytes);
        }
        fits
    }

    /// Whether packets with much overhead would fit into a buffer that has grown (`__tcp_grow_window`).
    const fn fits_later(&self) -> bool {
        let (mut packet, mut window) = (self.payload_of(self.memory.single()) >> 1, self.payload_of(BUFFER_MAX) >> 1);
        while self.threshold <= window {
            if packet <= self.segment_bytes {
                return true;
            }
            packet >>= 1;
            window >>= 1;
        }
        false
    }

    /// The window that there would be now (`__tcp_select_window`), and whether so little is free that nothing is acknowledged quickly.
    pub const fn select(&self) -> (u64, bool) {
        let (mut free, allowed) = (self.free(), self.payload_of(self.buffer));
        let full = if self.clamp < allowed { self.clamp } else { allowed };
        let segment = if self.segment_bytes < full { self.segment_bytes } else { full };
        let is_short = free < full >> 1;
        if is_short {
            free -= free % (1 << SCALE);
            if free < allowed >> 4 || free < segment {
                return (0, true);
            }
        }
        if free > self.threshold {
            free = self.threshold;
        }
        (free.next_multiple_of(1 << SCALE), is_short)
    }

    /// What is left of what was offered, when bytes before `next` have come (`tcp_receive_window`).
    const fn left(&self, next: u64) -> u64 {
        (self.offered_at + self.offered).saturating_sub(next)
    }

    /// The window of an acknowledgement of what comes before `next` (`tcp_select_window`).
    pub fn offer(&mut self, next: u64) -> u32 {
        // What was offered is not taken back.
        let left = self.left(next).next_multiple_of(1 << SCALE);
        self.offered = self.select().0.max(left);
        self.offered_at = next;
        self.offered.min(WINDOW_MAX) as u32
    }

    /// The window of the answer to a SYN.
    pub fn first_offer(&self) -> u32 {
        self.offered.min(65_535) as u32
    }

    /// The application reads all that is there, which lies before `next` (`tcp_rcv_space_adjust`). Whether that has made so much room that an acknowledgement is to say so
    /// (`tcp_cleanup_rbuf`).
    pub fn read(&mut self, now: Time, next: u64) -> bool {
        if core::mem::take(&mut self.unread) == 0 {
            return false;
        }
        self.adjust(now, next);
        let left = self.left(next);
        let window = self.select().0;
        2 * left <= self.clamp && window > 0 && window >= 2 * left
    }

    /// It reads packet after packet, and the first one ends the round trip: what has come but is not read then counts against it.
    fn adjust(&mut self, now: Time, next: u64) {
        let (from, began) = self.round;
        if self.rtt == 0 || micros(now) - micros(began) < self.rtt >> 3 {
            return;
        }
        let read = self.first_unread - from;
        let copied = read.saturating_sub(next - self.first_unread);
        if copied > self.space {
            self.grow_buffer(next, copied);
        }
        self.round = (self.first_unread, now);
    }

    /// So much came in a round trip: there shall be room for twice that, and where that was more than ever before, for as much more as the next one may bring
    /// (`tcp_rcvbuf_grow`).
    fn grow_buffer(&mut self, next: u64, space: u64) {
        let before = core::mem::replace(&mut self.space, space);
        let mut window = 2 * space;
        window += 2 * (window * (space - before) / before.max(1));
        if self.early.segments > 0 {
            window += self.early.end.saturating_sub(next);
        }
        let buffer = self.memory_of(window).min(BUFFER_MAX);
        if buffer > self.buffer {
            self.buffer = buffer;
            self.clamp = self.payload_of(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use machine::Span;

    use super::*;

    const SEGMENT: u64 = 1_448;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn open() -> Autotuning {
        let mut tuning = Autotuning::new(SEGMENT);
        tuning.open(at(0));
        tuning
    }

    /// `count` segments come, each is acknowledged and read; where the stream is then.
    fn receive(tuning: &mut Autotuning, now: Time, from: u64, count: u64) -> u64 {
        for n in 1..=count {
            let next = from + n * SEGMENT;
            tuning.arrive(now, next);
            tuning.offer(next);
            tuning.read(now, next);
        }
        from + count * SEGMENT
    }

    /// Seen on Linux 6.18: hosts offer 65,160 bytes, and 68,096 once they have had a segment: as much and two segments, in units of 128.
    #[test]
    fn the_first_window_is_of_whole_segments_and_grows_by_two() {
        let mut tuning = open();
        assert_eq!((tuning.first_offer(), tuning.space), (65_160, 14_480));
        assert!(tuning.arrive(at(40), SEGMENT));
        assert_eq!((tuning.ratio, tuning.clamp, tuning.threshold), (170, 87_040, 68_056));
        assert_eq!(tuning.offer(SEGMENT), 68_096);
    }

    /// What the tracepoint `tcp_rcvbuf_grow` showed (E. Dumazet, netdev, 2025-10-24): a path of 50 ms, segments of 4,096 bytes, 219/256 of memory is payload.
    #[test]
    fn a_buffer_grows_as_the_kernel_s() {
        let mut tuning = Autotuning { ratio: 219, space: 40_960, clamp: 112_128, ..Autotuning::new(4_096) };
        for (copied, buffer, clamp) in [(49_152, 160_875, 137_623), (86_016, 502_741, 430_079)] {
            tuning.grow_buffer(0, copied);
            assert_eq!((tuning.buffer, tuning.clamp), (buffer, clamp));
        }
        tuning.grow_buffer(0, 8_000_000);
        assert_eq!(tuning.buffer, BUFFER_MAX);
    }

    #[test]
    fn what_comes_in_a_round_trip_is_counted_once_that_is_known() {
        let mut tuning = open();
        let next = receive(&mut tuning, at(40), 0, 10);
        assert_eq!(tuning.buffer, BUFFER, "nobody knows how long a round trip takes");
        tuning.note_echo(at(80), 40);
        assert_eq!(tuning.rtt_ns(), 40_000_000);
        let next = receive(&mut tuning, at(80), next, 20);
        // With the first of them the round trip ends, and eleven are no more than what there was room for by more than one.
        assert_eq!((tuning.space, tuning.round), (11 * SEGMENT, (11 * SEGMENT, at(80))));
        tuning.note_echo(at(120), 80);
        receive(&mut tuning, at(120), next, 1);
        assert_eq!(tuning.space, 20 * SEGMENT);
        assert!(tuning.buffer > BUFFER);
    }

    #[test]
    fn round_trips_by_timestamp_are_smoothed_and_by_window_the_shortest() {
        let mut tuning = open();
        tuning.note_echo(at(100), 60);
        tuning.note_echo(at(180), 60);
        assert_eq!(tuning.rtt_ns(), 40_000_000, "that echo was known");
        tuning.note_echo(at(180), 100);
        assert_eq!(tuning.rtt_ns(), 45_000_000);
        tuning.note_rtt(90_000, true);
        assert_eq!(tuning.rtt_ns(), 45_000_000);
        tuning.note_rtt(30_000, true);
        assert_eq!(tuning.rtt_ns(), 30_000_000);
        tuning.note_echo(at(180), 180);
        assert_eq!(tuning.rtt_ns(), 30_000_000, "less than a millisecond says nothing");
    }

    #[test]
    fn what_was_offered_is_not_taken_back() {
        let mut tuning = open();
        let next = receive(&mut tuning, at(40), 0, 30);
        let edge = tuning.offered_at + tuning.offered;
        // A hole, and all that was offered beyond it.
        let mut end = next + SEGMENT;
        while end + SEGMENT <= edge {
            end += SEGMENT;
            tuning.arrive_early(end, true, end > next + 2 * SEGMENT);
            let window = u64::from(tuning.offer(next));
            assert!(next + window >= edge, "{window}");
        }
        assert!(tuning.early.segments > 50 && tuning.select().1);
        // It is filled: when all is read there is room again, and the sender is told.
        tuning.arrive(at(80), next + SEGMENT);
        tuning.fill(end, 0, 0);
        let before = tuning.offer(end);
        assert!(tuning.read(at(80), end));
        assert!(tuning.offer(end) > 2 * before, "{before}");
    }

    #[test]
    fn what_lies_beyond_a_hole_makes_the_buffer_grow() {
        let mut tuning = open();
        let next = receive(&mut tuning, at(40), 0, 40);
        let end = next + 80 * SEGMENT;
        tuning.arrive_early(end, true, false);
        tuning.reserve(next);
        assert_eq!(tuning.buffer, ((2 * tuning.space + 80 * SEGMENT) << 8) / 170);
    }

    #[test]
    fn packets_beyond_a_hole_become_one_as_far_as_they_fit() {
        let mut tuning = open();
        tuning.measure();
        for n in 2..=38 {
            tuning.arrive_early(n * SEGMENT, true, n > 2);
        }
        assert_eq!((tuning.early.segments, tuning.early.buffers), (37, 3));
        assert_eq!(tuning.early_memory(), 37 * 1_920 + 3 * 256);
        tuning.arrive_early(38 * SEGMENT, false, true);
        assert_eq!(tuning.early.segments, 37, "it was there");
    }

    /// A hole is filled, and the application reads the segment that did it first: what waited behind it counts against what it has read.
    #[test]
    fn what_is_not_read_yet_counts_against_what_is() {
        let mut tuning = open();
        let next = receive(&mut tuning, at(40), 0, 40);
        tuning.note_echo(at(80), 40);
        for n in 2..=32 {
            tuning.arrive_early(next + n * SEGMENT, true, n > 2);
        }
        tuning.arrive(at(120), next + SEGMENT);
        tuning.fill(next + 32 * SEGMENT, 0, 0);
        tuning.read(at(120), next + 32 * SEGMENT);
        assert_eq!((tuning.space, tuning.round), (14_480, (next + SEGMENT, at(120))));
    }
}
