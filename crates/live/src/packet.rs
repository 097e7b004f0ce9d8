//! A network device of the kernel as a port: an `AF_PACKET` socket with a receive ring (packet(7), and
//! `Documentation/networking/packet_mmap.rst` of Linux). Any device will do: a veth, a guest's TAP, a network card.
//!
//! Each frame comes behind a virtio-net header (`PACKET_VNET_HDR`), so a large segment or a checksum that is still to be filled in
//! passes as on a TAP. The ring is of version 2: a frame is seen as soon as it is there, where version 3 would wait for a
//! block of them to fill, or for a millisecond. Its size is fixed, and a frame beyond it is counted and lost.
//!
//! Frames are sent in batches (`packet/batch.rs`).
#![allow(unsafe_code)]

mod batch;

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::port::{Port, Unsent};
use crate::tap::{LARGEST_FRAME, VNET_HEADER};
use batch::Batch;

/// Bytes of one place in the ring: the largest frame, its header, and what the kernel puts before it.
const SLOT_BYTES: usize = 17 * 4_096;
/// Places in one block. A block is allocated as a whole.
const SLOTS_A_BLOCK: usize = 4;
/// Blocks: 256 places, 17 MiB.
const BLOCKS: usize = 64;
const SLOTS: usize = SLOTS_A_BLOCK * BLOCKS;

const _: () =
    assert!(SLOT_BYTES >= LARGEST_FRAME + VNET_HEADER + 256 && SLOT_BYTES.is_multiple_of(libc::TPACKET_ALIGNMENT));

/// Ethernet addresses at a frame's beginning; a tag comes behind them.
const ADDRESSES: usize = 12;
/// An 802.1Q tag.
const TAG: usize = 4;
/// Its usual protocol number.
const ETHERTYPE_VLAN: u16 = 0x8100;

/// What a port has lost or left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounters {
    /// Frames that found the ring full.
    pub ring_full: u64,
    /// Frames longer than a place in the ring, or than the buffer that they were read into.
    pub too_long: u64,
}

/// A socket on one device.
#[derive(Debug)]
pub struct PacketPort {
    socket: OwnedFd,
    ring: Ring,
    batch: Batch,
    counters: PacketCounters,
    /// As many losses have been reported by [`Port::new_losses`].
    reported: u64,
}

/// The memory that the kernel and this process share.
#[derive(Debug)]
struct Ring {
    memory: NonNull<u8>,
    /// The next place to look at.
    next: usize,
}

// SAFETY: the memory belongs to this value alone, and whoever has it may read from any thread.
unsafe impl Send for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped with this address and length in `Ring::map`, and nothing borrows from it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), SLOTS * SLOT_BYTES) };
    }
}

impl PacketPort {
    /// Opens the device of that name in the calling thread's network namespace. What comes in is seen by the kernel as well: give the
    /// device no address if it shall not answer, too.
    ///
    /// # Errors
    /// `ENODEV` if there is no such device, `EPERM` without `CAP_NET_RAW`, and whatever else the kernel says.
    pub fn open(device: &str) -> io::Result<Self> {
        let index = nix::net::if_::if_nametoindex(device)?;
        let socket = unbound()?;
        set(&socket, libc::PACKET_VNET_HDR, &1_i32)?;
        set(&socket, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
        let ring = Ring::map(&socket)?;
        join_promiscuously(&socket, index)?;
        bind(&socket, index, libc::ETH_P_ALL as u16)?;
        Ok(Self { socket, ring, batch: Batch::new(), counters: PacketCounters::default(), reported: 0 })
    }

    /// A socket that is bound to that device and hears nothing of it: what becomes of the device can be asked of it. Until it is closed, the device takes frames for
    /// others, too.
    ///
    /// # Errors
    /// As [`PacketPort::open`].
    pub(crate) fn handle(device: &str) -> io::Result<OwnedFd> {
        let index = nix::net::if_::if_nametoindex(device)?;
        let socket = unbound()?;
        join_promiscuously(&socket, index)?;
        bind(&socket, index, 0)?;
        Ok(socket)
    }

    /// What it has lost so far.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn counters(&mut self) -> io::Result<PacketCounters> {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = mem::size_of_val(&stats) as libc::socklen_t;
        // SAFETY: getsockopt writes at most `len` bytes to `stats`, which outlives the call.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut len,
            )
        })?;
        // The kernel starts anew with each question.
        self.counters.ring_full += u64::from(stats.tp_drops);
        Ok(self.counters)
    }
}

impl AsFd for PacketPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Port for PacketPort {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let Some(slot) = self.ring.front() else { return self.trouble() };
            let len = slot.copy_to(buffer);
            slot.give_back();
            self.ring.next = (self.ring.next + 1) % SLOTS;
            if len.is_some() {
                return Ok(len);
            }
            self.counters.too_long += 1;
        }
    }

    #[inline]
    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.batch.offer(&self.socket, frame)
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        self.batch.is_waiting()
    }

    #[inline]
    fn flush(&mut self) -> Unsent {
        self.batch.flush(&self.socket)
    }

    fn new_losses(&mut self) -> io::Result<u64> {
        let before = self.reported;
        let PacketCounters { ring_full, too_long } = self.counters()?;
        self.reported = ring_full + too_long;
        Ok(self.reported - before)
    }
}

impl PacketPort {
    /// Nothing waits: because nothing came, or because the device went down or away (`ENETDOWN`, once).
    #[cold]
    fn trouble(&self) -> io::Result<Option<usize>> {
        let (mut error, mut len) = (0_i32, mem::size_of::<i32>() as libc::socklen_t);
        // SAFETY: getsockopt writes at most `len` bytes to `error`, which outlives the call.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut error).cast(),
                &raw mut len,
            )
        })?;
        if error == 0 { Ok(None) } else { Err(io::Error::from_raw_os_error(error)) }
    }
}

/// One place that the kernel has handed over.
struct Slot<'a> {
    header: NonNull<libc::tpacket2_hdr>,
    ring: std::marker::PhantomData<&'a Ring>,
}

impl Ring {
    fn map(socket: &OwnedFd) -> io::Result<Self> {
        set(socket, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as i32))?;
        let request = libc::tpacket_req {
            tp_block_size: (SLOT_BYTES * SLOTS_A_BLOCK) as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: SLOT_BYTES as u32,
            tp_frame_nr: SLOTS as u32,
        };
        set(socket, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of this process.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                SLOTS * SLOT_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { memory: NonNull::new(memory.cast()).expect("a mapping is not at address 0"), next: 0 })
    }

    /// The oldest frame, if one has come.
    fn front(&self) -> Option<Slot<'_>> {
        // SAFETY: `next` is below SLOTS, and the mapping has SLOTS places of SLOT_BYTES; places are aligned to 16 bytes.
        let header = unsafe { self.memory.add(self.next * SLOT_BYTES) }.cast::<libc::tpacket2_hdr>();
        let slot = Slot { header, ring: std::marker::PhantomData };
        (slot.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0).then_some(slot)
    }
}

impl Slot<'_> {
    /// The word by which kernel and process hand the place to each other.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: `tp_status` is an aligned u32 in the mapping; both sides access it atomically.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header.as_ptr()).tp_status) }
    }

    /// Copies virtio-net header and frame, with the VLAN tag that the kernel has taken out; `None` if it was cut or does not fit.
    fn copy_to(&self, buffer: &mut [u8]) -> Option<usize> {
        // SAFETY: the place was handed over, so the kernel does not write to it; the header is plain integers.
        let header = unsafe { self.header.as_ptr().read() };
        let (start, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        if header.tp_len != header.tp_snaplen || start < VNET_HEADER || start + len > SLOT_BYTES {
            return None;
        }
        // SAFETY: in bounds by the check above; the kernel has put the virtio-net header right before the frame.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.header.as_ptr().cast::<u8>().add(start - VNET_HEADER), VNET_HEADER + len)
        };
        let status = header.tp_status;
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            (if known { header.tp_vlan_tpid } else { ETHERTYPE_VLAN }, header.tp_vlan_tci)
        });
        match tag {
            None => {
                buffer.get_mut(..bytes.len())?.copy_from_slice(bytes);
                Some(bytes.len())
            }
            Some(tag) => with_tag(bytes, tag, buffer),
        }
    }

    fn give_back(self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

/// Puts a VLAN tag back to where it was. What the virtio-net header says of places in the frame moves on by the tag's length.
fn with_tag(bytes: &[u8], (tpid, tci): (u16, u16), buffer: &mut [u8]) -> Option<usize> {
    let at = VNET_HEADER + ADDRESSES;
    if bytes.len() < at {
        return None;
    }
    let whole = buffer.get_mut(..bytes.len() + TAG)?;
    whole[..at].copy_from_slice(&bytes[..at]);
    whole[at..at + 2].copy_from_slice(&tpid.to_be_bytes());
    whole[at + 2..at + TAG].copy_from_slice(&tci.to_be_bytes());
    whole[at + TAG..].copy_from_slice(&bytes[at..]);
    // `hdr_len` at 2, `csum_start` at 6; zero means that there is none.
    for place in [2, 6] {
        let value = u16::from_ne_bytes([whole[place], whole[place + 1]]);
        if value != 0 {
            whole[place..place + 2].copy_from_slice(&(value + TAG as u16).to_ne_bytes());
        }
    }
    Some(whole.len())
}

fn join_promiscuously(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// A packet socket. Its protocol is 0: nothing arrives before it is bound to its one device.
fn unbound() -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes values only.
    let fd =
        check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: bind(2) reads `len` bytes from `address`, which outlives the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) }).map(drop)
}

/// Sets an option of `AF_PACKET` sockets.
fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: setsockopt reads `len` bytes from `value`, which outlives the call; each T here is the option's own type.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, ptr::from_ref(value).cast(), len) })
        .map(drop)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
