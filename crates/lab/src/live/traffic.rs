//! Real traffic: an iperf3 server and client for each flow, started together, collected, and ended by their ids.

use std::io::Read;
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use machine::Span;

use super::during::During;
use super::flow::{FlowFailure, Hosts, LiveFlow, start};
use super::iperf::{self, Measurement, REPORT_LIMIT};
use super::start_up;
use crate::live_times;

/// More flows than this are refused: each is two processes with three pipes, and a process may have 1,024 open files.
pub(crate) const LIVE_FLOWS_MAX: usize = 256;

/// How long a server may take until it listens.
const LISTEN_PATIENCE: Duration = Duration::from_secs(10);
/// How long a flow may take beyond its time: connecting, and the last words between client and server.
const END_PATIENCE: Duration = Duration::from_secs(20);
/// How long flows may take until they send, once they are warm: as long as iperf3 tries to connect.
const BEGIN_PATIENCE: Duration = Duration::from_secs(20);
/// How long after one flow has failed to connect others may.
const LATER_FAILURES: Duration = Duration::from_secs(2);
/// How often processes are looked at.
const POLL: Duration = Duration::from_millis(10);

/// How the flows of a run go.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// Left out, at least: it becomes whole seconds, and longer where many flows are to be started.
    pub warm_up: Span,
    /// Measured, whole seconds: iperf3 takes no fractions.
    pub seconds: u64,
    /// What iperf3 is given about the transport.
    pub arguments: Vec<String>,
    /// When each flow begins, since the first could.
    pub starts: Vec<Duration>,
}

/// Something that was measured, and what was counted when measuring started and ended.
pub(crate) struct Measured<C> {
    /// What each program says; of one that the network let no connection have, or broke it off, why.
    pub flows: Vec<Result<Measurement, String>>,
    pub before: C,
    pub after: C,
}

/// How often flows that were started too late are started once more, with a longer warm-up.
const LATE_MAX: u64 = 3;

/// By so much longer each time.
const LATER_WARM_UP: Span = Span::from_secs(2);

/// What came of one attempt.
enum Attempt<C> {
    /// Something was measured.
    Measured(Measured<C>),
    /// Flows that could not connect before anything was measured, each with why.
    Unconnected(Vec<(usize, String)>),
    /// The machine was too busy to start this flow before the warm-up was over.
    Late(FlowFailure),
}

/// Runs all flows at once, as [`attempt`] does. Those that cannot connect are left out, and all others run once more: a window that waits for them would begin when others
/// have ended. So they do on a machine that was too busy to start them in time, after a longer warm-up.
pub(crate) fn run<C>(
    hosts: &impl Hosts,
    flows: &[LiveFlow],
    schedule: &Schedule,
    during: &mut During<'_>,
    (mut count, have_begun): (impl FnMut() -> Result<C, FlowFailure>, impl Fn(&C, &C, &[LiveFlow]) -> bool),
) -> Result<Measured<C>, FlowFailure> {
    let mut failed: Vec<Option<String>> = vec![None; flows.len()];
    let mut late = 0;
    loop {
        let left: Vec<usize> = (0..flows.len()).filter(|number| failed[*number].is_none()).collect();
        let chosen: Vec<LiveFlow> = left.iter().map(|number| flows[*number].clone()).collect();
        let starts = left.iter().map(|number| schedule.starts.get(*number).copied().unwrap_or_default()).collect();
        let have_begun = |before: &C, after: &C| have_begun(before, after, &chosen);
        let schedule = Schedule { starts, warm_up: schedule.warm_up + LATER_WARM_UP * late, ..schedule.clone() };
        match attempt(hosts, &chosen, &schedule, during, (&mut count, have_begun))? {
            Attempt::Measured(measured) => {
                let mut reports = measured.flows.into_iter();
                let flows = failed.into_iter().map(|why| match why {
                    Some(why) => Err(why),
                    None => reports.next().unwrap_or_else(|| Err("no report".to_owned())),
                });
                return Ok(Measured { flows: flows.collect(), before: measured.before, after: measured.after });
            }
            Attempt::Late(_) if late < LATE_MAX => late += 1,
            Attempt::Late(failure) => return Err(failure),
            Attempt::Unconnected(unconnected) => {
                for (number, why) in unconnected {
                    failed[left[number]] = Some(why);
                }
            }
        }
    }
}

/// Runs these flows at once. `count` is called when the warm-up is over and when the measured time is over, while all flows
/// still send: if one has begun after the warm-up, those that began before it may end by so much before the window does. `have_begun`: whether all of
/// them send, by what was counted before they were started and now.
fn attempt<C>(
    hosts: &impl Hosts,
    flows: &[LiveFlow],
    schedule: &Schedule,
    during: &mut During<'_>,
    (mut count, have_begun): (impl FnMut() -> Result<C, FlowFailure>, impl Fn(&C, &C) -> bool),
) -> Result<Attempt<C>, FlowFailure> {
    let begun = Instant::now();
    let mut servers = Processes::default();
    for flow in flows {
        servers.start(hosts, flow, &flow.to, &server_arguments(flow), Stdio::null())?;
    }
    for (server, flow) in servers.running.iter_mut().zip(flows) {
        server.wait_until_it_listens(flow)?;
    }
    // By this clock both counts fall into the time in which every flow sends: the first flow's own clock starts a moment later than this one, and those
    // that start later end later.
    let idle = count()?;
    let warm_up = live_times::warm_up(flows.len(), schedule.warm_up, begun.elapsed());
    let start = Instant::now();
    let warm = start + Duration::from_secs(live_times::whole_seconds(warm_up));
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|&number| schedule.starts.get(number));
    let mut clients = Processes::default();
    for (nth, &number) in order.iter().enumerate() {
        let flow = &flows[number];
        let due = start + schedule.starts.get(number).copied().unwrap_or_default();
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // The first one is never late.
        let left = match start_up::left(flow, warm) {
            Ok(left) => left,
            Err(_) if nth == 0 => Duration::ZERO,
            Err(failure) => return Ok(Attempt::Late(failure)),
        };
        clients.start(hosts, flow, &flow.from, &client_arguments(flow, schedule, left), Stdio::piped())?;
    }
    clients.put_back(&order);
    during.wait_until(warm, |moment| clients.watch_until(moment, &mut servers))?;
    let mut before = count()?;
    let mut warm = warm;
    // Over long or lossy links, connecting can take longer than the warm-up: a window in which nobody sends yet measures that.
    let patience = warm + BEGIN_PATIENCE;
    while !have_begun(&idle, &before) && warm < patience && !clients.any_failed() {
        clients.watch_until(Instant::now() + POLL, &mut servers)?;
        warm = Instant::now();
        before = count()?;
    }
    if clients.any_failed() {
        // Others may have begun to connect a little later.
        during.wait_until(Instant::now() + LATER_FAILURES, |moment| clients.watch_until(moment, &mut servers))?;
        return Ok(Attempt::Unconnected(clients.failed_ones()));
    }
    let lasts = Duration::from_secs(schedule.seconds);
    during.pass(warm, lasts, |moment| clients.watch_until(moment, &mut servers))?;
    let after = count()?;
    let measurements = clients.collect(warm + lasts + END_PATIENCE, &mut servers)?;
    Ok(Attempt::Measured(Measured { flows: measurements, before, after }))
}

/// No JSON from the server: the client's report holds what the receiver measured.
fn server_arguments(flow: &LiveFlow) -> Vec<String> {
    ["-s", "-1", "-p"].into_iter().map(str::to_owned).chain([flow.port.to_string()]).collect()
}

/// Of a client that has so much of the warm-up left: its own window begins within a second of the one of all flows, and not before.
fn client_arguments(flow: &LiveFlow, schedule: &Schedule, left: Duration) -> Vec<String> {
    let omitted = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    let mut arguments: Vec<String> = ["--json", "-i", "0", "--connect-timeout", "20000", "-c", flow.address.as_str()]
        .into_iter()
        .map(str::to_owned)
        .collect();
    let numbers = [("-p", u64::from(flow.port)), ("-t", schedule.seconds), ("-O", omitted)];
    arguments.extend(numbers.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_string()]));
    arguments.extend(schedule.arguments.iter().cloned());
    arguments
}

/// One program of a flow.
struct Process {
    child: Child,
    flow: String,
    host: String,
    ended: bool,
    /// Reads what it prints while it runs: a report of many streams is longer than a pipe holds.
    output: Option<JoinHandle<Vec<u8>>>,
    /// A client's measurement, once it has been read, or why the network kept it from one.
    report: Option<Result<Measurement, String>>,
}

/// Programs that end, at the latest, when this is dropped.
#[derive(Default)]
struct Processes {
    running: Vec<Process>,
}

impl Processes {
    fn start(
        &mut self,
        hosts: &impl Hosts,
        flow: &LiveFlow,
        host: &str,
        arguments: &[String],
        stdout: Stdio,
    ) -> Result<(), FlowFailure> {
        let name = format!("{} -> {}", flow.from, flow.to);
        let failed = |message: String| FlowFailure { flow: name.clone(), host: host.to_owned(), message };
        let stdio = [Stdio::null(), stdout, Stdio::piped()];
        let mut child = start(hosts, (host, "iperf3"), arguments, stdio).map_err(failed)?;
        let output = child.stdout.take().map(|stdout| std::thread::spawn(move || read_all(stdout)));
        let (flow, host) = (name.clone(), host.to_owned());
        self.running.push(Process { child, flow, host, ended: false, output, report: None });
        Ok(())
    }

    /// Puts those that were started in this order into the order of their flows.
    fn put_back(&mut self, order: &[usize]) {
        let mut numbered: Vec<_> = order.iter().zip(self.running.drain(..)).collect();
        numbered.sort_by_key(|(number, _)| **number);
        self.running.extend(numbered.into_iter().map(|(_, process)| process));
    }

    /// Sleeps until `deadline` unless a client fails. One that ends with a report has only been a little early.
    fn watch_until(&mut self, deadline: Instant, servers: &mut Self) -> Result<(), FlowFailure> {
        while let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            std::thread::sleep(left.min(POLL));
            for (i, client) in self.running.iter_mut().enumerate() {
                if client.report.is_none() && client.has_ended()? {
                    // What it says is kept.
                    let _ = client.read_report(servers.running.get_mut(i))?;
                }
            }
        }
        Ok(())
    }

    /// Whether the network has kept any client from its measurement.
    fn any_failed(&self) -> bool {
        self.running.iter().any(|client| matches!(client.report, Some(Err(_))))
    }

    /// Which ones, and how.
    fn failed_ones(&self) -> Vec<(usize, String)> {
        let clients = self.running.iter().enumerate();
        clients.filter_map(|(number, client)| Some((number, client.report.clone()?.err()?))).collect()
    }

    /// The reports of all clients, in order.
    fn collect(
        &mut self,
        deadline: Instant,
        servers: &mut Self,
    ) -> Result<Vec<Result<Measurement, String>>, FlowFailure> {
        let mut measurements = Vec::with_capacity(self.running.len());
        for (i, client) in self.running.iter_mut().enumerate() {
            while !client.has_ended()? && Instant::now() < deadline {
                std::thread::sleep(POLL);
            }
            measurements.push(if client.ended {
                client.read_report(servers.running.get_mut(i))?
            } else {
                // What it says last does not come through.
                Err(format!("no end {} s after it was due", END_PATIENCE.as_secs()))
            });
        }
        Ok(measurements)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in self.running.iter_mut().filter(|process| !process.ended) {
            // It may have ended in the meantime; then there is nothing to kill.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

impl Process {
    fn failed(&self, message: String) -> FlowFailure {
        FlowFailure { flow: self.flow.clone(), host: self.host.clone(), message }
    }

    fn has_ended(&mut self) -> Result<bool, FlowFailure> {
        if !self.ended {
            let status = self.child.try_wait().map_err(|error| self.failed(error.to_string()))?;
            self.ended = status.is_some();
        }
        Ok(self.ended)
    }

    /// What it printed, up to a limit. It has ended, so that reading ends too.
    fn output(&mut self) -> Vec<u8> {
        self.output.take().and_then(|reader| reader.join().ok()).unwrap_or_default()
    }

    /// What it printed as errors, on one line.
    fn errors(&mut self) -> String {
        let mut text = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(4_096).read_to_end(&mut text);
        }
        iperf::shortened(String::from_utf8_lossy(&text).trim())
    }

    /// The measurement of a client that has ended, or why the network kept it from one. If it was not the network, the run has failed.
    fn read_report(&mut self, server: Option<&mut Self>) -> Result<Result<Measurement, String>, FlowFailure> {
        if let Some(report) = &self.report {
            return Ok(report.clone());
        }
        let report = match iperf::parse(&self.output()) {
            Ok(report) => Ok(report),
            Err(error) if error.is_of_network() => Err(self.explained(&error.to_string(), server).message),
            Err(error) => return Err(self.explained(&error.to_string(), server)),
        };
        Ok(self.report.insert(report).clone())
    }

    /// Adds what the programs wrote as errors: a client often knows only that its server hung up.
    fn explained(&mut self, message: &str, server: Option<&mut Self>) -> FlowFailure {
        let mut message = message.to_owned();
        let own = self.errors();
        if !own.is_empty() {
            message = format!("{message}; {own}");
        }
        if let Some(server) = server
            && matches!(server.has_ended(), Ok(true))
        {
            let theirs = server.errors();
            if !theirs.is_empty() {
                message = format!("{message}; the server in {} said: {theirs}", server.host);
            }
        }
        self.failed(message)
    }

    /// Looks into the kernel's list of sockets of the server's network until its port is there.
    fn wait_until_it_listens(&mut self, flow: &LiveFlow) -> Result<(), FlowFailure> {
        let deadline = Instant::now() + LISTEN_PATIENCE;
        loop {
            if self.has_ended()? {
                let errors = self.errors();
                let said = if errors.is_empty() { "no word".to_owned() } else { errors };
                return Err(self.failed(format!("the server ended at once: {said}")));
            }
            if listens(self.child.id(), flow.port) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(self.failed(format!("the server does not listen after {} s", LISTEN_PATIENCE.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// All that comes, up to a limit.
fn read_all(stdout: impl Read) -> Vec<u8> {
    let mut text = Vec::new();
    // Half a report is as good as none: the parser will say so.
    let _ = stdout.take(REPORT_LIMIT).read_to_end(&mut text);
    text
}

/// Whether the network of process `id` has a listening TCP socket at `port`. Before the process has become iperf3 it is
/// still in our own network, whose sockets don't count.
fn listens(id: u32, port: u16) -> bool {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default();
    read("comm").trim() == "iperf3" && ["net/tcp6", "net/tcp"].iter().any(|file| has_listener(&read(file), port))
}

/// Whether a table like `/proc/net/tcp` has a socket in state LISTEN (0A) at `port`.
fn has_listener(table: &str, port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().is_some_and(|local| local.ends_with(&wanted));
        local && fields.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests;
