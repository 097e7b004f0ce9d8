//! How a run stands from step to step: the fabric's counters, and what the senders' kernels say of their connections.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use live::connections::Connection;
use live::control::Counters;
use live::datagrams::READY;
use live::{FLOWS_COUNTED_MAX, Instance};
use machine::Span;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::flow::{FlowFailure, LiveFlow, start};
use super::window::{delivered, reordered};
use crate::measure::statistics;
use crate::measure::time_series::{FlowMoment, Moment};

/// How long a host may take to answer.
const PATIENCE_MS: u16 = 10_000;
/// The longest answer: a line with all connections of a host.
const ANSWER_LIMIT: u64 = 128 * FLOWS_COUNTED_MAX as u64;
/// While it waits for the next step it looks so often whether the run has failed.
const POLL: Duration = Duration::from_millis(10);
/// A connection that has carried less is the one that iperf3 steers by, or has not begun.
const FIRST_BYTES: u64 = 1_000;

/// Reads how things stand, step by step.
pub(crate) struct Recorder {
    /// A connection of its own, since the run goes on meanwhile.
    network: Instance,
    senders: Vec<Watcher>,
    step: Span,
    readings: Vec<Reading>,
}

/// How things stood at a moment since measuring began.
struct Reading {
    at: Duration,
    counters: Counters,
    /// By the sending host.
    connections: BTreeMap<String, Vec<Connection>>,
}

impl Recorder {
    /// One for a network with these flows; with `has_windows` the senders' kernels are asked, too. `program` is `heddle` itself.
    pub fn new(
        network: &Instance,
        program: &Path,
        (flows, has_windows): (&[LiveFlow], bool),
        step: Span,
    ) -> Result<Self, FlowFailure> {
        let failed = |message: String| FlowFailure { flow: String::new(), host: String::new(), message };
        let own = Instance::connect(network.name()).map_err(|error| failed(error.to_string()))?;
        let own = own.ok_or_else(|| failed("the network has gone".to_owned()))?;
        let mut ports: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
        for flow in flows.iter().filter(|_| has_windows) {
            ports.entry(&flow.from).or_default().push(flow.port);
        }
        let senders = ports.into_iter().map(|(host, ports)| Watcher::start(network, program, host, &ports));
        Ok(Self { network: own, senders: senders.collect::<Result<_, _>>()?, step, readings: Vec::new() })
    }

    /// Reads at `begin`, after each step, and after `duration`; `stop` ends it earlier. A step that could not be kept is left out.
    pub fn record(&mut self, begin: Instant, duration: Duration, stop: &AtomicBool) -> Result<(), FlowFailure> {
        let step = Duration::from_nanos(self.step.as_ns());
        let mut due = Duration::ZERO;
        loop {
            while let Some(left) = (begin + due).checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                std::thread::sleep(left.min(POLL));
            }
            self.read(begin)?;
            if due >= duration {
                return Ok(());
            }
            let passed = begin.elapsed().as_nanos() / step.as_nanos();
            due = duration.min(step * (passed + 1).min(u128::from(u32::MAX)) as u32);
        }
    }

    fn read(&mut self, begin: Instant) -> Result<(), FlowFailure> {
        for sender in &mut self.senders {
            sender.ask()?;
        }
        let lost =
            |error: live::Error| FlowFailure { flow: String::new(), host: String::new(), message: error.to_string() };
        let counters = self.network.counters().map_err(lost)?;
        let at = begin.elapsed();
        let answers = self.senders.iter_mut().map(|sender| Ok((sender.host.clone(), sender.answer()?)));
        let connections = answers.collect::<Result<_, FlowFailure>>()?;
        self.readings.push(Reading { at, counters, connections });
        Ok(())
    }

    /// What was read, by flow and link. Where nothing `is_shaped`, the order of segments says nothing.
    pub fn moments(&self, flows: &[LiveFlow], is_shaped: bool) -> Vec<Moment> {
        let has_windows = !self.senders.is_empty();
        let mut last: Vec<FlowMoment> = vec![FlowMoment::default(); flows.len()];
        let mut moments = Vec::with_capacity(self.readings.len());
        for Reading { at, counters, connections } in &self.readings {
            for (flow, last) in flows.iter().zip(&mut last) {
                let of_host = connections.get(&flow.from).map_or(&[][..], Vec::as_slice);
                let streams = of_host.iter().filter(|one| one.to_port == flow.port && one.acked_bytes > FIRST_BYTES);
                let sum = |sum: Option<(f64, u64)>, one: &Connection| {
                    let (cwnd, retransmits) = sum.unwrap_or_default();
                    Some((cwnd + f64::from(one.cwnd), retransmits + u64::from(one.retransmits)))
                };
                // Who has no connection yet, or none any more, is as before.
                let sender = streams.clone().fold(None, sum).or(last.sender).or(has_windows.then_some((0.0, 0)));
                let reordered = if is_shaped { reordered(flow, counters) } else { 0 };
                let rtts: Vec<f64> = streams.map(|one| f64::from(one.rtt_us) * 1e-6).collect();
                let rtt = statistics::mean(&rtts).or(last.rtt);
                *last = FlowMoment { delivered_bytes: delivered(flow, counters), reordered, sender, rtt };
            }
            let waited = |link: &live::control::LinkCounters| {
                [link.forward.waited, link.backward.waited].map(machine::nanos::Span::as_secs_f64)
            };
            let waited = counters.links.iter().flat_map(waited).collect();
            let marks = counters.links.iter().flat_map(|link| [link.forward.marks, link.backward.marks]).collect();
            moments.push(Moment { at: at.as_secs_f64(), flows: last.clone(), waited, marks });
        }
        moments
    }
}

/// A program in a host that says how its connections stand; it ends with this.
struct Watcher {
    host: String,
    child: Child,
    /// It ends when this is closed.
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Watcher {
    fn start(network: &Instance, program: &Path, host: &str, ports: &[u16]) -> Result<Self, FlowFailure> {
        let failed = |message: String| FlowFailure { flow: String::new(), host: host.to_owned(), message };
        let ports = ports.iter().flat_map(|port| ["--port".to_owned(), port.to_string()]);
        let arguments: Vec<String> = std::iter::once("connections".to_owned()).chain(ports).collect();
        let stdio = [Stdio::piped(), Stdio::piped(), Stdio::null()];
        let mut child = start(network, (host, &program.to_string_lossy()), &arguments, stdio).map_err(failed)?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("it has no input and output".to_owned()));
        };
        let mut watcher = Self { host: host.to_owned(), child, questions, answers: BufReader::new(answers) };
        match watcher.line()?.trim_end() {
            READY => Ok(watcher),
            said => Err(watcher.failed(&format!("said {said:?} in place of {READY}"))),
        }
    }

    fn failed(&self, message: &str) -> FlowFailure {
        let message = format!("what watches its connections {message}");
        FlowFailure { flow: String::new(), host: self.host.clone(), message }
    }

    fn ask(&mut self) -> Result<(), FlowFailure> {
        self.questions.write_all(b"\n").map_err(|error| self.failed(&format!("has ended: {error}")))
    }

    fn answer(&mut self) -> Result<Vec<Connection>, FlowFailure> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|error| self.failed(&format!("said something else: {error}")))
    }

    fn line(&mut self) -> Result<String, FlowFailure> {
        let mut ready = [PollFd::new(self.answers.get_ref().as_fd(), PollFlags::POLLIN)];
        if !poll(&mut ready, PollTimeout::from(PATIENCE_MS)).is_ok_and(|ready| ready > 0) {
            return Err(self.failed(&format!("does not answer within {} s", PATIENCE_MS / 1_000)));
        }
        let mut line = String::new();
        let read = self.answers.by_ref().take(ANSWER_LIMIT).read_line(&mut line);
        match read {
            Ok(0) => Err(self.failed("has ended")),
            Ok(_) => Ok(line),
            Err(error) => Err(self.failed(&format!("cannot be read: {error}"))),
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // It may have ended in the meantime; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
