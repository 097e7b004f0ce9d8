//! The thread that talks to a port's front end: it waits for one to connect, or connects to it, serves it until it goes or is cut off, and waits for the next one.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use machine::{Span, Time};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, socket};

use super::backend::Backend;
use super::connection::{Connection, ConnectionError};
use super::shared::Shared;
use crate::log_quota::LogQuota;

/// How long it is until it connects again: at first, and at last.
const RECONNECT_MIN: Duration = Duration::from_millis(20);
const RECONNECT_MAX: Duration = Duration::from_secs(2);

/// How long the end of a port waits for its thread.
const END_MAX: Duration = Duration::from_secs(1);

/// How long who was cut off waits until he is served again.
const PENALTY: Duration = Duration::from_millis(100);

/// Where front ends are.
#[derive(Debug)]
pub enum Endpoint {
    /// They connect to us.
    Server(Listener),
    /// We connect to them.
    Client(PathBuf),
}

/// A socket at a path, which is removed when this is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Device and number of the file.
    identity: (u64, u64),
}

impl Listener {
    /// Listens at `path`. A socket there at which nobody listens any more gives way.
    ///
    /// # Errors
    /// If somebody listens there, it is no socket, or the kernel refuses.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let socket = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_behind(path) => {
                fs::remove_file(path)?;
                UnixListener::bind(path)
            }
            result => result,
        }?;
        socket.set_nonblocking(true)?;
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self { socket, path: path.to_owned(), identity: (metadata.dev(), metadata.ino()) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let is_own = fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if is_own {
            // Somebody else may have removed it just now.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn is_left_behind(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// A thread that runs until this is dropped.
#[derive(Debug)]
pub struct Control {
    shared: Arc<Shared>,
    /// The present connection, so that it can be cut off.
    stream: Arc<Mutex<Option<UnixStream>>>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Starts it. `name` is the port's, for the log.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub fn start(name: String, endpoint: Endpoint, shared: Arc<Shared>) -> io::Result<Self> {
        let stream = Arc::default();
        let talk = Talk {
            name,
            shared: Arc::clone(&shared),
            stream: Arc::clone(&stream),
            quota: LogQuota::default(),
            started: Instant::now(),
        };
        let thread = thread::Builder::new().name("vhost-user".to_owned()).spawn(move || talk.run(&endpoint))?;
        Ok(Self { shared, stream, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(stream) = &*self.stream.lock().unwrap_or_else(PoisonError::into_inner) {
            // It may be waiting for the rest of a message. Whoever has gone already need not be cut off.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            join_soon(thread);
        }
    }
}

/// Waits for the end of a thread, which may hang in a system call that its front end does not let end: it is left alone then, and ends when that does.
fn join_soon(thread: JoinHandle<()>) {
    let asked = Instant::now();
    while !thread.is_finished() {
        if asked.elapsed() > END_MAX {
            return tracing::warn!("the thread of a vhost-user port hangs in what its front end gave it");
        }
        thread::sleep(Duration::from_millis(1));
    }
    // If it has panicked, the panic is in the log.
    let _ = thread.join();
}

/// Connects to a socket at which somebody listens, and does not wait where too many do so already.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let stream = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    nix::sys::socket::connect(stream.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(stream.into())
}

/// Does what the next message says, and replies to it.
fn answer(connection: &mut Connection, backend: &mut Backend) -> Result<(), ConnectionError> {
    let (header, request, files) = connection.receive()?;
    let outcome = backend.handle(request, files);
    let reply = match &outcome {
        Ok(Some(payload)) => Some(header.reply(payload)),
        _ if header.needs_reply && backend.has_acknowledgements => {
            Some(header.reply(&u64::from(outcome.is_err()).to_le_bytes()))
        }
        _ => None,
    };
    if let Some(reply) = reply {
        connection.send(&reply)?;
    }
    outcome.map(drop).map_err(ConnectionError::Refused)
}

/// How a connection came to its end.
enum Disconnection {
    /// The front end went.
    Gone,
    /// It was cut off.
    CutOff(String),
}

/// How long it is until the next connection to who is not there, or does not stay.
#[derive(Debug)]
struct Backoff(Duration);

impl Backoff {
    /// The time to wait now; it is doubled from one to the next.
    fn next(&mut self) -> Duration {
        let next = (self.0 * 2).min(RECONNECT_MAX);
        std::mem::replace(&mut self.0, next)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self(RECONNECT_MIN)
    }
}

struct Talk {
    name: String,
    shared: Arc<Shared>,
    stream: Arc<Mutex<Option<UnixStream>>>,
    quota: LogQuota,
    started: Instant,
}

impl Talk {
    fn run(mut self, endpoint: &Endpoint) {
        let mut backoff = Backoff::default();
        while !self.shared.is_stopping() {
            let connected = match endpoint {
                Endpoint::Server(listener) => {
                    self.look(&[listener.socket.as_fd()], PollTimeout::NONE);
                    listener.socket.accept().map(|(stream, _)| stream)
                }
                Endpoint::Client(path) => connect(path),
            };
            match connected.and_then(|stream| self.serve(stream)) {
                Ok(true) => backoff = Backoff::default(),
                // Who waits for front ends takes the next one.
                Ok(false) if matches!(endpoint, Endpoint::Server(_)) => {}
                // Nobody has connected, or too many files are open: it is tried again.
                Err(error) if matches!(endpoint, Endpoint::Server(_)) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        self.pause(PENALTY);
                    }
                }
                // Nobody is there, or nobody who goes on.
                Ok(false) | Err(_) => self.pause(backoff.next()),
            }
        }
    }

    /// Waits for something to read at one of these or a word of the worker, which is taken. Whether there is something to read at the first one.
    fn look(&self, at: &[BorrowedFd<'_>], most: PollTimeout) -> bool {
        let control = self.shared.control();
        let mut watched = vec![PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        watched.extend(at.iter().map(|at| PollFd::new(*at, PollFlags::POLLIN)));
        // An interruption is as good as a word.
        let _ = poll(&mut watched, most);
        let is_readable = watched.get(1).is_some_and(|at| at.any().unwrap_or(false));
        // Nothing to read means that the worker has said nothing.
        let _ = control.read();
        is_readable
    }

    fn pause(&self, most: Duration) {
        let until = Instant::now() + most;
        while !self.shared.is_stopping() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.look(&[], PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX));
        }
    }

    /// Serves a front end until it goes. Whether a guest was attached.
    fn serve(&mut self, stream: UnixStream) -> io::Result<bool> {
        self.keep(Some(stream.try_clone()?));
        let mut connection = Connection::new(stream)?;
        let mut backend = Backend::new(Arc::clone(&self.shared))?;
        let (mut was_attached, mut has_commands) = (false, false);
        let end = loop {
            if self.shared.is_stopping() {
                break Disconnection::Gone;
            }
            if let Some(why) = self.shared.broken() {
                break Disconnection::CutOff(why);
            }
            let most = if has_commands { PollTimeout::ZERO } else { PollTimeout::NONE };
            let has_message = self.look(&[connection.as_fd(), backend.kicked()], most);
            match backend.serve_commands() {
                Ok(has_more) => has_commands = has_more,
                Err(why) => break Disconnection::CutOff(why),
            }
            if !has_message {
                continue;
            }
            // What it says may begin with commands that wait.
            has_commands = true;
            match answer(&mut connection, &mut backend) {
                Ok(()) => {}
                Err(ConnectionError::Closed) => break Disconnection::Gone,
                Err(ConnectionError::Refused(why)) => break Disconnection::CutOff(why),
                Err(error) => break Disconnection::CutOff(error.to_string()),
            }
            if !was_attached && self.shared.has_carrier() {
                was_attached = true;
                self.shared.fault.clear();
                self.log(|name| tracing::info!("{name}: a guest is attached"));
            }
        };
        self.keep(None);
        // The rings go before the socket: who connects again finds nothing of what was.
        drop(backend);
        // And the reason is there before the guest can see that it was cut off.
        if let Disconnection::CutOff(why) = &end {
            let times = self.shared.faults.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            let plural = if times == 1 { "" } else { "s" };
            self.shared.fault.set(format!("the guest was cut off ({times} time{plural}): {why}"));
        }
        drop(connection);
        match end {
            Disconnection::Gone if was_attached => self.log(|name| tracing::info!("{name}: the guest has gone")),
            Disconnection::Gone => {}
            Disconnection::CutOff(why) => {
                self.log(|name| tracing::warn!("{name}: the guest was cut off: {why}"));
                self.pause(PENALTY);
            }
        }
        Ok(was_attached)
    }

    fn keep(&self, stream: Option<UnixStream>) {
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = stream;
    }

    fn log(&mut self, write: impl FnOnce(&str)) {
        let now = Time::ZERO + Span::from_ns(self.started.elapsed().as_nanos() as u64);
        if let Some(lines) = self.quota.take_left_out(now) {
            tracing::warn!("{}: {lines} more lines about its guest in a minute are not in this log", self.name);
        }
        if self.quota.take(now) {
            write(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    use nix::sys::socket::{Backlog, bind, listen};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// What comes of it, in a thread of its own: what hangs fails.
    fn soon<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(what()));
        receiver.recv_timeout(PATIENCE).expect("it does not hang")
    }

    #[test]
    fn a_client_does_not_wait_where_nobody_accepts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("full.sock");
        let listener = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&listener, Backlog::new(0).unwrap()).unwrap();
        let mut waiting = Vec::new();
        let refused = loop {
            let path = path.clone();
            match soon(move || connect(&path)) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!((refused.kind(), waiting.is_empty()), (io::ErrorKind::WouldBlock, false));
    }

    #[test]
    fn who_connects_again_waits_longer_each_time() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..9).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(waits, [20, 40, 80, 160, 320, 640, 1_280, 2_000, 2_000]);
    }

    #[test]
    fn a_thread_that_hangs_keeps_nobody() {
        let (release, hang) = mpsc::channel::<()>();
        let thread = thread::spawn(move || _ = hang.recv());
        soon(move || join_soon(thread));
        drop(release);
    }
}
