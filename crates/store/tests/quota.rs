//! A quota on data: what would add to them is refused while it is reached, and what servers say about it.

use std::collections::BTreeMap;

use crate::bed::{Cluster, Setup, location, put};
use machine::ServerId;
use machine::nanos::Span;
use placement::ShardId;
use store::alarm::Kind;
use store::protocol::{Admin, Answer, Error, RequestBody, VERSION};
use store::status::{ReadyCheck, Unready};
use store::{ClientId, Config};
use tree::{Change, Command, Refusal, Transaction};

const QUOTA: u64 = 400_000;

/// At this the data may grow again.
const LIFT: u64 = QUOTA / 100 * 95;

/// Of all values, unless they are small ones.
const VALUE: [u8; 8_000] = [7; 8_000];

/// What a value takes together with its path, at most.
const COST: u64 = VALUE.len() as u64 + 300;

/// A leader looks at its data so often, and Raft takes a part of that.
const LATE: Span = Span::from_ms(100);

fn with_quota(config: &mut Config) {
    config.quota_bytes = Some(QUOTA);
    config.balance_leaders = false;
}

fn with_quota_and_snapshots(config: &mut Config) {
    with_quota(config);
    config.snapshot_log_bytes = 100_000;
    config.keep_log_bytes = 10_000;
}

fn full() -> Result<Answer, Error> {
    Err(Error::Refused(Refusal::Full))
}

fn delete(path: &str) -> RequestBody {
    RequestBody::Write(Transaction::of(Change::Delete { at: location(path) }))
}

fn car(number: u64) -> String {
    format!("/car:cars/car-entry={number}")
}

/// The kind of alarm about the quota.
fn about_quota(kinds: &[Kind]) -> Option<Kind> {
    kinds.iter().copied().find(|kind| matches!(kind, Kind::QuotaNear | Kind::QuotaReached))
}

/// What came of writing until a write was refused.
struct Filled {
    /// The car whose value was refused.
    refused: u64,
    /// What each server said about its quota, in order.
    said: BTreeMap<u64, Vec<Option<Kind>>>,
}

impl Cluster {
    fn with(tune: fn(&mut Config)) -> Self {
        let mut cluster = Self::found(Setup { tune, ..Setup::default() });
        cluster.run(Span::from_secs(2));
        cluster
    }

    /// The servers that are up.
    fn ids(&self) -> Vec<u64> {
        self.members.keys().filter(|id| !self.cut_off.contains(id)).map(|id| id.0).collect()
    }

    fn content_bytes(&self, id: u64) -> u64 {
        self.server(id).alarms(self.now).content_bytes
    }

    fn kinds(&self, id: u64) -> Vec<Kind> {
        self.server(id).alarms(self.now).alarms.iter().map(|alarm| alarm.kind).collect()
    }

    /// Writes values of cars, from this one on, until one is refused.
    fn fill(&mut self, to: u64, first: u64) -> Filled {
        let mut filled = Filled { refused: first, said: BTreeMap::new() };
        let mut written = Vec::new();
        loop {
            self.note_said(&mut filled);
            let answer = self.ask(to, put(&car(filled.refused), VALUE));
            // What was written while the leader did not look.
            written.retain(|at| *at + LATE > self.now);
            for id in self.ids() {
                let content = self.content_bytes(id);
                assert!(content < QUOTA + (written.len() as u64 + 1) * COST, "{content} bytes at server {id}");
            }
            if answer.is_err() {
                assert_eq!(answer, full());
                self.run(LATE);
                self.note_said(&mut filled);
                return filled;
            }
            written.push(self.now);
            filled.refused += 1;
            self.run(Span::from_ms(10));
        }
    }

    fn note_said(&self, filled: &mut Filled) {
        for id in self.ids() {
            let (kind, said) = (about_quota(&self.kinds(id)), filled.said.entry(id).or_default());
            if said.last() != Some(&kind) {
                said.push(kind);
            }
        }
    }

    /// Every server that is up refuses what adds to the data, and takes what does not. There is a value of this car.
    fn assert_full(&mut self, number: u64) {
        let longer = [&VALUE[..], b"1"].concat();
        for id in self.ids() {
            assert_eq!(self.ask(id, put(&car(1_000 + id), "1")), full(), "at server {id}");
            assert_eq!(self.ask(id, put(&car(number), &longer)), full(), "at server {id}");
            let replaced = self.ask(id, put(&car(number), VALUE));
            assert!(replaced.is_ok(), "{replaced:?} at server {id}");
            // A client that looks where to send writes sees it, also where only the leader's server has reached it.
            assert_eq!(self.failed_checks(id), [ReadyCheck::Quota], "at server {id}");
        }
    }

    fn failed_checks(&self, id: u64) -> Vec<ReadyCheck> {
        self.server(id).unready().iter().map(|unready| unready.check).collect()
    }

    /// Every server that is up says so.
    fn assert_full_and_said(&mut self, number: u64) {
        self.assert_full(number);
        for id in self.ids() {
            assert_eq!(about_quota(&self.kinds(id)), Some(Kind::QuotaReached), "at server {id}");
        }
    }

    /// Deletes values of cars, from this one on, until the data may grow again. They may when they take less than the bound, and
    /// not before.
    fn make_room(&mut self, to: u64, first: u64) {
        for number in first..first + 100 {
            assert!(self.ask(to, delete(&car(number))).is_ok());
            self.run(LATE);
            let answer = self.ask(to, put(&car(2_000), "1"));
            let content = self.content_bytes(to);
            assert_eq!(answer.is_ok(), content < LIFT, "{content} bytes: {answer:?}");
            if answer.is_ok() {
                return;
            }
            assert_eq!(answer, full());
        }
    }

    fn restart_all(&mut self) {
        (1..=3).for_each(|id| self.restart(id));
        self.run(Span::from_secs(2));
    }

    /// What the log of a server's replica says about growth, as far as it goes back.
    fn growths(&self, id: u64, shard: ShardId) -> Vec<bool> {
        let growth = |command| match command {
            Command::Growth { allowed } => Some(allowed),
            _ => None,
        };
        self.logged(id, shard).into_iter().filter_map(growth).collect()
    }
}

#[test]
fn what_would_add_is_refused_and_all_else_goes_on() {
    let mut cluster = Cluster::with(with_quota);
    let filled = cluster.fill(2, 0);
    for said in filled.said.values() {
        assert_eq!(said, &[None, Some(Kind::QuotaNear), Some(Kind::QuotaReached)]);
    }
    cluster.assert_full_and_said(0);
    let shorter = cluster.ask(3, put(&car(0), &VALUE[1..]));
    assert!(shorter.is_ok(), "{shorter:?}");
    cluster.make_room(2, 1);
    for id in 1..=3 {
        assert_eq!(cluster.kinds(id), [Kind::QuotaNear]);
        assert!(cluster.ask(id, put(&car(3_000 + id), "1")).is_ok());
        assert_eq!(cluster.failed_checks(id), []);
        assert_eq!(cluster.growths(id, ShardId::DEFAULT), [false, true]);
    }
    assert!(cluster.ask(1, delete("/car:cars")).is_ok());
    cluster.run(LATE);
    for id in 1..=3 {
        assert_eq!((cluster.kinds(id), cluster.content_bytes(id)), (vec![], 0));
    }
    cluster.assert_agreement();
}

#[test]
fn many_writes_at_once_add_no_more_than_what_was_on_its_way() {
    let mut cluster = Cluster::with(with_quota);
    let mut sent = Vec::new();
    for number in 0..400 {
        // A session's writes stay in order on the way to one server only.
        let to = 1 + number % 3;
        let client = ClientId(10 + to);
        sent.push((client, cluster.send_as(client, to, put(&car(number), VALUE))));
        if number % 20 == 19 {
            cluster.run(LATE);
        }
    }
    cluster.run(Span::from_secs(1));
    for (client, sequence) in sent {
        let answer = cluster.answer_to(client, sequence).expect("it is answered");
        assert!(answer.is_ok() || answer == full(), "{answer:?}");
    }
    for id in 1..=3 {
        let content = cluster.content_bytes(id);
        assert!((QUOTA..QUOTA + 20 * COST).contains(&content), "{content} bytes at server {id}");
    }
    cluster.assert_full_and_said(0);
}

#[test]
fn a_new_leader_goes_on_where_the_old_one_was() {
    let mut cluster = Cluster::with(with_quota);
    for number in 0..44 {
        cluster.ask(1, put(&car(number), VALUE)).unwrap();
    }
    cluster.run(LATE);
    for round in 0..2 {
        let old = cluster.leader(ShardId::DEFAULT).unwrap();
        cluster.cut_off.insert(old);
        cluster.run(Span::from_secs(2));
        let new = cluster.leader(ShardId::DEFAULT).unwrap();
        assert_ne!(new, old);
        if round == 0 {
            // It was near the quota, and the new leader reaches it.
            let filled = cluster.fill(new.0, 44);
            assert_eq!(filled.said[&new.0], [Some(Kind::QuotaNear), Some(Kind::QuotaReached)]);
            assert_eq!(about_quota(&cluster.kinds(old.0)), Some(Kind::QuotaNear));
        }
        // In the second round it was reached before, and the new leader has nothing to say to the log.
        cluster.assert_full_and_said(0);
        assert_eq!(cluster.growths(new.0, ShardId::DEFAULT), [false]);
        if round == 1 {
            cluster.make_room(new.0, 1);
        }
        cluster.cut_off.clear();
        cluster.run(Span::from_secs(2));
        cluster.assert_agreement();
        let kind = [Kind::QuotaReached, Kind::QuotaNear][round];
        assert!((1..=3).all(|id| cluster.kinds(id) == [kind]), "{:?}", cluster.kinds(old.0));
    }
    assert!((1..=3).all(|id| cluster.ask(id, put(&car(3_000 + id), "1")).is_ok()));
}

#[test]
fn it_comes_back_from_the_disks() {
    for (tune, growths) in [(with_quota as fn(&mut Config), vec![false]), (with_quota_and_snapshots, vec![])] {
        let mut cluster = Cluster::with(tune);
        let filled = cluster.fill(1, 0);
        // The log goes on until snapshots have taken the place of what it said.
        for number in 0..filled.refused {
            cluster.ask(1, put(&car(number), VALUE)).unwrap();
        }
        cluster.run(Span::from_secs(1));
        cluster.restart_all();
        // The log was not asked to say it again.
        for id in 1..=3 {
            assert_eq!(cluster.growths(id, ShardId::DEFAULT), growths);
        }
        cluster.assert_full_and_said(0);
        // It stays so when they take a little less, after another restart as well.
        let mut last = filled.refused;
        while cluster.content_bytes(1) >= QUOTA {
            last -= 1;
            cluster.ask(1, delete(&car(last))).unwrap();
        }
        assert!(cluster.content_bytes(1) >= LIFT);
        cluster.assert_full_and_said(0);
        cluster.run(Span::from_secs(1));
        cluster.restart_all();
        // Only a leader knows it then.
        let leader = cluster.leader(ShardId::DEFAULT).unwrap();
        assert_eq!(cluster.kinds(leader.0), [Kind::QuotaReached]);
        cluster.assert_full(0);
        cluster.make_room(1, 1);
    }
}

#[test]
fn a_higher_quota_lets_the_data_grow() {
    for tune in [(|_| {}) as fn(&mut Config), |config| config.quota_bytes = None] {
        let mut cluster = Cluster::with(with_quota);
        let filled = cluster.fill(1, 0);
        cluster.tune = tune;
        cluster.restart_all();
        for id in 1..=3 {
            assert_eq!(cluster.kinds(id), []);
            assert!(cluster.ask(id, put(&car(filled.refused + id), VALUE)).is_ok());
        }
    }
}

#[test]
fn shards_reach_it_together() {
    let mut cluster = Cluster::with(with_quota);
    cluster.make_shard("buses", "/bus:buses");
    let buses = cluster.server(1).map().shard_named("buses").expect("it was made").id;
    let leader = cluster.leader(ShardId::DEFAULT).unwrap();
    let to = ServerId(leader.0 % 3 + 1);
    if cluster.leader(buses) == Some(leader) {
        cluster.ask(1, RequestBody::Admin(Admin::MoveLeader { shard: buses, to })).unwrap();
        cluster.run(Span::from_secs(1));
    }
    assert_ne!(cluster.leader(buses), Some(leader));
    for number in 0..25 {
        cluster.ask(1, put(&format!("/bus:buses/bus={number}"), VALUE)).unwrap();
    }
    assert!(cluster.fill(1, 0).refused < 30);
    cluster.assert_full_and_said(0);
    for id in 1..=3 {
        assert_eq!(cluster.ask(id, put("/bus:buses/bus=100", "1")), full());
        assert!([ShardId::DEFAULT, buses].iter().all(|shard| cluster.group(id, *shard).bytes < QUOTA * 2 / 3));
    }
    // Room that one of them makes is room for both.
    cluster.make_room(1, 0);
    for id in 1..=3 {
        assert!(cluster.ask(id, put("/bus:buses/bus=100", "1")).is_ok());
    }
}

/// For a while they are in both shards: counted twice they would reach the quota, and the logs would say so.
#[test]
fn data_that_move_count_once() {
    let mut cluster = Cluster::with(with_quota);
    for number in 0..30 {
        cluster.ask(1, put(&car(number), VALUE)).unwrap();
    }
    let content = cluster.content_bytes(1);
    assert!((QUOTA * 55 / 100..QUOTA * 75 / 100).contains(&content), "{content}");
    cluster.make_shard("cars", "/car:cars");
    cluster.run(Span::from_secs(1));
    let cars = cluster.server(1).map().shard_named("cars").expect("it was made").id;
    for id in 1..=3 {
        assert_eq!((cluster.content_bytes(id), cluster.group(id, cars).bytes), (content, content));
        assert_eq!((cluster.growths(id, ShardId::DEFAULT), cluster.growths(id, cars)), (vec![], vec![]));
    }
}

#[test]
fn silent_servers_and_shards_without_a_leader_are_alarms() {
    let mut cluster = Cluster::with(with_quota);
    assert!((1..=3).all(|id| cluster.kinds(id).is_empty()));
    let away = cluster.leader(ShardId::META).unwrap();
    cluster.cut_off.insert(away);
    cluster.run(Span::from_secs(3));
    for id in cluster.ids() {
        let alarms = cluster.server(id).alarms(cluster.now).alarms;
        let [alarm] = &alarms[..] else { panic!("{alarms:?}") };
        assert_eq!((alarm.kind, alarm.shard, alarm.server), (Kind::Silent, None, Some(away)));
        assert!(alarm.text.contains(&format!("n{away}")) && alarm.text.contains("hint:"), "{}", alarm.text);
    }
    let alarms = cluster.server(away.0).alarms(cluster.now).alarms;
    let leaderless: Vec<_> = alarms.iter().filter(|alarm| alarm.kind == Kind::NoLeader).collect();
    assert_eq!(
        leaderless.iter().map(|alarm| alarm.shard).collect::<Vec<_>>(),
        [ShardId::META, ShardId::DEFAULT].map(Some)
    );
    assert!(leaderless.iter().all(|alarm| alarm.text.contains("hint:")));
    let unready = cluster.server(away.0).unready();
    let [Unready { check: ReadyCheck::Leader, reason }] = &unready[..] else { panic!("{unready:?}") };
    assert!(reason.contains("shards meta, default") && reason.contains("hint:"), "{reason}");
    assert!(cluster.ids().into_iter().all(|id| cluster.server(id).is_ready()));
    let silent = alarms.iter().filter(|alarm| alarm.kind == Kind::Silent).filter_map(|alarm| alarm.server);
    assert_eq!(silent.map(|id| id.0).collect::<Vec<_>>(), cluster.ids());
    cluster.cut_off.clear();
    cluster.run(Span::from_secs(3));
    assert!((1..=3).all(|id| cluster.kinds(id).is_empty()));
}

#[test]
fn servers_of_version_2_never_see_it() {
    let mut cluster = Cluster::found(Setup { tune: with_quota, protocol: 2, ..Setup::default() });
    for number in 0..60 {
        let taken = cluster.ask(1 + number % 3, put(&car(number), VALUE));
        assert!(taken.is_ok(), "{taken:?}");
        cluster.run(Span::from_ms(10));
    }
    assert!((1..=3).all(|id| cluster.content_bytes(id) > QUOTA + 8 * COST));
    cluster.restart_all();
    for id in 1..=3 {
        assert_eq!((cluster.server(id).protocol(), cluster.growths(id, ShardId::DEFAULT)), (2, vec![]));
        // It is said all the same, and nothing that is not so.
        let alarms = cluster.server(id).alarms(cluster.now).alarms;
        let [alarm] = &alarms[..] else { panic!("{alarms:?}") };
        assert!(alarm.kind == Kind::QuotaReached && alarm.text.contains("version 3"), "{alarm:?}");
        assert!(cluster.server(id).is_ready());
    }
    assert!(cluster.ask(1, put(&car(60), VALUE)).is_ok());
    cluster.connect(|_| VERSION);
    cluster.run(Span::from_secs(3));
    cluster.assert_full_and_said(0);
    for id in 1..=3 {
        assert_eq!((cluster.server(id).protocol(), cluster.growths(id, ShardId::DEFAULT)), (VERSION, vec![false]));
        assert!(!cluster.server(id).alarms(cluster.now).alarms[0].text.contains("version 3"));
    }
}
