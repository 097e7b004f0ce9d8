//! `iperf`: throughput between two hosts, measured by iperf3. Both of its programs end with this one: by their ids when this function returns, whatever it
//! returns, and by the kernel when this process dies.

mod report;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use live::Instance;
use miette::{IntoDiagnostic, Report, miette};

use self::report::Outcome;
use super::explain;
use super::instance::{connect, definition, host, running};
use super::severed;
use super::signals::await_end;
use crate::Ending;
use crate::cli::{Format, Iperf};
use crate::output::put;

/// Where iperf3 listens unless it is told otherwise.
const PORT: u16 = 5_201;
/// How many ports are tried.
const PORTS: u16 = 20;
/// How long a server may take until it listens.
const LISTEN_PATIENCE: Duration = Duration::from_secs(20);
/// How long all may take beyond the measured time: connecting, and the last words.
const END_PATIENCE: Duration = Duration::from_secs(30);
/// How often processes and signals are looked at.
const POLL: Duration = Duration::from_millis(20);
/// What is read of a program's output at most, bytes. A report of 128 streams has 100,000.
const OUTPUT_BYTES_MAX: u64 = 4 << 20;

/// Why it may fail though packets pass.
const LOSSES: &str = "iperf3 agrees on its run by TCP, over the same links, before and after: where they lose packets (`heddle show links`) that may take long or fail, and comes off at another try; \
    `heddle run` measures losses without it";

/// Measures, and prints what came of it.
pub fn iperf(args: &Iperf, format: Format) -> Result<Ending, Report> {
    let instance = connect(&running(args.network.name.as_deref(), "`heddle iperf --name NETWORK ..`")?)?;
    let fabric = definition(&instance)?;
    let topology = &fabric.topology;
    let (from, to) = (host(topology, &args.from)?, host(topology, &args.to)?);
    if from == to {
        return Err(miette!("`{}` is both ends: expected two hosts", args.from));
    }
    let address = topology.address(to).expect("it is a host").ipv4.to_string();
    let stop = Arc::new(AtomicBool::new(false));
    await_end(&stop)?;
    let Some((server, port)) = serve(&instance, args, &stop)? else { return Ok(Ending::Interrupted) };
    let mut client = Program::start(&instance, &args.from, &client_arguments(args, &address, port))?;
    let deadline = Instant::now() + Duration::from_secs(args.time.into()) + END_PATIENCE;
    let ended = client.wait(&instance, deadline, &stop)?;
    drop(server);
    if !ended {
        return Ok(Ending::Interrupted);
    }
    let outcome = Outcome::read(args, &client.output()).map_err(|error| {
        let links = instance.counters().map(|counters| counters.links).unwrap_or_default();
        match severed::reasons(topology, fabric.rerouting, &links, &[from, to]).as_slice() {
            [] => {
                let path = format!("heddle path {} {} --port {port}", args.from, args.to);
                miette!(
                    help =
                        format!("{LOSSES}. `{path}` says whether a flow, a function of a chain or a service drops it"),
                    "{error}"
                )
            }
            why => miette!("{error}; {}", why.join("; ")),
        }
    })?;
    put(&match format {
        Format::Table => outcome.line(),
        Format::Json | Format::Csv => outcome.rows().render(format),
    })?;
    Ok(Ending::Passed)
}

/// Starts a server at the port that is asked for, or at the first that is free. `None`: somebody wants it to end.
fn serve(instance: &Instance, args: &Iperf, stop: &AtomicBool) -> Result<Option<(Program, u16)>, Report> {
    let ports = args.port.map_or(PORT..=PORT + PORTS - 1, |port| port..=port);
    let mut refusal = String::new();
    for port in ports {
        let arguments = ["-s", "-1", "--forceflush", "-p", &port.to_string()].map(str::to_owned);
        let mut server = Program::start(instance, &args.to, &arguments)?;
        let deadline = Instant::now() + LISTEN_PATIENCE;
        loop {
            match server.lines.recv_timeout(POLL) {
                Ok(line) if line.contains("listening") => return Ok(Some((server, port))),
                Ok(_) => {}
                // It has ended.
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if instance.has_ended() => return Err(explain(live::Error::Gone)),
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(RecvTimeoutError::Timeout) => return Err(miette!("iperf3 does not listen in {}", args.to)),
            }
        }
        refusal = server.complaint();
        if !refusal.contains("in use") {
            break;
        }
    }
    let hint = "`--port` names another port; `heddle exec HOST ss -lntp` shows who listens";
    Err(miette!(help = hint, "iperf3 cannot listen in {}: {refusal}", args.to))
}

fn client_arguments(args: &Iperf, address: &str, port: u16) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["--json", "-i", "0", "--connect-timeout", "10000", "-c", address].map(str::to_owned).into();
    let numbers = [("-p", u32::from(port)), ("-t", args.time), ("-P", args.parallel)];
    arguments.extend(numbers.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_string()]));
    arguments.extend(args.bitrate.iter().flat_map(|rate| ["-b".to_owned(), rate.clone()]));
    let flags = [(args.udp, "-u"), (args.reverse, "-R")];
    arguments.extend(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag.to_owned()));
    arguments
}

/// iperf3 in a host. It ends, at the latest, when this is dropped.
struct Program {
    child: Child,
    /// What it prints, line by line.
    lines: Receiver<String>,
    complaints: Option<JoinHandle<String>>,
}

impl Program {
    fn start(instance: &Instance, host: &str, arguments: &[String]) -> Result<Self, Report> {
        let mut command: Command = instance.command(host, "iperf3", arguments).map_err(explain)?;
        live::end_with_parent(&mut command);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| {
            miette!(help = "Debian has it as `apt install iperf3`", "iperf3 cannot be started in {host}: {error}")
        })?;
        let (line, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                let printed = BufReader::new(stdout.take(OUTPUT_BYTES_MAX)).lines();
                // Who reads may have gone.
                let _ = printed.map_while(Result::ok).try_for_each(|text| line.send(text));
            });
        }
        let complaints = child.stderr.take().map(|stderr| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                let _ = stderr.take(OUTPUT_BYTES_MAX).read_to_end(&mut text);
                String::from_utf8_lossy(&text).trim().to_owned()
            })
        });
        Ok(Self { child, lines, complaints })
    }

    /// Waits for its end; false if somebody wants all to end before.
    fn wait(&mut self, instance: &Instance, deadline: Instant, stop: &AtomicBool) -> Result<bool, Report> {
        while self.child.try_wait().into_diagnostic()?.is_none() {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            if instance.has_ended() {
                return Err(explain(live::Error::Gone));
            }
            if Instant::now() > deadline {
                return Err(miette!(help = LOSSES, "iperf3 has not ended in time"));
            }
            std::thread::sleep(POLL);
        }
        Ok(!stop.load(Ordering::Relaxed))
    }

    /// All that it has printed; it has ended.
    fn output(&self) -> String {
        self.lines.iter().collect::<Vec<_>>().join("\n")
    }

    /// What it has complained of; it has ended.
    fn complaint(&mut self) -> String {
        self.complaints.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
