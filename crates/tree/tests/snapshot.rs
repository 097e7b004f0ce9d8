//! Snapshots: what comes out is what went in, and broken ones are refused.

use crate::common::{parse, put, transaction};
use proptest::prelude::*;
use tree::sessions::MAX_EXPORTED_OUTCOMES;
use tree::{Command, SessionId, SnapshotBuilder, State, Transaction, TreeError};

fn pieces(state: &State, limit_bytes: usize) -> Vec<Vec<u8>> {
    let mut reader = state.snapshot();
    std::iter::from_fn(|| reader.next(limit_bytes)).collect()
}

fn build(pieces: &[Vec<u8>]) -> Result<State, TreeError> {
    let mut builder = SnapshotBuilder::new();
    for piece in pieces {
        builder.push(piece)?;
    }
    builder.finish()
}

fn filled(transactions: &[Transaction]) -> State {
    let mut state = State::new();
    for (index, transaction) in (0..).zip(transactions) {
        let session = SessionId(index % 4);
        let write = Command::Write { session, sequence: index, acknowledged: 0, transaction: transaction.clone() };
        let _ = state.apply(index, &write, &mut |_| ());
    }
    state
}

fn with_marks(mut state: State) -> State {
    let freeze =
        |prefix: &str, move_id| Command::Freeze { prefix: parse(prefix), except: vec![parse("/m:a/b")], move_id };
    let import = Command::Import {
        move_id: 12,
        prefix: parse("/n:x"),
        except: Vec::new(),
        number: 0,
        entries: Vec::new(),
        sessions: Vec::new(),
        revision: 77,
        last: false,
    };
    let dropped = Command::Dropped { prefix: parse("/m:a"), move_id: 10, to: 3 };
    for command in [freeze("/m:a", 10), dropped, freeze("/m:b", 11), import] {
        state.apply(1_000, &command, &mut |_| ()).expect("nothing stands in the way");
    }
    state
}

proptest! {
    #[test]
    fn comes_out_as_it_went_in(
        transactions in prop::collection::vec(transaction(), 0..40), limit_bytes in 0..300_usize, marks in any::<bool>(),
    ) {
        let mut state = filled(&transactions);
        if marks {
            state = with_marks(state);
        }
        let again = build(&pieces(&state, limit_bytes)).expect("whole");
        prop_assert_eq!(again.digest(), state.digest());
        prop_assert_eq!(again.tree.bytes(), state.tree.bytes());
        prop_assert_eq!(again, state);
    }

    /// Writes after the snapshot was begun are not in it.
    #[test]
    fn stays_as_it_was(transactions in prop::collection::vec(transaction(), 1..40)) {
        let mut state = filled(&transactions[..transactions.len() / 2]);
        let (before, mut reader) = (state.clone(), state.snapshot());
        let mut builder = SnapshotBuilder::new();
        let mut index = 5_000;
        while let Some(piece) = reader.next(16) {
            builder.push(&piece).expect("a piece in its order");
            let transaction = transactions[index as usize % transactions.len()].clone();
            let write = Command::Write { session: SessionId(9), sequence: index, acknowledged: 0, transaction };
            let _ = state.apply(index, &write, &mut |_| ());
            index += 1;
        }
        prop_assert_eq!(builder.finish().expect("whole"), before);
    }

    #[test]
    fn a_lost_doubled_or_swapped_piece_is_noticed(
        transactions in prop::collection::vec(transaction(), 1..20),
        which in any::<prop::sample::Index>(), other in any::<prop::sample::Index>(), what in 0..3,
    ) {
        let state = with_marks(filled(&transactions));
        let mut pieces = pieces(&state, 1);
        let which = which.index(pieces.len());
        match what {
            0 => drop(pieces.remove(which)),
            1 => pieces.insert(which, pieces[which].clone()),
            _ => {
                let other = other.index(pieces.len());
                prop_assume!(pieces[which] != pieces[other]);
                pieces.swap(which, other);
            }
        }
        match build(&pieces) {
            // Marks may stand anywhere.
            Ok(again) => prop_assert!(what == 2 && again == state),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn damaged_bytes_never_panic(
        transactions in prop::collection::vec(transaction(), 1..10),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut pieces = pieces(&filled(&transactions), 32);
        for (piece, byte, value) in damage {
            let piece = piece.get_mut(&mut pieces);
            let byte = byte.index(piece.len());
            piece[byte] = value;
        }
        if let Ok(mut state) = build(&pieces) {
            let write = Command::Write {
                session: SessionId(1),
                sequence: 1,
                acknowledged: 1,
                transaction: Transaction::of(put("/m:a", "x")),
            };
            let _ = state.apply(9, &write, &mut |_| ());
        }
    }

    #[test]
    fn commands_come_back(transaction in transaction(), numbers in any::<[u64; 3]>(), cut in any::<prop::sample::Index>()) {
        let [session, sequence, acknowledged] = numbers;
        let command = Command::Write { session: SessionId(session), sequence, acknowledged, transaction };
        let bytes = command.encode();
        prop_assert_eq!(Command::decode(&bytes), Ok(command));
        let cut = cut.index(bytes.len());
        prop_assert!(Command::decode(&bytes[..cut]).is_err());
        let longer = [&bytes[..], &[0]].concat();
        prop_assert!(Command::decode(&longer).is_err());
    }

    #[test]
    fn any_bytes_are_a_command_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Some(format) = bytes.first_mut() {
            *format = tree::command::COMMAND_FORMAT;
        }
        if let Ok(command) = Command::decode(&bytes) {
            let _ = State::new().apply(1, &command, &mut |_| ());
        }
    }
}

#[test]
fn what_is_newer_is_refused() {
    assert_eq!(Command::decode(&[2, 0]), Err(TreeError::CommandFormat { found: 2, expected: 1 }));
    let mut header = State::new().snapshot().next(100).expect("a header");
    // Variant, four bytes of magic, then the format.
    assert_eq!(header[5], 1);
    header[5] = 2;
    assert_eq!(build(&[header.clone()]), Err(TreeError::SnapshotFormat { found: 2, expected: 1 }));
    header[1] = 0;
    assert!(matches!(build(&[header]), Err(TreeError::Inconsistent { piece: 0, .. })));
    assert!(matches!(build(&[]), Err(TreeError::Incomplete { pieces: 0 })));
}

/// What a move leaves behind, a snapshot does not: a replica that began with one took a write for forgotten that the others did.
#[test]
fn all_outcomes_are_there_however_many() {
    const WRITES: u64 = 1_000;
    let write = |session, sequence| {
        let transaction = Transaction::of(put("/m:a", "x"));
        Command::Write { session: SessionId(session), sequence, acknowledged: 0, transaction }
    };
    let mut state = State::new();
    let mut index = 0;
    for session in 0..MAX_EXPORTED_OUTCOMES as u64 / WRITES + 2 {
        // The first of each is still on its way.
        for sequence in 1..=WRITES {
            index += 1;
            state.apply(index, &write(session, sequence), &mut |_| ()).expect("it is a new one");
        }
    }
    let mut again = build(&pieces(&state, 100_000)).expect("whole");
    assert_eq!(again.digest(), state.digest());
    for late in [write(0, 0), write(0, WRITES)] {
        index += 1;
        assert_eq!(again.apply(index, &late, &mut |_| ()), state.apply(index, &late, &mut |_| ()));
    }
    assert_eq!(again, state);
}
