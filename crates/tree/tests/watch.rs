//! Watches that are resumed: they miss nothing, or are told.

use crate::common::{config, location, parse, transaction};
use proptest::prelude::*;
use tree::{Event, EventKind, History, Location, Path, Skipped, Tree};

proptest! {
    #[test]
    fn misses_nothing_or_says_so(
        transactions in prop::collection::vec(transaction(), 1..40),
        capacity in 0..40_usize, subtree in location(), from in 0..40_u64,
    ) {
        let (mut tree, mut history, mut all) = (Tree::new(), History::new(capacity, 0), Vec::new());
        for transaction in &transactions {
            let _ = tree.apply(transaction, &mut |event: Event| {
                all.push(event.clone());
                history.push(event);
            });
            prop_assert!(history.len() <= capacity);
        }
        let expected: Vec<Event> =
            all.iter().filter(|event| event.revision > from && subtree.contains(&event.at)).cloned().collect();
        match history.since(&subtree, from) {
            Ok(events) => prop_assert_eq!(events, expected),
            Err(Skipped { to }) => {
                prop_assert_eq!(Some(to), all.last().map(|event| event.revision));
                // It was not for nothing: some event behind `from` is gone.
                prop_assert!(all.iter().filter(|event| event.revision > from).count() > history.len());
            }
        }
    }
}

fn event(revision: u64, text: &str, kind: EventKind) -> Event {
    Event { revision, kind, at: config(text) }
}

fn put(revision: u64, text: &str) -> Event {
    event(revision, text, EventKind::Put { etag: revision, value: "x".into() })
}

#[test]
fn a_transaction_goes_as_a_whole() {
    let mut history = History::new(3, 0);
    for event in [put(1, "/m:a"), put(1, "/m:b"), put(2, "/m:a"), put(3, "/m:a")] {
        history.push(event);
    }
    assert_eq!(history.len(), 2);
    let root = Location::config(Path::root());
    assert_eq!(history.since(&root, 0), Err(Skipped { to: 3 }));
    assert_eq!(history.since(&root, 1), Ok(vec![put(2, "/m:a"), put(3, "/m:a")]));
    assert_eq!(history.since(&root, 3), Ok(Vec::new()));
}

#[test]
fn one_transaction_may_be_too_large() {
    let mut history = History::new(2, 0);
    for text in ["/m:a", "/m:b", "/m:c", "/m:d"] {
        history.push(put(1, text));
    }
    let root = Location::config(Path::root());
    assert_eq!(history.since(&root, 0), Err(Skipped { to: 1 }));
    assert_eq!(history.since(&root, 1), Ok(Vec::new()));
    assert!(history.is_empty());
}

#[test]
fn values_are_bounded_in_bytes() {
    let mut history = History::new(1_000, 0);
    let value: tree::Bytes = vec![0; 1 << 20].into();
    for revision in 1..=20 {
        history.push(event(revision, "/m:a", EventKind::Put { etag: revision, value: value.clone() }));
    }
    assert_eq!(history.len(), 16);
    assert_eq!(history.since(&config("/m:a"), 3), Err(Skipped { to: 20 }));
    assert_eq!(history.since(&config("/m:a"), 4).map(|events| events.len()), Ok(16));
}

#[test]
fn a_reset_concerns_what_is_below_and_above() {
    let mut history = History::default();
    let reset = event(5, "/m:a/b", EventKind::Reset);
    history.push(reset.clone());
    for (text, concerned) in [("/", true), ("/m:a", true), ("/m:a/b/c", true), ("/m:a/c", false)] {
        let events = history.since(&config(text), 0).expect("nothing is lost");
        assert_eq!(events.contains(&reset), concerned, "{text}");
    }
    assert_eq!(history.since(&Location::operational(parse("/m:a")), 0), Ok(Vec::new()));
    history.skip_to(9);
    assert_eq!(history.since(&config("/m:a"), 8), Err(Skipped { to: 9 }));
    assert_eq!(history.since(&config("/m:a"), 9), Ok(Vec::new()));
}
