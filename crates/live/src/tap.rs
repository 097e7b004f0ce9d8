//! A TAP device: the port by which a host's network namespace and the fabric exchange frames.
//!
//! Each frame is preceded by a virtio-net header, which says what the sender left undone: a checksum to fill in, a
//! large segment to cut. The fabric carries it along untouched, so the receiving kernel knows as well.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use wire::VirtioNetLayout;

use crate::namespace::Namespace;
use crate::port::Port;

/// Length of the virtio-net header before each frame (`struct virtio_net_hdr`): flags, gso type, header length,
/// gso size, checksum start, checksum offset.
pub const VNET_HEADER: usize = VNET_LAYOUT.len();
/// The layout of the virtio-net header.
pub const VNET_LAYOUT: VirtioNetLayout = VirtioNetLayout::Short;

/// The largest frame that a TAP with segmentation offload passes: 64 KiB of IP and an Ethernet header with two tags.
pub const LARGEST_FRAME: usize = 65_536 + 22;

/// `_IOW('T', 226, int)` of `linux/if_tun.h`; the `libc` crate does not have it.
const TUNSETCARRIER: libc::c_ulong = 0x4004_54e2;
/// The namespace that a device is in (Linux 5.2).
const TUNGETDEVNETNS: libc::c_ulong = 0x54e3;

/// One end of a TAP device, non-blocking. The device is gone when this is dropped.
#[derive(Debug)]
pub struct Tap {
    file: File,
}

impl Tap {
    /// Checks that TAP devices can be made at all.
    pub fn probe() -> io::Result<()> {
        Self::open().map(drop)
    }

    fn open() -> io::Result<File> {
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")
    }

    /// Makes a device of this name in the calling thread's network namespace.
    pub fn create(name: &str) -> io::Result<Self> {
        let file = Self::open()?;
        // SAFETY: an all-zero `ifreq` is valid: names, unions of integers, and a null pointer.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = libc::c_char::try_from(from).expect("the name is ASCII");
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, which outlives the call.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })?;
        let header = libc::c_int::from(VNET_HEADER as u8);
        // SAFETY: TUNSETVNETHDRSZ reads one int, which outlives the call.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const header) })?;
        let tap = Self { file };
        tap.offer()?;
        Ok(tap)
    }

    /// Says what the host's kernel may leave undone in the frames that it hands over: checksums, and cutting up to 64 KiB of TCP and, where
    /// it can, UDP.
    fn offer(&self) -> io::Result<()> {
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        let udp = tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6;
        // Kernels before 6.2 know no segmentation of UDP.
        self.set_offload(udp).or_else(|_| self.set_offload(tcp))
    }

    fn set_offload(&self, flags: libc::c_uint) -> io::Result<()> {
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(flags)) })
    }

    /// Leaves the device to the end of its namespace. The kernel takes all devices of those that end together away at once; one that goes with its descriptor takes it tens of
    /// milliseconds, and there may be hundreds. One that a program has moved into another namespace, the machine's own perhaps, would stay there, and goes with its descriptor.
    pub fn leave(&self, namespace: &Namespace) -> io::Result<()> {
        // SAFETY: TUNGETDEVNETNS has no argument, and returns a new descriptor.
        let fd = unsafe { libc::ioctl(self.file.as_raw_fd(), TUNGETDEVNETNS as _) };
        check(fd)?;
        // SAFETY: the descriptor is new, and nobody else's.
        let place = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        if place.metadata()?.ino() != namespace.inode() {
            return Ok(());
        }
        // SAFETY: TUNSETPERSIST takes its argument by value.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNSETPERSIST as _, 1 as libc::c_ulong) })
    }

    /// Gives the device its carrier, or takes it: programs in the host see it as a cable that is put in or pulled.
    pub fn set_carrier(&self, up: bool) -> io::Result<()> {
        let up = libc::c_int::from(up);
        // SAFETY: TUNSETCARRIER reads one int, which outlives the call.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETCARRIER as _, &raw const up) })
    }

    /// Whether a program in the host has removed the device: no frame passes any more.
    pub fn is_gone(&self) -> bool {
        let mut watched = [PollFd::new(self.file.as_fd(), PollFlags::empty())];
        let seen = poll(&mut watched, PollTimeout::ZERO).is_ok();
        seen && watched[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
    }

    /// Reads one frame with its virtio-net header into `buffer`; `None` when there is none.
    #[inline]
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match nix::unistd::read(&self.file, buffer) {
            Ok(n) => Ok(Some(n)),
            Err(nix::errno::Errno::EAGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Writes one frame with its virtio-net header.
    #[inline]
    pub fn write(&self, frame: &[u8]) -> io::Result<()> {
        nix::unistd::write(&self.file, frame)?;
        Ok(())
    }
}

/// Several workers may write to one.
impl Port for Arc<Tap> {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        Tap::read(self, buffer)
    }

    #[inline]
    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        Tap::write(self, frame)
    }

    fn is_waiting(&self) -> bool {
        false
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
