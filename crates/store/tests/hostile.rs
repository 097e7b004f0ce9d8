//! A member of the cluster that lies: what it sends must not stop, fill or empty another server's replicas.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::bed::message;
use bytes::Bytes;
use machine::nanos::{Span, Step, Time};
use machine::{Control, Rng, ServerId};
use placement::{Replicas, ShardId};
use store::message::{Kind, LogEntry, Members, RaftMessage, SnapshotMeta};
use store::peer::{Ask, Envelope, Item, Leads, LeaseAsk, PeerAnswer};
use store::protocol::{
    Admin, Answer, ClientMessage, Consistency, Error, Request, RequestBody, Response, ServerMessage,
};
use store::snapshots::Chunk;
use store::status::Refused;
use store::{ClientId, Config, Founding, Input, Output, RequestId, Server};
use tree::{Change, Location, Path, Transaction};
use wal::{Log, MemoryDisk};

const CLUSTER: u64 = 7;

/// The one that lies.
const LIAR: ServerId = ServerId(3);

struct Node {
    server: Option<Server>,
    disk: MemoryDisk,
}

/// Three servers and a network that loses nothing. The third may be taken off: then only what is forged comes from it.
struct Cluster {
    now: Time,
    nodes: BTreeMap<ServerId, Node>,
    queue: VecDeque<(ServerId, Input)>,
    answers: BTreeMap<u64, Response>,
    stopped: Vec<String>,
    sequence: u64,
    rebuild: BTreeSet<ShardId>,
}

fn address(id: ServerId) -> String {
    format!("10.0.0.{id}:6640")
}

fn recover(disk: &MemoryDisk) -> (Log, wal::Recovered) {
    let config = wal::Config { cluster: Some(CLUSTER.into()), ..wal::Config::default() };
    Log::recover(&disk.files(), config).unwrap()
}

fn write(log: &mut Log, disk: &mut MemoryDisk) {
    while let Some(write) = log.take_batch() {
        disk.carry_out(&write).unwrap();
        log.done(write.id);
    }
}

impl Cluster {
    fn of_three() -> Self {
        let servers: BTreeMap<_, _> = (1..=3).map(ServerId).map(|id| (id, (format!("n{id}"), address(id)))).collect();
        let founding = Founding {
            cluster: CLUSTER,
            servers,
            strategy: placement::Strategy::Single,
            protocol: store::protocol::VERSION,
            secret: None,
        };
        let mut cluster = Self {
            now: Time::ZERO,
            nodes: BTreeMap::new(),
            queue: VecDeque::new(),
            answers: BTreeMap::new(),
            stopped: Vec::new(),
            sequence: 0,
            rebuild: BTreeSet::new(),
        };
        for id in (1..=3).map(ServerId) {
            let mut disk = MemoryDisk::new();
            let (mut log, _) = recover(&disk);
            let name = format!("n{id}");
            log.identify(wal::Identity { format: wal::FORMAT, cluster: CLUSTER.into(), server: id, name }).unwrap();
            founding.write(&mut log);
            write(&mut log, &mut disk);
            cluster.nodes.insert(id, Node { server: None, disk });
            cluster.start(id);
        }
        cluster
    }

    fn start(&mut self, id: ServerId) {
        let node = self.nodes.get_mut(&id).unwrap();
        let (log, recovered) = recover(&node.disk);
        let mut config = Config::new(CLUSTER, id, format!("n{id}"));
        config.address = address(id);
        config.rebuild = std::mem::take(&mut self.rebuild);
        let rng = Rng::new(id.0);
        let server = Server::open(config, log, recovered, &node.disk.files(), BTreeMap::new(), rng, self.now);
        node.server = Some(server.unwrap());
    }

    fn stop(&mut self, id: ServerId) {
        self.nodes.get_mut(&id).unwrap().server = None;
        for other in self.running() {
            self.handle(other, Input::PeerLost(id));
        }
    }

    fn running(&self) -> Vec<ServerId> {
        self.nodes.iter().filter(|(_, node)| node.server.is_some()).map(|(id, _)| *id).collect()
    }

    fn server(&self, id: u64) -> &Server {
        self.nodes[&ServerId(id)].server.as_ref().unwrap()
    }

    fn handle(&mut self, id: ServerId, input: Input) {
        let now = self.now;
        if let Some(server) = self.nodes.get_mut(&id).and_then(|node| node.server.as_mut()) {
            server.handle(now, input);
        }
        self.drain(id);
    }

    fn drain(&mut self, id: ServerId) {
        loop {
            let now = self.now;
            let Some(node) = self.nodes.get_mut(&id) else { return };
            let Some(server) = node.server.as_mut() else { return };
            match server.poll(now) {
                Step::Wait(_) => return,
                Step::Do(Output::Peer { to, envelope }) => {
                    self.queue.push_back((to, Input::Peer { from: id, envelope }));
                }
                Step::Do(Output::Client { message: ServerMessage::Response(response), .. }) => {
                    self.answers.insert(response.sequence, response);
                }
                Step::Do(Output::Disk(write)) => {
                    node.disk.carry_out(&write).unwrap();
                    self.queue.push_back((id, Input::Written(write.id)));
                }
                Step::Do(Output::Stop(why)) => self.stopped.push(why.to_string()),
                Step::Do(
                    Output::Client { .. }
                    | Output::Peers(_)
                    | Output::ReplicaStopped(_)
                    | Output::BadToken(_)
                    | Output::KeepSecret { .. },
                ) => {}
            }
        }
    }

    /// Lets this time pass.
    fn run(&mut self, span: Span) {
        let until = self.now + span;
        while self.now < until {
            self.now += Span::from_ms(5);
            for id in self.running() {
                self.handle(id, Input::Tick);
            }
            for _ in 0..200 {
                let Some((to, input)) = self.queue.pop_front() else { break };
                self.handle(to, input);
            }
        }
    }

    /// Forged items reach a server, as if the liar had sent them.
    fn forge(&mut self, to: u64, items: Vec<Item>) {
        let envelope = Envelope { stamp: self.now, echo: None, promise: Span::ZERO, items };
        // As it comes from the network.
        let bytes = postcard::to_stdvec(&envelope).unwrap();
        let envelope = store::protocol::decode(&bytes).unwrap();
        self.handle(ServerId(to), Input::Peer { from: LIAR, envelope });
    }

    fn request(&mut self, at: u64, body: RequestBody) -> Option<Response> {
        self.sequence += 1;
        let sequence = self.sequence;
        let request = Request { session: 1, sequence, acknowledged: sequence - 1, timeout_ms: 20_000, body };
        let message = ClientMessage::Request(request);
        self.handle(ServerId(at), Input::Client { client: ClientId(at), id: RequestId(0), message });
        for _ in 0..4_000 {
            if let Some(response) = self.answers.remove(&sequence) {
                return Some(response);
            }
            self.run(Span::from_ms(5));
        }
        None
    }

    /// Writes at a server and reads at another; both must succeed.
    fn assert_works(&mut self, at: u64, elsewhere: u64) {
        let value = self.sequence.to_string().into_bytes();
        let change = Change::Put { at: place(), value: value.clone().into() };
        let written = self.request(at, RequestBody::Write(Transaction { conditions: vec![], changes: vec![change] }));
        assert!(matches!(written, Some(Response { result: Ok(_), .. })), "{written:?}");
        let body = RequestBody::Get { at: place(), consistency: Consistency::Linearizable };
        let read = self.request(elsewhere, body);
        let Some(Response { result: Ok(Answer::Value(Some((_, found)))), .. }) = read else { panic!("{read:?}") };
        assert_eq!(found, value);
    }

    fn refused(&self, id: u64, why: Refused) -> u64 {
        self.server(id).counters().refused.of(why)
    }

    /// As a replica stands: term, last index, leader.
    fn stands(&self, id: u64, shard: ShardId) -> (u64, u64, Option<ServerId>) {
        let groups = self.server(id).replicas(self.now);
        let group = groups.iter().find(|group| group.shard == shard).unwrap();
        (group.term, group.last, group.leader)
    }

    fn restart_all_but_the_liar(&mut self) {
        for id in [ServerId(1), ServerId(2)] {
            self.stop(id);
            self.start(id);
        }
    }

    /// Two honest servers that have a leader, and the third off.
    fn against_the_third() -> Self {
        let mut cluster = Self::of_three();
        cluster.run(Span::from_secs(3));
        cluster.assert_works(1, 3);
        cluster.stop(LIAR);
        cluster.run(Span::from_secs(5));
        cluster.assert_works(1, 2);
        cluster
    }
}

fn place() -> Location {
    Location::config("/car:cars/car-entry=1".parse::<Path>().unwrap())
}

fn raft(group: ShardId, message: RaftMessage) -> Item {
    Item::Raft { group, message }
}

const BOTH: [ShardId; 2] = [ShardId::META, ShardId::DEFAULT];

#[test]
fn a_heartbeat_of_the_last_term_harms_nobody() {
    let mut cluster = Cluster::against_the_third();
    for to in [1, 2] {
        for group in BOTH {
            cluster.forge(to, vec![raft(group, message(Kind::Heartbeat, u64::MAX))]);
        }
        assert!(cluster.refused(to, Refused::Term) >= 2);
    }
    cluster.assert_works(1, 2);
    cluster.restart_all_but_the_liar();
    cluster.assert_works(2, 1);
}

#[test]
fn no_peer_uses_up_the_terms() {
    let mut cluster = Cluster::against_the_third();
    for round in 0..200_u64 {
        let term = cluster.stands(1, ShardId::DEFAULT).0;
        let kind = [Kind::Heartbeat, Kind::RequestVote, Kind::RequestPreVoteResponse][round as usize % 3];
        let rise = [1 << 61, 1 << 40, 1 << 31][round as usize % 3];
        let forged = RaftMessage { reject: true, ..message(kind, term.saturating_add(rise)) };
        cluster.forge(1, vec![raft(ShardId::DEFAULT, forged)]);
    }
    assert!(cluster.refused(1, Refused::Term) > 100);
    assert!(cluster.stands(1, ShardId::DEFAULT).0 < 1 << 40);
    cluster.run(Span::from_secs(10));
    cluster.assert_works(1, 2);
}

#[test]
fn an_appended_entry_that_is_no_command_is_not_taken() {
    let mut cluster = Cluster::against_the_third();
    for (to, group, kind) in [(1, ShardId::META, 0), (2, ShardId::DEFAULT, 0), (1, ShardId::DEFAULT, 1)] {
        let (term, last, _) = cluster.stands(to, group);
        let data = Bytes::from_static(b"this is no command");
        let entry = LogEntry { kind, term: term + 1, index: last + 1, data, context: Bytes::new() };
        let forged = RaftMessage {
            index: last,
            log_term: term,
            entries: vec![entry],
            commit: last + 1,
            ..message(Kind::Append, term + 1)
        };
        cluster.forge(to, vec![raft(group, forged)]);
        assert_eq!(cluster.stands(to, group).1, last);
        assert!(cluster.refused(to, Refused::Entry) >= 1);
    }
    cluster.assert_works(1, 2);
    cluster.restart_all_but_the_liar();
    cluster.assert_works(2, 1);
}

/// An entry that this program does not know stands in a server's log.
fn spoil(cluster: &mut Cluster, id: ServerId, shard: ShardId) {
    cluster.stop(id);
    spoil_log(&mut cluster.nodes.get_mut(&id).unwrap().disk, shard);
}

fn spoil_log(disk: &mut MemoryDisk, shard: ShardId) {
    let (mut log, recovered) = recover(disk);
    let group = &recovered.groups[&shard.0];
    let last = group.entries.last().unwrap();
    let entry = wal::Entry {
        index: last.index + 1,
        term: last.term,
        data: Bytes::from_static(b"this is no command"),
        ..wal::Entry::default()
    };
    log.append(shard.0, &[entry]).unwrap();
    let commit = last.index + 1;
    log.hard_state(shard.0, wal::HardState { commit, ..group.hard_state });
    write(&mut log, disk);
}

#[test]
fn a_log_that_cannot_be_applied_stops_that_replica_only_and_it_is_filled_again() {
    for shard in BOTH {
        let mut cluster = Cluster::of_three();
        cluster.run(Span::from_secs(3));
        cluster.assert_works(1, 3);
        spoil(&mut cluster, ServerId(2), shard);
        for _ in 0..2 {
            // It stays so, however often the server is started.
            cluster.stop(ServerId(2));
            cluster.start(ServerId(2));
            cluster.run(Span::from_secs(4));
            let stopped = cluster.server(2).stopped_replicas();
            assert_eq!(stopped.iter().map(|it| it.shard).collect::<Vec<_>>(), [shard]);
            assert!(stopped[0].reason.contains("hint:") && stopped[0].reason.contains("--rebuild"), "{stopped:?}");
            assert!(!cluster.server(2).is_ready());
            let others: Vec<ShardId> = cluster.server(2).replicas(cluster.now).iter().map(|it| it.shard).collect();
            assert_eq!(others, BOTH.into_iter().filter(|it| *it != shard).collect::<Vec<_>>());
            cluster.assert_works(1, 3);
        }
        cluster.stop(ServerId(2));
        cluster.rebuild = BTreeSet::from([shard]);
        cluster.start(ServerId(2));
        cluster.run(Span::from_secs(8));
        assert_eq!(cluster.server(2).stopped_replicas(), []);
        // Ready or not: it votes only once the group has come to where its log had ended.
        cluster.assert_works(2, 1);
        cluster.assert_works(1, 2);
        cluster.run(Span::from_secs(2));
        assert_eq!(cluster.server(2).digests(), cluster.server(1).digests());
        assert!(cluster.server(2).is_ready());
        // The first may go now: what was filled again votes.
        cluster.stop(ServerId(1));
        cluster.run(Span::from_secs(4));
        cluster.assert_works(2, 3);
    }
}

#[test]
fn an_emptied_replica_elects_nobody_before_it_has_what_it_had() {
    let mut cluster = Cluster::of_three();
    cluster.run(Span::from_secs(3));
    cluster.assert_works(1, 2);
    cluster.stop(ServerId(3));
    for _ in 0..3 {
        cluster.assert_works(1, 2);
    }
    // What was written just now is on 1 and 2 alone. 2 loses it; then 3, which never had it, must not be elected by 2.
    cluster.stop(ServerId(2));
    cluster.stop(ServerId(1));
    for shard in BOTH {
        spoil(&mut cluster, ServerId(2), shard);
    }
    cluster.rebuild = BTreeSet::from(BOTH);
    cluster.start(ServerId(2));
    cluster.start(ServerId(3));
    cluster.run(Span::from_secs(20));
    for id in [2, 3] {
        assert_eq!(cluster.server(id).leader_of(ShardId::DEFAULT), None);
    }
    // Nor after another start, of which it has nothing but its log.
    cluster.stop(ServerId(2));
    cluster.start(ServerId(2));
    cluster.run(Span::from_secs(20));
    assert_eq!(cluster.server(3).leader_of(ShardId::DEFAULT), None);
    cluster.start(ServerId(1));
    cluster.run(Span::from_secs(10));
    cluster.assert_works(3, 2);
}

/// The option may stand in a unit file: it is for replicas that have stopped, once each.
#[test]
fn a_replica_that_is_whole_is_not_emptied() {
    let mut cluster = Cluster::of_three();
    cluster.run(Span::from_secs(3));
    cluster.assert_works(1, 2);
    spoil(&mut cluster, ServerId(2), ShardId::DEFAULT);
    for is_emptied in [true, false] {
        cluster.rebuild = BTreeSet::from(BOTH);
        cluster.start(ServerId(2));
        let emptied: Vec<ShardId> = cluster.server(2).emptied_replicas().iter().copied().collect();
        assert_eq!(emptied, if is_emptied { vec![ShardId::DEFAULT] } else { vec![] });
        cluster.run(Span::from_secs(8));
        assert_eq!(cluster.server(2).stopped_replicas(), []);
        cluster.assert_works(2, 1);
        cluster.run(Span::from_secs(1));
        cluster.stop(ServerId(2));
    }
    // Nor is anything lost while nobody is there who could fill it again.
    cluster.stop(ServerId(1));
    cluster.stop(ServerId(3));
    cluster.rebuild = BTreeSet::from(BOTH);
    cluster.start(ServerId(2));
    cluster.run(Span::from_secs(1));
    assert!(cluster.server(2).replicas(cluster.now).iter().all(|replica| replica.applied > 0));
}

#[test]
fn the_only_replica_is_not_emptied() {
    let mut disk = MemoryDisk::new();
    let (mut log, _) = recover(&disk);
    let id = ServerId(1);
    log.identify(wal::Identity { format: wal::FORMAT, cluster: CLUSTER.into(), server: id, name: "n1".into() })
        .unwrap();
    let servers = BTreeMap::from([(id, ("n1".to_owned(), address(id)))]);
    Founding {
        cluster: CLUSTER,
        servers,
        strategy: placement::Strategy::Single,
        protocol: store::protocol::VERSION,
        secret: None,
    }
    .write(&mut log);
    write(&mut log, &mut disk);
    let open = |disk: &MemoryDisk| {
        let (log, recovered) = recover(disk);
        let mut config = Config::new(CLUSTER, id, "n1");
        config.rebuild = BTreeSet::from([ShardId::DEFAULT]);
        Server::open(config, log, recovered, &disk.files(), BTreeMap::new(), Rng::new(1), Time::ZERO)
    };
    assert!(open(&disk).is_ok_and(|server| server.emptied_replicas().is_empty()));
    spoil_log(&mut disk, ShardId::DEFAULT);
    assert!(matches!(open(&disk), Err(store::OpenError::OnlyReplica(ShardId::DEFAULT))));
}

#[test]
fn only_the_leader_hands_over_and_only_one_leads_a_term() {
    let mut cluster = Cluster::against_the_third();
    let follower = if cluster.stands(1, ShardId::DEFAULT).2 == Some(ServerId(1)) { 2 } else { 1 };
    let (term, last, leader) = cluster.stands(follower, ShardId::DEFAULT);
    for forged in [message(Kind::TimeoutNow, term), message(Kind::TimeoutNow, term + 1), message(Kind::Heartbeat, term)]
    {
        cluster.forge(follower, vec![raft(ShardId::DEFAULT, RaftMessage { commit: last, ..forged })]);
    }
    assert_eq!(cluster.refused(follower, Refused::Rights), 3);
    assert_eq!(cluster.stands(follower, ShardId::DEFAULT), (term, last, leader));
}

#[test]
fn a_leader_takes_answers_to_what_it_has_asked() {
    let mut cluster = Cluster::against_the_third();
    let leader = cluster.server(1).leader_of(ShardId::DEFAULT).unwrap().0;
    let (term, last, _) = cluster.stands(leader, ShardId::DEFAULT);
    let beyond = [
        RaftMessage { index: last + 1, ..message(Kind::AppendResponse, term) },
        RaftMessage { index: last, reject: true, reject_hint: last + 1, ..message(Kind::AppendResponse, term) },
    ];
    for forged in beyond {
        cluster.forge(leader, vec![raft(ShardId::DEFAULT, forged)]);
    }
    assert_eq!(cluster.refused(leader, Refused::Index), 2);
    for _ in 0..10_000 {
        let forged = RaftMessage { reject: true, index: last, ..message(Kind::AppendResponse, term) };
        cluster.forge(leader, vec![raft(ShardId::DEFAULT, forged)]);
    }
    assert!(cluster.refused(leader, Refused::Unasked) > 5_000);
    cluster.assert_works(1, 2);
}

#[test]
fn nobody_is_talked_out_of_its_replicas() {
    let mut cluster = Cluster::against_the_third();
    let mut map = placement::Map::new();
    for id in 2..=3 {
        let command = placement::Command::AddServer {
            name: format!("n{id}"),
            address: address(ServerId(id)),
            metrics: None,
            nonce: id,
        };
        map.apply(id, command).unwrap();
    }
    let before = cluster.server(1).map().clone();
    for _ in 0..100 {
        for group in BOTH {
            let map = Some(map.encode());
            cluster.forge(1, vec![Item::NoMember { group, index: 1 << 40, map, sealed: true }]);
            cluster.forge(2, vec![Item::NoMember { group, index: 1 << 40, map: None, sealed: true }]);
        }
        cluster.run(Span::from_ms(20));
    }
    // Nor while it hears nobody else.
    cluster.stop(ServerId(2));
    cluster.run(Span::from_secs(5));
    for _ in 0..100 {
        for group in BOTH {
            let map = Some(map.encode());
            cluster.forge(1, vec![Item::NoMember { group, index: 1 << 40, map, sealed: true }]);
        }
        cluster.run(Span::from_ms(20));
    }
    cluster.start(ServerId(2));
    cluster.run(Span::from_secs(5));
    assert_eq!(cluster.stopped, Vec::<String>::new());
    assert_eq!(cluster.server(1).map(), &before);
    for id in [1, 2] {
        assert_eq!(cluster.server(id).replicas(cluster.now).len(), 2);
    }
    cluster.assert_works(1, 2);
}

/// A server that was removed gets the map from one witness, and still votes where it is needed.
#[test]
fn a_map_of_one_witness_takes_no_replica_away() {
    let mut cluster = Cluster::against_the_third();
    let admin = |command| RequestBody::Admin(Admin::Placement(command));
    let (name, prefixes) = ("people".to_owned(), BTreeSet::new());
    let create = placement::Command::CreateShard { name, prefixes, replicas: Replicas::All };
    cluster.request(2, admin(create)).unwrap().result.unwrap();
    cluster.run(Span::from_secs(3));
    let shard = cluster.server(1).map().shard_named("people").unwrap().id;
    cluster.request(2, admin(placement::Command::RemoveServer { id: ServerId(1) })).unwrap().result.unwrap();
    cluster.run(Span::from_secs(3));
    assert!(!cluster.server(1).map().members().contains_key(&ServerId(1)));
    cluster.stands(1, shard);
    let mut map = cluster.server(1).map().clone();
    let delete = placement::Command::DeleteShard { id: shard };
    map.apply(map.version() + 100, delete).unwrap();
    assert!(!map.shards().contains_key(&shard) && map.version() > cluster.server(1).map().version());
    // It hears no leader.
    cluster.stop(ServerId(2));
    cluster.run(Span::from_secs(5));
    for _ in 0..100 {
        let map = Some(map.encode());
        cluster.forge(1, vec![Item::NoMember { group: ShardId::META, index: 1 << 40, map, sealed: false }]);
        cluster.run(Span::from_ms(20));
    }
    cluster.stands(1, shard);
}

/// It says in turns that it leads and that it does not. A server that has stood still hears all of that at once: it must not ask with each word
/// anew, since what is asked so often is written as often.
#[test]
fn who_changes_its_mind_is_not_asked_with_each_word() {
    let mut cluster = Cluster::against_the_third();
    let leader = cluster.server(1).leader_of(ShardId::DEFAULT).unwrap();
    let asking = if leader == ServerId(1) { ServerId(2) } else { ServerId(1) };
    let asked = |cluster: &mut Cluster| {
        let items = cluster.queue.drain(..).filter_map(|(to, input)| match input {
            Input::Peer { envelope, .. } if to == LIAR => Some(envelope.items),
            _ => None,
        });
        items.flatten().filter(|item| matches!(item, Item::Ask { ask: Ask::Propose(_), .. })).count()
    };
    for rise in [0, 1] {
        let leads = |nth: u64| {
            let terms = BTreeMap::from([(ShardId::DEFAULT, (1 << 40) + rise * nth)]);
            Item::Leads(Leads { terms, ..Leads::default() })
        };
        cluster.forge(asking.0, vec![leads(0)]);
        asked(&mut cluster);
        let change = Change::Put { at: place(), value: b"once".into() };
        let body = RequestBody::Write(Transaction { conditions: vec![], changes: vec![change] });
        cluster.sequence += 1;
        let sequence = cluster.sequence;
        let request = Request { session: 1, sequence, acknowledged: sequence - 1, timeout_ms: 1_000, body };
        let message = ClientMessage::Request(request);
        cluster.handle(asking, Input::Client { client: ClientId(1), id: RequestId(0), message });
        let words = (1..=100).flat_map(|nth| [Item::Leads(Leads::default()), leads(nth)]).collect();
        cluster.forge(asking.0, words);
        assert_eq!(asked(&mut cluster), 1);
        cluster.run(Span::from_secs(2));
    }
    cluster.assert_works(1, 2);
}

#[test]
fn what_is_led_is_believed_within_bounds_and_not_for_ever() {
    let mut cluster = Cluster::against_the_third();
    let mut leads = Leads { address: "x".repeat(1 << 18), ..Leads::default() };
    for shard in 0..60_000 {
        leads.terms.insert(ShardId(shard), u64::MAX);
    }
    for shard in 0..1_000 {
        leads.load.insert(ShardId(shard), (0..50).map(|id| (ServerId(id), u64::MAX)).collect());
        leads.ready.insert(ShardId(shard), vec![ServerId(9); 50]);
    }
    for to in [1, 2] {
        cluster.forge(to, vec![Item::Leads(leads.clone()), Item::Leads(leads.clone())]);
        assert!(cluster.refused(to, Refused::Leads) > 0);
        let believable = BTreeMap::from(BOTH.map(|shard| (shard, 1 << 61)));
        cluster.forge(to, vec![Item::Leads(Leads { terms: believable, ..Leads::default() })]);
    }
    // It is silent from now on.
    cluster.assert_works(1, 2);
    cluster.assert_works(2, 1);
}

#[test]
fn answers_come_from_whom_was_asked() {
    let mut cluster = Cluster::against_the_third();
    for id in 0..5_000 {
        let answer = Ok(PeerAnswer::Done);
        cluster.forge(1, vec![Item::Answer { id, group: ShardId::DEFAULT, answer }]);
    }
    cluster.assert_works(1, 2);
}

#[test]
fn commands_of_very_many_parts_are_neither_taken_nor_proposed() {
    let mut cluster = Cluster::against_the_third();
    let condition = tree::Condition { at: Location::config(Path::root()), expect: tree::Expect::Absent };
    let command = |conditions| {
        let transaction = Transaction { conditions: vec![condition.clone(); conditions], changes: vec![] };
        let session = tree::SessionId(1);
        tree::Command::Write { session, sequence: 1, acknowledged: 1, transaction }.encode()
    };
    let data = Bytes::from(command(1_000_000));
    // Few in each entry are many in all.
    let small = Bytes::from(command(1_000));
    let (term, last, _) = cluster.stands(1, ShardId::DEFAULT);
    let entry =
        |index, data: &Bytes| LogEntry { kind: 0, term: term + 1, index, data: data.clone(), context: Bytes::new() };
    let many = (1..=300).map(|place| entry(last + place, &small)).collect();
    for entries in [vec![entry(last + 1, &data)], many] {
        let append = RaftMessage { index: last, log_term: term, entries, ..message(Kind::Append, term + 1) };
        let before = cluster.refused(1, Refused::Entry);
        cluster.forge(1, vec![raft(ShardId::DEFAULT, append)]);
        assert_eq!(cluster.refused(1, Refused::Entry), before + 1);
        assert_eq!(cluster.stands(1, ShardId::DEFAULT).1, last);
    }
    let leader = cluster.stands(1, ShardId::DEFAULT).2.unwrap().0;
    let before = cluster.server(leader).counters().malformed;
    cluster.forge(leader, vec![Item::Ask { id: 1, group: ShardId::DEFAULT, ask: Ask::Propose(data.to_vec()) }]);
    assert_eq!(cluster.server(leader).counters().malformed, before + 1);
    cluster.assert_works(1, 2);
}

#[test]
fn what_only_a_leader_knows_is_proposed_by_no_peer() {
    let mut cluster = Cluster::against_the_third();
    let (_, last, leader) = cluster.stands(1, ShardId::DEFAULT);
    let leader = leader.unwrap().0;
    let before = cluster.server(leader).counters().malformed;
    let commands = [
        tree::Command::Expire { leases: vec![(tree::LeaseId(1), 1)] },
        tree::Command::Growth { allowed: false },
        tree::Command::Protocol { version: u32::MAX },
    ];
    for command in &commands {
        let ask = Ask::Propose(command.encode());
        cluster.forge(leader, vec![Item::Ask { id: 1, group: ShardId::DEFAULT, ask }]);
    }
    assert_eq!(cluster.server(leader).counters().malformed, before + commands.len() as u64);
    assert_eq!(cluster.stands(leader, ShardId::DEFAULT).1, last);
    cluster.assert_works(1, 2);
}

fn keep_alive(id: u64) -> Item {
    let ask = Ask::Lease(LeaseAsk::KeepAlive { lease: tree::LeaseId(1), at: place().path });
    Item::Ask { id, group: ShardId::DEFAULT, ask }
}

#[test]
fn what_is_asked_for_another_server_is_not_passed_on() {
    let mut cluster = Cluster::against_the_third();
    let (_, _, leader) = cluster.stands(1, ShardId::DEFAULT);
    let follower = if leader == Some(ServerId(1)) { 2 } else { 1 };
    let forwarded = cluster.server(follower).counters().forwarded;
    cluster.forge(follower, (0..100).map(keep_alive).collect());
    assert_eq!(cluster.server(follower).counters().forwarded, forwarded);
    // Whoever asked has heard that, and asks elsewhere: nothing is left of it here.
    assert_eq!(cluster.server(follower).memory().kinds[&store::budget::Kind::Requests].0, 0);
    let is_refusal = |item: &Item| matches!(item, Item::Answer { answer: Err(Error::Elsewhere { .. }), .. });
    let of = |(to, input): &(ServerId, Input)| match input {
        Input::Peer { envelope, .. } if *to == LIAR => envelope.items.iter().filter(|item| is_refusal(item)).count(),
        _ => 0,
    };
    assert_eq!(cluster.queue.iter().map(of).sum::<usize>(), 100);
    cluster.assert_works(1, 2);
}

#[test]
fn questions_about_leases_take_no_more_than_their_place() {
    let mut cluster = Cluster::against_the_third();
    let leader = cluster.stands(1, ShardId::DEFAULT).2.unwrap();
    // A leader that is alone, and whose own lease is over, has to wait before it answers.
    cluster.stop(ServerId(3 - leader.0));
    let stands = |cluster: &Cluster| {
        let groups = cluster.server(leader.0).replicas(cluster.now);
        groups.into_iter().find(|group| group.shard == ShardId::DEFAULT).unwrap()
    };
    while stands(&cluster).lease {
        cluster.run(Span::from_ms(5));
    }
    assert_eq!(stands(&cluster).leader, Some(leader));
    let most = Config::new(CLUSTER, leader, "n".to_owned()).operations_max;
    let before = cluster.server(leader.0).memory().kinds[&store::budget::Kind::Requests].0;
    cluster.forge(leader.0, (0..most as u64).map(keep_alive).collect());
    let full = cluster.server(leader.0).memory().kinds[&store::budget::Kind::Requests].0;
    assert!(full > before, "they wait");
    cluster.forge(leader.0, (0..1_000).map(keep_alive).collect());
    assert_eq!(cluster.server(leader.0).memory().kinds[&store::budget::Kind::Requests].0, full);
}

#[test]
fn snapshots_take_no_more_than_their_place() {
    let mut cluster = Cluster::against_the_third();
    let chunk = |transfer, group, number, bytes: Vec<u8>| {
        Item::Snapshot(Chunk { transfer, group: ShardId(group), number, bytes, message: None })
    };
    for transfer in 0..2_000 {
        let bytes = vec![0; 1_000];
        for number in [0, 1, u32::MAX] {
            cluster.forge(1, vec![chunk(transfer, transfer % 100, number, bytes.clone())]);
        }
        cluster.forge(1, vec![chunk(transfer, 1, 0, Vec::new())]);
    }
    assert!(cluster.refused(1, Refused::Snapshot) > 1_000);
    // Raft's message without a snapshot behind it, and one whose members cannot be.
    let meta = SnapshotMeta { index: u64::MAX, term: 1, members: Members::default() };
    let forged = RaftMessage { snapshot: Some(meta), ..message(Kind::Snapshot, 1_000) };
    cluster.forge(2, vec![raft(ShardId::DEFAULT, forged)]);
    cluster.assert_works(1, 2);
}
