//! A script between two hosts of this kernel, each a network namespace with a TAP whose far end is the path.
//!
//! The TAPs offer no offloads, so each segment is a frame, and what the kernel makes of a frame happens within the write. One thread does all: it is path, and both applications.
#![allow(unsafe_code)]

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use machine::{Span, Time};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, socket, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use transport::linux::{Settings, Sysctl};
use transport::{Ecn, ReceiveWindow};
use wire::{EthernetPacket, Ipv4Packet, Ipv4PacketMut, TcpPacket, protocol, tcp_flags};

use crate::segments::path::{Markable, Path};
use crate::segments::script::{SEGMENT, Script, WINDOW};
use crate::segments::trace::{Contents, Direction, Event, Offered, Trace};
use crate::segments::{LIMIT, QUIET};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const PORT: u16 = 5_001;
const DEVICE: &str = "eth0";
/// Where IP's header begins: Ethernet's has no tag.
const IP: usize = 14;
/// Where TCP's header begins: IP's has no options.
const TCP: usize = IP + 20;
/// A tick, nanoseconds.
const TICK_NS: u64 = 4_000_000;
/// The longest step of the kernel's timer wheel that plays come to, and a multiple of all shorter ones, in ticks.
const WHEEL: u64 = 32_768;

/// What a receiver offers, bytes.
const WINDOW_BYTES: u64 = WINDOW as u64 * SEGMENT;

/// The host with this number: 1 sends, 2 receives.
struct Host<S> {
    tap: File,
    socket: S,
}

const fn address(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host)
}

/// Makes a host in a namespace of its own, which lasts as long as its socket.
fn make<S: Send>(
    host: u8,
    (settings, is_auto): (&Settings, bool),
    open: impl FnOnce() -> Result<S> + Send,
) -> Result<Host<S>> {
    thread::scope(|scope| {
        let made = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let tap = tap()?;
            set_up(host, settings, is_auto)?;
            Ok(Host { tap, socket: open()? })
        });
        made.join().unwrap_or_else(|_| Err("the thread that makes a host has panicked".into()))
    })
}

fn tap() -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    // SAFETY: an all-zero `ifreq` is valid: names, unions of integers, and a null pointer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(DEVICE.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which outlives the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `is_auto`: it finds out by itself what it offers.
fn set_up(host: u8, settings: &Settings, is_auto: bool) -> Result<()> {
    let other = 3 - host;
    let set = |name: &str, value: &str| -> Result<()> {
        fs::write(format!("/proc/sys/net/{name}"), value).map_err(|error| format!("{name} = {value}: {error}").into())
    };
    set("ipv6/conf/all/disable_ipv6", "1")?;
    // The largest window is offered from the beginning, in steps of eight bytes.
    let fixed = format!("route replace {}/32 dev {DEVICE} window {WINDOW_BYTES}", address(other));
    for line in [
        format!("link set {DEVICE} address 02:00:00:00:00:0{host} mtu 1500 up"),
        format!("address add {}/24 dev {DEVICE}", address(host)),
        format!("neighbour add {} lladdr 02:00:00:00:00:0{other} dev {DEVICE} nud permanent", address(other)),
    ]
    .into_iter()
    .chain((!is_auto).then_some(fixed))
    {
        let done = Command::new("ip").args(line.split(' ')).status()?;
        if !done.success() {
            return Err(format!("ip {line} has failed").into());
        }
    }
    set("ipv4/tcp_rmem", if is_auto { "4096 131072 6291456" } else { "4096 4194304 4194304" })?;
    set("ipv4/tcp_moderate_rcvbuf", if is_auto { "1" } else { "0" })?;
    set("ipv4/tcp_wmem", "4096 8388608 8388608")?;
    for sysctl in Sysctl::ALL {
        set(&format!("ipv4/{}", sysctl.name()), &sysctl.get(settings).to_string())?;
    }
    Ok(())
}

/// The congestion control of a socket: a namespace's own may be one of a list only.
fn control(socket: &impl AsFd, script: &Script) -> nix::Result<()> {
    setsockopt(socket, sockopt::TcpCongestion, &script.settings.congestion_control.name().into())
}

/// Has the receiver's window grow no more. A window that grows has every segment acknowledged by itself (`__tcp_grow_window`), and the first segment,
/// which says how much memory segments take, has forgotten what the route says (`tcp_measure_rcv_mss`).
fn clamp_window(socket: &TcpStream) -> io::Result<()> {
    let bytes = WINDOW_BYTES as libc::c_int;
    let (pointer, len) = ((&raw const bytes).cast(), size_of_val(&bytes) as libc::socklen_t);
    // SAFETY: setsockopt(2) reads `len` bytes of `bytes`, which outlives the call.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, pointer, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The kernel's monotonic clock, as its timers have it: a tick whose number is a multiple of [`WHEEL`] is so here, too.
struct Clock {
    ahead_ns: u64,
}

impl Clock {
    fn new() -> Result<Self> {
        let find = |text: &str, key: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse().ok()
        };
        for _ in 0..1_000 {
            let before = Self::monotonic_ns()? / TICK_NS;
            let text = fs::read_to_string("/proc/timer_list")?;
            let after = Self::monotonic_ns()? / TICK_NS;
            let ticks = find(&text, "jiffies:").ok_or("no jiffies in /proc/timer_list")?;
            if before == after {
                return Ok(Self { ahead_ns: (ticks - before) % WHEEL * TICK_NS });
            }
        }
        Err("the kernel takes longer than a tick to say which tick it is".into())
    }

    fn monotonic_ns() -> nix::Result<u64> {
        Ok(Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?).as_nanos() as u64)
    }

    /// Half a millisecond behind a tick begins what takes whole milliseconds on its way: it does not matter then that a host takes some microseconds.
    fn sleep_until_tick(&self) -> Result<()> {
        let now = self.now()?.as_ns();
        thread::sleep(Duration::from_nanos(TICK_NS - now % TICK_NS + TICK_NS / 8));
        Ok(())
    }

    fn now(&self) -> nix::Result<Time> {
        Ok(Time::from_ns(Self::monotonic_ns()? + self.ahead_ns))
    }
}

#[derive(Clone)]
struct Packet {
    frame: Vec<u8>,
    is_data: bool,
    /// What it acknowledges.
    ack: u64,
}

impl Markable for Packet {
    fn mark(&mut self) -> bool {
        Ipv4PacketMut::new_checked(&mut self.frame[IP..]).is_ok_and(|mut ip| ip.mark_congestion())
    }
}

struct Play<'a> {
    script: &'a Script,
    clock: Clock,
    sender: Host<TcpStream>,
    receiver: Host<TcpListener>,
    accepted: Option<TcpStream>,
    has_data: bool,
    path: Path<Packet>,
    trace: Trace,
    /// The sequence number of the stream's first byte, once it is known.
    first_seq: u32,
    /// The shift of the receiver's window.
    shift: u8,
    acknowledged: u64,
    /// Bytes that the application has to write yet.
    to_write: u64,
    /// What it reads into.
    buffer: Vec<u8>,
}

/// Plays a script.
pub fn play(script: &Script) -> Result<Trace> {
    let receiver = make(2, (&script.receiver, script.is_auto()), || {
        let listener = TcpListener::bind((address(2), PORT))?;
        control(&listener, script)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    })?;
    let sender = make(1, (&script.settings, script.is_auto()), || {
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_NONBLOCK, None)?;
        control(&socket, script)?;
        Ok(socket)
    })?;
    let Host { tap, socket } = sender;
    let clock = Clock::new()?;
    clock.sleep_until_tick()?;
    let to = SockaddrIn::from(SocketAddrV4::new(address(2), PORT));
    let mut play = Play {
        script,
        clock,
        sender: Host { tap, socket: TcpStream::from(socket) },
        receiver,
        accepted: None,
        has_data: false,
        path: Path::new(script),
        trace: Trace::default(),
        first_seq: 0,
        shift: 0,
        acknowledged: 0,
        to_write: 0,
        buffer: vec![0; 1 << 22],
    };
    match connect(play.sender.socket.as_raw_fd(), &to) {
        Ok(()) | Err(Errno::EINPROGRESS) => play.run()?,
        Err(errno) => return Err(errno.into()),
    }
    Ok(play.trace)
}

impl Play<'_> {
    fn run(&mut self) -> Result<()> {
        let start = self.clock.now()?;
        let (mut busy, all) = (start, self.script.segments() * SEGMENT);
        let mut writes = self.script.writes.iter().peekable();
        loop {
            let now = self.clock.now()?;
            while let Some((_, segments)) = writes.next_if(|(at, _)| start + *at <= now) {
                self.to_write += segments * SEGMENT;
            }
            if self.work(now)? {
                busy = now;
                continue;
            }
            let write = writes.peek().map_or(Time::NEVER, |(at, _)| start + *at);
            let pending = self.path.next() < Time::NEVER || self.acknowledged < all;
            if now > start + LIMIT || (!pending && now > busy + QUIET) {
                return Ok(());
            }
            self.sleep(self.path.next().min(write).min(now + QUIET))?;
        }
    }

    /// Does what is due. Whether there was anything.
    fn work(&mut self, now: Time) -> Result<bool> {
        let mut did = false;
        if let Some((direction, packet)) = self.path.take(now) {
            let mut tap = match direction {
                Direction::Forth => &self.receiver.tap,
                Direction::Back => &self.sender.tap,
            };
            tap.write_all(&packet.frame)?;
            self.acknowledged = self.acknowledged.max(packet.ack);
            if packet.is_data
                && !self.script.is_auto()
                && let Some(stream) = &self.accepted
                && !core::mem::replace(&mut self.has_data, true)
            {
                clamp_window(stream)?;
            }
            did = true;
        }
        for from in [Direction::Forth, Direction::Back] {
            did |= self.read_frames(from)?;
        }
        did |= self.read_data()?;
        did |= self.write_data()?;
        Ok(did)
    }

    fn read_frames(&mut self, from: Direction) -> Result<bool> {
        let mut buffer = [0; 2_048];
        let mut did = false;
        loop {
            let mut tap = match from {
                Direction::Forth => &self.sender.tap,
                Direction::Back => &self.receiver.tap,
            };
            match tap.read(&mut buffer) {
                Ok(len) => self.on_frame(&buffer[..len])?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(did),
                Err(error) => return Err(error.into()),
            }
            did = true;
        }
    }

    fn on_frame(&mut self, frame: &[u8]) -> Result<()> {
        let at = self.clock.now()?;
        let Some((what, ecn)) = self.parse(frame)? else { return Ok(()) };
        let mut frame = frame.to_vec();
        if let (Some(ReceiveWindow::Segments(window)), Direction::Back) = (self.script.window, what.direction()) {
            // The window of an answer to a SYN is not shifted.
            let shift = if matches!(what, Contents::SynAck { .. }) { 0 } else { self.shift };
            offer_window(&mut frame, (u64::from(window) * SEGMENT) >> shift);
        }
        let ack = if let Contents::Ack { ack, .. } = what { ack } else { 0 };
        let packet = Packet { frame, is_data: matches!(what, Contents::Data { .. }), ack };
        let mark = self.path.offer(at, &what, packet);
        self.trace.events.push(Event { at, what, ecn: ecn.and(mark) });
        Ok(())
    }

    fn parse(&mut self, frame: &[u8]) -> Result<Option<(Contents, Ecn)>> {
        let ethernet = EthernetPacket::new_checked(frame)?;
        let Ok(ip) = Ipv4Packet::new_checked(ethernet.payload()) else { return Ok(None) };
        if ip.protocol() != protocol::TCP {
            return Ok(None);
        }
        let tcp = TcpPacket::new_checked(ip.payload())?;
        let (flags, is_answer) = (tcp.flags(), ip.src() == address(2));
        if flags & tcp_flags::RST != 0 {
            return Err("a connection was reset".into());
        }
        let offset = |seq: u32| u64::from(seq.wrapping_sub(self.first_seq));
        let offered = |shift: u8| Offered(self.script.is_auto().then(|| u64::from(tcp.window()) << shift));
        let what = match (flags & tcp_flags::SYN != 0, is_answer) {
            (true, false) => {
                self.first_seq = tcp.seq().wrapping_add(1);
                Contents::Syn
            }
            (true, true) => {
                self.shift = option(tcp.options(), 3).and_then(|shift| shift.first().copied()).unwrap_or(0);
                Contents::SynAck { window: offered(0) }
            }
            (false, false) if tcp.payload().is_empty() => Contents::Answer,
            (false, false) => Contents::Data {
                start: offset(tcp.seq()),
                len: tcp.payload().len() as u64,
                push: flags & tcp_flags::PSH != 0,
            },
            (false, true) => {
                let word = |bytes: &[u8]| offset(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
                let blocks = option(tcp.options(), 5).unwrap_or_default();
                let blocks = blocks.chunks_exact(8).map(|block| (word(block), word(&block[4..]))).collect();
                Contents::Ack { ack: offset(tcp.ack()), blocks, window: offered(self.shift) }
            }
        };
        Ok(Some((what, ecn_of(&ip, flags))))
    }

    /// The receiving application reads at once.
    fn read_data(&mut self) -> Result<bool> {
        if self.accepted.is_none() {
            match self.receiver.socket.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    self.accepted = Some(stream);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        let Some(stream) = &mut self.accepted else { return Ok(false) };
        // As much as there may be: a read that leaves something shows in what the receiver offers.
        match stream.read(&mut self.buffer) {
            Ok(0) => Err("the sender has closed".into()),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn write_data(&mut self) -> Result<bool> {
        let is_open = self.trace.events.iter().any(|event| event.what == Contents::Answer);
        if self.to_write == 0 || !is_open {
            return Ok(false);
        }
        match self.sender.socket.write(&vec![0; self.to_write as usize]) {
            Ok(written) => {
                self.to_write -= written as u64;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sleeps until a host has sent something, or until then.
    fn sleep(&self, until: Time) -> Result<()> {
        let left = Span::from_ps(until.as_ps().saturating_sub(self.clock.now()?.as_ps()));
        let mut taps = [&self.sender.tap, &self.receiver.tap].map(|tap| PollFd::new(tap.as_fd(), PollFlags::POLLIN));
        match ppoll(&mut taps, Some(TimeSpec::from(Duration::from_nanos(left.as_ns()))), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// What a segment says about congestion that has left a host.
const fn ecn_of(ip: &Ipv4Packet<'_>, flags: u8) -> Ecn {
    let ecn = Ecn::ECT.only_if(ip.traffic_class() & 0b11 != 0);
    let ecn = ecn.and(Ecn::ECE.only_if(flags & tcp_flags::ECE != 0));
    ecn.and(Ecn::CWR.only_if(flags & tcp_flags::CWR != 0))
}

/// What follows the kind and the length of a TCP option.
fn option(mut options: &[u8], kind: u8) -> Option<&[u8]> {
    loop {
        match *options {
            [1, ref rest @ ..] => options = rest,
            [found, len, ..] if found != 0 && len >= 2 => {
                let (option, rest) = options.split_at_checked(usize::from(len))?;
                if found == kind {
                    return Some(&option[2..]);
                }
                options = rest;
            }
            _ => return None,
        }
    }
}

/// Says that the receiver offers so much.
fn offer_window(frame: &mut [u8], window: u64) {
    const WINDOW: usize = TCP + 14;
    const CHECKSUM: usize = TCP + 16;
    let new = (window.min(u64::from(u16::MAX)) as u16).to_be_bytes();
    let old = [frame[WINDOW], frame[WINDOW + 1]];
    frame[WINDOW..WINDOW + 2].copy_from_slice(&new);
    let checksum = u16::from_be_bytes([frame[CHECKSUM], frame[CHECKSUM + 1]]);
    let checksum = wire::checksum::update(checksum, &old, &new);
    frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
}
