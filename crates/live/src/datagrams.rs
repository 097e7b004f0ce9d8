//! Numbered datagrams between real hosts: a sender and a receiver, each a program of its own in its host. Here those at an even pace; in
//! [`stream`] those that go as fast as credit for them comes back.
//!
//! Pace, numbers and counting are those of [`transport::paced`], which is simulated as well. Here is the machine around them: when a
//! datagram is due the sender sleeps until then by an absolute time, so that lateness does not add up. The receiver takes the time of
//! an arrival from the kernel (`SO_TIMESTAMPNS`), so that it may be late itself.
//!
//! ```text
//! 0        8        16
//! | magic  | number |  zeros ...        all big-endian
//! ```

use std::io::{IoSliceMut, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use machine::{Control, Span, Step, Time};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use serde::{Deserialize, Serialize};
use transport::paced::{self, Outcome};

use crate::Error;
use crate::thread_priority;

pub mod stream;

/// The first bytes of each datagram.
const MAGIC: [u8; 8] = *b"heddle-d";
/// The least payload: magic and number.
pub const LEAST_BYTES: usize = 16;
/// The longest payload that one IPv4 datagram has.
pub const MOST_BYTES: usize = 65_507;
/// What waits in the receiver's socket at most, bytes: 180 ms at 10,000 full datagrams a second, as the kernel accounts for them.
const SOCKET_BYTES: usize = 4 << 20;
/// How long a receiver looks for stragglers when what was sent after the measured time has come.
const STRAGGLERS: Duration = Duration::from_millis(150);
/// How often it looks at the clock while nothing comes.
const LOOK: Duration = Duration::from_millis(50);

/// What a sender shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// The address that datagrams go to.
    pub to: SocketAddr,
    /// Datagrams a second.
    pub rate_pps: u64,
    /// How many datagrams to send.
    pub datagrams: u64,
    /// Payload of each, bytes; [`LEAST_BYTES`] at least, [`MOST_BYTES`] at most.
    pub bytes: usize,
}

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub datagrams: u64,
    /// Datagrams that the kernel did not take; they count as lost.
    pub refused: u64,
    /// How much later than due one was sent at most, microseconds.
    pub late_max_us: u64,
}

/// Sends datagrams at an even pace.
///
/// # Errors
/// If there is no socket to be had, or the kernel does not sleep.
pub fn send(sending: &Sending) -> Result<Sent, Error> {
    let any = (Ipv4Addr::UNSPECIFIED, 0);
    let socket = UdpSocket::bind(any).and_then(|socket| socket.connect(sending.to).map(|()| socket));
    let socket = socket.map_err(|source| Error::System { step: "open a socket for datagrams", source })?;
    thread_priority::raise(true);
    let mut payload = blank(sending.bytes);
    let clock = Monotonic::start()?;
    let mut sender = paced::Sender::new(sending.rate_pps);
    sender.handle(Time::ZERO, paced::Input::Start);
    let mut sent = Sent::default();
    while sender.sent() < sending.datagrams {
        let now = clock.now()?;
        match sender.poll(now) {
            Step::Wait(until) => clock.sleep_until(until)?,
            Step::Do(number) => {
                let due = Time::ZERO + paced::due(sending.rate_pps.max(1), number);
                sent.late_max_us = sent.late_max_us.max(now.since(due).as_ns() / 1_000);
                payload[8..16].copy_from_slice(&number.to_be_bytes());
                match socket.send(&payload) {
                    Ok(_) => sent.datagrams += 1,
                    Err(_) => sent.refused += 1,
                }
            }
        }
    }
    Ok(sent)
}

/// A datagram without its number.
fn blank(bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; bytes.clamp(LEAST_BYTES, MOST_BYTES)];
    payload[..8].copy_from_slice(&MAGIC);
    payload
}

/// The kernel's monotonic clock, from a moment on.
pub(crate) struct Monotonic {
    pub(crate) start: Duration,
}

impl Monotonic {
    pub(crate) fn start() -> Result<Self, Error> {
        Ok(Self { start: Self::read()? })
    }

    pub(crate) fn read() -> Result<Duration, Error> {
        Ok(clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(Error::system("read the clock"))?.into())
    }

    pub(crate) fn now(&self) -> Result<Time, Error> {
        Ok(Time::from_ns(Self::read()?.saturating_sub(self.start).as_nanos() as u64))
    }

    fn sleep_until(&self, until: Time) -> Result<(), Error> {
        let at = TimeSpec::from(self.start + Duration::from_nanos(until.as_ns()));
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at) {
            // Stopped and continued: the caller looks at the clock again.
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(Error::system("sleep until a datagram is due")(errno)),
        }
    }
}

/// What a receiver shall expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiving {
    /// The port that it listens at.
    pub port: u16,
    /// Datagrams a second.
    pub rate_pps: u64,
    /// The numbers that are measured.
    pub measured: Range<u64>,
    /// When it gives up, whatever has come.
    pub patience: Duration,
}

/// What a receiver has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// What became of the measured datagrams.
    pub outcome: Outcome,
    /// Of those that are lost, how many the receiver's own socket had no room for.
    pub overflowed: u64,
}

/// What a receiver says when it listens, as a line.
pub const READY: &str = "ready";

/// Receives datagrams. Says [`READY`] to `out` once it listens.
///
/// # Errors
/// If there is no socket to be had at that port.
pub fn receive(receiving: &Receiving, mut out: impl Write) -> Result<Received, Error> {
    let socket = listen(receiving.port)?;
    say_ready(&mut out)?;
    let end = Instant::now() + receiving.patience;
    let mut receiver = paced::Receiver::new(receiving.rate_pps, receiving.measured.clone());
    let mut inbox = Inbox::default();
    let mut heard = Instant::now();
    while Instant::now() < end && !(receiver.is_closed() && heard.elapsed() >= STRAGGLERS) {
        if let Some(Came { at, number, .. }) = inbox.take(&socket)? {
            receiver.receive(at, number);
            heard = Instant::now();
        }
    }
    Ok(Received { outcome: receiver.outcome(), overflowed: u64::from(inbox.overflowed) })
}

pub(crate) fn say_ready(out: &mut impl Write) -> Result<(), Error> {
    let said = writeln!(out, "{READY}").and_then(|()| out.flush());
    said.map_err(|source| Error::System { step: "say that it listens", source })
}

/// A receiver's socket.
fn listen(port: u16) -> Result<UdpSocket, Error> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))
        .map_err(|source| Error::System { step: "listen for datagrams", source })?;
    // Beyond the system's limit where we may; else up to it.
    if setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BYTES).is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &SOCKET_BYTES)
            .map_err(Error::system("set the size of a socket's buffer"))?;
    }
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).map_err(Error::system("ask for times of arrival"))?;
    setsockopt(&socket, sockopt::RxqOvfl, &1).map_err(Error::system("ask for the number of lost datagrams"))?;
    socket.set_read_timeout(Some(LOOK)).map_err(|source| Error::System { step: "set a socket's timeout", source })?;
    Ok(socket)
}

/// A numbered datagram that has come.
struct Came {
    /// When, from the first that came.
    at: Time,
    number: u64,
    from: Option<SockaddrIn>,
}

/// What comes out of a receiver's socket.
#[derive(Default)]
struct Inbox {
    /// The kernel's time of the first arrival.
    first: Option<Duration>,
    /// What the socket had no room for, so far.
    overflowed: u32,
}

impl Inbox {
    /// The next numbered datagram; `None` if there was none for a while, or it was another one.
    fn take(&mut self, socket: &UdpSocket) -> Result<Option<Came>, Error> {
        let mut head = [0; LEAST_BYTES];
        let mut space = nix::cmsg_space!(TimeSpec, u32);
        let mut data = [IoSliceMut::new(&mut head)];
        let message = match recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut data, Some(&mut space), MsgFlags::empty()) {
            Ok(message) => message,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(errno) => return Err(Error::system("receive datagrams")(errno)),
        };
        let mut stamp = None;
        for content in message.cmsgs().map_err(Error::system("read a datagram's time"))? {
            match content {
                ControlMessageOwned::ScmTimestampns(time) => stamp = Some(Duration::from(time)),
                ControlMessageOwned::RxqOvfl(lost) => self.overflowed = lost,
                _ => {}
            }
        }
        let (len, from) = (message.bytes, message.address);
        let Some(stamp) = stamp else { return Ok(None) };
        let Some(number) = number(MAGIC, &head[..len.min(LEAST_BYTES)]) else { return Ok(None) };
        let first = *self.first.get_or_insert(stamp);
        let at = Time::ZERO + Span::from_ns(stamp.saturating_sub(first).as_nanos() as u64);
        Ok(Some(Came { at, number, from }))
    }
}

/// The number in a datagram that begins like this.
fn number(magic: [u8; 8], head: &[u8]) -> Option<u64> {
    let (first, number) = head.split_at_checked(8)?;
    (first == magic).then_some(u64::from_be_bytes(number.try_into().ok()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn only_our_datagrams_have_a_number() {
        let mut head = [0; LEAST_BYTES];
        assert_eq!(number(MAGIC, &head), None);
        head[..8].copy_from_slice(&MAGIC);
        head[15] = 7;
        assert_eq!(number(MAGIC, &head), Some(7));
        assert_eq!(number(MAGIC, &head[..15]), None);
        assert_eq!(number(MAGIC, b"heddle"), None);
    }

    /// Over loopback: all arrive, at their pace, and a stranger's datagram is no harm.
    #[test]
    fn what_is_sent_is_received_at_its_pace() {
        let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let receiving = Receiving { port, rate_pps: 1_000, measured: 100..400, patience: Duration::from_secs(60) };
        let (said, ready) = std::sync::mpsc::channel();
        let receiver = std::thread::spawn(move || receive(&receiving, Said(said)));
        ready.recv_timeout(Duration::from_secs(60)).expect("it says that it listens");
        let to: SocketAddr = (Ipv4Addr::LOCALHOST, port).into();
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().send_to(b"who are you?", to).unwrap();
        let start = Instant::now();
        let sent = send(&Sending { to, rate_pps: 1_000, datagrams: 500, bytes: 200 }).unwrap();
        assert!(start.elapsed().as_millis() >= 499, "{:?}", start.elapsed());
        assert_eq!((sent.datagrams, sent.refused), (500, 0));
        let received = receiver.join().unwrap().unwrap();
        let outcome = received.outcome;
        assert_eq!((outcome.sent, outcome.lost, outcome.duplicates, outcome.reordered), (300, 0, 0, 0));
        // How evenly they come is the machine's; that a gap is seen is not.
        assert!(outcome.longest_gap > Span::ZERO, "{outcome:?}");
        assert_eq!(received.overflowed, 0);
    }

    /// Sends a message for each write to it.
    pub(crate) struct Said(pub std::sync::mpsc::Sender<()>);

    impl Write for Said {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.send(());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}
