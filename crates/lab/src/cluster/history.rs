//! Whether what clients were answered holds together, and whether what was acknowledged is there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use machine::nanos::Time;
use node::{BootClock, Client};
use sim::linearizability::entry;
use sim::linearizability::{Limits, Operation, Outcome, Verdict};
use store::client::ClientConfig;
use store::protocol::{Answer, Consistency, LIST_MAX, RequestBody};
use workload::entry::{Action, Change, Input, Leaf, Output};
use workload::{CARS, Cars, Layout, container};

use super::nodes::Nodes;
use super::recorder::Recorder;
use crate::measure::cluster_record::ClusterRecord;

/// One read after the run.
const READ: Duration = Duration::from_secs(30);
/// Who reads after the run.
const READER: u32 = u32::MAX;

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Judged {
    lost_writes: Option<u64>,
    linearizable: Option<bool>,
    counterexample: Option<String>,
    checked: u64,
}

type Record = Operation<Input, Output>;

/// Who reads after a run.
pub(super) trait Reader {
    /// On the clock of the history.
    fn now(&self) -> Time;

    /// Asks, and waits for the answer.
    fn read(&mut self, body: RequestBody) -> Result<Answer, String>;
}

/// Reads at processes.
pub(super) struct LiveReader {
    client: Client,
    clock: BootClock,
}

impl LiveReader {
    /// At whichever of the nodes is best.
    pub fn new(nodes: &Nodes, clock: BootClock) -> Result<Self, String> {
        Ok(Self { client: nodes.client(&nodes.running(), ClientConfig::default())?, clock })
    }
}

impl Reader for LiveReader {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn read(&mut self, body: RequestBody) -> Result<Answer, String> {
        self.client.request(body, READ).map_err(|error| error.to_string())
    }
}

/// Reads every entry that was written, as part of the history.
pub(super) fn read_all(reader: &mut impl Reader, recorder: &mut Recorder) -> Result<(), String> {
    let Some(history) = recorder.history() else { return Ok(()) };
    let written = |record: &&Record| matches!(record.input.action, Action::Write { .. });
    let touched: BTreeSet<u32> = history.operations().iter().filter(written).map(|record| record.input.entry).collect();
    if touched.is_empty() {
        return Ok(());
    }
    let asked = reader.now();
    // Entries may be in several shards, of which one list is not: then they are read one by one.
    if let Some(mut found) = all_cars(reader) {
        for entry in touched {
            let leaves = found.remove(&entry).unwrap_or_default();
            note(recorder, (asked, reader.now()), entry, &leaves);
        }
        return Ok(());
    }
    let cars = Cars::numbered(0);
    for entry in touched {
        let asked = reader.now();
        match reader.read(cars.request(Input { entry, action: Action::List }, Consistency::Linearizable)) {
            Ok(Answer::Values { entries, .. }) => note(recorder, (asked, reader.now()), entry, &entries),
            Ok(other) => return Err(format!("a list was answered by {other:?}")),
            Err(error) => return Err(format!("reading an entry after the run: {error}")),
        }
    }
    Ok(())
}

type Values = Vec<(tree::Path, u64, Vec<u8>)>;

fn note(recorder: &mut Recorder, (asked, answered): (Time, Time), entry: u32, leaves: &Values) {
    let ticket = recorder.invoked(READER, asked, Input { entry, action: Action::List });
    // What no client wrote is no answer that the model knows: it stays unknown, and every write of it is lost.
    if let Some(output) = Cars::numbered(0).listed(entry, leaves) {
        recorder.returned(ticket, answered, output);
    }
}

/// All entries of `car` by their number; nothing if they cannot be listed at once.
fn all_cars(reader: &mut impl Reader) -> Option<BTreeMap<u32, Values>> {
    let mut found: BTreeMap<u32, Values> = BTreeMap::new();
    let mut after = None;
    loop {
        let (at, consistency) = (container(CARS), Consistency::Linearizable);
        let body = RequestBody::List { at, after: after.take(), limit: LIST_MAX, consistency };
        let Ok(Answer::Values { entries, more }) = reader.read(body) else { return None };
        after = entries.last().map(|(path, _, _)| path.clone());
        for value in entries {
            if let Some(entry) = number_of(&value.0) {
                found.entry(entry).or_default().push(value);
            }
        }
        if !more || after.is_none() {
            return Some(found);
        }
    }
}

/// The entry that a path is of.
fn number_of(path: &tree::Path) -> Option<u32> {
    let text = path.to_string();
    let rest = text.strip_prefix("/car:cars/car-entry=")?;
    rest.split('/').next()?.parse().ok()
}

/// Checks what was recorded, and puts down what came of it.
pub(super) fn conclude(recorder: &Recorder) -> ClusterRecord {
    let judged = judge(recorder);
    ClusterRecord {
        operations: recorder.operations(),
        failed: recorder.failures.count,
        first_failure: recorder.failures.first.clone(),
        lost_writes: judged.lost_writes,
        linearizable: judged.linearizable,
        counterexample: judged.counterexample,
        checked: judged.checked,
        unavailable_max_seconds: recorder.unavailable_max_seconds(),
        resident_max_bytes: None,
        faults: Vec::new(),
    }
}

/// Checks what was recorded.
fn judge(recorder: &Recorder) -> Judged {
    let Some(history) = recorder.history() else {
        return Judged { lost_writes: None, linearizable: None, counterexample: None, checked: 0 };
    };
    let operations = history.operations();
    let check = entry::check(operations, Limits::default());
    let (linearizable, counterexample) = match &check.verdict {
        Verdict::Linearizable => (Some(true), None),
        Verdict::Illegal(_) => (Some(false), Some(check.verdict.to_string())),
        Verdict::Unknown { .. } => (None, Some(check.verdict.to_string())),
    };
    let wrote = operations.iter().any(|record| matches!(record.input.action, Action::Write { .. }));
    Judged {
        lost_writes: wrote.then(|| lost_writes(operations)),
        linearizable: linearizable.filter(|_| !operations.is_empty()),
        counterexample,
        checked: check.operations,
    }
}

/// How many leaves do not hold, after the run, what an acknowledged write left there.
///
/// A leaf may hold what any write left there that no acknowledged write has surely overwritten: one that was asked after
/// the other was answered. Writes of unknown outcome may have come at any time.
fn lost_writes(operations: &[Record]) -> u64 {
    let mut entries: BTreeMap<u32, Vec<&Record>> = BTreeMap::new();
    for record in operations {
        entries.entry(record.input.entry).or_default().push(record);
    }
    entries
        .values()
        .flat_map(|records| [Leaf::A, Leaf::B].map(|leaf| is_lost(records, leaf)))
        .filter(|lost| *lost)
        .count() as u64
}

fn is_lost(operations: &[&Record], leaf: Leaf) -> bool {
    let writes: Vec<(Time, Option<Time>, Option<u64>)> =
        operations.iter().filter_map(|record| effect(record, leaf)).collect();
    let acknowledged = writes.iter().filter(|(_, returned, _)| returned.is_some());
    let Some(last) = acknowledged.map(|(invoked, _, _)| *invoked).max() else { return false };
    let read = operations.iter().rev().find(|record| record.client == READER);
    let Some(Record { outcome: Outcome::Returned { output: Output::Leaves(a, b), .. }, .. }) = read else {
        return true;
    };
    let held = if leaf == Leaf::A { a } else { b }.map(|tagged| tagged.value);
    let possible = |(_, returned, left): &(Time, Option<Time>, Option<u64>)| {
        returned.is_none_or(|returned| returned >= last) && *left == held
    };
    !writes.iter().any(possible)
}

/// When a write was asked, when it was acknowledged if it was, and what it leaves in a leaf. Nothing if it leaves the leaf
/// as it is.
fn effect(record: &Record, leaf: Leaf) -> Option<(Time, Option<Time>, Option<u64>)> {
    let Action::Write { change, .. } = record.input.action else { return None };
    let returned = match record.outcome {
        Outcome::Returned { at, output: Output::Written { .. } | Output::Seen { .. } } => Some(at),
        Outcome::Returned { .. } => return None,
        Outcome::Unknown => None,
    };
    let left = match change {
        Change::Create(which, value) | Change::Put(which, value) | Change::Replace(which, value) => {
            (which == leaf).then_some(Some(value))?
        }
        Change::PutBoth { a, b } => Some(if leaf == Leaf::A { a } else { b }),
        Change::Delete | Change::Remove => None,
    };
    Some((record.invoked, returned, left))
}

#[cfg(test)]
mod tests {
    use machine::nanos::Span;
    use workload::entry::Tagged;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// Asks at the first time, is answered at the second: what was written and read, by one client.
    fn recorded(writes: &[(u64, Option<u64>, Change)], finally: Option<u64>) -> Recorder {
        let mut recorder = Recorder::new(&[]);
        for (i, (invoked, returned, change)) in writes.iter().enumerate() {
            let action = Action::Write { condition: None, change: *change };
            let ticket = recorder.invoked(i as u32, at(*invoked), Input { entry: 1, action });
            if let Some(returned) = returned {
                recorder.returned(ticket, at(*returned), Output::Written { revision: i as u64 + 1 });
            }
        }
        let ticket = recorder.invoked(READER, at(900), Input { entry: 1, action: Action::List });
        let tag = writes
            .iter()
            .position(|(_, _, change)| matches!((change, finally), (Change::Put(_, v), Some(f)) if *v == f));
        let held = finally.map(|value| Tagged { value, tag: tag.map_or(99, |tag| tag as u64 + 1) });
        recorder.returned(ticket, at(901), Output::Leaves(held, None));
        recorder
    }

    fn put(value: u64) -> Change {
        Change::Put(Leaf::A, value)
    }

    #[test]
    fn an_acknowledged_write_that_is_gone_is_lost() {
        let writes = [(1, Some(2), put(1)), (3, Some(4), put(2))];
        let judged = |finally| judge(&recorded(&writes, finally));
        assert_eq!((judged(Some(2)).lost_writes, judged(Some(2)).linearizable), (Some(0), Some(true)));
        assert_eq!((judged(Some(1)).lost_writes, judged(Some(1)).linearizable), (Some(1), Some(false)));
        assert_eq!(judged(None).lost_writes, Some(1));
        assert!(judged(Some(1)).counterexample.unwrap().contains("put a=2"));
    }

    #[test]
    fn what_may_have_been_overwritten_is_not_lost() {
        let concurrent = [(1, Some(5), put(1)), (3, Some(4), put(2))];
        assert_eq!(judge(&recorded(&concurrent, Some(1))).lost_writes, Some(0));
        assert_eq!(judge(&recorded(&concurrent, Some(2))).lost_writes, Some(0));
        let unknown = [(1, Some(2), put(1)), (3, None, put(2)), (3, None, Change::Remove)];
        for finally in [Some(1), Some(2), None] {
            assert_eq!(judge(&recorded(&unknown, finally)).lost_writes, Some(0), "{finally:?}");
        }
        assert_eq!(judge(&recorded(&[(1, Some(2), put(1)), (3, Some(4), Change::Remove)], None)).lost_writes, Some(0));
        assert_eq!(
            judge(&recorded(&[(1, Some(2), put(1)), (3, Some(4), Change::Remove)], Some(1))).lost_writes,
            Some(1)
        );
    }

    #[test]
    fn entries_are_known_by_their_path() {
        let car = Cars::numbered(0).entry(17);
        assert_eq!(number_of(&car.path), Some(17));
        assert_eq!(number_of(&car.path.child("b", &[]).unwrap()), Some(17));
        assert_eq!(number_of(&container(CARS).path), None);
    }
}
