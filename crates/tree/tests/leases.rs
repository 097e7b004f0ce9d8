//! Leases: what they hold goes with them, wherever it was moved meanwhile, and with nothing else.

use std::collections::BTreeMap;

use crate::common::{Shard, config, imports, location, parse, path, value};
use proptest::prelude::*;
use tree::leases::{LEASE_TTL_MAX_MS, LEASE_TTL_MIN_MS, MAX_LEASE_VALUES, MAX_LEASES};
use tree::{
    Bytes, Change, Command, Committed, Event, EventKind, LeaseId, Location, PROTOCOL_WITH_AWAY_PARTS, Path, Refusal,
    SessionId,
};

impl Shard {
    pub fn grant(&mut self, lease: u64, home: &Path) -> tree::Outcome {
        let sequence = self.index + 1;
        let (session, lease, home) = (SessionId(self.client), LeaseId(lease), home.clone());
        self.apply(&Command::Grant { session, sequence, acknowledged: 0, lease, ttl_ms: 5_000, home })
    }

    pub fn revoke(&mut self, lease: u64) -> tree::Outcome {
        let sequence = self.index + 1;
        let (session, lease, at) = (SessionId(self.client), LeaseId(lease), Path::root());
        self.apply(&Command::Revoke { session, sequence, acknowledged: 0, lease, at })
    }

    /// All servers speak the version in which parts name their home.
    pub fn speak(&mut self) {
        self.apply(&Command::Protocol { version: PROTOCOL_WITH_AWAY_PARTS }).expect("never refused");
    }

    pub fn granted_at(&self, lease: u64) -> u64 {
        self.state.leases.get(LeaseId(lease)).map_or(0, |lease| lease.granted_at)
    }

    pub fn expire(&mut self, lease: u64) {
        let leases = vec![(LeaseId(lease), self.granted_at(lease))];
        self.apply(&Command::Expire { leases }).expect("never refused");
    }

    /// Where there are values, and the lease of each.
    pub fn leased_content(&self) -> BTreeMap<Location, (Bytes, u64)> {
        let chunk = self.state.export(&Path::root(), &[], None, usize::MAX);
        let lease = |at: &Location| self.state.leases.of(at).map_or(0, |lease| lease.0);
        chunk.entries.into_iter().map(|entry| (entry.at.clone(), (entry.value.bytes, lease(&entry.at)))).collect()
    }

    /// Each value is known to its lease, and each lease's values to them.
    pub fn is_sound(&self) -> bool {
        let content = self.leased_content();
        let of = |id: LeaseId, at: &Location| content.get(at).is_some_and(|(_, lease)| *lease == id.0);
        let held: usize = self.state.leases.iter().map(|(_, lease)| lease.values.len()).sum();
        self.state.leases.iter().all(|(id, lease)| lease.values.iter().all(|at| of(id, at)))
            && content.values().filter(|(_, lease)| *lease != 0).count() == held
    }
}

pub fn with_lease(at: &Location, value: &Bytes, lease: u64) -> Change {
    Change::PutWithLease { at: at.clone(), value: value.clone(), lease: LeaseId(lease) }
}

/// A whole move without faults.
fn carry(from: &mut Shard, to: &mut Shard, prefix: &Path, move_id: u64, limit_bytes: usize) {
    carry_but(from, to, (prefix, &[]), move_id, limit_bytes);
}

/// The same of a prefix in which other shards have some.
pub fn carry_but(
    from: &mut Shard,
    to: &mut Shard,
    (prefix, except): (&Path, &[Path]),
    move_id: u64,
    limit_bytes: usize,
) {
    let (prefix, except) = (prefix.clone(), except.to_vec());
    from.apply(&Command::Freeze { prefix: prefix.clone(), except: except.clone(), move_id })
        .expect("nothing else moves");
    let mut after = None;
    loop {
        let chunk = from.state.export_leases(&prefix, &except, after, limit_bytes);
        let (prefix, except) = (prefix.clone(), except.clone());
        to.apply(&Command::ImportLeases { move_id, prefix, except, leases: chunk.leases }).expect("they are sound");
        assert!(to.is_sound());
        after = chunk.next;
        if after.is_none() {
            break;
        }
    }
    for import in imports(&from.state, &prefix, &except, move_id, limit_bytes) {
        // What is there before all has come is as good as what was there.
        to.state = to.restored(limit_bytes);
        to.apply(&import).unwrap();
    }
    from.apply(&Command::Dropped { prefix, move_id, to: 2 }).expect("it was frozen");
}

#[derive(Clone, Debug)]
enum Step {
    Grant(u64, Path),
    Put(Location, Bytes, u64),
    Delete(Location),
    Revoke(u64, bool),
    Expire(u64, bool),
    Move,
}

fn step() -> impl Strategy<Value = Step> {
    let lease = || 1..5_u64;
    prop_oneof![
        2 => (lease(), path()).prop_map(|(lease, home)| Step::Grant(lease, home)),
        6 => (location(), value(), 0..5_u64).prop_map(|(at, value, lease)| Step::Put(at, value, lease)),
        1 => location().prop_map(Step::Delete),
        1 => (lease(), any::<bool>()).prop_map(|(lease, there)| Step::Revoke(lease, there)),
        1 => (lease(), any::<bool>()).prop_map(|(lease, there)| Step::Expire(lease, there)),
        2 => Just(Step::Move),
    ]
}

proptest! {
    /// Two shards, between which one prefix goes to and fro, against a map of values and the leases they hang on.
    #[test]
    fn values_go_with_their_lease_and_nothing_else_does(
        steps in prop::collection::vec(step(), 1..60), prefix in path(), limit_bytes in 1..200_usize,
    ) {
        let mut shards = [Shard::default(), Shard { client: 1, ..Shard::default() }];
        shards.iter_mut().for_each(Shard::speak);
        let mut model: BTreeMap<Location, (Bytes, u64)> = BTreeMap::new();
        let (mut away, mut move_id) = (false, 0);
        for step in steps {
            let owner = |path: &Path, away: bool| usize::from(away && prefix.contains(path));
            match step {
                // A number is used again only when all of the lease has ended, by whoever drew it.
                Step::Grant(lease, home)
                    if shards[owner(&home, away)].state.leases.get(LeaseId(lease)).is_none()
                        && shards[1 - owner(&home, away)].state.leases.get(LeaseId(lease)).is_some() => {}
                Step::Grant(lease, home) => {
                    let shard = &mut shards[owner(&home, away)];
                    let is_there = shard.state.leases.get(LeaseId(lease)).is_some();
                    let expected = Err(Refusal::LeaseExists { lease: LeaseId(lease) });
                    let outcome = shard.grant(lease, &home);
                    if is_there { prop_assert_eq!(outcome, expected) } else { prop_assert!(outcome.is_ok()) }
                }
                Step::Put(at, _, _) if at.path.is_root() || at.path.is_module() => {}
                Step::Put(at, value, 0) => {
                    shards[owner(&at.path, away)].write(vec![Change::Put { at: at.clone(), value: value.clone() }]).unwrap();
                    model.insert(at, (value, 0));
                }
                Step::Put(at, value, lease) => {
                    let shard = &mut shards[owner(&at.path, away)];
                    let is_there = shard.state.leases.get(LeaseId(lease)).is_some_and(tree::Lease::takes_values);
                    let outcome = shard.write(vec![with_lease(&at, &value, lease)]);
                    prop_assert_eq!(outcome.is_ok(), is_there);
                    if is_there {
                        model.insert(at, (value, lease));
                    }
                }
                // A subtree of which a part is elsewhere cannot be deleted at once.
                Step::Delete(at) if at.path.overlaps(&prefix) && !prefix.contains(&at.path) => {}
                Step::Delete(at) => {
                    shards[owner(&at.path, away)].write(vec![Change::Remove { at: at.clone() }]).unwrap();
                    model.retain(|other, _| !at.contains(other));
                }
                Step::Revoke(lease, there) | Step::Expire(lease, there) => {
                    let shard = usize::from(there);
                    if matches!(step, Step::Revoke(..)) {
                        let _ = shards[shard].revoke(lease);
                    } else {
                        shards[shard].expire(lease);
                    }
                    prop_assert!(shards[shard].state.leases.get(LeaseId(lease)).is_none());
                    model.retain(|at, (_, of)| *of != lease || owner(&at.path, away) != shard);
                }
                Step::Move => {
                    move_id += 1;
                    let [here, there] = &mut shards;
                    let (from, to) = if away { (there, here) } else { (here, there) };
                    carry(from, to, &prefix, move_id, limit_bytes);
                    away = !away;
                }
            }
            have_what_is_theirs(&shards, &model, |path| owner(path, away), limit_bytes)?;
            // Wherever a part is, the home leads to it: else nobody could keep it alive.
            for lease in 1..5_u64 {
                prop_assert!(leads_to_all(&shards, LeaseId(lease), |path| owner(path, away)));
            }
        }
    }
}

/// Each shard has what the model says of its paths, also after a snapshot in pieces of so many bytes.
pub fn have_what_is_theirs(
    shards: &[Shard],
    model: &BTreeMap<Location, (Bytes, u64)>,
    owner: impl Fn(&Path) -> usize,
    limit_bytes: usize,
) -> Result<(), TestCaseError> {
    for (number, shard) in shards.iter().enumerate() {
        let expected: BTreeMap<_, _> = (model.iter())
            .filter(|(at, _)| owner(&at.path) == number)
            .map(|(at, found)| (at.clone(), found.clone()))
            .collect();
        prop_assert_eq!(shard.leased_content(), expected);
        prop_assert!(shard.is_sound());
        let restored = shard.restored(limit_bytes);
        prop_assert_eq!(&restored, &shard.state);
        prop_assert_eq!(restored.digest(), shard.state.digest());
    }
    Ok(())
}

/// Whether a keeper that knows a lease's home finds all of its values.
fn leads_to_all(shards: &[Shard; 2], lease: LeaseId, owner: impl Fn(&Path) -> usize) -> bool {
    let homes = |shard: usize| {
        let found = shards[shard].state.leases.get(lease);
        found.filter(|found| owner(&found.home) == shard).map(|found| (shard, found))
    };
    // Leases of one number in both shards that were granted apart are the user's mistake.
    let ((Some((home, found)), None) | (None, Some((home, found)))) = (homes(0), homes(1)) else { return true };
    let Some(other) = shards[1 - home].state.leases.get(lease) else { return true };
    other.home != found.home || other.values.is_empty() || found.parts.iter().any(|path| owner(path) != home)
}

#[test]
fn an_expiry_takes_all_values_away_at_once_and_says_so() {
    let mut shard = Shard::default();
    let (a, b, c) = (config("/m:a"), config("/m:b"), config("/m:a/b"));
    shard.grant(9, &parse("/m:a")).unwrap();
    shard.write(vec![with_lease(&a, &"1".into(), 9), with_lease(&b, &"2".into(), 9)]).unwrap();
    shard.write(vec![Change::Put { at: c.clone(), value: "3".into() }]).unwrap();
    let granted_at = shard.granted_at(9);
    // Of an older one of that number: not meant.
    let (outcome, events) = shard.watched(&Command::Expire { leases: vec![(LeaseId(9), granted_at - 1)] });
    assert_eq!((outcome, events), (Ok(Committed { revision: 2 }), vec![]));
    let (outcome, events) = shard.watched(&Command::Expire { leases: vec![(LeaseId(9), granted_at), (LeaseId(8), 1)] });
    assert_eq!(outcome, Ok(Committed { revision: 3 }));
    let gone = |at: &Location| Event { revision: 3, kind: EventKind::Deleted, at: at.clone() };
    assert_eq!(events, [gone(&a), gone(&b)]);
    // What lies below a value is not part of it.
    assert_eq!(shard.leased_content().into_keys().collect::<Vec<_>>(), [c]);
    assert_eq!(shard.write(vec![with_lease(&a, &"4".into(), 9)]), Err(Refusal::NoLease { lease: LeaseId(9) }));
}

#[test]
fn a_lease_on_its_way_is_not_ended_where_it_was_copied() {
    let mut shard = Shard::default();
    let at = config("/m:a");
    shard.grant(9, &parse("/m:z")).unwrap();
    shard.write(vec![with_lease(&at, &"1".into(), 9)]).unwrap();
    shard.apply(&Command::Freeze { prefix: parse("/m:a"), except: vec![], move_id: 1 }).unwrap();
    shard.expire(9);
    assert_eq!(shard.leased_content().len(), 1);
    assert_eq!(shard.revoke(9), Err(Refusal::Moving { prefix: parse("/m:a") }));
    shard.apply(&Command::Thaw { prefix: parse("/m:a"), move_id: 1 }).unwrap();
    shard.expire(9);
    assert_eq!(shard.leased_content().len(), 0);
}

#[test]
fn a_lease_that_arrives_begins_its_time_anew() {
    let (mut from, mut to) = (Shard::default(), Shard { index: 100, ..Shard::default() });
    let at = config("/m:a/b");
    from.grant(9, &parse("/m:a")).unwrap();
    from.write(vec![with_lease(&at, &"1".into(), 9)]).unwrap();
    let old = from.granted_at(9);
    carry(&mut from, &mut to, &parse("/m:a"), 1, 64);
    assert!(from.state.leases.is_empty());
    assert!(to.granted_at(9) > 100);
    to.apply(&Command::Expire { leases: vec![(LeaseId(9), old)] }).unwrap();
    assert_eq!(to.leased_content().len(), 1);
    // The old shard says where it went instead of that there is none.
    let moved = Refusal::Moved { prefix: parse("/m:a"), to: 2 };
    assert_eq!(from.state.finds_lease(LeaseId(9), &parse("/m:a")), Err(moved));
    to.expire(9);
    assert_eq!(to.leased_content().len(), 0);
}

/// A lease's home stays in the first shard; its value goes to the second one and comes back, and another lease's value goes there.
fn a_part_is_left_behind(speaks: bool) -> [Shard; 2] {
    let [mut here, mut there] = [Shard::default(), Shard { client: 1, ..Shard::default() }];
    if speaks {
        here.speak();
        there.speak();
    }
    let (prefix, at) = (parse("/m:a"), config("/m:a"));
    here.grant(2, &Path::root()).unwrap();
    here.grant(3, &Path::root()).unwrap();
    here.write(vec![with_lease(&at, &"1".into(), 2)]).unwrap();
    carry(&mut here, &mut there, &prefix, 1, 64);
    // What is deleted can be written again: the home leads there.
    there.write(vec![Change::Remove { at: at.clone() }]).unwrap();
    there.write(vec![with_lease(&at, &"2".into(), 2)]).unwrap();
    carry(&mut there, &mut here, &prefix, 2, 64);
    here.write(vec![with_lease(&at, &"3".into(), 3)]).unwrap();
    carry(&mut here, &mut there, &prefix, 3, 64);
    [here, there]
}

#[test]
fn a_part_that_all_values_have_left_takes_no_new_ones() {
    let [mut here, mut there] = a_part_is_left_behind(true);
    let at = config("/m:a");
    let put = || vec![with_lease(&at, &"4".into(), 2)];
    assert!(here.state.leases.get(LeaseId(2)).unwrap().parts.is_empty(), "no keeper would look there");
    assert_eq!(there.write(put()), Err(Refusal::NoLease { lease: LeaseId(2) }));
    assert_eq!(there.restored(64).digest(), there.state.digest());
    // Once it comes with a value, it is known at home and takes others.
    carry(&mut there, &mut here, &parse("/m:a"), 4, 64);
    here.write(put()).expect("the home takes values always");
    carry(&mut here, &mut there, &parse("/m:a"), 5, 64);
    there.write(put()).expect("it is known at home");
}

#[test]
fn a_log_that_says_no_version_is_applied_as_before() {
    let [here, mut there] = a_part_is_left_behind(false);
    there.write(vec![with_lease(&config("/m:a"), &"4".into(), 2)]).expect("as version 3 did");
    for shard in [&here, &there] {
        assert!(shard.state.leases.iter().all(|(_, lease)| !lease.is_away()));
    }
}

#[test]
fn bounds_are_kept() {
    let mut shard = Shard::default();
    let home = parse("/m:a");
    let grant = |ttl_ms, sequence| {
        let (session, home) = (SessionId(99), parse("/m:a"));
        Command::Grant { session, sequence, acknowledged: 0, lease: LeaseId(sequence), ttl_ms, home }
    };
    for (sequence, ttl_ms) in (1..).zip([0, LEASE_TTL_MIN_MS - 1, LEASE_TTL_MAX_MS + 1, u64::MAX]) {
        assert_eq!(shard.apply(&grant(ttl_ms, sequence)), Err(Refusal::LeaseTtl { ttl_ms }));
    }
    shard.grant(1, &home).unwrap();
    let at = |number: usize| config(&format!("/m:a/b={number}"));
    for number in 0..MAX_LEASE_VALUES {
        shard.write(vec![with_lease(&at(number), &"1".into(), 1)]).unwrap();
    }
    let full = Err(Refusal::LeaseFull { lease: LeaseId(1) });
    assert_eq!(shard.write(vec![with_lease(&at(MAX_LEASE_VALUES), &"1".into(), 1)]), full);
    shard.write(vec![with_lease(&at(0), &"2".into(), 1)]).expect("it is one of them");
    for lease in 11..MAX_LEASES as u64 + 10 {
        shard.state.apply(lease, &grant(5_000, lease), &mut |_| {}).unwrap();
    }
    assert_eq!(shard.grant(u64::MAX, &home), Err(Refusal::TooManyLeases));
}

#[test]
fn a_snapshot_without_leases_is_as_version_1_wrote_it() {
    let mut shard = Shard::default();
    shard.write(vec![Change::Put { at: config("/m:a"), value: "1".into() }]).unwrap();
    let mut reader = shard.state.snapshot();
    let pieces: Vec<Vec<u8>> = std::iter::from_fn(|| reader.next(1 << 20)).collect();
    // Header, content, marks, end: the number of a piece's kind comes first.
    assert_eq!(pieces.iter().map(|piece| piece[0]).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn numbers_are_written_in_hexadecimal() {
    assert_eq!(LeaseId(0x2f).to_string(), "000000000000002f");
    assert_eq!("2F".parse(), Ok(LeaseId(0x2f)));
    for wrong in ["", "0", "x", "+1", "00000000000000001", "-1"] {
        assert!(wrong.parse::<LeaseId>().is_err(), "{wrong}");
    }
}
