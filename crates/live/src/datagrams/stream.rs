//! Messages as fast as credit for them comes back ([`transport::credit`]): how UDP fills a network between real hosts.
//!
//! A sender has one socket a stream and takes turns; a receiver distinguishes streams by where they come from. It measures by the times of
//! arrival, from the first one on, and goes on giving credit for a while, so that streams whose time began later are not alone at its end.
//!
//! ```text
//! message  | heddle-d | number |  zeros ...        all big-endian
//! credit   | heddle-c | number |                   the number after the highest that came
//! ```

use std::collections::HashMap;
use std::io::{IoSliceMut, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use machine::{Control, Span, Step, Time};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, SockaddrIn, recvmsg, setsockopt, sockopt};
use serde::{Deserialize, Serialize};
use transport::credit;

use super::{Came, Inbox, LEAST_BYTES, Monotonic, blank, listen, number, say_ready};
use crate::Error;

/// The first bytes of each credit.
const MAGIC: [u8; 8] = *b"heddle-c";
/// How long a receiver goes on when its measured time is over.
const TAIL: Duration = Duration::from_millis(200);
/// The most streams between two hosts.
pub const STREAMS_MAX: u32 = 128;

/// What a sender shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streaming {
    /// The address that datagrams go to.
    pub to: SocketAddr,
    /// How many streams; [`STREAMS_MAX`] at most.
    pub streams: u32,
    /// Messages of one stream under way; [`credit::WINDOW_MAX`] at most.
    pub window: u32,
    /// Payload of each, bytes. The socket's send buffer has as many.
    pub bytes: usize,
    /// How long it lasts.
    pub lasts: Duration,
}

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streamed {
    /// Messages that the kernel took.
    pub messages: u64,
    /// Messages that it did not take; they count as lost.
    pub refused: u64,
}

/// Sends messages as fast as credit for them comes.
///
/// # Errors
/// If there are no sockets to be had, or the kernel does not wait.
pub fn send(streaming: &Streaming) -> Result<Streamed, Error> {
    let mut streams = Vec::new();
    for _ in 0..streaming.streams.clamp(1, STREAMS_MAX) {
        streams.push(Stream::open(streaming)?);
    }
    let mut payload = blank(streaming.bytes);
    let clock = Monotonic::start()?;
    let end = Time::ZERO + Span::from_ns(streaming.lasts.as_nanos() as u64);
    let mut streamed = Streamed::default();
    loop {
        let now = clock.now()?;
        if now >= end {
            return Ok(streamed);
        }
        let (mut until, mut all_wait) = (end, true);
        for stream in &mut streams {
            stream.take_credit(now, streaming.to);
            match stream.sender.poll(now) {
                Step::Wait(moment) => until = until.min(moment),
                Step::Do(number) => {
                    all_wait = false;
                    payload[8..16].copy_from_slice(&number.to_be_bytes());
                    match stream.socket.send_to(&payload, streaming.to) {
                        Ok(_) => streamed.messages += 1,
                        Err(_) => streamed.refused += 1,
                    }
                }
            }
        }
        if all_wait {
            wait_for_credit(&streams, until.since(now))?;
        }
    }
}

/// One stream's end at the sender.
struct Stream {
    socket: UdpSocket,
    sender: credit::Sender,
}

impl Stream {
    fn open(streaming: &Streaming) -> Result<Self, Error> {
        // Not connected: Linux then numbers the messages of all streams to a host by one counter (`ip_select_ident`), and fragments of two
        // are never taken for those of one.
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
            .map_err(|source| Error::System { step: "open a socket for messages", source })?;
        setsockopt(&socket, sockopt::SndBuf, &streaming.bytes)
            .map_err(Error::system("set the size of a socket's buffer"))?;
        let mut sender = credit::Sender::new(streaming.window);
        sender.handle(Time::ZERO, credit::Input::Start);
        Ok(Self { socket, sender })
    }

    /// Takes what credit has come from there.
    fn take_credit(&mut self, now: Time, receiver: SocketAddr) {
        let mut head = [0; LEAST_BYTES];
        let mut next = || {
            let mut data = [IoSliceMut::new(&mut head)];
            let message =
                recvmsg::<SockaddrIn>(self.socket.as_raw_fd(), &mut data, None, MsgFlags::MSG_DONTWAIT).ok()?;
            let (len, from) = (message.bytes.min(LEAST_BYTES), message.address);
            Some((from, number(MAGIC, &head[..len])))
        };
        while let Some((from, number)) = next() {
            let from = from.map(|from| SocketAddr::from(SocketAddrV4::from(from)));
            if let (true, Some(number)) = (from == Some(receiver), number) {
                self.sender.handle(now, credit::Input::Credit(number));
            }
        }
    }
}

/// Waits until credit comes, or so long.
fn wait_for_credit(streams: &[Stream], longest: Span) -> Result<(), Error> {
    let mut sockets: Vec<PollFd<'_>> =
        streams.iter().map(|stream| PollFd::new(stream.socket.as_fd(), PollFlags::POLLIN)).collect();
    let milliseconds = u16::try_from(longest.as_ns().div_ceil(1_000_000)).unwrap_or(u16::MAX);
    match poll(&mut sockets, PollTimeout::from(milliseconds)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(Error::system("wait for credit")(errno)),
    }
}

/// What a receiver shall expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sinking {
    /// The port that it listens at.
    pub port: u16,
    /// The senders' [`Streaming::window`].
    pub window: u32,
    /// How long after the first message it begins to measure.
    pub warm_up: Duration,
    /// How long it measures.
    pub measured: Duration,
    /// When it gives up, whatever has come.
    pub patience: Duration,
}

/// What a receiver has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sunk {
    /// Streams that it heard.
    pub streams: u32,
    /// What came of all of them in the measured time, each message once.
    pub messages: u64,
    /// What came in the measured time and had come before.
    pub copies: u64,
    /// What the receiver's own socket had no room for, since its start.
    pub overflowed: u64,
}

/// Receives messages and gives credit for them until a while after the measured time. Says [`READY`](super::READY) to `out` once it listens.
///
/// # Errors
/// If there is no socket to be had at that port.
pub fn receive(sinking: &Sinking, mut out: impl Write) -> Result<Sunk, Error> {
    let socket = listen(sinking.port)?;
    say_ready(&mut out)?;
    let mut end = Instant::now() + sinking.patience;
    let from = Time::ZERO + Span::from_ns(sinking.warm_up.as_nanos() as u64);
    let measured = from..from + Span::from_ns(sinking.measured.as_nanos() as u64);
    let mut receivers: HashMap<SocketAddr, credit::Receiver> = HashMap::new();
    let mut inbox = Inbox::default();
    while Instant::now() < end {
        let Some(Came { at, number, from: Some(peer) }) = inbox.take(&socket)? else { continue };
        if receivers.is_empty() {
            end = end.min(Instant::now() + sinking.warm_up + sinking.measured + TAIL);
        }
        let peer = SocketAddr::from(SocketAddrV4::from(peer));
        if !receivers.contains_key(&peer) && receivers.len() >= STREAMS_MAX as usize {
            continue;
        }
        let receiver = receivers.entry(peer).or_insert_with(|| credit::Receiver::new(measured.clone(), sinking.window));
        if let Some(credit) = receiver.receive(at, number) {
            // A credit that is not sent is like one that is lost: the next one covers it.
            let _ = socket.send_to(&credit_of(credit), peer);
        }
    }
    let messages = receivers.values().map(credit::Receiver::messages).sum();
    let copies = receivers.values().map(credit::Receiver::copies).sum();
    Ok(Sunk { streams: receivers.len() as u32, messages, copies, overflowed: u64::from(inbox.overflowed) })
}

fn credit_of(number: u64) -> [u8; LEAST_BYTES] {
    let mut datagram = [0; LEAST_BYTES];
    datagram[..8].copy_from_slice(&MAGIC);
    datagram[8..].copy_from_slice(&number.to_be_bytes());
    datagram
}

#[cfg(test)]
mod tests {
    use super::super::tests::Said;
    use super::*;

    /// Over loopback: no more is under way than the window, so nothing is lost, and a stranger's datagram is no harm.
    #[test]
    fn streams_are_held_back_and_counted() {
        // What comes within the measured time is the machine's: this is asked until more than a window does.
        let begun = Instant::now();
        while !has_measured_streams() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing was measured");
        }
    }

    /// Whether more than a window of messages came in the measured time.
    fn has_measured_streams() -> bool {
        let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let ms = Duration::from_millis;
        let sinking =
            Sinking { port, window: 8, warm_up: ms(50), measured: ms(200), patience: Duration::from_secs(60) };
        let (said, ready) = std::sync::mpsc::channel();
        let receiver = std::thread::spawn(move || receive(&sinking, Said(said)));
        ready.recv_timeout(Duration::from_secs(60)).expect("it says that it listens");
        let to: SocketAddr = (Ipv4Addr::LOCALHOST, port).into();
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().send_to(b"heddle-d", to).unwrap();
        let sent = send(&Streaming { to, streams: 3, window: 8, bytes: 16_060, lasts: ms(350) }).unwrap();
        let sunk = receiver.join().unwrap().unwrap();
        assert_eq!((sent.refused, sunk.overflowed), (0, 0));
        assert_eq!(sunk.streams, 3);
        assert!(sunk.messages < sent.messages, "the warm-up is left out: {sunk:?} of {sent:?}");
        sunk.messages > 8
    }

    /// Nobody gives credit: the window goes out, and again when it counts as lost.
    #[test]
    fn without_credit_next_to_nothing_is_sent() {
        let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = silent.local_addr().unwrap();
        let streaming = Streaming { to, streams: 2, window: 4, bytes: 100, lasts: Duration::from_millis(1_200) };
        // Twice at most, if this thread runs when the first window counts as lost.
        let messages = send(&streaming).unwrap().messages;
        assert!([8, 16].contains(&messages), "{messages}");
    }
}
