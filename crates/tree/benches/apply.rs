//! What a command costs a shard, and what a read does.
#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tree::{Bytes, Change, Command, Condition, Expect, Location, Path, SessionId, State, Transaction, Tree};

/// Entries in the tree before.
const ENTRIES: u64 = 100_000;
/// Commands in one turn.
const COMMANDS: u64 = 1_000;
const VALUE: [u8; 200] = [7; 200];

fn at(entry: u64) -> Location {
    Location::config(Path::parse(&format!("/car:cars/car-entry={entry}")).expect("a path"))
}

fn put(entry: u64) -> Change {
    Change::Put { at: at(entry), value: Bytes::from(&VALUE) }
}

/// Entries in an order that jumps about.
fn scattered(index: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ENTRIES
}

fn filled() -> Tree {
    let mut tree = Tree::new();
    for entry in 0..ENTRIES {
        tree.apply(&Transaction::of(put(entry)), &mut |_| ()).expect("a put");
    }
    tree
}

/// Applies transactions, none of which is refused.
fn run<'a>(tree: &mut Tree, transactions: impl IntoIterator<Item = &'a Transaction>) {
    for transaction in transactions {
        black_box(tree.apply(transaction, &mut |_| ()).expect("nothing stands in the way"));
    }
}

fn apply(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("apply");
    group.throughput(Throughput::Elements(COMMANDS));
    let tree = filled();

    let updates: Vec<_> = (0..COMMANDS).map(|index| Transaction::of(put(scattered(index)))).collect();
    let mut own = tree.clone();
    group.bench_function("update", |bencher| {
        bencher.iter(|| run(&mut own, &updates));
    });

    let conditional: Vec<_> = (0..COMMANDS)
        .map(|index| Transaction {
            conditions: vec![Condition { at: at(scattered(index)), expect: Expect::Present }],
            changes: vec![put(scattered(index)), put(scattered(index + COMMANDS))],
        })
        .collect();
    let mut own = tree.clone();
    group.bench_function("one condition, two changes", |bencher| {
        bencher.iter(|| run(&mut own, &conditional));
    });

    let creates: Vec<_> = (0..COMMANDS).map(|index| Transaction::of(put(ENTRIES + index))).collect();
    let deletes: Vec<_> =
        (0..COMMANDS).map(|index| Transaction::of(Change::Delete { at: at(ENTRIES + index) })).collect();
    let mut own = tree.clone();
    group.throughput(Throughput::Elements(2 * COMMANDS));
    group.bench_function("create, then delete", |bencher| {
        bencher.iter(|| run(&mut own, creates.iter().chain(&deletes)));
    });

    group.throughput(Throughput::Elements(COMMANDS));
    group.bench_function("update under a snapshot", |bencher| {
        bencher.iter_batched(
            || (tree.clone(), tree.clone()),
            |(mut own, snapshot)| {
                run(&mut own, &updates);
                (own, snapshot)
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn commands(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("command");
    group.throughput(Throughput::Elements(COMMANDS));
    let mut state = State { tree: filled(), ..State::new() };
    let mut index = 0;
    let mut command = |session: u64| {
        index += 1;
        Command::Write {
            session: SessionId(session),
            sequence: index,
            acknowledged: index.saturating_sub(8),
            transaction: Transaction::of(put(scattered(index % COMMANDS))),
        }
    };
    group.bench_function("write by 64 sessions", |bencher| {
        bencher.iter_batched(
            || (0..COMMANDS).map(|number| command(number % 64)).collect::<Vec<_>>(),
            |commands| {
                for (index, command) in commands.iter().enumerate() {
                    drop(black_box(state.apply(index as u64, command, &mut |_| ())));
                }
                commands
            },
            BatchSize::SmallInput,
        );
    });
    let encoded: Vec<_> = (0..COMMANDS).map(|number| command(number % 64).encode()).collect();
    group.bench_function("decode", |bencher| {
        bencher.iter(|| encoded.iter().filter(|bytes| black_box(Command::decode(bytes)).is_ok()).count());
    });
    group.finish();
}

fn reads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Elements(COMMANDS));
    let tree = filled();
    let places: Vec<_> = (0..COMMANDS).map(|index| at(scattered(index))).collect();
    group.bench_function("get", |bencher| {
        bencher.iter(|| places.iter().filter(|at| black_box(tree.get(at)).is_some()).count());
    });
    let list = Location::config(Path::parse("/car:cars").expect("a path"));
    group.bench_function("subtree of 1,000", |bencher| {
        bencher.iter(|| black_box(tree.subtree(&list, None, COMMANDS as usize)));
    });
    group.finish();
}

criterion_group!(benches, apply, commands, reads);
criterion_main!(benches);
