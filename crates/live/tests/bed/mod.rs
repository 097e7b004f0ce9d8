//! A runtime folder of its own for each test, and the networks in it.
#![allow(unsafe_code)]

pub mod guest;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fabric::{Overrides, Source};
use live::{Instance, StartOptions};
use nix::libc;

/// It is the calling thread's: tests run beside each other.
pub struct Bed {
    pub folder: tempfile::TempDir,
    workers: Cell<Option<u32>>,
}

impl Bed {
    /// `None`, with a loud word, where this user may not have live networks at all. Root may, or else the test fails.
    pub fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root()
            && let Err(reason) = may_have_networks()
        {
            eprintln!("SKIPPED: {reason}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        live::use_runtime_folder(folder.path());
        Some(Self { folder, workers: Cell::new(None) })
    }

    pub fn with_workers(&self, n: u32) {
        self.workers.set(Some(n));
    }

    pub fn options(&self, name: &str) -> StartOptions {
        StartOptions { name: name.to_owned(), ephemeral: true, program: program(), workers: self.workers.get() }
    }

    pub fn up(&self, name: &str, text: &str) -> Instance {
        let network = Instance::start(&self.options(name)).unwrap_or_else(|error| panic!("{error} {:?}", error.hint()));
        network.apply(&source(text), &Overrides::default()).unwrap_or_else(|error| panic!("{error}"));
        network
    }

    /// Whether nothing is left in the runtime folder.
    pub fn is_empty(&self) -> bool {
        std::fs::read_dir(self.folder.path().join("heddle")).unwrap().next().is_none()
    }
}

fn may_have_networks() -> Result<(), String> {
    let tun = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    tun.map_err(|error| format!("/dev/net/tun: {error}; `sudo chmod 0666 /dev/net/tun` lets this test run"))?;
    match Command::new("unshare").args(["--user", "--net", "true"]).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("no user namespaces here: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("unshare: {error}")),
    }
}

pub fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_heddle-live-testbed").into()
}

pub fn source(text: &str) -> Source {
    Source { name: "test.fabric.yaml".to_owned(), text: text.to_owned() }
}

/// What a command prints, if it succeeds.
pub fn output(command: Result<Command, live::Error>) -> String {
    let mut command = command.unwrap();
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Pings until the first so many requests have been answered, and gives what `ping` printed until then. None may be answered twice.
///
/// Ping itself counts answers (`-c`), whichever they are: where a later one overtakes an earlier one, it ends before that has come. On a busy machine answers
/// do so over a bond, whose other end waits for what is missing for ten milliseconds only.
pub fn ping(network: &Instance, from: &str, options: &[&str], count: usize, to: &str) -> String {
    let arguments = options.iter().copied().chain(["-i", "0.02", "-w", "60", to]);
    let mut command = network.command(from, "ping", arguments).unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let _running = Running(Some(child));
    let mut missing: BTreeSet<usize> = (1..=count).collect();
    let mut text = String::new();
    for line in lines {
        text += &line;
        text.push('\n');
        assert!(!line.contains("DUP!"), "{from} to {to}: {text}{:#?}", network.counters());
        if let Some(number) = answered(&line) {
            missing.remove(&number);
        }
        if missing.is_empty() {
            return text;
        }
    }
    panic!("{from} to {to}, no answer to {missing:?}: {text}{:#?}", network.counters());
}

/// Which request a line of ping's says to be answered.
fn answered(line: &str) -> Option<usize> {
    line.split_once(" bytes from ")?.1.split_once("icmp_seq=")?.1.split(' ').next()?.parse().ok()
}

/// Carries so many bytes of TCP: they have come when this returns.
///
/// The receiver asks for them (`-R`): a sender would end when the last are handed to its kernel, and those are never sent.
pub fn carry(network: &Instance, from: &str, to: &str, bytes: &str) {
    let server = Running::iperf3_server(network.command(from, "iperf3", ["-s", "-1"]));
    output(network.command(to, "iperf3", ["-c", from, "-R", "-n", bytes]));
    drop(server);
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < PATIENCE, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A client with one connection to a service or a server.
pub struct Holding {
    child: Child,
    answers: Box<dyn Iterator<Item = String> + Send>,
}

impl Holding {
    pub fn open(network: &Instance, host: &str, address: &str) -> Self {
        Self::start(network.command(host, program(), ["hold", address]))
    }

    /// The same with datagrams, from one port (`0`: any).
    pub fn open_udp(network: &Instance, host: &str, address: &str, port: &str) -> Self {
        Self::start(network.command(host, program(), ["hold-udp", address, port]))
    }

    fn start(command: Result<Command, live::Error>) -> Self {
        let mut command = command.unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        Self { child, answers: Box::new(answers) }
    }

    /// Who answers.
    pub fn ask(&mut self) -> String {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.answers.next().expect("it is answered")
    }

    /// Whether it ends well, once nothing more is asked.
    pub fn ends(mut self) -> bool {
        drop(self.child.stdin.take());
        self.child.wait().unwrap().success()
    }
}

/// A program that is ended with the test.
pub struct Running(Option<Child>);

impl Running {
    pub fn start(command: Result<Command, live::Error>) -> Self {
        let child = command.unwrap().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self(Some(child))
    }

    /// Starts an iperf3 that serves, and waits until it listens.
    pub fn iperf3_server(command: Result<Command, live::Error>) -> Self {
        let mut command = command.unwrap();
        let command = command.arg("--forceflush").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("Server listening")), "iperf3 ended before it listened");
        // What it says later is read, so that it does not wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Self(Some(child))
    }

    /// Starts a server that answers with the name of its host, at a port of it, and waits until it listens.
    pub fn server(network: &Instance, host: &str, port: &str) -> Self {
        Self::listening(network.command(host, program(), ["serve", port]))
    }

    /// Starts a program that says `ready` when it listens, and waits for that.
    pub fn listening(command: Result<Command, live::Error>) -> Self {
        let mut command = command.unwrap();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let line = BufReader::new(child.stdout.take().unwrap()).lines().next();
        assert_eq!(line.expect("it listens").unwrap(), "ready");
        Self(Some(child))
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    pub fn pid(&self) -> i32 {
        self.0.as_ref().unwrap().id().cast_signed()
    }

    pub fn wait(mut self) -> ExitStatus {
        self.0.take().unwrap().wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How often the threads of a process have been given a CPU (proc(5), `schedstat`), by their number.
fn turns(pid: i32) -> BTreeMap<String, u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|entry| entry.unwrap());
    let turns = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap();
        (thread.file_name().into_string().unwrap(), text.split_whitespace().nth(2).unwrap().parse().unwrap())
    };
    threads.map(turns).collect()
}

/// Waits until no thread of a process runs for a second; whether that came at last. Whoever spins, or looks every now and then, always
/// runs again.
pub fn falls_asleep(pid: i32) -> bool {
    soon(|| {
        let before = turns(pid);
        std::thread::sleep(Duration::from_secs(1));
        turns(pid) == before
    })
}

/// What does not happen within this does not happen: tests run beside programs that use all cores.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something holds; whether it did at last.
pub fn soon(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// A TAP of the calling thread's network namespace that has its carrier from this process, as a virtual machine's has. Gone with it.
pub struct GuestTap(File);

impl GuestTap {
    pub fn new(name: &str) -> Self {
        let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
        // SAFETY: an all-zero `ifreq` is valid: names, unions of integers, and a null pointer.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, which outlives the call.
        let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        Self(file)
    }

    /// Plugs its cable in, or pulls it, without a word to others on netlink but the kernel's own.
    pub fn set_carrier(&self, up: bool) {
        let up = libc::c_int::from(up);
        // SAFETY: TUNSETCARRIER reads one int, which outlives the call.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TUNSETCARRIER as _, &raw const up) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}

pub fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}
