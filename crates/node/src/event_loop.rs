//! The event loop of a controller: one thread, in which the server lives.

mod accept;
mod access;
mod alarms;
mod greeting;
mod half_closed;
mod outbox;
mod partial;
mod peer_refusals;
mod turns;

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use machine::nanos::{Span, Step, Time};
use machine::{Control, Rng, ServerId};
use mio::net::TcpListener;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use nix::sys::signalfd::SignalFd;
use store::protocol::{Admin, ClientMessage, Hello, Request, RequestBody, Role};
use store::{ClientId, Input, Output, RequestId, Server};

use super::audit::Audit;
use super::caller::{Tokens, dial};
use super::clock::BootClock;
use super::crowd::Crowd;
use super::descriptors::Shares;
use super::disk::Disk;
use super::http::{Question, View};
use super::logins::Logins;
use super::peers::{Action, Peers, bound_silence};
use super::refusals::{Caller, Refusals};
use super::remote::RemoteHost;
use super::secret::Secrets;
use super::stream::Stream;
use super::subject::common_name;
use super::{Error, Tls};
use greeting::Handshake;
use half_closed::HalfClosed;
use outbox::Waiting;
use peer_refusals::PeerRefusals;
use turns::Turns;

const LISTENER: Token = Token(0);
const SIGNALS: Token = Token(1);
/// Rung by other threads.
const WAKER: Token = Token(2);
const FIRST_CONNECTION: usize = 3;

/// Our own requests come by a connection that does not exist.
const OWN_CLIENT: ClientId = ClientId(0);

/// A new connection has to identify itself within this time.
const GREETING_PATIENCE: Span = Span::from_secs(10);

/// Connections are looked through for silent ones so often.
const SWEEP: Span = Span::from_secs(1);

/// How often this server announces to the cluster where it is, if the map says otherwise.
const ANNOUNCE_ADDRESS_EVERY: Span = Span::from_secs(15);

/// How long the event loop looks for the next event before it sleeps, and how long after a write it does so. The answers of disks and peers are near then,
/// and a thread that sleeps is woken late, above all in a virtual machine: decision 45.
const LINGER: Span = Span::from_us(150);
const WRITES_FOLLOW: Span = Span::from_ms(1);

/// Leaders are handed over within this when the server ends.
const HANDOVER_PATIENCE: Span = Span::from_secs(2);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It has not said so.
    Unknown {
        since: Time,
    },
    /// It says that it is a peer, and has to prove it.
    Challenged {
        since: Time,
        server: ServerId,
    },
    Client {
        client: ClientId,
        version: u32,
    },
    /// A peer talks to us.
    From(ServerId),
    /// We talk to a peer.
    To {
        peer: ServerId,
        welcomed: bool,
    },
}

#[derive(Debug)]
struct Connection {
    stream: Stream,
    kind: Kind,
    /// The peer that made it; `None` if this server did.
    host: Option<RemoteHost>,
}

impl Connection {
    /// What is at the other end, as far as is known.
    fn caller(&self) -> Caller {
        let Some(host) = self.host else { return Caller::default() };
        let certificate = self.stream.certificates().and_then(|chain| common_name(chain.first()?));
        let user = || host.user().map(|uid| format!("user {uid}"));
        let client = certificate.map(|name| format!("certificate {name}")).or_else(user).unwrap_or_default();
        Caller { host: host.host(), client }
    }
}

/// What the loop needs from outside.
pub(super) struct LoopParts {
    pub poll: Poll,
    pub waker: Arc<Waker>,
    pub listener: TcpListener,
    pub signals: SignalFd,
    pub questions: Receiver<Question>,
    pub disk: Disk,
    pub server: Server,
    pub clock: BootClock,
    pub tls: Option<Tls>,
    pub secrets: Secrets,
    pub rng: Rng,
    /// What is noted of what clients do.
    pub audit: Option<Audit>,
    pub cluster: u64,
    pub name: String,
    /// How many connections each host and user may have.
    pub shares: Shares,
    /// Where others reach it, and its metrics: the map has to say so.
    pub address: String,
    pub metrics: Option<String>,
    /// How much is held for clients and peers at most.
    pub memory_bytes: usize,
}

/// A controller that runs.
pub(super) struct EventLoop {
    parts: LoopParts,
    connections: HashMap<Token, Connection>,
    clients: HashMap<ClientId, Token>,
    /// How many of them each host has.
    clients_of: HashMap<RemoteHost, usize>,
    /// Connections that have not said who they are.
    strangers: Crowd<Token>,
    /// Connections by which a peer talks to us; a new one replaces the old.
    incoming: HashMap<ServerId, Token>,
    peers: Peers,
    logins: Logins,
    tokens: Tokens,
    next_client: u64,
    /// Connections with something to send.
    dirty: Vec<Token>,
    /// For the disk, once the messages to the others are sent.
    writes: Vec<wal::Write>,
    /// When the disk was given something last.
    last_write_at: Time,
    /// Connections that have something to be received, and wait for their turn.
    turns: Turns,
    /// Connections whose clients say nothing more.
    half_closed: HalfClosed,
    /// There were more to accept than one turn's worth.
    accepts: bool,
    /// There is no descriptor for who connects: they wait in the kernel.
    is_short: bool,
    sweep_at: Time,
    /// Proofs that are under way.
    handshakes: HashMap<Token, Handshake>,
    /// Connections of peers that have proved nothing: the cluster had no secret then.
    unproven: Vec<Token>,
    peer_refusals: PeerRefusals,
    /// Until when it hands over what it leads, if it is about to end.
    ending: Option<Time>,
    refusals: Refusals,
    waiting: Waiting,
    /// The last write failed, and why.
    disk_trouble: Option<String>,
    noted: alarms::Noted,
    /// When this server may announce again where it is.
    announce_address_at: Time,
    /// The sequence of the server's own next request.
    next_sequence: u64,
    /// Of everybody's, in the order in which they come.
    next_request: RequestId,
}

impl EventLoop {
    /// Listens and watches; [`EventLoop::run`] serves.
    pub fn new(mut parts: LoopParts) -> Result<Self, Error> {
        let registry = parts.poll.registry();
        let watch = Error::system("watch a socket");
        registry.register(&mut parts.listener, LISTENER, Interest::READABLE).map_err(watch)?;
        let signals = parts.signals.as_raw_fd();
        let watch = Error::system("watch for signals");
        registry.register(&mut SourceFd(&signals), SIGNALS, Interest::READABLE).map_err(watch)?;
        let peers = Peers::new(parts.rng.fork(1), Arc::clone(&parts.waker));
        let strangers = Crowd::new(parts.shares.strangers);
        Ok(Self {
            parts,
            connections: HashMap::new(),
            clients: HashMap::new(),
            clients_of: HashMap::new(),
            strangers,
            incoming: HashMap::new(),
            peers,
            logins: Logins::default(),
            tokens: Tokens::from(FIRST_CONNECTION),
            next_client: 1,
            dirty: Vec::new(),
            writes: Vec::new(),
            last_write_at: Time::ZERO,
            turns: Turns::default(),
            half_closed: HalfClosed::default(),
            accepts: false,
            is_short: false,
            sweep_at: Time::ZERO,
            handshakes: HashMap::new(),
            unproven: Vec::new(),
            peer_refusals: PeerRefusals::default(),
            ending: None,
            refusals: Refusals::default(),
            waiting: Waiting::default(),
            disk_trouble: None,
            noted: alarms::Noted::default(),
            announce_address_at: Time::ZERO,
            next_sequence: 1,
            next_request: RequestId(1),
        })
    }

    /// Where WAKER rings.
    pub fn waker(poll: &Poll) -> io::Result<Waker> {
        Waker::new(poll.registry(), WAKER)
    }

    /// The number of a request that has come.
    fn next_request(&mut self) -> RequestId {
        let id = self.next_request;
        self.next_request = RequestId(id.0 + 1);
        id
    }

    /// Asks the server for something on our own behalf; the answer is of no interest.
    fn ask(&mut self, admin: Admin) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let request = Request {
            session: self.parts.rng.fork(2).bits(),
            sequence,
            acknowledged: sequence,
            timeout_ms: 10_000,
            body: RequestBody::Admin(admin),
        };
        let (client, id) = (OWN_CLIENT, self.next_request());
        let input = Input::Client { client, id, message: ClientMessage::Request(request) };
        self.parts.server.handle(self.parts.clock.now(), input);
    }

    /// Serves until a signal or the server itself ends it.
    ///
    /// # Errors
    /// [`Error::Stopped`] with the server's words, [`Error::System`] if the event loop fails.
    pub fn run(mut self) -> Result<(), Error> {
        let outcome = self.serve();
        self.submit();
        // What was handed in is written: nobody saw it confirmed, but the next start is quicker.
        self.parts.disk.finish();
        if let Some(audit) = &mut self.parts.audit {
            audit.finish();
        }
        outcome
    }

    fn serve(&mut self) -> Result<(), Error> {
        let mut events = Events::with_capacity(1_024);
        self.identify_self(self.parts.clock.now());
        loop {
            let mut wake = self.drain()?;
            if let Some(until) = self.ending {
                if self.has_handed_over() || self.parts.clock.now() >= until {
                    tracing::info!("ends");
                    return Ok(());
                }
                wake = wake.min(until);
            }
            let now = self.parts.clock.now();
            wake = wake.min(self.tend(now));
            let is_busy = !self.turns.is_empty() || self.accepts || !self.dirty.is_empty();
            let span = if is_busy { Span::ZERO } else { wake.since(self.parts.clock.now()) };
            match self.wait(&mut events, span) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                outcome => outcome.map_err(Error::system("wait for events"))?,
            }
            let now = self.parts.clock.now();
            self.handle(now, &events);
        }
    }

    /// Waits until something happens, `span` at most. Around writes it looks for a while before it sleeps.
    fn wait(&mut self, events: &mut Events, span: Span) -> io::Result<()> {
        let now = self.parts.clock.now();
        let mut left = span;
        if span > LINGER && now < self.last_write_at + WRITES_FOLLOW {
            let until = now + LINGER;
            left = (now + span).since(until);
            while self.parts.clock.now() < until {
                self.parts.poll.poll(events, Some(Duration::ZERO))?;
                if !events.is_empty() {
                    return Ok(());
                }
                std::thread::yield_now();
            }
        }
        self.parts.poll.poll(events, Some(Duration::from_nanos(left.as_ns())))
    }

    /// What has come in, a share of each connection, before the server is asked for anything.
    fn handle(&mut self, now: Time, events: &Events) {
        for event in events {
            match event.token() {
                LISTENER => self.accepts = true,
                SIGNALS => self.signalled(now),
                WAKER => {}
                token => self.turns.add(token, event.is_read_closed() || event.is_error()),
            }
        }
        self.take_turns(now);
        if self.accepts {
            self.accept(now);
        }
        while let Some(done) = self.parts.disk.done() {
            let input = match done.result {
                Ok(()) => {
                    if let Some(trouble) = self.disk_trouble.take() {
                        tracing::info!("the disk takes writes again, after: {trouble}");
                    }
                    Input::Written(done.id)
                }
                Err(error) => {
                    if self.disk_trouble.is_none() {
                        tracing::error!("a write failed: {error}");
                    }
                    self.disk_trouble = Some(error.to_string());
                    self.parts.server.set_disk_place(self.parts.disk.place());
                    Input::WriteFailed { write: done.id, error }
                }
            };
            self.parts.server.handle(now, input);
        }
        while let Ok(question) = self.parts.questions.try_recv() {
            question.answer(View {
                status: self.parts.server.status(now),
                unready: self.parts.server.unready(),
                stopped: self.parts.server.stopped_replicas(),
                refusals: self.refusals.counts(),
                other_refusals: self.refusals.others(),
                log_writes: self.parts.server.health().log_writes,
                disk_trouble: self.disk_trouble.clone().or_else(|| self.parts.disk.wants()),
                disk: self.parts.server.disk_status(),
                alarms: self.parts.server.alarms(now),
                dropped_envelopes: self.waiting.dropped_envelopes,
                unfinished_frames: self.waiting.unfinished_frames,
                memory: self.parts.server.memory(),
                connections: self.connections.len(),
                displaced: self.strangers.displaced(),
                audit: self.parts.audit.as_ref().map(Audit::figures),
                protocol: self.parts.server.protocol(),
                refused: self.peer_refusals.counts(),
            });
        }
    }

    /// Asks the server for output until it waits, and sends; when to come back at the latest.
    fn drain(&mut self) -> Result<Time, Error> {
        loop {
            let now = self.parts.clock.now();
            let wake = loop {
                match self.parts.server.poll(now) {
                    Step::Wait(until) => break until,
                    Step::Do(output) => self.carry_out(now, output)?,
                }
            };
            let goes_on = self.flush(now);
            // Others write what is sent to them while this server writes: they get it first.
            self.submit();
            if !goes_on && !self.end_answered(now) {
                return Ok(wake);
            }
        }
    }

    fn submit(&mut self) {
        if !self.writes.is_empty() {
            self.last_write_at = self.parts.clock.now();
        }
        for write in self.writes.drain(..) {
            self.parts.disk.submit(write);
        }
    }

    fn carry_out(&mut self, now: Time, output: Output) -> Result<(), Error> {
        match output {
            Output::Peer { to, envelope } => self.send_to_peer(to, &envelope),
            Output::Client { client, message, about } => self.send_to_client(now, client, &message, &about),
            Output::BadToken(client) => self.bad_token(now, client),
            Output::Disk(write) => self.writes.push(write),
            Output::Peers(peers) => {
                let own = self.parts.server.id();
                let others = peers.into_iter().filter(|(id, _)| *id != own).collect();
                for action in self.peers.set(now, others) {
                    self.act(now, action);
                }
            }
            Output::ReplicaStopped(stopped) => tracing::error!("{}", stopped.reason),
            Output::KeepSecret { from, secret } => self.keep_secret(now, from, &secret),
            Output::Stop(why) => return Err(Error::Stopped(why.to_string())),
        }
        Ok(())
    }

    /// Ends a connection from here.
    fn close(&mut self, now: Time, token: Token, reason: &str) {
        self.end(now, token, reason, true);
    }

    fn end(&mut self, now: Time, token: Token, reason: &str, is_refusal: bool) {
        let Some(mut connection) = self.connections.remove(&token) else { return };
        connection.stream.deregister(self.parts.poll.registry());
        self.handshakes.remove(&token);
        self.half_closed.forget(token);
        self.forget_waiting(now, token, connection.kind);
        match connection.kind {
            Kind::Unknown { .. } | Kind::Challenged { .. } => {
                self.strangers.remove(token);
                if is_refusal {
                    tracing::info!("{}: {reason}", connection.stream.peer());
                    self.refusals.count(&connection.caller(), "connection", "no greeting", reason);
                }
            }
            Kind::Client { client, .. } => {
                tracing::debug!("client {}: {reason}", connection.stream.peer());
                self.clients.remove(&client);
                if let Some(audit) = &mut self.parts.audit {
                    audit.gone(client);
                }
                self.forget_client_of(connection.host);
                self.parts.server.handle(now, Input::ClientGone(client));
            }
            Kind::From(server) => {
                tracing::debug!("from server {server}: {reason}");
                if self.incoming.get(&server) == Some(&token) {
                    self.incoming.remove(&server);
                }
            }
            Kind::To { peer, welcomed } => {
                tracing::debug!("to server {peer}: {reason}");
                self.peers.failed(now, peer);
                if welcomed {
                    self.parts.server.handle(now, Input::PeerLost(peer));
                }
            }
        }
    }

    /// Connections to peers, and connections that say nothing; when to come back at the latest.
    fn tend(&mut self, now: Time) -> Time {
        let (actions, mut wake) = self.peers.due(now);
        let acted = !actions.is_empty();
        for action in actions {
            self.act(now, action);
        }
        if acted {
            wake = now;
        }
        if self.sweep_at <= now {
            self.sweep_at = now + SWEEP;
            self.accepts = true;
            let silent = |(token, connection): (&Token, &Connection)| match connection.kind {
                Kind::Unknown { since } | Kind::Challenged { since, .. } if since + GREETING_PATIENCE <= now => {
                    Some(*token)
                }
                _ => None,
            };
            let silent: Vec<Token> = self.connections.iter().filter_map(silent).collect();
            for token in silent {
                self.close(now, token, "it has not said who it is");
            }
            self.end_unanswered(now);
            self.unproven.retain(|token| self.connections.contains_key(token));
            self.end_unproven(now);
            self.announce_address(now);
            self.report_wall_clock(now);
            self.note_alarms(now);
        }
        wake.min(self.sweep_at)
    }

    /// Has the map say where this server is, if it says something else.
    fn announce_address(&mut self, now: Time) {
        let id = self.parts.server.id();
        let Some(member) = self.parts.server.map().members().get(&id) else { return };
        let (address, metrics) = (&self.parts.address, &self.parts.metrics);
        if (member.address == *address && member.metrics == *metrics) || self.announce_address_at > now {
            return;
        }
        tracing::info!("announces to the cluster where it is reached: {address}");
        self.announce_address_at = now + ANNOUNCE_ADDRESS_EVERY;
        let command = placement::Command::UpdateAddress { id, address: address.clone(), metrics: metrics.clone() };
        self.ask(Admin::Placement(command));
    }

    fn act(&mut self, now: Time, action: Action) {
        match action {
            Action::Close(token, reason) => self.close(now, token, reason),
            Action::Dial { peer, address, targets, attempt, version } => {
                let outcome = dial(&address, &targets, attempt, self.parts.tls.as_ref()).and_then(|mut stream| {
                    bound_silence(&stream);
                    let role = Role::Peer { cluster: self.parts.cluster, server: self.parts.server.id(), to: peer };
                    stream.put(&Hello::in_version(role, version)).expect("a hello is short");
                    let token = self.tokens.next();
                    stream.register(self.parts.poll.registry(), token).map_err(|error| error.to_string())?;
                    self.connections
                        .insert(token, Connection { stream, kind: Kind::To { peer, welcomed: false }, host: None });
                    Ok(token)
                });
                match outcome {
                    Ok(token) => self.peers.opened(now, peer, token),
                    Err(reason) => {
                        tracing::debug!("to server {peer} at {address}: {reason}");
                        self.peers.failed(now, peer);
                    }
                }
            }
        }
    }

    fn signalled(&mut self, now: Time) {
        while let Ok(Some(signal)) = self.parts.signals.read_signal() {
            if self.ending.is_some() {
                tracing::info!("signal {}: ends at once", signal.ssi_signo);
                self.ending = Some(now);
                continue;
            }
            tracing::info!("signal {}: hands over what it leads", signal.ssi_signo);
            self.hand_over(now);
        }
    }

    /// Begins to end.
    fn hand_over(&mut self, now: Time) {
        self.ending = Some(now + HANDOVER_PATIENCE);
        let own = self.parts.server.id();
        let status = self.parts.server.status(now);
        let is_live = |id: &ServerId| status.peers.iter().any(|peer| peer.server == *id && peer.live);
        for group in status.groups.iter().filter(|group| group.leader == Some(own)) {
            if let Some(to) = group.voters.iter().copied().find(|id| *id != own && is_live(id)) {
                self.ask(Admin::MoveLeader { shard: group.shard, to });
            }
        }
    }

    /// Whether nothing is led that another could lead.
    fn has_handed_over(&self) -> bool {
        let now = self.parts.clock.now();
        let own = self.parts.server.id();
        let status = self.parts.server.status(now);
        let is_live = |id: &ServerId| status.peers.iter().any(|peer| peer.server == *id && peer.live);
        let leads = |group: &store::status::GroupStatus| group.leader == Some(own) && group.voters.iter().any(is_live);
        self.parts.disk.is_idle() && !status.groups.iter().any(leads)
    }
}
