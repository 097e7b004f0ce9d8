//! The root of a host that is an image: a mount namespace, in which what programs of the host write is kept in memory until it ends.
//!
//! It is held by a descriptor, as the host's network is: when the network's process dies, and with it the programs, it is gone.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use fabric::HostFile;
use nix::fcntl::{OFlag, openat};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::Image;
use super::unpack::{in_root, is_first_user_namespace};
use crate::namespace::Namespace;

/// The step that a kernel without overlayfs does not take.
pub const MOUNT: &str = "mount its image";

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
    let root = overlay(&image.root, folder)?;
    bring_in(&root, files, hosts_file)?;
    // The old root is below the new one for a moment, and then nowhere.
    nix::unistd::chdir(&root).map_err(step("go to its root"))?;
    nix::unistd::pivot_root(".", ".").map_err(step("make its image the root"))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(step("leave the machine's root"))?;
    nix::unistd::chdir("/").map_err(step("go to its root"))?;
    Ok(())
}

/// Mounts a folder of files with what is written to them kept in memory, below `folder`, which is made; returns where. The calling thread has a mount namespace of its own.
///
/// # Errors
/// With what could not be done.
pub fn overlay(lower: &Path, folder: &Path) -> Result<PathBuf, (&'static str, io::Error)> {
    let step = |step: &'static str| move |errno: nix::Error| (step, io::Error::from(errno));
    fs::create_dir_all(folder).map_err(|error| ("make the folder of its root", error))?;
    mount(Some("heddle"), folder, Some("tmpfs"), MsFlags::empty(), Some(MEMORY))
        .map_err(step("mount what it writes to"))?;
    let [upper, work, root] = ["upper", "work", "root"].map(|name| folder.join(name));
    for path in [&upper, &work, &root] {
        fs::create_dir(path).map_err(|error| ("make the folders of its root", error))?;
    }
    let escaped = |path: &Path| path.to_string_lossy().replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,");
    let mut options = format!("lowerdir={},upperdir={},workdir={}", escaped(lower), escaped(&upper), escaped(&work));
    if !is_first_user_namespace() {
        options += ",userxattr";
    }
    // Devices are the machine's, and below /dev.
    mount(Some("heddle"), &root, Some("overlay"), MsFlags::MS_NODEV, Some(options.as_str())).map_err(step(MOUNT))?;
    Ok(root)
}

/// Lays files into a root that is not yet one, and mounts what hosts see of the machine below it. Links of the image are followed within it, and what is the machine's is
/// mounted when nothing is written any more: no link leads there.
fn bring_in(root: &Path, files: &[HostFile], hosts_file: &Path) -> Result<(), (&'static str, io::Error)> {
    const NAMES: &str = "lay the hosts' names over its /etc/hosts";
    const OF_MACHINE_STEP: &str = "mount /proc and /dev in it";
    let step = |step: &'static str| move |error: io::Error| (step, error);
    let opened: OwnedFd = File::open(root).map_err(step("open its root"))?.into();
    let at = |descriptor: &OwnedFd| PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    let nothing = None::<&Path>;
    for file in files {
        write(&opened, Path::new(&file.path), &file.text).map_err(step("write its files"))?;
    }
    ensure_folder(&opened, Path::new("etc")).map_err(step(NAMES))?;
    let hosts = ensure_file(&opened, Path::new("etc/hosts")).map_err(step(NAMES))?;
    let folders = OF_MACHINE.map(|name| (name, ensure_folder(&opened, Path::new(name))));
    let sys = ensure_folder(&opened, Path::new("sys"));
    mount(Some(hosts_file), &at(&hosts), nothing, MsFlags::MS_BIND, nothing).map_err(|errno| (NAMES, errno.into()))?;
    for (name, target) in folders {
        let target = target.map_err(step(OF_MACHINE_STEP))?;
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(&Path::new("/").join(name)), &at(&target), nothing, flags, nothing)
            .map_err(|errno| (OF_MACHINE_STEP, errno.into()))?;
    }
    if let Ok(sys) = sys {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        // Some containers forbid it.
        let _ = mount(Some("heddle"), &at(&sys), Some("sysfs"), flags, nothing);
    }
    Ok(())
}

/// Opens a folder below a root, which is made with those on the way to it if it is not there.
fn ensure_folder(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    match in_root(root, path, OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
        Err(nix::Error::ENOENT) => {}
        opened => return Ok(opened?),
    }
    let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let parent = ensure_folder(root, parent)?;
    mkdirat(parent.as_fd(), name, Mode::from_bits_truncate(0o755))?;
    Ok(in_root(root, path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?)
}

/// Opens a file below a root, in a folder that is there; it is made if it is not there.
fn ensure_file(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    match in_root(root, path, OFlag::O_PATH) {
        Err(nix::Error::ENOENT) => {}
        opened => return Ok(opened?),
    }
    let parent = ensure_folder(root, path.parent().unwrap_or(Path::new("")))?;
    create(&parent, path)?;
    Ok(in_root(root, path, OFlag::O_PATH)?)
}

/// Makes a file in a folder.
fn create(parent: &OwnedFd, path: &Path) -> io::Result<File> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    Ok(openat(parent.as_fd(), name, flags, Mode::from_bits_truncate(0o644))?.into())
}

/// A file below a root, with the folders on the way to it.
fn write(root: &OwnedFd, path: &Path, text: &str) -> io::Result<()> {
    // From that root on.
    let path = path.strip_prefix("/").unwrap_or(path);
    let parent = ensure_folder(root, path.parent().unwrap_or(Path::new("")))?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    // What is a link in the image, as /etc/resolv.conf is in some, is a file here.
    match unlinkat(parent.as_fd(), name, UnlinkatFlags::NoRemoveDir) {
        Err(errno) if errno != nix::Error::ENOENT => return Err(errno.into()),
        _ => {}
    }
    create(&parent, path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_laid_within_the_root_whatever_its_links_say() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "kept").unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("usr/lib")).unwrap();
        symlink("usr/lib", root.join("lib")).unwrap();
        symlink(&outside, root.join("away")).unwrap();
        symlink("../outside", root.join("up")).unwrap();
        symlink(format!("/proc/self/root{}", outside.display()), root.join("magic")).unwrap();
        symlink(outside.join("kept"), root.join("usr/lib/link")).unwrap();
        let opened: OwnedFd = File::open(&root).unwrap().into();
        for path in ["/away/kept", "/up/kept", "/magic/kept"] {
            // It has no such folder.
            let _ = write(&opened, Path::new(path), "new");
        }
        for path in ["/lib/link", "/a/b/c", "/lib/d/e"] {
            write(&opened, Path::new(path), path).unwrap();
        }
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        assert_eq!([read("usr/lib/link"), read("a/b/c"), read("usr/lib/d/e")], ["/lib/link", "/a/b/c", "/lib/d/e"]);
        assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        assert!(write(&opened, Path::new("/a"), "a folder").is_err() && write(&opened, Path::new("/"), "").is_err());
    }
}
