//! The least that a durable batch costs: one write and one `fdatasync`, at a file's end or over zeros.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;

use crate::workload::{Log, Pool, Workload};

pub struct Floor {
    file: File,
    offset: u64,
    batch: Bytes,
    batch_bytes: usize,
}

impl Floor {
    /// A file of `zeros` bytes, which are durable.
    pub fn new(folder: &Path, workload: Workload, zeros: usize) -> Self {
        let options = OpenOptions::new().read(true).write(true).create_new(true).open(folder.join("floor"));
        let file = options.expect("the folder is its own");
        let piece = vec![0; 1 << 20];
        for offset in (0..zeros).step_by(piece.len()) {
            file.write_all_at(&piece, offset as u64).expect("there is room");
        }
        file.sync_all().expect("the disk works");
        // What a batch has in the log: 5 bytes an entry, about 6 a group, 45 in all.
        let groups = workload.groups as usize;
        let batch_bytes = workload.payload_bytes() + 5 * workload.entries_per_batch() + 6 * groups + 45;
        Self { file, offset: 0, batch: Bytes::new(), batch_bytes }
    }
}

impl Log for Floor {
    fn prepare(&mut self, _: Workload, pool: &mut Pool) {
        let mut batch = Vec::with_capacity(self.batch_bytes);
        while batch.len() < self.batch_bytes {
            batch.extend_from_slice(&pool.take((self.batch_bytes - batch.len()).min(1 << 16)));
        }
        self.batch = batch.into();
    }

    fn write(&mut self) {
        self.file.write_all_at(&self.batch, self.offset).expect("there is room");
        self.offset += self.batch.len() as u64;
        self.file.sync_data().expect("the disk works");
    }
}
