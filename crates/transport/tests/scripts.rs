//! Scenarios as text: `testdata/*.txt`, run by one small interpreter, their traces kept as snapshots.
//!
//! ```text
//! sender reno window 20 initial 2 threshold 3     (or: sender linux control reno; receiver linux tcp_dsack 0; receiver sack window 20 delayed 40ms)
//! start | ack 3000 [echo 100ms] [ece] [sack 4000..6000 ...] | dupack x3 | data 2000 [ect] [ce] [cwr] [push] [sent 100ms] [x3] | joined 2000 x3 | write 5000
//! advance 200ms | expect send 1000..3000 [cwr] | expect resend 0..1000 | expect ack 1000 [ece] [sack 2000..3000]
//! expect cwnd 4000 | expect ssthresh 2000 | expect phase recovery | expect timer 1s | expect timeouts 1 | ...
//! ```
//!
//! Segments have 1,000 bytes. What a machine puts out must be expected before the next input, in order and completely.
//! An acknowledgement echoes the stamp of the last segment that it covers, or what was sent at the time that it says.
#![allow(clippy::disallowed_methods, reason = "scripts are files")]

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::path::Path;

use machine::{Control, Span, Step, Time};
use transport::linux::{CongestionControl, Sysctl};
use transport::segment::{Block, Blocks};
use transport::{Ack, Ecn, ReceivingEndpoint, Segment, SendingEndpoint, receiver, sender};
use transport::{TransportKind, TransportSpec};

const SEGMENT: u64 = 1_000;

struct Script {
    now: Time,
    machine: Machine,
    /// Last stamp of each segment sent.
    stamps: BTreeMap<u64, Time>,
    /// What was put out and not yet expected, as text.
    output: VecDeque<String>,
    /// How many of `output` are in the trace.
    traced: usize,
    trace: String,
}

enum Machine {
    None,
    Sender(Box<SendingEndpoint>),
    Receiver(Box<ReceivingEndpoint>),
}

fn span(text: &str) -> Span {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let n: u64 = digits.parse().unwrap_or_else(|_| panic!("a time: {text}"));
    match &text[digits.len()..] {
        "us" => Span::from_us(n),
        "ms" => Span::from_ms(n),
        "s" => Span::from_secs(n),
        unit => panic!("unit {unit} of {text}: us, ms or s"),
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("a number: {text}"))
}

fn range(text: &str) -> (u64, u64) {
    let (from, to) = text.split_once("..").unwrap_or_else(|| panic!("a range: {text}"));
    (number(from), number(to))
}

fn spec(words: &[&str]) -> TransportSpec {
    let mut spec = TransportSpec {
        kind: match words[0] {
            "reno" => TransportKind::Reno,
            "newreno" => TransportKind::NewReno,
            "sack" => TransportKind::Sack,
            "linux" => TransportKind::Linux,
            kind => panic!("kind {kind}: reno, newreno, sack or linux"),
        },
        window: 64.into(),
        initial_window: 2,
        duplicate_ack_threshold: 3,
        delayed_ack: None,
        segment_bytes: SEGMENT as u32,
        header_bytes: 40,
        rto_min: Span::from_ms(200),
        linux: transport::linux::Settings::default(),
    };
    for pair in words[1..].chunks(2) {
        match pair[0] {
            "window" => spec.window = (number(pair[1]) as u32).into(),
            "initial" => spec.initial_window = number(pair[1]) as u32,
            "threshold" => spec.duplicate_ack_threshold = number(pair[1]) as u32,
            "delayed" => spec.delayed_ack = Some(span(pair[1])),
            "rto-min" => spec.rto_min = span(pair[1]),
            "control" => {
                let known = CongestionControl::ALL.iter().find(|control| control.name() == pair[1]);
                spec.linux.congestion_control = *known.unwrap_or_else(|| panic!("control {}", pair[1]));
            }
            key => {
                let known = Sysctl::ALL.iter().find(|sysctl| sysctl.name() == key);
                known.unwrap_or_else(|| panic!("key {key}")).set(&mut spec.linux, number(pair[1]));
            }
        }
    }
    spec
}

/// What data say about congestion.
fn ecn(words: &[&str]) -> Ecn {
    let said = |ecn: Ecn, word: &&str| match *word {
        "ect" => ecn.and(Ecn::ECT),
        "ce" => ecn.and(Ecn::ECT).and(Ecn::CE),
        "cwr" => ecn.and(Ecn::ECT).and(Ecn::CWR),
        _ => ecn,
    };
    words.iter().fold(Ecn::NONE, said)
}

/// What a script can ask of a sender.
struct State {
    phase: String,
    cwnd: u64,
    ssthresh: u64,
    deadline: Time,
}

fn state(sender: &SendingEndpoint) -> State {
    match sender {
        SendingEndpoint::Study(sender) => State {
            phase: format!("{:?}", sender.phase()),
            cwnd: sender.cwnd(),
            ssthresh: sender.ssthresh(),
            deadline: sender.deadline(),
        },
        SendingEndpoint::Linux(sender) => State {
            phase: format!("{:?}", sender.state()),
            cwnd: sender.cwnd(),
            ssthresh: sender.ssthresh(),
            deadline: sender.deadline(),
        },
    }
}

impl Script {
    fn line(&mut self, words: &[&str]) {
        if words[0] == "expect" {
            return self.expect(&words[1..]);
        }
        assert!(self.output.is_empty(), "not expected: {:?}", self.output);
        self.traced = 0;
        let times = words.last().and_then(|word| word.strip_prefix('x')).map_or(1, number);
        match words[0] {
            "sender" => self.machine = Machine::Sender(Box::new(SendingEndpoint::new(&spec(&words[1..])))),
            "receiver" => self.machine = Machine::Receiver(Box::new(ReceivingEndpoint::new(&spec(&words[1..])))),
            "start" => self.sender(sender::Input::Start),
            "ack" => self.ack(number(words[1]), &words[2..]),
            "dupack" => (0..times).for_each(|_| self.ack(self.una(), &[])),
            "data" => (0..times).for_each(|n| self.data(number(words[1]) + n * SEGMENT, &words[2..])),
            "joined" => self.joined(number(words[1]), times),
            "write" => self.write(number(words[1])),
            "advance" => self.advance(span(words[1])),
            word => panic!("{word} is no input"),
        }
    }

    fn una(&self) -> u64 {
        let Machine::Sender(sender) = &self.machine else { panic!("there is no sender") };
        sender.unacknowledged()
    }

    /// `sack FROM..TO ...`, and before that `echo TIME`, when the echoed segment was sent; else it is the last one's that is acknowledged.
    fn ack(&mut self, ack: u64, words: &[&str]) {
        let (echo, words) = match words {
            ["echo", time, words @ ..] => (Some(Time::ZERO + span(time)), words),
            words => (None, words),
        };
        let (ecn, words) = match words {
            ["ece", words @ ..] => (Ecn::ECE, words),
            words => (Ecn::NONE, words),
        };
        let mut blocks = Blocks::NONE;
        for (start, end) in words.iter().skip(1).map(|text| range(text)) {
            let block = Block { start: start.wrapping_sub(ack) as u32, end: end.wrapping_sub(ack) as u32 };
            assert!(blocks.push(block), "too many blocks");
        }
        let last = || ack.checked_sub(SEGMENT).and_then(|seq| self.stamps.get(&seq)).copied().unwrap_or(Time::ZERO);
        let echo = echo.unwrap_or_else(last);
        self.sender(sender::Input::Ack(Ack { ack, echo, blocks, ecn, offer: transport::Offer::NONE }));
    }

    /// What it says about congestion; `push`; and `sent TIME`, if that was not now.
    fn data(&mut self, seq: u64, words: &[&str]) {
        let at = words.iter().position(|word| *word == "sent");
        let stamp = at.map_or(self.now, |at| Time::ZERO + span(words[at + 1]));
        let push = words.contains(&"push");
        self.receiver([receiver::Input::Data(Segment { seq, stamp, push, ecn: ecn(words), echo: 0 })]);
    }

    /// So many segments, joined.
    fn joined(&mut self, seq: u64, segments: u64) {
        let segment = |n| Segment { seq: seq + n * SEGMENT, stamp: self.now, push: false, ecn: Ecn::NONE, echo: 0 };
        let rest: Vec<_> = (1..segments).map(|n| receiver::Input::Joined(segment(n))).collect();
        self.receiver(std::iter::once(receiver::Input::Data(segment(0))).chain(rest));
    }

    /// So much has been written in all.
    fn write(&mut self, bytes: u64) {
        let Machine::Sender(sender) = &mut self.machine else { panic!("there is no sender") };
        let SendingEndpoint::Linux(sender) = &mut **sender else { panic!("only Linux's hears of writes") };
        sender.write(self.now, bytes);
        self.send();
    }

    fn advance(&mut self, span: Span) {
        self.now += span;
        match self.machine {
            Machine::None => {}
            Machine::Sender(_) => self.sender(sender::Input::Tick),
            Machine::Receiver(_) => self.receiver([receiver::Input::Tick]),
        }
    }

    fn sender(&mut self, input: sender::Input) {
        let Machine::Sender(sender) = &mut self.machine else { panic!("there is no sender") };
        sender.handle(self.now, input);
        self.send();
    }

    fn send(&mut self) {
        let Machine::Sender(sender) = &mut self.machine else { panic!("there is no sender") };
        while let Step::Do(segment) = sender.poll(self.now) {
            let again = self.stamps.insert(segment.seq, segment.stamp).is_some();
            let verb = if again { "resend" } else { "send" };
            let reduced = if segment.ecn.has(Ecn::CWR) { " cwr" } else { "" };
            self.output.push_back(format!("{verb} {}..{}{reduced}", segment.seq, segment.seq + SEGMENT));
        }
        self.note();
    }

    fn receiver(&mut self, inputs: impl IntoIterator<Item = receiver::Input>) {
        let Machine::Receiver(receiver) = &mut self.machine else { panic!("there is no receiver") };
        for input in inputs {
            receiver.handle(self.now, input);
        }
        while let Step::Do(ack) = receiver.poll(self.now) {
            let congested = if ack.ecn.has(Ecn::ECE) { " ece" } else { "" };
            let mut text = format!("ack {}{congested}", ack.ack);
            for (n, block) in ack.blocks.as_slice().iter().enumerate() {
                let word = if n == 0 { " sack" } else { "" };
                let at = |offset: u32| ack.ack.wrapping_add_signed(i64::from(offset.cast_signed()));
                let _ = write!(text, "{word} {}..{}", at(block.start), at(block.end));
            }
            self.output.push_back(text);
        }
        self.note();
    }

    /// Writes what the last input did into the trace.
    fn note(&mut self) {
        for output in self.output.iter().skip(self.traced) {
            let _ = writeln!(self.trace, "    -> {output}");
        }
        self.traced = self.output.len();
        if let Machine::Sender(sender) = &self.machine {
            let state = state(sender);
            let ssthresh = if state.ssthresh == u64::MAX { "-".into() } else { state.ssthresh.to_string() };
            let _ = writeln!(
                self.trace,
                "       {} flight {} cwnd {} ssthresh {ssthresh} timer {}",
                state.phase,
                sender.flight(),
                state.cwnd,
                state.deadline.since(self.now),
            );
        }
    }

    fn expect(&mut self, words: &[&str]) {
        match words[0] {
            "send" | "resend" => {
                let (from, to) = range(words[1]);
                for seq in (from..to).step_by(SEGMENT as usize) {
                    let reduced = words.get(2).map_or(String::new(), |word| format!(" {word}"));
                    let expected = format!("{} {seq}..{}{reduced}", words[0], seq + SEGMENT);
                    assert_eq!(self.output.pop_front().as_deref(), Some(expected.as_str()));
                }
            }
            "ack" => assert_eq!(self.output.pop_front(), Some(words.join(" "))),
            "nothing" => assert!(self.output.is_empty(), "not expected: {:?}", self.output),
            _ => self.expect_state(words),
        }
    }

    fn expect_state(&self, words: &[&str]) {
        match (&self.machine, words[0]) {
            (Machine::Receiver(receiver), "delivered") => assert_eq!(receiver.delivered_bytes(), number(words[1])),
            (Machine::Receiver(receiver), "discarded") => {
                let discarded = match &**receiver {
                    ReceivingEndpoint::Study(receiver) => receiver.discarded(),
                    ReceivingEndpoint::Linux(receiver) => receiver.discarded(),
                };
                assert_eq!(discarded, number(words[1]));
            }
            (Machine::Sender(sender), "undone") => match &**sender {
                SendingEndpoint::Study(_) => panic!("the studies' senders undo nothing"),
                SendingEndpoint::Linux(sender) => assert_eq!(sender.counters().undone, number(words[1])),
            },
            (Machine::Sender(sender), "cwnd") => assert_eq!(state(sender).cwnd, number(words[1])),
            (Machine::Sender(sender), "ssthresh") => assert_eq!(state(sender).ssthresh, number(words[1])),
            (Machine::Sender(sender), "flight") => assert_eq!(sender.flight(), number(words[1])),
            (Machine::Sender(sender), "timer") => assert_eq!(state(sender).deadline.since(self.now), span(words[1])),
            (Machine::Sender(sender), "phase") => {
                assert_eq!(state(sender).phase.to_lowercase(), words[1]);
            }
            (Machine::Sender(sender), "timeouts") => assert_eq!(sender.counters().timeouts, number(words[1])),
            (Machine::Sender(sender), "retransmits") => assert_eq!(sender.counters().retransmits, number(words[1])),
            (Machine::Sender(sender), "fast-retransmits") => {
                assert_eq!(sender.counters().fast_retransmits, number(words[1]));
            }
            (_, word) => panic!("{word} cannot be expected"),
        }
    }
}

/// Runs one file; its trace.
fn run(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("the script can be read");
    let mut script = Script {
        now: Time::ZERO,
        machine: Machine::None,
        stamps: BTreeMap::new(),
        output: VecDeque::new(),
        traced: 0,
        trace: String::new(),
    };
    for (n, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        if words[0] != "expect" {
            let _ = writeln!(script.trace, "{}", words.join(" "));
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| script.line(&words)));
        assert!(outcome.is_ok(), "{}:{}: {line}\n{}", path.display(), n + 1, script.trace);
    }
    assert!(script.output.is_empty(), "{}: not expected at the end: {:?}", path.display(), script.output);
    script.trace
}

#[test]
fn scripts() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .expect("testdata is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 10, "only {} scripts", paths.len());
    for path in paths {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        insta::assert_snapshot!(name, run(&path));
    }
}

#[test]
#[should_panic(expected = "expect send 0..3000")]
fn a_wrong_script_fails() {
    let file = std::env::temp_dir().join(format!("heddle-wrong-script-{}.txt", std::process::id()));
    std::fs::write(&file, "sender reno\nstart\nexpect send 0..3000\n").expect("a file can be written");
    let outcome = std::panic::catch_unwind(|| run(&file));
    std::fs::remove_file(&file).expect("the file is there");
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
