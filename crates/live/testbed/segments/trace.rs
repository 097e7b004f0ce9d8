//! What was sent, by whom and when, and how two such traces compare.

use std::fmt;

use machine::{Span, Time};

use crate::segments::script::SEGMENT;

/// The kernel's tick.
const JIFFY: Span = Span::from_ms(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the sender.
    Forth,
    /// From the receiver.
    Back,
}

/// A segment. Bytes are counted from the first of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Syn,
    SynAck,
    /// The sender answers the receiver's answer.
    Answer,
    Data {
        start: u64,
        len: u64,
        push: bool,
    },
    Ack {
        ack: u64,
        blocks: Vec<(u64, u64)>,
    },
}

impl What {
    pub const fn direction(&self) -> Direction {
        match self {
            Self::Syn | Self::Answer | Self::Data { .. } => Direction::Forth,
            Self::SynAck | Self::Ack { .. } => Direction::Back,
        }
    }
}

/// Segments by their numbers, from one; bytes, where they are not whole ones.
struct Bytes(u64, u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(start, end) = *self;
        let (first, last) = (start / SEGMENT + 1, end / SEGMENT);
        if start % SEGMENT != 0 || end % SEGMENT != 0 {
            write!(f, "bytes {start} to {end}")
        } else if first == last {
            write!(f, "{first}")
        } else {
            write!(f, "{first}-{last}")
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syn => write!(f, "syn"),
            Self::SynAck => write!(f, "syn-ack"),
            Self::Answer => write!(f, "answer"),
            Self::Data { start, len, push } => {
                write!(f, "data {}{}", Bytes(*start, start + len), if *push { " push" } else { "" })
            }
            Self::Ack { ack, blocks } => {
                if ack % SEGMENT == 0 {
                    write!(f, "ack {}", ack / SEGMENT)?;
                } else {
                    write!(f, "ack byte {ack}")?;
                }
                blocks.iter().try_for_each(|block| write!(f, " [{}]", Bytes(block.0, block.1)))
            }
        }
    }
}

/// One segment at one time.
#[derive(Clone, Debug)]
pub struct Event {
    pub at: Time,
    pub what: What,
}

/// All of them, in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub events: Vec<Event>,
}

impl Trace {
    /// When the connection began.
    fn start(&self) -> Time {
        self.events.first().map_or(Time::ZERO, |event| event.at)
    }

    fn of(&self, direction: Direction) -> Vec<(Span, &What)> {
        let events = self.events.iter().filter(|event| event.what.direction() == direction);
        events.map(|event| (event.at.since(self.start()), &event.what)).collect()
    }
}

/// Where two traces differ first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// When, since the connection began.
    at: Span,
    text: String,
    /// Whether it is of what was sent, not of when.
    pub is_of_order: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms: {}", millis(self.at), self.text)
    }
}

fn millis(span: Span) -> String {
    format!("{:.1}", span.as_ps() as f64 / 1e9)
}

fn is_near(a: Span, b: Span) -> bool {
    let (a, b) = (a.as_ps(), b.as_ps());
    a.abs_diff(b) <= JIFFY.as_ps().max(a.max(b) / 20)
}

/// The first difference, if there is one: another segment, or one whose time since the one before it, or since the beginning, is further off than a tick and a
/// twentieth. Both directions are looked at by themselves, since what crosses on the way has no order.
pub fn compare(live: &Trace, simulated: &Trace) -> Option<Difference> {
    let both = [Direction::Forth, Direction::Back];
    both.iter()
        .filter_map(|direction| compare_direction(&live.of(*direction), &simulated.of(*direction)))
        .min_by_key(|d| d.at)
}

fn compare_direction(live: &[(Span, &What)], simulated: &[(Span, &What)]) -> Option<Difference> {
    let mut before = (Span::ZERO, Span::ZERO);
    for n in 0..live.len().max(simulated.len()) {
        let name = |event: Option<&(Span, &What)>| event.map_or("nothing".to_owned(), |event| event.1.to_string());
        let (here, there) = (live.get(n), simulated.get(n));
        let (Some((live_at, live_what)), Some((simulated_at, simulated_what))) = (here, there) else {
            let at = here.or(there).map_or(Span::ZERO, |event| event.0);
            let text = format!("{} live, {} simulated", name(here), name(there));
            return Some(Difference { at, text, is_of_order: true });
        };
        if live_what != simulated_what {
            let text = format!("{live_what} live, {simulated_what} simulated");
            return Some(Difference { at: *live_at, text, is_of_order: true });
        }
        let gaps = (gap(*live_at, before.0), gap(*simulated_at, before.1));
        if !is_near(*live_at, *simulated_at) || !is_near(gaps.0, gaps.1) {
            let text = format!("{live_what} live, simulated at {} ms", millis(*simulated_at));
            return Some(Difference { at: *live_at, text, is_of_order: false });
        }
        before = (*live_at, *simulated_at);
    }
    None
}

fn gap(at: Span, before: Span) -> Span {
    Span::from_ps(at.as_ps().saturating_sub(before.as_ps()))
}

/// Both traces side by side.
pub fn side_by_side(live: &Trace, simulated: &Trace) -> String {
    // The kernel's first tick after the beginning.
    let tick = JIFFY.as_ps() - live.start().as_ps() % JIFFY.as_ps();
    let mut text = format!("ticks from {} ms\n{:<52} {}\n", millis(Span::from_ps(tick)), "live", "simulated");
    let lines = |trace: &Trace| -> Vec<String> {
        let start = trace.start();
        let line = |event: &Event| {
            let indent = if event.what.direction() == Direction::Forth { "" } else { "    " };
            format!("{:>9} {indent}{}", millis(event.at.since(start)), event.what)
        };
        trace.events.iter().map(line).collect()
    };
    let (live, simulated) = (lines(live), lines(simulated));
    for n in 0..live.len().max(simulated.len()) {
        let line = |lines: &[String]| lines.get(n).cloned().unwrap_or_default();
        text += &format!("{:<52} {}\n", line(&live), line(&simulated));
    }
    text
}
