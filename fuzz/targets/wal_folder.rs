//! What a server finds in its folder: segments behind a good header, the witness of their end, snapshot files, the
//! identity.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use machine::ServerId;
use wal::{
    Config, Entry, FORMAT, FileName, Identity, Log, MemoryDisk, Operation, SnapshotFile, Write, segment_with_records,
};

fn identity() -> Identity {
    Identity { format: FORMAT, cluster: 1, server: ServerId(1), name: "fuzz".into() }
}

fn config() -> Config {
    Config { allocate_bytes: 4_096, ..Config::default() }
}

/// A folder as a new server makes it, with one entry in it and zeros behind that.
fn folder() -> (Log, BTreeMap<FileName, Vec<u8>>) {
    let mut disk = MemoryDisk::new();
    let (mut log, _) = Log::recover(&disk, config()).expect("an empty folder is a new one");
    log.identify(identity()).expect("a valid identity");
    log.append(1, &[Entry { index: 1, term: 1, ..Entry::default() }]).expect("there is room");
    let batch = log.take_batch().expect("there is something to write");
    disk.carry_out(&batch).expect("the disk works");
    log.done(batch.id);
    (log, disk.files())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let (mut log, mut files) = folder();
    let segment = FileName::new("log-0000000000000001").expect("a valid name");
    match choice % 7 {
        0 => {
            // Behind the header: recovery must refuse it, or find something that it can write and find again.
            files.get_mut(&segment).expect("it was written").truncate(64);
            files.get_mut(&segment).expect("it was written").extend_from_slice(bytes);
            again(files);
        }
        1 => {
            // Behind the batch, where the file ends.
            let segment = files.get_mut(&segment).expect("it was written");
            segment.truncate(written_bytes(segment));
            segment.extend_from_slice(bytes);
            again(files);
        }
        5 => {
            // Behind the batch, in place of zeros that are there.
            let segment = files.get_mut(&segment).expect("it was written");
            let start = written_bytes(segment);
            segment.resize(segment.len().max(start + bytes.len()), 0);
            segment[start..start + bytes.len()].copy_from_slice(bytes);
            again(files);
        }
        2 => {
            if let Ok(identity) = Identity::read(bytes) {
                assert!(matches!(identity.write(), Operation::Replace { bytes: again, .. } if again == bytes));
            }
        }
        6 => {
            // The witness: whole, or written over from its start.
            let witness = files.get_mut(&FileName::new("witness").expect("a valid name")).expect("it was written");
            let len = bytes.len().min(witness.len());
            witness[..len].copy_from_slice(&bytes[..len]);
            again(files);
        }
        3 => {
            files.insert(segment, segment_with_records(&identity(), bytes));
            again(files);
        }
        _ => {
            let (_, mark) = log.snapshot_writer(1, 1).finish(1, Vec::new().into());
            let _ = SnapshotFile::read(1, &mark, bytes);
        }
    }
});

/// Where the last batch ends, whose last byte isn't zero.
fn written_bytes(segment: &[u8]) -> usize {
    segment.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

/// What can be recovered is made durable by the first batch, and found again unchanged.
fn again(files: BTreeMap<FileName, Vec<u8>>) {
    let Ok((mut log, found)) = Log::recover(&files, config()) else { return };
    let mut disk = MemoryDisk::new();
    let all = files.into_iter().map(|(file, bytes)| Operation::Append { file, bytes: bytes.into() }).collect();
    disk.carry_out(&Write::snapshot(1, all)).expect("the disk works");
    let batch = log.take_batch().expect("recovery leaves something to do");
    disk.carry_out(&batch).expect("the disk works");
    log.done(batch.id);
    let (_, same) = Log::recover(&disk, config()).expect("what was just written can be read");
    assert_eq!((same.groups, same.discarded_tail_bytes), (found.groups, 0));
}
