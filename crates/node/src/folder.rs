//! The data folder: the log's files, whose it is, and that nobody else uses it.
//!
//! ```text
//!   DIR/LOCK       locked as long as a process uses the folder; the process's number
//!   DIR/JOIN       what this server sent and was answered when it joined its cluster
//!   DIR/STARTED    whose the folder is, written once its log is on the disk: from then on the log has to be there
//!   DIR/identity   and all other files: the log's (see `wal`)
//! ```
//!
//! A start that fails leaves nothing behind: what it made in a folder that was empty goes, and the folder if it was made for it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use machine::ServerId;
use nix::fcntl::{Flock, FlockArg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wal::{DiskError, FileName};

use super::Error;
use super::error::UNDERSTAND;

/// Capital letters keep it out of the log's names.
const LOCK: &str = "LOCK";

/// The file with what is known of joining: [`Joined`].
const JOIN: &str = "JOIN";

/// The file that says that the server has started: [`Started`].
const STARTED: &str = "STARTED";

/// Says of a folder that its server's log was on the disk. Without the log the server may not start: it would have forgotten its
/// votes and what it confirmed, and a founder would found the same cluster again, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Started {
    /// The number of the cluster.
    pub cluster: u64,
    /// Its number in it.
    pub server: ServerId,
}

/// What a server has to remember of joining, in case that it stops in the midst of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Joining {
    /// By this the cluster knows it again.
    pub nonce: u64,
    /// Once it was taken in.
    pub joined: Option<Joined>,
}

/// The cluster's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Joined {
    /// The number of the cluster.
    pub cluster: u64,
    /// Our number in it.
    pub server: ServerId,
    /// Where the others were then, and may be still.
    pub members: BTreeMap<ServerId, String>,
}

/// A data folder that is this process's own as long as this lives.
#[derive(Debug)]
pub(super) struct DataFolder {
    path: PathBuf,
    _lock: Flock<File>,
    /// Folders that were made for this start, the innermost first.
    made: Vec<PathBuf>,
    /// There was nothing in it: what is there now is of this start.
    was_empty: bool,
    /// What was made is to stay.
    is_kept: Cell<bool>,
}

impl DataFolder {
    /// Makes the folder if there is none, and locks it.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process has it, [`Error::Path`] if it cannot be used.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let made: Vec<PathBuf> =
            path.ancestors().take_while(|it| !it.as_os_str().is_empty() && !it.exists()).map(Path::to_owned).collect();
        let opened = Self::open_in(path, made.clone());
        if opened.is_err() {
            remove_folders(&made);
        }
        opened
    }

    fn open_in(path: &Path, made: Vec<PathBuf>) -> Result<Self, Error> {
        match DirBuilder::new().mode(0o700).recursive(true).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::path(path, "make this folder")(error));
            }
            _ => {}
        }
        if !path.is_dir() {
            return Err(Error::path(path, "use it as a folder")(io::ErrorKind::NotADirectory.into()));
        }
        let was_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        let name = path.join(LOCK);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&name);
        let file = file.map_err(Error::path(&name, "open it"))?;
        let mut lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(mut file, _)| {
            let mut holder = String::new();
            // For the message only.
            let _ = file.read_to_string(&mut holder);
            Error::Locked { path: path.to_owned(), holder: holder.trim().to_owned() }
        })?;
        // One whose start failed may have taken the file away between the two steps: then another could lock a new one.
        let is_there = fs::metadata(&name).is_ok_and(|there| lock.metadata().is_ok_and(|own| own.ino() == there.ino()));
        if !is_there {
            return Err(Error::Locked { path: path.to_owned(), holder: "that is ending".to_owned() });
        }
        // A disk that is full does not keep a server from reading its log.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        Ok(Self { path: path.to_owned(), _lock: lock, made, was_empty, is_kept: Cell::new(false) })
    }

    /// What this start has made is to stay, however it ends.
    pub fn keep(&self) {
        self.is_kept.set(true);
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known of joining.
    ///
    /// # Errors
    /// [`Error::Path`] if the file is there and cannot be read.
    pub fn joining(&self) -> Result<Option<Joining>, Error> {
        self.noted(JOIN)
    }

    /// Remembers what is known of joining.
    ///
    /// # Errors
    /// [`Error::Path`].
    pub fn set_joining(&self, joining: &Joining) -> Result<(), Error> {
        self.note(JOIN, joining)
    }

    /// Whether the log was there once, and whose.
    ///
    /// # Errors
    /// [`Error::Path`] if the file is there and cannot be read.
    pub fn started(&self) -> Result<Option<Started>, Error> {
        self.noted(STARTED)
    }

    /// From now on the log has to be there.
    ///
    /// # Errors
    /// [`Error::Path`].
    pub fn set_started(&self, started: &Started) -> Result<(), Error> {
        self.note(STARTED, started)
    }

    fn noted<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => {
                let bytes = read.map_err(Error::path(&path, "read it"))?;
                let parsed = serde_json::from_slice(&bytes).map_err(io::Error::from);
                parsed.map(Some).map_err(Error::path(&path, UNDERSTAND))
            }
        }
    }

    /// What is noted is on the disk, and nothing in part, when this returns.
    fn note(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let (path, part) = (self.path.join(name), self.path.join(format!("{name}_PART")));
        let bytes = serde_json::to_vec_pretty(value).expect("numbers and text are always JSON");
        let write = || {
            let mut file = File::create(&part)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&part, &path)?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(Error::path(&path, "write it"))
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        if self.is_kept.get() || !self.was_empty {
            return;
        }
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        // It has the lock, and there was nothing: all of it is its own. Folders are not.
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())) {
            let _ = fs::remove_file(entry.path());
        }
        remove_folders(&self.made);
    }
}

/// Takes folders away in which there is nothing.
fn remove_folders(folders: &[PathBuf]) {
    for folder in folders {
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

impl wal::Folder for DataFolder {
    fn list(&self) -> Result<Vec<(FileName, u64)>, DiskError> {
        let failed = |error: io::Error| DiskError::Failed(error.to_string());
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Some(name) = entry.file_name().to_str().and_then(|name| FileName::new(name).ok()) else { continue };
            // Of what a link leads to, as reading does.
            let metadata = fs::metadata(entry.path()).map_err(|error| DiskError::Failed(format!("{name}: {error}")))?;
            if metadata.is_file() {
                files.push((name, metadata.len()));
            }
        }
        Ok(files)
    }

    fn read(&self, file: &FileName) -> Result<Vec<u8>, DiskError> {
        fs::read(self.path.join(file.as_str())).map_err(|error| DiskError::Failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wal::Log;

    #[test]
    fn two_processes_cannot_have_one_folder() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("deep/er");
        let first = DataFolder::open(&path).unwrap();
        let error = DataFolder::open(&path).unwrap_err();
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        DataFolder::open(&path).unwrap();
    }

    #[test]
    fn only_what_is_kept_stays() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("deep/er");
        let folder = DataFolder::open(&path).unwrap();
        folder.set_joining(&Joining { nonce: 1, joined: None }).unwrap();
        drop(folder);
        assert!(!temporary.path().join("deep").exists());
        // What was there before stays, whatever it is.
        fs::create_dir_all(&path).unwrap();
        drop(DataFolder::open(&path).unwrap());
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        fs::write(path.join("log-1"), b"not of this start").unwrap();
        drop(DataFolder::open(&path).unwrap());
        assert!(path.join("log-1").exists());
        let new = temporary.path().join("new");
        let folder = DataFolder::open(&new).unwrap();
        folder.keep();
        drop(folder);
        assert!(new.join(LOCK).exists());
        // Where no folder can be made, none is made in part.
        fs::write(temporary.path().join("file"), b"").unwrap();
        assert!(DataFolder::open(&temporary.path().join("file/deep")).is_err());
    }

    #[test]
    fn what_was_answered_at_joining_is_remembered() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(temporary.path()).unwrap();
        assert_eq!(folder.joining().unwrap(), None);
        let members = BTreeMap::from([(ServerId(1), "a:1".to_owned())]);
        let joined = Some(Joined { cluster: u64::MAX, server: ServerId(4), members });
        let joining = Joining { nonce: u64::MAX - 1, joined };
        folder.set_joining(&joining).unwrap();
        assert_eq!(folder.joining().unwrap(), Some(joining));
        // Nothing else in the folder is taken for the log's.
        assert_eq!(wal::Folder::list(&folder), Ok(Vec::new()));
        fs::write(temporary.path().join(JOIN), b"{").unwrap();
        assert!(folder.joining().unwrap_err().to_string().contains("cannot understand it"));
    }

    #[test]
    fn a_folder_that_cannot_be_listed_is_not_an_empty_one() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("data");
        let folder = DataFolder::open(&path).unwrap();
        std::os::unix::fs::symlink("nowhere", path.join("log-1")).unwrap();
        let error = wal::Folder::list(&folder).unwrap_err();
        assert!(error.to_string().starts_with("log-1: "), "{error}");
        fs::remove_dir_all(&path).unwrap();
        assert!(wal::Folder::list(&folder).is_err());
        let error = Log::recover(&folder, wal::Config::default()).unwrap_err();
        assert!(error.to_string().contains("cannot be listed"), "{error}");
    }

    #[test]
    fn a_link_to_a_file_is_a_file() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(&temporary.path().join("data")).unwrap();
        fs::write(temporary.path().join("elsewhere"), b"12345").unwrap();
        std::os::unix::fs::symlink("../elsewhere", temporary.path().join("data/identity")).unwrap();
        assert_eq!(wal::Folder::list(&folder), Ok(vec![(wal::Identity::file(), 5)]));
    }
}
