//! Servers that are removed or replaced: never so that a shard loses its majority for good.

use std::collections::BTreeSet;

use crate::bed::{self, Cluster, Setup, address, put};
use machine::ServerId;
use machine::nanos::Span;
use placement::{Command, Prefix, Replicas, ShardId};
use store::Input;
use store::message::{Kind, RaftMessage};
use store::peer::{Envelope, Item};
use store::protocol::{Admin, Answer, Error, RequestBody};
use store::status::GroupStatus;

const NEEDED: ServerId = ServerId(2);

/// Three servers; a shard has its replicas on the first two.
fn two_of_three() -> (Cluster, ShardId) {
    let mut cluster = Cluster::found(Setup::default());
    cluster.run(Span::from_secs(2));
    cluster.make_shard("pair", "/car:cars");
    let shard = cluster.server(1).map().shard_named("pair").expect("it was just made").id;
    let replicas = Replicas::Servers(BTreeSet::from([ServerId(1), NEEDED]));
    administer(&mut cluster, 1, Admin::Placement(Command::SetReplicas { id: shard, replicas })).unwrap();
    await_voters(&mut cluster, shard, &[1, 2]);
    cluster.ask(1, put("/car:cars/car-entry=1", "kept")).unwrap();
    (cluster, shard)
}

fn administer(cluster: &mut Cluster, at: u64, admin: Admin) -> Result<Answer, Error> {
    cluster.ask(at, RequestBody::Admin(admin))
}

fn remove(id: ServerId) -> Admin {
    Admin::Placement(Command::RemoveServer { id })
}

fn replace(old: ServerId) -> Admin {
    Admin::Join { name: "new".into(), address: address(ServerId(4)), nonce: 4, replaces: Some(old) }
}

fn await_voters(cluster: &mut Cluster, shard: ShardId, voters: &[u64]) {
    for _ in 0..1_000 {
        cluster.run(Span::from_ms(20));
        let group = cluster.server(1).replicas(cluster.now).into_iter().find(|group| group.shard == shard);
        let group = group.expect("the first server always has a replica");
        if group.voters.iter().map(|id| id.0).eq(voters.iter().copied()) {
            return;
        }
    }
    panic!("the voters do not become {voters:?}");
}

/// A server that leaves a group removes its log. What it said of that log may come late, when it is a member again: then its leader must not
/// take it for one that has the log.
#[test]
fn an_answer_that_comes_late_is_none_of_the_replica_that_comes_after() {
    let (mut cluster, shard) = two_of_three();
    assert_eq!(cluster.leader(shard), Some(ServerId(1)));
    let set = |servers: &[u64]| {
        let replicas = Replicas::Servers(servers.iter().copied().map(ServerId).collect());
        Admin::Placement(Command::SetReplicas { id: shard, replicas })
    };
    administer(&mut cluster, 1, set(&[1])).unwrap();
    await_voters(&mut cluster, shard, &[1]);
    cluster.run(Span::from_secs(1));
    assert!(
        !cluster.server(2).replicas(cluster.now).iter().any(|group| group.shard == shard),
        "it has removed its log"
    );
    let GroupStatus { term, last, .. } = cluster.group(1, shard);
    cluster.ask(1, put("/car:cars/car-entry=1", "new")).unwrap();

    cluster.cut_off.insert(NEEDED);
    administer(&mut cluster, 1, set(&[1, 2])).unwrap();
    cluster.run(Span::from_secs(1));
    assert_eq!(cluster.group(1, shard).learners, [NEEDED]);
    let late = RaftMessage { index: last, commit: last, ..bed::message(Kind::AppendResponse, term) };
    let items = vec![Item::Raft { group: shard, message: late }];
    let envelope = Envelope { stamp: cluster.now, echo: None, promise: Span::ZERO, items };
    cluster.queue.push_back((ServerId(1), Input::Peer { from: NEEDED, envelope }));
    cluster.run(Span::from_secs(1));
    let group = cluster.group(1, shard);
    assert_eq!((group.voters, group.learners), (vec![ServerId(1)], vec![NEEDED]), "it has nothing yet");

    cluster.cut_off.clear();
    await_voters(&mut cluster, shard, &[1, 2]);
    assert_eq!(cluster.group(1, shard).term, term);
    assert_eq!(cluster.get(1, "/car:cars/car-entry=1").as_deref(), Some("new"));
    cluster.assert_agreement();
}

fn is_member(cluster: &Cluster, id: ServerId) -> bool {
    cluster.server(1).map().members().contains_key(&id)
}

/// Asked right after the server fell silent, when it still counts as alive, and later; of the leader of meta, and of another.
#[test]
fn a_silent_server_that_a_shard_needs_stays_a_member() {
    let (mut cluster, _) = two_of_three();
    cluster.cut_off.insert(NEEDED);
    for admin in [remove(NEEDED), replace(NEEDED)] {
        for at in [1, 3] {
            let refused = administer(&mut cluster, at, admin.clone()).unwrap_err().to_string();
            assert!(refused.contains("server n2 is not heard") && refused.contains("shard pair"), "{refused}");
            assert!(is_member(&cluster, NEEDED));
        }
    }
}

#[test]
fn a_server_that_is_there_hands_over_and_leaves() {
    for at in [1, 3] {
        let (mut cluster, shard) = two_of_three();
        cluster.cut_off.insert(NEEDED);
        administer(&mut cluster, at, remove(NEEDED)).unwrap_err();
        cluster.cut_off.clear();
        cluster.may_stop.insert(NEEDED);
        administer(&mut cluster, at, remove(NEEDED)).unwrap();
        await_voters(&mut cluster, shard, &[1]);
        assert_eq!(cluster.get(1, "/car:cars/car-entry=1").as_deref(), Some("kept"));
    }
}

#[test]
fn a_silent_server_that_nobody_needs_may_be_removed_and_replaced() {
    for admin in [remove(ServerId(3)), replace(ServerId(3))] {
        let (mut cluster, _) = two_of_three();
        cluster.cut_off.insert(ServerId(3));
        administer(&mut cluster, 1, admin).unwrap();
        assert!(!is_member(&cluster, ServerId(3)));
    }
}

#[test]
fn who_insists_removes_a_needed_server() {
    for at in [1, 3] {
        let (mut cluster, _) = two_of_three();
        cluster.cut_off.insert(NEEDED);
        administer(&mut cluster, at, Admin::ForceRemove(NEEDED)).unwrap();
        cluster.run(Span::from_secs(1));
        assert!(!is_member(&cluster, NEEDED));
    }
}

/// Nothing that is no removal has to wait for anybody.
#[test]
fn other_changes_of_the_map_do_not_wait() {
    let (mut cluster, shard) = two_of_three();
    cluster.cut_off.insert(NEEDED);
    let prefixes = BTreeSet::from([Prefix::Path(bed::path("/people:people"))]);
    let create = Command::CreateShard { name: "more".into(), prefixes, replicas: Replicas::All };
    administer(&mut cluster, 1, Admin::Placement(create)).unwrap();
    let all = Command::SetReplicas { id: shard, replicas: Replicas::All };
    administer(&mut cluster, 1, Admin::Placement(all)).unwrap();
}

/// The map changes between the words of two witnesses, and a shard is led by a server that joined after the removed one was cut off: only by
/// a newer map does that one find out whom to ask whether it is still needed there.
#[test]
fn a_server_that_was_removed_while_it_was_cut_off_leaves_though_the_map_goes_on_changing() {
    let leaving = ServerId(3);
    let mut cluster = Cluster::found(Setup::default());
    cluster.run(Span::from_secs(2));
    cluster.make_shard("far", "/car:cars");
    let far = cluster.server(1).map().shard_named("far").expect("it was just made").id;
    cluster.cut_off.insert(leaving);
    administer(&mut cluster, 1, remove(leaving)).unwrap();
    let join = Admin::Join { name: "n4".into(), address: address(ServerId(4)), nonce: 4, replaces: None };
    administer(&mut cluster, 1, join).unwrap();
    cluster.join(4, &[1, 2]);
    let only = Replicas::Servers(BTreeSet::from([ServerId(4)]));
    administer(&mut cluster, 1, Admin::Placement(Command::SetReplicas { id: far, replicas: only })).unwrap();
    for _ in 0..1_000 {
        cluster.run(Span::from_ms(20));
        if cluster.leader(far) == Some(ServerId(4)) && cluster.server(1).replicas(cluster.now).len() == 2 {
            break;
        }
    }
    assert_eq!(cluster.leader(far), Some(ServerId(4)));
    cluster.may_stop.insert(leaving);
    for (witness, other) in [(1, 2), (2, 1)] {
        cluster.cut_off = BTreeSet::from([ServerId(other)]);
        cluster.run(Span::from_secs(10));
        cluster.cut_off = BTreeSet::from([leaving]);
        let prefixes = BTreeSet::from([Prefix::Path(bed::path(&format!("/people:people/person={witness}")))]);
        let create = Command::CreateShard { name: format!("more{witness}"), prefixes, replicas: Replicas::All };
        administer(&mut cluster, witness, Admin::Placement(create)).unwrap();
        cluster.run(Span::from_secs(2));
    }
    assert_eq!(cluster.stopped, [].into(), "two who say different things are not believed yet");
    cluster.cut_off.clear();
    cluster.run(Span::from_secs(10));
    let why = cluster.stopped.get(&leaving).expect("it hears that nobody needs it");
    assert!(why.contains("no member"), "{why}");
}

/// A removed server that leads a shard may still have to hear of it, from two servers that it knows: those stay until it has handed over.
#[test]
fn nobody_is_removed_while_a_removed_server_leads_a_shard() {
    let (leaving, next) = (ServerId(3), ServerId(2));
    let mut cluster = Cluster::found(Setup::default());
    cluster.run(Span::from_secs(2));
    cluster.make_shard("far", "/car:cars");
    let far = cluster.server(1).map().shard_named("far").expect("it was just made").id;
    let only = Replicas::Servers(BTreeSet::from([leaving]));
    administer(&mut cluster, 1, Admin::Placement(Command::SetReplicas { id: far, replicas: only })).unwrap();
    await_only_leader(&mut cluster, far, leaving);
    cluster.ask(1, put("/car:cars/car-entry=1", "kept")).unwrap();
    administer(&mut cluster, 1, replace(leaving)).unwrap();

    // The new server does not run yet.
    for cut_off in [BTreeSet::new(), BTreeSet::from([leaving])] {
        cluster.cut_off = cut_off;
        for admin in [
            remove(next),
            Admin::Join { name: "newer".into(), address: address(ServerId(5)), nonce: 5, replaces: Some(next) },
        ] {
            let refused = administer(&mut cluster, 1, admin).unwrap_err().to_string();
            assert!(refused.contains("server n2 stays") && refused.contains("shard far"), "{refused}");
            assert!(is_member(&cluster, next));
        }
    }

    cluster.cut_off.clear();
    cluster.may_stop.extend([leaving, next]);
    cluster.join(4, &[1, 2]);
    await_only_leader(&mut cluster, far, ServerId(4));
    administer(&mut cluster, 1, remove(next)).unwrap();
    assert_eq!(cluster.get(1, "/car:cars/car-entry=1").as_deref(), Some("kept"));
}

/// Its disk stood still while the only other server of its shard was replaced: it does not know the new one, and would be left with one
/// witness of its own removal.
#[test]
fn a_server_that_does_not_know_who_the_members_are_stays() {
    let (slow, other) = (ServerId(3), ServerId(2));
    let mut cluster = Cluster::found(Setup::default());
    cluster.run(Span::from_secs(2));
    cluster.make_shard("far", "/car:cars");
    let far = cluster.server(1).map().shard_named("far").expect("it was just made").id;
    let only = Replicas::Servers(BTreeSet::from([slow]));
    administer(&mut cluster, 1, Admin::Placement(Command::SetReplicas { id: far, replicas: only })).unwrap();
    await_only_leader(&mut cluster, far, slow);
    cluster.ask(1, put("/car:cars/car-entry=1", "kept")).unwrap();

    cluster.stick_disks(|id, _| id == ServerId(3));
    cluster.may_stop.extend([slow, other]);
    administer(&mut cluster, 1, replace(other)).unwrap();
    cluster.join(4, &[1]);
    cluster.run(Span::from_secs(10));
    let newer = Admin::Join { name: "newer".into(), address: address(ServerId(5)), nonce: 5, replaces: Some(slow) };
    for admin in [remove(slow), newer.clone()] {
        let refused = administer(&mut cluster, 1, admin).unwrap_err().to_string();
        assert!(
            refused.contains("server n3 is not heard, or lags behind") && refused.contains("shard far"),
            "{refused}"
        );
        assert!(is_member(&cluster, slow));
    }

    cluster.free_disks();
    cluster.run(Span::from_secs(5));
    administer(&mut cluster, 1, newer).unwrap();
    cluster.join(5, &[1, 4]);
    await_only_leader(&mut cluster, far, ServerId(5));
    cluster.run(Span::from_secs(10));
    assert!(cluster.stopped.contains_key(&slow), "it hears that it was removed");
    assert_eq!(cluster.get(1, "/car:cars/car-entry=1").as_deref(), Some("kept"));
}

fn await_only_leader(cluster: &mut Cluster, shard: ShardId, leader: ServerId) {
    for _ in 0..1_000 {
        cluster.run(Span::from_ms(20));
        if cluster.leader(shard) == Some(leader) && cluster.group(leader.0, shard).voters == [leader] {
            return;
        }
    }
    panic!("server {leader} does not become the only voter");
}

/// A learner does not stand for election: that its leader is silent it has to notice by itself.
#[test]
fn a_learner_that_is_out_of_its_group_gives_its_replica_up() {
    let mut cluster = Cluster::found(Setup { servers: 8, ..Setup::default() });
    cluster.run(Span::from_secs(3));
    let learners = cluster.server(1).map().desired_replicas(ShardId::DEFAULT).learners;
    let learner = *learners.first().expect("seven of eight vote");
    let holds = |cluster: &Cluster| {
        let groups = cluster.server(learner.0).replicas(cluster.now);
        groups.iter().any(|group| group.shard == ShardId::DEFAULT && group.learners.contains(&learner))
    };
    assert!(holds(&cluster));
    cluster.cut_off.insert(learner);
    let replicas = Replicas::Servers(BTreeSet::from([ServerId(1), ServerId(2), ServerId(3)]));
    let change = Command::SetReplicas { id: ShardId::DEFAULT, replicas };
    administer(&mut cluster, 1, Admin::Placement(change)).unwrap();
    await_voters(&mut cluster, ShardId::DEFAULT, &[1, 2, 3]);
    cluster.run(Span::from_secs(3));
    assert!(holds(&cluster));
    cluster.cut_off.clear();
    cluster.run(Span::from_secs(10));
    assert!(!holds(&cluster), "{:?}", cluster.group(learner.0, ShardId::DEFAULT));
}
