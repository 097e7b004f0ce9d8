//! The data folder: the log's files, whose it is, and that nobody else uses it.
//!
//! ```text
//!   DIR/LOCK       locked as long as a process uses the folder; the process's number
//!   DIR/JOIN       what this server said and was told when it joined its cluster
//!   DIR/identity   and all other files: the log's
//! ```

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use machine::ServerId;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use wal::{DiskError, FileName};

use super::Error;

/// Capital letters keep it out of the log's names.
const LOCK: &str = "LOCK";

/// See [`Joined`].
const JOIN: &str = "JOIN";

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
    /// The cluster.
    pub cluster: u64,
    /// Our number in it.
    pub server: ServerId,
    /// Where the others were then, and may be still.
    pub members: BTreeMap<ServerId, String>,
}

/// A data folder that is ours as long as this lives.
#[derive(Debug)]
pub(super) struct DataFolder {
    path: PathBuf,
    _lock: Flock<File>,
}

impl DataFolder {
    /// Makes the folder if there is none, and locks it.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process has it, [`Error::Path`] if it cannot be used.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match DirBuilder::new().mode(0o700).recursive(true).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::path(path, "make it")(error));
            }
            _ => {}
        }
        let name = path.join(LOCK);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&name);
        let file = file.map_err(Error::path(&name, "open it"))?;
        let mut lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(mut file, _)| {
            let mut holder = String::new();
            // For the message only.
            let _ = file.read_to_string(&mut holder);
            Error::Locked { path: path.to_owned(), holder: holder.trim().to_owned() }
        })?;
        // A disk that is full does not keep a server from reading its log.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        Ok(Self { path: path.to_owned(), _lock: lock })
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
        let path = self.path.join(JOIN);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => {
                let bytes = read.map_err(Error::path(&path, "read it"))?;
                let parsed = serde_json::from_slice(&bytes).map_err(io::Error::from);
                parsed.map(Some).map_err(Error::path(&path, "understand it"))
            }
        }
    }

    /// Remembers what is known of joining.
    ///
    /// # Errors
    /// [`Error::Path`].
    pub fn set_joining(&self, joining: &Joining) -> Result<(), Error> {
        let (path, part) = (self.path.join(JOIN), self.path.join("JOIN_PART"));
        let bytes = serde_json::to_vec_pretty(joining).expect("numbers and text are always JSON");
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

impl wal::Folder for DataFolder {
    fn list(&self) -> Vec<(FileName, u64)> {
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        let file = |entry: fs::DirEntry| {
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((FileName::new(entry.file_name().to_str()?).ok()?, metadata.len()))
        };
        entries.filter_map(|entry| file(entry.ok()?)).collect()
    }

    fn read(&self, file: &FileName) -> Result<Vec<u8>, DiskError> {
        fs::read(self.path.join(file.as_str())).map_err(|error| DiskError::Failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_was_told_at_joining_is_remembered() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(temporary.path()).unwrap();
        assert_eq!(folder.joining().unwrap(), None);
        let members = BTreeMap::from([(ServerId(1), "a:1".to_owned())]);
        let joined = Some(Joined { cluster: u64::MAX, server: ServerId(4), members });
        let joining = Joining { nonce: u64::MAX - 1, joined };
        folder.set_joining(&joining).unwrap();
        assert_eq!(folder.joining().unwrap(), Some(joining));
        // Nothing of ours is taken for the log's.
        assert_eq!(wal::Folder::list(&folder), []);
        fs::write(temporary.path().join(JOIN), b"{").unwrap();
        assert!(folder.joining().unwrap_err().to_string().contains("cannot understand it"));
    }
}
