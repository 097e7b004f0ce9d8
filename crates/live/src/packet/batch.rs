//! Frames that leave by one system call (sendmmsg(2)): small ones are gathered until the worker's burst is over, large segments go at
//! once, behind what has been gathered.
//!
//! Not a `PACKET_TX_RING`: where a frame goes on to another socket of this machine, as on a veth or a guest's TAP, the kernel copies it out of the
//! ring page by page (`skb_copy_ubufs`). Beside sendmmsg that was as fast for frames of 64 bytes and half as fast for segments of
//! 64 KiB. What one call a frame costs: `crates/live/examples/packet_rate.rs`.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use crate::port::Unsent;
use crate::tap::VNET_HEADER;

/// Frames that wait at most.
const FRAMES_MAX: usize = 64;
/// Bytes that wait at most, with virtio-net headers.
const BYTES_MAX: usize = 64 << 10;
/// The longest frame that is copied to wait; a longer one costs less to send at once. An Ethernet frame of 1,514 bytes and its headers
/// are within it.
const COPIED_MAX: usize = 2_048;
/// Where a virtio-net header says that the frame is a segment to be cut (`gso_type`).
const GSO_TYPE: usize = 1;

/// Frames that wait to be sent, in their order.
#[derive(Debug)]
pub struct Batch {
    /// The frames, one behind the other.
    bytes: Box<[u8]>,
    /// Where each of them ends.
    ends: [u32; FRAMES_MAX],
    frames: usize,
    /// What the device has not taken since this was asked last.
    unsent: Unsent,
}

impl Batch {
    /// A batch without frames.
    pub fn new() -> Self {
        Self { bytes: vec![0; BYTES_MAX].into(), ends: [0; FRAMES_MAX], frames: 0, unsent: Unsent::default() }
    }

    /// Takes a frame, to be sent by [`Batch::flush`] at the latest. A large segment goes at once, and what waits goes before it.
    ///
    /// # Errors
    /// If it was tried at once, and the device did not take it.
    pub fn offer(&mut self, socket: impl AsFd, frame: &[u8]) -> io::Result<()> {
        if frame.len() > COPIED_MAX || frame.get(GSO_TYPE) != Some(&0) {
            return self.send(socket, Some(frame));
        }
        if self.frames == FRAMES_MAX || self.end() + frame.len() > BYTES_MAX {
            self.send(socket, None)?;
        }
        let start = self.end();
        self.bytes[start..start + frame.len()].copy_from_slice(frame);
        self.ends[self.frames] = (start + frame.len()) as u32;
        self.frames += 1;
        Ok(())
    }

    /// Whether something waits, or was not taken and is to be reported.
    #[inline]
    pub const fn is_waiting(&self) -> bool {
        self.frames > 0 || self.unsent.frames > 0
    }

    /// Sends what waits. What the device has not taken since this was called last.
    pub fn flush(&mut self, socket: impl AsFd) -> Unsent {
        if self.frames > 0 {
            // Without a frame of its own, what was refused is in `unsent`.
            let _ = self.send(socket, None);
        }
        mem::take(&mut self.unsent)
    }

    fn end(&self) -> usize {
        self.frames.checked_sub(1).map_or(0, |last| self.ends[last] as usize)
    }

    /// Sends what waits, and then `last`. An error is about `last` alone: it was not taken.
    fn send(&mut self, socket: impl AsFd, last: Option<&[u8]>) -> io::Result<()> {
        let waiting = mem::take(&mut self.frames);
        let all = waiting + usize::from(last.is_some());
        let (mut at, mut is_down) = (0, false);
        while at < all {
            let error = match self.send_from(&socket, at, waiting, last) {
                Ok(sent) => {
                    at += sent;
                    continue;
                }
                Err(error) => error,
            };
            // A device that came back reports once more that it was down: the second time it is.
            let says_down = matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO));
            let skipped = if is_down && says_down { all - at } else { 1 };
            is_down |= says_down;
            self.unsent.frames += skipped.min(waiting - at.min(waiting)) as u64;
            for lost in at..(at + skipped).min(waiting) {
                self.unsent.bytes += self.range(lost).len().saturating_sub(VNET_HEADER) as u64;
            }
            at += skipped;
            if at == all && last.is_some() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Where in `bytes` a frame is.
    fn range(&self, at: usize) -> std::ops::Range<usize> {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        start..self.ends[at] as usize
    }

    /// One system call for the frames from number `at` of `waiting`, and `last`. How many the device took; the first of them was
    /// refused if none.
    fn send_from(&self, socket: &impl AsFd, at: usize, waiting: usize, last: Option<&[u8]>) -> io::Result<usize> {
        let fd = socket.as_fd().as_raw_fd();
        let frames = (at..waiting).map(|at| &self.bytes[self.range(at)]).chain(last);
        let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; FRAMES_MAX + 1];
        let mut count = 0;
        for (vector, frame) in vectors.iter_mut().zip(frames) {
            *vector = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            count += 1;
        }
        if count == 1 {
            // SAFETY: send(2) reads `iov_len` bytes from the slice of that length that `vectors[0]` was made of.
            let sent = unsafe { libc::send(fd, vectors[0].iov_base, vectors[0].iov_len, libc::MSG_DONTWAIT) };
            return if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(1) };
        }
        // SAFETY: all-zero messages are valid: null pointers with lengths of 0.
        let mut messages: [libc::mmsghdr; FRAMES_MAX + 1] = unsafe { mem::zeroed() };
        for (message, vector) in messages.iter_mut().zip(&mut vectors).take(count) {
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (ptr::from_mut(vector), 1);
        }
        // SAFETY: sendmmsg(2) reads `count` messages of the array, each of one vector, which are slices that outlive the call; it
        // writes only lengths to the messages.
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT as _) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}
