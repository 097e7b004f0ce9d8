//! Captures as ports: a file in the format of pcap or pcapng is played into the network, and what the network sends is written to a file
//! (`docs/decisions/0047-captures-as-ports.md`).

mod player;
mod port;
mod reader;
mod recorder;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::io::{Read as _, Seek as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt, OpenOptionsExt};
use std::path::Path;

use fabric::Fabric;
use nix::sys::statfs::{self, FsType, fstatfs};
use topology::{Node, PcapDevice};

pub use player::{Played, Player};
pub use port::PcapPort;
pub use reader::{PACKET_MAX, Reader};
pub use recorder::{Recorder, Storage};

use crate::Error;

/// Why a capture can't be played, or none can be written.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It can't be opened or read.
    #[error("it can't be read: {0}")]
    Read(io::Error),
    /// It can't be made or written.
    #[error("it can't be written: {0}")]
    Write(io::Error),
    /// A folder, a pipe, a device, or a file that the kernel makes up as it is read.
    #[error("it is no file on a disk")]
    NotAFile,
    /// It would be written, and is a symbolic link: whoever made it chose the file that would be overwritten.
    #[error("it is a symbolic link, and would be overwritten")]
    Link,
    /// It would be written, and holds something else.
    #[error("it would be overwritten, and is no capture")]
    Precious,
    /// It has not even a header.
    #[error("it is empty: a capture has a header, even one without packets")]
    Empty,
    /// Another capture writes it.
    #[error("another capture is being written into it")]
    Locked,
    /// It is played by a device, or another one writes it.
    #[error("it is written by one device, and played or written by another one")]
    InUse,
    /// It begins as no capture does.
    #[error(
        "it begins with the bytes {:02x} {:02x} {:02x} {:02x}, expected those of a capture (pcap or pcapng)",
        .0[0], .0[1], .0[2], .0[3]
    )]
    NotACapture([u8; 4]),
    /// A version of the format that nobody has written yet, or that is older than all programs.
    #[error("it is of version {found} of its format, expected {expected}")]
    Version {
        /// The major version that the file has.
        found: u16,
        /// The one that there is.
        expected: u16,
    },
    /// Its packets are no Ethernet frames.
    #[error("its packets are of link type {}, expected 1 (Ethernet)", link_type(*.0))]
    LinkType(u32),
    /// A packet is longer than any.
    #[error("packet {packet} is {bytes} bytes long, expected {PACKET_MAX} at most")]
    TooLong {
        /// Which packet, counted from 1.
        packet: u64,
        /// The length that the file says.
        bytes: u32,
    },
    /// It contradicts itself.
    #[error("{what} is wrong, behind packet {packets}")]
    Malformed {
        /// How many packets stand before it.
        packets: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// It ends in the middle of something.
    #[error("it is cut off: it ends behind packet {packets}, in the middle of what follows")]
    Truncated {
        /// How many whole packets stand before its end.
        packets: u64,
    },
}

impl CaptureError {
    /// What fixes it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read(error) if error.kind() == io::ErrorKind::NotFound => {
                "files are relative to the folder of the fabric file; `tcpdump -i eth0 -w FILE` writes a capture"
            }
            Self::Write(error) if error.kind() == io::ErrorKind::NotFound => {
                "make the folder first; files are relative to the folder of the fabric file"
            }
            Self::Read(_) | Self::Write(_) => {
                "the user who calls `heddle up` must be allowed to read what is played, and to write what is recorded"
            }
            Self::NotAFile => "name a file on a disk; `null:` takes packets and forgets them",
            Self::Link => "name the file itself, or remove the link",
            Self::Precious => {
                "name another file, or remove this one; captures and empty files are overwritten, as by tcpdump"
            }
            Self::Empty => "is it the file that was meant? whoever records writes the header first: `tcpdump -w FILE`",
            Self::Locked => "name another file, or end the other one",
            Self::InUse => "give each device that writes a file of its own",
            Self::NotACapture([0x1f, 0x8b, ..]) => "it is compressed: unpack it with `gunzip`",
            Self::NotACapture([0x28, 0xb5, 0x2f, 0xfd]) => "it is compressed: unpack it with `unzstd`",
            Self::NotACapture(_) | Self::Version { .. } => {
                "`tcpdump -r FILE` or Wireshark shows what it is; `editcap -F pcap IN OUT` converts other formats"
            }
            Self::LinkType(_) => "capture at one Ethernet device, `tcpdump -i eth0 -w FILE`, not at `any`",
            Self::TooLong { .. } | Self::Malformed { .. } => {
                "the file is damaged there; `editcap IN OUT` or `tcpdump -r IN -w OUT` saves what can be read"
            }
            Self::Truncated { .. } => {
                "it may still be being written, or is half of a copy; `tcpdump -r IN -w OUT` saves the packets that are whole"
            }
        }
    }
}

/// A link type with its name, of those that one meets.
fn link_type(number: u32) -> String {
    let name = match number {
        0 => "BSD loopback",
        101 | 12 | 14 => "raw IP",
        105 | 127 => "802.11",
        113 | 276 => "Linux cooked capture",
        _ => return number.to_string(),
    };
    format!("{number} ({name})")
}

/// Checks the captures of a fabric's hosts, as far as that goes without reading them to their ends. Changes nothing. Relative paths are of `folder`.
///
/// # Errors
/// [`Error::Capture`] says which one can't be used.
pub fn check_captures(fabric: &Fabric, folder: &Path) -> Result<(), Error> {
    check(fabric, folder, |_| true)
}

/// The same; files of hosts that are not `new` are in use already, and only compared with the others.
pub(crate) fn check(fabric: &Fabric, folder: &Path, is_new: impl Fn(&Node) -> bool) -> Result<(), Error> {
    let devices = || {
        let hosts = fabric.topology.nodes.iter();
        hosts.flat_map(|node| {
            node.devices.iter().filter_map(move |name| Some(((node, name.as_str()), PcapDevice::of(name)?)))
        })
    };
    let mut played = BTreeSet::new();
    for (end, device) in devices() {
        let Some(path) = device.rx.map(|file| folder.join(file)) else { continue };
        played.extend(identity(&path));
        if is_new(end.0) {
            open_to_play(&path).map_err(failed(end, &path))?;
        }
    }
    let mut written = BTreeSet::new();
    for (end, device) in devices() {
        let Some(path) = device.tx.map(|file| folder.join(file)) else { continue };
        if let Some(identity) = identity(&path)
            && (played.contains(&identity) || !written.insert(identity))
        {
            return Err(failed(end, &path)(CaptureError::InUse));
        }
        if is_new(end.0) {
            check_writable(&path).map_err(failed(end, &path))?;
        }
    }
    Ok(())
}

/// The error of a file behind a host's device.
fn failed((node, device): (&Node, &str), path: &Path) -> impl FnOnce(CaptureError) -> Error {
    let (host, device, file) = (node.name.clone(), device.to_owned(), path.to_owned());
    move |source| Error::Capture { host, device, file, source }
}

/// What distinguishes a file from all others: its number; of one that is not there yet, its folder's and its name.
type Identity = (u64, u64, Option<OsString>);

/// `None`: there is not even a folder for it.
fn identity(path: &Path) -> Option<Identity> {
    let number = |path: &Path| fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    match number(path) {
        Some((device, file)) => Some((device, file, None)),
        None => number(folder_of(path)).map(|(device, folder)| (device, folder, path.file_name().map(OsStr::to_owned))),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a capture, up to its first packet. Nobody waits if it is a pipe.
fn open_to_play(path: &Path) -> Result<Reader<File>, CaptureError> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(CaptureError::Read)?;
    check_kind(&file)?;
    let mut reader = Reader::new(file)?;
    reader.peek()?;
    Ok(reader)
}

/// Opens a file for a capture, or makes it. What is there stays until the capture begins.
fn open_to_record(path: &Path) -> Result<File, CaptureError> {
    let file = writable().create(true).open(path).map_err(not_written)?;
    check_contents(&file)?;
    Ok(file)
}

/// Opens a file for a capture that its caller writes, and empties it: one that is not there, is empty or holds a capture; or a pipe or device, which takes
/// bytes as they come.
///
/// # Errors
/// If something else would be lost, or it can't be written.
pub fn create(path: &Path) -> Result<File, CaptureError> {
    let kind = fs::symlink_metadata(path).map(|metadata| metadata.file_type());
    if kind.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device()) {
        return OpenOptions::new().write(true).open(path).map_err(CaptureError::Write);
    }
    let file = open_to_record(path)?;
    // It holds until the file is closed. A file system that knows no locks has none.
    if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        return Err(CaptureError::Locked);
    }
    file.set_len(0).map_err(CaptureError::Write)?;
    // It was read to see what it is.
    (&file).rewind().map_err(CaptureError::Write)?;
    Ok(file)
}

fn check_writable(path: &Path) -> Result<(), CaptureError> {
    match writable().open(path) {
        Ok(file) => check_contents(&file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::metadata(folder_of(path)).map(drop).map_err(CaptureError::Write)
        }
        Err(error) => Err(not_written(error)),
    }
}

/// Links are not followed: in a folder for everybody, somebody else may have made one to a file of this user's.
fn writable() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    options
}

fn not_written(error: io::Error) -> CaptureError {
    match error.raw_os_error() {
        Some(libc::ELOOP) => CaptureError::Link,
        Some(libc::EISDIR | libc::ENXIO) => CaptureError::NotAFile,
        _ => CaptureError::Write(error),
    }
}

/// Whether nothing is lost when a file is overwritten: it is empty, or a capture of any kind.
fn check_contents(file: &File) -> Result<(), CaptureError> {
    check_kind(file)?;
    let mut start = Vec::new();
    file.take(12).read_to_end(&mut start).map_err(CaptureError::Write)?;
    if start.is_empty() || reader::is_capture(&start) { Ok(()) } else { Err(CaptureError::Precious) }
}

/// File systems whose files are the kernel's own words, and act when they are read or written.
const OF_KERNEL: [FsType; 8] = [
    statfs::PROC_SUPER_MAGIC,
    statfs::SYSFS_MAGIC,
    statfs::CGROUP_SUPER_MAGIC,
    statfs::CGROUP2_SUPER_MAGIC,
    statfs::DEBUGFS_MAGIC,
    statfs::TRACEFS_MAGIC,
    statfs::SECURITYFS_MAGIC,
    statfs::BPF_FS_MAGIC,
];

fn check_kind(file: &File) -> Result<(), CaptureError> {
    let is_file = file.metadata().map_err(CaptureError::Read)?.is_file();
    // Who can't say what file system it is has a file of none of these.
    let of_kernel = fstatfs(file.as_fd()).is_ok_and(|stat| OF_KERNEL.contains(&stat.filesystem_type()));
    if is_file && !of_kernel { Ok(()) } else { Err(CaptureError::NotAFile) }
}

#[cfg(test)]
mod tests;
