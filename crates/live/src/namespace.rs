//! User and network namespaces, held by file descriptors only: when the process that holds them dies, they are gone.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use nix::sched::{CloneFlags, setns, unshare};

use crate::Error;
use crate::subordinate_ids::Mapper;

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
    inode: u64,
}

impl Namespace {
    /// The network namespace of the calling thread.
    pub fn current() -> io::Result<Self> {
        let file = File::open("/proc/thread-self/ns/net")?;
        Ok(Self { inode: file.metadata()?.ino(), fd: file.into() })
    }

    /// The same one once more.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, inode: self.inode })
    }

    /// Moves the calling thread into it.
    pub fn enter(&self) -> nix::Result<()> {
        setns(&self.fd, CloneFlags::CLONE_NEWNET)
    }

    /// What identifies it among the namespaces that exist: the inode of `/proc/PID/ns/net`.
    pub const fn inode(&self) -> u64 {
        self.inode
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Makes sure that this process may make network namespaces, and leaves the machine's own one, so that no mistake can touch
/// the machine's network. Returns the user namespace if one was needed. To be called while the process has one thread.
///
/// Its root is the user who calls this. Where he has subordinate ids, they are its other users and groups, so that programs like tcpdump can become the user that they run as.
///
/// # Errors
/// [`Error::UserNamespace`] if neither the rights nor a user namespace are to be had.
pub fn isolate() -> Result<Option<OwnedFd>, Error> {
    if unshare(CloneFlags::CLONE_NEWNET).is_ok() {
        return Ok(None);
    }
    let refused = |source| Error::UserNamespace { source };
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let mapper = Mapper::start();
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(|errno| refused(errno.into()))?;
    if mapper.is_some_and(Mapper::map) {
        tracing::info!("programs of hosts may become other users");
    } else {
        // A map is written once. That of users may be there, and that of groups missing.
        if is_empty("/proc/self/uid_map") {
            fs::write("/proc/self/uid_map", format!("0 {uid} 1")).map_err(refused)?;
        }
        // Without CAP_SETGID outside, a group may be mapped only once setgroups(2) is given up (user_namespaces(7)).
        fs::write("/proc/self/setgroups", "deny").map_err(refused)?;
        fs::write("/proc/self/gid_map", format!("0 {gid} 1")).map_err(refused)?;
    }
    Ok(Some(File::open("/proc/self/ns/user").map_err(refused)?.into()))
}

/// Whether a map of ids is still to be written.
fn is_empty(map: &str) -> bool {
    fs::read_to_string(map).is_ok_and(|map| map.trim().is_empty())
}
