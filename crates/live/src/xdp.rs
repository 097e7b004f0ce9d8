//! A network device of the kernel as a port by `AF_XDP` (`Documentation/networking/af_xdp.rst` of Linux): its driver hands frames over before the kernel's stack
//! makes anything of them, in memory that both share.
//!
//! ```text
//!  device: queue 0 --> program --> rx ring --> worker        chunks of one memory:
//!          queue 1 -->   |     --> rx ring -->                 fill ring -> kernel -> rx ring -> worker -> fill ring
//!                        +-- no socket there: kernel's stack   free -> worker -> tx ring -> kernel -> completion ring -> free
//! ```
//!
//! Each receive queue of the device has a socket, rings and memory of its own (`queue.rs`). The program that hands frames to them leaves the device with the last
//! descriptor of this process, however that ends (`program.rs`).
//!
//! Such a port sees plain frames: neither large segments nor what a driver knows of checksums. What is sent is cut and completed here. What comes over a veth pair has
//! its checksum undone now and then, and says so by its value alone: [`wire::undone_checksum`].

mod memory;
mod program;
mod queue;
mod ring;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use vswitch::segmentation::LargeSegment;
use wire::{VirtioNetPacket, VirtioNetRepr};

use self::program::{Mode, Program};
use self::queue::Queue;
use crate::net_device::NetDevice;
use crate::port::{Port, RxBurst, Unsent};
use crate::tap::{VNET_HEADER, VNET_LAYOUT};

/// The longest frame, without its virtio-net header: a chunk less what the kernel keeps in front of it, and the virtio-net header of one that is sent.
pub const LONGEST_FRAME: usize = memory::CHUNK_BYTES - memory::HEADROOM - VNET_HEADER;

/// Receive queues of one device at most.
const QUEUES_MAX: u32 = 64;

/// Sockets on all receive queues of one device.
#[derive(Debug)]
pub struct XdpPort {
    queues: Vec<Queue>,
    /// What becomes readable with any of the sockets, where there are several.
    ready: Option<Epoll>,
    /// The queue that is read next.
    next: usize,
    /// Whether what comes may have its checksum undone.
    is_veth: bool,
    /// As many losses have been reported by [`Port::new_losses`].
    reported: u64,
    /// Dropped last: the program leaves the device.
    program: Program,
}

impl XdpPort {
    /// Opens the device of that name in the calling thread's network namespace. What comes in is not seen by the kernel any more.
    ///
    /// # Errors
    /// `ENODEV` if there is no such device; in words, if this needs more rights, if another program has the device, or if its frames are too long. Otherwise
    /// whatever the kernel says.
    pub fn open(device: &str) -> io::Result<Self> {
        let index = nix::net::if_::if_nametoindex(device)?;
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        let device = NetDevice::new(&socket, device);
        check_mtu(&device)?;
        let queues = receive_queues(&device)?;
        let program = Program::attach(index, queues)?;
        let queues = (0..queues)
            .map(|number| {
                let queue = Queue::open(index, number)?;
                program.hand_to(number, queue.as_fd())?;
                Ok(queue)
            })
            .collect::<io::Result<Vec<_>>>()?;
        let ready = if queues.len() == 1 { None } else { Some(any_of(&queues)?) };
        Ok(Self { queues, ready, next: 0, is_veth: device.driver().as_deref() == Some("veth"), reported: 0, program })
    }

    /// Whether the device's driver runs the program, or the kernel's stack does in its place, which is slower.
    pub fn is_native(&self) -> bool {
        self.program.mode() == Mode::Native
    }

    /// Gives the next frame to `take`, which may leave it; `None` if there is none in any queue.
    #[inline]
    fn receive<T>(&mut self, mut take: impl FnMut(&[u8], bool) -> T) -> Option<T> {
        let is_veth = self.is_veth;
        for _ in 0..self.queues.len() {
            if let Some(taken) = self.queues[self.next].receive(|frame| take(frame, is_veth)) {
                return Some(taken);
            }
            self.next = if self.next + 1 == self.queues.len() { 0 } else { self.next + 1 };
        }
        None
    }

    /// Lends to the kernel again what has been read, and hears whether the device is still there.
    fn finish_reading(&mut self, is_empty: bool) -> io::Result<()> {
        self.queues.iter_mut().for_each(Queue::refill);
        if is_empty { self.queues.iter().try_for_each(Queue::check) } else { Ok(()) }
    }

    /// Writes a plain frame, whose checksum may be undone: `fill` writes it behind its virtio-net header.
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> io::Result<()> {
        self.queues[0].send(|chunk| {
            let len = fill(chunk)?;
            let view = VirtioNetPacket::new_checked(&chunk[..len], VNET_LAYOUT);
            if let Some((at, sum)) = view.ok().and_then(|header| header.missing_checksum()) {
                chunk[VNET_HEADER + at..VNET_HEADER + at + 2].copy_from_slice(&sum.to_be_bytes());
            }
            Some(VNET_HEADER..len)
        })
    }
}

impl AsFd for XdpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.ready {
            Some(ready) => ready.0.as_fd(),
            None => self.queues[0].as_fd(),
        }
    }
}

impl Port for XdpPort {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.receive(|frame, is_veth| copy(frame, is_veth, buffer)) {
                Some(Some(len)) => {
                    self.finish_reading(false)?;
                    return Ok(Some(len));
                }
                Some(None) => self.queues[self.next].count_too_long(),
                None => return self.finish_reading(true).map(|()| None),
            }
        }
    }

    fn rx_burst(&mut self, burst: &mut RxBurst<'_>) -> io::Result<()> {
        loop {
            let mut is_empty = false;
            let has_room = burst.receive(|buffer| {
                let copied = loop {
                    match self.receive(|frame, is_veth| copy(frame, is_veth, buffer)) {
                        Some(None) => self.queues[self.next].count_too_long(),
                        Some(copied) => break copied,
                        None => {
                            is_empty = true;
                            break None;
                        }
                    }
                };
                Ok(copied)
            })?;
            if !has_room {
                return self.finish_reading(is_empty);
            }
        }
    }

    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        match LargeSegment::find(frame) {
            Ok(Some(segment)) => (0..segment.count()).try_for_each(|piece| self.send(|out| segment.emit(piece, out))),
            // What claims to be a segment and is none goes as it is, as to a wire.
            Ok(None) | Err(_) => self.send(|out| {
                out.get_mut(..frame.len())?.copy_from_slice(frame);
                Some(frame.len())
            }),
        }
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        self.queues[0].is_waiting()
    }

    fn flush(&mut self) -> Unsent {
        self.queues[0].flush()
    }

    fn new_losses(&mut self) -> io::Result<u64> {
        let lost = self.queues.iter().try_fold(0, |lost, queue| queue.losses().map(|more| lost + more))?;
        Ok(lost - std::mem::replace(&mut self.reported, lost))
    }
}

/// Writes a frame behind a virtio-net header, which asks for the checksum if that is undone; its length, or `None` if it does not fit.
#[inline]
fn copy(frame: &[u8], is_veth: bool, buffer: &mut [u8]) -> Option<usize> {
    let len = VNET_HEADER + frame.len();
    let (header, rest) = buffer.get_mut(..len)?.split_first_chunk_mut::<VNET_HEADER>()?;
    rest.copy_from_slice(frame);
    let checksum = if is_veth { wire::undone_checksum(frame) } else { None };
    VirtioNetRepr { checksum, ..VirtioNetRepr::default() }.emit(header);
    Some(len)
}

/// What becomes readable as soon as one of the sockets is.
fn any_of(queues: &[Queue]) -> io::Result<Epoll> {
    let ready = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for queue in queues {
        ready.add(queue.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    }
    Ok(ready)
}

/// How many receive queues the device has.
fn receive_queues(device: &NetDevice<'_>) -> io::Result<u32> {
    // A driver that does not say has one.
    let queues = device.receive_queues().unwrap_or(1).max(1);
    if queues <= QUEUES_MAX {
        return Ok(queues);
    }
    let name = device.name();
    Err(unsupported(format!(
        "it has {queues} receive queues, and an `xdp:` port takes {QUEUES_MAX} at most: `ethtool -L {name} combined {QUEUES_MAX}`"
    )))
}

/// Refuses a device whose frames are longer than a chunk: none of them would arrive.
fn check_mtu(device: &NetDevice<'_>) -> io::Result<()> {
    // An Ethernet header and a tag come on top of it.
    const MOST: usize = LONGEST_FRAME - 18;
    let (name, mtu) = (device.name(), device.mtu()?);
    if mtu as usize <= MOST {
        return Ok(());
    }
    Err(unsupported(format!(
        "its MTU of {mtu} bytes is more than the {MOST} that an `xdp:` port takes: `ip link set {name} mtu {MOST}`, or leave `xdp:` out"
    )))
}

fn unsupported(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, text)
}
