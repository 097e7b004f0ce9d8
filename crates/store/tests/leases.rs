//! Leases, old revisions, transactions with an alternative, and the queue for a lock.

use std::collections::BTreeMap;

use crate::bed::{CLIENT, Cluster, Setup, location, path, text};
use machine::nanos::{Span, Step};
use machine::{Control, ServerId};
use placement::ShardId;
use store::contender::{self, Contender, Contest};
use store::protocol::{Admin, Answer, Consistency, Error, LeaseRequest, LeaseStatus, RequestBody};
use tree::{Change, Condition, EventKind, Expect, LeaseId, Location, Refusal, Transaction};

const TTL: Span = Span::from_secs(3);
const LEASE: LeaseId = LeaseId(0x2f);

impl Cluster {
    fn steady(servers: u64) -> Self {
        Self::steady_at(servers, store::protocol::VERSION)
    }

    /// Servers that speak this version of the protocol to each other.
    fn steady_at(servers: u64, protocol: u32) -> Self {
        Self::found(Setup { servers, protocol, tune: |config| config.balance_leaders = false, ..Setup::default() })
    }

    /// The answer of server 1 if it is given before any time passes.
    fn at_once(&mut self, body: RequestBody) -> Option<Result<Answer, Error>> {
        let sequence = self.send(1, body);
        self.deliver();
        self.answer(sequence)
    }

    fn change_data(&mut self, to: u64, changes: Vec<Change>) -> u64 {
        match self.ask(to, RequestBody::Write(Transaction { conditions: Vec::new(), changes })).unwrap() {
            Answer::Written { revision } => revision,
            other => panic!("{other:?}"),
        }
    }

    fn lease(&mut self, to: u64, request: LeaseRequest) -> Result<Answer, Error> {
        self.ask(to, RequestBody::Lease(request))
    }

    fn grant(&mut self, to: u64, home: &str) {
        let ttl_ms = TTL.as_ns() / 1_000_000;
        self.lease(to, LeaseRequest::Grant { lease: LEASE, ttl_ms, home: path(home) }).unwrap();
    }

    /// Keeps the lease alive in all of its parts.
    fn keep(&mut self, to: u64, home: &str) -> Result<(), Error> {
        let Answer::Kept { ttl_ms, parts } =
            self.lease(to, LeaseRequest::KeepAlive { lease: LEASE, at: path(home) })?
        else {
            panic!("another answer")
        };
        assert_eq!(Span::from_ms(ttl_ms), TTL);
        for at in parts {
            let _ = self.lease(to, LeaseRequest::KeepAlive { lease: LEASE, at });
        }
        Ok(())
    }

    fn show(&mut self, to: u64, at: &str) -> Result<LeaseStatus, Error> {
        match self.lease(to, LeaseRequest::Show { lease: LEASE, at: path(at) })? {
            Answer::Leases { mut leases, more: false } => Ok(leases.remove(0)),
            other => panic!("{other:?}"),
        }
    }

    fn get_at(&mut self, to: u64, at: &str, revision: u64) -> Result<Option<String>, Error> {
        let consistency = Consistency::Linearizable;
        self.ask(to, RequestBody::GetAt { at: location(at), revision, consistency }).map(text)
    }

    fn leads(&self) -> u64 {
        self.leader(ShardId::DEFAULT).expect("there is a leader").0
    }
}

fn put(at: &str, value: &str) -> Change {
    Change::Put { at: location(at), value: value.into() }
}

fn leased(at: &str, value: &str) -> Change {
    Change::PutWithLease { at: location(at), value: value.into(), lease: LEASE }
}

fn no_lease() -> Error {
    Error::Refused(Refusal::NoLease { lease: LEASE })
}

#[test]
fn values_go_when_nobody_keeps_their_lease_alive() {
    let mut cluster = Cluster::steady(3);
    cluster.grant(1, "/car:cars");
    let watch = RequestBody::Watch { at: location("/car:cars"), from: BTreeMap::new() };
    cluster.ask(2, watch).unwrap();
    let revision =
        cluster.change_data(2, vec![leased("/car:cars/a", "1"), leased("/car:cars/b", "2"), put("/car:cars/c", "3")]);
    for _ in 0..10 {
        cluster.run(Span::from_secs(1));
        cluster.keep(3, "/car:cars").unwrap();
    }
    assert_eq!(cluster.get(1, "/car:cars/a").as_deref(), Some("1"));
    let status = cluster.show(2, "/car:cars").unwrap();
    assert_eq!(status.values, [location("/car:cars/a"), location("/car:cars/b")]);
    assert!(status.left_ms > 2_000 && status.left_ms <= 3_000, "{status:?}");
    cluster.events.clear();
    cluster.run(TTL + Span::from_secs(1));
    assert_eq!(cluster.get(1, "/car:cars/a"), None);
    assert_eq!(cluster.get(1, "/car:cars/c").as_deref(), Some("3"));
    let events: Vec<_> = cluster.events.iter().flat_map(|(_, events)| &events.events).collect();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events.iter().all(|it| it.kind == EventKind::Deleted && it.revision == revision + 1), "{events:?}");
    assert_eq!(cluster.keep(1, "/car:cars"), Err(no_lease()));
    assert_eq!(cluster.show(3, "/car:cars").unwrap_err(), no_lease());
}

#[test]
fn a_new_leader_gives_them_all_of_their_time_and_an_old_one_keeps_none_alive() {
    let mut cluster = Cluster::steady(3);
    cluster.grant(1, "/car:cars");
    cluster.change_data(1, vec![leased("/car:cars/a", "1")]);
    cluster.run(Span::from_ms(2_500));
    let old = cluster.leads();
    cluster.cut_off.insert(ServerId(old));
    let other = old % 3 + 1;
    let keep_alive = LeaseRequest::KeepAlive { lease: LEASE, at: path("/car:cars") };
    let asked = cluster.send(old, RequestBody::Lease(keep_alive));
    cluster.run(Span::from_ms(2_500));
    assert!(!cluster.answers.contains_key(&(CLIENT, asked)), "{:?}", cluster.answers);
    // Longer than its time has gone by since it was granted, and a new leader is there.
    assert_ne!(cluster.leads(), old);
    cluster.keep(other, "/car:cars").expect("the new leader gave it all of its time");
    cluster.cut_off.clear();
    for _ in 0..4 {
        cluster.run(Span::from_secs(1));
        cluster.keep(old, "/car:cars").unwrap();
    }
    assert_eq!(cluster.get(old, "/car:cars/a").as_deref(), Some("1"));
    cluster.run(TTL + Span::from_secs(1));
    assert_eq!(cluster.get(old, "/car:cars/a"), None);
}

#[test]
fn leases_survive_the_end_of_all_servers() {
    let mut cluster = Cluster::steady(3);
    cluster.grant(1, "/car:cars");
    cluster.change_data(1, vec![leased("/car:cars/a", "1")]);
    (1..=3).for_each(|id| cluster.restart(id));
    assert_eq!(cluster.get(1, "/car:cars/a").as_deref(), Some("1"));
    assert_eq!(cluster.show(1, "/car:cars").unwrap().values, [location("/car:cars/a")]);
    cluster.run(TTL + Span::from_secs(1));
    assert_eq!(cluster.get(1, "/car:cars/a"), None);
}

#[test]
fn a_lease_follows_its_values_into_another_shard() {
    for (home, prefix) in [("/car:cars", "/car:cars/moves"), ("/car:cars/moves", "/car:cars/moves")] {
        let mut cluster = Cluster::steady(3);
        cluster.grant(1, home);
        cluster.change_data(1, vec![leased("/car:cars/moves/a", "1"), leased("/car:cars/stays", "2")]);
        cluster.make_shard("other", prefix);
        // Its keeper knows the home alone.
        for _ in 0..8 {
            cluster.keep(2, home).unwrap();
            cluster.run(Span::from_secs(1));
        }
        let from = cluster.show(1, home).unwrap();
        assert_eq!(from.parts.len(), 1, "{from:?}");
        for at in ["/car:cars/moves/a", "/car:cars/stays"] {
            assert!(cluster.get(3, at).is_some(), "{at} with home {home}");
        }
        // What is written with it in either shard goes with it.
        cluster.change_data(1, vec![leased("/car:cars/moves/b", "3")]);
        cluster.run(TTL + Span::from_secs(1));
        for at in ["/car:cars/moves/a", "/car:cars/moves/b", "/car:cars/stays"] {
            assert_eq!(cluster.get(3, at), None, "{at} with home {home}");
        }
    }
}

#[test]
fn an_old_revision_is_read_as_long_as_the_window_has_it() {
    let mut cluster = Cluster::steady(3);
    let first = cluster.change_data(1, vec![put("/car:cars/a", "1"), put("/car:cars/b", "1")]);
    cluster.change_data(2, vec![put("/car:cars/a", "2")]);
    let last = cluster.change_data(3, vec![Change::Delete { at: location("/car:cars/b") }]);
    for at in 1..=3 {
        assert_eq!(cluster.get_at(at, "/car:cars/b", first).unwrap().as_deref(), Some("1"));
        assert_eq!(cluster.get_at(at, "/car:cars/a", first).unwrap().as_deref(), Some("1"));
        assert_eq!(cluster.get_at(at, "/car:cars/b", last).unwrap(), None);
    }
    let (at, after, limit, revision) = (location("/car:cars"), None, 10, first);
    let list = RequestBody::ListAt { at, after, limit, revision, consistency: Consistency::Linearizable };
    let Answer::Values { entries, more: false } = cluster.ask(1, list).unwrap() else { panic!("no list") };
    assert_eq!(entries.len(), 2);
    assert_eq!(cluster.get_at(1, "/car:cars/a", last + 1), Err(Error::Compacted { oldest: 0, newest: last }));
    let window = RequestBody::Window { at: path("/car:cars"), consistency: Consistency::Linearizable };
    let shard = ShardId::DEFAULT;
    assert_eq!(cluster.ask(1, window.clone()), Ok(Answer::Window { shard, oldest: 0, newest: last }));
    // A server that started lately asks the leader, which may know more.
    let other = cluster.leads() % 3 + 1;
    cluster.restart(other);
    cluster.run(Span::from_secs(3));
    assert_eq!(cluster.get_at(other, "/car:cars/a", first).unwrap().as_deref(), Some("1"));
    // Data that come or go begin a new window.
    cluster.make_shard("other", "/car:cars/b");
    let gone = cluster.get_at(1, "/car:cars/a", first).unwrap_err();
    assert!(matches!(gone, Error::Compacted { oldest, newest } if oldest == newest && newest > last), "{gone:?}");
}

#[test]
fn a_transaction_says_what_else_is_done() {
    let mut cluster = Cluster::steady(1);
    let condition = Condition { at: location("/car:lock"), expect: Expect::Absent };
    let transaction = Transaction { conditions: vec![condition], changes: vec![put("/car:lock", "me")] };
    let body = RequestBody::WriteOrElse { transaction, otherwise: vec![put("/car:loser", "me")] };
    assert_eq!(cluster.ask(1, body.clone()), Ok(Answer::Written { revision: 1 }));
    assert_eq!(cluster.ask(1, body), Ok(Answer::Otherwise { revision: 2, condition: 0, actual: Some(1) }));
    assert_eq!(cluster.get(1, "/car:loser").as_deref(), Some("me"));
}

/// One in the queue, what was asked for it, and what became of it.
struct Waiter {
    contender: Contender,
    asked: BTreeMap<u64, u64>,
    watch: Option<u64>,
    turns: Vec<contender::Output>,
}

impl Waiter {
    fn new(lease: u64) -> Self {
        let contest = Contest { at: location("/car:lock"), lease: LeaseId(lease), ttl: TTL, value: vec![lease as u8] };
        let contender = Contender::new(contest).unwrap();
        Self { contender, asked: BTreeMap::new(), watch: None, turns: Vec::new() }
    }

    fn go_on(&mut self, cluster: &mut Cluster, to: u64) {
        let answered: Vec<u64> =
            self.asked.keys().copied().filter(|id| cluster.answers.contains_key(&(CLIENT, *id))).collect();
        for sequence in answered {
            let ask = self.asked.remove(&sequence).unwrap();
            let result = cluster.answer(sequence).unwrap();
            self.contender.handle(cluster.now, contender::Input::Answer { ask, result });
        }
        for (_, events) in cluster.events.iter().filter(|(_, events)| Some(events.watch) == self.watch) {
            self.contender.handle(cluster.now, contender::Input::Events(events.clone()));
        }
        cluster.events.retain(|(_, events)| Some(events.watch) != self.watch);
        while let Step::Do(output) = self.contender.poll(cluster.now) {
            match output {
                contender::Output::Ask { ask, body, .. } => {
                    let is_watch = matches!(body, RequestBody::Watch { .. });
                    let sequence = cluster.send(to, body);
                    self.asked.insert(sequence, ask);
                    if is_watch {
                        self.watch = Some(sequence);
                    }
                }
                turn => self.turns.push(turn),
            }
        }
    }

    fn token(&self) -> Option<u64> {
        match self.turns.last() {
            Some(contender::Output::Acquired { token, .. }) => Some(*token),
            _ => None,
        }
    }
}

fn wait(cluster: &mut Cluster, waiters: &mut [&mut Waiter], until: impl Fn(&[&mut Waiter]) -> bool) {
    for _ in 0..60_000 {
        if until(waiters) {
            return;
        }
        cluster.run(Span::from_ms(1));
        for waiter in waiters.iter_mut() {
            waiter.go_on(cluster, 1);
        }
    }
    let turns: Vec<_> = waiters.iter().map(|waiter| &waiter.turns).collect();
    panic!("what was awaited did not come: {turns:?}");
}

#[test]
fn a_lock_goes_from_one_to_the_next_with_larger_tokens() {
    let mut cluster = Cluster::steady(3);
    let (mut a, mut b, mut c) = (Waiter::new(1), Waiter::new(2), Waiter::new(3));
    wait(&mut cluster, &mut [&mut a], |waiters| waiters[0].token().is_some());
    let first = a.token().unwrap();
    // They wait for longer than a lease lives, in the order in which they came.
    for _ in 0..5_000 {
        cluster.run(Span::from_ms(1));
        a.go_on(&mut cluster, 1);
        b.go_on(&mut cluster, 1);
    }
    for _ in 0..5_000 {
        cluster.run(Span::from_ms(1));
        for waiter in [&mut a, &mut b, &mut c] {
            waiter.go_on(&mut cluster, 1);
        }
    }
    assert_eq!((b.token(), c.token()), (None, None));
    a.contender.handle(cluster.now, contender::Input::Release);
    wait(&mut cluster, &mut [&mut a, &mut b, &mut c], |waiters| waiters[1].token().is_some());
    assert_eq!(a.turns.last(), Some(&contender::Output::Released));
    let second = b.token().unwrap();
    assert!(second > first && c.token().is_none());
    // One that is not heard of any more loses it; what it writes with its token is refused from then on.
    wait(&mut cluster, &mut [&mut c], |waiters| waiters[0].token().is_some());
    assert!(c.token().unwrap() > second);
    let entry = Location::config(path("/car:lock").child("waiter", &[&LeaseId(2).to_string()]).unwrap());
    let condition = Condition { at: entry, expect: Expect::Etag(second) };
    let late = Transaction { conditions: vec![condition], changes: vec![put("/car:guarded", "late")] };
    let refused = cluster.ask(1, RequestBody::Write(late));
    assert!(matches!(refused, Err(Error::Refused(Refusal::ConditionFailed { actual: None, .. }))), "{refused:?}");
    // The other one notices by itself, before or after: it does not hold the lock by its own clock.
    assert_eq!(b.contender.holds(cluster.now), None);
    b.go_on(&mut cluster, 1);
    assert!(matches!(b.turns.last(), Some(contender::Output::Lost(_))), "{:?}", b.turns);
}

#[test]
fn nothing_of_version_2_is_taken_before_all_servers_speak_it() {
    let mut cluster = Cluster::steady_at(1, store::protocol::VERSION_MIN);
    let consistency = Consistency::Linearizable;
    let transaction = Transaction::of(put("/car:cars", "1"));
    let grant = LeaseRequest::Grant { lease: LEASE, ttl_ms: 5_000, home: path("/car:cars") };
    // Before the server finds out that it is alone and may raise the version.
    for body in [
        RequestBody::Lease(grant),
        RequestBody::Write(Transaction::of(leased("/car:cars", "1"))),
        RequestBody::WriteOrElse { transaction, otherwise: Vec::new() },
        RequestBody::GetAt { at: location("/car:cars"), revision: 0, consistency },
        RequestBody::Admin(Admin::BackupLasting { shard: ShardId::DEFAULT, after: None }),
    ] {
        assert_eq!(body.version(), 2);
        let answer = cluster.at_once(body);
        assert!(matches!(&answer, Some(Err(Error::Invalid(text))) if text.contains("upgrade all")), "{answer:?}");
    }
}
