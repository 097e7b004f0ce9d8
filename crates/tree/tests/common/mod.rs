//! Strategies that several tests draw from: few names, so that paths meet, nest and nearly collide.
#![allow(dead_code)] // Each test uses some of it.

use proptest::prelude::*;
use tree::{Bytes, Change, Condition, Datastore, Expect, Location, Path, Transaction};

/// `-` sorts below `/` and `=` by bytes: the order of paths must not mind.
const NAMES: [&str; 4] = ["a", "a-b", "ab", "b"];
const KEYS: [&str; 5] = ["=1", "=1,2", "=10", "=%2F", "="];

pub fn path() -> impl Strategy<Value = Path> {
    let step = (0..NAMES.len(), prop_oneof![2 => Just(None), 1 => (0..KEYS.len()).prop_map(Some)]);
    let nodes = prop::collection::vec(step, 0..4).prop_map(|steps| {
        let mut text = String::new();
        for (index, (name, key)) in steps.into_iter().enumerate() {
            text.push('/');
            text.push_str(if index == 0 { "m:" } else { "" });
            text.push_str(NAMES[name]);
            text.push_str(key.map_or("", |key| KEYS[key]));
        }
        Path::parse(if text.is_empty() { "/" } else { &text }).expect("made to be a path")
    });
    prop_oneof![20 => nodes, 1 => Just(parse("/m:"))]
}

pub fn location() -> impl Strategy<Value = Location> {
    (prop::bool::weighted(0.8), path()).prop_map(|(config, path)| Location {
        datastore: if config { Datastore::Config } else { Datastore::Operational },
        path,
    })
}

pub fn value() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..4).prop_map(Bytes::from)
}

pub fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (location(), value()).prop_map(|(at, value)| Change::Create { at, value }),
        4 => (location(), value()).prop_map(|(at, value)| Change::Put { at, value }),
        2 => (location(), value()).prop_map(|(at, value)| Change::Replace { at, value }),
        1 => location().prop_map(|at| Change::Delete { at }),
        1 => location().prop_map(|at| Change::Remove { at }),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    let expect = prop_oneof![
        Just(Expect::Absent),
        Just(Expect::Present),
        (0..40_u64).prop_map(Expect::Etag),
        value().prop_map(Expect::Value),
        (0..40_u64).prop_map(Expect::NotEtag),
        value().prop_map(Expect::NotValue),
        (0..40_u64).prop_map(Expect::EtagBelow),
        (0..40_u64).prop_map(Expect::EtagAbove),
    ];
    (location(), expect).prop_map(|(at, expect)| Condition { at, expect })
}

pub fn transaction() -> impl Strategy<Value = Transaction> {
    let conditions = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(condition(), 1..3)];
    (conditions, prop::collection::vec(change(), 0..5))
        .prop_map(|(conditions, changes)| Transaction { conditions, changes })
}

pub fn parse(text: &str) -> Path {
    Path::parse(text).expect("a path")
}

pub fn config(text: &str) -> Location {
    Location::config(parse(text))
}

pub fn put(text: &str, value: &str) -> Change {
    Change::Put { at: config(text), value: value.into() }
}
