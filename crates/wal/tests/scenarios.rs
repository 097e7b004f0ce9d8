//! The log as its callers use it: what is written is found again, and what must be refused is refused.
#![allow(missing_docs)]

use bytes::Bytes;
use machine::{Rng, ServerId};
use wal::{
    Config, DiskError, Entries, Entry, Error, FORMAT, FileName, HardState, Identity, Log, MemoryDisk, Operation,
    Position, Recovered, SECTOR_BYTES, SnapshotFile, SnapshotMark, Write,
};

fn identity() -> Identity {
    Identity { format: FORMAT, cluster: 0xfeed, server: ServerId(3), name: "left".into() }
}

fn entry(index: u64, term: u64, data: impl Into<Bytes>) -> Entry {
    Entry { index, term, kind: 0, context: Bytes::new(), data: data.into() }
}

fn entries(range: std::ops::RangeInclusive<u64>, term: u64) -> Vec<Entry> {
    range.map(|index| entry(index, term, format!("entry {index} of term {term}"))).collect()
}

fn recover(disk: &MemoryDisk) -> Result<(Log, Recovered), Error> {
    recover_with(disk, Config::default())
}

fn recover_with(disk: &MemoryDisk, config: Config) -> Result<(Log, Recovered), Error> {
    Log::recover(disk, config)
}

/// Carries out the next batch.
fn write(log: &mut Log, disk: &mut MemoryDisk) {
    let batch = log.take_batch().expect("there is something to write");
    disk.carry_out(&batch).expect("the disk works");
    log.done(batch.id);
}

fn founded(config: Config) -> (Log, MemoryDisk) {
    let mut disk = MemoryDisk::new();
    let (mut log, recovered) = recover_with(&disk, config).expect("an empty folder is a new one");
    assert_eq!(recovered, Recovered::default());
    assert_eq!(log.take_batch(), None);
    log.identify(identity()).expect("a valid identity");
    write(&mut log, &mut disk);
    (log, disk)
}

/// Files grow with each batch, so that they end where the last one ends.
fn growing() -> Config {
    Config { allocate_bytes: 0, ..Config::default() }
}

fn file(name: &str) -> FileName {
    FileName::new(name).expect("a valid name")
}

fn segment(number: u64) -> FileName {
    file(&format!("log-{number:016x}"))
}

/// Writes a snapshot of so many chunks and gives its mark.
fn snapshot(log: &mut Log, disk: &mut MemoryDisk, group: u64, position: Position) -> SnapshotMark {
    let mut writer = log.snapshot_writer(group, position.index);
    let mut operations = writer.chunk(b"first");
    operations.extend(writer.chunk(&[7; 3_000]));
    let (rest, mark) = writer.finish(position.term, Bytes::from_static(b"meta"));
    operations.extend(rest);
    disk.carry_out(&Write::snapshot(1, operations)).expect("the disk works");
    mark
}

#[test]
fn what_is_done_is_found_again() {
    let (mut log, mut disk) = founded(Config::default());
    let state = HardState { term: 2, vote: 3, commit: 1 };
    log.append(1, &entries(1..=5, 1)).expect("there is room");
    log.append(2, &entries(1..=2, 2)).expect("there is room");
    log.hard_state(1, state);
    log.append(1, &entries(4..=4, 2)).expect("there is room");
    write(&mut log, &mut disk);
    let (_, recovered) = recover(&disk).expect("nothing is wrong");
    assert_eq!(recovered.identity, Some(identity()));
    assert_eq!(recovered.discarded_tail_bytes, 0);
    let group = &recovered.groups[&1];
    assert_eq!(group.hard_state, state);
    assert_eq!(group.entries, [entries(1..=3, 1), entries(4..=4, 2)].concat());
    assert_eq!((group.first_index(), group.last_index()), (1, 4));
    assert_eq!(recovered.groups[&2].entries, entries(1..=2, 2));
}

#[test]
fn one_batch_at_a_time_and_only_if_something_matters() {
    let (mut log, mut disk) = founded(Config::default());
    assert_eq!(log.take_batch(), None);
    log.hard_state(1, HardState { term: 1, vote: 0, commit: 0 });
    let batch = log.take_batch().expect("a term must be durable");
    log.append(1, &entries(1..=1, 1)).expect("there is room");
    assert_eq!(log.take_batch(), None, "one is under way");
    disk.carry_out(&batch).expect("the disk works");
    log.done(batch.id);
    write(&mut log, &mut disk);
    log.hard_state(1, HardState { term: 1, vote: 0, commit: 1 });
    assert_eq!(log.take_batch(), None, "a commit index can wait");
    assert!(log.backlog_bytes() > 0);
    log.flush();
    write(&mut log, &mut disk);
    let (_, recovered) = recover(&disk).expect("nothing is wrong");
    assert_eq!(recovered.groups[&1].hard_state.commit, 1);
}

#[test]
fn a_newer_hard_state_overwrites_the_waiting_one() {
    let (mut log, mut disk) = founded(Config::default());
    log.hard_state(1, HardState { term: 1, vote: 1, commit: 0 });
    let bytes = log.backlog_bytes();
    log.hard_state(1, HardState { term: 2, vote: 2, commit: 0 });
    assert_eq!(log.backlog_bytes(), bytes);
    log.remove_group(1);
    log.hard_state(1, HardState { term: 3, vote: 3, commit: 0 });
    write(&mut log, &mut disk);
    let (_, recovered) = recover(&disk).expect("nothing is wrong");
    assert_eq!(recovered.groups[&1].hard_state.term, 3);
    assert!(!recovered.groups[&1].removed);
}

#[test]
fn a_removed_group_keeps_its_vote_over_segments() {
    let (mut log, mut disk) = founded(Config { segment_bytes: 1, ..Config::default() });
    let state = HardState { term: 7, vote: 2, commit: 3 };
    log.append(5, &entries(1..=3, 7)).expect("there is room");
    log.hard_state(5, state);
    write(&mut log, &mut disk);
    log.remove_group(5);
    write(&mut log, &mut disk);
    for term in 1..4 {
        log.hard_state(1, HardState { term, vote: 0, commit: 0 });
        write(&mut log, &mut disk);
    }
    assert_eq!(log.segments(), 2, "one that was written, one that comes next");
    let (_, recovered) = recover(&disk).expect("nothing is wrong");
    let group = &recovered.groups[&5];
    assert!(group.removed && group.entries.is_empty());
    assert_eq!(group.hard_state, state);
}

#[test]
fn segments_go_when_nothing_lives_in_them_and_who_lives_there_is_named() {
    let config = Config { segment_bytes: 400, ..Config::default() };
    let (mut log, mut disk) = founded(config);
    log.append(9, &entries(1..=1, 1)).expect("there is room");
    for index in 1..=60 {
        log.append(1, &entries(index..=index, 1)).expect("there is room");
        write(&mut log, &mut disk);
    }
    let living_at_the_start = |log: &Log| log.living_before(log.oldest_segment() + 1);
    assert!(log.segments() > 3);
    assert_eq!(living_at_the_start(&log), [1, 9]);
    let mark = snapshot(&mut log, &mut disk, 1, Position { index: 58, term: 1 });
    log.snapshot(1, mark, Entries::Keep);
    log.compact(1, Position { index: 58, term: 1 });
    write(&mut log, &mut disk);
    assert_eq!(living_at_the_start(&log), [9]);
    let mark = snapshot(&mut log, &mut disk, 9, Position { index: 1, term: 1 });
    log.snapshot(9, mark.clone(), Entries::Keep);
    log.compact(9, Position { index: 1, term: 1 });
    write(&mut log, &mut disk);
    let segments = |disk: &MemoryDisk| -> Vec<u64> {
        let files = disk.files();
        files
            .iter()
            .filter(|(file, _)| file.as_str().starts_with("log-"))
            .map(|(_, bytes)| bytes.len() as u64)
            .collect()
    };
    let left = segments(&disk);
    assert!(left.len() <= 2, "{left:?} are left");
    assert_eq!(log.bytes(), left.iter().sum::<u64>());
    let (_, recovered) = recover_with(&disk, config).expect("nothing is wrong");
    assert_eq!(recovered.groups[&1].entries, entries(59..=60, 1));
    assert_eq!(recovered.groups[&1].compacted, Position { index: 58, term: 1 });
    assert_eq!(recovered.groups[&9].snapshot.as_ref(), Some(&mark));
    assert_eq!(recovered.groups[&9].first_index(), 2);
}

/// Entries that no snapshot can hold yet, such as those of a group without a majority, must not keep all others there.
#[test]
fn entries_that_are_written_again_free_the_segments_they_were_in() {
    let config = Config { segment_bytes: 400, ..Config::default() };
    let (mut log, mut disk) = founded(config);
    log.append(9, &entries(1..=3, 1)).expect("there is room");
    log.append(1, &entries(1..=1, 1)).expect("there is room");
    for term in 1..=40 {
        log.hard_state(2, HardState { term, vote: 0, commit: 0 });
        write(&mut log, &mut disk);
    }
    let before = log.segments();
    assert!(before > 3);
    let next = log.begin_segment();
    assert_eq!(log.living_before(next), [1, 9]);
    assert_eq!(log.held(9), Some((1, 3)));
    assert_eq!(log.held(2), None);
    log.rewrite(9, &entries(1..=3, 1));
    assert_eq!(log.backlog_bytes(), 0, "what is there already is no backlog");
    write(&mut log, &mut disk);
    assert_eq!(log.segments(), before + 1, "group 1 still needs the oldest");
    log.rewrite(1, &entries(1..=1, 1));
    // They go on as before.
    log.append(9, &entries(3..=5, 2)).expect("there is room");
    write(&mut log, &mut disk);
    assert_eq!(log.living_before(next), [0_u64; 0]);
    assert!(log.segments() <= 3, "{}", log.segments());
    let (_, recovered) = recover_with(&disk, config).expect("nothing is wrong");
    assert_eq!(recovered.groups[&9].entries, [entries(1..=2, 1), entries(3..=5, 2)].concat());
    assert_eq!(recovered.groups[&1].entries, entries(1..=1, 1));
    assert_eq!(recovered.groups[&2].hard_state.term, 40);
}

#[test]
fn a_snapshot_from_the_leader_drops_the_log_and_the_older_file() {
    let (mut log, mut disk) = founded(Config::default());
    log.append(1, &entries(1..=9, 1)).expect("there is room");
    let own = snapshot(&mut log, &mut disk, 1, Position { index: 5, term: 1 });
    log.snapshot(1, own.clone(), Entries::Keep);
    write(&mut log, &mut disk);
    let sent = snapshot(&mut log, &mut disk, 1, Position { index: 40, term: 3 });
    log.snapshot(1, sent.clone(), Entries::Drop);
    log.append(1, &entries(41..=42, 3)).expect("there is room");
    write(&mut log, &mut disk);
    assert!(!disk.files().contains_key(&own.file));
    let (_, recovered) = recover(&disk).expect("nothing is wrong");
    let group = &recovered.groups[&1];
    assert_eq!(group.entries, entries(41..=42, 3));
    assert_eq!((group.first_index(), group.snapshot.as_ref()), (41, Some(&sent)));
    let bytes = &disk.files()[&sent.file];
    let chunks: Vec<_> = SnapshotFile::read(1, &sent, bytes).expect("nothing is wrong").collect();
    assert_eq!(chunks, [&b"first"[..], &[7; 3_000]]);
}

#[test]
fn a_marked_snapshot_has_to_be_there() {
    let (mut log, mut disk) = founded(Config::default());
    log.append(1, &entries(1..=1, 1)).expect("there is room");
    let mark = snapshot(&mut log, &mut disk, 1, Position { index: 1, term: 1 });
    log.snapshot(1, mark.clone(), Entries::Keep);
    write(&mut log, &mut disk);
    let mut files = disk.files();
    files.get_mut(&mark.file).expect("it was written").pop();
    assert!(matches!(Log::recover(&files, Config::default()), Err(Error::Corrupt { .. })));
    files.remove(&mark.file);
    assert!(matches!(Log::recover(&files, Config::default()), Err(Error::Missing { .. })));
}

#[test]
fn leftovers_are_deleted_by_the_first_batch() {
    let (mut log, mut disk) = founded(Config::default());
    let orphan = snapshot(&mut log, &mut disk, 1, Position { index: 5, term: 1 });
    let mut writer = log.snapshot_writer(1, 9);
    disk.carry_out(&Write::snapshot(2, writer.chunk(b"half"))).expect("the disk works");
    let strange = Operation::Append { file: file("notes.txt"), bytes: Bytes::from_static(b"mine") };
    disk.carry_out(&Write::snapshot(3, vec![strange])).expect("the disk works");
    assert_eq!(disk.files().len(), 6);
    let (mut log, _) = recover(&disk).expect("nothing is wrong");
    assert!(!log.is_ready());
    write(&mut log, &mut disk);
    assert!(log.is_ready());
    let names: Vec<_> = disk.files().into_keys().collect();
    assert_eq!(
        names,
        [file("identity"), segment(2), file("notes.txt"), file("witness")],
        "the old segment held nothing that lives"
    );
    let mut later = log.snapshot_writer(1, 5);
    assert!(later.chunk(b"x").iter().all(|operation| {
        !matches!(operation, Operation::Append { file, .. } if file.as_str().starts_with(orphan.file.as_str()))
    }));
}

#[test]
fn leftovers_make_room_for_the_first_batch_of_a_full_disk() {
    let (mut log, mut disk) = founded(Config { segment_bytes: 1_000, ..Config::default() });
    for nth in 1..=4 {
        log.append(1, &[entry(nth, 1, vec![b'x'; 1_000])]).expect("there is room");
        let mark = snapshot(&mut log, &mut disk, 1, Position { index: nth, term: 1 });
        log.snapshot(1, mark, Entries::Drop);
        write(&mut log, &mut disk);
    }
    let old = segment(1);
    assert!(!disk.files().contains_key(&old), "nothing lives in it");
    // The power fails, and what was deleted is there again.
    let back = Operation::Append { file: old.clone(), bytes: Bytes::from(vec![b'y'; 5_000]) };
    disk.carry_out(&Write::snapshot(1, vec![back])).expect("there is room");
    disk.fill_after(Some(disk.used_bytes()));
    let (mut log, _) = recover(&disk).expect("nothing reads it");
    write(&mut log, &mut disk);
    assert!(log.is_ready() && !disk.files().contains_key(&old));
}

#[test]
fn a_torn_tail_is_discarded_and_cut_off() {
    let (mut log, mut disk) = founded(growing());
    log.append(1, &entries(1..=3, 1)).expect("there is room");
    write(&mut log, &mut disk);
    let whole = disk.files();
    log.append(1, &entries(4..=200, 1)).expect("there is room");
    write(&mut log, &mut disk);
    let after = disk.files();
    let before_bytes = whole[&segment(1)].len();
    for len in before_bytes..after[&segment(1)].len() {
        let mut files = after.clone();
        files.get_mut(&segment(1)).expect("it was written").truncate(len);
        // The witness is written once the batch is durable.
        files.insert(file("witness"), whole[&file("witness")].clone());
        let (mut log, recovered) = Log::recover(&files, Config::default()).expect("a torn batch is no error");
        assert_eq!(recovered.groups[&1].entries, entries(1..=3, 1));
        let tail = &files[&segment(1)][before_bytes..];
        let zeros = tail.iter().rev().take_while(|&&byte| byte == 0).count();
        assert_eq!(recovered.discarded_tail_bytes, (tail.len() - zeros) as u64);
        let first = log.take_batch().expect("recovery has something to do");
        let cut = Operation::Truncate { file: segment(1), len: before_bytes as u64 };
        assert_eq!(first.operations.first() == Some(&cut), len > before_bytes);
    }
}

#[test]
fn a_damaged_batch_is_refused_wherever_it_is() {
    let (mut log, mut disk) = founded(growing());
    let mut ends = vec![disk.files()[&segment(1)].len()];
    let mut witness = Vec::new();
    for index in 1..=3 {
        witness.clone_from(&disk.files()[&file("witness")]);
        log.append(1, &[entry(index, 1, vec![index as u8; 700])]).expect("there is room");
        write(&mut log, &mut disk);
        ends.push(disk.files()[&segment(1)].len());
    }
    let mut message = String::new();
    for bit in (0..ends[3] as u64 * 8).step_by(11) {
        let mut disk = disk.clone();
        assert!(disk.corrupt(&segment(1), bit));
        let error = recover(&disk).expect_err("a flipped bit");
        assert!(matches!(error, Error::Corrupt { .. } | Error::NewerVersion { .. }), "bit {bit}: {error}");
        message = error.to_string();
    }
    assert!(
        message.contains("log-0000000000000001: corrupt at byte")
            && message.contains("hint: put the server's folder back"),
        "{message}"
    );
    // A sector of zeros is a torn batch only if no other follows.
    for start in (0..=ends[2]).step_by(SECTOR_BYTES) {
        let mut files = disk.files();
        files.get_mut(&segment(1)).expect("it was written")[start..start + SECTOR_BYTES].fill(0);
        let error = Log::recover(&files, Config::default()).expect_err("a lost sector");
        assert!(matches!(error, Error::Corrupt { .. }), "sector at {start}: {error}");
    }
    let mut files = disk.files();
    let start = ends[2].next_multiple_of(SECTOR_BYTES);
    files.get_mut(&segment(1)).expect("it was written")[start..].fill(0);
    let error = Log::recover(&files, Config::default()).expect_err("it was durable");
    assert!(matches!(error, Error::TailLost { .. }), "{error}");
    files.insert(file("witness"), witness);
    let (_, recovered) = Log::recover(&files, Config::default()).expect("a torn batch is no error");
    assert_eq!(recovered.groups[&1].entries.len(), 2);
}

#[test]
fn missing_segments_are_refused() {
    let (mut log, mut disk) = founded(Config { segment_bytes: 1, ..Config::default() });
    for index in 1..=4 {
        log.append(1, &entries(index..=index, 1)).expect("there is room");
        write(&mut log, &mut disk);
    }
    for lost in [2, 3, 4] {
        let mut files = disk.files();
        assert!(files.remove(&segment(lost)).is_some());
        let error = Log::recover(&files, Config::default()).expect_err("a segment is missing");
        assert!(matches!(error, Error::Missing { .. }), "{error}");
    }
    let mut files = disk.files();
    files.remove(&Identity::file());
    assert!(matches!(Log::recover(&files, Config::default()), Err(Error::Missing { .. })));
}

#[test]
fn a_torn_batch_in_an_older_segment_is_refused() {
    let (mut log, mut disk) = founded(Config { segment_bytes: 1, ..Config::default() });
    for index in 1..=3 {
        log.append(1, &entries(index..=index, 1)).expect("there is room");
        write(&mut log, &mut disk);
    }
    for cut in [segment(2), segment(3)] {
        let mut files = disk.files();
        files.get_mut(&cut).expect("it was written").pop();
        assert!(matches!(Log::recover(&files, Config::default()), Err(Error::Corrupt { .. })));
    }
}

#[test]
fn another_clusters_folder_and_newer_formats_are_refused() {
    let (_, disk) = founded(Config::default());
    let error = recover_with(&disk, Config { cluster: Some(1), ..Config::default() }).expect_err("another cluster");
    assert!(matches!(error, Error::OtherCluster { .. }), "{error}");
    assert!(recover_with(&disk, Config { cluster: Some(0xfeed), ..Config::default() }).is_ok());

    let (mut other, mut other_disk) = (recover(&MemoryDisk::new()).expect("a new folder").0, MemoryDisk::new());
    other.identify(Identity { server: ServerId(4), ..identity() }).expect("a valid identity");
    write(&mut other, &mut other_disk);
    let mut mixed = disk.files();
    mixed.insert(segment(1), other_disk.files()[&segment(1)].clone());
    let error = Log::recover(&mixed, Config::default()).expect_err("another server's segment");
    assert!(matches!(error, Error::OtherCluster { .. }), "{error}");

    let mut newer = disk.files();
    let text = String::from_utf8(newer[&Identity::file()].clone()).expect("text");
    newer.insert(Identity::file(), text.replace("\"format\": 1", "\"format\": 2, \"new\": 5").into_bytes());
    let error = Log::recover(&newer, Config::default()).expect_err("a newer format");
    assert_eq!(error, Error::NewerVersion { file: Identity::file(), found: 2, known: FORMAT });

    let (mut log, _) = recover(&disk).expect("nothing is wrong");
    assert!(matches!(log.identify(Identity { cluster: 1, ..identity() }), Err(Error::OtherCluster { .. })));
    assert_eq!(log.identify(identity()), Ok(()));
}

#[test]
fn a_full_disk_is_written_again_once_there_is_room() {
    for room in 0.. {
        let (mut log, mut disk) = founded(Config { segment_bytes: 300, ..growing() });
        log.append(1, &entries(1..=3, 1)).expect("there is room");
        write(&mut log, &mut disk);
        disk.fill_after(Some(disk.used_bytes() + room));
        log.append(1, &[entry(4, 1, vec![1; 800])]).expect("there is room");
        let batch = log.take_batch().expect("there is something to write");
        // The witness of the batch is written over the one before it.
        let fits = batch.bytes() as u64 - 56 <= room;
        assert_eq!(disk.carry_out(&batch).is_ok(), fits, "with room for {room}");
        if fits {
            return;
        }
        log.failed(batch.id, DiskError::Full).expect("it can be tried again");
        assert!(log.is_full() && log.health().is_ok());
        let mut crashed = disk.clone();
        crashed.crash(&mut Rng::new(room));
        let (_, recovered) = recover(&crashed).expect("nothing is wrong");
        assert_eq!(recovered.groups[&1].entries, entries(1..=3, 1));
        disk.fill_after(None);
        log.append(1, &entries(5..=5, 1)).expect("there is room");
        write(&mut log, &mut disk);
        write(&mut log, &mut disk);
        disk.crash(&mut Rng::new(1));
        let (_, recovered) = recover(&disk).expect("nothing is wrong");
        assert_eq!(recovered.groups[&1].last_index(), 5);
    }
}

#[test]
fn after_a_failed_sync_nothing_is_written_any_more() {
    let (mut log, mut disk) = founded(Config::default());
    log.append(1, &entries(1..=1, 1)).expect("there is room");
    let batch = log.take_batch().expect("there is something to write");
    disk.fail_next_sync("Input/output error (os error 5)");
    let error = disk.carry_out(&batch).expect_err("the sync fails");
    let poisoned = log.failed(batch.id, error).expect_err("this is for good");
    assert!(poisoned.to_string().contains("Input/output error"), "{poisoned}");
    log.append(1, &entries(2..=2, 1)).expect("there is room");
    assert_eq!(log.take_batch(), None);
    assert_eq!(log.health(), Err(poisoned));
}

#[test]
fn the_backlog_is_bounded() {
    let (mut log, mut disk) = founded(Config { backlog_bytes_max: 1_000, ..Config::default() });
    log.append(1, &[entry(1, 1, vec![0; 5_000])]).expect("a single one may be larger");
    let error = log.append(1, &entries(2..=2, 1)).expect_err("too much waits");
    assert!(matches!(error, Error::BacklogFull { limit: 1_000, .. }));
    write(&mut log, &mut disk);
    log.append(1, &entries(2..=2, 1)).expect("there is room again");
    write(&mut log, &mut disk);
    assert_eq!(recover(&disk).expect("nothing is wrong").1.groups[&1].last_index(), 2);
}

#[test]
fn what_an_entry_costs() {
    let (mut log, mut disk) = founded(growing());
    let many: Vec<_> = (1..=1_000).map(|index| entry(index, 5, vec![1; 200])).collect();
    let before = disk.used_bytes();
    log.append(1, &many).expect("there is room");
    write(&mut log, &mut disk);
    // 5 bytes an entry, 6 a record, 45 a batch.
    assert_eq!(disk.used_bytes() - before, 1_000 * 205 + 6 + 45);
}

#[test]
fn snapshot_files_are_checked_to_the_bit() {
    let (mut log, mut disk) = founded(Config::default());
    let mark = snapshot(&mut log, &mut disk, 1, Position { index: 5, term: 1 });
    let bytes = disk.files()[&mark.file].clone();
    assert!(SnapshotFile::read(1, &mark, &bytes).is_ok());
    assert!(SnapshotFile::read(2, &mark, &bytes).is_err());
    assert!(SnapshotFile::read(1, &SnapshotMark { checksum: mark.checksum ^ 1, ..mark.clone() }, &bytes).is_err());
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(SnapshotFile::read(1, &mark, &flipped).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(SnapshotFile::read(1, &mark, &bytes[..len]).is_err(), "cut to {len}");
    }
}

#[test]
#[should_panic(expected = "have gaps")]
fn entries_with_gaps_are_the_callers_mistake() {
    let (mut log, _) = founded(Config::default());
    let _ = log.append(1, &[entry(1, 1, "a"), entry(3, 1, "b")]);
}

#[test]
#[should_panic(expected = "may not go")]
fn entries_that_no_snapshot_holds_may_not_go() {
    let (mut log, _) = founded(Config::default());
    log.append(1, &entries(1..=3, 1)).expect("there is room");
    log.compact(1, Position { index: 2, term: 1 });
}
