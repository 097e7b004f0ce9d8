//! A client of the cluster for programs that may block: it lives in a thread of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use machine::Rng;
use machine::nanos::{Span, Time};
use mio::{Events, Poll, Token, Waker};
use placement::ShardId;
use store::client::{ClientConfig, ConnectionId, Input, Output};
use store::protocol::{Admin, Answer, RequestBody, WatchEvents};
use tree::{Entry, Location, Path};

use super::caller::{Caller, Tokens};
use super::clock::{BootClock, random_bits};
use super::{Error, LoginToken, Tls};

/// Rung when the user wants something.
const WAKER: Token = Token(0);

/// Messages of a watch that wait for the user; when there are as many, the user is notified that he has to read again.
const EVENTS_MAX: usize = 1_024;

/// The same for bytes of their values.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// Calls that wait for the handler; more are answered with an error.
const CALLS_MAX: usize = 1_024;

/// The same for bytes of their inputs.
const CALL_BYTES_MAX: usize = 64 << 20;

/// A call of an RPC that this client offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The name of the RPC.
    pub name: String,
    /// The path that chose this client.
    pub path: Option<Path>,
    /// The input of the call.
    pub input: Vec<u8>,
}

/// Carries out calls; in a thread of its own, one at a time.
type Handler = Box<dyn FnMut(Call) -> Result<Vec<u8>, String> + Send>;

/// What the user asks of the thread.
enum Command {
    Request {
        token: u64,
        body: RequestBody,
        timeout: Duration,
        to: Listener,
    },
    Unwatch {
        token: u64,
    },
    /// There is room again for a watch that is behind.
    CatchUp {
        token: u64,
    },
    Serve(Handler),
    LogIn(LoginToken),
    Reply {
        connection: ConnectionId,
        call: u64,
        result: Result<Vec<u8>, String>,
    },
    End,
}

/// A receiver of events or of an answer.
enum Listener {
    Request(SyncSender<Result<Answer, Error>>),
    Watch(Watcher),
}

/// The user of a watch, as the driver sees it.
struct Watcher {
    /// Notified once, when it begins.
    begun: Option<SyncSender<Result<Answer, Error>>>,
    events: SyncSender<WatchEvents>,
    /// Bytes of the values in it.
    waiting: Arc<AtomicUsize>,
    /// What there was no room for, by shard, without the events themselves.
    skipped: BTreeMap<ShardId, WatchEvents>,
    /// Whether there is any of that; the user then reports when there is room again.
    is_behind: Arc<AtomicBool>,
    /// Why no more will come, once the cluster has ended it.
    end: Arc<OnceLock<store::protocol::Error>>,
}

impl Watcher {
    /// Delivers events, or notes that they were skipped; `false` if nobody listens any more.
    fn deliver(&mut self, events: WatchEvents) -> bool {
        if !self.catch_up() {
            return false;
        }
        if self.skipped.contains_key(&events.shard) {
            self.skip(&events);
            return true;
        }
        let bytes = value_bytes(&events);
        let waiting = self.waiting.fetch_add(bytes, Ordering::AcqRel);
        let outcome =
            if waiting > EVENT_BYTES_MAX { Err(TrySendError::Full(events)) } else { self.events.try_send(events) };
        match outcome {
            Err(TrySendError::Full(events)) => {
                self.waiting.fetch_sub(bytes, Ordering::AcqRel);
                self.skip(&events);
            }
            Err(TrySendError::Disconnected(_)) => return false,
            Ok(()) => {}
        }
        true
    }

    fn skip(&mut self, events: &WatchEvents) {
        let WatchEvents { watch, shard, revision, .. } = *events;
        let events = WatchEvents { watch, shard, revision, skipped: true, events: Vec::new() };
        self.skipped.insert(shard, events);
        self.is_behind.store(true, Ordering::Release);
    }

    /// Delivers what was skipped, as far as there is room; `false` if nobody listens any more.
    fn catch_up(&mut self) -> bool {
        while let Some((shard, events)) = self.skipped.pop_first() {
            match self.events.try_send(events) {
                Ok(()) => {}
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(events)) => {
                    self.skipped.insert(shard, events);
                    self.is_behind.store(true, Ordering::Release);
                    return true;
                }
            }
        }
        true
    }
}

/// Bytes of the values in a message of a watch.
fn value_bytes(events: &WatchEvents) -> usize {
    let bytes = |event: &tree::Event| match &event.kind {
        tree::EventKind::Put { value, .. } => value.len(),
        tree::EventKind::Deleted | tree::EventKind::Reset => 0,
    };
    events.events.iter().map(bytes).sum()
}

/// A client of the cluster. It connects when there is something to ask, and again whenever it has to.
pub struct Client {
    commands: Sender<Command>,
    waker: Arc<Waker>,
    next: AtomicU64,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// A client that knows these `host:port`s.
    ///
    /// # Errors
    /// [`Error::Address`] if there is none or one is no address, [`Error::System`] if the thread or its event loop cannot be made.
    pub fn connect(endpoints: &[String], tls: Option<&Tls>) -> Result<Self, Error> {
        Self::with_config(endpoints, tls, ClientConfig::default())
    }

    /// The same, with its behaviour chosen.
    ///
    /// # Errors
    /// As for [`Client::connect`].
    pub fn with_config(endpoints: &[String], tls: Option<&Tls>, config: ClientConfig) -> Result<Self, Error> {
        check(endpoints)?;
        let poll = Poll::new().map_err(Error::system("make an event loop"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(Error::system("make an event loop"))?;
        let waker = Arc::new(waker);
        let (commands, inbox) = mpsc::channel();
        let session = random_bits();
        let caller = Caller::new(session, endpoints.to_vec(), Rng::new(session), config, tls.cloned());
        let back = (commands.clone(), Arc::clone(&waker));
        let agent =
            Agent { caller, poll, inbox, back, listeners: HashMap::new(), handler: None, call_bytes: Arc::default() };
        let thread = thread::Builder::new()
            .name("cluster-client".into())
            .spawn(move || agent.run())
            .map_err(Error::system("make a thread"))?;
        Ok(Self { commands, waker, next: AtomicU64::new(1), thread: Some(thread) })
    }

    /// Logs in with this token on connections that are made from now on: to be called before anything is asked.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::System`].
    pub fn log_in(&self, token: LoginToken) -> Result<(), Error> {
        self.command(Command::LogIn(token))
    }

    fn command(&self, command: Command) -> Result<(), Error> {
        self.commands.send(command).map_err(|_| Error::Closed)?;
        self.waker.wake().map_err(Error::system("wake the client's thread"))
    }

    fn token(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks, and waits for the answer. Many threads may ask at once.
    ///
    /// # Errors
    /// [`Error::Request`] says why it was not carried out.
    pub fn request(&self, body: RequestBody, timeout: Duration) -> Result<Answer, Error> {
        let (to, answer) = mpsc::sync_channel(1);
        self.command(Command::Request { token: self.token(), body, timeout, to: Listener::Request(to) })?;
        answer.recv().map_err(|_| Error::Closed)?
    }

    /// Hands the content of a shard, as it is at one moment, to `each`, in parts and in order.
    ///
    /// # Errors
    /// [`Error::Request`]; what was handed over is then incomplete.
    pub fn backup(&self, shard: ShardId, timeout: Duration, mut each: impl FnMut(Vec<Entry>)) -> Result<(), Error> {
        let mut after = None;
        loop {
            match self.request(RequestBody::Admin(Admin::Backup { shard, after }), timeout)? {
                Answer::Chunk { entries, next } => {
                    each(entries);
                    if next.is_none() {
                        return Ok(());
                    }
                    after = next;
                }
                other => unreachable!("a backup is answered by a part of it, not by {other:?}"),
            }
        }
    }

    /// Watches a subtree, from these revisions on (empty: from now). It ends when the watch is dropped.
    ///
    /// # Errors
    /// [`Error::Request`] if it cannot begin.
    pub fn watch(&self, at: Location, from: BTreeMap<ShardId, u64>, timeout: Duration) -> Result<Watch<'_>, Error> {
        let (begun, beginning) = mpsc::sync_channel(1);
        let (to, events) = mpsc::sync_channel(EVENTS_MAX);
        let token = self.token();
        let body = RequestBody::Watch { at, from };
        let is_behind = Arc::new(AtomicBool::new(false));
        let (begun, behind) = (Some(begun), Arc::clone(&is_behind));
        let waiting = Arc::new(AtomicUsize::new(0));
        let held = Arc::clone(&waiting);
        let end = Arc::new(OnceLock::new());
        let skipped = BTreeMap::new();
        let watcher = Watcher { begun, events: to, waiting: held, skipped, is_behind: behind, end: Arc::clone(&end) };
        self.command(Command::Request { token, body, timeout, to: Listener::Watch(watcher) })?;
        match beginning.recv().map_err(|_| Error::Closed)?? {
            Answer::Watching { from } => Ok(Watch { client: self, token, events, waiting, is_behind, end, from }),
            other => unreachable!("a watch is answered by its beginning, not by {other:?}"),
        }
    }

    /// Offers RPCs, instead of those that it offered before, and has `handler` carry out their calls.
    ///
    /// # Errors
    /// [`Error::Request`] if the server does not take the offer.
    pub fn serve(
        &self,
        offers: Vec<(String, Option<Path>)>,
        timeout: Duration,
        handler: impl FnMut(Call) -> Result<Vec<u8>, String> + Send + 'static,
    ) -> Result<(), Error> {
        self.command(Command::Serve(Box::new(handler)))?;
        self.request(RequestBody::Offer { offers }, timeout).map(|_| ())
    }
}

/// Whether these can be a client's endpoints.
fn check(endpoints: &[String]) -> Result<(), Error> {
    if endpoints.is_empty() {
        return Err(Error::Address(String::new()));
    }
    let is_address = |text: &String| {
        let is_host = |host: &str| !host.is_empty() && !host.contains('/');
        text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok())
    };
    endpoints.iter().find(|text| !is_address(text)).map_or(Ok(()), |text| Err(Error::Address(text.clone())))
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.command(Command::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Events of a watch.
pub struct Watch<'a> {
    client: &'a Client,
    token: u64,
    events: Receiver<WatchEvents>,
    waiting: Arc<AtomicUsize>,
    is_behind: Arc<AtomicBool>,
    end: Arc<OnceLock<store::protocol::Error>>,
    /// The revisions after which it began.
    pub from: BTreeMap<ShardId, u64>,
}

impl Watch<'_> {
    /// The next events, if some come in time.
    ///
    /// # Errors
    /// Whether nothing has come yet, or no more will.
    pub fn next_within(&mut self, timeout: Duration) -> Result<WatchEvents, RecvTimeoutError> {
        let events = self.events.recv_timeout(timeout);
        self.took(events.as_ref().ok());
        events
    }

    /// Why the cluster has ended it, if it has.
    pub fn end(&self) -> Option<Error> {
        self.end.get().cloned().map(Error::Request)
    }

    /// There is room now for what there was none for.
    fn took(&self, events: Option<&WatchEvents>) {
        self.waiting.fetch_sub(events.map_or(0, value_bytes), Ordering::AcqRel);
        if self.is_behind.swap(false, Ordering::AcqRel) {
            // A client that has ended delivers nothing more.
            let _ = self.client.command(Command::CatchUp { token: self.token });
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let _ = self.client.command(Command::Unwatch { token: self.token });
    }
}

/// What runs in the thread.
struct Agent {
    caller: Caller,
    poll: Poll,
    inbox: Receiver<Command>,
    /// For the thread that carries out calls.
    back: (Sender<Command>, Arc<Waker>),
    listeners: HashMap<u64, Listener>,
    handler: Option<SyncSender<Invocation>>,
    /// Bytes of the inputs that wait for it.
    call_bytes: Arc<AtomicUsize>,
}

struct Invocation {
    connection: ConnectionId,
    id: u64,
    call: Call,
}

impl Agent {
    fn run(mut self) {
        let clock = BootClock::start();
        let mut events = Events::with_capacity(256);
        let mut tokens = Tokens::from(1);
        loop {
            while let Ok(command) = self.inbox.try_recv() {
                if !self.handle_command(clock.now(), command) {
                    return;
                }
            }
            let wake = self.drain(clock.now(), &mut tokens);
            let unfinished = self.caller.unfinished();
            let span = if unfinished.is_empty() { wake.since(clock.now()) } else { Span::ZERO };
            let timeout = (wake != Time::NEVER || !unfinished.is_empty())
                .then(|| Duration::from_nanos(span.as_ns() + u64::from(unfinished.is_empty())));
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != std::io::ErrorKind::Interrupted
            {
                tracing::error!("the event loop of a client failed: {error}");
                return;
            }
            let now = clock.now();
            for event in events.iter().filter(|event| event.token() != WAKER) {
                self.caller.ready(now, self.poll.registry(), event.token(), Some(event));
            }
            for token in unfinished {
                self.caller.ready(now, self.poll.registry(), token, None);
            }
        }
    }

    /// Carries out a command; `false` ends the thread.
    fn handle_command(&mut self, now: Time, command: Command) -> bool {
        match command {
            Command::Request { token, body, timeout, to } => {
                self.listeners.insert(token, to);
                let timeout = Span::from_ns(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
                self.caller.handle(now, Input::Request { token, body, timeout });
            }
            Command::Unwatch { token } => {
                self.listeners.remove(&token);
                self.caller.handle(now, Input::Unwatch { token });
            }
            Command::CatchUp { token } => {
                if let Some(Listener::Watch(watcher)) = self.listeners.get_mut(&token) {
                    // A user that does not listen any more says so by ending the watch.
                    let _ = watcher.catch_up();
                }
            }
            Command::LogIn(token) => self.caller.log_in(token),
            Command::Serve(handler) => self.serve(handler),
            Command::Reply { connection, call, result } => {
                self.caller.handle(now, Input::Reply { connection, call, result });
            }
            Command::End => return false,
        }
        true
    }

    /// Calls go to a thread of their own: they may take long.
    fn serve(&mut self, mut handler: Handler) {
        let (calls, invocations) = mpsc::sync_channel::<Invocation>(CALLS_MAX);
        let call_bytes = Arc::new(AtomicUsize::new(0));
        self.call_bytes = Arc::clone(&call_bytes);
        let (commands, waker) = (self.back.0.clone(), Arc::clone(&self.back.1));
        let work = move || {
            for Invocation { connection, id, call } in invocations {
                call_bytes.fetch_sub(call.input.len(), Ordering::AcqRel);
                let result = handler(call);
                if commands.send(Command::Reply { connection, call: id, result }).is_err() || waker.wake().is_err() {
                    return;
                }
            }
        };
        match thread::Builder::new().name("cluster-calls".into()).spawn(work) {
            Ok(_) => self.handler = Some(calls),
            Err(error) => tracing::error!("cannot make a thread for calls: {error}"),
        }
    }

    fn drain(&mut self, now: Time, tokens: &mut Tokens) -> Time {
        let (listeners, handler, call_bytes) = (&mut self.listeners, &self.handler, &self.call_bytes);
        let (mut ended, mut refused) = (Vec::new(), Vec::new());
        let deliver = |output| match output {
            Output::Answer { token, result, unreachable } => {
                let failed = |error| match unreachable {
                    Some(address) => Error::Unreachable { address, error },
                    None => Error::Request(error),
                };
                answer(listeners, token, result.map_err(failed));
            }
            Output::Event { token, events } => {
                if let Some(Listener::Watch(watcher)) = listeners.get_mut(&token)
                    && !watcher.deliver(events)
                {
                    ended.push(token);
                }
            }
            Output::WatchEnded { token, error } => {
                if let Some(Listener::Watch(watcher)) = listeners.remove(&token) {
                    watcher.end.set(error).expect("it ends once");
                }
            }
            Output::Invoke { connection, call: id, name, path, input } => {
                let bytes = input.len();
                let waiting = call_bytes.fetch_add(bytes, Ordering::AcqRel);
                let invocation = Invocation { connection, id, call: Call { name, path, input } };
                let is_taken = waiting <= CALL_BYTES_MAX
                    && handler.as_ref().is_some_and(|handler| handler.try_send(invocation).is_ok());
                if !is_taken {
                    call_bytes.fetch_sub(bytes, Ordering::AcqRel);
                    refused.push((connection, id));
                }
            }
            Output::Connect { .. } | Output::Send { .. } | Output::Disconnect(_) => {
                unreachable!("the driver carries these out")
            }
        };
        let wake = self.caller.drain(now, self.poll.registry(), tokens, deliver, |_| {});
        let wake = if ended.is_empty() && refused.is_empty() { wake } else { now };
        for token in ended {
            self.listeners.remove(&token);
            self.caller.handle(now, Input::Unwatch { token });
        }
        for (connection, call) in refused {
            let result = Err("it was not carried out: its provider has too many calls to carry out already".to_owned());
            self.caller.handle(now, Input::Reply { connection, call, result });
        }
        wake
    }
}

fn answer(listeners: &mut HashMap<u64, Listener>, token: u64, result: Result<Answer, Error>) {
    // Whoever asked may have stopped waiting.
    match listeners.remove(&token) {
        Some(Listener::Request(to)) => drop(to.send(result)),
        Some(Listener::Watch(mut watcher)) => {
            let has_begun = result.is_ok();
            if let Some(begun) = watcher.begun.take() {
                drop(begun.send(result));
            }
            if has_begun {
                // The end of the request is the beginning of the events.
                listeners.insert(token, Listener::Watch(watcher));
            }
        }
        None => {}
    }
}
