//! A socket on one receive queue of a device, with its rings and its memory.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use super::memory::{CHUNK_BYTES, Memory};
use super::ring::{RING_PLACES, Ring};
use crate::port::Unsent;

/// Chunks for what comes in: as many as the kernel can be lent. The same again for what is sent.
const RECEIVE_CHUNKS: u32 = RING_PLACES;
/// All of them: 16 MiB.
const CHUNKS: u32 = RECEIVE_CHUNKS + RING_PLACES;
/// System calls in a row that send nothing before the rest is left for the next flush: what is in the device's way goes while this thread is in the kernel.
const IDLE_CALLS_MAX: u32 = 8;
/// Bytes of the kernel's own buffers that what is sent may take: without a word it is 200 KiB, which are 270 frames of any length.
const SEND_BUFFER: libc::c_int = 32 << 20;
/// Frames that one call sends (`XDP_MAX_TX_SKB_BUDGET`, since Linux 6.17; 32 otherwise).
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// How often, and how far apart, it is tried again to bind a socket to a queue that is in use.
const BIND_TRIES: u32 = 50;
const BIND_PAUSE: Duration = Duration::from_millis(10);

/// A queue.
#[derive(Debug)]
pub struct Queue {
    socket: OwnedFd,
    rx: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
    tx: Ring<libc::xdp_desc>,
    completion: Ring<u64>,
    memory: Memory,
    /// Chunks that are free to be sent with.
    free: Vec<u32>,
    /// Frames that wait to be shown to the kernel.
    waiting: u32,
    /// Whether the device reads what is sent where it lies, at times of its own.
    is_zero_copy: bool,
    /// What the device has not taken since this was asked last.
    unsent: Unsent,
    too_long: u64,
}

impl Queue {
    /// Opens a socket on this queue of the device with this number.
    ///
    /// # Errors
    /// `EBUSY` if another socket has the queue; otherwise what the kernel says.
    pub fn open(device: u32, number: u32) -> io::Result<Self> {
        // SAFETY: socket(2) takes values only.
        let fd =
            check(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the descriptor was just made and belongs to nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let memory = Memory::new(CHUNKS as usize)?;
        let registration = libc::xdp_umem_reg {
            addr: memory.address(),
            len: memory.bytes() as u64,
            chunk_size: CHUNK_BYTES as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING] {
            set(&socket, libc::SOL_XDP, ring, &RING_PLACES)?;
        }
        // SAFETY: all-zero offsets are valid: integers.
        let mut layout: libc::xdp_mmap_offsets = unsafe { mem::zeroed() };
        get(&socket, libc::XDP_MMAP_OFFSETS, &mut layout)?;
        let fd = socket.as_fd();
        let mut fill = Ring::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING.cast_signed(), &layout.fr)?;
        let completion = Ring::map(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING.cast_signed(), &layout.cr)?;
        let rx = Ring::map(fd, libc::XDP_PGOFF_RX_RING, &layout.rx)?;
        let tx = Ring::map(fd, libc::XDP_PGOFF_TX_RING, &layout.tx)?;
        for chunk in 0..RECEIVE_CHUNKS {
            fill.push(u64::from(chunk) * CHUNK_BYTES as u64);
        }
        fill.publish();
        // Both are only for speed, and a kernel may know neither.
        let _ = set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER);
        let _ = set(&socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &RING_PLACES);
        bind_soon(&socket, device, number)?;
        let mut options = libc::xdp_options { flags: 0 };
        get(&socket, libc::XDP_OPTIONS, &mut options)?;
        Ok(Self {
            socket,
            rx,
            fill,
            tx,
            completion,
            memory,
            free: (RECEIVE_CHUNKS..CHUNKS).collect(),
            waiting: 0,
            is_zero_copy: options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0,
            unsent: Unsent::default(),
            too_long: 0,
        })
    }

    /// Shows the next frame that has come to `take`; `None` if there is none.
    #[inline]
    pub fn receive<T>(&mut self, take: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let frame = self.rx.front()?;
        self.rx.advance();
        let taken = self.memory.read(frame.addr, frame.len).map(take);
        // There are no more chunks than places.
        self.fill.push(frame.addr - frame.addr % CHUNK_BYTES as u64);
        taken
    }

    /// Lends to the kernel again what has been read.
    #[inline]
    pub fn refill(&mut self) {
        self.rx.release();
        self.fill.publish();
        if self.fill.needs_wakeup() {
            // SAFETY: recvfrom(2) with no room writes nothing.
            unsafe {
                libc::recvfrom(
                    self.socket.as_raw_fd(),
                    ptr::null_mut(),
                    0,
                    libc::MSG_DONTWAIT,
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
            };
        }
    }

    /// Whether the device is still there, and up.
    ///
    /// # Errors
    /// `ENETDOWN`, once, when it has gone.
    pub fn check(&self) -> io::Result<()> {
        let mut error = 0_i32;
        get_option(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut error)?;
        if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
    }

    /// Counts a frame that its reader had no room for.
    pub const fn count_too_long(&mut self) {
        self.too_long += 1;
    }

    /// Has `fill` write a frame into a chunk, and say where it stands in it. It is sent with the next flush.
    ///
    /// # Errors
    /// `ENOBUFS` if all chunks are under way; `EMSGSIZE` if `fill` had not enough room.
    #[inline]
    pub fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> Option<Range<usize>>) -> io::Result<()> {
        if self.free.is_empty() {
            self.push_out();
        }
        let Some(number) = self.free.pop() else { return Err(io::Error::from_raw_os_error(libc::ENOBUFS)) };
        let Some(at) = fill(self.memory.chunk(number)) else {
            self.free.push(number);
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        };
        let addr = u64::from(number) * CHUNK_BYTES as u64 + at.start as u64;
        // There are no more chunks than places.
        self.tx.push(libc::xdp_desc { addr, len: at.len() as u32, options: 0 });
        self.waiting += 1;
        Ok(())
    }

    /// Whether [`Queue::flush`] has something to do or to report.
    #[inline]
    pub const fn is_waiting(&self) -> bool {
        self.waiting > 0 || self.unsent.frames > 0
    }

    /// Sends what waits. What the device has not taken since this was called last.
    pub fn flush(&mut self) -> Unsent {
        self.push_out();
        mem::take(&mut self.unsent)
    }

    /// Has the kernel send what waits, and takes back what it has sent.
    fn push_out(&mut self) {
        self.tx.publish();
        self.waiting = 0;
        if self.tx.needs_wakeup() {
            self.kick();
        }
        self.reclaim();
    }

    /// Has the kernel send what has been published. One call sends some of it.
    fn kick(&mut self) {
        let (mut left, mut idle_calls) = (self.tx.unread(), 0);
        while left > 0 && idle_calls < IDLE_CALLS_MAX {
            // SAFETY: sendto(2) without bytes and without an address reads nothing of this process's but the rings.
            let sent =
                unsafe { libc::sendto(self.socket.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
            if sent < 0 {
                match io::Error::last_os_error().raw_os_error() {
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => {}
                    // It is down or away.
                    _ => return self.lose_unsent(),
                }
            }
            let before = mem::replace(&mut left, self.tx.unread());
            idle_calls = if left < before { 0 } else { idle_calls + 1 };
        }
    }

    /// What has been published and not read goes nowhere.
    #[cold]
    fn lose_unsent(&mut self) {
        if self.is_zero_copy {
            // The driver may read it at any time: it is sent when the device is up again, or comes back with the socket.
            return;
        }
        let (free, unsent) = (&mut self.free, &mut self.unsent);
        self.tx.take_back(|frame| {
            free.push((frame.addr / CHUNK_BYTES as u64) as u32);
            unsent.frames += 1;
            unsent.bytes += u64::from(frame.len);
        });
    }

    /// Takes back the chunks of what has been sent.
    fn reclaim(&mut self) {
        while let Some(addr) = self.completion.front() {
            self.completion.advance();
            let number = (addr / CHUNK_BYTES as u64) as u32;
            if (RECEIVE_CHUNKS..CHUNKS).contains(&number) {
                self.free.push(number);
            }
        }
        self.completion.release();
    }

    /// Frames that were lost on their way in, since the socket was opened.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn losses(&self) -> io::Result<u64> {
        // SAFETY: all-zero statistics are valid: integers.
        let mut statistics: libc::xdp_statistics = unsafe { mem::zeroed() };
        get(&self.socket, libc::XDP_STATISTICS, &mut statistics)?;
        Ok(statistics.rx_dropped + statistics.rx_ring_full + self.too_long)
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Binds a socket to a queue. One that another socket has just let go is free a moment later: the kernel clears that one's memory away by itself.
fn bind_soon(socket: &OwnedFd, device: u32, number: u32) -> io::Result<()> {
    for _ in 0..BIND_TRIES {
        match bind(socket, device, number) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(BIND_PAUSE),
            done => return done,
        }
    }
    bind(socket, device, number)
}

fn bind(socket: &OwnedFd, device: u32, queue: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: device,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: bind(2) reads `len` bytes from `address`, which outlives the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) }).map(drop)
}

/// Sets an option, whose own type `T` is.
fn set<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: setsockopt reads `len` bytes from `value`, which outlives the call.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, ptr::from_ref(value).cast(), len) }).map(drop)
}

/// Asks for an option of `AF_XDP` sockets, whose own type `T` is.
fn get<T>(socket: &OwnedFd, option: libc::c_int, value: &mut T) -> io::Result<()> {
    get_option(socket, libc::SOL_XDP, option, value)
}

fn get_option<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: getsockopt writes at most `len` bytes to `value`, which outlives the call and is of integers alone.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, ptr::from_mut(value).cast(), &raw mut len) })
        .map(drop)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
