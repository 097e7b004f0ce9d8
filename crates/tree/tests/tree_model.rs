//! The tree against a naive one.

use std::collections::BTreeMap;

use crate::common::{config, location, parse, path, put, transaction};
use proptest::prelude::*;
use tree::{
    Bytes, Change, Committed, Datastore, Event, EventKind, Expect, Invalid, Location, Path, Refusal, Transaction, Tree,
    Value,
};

/// Values in a plain map, rules written down once more in the plainest way.
#[derive(Clone, Default)]
struct Model {
    values: BTreeMap<Location, (u64, Bytes)>,
    revision: u64,
}

impl Model {
    fn apply(&mut self, transaction: &Transaction) -> Result<u64, Refusal> {
        transaction.check()?;
        for (index, condition) in transaction.conditions.iter().enumerate() {
            let actual = self.values.get(&condition.at);
            let holds = match &condition.expect {
                Expect::Absent => actual.is_none(),
                Expect::Present => actual.is_some(),
                Expect::Etag(etag) => actual.is_some_and(|(known, _)| known == etag),
                Expect::Value(value) => actual.is_some_and(|(_, known)| known == value),
                Expect::NotEtag(etag) => actual.is_some_and(|(known, _)| known != etag),
                Expect::NotValue(value) => actual.is_some_and(|(_, known)| known != value),
                Expect::EtagBelow(etag) => actual.is_some_and(|(known, _)| known < etag),
                Expect::EtagAbove(etag) => actual.is_some_and(|(known, _)| known > etag),
            };
            if !holds {
                return Err(Refusal::ConditionFailed { index: index as u32, actual: actual.map(|(etag, _)| *etag) });
            }
        }
        let mut next = self.clone();
        next.revision += u64::from(!transaction.changes.is_empty());
        for change in &transaction.changes {
            let at = change.at().clone();
            let there = next.values.contains_key(&at);
            match change {
                Change::Create { .. } if there => return Err(Refusal::Exists { at }),
                Change::Replace { .. } if !there => return Err(Refusal::Missing { at }),
                Change::Create { value, .. }
                | Change::Put { value, .. }
                | Change::Replace { value, .. }
                | Change::PutWithLease { value, .. } => {
                    next.values.insert(at, (next.revision, value.clone()));
                }
                Change::Delete { .. } | Change::Remove { .. } => {
                    let before = next.values.len();
                    next.values.retain(|other, _| !at.contains(other));
                    if matches!(change, Change::Delete { .. }) && before == next.values.len() {
                        return Err(Refusal::Missing { at });
                    }
                }
            }
        }
        *self = next;
        Ok(self.revision)
    }
}

fn content(tree: &Tree) -> BTreeMap<Location, (u64, Bytes)> {
    let all = Datastore::ALL.map(|datastore| {
        let subtree = tree.subtree(&Location { datastore, path: Path::root() }, None, usize::MAX);
        assert!(!subtree.more);
        subtree.values
    });
    all.into_iter().flatten().map(|(at, value)| (at, (value.etag, value.bytes))).collect()
}

/// What a watcher that knows nothing else makes of the events.
fn follow(values: &mut BTreeMap<Location, (u64, Bytes)>, event: Event) {
    match event.kind {
        EventKind::Put { etag, value } => {
            values.insert(event.at, (etag, value));
        }
        EventKind::Deleted => assert!(values.remove(&event.at).is_some(), "{} was not there", event.at),
        EventKind::Reset => panic!("nothing was moved"),
    }
}

proptest! {
    #[test]
    fn does_what_the_model_does(transactions in prop::collection::vec(transaction(), 1..40)) {
        let (mut tree, mut model, mut watched) = (Tree::new(), Model::default(), BTreeMap::new());
        for transaction in &transactions {
            let before = tree.clone();
            let frozen = content(&before);
            let mut events = Vec::new();
            let outcome = tree.apply(transaction, &mut |event| events.push(event));
            prop_assert_eq!(outcome.clone().map(|committed| committed.revision), model.apply(transaction));
            if outcome.is_err() {
                prop_assert!(events.is_empty());
                prop_assert_eq!(&tree, &before);
            }
            prop_assert!(events.iter().all(|event| event.revision == tree.revision()));
            for event in events {
                follow(&mut watched, event);
            }
            prop_assert_eq!(&content(&tree), &model.values);
            prop_assert_eq!(&watched, &model.values);
            prop_assert_eq!(tree.len(), model.values.len());
            // A clone stays as it was.
            prop_assert_eq!(content(&before), frozen);
        }
    }

    #[test]
    fn reads_are_the_models(
        transactions in prop::collection::vec(transaction(), 1..30),
        at in location(), after in prop::option::of(path()), limit in 0..6_usize,
    ) {
        let (mut tree, mut model) = (Tree::new(), Model::default());
        for transaction in &transactions {
            let _ = (tree.apply(transaction, &mut |_| ()), model.apply(transaction));
        }
        let expected: Vec<(Location, Value)> = model.values.iter()
            .filter(|(other, _)| at.contains(other) && after.as_ref().is_none_or(|after| other.path > *after))
            .map(|(at, (etag, bytes))| (at.clone(), Value { etag: *etag, bytes: bytes.clone() }))
            .collect();
        let found = tree.subtree(&at, after.as_ref(), limit);
        prop_assert_eq!(&found.values[..], &expected[..limit.min(expected.len())]);
        prop_assert_eq!(found.more, expected.len() > limit);
        let exact = model.values.get(&at).map(|(etag, bytes)| Value { etag: *etag, bytes: bytes.clone() });
        prop_assert_eq!(tree.get(&at), exact.as_ref());
    }

    /// The count of bytes is a function of the content, however it came about.
    #[test]
    fn bytes_are_counted(transactions in prop::collection::vec(transaction(), 1..40)) {
        let mut tree = Tree::new();
        for transaction in &transactions {
            let _ = tree.apply(transaction, &mut |_| ());
        }
        let mut again = Tree::new();
        let values = content(&tree);
        for (at, (_, value)) in values {
            let put = Transaction::of(Change::Put { at, value });
            again.apply(&put, &mut |_| ()).expect("a put is not refused");
        }
        prop_assert_eq!(tree.bytes(), again.bytes());
        tree.drop_prefix(&Path::root(), &[]);
        prop_assert_eq!((tree.bytes(), tree.len()), (0, 0));
    }

    #[test]
    fn dropping_spares_what_is_excepted(
        transactions in prop::collection::vec(transaction(), 1..40),
        prefix in path(), except in prop::collection::vec(path(), 0..4),
    ) {
        let mut tree = Tree::new();
        for transaction in &transactions {
            let _ = tree.apply(transaction, &mut |_| ());
        }
        let mut expected = content(&tree);
        let before = expected.len();
        expected.retain(|at, _| !prefix.contains(&at.path) || except.iter().any(|hole| hole.contains(&at.path)));
        prop_assert_eq!(tree.drop_prefix(&prefix, &except), before - expected.len());
        prop_assert_eq!(content(&tree), expected);
    }
}

#[test]
fn bounds() {
    let refusal = |changes| Tree::new().apply(&Transaction { conditions: Vec::new(), changes }, &mut |_| ());
    let many = |count: u32| (0..count).map(|index| put(&format!("/m:l={index}"), "x")).collect::<Vec<_>>();
    assert_eq!(refusal(many(1_024)), Ok(Committed { revision: 1 }));
    assert_eq!(refusal(many(1_025)), Err(Refusal::Invalid(Invalid::Changes { count: 1_025 })));
    let large = |bytes| Change::Put { at: config("/m:l"), value: vec![0; bytes].into() };
    assert_eq!(refusal(vec![large(1 << 20)]), Ok(Committed { revision: 1 }));
    assert_eq!(
        refusal(vec![put("/m:x", ""), large((1 << 20) + 1)]),
        Err(Refusal::Invalid(Invalid::Value { index: 1, bytes: (1 << 20) + 1 }))
    );
    assert!(matches!(refusal(vec![large(1 << 20); 8]), Err(Refusal::Invalid(Invalid::Size { .. }))));
    assert_eq!(refusal(vec![put("/", "x")]), Err(Refusal::Invalid(Invalid::Root { index: 0 })));
    assert_eq!(refusal(vec![put("/m:", "x")]), Err(Refusal::Invalid(Invalid::Root { index: 0 })));
}

#[test]
fn changes_see_those_before_them() {
    let mut tree = Tree::new();
    let delete = |text| Change::Delete { at: config(text) };
    let create = |text| Change::Create { at: config(text), value: "x".into() };
    let transaction =
        Transaction { conditions: Vec::new(), changes: vec![create("/m:a=1"), delete("/m:a"), create("/m:a=1")] };
    assert_eq!(tree.apply(&transaction, &mut |_| ()), Ok(Committed { revision: 1 }));
    let twice = Transaction { conditions: Vec::new(), changes: vec![delete("/m:a"), delete("/m:a")] };
    assert_eq!(tree.apply(&twice, &mut |_| ()), Err(Refusal::Missing { at: config("/m:a") }));
    assert_eq!((tree.len(), tree.revision()), (1, 1));
    assert_eq!(tree.get(&Location::operational(parse("/m:a=1"))), None);
}
