//! Programs of hosts that start with the network and end with it: each has a thread that starts it, waits for its end, and starts it again after a while.
//!
//! ```text
//!             starts                      ends, and is to be started again
//!  waiting ------------> running ------------------------------------------> waiting (1 s, 2 s, 4 s .. 30 s)
//!                           | ends, and is not; or is stopped
//!                           v
//!                         ended
//! ```
//!
//! What it says comes through a pipe into a file that is bounded.

mod output;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fabric::{HostFile, Program, Restart};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getpgid};
use serde::{Deserialize, Serialize};

use self::output::Output;
use crate::Error;
use crate::command::{self, RootView, Seen};
use crate::container::Container;
use crate::files::FileMount;
use crate::image::Root;
use crate::process;

/// The shortest and the longest wait before a program is started again: it is doubled from one to the next.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A program that has run for so long begins anew with the shortest wait.
const STEADY: Duration = Duration::from_secs(10);

/// How long a program has between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// Bytes of a guest's status: three digits, and the end of a line.
const STATUS_MAX: u64 = 4;

/// How a program of a host does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramState {
    /// The host's name.
    pub host: String,
    /// The program's name.
    pub program: String,
    /// What it does now.
    pub phase: Phase,
    /// Its process, while it runs.
    pub pid: Option<i32>,
    /// How often it was started.
    pub starts: u32,
    /// Since when it does what it does, in milliseconds.
    pub since_ms: u64,
    /// How it ended last.
    pub last: Option<String>,
    /// Where its output is.
    pub output: String,
}

/// See [`ProgramState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It runs.
    Running,
    /// It will be started.
    Waiting,
    /// It has ended, and is not started again.
    Ended,
    /// It was stopped by [`ProgramCommand::Stop`], and is started again when somebody says so.
    Stopped,
}

/// What is done to programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgramCommand {
    /// Those that do not run are started.
    Start,
    /// They are ended, and not started again.
    Stop,
    /// They are ended, if they run, and started.
    Restart,
}

/// What a program needs to start.
#[derive(Debug)]
pub struct Launch {
    /// The host's name.
    pub host: String,
    /// What is started.
    pub program: Program,
    /// The host's network namespace, and what identifies it. None of a virtual machine: its hypervisor is a program of the machine.
    pub namespace: Option<(OwnedFd, u64)>,
    /// Of a host that is an image: its root, and what identifies that.
    pub root: Option<(Arc<Root>, u64)>,
    /// The container that it runs, if that is what it does.
    pub container: Option<Arc<Container>>,
    /// What its programs see as `/etc/hosts`.
    pub hosts_file: String,
    /// What else they see.
    pub mounts: Vec<FileMount>,
    /// What is in those files: with another text it is another program.
    pub files: Vec<HostFile>,
    /// Where it starts: the folder of the fabric file.
    pub folder: PathBuf,
    /// Where its output goes.
    pub output: PathBuf,
    /// Of a virtual machine, the file in which its guest writes with which status its command has ended.
    pub guest_status: Option<PathBuf>,
}

impl Launch {
    /// Whether a running program need not be started anew for this.
    fn is_same(&self, other: &Self) -> bool {
        let inode = |launch: &Self| launch.namespace.as_ref().map(|(_, inode)| *inode);
        let root = |launch: &Self| launch.root.as_ref().map(|(_, inode)| *inode);
        let container = |launch: &Self| launch.container.as_ref().map(|container| container.inode());
        let key = |launch: &Self| {
            (inode(launch), root(launch), container(launch), launch.folder.clone(), launch.files.clone())
        };
        self.program == other.program && key(self) == key(other)
    }

    /// How it has ended: a machine that was switched off as it should be ends as its guest's command did.
    fn status(&self, status: ExitStatus) -> ExitStatus {
        let read = || {
            // The guest may have put anything there.
            let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
            let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(self.guest_status.as_ref()?).ok()?;
            let mut text = String::new();
            file.take(STATUS_MAX).read_to_string(&mut text).ok()?;
            text.trim().parse::<u8>().ok()
        };
        match read() {
            Some(code) if status.success() => ExitStatus::from_raw(i32::from(code) << 8),
            _ => status,
        }
    }

    /// Has a command run where the program is to.
    fn enter(&self, command: &mut Command) -> io::Result<()> {
        let Some((namespace, _)) = &self.namespace else {
            command.env(process::MARKED, &self.hosts_file);
            return Ok(());
        };
        let descriptors = vec![namespace.try_clone()?];
        let root = self.root.as_ref().map(|(root, _)| RootView {
            namespace: root.as_fd(),
            folder: &root.image.folder,
            environment: &root.image.environment,
        });
        let root = root.or_else(|| self.container.as_ref().map(|container| container.view()));
        let seen = Seen { hosts_file: &self.hosts_file, mounts: &self.mounts, root };
        command::enter(command, &self.host, descriptors, seen).map_err(io::Error::other)
    }

    /// Ends what a container has left: its processes are not of the group of its runtime.
    fn remove_container(&self) -> io::Result<()> {
        let Some(container) = &self.container else { return Ok(()) };
        let words = container.remove();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.enter(&mut command)?;
        command::unblock_signals(&mut command);
        command::end_with_parent(&mut command);
        command.status().map(drop)
    }

    fn spawn(&self, output: &Arc<Output>) -> io::Result<Child> {
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(&self.program.run[0]);
        command.args(&self.program.run[1..]).stdin(Stdio::null());
        command.stdout(writer.try_clone()?).stderr(writer);
        if self.folder.is_dir() {
            command.current_dir(&self.folder);
        }
        // Its children are ended with it.
        command.process_group(0);
        self.enter(&mut command)?;
        if let Some(path) = &self.guest_status {
            // Of another start.
            let _ = fs::remove_file(path);
        }
        command::unblock_signals(&mut command);
        command::reset_umask(&mut command);
        command::end_with_parent(&mut command);
        let child = command.spawn()?;
        // Before what it says itself, however soon that is.
        output.note(&format!("started as process {}", child.id()));
        // The writing ends are the program's alone.
        drop(command);
        let output = Arc::clone(output);
        let copy = move || {
            let (mut reader, mut buffer) = (reader, [0; 8 << 10]);
            while let Ok(bytes @ 1..) = reader.read(&mut buffer) {
                output.write(&buffer[..bytes]);
            }
        };
        thread::Builder::new().name("output".to_owned()).spawn(copy)?;
        Ok(child)
    }
}

/// The programs of a network.
#[derive(Debug, Default)]
pub struct Programs {
    /// By host and name.
    all: BTreeMap<(String, String), Supervised>,
}

#[derive(Debug)]
struct Supervised {
    launch: Arc<Launch>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What a program's thread and others share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    stopped: Condvar,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    since: Instant,
    /// Its process, as long as nobody has waited for its end: until then no other process can have its number.
    pid: Option<Pid>,
    starts: u32,
    last: Option<String>,
    is_stopping: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a signal to the program and its children, if it runs.
    fn signal(&self, signal: Signal) {
        let state = self.lock();
        if let Some(pid) = state.pid {
            // It may have ended.
            let _ = killpg(pid, signal);
            // It may have left its group, in which its children may be still. Who has not gets one signal: to many programs, a second one is an order to give up.
            if getpgid(Some(pid)) != Ok(pid) {
                let _ = kill(pid, signal);
            }
        }
    }
}

impl State {
    fn enter(&mut self, phase: Phase) {
        (self.phase, self.since) = (phase, Instant::now());
    }
}

impl Programs {
    /// These run from now on, and no others. What runs already and is wanted as it is goes on. Which ones ran, and were started anew, by host and program.
    pub fn apply(&mut self, wanted: Vec<Launch>) -> Vec<(String, String)> {
        let mut wanted: BTreeMap<_, _> =
            wanted.into_iter().map(|launch| ((launch.host.clone(), launch.program.name.clone()), launch)).collect();
        let is_kept = |key: &(String, String), running: &Supervised| {
            wanted.get(key).is_some_and(|launch| launch.is_same(&running.launch))
        };
        let gone: Vec<_> =
            self.all.iter().filter(|(key, running)| !is_kept(key, running)).map(|(key, _)| key.clone()).collect();
        self.stop(|key| gone.contains(key));
        self.all.retain(|key, _| !gone.contains(key));
        wanted.retain(|key, _| !self.all.contains_key(key));
        let restarted = gone.into_iter().filter(|key| wanted.contains_key(key)).collect();
        for (key, launch) in wanted {
            match Supervised::start(Arc::new(launch), 0) {
                Ok(supervised) => _ = self.all.insert(key, supervised),
                Err(error) => tracing::error!("program {} of host {} is not started: {error}", key.1, key.0),
            }
        }
        restarted
    }

    /// Does something to the programs of a host, or to one of them, whatever their file says of being started again: how they do then; none if there are none. Where they run as the
    /// file has them, [`Programs::apply`] leaves them as they are.
    pub fn command(&mut self, host: &str, program: Option<&str>, command: ProgramCommand) -> Vec<ProgramState> {
        let is_meant = |key: &(String, String)| key.0 == host && program.is_none_or(|program| key.1 == program);
        let is_left =
            |running: &Supervised| command == ProgramCommand::Start && running.shared.lock().phase == Phase::Running;
        let meant = self.all.iter().filter(|(key, running)| is_meant(key) && !is_left(running));
        let keys: Vec<_> = meant.map(|(key, _)| key.clone()).collect();
        self.stop(|key| keys.contains(key));
        if command == ProgramCommand::Stop {
            let stopped = keys.iter().filter_map(|key| self.all.get(key));
            stopped.for_each(|program| program.shared.lock().enter(Phase::Stopped));
        } else {
            self.start_again(keys);
        }
        let mut states = self.states();
        states.retain(|state| is_meant(&(state.host.clone(), state.program.clone())));
        states
    }

    /// Starts programs that have ended, and waits until each has begun, or cannot.
    fn start_again(&mut self, keys: Vec<(String, String)>) {
        let mut begun = Vec::new();
        for key in keys {
            let Some(ended) = self.all.get_mut(&key) else { continue };
            let starts = ended.shared.lock().starts;
            match Supervised::start(Arc::clone(&ended.launch), starts) {
                Ok(supervised) => {
                    *ended = supervised;
                    begun.push((key, starts));
                }
                Err(error) => {
                    let mut state = ended.shared.lock();
                    state.last = Some(format!("cannot be started: {error}"));
                    state.enter(Phase::Ended);
                }
            }
        }
        let asked = Instant::now();
        let is_to_begin = |(key, starts): &((String, String), u32)| {
            self.all.get(key).is_some_and(|program| program.shared.lock().starts == *starts)
        };
        while asked.elapsed() < GRACE && begun.iter().any(is_to_begin) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends all.
    pub fn end(&mut self) {
        self.stop(|_| true);
        self.all.clear();
    }

    /// Ends these, if they run: they are not started again.
    fn stop(&mut self, is_meant: impl Fn(&(String, String)) -> bool) {
        let all = self.all.iter_mut().filter(|(key, _)| is_meant(key));
        let mut stopping: Vec<&mut Supervised> = all.map(|(_, program)| program).collect();
        for program in &stopping {
            program.shared.lock().is_stopping = true;
            program.shared.signal(Signal::SIGTERM);
            program.shared.stopped.notify_all();
        }
        let asked = Instant::now();
        let is_running = |program: &Supervised| program.shared.lock().phase == Phase::Running;
        while asked.elapsed() < GRACE && stopping.iter().any(|program| is_running(program)) {
            thread::sleep(Duration::from_millis(5));
        }
        for program in &mut stopping {
            program.shared.signal(Signal::SIGKILL);
            if let Some(thread) = program.thread.take() {
                // It does not panic.
                let _ = thread.join();
            }
        }
    }

    /// How they do, by host and name.
    pub fn states(&self) -> Vec<ProgramState> {
        let one = |((host, program), supervised): (&(String, String), &Supervised)| {
            let state = supervised.shared.lock();
            ProgramState {
                host: host.clone(),
                program: program.clone(),
                phase: state.phase,
                pid: state.pid.map(Pid::as_raw),
                starts: state.starts,
                since_ms: state.since.elapsed().as_millis() as u64,
                last: state.last.clone(),
                output: supervised.launch.output.to_string_lossy().into_owned(),
            }
        };
        self.all.iter().map(one).collect()
    }
}

impl Supervised {
    /// `starts`: how often it was started before.
    fn start(launch: Arc<Launch>, starts: u32) -> Result<Self, Error> {
        let output = Output::open(&launch.output).map_err(Error::path(&launch.output, "write a program's output"))?;
        let state =
            State { phase: Phase::Waiting, since: Instant::now(), pid: None, starts, last: None, is_stopping: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), stopped: Condvar::new() });
        let output = Arc::new(output);
        let supervise = {
            let (launch, shared) = (Arc::clone(&launch), Arc::clone(&shared));
            move || supervise(&launch, &shared, &output)
        };
        let thread = thread::Builder::new().name("program".to_owned()).spawn(supervise);
        let thread = thread.map_err(|source| Error::System { step: "start a program's thread", source })?;
        Ok(Self { launch, shared, thread: Some(thread) })
    }
}

/// Runs a program, again and again if it is to be so, until it is stopped.
fn supervise(launch: &Launch, shared: &Shared, output: &Arc<Output>) {
    let mut wait = WAIT_MIN;
    loop {
        let started = Instant::now();
        let (last, has_failed) = match run(launch, shared, output) {
            // It was stopped before it began.
            Ok(None) => return shared.lock().enter(Phase::Ended),
            Ok(Some(status)) => (status.to_string(), !status.success()),
            Err(error) => (format!("cannot be started: {error}"), true),
        };
        let mut state = shared.lock();
        state.last = Some(last.clone());
        let is_again = match launch.program.restart {
            Restart::Always => true,
            Restart::OnFailure => has_failed,
            Restart::Never => false,
        };
        if state.is_stopping || !is_again {
            output.note(&last);
            return state.enter(Phase::Ended);
        }
        if started.elapsed() > STEADY {
            wait = WAIT_MIN;
        }
        output.note(&format!("{last}; it is started again in {} s", wait.as_secs()));
        state.enter(Phase::Waiting);
        let waited = shared.stopped.wait_timeout_while(state, wait, |state| !state.is_stopping);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_stopping {
            return state.enter(Phase::Ended);
        }
        drop(state);
        wait = (wait * 2).min(WAIT_MAX);
    }
}

/// Runs a program once; `None`: it is to be stopped, and is not started any more.
fn run(launch: &Launch, shared: &Shared, output: &Arc<Output>) -> io::Result<Option<ExitStatus>> {
    let mut state = shared.lock();
    if state.is_stopping {
        return Ok(None);
    }
    state.starts += 1;
    let mut child = launch.spawn(output)?;
    let pid = Pid::from_raw(child.id().cast_signed());
    state.pid = Some(pid);
    state.enter(Phase::Running);
    drop(state);
    // Its number stays its own until it has been waited for.
    while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(nix::errno::Errno::EINTR) {}
    let mut state = shared.lock();
    // As long as nobody has waited for it, its group is its own. What it has left behind must not be in the way of what is started next.
    let _ = killpg(pid, Signal::SIGKILL);
    state.pid = None;
    drop(state);
    if let Err(error) = launch.remove_container() {
        output.note(&format!("what is left of its container is not removed: {error}"));
    }
    child.wait().map(|status| Some(launch.status(status)))
}

/// Where the output of a program of a host goes, below a folder: no other one's, though names have dots.
pub fn output_path(folder: &Path, host: &str, program: &str) -> PathBuf {
    folder.join(host).join(format!("{program}.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_programs_write_to_one_file() {
        let path = |host, program| output_path(Path::new("/run"), host, program);
        assert_eq!(path("h1", "web"), Path::new("/run/h1/web.log"));
        assert_ne!(path("h", "x.y"), path("h.x", "y"));
    }
}
