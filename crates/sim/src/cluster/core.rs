//! The simulated machines and the network between them: what clients and faults act upon.

use std::collections::BTreeMap;

use machine::nanos::{Calendar, Span, Time};
use machine::{Rng, ServerId};
use placement::ShardId;
use store::peer::Envelope;
use store::protocol::{ClientMessage, FRAME_HEADER, FRAME_MAX, FrameError, ServerMessage};
use store::status::RaftRole;
use store::{ClientId, Input, Output, RequestId, Stop};
use wal::Lane;

use super::byzantine::Byzantine;
use super::clocks::Clock;
use super::disk::Disk;
use super::network::{Network, Party};
use super::node::Node;
use super::report::Finding;
use super::scenario::Scenario;

/// What a server needs to get to what came in: inputs of that time are handled together.
const DISPATCH: Span = Span::from_us(20);
/// More than that waits at no paused server: its connections would be full.
const INBOX_MAX: usize = 10_000;
/// How long it takes until both ends of a stream have noticed that it is broken, at most.
const NOTICE_MS: u32 = 600;

/// What happens next.
#[derive(Debug, Default)]
pub enum Event {
    /// Nothing.
    #[default]
    Nothing,
    /// A server has something to do.
    Run(ServerId),
    /// Something arrives at a server.
    ToServer(ServerId, Box<Input>),
    /// Something arrives at a client.
    ToClient(ClientId, ServerId, Box<ServerMessage>),
    /// A disk should be done with the first write of a lane, for a process of this epoch.
    Disk(ServerId, u64, Lane),
    /// A client's time has come; the number says for what.
    Wake(u32, u64),
    /// A stream is broken, and the client notices.
    StreamEnds(ClientId),
    /// A server is started again.
    Restart(ServerId),
    /// A fault begins.
    Fault(usize),
    /// A fault ends.
    Heal(usize),
    /// Look at everything.
    Sample,
}

/// A connection on which nothing is lost or overtaken until it breaks.
#[derive(Clone, Copy, Debug)]
struct Stream {
    server: ServerId,
    epoch: u64,
    /// When the last message arrives at the server, and at the client.
    last: (Time, Time),
    /// Bytes on their way to the client.
    unread: usize,
    is_broken: bool,
}

/// The machines and the network.
pub struct Core {
    /// The scenario.
    pub scenario: Scenario,
    /// The moment.
    pub now: Time,
    /// What happens when.
    pub calendar: Calendar<Event>,
    /// The network.
    pub network: Network,
    /// The machines.
    pub nodes: BTreeMap<ServerId, Node>,
    /// What should not have happened.
    pub findings: Vec<Finding>,
    /// What happened, if the scenario asks for it.
    pub trace: Vec<String>,
    /// Who lies, if anybody does.
    pub byzantine: Option<Byzantine>,
    /// Chance for what has none of its own.
    pub rng: Rng,
    streams: BTreeMap<ClientId, Stream>,
    connections: u64,
}

impl Core {
    /// No machines yet.
    pub fn new(seed: u64, scenario: &Scenario) -> Self {
        let rng = Rng::new(seed);
        Self {
            now: Time::ZERO,
            calendar: Calendar::new(),
            network: Network::new(scenario.quality, rng.fork(1)),
            nodes: BTreeMap::new(),
            findings: Vec::new(),
            trace: Vec::new(),
            streams: BTreeMap::new(),
            connections: 0,
            byzantine: scenario
                .lies
                .map(|lies| Byzantine::new(ServerId(scenario.servers), lies, scenario.active, rng.fork(0xb12a))),
            rng: rng.fork(2),
            scenario: scenario.clone(),
        }
    }

    /// Puts down what happens.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.scenario.trace {
            self.trace.push(format!("{:12.6} {}", self.now.as_secs_f64(), text()));
        }
    }

    /// Something should not have happened.
    pub fn found(&mut self, finding: Finding) {
        self.note(|| format!("FOUND {finding}"));
        self.findings.push(finding);
    }

    /// Lets something happen after a while.
    pub fn after(&mut self, span: Span, event: Event) {
        self.calendar.push(self.now + span, event);
    }

    /// A duration between two, by chance.
    pub fn between_ms(&mut self, low: u32, high: u32) -> Span {
        Span::from_us(u64::from(low) * 1_000 + u64::from(self.rng.below((high - low).max(1) * 1_000)))
    }

    /// A machine with an empty disk, whose process has run for up to 273 years: how long must make no difference.
    pub fn new_node(&mut self, id: ServerId, members: BTreeMap<ServerId, String>) -> Node {
        let offset = Span::from_secs(u64::from(self.rng.below(100_000)) * 24 * 3_600);
        let clock = Clock::new(offset, self.drift());
        let rng = self.rng.fork(id.0 << 8);
        Node::new(id, clock, Disk::new(self.scenario.speed, rng.fork(1)), members, rng.fork(2))
    }

    /// A drift within the bound.
    pub fn drift(&mut self) -> i32 {
        let max = self.scenario.drift_ppm_max;
        self.rng.below(2 * max.unsigned_abs() + 1).cast_signed() - max
    }

    /// Starts a server.
    pub fn start(&mut self, id: ServerId) {
        let (now, scenario) = (self.now, self.scenario.clone());
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.process.is_none()) else { return };
        match node.start(now, &scenario) {
            Ok(()) => {
                self.note(|| format!("server {id} starts"));
                self.schedule(id, now);
            }
            Err(reason) if node.is_rotten => {
                node.is_gone = true;
                self.note(|| format!("server {id} does not start: {reason}"));
            }
            Err(reason) => self.found(Finding::DoesNotStart { server: id.0, reason }),
        }
    }

    /// A process ends, by itself, by a signal, or with the power.
    pub fn stop(&mut self, id: ServerId, power_fails: bool) {
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.process.is_some()) else { return };
        node.stop();
        if power_fails {
            node.disk.power_fails();
        } else {
            node.disk.process_dies();
        }
        self.note(|| format!("server {id} stops{}", if power_fails { " without power" } else { "" }));
        let lost: Vec<ClientId> =
            self.streams.iter().filter(|(_, stream)| stream.server == id).map(|(client, _)| *client).collect();
        for client in lost {
            self.break_stream(client);
        }
        if !power_fails {
            let others: Vec<ServerId> = self.nodes.keys().copied().filter(|other| *other != id).collect();
            for other in others {
                let span = self.between_ms(1, 3);
                self.after(span, Event::ToServer(other, Box::new(Input::PeerLost(id))));
            }
        }
    }

    /// Lets a server run at a moment, if it would not before.
    pub fn schedule(&mut self, id: ServerId, at: Time) {
        let Some(process) = self.nodes.get_mut(&id).and_then(|node| node.process.as_mut()) else { return };
        if at < process.run_at {
            process.run_at = at;
            self.calendar.push(at, Event::Run(id));
        }
    }

    /// A server's clock was changed, so that its timers are due at another moment.
    pub fn clock_changed(&mut self, id: ServerId) {
        self.schedule(id, self.now);
    }

    /// A server runs, if this is the moment that it was to run at.
    pub fn run(&mut self, id: ServerId) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(process) = node.process.as_mut().filter(|process| process.run_at == now) else { return };
        process.run_at = Time::NEVER;
        if node.is_paused {
            return;
        }
        if let Some(inputs) = process.halts_after.take() {
            node.handle(now, inputs);
            node.is_paused = true;
            return;
        }
        let (outputs, until) = node.run(now);
        for output in outputs {
            self.carry_out(id, output);
            if self.nodes.get(&id).is_none_or(|node| node.process.is_none()) {
                // It has stopped itself: what it would have said after that is not heard.
                return;
            }
        }
        let has_output = self.nodes.get(&id).and_then(Node::server).is_some_and(store::Server::has_output);
        let until = if has_output { now } else { until };
        self.schedule(id, until.max(now + DISPATCH));
    }

    fn carry_out(&mut self, from: ServerId, output: Output) {
        match output {
            Output::Peer { to, mut envelope } => {
                let liar = self.byzantine.as_mut().filter(|liar| liar.server == from);
                let lies = liar.is_some();
                if let Some(liar) = liar {
                    envelope = liar.speak(self.now, to, envelope);
                }
                let copies = self.network.send(Party::Server(from), Party::Server(to));
                match self.through_bytes(envelope, lies) {
                    Ok(envelope) => self.deliver(copies, to, Input::Peer { from, envelope }),
                    // A driver closes the connection.
                    Err(error) => assert!(lies, "what was encoded can be decoded: {error}"),
                }
            }
            Output::Client { client, message, about: _ } => {
                self.answer(from, client, message);
                let unread =
                    self.streams.get(&client).filter(|stream| !stream.is_broken).map_or(0, |stream| stream.unread);
                if let Some(node) = self.nodes.get_mut(&from) {
                    node.note_waiting(client, unread);
                }
            }
            Output::Disk(write) => {
                let (now, lane) = (self.now, write.lane);
                let Some(node) = self.nodes.get_mut(&from) else { return };
                if let Some(at) = node.disk.submit(now, write) {
                    let epoch = node.epoch;
                    self.calendar.push(at, Event::Disk(from, epoch, lane));
                }
            }
            // Who has sent a bad token hears of it; its connection stays, which is the worse case.
            // Simulated servers have no secret to agree on.
            Output::Peers(_) | Output::BadToken(_) | Output::KeepSecret { .. } => {}
            Output::ReplicaStopped(stopped) => {
                let (server, shard) = (from.0, stopped.shard.0);
                self.found(Finding::ReplicaStopped { server, shard, reason: stopped.reason });
            }
            Output::Stop(why) => self.stopped(from, &why),
        }
    }

    /// Every now and then a message becomes bytes and a message again, as between processes; that of a liar always, since what is not
    /// taken as bytes harms nobody.
    fn through_bytes(&mut self, envelope: Envelope, always: bool) -> Result<Envelope, FrameError> {
        if self.rng.below(64) > 0 && !always {
            return Ok(envelope);
        }
        let mut frame = Vec::new();
        store::protocol::encode_frame(&envelope, &mut frame)?;
        let (body, _) = store::protocol::split_frame(&frame).expect("a frame").expect("a whole one");
        let decoded = store::protocol::decode(body)?;
        assert_eq!(envelope, decoded, "a message survives its encoding");
        Ok(decoded)
    }

    fn deliver(&mut self, copies: [Option<Span>; 2], to: ServerId, input: Input) {
        if let [_, Some(again)] = copies {
            self.after(again, Event::ToServer(to, Box::new(input.clone())));
        }
        if let [Some(first), _] = copies {
            self.after(first, Event::ToServer(to, Box::new(input)));
        }
    }

    /// The server has said that it must stop. Whoever runs it starts it again, unless it was removed.
    fn stopped(&mut self, id: ServerId, why: &Stop) {
        self.note(|| format!("server {id} stops itself: {why}"));
        let is_needless = matches!(why, Stop::NoMember(_));
        let is_member = self.map().is_some_and(|map| map.members().contains_key(&id));
        if self.byzantine.is_some() && is_member && is_needless {
            self.found(Finding::TalkedOut { server: id.0 });
        }
        self.stop(id, false);
        if let Some(node) = self.nodes.get_mut(&id).filter(|node| node.is_leaving) {
            node.is_gone |= is_needless;
        }
        let span = self.between_ms(100, 800);
        self.after(span, Event::Restart(id));
    }

    /// Something has come to a server.
    pub fn arrived(&mut self, to: ServerId, input: Input) {
        let now = self.now;
        if let (Some(liar), Input::Peer { envelope, .. }) = (&mut self.byzantine, &input)
            && liar.server == to
        {
            liar.observe(envelope);
        }
        let Some(process) = self.nodes.get_mut(&to).and_then(|node| node.process.as_mut()) else { return };
        if process.inbox.len() < INBOX_MAX {
            process.inbox.push_back(input);
            self.schedule(to, now + DISPATCH);
        }
    }

    /// A disk should be done with a write.
    pub fn disk_done(&mut self, id: ServerId, epoch: u64, lane: Lane) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.epoch == epoch && node.process.is_some()) else {
            return;
        };
        let (done, next) = node.disk.done(now, lane);
        if let Some(at) = next {
            self.calendar.push(at, Event::Disk(id, epoch, lane));
        }
        match done {
            Some((write, Ok(()))) => self.arrived(id, Input::Written(write)),
            Some((write, Err(error))) => {
                self.note(|| format!("disk of server {id}: {error}"));
                self.arrived(id, Input::WriteFailed { write, error });
            }
            None => {}
        }
    }

    /// A new connection of a client. What is sent on it is delayed, lost, doubled and overtaken.
    pub fn connect(&mut self, client: u32) -> ClientId {
        self.connections += 1;
        ClientId(u64::from(client) << 32 | self.connections)
    }

    /// A new connection of a client on which nothing is lost or overtaken until it breaks.
    pub fn connect_stream(&mut self, client: u32, server: ServerId) -> ClientId {
        let connection = self.connect(client);
        let epoch = self.nodes.get(&server).filter(|node| node.process.is_some()).map(|node| node.epoch);
        let last = (self.now, self.now);
        let epoch_or_none = epoch.unwrap_or(0);
        self.streams.insert(connection, Stream { server, epoch: epoch_or_none, last, unread: 0, is_broken: false });
        if epoch.is_none() {
            self.break_stream(connection);
        }
        connection
    }

    /// A client sends something.
    #[allow(clippy::wrong_self_convention, reason = "it is the message that goes to the server")]
    pub fn to_server(&mut self, connection: ClientId, to: ServerId, message: ClientMessage) {
        let (client, server) = (Party::Client(client_of(connection)), Party::Server(to));
        let input = Input::Client { client: connection, id: RequestId(0), message };
        let Some(stream) = self.streams.get(&connection).copied() else {
            let copies = self.network.send(client, server);
            self.deliver(copies, to, input);
            return;
        };
        if stream.is_broken {
            return;
        }
        match self.network.send_on_stream(client, server) {
            Some(span) => {
                let at = stream.last.0.max(self.now + span);
                self.streams.insert(connection, Stream { last: (at, stream.last.1), ..stream });
                self.calendar.push(at, Event::ToServer(to, Box::new(input)));
            }
            None => self.break_stream(connection),
        }
    }

    fn answer(&mut self, from: ServerId, connection: ClientId, message: ServerMessage) {
        let (server, client) = (Party::Server(from), Party::Client(client_of(connection)));
        let Some(stream) = self.streams.get(&connection).copied() else {
            for span in self.network.send(server, client).into_iter().flatten() {
                self.after(span, Event::ToClient(connection, from, Box::new(message.clone())));
            }
            return;
        };
        if stream.is_broken || self.nodes.get(&from).is_none_or(|node| node.epoch != stream.epoch) {
            return;
        }
        match self.network.send_on_stream(server, client) {
            Some(span) => {
                let bytes = frame_bytes(&message);
                let reads = Span::from_ns(bytes as u64 * 1_000_000_000 / self.scenario.reader_bytes_s);
                let at = stream.last.1.max(self.now + span) + reads;
                let unread = stream.unread + bytes;
                self.streams.insert(connection, Stream { last: (stream.last.0, at), unread, ..stream });
                self.calendar.push(at, Event::ToClient(connection, from, Box::new(message)));
            }
            None => self.break_stream(connection),
        }
    }

    /// A client has read a message of its stream: the server has room for more.
    pub fn was_read(&mut self, connection: ClientId, from: ServerId, message: &ServerMessage) {
        let Some(stream) = self.streams.get_mut(&connection) else { return };
        stream.unread -= frame_bytes(message);
        let (bytes, epoch, is_broken) = (stream.unread, stream.epoch, stream.is_broken);
        if !is_broken && self.nodes.get(&from).is_some_and(|node| node.epoch == epoch) {
            self.arrived(from, Input::Waiting { client: connection, bytes });
        }
    }

    /// A stream breaks. Its client notices soon, its server sooner or later.
    pub fn break_stream(&mut self, connection: ClientId) {
        let Some(stream) = self.streams.get_mut(&connection).filter(|stream| !stream.is_broken) else { return };
        stream.is_broken = true;
        let server = stream.server;
        let notice = self.between_ms(1, NOTICE_MS);
        self.after(notice, Event::StreamEnds(connection));
        let notice = self.between_ms(1, NOTICE_MS);
        self.after(notice, Event::ToServer(server, Box::new(Input::ClientGone(connection))));
    }

    /// Whether a message still reaches its client on this connection.
    pub fn is_open(&self, connection: ClientId) -> bool {
        self.streams.get(&connection).is_none_or(|stream| !stream.is_broken)
    }

    /// Servers that are members of the cluster as far as its administrator knows.
    pub fn members(&self) -> Vec<ServerId> {
        self.nodes.values().filter(|node| !node.is_leaving).map(|node| node.id).collect()
    }

    /// Servers that run and are not paused.
    pub fn running(&self) -> Vec<ServerId> {
        self.nodes.values().filter(|node| node.process.is_some() && !node.is_paused).map(|node| node.id).collect()
    }

    /// Servers that lead something.
    pub fn leaders(&self) -> Vec<ServerId> {
        let leads = |node: &&Node| {
            let Some(server) = node.server() else { return false };
            let groups = server.replicas(node.clock.shows(self.now));
            groups.iter().any(|group| group.role == RaftRole::Leader)
        };
        self.nodes.values().filter(leads).map(|node| node.id).collect()
    }

    /// The map as the server knows it that has applied the most of it.
    pub fn map(&self) -> Option<&placement::Map> {
        let servers = self.nodes.values().filter(|node| !node.is_gone).filter_map(Node::server);
        servers.map(store::Server::map).max_by_key(|map| map.applied())
    }

    /// The shards of the map.
    pub fn shards(&self) -> Vec<ShardId> {
        self.map().map(|map| map.shards().keys().copied().collect()).unwrap_or_default()
    }
}

/// Bytes of a message on a connection.
fn frame_bytes(message: &ServerMessage) -> usize {
    let bytes = store::protocol::frame_bytes(message);
    assert!(bytes <= FRAME_HEADER + FRAME_MAX, "what a server says fits into a frame");
    bytes
}

/// Whose connection it is.
pub const fn client_of(connection: ClientId) -> u32 {
    (connection.0 >> 32) as u32
}
