//! The process behind a live network: it holds the namespaces and the devices, runs the workers, and listens for its clients.
//!
//! Whatever the kernel lends it hangs on its file descriptors. When it is killed, all that is left are processes that run in
//! hosts and the runtime folder: [`crate::clean`] finds both.

mod capture;

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use fabric::Source;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{ControlMessage, MsgFlags, getsockopt, sendmsg};
use vswitch::Pipelines;

pub use crate::clock::LIMIT as CLOCK_LIMIT;
use crate::control::{self, Lines, ProtocolError, REQUEST_LIMIT, Reply, Request, StartupStatus, VERSION};
use crate::namespace::Namespace;
use crate::network::Network;
use crate::runtime::{self, Folder, State};
use crate::tap::Tap;
use crate::uplink::Outside;
use crate::{Error, clean, dataplane, device, namespace};

/// Clients at one time.
const CLIENTS_MAX: usize = 128;

/// How often ports are looked at that have said nothing.
const BRIDGES_PATIENCE: Duration = Duration::from_secs(1);

/// How long a client may leave a reply unread.
const REPLY_PATIENCE: Duration = Duration::from_secs(5);

/// The arguments of `heddle daemon`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the network.
    pub instance: String,
    /// What its switches do besides forwarding along the routes.
    pub pipelines: Pipelines,
    /// End when standard input ends: the client that started it holds the other end, so it ends with that client however that
    /// one dies.
    pub ephemeral: bool,
    /// How long its clock is to have run already, for tests of what happens after months.
    pub clock_age: Duration,
}

impl Options {
    /// For a network of this name, whose switches have no pipelines.
    pub fn new(instance: &str, ephemeral: bool) -> Self {
        Self { instance: instance.to_owned(), pipelines: Pipelines::default(), ephemeral, clock_age: Duration::ZERO }
    }
}

/// Runs a network until somebody ends it: the body of the hidden subcommand `daemon`. It is to be called at the start of a process
/// of its own, before any thread is made, since a process with threads cannot enter a user namespace.
///
/// On standard output it says, once, whether it came up; that is for [`crate::Instance::start`].
///
/// # Errors
/// Whatever kept it from coming up. The one who started it knows already.
pub fn serve(options: &Options) -> Result<(), Error> {
    match Daemon::come_up(options) {
        Ok(daemon) => {
            say(&StartupStatus::Ready);
            daemon.run()
        }
        Err(error) => {
            say(&StartupStatus::Failed { message: error.to_string(), hint: error.hint() });
            Err(error)
        }
    }
}

/// Reports to the process that started this one. It may be gone.
fn say(status: &StartupStatus) {
    let mut out = io::stdout();
    let _ = out.write_all(&control::encode(status)).and_then(|()| out.flush());
}

struct Daemon {
    folder: Folder,
    listener: UnixListener,
    signals: SignalFd,
    ephemeral: bool,
    /// How many clients there were.
    accepted: u64,
    shared: Arc<Shared>,
}

/// What the threads of the clients share.
struct Shared {
    /// `None` once it has ended.
    network: Mutex<Option<Network>>,
    /// Whether a thread watches devices of the machine.
    watching: AtomicBool,
    /// Whether a thread has routes follow RSTP.
    following: AtomicBool,
    user_namespace: Option<OwnedFd>,
    /// Rung when a client has ended the network.
    ended: EventFd,
    clients: Mutex<Vec<Client>>,
}

/// A client that is being served.
struct Client {
    number: u64,
    /// So that it can be cut off.
    stream: UnixStream,
    /// Whether it has said what it is for.
    greeted: bool,
    /// Whether it waits for us.
    served: bool,
    heard: Instant,
}

impl Daemon {
    fn come_up(options: &Options) -> Result<Self, Error> {
        let name = &options.instance;
        let folder = Folder::of(name)?;
        clean::clean_one(&folder)?;
        Tap::probe().map_err(|source| Error::Tun { source })?;
        dataplane::probe()?;
        folder.create(name)?;
        Self::open(options, folder.clone()).inspect_err(|_| {
            // What went wrong first is what counts.
            let _ = folder.remove();
        })
    }

    fn open(options: &Options, folder: Folder) -> Result<Self, Error> {
        let mark = mark()?;
        // The folder in which it was started can be unmounted or removed.
        nix::unistd::chdir("/").map_err(Error::system("leave the working directory"))?;
        // It fails for who leads a session already.
        let _ = nix::unistd::setsid();
        nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
        let mut uplinks = Outside::start();
        log_to(&folder)?;
        let outside = Namespace::current()
            .map_err(|source| Error::System { step: "open the machine's network namespace", source })?;
        let user_namespace = namespace::isolate()?;
        if let (Some(uplinks), Some(user)) = (&mut uplinks, &user_namespace) {
            let user = user.try_clone().map_err(|source| Error::System { step: "copy a descriptor", source })?;
            uplinks.set_user_namespace(Some(user));
        }
        let signals = take_signals()?;
        let listener = UnixListener::bind(folder.socket());
        let listener = listener.map_err(Error::path(folder.socket_name(), "listen at it"))?;
        // Clients that see this connect at once.
        let pid = nix::unistd::getpid().as_raw();
        let started = runtime::started(pid).unwrap_or_default();
        folder.write_state(&State { pid, started, mark: mark.clone(), ephemeral: options.ephemeral })?;
        let ended = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).map_err(Error::system("make an eventfd"))?;
        let network = Network::new(options, (outside, uplinks), folder.hosts(&mark), mark, raise_file_limit()?);
        let shared = Shared {
            network: Mutex::new(Some(network)),
            watching: AtomicBool::new(false),
            following: AtomicBool::new(false),
            user_namespace,
            ended,
            clients: Mutex::default(),
        };
        Ok(Self { folder, listener, signals, ephemeral: options.ephemeral, accepted: 0, shared: Arc::new(shared) })
    }

    /// Serves clients until one of them, a signal, or the end of standard input ends the network.
    fn run(mut self) -> Result<(), Error> {
        let null = fs::File::options().write(true).open("/dev/null").map_err(Error::path("/dev/null", "open it"))?;
        nix::unistd::dup2_stdout(&null).map_err(Error::system("close standard output"))?;
        tracing::info!("up");
        keep_clock(&self.shared)?;
        loop {
            match self.wait()? {
                Event::Client => match self.listener.accept() {
                    Ok((stream, _)) => self.welcome(stream),
                    Err(error) => tracing::warn!("a client could not be accepted: {error}"),
                },
                Event::Nothing => {}
                Event::End(why) => {
                    tracing::info!("ending: {why}");
                    let ended = self.shared.end();
                    return self.folder.remove().and(ended);
                }
            }
        }
    }

    fn wait(&self) -> Result<Event, Error> {
        let stdin = io::stdin();
        let watch = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = vec![watch(self.listener.as_fd()), watch(self.signals.as_fd()), watch(self.shared.ended.as_fd())];
        if self.ephemeral {
            fds.push(watch(stdin.as_fd()));
        }
        match poll(&mut fds, PollTimeout::NONE) {
            // Stopped and continued, by a debugger or a shell.
            Err(Errno::EINTR) => return Ok(Event::Nothing),
            result => result.map_err(Error::system("wait for clients"))?,
        };
        let ready = |at: usize| fds.get(at).is_some_and(|fd| fd.any().unwrap_or(false));
        Ok(if ready(2) {
            Event::End("a client says so")
        } else if ready(1) {
            Event::End("a signal says so")
        } else if ready(3) && is_closed(&stdin) {
            Event::End("the client that it was for has gone")
        } else if ready(0) {
            Event::Client
        } else {
            Event::Nothing
        })
    }

    fn welcome(&mut self, stream: UnixStream) {
        self.accepted += 1;
        let number = self.accepted;
        if !self.shared.admit(number, &stream) {
            tracing::warn!("a client was turned away: {CLIENTS_MAX} are being served");
            return;
        }
        let shared = Arc::clone(&self.shared);
        let served = thread::Builder::new().name("client".to_owned()).spawn(move || {
            if let Err(error) = converse(number, &stream, &shared) {
                tracing::warn!("a client was cut off: {error}");
            }
            shared.forget(number);
        });
        if let Err(error) = served {
            self.shared.forget(number);
            tracing::warn!("a client could not be served: {error}");
        }
    }
}

/// Ends a network, without the workers that do not end.
fn end(network: Option<Network>) -> Result<(), Error> {
    let left = network.map(Network::end).unwrap_or_default();
    if left.is_empty() { Ok(()) } else { Err(Error::LeftBehind { workers: left }) }
}

enum Event {
    Nothing,
    Client,
    End(&'static str),
}

impl Shared {
    /// Ends the network, if it has not ended yet.
    fn end(&self) -> Result<(), Error> {
        end(self.network.lock().unwrap_or_else(PoisonError::into_inner).take())
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a client a place, if need be that of one that has been silent for longest; false if all are being answered.
    fn admit(&self, number: u64, stream: &UnixStream) -> bool {
        let Ok(stream) = stream.try_clone() else { return false };
        let mut clients = self.clients();
        if clients.len() >= CLIENTS_MAX {
            let silent = clients.iter().enumerate().filter(|(_, client)| !client.served);
            // A client that has never said a word goes first.
            let Some((at, _)) = silent.min_by_key(|(_, client)| (client.greeted, client.heard)) else { return false };
            tracing::warn!("a silent client is cut off for another one: {CLIENTS_MAX} are being served");
            // It fails only if the client has gone.
            let _ = clients.swap_remove(at).stream.shutdown(Shutdown::Both);
        }
        clients.push(Client { number, stream, greeted: false, served: false, heard: Instant::now() });
        true
    }

    fn forget(&self, number: u64) {
        self.clients().retain(|client| client.number != number);
    }

    /// Notes that a client has asked something, or been answered.
    fn note(&self, number: u64, served: bool) {
        if let Some(client) = self.clients().iter_mut().find(|client| client.number == number) {
            (client.greeted, client.served, client.heard) = (true, served, Instant::now());
        }
    }

    fn answer(&self, request: Request) -> Result<Reply, Error> {
        let mut guard = self.network.lock().unwrap_or_else(PoisonError::into_inner);
        let network = guard.as_mut().ok_or(Error::Gone)?;
        Ok(match request {
            Request::Hello { version } if version == VERSION => Reply::Hello { version },
            Request::Hello { version } => return Err(ProtocolError::Version { theirs: version }.into()),
            Request::Status => Reply::Status(network.status()),
            Request::Apply { name, folder, text, overrides } => {
                Reply::Applied(network.apply(Source { name, text }, folder.into(), &overrides)?)
            }
            Request::Counters => Reply::Counters(Box::new(network.counters())),
            Request::Unconverged => Reply::Unconverged(network.unconverged()),
            Request::Programs => Reply::Programs(network.programs()),
            Request::CommandPrograms { host, program, command } => {
                Reply::Programs(network.command_programs(&host, program.as_deref(), command))
            }
            Request::Bridges => Reply::Bridges(network.bridges()),
            Request::Salts => Reply::Salts(network.salts()),
            Request::SetLink { a, b, number, up } => Reply::Links(network.set_link(&a, &b, number, up)?),
            Request::ChangeLink { a, b, number, change } => {
                Reply::LinksChanged(network.change_link(&a, &b, number, &change)?)
            }
            Request::AddPort(port) => {
                network.add_port(port)?;
                Reply::PortsChanged
            }
            Request::SetPort(port) => {
                network.set_port(port)?;
                Reply::PortsChanged
            }
            Request::RemovePort { switch, port } => {
                network.remove_port(&switch, &port)?;
                Reply::PortsChanged
            }
            Request::ChangeFlows { switch, command, strict, texts } => {
                Reply::FlowsChanged(network.change_flows(&switch, (command, strict), &texts)?)
            }
            Request::Flows { switch, selection } => Reply::Flows(network.flows(switch.as_deref(), &selection)?),
            Request::Connections { switch } => Reply::Connections(network.connections(switch.as_deref())?),
            Request::Macs { switch } => Reply::Macs(network.macs(switch.as_deref())?),
            Request::FlushConnections { switch, zone } => {
                Reply::ConnectionsFlushed(network.flush_connections(switch.as_deref(), zone)?)
            }
            Request::FlushMacs { switch } => Reply::MacsFlushed(network.flush_macs(switch.as_deref())?),
            Request::ChangeServer { service, server, change } => {
                network.change_server(&service, &server, change)?;
                Reply::ServerChanged
            }
            Request::Trace { switch, packet } => Reply::Traced(network.trace(&switch, &packet)?),
            Request::Enter { host } => {
                network.host(&host)?;
                let hosts_file = network.hosts_file().to_string_lossy().into_owned();
                let own = network.own_files(&host)?;
                Reply::Enter { hosts_file, mounts: network.mounts(&host).to_vec(), own }
            }
            // It is answered by what comes behind its reply: see `capture.rs`.
            Request::Capture { .. } => return Err(ProtocolError::Unexpected("capture here").into()),
            Request::Down => {
                end(guard.take())?;
                Reply::Down
            }
        })
    }

    /// The descriptors that go with the reply to [`Request::Enter`].
    fn entrance(&self, host: &str) -> Result<Vec<OwnedFd>, Error> {
        let guard = self.network.lock().unwrap_or_else(PoisonError::into_inner);
        let network = guard.as_ref().ok_or(Error::Gone)?;
        let copy = |fd: BorrowedFd<'_>| {
            fd.try_clone_to_owned().map_err(|source| Error::System { step: "copy a descriptor", source })
        };
        let net = copy(network.host(host)?.namespace().as_fd())?;
        let user = self.user_namespace.as_ref().map(|user| copy(user.as_fd())).transpose()?;
        let root = network.root(host).map(|root| copy(root.as_fd()));
        let own = root.or_else(|| network.container(host).map(|container| copy(container.as_fd()))).transpose()?;
        Ok([Some(net), user, own].into_iter().flatten().collect())
    }
}

/// Answers a client until it goes away.
fn converse(number: u64, stream: &UnixStream, shared: &Arc<Shared>) -> Result<(), Error> {
    let io = |source| Error::System { step: "talk to a client", source };
    let peer = getsockopt(stream, PeerCredentials).map_err(Error::system("see who a client is"))?;
    if peer.uid() != nix::unistd::geteuid().as_raw() {
        tracing::warn!("a client of user {} was turned away", peer.uid());
        return Ok(());
    }
    stream.set_write_timeout(Some(REPLY_PATIENCE)).map_err(io)?;
    let mut lines = Lines::new(REQUEST_LIMIT);
    let mut buffer = vec![0; 64 << 10];
    let mut greeted = false;
    loop {
        let line = match lines.take_line() {
            Ok(Some(line)) => line,
            Ok(None) => {
                let n = (&*stream).read(&mut buffer).map_err(io)?;
                if n == 0 {
                    return Ok(());
                }
                lines.push(&buffer[..n]);
                continue;
            }
            Err(error) => return refuse(stream, error.into()),
        };
        let request: Request = match control::decode(&line) {
            Ok(request) => request,
            Err(error) => return refuse(stream, error.into()),
        };
        if !greeted && !matches!(request, Request::Hello { .. }) {
            return refuse(stream, ProtocolError::Unexpected("request before the hello").into());
        }
        greeted = true;
        shared.note(number, true);
        if let Request::Capture { target, filter, snaplen, count } = request {
            match shared.begin_capture(&target, &filter, snaplen) {
                Ok(begun) => return capture::serve(begun, count, stream, shared),
                Err(error) => send(stream, &refusal(&error), &[])?,
            }
            shared.note(number, false);
            continue;
        }
        reply_to(request, stream, shared)?;
        shared.note(number, false);
    }
}

fn reply_to(request: Request, stream: &UnixStream, shared: &Arc<Shared>) -> Result<(), Error> {
    let descriptors = match &request {
        Request::Enter { host } => shared.entrance(host),
        _ => Ok(Vec::new()),
    };
    let ending = request == Request::Down;
    let reply = descriptors.and_then(|descriptors| Ok((shared.answer(request)?, descriptors)));
    watch_devices(shared);
    follow_bridges(shared);
    let sent = match reply {
        Ok((reply, descriptors)) => send(stream, &reply, &descriptors),
        Err(error) => send(stream, &refusal(&error), &[]),
    };
    if ending {
        // It fails only when the counter is at its end, and then the main thread is being woken already.
        let _ = shared.ended.write(1);
    }
    sent
}

/// Starts the thread that watches the carriers of the machine's devices, once there are any.
fn watch_devices(shared: &Arc<Shared>) {
    let outside = {
        let guard = shared.network.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(network) = guard.as_ref().filter(|network| network.has_devices()) else { return };
        if shared.watching.swap(true, Ordering::Relaxed) {
            return;
        }
        network.outside().try_clone()
    };
    let shared = Arc::clone(shared);
    let look = move || {
        let mut guard = shared.network.lock().unwrap_or_else(PoisonError::into_inner);
        guard.as_mut().map(|network| network.look_at_carriers(false)).is_some()
    };
    let watch = move || {
        let outside =
            outside.map_err(|source| Error::System { step: "keep the machine's network namespace", source })?;
        device::watch(&outside, look)
    };
    let thread = thread::Builder::new().name("devices".to_owned());
    let started = thread.spawn(move || {
        if let Err(error) = watch() {
            tracing::error!("carriers of devices are not watched: {error}");
        }
    });
    if let Err(error) = started {
        tracing::error!("carriers of devices are not watched: {error}");
    }
}

/// Starts the thread that has routes lead around ports which RSTP closes, once switches speak it.
fn follow_bridges(shared: &Arc<Shared>) {
    let has_rstp = {
        let guard = shared.network.lock().unwrap_or_else(PoisonError::into_inner);
        guard.as_ref().is_some_and(Network::has_rstp)
    };
    if !has_rstp || shared.following.swap(true, Ordering::Relaxed) {
        return;
    }
    let shared = Arc::clone(shared);
    let follow = move || {
        let mut seen = 0;
        loop {
            let changes = {
                let mut guard = shared.network.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(network) = guard.as_mut() else { return };
                network.follow_bridges();
                network.port_changes()
            };
            // A network that is exchanged for another one meanwhile is looked at again.
            seen = changes.map_or(seen, |changes| changes.wait(seen, BRIDGES_PATIENCE));
        }
    };
    if let Err(error) = thread::Builder::new().name("rstp".to_owned()).spawn(follow) {
        tracing::error!("routes do not follow RSTP: {error}");
    }
}

/// Starts the thread that sets the network's clock back now and then.
fn keep_clock(shared: &Arc<Shared>) -> Result<(), Error> {
    let shared = Arc::clone(shared);
    let until_next = move || {
        let mut guard = shared.network.lock().unwrap_or_else(PoisonError::into_inner);
        guard.as_mut().map(Network::set_clock_back)
    };
    let keep = move || {
        while let Some(wait) = until_next() {
            thread::sleep(wait);
        }
    };
    let started = thread::Builder::new().name("clock".to_owned()).spawn(keep);
    started.map(drop).map_err(|source| Error::System { step: "start the thread that keeps the clock", source })
}

fn refusal(error: &Error) -> Reply {
    Reply::Refused { message: error.to_string(), hint: error.hint(), at: error.place_in_file() }
}

/// Says to a client why it is cut off.
fn refuse(stream: &UnixStream, error: Error) -> Result<(), Error> {
    send(stream, &refusal(&error), &[])?;
    Err(error)
}

fn send(mut stream: &UnixStream, reply: &Reply, descriptors: &[OwnedFd]) -> Result<(), Error> {
    let line = control::encode(reply);
    let raw: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let mut sent = 0;
    if !raw.is_empty() {
        let rights = [ControlMessage::ScmRights(&raw)];
        let data = [io::IoSlice::new(&line)];
        sent = sendmsg::<()>(stream.as_raw_fd(), &data, &rights, MsgFlags::MSG_NOSIGNAL, None)
            .map_err(Error::system("pass descriptors to a client"))?;
    }
    stream.write_all(&line[sent..]).map_err(|source| Error::System { step: "answer a client", source })
}

/// 128 random bits, by which the processes in our hosts are known.
fn mark() -> Result<String, Error> {
    const SOURCE: &str = "/proc/sys/kernel/random/uuid";
    let text = fs::read_to_string(SOURCE).map_err(Error::path(SOURCE, "read it"))?;
    Ok(text.trim().to_owned())
}

/// Sends what we and a panic say into the log.
fn log_to(folder: &Folder) -> Result<(), Error> {
    let path = folder.log();
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let file = file.map_err(Error::path(path, "open the log"))?;
    nix::unistd::dup2_stderr(&file).map_err(Error::system("send messages to the log"))?;
    let subscriber = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).finish();
    // The program may have set its own subscriber, which writes to standard error as well.
    let _ = tracing::subscriber::set_global_default(subscriber);
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        // A network of which one thread is missing would only look alive.
        std::process::abort();
    }));
    Ok(())
}

/// Has the signals that ask for an end come by a descriptor, and a file that grows beyond a limit (a capture) be an error like any other:
/// blocked, its signal does nothing. Threads made later inherit this.
fn take_signals() -> Result<SignalFd, Error> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    let mut blocked = set;
    blocked.add(Signal::SIGXFSZ);
    blocked.thread_block().map_err(Error::system("block signals"))?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC).map_err(Error::system("make a signalfd"))
}

/// Raises the number of files that this process may open as far as it may, and returns it.
///
/// # Errors
/// If the kernel does not say how far.
pub fn raise_file_limit() -> Result<u64, Error> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(Error::system("read the limit of open files"))?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(Error::system("raise the limit of open files"))?;
    Ok(hard)
}

/// Whether standard input has ended. What is written to it means nothing.
fn is_closed(mut stdin: &io::Stdin) -> bool {
    let mut bytes = [0; 64];
    !matches!(stdin.read(&mut bytes), Ok(n) if n > 0)
}
