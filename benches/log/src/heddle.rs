//! `wal`, with a driver that does in this thread what `live` does in one of its own.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use machine::ServerId;
use wal::{Config, DiskError, Entry, FORMAT, FileName, Folder, Identity, Operation, Recovered, Write};

use crate::workload::{ENTRY_BYTES, FILE_BYTES, Log, Pool, Workload};

/// Files on a disk.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    open: BTreeMap<FileName, File>,
}

impl Disk {
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), open: BTreeMap::new() }
    }

    fn sync_folder(&self) {
        File::open(&self.folder).and_then(|folder| folder.sync_all()).expect("the disk works");
    }

    /// The file, and whether it is new.
    fn file(&mut self, name: &FileName) -> (&File, bool) {
        let is_open = self.open.contains_key(name);
        let file = self.open.entry(name.clone()).or_insert_with(|| {
            let path = self.folder.join(name.as_str());
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).open(path).expect("the folder is its own")
        });
        (file, !is_open)
    }

    pub fn carry_out(&mut self, write: &Write) {
        let mut is_new = false;
        for operation in &write.operations {
            match operation {
                Operation::WriteAt { file, offset, bytes } => {
                    let (file, new) = self.file(file);
                    is_new |= new;
                    file.write_all_at(bytes, *offset).expect("there is room");
                }
                Operation::Allocate { file, len } => {
                    let (file, _) = self.file(file);
                    let start = file.metadata().expect("it is open").len();
                    file.write_all_at(&vec![0; len.saturating_sub(start) as usize], start).expect("there is room");
                }
                Operation::Truncate { file, len } => {
                    let (file, _) = self.file(file);
                    if file.metadata().expect("it is open").len() > *len {
                        file.set_len(*len).expect("the disk works");
                    }
                }
                Operation::Sync { file } => {
                    self.file(file).0.sync_data().expect("the disk works");
                    if std::mem::take(&mut is_new) {
                        self.sync_folder();
                    }
                }
                Operation::Replace { file, bytes } => {
                    let path = self.folder.join(file.as_str());
                    fs::write(&path, bytes).expect("there is room");
                    File::open(&path).and_then(|file| file.sync_all()).expect("the disk works");
                    self.sync_folder();
                }
                Operation::Delete { file } => {
                    self.open.remove(file);
                    fs::remove_file(self.folder.join(file.as_str())).expect("it was there");
                }
                Operation::Append { .. } | Operation::Rename { .. } => unreachable!("only snapshots need them"),
            }
        }
    }
}

impl Folder for Disk {
    fn list(&self) -> Result<Vec<(FileName, u64)>, DiskError> {
        let entries = fs::read_dir(&self.folder).expect("the folder is its own").map(|entry| entry.expect("readable"));
        let file = |entry: fs::DirEntry| {
            let name = FileName::new(entry.file_name().to_str()?).ok()?;
            Some((name, entry.metadata().ok()?.len()))
        };
        Ok(entries.filter_map(file).collect())
    }

    fn read(&self, file: &FileName) -> Result<Vec<u8>, DiskError> {
        fs::read(self.folder.join(file.as_str())).map_err(|error| DiskError::Failed(error.to_string()))
    }
}

#[derive(Debug)]
pub struct HeddleLog {
    log: wal::Log,
    disk: Disk,
    next: u64,
    batch: Vec<(u64, Vec<Entry>)>,
}

fn config(allocate_bytes: u64) -> Config {
    Config { segment_bytes: FILE_BYTES, allocate_bytes, ..Config::default() }
}

/// Reads all of a folder.
pub fn recover(folder: &Path) -> (wal::Log, Recovered) {
    wal::Log::recover(&Disk::new(folder), config(0)).expect("nothing is wrong")
}

impl HeddleLog {
    pub fn new(folder: &Path, allocate_bytes: u64) -> Self {
        let mut disk = Disk::new(folder);
        let (mut log, _) = wal::Log::recover(&disk, config(allocate_bytes)).expect("an empty folder is a new one");
        let identity = Identity { format: FORMAT, cluster: 1, server: ServerId(1), name: "bench".into() };
        log.identify(identity).expect("a valid identity");
        let first = log.take_batch().expect("a new folder has something to write");
        disk.carry_out(&first);
        log.done(first.id);
        Self { log, disk, next: 1, batch: Vec::new() }
    }
}

impl Log for HeddleLog {
    fn prepare(&mut self, workload: Workload, pool: &mut Pool) {
        let first = self.next;
        self.next += workload.entries;
        let mut entry = |index| Entry { index, term: 7, kind: 0, context: Bytes::new(), data: pool.take(ENTRY_BYTES) };
        let mut entries = || (first..first + workload.entries).map(&mut entry).collect();
        self.batch = (1..=workload.groups).map(|group| (group, entries())).collect();
    }

    fn write(&mut self) {
        for (group, entries) in &self.batch {
            self.log.append(*group, entries).expect("there is room");
        }
        let write = self.log.take_batch().expect("there is something to write");
        self.disk.carry_out(&write);
        self.log.done(write.id);
    }
}
