//! What commands do and what they refuse, one situation each.

use std::collections::BTreeSet;

use machine::ServerId;
use placement::{
    Command, Effect, META_VOTERS_MAX, Map, MoveId, Mover, Phase, Prefix, Refusal, Replicas, SHARDS_MAX, ShardId, Step,
    Strategy, VOTERS_MAX,
};
use tree::Path;

fn path(text: &str) -> Path {
    Path::parse(text).expect("the tests' paths are well-formed")
}

fn at(text: &str) -> Prefix {
    Prefix::Path(path(text))
}

fn module(name: &str) -> Prefix {
    Prefix::Module(name.to_owned())
}

fn ids(ids: &[u64]) -> BTreeSet<ServerId> {
    ids.iter().copied().map(ServerId).collect()
}

fn add(n: u64) -> Command {
    Command::AddServer { name: format!("s{n}"), address: format!("host{n}:7000"), metrics: None, nonce: n }
}

fn create(name: &str, prefixes: &[Prefix], replicas: Replicas) -> Command {
    Command::CreateShard { name: name.to_owned(), prefixes: prefixes.iter().cloned().collect(), replicas }
}

/// Applies at the next index.
fn apply(map: &mut Map, command: Command) -> Result<Effect, Refusal> {
    map.apply(map.applied() + 1, command)
}

fn cluster(servers: u64) -> Map {
    let mut map = Map::new();
    for n in 1..=servers {
        assert_eq!(apply(&mut map, add(n)), Ok(Effect::Server(ServerId(n))));
    }
    map
}

/// Takes every move to its end; returns shards that went away.
fn finish(map: &mut Map) -> Vec<ShardId> {
    let (mut mover, mut gone) = (Mover::new(), Vec::new());
    loop {
        let steps = mover.poll(map);
        if steps.is_empty() {
            return gone;
        }
        for step in steps {
            let command = match &step {
                Step::Freeze(it) => {
                    mover.frozen(it.id);
                    continue;
                }
                Step::Copy(it) => Command::MoveImported { id: it.id },
                Step::Finish(id) => Command::FinishMove { id: *id },
                Step::Drop(it) => Command::MoveDropped { id: it.id },
            };
            if let Effect::ShardsGone(shards) = apply(map, command).expect("a step in its turn") {
                gone.extend(shards);
            }
        }
    }
}

/// The shard that a command made.
fn made(effect: Result<Effect, Refusal>) -> ShardId {
    match effect {
        Ok(Effect::Shard { id, .. }) => id,
        other => panic!("expected a shard, got {other:?}"),
    }
}

#[test]
fn an_index_is_applied_once() {
    let mut map = Map::new();
    assert_eq!(map.apply(7, add(1)), Ok(Effect::Server(ServerId(1))));
    assert_eq!(map.apply(7, add(2)), Ok(Effect::Unchanged));
    assert_eq!((map.members().len(), map.version(), map.applied()), (1, 1, 7));
}

#[test]
fn a_server_joins_once_however_often_it_asks() {
    let mut map = cluster(2);
    assert_eq!(apply(&mut map, add(2)), Ok(Effect::Server(ServerId(2))));
    assert_eq!(map.version(), 2);
    let other_data = Command::AddServer { name: "s9".into(), address: "host2:7000".into(), metrics: None, nonce: 9 };
    let refusal = apply(&mut map, other_data).expect_err("its log and votes are gone, so it is another server");
    assert!(refusal.to_string().contains("heddle cluster replace 2"), "{refusal}");
}

#[test]
fn a_removed_server_does_not_come_back_by_a_late_request_and_its_number_is_not_given_again() {
    let mut map = cluster(3);
    assert_eq!(apply(&mut map, Command::RemoveServer { id: ServerId(3) }), Ok(Effect::Removed(ServerId(3))));
    assert_eq!(apply(&mut map, Command::RemoveServer { id: ServerId(3) }), Ok(Effect::Removed(ServerId(3))));
    assert_eq!(apply(&mut map, add(3)), Err(Refusal::WasRemoved { id: ServerId(3) }));
    assert_eq!(apply(&mut map, add(4)), Ok(Effect::Server(ServerId(4))));
}

#[test]
fn the_last_server_and_the_last_replica_of_a_shard_stay() {
    let mut map = cluster(2);
    made(apply(&mut map, create("cars", &[], Replicas::Servers(ids(&[2])))));
    let refusal = apply(&mut map, Command::RemoveServer { id: ServerId(2) });
    assert_eq!(refusal, Err(Refusal::LastReplica { id: ServerId(2), shards: vec!["cars".to_owned()] }));
    apply(&mut map, Command::RemoveServer { id: ServerId(1) }).expect("cars is not on it");
    assert_eq!(
        apply(&mut map, Command::RemoveServer { id: ServerId(2) }),
        Err(Refusal::LastServer { id: ServerId(2) })
    );
}

#[test]
fn a_server_that_replaces_another_takes_its_lists_and_pins() {
    let mut map = cluster(3);
    let id = made(apply(&mut map, create("cars", &[], Replicas::Servers(ids(&[2, 3])))));
    apply(&mut map, Command::Pin { id, server: ServerId(3) }).expect("a replica");
    let replace = Command::ReplaceServer {
        old: ServerId(3),
        name: "s3".into(),
        address: "host3:7000".into(),
        metrics: None,
        nonce: 33,
    };
    let replaced = Ok(Effect::Replaced { old: ServerId(3), new: ServerId(4) });
    assert_eq!(apply(&mut map, replace.clone()), replaced);
    assert_eq!(apply(&mut map, replace), replaced, "asked again, answered again");
    assert_eq!(map.shards()[&id].replicas, Replicas::Servers(ids(&[2, 4])));
    assert_eq!(map.shards()[&id].pinned, Some(ServerId(4)));
    assert_eq!(map.members().keys().copied().collect::<BTreeSet<_>>(), ids(&[1, 2, 4]));
}

#[test]
fn a_prefix_changes_hands_when_its_move_is_finished_and_not_before() {
    let mut map = cluster(1);
    let cars = made(apply(&mut map, create("cars", &[at("/car:cars")], Replicas::All)));
    let owner = |map: &Map| map.route(&path("/car:cars/car-entry=17"));
    let id = MoveId(1);
    assert_eq!(owner(&map), ShardId::DEFAULT);
    assert!(matches!(apply(&mut map, Command::FinishMove { id }), Err(Refusal::OutOfOrder { .. })));
    apply(&mut map, Command::MoveImported { id }).expect("it was begun");
    assert_eq!(owner(&map), ShardId::DEFAULT);
    apply(&mut map, Command::FinishMove { id }).expect("it was imported");
    assert_eq!(owner(&map), cars);
    assert_eq!(apply(&mut map, Command::FinishMove { id }), Ok(Effect::Unchanged));
    apply(&mut map, Command::MoveDropped { id }).expect("it was finished");
    assert_eq!(apply(&mut map, Command::MoveDropped { id }), Ok(Effect::Unchanged));
    assert_eq!(apply(&mut map, Command::MoveDropped { id: MoveId(2) }), Err(Refusal::NoSuchMove { id: MoveId(2) }));
    assert_eq!(map.route(&path("/car:other")), ShardId::DEFAULT);
}

#[test]
fn what_other_shards_own_within_a_prefix_stays_with_them() {
    let mut map = cluster(1);
    let entry = made(apply(&mut map, create("entry", &[at("/car:cars/car-entry=1")], Replicas::All)));
    finish(&mut map);
    let cars = made(apply(&mut map, create("cars", &[module("car")], Replicas::All)));
    assert_eq!(map.moves()[&MoveId(2)].except, [path("/car:cars/car-entry=1")]);
    finish(&mut map);
    assert_eq!(map.route(&path("/car:cars/car-entry=1/id")), entry);
    assert_eq!(map.route(&path("/car:cars/car-entry=2")), cars);
    assert_eq!(map.shards_under(&path("/car:cars")), [entry, cars]);
    assert_eq!(map.shards_under(&path("/people:people")), [ShardId::DEFAULT]);
    let paths = [path("/car:cars"), path("/car:cars/car-entry=1"), path("/people:people")];
    assert_eq!(map.shards_of(&paths[..1]), Ok(cars));
    let refusal = map.shards_of(&paths).expect_err("three shards");
    assert_eq!(refusal.names, ["cars", "default", "entry"]);
    assert!(refusal.to_string().contains("cars, default, entry"), "{refusal}");
    assert_eq!(map.shards_of([]), Ok(ShardId::DEFAULT));
    apply(&mut map, Command::DeleteShard { id: entry }).expect("it was made");
    assert_eq!(finish(&mut map), [entry]);
    assert_eq!(map.route(&path("/car:cars/car-entry=1/id")), cars, "to whoever owns what is around it");
}

#[test]
fn a_module_written_as_a_path_is_the_same_prefix() {
    let mut map = cluster(1);
    let cars = made(apply(&mut map, create("cars", &[at("/car:")], Replicas::All)));
    assert_eq!(made(apply(&mut map, create("cars", &[at("/car:")], Replicas::All))), cars);
    let again = apply(&mut map, Command::BeginMove { prefix: module("car"), to: cars });
    assert_eq!(again, Ok(Effect::Move(MoveId(1))));
    assert_eq!(map.moves()[&MoveId(1)].territory(), path("/car:"));
    finish(&mut map);
    assert_eq!(map.shards()[&cars].prefixes, BTreeSet::from([module("car")]));
    assert_eq!((map.route(&path("/car:")), map.shards_under(&path("/car:"))), (cars, vec![cars]));
}

#[test]
fn moves_that_overlap_wait_for_each_other() {
    let mut map = cluster(1);
    let outer = made(apply(&mut map, create("outer", &[module("car")], Replicas::All)));
    let inner = made(apply(&mut map, create("inner", &[at("/car:cars")], Replicas::All)));
    assert_eq!(map.moves()[&MoveId(2)].phase, Phase::Queued);
    finish(&mut map);
    assert_eq!((map.route(&path("/car:cars")), map.route(&path("/car:x"))), (inner, outer));
}

#[test]
fn what_goes_back_does_not_go_to_a_shard_that_is_being_deleted_itself() {
    let mut map = cluster(1);
    let outer = made(apply(&mut map, create("outer", &[module("car")], Replicas::All)));
    let inner = made(apply(&mut map, create("inner", &[at("/car:cars")], Replicas::All)));
    finish(&mut map);
    let entry = made(apply(&mut map, create("entry", &[at("/car:cars/car-entry=1")], Replicas::All)));
    apply(&mut map, Command::DeleteShard { id: inner }).expect("it was made");
    apply(&mut map, Command::DeleteShard { id: outer }).expect("it was made");
    let back = map.moves().values().find(|it| it.from == inner && it.back).expect("it waits for the entry's move");
    assert_eq!((back.phase, back.to), (Phase::Queued, ShardId::DEFAULT));
    assert_eq!(finish(&mut map), [inner, outer]);
    assert_eq!(map.route(&path("/car:cars/car-entry=1")), entry);
    assert_eq!(map.shards_under(&path("/car:cars")), [ShardId::DEFAULT, entry]);
}

#[test]
fn the_same_prefix_is_not_sent_two_ways() {
    let mut map = cluster(1);
    let cars = made(apply(&mut map, create("cars", &[module("car")], Replicas::All)));
    let again = apply(&mut map, Command::BeginMove { prefix: module("car"), to: cars });
    assert_eq!(again, Ok(Effect::Move(MoveId(1))));
    let elsewhere = apply(&mut map, create("other", &[module("car")], Replicas::All)).expect_err("it is on its way");
    assert!(elsewhere.to_string().contains("on its way to shard cars (move 1)"), "{elsewhere}");
    assert!(map.shard_named("other").is_none(), "checked first, changed then");
}

#[test]
fn a_shard_is_made_once_however_often_it_is_asked_for() {
    let mut map = cluster(1);
    let command = create("cars", &[module("car"), at("/people:people")], Replicas::Count(3));
    let id = made(apply(&mut map, command.clone()));
    assert_eq!(made(apply(&mut map, command.clone())), id);
    finish(&mut map);
    assert_eq!(made(apply(&mut map, command)), id);
    let other = apply(&mut map, create("cars", &[], Replicas::All));
    assert_eq!(other, Err(Refusal::ShardNameTaken { name: "cars".to_owned(), by: id }));
}

#[test]
fn distributed_gives_modules_shards_and_single_takes_them_back() {
    let mut map = cluster(1);
    let there = path("/car:cars");
    assert_eq!(map.module_to_ensure(&there), None);
    apply(&mut map, Command::SetStrategy { strategy: Strategy::Distributed }).expect("allowed");
    assert_eq!(map.module_to_ensure(&there), Some("car"));
    let byhand = made(apply(&mut map, create("people", &[module("people")], Replicas::All)));
    let car = made(apply(&mut map, Command::EnsureModule { module: "car".into() }));
    assert_eq!(map.module_to_ensure(&there), None, "it is on its way");
    assert_eq!(made(apply(&mut map, Command::EnsureModule { module: "car".into() })), car);
    finish(&mut map);
    assert_eq!((map.route(&there), map.module_to_ensure(&there)), (car, None));
    apply(&mut map, Command::SetStrategy { strategy: Strategy::Single }).expect("allowed");
    assert_eq!(finish(&mut map), [car]);
    assert_eq!(map.route(&there), ShardId::DEFAULT);
    assert_eq!(map.route(&path("/people:people")), byhand);
}

#[test]
fn shards_are_bounded_and_modules_beyond_stay_in_default() {
    let mut map = cluster(1);
    apply(&mut map, Command::SetStrategy { strategy: Strategy::Distributed }).expect("allowed");
    for n in 2..SHARDS_MAX {
        made(apply(&mut map, Command::EnsureModule { module: format!("m{n}") }));
    }
    assert_eq!(map.module_to_ensure(&path("/more:x")), None);
    let refusal = apply(&mut map, Command::EnsureModule { module: "more".into() }).expect_err("one too many");
    assert!(refusal.to_string().contains("256 shards"), "{refusal}");
    finish(&mut map);
    assert_eq!(map.route(&path("/m7:x")), map.shard_named("m7").expect("made").id);
    assert_eq!(map.route(&path("/more:x")), ShardId::DEFAULT);
}

#[test]
fn meta_and_default_are_always_there() {
    let mut map = cluster(1);
    for id in [ShardId::META, ShardId::DEFAULT] {
        assert!(matches!(apply(&mut map, Command::DeleteShard { id }), Err(Refusal::BuiltIn { .. })));
    }
    let to_meta = Command::BeginMove { prefix: module("car"), to: ShardId::META };
    assert!(matches!(apply(&mut map, to_meta), Err(Refusal::BuiltIn { .. })));
    let meta = Command::SetReplicas { id: ShardId::META, replicas: Replicas::Count(1) };
    assert!(matches!(apply(&mut map, meta), Err(Refusal::BuiltIn { .. })));
    for prefix in [Prefix::Everything, Prefix::Path(Path::root()), module("no module")] {
        let refusal = apply(&mut map, Command::BeginMove { prefix, to: ShardId::DEFAULT });
        assert!(matches!(refusal, Err(Refusal::BadPrefix { .. })), "{refusal:?}");
    }
    let nested = create("cars", &[module("car"), at("/car:cars")], Replicas::All);
    assert!(matches!(apply(&mut map, nested), Err(Refusal::BadPrefix { .. })));
}

#[test]
fn servers_beyond_the_voters_learn() {
    let mut map = cluster(9);
    let meta = map.desired_replicas(ShardId::META);
    assert_eq!((meta.voters.len(), meta.learners.len()), (META_VOTERS_MAX, 9 - META_VOTERS_MAX));
    let default = map.desired_replicas(ShardId::DEFAULT);
    assert_eq!((default.voters.len(), default.learners.len()), (VOTERS_MAX, 2));
    apply(&mut map, Command::Pin { id: ShardId::META, server: ServerId(9) }).expect("a member");
    let pinned = map.desired_replicas(ShardId::META);
    assert_eq!((pinned.voters, pinned.learners), (ids(&[1, 2, 3, 4, 9]), ids(&[5, 6, 7, 8])));
    assert_eq!(map.desired_replicas(ShardId(99)), placement::DesiredReplicas::default());
}

#[test]
fn a_server_that_comes_or_goes_moves_few_replicas_and_none_needlessly() {
    let mut map = cluster(8);
    let shards: Vec<ShardId> =
        (0..100).map(|n| made(apply(&mut map, create(&format!("shard{n}"), &[], Replicas::Count(3))))).collect();
    let all = |map: &Map| shards.iter().map(|id| map.desired_replicas(*id).voters).collect::<Vec<_>>();
    let before = all(&map);
    for server in 1..=8 {
        let held = before.iter().filter(|voters| voters.contains(&ServerId(server))).count();
        assert!((20..=60).contains(&held), "300 replicas on 8 servers, {held} on server {server}");
    }
    apply(&mut map, Command::RemoveServer { id: ServerId(5) }).expect("not the last");
    for (before, after) in before.iter().zip(all(&map)) {
        let stayed = before.iter().filter(|id| **id != ServerId(5)).all(|id| after.contains(id));
        assert!(stayed && after.len() == 3, "{before:?} became {after:?}");
    }
}

#[test]
fn a_pin_needs_a_replica_and_a_list_needs_members() {
    let mut map = cluster(3);
    let id = made(apply(&mut map, create("cars", &[], Replicas::Servers(ids(&[1, 2])))));
    let elsewhere = apply(&mut map, Command::Pin { id, server: ServerId(3) });
    assert!(matches!(elsewhere, Err(Refusal::NotAReplica { .. })));
    apply(&mut map, Command::Pin { id, server: ServerId(2) }).expect("a replica");
    let without = Command::SetReplicas { id, replicas: Replicas::Servers(ids(&[1, 3])) };
    assert!(apply(&mut map, without.clone()).expect_err("pinned").to_string().contains("unpin it first"));
    apply(&mut map, Command::Unpin { id }).expect("there is one");
    assert_eq!(apply(&mut map, without), Ok(Effect::Changed));
    let unknown = Command::SetReplicas { id, replicas: Replicas::Servers(ids(&[9])) };
    assert_eq!(apply(&mut map, unknown), Err(Refusal::NoSuchServer { id: ServerId(9) }));
    let many = apply(&mut map, Command::SetReplicas { id, replicas: Replicas::Count(8) });
    assert!(matches!(many, Err(Refusal::BadReplicas { .. })));
}

#[test]
fn the_mover_hands_out_each_step_once_and_a_new_one_resumes() {
    let mut map = cluster(1);
    made(apply(&mut map, create("cars", &[module("car")], Replicas::All)));
    let it = map.moves()[&MoveId(1)].clone();
    let mut mover = Mover::new();
    assert_eq!(mover.poll(&map), [Step::Freeze(it.clone())]);
    assert_eq!(mover.poll(&map), []);
    mover.frozen(it.id);
    assert_eq!(mover.poll(&map), [Step::Copy(it.clone())]);
    mover.failed(it.id);
    assert_eq!(mover.poll(&map), [Step::Copy(it.clone())], "it failed, so it comes again");
    assert_eq!(Mover::new().poll(&map), [Step::Freeze(it.clone())], "another leader starts at what the map says");
    apply(&mut map, Command::MoveImported { id: it.id }).expect("it was copied");
    assert_eq!(mover.poll(&map), [Step::Finish(it.id)]);
    assert_eq!(mover.poll(&map), []);
}

#[test]
fn other_formats_are_refused_by_name() {
    let mut bytes = Map::new().encode();
    bytes.push(0);
    assert!(Map::decode(&bytes).expect_err("one byte too many").to_string().contains("something follows its end"));
    bytes[0] = 9;
    assert!(Map::decode(&bytes).expect_err("a newer one").to_string().contains("format 9 of map is not known"));
    assert!(Command::decode(&[]).expect_err("nothing").to_string().contains("there are none"));
}

#[test]
fn the_protocol_rises_and_never_falls() {
    let mut map = cluster(2);
    let raise = |to, servers: &[u64], secret| Command::RaiseProtocol { to, servers: ids(servers), secret };
    assert_eq!(map.protocol(), 1);
    let before = map.encode();
    assert_eq!(apply(&mut map, raise(1, &[1, 2], None)), Ok(Effect::Unchanged));
    assert_eq!(map.encode().len(), before.len(), "a server of version 1 can read it");
    assert_eq!(apply(&mut map, raise(2, &[1], Some([7; 32]))), Ok(Effect::Unchanged), "of server 2 nothing is known");
    assert_eq!((map.protocol(), map.secret()), (1, None));
    assert_eq!(apply(&mut map, raise(2, &[1, 2], Some([7; 32]))), Ok(Effect::Changed));
    assert_eq!(apply(&mut map, raise(1, &[1, 2], Some([8; 32]))), Ok(Effect::Unchanged));
    assert_eq!(apply(&mut map, raise(2, &[1, 2], None)), Ok(Effect::Unchanged));
    assert_eq!((map.protocol(), map.secret()), (2, Some(&[7; 32])));
    assert_eq!(Map::decode(&map.encode()).as_ref(), Ok(&map));
    let newer = [map.encode(), vec![200, 1, 0]].concat();
    assert!(Map::decode(&newer).expect_err("section 200").to_string().contains("written by a newer program"));
}

#[test]
fn addresses_of_removed_servers_are_remembered_once_all_speak_version_2() {
    let mut map = cluster(4);
    apply(&mut map, Command::RemoveServer { id: ServerId(4) }).expect("it is there");
    assert!(map.removed_addresses().is_empty(), "a server of version 1 remembers none");
    assert!(map.was_removed(ServerId(4)) && !map.was_removed(ServerId(3)) && !map.was_removed(ServerId(5)));
    let raise = Command::RaiseProtocol { to: 2, servers: ids(&[1, 2, 3]), secret: None };
    assert_eq!(apply(&mut map, raise), Ok(Effect::Changed));
    apply(&mut map, Command::RemoveServer { id: ServerId(3) }).expect("it is there");
    let removed: Vec<_> = map.removed_addresses().iter().map(|(id, address)| (id.0, address.as_str())).collect();
    assert_eq!(removed, [(3, "host3:7000")]);
    assert_eq!(Map::decode(&map.encode()).as_ref(), Ok(&map));
}
