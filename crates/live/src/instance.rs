//! A network as its clients see it.

mod switches;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, BufRead, BufReader, IoSliceMut, Read, Write};
use std::iter;
use std::net::Shutdown;
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fabric::{LinkChange, Overrides, Source};
use nix::errno::Errno;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, getsockopt, recv, recvmsg};

use crate::Error;
use crate::command::{self, RootView, Seen};
use crate::control::{
    self, Applied, Counters, ImageView, Lines, LinksSet, OwnFiles, ProtocolError, REPLY_LIMIT, Reply, Request,
    StartupStatus, Status, SwitchBridge, VERSION,
};
use crate::convergence::UnconvergedBond;
use crate::programs::{ProgramCommand, ProgramState};
use crate::runtime::{Folder, State};

/// The longest thing that a daemon says when it comes up, bytes.
const START_UP_LIMIT: u64 = 64 << 10;

/// How long a daemon may take to say that it is there. It does so at once, unless the machine is very busy, or somebody has stopped it.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);

/// What to do about a daemon that ended without a word.
const START_HINT: &str = "`heddle clean` removes what it left; the kernel's log may say why it was ended";

/// How to start a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartOptions {
    /// The name of the network.
    pub name: String,
    /// Whether it ends with this process, or with the [`Instance`] if that is dropped earlier.
    pub ephemeral: bool,
    /// The program whose subcommand `daemon` calls [`crate::daemon::serve`]: usually the running one.
    pub program: PathBuf,
    /// How many threads forward; none: as many as the environment says, or half of the cores.
    pub workers: Option<u32>,
}

/// A connection to a network that is up.
#[derive(Debug)]
pub struct Instance {
    name: String,
    connection: Mutex<Connection>,
    daemon: Option<Daemon>,
}

/// The daemon, if we are its parent.
#[derive(Debug)]
struct Daemon {
    child: Child,
    /// It ends when this is closed.
    lifeline: Option<ChildStdin>,
}

impl Instance {
    /// Starts a network without hosts; [`Instance::apply`] fills it.
    ///
    /// # Errors
    /// [`Error::Start`] with what the daemon said, among others that the name is in use.
    pub fn start(options: &StartOptions) -> Result<Self, Error> {
        crate::runtime::check_name(&options.name)?;
        let mut command = Command::new(&options.program);
        command.args(["daemon", "--instance", &options.name]).stdout(Stdio::piped()).stderr(Stdio::null());
        command.stdin(if options.ephemeral { Stdio::piped() } else { Stdio::null() });
        if options.ephemeral {
            command.arg("--ephemeral");
        }
        command.envs(crate::runtime::own().map(|folder| ("XDG_RUNTIME_DIR", folder)));
        command.envs(options.workers.map(|workers| ("HEDDLE_WORKERS", workers.to_string())));
        command::leave_descriptors(&mut command);
        let mut child = command.spawn().map_err(Error::path(&options.program, "start it"))?;
        let lifeline = child.stdin.take();
        if let Err(error) = read_start_up(&mut child) {
            // It has ended, or is about to.
            let _ = child.wait();
            return Err(error);
        }
        let mut instance = Self::connect(&options.name)?.ok_or(Error::Gone)?;
        instance.daemon = Some(Daemon { child, lifeline });
        Ok(instance)
    }

    /// Connects to the network `name`; `None` if it is not up.
    ///
    /// # Errors
    /// If its daemon cannot be talked to.
    pub fn connect(name: &str) -> Result<Option<Self>, Error> {
        let Some(instance) = Self::connect_within(name, HELLO_PATIENCE)? else { return Ok(None) };
        // What is asked from now on may take long.
        instance.set_patience(None)?;
        Ok(Some(instance))
    }

    /// The same, with a time for each reply: a daemon that takes longer is [`Error::Silent`].
    pub(crate) fn connect_within(name: &str, patience: Duration) -> Result<Option<Self>, Error> {
        let folder = Folder::of(name)?;
        let Some(state) = folder.state().filter(State::is_alive) else { return Ok(None) };
        let stream = UnixStream::connect(folder.socket()).map_err(|error| match error.kind() {
            // It ended since we looked.
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Error::Gone,
            _ => Error::path(folder.socket_name(), "connect to it")(error),
        })?;
        check_owner(name, &stream)?;
        let (instance, lines) = (name.to_owned(), Lines::new(REPLY_LIMIT));
        let connection = Connection { stream, lines, descriptors: Vec::new(), instance, pid: state.pid };
        let instance = Self { name: name.to_owned(), connection: Mutex::new(connection), daemon: None };
        instance.set_patience(Some(patience))?;
        match instance.ask(&Request::Hello { version: VERSION })? {
            Reply::Hello { version: VERSION } => Ok(Some(instance)),
            Reply::Hello { version } => Err(ProtocolError::Version { theirs: version }.into()),
            _ => Err(unexpected("hello")),
        }
    }

    fn set_patience(&self, patience: Option<Duration>) -> Result<(), Error> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.stream.set_read_timeout(patience).map_err(|source| Error::System { step: "limit a wait", source })
    }

    /// Whether its daemon has ended: hosts' programs may go on, and reach nobody.
    pub fn has_ended(&self) -> bool {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        !matches!(recv(connection.stream.as_raw_fd(), &mut [0], flags), Ok(1) | Err(Errno::EAGAIN | Errno::EINTR))
    }

    /// Names of this user's networks that are up and outlast the client that started them, in order.
    ///
    /// # Errors
    /// If the runtime folder cannot be read.
    pub fn list() -> Result<Vec<String>, Error> {
        Self::list_where(|state| !state.ephemeral)
    }

    /// Names of all of this user's networks that are up, also those that end with a client, in order.
    ///
    /// # Errors
    /// If the runtime folder cannot be read.
    pub fn list_all() -> Result<Vec<String>, Error> {
        Self::list_where(|_| true)
    }

    fn list_where(wanted: impl Fn(&State) -> bool) -> Result<Vec<String>, Error> {
        let up = |(name, folder): (String, Folder)| {
            folder.state().is_some_and(|state| state.is_alive() && wanted(&state)).then_some(name)
        };
        Ok(Folder::all()?.into_iter().filter_map(up).collect())
    }

    /// The name of the network.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its runtime folder, of this user only: what is put there goes when the network does.
    ///
    /// # Errors
    /// If there is no runtime folder.
    pub fn folder(&self) -> Result<PathBuf, Error> {
        Ok(Folder::of(&self.name)?.path())
    }

    /// Makes the network what a file says, with `overrides`. What is the same in both stays untouched, with its processes,
    /// connections and packets under way.
    ///
    /// # Errors
    /// [`Error::Refused`]: the file or the machine does not allow it, and nothing has changed.
    pub fn apply(&self, source: &Source, overrides: &Overrides) -> Result<Applied, Error> {
        let (name, text) = (source.name.clone(), source.text.clone());
        let folder = folder_of(source).to_string_lossy().into_owned();
        match self.ask(&Request::Apply { name, folder, text, overrides: overrides.clone() })? {
            Reply::Applied(applied) => Ok(applied),
            _ => Err(unexpected("apply")),
        }
    }

    /// What the network is.
    ///
    /// # Errors
    /// If the daemon has gone.
    pub fn status(&self) -> Result<Status, Error> {
        match self.ask(&Request::Status)? {
            Reply::Status(status) => Ok(status),
            _ => Err(unexpected("status")),
        }
    }

    /// What has been counted.
    ///
    /// # Errors
    /// If the daemon has gone.
    pub fn counters(&self) -> Result<Counters, Error> {
        match self.ask(&Request::Counters)? {
            Reply::Counters(counters) => Ok(*counters),
            _ => Err(unexpected("counters")),
        }
    }

    /// Ends of bonds in 802.3ad that do not carry all that they can, in the order of [`fabric::Fabric::bonds`]: those of which a member
    /// has a carrier and does not send, or has no partner with LACP.
    ///
    /// # Errors
    /// If the daemon has gone.
    pub fn unconverged(&self) -> Result<Vec<UnconvergedBond>, Error> {
        match self.ask(&Request::Unconverged)? {
            Reply::Unconverged(bonds) => Ok(bonds),
            _ => Err(unexpected("unconverged")),
        }
    }

    /// Takes the carrier from the links between two nodes (`up`: false), or gives it back: of the one with this number among
    /// parallel ones, counted from 1, or of all of them. What is under way is lost; bonds hear of it at once.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such link; it says which there are.
    pub fn set_link(&self, a: &str, b: &str, number: Option<u32>, up: bool) -> Result<LinksSet, Error> {
        match self.ask(&Request::SetLink { a: a.to_owned(), b: b.to_owned(), number, up })? {
            Reply::Links(set) => Ok(set),
            _ => Err(unexpected("link")),
        }
    }

    /// Changes what the links between two nodes do to packets, in both directions: of the one with this number among parallel ones, counted from 1, or
    /// of all of them. All else stays untouched. It holds until a file is applied. How many links do something else now.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such link, or the change is of no use there; nothing has changed.
    pub fn change_link(&self, a: &str, b: &str, number: Option<u32>, change: &LinkChange) -> Result<usize, Error> {
        let (a, b, change) = (a.to_owned(), b.to_owned(), change.clone());
        match self.ask(&Request::ChangeLink { a, b, number, change })? {
            Reply::LinksChanged(changed) => Ok(changed),
            _ => Err(unexpected("change")),
        }
    }

    /// How the programs of hosts do that start with the network, by host and name.
    ///
    /// # Errors
    /// If the daemon has gone.
    pub fn programs(&self) -> Result<Vec<ProgramState>, Error> {
        match self.ask(&Request::Programs)? {
            Reply::Programs(programs) => Ok(programs),
            _ => Err(unexpected("programs")),
        }
    }

    /// Starts or ends the programs of a host, or one of them: how they do then. None if there are none.
    ///
    /// # Errors
    /// If the daemon has gone.
    pub fn command_programs(
        &self,
        host: &str,
        program: Option<&str>,
        command: ProgramCommand,
    ) -> Result<Vec<ProgramState>, Error> {
        let request = Request::CommandPrograms { host: host.to_owned(), program: program.map(str::to_owned), command };
        match self.ask(&request)? {
            Reply::Programs(programs) => Ok(programs),
            _ => Err(unexpected("command-programs")),
        }
    }

    /// How switches choose, as salts of their hashes: by switch, and behind them by multi-homed host, as [`Topology::switches`] and
    /// [`Topology::multi_homed`] have them.
    ///
    /// # Errors
    /// If the daemon has gone.
    ///
    /// [`Topology::switches`]: topology::Topology::switches
    /// [`Topology::multi_homed`]: topology::Topology::multi_homed
    pub fn salts(&self) -> Result<Vec<u64>, Error> {
        match self.ask(&Request::Salts)? {
            Reply::Salts(salts) => Ok(salts),
            _ => Err(unexpected("salts")),
        }
    }

    /// How switches stand that speak RSTP; empty where none does.
    ///
    /// # Errors
    /// [`Error::Gone`] and others if it does not answer.
    pub fn bridges(&self) -> Result<Vec<SwitchBridge>, Error> {
        match self.ask(&Request::Bridges)? {
            Reply::Bridges(bridges) => Ok(bridges),
            _ => Err(unexpected("bridges")),
        }
    }

    /// A command of this machine that will run in `host`: in its network, with its hostname, and with an `/etc/hosts` that names all hosts.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such host.
    pub fn command(
        &self,
        host: &str,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Command, Error> {
        self.command_seeing(host, false, program, args)
    }

    /// A command of a host: as [`Self::command`], but one of its image, if the host has one, or one that begins in its container.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such host, or its container does not run.
    pub fn command_of_host(
        &self,
        host: &str,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Command, Error> {
        self.command_seeing(host, true, program, args)
    }

    /// Whether a host has files of its own: an image as its root, or a container.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such host, or its container does not run.
    pub fn has_own_files(&self, host: &str) -> Result<bool, Error> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = connection.ask(&Request::Enter { host: host.to_owned() })?;
        connection.descriptors.clear();
        Ok(matches!(reply, Reply::Enter { own: Some(_), .. }))
    }

    fn command_seeing(
        &self,
        host: &str,
        sees_own: bool,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Command, Error> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = connection.ask(&Request::Enter { host: host.to_owned() })?;
        let mut descriptors = std::mem::take(&mut connection.descriptors);
        let Reply::Enter { hosts_file, mounts, own } = reply else { return Err(unexpected("enter")) };
        let own = own.as_ref().and_then(|own| Some((descriptors.pop()?, own))).filter(|_| sees_own);
        let words =
            iter::once(program.as_ref().to_owned()).chain(args.into_iter().map(|word| word.as_ref().to_owned()));
        let words: Vec<OsString> = words.collect();
        let by_itself = || {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        };
        let (root, mut command) = match &own {
            Some((namespace, OwnFiles::Image(ImageView { folder, environment }))) => {
                (Some(RootView { namespace: namespace.as_fd(), folder, environment }), by_itself())
            }
            Some((namespace, OwnFiles::Container(view))) => {
                (Some(RootView { namespace: namespace.as_fd(), folder: "/", environment: &[] }), view.start(&words)?)
            }
            None => (None, by_itself()),
        };
        // Found missing only after the fork, it would look as if the program were missing.
        std::fs::metadata("/etc/hosts").map_err(Error::path("/etc/hosts", "lay the hosts' names over it"))?;
        command::enter(&mut command, host, descriptors, Seen { hosts_file: &hosts_file, mounts: &mounts, root })?;
        Ok(command)
    }

    /// Whether all programs of its hosts are of one user: an ordinary one brought it up, who has no subordinate ids. Programs that want to become another user fail then.
    pub fn has_one_user(&self) -> bool {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let map = std::fs::read_to_string(format!("/proc/{}/uid_map", connection.pid)).unwrap_or_default();
        crate::subordinate_ids::has_one(&map)
    }

    /// Captures what crosses links: at all ports of a node (`h1`), at one (`leaf1:2`), or at a link (`h1-leaf1`). The connection is the capture's from then on.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such place, or the filter is none.
    pub fn capture(self, wanted: &CaptureOptions) -> Result<CaptureStream, Error> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let CaptureOptions { target, filter, snaplen, count } = wanted.clone();
        match connection.ask(&Request::Capture { target, filter, snaplen, count })? {
            Reply::Capture { ports } => {
                let stream = connection.stream.try_clone().map_err(|_| Error::Gone)?;
                Ok(CaptureStream { ports, rest: connection.lines.take_rest(), stream })
            }
            _ => Err(unexpected("capture")),
        }
    }

    /// Ends the network and the processes in its hosts.
    ///
    /// # Errors
    /// If the daemon cannot be talked to, or has ended without some of its workers.
    pub fn down(mut self) -> Result<(), Error> {
        let refused = match self.ask(&Request::Down) {
            Ok(Reply::Down) => Ok(()),
            Ok(_) => return Err(unexpected("down")),
            // It ends whatever it has to say.
            Err(refused @ Error::Refused { .. }) => Err(refused),
            Err(error) => return Err(error),
        };
        self.see_it_end();
        refused
    }

    /// Waits until the daemon has gone: it closes the connection last, with all it has.
    fn see_it_end(&mut self) {
        let connection = self.connection.get_mut().unwrap_or_else(PoisonError::into_inner);
        // An error means the same as the end.
        let _ = connection.stream.read_to_end(&mut Vec::new());
        if let Some(mut daemon) = self.daemon.take() {
            drop(daemon.lifeline.take());
            let _ = daemon.child.wait();
        }
    }

    fn ask(&self, request: &Request) -> Result<Reply, Error> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner).ask(request)
    }
}

/// What is to be captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureOptions {
    /// A node, one of its ports or a link: `h1`, `leaf1:2`, `h1-leaf1`.
    pub target: String,
    /// As pcap-filter(7) has it; empty: everything.
    pub filter: String,
    /// So many bytes of each frame.
    pub snaplen: u32,
    /// So many frames; if not said, until [`CaptureStream::stop`].
    pub count: Option<u64>,
}

/// A capture that is under way: a pcapng that can be read ([`crate::sniffer::pcapng::Blocks`]), with statistics at its end.
#[derive(Debug)]
pub struct CaptureStream {
    /// The ports at which is looked, by the number of the interface: `leaf1:2 (to h1)`.
    pub ports: Vec<String>,
    /// What has come with the reply.
    rest: Vec<u8>,
    stream: UnixStream,
}

impl CaptureStream {
    /// Says that nothing more is wanted. What was seen until then can still be read, and so can the statistics.
    pub fn stop(&self) {
        // It fails only if the network's process has gone.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// How long a read waits: it is [`io::ErrorKind::WouldBlock`] then.
    ///
    /// # Errors
    /// If the kernel does not take it.
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))
    }
}

impl Read for CaptureStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            return self.stream.read(buffer);
        }
        let bytes = self.rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&self.rest[..bytes]);
        self.rest.drain(..bytes);
        Ok(bytes)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.as_mut().filter(|daemon| daemon.lifeline.is_some()) {
            drop(daemon.lifeline.take());
            // It ends by itself now, within seconds.
            let _ = daemon.child.wait();
        }
    }
}

/// The folder that files which a fabric file names are relative to: its own. Of what comes from standard input, it is the working directory.
pub fn folder_of(source: &Source) -> PathBuf {
    let path = std::path::absolute(&source.name).unwrap_or_default();
    path.parent().map(Path::to_owned).unwrap_or_default()
}

/// Whoever listens has to be this user: programs of this user run in what it hands out.
fn check_owner(name: &str, stream: &UnixStream) -> Result<(), Error> {
    let daemon = getsockopt(stream, PeerCredentials).map_err(Error::system("see whose a network is"))?;
    if daemon.uid() == nix::unistd::geteuid().as_raw() {
        return Ok(());
    }
    Err(Error::OtherUser { instance: name.to_owned(), owner: daemon.uid() })
}

/// Waits for what a daemon says about its own start.
fn read_start_up(child: &mut Child) -> Result<(), Error> {
    let mut line = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout.take(START_UP_LIMIT));
        reader.read_until(b'\n', &mut line).map_err(|source| Error::System { step: "hear of its start", source })?;
    }
    match control::decode(&line) {
        Ok(StartupStatus::Ready) => Ok(()),
        Ok(StartupStatus::Failed { message, hint }) => Err(Error::Start { message, hint }),
        Err(_) => {
            let end = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            Err(Error::Start { message: format!("it ended without a word ({end})"), hint: Some(START_HINT.to_owned()) })
        }
    }
}

fn unexpected(request: &'static str) -> Error {
    ProtocolError::Unexpected(match request {
        "hello" => "reply other than hello",
        "apply" => "reply other than what was applied",
        "status" => "reply other than the status",
        "counters" => "reply other than counters",
        "unconverged" => "reply other than the bonds",
        "programs" => "reply other than the hosts' programs",
        "salts" => "reply other than the switches' salts",
        "link" => "reply other than the links",
        "change" => "reply other than how many links were changed",
        "change flows" => "reply other than how many flows were changed",
        "flows" => "reply other than flows",
        "connections" => "reply other than connections",
        "trace" => "reply other than what a packet meets",
        "enter" => "reply other than the way into a host",
        "capture" => "reply other than the capture's ports",
        _ => "reply other than the end",
    })
    .into()
}

struct Connection {
    stream: UnixStream,
    lines: Lines,
    /// Descriptors that came and were not yet asked for.
    descriptors: Vec<OwnedFd>,
    /// The network, and its daemon's process.
    instance: String,
    pid: i32,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

impl Connection {
    fn ask(&mut self, request: &Request) -> Result<Reply, Error> {
        self.stream.write_all(&control::encode(request)).map_err(|_| Error::Gone)?;
        loop {
            if let Some(line) = self.lines.take_line()? {
                return match control::decode(&line)? {
                    Reply::Refused { message, hint, at } => Err(Error::Refused { message, hint, at }),
                    reply => Ok(reply),
                };
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> Result<(), Error> {
        let mut buffer = vec![0; 64 << 10];
        // A network namespace, a user namespace, and a mount namespace.
        let mut space = nix::cmsg_space!([std::os::fd::RawFd; 3]);
        let mut data = [IoSliceMut::new(&mut buffer)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(self.stream.as_raw_fd(), &mut data, Some(&mut space), flags).map_err(|errno| {
            let is_late = errno == Errno::EAGAIN;
            if is_late { Error::Silent { instance: self.instance.clone(), pid: self.pid } } else { Error::Gone }
        })?;
        for content in message.cmsgs().map_err(|_| Error::Gone)? {
            if let ControlMessageOwned::ScmRights(raw) = content {
                self.descriptors.extend(raw.into_iter().map(command::own));
            }
        }
        let received = message.bytes;
        if received == 0 {
            return Err(Error::Gone);
        }
        self.lines.push(&buffer[..received]);
        Ok(())
    }
}
