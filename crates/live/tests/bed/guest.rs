//! The driver's side of vhost-user: a guest of tests, which sends and receives frames by rings in a file of shared memory, and misbehaves when it is asked to.
//!
//! It reads and writes its memory as a file, which is the same memory.
#![allow(dead_code, reason = "two programs have it, and each uses a part")]

use std::fs::File;
use std::io::{IoSlice, Read as _};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

pub const CTRL_VQ: u64 = 1 << 17;
pub const MQ: u64 = 1 << 22;
pub const MRG_RXBUF: u64 = 1 << 15;
pub const INDIRECT_DESC: u64 = 1 << 28;
pub const EVENT_IDX: u64 = 1 << 29;
pub const PROTOCOL_FEATURES: u64 = 1 << 30;
pub const VERSION_1: u64 = 1 << 32;

/// Requests of the protocol.
pub const GET_FEATURES: u32 = 1;
pub const SET_FEATURES: u32 = 2;
pub const SET_OWNER: u32 = 3;
pub const SET_MEM_TABLE: u32 = 5;
pub const SET_VRING_NUM: u32 = 8;
pub const SET_VRING_ADDR: u32 = 9;
pub const SET_VRING_BASE: u32 = 10;
pub const GET_VRING_BASE: u32 = 11;
pub const SET_VRING_KICK: u32 = 12;
pub const SET_VRING_CALL: u32 = 13;
pub const GET_QUEUE_NUM: u32 = 17;
pub const SET_VRING_ENABLE: u32 = 18;
pub const GET_CONFIG: u32 = 24;

/// The memory: where it is in the guest, in the front end, and its length.
pub const GUEST: u64 = 0x4000_0000;
pub const USER: u64 = 0x7f00_0000_0000;
pub const MEMORY: u64 = 8 << 20;

/// The descriptors of each ring.
pub const SIZE: u16 = 64;
/// Bytes of each buffer.
pub const BUFFER: u64 = 2_048;
/// The most rings: there is memory for so many.
pub const RINGS: usize = 8;
/// The rings of the first pair: where what the guest gets, and what it sends. Those of the others follow.
pub const RECEIVEQ: usize = 0;
pub const TRANSMITQ: usize = 1;

const F_NEXT: u16 = 1;
const F_WRITE: u16 = 2;

/// Where the parts of a ring and its buffers are in the memory.
pub fn descriptors(ring: usize) -> u64 {
    ring as u64 * 0x10_0000
}

pub fn available(ring: usize) -> u64 {
    descriptors(ring) + 0x1_0000
}

pub fn used(ring: usize) -> u64 {
    descriptors(ring) + 0x2_0000
}

pub fn buffer(ring: usize, index: u16) -> u64 {
    descriptors(ring) + 0x4_0000 + u64::from(index) * BUFFER
}

/// A guest.
#[derive(Debug)]
pub struct Guest {
    pub stream: UnixStream,
    pub memory: File,
    kicks: [EventFd; RINGS],
    pub calls: [EventFd; RINGS],
    features: u64,
    /// By ring: how many chains were made available, and how many used ones were seen.
    made: [u16; RINGS],
    seen: [u16; RINGS],
}

impl Guest {
    /// Connects, and says nothing yet.
    pub fn connect(path: &Path) -> Self {
        let started = Instant::now();
        let stream = loop {
            match UnixStream::connect(path) {
                Ok(stream) => break stream,
                Err(error) => assert!(started.elapsed() < Duration::from_secs(60), "{}: {error}", path.display()),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        Self::over(stream)
    }

    /// The same by a connection that is there.
    pub fn over(stream: UnixStream) -> Self {
        let memory = File::from(memfd_create("guest", MFdFlags::MFD_CLOEXEC).unwrap());
        memory.set_len(MEMORY).unwrap();
        let eventfd = || EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).unwrap();
        let eventfds = || std::array::from_fn(|_| eventfd());
        Self { stream, memory, kicks: eventfds(), calls: eventfds(), features: 0, made: [0; RINGS], seen: [0; RINGS] }
    }

    /// Connects and attaches.
    pub fn attach(path: &Path, features: u64) -> Self {
        let mut guest = Self::connect(path);
        guest.set_up(features);
        guest
    }

    /// Attaches: memory, rings, buffers to be filled.
    pub fn set_up(&mut self, features: u64) {
        self.begin(features);
        self.share_memory(&[(GUEST, MEMORY, USER, 0)]);
        self.start_pair(0);
    }

    /// Has the rings of a pair run, with buffers to be filled.
    pub fn start_pair(&mut self, pair: usize) {
        let (receiveq, transmitq) = (2 * pair, 2 * pair + 1);
        // Who gets frames by it sends by it as well.
        self.start(transmitq);
        self.start(receiveq);
        for index in 0..SIZE {
            self.describe(receiveq, index, (GUEST + buffer(receiveq, index), BUFFER as u32), F_WRITE, 0);
            self.make_available(receiveq, index);
        }
    }

    /// Agrees on features.
    pub fn begin(&mut self, features: u64) {
        self.request(SET_OWNER, &[], &[]);
        let offered = self.ask(GET_FEATURES, &[]);
        let offered = u64::from_le_bytes(offered[..8].try_into().unwrap());
        assert_eq!(features & !offered, 0, "not offered");
        self.features = features | PROTOCOL_FEATURES;
        self.request(SET_FEATURES, &self.features.to_le_bytes(), &[]);
    }

    /// Says where memory is: guest address, length, user address, offset of each part.
    pub fn share_memory(&self, regions: &[(u64, u64, u64, u64)]) {
        let mut payload = [(regions.len() as u32).to_le_bytes(), [0; 4]].concat();
        for (guest, len, user, offset) in regions {
            payload.extend([guest, len, user, offset].map(|word| word.to_le_bytes()).concat());
        }
        let files = vec![self.memory.as_raw_fd(); regions.len()];
        self.request(SET_MEM_TABLE, &payload, &files);
    }

    /// Has a ring run from where it is.
    pub fn start(&self, ring: usize) {
        let index = ring as u32;
        self.request(SET_VRING_NUM, &pair(index, SIZE.into()), &[]);
        self.request(SET_VRING_BASE, &pair(index, self.seen[ring].into()), &[]);
        self.set_addresses(ring, [descriptors(ring), used(ring), available(ring)].map(|at| USER + at));
        let eventfds = |eventfds: &[EventFd; RINGS]| [eventfds[ring].as_fd().as_raw_fd()];
        self.request(SET_VRING_CALL, &u64::from(index).to_le_bytes(), &eventfds(&self.calls));
        self.request(SET_VRING_KICK, &u64::from(index).to_le_bytes(), &eventfds(&self.kicks));
        self.request(SET_VRING_ENABLE, &pair(index, 1), &[]);
    }

    /// Has a ring run again that was stopped.
    pub fn restart(&self, ring: usize) {
        let kick = self.kicks[ring].as_fd().as_raw_fd();
        self.request(SET_VRING_KICK, &(ring as u64).to_le_bytes(), &[kick]);
    }

    /// Says where the parts of a ring are: descriptors, used, available.
    pub fn set_addresses(&self, ring: usize, at: [u64; 3]) {
        let words = at.map(u64::to_le_bytes).concat();
        self.request(SET_VRING_ADDR, &[&pair(ring as u32, 0), words.as_slice(), &[0; 8]].concat(), &[]);
    }

    /// Sends a request. Whoever was cut off notices it later.
    pub fn request(&self, code: u32, payload: &[u8], files: &[RawFd]) {
        let header = [code, 1, payload.len() as u32].map(u32::to_le_bytes).concat();
        self.say(&[header.as_slice(), payload].concat(), files);
    }

    /// Sends any bytes.
    pub fn say(&self, bytes: &[u8], files: &[RawFd]) {
        let files = [ControlMessage::ScmRights(files)];
        let files = if matches!(files[0], ControlMessage::ScmRights([])) { &[][..] } else { &files };
        let _ = sendmsg::<()>(self.stream.as_raw_fd(), &[IoSlice::new(bytes)], files, MsgFlags::MSG_NOSIGNAL, None);
    }

    /// Sends a request and reads the reply's payload.
    pub fn ask(&mut self, code: u32, payload: &[u8]) -> Vec<u8> {
        self.request(code, payload, &[]);
        let mut header = [0; 12];
        self.stream.read_exact(&mut header).expect("a reply");
        let mut payload = vec![0; u32::from_le_bytes(header[8..].try_into().unwrap()) as usize];
        self.stream.read_exact(&mut payload).expect("the rest of a reply");
        payload
    }

    /// Whether it has been cut off: the connection has ended.
    pub fn is_cut_off(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        match self.stream.read(&mut [0; 64]) {
            Ok(n) => n == 0,
            Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
        }
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    pub fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    fn half(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.read(at, 2).try_into().unwrap())
    }

    /// Writes a descriptor: a buffer at an address of the guest.
    pub fn describe(&self, ring: usize, index: u16, (addr, len): (u64, u32), flags: u16, next: u16) {
        let descriptor =
            [addr.to_le_bytes().as_slice(), &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat();
        self.write(descriptors(ring) + 16 * u64::from(index), &descriptor);
    }

    /// Makes the chain available that begins at `head`, and kicks.
    pub fn make_available(&mut self, ring: usize, head: u16) {
        let made = self.made[ring];
        self.write(available(ring) + 4 + 2 * u64::from(made % SIZE), &head.to_le_bytes());
        self.made[ring] = made.wrapping_add(1);
        self.write(available(ring) + 2, &self.made[ring].to_le_bytes());
        self.kick(ring);
    }

    pub fn kick(&self, ring: usize) {
        let _ = self.kicks[ring].write(1);
    }

    pub const fn header(&self) -> usize {
        if self.features & (VERSION_1 | MRG_RXBUF) == 0 { 10 } else { 12 }
    }

    /// Sends a frame with this header in front of it, in one buffer. It waits until there is a free one.
    pub fn send_with(&mut self, header: &[u8], frame: &[u8]) {
        self.send_by(0, header, frame);
    }

    /// The same by a pair of queues.
    pub fn send_by(&mut self, pair: usize, header: &[u8], frame: &[u8]) {
        let ring = 2 * pair + 1;
        let sent = self.made[ring];
        if sent.wrapping_sub(self.used_index(ring)) >= SIZE {
            self.await_used(ring, sent.wrapping_sub(SIZE).wrapping_add(1));
        }
        let index = sent % SIZE;
        let mut bytes = header.to_vec();
        bytes.resize(self.header(), 0);
        bytes.extend(frame);
        self.write(buffer(ring, index), &bytes);
        self.describe(ring, index, (GUEST + buffer(ring, index), bytes.len() as u32), 0, 0);
        self.make_available(ring, index);
    }

    pub fn send(&mut self, frame: &[u8]) {
        self.send_with(&[], frame);
    }

    /// Sends what is in these pieces of memory, each an address of the guest and a length, as one chain.
    pub fn send_chain(&mut self, pieces: &[(u64, u32)]) {
        for (at, piece) in pieces.iter().enumerate() {
            let is_last = at + 1 == pieces.len();
            self.describe(TRANSMITQ, at as u16, *piece, if is_last { 0 } else { F_NEXT }, at as u16 + 1);
        }
        self.make_available(TRANSMITQ, 0);
    }

    /// How many chains of a ring were made available.
    pub const fn made(&self, ring: usize) -> u16 {
        self.made[ring]
    }

    pub fn used_index(&self, ring: usize) -> u16 {
        self.half(used(ring) + 2)
    }

    /// Waits until the device has used so many chains of a ring.
    pub fn await_used(&self, ring: usize, index: u16) {
        let started = Instant::now();
        while self.used_index(ring).wrapping_sub(index) > u16::MAX / 2 {
            assert!(started.elapsed() < Duration::from_secs(60), "chain {index} of ring {ring} was not used");
            std::thread::yield_now();
        }
    }

    /// The next frame that has come, with its header. Its buffers may be filled again.
    pub fn receive(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.receive_by(0)
    }

    /// The same by a pair of queues.
    pub fn receive_by(&mut self, pair: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let ring = 2 * pair;
        let (mut header, mut frame, mut left) = (Vec::new(), Vec::new(), 1_u16);
        if self.used_index(ring) == self.seen[ring] {
            return None;
        }
        while left > 0 {
            let seen = self.seen[ring];
            assert_ne!(self.used_index(ring), seen, "a frame that has come in part");
            let element = self.read(used(ring) + 4 + 8 * u64::from(seen % SIZE), 8);
            let head = u32::from_le_bytes(element[..4].try_into().unwrap()) as u16;
            let len = u32::from_le_bytes(element[4..].try_into().unwrap());
            let mut bytes = self.read(buffer(ring, head), len as usize);
            if header.is_empty() {
                let rest = bytes.split_off(self.header());
                header = std::mem::replace(&mut bytes, rest);
                left = header.get(10..12).map_or(1, |count| u16::from_le_bytes(count.try_into().unwrap()));
            }
            frame.extend(bytes);
            left -= 1;
            self.seen[ring] = seen.wrapping_add(1);
            self.make_available(ring, head);
        }
        Some((header, frame))
    }

    /// Gives a command by this ring: how many pairs of queues are used. Whether it was done.
    pub fn command_pairs(&mut self, ring: usize, pairs: u16) -> bool {
        let [low, high] = pairs.to_le_bytes();
        let at = GUEST + buffer(ring, 0);
        self.write(buffer(ring, 0), &[4, 0, low, high, 0xff]);
        for (index, (offset, len, flags)) in [(0, 2, F_NEXT), (2, 2, F_NEXT), (4, 1, F_WRITE)].into_iter().enumerate() {
            self.describe(ring, index as u16, (at + offset, len), flags, index as u16 + 1);
        }
        self.make_available(ring, 0);
        self.await_used(ring, self.made[ring]);
        match self.read(buffer(ring, 0) + 4, 1)[..] {
            [0] => true,
            [1] => false,
            ref other => panic!("no answer to a command: {other:?}"),
        }
    }
}

pub fn pair(a: u32, b: u32) -> [u8; 8] {
    [a.to_le_bytes(), b.to_le_bytes()].concat().try_into().unwrap()
}
