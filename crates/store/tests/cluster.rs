//! What a server does when all goes well, and that it stays up when peers, disks and clients do not behave.

use std::collections::BTreeMap;

use crate::bed::{self, CLIENT, Cluster, Member, Setup, address, location, path, put};
use machine::nanos::{Span, Time};
use machine::{Control, Rng, ServerId};
use placement::{Command, ShardId};
use store::peer::{Envelope, Item};
use store::protocol::{Admin, Answer, ClientMessage, Error, RequestBody};
use store::{ClientId, Config, Input, LEASE_MAX, RequestId};
use tree::{Change, Transaction};

impl Cluster {
    pub fn by(servers: u64, strategy: placement::Strategy) -> Self {
        Self::tuned(servers, strategy, |_| {})
    }

    pub fn tuned(servers: u64, strategy: placement::Strategy, tune: fn(&mut Config)) -> Self {
        Self::found(Setup { servers, strategy, tune, ..Setup::default() })
    }

    pub fn put(&mut self, to: u64, path: &str, value: &str) -> Answer {
        self.ask(to, put(path, value)).unwrap()
    }
}

#[test]
fn one_server_alone_writes_reads_and_comes_back() {
    let mut cluster = Cluster::by(1, placement::Strategy::Single);
    cluster.put(1, "/car:cars/car-entry=1", "red");
    assert_eq!(cluster.get(1, "/car:cars/car-entry=1").as_deref(), Some("red"));
    cluster.restart(1);
    assert_eq!(cluster.get(1, "/car:cars/car-entry=1").as_deref(), Some("red"));
}

#[test]
fn three_servers_elect_replicate_and_forward() {
    let mut cluster = Cluster::by(3, placement::Strategy::Single);
    for id in 1..=3 {
        cluster.put(id, &format!("/car:cars/car-entry={id}"), "blue");
    }
    for at in 1..=3 {
        for id in 1..=3 {
            assert_eq!(cluster.get(at, &format!("/car:cars/car-entry={id}")).as_deref(), Some("blue"), "{id} at {at}");
        }
    }
    cluster.run(Span::from_secs(2));
    cluster.assert_agreement();
}

#[test]
fn a_lost_leader_is_replaced_and_comes_back() {
    let mut cluster = Cluster::by(3, placement::Strategy::Single);
    cluster.put(1, "/car:cars/car-entry=1", "old");
    let leader = cluster.leader(ShardId::DEFAULT).unwrap();
    let gone = cluster.members.remove(&leader).unwrap();
    let other = if leader.0 == 1 { 2 } else { 1 };
    cluster.put(other, "/car:cars/car-entry=1", "new");
    cluster.members.insert(leader, Member { wake: cluster.now, ..gone });
    cluster.restart(leader.0);
    assert_eq!(cluster.get(leader.0, "/car:cars/car-entry=1").as_deref(), Some("new"));
    cluster.run(Span::from_secs(2));
    cluster.assert_agreement();
}

#[test]
fn modules_get_shards_of_their_own_whose_leaders_spread() {
    let mut cluster = Cluster::by(3, placement::Strategy::Distributed);
    for module in ["car", "people", "toaster", "topology", "inventory"] {
        cluster.put(1, &format!("/{module}:all/entry=1"), module);
    }
    cluster.run(Span::from_secs(20));
    for module in ["car", "people", "toaster", "topology", "inventory"] {
        assert_eq!(cluster.get(2, &format!("/{module}:all/entry=1")).as_deref(), Some(module));
    }
    let server = cluster.server(1);
    assert_eq!(server.map().shards().len(), 7, "{:?}", server.map().shards().keys());
    assert!(server.map().moves().is_empty());
    let leaders: Vec<_> = (0..7).map(|shard| cluster.leader(ShardId(shard)).unwrap()).collect();
    for id in 1..=3 {
        let leads = leaders.iter().filter(|leader| leader.0 == id).count();
        assert!(leads <= 3, "{leaders:?}");
    }
    cluster.assert_agreement();
}

#[test]
fn a_server_joins_takes_a_snapshot_and_replaces_another() {
    let mut cluster = Cluster::tuned(1, placement::Strategy::Single, |config| {
        config.snapshot_log_bytes = 4_096;
        config.keep_log_bytes = 1_024;
    });
    for entry in 0..200 {
        cluster.put(1, &format!("/car:cars/car-entry={entry}"), &"x".repeat(100));
    }
    for id in 2..=3 {
        let join = Admin::Join { name: format!("n{id}"), address: address(ServerId(id)), nonce: id, replaces: None };
        let answer = cluster.ask(1, RequestBody::Admin(join)).unwrap();
        assert!(matches!(answer, Answer::Joined { server, .. } if server.0 == id), "{answer:?}");
        cluster.join(id, &[1]);
        cluster.run(Span::from_secs(3));
    }
    assert!(cluster.server(1).counters().snapshots_sent > 0);
    assert_eq!(cluster.get(3, "/car:cars/car-entry=199").map(|value| value.len()), Some(100));
    cluster.assert_agreement();
    let voters = |cluster: &Cluster| cluster.server(2).replicas(cluster.now)[1].voters.clone();
    assert_eq!(voters(&cluster), [1, 2, 3].map(ServerId));
    // The first server leaves; the others go on without it.
    cluster.may_stop.insert(ServerId(1));
    let leave = RequestBody::Admin(Admin::Placement(placement::Command::RemoveServer { id: ServerId(1) }));
    cluster.ask(2, leave).unwrap();
    cluster.run(Span::from_secs(5));
    assert!(cluster.stopped.contains_key(&ServerId(1)), "{:?}", cluster.stopped);
    cluster.members.remove(&ServerId(1));
    cluster.put(2, "/car:cars/car-entry=0", "after");
    assert_eq!(voters(&cluster), [2, 3].map(ServerId));
}

/// While members change, those who voted before are needed, too. A leader that says that three vote can be lost at once, with all that
/// it has said and nobody has heard.
#[test]
fn whoever_is_said_to_vote_can_do_without_the_leader() {
    for shard in [ShardId::META, ShardId::DEFAULT] {
        let mut cluster = Cluster::by(1, placement::Strategy::Single);
        for id in 2..=3 {
            let join =
                Admin::Join { name: format!("n{id}"), address: address(ServerId(id)), nonce: id, replaces: None };
            cluster.ask(1, RequestBody::Admin(join)).unwrap();
            cluster.join(id, &[1]);
        }
        let all_vote = |cluster: &Cluster| cluster.group(1, shard).voters == [1, 2, 3].map(ServerId);
        while !all_vote(&cluster) {
            let Some((id, input)) = cluster.queue.pop_front() else {
                cluster.run(Span::from_ms(1));
                continue;
            };
            cluster.handle(id, input);
        }
        cluster.members.remove(&ServerId(1));
        cluster.queue.retain(|(_, input)| !matches!(input, Input::Peer { from: ServerId(1), .. }));
        cluster.run(Span::from_secs(3));
        assert!(cluster.leader(shard).is_some_and(|leader| leader != ServerId(1)), "{:?}", cluster.group(2, shard));
    }
}

#[test]
fn a_transaction_over_two_shards_is_refused_with_their_names() {
    let mut cluster = Cluster::by(1, placement::Strategy::Distributed);
    cluster.put(1, "/car:cars/car-entry=1", "x");
    cluster.put(1, "/people:people/person=1", "x");
    cluster.run(Span::from_secs(3));
    let changes = ["/car:cars/car-entry=1", "/people:people/person=1"]
        .map(|path| Change::Put { at: location(path), value: b"y".to_vec().into() });
    let transaction = Transaction { conditions: Vec::new(), changes: changes.into() };
    let error = cluster.ask(1, RequestBody::Write(transaction)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("car") && text.contains("people"), "{text}");
}

#[test]
fn a_watch_delivers_every_change_in_order() {
    let mut cluster = Cluster::by(3, placement::Strategy::Single);
    cluster.put(1, "/car:cars/car-entry=0", "before");
    // Until the second server has applied it: a watch begins with what its server has.
    cluster.run(Span::from_ms(3));
    let watch = RequestBody::Watch { at: location("/car:cars"), from: BTreeMap::new() };
    cluster.ask(2, watch).unwrap();
    for entry in 0..20 {
        cluster.put(1, &format!("/car:cars/car-entry={entry}"), "x");
    }
    cluster.run(Span::from_secs(1));
    let paths: Vec<String> =
        (cluster.events.iter().flat_map(|(_, batch)| &batch.events)).map(|event| event.at.path.to_string()).collect();
    assert_eq!(paths, (0..20).map(|entry| format!("/car:cars/car-entry={entry}")).collect::<Vec<_>>());
    assert!(cluster.events.iter().all(|(_, batch)| !batch.skipped));
}

#[test]
fn a_routed_call_reaches_the_provider_on_another_server() {
    let mut cluster = Cluster::by(3, placement::Strategy::Single);
    cluster.put(1, "/people:people", "x");
    let path = path("/people:people");
    let name = "people:add-person".to_owned();
    cluster.ask(3, RequestBody::Offer { offers: vec![(name.clone(), Some(path.clone()))] }).unwrap();
    cluster.run(Span::from_secs(1));
    let call = RequestBody::Call { name, path: Some(path), input: b"ada".to_vec(), idempotent: false };
    let sequence = cluster.send(1, call);
    cluster.run(Span::from_ms(50));
    let bed::Invoked { server, client, call, input } = cluster.invoked.pop().expect("the provider is invoked");
    assert_eq!((server, input.as_slice()), (ServerId(3), &b"ada"[..]));
    let message = ClientMessage::Reply { call, result: Ok(b"added".to_vec()) };
    cluster.queue.push_back((ServerId(3), Input::Client { client, id: RequestId(0), message }));
    cluster.run(Span::from_ms(50));
    assert_eq!(cluster.answer(sequence), Some(Ok(Answer::Output(b"added".to_vec()))));
}

/// What a peer sends is parsed by this crate, and most of it handled by raft-rs, which trusts its peers.
#[test]
fn damaged_envelopes_do_not_bring_a_server_down() {
    for seed in 0..20 {
        let mut cluster = Cluster::by(3, placement::Strategy::Single);
        cluster.put(1, "/car:cars/car-entry=1", "before");
        cluster.damage = Some(Rng::new(seed));
        for entry in 0..20 {
            cluster.send(1 + entry % 3, put(&format!("/car:cars/car-entry={entry}"), "x"));
            cluster.run(Span::from_ms(100));
        }
    }
}

/// A message of Raft as it is on the wire: its fields in order, and what a snapshot is of.
type RawMessage = (u32, u64, u64, u64, Vec<()>, u64, u64, u64, bool, u64, Vec<u8>, i64, Option<RawSnapshot>);
type RawSnapshot = (u64, u64, (Vec<u64>, Vec<u64>, Vec<u64>, Vec<u64>, bool));

const SNAPSHOT: u32 = 4;
const HEARTBEAT: u32 = 5;
const HEARTBEAT_RESPONSE: u32 = 6;
const VOTE: u32 = 2;
const VOTE_RESPONSE: u32 = 3;
const PRE_VOTE: u32 = 8;
const PRE_VOTE_RESPONSE: u32 = 9;

/// A message to the default shard: kind, term, last index and term of the log, context.
fn raw(kind: u32, term: u64, last: u64, context: &[u8], snapshot: Option<RawSnapshot>) -> Item {
    // No log ends with an entry of a term that is still to come.
    let log_term = last.min(term.saturating_sub(1));
    let raw: RawMessage = (kind, term, log_term, last, Vec::new(), 0, 0, 0, false, 0, context.to_vec(), 0, snapshot);
    let message = postcard::from_bytes(&postcard::to_stdvec(&raw).unwrap()).unwrap();
    Item::Raft { group: ShardId::DEFAULT, message }
}

fn from(from: ServerId, items: Vec<Item>) -> Input {
    Input::Peer { from, envelope: Envelope { stamp: Time::ZERO, echo: None, promise: Span::ZERO, items } }
}

impl Cluster {
    /// What a server has said to another about the default shard, by kind, and whether it was a refusal. It is not delivered.
    fn said(&mut self, id: ServerId, to: ServerId) -> Vec<(u32, bool)> {
        let mut said = Vec::new();
        self.queue.retain(|(receiver, input)| {
            let Input::Peer { from, envelope } = input else { return true };
            for item in &envelope.items {
                if let Item::Raft { group: ShardId::DEFAULT, message } = item
                    && (*from, *receiver) == (id, to)
                {
                    let bytes = postcard::to_stdvec(message).unwrap();
                    let (kind, rest) = postcard::take_from_bytes::<u32>(&bytes).unwrap();
                    let is_refusal = matches!(kind, VOTE_RESPONSE | PRE_VOTE_RESPONSE)
                        && postcard::from_bytes::<(u64, u64, u64, Vec<()>, u64, u64, u64, bool)>(rest).unwrap().7;
                    said.push((kind, is_refusal));
                }
            }
            false
        });
        said
    }

    /// Lets `span` pass for one server, whose disk is quick; gives what it said to another.
    fn run_alone(&mut self, id: ServerId, span: Span, to: ServerId) -> Vec<(u32, bool)> {
        let (end, mut said) = (self.now + span, Vec::new());
        while self.now < end {
            self.now += Span::from_ms(1);
            self.members.get_mut(&id).unwrap().server.handle(self.now, Input::Tick);
            self.drain(id);
            said.extend(self.said(id, to));
            while let Some((_, input)) = self.queue.pop_front() {
                self.members.get_mut(&id).unwrap().server.handle(self.now, input);
                self.drain(id);
                said.extend(self.said(id, to));
            }
        }
        said
    }

    /// A follower of the default shard, its leader, and the third server.
    fn parts(&self) -> (ServerId, ServerId, ServerId) {
        let leader = self.leader(ShardId::DEFAULT).unwrap();
        let others: Vec<ServerId> = self.members.keys().copied().filter(|id| *id != leader).collect();
        (others[0], leader, others[1])
    }
}

/// Raft would look for the data that come with a snapshot, which is not how they come.
#[test]
fn a_bare_snapshot_message_is_malformed_and_does_no_harm() {
    let mut cluster = Cluster::by(3, placement::Strategy::Single);
    cluster.put(1, "/car:cars/car-entry=1", "before");
    let (follower, leader, _) = cluster.parts();
    let members = (vec![1, 2, 3], Vec::new(), Vec::new(), Vec::new(), false);
    for term in [cluster.group(leader.0, ShardId::DEFAULT).term, 99] {
        let before = cluster.server(follower.0).counters().malformed;
        let snapshot = raw(SNAPSHOT, term, 0, &[], Some((1_000, term, members.clone())));
        cluster.queue.push_back((follower, from(leader, vec![snapshot])));
        cluster.run(Span::from_ms(50));
        assert_eq!(cluster.server(follower.0).counters().malformed, before + 1);
    }
    cluster.put(follower.0, "/car:cars/car-entry=1", "after");
    assert_eq!(cluster.get(follower.0, "/car:cars/car-entry=1").as_deref(), Some("after"));
}

/// It must not take a heartbeat that it has just answered for as old as its own sleep was long.
#[test]
fn a_follower_that_stood_still_keeps_its_promise() {
    let mut cluster = Cluster::tuned(3, placement::Strategy::Single, |config| {
        config.election.fixed = Some(Span::from_secs(1));
    });
    cluster.put(1, "/car:cars/car-entry=1", "x");
    let (follower, leader, third) = cluster.parts();
    let (term, last) = (cluster.group(leader.0, ShardId::DEFAULT).term, cluster.group(leader.0, ShardId::DEFAULT).last);
    cluster.queue.clear();
    cluster.now += Span::from_ms(1_300);
    let server = &mut cluster.members.get_mut(&follower).unwrap().server;
    server.handle(cluster.now, from(leader, vec![raw(HEARTBEAT, term, 0, &7_u64.to_le_bytes(), None)]));
    server.handle(cluster.now, from(third, vec![raw(PRE_VOTE, term + 1, last + 100, &[], None)]));
    cluster.drain(follower);
    let queue = cluster.queue.clone();
    assert!(cluster.said(follower, leader).iter().any(|(kind, _)| *kind == HEARTBEAT_RESPONSE));
    cluster.queue = queue;
    let mut said = cluster.said(follower, third);
    said.extend(cluster.run_alone(follower, Span::from_ms(890), third));
    assert_eq!(said, [], "it promised to wait for a timeout after the heartbeat");
    // And then it gives its answer.
    let later = cluster.run_alone(follower, Span::from_ms(300), third);
    assert!(later.contains(&(PRE_VOTE_RESPONSE, false)), "{later:?}");
}

/// Its own clock would have it send heartbeats every 200 ms, and the others stand for election after 100 ms.
#[test]
fn a_leader_with_a_long_timeout_keeps_voters_with_short_ones() {
    let mut cluster = Cluster::tuned(3, placement::Strategy::Single, |config| {
        let timeout_ms = if config.server == ServerId(2) { 1_000 } else { 100 };
        config.election.fixed = Some(Span::from_ms(timeout_ms));
    });
    cluster.put(1, "/car:cars/car-entry=1", "x");
    let command = Command::Pin { id: ShardId::DEFAULT, server: ServerId(2) };
    cluster.ask(1, RequestBody::Admin(Admin::Placement(command))).unwrap();
    cluster.run(Span::from_secs(10));
    assert_eq!(cluster.leader(ShardId::DEFAULT), Some(ServerId(2)));
    let term = cluster.group(2, ShardId::DEFAULT).term;
    cluster.run(Span::from_secs(60));
    assert_eq!(cluster.leader(ShardId::DEFAULT), Some(ServerId(2)));
    assert_eq!(cluster.group(2, ShardId::DEFAULT).term, term, "nobody stood for election");
}

/// Whoever says that he waits for no leader at all does not keep one busy.
#[test]
fn a_voter_without_patience_is_sent_no_more_heartbeats_than_others_bear() {
    let mut cluster = Cluster::by(3, placement::Strategy::Single);
    cluster.put(1, "/car:cars/car-entry=1", "x");
    let (follower, leader, _) = cluster.parts();
    cluster.queue.clear();
    let now = cluster.now;
    cluster.members.get_mut(&leader).unwrap().server.handle(now, from(follower, Vec::new()));
    let said = cluster.run_alone(leader, Span::from_ms(100), follower);
    let beats = said.iter().filter(|(kind, _)| *kind == HEARTBEAT).count();
    assert!((1..=25).contains(&beats), "{beats} in 100 ms");
}

/// It has forgotten what it promised, and to whom.
#[test]
fn a_restarted_server_gives_no_vote_for_as_long_as_a_lease_may_be() {
    let mut cluster = Cluster::by(3, placement::Strategy::Single);
    cluster.put(1, "/car:cars/car-entry=1", "x");
    let (follower, _, third) = cluster.parts();
    cluster.queue.clear();
    cluster.restart(follower.0);
    cluster.members.retain(|id, _| *id == follower);
    let ask = || from(third, vec![raw(VOTE, 50, 1_000, &[], None), raw(PRE_VOTE, 51, 1_000, &[], None)]);
    let mut said = Vec::new();
    for _ in 0..9 {
        said.extend(cluster.run_alone(follower, Span::from_ns(LEASE_MAX.as_ns() * 11 / 100), third));
        let now = cluster.now;
        cluster.members.get_mut(&follower).unwrap().server.handle(now, ask());
    }
    assert_eq!(said, [], "not within the longest lease");
    cluster.run_alone(follower, Span::from_ms(20), third);
    let now = cluster.now;
    cluster.members.get_mut(&follower).unwrap().server.handle(now, from(third, vec![raw(VOTE, 50, 1_000, &[], None)]));
    let said = cluster.run_alone(follower, Span::from_ms(20), third);
    assert!(said.contains(&(VOTE_RESPONSE, false)), "{said:?}");
}

#[test]
fn a_disk_that_does_not_answer_holds_up_what_is_written_and_nothing_breaks() {
    const WRITES: u64 = 80;
    let modules = ["car", "people", "toaster", "topology", "inventory", "a", "b", "c"];
    let mut cluster = Cluster::by(1, placement::Strategy::Distributed);
    for module in modules {
        cluster.put(1, &format!("/{module}:all/entry=1"), module);
    }
    cluster.run(Span::from_secs(5));
    cluster.stick_disks(|_, _| true);
    let value = "x".repeat(1 << 20);
    let sent: Vec<u64> = (0..WRITES)
        .map(|write| cluster.send(1, put(&format!("/{}:all/entry={write}", modules[write as usize % 8]), &value)))
        .collect();
    cluster.run(Span::from_secs(6));
    // What came first was taken, and not written in time; the rest was refused or held up.
    let reasons: Vec<String> = (sent.iter())
        .map(|sequence| match cluster.answer(*sequence) {
            Some(Err(Error::Timeout { reason, .. } | Error::Disk(reason))) => reason,
            other => panic!("{other:?}"),
        })
        .collect();
    let held_up = reasons.iter().filter(|reason| reason.contains("disk") && reason.contains("too slow")).count() as u64;
    assert!((8..WRITES).contains(&(WRITES - held_up)), "taken: {}", WRITES - held_up);
    assert!(WRITES - held_up <= 20, "it takes 16 MiB and what came at once: {}", WRITES - held_up);
    cluster.free_disks();
    cluster.put(1, "/car:all/entry=1", "after");
    assert!(cluster.stopped.is_empty(), "{:?}", cluster.stopped);
}

#[test]
fn a_client_has_no_more_watches_than_its_server_can_bear() {
    let mut cluster = Cluster::by(1, placement::Strategy::Single);
    cluster.put(1, "/car:cars/car-entry=1", "x");
    let watch = || RequestBody::Watch { at: location("/car:cars"), from: BTreeMap::new() };
    let sent: Vec<u64> = (0..1_024).map(|_| cluster.send(1, watch())).collect();
    cluster.run(Span::from_ms(50));
    assert!(
        sent.iter().all(|sequence| matches!(cluster.answers[&(CLIENT, *sequence)].result, Ok(Answer::Watching { .. })))
    );
    let error = cluster.ask(1, watch()).unwrap_err();
    assert!(error.to_string().contains("1024 watches"), "{error}");
}

/// Every message is smaller than a frame: the test encodes it.
#[test]
fn what_is_longer_than_a_frame_is_sent_in_several() {
    let mut cluster = Cluster::by(1, placement::Strategy::Single);
    let shard = ShardId::DEFAULT;
    cluster.put(1, "/car:cars/car-entry=0", "first");
    // As much as the history of a shard keeps; with paths it is more than a frame.
    let value = "x".repeat(1 << 20);
    for entry in 1..=16 {
        cluster.put(1, &format!("/car:cars/car-entry={entry}"), &value);
    }
    let watch = RequestBody::Watch { at: location("/car:cars"), from: BTreeMap::from([(shard, 1)]) };
    cluster.ask(1, watch).unwrap();
    cluster.run(Span::from_ms(50));
    assert!(cluster.events.iter().all(|(_, batch)| !batch.skipped), "nothing had to be left out");
    let revisions: Vec<u64> =
        cluster.events.iter().flat_map(|(_, batch)| batch.events.iter().map(|event| event.revision)).collect();
    assert_eq!(revisions, (2..=17).collect::<Vec<_>>());
    assert_eq!(cluster.events.last().map(|(_, batch)| batch.revision), Some(17));
    // One transaction: who loses the connection in its midst has not been told that he has all of it.
    cluster.events.clear();
    let changes = (0..7).map(|entry| Change::Put {
        at: location(&format!("/car:cars/car-entry={entry}")),
        value: value.as_str().into(),
    });
    let transaction = Transaction { conditions: Vec::new(), changes: changes.collect() };
    cluster.ask(1, RequestBody::Write(transaction)).unwrap();
    cluster.run(Span::from_ms(50));
    let ((_, last), parts) = cluster.events.split_last().expect("it was told");
    assert!(parts.len() > 2 && parts.iter().all(|(_, part)| part.revision == 17), "{} parts", parts.len());
    assert_eq!(last.revision, 18);
    assert_eq!(cluster.events.iter().map(|(_, part)| part.events.len()).sum::<usize>(), 7);
}

#[test]
fn a_watcher_that_does_not_read_costs_its_share_and_learns_that_it_missed_something() {
    let mut cluster = Cluster::tuned(1, placement::Strategy::Single, |config| config.memory_bytes = 4 << 20);
    let watch = RequestBody::Watch { at: location("/car:cars"), from: BTreeMap::new() };
    cluster.ask(1, watch).unwrap();
    cluster.unread.insert(CLIENT, 0);
    let value = "x".repeat(50_000);
    for entry in 0..100 {
        cluster.put(1, &format!("/car:cars/car-entry={entry}"), &value);
        let memory = cluster.server(1).memory();
        assert!(memory.used_bytes <= memory.limit_bytes / 2, "{memory:?}");
    }
    assert!(cluster.events.iter().all(|(_, batch)| !batch.skipped));
    cluster.unread.clear();
    let waiting = Input::Waiting { client: CLIENT, bytes: 0 };
    cluster.queue.push_back((ServerId(1), waiting));
    cluster.run(Span::from_ms(100));
    assert!(cluster.events.iter().any(|(_, batch)| batch.skipped));
    assert_eq!(
        cluster.events.last().map(|(_, batch)| batch.revision),
        Some(100),
        "it goes on after what it has to read again"
    );
    // The watch itself goes with its client.
    assert!(cluster.server(1).memory().used_bytes < 1_000);
    cluster.queue.push_back((ServerId(1), Input::ClientGone(CLIENT)));
    cluster.run(Span::from_ms(10));
    assert_eq!(cluster.server(1).memory().used_bytes, 0);
}

#[test]
fn without_a_majority_a_client_holds_its_share_and_is_asked_to_come_back() {
    let mut cluster = Cluster::tuned(3, placement::Strategy::Single, |config| config.memory_bytes = 4 << 20);
    cluster.put(1, "/car:cars/car-entry=0", "before");
    cluster.members.retain(|id, _| id.0 == 1);
    let value = "x".repeat(10_000);
    let sent: Vec<u64> =
        (0..1_000).map(|entry| cluster.send(1, put(&format!("/car:cars/car-entry={entry}"), &value))).collect();
    cluster.run(Span::from_secs(1));
    let server = cluster.server(1);
    let memory = server.memory();
    assert!(memory.peak_bytes <= memory.limit_bytes / 2, "{memory:?}");
    assert!(!server.may_read(CLIENT), "it has asked for enough");
    let refused = |cluster: &Cluster, client, sequence: u64| {
        let result = cluster.answers.get(&(client, sequence)).map(|response| &response.result);
        matches!(result, Some(Err(Error::Overloaded { retry_after_ms: 20.., .. })))
    };
    assert!(sent.iter().filter(|sequence| refused(&cluster, CLIENT, **sequence)).count() > 500);
    // Another one is heard all the same.
    cluster.timeout_ms = 500;
    let sequence = cluster.send_as(ClientId(2), 1, put("/car:cars", "y"));
    cluster.run(Span::from_ms(10));
    assert!(!refused(&cluster, ClientId(2), sequence));
    // When nobody waits any more, nothing is held.
    cluster.run(Span::from_secs(6));
    assert!(sent.iter().all(|sequence| cluster.answers.contains_key(&(CLIENT, *sequence))));
    let memory = cluster.server(1).memory();
    assert_eq!(memory.used_bytes, 0, "{memory:?}");
}
