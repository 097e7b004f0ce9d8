//! The runtime folder: what networks of this user are up, and how to reach them.
//!
//! ```text
//! $XDG_RUNTIME_DIR/heddle/     (if there is none: /run/heddle for root, or /tmp/heddle-UID), mode 0700
//!     INSTANCE/control.sock    the daemon listens here
//!     INSTANCE/state.json      which process it is
//!     INSTANCE/hosts-MARK      what its hosts see as /etc/hosts; the mark tells its processes from all others
//!     INSTANCE/log             what the daemon has to say
//! ```

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;

/// The step that fails where there is no place for a runtime folder.
pub const MAKE_RUNTIME_FOLDER: &str = "make the runtime folder";

/// The folder of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
}

/// What `state.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The daemon.
    pub pid: i32,
    /// When it started, in the kernel's ticks since boot: another process that got the same number has another time.
    pub started: u64,
    /// What its processes are known by.
    pub mark: String,
    /// Whether it ends with the client that started it.
    #[serde(default)]
    pub ephemeral: bool,
}

/// This user's runtime folder, made if it is not there.
///
/// # Errors
/// If it is not this user's own: whoever can write there can have our programs enter namespaces of his.
pub fn root() -> Result<PathBuf, Error> {
    let uid = nix::unistd::geteuid();
    let told = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    // Under su and cron the variable may name a folder that is not there, or another user's.
    let told = told.map(|dir| dir.join("heddle")).filter(|path| make(path).is_ok());
    let path = match told {
        Some(path) => path,
        None if uid.is_root() => PathBuf::from("/run/heddle"),
        None => PathBuf::from(format!("/tmp/heddle-{uid}")),
    };
    make(&path).map_err(Error::path(&path, MAKE_RUNTIME_FOLDER))?;
    let metadata = fs::symlink_metadata(&path).map_err(Error::path(&path, "look at it"))?;
    if !metadata.is_dir() || metadata.uid() != uid.as_raw() || metadata.mode() & 0o077 != 0 {
        return Err(Error::Folder { path, uid: uid.as_raw() });
    }
    Ok(path)
}

/// Makes a folder for this user alone, if there is none.
fn make(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Whether the process of the instance `name` died and left something.
pub fn has_crashed(name: &str) -> bool {
    Folder::of(name).is_ok_and(|folder| folder.state().is_some_and(|state| !state.is_alive()))
}

/// Whether `name` can name an instance.
pub fn check_name(name: &str) -> Result<(), Error> {
    let good = name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if good { Ok(()) } else { Err(Error::Name(name.to_owned())) }
}

impl Folder {
    /// The folder of the instance `name`, which need not be there.
    pub fn of(name: &str) -> Result<Self, Error> {
        check_name(name)?;
        Ok(Self { path: root()?.join(name) })
    }

    /// All that are there, by name.
    pub fn all() -> Result<Vec<(String, Self)>, Error> {
        let root = root()?;
        let mut folders = Vec::new();
        for entry in fs::read_dir(&root).map_err(Error::path(&root, "read it"))? {
            let entry = entry.map_err(Error::path(&root, "read it"))?;
            if let Some(name) = entry.file_name().to_str().filter(|name| check_name(name).is_ok()) {
                folders.push((name.to_owned(), Self { path: entry.path() }));
            }
        }
        folders.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(folders)
    }

    /// Makes it; [`Error::Running`] if it is there.
    pub fn create(&self, name: &str) -> Result<(), Error> {
        match DirBuilder::new().mode(0o700).create(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::Running(name.to_owned())),
            result => result.map_err(Error::path(&self.path, "make it")),
        }
    }

    /// Removes it and what is in it. It may be gone already.
    pub fn remove(&self) -> Result<(), Error> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::path(&self.path, "remove it")(error)),
            _ => Ok(()),
        }
    }

    /// Where the daemon listens.
    pub fn socket(&self) -> PathBuf {
        self.path.join("control.sock")
    }

    /// Where the daemon writes its log.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// What the hosts of a daemon with this mark see as `/etc/hosts`.
    pub fn hosts(&self, mark: &str) -> PathBuf {
        self.path.join(format!("hosts-{mark}"))
    }

    /// Writes `state.json`, whole or not at all.
    pub fn write_state(&self, state: &State) -> Result<(), Error> {
        let (new, path) = (self.path.join("state.json.new"), self.path.join("state.json"));
        let text = serde_json::to_vec(state).expect("a state has string keys only");
        fs::write(&new, text).and_then(|()| fs::rename(&new, &path)).map_err(Error::path(path, "write it"))
    }

    /// What `state.json` says; `None` if there is none that can be read.
    pub fn state(&self) -> Option<State> {
        serde_json::from_slice(&fs::read(self.path.join("state.json")).ok()?).ok()
    }

    /// How long ago it was made.
    pub fn age(&self) -> Option<std::time::Duration> {
        fs::metadata(&self.path).and_then(|m| m.modified()).ok()?.elapsed().ok()
    }
}

/// When process `pid` started, in ticks since boot; `None` if there is no such process, or only its remains.
pub fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may itself hold spaces and parentheses (proc(5)).
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" { None } else { fields.nth(18)?.parse().ok() }
}

impl State {
    /// Whether the daemon lives.
    pub fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start() {
        let pid = nix::unistd::getpid().as_raw();
        let started = started(pid).unwrap();
        let state = State { pid, started, mark: String::new(), ephemeral: false };
        assert!(state.is_alive());
        assert!(!State { started: started + 1, ..state }.is_alive());
    }

    #[test]
    fn names_cannot_leave_the_folder() {
        for bad in ["", ".", "..", "a/b", "-x", "a b", "ä", &"a".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name("quickstart-2.1_b").is_ok());
    }
}
