//! Zeros that are written ahead of the batches: what they must not change, and that they are there.
#![allow(missing_docs)]

use bytes::Bytes;
use machine::{Rng, ServerId};
use wal::{
    Config, DiskError, Entry, Error, FORMAT, FileName, Identity, Log, MemoryDisk, Operation, Recovered, SECTOR_BYTES,
    Write,
};

const SEGMENT_BYTES: u64 = 20_000;
const STEP_BYTES: u64 = 8_192;

fn config() -> Config {
    Config { segment_bytes: SEGMENT_BYTES, allocate_bytes: STEP_BYTES, ..Config::default() }
}

fn entry(index: u64, len: usize) -> Entry {
    let mut rng = Rng::new(index);
    let data: Vec<u8> = (0..len).map(|_| rng.bits() as u8).collect();
    Entry { index, term: 1, kind: 0, context: Bytes::new(), data: data.into() }
}

fn segment(number: u64) -> FileName {
    FileName::new(format!("log-{number:016x}")).expect("a valid name")
}

fn recover(disk: &MemoryDisk) -> Result<(Log, Recovered), Error> {
    Log::recover(disk, config())
}

fn last_index(recovered: &Recovered) -> u64 {
    recovered.groups.get(&1).map_or(0, wal::RecoveredGroup::last_index)
}

fn take(log: &mut Log) -> Write {
    log.take_batch().expect("there is something to write")
}

fn write(log: &mut Log, disk: &mut MemoryDisk) {
    let batch = take(log);
    disk.carry_out(&batch).expect("the disk works");
    log.done(batch.id);
}

fn founded() -> (Log, MemoryDisk) {
    let mut disk = MemoryDisk::new();
    let (mut log, _) = recover(&disk).expect("an empty folder is a new one");
    let identity = Identity { format: FORMAT, cluster: 0xfeed, server: ServerId(3), name: "left".into() };
    log.identify(identity).expect("a valid identity");
    write(&mut log, &mut disk);
    (log, disk)
}

fn allocated(batch: &Write) -> Option<u64> {
    batch.operations.iter().find_map(|operation| match operation {
        Operation::Allocate { len, .. } => Some(*len),
        _ => None,
    })
}

/// Length of a segment without the zeros at its end: batches end with a byte that isn't zero.
fn written(disk: &MemoryDisk, number: u64) -> usize {
    disk.files()[&segment(number)].iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

#[test]
fn a_file_grows_in_steps_and_a_full_segment_ends_with_its_last_batch() {
    let (mut log, mut disk) = founded();
    let mut steps = Vec::new();
    let mut index = 0;
    while !disk.files().contains_key(&segment(2)) {
        index += 1;
        log.append(1, &[entry(index, 300)]).expect("there is room");
        let batch = take(&mut log);
        steps.extend(allocated(&batch));
        disk.carry_out(&batch).expect("the disk works");
        log.done(batch.id);
    }
    assert_eq!(steps, [2 * STEP_BYTES, SEGMENT_BYTES, STEP_BYTES], "the first step was taken when it was founded");
    let files = disk.files();
    assert_eq!(files[&segment(1)].len(), written(&disk, 1));
    assert!((SEGMENT_BYTES..SEGMENT_BYTES + 400).contains(&(written(&disk, 1) as u64)));
    assert_eq!(files[&segment(2)].len() as u64, STEP_BYTES);
}

#[test]
fn a_large_batch_takes_no_zeros_with_it() {
    let (mut log, _) = founded();
    log.append(1, &[entry(1, 9_000)]).expect("there is room");
    let batch = take(&mut log);
    assert_eq!(allocated(&batch), None);
    log.done(batch.id);
    log.append(1, &[entry(2, 10)]).expect("there is room");
    assert_eq!(allocated(&take(&mut log)), Some(2 * STEP_BYTES));
}

#[test]
fn zeros_are_no_batch_and_are_cut_off_before_the_next_segment() {
    let (mut log, mut disk) = founded();
    log.append(1, &[entry(1, 300)]).expect("there is room");
    write(&mut log, &mut disk);
    let end = written(&disk, 1);
    assert!(disk.files()[&segment(1)].len() > end);
    let (mut log, recovered) = recover(&disk).expect("nothing is wrong");
    assert_eq!((last_index(&recovered), recovered.discarded_tail_bytes), (1, 0));
    let batch = take(&mut log);
    assert_eq!(batch.operations[0], Operation::Truncate { file: segment(1), len: end as u64 });
    disk.carry_out(&batch).expect("the disk works");
    assert_eq!(disk.files()[&segment(1)].len(), end);
    let mut files = disk.files();
    files.get_mut(&segment(1)).expect("it is there").extend([0; 600]);
    let error = Log::recover(&files, config()).expect_err("a segment that is not the last has no zeros behind it");
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

/// A batch over several sectors, of which any may not have arrived.
#[test]
fn whatever_is_missing_of_a_batch_among_zeros_it_is_torn() {
    for before in [1, 100, 311, 312, 330] {
        let (mut log, mut disk) = founded();
        log.append(1, &[entry(1, before)]).expect("there is room");
        write(&mut log, &mut disk);
        let (old, start) = (disk.files(), written(&disk, 1));
        log.append(1, &[entry(2, 2_000)]).expect("there is room");
        write(&mut log, &mut disk);
        let (new, end) = (disk.files(), written(&disk, 1));
        assert_eq!(old[&segment(1)].len(), new[&segment(1)].len());
        let sectors: Vec<_> = (start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES)).collect();
        for arrived in 0_u32..1 << sectors.len() {
            let mut files = new.clone();
            for (_, sector) in sectors.iter().enumerate().filter(|(k, _)| arrived >> k & 1 == 0) {
                let place = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
                files.get_mut(&segment(1)).expect("it is there")[place.clone()]
                    .copy_from_slice(&old[&segment(1)][place]);
            }
            let witness = FileName::new("witness").expect("a valid name");
            files.insert(witness.clone(), old[&witness].clone());
            let (_, recovered) = Log::recover(&files, config()).expect("a torn batch is no error");
            let is_whole = arrived + 1 == 1 << sectors.len();
            assert_eq!(last_index(&recovered), if is_whole { 2 } else { 1 }, "{before} bytes before, {arrived:b}");
            let torn_bytes = recovered.discarded_tail_bytes;
            assert_eq!(torn_bytes > 0, arrived > 0 && !is_whole, "{before} bytes before, {arrived:b}: {torn_bytes}");
        }
    }
}

#[test]
fn a_bit_flipped_in_a_batch_among_zeros_is_corrupt() {
    let (mut log, mut disk) = founded();
    for index in 1..=2 {
        log.append(1, &[entry(index, 900)]).expect("there is room");
        write(&mut log, &mut disk);
    }
    for bit in 0..written(&disk, 1) as u64 * 8 {
        let mut disk = disk.clone();
        assert!(disk.corrupt(&segment(1), bit));
        let error = recover(&disk).expect_err("a flipped bit");
        assert!(matches!(error, Error::Corrupt { .. } | Error::NewerVersion { .. }), "bit {bit}: {error}");
    }
}

#[test]
fn a_batch_before_others_is_not_torn() {
    let (mut log, mut disk) = founded();
    let mut ends = vec![written(&disk, 1)];
    for index in 1..=3 {
        log.append(1, &[entry(index, 1_500)]).expect("there is room");
        write(&mut log, &mut disk);
        ends.push(written(&disk, 1));
    }
    for start in (ends[0].next_multiple_of(SECTOR_BYTES)..ends[2]).step_by(SECTOR_BYTES) {
        let mut files = disk.files();
        files.get_mut(&segment(1)).expect("it is there")[start..start + SECTOR_BYTES].fill(0);
        let error = Log::recover(&files, config()).expect_err("a lost sector");
        assert!(matches!(error, Error::Corrupt { .. }), "sector at {start}: {error}");
    }
}

#[test]
fn zeros_that_find_no_room_stop_no_batch() {
    let (mut log, mut disk) = founded();
    let end = written(&disk, 1) as u64;
    log.append(1, &[entry(1, (STEP_BYTES - end) as usize - 1_000)]).expect("there is room");
    write(&mut log, &mut disk);
    // The next batch reaches the end of the file; there is room for it, and for a few of the zeros that go with it.
    disk.fill_after(Some(disk.used_bytes() + 1_000));
    log.append(1, &[entry(2, 1_000)]).expect("there is room");
    let batch = take(&mut log);
    assert_eq!(allocated(&batch), Some(2 * STEP_BYTES));
    disk.carry_out(&batch).expect("its own bytes have room");
    log.done(batch.id);
    assert_eq!(disk.files()[&segment(1)].len() as u64, STEP_BYTES + 1_000);
    log.append(1, &[entry(3, 700)]).expect("there is room");
    write(&mut log, &mut disk);
    log.append(1, &[entry(4, 700)]).expect("there is room");
    let batch = take(&mut log);
    assert_eq!(disk.carry_out(&batch), Err(DiskError::Full));
    log.failed(batch.id, DiskError::Full).expect("it can be tried again");
    let mut crashed = disk.clone();
    crashed.crash(&mut Rng::new(1));
    assert_eq!(last_index(&recover(&crashed).expect("nothing is wrong").1), 3);
    disk.fill_after(None);
    assert_eq!(take(&mut log), batch, "the same again, in the same place");
    disk.carry_out(&batch).expect("there is room now");
    log.done(batch.id);
    disk.crash(&mut Rng::new(2));
    assert_eq!(last_index(&recover(&disk).expect("nothing is wrong").1), 4);
}

#[test]
fn the_disk_in_memory_tears_what_is_overwritten() {
    let (mut log, mut disk) = founded();
    let start = written(&disk, 1);
    log.append(1, &[entry(1, 3_000)]).expect("there is room");
    let batch = take(&mut log);
    disk.carry_out_part(&batch, 0).expect("the disk works");
    let (len, mut kept, mut lost, mut mixed) = (disk.files()[&segment(1)].len(), false, false, false);
    for seed in 0..100 {
        let mut crashed = disk.clone();
        crashed.crash(&mut Rng::new(seed));
        let bytes = &crashed.files()[&segment(1)];
        assert_eq!(bytes.len(), len, "the length was durable before");
        let sectors = bytes[start.next_multiple_of(SECTOR_BYTES)..][..5 * SECTOR_BYTES].chunks(SECTOR_BYTES);
        let zeros = sectors.filter(|sector| sector.iter().all(|&byte| byte == 0)).count();
        kept |= zeros == 0;
        lost |= zeros == 5;
        mixed |= (1..5).contains(&zeros);
    }
    assert!(kept && lost && mixed);
}
