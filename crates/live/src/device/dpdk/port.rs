//! A port on a device of DPDK: one queue each way, polled. A frame is copied once on its way in, from the driver's buffer to ours, and once on its way out.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use topology::DpdkDevice;

use super::eal;
use super::shim::{self, Mbuf, RawPort};
use crate::port::{Port, RxBurst, TxFrames, Unsent};
use crate::tap::VNET_HEADER;
use crate::virtqueue::Finisher;

/// Frames that are fetched or sent by one call.
const BATCH: usize = 32;

/// Bursts that find nothing before the worker may sleep.
const IDLE_BURSTS: u32 = 64;

/// How long it sleeps then: a driver of DPDK wakes nobody. From one burst that finds nothing to the next it is twice as long.
const SLEEP_MIN: Duration = Duration::from_micros(50);
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// The shortest frame: an Ethernet header.
const SHORTEST: usize = 14;

/// Frames of DPDK in a row.
struct Frames {
    all: [*mut Mbuf; BATCH],
    /// From the first to the last of them that are there.
    at: usize,
    end: usize,
}

impl Frames {
    const fn new() -> Self {
        Self { all: [ptr::null_mut(); BATCH], at: 0, end: 0 }
    }

    const fn is_empty(&self) -> bool {
        self.at == self.end
    }

    /// Adds one to fewer than [`BATCH`] that begin with the first.
    const fn push(&mut self, frame: *mut Mbuf) {
        self.all[self.end] = frame;
        self.end += 1;
    }

    /// Gives all from `from` on back to their pool; none is there then.
    fn give_back(&mut self, from: usize) {
        let rest = &mut self.all[from..self.end];
        if !rest.is_empty() {
            // SAFETY: each of them is a frame that this port has, and forgets with the next line.
            unsafe { shim::heddle_dpdk_give_back(rest.as_mut_ptr(), rest.len() as u16) };
        }
        (self.at, self.end) = (0, 0);
    }
}

/// See above.
pub struct DpdkPort {
    raw: RawPort,
    /// Readable while the port is to be polled.
    timer: TimerFd,
    /// Bursts in a row that have found nothing, and how long to sleep after the next one.
    idle: u32,
    sleep: Duration,
    /// What has come; those in front of `at` have been copied, and are given back with the last of them.
    received: Frames,
    /// Empty ones, to be filled.
    empty: Frames,
    /// Those that are to be sent, and what each of them counts for if it is not.
    waiting: Frames,
    counts: [Unsent; BATCH],
    unsent: Unsent,
    finisher: Finisher,
    /// Frames that were none, since this was asked last, and what the driver had lost when it was asked last.
    losses: u64,
    driver_losses: u64,
}

// SAFETY: a port of DPDK and its frames may be used by any thread, one at a time; this value alone has them.
unsafe impl Send for DpdkPort {}

impl fmt::Debug for DpdkPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpdkPort").field("raw", &self.raw).finish_non_exhaustive()
    }
}

impl DpdkPort {
    /// Opens a device; DPDK starts with the first one.
    ///
    /// # Errors
    /// If DPDK does not start, there is no such device, or a port has it.
    pub fn open(device: DpdkDevice<'_>) -> io::Result<Self> {
        /// How many ports there have been.
        static OPENED: AtomicU64 = AtomicU64::new(0);
        eal::start()?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        let pool = format!("heddle{}", OPENED.fetch_add(1, Ordering::Relaxed));
        let text = |text: &str| CString::new(text).map_err(io::Error::from);
        let (name, arguments, pool) = (text(device.name)?, text(device.arguments)?, text(&pool)?);
        let mut raw = RawPort { pool: ptr::null_mut(), number: 0 };
        // SAFETY: DPDK has started; three strings that end with a zero, and a place for the port.
        let code = unsafe { shim::heddle_dpdk_open(name.as_ptr(), arguments.as_ptr(), pool.as_ptr(), &raw mut raw) };
        if code != 0 {
            return Err(refused(code));
        }
        let port = Self {
            raw,
            timer,
            idle: 0,
            sleep: SLEEP_MIN,
            received: Frames::new(),
            empty: Frames::new(),
            waiting: Frames::new(),
            counts: [Unsent::default(); BATCH],
            unsent: Unsent::default(),
            finisher: Finisher::default(),
            losses: 0,
            driver_losses: 0,
        };
        port.wake_after(Duration::from_nanos(1))?;
        Ok(port)
    }

    /// Readable while the port is to be polled.
    ///
    /// # Errors
    /// If the kernel has no descriptor left.
    pub fn descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        Ok(Arc::new(self.timer.as_fd().try_clone_to_owned()?))
    }

    /// The port is readable from then on.
    fn wake_after(&self, after: Duration) -> io::Result<()> {
        Ok(self.timer.set(Expiration::OneShot(TimeSpec::from_duration(after)), TimerSetTimeFlags::empty())?)
    }

    /// Nothing has come: after a while, the worker may sleep for a moment.
    fn rest(&mut self) -> io::Result<()> {
        self.idle = self.idle.saturating_add(1);
        if self.idle > IDLE_BURSTS {
            // Set anew, it is not readable until then.
            self.wake_after(self.sleep)?;
            self.sleep = (self.sleep * 2).min(SLEEP_MAX);
        }
        Ok(())
    }

    const fn wake_up(&mut self) {
        (self.idle, self.sleep) = (0, SLEEP_MIN);
    }

    /// Copies the next frame that has come behind a header that asks for nothing. One that is none is lost, and as one without a byte.
    fn read_one(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let received = &mut self.received;
        if received.is_empty() {
            // SAFETY: the port is open, and there is room for so many pointers to frames, which are this port's from now on.
            let count =
                unsafe { shim::heddle_dpdk_receive(&raw const self.raw, received.all.as_mut_ptr(), BATCH as u16) };
            (received.at, received.end) = (0, usize::from(count));
            if count == 0 {
                return None;
            }
        }
        let (header, room) = buffer.split_at_mut_checked(VNET_HEADER)?;
        header.fill(0);
        let frame = received.all[received.at];
        received.at += 1;
        let most = u32::try_from(room.len()).unwrap_or(u32::MAX);
        // SAFETY: a frame that has come and was not given back, and a place of so many bytes.
        let len = unsafe { shim::heddle_dpdk_read(frame, room.as_mut_ptr(), most) };
        if received.is_empty() {
            received.give_back(0);
        }
        if len <= most && len as usize >= SHORTEST {
            return Some(VNET_HEADER + len as usize);
        }
        self.losses += 1;
        Some(0)
    }

    /// Has a frame without its virtio-net header wait to be sent; `count` is what is not sent if it is not. Whether there was room.
    fn push(&mut self, frame: &[u8], count: Unsent) -> bool {
        let Ok(len) = u16::try_from(frame.len()) else { return false };
        if self.empty.is_empty() {
            // SAFETY: the port is open, and there is room for so many pointers to frames, which are this port's if it says so.
            let code =
                unsafe { shim::heddle_dpdk_take(&raw const self.raw, self.empty.all.as_mut_ptr(), BATCH as u16) };
            if code != 0 {
                return false;
            }
            (self.empty.at, self.empty.end) = (0, BATCH);
        }
        let to = self.empty.all[self.empty.at];
        // SAFETY: an empty frame of this port, and bytes of this length. If there is no room, nothing is written.
        if unsafe { shim::heddle_dpdk_write(to, frame.as_ptr(), len) } != 0 {
            return false;
        }
        self.empty.at += 1;
        self.counts[self.waiting.end] = count;
        self.waiting.push(to);
        if self.waiting.end == BATCH {
            self.send();
        }
        true
    }

    /// The same of a frame of the network: what it has left undone is finished before.
    fn push_whole(&mut self, frame: &[u8]) -> bool {
        let mut count = Unsent::default();
        count.add(frame);
        if frame.len() < VNET_HEADER + SHORTEST {
            return false;
        }
        if frame[..2] == [0; 2] {
            return self.push(&frame[VNET_HEADER..], count);
        }
        if !self.finisher.finish(frame) {
            while let Some(piece) = self.finisher.take() {
                self.finisher.put(piece);
            }
            return false;
        }
        // The last piece counts for the whole: the others are no frames of the network.
        let mut pieces: Vec<Vec<u8>> = std::iter::from_fn(|| self.finisher.take()).collect();
        let last = pieces.pop();
        let mut is_taken = true;
        for (piece, count) in
            pieces.iter().map(|piece| (piece, Unsent::default())).chain(last.iter().map(|it| (it, count)))
        {
            is_taken = is_taken && self.push(&piece[VNET_HEADER..], count);
        }
        pieces.into_iter().chain(last).for_each(|piece| self.finisher.put(piece));
        is_taken
    }

    /// Sends what waits.
    fn send(&mut self) {
        let Frames { all, end, .. } = &mut self.waiting;
        if *end == 0 {
            return;
        }
        // SAFETY: the port is open, and those are so many frames of it, which are the driver's as far as it says so.
        let sent = unsafe { shim::heddle_dpdk_send(&raw const self.raw, all.as_mut_ptr(), *end as u16) };
        let sent = usize::from(sent);
        for count in &self.counts[sent..*end] {
            self.unsent.frames += count.frames;
            self.unsent.bytes += count.bytes;
        }
        self.waiting.give_back(sent);
    }
}

/// What an error of the shim says.
fn refused(code: i32) -> io::Error {
    match -code {
        libc::EEXIST => io::Error::new(io::ErrorKind::AlreadyExists, "a port has this device of DPDK already"),
        libc::ENODEV => {
            io::Error::new(io::ErrorKind::NotFound, "DPDK has no such device, or its driver refuses these arguments")
        }
        errno => {
            let cause = io::Error::from_raw_os_error(errno);
            io::Error::new(cause.kind(), format!("DPDK can't open it: {cause}"))
        }
    }
}

impl Drop for DpdkPort {
    fn drop(&mut self) {
        // All of a batch, until all have been read.
        self.received.give_back(0);
        self.empty.give_back(self.empty.at);
        self.waiting.give_back(0);
        // SAFETY: the port is open, and nobody uses it any more; all of its frames that this value had were given back.
        unsafe { shim::heddle_dpdk_close(&raw mut self.raw) };
    }
}

impl AsFd for DpdkPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

impl Port for DpdkPort {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let read = self.read_one(buffer);
        if read.is_some() {
            self.wake_up();
        } else {
            self.rest()?;
        }
        Ok(read)
    }

    fn rx_burst(&mut self, burst: &mut RxBurst<'_>) -> io::Result<()> {
        let mut any = false;
        while burst.receive(|buffer| {
            let read = self.read_one(buffer);
            any |= read.is_some();
            Ok(read)
        })? {}
        if any {
            self.wake_up();
            Ok(())
        } else {
            self.rest()
        }
    }

    fn tx_burst(&mut self, frames: TxFrames<'_>) -> Unsent {
        let mut refused = Unsent::default();
        for frame in frames.iter() {
            if !self.push_whole(frame) {
                refused.add(frame);
            }
        }
        let unsent = self.flush();
        Unsent { frames: refused.frames + unsent.frames, bytes: refused.bytes + unsent.bytes }
    }

    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        if self.push_whole(frame) { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn is_waiting(&self) -> bool {
        self.waiting.end > 0 || self.unsent != Unsent::default()
    }

    fn flush(&mut self) -> Unsent {
        self.send();
        std::mem::take(&mut self.unsent)
    }

    fn new_losses(&mut self) -> io::Result<u64> {
        // SAFETY: the port is open.
        let of_driver = unsafe { shim::heddle_dpdk_losses(&raw const self.raw) };
        let new = of_driver.saturating_sub(std::mem::replace(&mut self.driver_losses, of_driver));
        Ok(std::mem::take(&mut self.losses) + new)
    }
}
