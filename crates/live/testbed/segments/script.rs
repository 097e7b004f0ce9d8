//! Scripts as text: what the applications write, what the path is, and what it does to which packet.
//!
//! ```text
//! script NAME
//!   about ONE LINE
//!   path delay 20ms [rate 10mbit queue 50]      one way; the rate and the queue, in packets, are those of data
//!   write 40 [at 500ms]                         segments, all at once
//!   window 20                                   what the receiver offers, segments
//!   window auto                                 it finds that out; what it offers counts, too
//!   control reno | SYSCTL VALUE                 in both hosts
//!   receiver SYSCTL VALUE                       in the one that receives
//!   drop data 11..13 [x2 | #2]                  the first time that each is sent; the first two; the second
//!   delay ack 5.. 30ms                          so much longer than the path takes; others overtake it
//!   duplicate data 11 5ms                       a second copy, so much later
//!   reorder data 11 by 3                        arrives right behind the third that is sent after it
//!   gather ack 5..9                             all of them arrive with the last
//!   mark data 5                                 CE, if it is ECT (RFC 3168)
//! ```
//!
//! Segments are numbered from one by their place in the stream, SYNs (`syn`), their answers (`syn-ack`) and acknowledgements (`ack`) as they are sent.

use machine::Span;
use transport::ReceiveWindow;
use transport::linux::{CongestionControl, Settings, Sysctl};

/// Payload bytes of a segment.
pub const SEGMENT: u64 = 1_448;
/// What a receiver offers, in segments, unless the script says less.
pub const WINDOW: u32 = 200;

/// What a packet is, for rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Syn,
    SynAck,
    Data,
    Ack,
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Drop,
    Delay(Span),
    Duplicate(Span),
    /// It arrives behind the packet that is so many later.
    Behind(u64),
    /// It arrives with the packet that has this number, and before it.
    With(u64),
    /// It is marked, if it can be.
    Mark,
}

/// Packets of a kind with numbers from `first` to `last`, as often as `times` says.
#[derive(Clone, Debug)]
pub struct Rule {
    pub kind: Kind,
    first: u64,
    last: u64,
    /// The first and the last time that a segment is sent.
    times: (u32, u32),
    pub fate: Fate,
}

impl Rule {
    /// Whether it is about packet `number`, which is sent for the `time`-th time.
    pub fn applies(&self, kind: Kind, number: u64, time: u32) -> bool {
        let (first, last) = self.times;
        kind == self.kind && (self.first..=self.last).contains(&number) && (first..=last).contains(&time)
    }
}

/// What both worlds play.
#[derive(Clone, Debug)]
pub struct Script {
    pub name: String,
    pub about: String,
    pub delay: Span,
    /// Bits a second; 0: no limit.
    pub rate: u64,
    /// Packets that wait for the link at most.
    pub queue: usize,
    /// When how many segments are written, in order.
    pub writes: Vec<(Span, u64)>,
    /// What the receiver offers, if that is to be less than it can, or to change.
    pub window: Option<ReceiveWindow>,
    /// Of the host that sends.
    pub settings: Settings,
    /// Of the host that receives.
    pub receiver: Settings,
    pub rules: Vec<Rule>,
}

impl Script {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            about: String::new(),
            delay: Span::from_us(20_100),
            rate: 0,
            queue: usize::MAX,
            writes: Vec::new(),
            window: None,
            settings: Settings::default(),
            receiver: Settings::default(),
            rules: Vec::new(),
        }
    }

    /// Whether the receiver finds out by itself what it offers.
    pub fn is_auto(&self) -> bool {
        self.window == Some(ReceiveWindow::Auto)
    }

    /// Segments that are written in all.
    pub fn segments(&self) -> u64 {
        self.writes.iter().map(|(_, segments)| segments).sum()
    }

    fn read(&mut self, words: &[&str]) -> Option<()> {
        match *words {
            ["about", ..] => self.about = words[1..].join(" "),
            ["path", ref pairs @ ..] => {
                for pair in pairs.chunks(2) {
                    match *pair {
                        ["delay", value] => self.delay = span(value)?,
                        ["rate", value] => self.rate = value.strip_suffix("mbit")?.parse::<u64>().ok()? * 1_000_000,
                        ["queue", value] => self.queue = value.parse().ok()?,
                        _ => return None,
                    }
                }
            }
            ["write", segments] => self.writes.push((Span::ZERO, segments.parse().ok()?)),
            ["write", segments, "at", at] => self.writes.push((span(at)?, segments.parse().ok()?)),
            ["window", "auto"] => self.window = Some(ReceiveWindow::Auto),
            ["window", segments] => self.window = Some(ReceiveWindow::Segments(segments.parse().ok()?)),
            ["control", name] => {
                let known = CongestionControl::ALL.iter().find(|control| control.name() == name);
                self.settings.congestion_control = *known?;
                self.receiver.congestion_control = *known?;
            }
            [fate @ ("drop" | "delay" | "duplicate" | "reorder" | "gather" | "mark"), kind, numbers, ref rest @ ..] => {
                self.rules.push(rule(fate, kind, numbers, rest)?);
            }
            ["receiver", name, value] => set(&mut self.receiver, name, value)?,
            [name, value] => {
                set(&mut self.settings, name, value)?;
                set(&mut self.receiver, name, value)?;
            }
            _ => return None,
        }
        Some(())
    }
}

fn set(settings: &mut Settings, name: &str, value: &str) -> Option<()> {
    let sysctl = Sysctl::ALL.iter().find(|sysctl| sysctl.name() == name)?;
    sysctl.set(settings, value.parse().ok()?);
    Some(())
}

fn span(text: &str) -> Option<Span> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let n = digits.parse().ok()?;
    match &text[digits.len()..] {
        "us" => Some(Span::from_us(n)),
        "ms" => Some(Span::from_ms(n)),
        "s" => Some(Span::from_secs(n)),
        _ => None,
    }
}

fn rule(fate: &str, kind: &str, numbers: &str, rest: &[&str]) -> Option<Rule> {
    let kind = match kind {
        "syn" => Kind::Syn,
        "syn-ack" => Kind::SynAck,
        "data" => Kind::Data,
        "ack" => Kind::Ack,
        _ => return None,
    };
    let (first, last) = match numbers.split_once("..") {
        Some((first, "")) => (first.parse().ok()?, u64::MAX),
        Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
        None => (numbers.parse().ok()?, numbers.parse().ok()?),
    };
    let mut times = (1, 1);
    let mut rest = rest;
    if let [before @ .., last] = rest {
        if let Some(most) = last.strip_prefix('x') {
            (times, rest) = ((1, most.parse().ok()?), before);
        } else if let Some(time) = last.strip_prefix('#') {
            let time = time.parse().ok()?;
            (times, rest) = ((time, time), before);
        }
    }
    let fate = match (fate, rest) {
        ("drop", []) => Fate::Drop,
        ("delay", [by]) => Fate::Delay(span(by)?),
        ("duplicate", []) => Fate::Duplicate(Span::ZERO),
        ("duplicate", [after]) => Fate::Duplicate(span(after)?),
        ("reorder", ["by", packets]) => Fate::Behind(packets.parse().ok()?),
        ("gather", []) => Fate::With(last),
        ("mark", []) => Fate::Mark,
        _ => return None,
    };
    Some(Rule { kind, first, last, times, fate })
}

/// All scripts of a text.
///
/// # Errors
/// The line that says nothing.
pub fn parse(text: &str) -> Result<Vec<Script>, String> {
    let mut scripts: Vec<Script> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let understood = match *words {
            [] | ["#", ..] => Some(()),
            ["script", name] => {
                scripts.push(Script::new(name));
                Some(())
            }
            _ => scripts.last_mut().and_then(|script| script.read(&words)),
        };
        understood.ok_or_else(|| format!("line {}: {line}", number + 1))?;
    }
    Ok(scripts)
}
