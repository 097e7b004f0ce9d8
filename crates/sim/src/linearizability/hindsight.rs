//! What a whole history shows of writes whose outcome their clients did not hear.
//!
//! Values are written once, so whoever reads one has seen the write that it comes from: that write took effect before the
//! read returned, and its revision is the tag that was read. A value that nobody read or named in a condition could have
//! been any other; as zero, it makes writes equal that differed in nothing else, and the search tries one of them.

use std::collections::BTreeMap;

use machine::nanos::Time;

use super::entry::{Action, Change, Condition, Expect, Input, Leaf, Output, Tagged};
use super::{Operation, Outcome};

type Seen = BTreeMap<(u32, Leaf, u64), Option<(Time, u64)>>;

/// The history with what is known in hindsight.
pub fn resolve(history: &[Operation<Input, Output>]) -> Vec<Operation<Input, Output>> {
    let seen = seen(history);
    history.iter().map(|operation| resolved(operation, &seen)).collect()
}

/// When each value was read first, by the end of the read, and with which tag; nothing for one that was only named.
fn seen(history: &[Operation<Input, Output>]) -> Seen {
    let mut seen = Seen::new();
    for Operation { input: Input { entry, action }, outcome, .. } in history {
        if let Action::Write { condition: Some(Condition { leaf, expect: Expect::Value(value) }), .. } = *action {
            seen.entry((*entry, leaf, value)).or_default();
        }
        let Outcome::Returned { at, output } = outcome else { continue };
        let leaves = match (*action, *output) {
            (Action::Get(leaf), Output::Leaf(found)) => [(leaf, found), (leaf, None)],
            (Action::List, Output::Leaves(a, b)) => [(Leaf::A, a), (Leaf::B, b)],
            _ => continue,
        };
        for (leaf, Tagged { value, tag }) in leaves.into_iter().filter_map(|(leaf, found)| Some((leaf, found?))) {
            let first = seen.entry((*entry, leaf, value)).or_default();
            if first.is_none_or(|(before, _)| *at < before) {
                *first = Some((*at, tag));
            }
        }
    }
    seen
}

fn resolved(operation: &Operation<Input, Output>, seen: &Seen) -> Operation<Input, Output> {
    let mut operation = operation.clone();
    let (Outcome::Unknown, Action::Write { change, .. }) = (&operation.outcome, &mut operation.input.action) else {
        return operation;
    };
    let entry = operation.input.entry;
    let mut first = None;
    let mut look = |leaf: Leaf, value: &mut u64| match seen.get(&(entry, leaf, *value)) {
        Some(Some(found)) => first = first.into_iter().chain([*found]).min(),
        Some(None) => {}
        None => *value = 0,
    };
    match change {
        Change::Create(leaf, value) | Change::Put(leaf, value) | Change::Replace(leaf, value) => look(*leaf, value),
        Change::PutBoth { a, b } => {
            look(Leaf::A, a);
            look(Leaf::B, b);
        }
        Change::Delete | Change::Remove => {}
    }
    // A value that was read before it was written cannot be explained: the model will say so.
    if let Some((at, revision)) = first.filter(|(at, _)| *at >= operation.invoked) {
        operation.outcome = Outcome::Returned { at, output: Output::Seen { revision } };
    }
    operation
}
