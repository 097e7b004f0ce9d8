//! Snapshots from bytes: refused, or a state whose own snapshot gives it again.
//!
//! The input is a run of pieces, each behind its length in two bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tree::{SnapshotBuilder, State};

fn build<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<State> {
    let mut builder = SnapshotBuilder::new();
    for piece in pieces {
        builder.push(piece).ok()?;
    }
    builder.finish().ok()
}

fuzz_target!(|bytes: &[u8]| {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (piece, behind) = behind.split_at(length);
        pieces.push(piece);
        rest = behind;
    }
    let Some(state) = build(pieces) else { return };
    let mut reader = state.snapshot();
    let pieces: Vec<Vec<u8>> = std::iter::from_fn(|| reader.next(64)).collect();
    let again = build(pieces.iter().map(Vec::as_slice)).expect("a snapshot that was just written");
    assert_eq!(again, state);
    assert_eq!(again.digest(), state.digest());
});
