//! What a million entries of 200 bytes cost: `cargo run --release -p heddle-tree --example memory [ENTRIES]`.
//!
//! Prints the resident memory of this process beside the estimate that [`tree::Tree::bytes`] keeps, for a state that was
//! written entry by entry and for the same one out of its snapshot; and how long the slowest single commands take.
#![allow(clippy::disallowed_methods)] // An example measures; the crate does not.

use std::time::Instant;

use tree::{Bytes, Change, Command, Location, Path, SessionId, SnapshotBuilder, State, Transaction};

const VALUE_BYTES: usize = 200;
const SESSIONS: u64 = 64;

fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells a process about itself");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS is always there");
    let kb: f64 = line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number of kB");
    kb / 1e3
}

fn write(index: u64, change: Change) -> Command {
    let sequence = index / SESSIONS;
    Command::Write {
        session: SessionId(index % SESSIONS),
        sequence,
        acknowledged: sequence,
        transaction: Transaction::of(change),
    }
}

fn main() {
    let entries: u64 = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("a number of entries"));
    let base = resident_mb();
    let mut state = State::new();
    let begun = Instant::now();
    for index in 0..entries {
        let path = Path::parse(&format!("/car:cars/car-entry={index}")).expect("a path");
        let mut value = [0; VALUE_BYTES];
        value[..8].copy_from_slice(&index.to_le_bytes());
        let change = Change::Create { at: Location::config(path), value: Bytes::from(&value) };
        // As from the log: what comes from bytes shares nothing with the caller.
        let command = Command::decode(&write(index, change).encode()).expect("it was just encoded");
        state.apply(index, &command, &mut |_| ()).expect("nothing stands in the way");
    }
    let estimate = state.tree.bytes() as f64 / 1e6;
    println!("{entries} creates: {:.2} s, coding included", begun.elapsed().as_secs_f64());
    println!("resident: {:.0} MB, estimate {estimate:.0} MB", resident_mb() - base);

    let begun = Instant::now();
    let mut reader = state.snapshot();
    let pieces: Vec<Vec<u8>> = std::iter::from_fn(|| reader.next(1 << 20)).collect();
    let bytes: usize = pieces.iter().map(Vec::len).sum();
    println!("snapshot: {:.2} s, {} pieces, {:.0} MB", begun.elapsed().as_secs_f64(), pieces.len(), bytes as f64 / 1e6);
    drop(reader);
    drop(state);
    let begun = Instant::now();
    let mut builder = SnapshotBuilder::new();
    for piece in pieces {
        builder.push(&piece).expect("a piece that was just written");
    }
    let mut state = builder.finish().expect("all pieces were there");
    println!(
        "restored: {:.2} s, resident: {:.0} MB, what the allocator keeps included",
        begun.elapsed().as_secs_f64(),
        resident_mb() - base
    );

    let begun = Instant::now();
    let digest = state.digest();
    println!("digest {digest:016x}: {:.3} s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let prefix = Path::parse("/car:cars").expect("a path");
    state.apply(entries, &write(entries, Change::Delete { at: Location::config(prefix) }), &mut |_| ()).expect("there");
    println!("delete of all in one change: {:.2} s", begun.elapsed().as_secs_f64());
}
