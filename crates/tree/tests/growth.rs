//! A quota that is reached: what would add to the data is refused, everything else goes on.

use crate::common::{Shard, config, imports, parse, put};
use tree::{Change, Command, Condition, Expect, LeaseId, Refusal, SessionId, Transaction};

impl Shard {
    fn full() -> Self {
        let mut shard = Self { client: 1, ..Self::default() };
        shard.write(vec![put("/car:cars/car=1", "12345"), put("/car:cars/car=2", "12345")]).unwrap();
        shard.apply(&Command::Growth { allowed: false }).unwrap();
        shard
    }
}

fn write(sequence: u64, changes: Vec<Change>) -> Command {
    let transaction = Transaction { conditions: Vec::new(), changes };
    Command::Write { session: SessionId(1), sequence, acknowledged: 0, transaction }
}

#[test]
fn what_adds_to_the_data_is_refused_and_changes_nothing() {
    let mut shard = Shard::full();
    let before = shard.state.clone();
    for changes in [
        vec![put("/car:cars/car=3", "")],
        vec![put("/car:cars/car=1", "123456")],
        // Room is made, and more than that is taken.
        vec![Change::Remove { at: config("/car:cars/car=1") }, put("/car:cars/car=3", "1234567890")],
    ] {
        let sequence = shard.index + 1;
        let (outcome, events) = shard.watched(&write(sequence, changes));
        assert_eq!((outcome, events.len()), (Err(Refusal::Full), 0));
    }
    assert_eq!((&shard.state.tree, &shard.state.leases), (&before.tree, &before.leases));
}

#[test]
fn what_adds_nothing_goes_on() {
    let mut shard = Shard::full();
    shard.write(vec![put("/car:cars/car=1", "54321")]).unwrap();
    shard.write(vec![put("/car:cars/car=1", "5")]).unwrap();
    shard.write(vec![Change::Remove { at: config("/car:cars/car=1") }, put("/car:cars/car=3", "1")]).unwrap();
    let delete = write(shard.index + 1, vec![Change::Delete { at: config("/car:cars") }]);
    let (outcome, events) = shard.watched(&delete);
    assert!(outcome.is_ok() && events.len() == 2, "{outcome:?} {events:?}");
    assert_eq!(shard.state.tree.bytes(), 0);
}

#[test]
fn a_value_of_a_lease_that_finds_no_room_is_not_the_leases() {
    let mut shard = Shard::full();
    let (session, lease, home) = (SessionId(1), LeaseId(9), parse("/car:cars"));
    let sequence = shard.index + 1;
    shard.apply(&Command::Grant { session, sequence, acknowledged: 0, lease, ttl_ms: 5_000, home }).unwrap();
    let attached = Change::PutWithLease { at: config("/car:cars/car=3"), value: b"1"[..].into(), lease };
    assert_eq!(shard.write(vec![attached]), Err(Refusal::Full));
    assert!(shard.state.leases.get(lease).is_some_and(|lease| lease.values.is_empty()));
}

#[test]
fn conditions_are_judged_first() {
    let mut shard = Shard::full();
    let condition = Condition { at: config("/car:cars/car=1"), expect: Expect::Absent };
    let transaction = Transaction { conditions: vec![condition], changes: vec![put("/car:cars/car=1", "123456")] };
    let sequence = shard.index + 1;
    let (session, acknowledged) = (SessionId(1), 0);
    let otherwise = vec![put("/car:cars/car=3", "1")];
    let plain = Command::Write { session, sequence, acknowledged, transaction: transaction.clone() };
    assert!(matches!(shard.apply(&plain), Err(Refusal::ConditionFailed { .. })));
    let sequence = sequence + 1;
    // What is done otherwise needs room, too.
    let command = Command::WriteOrElse { session, sequence, acknowledged, transaction, otherwise };
    assert_eq!(shard.apply(&command), Err(Refusal::Full));
    assert!(shard.state.tree.get(&config("/car:cars/car=3")).is_none());
}

#[test]
fn a_write_that_was_refused_stays_refused_and_the_next_is_done() {
    let mut shard = Shard::full();
    let refused = write(7, vec![put("/car:cars/car=3", "1")]);
    assert_eq!(shard.apply(&refused), Err(Refusal::Full));
    shard.apply(&Command::Growth { allowed: true }).unwrap();
    // The client was told that it was not done, and may have gone on from there.
    assert_eq!(shard.apply(&refused), Err(Refusal::Full));
    assert!(shard.apply(&write(8, vec![put("/car:cars/car=3", "1")])).is_ok());
}

#[test]
fn a_snapshot_keeps_it() {
    for mut shard in [Shard::full(), Shard::default()] {
        let is_full = shard.state.is_full;
        let copy = shard.restored(1);
        assert_eq!((copy.is_full, copy.digest()), (is_full, shard.state.digest()));
        shard.apply(&Command::Growth { allowed: is_full }).unwrap();
        assert_ne!(copy.digest(), shard.state.digest());
    }
}

#[test]
fn a_move_brings_what_it_brings() {
    let (mut from, mut to) = (Shard { client: 1, ..Shard::default() }, Shard::full());
    from.write(vec![put("/bus:buses/bus=1", "12345")]).unwrap();
    let prefix = parse("/bus:buses");
    for import in imports(&from.state, &prefix, &[], 1, 1 << 20) {
        to.apply(&import).unwrap();
    }
    assert!(to.state.is_full && to.state.tree.get(&config("/bus:buses/bus=1")).is_some());
}

#[test]
fn a_refusal_that_is_kept_names_the_place_of_the_write_that_is_repeated() {
    let mut shard = Shard::default();
    let long = format!("/car:cars/car={}", "x".repeat(900));
    let replace = |path: &str| Change::Replace { at: config(path), value: b"1"[..].into() };
    let create = |path: &str| Change::Create { at: config(path), value: b"1"[..].into() };
    shard.write(vec![put("/car:cars/car=1", "1")]).unwrap();
    for (sequence, changes, expected) in [
        (10, vec![replace(&long)], Refusal::Missing { at: config(&long) }),
        (
            11,
            vec![put("/car:cars/car=2", "1"), create("/car:cars/car=1")],
            Refusal::Exists { at: config("/car:cars/car=1") },
        ),
        (12, vec![Change::Delete { at: config("/bus:buses") }], Refusal::Missing { at: config("/bus:buses") }),
    ] {
        let command = write(sequence, changes);
        assert_eq!(shard.apply(&command), Err(expected.clone()));
        assert_eq!(shard.apply(&command), Err(expected.clone()));
        let mut restored = shard.restored(100);
        assert_eq!(restored.apply(shard.index + 1, &command, &mut |_| {}), Err(expected));
    }
}

#[test]
fn refusals_that_nobody_acknowledges_cost_little() {
    let mut shard = Shard::default();
    let long = format!("/car:cars/car={}", "x".repeat(900));
    for sequence in 1..=1_000 {
        let replace = Change::Replace { at: config(&long), value: b"1"[..].into() };
        assert!(shard.apply(&write(sequence, vec![replace])).is_err());
    }
    let mut bytes = 0;
    let mut reader = shard.state.snapshot();
    while let Some(piece) = reader.next(1 << 20) {
        bytes += piece.len();
    }
    // They were 940 each.
    assert!(bytes < 20_000, "{bytes}");
}
