//! The thread that writes the audit log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::options::AuditOptions;
use crate::Error;

/// What was written is synced within this.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// What the event loop and the thread share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) queued_bytes: AtomicUsize,
    pub(super) queued_lines: AtomicUsize,
    /// Lines that are in no file.
    pub(super) lost: AtomicU64,
    pub(super) written: AtomicU64,
    /// The file cannot be written now.
    pub(super) is_failing: AtomicBool,
}

pub(super) struct Writer {
    path: PathBuf,
    file_bytes: u64,
    keep: u32,
    file: Option<File>,
    /// Bytes of the file.
    size: u64,
    shared: Arc<Shared>,
}

impl Writer {
    pub fn open(options: &AuditOptions, shared: Arc<Shared>) -> Result<Self, Error> {
        let path = options.file.clone();
        let (file, size) = open(&path).map_err(Error::path(&path, "append to it"))?;
        let (file_bytes, keep) = (options.file_bytes, options.keep);
        Ok(Self { path, file_bytes, keep, file: Some(file), size, shared })
    }

    /// Until there is nobody who could send a line any more.
    pub fn run(mut self, queue: &Receiver<String>) {
        let mut synced = Instant::now();
        let mut is_dirty = false;
        loop {
            match queue.recv_timeout(SYNC_EVERY) {
                Ok(line) => {
                    self.shared.queued_bytes.fetch_sub(line.len(), Ordering::Relaxed);
                    self.shared.queued_lines.fetch_sub(1, Ordering::Relaxed);
                    let outcome = self.put(line.as_bytes());
                    self.note(outcome, 1);
                    is_dirty = true;
                }
                Err(RecvTimeoutError::Timeout) if self.file.is_none() => {
                    let outcome = self.reopen();
                    self.note(outcome, 0);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if is_dirty && synced.elapsed() >= SYNC_EVERY {
                let outcome = self.sync();
                self.note(outcome, 0);
                (synced, is_dirty) = (Instant::now(), false);
            }
        }
        let outcome = self.sync();
        self.note(outcome, 0);
    }

    /// What came of it, for so many lines.
    fn note(&mut self, outcome: io::Result<()>, lines: u64) {
        match outcome {
            Ok(()) => {
                self.shared.written.fetch_add(lines, Ordering::Relaxed);
                if self.shared.is_failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("{}: the audit log can be written again", self.path.display());
                }
            }
            Err(error) => {
                self.shared.lost.fetch_add(lines, Ordering::Relaxed);
                if !self.shared.is_failing.swap(true, Ordering::Relaxed) {
                    tracing::error!("{}: the audit log cannot be written: {error}", self.path.display());
                }
                self.file = None;
            }
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        let (file, size) = open(&self.path)?;
        self.size = size;
        self.file = Some(file);
        // A line may have been cut off in the midst of it.
        if size > 0 { self.append(b"\n") } else { Ok(()) }
    }

    fn put(&mut self, line: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.reopen()?;
        }
        if self.size > 0 && self.size + line.len() as u64 > self.file_bytes {
            self.rotate()?;
        }
        self.append(line)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(io::Error::from(io::ErrorKind::NotFound)) };
        file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// The full file becomes the first of those that are kept; the last of these goes.
    fn rotate(&mut self) -> io::Result<()> {
        self.sync()?;
        let numbered = |number: u32| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..self.keep).rev() {
            match std::fs::rename(numbered(number), numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&self.path, numbered(1))?;
        let (file, size) = open(&self.path)?;
        self.file = Some(file);
        self.size = size;
        Ok(())
    }
}

/// Opens the file, which is its owner's alone and no link; and its length.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok((file, about.len()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    fn written(folder: &Path, keep: u32, lines: usize) -> Vec<String> {
        let options =
            AuditOptions { file: folder.join("audit.log"), reads: false, is_required: false, file_bytes: 100, keep };
        let shared = Arc::new(Shared::default());
        let writer = Writer::open(&options, Arc::clone(&shared)).unwrap();
        let (sender, queue) = sync_channel(1_000);
        for number in 0..lines {
            sender.send(format!("{number:029}\n")).unwrap();
        }
        drop(sender);
        writer.run(&queue);
        assert_eq!(shared.written.load(Ordering::Relaxed), lines as u64);
        let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names.into_iter().map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn full_files_are_kept_as_many_as_wanted() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(written(folder.path(), 2, 10), ["audit.log", "audit.log.1", "audit.log.2"]);
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let numbers = |name: &str| read(name).lines().map(|line| line.parse().unwrap()).collect::<Vec<u32>>();
        assert_eq!(numbers("audit.log"), [9]);
        assert_eq!(numbers("audit.log.1"), [6, 7, 8]);
        assert_eq!(numbers("audit.log.2"), [3, 4, 5]);
        // Another start goes on where the first ended.
        written(folder.path(), 2, 1);
        assert_eq!(numbers("audit.log"), [9, 0]);
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        std::os::unix::fs::symlink(folder.path().join("victim"), &path).unwrap();
        assert!(open(&path).is_err());
        assert!(!folder.path().join("victim").exists());
    }
}
