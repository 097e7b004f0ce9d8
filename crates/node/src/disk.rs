//! Carries out the log's writes: one thread for each lane, so that a snapshot never makes the log wait.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::Waker;
use nix::errno::Errno;
use wal::{DiskError, FileName, Identity, Lane, Operation, Write, temporary_name};

use super::Error;
use super::descriptors::is_short;

/// A file that cannot be opened for want of descriptors is tried again so often.
const OPEN_EVERY: Duration = Duration::from_millis(50);

/// Files that a lane keeps open. It needs the one that it writes, and now and then the next.
const OPEN_MAX: usize = 8;

/// A write that has been carried out, or not.
#[derive(Debug)]
pub(super) struct Done {
    /// The number of the write.
    pub id: u64,
    /// What came of it.
    pub result: Result<(), DiskError>,
}

/// The disk, with a lane for the log and one for all else.
#[derive(Debug)]
pub(super) struct Disk {
    log: Sender<Write>,
    snapshot: Sender<Write>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    under_way: usize,
    shortage: Arc<Shortage>,
    folder: PathBuf,
}

/// Descriptors are short, in the whole process or the whole machine: that passes, and what is to be written waits for it.
#[derive(Debug, Default)]
struct Shortage {
    /// What cannot be opened now, and why.
    wants: Mutex<Option<String>>,
    /// The process ends: nothing waits any more.
    is_over: AtomicBool,
}

impl Shortage {
    /// A shortage that nothing waits for, for callers that cannot wait.
    fn not_waited_for() -> Arc<Self> {
        Arc::new(Self { is_over: AtomicBool::new(true), ..Self::default() })
    }

    fn wants(&self) -> Option<String> {
        self.wants.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens something, and waits as long as descriptors are short.
    fn wait_for<T>(&self, path: &Path, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let set = |wants| *self.wants.lock().unwrap_or_else(PoisonError::into_inner) = wants;
        let mut waits = false;
        loop {
            match open() {
                Err(error) if is_short(&error) && !self.is_over.load(Ordering::Relaxed) => {
                    if !waits {
                        let text = format!("{}: cannot open it now: {error}", path.display());
                        tracing::error!("{text}; writes wait until it can be");
                        set(Some(text));
                        waits = true;
                    }
                    thread::sleep(OPEN_EVERY);
                }
                outcome => {
                    if waits {
                        tracing::info!("{}: can be opened again", path.display());
                        set(None);
                    }
                    return outcome;
                }
            }
        }
    }
}

impl Disk {
    /// Starts the threads, which call `hasten` first, write to `folder`, and ring `waker` after each write.
    ///
    /// # Errors
    /// [`Error::System`] if there can be no more threads.
    pub fn start(folder: &Path, waker: &Arc<Waker>, hasten: fn()) -> Result<Self, Error> {
        let (results, done) = mpsc::channel();
        let mut threads = Vec::new();
        let shortage = Arc::<Shortage>::default();
        let mut lane = |name: &str| {
            let (writes, inbox) = mpsc::channel();
            let work = Work::new(folder, Arc::clone(&shortage));
            let (results, waker) = (results.clone(), Arc::clone(waker));
            let thread = thread::Builder::new().name(name.into()).spawn(move || {
                hasten();
                work.run(&inbox, &results, &waker);
            });
            threads.push(thread.map_err(Error::system("make a thread"))?);
            Ok::<_, Error>(writes)
        };
        let (log, snapshot) = (lane("disk-log")?, lane("disk-snapshot")?);
        Ok(Self { log, snapshot, done, threads, under_way: 0, shortage, folder: folder.to_owned() })
    }

    /// Hands a write to its lane.
    pub fn submit(&mut self, write: Write) {
        let lane = match write.lane {
            Lane::Log => &self.log,
            Lane::Snapshot => &self.snapshot,
        };
        self.under_way += 1;
        lane.send(write).expect("the thread lives as long as its lane");
    }

    /// What has been carried out since it was asked last.
    pub fn done(&mut self) -> Option<Done> {
        let done = self.done.try_recv().ok()?;
        self.under_way -= 1;
        Some(done)
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// Where it writes, and how much room there is, for people.
    pub fn place(&self) -> String {
        let folder = self.folder.display();
        match nix::sys::statvfs::statvfs(&self.folder) {
            Ok(found) => {
                let free_mib = found.blocks_available().saturating_mul(found.fragment_size()) >> 20;
                format!("{folder} ({free_mib} MiB free there, less where a quota or a limit holds)")
            }
            Err(_) => folder.to_string(),
        }
    }

    /// What waits for a descriptor now, if anything does.
    pub fn wants(&self) -> Option<String> {
        self.shortage.wants()
    }

    /// Waits until all is written that was handed in.
    pub fn finish(self) {
        let Self { log, snapshot, threads, done, shortage, .. } = self;
        shortage.is_over.store(true, Ordering::Relaxed);
        drop((log, snapshot, done));
        for thread in threads {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Carries out one write, here and now: before there are threads.
///
/// # Errors
/// As a lane answers.
pub(super) fn carry_out(folder: &Path, write: &Write) -> Result<(), DiskError> {
    Work::new(folder, Shortage::not_waited_for()).carry_out(write)
}

/// A failed operation: writes may be tried again when there is room, syncs may not.
fn failed(step: &str, file: &FileName, error: &io::Error) -> DiskError {
    if is_full(error) && step != SYNC {
        return DiskError::Full;
    }
    DiskError::Failed(format!("cannot {step} {file}: {error}"))
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG))
}

/// What files are extended with, so much in one call.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

const SYNC: &str = "sync";

/// What a lane's thread has.
struct Work {
    folder: PathBuf,
    open: BTreeMap<FileName, Open>,
    /// Files whose names are not known to be durable.
    renamed: BTreeSet<FileName>,
    shortage: Arc<Shortage>,
}

struct Open {
    file: File,
    /// Its end, where bytes are added.
    length: u64,
}

impl Work {
    fn new(folder: &Path, shortage: Arc<Shortage>) -> Self {
        Self { folder: folder.to_owned(), open: BTreeMap::new(), renamed: BTreeSet::new(), shortage }
    }

    fn run(mut self, inbox: &Receiver<Write>, results: &Sender<Done>, waker: &Waker) {
        for write in inbox {
            let result = self.carry_out(&write);
            // At the end nobody listens any more.
            if results.send(Done { id: write.id, result }).is_ok() {
                let _ = waker.wake();
            }
        }
    }

    fn carry_out(&mut self, write: &Write) -> Result<(), DiskError> {
        write.operations.iter().try_for_each(|operation| self.operate(operation))
    }

    fn operate(&mut self, operation: &Operation) -> Result<(), DiskError> {
        match operation {
            Operation::Append { file, bytes } => {
                let open = self.opened(file).map_err(|error| failed("open", file, &error))?;
                open.file.write_all_at(bytes, open.length).map_err(|error| failed("write", file, &error))?;
                open.length += bytes.len() as u64;
                Ok(())
            }
            Operation::WriteAt { file, offset, bytes } => {
                let open = self.opened(file).map_err(|error| failed("open", file, &error))?;
                open.file.write_all_at(bytes, *offset).map_err(|error| failed("write", file, &error))?;
                open.length = open.length.max(offset + bytes.len() as u64);
                Ok(())
            }
            Operation::Allocate { file, len } => self.allocate(file, *len).map_err(|e| failed("extend", file, &e)),
            Operation::Truncate { file, len } => self.truncate(file, *len).map_err(|e| failed("cut", file, &e)),
            Operation::Replace { file, bytes } => self.replace(file, bytes),
            Operation::Rename { from, to } => self.rename(from, to).map_err(|error| failed("rename", from, &error)),
            Operation::Delete { file } => {
                self.open.remove(file);
                self.renamed.remove(file);
                match fs::remove_file(self.path(file)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", file, &error)),
                    _ => Ok(()),
                }
            }
            Operation::Sync { file } => {
                let open = self.opened(file).map_err(|error| failed("open", file, &error))?;
                // The length is synced as well: without it the content could not be read (fdatasync(2)).
                open.file.sync_data().map_err(|error| failed(SYNC, file, &error))?;
                if self.renamed.contains(file) {
                    self.sync_folder().map_err(|error| failed(SYNC, file, &error))?;
                    self.renamed.remove(file);
                }
                Ok(())
            }
        }
    }

    fn path(&self, file: &FileName) -> PathBuf {
        self.folder.join(file.as_str())
    }

    fn opened(&mut self, file: &FileName) -> io::Result<&mut Open> {
        if !self.open.contains_key(file) {
            if self.open.len() >= OPEN_MAX {
                self.open.clear();
            }
            let path = self.path(file);
            let options = || OpenOptions::new().read(true).write(true).mode(0o600).clone();
            let opened = match self.shortage.wait_for(&path, || options().open(&path)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.renamed.insert(file.clone());
                    self.shortage.wait_for(&path, || options().create(true).truncate(false).open(&path))?
                }
                opened => opened?,
            };
            let length = opened.metadata()?.len();
            self.open.insert(file.clone(), Open { file: opened, length });
        }
        Ok(self.open.get_mut(file).expect("it was opened"))
    }

    /// Writes zeros behind a file's end, as far as there is room.
    fn allocate(&mut self, file: &FileName, length: u64) -> io::Result<()> {
        let open = self.opened(file)?;
        // What a failed write left behind its end counts, too.
        open.length = open.file.metadata()?.len();
        while open.length < length {
            let piece = (length - open.length).min(ZEROS.len() as u64) as usize;
            match open.file.write_at(&ZEROS[..piece], open.length) {
                Ok(0) => break,
                Ok(written) => open.length += written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_full(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn truncate(&mut self, file: &FileName, length: u64) -> io::Result<()> {
        if !self.open.contains_key(file) && !self.path(file).exists() {
            return Ok(());
        }
        let open = self.opened(file)?;
        // What a failed write left behind its end counts, too.
        open.length = open.file.metadata()?.len();
        if open.length > length {
            open.file.set_len(length)?;
            open.length = length;
        }
        Ok(())
    }

    /// An identity that is there stays: a folder has one owner for ever.
    fn replace(&mut self, file: &FileName, bytes: &[u8]) -> Result<(), DiskError> {
        if *file == Identity::file() {
            let path = self.path(file);
            match self.shortage.wait_for(&path, || fs::read(&path)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("read", file, &error)),
                Ok(found) if found == bytes => {}
                Ok(_) => {
                    let reason = "it is there already, and says something else: this folder belongs to another server";
                    return Err(DiskError::Failed(format!("cannot write {file}: {reason}")));
                }
            }
        }
        let part = temporary_name(file);
        let write = |path: &Path| {
            let options = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).clone();
            let opened = self.shortage.wait_for(path, || options.open(path));
            opened.and_then(|new| new.write_all_at(bytes, 0).map(|()| new))
        };
        let new = write(&self.path(&part)).map_err(|error| failed("write", file, &error))?;
        new.sync_all().map_err(|error| failed(SYNC, file, &error))?;
        self.open.remove(file);
        fs::rename(self.path(&part), self.path(file)).map_err(|error| failed("rename", &part, &error))?;
        self.sync_folder().map_err(|error| failed(SYNC, file, &error))
    }

    fn rename(&mut self, from: &FileName, to: &FileName) -> io::Result<()> {
        self.open.remove(from);
        self.open.remove(to);
        match fs::rename(self.path(from), self.path(to)) {
            // It was carried out before.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.path(to).exists() => {}
            renamed => renamed?,
        }
        self.renamed.remove(from);
        self.sync_folder()
    }

    /// Makes names durable.
    fn sync_folder(&self) -> io::Result<()> {
        self.shortage.wait_for(&self.folder, || File::open(&self.folder))?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use machine::Rng;
    use wal::MemoryDisk;

    use super::*;

    fn name(text: &str) -> FileName {
        FileName::new(text).unwrap()
    }

    /// A random write; names are few so that operations meet.
    fn write(rng: &mut Rng, id: u64) -> Write {
        let file = |rng: &mut Rng| name(["a", "b", "c.log"][rng.below(3) as usize]);
        let bytes = |rng: &mut Rng| {
            let length = rng.below(40) as usize;
            Bytes::from(vec![rng.below(256) as u8; length])
        };
        let operations = (0..=rng.below(5))
            .flat_map(|_| match rng.below(12) {
                0 => vec![Operation::Truncate { file: file(rng), len: u64::from(rng.below(60)) }],
                1 => vec![Operation::Replace { file: file(rng), bytes: bytes(rng) }],
                2 => vec![Operation::Delete { file: file(rng) }],
                which @ (3 | 4) => {
                    // What is renamed or synced has to be there.
                    let (file, to) = (file(rng), file(rng));
                    let append = Operation::Append { file: file.clone(), bytes: bytes(rng) };
                    vec![
                        append,
                        if which == 3 { Operation::Rename { from: file, to } } else { Operation::Sync { file } },
                    ]
                }
                5 | 6 => {
                    let (file, len, offset) = (file(rng), rng.below(150_000).into(), rng.below(80).into());
                    let write = Operation::WriteAt { file: file.clone(), offset, bytes: bytes(rng) };
                    vec![Operation::Allocate { file, len: offset.max(len) }, write]
                }
                _ => vec![Operation::Append { file: file(rng), bytes: bytes(rng) }],
            })
            .collect();
        Write { id, lane: Lane::Log, operations }
    }

    #[test]
    fn the_disk_and_its_model_do_the_same() {
        let mut rng = Rng::new(7);
        for round in 0..60 {
            let temporary = tempfile::tempdir().unwrap();
            let mut work = Work::new(temporary.path(), Shortage::not_waited_for());
            let mut model = MemoryDisk::new();
            for id in 0..20 {
                let write = write(&mut rng, id);
                let (real, modelled) = (work.carry_out(&write), model.carry_out(&write));
                assert_eq!(real.is_ok(), modelled.is_ok(), "round {round}: {write:?}: {real:?}, {modelled:?}");
            }
            let mut found = BTreeMap::new();
            for entry in fs::read_dir(temporary.path()).unwrap().map(Result::unwrap) {
                found.insert(name(entry.file_name().to_str().unwrap()), fs::read(entry.path()).unwrap());
            }
            assert_eq!(found, model.files(), "round {round}");
        }
    }

    #[test]
    fn an_identity_is_never_overwritten() {
        let temporary = tempfile::tempdir().unwrap();
        let identity = |server| {
            let name = "c1".to_owned();
            Identity { format: wal::FORMAT, cluster: 7, server: machine::ServerId(server), name }.write()
        };
        let write = |server| Write { id: 1, lane: Lane::Log, operations: vec![identity(server)] };
        carry_out(temporary.path(), &write(1)).unwrap();
        let first = fs::read(temporary.path().join("identity")).unwrap();
        // Again, after the disk was full.
        carry_out(temporary.path(), &write(1)).unwrap();
        let error = carry_out(temporary.path(), &write(2)).unwrap_err();
        assert!(error.to_string().contains("belongs to another server"), "{error}");
        assert_eq!(fs::read(temporary.path().join("identity")).unwrap(), first);
    }

    #[test]
    fn a_full_disk_is_no_other_failure() {
        let full = io::Error::from_raw_os_error(Errno::ENOSPC as i32);
        assert_eq!(failed("write", &name("a"), &full), DiskError::Full);
        assert!(matches!(failed(SYNC, &name("a"), &full), DiskError::Failed(_)));
        let broken = io::Error::from_raw_os_error(Errno::EIO as i32);
        assert!(matches!(failed("write", &name("a"), &broken), DiskError::Failed(text) if text.contains("write a:")));
    }
}
