//! What it costs to make a batch: records, checksums, headers.
#![allow(missing_docs)]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use machine::ServerId;
use wal::{Config, Entry, FORMAT, HardState, Identity, Log, MemoryDisk};

const GROUPS: u64 = 16;
const ENTRIES: u64 = 256;
const DATA_BYTES: usize = 200;

fn founded(disk: &mut MemoryDisk) -> Log {
    let config = Config { segment_bytes: u64::MAX, ..Config::default() };
    let (mut log, _) = Log::recover(disk, config).expect("an empty folder is a new one");
    let identity = Identity { format: FORMAT, cluster: 1, server: ServerId(1), name: "bench".into() };
    log.identify(identity).expect("a valid identity");
    let batch = log.take_batch().expect("a new folder has something to write");
    disk.carry_out(&batch).expect("the disk works");
    log.done(batch.id);
    log
}

fn entries(first: u64) -> Vec<Entry> {
    let data = Bytes::from(vec![0x5a; DATA_BYTES]);
    let entry = |index| Entry { index, term: 7, kind: 0, context: Bytes::new(), data: data.clone() };
    (first..first + ENTRIES).map(entry).collect()
}

fn batch(log: &mut Log, entries: &[Entry]) -> usize {
    for group in 1..=GROUPS {
        log.append(group, entries).expect("there is room");
        log.hard_state(group, HardState { term: 7, vote: 1, commit: entries[0].index });
    }
    let batch = log.take_batch().expect("there is something to write");
    let bytes = batch.bytes();
    log.done(batch.id);
    bytes
}

fn encode(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode");
    group.throughput(Throughput::Bytes(GROUPS * ENTRIES * DATA_BYTES as u64));
    let mut log = founded(&mut MemoryDisk::new());
    // The same indices again and again: each batch overwrites the one before it, as entries of a newer leader do.
    let entries = entries(1);
    group.bench_function("16_groups_256_entries_200_bytes", |b| b.iter(|| black_box(batch(&mut log, &entries))));
    group.throughput(Throughput::Elements(1));
    let one = &entries[..1];
    group.bench_function("one_entry_of_200_bytes", |b| {
        b.iter(|| {
            log.append(GROUPS + 1, one).expect("there is room");
            let batch = log.take_batch().expect("there is something to write");
            log.done(batch.id);
            black_box(batch.bytes())
        });
    });
    group.finish();
}

fn recover(c: &mut Criterion) {
    let mut disk = MemoryDisk::new();
    let mut log = founded(&mut disk);
    let mut bytes = 0;
    for round in 0..16 {
        for group in 1..=GROUPS {
            log.append(group, &entries(1 + round * ENTRIES)).expect("there is room");
        }
        let batch = log.take_batch().expect("there is something to write");
        disk.carry_out(&batch).expect("the disk works");
        log.done(batch.id);
        bytes += batch.bytes() as u64;
    }
    let mut group = c.benchmark_group("recover");
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function("65536_entries_200_bytes", |b| {
        b.iter(|| Log::recover(black_box(&disk), Config::default()).expect("nothing is wrong"));
    });
    group.finish();
}

criterion_group!(benches, encode, recover);
criterion_main!(benches);
