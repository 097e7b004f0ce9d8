//! The runtime folder: what networks of this user are up, and how to reach them.
//!
//! ```text
//! $XDG_RUNTIME_DIR/heddle/     (if there is none of this user: /run/heddle for root, or /tmp/heddle-UID), mode 0700
//!     INSTANCE/control.sock    the daemon listens here
//!     INSTANCE/state.json      which process it is
//!     INSTANCE/hosts-MARK      what its hosts see as /etc/hosts; the mark tells its processes from all others
//!     INSTANCE/log             what the daemon has to say
//!     INSTANCE/shell/          start-up files of shells in its hosts (`heddle shell`)
//! ```

use std::cell::RefCell;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{FileStat, Mode, fstat, mkdirat};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The step that fails where there is no place for a runtime folder.
pub const MAKE_RUNTIME_FOLDER: &str = "make the runtime folder";

/// The longest `state.json` that is read, bytes.
const STATE_BYTES_MAX: u64 = 4 << 10;

/// This user's runtime folder, held by a descriptor: what was checked cannot be swapped for another one afterwards.
#[derive(Debug)]
struct Root {
    /// The path, for messages.
    path: PathBuf,
    fd: OwnedFd,
}

/// The folder of one instance.
#[derive(Clone, Debug)]
pub struct Folder {
    root: Arc<Root>,
    name: String,
}

/// What `state.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The process of the daemon.
    pub pid: i32,
    /// When it started, in the kernel's ticks since boot: another process that got the same number has another time.
    pub started: u64,
    /// What its processes are known by.
    pub mark: String,
    /// Whether it ends with the client that started it.
    #[serde(default)]
    pub ephemeral: bool,
}

impl Root {
    /// This user's runtime folder, made if it is not there.
    ///
    /// # Errors
    /// If it is not this user's own: whoever can write there can have our programs enter namespaces of his.
    fn open() -> Result<Self, Error> {
        let uid = nix::unistd::geteuid();
        // Under su, sudo and cron the variable may name a folder that is not there, or another user's, who could put there what he likes.
        if let Some(root) = configured().and_then(|parent| Self::make(&parent, "heddle").ok()) {
            return root.checked();
        }
        let (parent, name) = if uid.is_root() {
            (Path::new("/run"), "heddle".to_owned())
        } else {
            (Path::new("/tmp"), format!("heddle-{uid}"))
        };
        let root = Self::make(parent, &name).map_err(Error::path(parent.join(&name), MAKE_RUNTIME_FOLDER))?;
        root.checked()
    }

    /// Makes and opens `parent/name`.
    fn make(parent: &Path, name: &str) -> io::Result<Self> {
        let outer = File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC).open(parent)?;
        if !is_safe_parent(&fstat(&outer)?) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match mkdirat(&outer, name, Mode::from_bits_truncate(0o700)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(Self { path: parent.join(name), fd: open_folder(&outer, name)? })
    }

    /// Whether it is this user's, and nobody else's.
    fn checked(self) -> Result<Self, Error> {
        let uid = nix::unistd::geteuid().as_raw();
        let found = fstat(&self.fd).map_err(|errno| Error::path(&self.path, "look at it")(errno.into()))?;
        if found.st_uid != uid || found.st_mode & 0o077 != 0 {
            return Err(Error::Folder { path: self.path, uid, owner: found.st_uid });
        }
        Ok(self)
    }

    /// A path to it that leads to what was checked, whatever stands at its name now.
    fn reached(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }
}

/// Opens a folder, and not what a symbolic link leads to.
fn open_folder(at: &impl AsFd, name: &str) -> nix::Result<OwnedFd> {
    openat(at, name, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())
}

/// Whether nobody but this user and root can put something else in the place of what we make there.
fn is_safe_parent(found: &FileStat) -> bool {
    let is_trusted = [0, nix::unistd::geteuid().as_raw()].contains(&found.st_uid);
    is_trusted && (found.st_mode & 0o022 == 0 || found.st_mode & libc::S_ISVTX != 0)
}

thread_local! {
    /// Where this thread's networks are, if not where the environment says.
    static OWN: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// From now on the networks of the calling thread are below `folder`, whatever the environment says: a program that has several sets of
/// networks keeps them apart by that, as the tests do.
pub fn use_runtime_folder(folder: &Path) {
    OWN.set(Some(folder.to_owned()));
}

/// What [`use_runtime_folder`] has set.
pub fn own() -> Option<PathBuf> {
    OWN.with_borrow(Clone::clone)
}

/// Where the session's runtime folder is said to be.
fn configured() -> Option<PathBuf> {
    let configured = own().or_else(|| std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    configured.filter(|dir| dir.is_absolute())
}

/// The user whose session's runtime folder this is said to be, if it is another one's: nobody else enters his networks.
pub fn external_session() -> Option<u32> {
    let owner = fs::metadata(configured()?).ok()?.uid();
    (![0, nix::unistd::geteuid().as_raw()].contains(&owner)).then_some(owner)
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
        Ok(Self { root: Arc::new(Root::open()?), name: name.to_owned() })
    }

    /// All that are there, by name.
    pub fn all() -> Result<Vec<(String, Self)>, Error> {
        let root = Arc::new(Root::open()?);
        let read = || Error::path(&root.path, "read it");
        let mut folders = Vec::new();
        for entry in fs::read_dir(root.reached()).map_err(read())? {
            let entry = entry.map_err(read())?;
            if let Some(name) = entry.file_name().to_str().filter(|name| check_name(name).is_ok()) {
                folders.push((name.to_owned(), Self { root: Arc::clone(&root), name: name.to_owned() }));
            }
        }
        folders.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(folders)
    }

    /// Its path by name, for messages and for other processes.
    pub fn path(&self) -> PathBuf {
        self.root.path.join(&self.name)
    }

    /// Its path by descriptor, valid in this process as long as this lives.
    fn reached(&self) -> PathBuf {
        self.root.reached().join(&self.name)
    }

    /// Makes it; [`Error::Running`] if it is there.
    pub fn create(&self, name: &str) -> Result<(), Error> {
        match DirBuilder::new().mode(0o700).create(self.reached()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::Running(name.to_owned())),
            result => result.map_err(Error::path(self.path(), "make it")),
        }
    }

    /// Removes it and what is in it. It may be gone already.
    pub fn remove(&self) -> Result<(), Error> {
        match fs::remove_dir_all(self.reached()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::path(self.path(), "remove it")(error)),
            _ => Ok(()),
        }
    }

    /// Where the daemon listens: a path in this process.
    pub fn socket(&self) -> PathBuf {
        self.reached().join("control.sock")
    }

    /// The same for messages.
    pub fn socket_name(&self) -> PathBuf {
        self.path().join("control.sock")
    }

    /// Where the daemon writes its log: a path in this process.
    pub fn log(&self) -> PathBuf {
        self.reached().join("log")
    }

    /// What the hosts of a daemon with this mark see as `/etc/hosts`.
    pub fn hosts(&self, mark: &str) -> PathBuf {
        self.path().join(format!("hosts-{mark}"))
    }

    /// Writes `state.json`, whole or not at all.
    pub fn write_state(&self, state: &State) -> Result<(), Error> {
        let (new, path) = (self.reached().join("state.json.new"), self.reached().join("state.json"));
        let text = serde_json::to_vec(state).expect("a state has string keys only");
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        written.map_err(Error::path(self.path().join("state.json"), "write it"))
    }

    /// What `state.json` says; `None` if there is none that can be read and is this user's.
    pub fn state(&self) -> Option<State> {
        let uid = nix::unistd::geteuid().as_raw();
        let folder = open_folder(&self.root.fd, &self.name).ok()?;
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = File::from(openat(&folder, "state.json", flags, Mode::empty()).ok()?);
        if [&folder as &dyn AsFd, &file].iter().any(|fd| fstat(fd.as_fd()).map_or(true, |found| found.st_uid != uid)) {
            return None;
        }
        let mut text = Vec::new();
        file.take(STATE_BYTES_MAX).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok().filter(State::is_sound)
    }

    /// How long ago it was made.
    pub fn age(&self) -> Option<std::time::Duration> {
        fs::metadata(self.reached()).and_then(|m| m.modified()).ok()?.elapsed().ok()
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
    /// Whether its mark is one that we make: anything shorter would be found in processes that have nothing to do with us, and
    /// `clean` would end them.
    fn is_sound(&self) -> bool {
        self.mark.len() == 36 && self.mark.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    }

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
    fn a_mark_that_fits_many_processes_is_none() {
        let state = |mark: &str| State { pid: 1, started: 1, mark: mark.to_owned(), ephemeral: false };
        assert!(state("1b4e28ba-2fa1-11d2-883f-0016d3cca427").is_sound());
        for bad in ["", "/", "-", "hosts-", &"/".repeat(36), &"a".repeat(37)] {
            assert!(!state(bad).is_sound(), "{bad}");
        }
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_no_parent() {
        let folder = tempfile::tempdir().unwrap();
        let set =
            |mode| fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        for (mode, is_safe) in [(0o755, true), (0o700, true), (0o1777, true), (0o777, false), (0o775, false)] {
            set(mode);
            assert_eq!(Root::make(folder.path(), "heddle").is_ok(), is_safe, "{mode:o}");
        }
        // Nor does a symbolic link lead anywhere.
        std::os::unix::fs::symlink("heddle", folder.path().join("link")).unwrap();
        set(0o700);
        assert!(Root::make(folder.path(), "link").is_err());
    }

    #[test]
    fn names_cannot_leave_the_folder() {
        for bad in ["", ".", "..", "a/b", "-x", "a b", "ä", &"a".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name("quickstart-2.1_b").is_ok());
    }
}
