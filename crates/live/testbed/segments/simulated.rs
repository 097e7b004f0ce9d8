//! A script between the machines.

use machine::{Control, Span, Step, Time};
use transport::linux::{Receiver, Sender};
use transport::{Ack, Ecn, ReceiveWindow, Segment, TransportKind, TransportSpec, receiver, sender};

use crate::segments::path::{Markable, Path};
use crate::segments::script::{SEGMENT, Script, WINDOW};
use crate::segments::trace::{Contents, Direction, Event, Offered, Trace};
use crate::segments::{LIMIT, QUIET};

/// Segments that a receiver offers who finds out how many it shall.
const FIRST_WINDOW: u32 = 45;
/// Segments (RFC 6928).
const INITIAL_WINDOW: u32 = 10;

#[derive(Clone)]
enum Packet {
    Data(Segment),
    Ack(Ack),
}

impl Packet {
    const fn ecn(&self) -> Ecn {
        match self {
            Self::Data(Segment { ecn, .. }) | Self::Ack(Ack { ecn, .. }) => *ecn,
        }
    }
}

impl Markable for Packet {
    fn mark(&mut self) -> bool {
        match self {
            Self::Data(Segment { ecn, .. }) | Self::Ack(Ack { ecn, .. }) => ecn.mark(),
        }
    }
}

struct Play {
    now: Time,
    sender: Sender,
    receiver: Receiver,
    path: Path<Packet>,
    is_auto: bool,
    deadlines: [Time; 2],
    trace: Trace,
}

fn spec(script: &Script) -> TransportSpec {
    TransportSpec {
        kind: TransportKind::Linux,
        window: script.window.unwrap_or(ReceiveWindow::Segments(WINDOW)),
        initial_window: INITIAL_WINDOW,
        duplicate_ack_threshold: 3,
        delayed_ack: Some(Span::from_ms(40)),
        segment_bytes: SEGMENT as u32,
        header_bytes: 52,
        rto_min: Span::from_ms(200),
        linux: script.settings,
    }
}

/// Where the kernel's buffers end that take so many segments when the connection has just been opened (`tcp_sendmsg_locked`). A buffer holds half of the window that the
/// answer to a SYN has offered, which is 64 KiB at most; while they are filled, what the initial window lets leave does so, and when half of that window was written, all of it.
fn first_buffers(segments: u64, window: ReceiveWindow) -> Vec<u64> {
    const PAIR: u64 = 2;
    let window = match window {
        ReceiveWindow::Segments(segments) => segments,
        ReceiveWindow::Auto => FIRST_WINDOW,
    };
    let half = (u64::from(window) * SEGMENT).min(65_535) / 2;
    let (size, initial) = ((half / SEGMENT).max(1), u64::from(INITIAL_WINDOW.min(window)));
    let (mut ends, mut written, mut sent, mut begin, mut pushed) = (Vec::new(), 0, 0, 0, 0);
    loop {
        begin = begin.max(sent);
        if begin + size == written {
            ends.extend((pushed > begin).then_some(written));
            begin = written;
        }
        written = segments.min(begin + size);
        if written == segments {
            ends.push(written);
            return ends;
        }
        if (written - pushed) * SEGMENT > half {
            (pushed, sent) = (written, written.min(initial));
        } else if sent >= begin {
            sent = (sent + PAIR).min(initial);
        }
    }
}

/// Plays a script; the connection begins at `start`.
pub fn play(script: &Script, start: Time) -> Trace {
    let spec = spec(script);
    let window = if script.is_auto() { ReceiveWindow::Auto } else { ReceiveWindow::Segments(WINDOW) };
    let mut play = Play {
        now: start,
        sender: Sender::new(&spec),
        // It has more room than a script lets it offer.
        receiver: Receiver::new(&TransportSpec { window, linux: script.receiver, ..spec.clone() }),
        is_auto: script.is_auto(),
        path: Path::new(script),
        deadlines: [Time::NEVER; 2],
        trace: Trace::default(),
    };
    let (mut written, mut writes) = (0, script.writes.iter().peekable());
    play.sender.write(start, 0);
    play.sender.handle(start, sender::Input::Connect);
    let all = script.segments() * SEGMENT;
    loop {
        while let Some((_, segments)) = writes.next_if(|(at, _)| start + *at <= play.now) {
            let ends = if written == 0 { first_buffers(*segments, spec.window) } else { vec![*segments] };
            for end in ends {
                play.sender.write(play.now, written + end * SEGMENT);
            }
            written += segments * SEGMENT;
        }
        play.drain();
        let write = writes.peek().map_or(Time::NEVER, |(at, _)| start + *at);
        let next = play.path.next().min(play.deadlines[0]).min(play.deadlines[1]).min(write);
        let is_over = play.sender.unacknowledged() == all && play.path.next() == Time::NEVER && write == Time::NEVER;
        if (is_over && next > play.now + QUIET) || next > start + LIMIT {
            return play.trace;
        }
        play.now = next;
        play.step();
    }
}

impl Play {
    fn record(&mut self, what: Contents, packet: Packet) {
        let ecn = packet.ecn();
        let mark = self.path.offer(self.now, &what, packet);
        self.trace.events.push(Event { at: self.now, what, ecn: ecn.and(mark) });
    }

    /// Both ends send what they have to.
    fn drain(&mut self) {
        self.deadlines[0] = loop {
            match self.sender.poll(self.now) {
                Step::Do(segment) => self.record(of_segment(&segment), Packet::Data(segment)),
                Step::Wait(until) => break until,
            }
        };
        self.deadlines[1] = loop {
            match self.receiver.poll(self.now) {
                Step::Do(ack) => {
                    let is_first = !self
                        .trace
                        .events
                        .iter()
                        .any(|event| event.what.direction() == Direction::Forth && event.what != Contents::Syn);
                    let window = Offered(self.is_auto.then(|| u64::from(ack.offer.window)));
                    let what = if is_first { Contents::SynAck { window } } else { of_ack(&ack, window) };
                    self.record(what, Packet::Ack(ack));
                }
                Step::Wait(until) => break until,
            }
        };
    }

    fn step(&mut self) {
        match self.path.take(self.now) {
            Some((_, Packet::Data(segment))) => self.receiver.handle(self.now, receiver::Input::Data(segment)),
            Some((_, Packet::Ack(ack))) => self.sender.handle(self.now, sender::Input::Ack(ack)),
            None => {
                self.sender.handle(self.now, sender::Input::Tick);
                self.receiver.handle(self.now, receiver::Input::Tick);
            }
        }
    }
}

fn of_segment(segment: &Segment) -> Contents {
    match segment.seq {
        Segment::SYN => Contents::Syn,
        Segment::SYN_ANSWERED => Contents::Answer,
        start => Contents::Data { start, len: SEGMENT, push: segment.push },
    }
}

fn of_ack(ack: &Ack, window: Offered) -> Contents {
    let at = |offset: u32| ack.ack.wrapping_add_signed(i64::from(offset.cast_signed()));
    let blocks = ack.blocks.as_slice().iter().map(|block| (at(block.start), at(block.end))).collect();
    Contents::Ack { ack: ack.ack, blocks, window }
}
