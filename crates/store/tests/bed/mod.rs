//! A small cluster in memory: servers, their disks, the network between them, and what their clients hear.
//!
//! What servers say to each other crosses the network as bytes and arrives within the same millisecond; nothing is lost but what comes
//! from a server that is cut off or goes to one. Disks write at once. Tests change that with the fields of [`Cluster`].
#![allow(dead_code, reason = "no test uses all of it")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use machine::nanos::{Span, Step, Time};
use machine::{Control, Rng, ServerId};
use placement::{Prefix, Replicas, ShardId, Strategy};
use store::message::{Kind, RaftMessage};
use store::peer::{Envelope, Item};
use store::protocol::{
    Admin, Answer, ClientMessage, Consistency, Error, Request, RequestBody, Response, ServerMessage, VERSION,
    WatchEvents, decode, encode_frame, split_frame,
};
use store::status::{GroupStatus, RaftRole};
use store::{About, ClientId, Config, Founding, Input, Output, RequestId, Secret, Server};
use tree::{Change, Location, Path, Transaction};
use wal::{Log, MemoryDisk};

pub const CLUSTER: u64 = 7;

/// The client of requests, unless a test says otherwise.
pub const CLIENT: ClientId = ClientId(1);

/// What a cluster begins with.
#[derive(Clone, Copy)]
pub struct Setup {
    pub servers: u64,
    pub strategy: Strategy,
    /// The version of the protocol that all servers speak.
    pub protocol: u32,
    /// The digest of the cluster's secret.
    pub secret: Option<[u8; 32]>,
    /// Changes each server's configuration, which names the server.
    pub tune: fn(&mut Config),
}

impl Default for Setup {
    fn default() -> Self {
        Self { servers: 3, strategy: Strategy::Single, protocol: VERSION, secret: None, tune: |_| {} }
    }
}

pub struct Member {
    pub server: Server,
    pub disk: MemoryDisk,
    pub wake: Time,
}

/// A call that a server has passed on to a client.
pub struct Invoked {
    pub server: ServerId,
    pub client: ClientId,
    pub call: u64,
    pub input: Vec<u8>,
}

/// Disks that do nothing with some of what is given to them.
pub struct Stuck {
    /// Whether a server's disk does nothing with what is written in this lane.
    pub is_stuck: fn(ServerId, wal::Lane) -> bool,
    /// What was given to them.
    pub writes: Vec<(ServerId, wal::Write)>,
}

pub struct Cluster {
    pub now: Time,
    /// The servers that run.
    pub members: BTreeMap<ServerId, Member>,
    /// What is on its way to servers.
    pub queue: VecDeque<(ServerId, Input)>,
    /// The last answer to each request, until a test takes it.
    pub answers: BTreeMap<(ClientId, u64), Response>,
    pub events: Vec<(ClientId, WatchEvents)>,
    pub invoked: Vec<Invoked>,
    pub bad_tokens: Vec<ClientId>,
    /// What answers were about, in the order in which they came; requests are numbered as they are sent.
    pub about: Vec<(ClientId, About, Response)>,
    pub requests: u64,
    /// Secrets that were handed over: to whom, by whom.
    pub kept: Vec<(ServerId, ServerId, Secret)>,
    /// Servers that have stopped, and why. Only those that may do so.
    pub stopped: BTreeMap<ServerId, String>,
    pub may_stop: BTreeSet<ServerId>,
    /// Servers that nobody reaches, and that reach nobody.
    pub cut_off: BTreeSet<ServerId>,
    /// What servers say to each other and is lost.
    pub is_lost: fn(&Item) -> bool,
    /// A server that gets nothing of a group's log.
    pub misses: Option<(ServerId, ShardId)>,
    /// Copies of envelopes are damaged by this, and delivered too.
    pub damage: Option<Rng>,
    /// Disks that do nothing.
    pub stuck: Option<Stuck>,
    /// Disks may refuse what is given to them.
    pub is_disk_full: bool,
    /// The most bytes that a disk ever held.
    pub used_max: u64,
    /// Clients that do not read, and how many bytes wait for each.
    pub unread: BTreeMap<ClientId, usize>,
    /// For servers that are started from now on.
    pub tune: fn(&mut Config),
    /// How long a request waits for its answer, in milliseconds.
    pub timeout_ms: u32,
    sequence: u64,
    restarts: u64,
}

/// Starting and stopping servers.
impl Cluster {
    pub fn found(setup: Setup) -> Self {
        let Setup { servers, strategy, protocol, secret, tune } = setup;
        let names = (1..=servers).map(ServerId).map(|id| (id, (name(id), address(id)))).collect();
        let founding = Founding { cluster: CLUSTER, servers: names, strategy, protocol, secret };
        let mut cluster = Self {
            now: Time::ZERO,
            members: BTreeMap::new(),
            queue: VecDeque::new(),
            answers: BTreeMap::new(),
            events: Vec::new(),
            invoked: Vec::new(),
            bad_tokens: Vec::new(),
            about: Vec::new(),
            requests: 0,
            kept: Vec::new(),
            stopped: BTreeMap::new(),
            may_stop: BTreeSet::new(),
            cut_off: BTreeSet::new(),
            is_lost: |_| false,
            misses: None,
            damage: None,
            stuck: None,
            is_disk_full: false,
            used_max: 0,
            unread: BTreeMap::new(),
            tune,
            timeout_ms: 5_000,
            sequence: 0,
            restarts: 0,
        };
        for id in (1..=servers).map(ServerId) {
            let mut disk = MemoryDisk::new();
            let (mut log, _) = recover(&disk);
            log.identify(identity(id)).unwrap();
            founding.write(&mut log);
            let write = log.take_batch().expect("there is something to write");
            disk.carry_out(&write).unwrap();
            cluster.start(id, disk, &[]);
        }
        cluster
    }

    /// A server begins with what is on its disk; it knows the addresses of some others.
    fn start(&mut self, id: ServerId, disk: MemoryDisk, known: &[u64]) {
        let (mut log, recovered) = recover(&disk);
        if recovered.identity.is_none() {
            log.identify(identity(id)).unwrap();
        }
        let mut config = Config::new(CLUSTER, id, name(id));
        (self.tune)(&mut config);
        let known = known.iter().map(|id| (ServerId(*id), address(ServerId(*id)))).collect();
        // No life draws what another drew.
        let rng = Rng::new(id.0 + (self.restarts << 32));
        let server = Server::open(config, log, recovered, &disk, known, rng, self.now).unwrap();
        self.members.insert(id, Member { server, disk, wake: self.now });
    }

    pub fn restart(&mut self, id: u64) {
        let disk = self.members.remove(&ServerId(id)).expect("it runs").disk;
        self.restarts += 1;
        self.start(ServerId(id), disk, &[]);
    }

    /// A server with an empty disk begins.
    pub fn join(&mut self, id: u64, known: &[u64]) {
        self.start(ServerId(id), MemoryDisk::new(), known);
    }

    /// Connections between all servers are made. On each, the lower one of the versions is spoken that its two ends speak.
    pub fn connect(&mut self, speaks: impl Fn(ServerId) -> u32) {
        for id in self.members.keys() {
            for peer in self.members.keys().filter(|peer| *peer != id) {
                let version = speaks(*id).min(speaks(*peer));
                self.queue.push_back((*id, Input::PeerSpeaks { peer: *peer, version }));
            }
        }
    }
}

/// Time, and what goes to and fro.
impl Cluster {
    /// Lets `span` pass.
    pub fn run(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            for id in self.members.keys().copied().collect::<Vec<_>>() {
                if self.members[&id].wake <= self.now {
                    self.handle(id, Input::Tick);
                }
            }
            self.deliver();
            self.now += Span::from_ms(1);
        }
    }

    /// Delivers what is on its way, and what follows from it.
    pub fn deliver(&mut self) {
        while let Some((id, input)) = self.queue.pop_front() {
            self.handle(id, input);
        }
    }

    /// Hands something to a server, and carries out what it wants then.
    pub fn handle(&mut self, id: ServerId, input: Input) {
        if let Some(member) = self.members.get_mut(&id) {
            member.server.handle(self.now, input);
            self.drain(id);
        }
    }

    /// Carries out all that a server wants.
    pub fn drain(&mut self, id: ServerId) {
        while let Some(member) = self.members.get_mut(&id) {
            match member.server.poll(self.now) {
                Step::Do(output) => self.carry_out(id, output),
                Step::Wait(at) => {
                    member.wake = at;
                    return;
                }
            }
        }
    }

    fn carry_out(&mut self, id: ServerId, output: Output) {
        match output {
            Output::Peer { to, mut envelope } => {
                let missed = self.misses.filter(|(server, _)| *server == to).map(|(_, group)| group);
                let of = |item: &Item| match item {
                    Item::Raft { group, .. } => Some(*group),
                    Item::Snapshot(chunk) => Some(chunk.group),
                    _ => None,
                };
                envelope.items.retain(|item| !(self.is_lost)(item) && (missed.is_none() || of(item) != missed));
                self.send_envelope(id, to, &envelope);
            }
            Output::Disk(write) => self.write_to_disk(id, write),
            Output::Client { client, message, about } => {
                if let ServerMessage::Response(response) = &message {
                    self.about.push((client, about, response.clone()));
                }
                self.deliver_to_client(id, client, message);
            }
            Output::BadToken(client) => self.bad_tokens.push(client),
            Output::KeepSecret { from, secret } => {
                self.queue.push_back((id, Input::SecretKept { from, digest: secret.digest }));
                self.kept.push((id, from, secret));
            }
            Output::Peers(_) => {}
            Output::ReplicaStopped(stopped) => {
                assert!(self.may_stop.contains(&id), "a replica of server {id} stops: {stopped:?}");
            }
            Output::Stop(why) => {
                assert!(self.may_stop.contains(&id), "server {id} stops: {why}");
                self.stopped.insert(id, why.to_string());
            }
        }
    }

    fn send_envelope(&mut self, from: ServerId, to: ServerId, envelope: &Envelope) {
        if self.cut_off.contains(&from) || self.cut_off.contains(&to) {
            return;
        }
        let mut bytes = Vec::new();
        encode_frame(envelope, &mut bytes).expect("it fits a frame");
        let (body, _) = split_frame(&bytes).unwrap().expect("it is a whole frame");
        if let Some(rng) = &mut self.damage {
            let mut body = body.to_vec();
            for _ in 0..=rng.below(3) {
                let at = rng.below(body.len() as u32) as usize;
                body[at] = rng.bits() as u8;
            }
            if let Ok(envelope) = decode(&body) {
                self.queue.push_back((to, Input::Peer { from, envelope }));
            }
        }
        let envelope = decode(body).unwrap();
        self.queue.push_back((to, Input::Peer { from, envelope }));
    }

    fn write_to_disk(&mut self, id: ServerId, write: wal::Write) {
        if let Some(stuck) = &mut self.stuck
            && (stuck.is_stuck)(id, write.lane)
        {
            stuck.writes.push((id, write));
            return;
        }
        let disk = &mut self.members.get_mut(&id).expect("it runs").disk;
        let result = disk.carry_out(&write);
        self.used_max = self.used_max.max(disk.used_bytes());
        assert!(result.is_ok() || self.is_disk_full, "{result:?}");
        let failed = |error| Input::WriteFailed { write: write.id, error };
        self.queue.push_back((id, result.map_or_else(failed, |()| Input::Written(write.id))));
    }

    /// Chooses the disks that do nothing from now on.
    pub fn stick_disks(&mut self, is_stuck: fn(ServerId, wal::Lane) -> bool) {
        self.stuck = Some(Stuck { is_stuck, writes: Vec::new() });
    }

    /// Disks that were stuck carry out what was given to them.
    pub fn free_disks(&mut self) {
        for (id, write) in self.stuck.take().expect("they were stuck").writes {
            self.write_to_disk(id, write);
        }
    }

    fn deliver_to_client(&mut self, id: ServerId, client: ClientId, message: ServerMessage) {
        let mut frame = Vec::new();
        encode_frame(&message, &mut frame).expect("it fits a frame");
        let bytes = self.unread.get_mut(&client).map_or(0, |unread| {
            *unread += frame.len();
            *unread
        });
        let server = &mut self.members.get_mut(&id).expect("it runs").server;
        server.handle(self.now, Input::Waiting { client, bytes });
        match message {
            ServerMessage::Response(response) => drop(self.answers.insert((client, response.sequence), response)),
            ServerMessage::Watched(events) => self.events.push((client, events)),
            ServerMessage::Invoke { call, input, .. } => {
                self.invoked.push(Invoked { server: id, client, call, input });
            }
        }
    }
}

/// Requests and answers.
impl Cluster {
    /// Sends a request of [`CLIENT`], and gives its sequence.
    pub fn send(&mut self, to: u64, body: RequestBody) -> u64 {
        self.send_as(CLIENT, to, body)
    }

    pub fn send_as(&mut self, client: ClientId, to: u64, body: RequestBody) -> u64 {
        self.sequence += 1;
        self.send_again(client, self.sequence, to, body);
        self.sequence
    }

    /// Sends a request that has its sequence already.
    pub fn send_again(&mut self, client: ClientId, sequence: u64, to: u64, body: RequestBody) {
        let (session, timeout_ms) = (client.0 + 1, self.timeout_ms);
        let message = ClientMessage::Request(Request { session, sequence, acknowledged: sequence, timeout_ms, body });
        self.requests += 1;
        let id = RequestId(self.requests);
        self.queue.push_back((ServerId(to), Input::Client { client, id, message }));
    }

    /// Takes the answer to a request of [`CLIENT`].
    pub fn answer(&mut self, sequence: u64) -> Option<Result<Answer, Error>> {
        self.answer_to(CLIENT, sequence)
    }

    pub fn answer_to(&mut self, client: ClientId, sequence: u64) -> Option<Result<Answer, Error>> {
        Some(self.answers.remove(&(client, sequence))?.result)
    }

    /// Sends a request of [`CLIENT`], and lets time pass until it is answered.
    pub fn ask(&mut self, to: u64, body: RequestBody) -> Result<Answer, Error> {
        self.ask_as(CLIENT, to, body)
    }

    pub fn ask_as(&mut self, client: ClientId, to: u64, body: RequestBody) -> Result<Answer, Error> {
        let sequence = self.send_as(client, to, body);
        for _ in 0..self.timeout_ms + 1_000 {
            self.run(Span::from_ms(1));
            if let Some(result) = self.answer_to(client, sequence) {
                return result;
            }
        }
        panic!("no answer, not even that it is too late");
    }

    pub fn get(&mut self, at: u64, path: &str) -> Option<String> {
        let body = RequestBody::Get { at: location(path), consistency: Consistency::Linearizable };
        text(self.ask(at, body).unwrap())
    }

    /// Makes a shard that takes what is below a path, and waits until it has it.
    pub fn make_shard(&mut self, name: &str, prefix: &str) {
        let prefixes = [Prefix::Path(path(prefix))].into();
        let command = placement::Command::CreateShard { name: name.into(), prefixes, replicas: Replicas::All };
        self.ask(1, RequestBody::Admin(Admin::Placement(command))).unwrap();
        for _ in 0..1_000 {
            self.run(Span::from_ms(20));
            if self.members.values().all(|member| member.server.map().moves().is_empty()) {
                return;
            }
        }
        panic!("the move does not end");
    }
}

/// How the servers stand.
impl Cluster {
    pub fn server(&self, id: u64) -> &Server {
        &self.members[&ServerId(id)].server
    }

    pub fn group(&self, id: u64, shard: ShardId) -> GroupStatus {
        let groups = self.server(id).replicas(self.now);
        groups.into_iter().find(|group| group.shard == shard).expect("it has a replica")
    }

    /// The server that leads a shard and is not cut off.
    pub fn leader(&self, shard: ShardId) -> Option<ServerId> {
        let leads = |member: &Member| {
            let replicas = member.server.replicas(self.now);
            replicas.iter().any(|group| group.shard == shard && group.role == RaftRole::Leader)
        };
        let mut reached = self.members.iter().filter(|(id, _)| !self.cut_off.contains(id));
        reached.find(|(_, member)| leads(member)).map(|(id, _)| *id)
    }

    /// The commands in the log of a server's replica of a data shard, as far as it goes back.
    pub fn logged(&self, id: u64, shard: ShardId) -> Vec<tree::Command> {
        let (_, recovered) = recover(&self.members[&ServerId(id)].disk);
        let entries = recovered.groups[&shard.0].entries.iter().filter(|entry| entry.kind == 0);
        entries.filter_map(|entry| tree::Command::decode(&entry.data).ok()).collect()
    }

    /// All replicas of a shard have the same content.
    pub fn assert_agreement(&mut self) {
        // Followers hear of the last commit without new entries.
        self.run(Span::from_ms(3));
        let mut digests: BTreeMap<ShardId, (u64, u64)> = BTreeMap::new();
        for member in self.members.values() {
            for (shard, digest) in member.server.digests() {
                assert_eq!(*digests.entry(shard).or_insert(digest), digest, "replicas of shard {shard} differ");
            }
        }
    }
}

fn name(id: ServerId) -> String {
    format!("n{id}")
}

pub fn address(id: ServerId) -> String {
    format!("10.0.0.{id}:6640")
}

fn identity(id: ServerId) -> wal::Identity {
    wal::Identity { format: wal::FORMAT, cluster: CLUSTER.into(), server: id, name: name(id) }
}

/// What is on a disk.
pub fn recover(disk: &MemoryDisk) -> (Log, wal::Recovered) {
    let config = wal::Config { cluster: Some(CLUSTER.into()), ..wal::Config::default() };
    Log::recover(disk, config).unwrap()
}

pub fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

pub fn location(text: &str) -> Location {
    Location::config(path(text))
}

pub fn put(at: &str, value: impl AsRef<[u8]>) -> RequestBody {
    RequestBody::Write(Transaction::of(Change::Put { at: location(at), value: value.as_ref().into() }))
}

/// A value that was read.
pub fn text(answer: Answer) -> Option<String> {
    match answer {
        Answer::Value(value) => value.map(|(_, bytes)| String::from_utf8(bytes).unwrap()),
        other => panic!("{other:?}"),
    }
}

/// A message of Raft that says nothing but what it is.
pub fn message(kind: Kind, term: u64) -> RaftMessage {
    RaftMessage {
        kind,
        term,
        log_term: 0,
        index: 0,
        entries: Vec::new(),
        commit: 0,
        commit_term: 0,
        request_snapshot: 0,
        reject: false,
        reject_hint: 0,
        context: Bytes::new(),
        priority: 0,
        snapshot: None,
    }
}
