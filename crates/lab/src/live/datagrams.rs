//! Datagrams live, at an even pace or as fast as they go: two `heddle datagrams` for each flow, as iperf3 is run for TCP.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use live::datagrams::stream::Sunk;
use live::datagrams::{READY, Received, Sent};
use machine::Span;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::de::DeserializeOwned;
use transport::{paced, transfers};

use super::during::During;
use super::flow::{FlowFailure, Hosts, LiveFlow, start};
use super::{iperf, start_up};
use crate::live_times;

/// How long a flow may take beyond its time.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// How long all programs of a run may take to start: so long, and so much longer for each flow.
const START_PATIENCE: Duration = Duration::from_secs(10);
const START_PATIENCE_A_FLOW: Duration = Duration::from_millis(200);
/// How often processes are looked at.
const POLL: Duration = Duration::from_millis(10);
/// The longest report of one of them, bytes: of transfers it has the time of each.
const REPORT_LIMIT: u64 = 4 << 20;
/// The longest thing that one of them says of what went wrong, bytes.
const ERROR_LIMIT: u64 = 4_096;

/// When the flows of a run are measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// When the run begins by `CLOCK_MONOTONIC`, where senders share that moment ([`Load::lead`]).
    pub origin: Duration,
    pub warm_up: Span,
    pub duration: Span,
}

/// What the flows of a run are: what their two programs are given, and what each says at its end.
pub(crate) trait Load {
    /// The sender's report.
    type Sent;
    /// The receiver's report.
    type Received;

    /// How long the senders of so many flows take to start, if all of them begin at one moment; else each begins when it is started.
    fn lead(&self, _flows: usize) -> Duration {
        Duration::ZERO
    }
    /// Arguments of the receiver; it may wait so long.
    fn receiver(&self, flow: &LiveFlow, times: Times, patience: Duration) -> Vec<String>;
    /// Arguments of the sender of a flow with this number.
    fn sender(&self, flow: (usize, &LiveFlow), times: Times, patience: Duration) -> Vec<String>;
    /// What the sender says at its end.
    fn sent(sender: &mut Running, deadline: Instant) -> Result<Self::Sent, FlowFailure>;
    /// What the receiver says at its end.
    fn received(receiver: &mut Running, deadline: Instant) -> Result<Self::Received, FlowFailure>;
}

/// Numbered datagrams at an even pace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub rate_pps: u64,
    /// Payload of each datagram.
    pub bytes: u32,
}

/// Messages as fast as credit for them comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub streams: u32,
    /// Messages of a stream that are under way.
    pub window: u32,
    /// Payload of each message.
    pub bytes: u32,
}

/// What the flows did, and what was counted when measuring started and ended.
pub(crate) struct Measured<L: Load, C> {
    pub flows: Vec<(L::Sent, L::Received)>,
    pub before: C,
    pub after: C,
}

/// Runs all flows at once; `program` is `heddle` itself.
pub(crate) fn run<L: Load, C>(
    hosts: &impl Hosts,
    program: &Path,
    flows: &[LiveFlow],
    (load, asked): (&L, Times),
    during: &mut During<'_>,
    mut count: impl FnMut() -> Result<C, FlowFailure>,
) -> Result<Measured<L, C>, FlowFailure> {
    let lead = load.lead(flows.len());
    // Who begins at one moment has been started before.
    let begin_together = !lead.is_zero();
    let warm_up =
        if begin_together { asked.warm_up } else { live_times::warm_up(flows.len(), asked.warm_up, Duration::ZERO) };
    let mut times = Times { warm_up, ..asked };
    let duration = times.duration;
    let lasts = lead + span(warm_up + duration + paced::TAIL.max(transfers::PATIENCE));
    // Receivers are started one after the other, so the first one waits for all of them.
    let start_patience = START_PATIENCE + START_PATIENCE_A_FLOW * flows.len() as u32;
    let patience = lasts + END_PATIENCE / 2 + start_patience;
    let receivers = flows.iter().map(|flow| {
        let mut receiver = Running::start(hosts, program, flow, &flow.to, &load.receiver(flow, times, patience))?;
        receiver.wait_until_it_listens()?;
        Ok(receiver)
    });
    let mut receivers = receivers.collect::<Result<Vec<_>, FlowFailure>>()?;
    let (mut senders, mut warm) = (Vec::with_capacity(flows.len()), None);
    if begin_together {
        times.origin = monotonic(&flows[0])? + lead;
        warm = Some(Instant::now() + lead + span(warm_up));
    }
    for flow in flows.iter().enumerate() {
        let arguments = load.sender(flow, times, patience);
        let (_, flow) = flow;
        warm.map_or(Ok(Duration::ZERO), |warm| start_up::left(flow, warm))?;
        senders.push(Running::start(hosts, program, flow, &flow.from, &arguments)?);
        warm.get_or_insert_with(|| Instant::now() + span(warm_up));
    }
    let warm = warm.unwrap_or_else(Instant::now);
    let wait = |moment| {
        wait_until(moment);
        Ok(())
    };
    during.wait_until(warm, wait)?;
    let before = count()?;
    during.pass(warm, span(duration), wait)?;
    let after = count()?;
    let deadline = warm + span(duration) + span(paced::TAIL.max(transfers::PATIENCE)) + END_PATIENCE + start_patience;
    let mut measured = Vec::with_capacity(flows.len());
    for (sender, receiver) in senders.iter_mut().zip(&mut receivers) {
        let sent = L::sent(sender, deadline)?;
        measured.push((sent, L::received(receiver, deadline)?));
    }
    Ok(Measured { flows: measured, before, after })
}

/// The clock that all hosts share.
fn monotonic(flow: &LiveFlow) -> Result<Duration, FlowFailure> {
    let (flow, host) = (format!("{} -> {}", flow.from, flow.to), flow.from.clone());
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map(Duration::from).map_err(|errno| FlowFailure { flow, host, message: format!("no clock: {errno}") })
}

fn wait_until(moment: Instant) {
    std::thread::sleep(moment.saturating_duration_since(Instant::now()));
}

fn span(span: Span) -> Duration {
    Duration::from_nanos(span.as_ns())
}

impl Pace {
    /// The numbers of the datagrams that are measured, and how many are sent in all.
    fn numbers(&self, times: Times) -> (std::ops::Range<u64>, u64) {
        let at = |time| paced::first_after(self.rate_pps, time);
        let end = times.warm_up + times.duration;
        (at(times.warm_up)..at(end), at(end + paced::TAIL))
    }
}

impl Load for Pace {
    type Sent = Sent;
    type Received = Received;

    fn receiver(&self, flow: &LiveFlow, times: Times, patience: Duration) -> Vec<String> {
        let (measured, _) = self.numbers(times);
        let numbers = [
            ("--port", u64::from(flow.port)),
            ("--rate", self.rate_pps),
            ("--from", measured.start),
            ("--to", measured.end),
            ("--patience-ms", patience.as_millis() as u64),
        ];
        arguments(&["datagrams", "receive"], &numbers)
    }

    fn sent(sender: &mut Running, deadline: Instant) -> Result<Sent, FlowFailure> {
        sender.report(deadline)
    }

    fn received(receiver: &mut Running, deadline: Instant) -> Result<Received, FlowFailure> {
        receiver.report(deadline)
    }

    fn sender(&self, (_, flow): (usize, &LiveFlow), times: Times, _: Duration) -> Vec<String> {
        let numbers =
            [("--rate", self.rate_pps), ("--count", self.numbers(times).1), ("--bytes", u64::from(self.bytes))];
        arguments_to(&["datagrams", "send"], &numbers, flow)
    }
}

impl Load for Stream {
    /// Senders go on until the last receiver has done, and are ended then.
    type Sent = ();
    type Received = Sunk;

    fn receiver(&self, flow: &LiveFlow, times: Times, patience: Duration) -> Vec<String> {
        let ms = |span: Span| span.as_ns() / 1_000_000;
        let numbers = [
            ("--port", u64::from(flow.port)),
            ("--window", u64::from(self.window)),
            ("--warm-up-ms", ms(times.warm_up)),
            ("--for-ms", ms(times.duration)),
            ("--patience-ms", patience.as_millis() as u64),
        ];
        arguments(&["datagrams", "sink"], &numbers)
    }

    fn sent(_: &mut Running, _: Instant) -> Result<(), FlowFailure> {
        Ok(())
    }

    fn received(receiver: &mut Running, deadline: Instant) -> Result<Sunk, FlowFailure> {
        receiver.report(deadline)
    }

    fn sender(&self, (_, flow): (usize, &LiveFlow), _: Times, patience: Duration) -> Vec<String> {
        let numbers = [
            ("--streams", u64::from(self.streams)),
            ("--window", u64::from(self.window)),
            ("--bytes", u64::from(self.bytes)),
            ("--for-ms", patience.as_millis() as u64),
        ];
        arguments_to(&["datagrams", "stream"], &numbers, flow)
    }
}

pub(super) fn arguments_to(what: &[&str], numbers: &[(&str, u64)], flow: &LiveFlow) -> Vec<String> {
    let mut arguments = arguments(what, numbers);
    arguments.push(format!("{}:{}", flow.address, flow.port));
    arguments
}

pub(super) fn arguments(what: &[&str], numbers: &[(&str, u64)]) -> Vec<String> {
    let numbers = numbers.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]);
    what.iter().map(|word| (*word).to_owned()).chain(numbers).collect()
}

/// One program of a flow; it ends with this at the latest.
pub(crate) struct Running {
    child: Child,
    stdout: BufReader<std::io::Take<ChildStdout>>,
    flow: String,
    host: String,
    ended: bool,
}

impl Running {
    pub(super) fn start(
        hosts: &impl Hosts,
        program: &Path,
        flow: &LiveFlow,
        host: &str,
        arguments: &[String],
    ) -> Result<Self, FlowFailure> {
        let name = format!("{} -> {}", flow.from, flow.to);
        let failed = |message: String| FlowFailure { flow: name.clone(), host: host.to_owned(), message };
        let stdio = [Stdio::null(), Stdio::piped(), Stdio::piped()];
        let mut child = start(hosts, (host, &program.to_string_lossy()), arguments, stdio).map_err(&failed)?;
        let stdout = child.stdout.take().ok_or_else(|| failed("it has no output".to_owned()))?;
        let stdout = BufReader::new(stdout.take(REPORT_LIMIT));
        Ok(Self { child, stdout, flow: name, host: host.to_owned(), ended: false })
    }

    fn failed(&self, message: String) -> FlowFailure {
        FlowFailure { flow: self.flow.clone(), host: self.host.clone(), message }
    }

    /// It says so, or ends: so this ends, too.
    fn wait_until_it_listens(&mut self) -> Result<(), FlowFailure> {
        self.wait_for("the receiver does not listen", |line| line == READY)
    }

    /// Its first line is such a one, or it ends: so this ends, too, and otherwise says this.
    pub(super) fn wait_for(&mut self, or_else: &str, is_it: impl Fn(&str) -> bool) -> Result<(), FlowFailure> {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line);
        if read.is_ok() && is_it(line.trim_end()) { Ok(()) } else { Err(self.explained(or_else)) }
    }

    /// What it says at its end. It may be more than a pipe holds, so it is read while it is written.
    pub(super) fn report<T: DeserializeOwned>(&mut self, deadline: Instant) -> Result<T, FlowFailure> {
        let mut text = Vec::new();
        loop {
            let mut ready = [PollFd::new(self.stdout.get_ref().get_ref().as_fd(), PollFlags::POLLIN)];
            let patience = PollTimeout::try_from(POLL).unwrap_or(PollTimeout::ZERO);
            let is_ready = poll(&mut ready, patience).is_ok_and(|ready| ready > 0) || !self.stdout.buffer().is_empty();
            let read = if is_ready { self.stdout.fill_buf().map(<[u8]>::to_vec) } else { Ok(Vec::new()) };
            let read = read.map_err(|error| self.failed(error.to_string()))?;
            if is_ready && read.is_empty() {
                break;
            }
            self.stdout.consume(read.len());
            text.extend(read);
            if Instant::now() >= deadline {
                return Err(self.failed("no end when it was due".to_owned()));
            }
        }
        // Half a report is as good as none: the parser will say so.
        serde_json::from_slice(text.trim_ascii()).map_err(|_| self.explained("no report"))
    }

    /// Adds what it wrote as errors.
    fn explained(&mut self, message: &str) -> FlowFailure {
        self.end();
        let mut said = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(ERROR_LIMIT).read_to_end(&mut said);
        }
        let said = iperf::shortened(String::from_utf8_lossy(&said).trim());
        self.failed(if said.is_empty() { message.to_owned() } else { format!("{message}: {said}") })
    }

    fn end(&mut self) {
        if !self.ended {
            // It may have ended in the meantime; then there is nothing to kill.
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.ended = true;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_after_the_measured_time_is_not_measured() {
        let pace = Pace { rate_pps: 10_000, bytes: 1_448 };
        assert_eq!(pace.numbers(times()), (5_000..25_000, 27_000));
        let line = pace.sender((0, &flow()), times(), Duration::ZERO).join(" ");
        assert_eq!(line, "datagrams send --rate 10000 --count 27000 --bytes 1448 10.0.0.2:6000");
        let line = pace.receiver(&flow(), times(), Duration::from_secs(7)).join(" ");
        assert_eq!(line, "datagrams receive --port 6000 --rate 10000 --from 5000 --to 25000 --patience-ms 7000");
    }

    #[test]
    fn a_stream_goes_on_as_long_as_its_receiver_may() {
        let stream = Stream { streams: 5, window: 4, bytes: 16_060 };
        let line = stream.sender((0, &flow()), times(), Duration::from_secs(7)).join(" ");
        assert_eq!(line, "datagrams stream --streams 5 --window 4 --bytes 16060 --for-ms 7000 10.0.0.2:6000");
        let line = stream.receiver(&flow(), times(), Duration::from_secs(7)).join(" ");
        assert_eq!(line, "datagrams sink --port 6000 --window 4 --warm-up-ms 500 --for-ms 2000 --patience-ms 7000");
    }

    fn times() -> Times {
        Times { warm_up: Span::from_ms(500), duration: Span::from_secs(2), ..Times::default() }
    }

    fn flow() -> LiveFlow {
        LiveFlow { from: "h1".into(), to: "h2".into(), address: "10.0.0.2".into(), port: 6_000 }
    }

    /// A host whose programs say what they like.
    struct Says(&'static str);

    impl Hosts for Says {
        fn command(&self, _: &str, _: &str, _: &[String]) -> Result<std::process::Command, String> {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", self.0]);
            Ok(command)
        }
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let pace = Pace { rate_pps: 10, bytes: 100 };
        let times = Times { duration: Span::from_ms(10), ..Times::default() };
        let failure = |says: &'static str| {
            let mut none = |_| Ok(());
            let mut during = During::new(Vec::new(), &mut none, None);
            run(&Says(says), Path::new("heddle"), &[flow()], (&pace, times), &mut during, || Ok(())).err()
        };
        let failed = failure("echo no port >&2; exit 1").expect("it failed");
        assert_eq!((&*failed.flow, &*failed.host), ("h1 -> h2", "h2"));
        assert!(failed.message.contains("does not listen: no port"), "{}", failed.message);
        let failed = failure("echo ready; echo '{}'").expect("it failed");
        assert!(failed.message.contains("no report"), "{}", failed.message);
    }
}
