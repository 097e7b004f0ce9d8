//! The root of a host that is an image: a mount namespace, in which what programs of the host write is kept in memory until it ends.
//!
//! It is held by a descriptor, as the host's network is: when the network's process dies, and with it the programs, it is gone.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use fabric::HostFile;
use nix::fcntl::OFlag;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use super::Image;
use super::unpack::{in_root, is_first_user_namespace};
use crate::namespace::Namespace;

/// What a host may write.
const MEMORY: &str = "size=1g,mode=0755";

/// Folders of the machine that every host sees.
const OF_MACHINE: [&str; 2] = ["proc", "dev"];

/// A mount namespace that has an image as its root.
#[derive(Debug)]
pub struct Root {
    namespace: OwnedFd,
    inode: u64,
    /// What it was made of.
    pub image: Image,
    /// The files that were laid into it.
    pub files: Vec<HostFile>,
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

impl Root {
    /// Makes one for a host. `folder` is its own, which is made for it, and `hosts_file` what is seen as `/etc/hosts`.
    ///
    /// # Errors
    /// With what could not be done.
    pub fn make(
        image: &Image,
        files: &[HostFile],
        (host, folder, hosts_file): (&Namespace, &Path, &Path),
    ) -> Result<Self, (&'static str, io::Error)> {
        let make = || {
            host.enter().map_err(|errno| ("enter its network namespace", errno.into()))?;
            enter(image, files, (folder, hosts_file))?;
            File::open("/proc/thread-self/ns/mnt").map_err(|error| ("open its mount namespace", error))
        };
        // The thread ends in it, and nobody else was there.
        let namespace = thread::scope(|scope| scope.spawn(make).join().expect("a root's thread does not panic"))?;
        let inode = namespace.metadata().map_err(|error| ("open its mount namespace", error))?.ino();
        Ok(Self { namespace: namespace.into(), inode, image: image.clone(), files: files.to_vec() })
    }

    /// What identifies it among the mount namespaces that exist.
    pub const fn inode(&self) -> u64 {
        self.inode
    }
}

/// Has the calling thread go into a mount namespace of its own, and makes an image its root.
fn enter(
    image: &Image,
    files: &[HostFile],
    (folder, hosts_file): (&Path, &Path),
) -> Result<(), (&'static str, io::Error)> {
    let step = |step: &'static str| move |errno: nix::Error| (step, io::Error::from(errno));
    let nothing = None::<&Path>;
    // Root and working directory belong to all threads of a process, unless one has its own.
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).map_err(step("make a mount namespace"))?;
    // What is made here is for all users of the host.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_SLAVE, nothing)
        .map_err(step("part its mounts from the machine's"))?;
    fs::create_dir_all(folder).map_err(|error| ("make the folder of its root", error))?;
    mount(Some("heddle"), folder, Some("tmpfs"), MsFlags::empty(), Some(MEMORY))
        .map_err(step("mount what it writes to"))?;
    let [upper, work, root] = ["upper", "work", "root"].map(|name| folder.join(name));
    for path in [&upper, &work, &root] {
        fs::create_dir(path).map_err(|error| ("make the folders of its root", error))?;
    }
    let escaped = |path: &Path| path.to_string_lossy().replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,");
    let mut options =
        format!("lowerdir={},upperdir={},workdir={}", escaped(&image.root), escaped(&upper), escaped(&work));
    if !is_first_user_namespace() {
        options += ",userxattr";
    }
    mount(Some("heddle"), &root, Some("overlay"), MsFlags::empty(), Some(options.as_str()))
        .map_err(step("mount its image"))?;
    bring_in(&root, hosts_file)?;
    // The old root is below the new one for a moment, and then nowhere.
    nix::unistd::chdir(&root).map_err(step("go to its root"))?;
    nix::unistd::pivot_root(".", ".").map_err(step("make its image the root"))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(step("leave the machine's root"))?;
    nix::unistd::chdir("/").map_err(step("go to its root"))?;
    for file in files {
        // The image's own links lead to its own files from here.
        write(Path::new(&file.path), &file.text).map_err(|error| ("write its files", error))?;
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let _ = fs::create_dir("/sys");
    // Some containers forbid it.
    let _ = mount(Some("heddle"), "/sys", Some("sysfs"), flags, nothing);
    Ok(())
}

/// Mounts what hosts see of the machine below a root that is not yet one. Links of the image are followed within it.
fn bring_in(root: &Path, hosts_file: &Path) -> Result<(), (&'static str, io::Error)> {
    let step = |step: &'static str| move |error: io::Error| (step, error);
    let opened: OwnedFd = File::open(root).map_err(step("open its root"))?.into();
    let at = |descriptor: &OwnedFd| PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    let nothing = None::<&Path>;
    for name in OF_MACHINE {
        let target = ensure(&opened, Path::new(name), true).map_err(step("mount /proc and /dev in it"))?;
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(&Path::new("/").join(name)), &at(&target), nothing, flags, nothing)
            .map_err(|errno| ("mount /proc and /dev in it", errno.into()))?;
    }
    ensure(&opened, Path::new("etc"), true).map_err(step("lay the hosts' names over its /etc/hosts"))?;
    let target =
        ensure(&opened, Path::new("etc/hosts"), false).map_err(step("lay the hosts' names over its /etc/hosts"))?;
    mount(Some(hosts_file), &at(&target), nothing, MsFlags::MS_BIND, nothing)
        .map_err(|errno| ("lay the hosts' names over its /etc/hosts", errno.into()))
}

/// Opens a folder or a file below a root, which is made if it is not there.
fn ensure(root: &OwnedFd, path: &Path, is_folder: bool) -> io::Result<OwnedFd> {
    let flags = if is_folder { OFlag::O_PATH | OFlag::O_DIRECTORY } else { OFlag::O_PATH };
    match in_root(root, path, flags) {
        Err(nix::Error::ENOENT) => {}
        opened => return Ok(opened?),
    }
    let parent = in_root(root, path.parent().unwrap_or(Path::new("")), OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
    let name = path.file_name().unwrap_or_default();
    if is_folder {
        nix::sys::stat::mkdirat(parent.as_fd(), name, nix::sys::stat::Mode::from_bits_truncate(0o755))?;
    } else {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        nix::fcntl::openat(parent.as_fd(), name, flags, nix::sys::stat::Mode::from_bits_truncate(0o644))?;
    }
    Ok(in_root(root, path, flags)?)
}

/// A file, with the folders on the way to it.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // What is a link in the image, as /etc/resolv.conf is in some, is a file here.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::write(path, text),
    }
}
