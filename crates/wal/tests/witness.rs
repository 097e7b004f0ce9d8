//! What an operator, a file system check or a copy of an earlier day may do to a folder: it is noticed, or it changes
//! nothing.
#![allow(missing_docs)]

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::{Rng, ServerId};
use wal::{
    Config, Entries, Entry, Error, FORMAT, FileName, HardState, Identity, Log, MemoryDisk, Position, Recovered, Write,
};

type Files = BTreeMap<FileName, Vec<u8>>;

fn config() -> Config {
    Config { segment_bytes: 3_000, allocate_bytes: 1_024, ..Config::default() }
}

fn name(text: &str) -> FileName {
    FileName::new(text).expect("a valid name")
}

fn write(log: &mut Log, disk: &mut MemoryDisk) {
    let batch = log.take_batch().expect("there is something to write");
    disk.carry_out(&batch).expect("the disk works");
    log.done(batch.id);
}

fn founded() -> (Log, MemoryDisk) {
    let mut disk = MemoryDisk::new();
    let (mut log, _) = Log::recover(&disk, config()).expect("an empty folder is a new one");
    let identity = Identity { format: FORMAT, cluster: 0xfeed, server: ServerId(3), name: "left".into() };
    log.identify(identity).expect("a valid identity");
    write(&mut log, &mut disk);
    (log, disk)
}

/// Writes entries of group 1, one a batch, and a vote in a term of its own.
fn work(log: &mut Log, disk: &mut MemoryDisk, indices: std::ops::RangeInclusive<u64>, term: u64) {
    log.hard_state(0, HardState { term, vote: term % 3, commit: 0 });
    for index in indices {
        let data = Bytes::from(vec![index as u8; 40]);
        log.append(1, &[Entry { index, term, kind: 0, context: Bytes::new(), data }]).expect("there is room");
        write(log, disk);
    }
}

fn snapshot(log: &mut Log, disk: &mut MemoryDisk, index: u64) {
    let mut writer = log.snapshot_writer(1, index);
    let mut operations = writer.chunk(&[7; 900]);
    let (rest, mark) = writer.finish(1, Bytes::from_static(b"meta"));
    operations.extend(rest);
    disk.carry_out(&Write::snapshot(1, operations)).expect("the disk works");
    log.snapshot(1, mark, Entries::Keep);
    log.compact(1, Position { index: index - 2, term: 1 });
    write(log, disk);
}

fn recover(files: &Files) -> Result<Recovered, Error> {
    Log::recover(files, config()).map(|(_, recovered)| recovered)
}

/// A file without some of it, or as it was.
fn damages(bytes: &[u8], older: Option<&Vec<u8>>) -> Vec<(&'static str, Option<Vec<u8>>)> {
    let mut damages = vec![
        ("deleted", None),
        ("emptied", Some(Vec::new())),
        ("cut in half", Some(bytes[..bytes.len() / 2].to_vec())),
        ("cut by a byte", Some(bytes[..bytes.len().saturating_sub(1)].to_vec())),
    ];
    damages.extend(older.map(|older| ("replaced by an older copy", Some(older.clone()))));
    damages
}

#[test]
fn every_file_that_is_lost_cut_or_older_is_noticed_or_harmless() {
    let (mut log, mut disk) = founded();
    work(&mut log, &mut disk, 1..=50, 1);
    snapshot(&mut log, &mut disk, 40);
    let older = disk.files();
    // In the same segment, and then in others.
    for last in [51, 150] {
        let first = log.held(1).expect("it has entries").1 + 1;
        work(&mut log, &mut disk, first..=last, 2 + last);
        let files = disk.files();
        let whole = recover(&files).expect("nothing is wrong");
        let (mut noticed, mut harmless) = (Vec::new(), Vec::new());
        for (file, bytes) in &files {
            for (what, content) in damages(bytes, older.get(file)) {
                let mut damaged = files.clone();
                match content {
                    Some(content) => damaged.insert(file.clone(), content),
                    None => damaged.remove(file),
                };
                match recover(&damaged) {
                    Ok(found) => {
                        assert_eq!(found.groups, whole.groups, "{file} {what}");
                        harmless.push(format!("{file} {what}"));
                    }
                    Err(error) => {
                        assert!(error.to_string().contains("hint: "), "{error}");
                        noticed.push(format!("{file} {what}"));
                    }
                }
            }
        }
        let newest = files.keys().filter(|file| file.as_str().starts_with("log-")).max().expect("a segment");
        for what in ["deleted", "emptied", "cut in half"] {
            assert!(noticed.contains(&format!("{newest} {what}")), "{noticed:?}");
            assert!(noticed.contains(&format!("witness {what}")), "{noticed:?}");
        }
        assert!(harmless.contains(&"witness replaced by an older copy".to_owned()), "{harmless:?}");
    }
}

#[test]
fn a_tail_cut_at_any_byte_is_missed() {
    let (mut log, mut disk) = founded();
    work(&mut log, &mut disk, 1..=8, 1);
    let files = disk.files();
    let whole = recover(&files).expect("nothing is wrong");
    let segment = name("log-0000000000000001");
    let bytes = &files[&segment];
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("it was written") + 1;
    for cut in 0..bytes.len() {
        let mut cut_off = files.clone();
        cut_off.insert(segment.clone(), bytes[..cut].to_vec());
        match recover(&cut_off) {
            Ok(found) => assert!(cut >= end && found.groups == whole.groups, "cut at {cut} of {end}"),
            Err(Error::TailLost { file, expected, found }) => {
                assert!(cut < end && file == segment && found < expected, "cut at {cut} of {end}");
            }
            Err(error) => panic!("cut at {cut} of {end}: {error}"),
        }
        // Zeros look like what was written ahead.
        cut_off.get_mut(&segment).expect("it is there").resize(bytes.len(), 0);
        assert_eq!(recover(&cut_off).is_ok(), cut >= end, "zeros from {cut}");
    }
}

/// As `older` programs left it: they wrote no witness, and nothing about it in their segments.
#[test]
fn a_folder_without_a_witness_gets_one_if_it_is_of_before_there_were_any() {
    let (mut log, mut disk) = founded();
    work(&mut log, &mut disk, 1..=8, 1);
    let mut files = disk.files();
    files.remove(&name("witness"));
    assert!(matches!(recover(&files), Err(Error::Missing { file, .. }) if file == name("witness")));
    let segment = files.get_mut(&name("log-0000000000000001")).expect("it was written");
    segment[52] = 0;
    let checksum = crc32fast::hash(&segment[..60]);
    segment[60..64].copy_from_slice(&checksum.to_le_bytes());
    let whole = recover(&files).expect("nothing is wrong");
    let (mut log, _) = Log::recover(&files, config()).expect("nothing is wrong");
    let mut disk = MemoryDisk::new();
    let append = |(file, bytes): (FileName, Vec<u8>)| wal::Operation::Append { file, bytes: bytes.into() };
    disk.carry_out(&Write::snapshot(1, files.into_iter().map(append).collect())).expect("the disk works");
    write(&mut log, &mut disk);
    let mut files = disk.files();
    assert_eq!(recover(&files).expect("nothing is wrong").groups, whole.groups);
    // From now on nothing may be missing.
    files.remove(&name("log-0000000000000002"));
    assert!(matches!(recover(&files), Err(Error::TailLost { .. })));
}

/// The witness is not synced with each batch: after a loss of power it says what it said when it was synced last, or more,
/// and never more than is there.
#[test]
fn a_loss_of_power_leaves_a_witness_that_does_not_say_too_much() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let (mut log, mut disk) = founded();
        work(&mut log, &mut disk, 1..=20, 1);
        let sync = log.sync_witness().into_iter().collect();
        disk.carry_out(&Write::snapshot(1, sync)).expect("the disk works");
        assert_eq!(log.sync_witness(), None, "nothing is new");
        let synced = disk.files()[&name("log-0000000000000001")].clone();
        work(&mut log, &mut disk, 21..=25, 2);
        disk.crash(&mut rng);
        let found = recover(&disk.files()).expect("a loss of power is no damage");
        assert_eq!(found.groups[&1].last_index(), 25);
        // What was there when it was synced is missed.
        let mut files = disk.files();
        let cut = synced.iter().rposition(|byte| *byte != 0).expect("it was written");
        files.insert(name("log-0000000000000001"), synced[..cut].to_vec());
        assert!(matches!(recover(&files), Err(Error::TailLost { .. })), "seed {seed}");
    }
}
