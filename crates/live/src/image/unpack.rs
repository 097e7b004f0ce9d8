//! Layers of an image, written into a folder one after the other. Nothing is written, read or removed outside of it, whatever paths and links a layer has: the kernel resolves every
//! path with that folder as the root (openat2(2), `RESOLVE_IN_ROOT`), and the last part of a path is never followed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, linkat, symlinkat, unlinkat};

use super::tar::{Archive, Entry, Kind};

/// The most that an image is unpacked to.
pub const BYTES_MAX: u64 = 16 << 30;

/// The most files, folders and links of an image, those that later layers remove included.
const ENTRIES_MAX: u32 = 1_000_000;

/// What a layer calls a file that it removes begins so, and the folder of which it removes all has one of this name (OCI image specification, "Whiteouts").
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// A folder into which layers are unpacked.
#[derive(Debug)]
pub struct Unpacker {
    root: OwnedFd,
    bytes_left: u64,
    entries_left: u32,
    /// Whether files belong to whom the image says: this process may give files away.
    has_owners: bool,
}

impl Unpacker {
    /// Unpacks into this folder, which is empty.
    ///
    /// # Errors
    /// If it can't be opened.
    pub fn new(root: &Path) -> io::Result<Self> {
        let root = File::open(root)?.into();
        let has_owners = is_first_user_namespace() && nix::unistd::geteuid().is_root();
        Ok(Self { root, bytes_left: BYTES_MAX, entries_left: ENTRIES_MAX, has_owners })
    }

    /// Unpacks a layer over those before.
    ///
    /// # Errors
    /// If the layer is none, goes beyond a bound, or leads outside; or the folder can't be written to.
    pub fn layer(&mut self, layer: impl Read) -> io::Result<()> {
        let mut archive = Archive::new(layer);
        // What this layer has: what removes all of a folder removes only what was there before.
        let mut own: BTreeSet<PathBuf> = BTreeSet::new();
        while let Some(entry) = archive.next_entry()? {
            self.entries_left =
                self.entries_left.checked_sub(1).ok_or_else(|| invalid("the image has too many files".to_owned()))?;
            let path = inside(&entry.path)?;
            let Some(name) = path.file_name() else { continue };
            let parent = path.parent().unwrap_or(Path::new(""));
            if name.as_bytes().starts_with(WHITEOUT) {
                self.bytes_left = self.bytes_left.checked_sub(entry.size).ok_or_else(too_large)?;
            }
            if name.as_bytes() == OPAQUE {
                self.remove_others(parent, &own)?;
                continue;
            }
            if let Some(removed) = name.as_bytes().strip_prefix(WHITEOUT) {
                let removed = OsStr::from_bytes(removed);
                if !matches!(removed.as_bytes(), b"" | b"." | b"..")
                    && let Some(folder) = self.folder(parent)?
                {
                    remove(&folder, removed)?;
                }
                continue;
            }
            let folder = self.make_folder(parent)?;
            self.write(&folder, (name, &entry), &mut archive)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", shown(&path))))?;
            let mut known = path;
            while own.insert(known.clone()) && known.pop() {}
        }
        Ok(())
    }

    fn write<R: Read>(
        &mut self,
        folder: &OwnedFd,
        (name, entry): (&OsStr, &Entry),
        archive: &mut Archive<R>,
    ) -> io::Result<()> {
        let at = folder.as_fd();
        let is_folder = entry.kind == Kind::Folder;
        let there = fstatat(at, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok();
        let is_folder_there =
            there.is_some_and(|there| SFlag::from_bits_truncate(there.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR);
        if there.is_some() && !(is_folder && is_folder_there) {
            remove(folder, name)?;
        }
        // Who becomes another user by what lies in the image does so in it, and nowhere else: the cache is its user's alone. No need of bits that do so.
        let mode = entry.mode & 0o1777;
        match &entry.kind {
            Kind::Folder => {
                match mkdirat(at, name, Mode::from_bits_truncate(0o755)) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                let made = open(folder, name, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
                // Its user has to be able to remove it again.
                File::from(made).set_permissions(Permissions::from_mode(mode | 0o700))?;
            }
            Kind::File => {
                let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
                let mut file = File::from(open(folder, name, flags)?);
                let allowed = self.bytes_left.min(entry.size);
                let written = io::copy(&mut archive.take(allowed), &mut file)?;
                self.bytes_left -= written;
                if written < entry.size {
                    return Err(too_large());
                }
                file.set_permissions(Permissions::from_mode(mode & 0o777))?;
            }
            Kind::Symlink(target) => symlinkat(OsStr::from_bytes(target), at, name)?,
            Kind::HardLink(target) => {
                let target = inside(target)?;
                let of = target.file_name().ok_or(Errno::EINVAL)?;
                let other = self.folder(target.parent().unwrap_or(Path::new("")))?.ok_or(Errno::ENOENT)?;
                linkat(other.as_fd(), of, at, name, AtFlags::empty())?;
                // It is the file that has an owner already.
                return Ok(());
            }
            // A host sees the machine's devices.
            Kind::Special => return Ok(()),
        }
        if self.has_owners {
            let (user, group) = entry.owner;
            fchownat(at, name, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// A folder by its path from the root, links on the way followed as from there; `None` if there is none.
    fn folder(&self, path: &Path) -> io::Result<Option<OwnedFd>> {
        match in_root(&self.root, path, OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The same, made if it is not there.
    fn make_folder(&self, path: &Path) -> io::Result<OwnedFd> {
        if let Some(folder) = self.folder(path)? {
            return Ok(folder);
        }
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else { return Err(Errno::ENOENT.into()) };
        let parent = self.make_folder(parent)?;
        match mkdirat(parent.as_fd(), name, Mode::from_bits_truncate(0o755)) {
            // A file, or a link that leads nowhere: the layer has a folder there.
            Err(Errno::EEXIST) => {
                remove(&parent, name)?;
                mkdirat(parent.as_fd(), name, Mode::from_bits_truncate(0o755))?;
            }
            made => made?,
        }
        let made = File::from(open(&parent, name, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?);
        made.set_permissions(Permissions::from_mode(0o755))?;
        Ok(made.into())
    }

    /// Removes what is in a folder and was not written by this layer.
    fn remove_others(&self, path: &Path, own: &BTreeSet<PathBuf>) -> io::Result<()> {
        let Some(folder) = self.folder(path)? else { return Ok(()) };
        for entry in fs::read_dir(path_of(&folder))? {
            let name = entry?.file_name();
            if !own.contains(&path.join(&name)) {
                remove(&folder, &name)?;
            }
        }
        Ok(())
    }
}

/// Whether this process is in the machine's own user namespace: in others, ids are numbers that the machine knows otherwise.
pub fn is_first_user_namespace() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

fn too_large() -> io::Error {
    invalid(format!("the image has more than {} GiB", BYTES_MAX >> 30))
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A path for a message.
fn shown(path: &Path) -> String {
    path.to_string_lossy().escape_debug().take(200).collect()
}

/// A path of an archive, from the root on, without `.`; one with `..` is refused.
fn inside(path: &[u8]) -> io::Result<PathBuf> {
    if path.contains(&0) {
        return Err(invalid("a path in it has a zero byte".to_owned()));
    }
    let mut inside = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(path)).components() {
        match part {
            Component::Normal(name) => inside.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(invalid(format!(
                    "a path in it leads outside: {}",
                    shown(Path::new(OsStr::from_bytes(path)))
                )));
            }
        }
    }
    Ok(inside)
}

/// Opens what is at a path, as if this folder were the root, and crosses into nothing that is mounted below it: what hosts see of the machine is no part of an image.
pub fn in_root(root: &OwnedFd, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS | ResolveFlag::RESOLVE_NO_XDEV);
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    openat2(root.as_fd(), path, how)
}

/// Opens what is in a folder, and follows no link.
fn open(folder: &OwnedFd, name: &OsStr, flags: OFlag) -> nix::Result<OwnedFd> {
    openat(folder.as_fd(), name, flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::from_bits_truncate(0o600))
}

/// A folder by its descriptor.
fn path_of(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// Removes what is in a folder, with all that is in it if that is one; links are not followed.
fn remove(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match unlinkat(folder.as_fd(), name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(Errno::EISDIR | Errno::EPERM) => fs::remove_dir_all(path_of(folder).join(name)),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tar::tests::{entry, seal};
    use super::*;

    fn unpack(layers: &[Vec<u8>]) -> (tempfile::TempDir, io::Result<()>) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::write(folder.path().join("outside"), "outside").unwrap();
        let mut unpacker = Unpacker::new(&folder.path().join("root")).unwrap();
        let done = layers.iter().try_for_each(|layer| unpacker.layer(layer.as_slice()));
        (folder, done)
    }

    fn read(folder: &tempfile::TempDir, path: &str) -> Option<String> {
        fs::read_to_string(folder.path().join("root").join(path)).ok()
    }

    #[test]
    fn later_layers_replace_and_remove() {
        let first = [
            entry("usr/lib/a", b'0', "", b"a"),
            entry("lib", b'2', "usr/lib", b""),
            entry("etc/gone", b'0', "", b"gone"),
            entry("etc/kept", b'0', "", b"kept"),
            entry("var/x/y", b'0', "", b"y"),
            entry("file", b'0', "", b"a file"),
        ];
        let second = [
            entry("lib/b", b'0', "", b"b"),
            entry("etc/.wh.gone", b'0', "", b""),
            entry("var/new", b'0', "", b"new"),
            entry("var/.wh..wh..opq", b'0', "", b""),
            entry("usr/lib/again", b'1', "lib/a", b""),
            entry("file/now", b'0', "", b"a folder"),
            entry("dev/null", b'3', "", b""),
        ];
        let (folder, done) = unpack(&[first.concat(), second.concat()]);
        done.unwrap();
        let found = ["usr/lib/b", "usr/lib/again", "etc/kept", "var/new", "file/now"].map(|path| read(&folder, path));
        assert_eq!(found.map(Option::unwrap), ["b", "a", "kept", "new", "a folder"]);
        assert_eq!(
            ["etc/gone", "var/x/y", "dev/null", "etc/.wh.gone"].map(|path| read(&folder, path)),
            [None, None, None, None]
        );
        assert!(folder.path().join("root/lib").is_symlink());
    }

    #[test]
    fn nothing_outside_is_written_read_or_removed() {
        let hostile: Vec<(Vec<Vec<u8>>, bool)> = vec![
            (vec![entry("../outside", b'0', "", b"new")], false),
            (vec![entry("a/../../outside", b'0', "", b"new")], false),
            (vec![entry("/outside", b'0', "", b"new")], true),
            (vec![entry("up", b'2', "..", b""), entry("up/outside", b'0', "", b"new")], true),
            (vec![entry("up", b'2', "/", b""), entry("up/outside", b'0', "", b"new")], true),
            (vec![entry("out", b'2', "../outside", b""), entry("out", b'0', "", b"new")], true),
            (vec![entry("link", b'1', "../outside", b"")], false),
            (vec![entry("up", b'2', "..", b""), entry("up/.wh.outside", b'0', "", b"")], true),
            (vec![entry("up", b'2', "..", b""), entry("up/.wh..wh..opq", b'0', "", b"")], true),
            (vec![entry(".wh..", b'0', "", b"")], true),
            (vec![entry(".wh...", b'0', "", b"")], true),
            (vec![entry("up", b'2', "/proc/self/root", b""), entry("up/x", b'0', "", b"")], true),
        ];
        for (number, (entries, is_fine)) in hostile.into_iter().enumerate() {
            let (folder, done) = unpack(&[entries.concat()]);
            assert_eq!(done.is_ok(), is_fine, "{number}: {done:?}");
            assert_eq!(fs::read_to_string(folder.path().join("outside")).unwrap(), "outside", "{number}");
            let there: BTreeSet<_> =
                fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(there, ["outside", "root"].map(Into::into).into(), "{number}");
        }
    }

    #[test]
    fn no_file_makes_another_user_of_anybody() {
        let mut set = entry("su", b'0', "", b"#!");
        set[100..107].copy_from_slice(b"0006755");
        seal(&mut set);
        let (folder, done) = unpack(&[set]);
        done.unwrap();
        assert_eq!(fs::metadata(folder.path().join("root/su")).unwrap().permissions().mode() & 0o7777, 0o755);
    }
}
