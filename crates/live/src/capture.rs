//! Captures as ports: a file in the format of pcap or pcapng is played into the network, and what the network sends is written to a file
//! (`docs/decisions/0047-captures-as-ports.md`).

mod player;
mod port;
mod reader;
mod recorder;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use fabric::Fabric;
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
    /// A folder, a pipe, a device.
    #[error("it is no regular file")]
    NotAFile,
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
        hosts.flat_map(|node| node.devices.iter().filter_map(move |name| Some((node, PcapDevice::of(name)?))))
    };
    let mut played = BTreeSet::new();
    for (node, device) in devices() {
        let Some(path) = device.rx.map(|file| folder.join(file)) else { continue };
        played.extend(identity(&path));
        if is_new(node) {
            open_to_play(&path).map_err(failed(node, &path))?;
        }
    }
    let mut written = BTreeSet::new();
    for (node, device) in devices() {
        let Some(path) = device.tx.map(|file| folder.join(file)) else { continue };
        if let Some(identity) = identity(&path)
            && (played.contains(&identity) || !written.insert(identity))
        {
            return Err(failed(node, &path)(CaptureError::InUse));
        }
        if is_new(node) {
            check_writable(&path).map_err(failed(node, &path))?;
        }
    }
    Ok(())
}

/// The error of a file of a host's.
fn failed(node: &Node, path: &Path) -> impl FnOnce(CaptureError) -> Error {
    let (host, file) = (node.name.clone(), path.to_owned());
    move |source| Error::Capture { host, file, source }
}

/// What distinguishes a file from all others, if it is there.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Opens a capture, up to its first packet. Nobody waits if it is a pipe.
fn open_to_play(path: &Path) -> Result<Reader<File>, CaptureError> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(CaptureError::Read)?;
    check_kind(&file.metadata().map_err(CaptureError::Read)?)?;
    let mut reader = Reader::new(file)?;
    reader.peek()?;
    Ok(reader)
}

/// Opens a file for a capture, or makes it. What is there stays until the capture begins.
fn open_to_record(path: &Path) -> Result<File, CaptureError> {
    let file = writable().create(true).open(path).map_err(CaptureError::Write)?;
    check_kind(&file.metadata().map_err(CaptureError::Write)?)?;
    Ok(file)
}

fn check_writable(path: &Path) -> Result<(), CaptureError> {
    match fs::metadata(path) {
        Ok(metadata) => {
            check_kind(&metadata)?;
            writable().open(path).map(drop).map_err(CaptureError::Write)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            fs::metadata(folder).map(drop).map_err(CaptureError::Write)
        }
        Err(error) => Err(CaptureError::Write(error)),
    }
}

fn writable() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_NONBLOCK);
    options
}

fn check_kind(metadata: &fs::Metadata) -> Result<(), CaptureError> {
    if metadata.is_file() { Ok(()) } else { Err(CaptureError::NotAFile) }
}

#[cfg(test)]
mod tests;
