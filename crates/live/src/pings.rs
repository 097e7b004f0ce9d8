//! Whether other hosts answer (ICMP echo, RFC 792 and RFC 4443), asked by one program in a host for all of them: one program a pair would be ten thousand in a network of a
//! hundred hosts.
//!
//! Whoever starts these programs says by their standard input whom each is to ask next, and hears when that one has answered or is not waited for any more; so he
//! can have hosts ask each other in pairs, round by round. The kernel has one table of neighbours for all network namespaces, of 1,024 entries
//! (`net.ipv4.neigh.default.gc_thresh3`), and sends nothing to whom it has no place for. In rounds it need not remember more than a few neighbours of each host: older ones are
//! taken out of its table.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use machine::{Span, Time};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, recv, sendto, setsockopt,
    socket, sockopt,
};
use serde::{Deserialize, Serialize};
use wire::{Ipv4Packet, checksum, protocol};

use crate::Error;
use crate::datagrams::Monotonic;

mod asker;
mod neighbour;

use asker::Asker;

/// How many neighbours the kernel is to have in its table for all hosts together: a margin below what it takes.
const NEIGHBOURS_MAX: usize = 700;

/// ICMP's types (RFC 792).
const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const ECHO: u8 = 8;

/// Those of its version for IPv6 (RFC 4443).
const UNREACHABLE_V6: u8 = 1;
const ECHO_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;

/// The header that every packet of IPv6 has.
const IPV6_HEADER: usize = 40;

/// Type, code, checksum, identifier and sequence number.
const HEADER: usize = 8;

/// As ping(8) sends: 56 bytes behind the header, of which the first tell the question.
const ECHO_BYTES: usize = HEADER + 56;

/// The first bytes behind the header; the number of the question follows.
const MAGIC: [u8; 8] = *b"heddle-p";

/// What waits in the socket at most, bytes: it hears what others ask this host as well.
const SOCKET_BYTES: usize = 1 << 20;

/// What came of asking one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// How often it was asked.
    pub sent: u32,
    /// How often it has answered.
    pub received: u32,
    /// Round-trip times in ns: the shortest, the mean and the longest. `None` without an answer.
    pub rtt_ns: Option<[u64; 3]>,
    /// What kept it from answering at last, in a word or a few; `None` if it has always answered.
    pub failure: Option<String>,
}

/// Of how many neighbours each host's entry may stay, if so many hosts ask each other.
pub fn remembered_max(hosts: usize) -> usize {
    (NEIGHBOURS_MAX / hosts.max(1)).max(1)
}

/// Asks hosts whether they are there, from the network of this process: those whose numbers come by standard input, a line each. When one has answered, or is not waited for
/// any more, an empty line goes to `out`. When the input ends, the last answers are waited for. All are of one version of IP; of IPv6 no neighbours are forgotten.
///
/// # Errors
/// If there is no raw socket to be had, the kernel does not wait, or `out` is closed.
pub fn ask(
    destinations: &[IpAddr],
    remembered_max: usize,
    patience: Span,
    out: &mut impl Write,
) -> Result<Vec<Answers>, Error> {
    let is_ipv6 = destinations.iter().any(IpAddr::is_ipv6);
    let mut asking = Asking {
        socket: open(is_ipv6)?,
        is_ipv6,
        clock: Monotonic::start()?,
        id: std::process::id() as u16,
        asker: Asker::new(destinations.len(), remembered_max),
        failures: vec![None; destinations.len()],
    };
    let (mut input, mut is_busy, mut has_ended) = (Vec::new(), false, false);
    loop {
        let now = asking.clock.now()?;
        let busy_until = asking.asker.busy_until(now);
        if is_busy && busy_until.is_none() {
            is_busy = false;
            let said = out.write_all(b"\n").and_then(|()| out.flush());
            said.map_err(|source| Error::System { step: "say that a host has answered", source })?;
        }
        let until = if is_busy { busy_until } else { None };
        let until = until.or_else(|| has_ended.then(|| asking.asker.open_until(now, patience)).flatten());
        if has_ended && until.is_none() {
            break;
        }
        if !is_busy && let Some(line) = take_line(&mut input) {
            if let Some(to) = line.trim().parse().ok().filter(|to| *to < destinations.len()) {
                asking.ask(now, to, destinations)?;
            }
            is_busy = true;
            continue;
        }
        let (came, is_readable) = asking.wait(until.map(|until| until.since(now)), !is_busy && !has_ended)?;
        if came {
            asking.receive()?;
        }
        if is_readable {
            has_ended = !read_more(&mut input)?;
        }
    }
    for destination in asking.asker.left_over() {
        asking.forget(destinations[destination])?;
    }
    Ok(asking.answers())
}

/// The next whole line.
fn take_line(input: &mut Vec<u8>) -> Option<String> {
    let end = input.iter().position(|byte| *byte == b'\n')?;
    let line: Vec<u8> = input.drain(..=end).collect();
    Some(String::from_utf8_lossy(&line).into_owned())
}

/// Reads more of standard input; false at its end.
fn read_more(input: &mut Vec<u8>) -> Result<bool, Error> {
    let mut bytes = [0; 256];
    match nix::unistd::read(io::stdin().as_fd(), &mut bytes) {
        Ok(n) => {
            input.extend_from_slice(&bytes[..n]);
            Ok(n > 0)
        }
        Err(Errno::EINTR) => Ok(true),
        Err(errno) => Err(Error::system("read whom to ask")(errno)),
    }
}

/// What asks and hears.
struct Asking {
    socket: OwnedFd,
    is_ipv6: bool,
    clock: Monotonic,
    /// By which answers are known from those of other programs.
    id: u16,
    asker: Asker,
    /// By destination: why there was no answer.
    failures: Vec<Option<String>>,
}

impl Asking {
    /// Has the kernel forget a neighbour. Those of IPv6 are a pair's, which is no burden.
    fn forget(&self, neighbour: IpAddr) -> Result<(), Error> {
        match neighbour {
            IpAddr::V4(neighbour) => neighbour::forget(&self.socket, neighbour),
            IpAddr::V6(_) => Ok(()),
        }
    }

    fn ask(&mut self, now: Time, to: usize, destinations: &[IpAddr]) -> Result<(), Error> {
        let (number, forgotten) = self.asker.ask(now, to);
        if let Some(forgotten) = forgotten {
            self.forget(destinations[forgotten])?;
        }
        if let Err(errno) = send(&self.socket, destinations[to], self.id, number) {
            self.asker.failed(number);
            self.failures[to] = Some(errno.desc().to_lowercase());
        }
        Ok(())
    }

    /// Waits for so long, or until something has come: to the socket, and, if that is to be looked at, by standard input.
    fn wait(&self, at_most: Option<Span>, with_input: bool) -> Result<(bool, bool), Error> {
        let stdin = io::stdin();
        let mut fds =
            [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN), PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        let fds = if with_input { &mut fds[..] } else { &mut fds[..1] };
        // Whole milliseconds, and never too short.
        let ms = at_most.map(|span| Duration::from_millis(span.as_ns().div_ceil(1_000_000)));
        let timeout = ms.map_or(PollTimeout::NONE, |ms| PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX));
        match poll(fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Error::system("wait for answers")(errno)),
        }
        let is_ready = |at: usize| fds.get(at).is_some_and(|fd| fd.any().unwrap_or(false));
        Ok((is_ready(0), is_ready(1)))
    }

    /// Takes all that has come.
    fn receive(&mut self) -> Result<(), Error> {
        let mut buffer = [0; 1_500];
        loop {
            let n = match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(n) => n,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(Error::system("receive answers")(errno)),
            };
            let now = self.clock.now()?;
            let heard = if self.is_ipv6 { read_v6(&buffer[..n], self.id) } else { read(&buffer[..n], self.id) };
            match heard {
                Some(Heard::Answer(number)) => self.asker.answered(now, number),
                Some(Heard::Unreachable(low, why)) => {
                    if let Some(to) = self.asker.open_question(low).and_then(|number| self.asker.failed(number)) {
                        self.failures[to] = Some(why.to_owned());
                    }
                }
                None => {}
            }
        }
    }

    fn answers(self) -> Vec<Answers> {
        let of = |(tally, failure): (&asker::Tally, Option<String>)| Answers {
            sent: tally.sent,
            received: tally.received,
            rtt_ns: (tally.received > 0)
                .then(|| [tally.min, tally.total / u64::from(tally.received), tally.max].map(Span::as_ns)),
            failure: (tally.received < tally.sent).then(|| failure.unwrap_or_else(|| "no answer".to_owned())),
        };
        self.asker.tallies().iter().zip(self.failures).map(of).collect()
    }
}

fn open(is_ipv6: bool) -> Result<OwnedFd, Error> {
    let (family, protocol) =
        if is_ipv6 { (AddressFamily::Inet6, SockProtocol::IcmpV6) } else { (AddressFamily::Inet, SockProtocol::Icmp) };
    let raw = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol);
    let raw = raw.map_err(Error::system("open a raw socket for ICMP"))?;
    // Less will do, too.
    let _ = setsockopt(&raw, sockopt::RcvBuf, &SOCKET_BYTES);
    Ok(raw)
}

fn send(socket: &OwnedFd, to: IpAddr, id: u16, number: u32) -> nix::Result<()> {
    let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    let sent = match to {
        IpAddr::V4(to) => {
            let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
            sendto(fd, &echo(ECHO, id, number), &to, flags)
        }
        // The kernel writes its checksum anew (RFC 3542, 3.1).
        IpAddr::V6(to) => {
            let to = SockaddrIn6::from(SocketAddrV6::new(to, 0, 0, 0));
            sendto(fd, &echo(ECHO_V6, id, number), &to, flags)
        }
    };
    sent.map(drop)
}

/// An echo message.
fn echo(kind: u8, id: u16, number: u32) -> [u8; ECHO_BYTES] {
    let mut message = [0; ECHO_BYTES];
    message[0] = kind;
    message[4..6].copy_from_slice(&id.to_be_bytes());
    message[6..8].copy_from_slice(&(number as u16).to_be_bytes());
    message[8..16].copy_from_slice(&MAGIC);
    message[16..20].copy_from_slice(&number.to_be_bytes());
    let sum = checksum::internet(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// What came of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// The answer to the one with this number.
    Answer(u32),
    /// Somebody says that the one whose number ends so comes nowhere, and why.
    Unreachable(u16, &'static str),
}

/// Reads what a raw socket has received: an IPv4 packet. Those of others are none of ours.
fn read(packet: &[u8], id: u16) -> Option<Heard> {
    let packet = Ipv4Packet::new_checked(packet).ok()?;
    let message = packet.payload();
    let (header, rest) = message.split_at_checked(HEADER)?;
    match header[0] {
        ECHO_REPLY if is_own(header, id) => answer(rest),
        // What it is about stands in it: a header of IPv4, and eight bytes behind that. It may be cut there, and says otherwise.
        UNREACHABLE => {
            let inner = rest.get(usize::from(rest.first()? & 0xf) * 4..)?.get(..HEADER)?;
            let is_icmp = *rest.get(9)? == protocol::ICMP;
            let low = u16::from_be_bytes([inner[6], inner[7]]);
            (is_icmp && inner[0] == ECHO && is_own(inner, id))
                .then_some(Heard::Unreachable(low, unreachable(header[1])))
        }
        _ => None,
    }
}

/// The same of IPv6: a raw socket gives the message alone. Of what it is about, only a packet without extension headers is ours.
fn read_v6(message: &[u8], id: u16) -> Option<Heard> {
    let (header, rest) = message.split_at_checked(HEADER)?;
    match header[0] {
        ECHO_REPLY_V6 if is_own(header, id) => answer(rest),
        UNREACHABLE_V6 => {
            let inner = rest.get(IPV6_HEADER..)?.get(..HEADER)?;
            let is_icmp = rest[6] == protocol::ICMPV6;
            let low = u16::from_be_bytes([inner[6], inner[7]]);
            let is_own_question = is_icmp && inner[0] == ECHO_V6 && is_own(inner, id);
            is_own_question.then_some(Heard::Unreachable(low, unreachable_v6(header[1])))
        }
        _ => None,
    }
}

/// Which question an answer is for.
fn answer(rest: &[u8]) -> Option<Heard> {
    let number = rest.strip_prefix(&MAGIC)?.first_chunk()?;
    Some(Heard::Answer(u32::from_be_bytes(*number)))
}

fn is_own(header: &[u8], id: u16) -> bool {
    header[4..6] == id.to_be_bytes()
}

/// RFC 792 and RFC 1812, 5.2.7.1.
const fn unreachable(code: u8) -> &'static str {
    match code {
        0 => "network unreachable",
        1 => "host unreachable",
        9 | 10 | 13 => "forbidden",
        _ => "unreachable",
    }
}

/// RFC 4443, 3.1.
const fn unreachable_v6(code: u8) -> &'static str {
    match code {
        0 => "network unreachable",
        1 | 5 => "forbidden",
        3 => "host unreachable",
        _ => "unreachable",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An IPv4 packet with this message.
    fn packet(message: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol::ICMP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend_from_slice(message);
        let length = (packet.len() as u16).to_be_bytes();
        packet[2..4].copy_from_slice(&length);
        packet
    }

    #[test]
    fn an_answer_says_which_question_it_is_for() {
        let mut message = echo(ECHO, 77, 70_000);
        assert_eq!(checksum::internet(&message), 0);
        assert_eq!(read(&packet(&message), 77), None, "a question is no answer");
        message[0] = ECHO_REPLY;
        assert_eq!(read(&packet(&message), 77), Some(Heard::Answer(70_000)));
        assert_eq!(read(&packet(&message), 78), None, "it is another program's");
        let mut unreachable = vec![UNREACHABLE, 1, 0, 0, 0, 0, 0, 0];
        unreachable.extend(&packet(&echo(ECHO, 77, 70_000))[..28]);
        assert_eq!(read(&packet(&unreachable), 77), Some(Heard::Unreachable(70_000_u32 as u16, "host unreachable")));
        assert_eq!(read(&packet(&unreachable), 78), None);
    }

    #[test]
    fn an_answer_of_ipv6_does_so_as_well() {
        let mut message = echo(ECHO_V6, 77, 70_000);
        let mut unreachable = vec![UNREACHABLE_V6, 3, 0, 0, 0, 0, 0, 0];
        let mut header = [0; IPV6_HEADER];
        header[6] = protocol::ICMPV6;
        unreachable.extend(header);
        unreachable.extend(&message[..HEADER]);
        assert_eq!(read_v6(&message, 77), None, "a question is no answer");
        message[0] = ECHO_REPLY_V6;
        assert_eq!(read_v6(&message, 77), Some(Heard::Answer(70_000)));
        assert_eq!(read_v6(&message, 78), None, "it is another program's");
        assert_eq!(read_v6(&unreachable, 77), Some(Heard::Unreachable(70_000_u32 as u16, "host unreachable")));
        unreachable[HEADER + 6] = protocol::UDP;
        assert_eq!(read_v6(&unreachable, 77), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_left(bytes in proptest::collection::vec(any::<u8>(), 0..80), id: u16, kind in 0_u8..4) {
            let _ = read(&bytes, id);
            let _ = read(&packet(&[&[kind, 0, 0, 0], &*bytes].concat()), id);
            let _ = read_v6(&bytes, id);
            let _ = read_v6(&[&[kind, 0, 0, 0], &*bytes].concat(), id);
        }
    }
}
