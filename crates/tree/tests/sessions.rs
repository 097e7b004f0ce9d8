//! The exactly-once table.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tree::sessions::{MAX_EXPIRED, MAX_OUTCOMES, MAX_SESSIONS};
use tree::{Begin, Committed, Outcome, Refusal, SessionId, Sessions};

const ONE: SessionId = SessionId(1);

fn outcome(number: u64) -> Outcome {
    if number.is_multiple_of(3) {
        Err(Refusal::ConditionFailed { index: 0, actual: Some(number) })
    } else {
        Ok(Committed { revision: number })
    }
}

#[test]
fn a_repeat_has_the_first_outcome() {
    let mut sessions = Sessions::new();
    for sequence in [0, 1, 3] {
        assert_eq!(sessions.begin(ONE, sequence, 0, sequence), Begin::New);
        sessions.finish(ONE, sequence, outcome(sequence));
    }
    assert_eq!(sessions.begin(ONE, 3, 0, 10), Begin::Repeat(outcome(3)));
    assert_eq!(sessions.begin(ONE, 1, 0, 11), Begin::Repeat(outcome(1)));
    // One that was not yet seen is new, even behind others.
    assert_eq!(sessions.begin(ONE, 2, 1, 12), Begin::New);
    assert_eq!(sessions.begin(ONE, 0, 0, 13), Begin::Forgotten);
    assert_eq!(sessions.begin(SessionId(2), 0, 0, 14), Begin::New);
}

#[test]
fn the_oldest_outcomes_go() {
    let mut sessions = Sessions::new();
    let count = MAX_OUTCOMES as u64 + 5;
    for sequence in 0..count {
        assert_eq!(sessions.begin(ONE, sequence, 0, sequence), Begin::New);
        sessions.finish(ONE, sequence, outcome(sequence));
    }
    assert_eq!(sessions.begin(ONE, 4, 0, count), Begin::Forgotten);
    assert_eq!(sessions.begin(ONE, 5, 0, count), Begin::Repeat(outcome(5)));
}

#[test]
fn the_least_recently_used_session_expires_but_is_not_taken_for_a_new_one() {
    let mut sessions = Sessions::new();
    let mut index = 0;
    let mut write = |sessions: &mut Sessions, id: u64, sequence| {
        index += 1;
        let begin = sessions.begin(SessionId(id), sequence, 0, index);
        if begin == Begin::New {
            sessions.finish(SessionId(id), sequence, outcome(1));
        }
        begin
    };
    write(&mut sessions, 0, 7);
    write(&mut sessions, 1, 7);
    for id in 2..MAX_SESSIONS as u64 {
        write(&mut sessions, id, 7);
    }
    assert_eq!(sessions.len(), MAX_SESSIONS);
    assert_eq!(write(&mut sessions, 0, 7), Begin::Repeat(outcome(1)));
    write(&mut sessions, 100_000, 7);
    assert!(sessions.len() <= MAX_SESSIONS);
    assert_eq!(write(&mut sessions, 0, 7), Begin::Repeat(outcome(1)));
    assert_eq!(write(&mut sessions, 1, 7), Begin::Forgotten);
    assert_eq!(write(&mut sessions, 1, 8), Begin::New);
    for id in 200_000..200_000 + (MAX_SESSIONS + MAX_EXPIRED) as u64 {
        write(&mut sessions, id, 7);
    }
    assert!(sessions.len() <= MAX_SESSIONS);
}

#[derive(Clone, Debug)]
struct Ask {
    session: u64,
    sequence: u64,
    acknowledged: u64,
}

fn ask() -> impl Strategy<Value = Ask> {
    (0..3_u64, 0..20_u64, 0..4_u64).prop_map(|(session, sequence, behind)| Ask {
        session,
        sequence,
        acknowledged: sequence.saturating_sub(behind * 4),
    })
}

proptest! {
    /// A write is applied once, and its answer is the one that it had, or none.
    #[test]
    fn exactly_once(asks in prop::collection::vec(ask(), 1..200)) {
        let mut sessions = Sessions::new();
        let (mut applied, mut acknowledged) = (BTreeMap::new(), BTreeMap::new());
        for (index, Ask { session, sequence, acknowledged: upto }) in (0..).zip(asks) {
            let floor = acknowledged.entry(session).or_insert(0);
            *floor = upto.max(*floor);
            match sessions.begin(SessionId(session), sequence, upto, index) {
                Begin::New => {
                    prop_assert_eq!(applied.insert((session, sequence), index), None);
                    prop_assert!(sequence >= *floor);
                    sessions.finish(SessionId(session), sequence, outcome(index));
                }
                Begin::Repeat(repeated) => {
                    prop_assert_eq!(repeated, outcome(applied[&(session, sequence)]));
                    prop_assert!(sequence >= *floor);
                }
                Begin::Forgotten => prop_assert!(sequence < *floor),
            }
        }
    }
}
