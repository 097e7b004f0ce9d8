//! Content on its way from shard to shard: everything arrives once, nothing is done twice.

use std::collections::BTreeMap;

use crate::common::{Shard, config, imports, parse, path, put, transaction};
use proptest::prelude::*;
use tree::sessions::MAX_EXPORTED_OUTCOMES;
use tree::{
    Bytes, Change, Command, Committed, Condition, Datastore, EventKind, Expect, Location, Path, Refusal, SessionId,
    Transaction,
};

const CLIENT: SessionId = SessionId(7);
const SOURCE: u64 = 1;
const TARGET: u64 = 2;

fn write(sequence: u64, transaction: Transaction) -> Command {
    Command::Write { session: CLIENT, sequence, acknowledged: 0, transaction }
}

impl Shard {
    fn content(&self) -> BTreeMap<Location, (u64, Bytes)> {
        let chunk = self.state.export(&Path::root(), &[], None, usize::MAX);
        chunk.entries.into_iter().map(|entry| (entry.at, (entry.value.etag, entry.value.bytes))).collect()
    }
}

fn freeze(prefix: &Path, except: &[Path], move_id: u64) -> Command {
    Command::Freeze { prefix: prefix.clone(), except: except.to_vec(), move_id }
}

fn dropped(prefix: &Path, move_id: u64, to: u64) -> Command {
    Command::Dropped { prefix: prefix.clone(), move_id, to }
}

/// A whole move without faults.
fn carry(from: &mut Shard, to: &mut Shard, prefix: &Path, move_id: u64, number: u64) {
    from.apply(&freeze(prefix, &[], move_id)).expect("nothing stands in the way");
    for chunk in imports(&from.state, prefix, &[], move_id, 64) {
        to.apply(&chunk).expect("chunks are in order");
    }
    from.apply(&dropped(prefix, move_id, number)).expect("it was frozen");
}

/// Of several changes that may be meant, a refusal that was kept names the first.
fn placeless(outcome: tree::Outcome) -> tree::Outcome {
    let at = config("/");
    outcome.map_err(|refusal| match refusal {
        Refusal::Missing { .. } => Refusal::Missing { at },
        Refusal::Exists { .. } => Refusal::Exists { at },
        refusal => refusal,
    })
}

proptest! {
    #[test]
    fn everything_arrives_once(
        transactions in prop::collection::vec(transaction(), 1..30),
        prefix in path(), except in prop::collection::vec(path(), 0..3),
        limit_bytes in 1..200_usize, again in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let (mut source, mut target) = (Shard::default(), Shard::default());
        let outcomes: Vec<_> = (0..).zip(&transactions)
            .map(|(sequence, transaction)| source.apply(&write(sequence, transaction.clone())))
            .collect();
        let before = source.content();
        let revision = source.state.tree.revision();
        let moves = |path: &Path| prefix.contains(path) && !except.iter().any(|hole| hole.contains(path));

        let frozen = freeze(&prefix, &except, 5);
        prop_assert_eq!(source.apply(&frozen), Ok(Committed { revision }));
        let imports = imports(&source.state, &prefix, &except, 5, limit_bytes);
        let mut log = vec![frozen];
        for import in &imports {
            // What came before comes again at any time.
            for index in &again {
                let Some(Command::Import { number, .. }) = imports.get(index.index(imports.len())) else { continue };
                let Command::Import { number: now, .. } = import else { continue };
                if number < now {
                    prop_assert!(target.apply(&imports[*number as usize]).is_ok());
                }
            }
            prop_assert!(target.apply(import).is_ok());
            log.push(import.clone());
        }
        let drop = dropped(&prefix, 5, TARGET);
        prop_assert!(source.apply(&drop).is_ok());
        log.push(drop);

        let (stayed, arrived): (BTreeMap<_, _>, BTreeMap<_, _>) =
            before.into_iter().partition(|(at, _)| !moves(&at.path));
        prop_assert_eq!(source.content(), stayed);
        prop_assert_eq!(target.content(), arrived);
        prop_assert!(target.state.tree.revision() > revision);
        for shard in [&source, &target] {
            prop_assert!(shard.content().keys().all(|at| shard.state.serves(&at.path).is_ok()));
        }

        // Every command of the move, and every write, in whatever order once more: nothing happens, answers stay.
        let content = (source.content(), target.content());
        for index in &again {
            let command = &log[index.index(log.len())];
            prop_assert!(source.apply(command).is_ok() && target.apply(command).is_ok());
            let sequence = index.index(transactions.len());
            let repeated = write(sequence as u64, transactions[sequence].clone());
            let first = placeless(outcomes[sequence].clone());
            prop_assert_eq!(placeless(source.apply(&repeated)), first.clone());
            prop_assert_eq!(placeless(target.apply(&repeated)), first);
        }
        prop_assert_eq!((source.content(), target.content()), content);
        prop_assert!(target.state.imports.is_empty() && source.state.frozen.is_empty());
    }

    /// A chunk that is skipped is asked for; chunks of a move that was given up do not mix with those of the next.
    #[test]
    fn a_move_that_was_given_up_leaves_nothing(
        transactions in prop::collection::vec(transaction(), 1..20), done in any::<prop::sample::Index>(),
    ) {
        let (mut source, mut target) = (Shard::default(), Shard::default());
        for (sequence, transaction) in (0..).zip(&transactions) {
            let _ = source.apply(&write(sequence, transaction.clone()));
        }
        let prefix = parse("/m:a");
        source.apply(&freeze(&prefix, &[], 1)).expect("nothing stands in the way");
        let imports = imports(&source.state, &prefix, &[], 1, 1);
        let done = done.index(imports.len());
        for import in &imports[..done] {
            target.apply(import).expect("in order");
        }
        if let Some(skipping) = imports.get(done + 1) {
            let expected = Refusal::OutOfOrder { prefix: prefix.clone(), expected: done as u32 };
            prop_assert_eq!(target.apply(skipping), Err(expected));
        }
        source.apply(&Command::Thaw { prefix: prefix.clone(), move_id: 1 }).expect("always");
        let removed = Transaction::of(Change::Remove { at: config("/m:a") });
        source.apply(&write(100, removed)).expect("it is served again");
        let last = Transaction::of(put("/m:a=9", "last"));
        source.apply(&write(101, last)).expect("it is served again");

        carry(&mut source, &mut target, &prefix, 2, TARGET);
        let left: Vec<_> = target.content().into_iter().filter(|(at, _)| at.datastore == Datastore::Config).collect();
        prop_assert_eq!(left.len(), 1);
        prop_assert_eq!(&left[0].0, &config("/m:a=9"));
        for import in &imports {
            target.apply(import).expect("too late, and harmless");
        }
        prop_assert_eq!(target.content().iter().filter(|(at, _)| at.datastore == Datastore::Config).count(), 1);
    }
}

#[test]
fn what_is_on_the_move_is_refused() {
    let mut shard = Shard::default();
    for (sequence, text) in (0..).zip(["/m:a/x", "/m:a/b/x", "/m:c"]) {
        shard.apply(&write(sequence, Transaction::of(put(text, "1")))).expect("a put");
    }
    let (prefix, hole) = (parse("/m:a"), parse("/m:a/b"));
    shard.apply(&freeze(&prefix, std::slice::from_ref(&hole), 3)).expect("nothing stands in the way");
    let moving = Err(Refusal::Moving { prefix: prefix.clone() });
    let refused = write(10, Transaction::of(put("/m:a/x", "2")));
    assert_eq!(shard.apply(&refused).map(drop), moving);
    assert_eq!(shard.state.serves(&parse("/m:a/x")), moving);
    assert_eq!(shard.state.serves(&hole), Ok(()));
    assert_eq!(shard.state.serves(&parse("/m:c")), Ok(()));
    assert_eq!(shard.state.serves_subtree(&Path::root(), &[]), moving);
    assert_eq!(shard.state.serves_subtree(&hole, &[]), Ok(()));
    assert_eq!(shard.state.serves_subtree(&Path::root(), std::slice::from_ref(&prefix)), Ok(()));
    let conditional = Transaction {
        conditions: vec![Condition { at: config("/m:a/x"), expect: Expect::Present }],
        changes: vec![put("/m:c", "2")],
    };
    assert_eq!(shard.apply(&write(11, conditional)).map(drop), moving);
    let all = Transaction::of(Change::Delete { at: config("/m:a") });
    assert_eq!(shard.apply(&write(12, all.clone())).map(drop), moving);
    assert_eq!(shard.apply(&freeze(&parse("/m:a/x"), &[], 4)).map(drop), moving);

    let (outcome, events) = shard.watched(&dropped(&prefix, 3, 9));
    let revision = outcome.expect("it was frozen").revision;
    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|event| event.kind == EventKind::Reset && event.revision == revision));
    let refusal = Refusal::Moved { prefix: prefix.clone(), to: 9 };
    assert!(refusal.is_retryable());
    let moved = Err(refusal);
    assert_eq!(shard.apply(&refused).map(drop), moved);
    assert_eq!(shard.apply(&write(13, all)).map(drop), moved);
    assert_eq!(shard.state.serves(&parse("/m:a/x")), moved);
    assert_eq!(shard.state.serves_subtree(&Path::root(), &[]), moved);
    assert_eq!(shard.state.serves_subtree(&Path::root(), std::slice::from_ref(&prefix)), Ok(()));
    assert_eq!(shard.state.serves(&parse("/m:a/b/x")), Ok(()));
    assert_eq!(shard.content().len(), 2);
}

/// A client that saw entity tag N at one shard must not see N on another value at the next.
#[test]
fn entity_tags_are_not_used_twice() {
    let (mut source, mut target) = (Shard::default(), Shard::default());
    let mut seen = Vec::new();
    for sequence in 0..10 {
        let outcome = source.apply(&write(sequence, Transaction::of(put("/m:a", "1"))));
        seen.push(outcome.expect("a put").revision);
    }
    let gone = Transaction::of(Change::Delete { at: config("/m:a") });
    source.apply(&write(10, gone)).expect("it is there");
    carry(&mut source, &mut target, &parse("/m:a"), 1, TARGET);
    for sequence in 20..30 {
        let outcome = target.apply(&write(sequence, Transaction::of(put("/m:a", "2"))));
        seen.push(outcome.expect("a put").revision);
    }
    carry(&mut target, &mut source, &parse("/m:a"), 2, SOURCE);
    seen.push(source.apply(&write(40, Transaction::of(put("/m:a", "3")))).expect("it came back").revision);
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    assert_eq!(source.state.moved, BTreeMap::new());
}

/// Marks of moved prefixes part territories among them: each path has one answer.
#[test]
fn marks_nest() {
    let mut shard = Shard::default();
    let (outer, middle, inner) = (parse("/m:a"), parse("/m:a/b"), parse("/m:a/b/c"));
    let asks = |shard: &Shard, path: &Path| match shard.state.serves(path) {
        Ok(()) => None,
        Err(Refusal::Moved { to, .. }) => Some(to),
        Err(other) => panic!("{other}"),
    };
    shard.apply(&freeze(&outer, &[], 1)).expect("free");
    shard.apply(&dropped(&outer, 1, 11)).expect("frozen");
    // The middle comes back, but what is inside of it stays where it is.
    let arrival = Command::Import {
        move_id: 2,
        prefix: middle.clone(),
        except: vec![inner.clone()],
        number: 0,
        entries: Vec::new(),
        sessions: Vec::new(),
        revision: 50,
        last: true,
    };
    shard.apply(&arrival).expect("free");
    assert_eq!([&outer, &middle, &inner].map(|path| asks(&shard, path)), [Some(11), None, Some(11)]);
    shard.apply(&freeze(&middle, std::slice::from_ref(&inner), 3)).expect("free");
    shard.apply(&dropped(&middle, 3, 13)).expect("frozen");
    assert_eq!([&outer, &middle, &inner].map(|path| asks(&shard, path)), [Some(11), Some(13), Some(11)]);
    assert!(shard.state.tree.revision() > 50);
}

#[test]
fn an_unsound_chunk_is_refused() {
    let mut shard = Shard::default();
    let mut import = |revision, etag| {
        let at = config("/m:a");
        let entry = tree::Entry { at, value: tree::Value { etag, bytes: "x".into() } };
        shard.apply(&Command::Import {
            move_id: 1,
            prefix: parse("/m:a"),
            except: Vec::new(),
            number: 0,
            entries: vec![entry],
            sessions: Vec::new(),
            revision,
            last: true,
        })
    };
    let unsound = Err(Refusal::UnsoundChunk { prefix: parse("/m:a"), number: 0 });
    assert_eq!(import(5, 6), unsound);
    assert_eq!(import(u64::MAX, 6), unsound);
    assert_eq!(import(5, 5), Ok(Committed { revision: 6 }));
}

/// A table of sessions may be large: what goes along with each move is bounded, and what was left out is never done twice.
#[test]
fn only_sessions_that_were_used_lately_take_their_outcomes_along() {
    const SESSIONS: u64 = 70;
    const WRITES: u64 = 1_000;
    let command = |session: u64, sequence| {
        let changes = vec![Change::Put { at: config("/m:a"), value: b"1"[..].into() }];
        let transaction = Transaction { changes, ..Transaction::default() };
        Command::Write { session: SessionId(session), sequence, acknowledged: 0, transaction }
    };
    let (mut source, mut target) = (Shard::default(), Shard::default());
    for session in 1..=SESSIONS {
        for sequence in 0..WRITES {
            source.apply(&command(session, sequence)).expect("it is a new one");
        }
    }
    let prefix = parse("/m:");
    source.apply(&freeze(&prefix, &[], 5)).expect("nothing stands in the way");
    let imports = imports(&source.state, &prefix, &[], 5, 100_000);
    let outcomes = |import: &Command| match import {
        Command::Import { sessions, .. } => sessions.iter().map(|record| record.outcomes.len()).sum::<usize>(),
        _ => 0,
    };
    let all: usize = imports.iter().map(outcomes).sum();
    assert!((MAX_EXPORTED_OUTCOMES - WRITES as usize..=MAX_EXPORTED_OUTCOMES).contains(&all), "{all}");
    for import in &imports {
        target.apply(import).expect("chunks are in order");
    }
    let before = target.content();
    assert_eq!(target.apply(&command(1, WRITES - 1)), Err(Refusal::Forgotten));
    assert!(target.apply(&command(SESSIONS, WRITES - 1)).is_ok());
    assert_eq!(target.content(), before, "both were done at the source");
    assert!(target.apply(&command(1, WRITES)).is_ok(), "it goes on with what is new");
}
