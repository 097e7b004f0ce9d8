//! tikv's raft-engine, with the entries of raft-rs.

use std::path::Path;

use raft::eraftpb::Entry;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};

use crate::workload::{ENTRY_BYTES, FILE_BYTES, Log, Pool, Workload};

#[derive(Clone)]
struct RaftEntry;

impl MessageExt for RaftEntry {
    type Entry = Entry;

    fn index(entry: &Entry) -> u64 {
        entry.index
    }
}

pub struct Theirs {
    engine: Engine,
    next: u64,
    entries: Vec<(u64, Vec<Entry>)>,
    batch: LogBatch,
}

/// Without compression; `prefilled` is how many files are filled with zeros and kept for reuse, if any.
fn config(folder: &Path, prefilled: Option<u64>) -> Config {
    let mut config = Config {
        dir: folder.to_str().expect("a path that is text").to_owned(),
        batch_compression_threshold: ReadableSize(0),
        target_file_size: ReadableSize(FILE_BYTES),
        enable_log_recycle: prefilled.is_some(),
        prefill_for_recycle: prefilled.is_some(),
        ..Config::default()
    };
    if let Some(files) = prefilled {
        config.purge_threshold = ReadableSize(files * FILE_BYTES);
        config.prefill_limit = Some(ReadableSize(files * FILE_BYTES));
    }
    config
}

impl Theirs {
    /// A new log. Only the files after the first are recycled ones, so the first one is filled before the turn.
    pub fn new(folder: &Path, prefilled: Option<u64>) -> Self {
        let engine = Engine::open(config(folder, prefilled)).expect("an empty folder is a new one");
        let mut theirs = Self { engine, next: 1, entries: Vec::new(), batch: LogBatch::default() };
        if prefilled.is_some() {
            let mut filled = 0;
            let mut pool = Pool::new(1);
            while filled <= FILE_BYTES {
                let entry = Entry { index: 1, term: 7, data: pool.take(1 << 19), ..Entry::default() };
                theirs.batch.add_entries::<RaftEntry>(u64::MAX - filled, &[entry]).expect("it can be encoded");
                filled += theirs.engine.write(&mut theirs.batch, false).expect("there is room") as u64;
            }
            theirs.engine.sync().expect("the disk works");
        }
        theirs
    }

    /// Opens a log that is there; a second step reads every entry.
    pub fn reopen(folder: &Path) -> Self {
        let engine = Engine::open(config(folder, None)).expect("nothing is wrong");
        Self { engine, next: 1, entries: Vec::new(), batch: LogBatch::default() }
    }

    /// Entries of these groups, all of them read.
    pub fn read_all(&self, groups: u64) -> usize {
        let mut count = 0;
        for group in 1..=groups {
            let mut entries: Vec<Entry> = Vec::new();
            let end = self.engine.last_index(group).map_or(1, |last| last + 1);
            self.engine.fetch_entries_to::<RaftEntry>(group, 1, end, None, &mut entries).expect("they are there");
            count += entries.len();
        }
        count
    }
}

impl Log for Theirs {
    fn prepare(&mut self, workload: Workload, pool: &mut Pool) {
        let first = self.next;
        self.next += workload.entries;
        let mut entry = |index| Entry { index, term: 7, data: pool.take(ENTRY_BYTES), ..Entry::default() };
        let mut entries = || (first..first + workload.entries).map(&mut entry).collect();
        self.entries = (1..=workload.groups).map(|group| (group, entries())).collect();
    }

    fn write(&mut self) {
        for (group, entries) in &self.entries {
            self.batch.add_entries::<RaftEntry>(*group, entries).expect("they can be encoded");
        }
        self.engine.write(&mut self.batch, true).expect("there is room");
    }
}
