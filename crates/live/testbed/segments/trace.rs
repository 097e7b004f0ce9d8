//! What was sent, by whom and when, and how two such traces compare.

use std::fmt::{self, Write as _};

use machine::{Span, Time};
use transport::Ecn;

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

impl Direction {
    const fn opposite(self) -> Self {
        match self {
            Self::Forth => Self::Back,
            Self::Back => Self::Forth,
        }
    }
}

/// What a receiver offers, bytes; nothing where it always offers the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered(pub Option<u64>);

impl fmt::Display for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |window| write!(f, " window {window}"))
    }
}

/// A segment. Bytes are counted from the first of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    Syn,
    SynAck {
        window: Offered,
    },
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
        window: Offered,
    },
}

impl Contents {
    pub const fn direction(&self) -> Direction {
        match self {
            Self::Syn | Self::Answer | Self::Data { .. } => Direction::Forth,
            Self::SynAck { .. } | Self::Ack { .. } => Direction::Back,
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

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syn => write!(f, "syn"),
            Self::SynAck { window } => write!(f, "syn-ack{window}"),
            Self::Answer => write!(f, "answer"),
            Self::Data { start, len, push } => {
                write!(f, "data {}{}", Bytes(*start, start + len), if *push { " push" } else { "" })
            }
            Self::Ack { ack, blocks, window } => {
                if ack % SEGMENT == 0 {
                    write!(f, "ack {}", ack / SEGMENT)?;
                } else {
                    write!(f, "ack byte {ack}")?;
                }
                blocks.iter().try_for_each(|block| write!(f, " [{}]", Bytes(block.0, block.1)))?;
                write!(f, "{window}")
            }
        }
    }
}

/// One segment at one time.
#[derive(Clone, Debug)]
pub struct Event {
    pub at: Time,
    pub what: Contents,
    /// What its sender says about congestion, and CE where the path has marked it.
    pub ecn: Ecn,
}

impl Event {
    /// Whether it is the same segment, whenever it was sent.
    fn is_same(&self, other: &Self) -> bool {
        (&self.what, self.ecn) == (&other.what, other.ecn)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        let says = [(Ecn::ECT, "ect"), (Ecn::CE, "ce"), (Ecn::ECE, "ece"), (Ecn::CWR, "cwr")];
        says.iter().filter(|(bit, _)| self.ecn.has(*bit)).try_for_each(|(_, name)| write!(f, " {name}"))
    }
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

    fn of(&self, direction: Direction) -> Vec<(Span, &Event)> {
        let events = self.events.iter().filter(|event| event.what.direction() == direction);
        events.map(|event| (event.at.since(self.start()), event)).collect()
    }
}

/// Where two traces differ first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// When, since the connection began.
    at: Span,
    text: String,
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

/// The first difference, if there is one: another segment; if times matter, also one whose time lies further off than a tick and a twentieth, counted from the beginning,
/// or from what came before it. Each direction is looked at by itself, since what crosses on its way has no order.
pub fn compare(live: &Trace, simulated: &Trace, by_time: bool) -> Option<Difference> {
    let both = [Direction::Forth, Direction::Back].into_iter();
    both.filter_map(|direction| compare_direction([live, simulated], direction, by_time)).min_by_key(|found| found.at)
}

/// A segment in two traces.
struct Pair<'a> {
    live: Option<&'a (Span, &'a Event)>,
    simulated: Option<&'a (Span, &'a Event)>,
}

fn compare_direction(traces: [&Trace; 2], direction: Direction, by_time: bool) -> Option<Difference> {
    let [live, simulated] = traces.map(|trace| trace.of(direction));
    let [live_back, simulated_back] = traces.map(|trace| trace.of(direction.opposite()));
    (0..live.len().max(simulated.len())).find_map(|n| {
        let pair = Pair { live: live.get(n), simulated: simulated.get(n) };
        // What came before it: in its direction, and in the other one.
        let before = n.checked_sub(1).map(|n| (live[n].0, simulated[n].0));
        let at = live.get(n).map_or(Span::ZERO, |event| event.0);
        let cause = live_back.partition_point(|event| event.0 < at).checked_sub(1);
        let cause = cause.and_then(|n| Some((live_back[n].0, simulated_back.get(n)?.0)));
        pair.differs().or_else(|| if by_time { pair.is_late(&[before, cause]) } else { None })
    })
}

impl Pair<'_> {
    fn differs(&self) -> Option<Difference> {
        let name = |event: Option<&(Span, &Event)>| event.map_or("nothing".to_owned(), |event| event.1.to_string());
        let at = self.live.or(self.simulated)?.0;
        let text = format!("{} live, {} simulated", name(self.live), name(self.simulated));
        let is_same = self.live.zip(self.simulated).is_some_and(|(live, simulated)| live.1.is_same(simulated.1));
        (!is_same).then_some(Difference { at, text })
    }

    /// The kernel was late, or the machine, since the beginning or since what came before: pairs of its times in both traces.
    fn is_late(&self, before: &[Option<(Span, Span)>]) -> Option<Difference> {
        let ((live, what), simulated) = (*self.live?, self.simulated?.0);
        let is_first = before.iter().all(Option::is_none);
        let mut since = before.iter().flatten().map(|before| is_near(gap(live, before.0), gap(simulated, before.1)));
        let is_on_time = is_near(live, simulated) && (is_first || since.any(|near| near));
        let text = format!("{what}, simulated at {} ms", millis(simulated));
        (!is_on_time).then_some(Difference { at: live, text })
    }
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
            format!("{:>9} {indent}{}", millis(event.at.since(start)), event)
        };
        trace.events.iter().map(line).collect()
    };
    let (live, simulated) = (lines(live), lines(simulated));
    for n in 0..live.len().max(simulated.len()) {
        let line = |lines: &[String]| lines.get(n).cloned().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<52} {}", line(&live), line(&simulated));
    }
    text
}
