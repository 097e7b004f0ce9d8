//! Random operations, crashes at random points, against a model that forgets nothing it was told is durable.
#![allow(missing_docs)]

use std::collections::BTreeMap;

use bytes::Bytes;
use machine::{Rng, ServerId};
use proptest::prelude::*;
use wal::{
    Config, DiskError, Entries, Entry, Error, FORMAT, FileName, HardState, Identity, Log, MemoryDisk, Position,
    RecoveredGroup, SnapshotFile, Write,
};

const GROUPS: u32 = 4;

type Model = BTreeMap<u64, RecoveredGroup>;

/// A server's folder, its log, and what must be found in the folder.
struct Run {
    rng: Rng,
    config: Config,
    disk: MemoryDisk,
    log: Log,
    /// Everything that was handed in.
    latest: Model,
    /// The batch under way: how far it is carried out, and the model as it will be.
    under_way: Option<(Write, Model)>,
    /// What was reported as durable.
    durable: Model,
    snapshots: u64,
}

fn identity() -> Identity {
    Identity { format: FORMAT, cluster: 1, server: ServerId(1), name: "one".into() }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let segment_bytes = [1, 700, 5_000, 1 << 20][rng.below(4) as usize];
        let allocate_bytes = [0, 700, 4_096, 20_000, 100_000][rng.below(5) as usize];
        let config = Config { segment_bytes, allocate_bytes, ..Config::default() };
        let disk = MemoryDisk::new();
        let (mut log, _) = Log::recover(&disk, config).expect("an empty folder is a new one");
        log.identify(identity()).expect("a valid identity");
        let (latest, durable) = (Model::new(), Model::new());
        Self { rng, config, disk, log, latest, under_way: None, durable, snapshots: 0 }
    }

    fn group(&mut self) -> (u64, RecoveredGroup) {
        let group = u64::from(self.rng.below(GROUPS)) * 1_000;
        (group, self.latest.get(&group).cloned().unwrap_or_default())
    }

    /// Data that compresses the odd cases: zeros, one bit, a pattern, random bytes; short and long.
    fn data(&mut self) -> Bytes {
        let len = match self.rng.below(8) {
            0 => self.rng.below(9_000),
            1..3 => self.rng.below(1_500),
            _ => self.rng.below(60),
        } as usize;
        let mut data = vec![[0, 0, 1, 0xff][self.rng.below(4) as usize]; len];
        match self.rng.below(3) {
            0 => data.iter_mut().for_each(|byte| *byte = self.rng.bits() as u8),
            1 if len > 0 => data[self.rng.below(len as u32) as usize] ^= 1,
            _ => {}
        }
        data.into()
    }

    fn append(&mut self) {
        let (group, mut model) = self.group();
        let held = model.snapshot.as_ref().map_or(0, |mark| mark.index);
        let back = if self.rng.below(4) == 0 { u64::from(self.rng.below(5)) } else { 0 };
        let first = (model.last_index() + 1).saturating_sub(back).max(held.max(model.compacted.index) + 1);
        let term = model.hard_state.term + u64::from(self.rng.below(2));
        let entries: Vec<_> = (first..=first + u64::from(self.rng.below(4)))
            .map(|index| Entry { index, term, kind: self.rng.below(3) as u8, context: self.data(), data: self.data() })
            .collect();
        self.log.append(group, &entries).expect("there is room");
        model.entries.truncate((first - model.first_index()) as usize);
        model.entries.extend(entries);
        model.removed = false;
        self.latest.insert(group, model);
    }

    fn hard_state(&mut self) {
        let (group, mut model) = self.group();
        let HardState { term, vote, commit } = model.hard_state;
        let state = match self.rng.below(3) {
            0 => HardState { term, vote, commit: commit + 1 },
            1 => HardState { term: term + 1, vote: 0, commit },
            _ => HardState { term, vote: u64::from(self.rng.below(3)), commit },
        };
        self.log.hard_state(group, state);
        model.hard_state = state;
        model.removed = false;
        self.latest.insert(group, model);
    }

    fn snapshot(&mut self) {
        let (group, mut model) = self.group();
        let held = model.snapshot.as_ref().map_or(0, |mark| mark.index);
        let is_sent = self.rng.below(3) == 0;
        let (low, high) = (held.max(1), model.last_index());
        if !is_sent && low > high {
            return;
        }
        let index = if is_sent {
            high.max(held) + 1 + u64::from(self.rng.below(9))
        } else {
            low + u64::from(self.rng.below((high - low) as u32 + 1))
        };
        let mut writer = self.log.snapshot_writer(group, index);
        let mut operations: Vec<_> = (0..self.rng.below(3)).flat_map(|_| writer.chunk(&[7; 600])).collect();
        let (rest, mark) = writer.finish(model.hard_state.term, Bytes::from_static(b"members"));
        operations.extend(rest);
        self.snapshots += 1;
        self.disk.carry_out(&Write::snapshot(self.snapshots, operations)).expect("the disk works");
        self.log.snapshot(group, mark.clone(), if is_sent { Entries::Drop } else { Entries::Keep });
        if is_sent {
            model.compacted = Position { index, term: mark.term };
            model.entries.clear();
        }
        model.snapshot = Some(mark);
        model.removed = false;
        self.latest.insert(group, model);
    }

    fn compact(&mut self) {
        let (group, mut model) = self.group();
        let Some(mark) = &model.snapshot else { return };
        if mark.index <= model.compacted.index {
            return;
        }
        let gone = u64::from(self.rng.below((mark.index - model.compacted.index) as u32)) + 1;
        let up_to = Position { index: model.compacted.index + gone, term: 9 };
        self.log.compact(group, up_to);
        model.entries.drain(..gone as usize);
        model.compacted = up_to;
        self.latest.insert(group, model);
    }

    /// Entries that are written again are the same entries.
    fn rewrite(&mut self) {
        let (group, model) = self.group();
        if !model.entries.is_empty() {
            assert_eq!(self.log.held(group), Some((model.first_index(), model.last_index())));
            self.log.rewrite(group, &model.entries);
        }
        if self.rng.below(4) == 0 {
            self.log.begin_segment();
        }
    }

    fn remove(&mut self) {
        let (group, model) = self.group();
        self.log.remove_group(group);
        let removed = RecoveredGroup { hard_state: model.hard_state, removed: true, ..RecoveredGroup::default() };
        self.latest.insert(group, removed);
    }

    fn take(&mut self) {
        if self.rng.below(4) == 0 {
            self.log.flush();
        }
        if let Some(write) = self.log.take_batch() {
            assert!(self.under_way.is_none(), "one batch at a time");
            self.under_way = Some((write, self.latest.clone()));
        }
    }

    fn finish(&mut self) {
        let Some((write, model)) = self.under_way.take() else { return };
        if self.rng.below(6) == 0 {
            return self.fill(&write, model);
        }
        self.disk.carry_out(&write).expect("the disk works");
        self.log.done(write.id);
        self.durable = model;
    }

    /// The disk is full in the midst of a batch; there is room again before it is tried another time.
    fn fill(&mut self, write: &Write, model: Model) {
        let room = u64::from(self.rng.below(write.bytes() as u32 + 1));
        self.disk.fill_after(Some(self.disk.used_bytes() + room));
        let result = self.disk.carry_out(write);
        self.disk.fill_after(None);
        match result {
            Ok(()) => {
                self.log.done(write.id);
                self.durable = model;
            }
            Err(error) => {
                assert_eq!(error, DiskError::Full);
                self.log.failed(write.id, error).expect("it can be tried again");
                let again = self.log.take_batch().expect("the same batch");
                self.under_way = Some((again, model));
            }
        }
    }

    /// The server stops: killed, or without power; then it starts again. It may stop again before its first batch is
    /// done: until then nobody is told of what was found, and a loss of power may take a part of it back.
    fn stop(&mut self) {
        let (mut write, next) = self.under_way.take().unzip();
        let possible: Vec<Model> = next.into_iter().chain([self.durable.clone()]).collect();
        loop {
            if let Some(write) = &write {
                let operations = self.rng.below(write.operations.len() as u32 + 1) as usize;
                self.disk.carry_out_part(write, operations).expect("the disk works");
            }
            if self.rng.below(3) > 0 {
                self.disk.crash(&mut self.rng);
            }
            let found = self.start();
            assert!(possible.contains(&found), "{found:#?}\nis not one of\n{possible:#?}");
            let batch = self.log.take_batch().expect("recovery leaves something to do");
            if self.rng.below(3) > 0 {
                self.disk.carry_out(&batch).expect("the disk works");
                self.log.done(batch.id);
                (self.latest, self.durable) = (found.clone(), found);
                return;
            }
            write = Some(batch);
        }
    }

    /// Recovers, and checks the snapshots that are marked.
    fn start(&mut self) -> Model {
        let (log, recovered) = Log::recover(&self.disk, self.config).expect("a crash is no damage");
        self.log = log;
        if recovered.identity.is_none() {
            self.log.identify(identity()).expect("a valid identity");
        }
        for (&group, found) in &recovered.groups {
            let Some(mark) = &found.snapshot else { continue };
            SnapshotFile::read(group, mark, &self.disk.files()[&mark.file]).expect("a marked snapshot is whole");
        }
        recovered.groups
    }

    fn step(&mut self) {
        match self.rng.below(24) {
            0..8 => self.append(),
            8..12 => self.hard_state(),
            12 => self.snapshot(),
            13 => self.compact(),
            14 => match self.rng.below(3) {
                0 => self.remove(),
                1 => self.rewrite(),
                _ => {
                    let sync = self.log.sync_witness().into_iter().collect();
                    self.disk.carry_out(&Write::snapshot(0, sync)).expect("the disk works");
                }
            },
            15..18 => self.take(),
            18..23 => self.finish(),
            23 => self.stop(),
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn what_is_durable_survives_and_a_batch_is_all_or_nothing(seed: u64) {
        let mut run = Run::new(seed);
        for _ in 0..300 {
            run.step();
        }
        run.stop();
    }

    #[test]
    fn a_flipped_bit_is_found_out(seed: u64) {
        let mut run = Run::new(seed);
        for _ in 0..60 {
            run.step();
        }
        run.take();
        while run.under_way.is_some() {
            run.finish();
        }
        let (_, whole) = Log::recover(&run.disk, run.config).expect("nothing is wrong");
        let files: Vec<(FileName, Vec<u8>)> = run.disk.files().into_iter().collect();
        for _ in 0..200 {
            let (file, bytes) = &files[run.rng.below(files.len() as u32) as usize];
            if bytes.is_empty() || file.as_str().starts_with("snapshot") {
                continue;
            }
            let bit = u64::from(run.rng.below(bytes.len() as u32 * 8));
            let mut disk = run.disk.clone();
            prop_assert!(disk.corrupt(file, bit));
            match Log::recover(&disk, run.config) {
                // Among the zeros that wait for batches, it looks like a part of a batch that was being written.
                Ok((_, found)) => prop_assert_eq!(&found.groups, &whole.groups, "{} bit {}", file, bit),
                Err(Error::Corrupt { .. } | Error::NewerVersion { .. }) => {}
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }

    #[test]
    fn no_records_panic(records: Vec<u8>, few in prop::collection::vec(0_u8..8, 0..40)) {
        for records in [records, few] {
            let mut files = BTreeMap::new();
            let segment = wal::segment_with_records(&identity(), &records);
            files.insert(FileName::new("log-0000000000000001").expect("a valid name"), segment);
            let wal::Operation::Replace { file, bytes } = identity().write() else { unreachable!() };
            files.insert(file, bytes.to_vec());
            let _ = Log::recover(&files, Config::default());
        }
    }

    #[test]
    fn no_bytes_panic(segment: Vec<u8>, identity in any::<Vec<u8>>(), edits: Vec<(u16, u8)>, seed: u64) {
        let mut files = BTreeMap::new();
        let first = FileName::new("log-0000000000000001").expect("a valid name");
        files.insert(first, segment);
        files.insert(Identity::file(), identity);
        let _ = Log::recover(&files, Config::default());

        let mut run = Run::new(seed);
        for _ in 0..40 {
            run.step();
        }
        let mut files = run.disk.files();
        for bytes in files.values_mut().filter(|bytes| !bytes.is_empty()) {
            for &(place, value) in &edits {
                let place = usize::from(place) % bytes.len();
                bytes[place] = value;
            }
        }
        let _ = Log::recover(&files, Config::default());
    }
}
