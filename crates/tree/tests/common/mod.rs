//! A shard with its log, and strategies that several tests draw from: few names, so that paths meet, nest and nearly collide.
#![allow(dead_code)] // Each test uses some of it.

use proptest::prelude::*;
use tree::{
    Bytes, Change, Chunk, Command, Condition, Datastore, Event, Expect, Location, Outcome, Path, SessionId,
    SnapshotBuilder, State, Transaction,
};

/// A shard whose commands go through bytes, as a log has them.
#[derive(Clone, Default)]
pub struct Shard {
    pub state: State,
    pub index: u64,
    /// Whose writes they are; what was done goes with data that move.
    pub client: u64,
}

impl Shard {
    pub fn apply(&mut self, command: &Command) -> Outcome {
        self.watched(command).0
    }

    /// The same, with the events that it brings.
    pub fn watched(&mut self, command: &Command) -> (Outcome, Vec<Event>) {
        self.index += 1;
        let command = Command::decode(&command.encode()).expect("just encoded");
        let mut events = Vec::new();
        (self.state.apply(self.index, &command, &mut |event| events.push(event)), events)
    }

    /// A write of the client that is new.
    pub fn write(&mut self, changes: Vec<Change>) -> Outcome {
        let (session, sequence) = (SessionId(self.client), self.index + 1);
        let transaction = Transaction { conditions: Vec::new(), changes };
        self.apply(&Command::Write { session, sequence, acknowledged: 0, transaction })
    }

    /// What a snapshot in pieces of so many bytes makes of it.
    pub fn restored(&self, limit_bytes: usize) -> State {
        let (mut reader, mut builder) = (self.state.snapshot(), SnapshotBuilder::new());
        while let Some(piece) = reader.next(limit_bytes) {
            builder.push(&piece).expect("a piece that was just written");
        }
        builder.finish().expect("all pieces")
    }
}

/// The imports of a whole move, read from a frozen shard.
pub fn imports(from: &State, prefix: &Path, except: &[Path], move_id: u64, limit_bytes: usize) -> Vec<Command> {
    let (mut commands, mut after) = (Vec::new(), None);
    loop {
        let Chunk { entries, sessions, revision, next } = from.export(prefix, except, after.as_ref(), limit_bytes);
        let (number, last) = (commands.len() as u32, next.is_none());
        let (prefix, except) = (prefix.clone(), except.to_vec());
        commands.push(Command::Import { move_id, prefix, except, number, entries, sessions, revision, last });
        after = next;
        if last {
            return commands;
        }
    }
}

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
