//! Old revisions: what is read of one is what was there.

use crate::common::{self, config, location, put, transaction};
use proptest::prelude::*;
use tree::past::PAST_CHANGES;
use tree::{
    Change, Command, Compacted, Condition, Event, EventKind, Expect, Location, Past, Path, Refusal, SessionId, State,
    Transaction, Tree,
};

fn apply(state: &mut State, past: &mut Past, index: u64, command: &Command) -> tree::Outcome {
    state.apply_with_past(index, command, &mut |event: Event, before| past.push(&event, before))
}

fn write(sequence: u64, transaction: Transaction) -> Command {
    Command::Write { session: SessionId(1), sequence, acknowledged: 0, transaction }
}

proptest! {
    #[test]
    fn it_is_as_it_was(
        transactions in prop::collection::vec(transaction(), 1..40), at in location(), after in common::path(),
        limit in 1..6_usize, capacity in 1..60_usize,
    ) {
        let (mut state, mut past) = (State::new(), Past::new(capacity, 0));
        let mut trees: Vec<Tree> = vec![state.tree.clone()];
        for (index, transaction) in (1..).zip(transactions) {
            let _ = apply(&mut state, &mut past, index, &write(index, transaction));
            if state.tree.revision() as usize == trees.len() {
                trees.push(state.tree.clone());
            }
        }
        let newest = state.tree.revision();
        let outside = Err(Compacted { oldest: past.oldest(), newest });
        prop_assert!(past.oldest() <= newest);
        for (revision, tree) in (0..).zip(&trees) {
            let found = past.get(&state.tree, &at, revision);
            let after = Some(&after).filter(|_| limit % 2 == 0);
            let list = past.subtree(&state.tree, &at, after, limit, revision);
            if revision < past.oldest() {
                prop_assert_eq!(found, outside.clone());
                prop_assert!(list.is_err());
            } else {
                prop_assert_eq!(found, Ok(tree.get(&at).cloned()));
                prop_assert_eq!(list, Ok(tree.subtree(&at, after, limit)));
            }
        }
        prop_assert_eq!(past.get(&state.tree, &at, newest + 1), outside);
    }
}

#[test]
fn a_prefix_that_comes_or_goes_ends_the_window() {
    let (mut state, mut past) = (State::new(), Past::new(PAST_CHANGES, 0));
    apply(&mut state, &mut past, 1, &write(1, Transaction::of(put("/m:a", "1")))).unwrap();
    let prefix = config("/m:a").path;
    let freeze = Command::Freeze { prefix: prefix.clone(), except: vec![], move_id: 1 };
    apply(&mut state, &mut past, 2, &freeze).unwrap();
    assert_eq!(past.oldest(), 0);
    apply(&mut state, &mut past, 3, &Command::Dropped { prefix, move_id: 1, to: 2 }).unwrap();
    assert_eq!((past.oldest(), state.tree.revision()), (2, 2));
}

#[test]
fn the_window_is_bounded_in_bytes() {
    let (mut state, mut past) = (State::new(), Past::new(PAST_CHANGES, 0));
    let value = "x".repeat(1 << 20);
    for index in 1..40 {
        apply(&mut state, &mut past, index, &write(index, Transaction::of(put("/m:a", &value)))).unwrap();
    }
    assert!(past.bytes() <= tree::past::PAST_BYTES && past.bytes() > tree::past::PAST_BYTES / 2);
    let oldest = past.oldest();
    assert!(oldest > 20 && past.get(&state.tree, &config("/m:a"), oldest).is_ok());
}

#[test]
fn what_is_to_be_done_otherwise_is_done_once() {
    let mut state = State::new();
    let condition = Condition { at: config("/m:lock"), expect: Expect::Absent };
    let transaction = Transaction { conditions: vec![condition], changes: vec![put("/m:lock", "mine")] };
    let otherwise = vec![put("/m:waits", "me")];
    let command = |sequence| Command::WriteOrElse {
        session: SessionId(1),
        sequence,
        acknowledged: 0,
        transaction: transaction.clone(),
        otherwise: otherwise.clone(),
    };
    let mut events = Vec::new();
    assert_eq!(state.apply(1, &command(1), &mut |_| {}), Ok(tree::Committed { revision: 1 }));
    let otherwise = Err(Refusal::Otherwise { revision: 2, condition: 0, actual: Some(1) });
    for index in 2..4 {
        assert_eq!(state.apply(index, &command(2), &mut |event| events.push(event)), otherwise);
    }
    let kind = EventKind::Put { etag: 2, value: "me".into() };
    assert_eq!(events, [Event { revision: 2, kind, at: config("/m:waits") }]);
}

#[test]
fn comparisons_are_of_values_that_are_there() {
    let mut tree = Tree::new();
    for text in ["1", "2", "3"] {
        tree.apply(&Transaction::of(put("/m:a", text)), &mut |_| {}).unwrap();
    }
    let holds = |at: &str, expect| tree.judge(&[Condition { at: config(at), expect }]).is_ok();
    for expect in [Expect::NotEtag(2), Expect::EtagAbove(2), Expect::EtagBelow(4), Expect::NotValue("2".into())] {
        assert!(holds("/m:a", expect.clone()), "{expect:?}");
        assert!(!holds("/m:b", expect.clone()), "{expect:?}");
        assert!(!expect.is_of_version_1());
    }
    for expect in [Expect::NotEtag(3), Expect::EtagAbove(3), Expect::EtagBelow(3), Expect::NotValue("3".into())] {
        assert!(!holds("/m:a", expect.clone()), "{expect:?}");
    }
    let changes = vec![Change::Remove { at: Location::config(Path::root()) }; 600];
    let transaction = Transaction { conditions: vec![], changes: changes.clone() };
    assert!(transaction.check().is_ok());
    assert!(transaction.check_with(&changes).is_err(), "both together are bounded");
}
