//! Connections that come and go between real hosts: a sender and a receiver, each a program of its own in its host.
//!
//! When transfers begin, and what is measured of them, is in [`transport::transfers`], which is simulated as well. A transfer's time is from the sender's `connect(2)` until the
//! receiver has read the last byte: it says when that was by the clock that all hosts of a machine share, and closes the connection by that.
//!
//! ```text
//!   sender: connect ----> receiver
//!           payload ----->
//!           <------------ nanoseconds of CLOCK_MONOTONIC (8 bytes, big-endian), end of the stream
//!           close ------>
//! ```
//!
//! The payload begins with its own length, in groups of seven bits, lowest first, of which all but the last have the eighth bit set (LEB128): so each length from one byte on has
//! room for itself.
#![allow(unsafe_code)]

use std::io::{IoSlice, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use machine::{Span, Time};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, SockaddrIn, connect, listen, send as send_to_socket,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use serde::{Deserialize, Serialize};
pub use transport::transfers::Sizes;
use transport::transfers::{Draws, Measured, Meter, OPEN_MAX, Outcome, PATIENCE, Starts};

use crate::datagrams::{Monotonic, say_ready};
use crate::{Error, thread_priority};

/// What is read or written at a time.
const CHUNK: usize = 64 << 10;

/// What a sender shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sending {
    /// Whom it connects to.
    pub to: SocketAddrV4,
    /// Payload of the transfers.
    pub sizes: Sizes,
    /// The mean time from one beginning to the next.
    pub every: Span,
    /// Where the randomness of that starts ([`transport::transfers::seed`]).
    pub seed: u64,
    /// When the run begins, by `CLOCK_MONOTONIC`.
    pub origin: Duration,
    /// The part of it that is measured. When it ends, no more begin.
    pub measured: Range<Span>,
    /// The longest payload of a segment, with the timestamp option; `None`: what fits the MTU.
    pub segment: Option<u32>,
}

/// What a sender has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// What became of the measured transfers.
    pub outcome: Outcome,
    /// Transfers that were not begun, since too many were open, or ended by an error.
    pub failed: u64,
    /// Segments sent again, of all measured transfers.
    pub retransmits: u64,
    /// How much later than due one began at most, microseconds.
    pub late_max_us: u64,
}

/// Begins transfers at their moments, and sees them through.
///
/// # Errors
/// If the kernel does not wait.
pub fn send(sending: &Sending) -> Result<Sent, Error> {
    thread_priority::raise(true);
    let clock = Monotonic { start: sending.origin };
    let at = |span: Span| Time::ZERO + span;
    let mut starts = Starts::new(sending.seed, sending.every);
    let mut draws = Draws::new(sending.seed, sending.sizes.clone());
    let mut meter = Meter::new(sending.measured.clone(), &sending.sizes);
    let (end, give_up) = (meter.end(), at(meter.end() + PATIENCE));
    let (mut sent, mut open): (Sent, Vec<Transfer>) = (Sent::default(), Vec::new());
    let mut next = starts.next_start();
    loop {
        let mut now = clock.now()?;
        while next < end && at(next) <= now {
            let size = draws.next_size();
            let measured = meter.begin(next, size);
            sent.late_max_us = sent.late_max_us.max(now.since(at(next)).as_ns() / 1_000);
            match Transfer::begin(sending, size, measured).filter(|_| open.len() < OPEN_MAX) {
                Some(transfer) => open.push(transfer),
                None => sent.failed += 1,
            }
            next = starts.next_start();
            now = clock.now()?;
        }
        let wake = if next < end { at(next) } else { give_up };
        if now >= give_up || (next >= end && open.is_empty()) {
            break;
        }
        let descriptors = open.iter().map(|transfer| (transfer.stream.as_fd(), transfer.waits_for()));
        for place in wait(descriptors, wake.since(now))?.into_iter().rev() {
            let transfer = &mut open[place];
            let Some(end) = transfer.go_on() else { continue };
            let measured = transfer.measured;
            match (end, measured) {
                (Ok(took), Some(measured)) => meter.complete(measured, took),
                (Ok(_), None) => {}
                (Err(()), _) => sent.failed += 1,
            }
            if measured.is_some() {
                sent.retransmits += retransmits(&transfer.stream);
            }
            open.swap_remove(place);
        }
    }
    let measured = open.iter().filter(|transfer| transfer.measured.is_some());
    sent.retransmits += measured.map(|transfer| retransmits(&transfer.stream)).sum::<u64>();
    Ok(Sent { outcome: meter.outcome(), ..sent })
}

/// Waits for so long at most; the places of those that have what they wait for.
fn wait<'a>(open: impl Iterator<Item = (BorrowedFd<'a>, PollFlags)>, patience: Span) -> Result<Vec<usize>, Error> {
    let mut descriptors: Vec<PollFd> = open.map(|(descriptor, flags)| PollFd::new(descriptor, flags)).collect();
    let timeout = TimeSpec::from(Duration::from_nanos(patience.as_ns()));
    match ppoll(&mut descriptors, Some(timeout), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(Error::system("wait for connections")(errno)),
    }
    let is_ready = |descriptor: &PollFd| descriptor.revents().is_none_or(|flags| !flags.is_empty());
    Ok((descriptors.iter().enumerate())
        .filter(|(_, descriptor)| is_ready(descriptor))
        .map(|(place, _)| place)
        .collect())
}

/// A transfer at its sender.
#[derive(Debug)]
struct Transfer {
    stream: TcpStream,
    measured: Option<Measured>,
    /// When it was asked for, by `CLOCK_MONOTONIC`.
    began: Duration,
    /// Payload.
    size: u32,
    /// How much of it has been written.
    written: u32,
    /// When the receiver had all, as far as that has come.
    answer: [u8; 8],
    answered: usize,
}

impl Transfer {
    /// Asks for a connection; `None` if the kernel has none to give.
    fn begin(sending: &Sending, size: u32, measured: Option<Measured>) -> Option<Self> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket: OwnedFd = socket(AddressFamily::Inet, SockType::Stream, flags, None).ok()?;
        if let Some(segment) = sending.segment {
            setsockopt(&socket, sockopt::TcpMaxSeg, &segment).ok()?;
        }
        let began = Monotonic::read().ok()?;
        match connect(socket.as_raw_fd(), &SockaddrIn::from(sending.to)) {
            Ok(()) | Err(Errno::EINPROGRESS) => {}
            Err(_) => return None,
        }
        let stream = TcpStream::from(socket);
        Some(Self { stream, measured, began, size, written: 0, answer: [0; 8], answered: 0 })
    }

    const fn waits_for(&self) -> PollFlags {
        if self.written < self.size { PollFlags::POLLOUT } else { PollFlags::POLLIN }
    }

    /// Writes as much as there is room for: the length, then zeros.
    fn write(&mut self) -> std::io::Result<usize> {
        static ZEROS: [u8; CHUNK] = [0; CHUNK];
        let (length, used) = encoded(self.size);
        let (begun, chunk) = (self.written as usize, ((self.size - self.written) as usize).min(CHUNK));
        if begun >= used {
            return self.stream.write(&ZEROS[..chunk]);
        }
        // In one call, so that it is one segment where it fits into one.
        let head = &length[begun..used.min(begun + chunk)];
        let zeros = &ZEROS[..chunk - head.len()];
        self.stream.write_vectored(&[IoSlice::new(head), IoSlice::new(zeros)])
    }

    /// Does what can be done now. When it is over: how long it took, or that it failed.
    fn go_on(&mut self) -> Option<Result<Span, ()>> {
        while self.written < self.size {
            match self.write() {
                Ok(written) => self.written += written as u32,
                Err(error) => return is_over(&error).then_some(Err(())),
            }
        }
        while self.answered < self.answer.len() {
            match self.stream.read(&mut self.answer[self.answered..]) {
                Ok(0) => return Some(Err(())),
                Ok(read) => self.answered += read,
                Err(error) => return is_over(&error).then_some(Err(())),
            }
        }
        let complete = Duration::from_nanos(u64::from_be_bytes(self.answer));
        Some(Ok(Span::from_ns(complete.saturating_sub(self.began).as_nanos() as u64)))
    }
}

/// The most bytes that a length takes.
const LENGTH_MAX: usize = 5;

/// A length as a payload begins with it, and how many bytes of that are used.
fn encoded(length: u32) -> ([u8; LENGTH_MAX], usize) {
    let (mut bytes, mut left, mut used) = ([0; LENGTH_MAX], length, 0);
    loop {
        let more = left > 0x7f;
        bytes[used] = (left & 0x7f) as u8 | if more { 0x80 } else { 0 };
        (left, used) = (left >> 7, used + 1);
        if !more {
            return (bytes, used);
        }
    }
}

/// The length of a payload that is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Length {
    value: u32,
    /// Bytes of it that have come.
    read: usize,
    is_known: bool,
}

impl Length {
    /// Takes the bytes that belong to it, of those that come first. `None`: it is no length.
    fn take(&mut self, bytes: &[u8]) -> Option<()> {
        for &byte in bytes {
            if self.is_known {
                break;
            }
            let group = u32::from(byte & 0x7f);
            let shifted = group.checked_shl(7 * self.read as u32).filter(|it| it >> (7 * self.read as u32) == group)?;
            self.value |= shifted;
            self.read += 1;
            self.is_known = byte & 0x80 == 0;
            if self.read == LENGTH_MAX && !self.is_known {
                return None;
            }
        }
        (!self.is_known || self.value > 0).then_some(())
    }
}

/// Whether this error is the end of a connection.
fn is_over(error: &std::io::Error) -> bool {
    !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}

/// How many segments a connection has sent again; 0 if the kernel does not say.
fn retransmits(stream: &TcpStream) -> u64 {
    // SAFETY: it consists of numbers, all of which may be zero.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes `length` bytes at most, which are there; the descriptor is open as long as the stream is borrowed.
    let got = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    };
    if got == 0 { u64::from(info.tcpi_total_retrans) } else { 0 }
}

/// What a receiver shall expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiving {
    /// The port that it listens at.
    pub port: u16,
    /// When it ends, if nobody ends it before.
    pub patience: Duration,
}

/// Receives transfers. Says [`crate::datagrams::READY`] to `out` once it listens.
///
/// # Errors
/// If there is no socket to be had at that port, or the kernel does not wait.
pub fn receive(receiving: &Receiving, mut out: impl Write) -> Result<(), Error> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, receiving.port))
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|source| Error::System { step: "listen for connections", source })?;
    let backlog =
        Backlog::new(i32::try_from(OPEN_MAX).unwrap_or(i32::MAX)).map_err(Error::system("listen for connections"))?;
    listen(&listener, backlog).map_err(Error::system("listen for connections"))?;
    thread_priority::raise(true);
    say_ready(&mut out)?;
    let end = Instant::now() + receiving.patience;
    let (mut open, mut chunk): (Vec<Received>, _) = (Vec::new(), vec![0; CHUNK]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        // The listener comes last, so that connections keep their places. Who finds no room waits in its queue.
        let listens = (open.len() < OPEN_MAX).then(|| (listener.as_fd(), PollFlags::POLLIN));
        let descriptors = open.iter().map(|it| (it.stream.as_fd(), PollFlags::POLLIN)).chain(listens);
        let connections = open.len();
        for place in wait(descriptors, Span::from_ns(left.as_nanos() as u64))?.into_iter().rev() {
            if place == connections {
                accept(&listener, &mut open);
            } else if open[place].is_over(&mut chunk) {
                open.remove(place);
            }
        }
    }
}

/// Takes connections in, as many as there are and may be open.
fn accept(listener: &TcpListener, open: &mut Vec<Received>) {
    while open.len() < OPEN_MAX
        && let Ok((stream, _)) = listener.accept()
    {
        // One that would block must not be had: it is closed, which its sender takes for a failure.
        if stream.set_nonblocking(true).is_ok() {
            open.push(Received { stream, length: Length::default(), read: 0 });
        }
    }
}

/// A transfer at its receiver.
#[derive(Debug)]
struct Received {
    stream: TcpStream,
    length: Length,
    /// How much of it has come.
    read: u64,
}

impl Received {
    /// Reads what is there. Whether the connection is over: all bytes have come, and the sender was notified, or no more will come.
    fn is_over(&mut self, chunk: &mut [u8]) -> bool {
        while !self.length.is_known || self.read < u64::from(self.length.value) {
            let read = match self.stream.read(chunk) {
                Ok(0) => return true,
                Ok(read) => read,
                Err(error) => return is_over(&error),
            };
            if self.length.take(&chunk[..read]).is_none() {
                return true;
            }
            self.read += read as u64;
        }
        if let Ok(now) = Monotonic::read() {
            let answer = (now.as_nanos() as u64).to_be_bytes();
            // It leaves together with the end of the stream, when the socket is closed. A sender who misses it takes the transfer for unfinished.
            let _ = send_to_socket(
                self.stream.as_raw_fd(),
                &answer,
                MsgFlags::from_bits_retain(libc::MSG_MORE) | MsgFlags::MSG_NOSIGNAL,
            );
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over loopback: all that begin come to an end, and take time.
    #[test]
    fn transfers_begin_at_their_moments_and_end() {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let receiving = Receiving { port, patience: Duration::from_secs(60) };
        let (said, ready) = std::sync::mpsc::channel();
        std::thread::spawn(move || receive(&receiving, crate::datagrams::tests::Said(said)));
        ready.recv_timeout(Duration::from_secs(60)).expect("it says that it listens");
        let measured = Span::from_ms(100)..Span::from_ms(400);
        let sizes: Sizes = "1:200000000,100000:900000000,3000000:1000000000".parse().unwrap();
        let sending = Sending {
            to: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port),
            sizes: sizes.clone(),
            every: Span::from_ms(2),
            seed: 7,
            origin: Monotonic::read().unwrap(),
            measured: measured.clone(),
            segment: None,
        };
        let sent = send(&sending).unwrap();
        let mut starts = Starts::new(7, Span::from_ms(2));
        let due = std::iter::repeat_with(|| starts.next_start()).take_while(|at| *at < measured.end);
        let expected = due.filter(|at| measured.contains(at)).count();
        assert_eq!((sent.outcome.started, sent.outcome.unfinished, sent.failed), (expected as u64, 0, 0));
        assert!(sent.outcome.times_ns.len() == expected && sent.outcome.times_ns.iter().all(|took| *took > 0));
        // They have the sizes that are drawn for them, those before the measured time left out.
        let mut draws = Draws::new(7, sizes);
        let before = {
            let mut starts = Starts::new(7, Span::from_ms(2));
            std::iter::repeat_with(|| starts.next_start()).take_while(|at| *at < measured.start).count()
        };
        let drawn: Vec<u32> = std::iter::repeat_with(|| draws.next_size()).skip(before).take(expected).collect();
        assert_eq!(sent.outcome.sizes_bytes, drawn);
    }

    #[test]
    fn a_length_is_read_from_any_pieces() {
        for length in [1, 127, 128, 300, 16_384, 1_000_000_000, u32::MAX] {
            let (bytes, used) = encoded(length);
            assert!(used as u32 <= length, "it has room in its own payload");
            let mut pieces = Length::default();
            for byte in &bytes[..used] {
                assert!(!pieces.is_known);
                pieces.take(std::slice::from_ref(byte)).unwrap();
            }
            let mut whole = Length::default();
            whole.take(&[&bytes[..used], &[0, 0, 0]].concat()).unwrap();
            assert_eq!(pieces, whole);
            assert_eq!((pieces.value, pieces.is_known), (length, true));
        }
        for wrong in [&[0][..], &[0x80, 0x80, 0x80, 0x80, 0x80, 1], &[0xff, 0xff, 0xff, 0xff, 0x1f]] {
            assert_eq!(Length::default().take(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn nobody_there_is_no_end_but_a_failure() {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let sending = Sending {
            to: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port),
            sizes: Sizes::fixed(1),
            every: Span::from_ms(1),
            seed: 1,
            origin: Monotonic::read().unwrap(),
            measured: Span::ZERO..Span::from_ms(20),
            segment: None,
        };
        let sent = send(&sending).unwrap();
        assert!(sent.outcome.started > 0, "{sent:?}");
        assert_eq!((sent.outcome.unfinished, sent.failed), (sent.outcome.started, sent.outcome.started));
    }
}
