//! A guest or a program behind a vhost-user socket as a port: its rings are in memory that both share, so that a frame is copied once on its way in and once on its
//! way out, and while there is work nobody calls the kernel (`docs/decisions/0061-guests-at-vhost-user-sockets.md`).
//!
//! ```text
//!  front end (QEMU, User-Mode Linux, DPDK) -- socket --> control: a thread that says where rings and memory are
//!        | kick                                             | changes the rings between two bursts
//!        v                                                  v
//!  worker: transmitq -> network, network -> receiveq     Shared
//! ```
//!
//! There may be several pairs of queues. What the guest sends is taken from one after the other, so many frames at a time; what it gets is spread over those that it uses by the hash
//! of the flow, so that a flow stays in order.
//!
//! The guest may write nonsense at any time. It is found out where it is read ([`crate::virtqueue`]); the guest is cut off then, and may connect again.

mod backend;
mod commands;
mod connection;
mod control;
pub mod message;
mod shared;
mod socketless;
#[cfg(test)]
mod tests;

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use topology::VhostUserDevice;
use vswitch::FlowKey;
use vswitch::spread::ecmp;

pub use self::socketless::Socketless;

use self::control::{Control, Endpoint, Listener};
use self::shared::{Rings, Shared};
use crate::port::{Fault, Port, RxBurst, TxFrames, Unsent};
use crate::tap::VNET_HEADER;
use crate::virtqueue::Finisher;

/// Bursts that find nothing before the worker waits for the guest's kick: to be kicked and to wake up costs both as much as many frames.
const IDLE_BURSTS: u32 = 64;

/// Frames that are taken from one pair of queues before the next one has its turn.
const TURN_FRAMES: usize = 16;

/// What the hash by which flows are spread over pairs of queues is salted with: what comes here may have been chosen by the same hash before.
const SALT: u64 = 0x7669_7274_696f;

/// The folder of sockets that the file does not name, in the network's runtime folder.
const FOLDER: &str = "vhost-user";

/// A socket, and who serves it. The socket is gone when this is dropped.
#[derive(Debug)]
pub struct Attachment {
    path: PathBuf,
    shared: Arc<Shared>,
    _control: Control,
}

/// Where sockets are.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The folder that names in the file are relative to.
    pub folder: &'a Path,
    /// The network's runtime folder.
    pub runtime: &'a Path,
    /// The name of the host, and which of its devices it is.
    pub host: (&'a str, usize),
}

impl Places<'_> {
    fn path(self, device: VhostUserDevice<'_>) -> io::Result<PathBuf> {
        if let Some(socket) = device.socket {
            return Ok(self.folder.join(socket));
        }
        let folder = self.runtime.join(FOLDER);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        Ok(folder.join(socket_name(self.host)))
    }
}

/// The socket of a host's device. No name has a `+`, so no other device has the same.
fn socket_name((host, device): (&str, usize)) -> String {
    if device == 0 { format!("{host}.sock") } else { format!("{host}+{}.sock", device + 1) }
}

impl Attachment {
    /// Opens the socket of a device, and the port behind it.
    ///
    /// # Errors
    /// If somebody listens there already, the path is too long, or the kernel refuses.
    pub fn open(device: VhostUserDevice<'_>, places: Places<'_>) -> io::Result<(Self, VhostPort)> {
        let path = places.path(device)?;
        let shared = Arc::new(Shared::new(device.queues.into())?);
        let endpoint =
            if device.is_client { Endpoint::Client(path.clone()) } else { Endpoint::Server(Listener::bind(&path)?) };
        let name = format!("host {}, {}", places.host.0, path.display());
        let control = Control::start(name, endpoint, Arc::clone(&shared))?;
        let port = VhostPort::new(Arc::clone(&shared));
        Ok((Self { path, shared, _control: control }, port))
    }

    /// Where the socket is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a guest is attached.
    pub fn has_carrier(&self) -> bool {
        self.shared.has_carrier()
    }

    /// How many pairs of queues a guest has that is attached, and how many it may have.
    pub fn queues(&self) -> (usize, usize) {
        (self.shared.used_pairs(), self.shared.pairs)
    }

    /// Why no guest is attached, if the last one was cut off.
    pub fn fault(&self) -> Arc<Fault> {
        Arc::clone(&self.shared.fault)
    }

    /// Readable when the port is to be looked at.
    ///
    /// # Errors
    /// If the kernel has no descriptor left.
    pub fn descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        Ok(Arc::new(self.shared.readable().try_clone_to_owned()?))
    }
}

/// The worker's side of a socket.
#[derive(Debug)]
pub struct VhostPort {
    shared: Arc<Shared>,
    /// Whether the guest need not kick, since the rings are looked at anyway.
    is_polling: bool,
    /// Bursts in a row that have found nothing.
    idle: u32,
    /// The pair of queues whose turn it is.
    turn: usize,
    /// By pair, as bits: whether frames were written that the guest has not been shown.
    written: u8,
    /// Whether the worker is to call [`Port::flush`].
    is_waiting: bool,
    finisher: Finisher,
    /// Chains that were no frames, since this was asked last.
    losses: u64,
}

impl VhostPort {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            is_polling: false,
            idle: 0,
            turn: 0,
            written: 0,
            is_waiting: false,
            finisher: Finisher::default(),
            losses: 0,
        }
    }

    /// Nothing has come: after a while, the guest is asked to kick.
    fn rest(&mut self, rings: &mut Rings) {
        self.idle += 1;
        if self.idle <= IDLE_BURSTS && self.is_polling {
            return;
        }
        self.shared.poll_no_more();
        self.is_polling = false;
        self.idle = 0;
        if rings.broken.is_some() {
            return;
        }
        let transmitqs = rings.pairs.iter_mut().filter_map(|pair| pair.transmitq.used());
        let has_news = transmitqs.fold(false, |has_news, (queue, _)| {
            let ring = queue.ring();
            ring.ask_for_notifications(true);
            // What came before it could know that it was to kick.
            has_news | !matches!(ring.available(1), Ok(0))
        });
        if has_news {
            self.wake_up(rings);
        }
    }

    /// Something has come, or is to be looked for: the guest need not kick.
    fn wake_up(&mut self, rings: &mut Rings) {
        self.shared.forget_kicks();
        self.shared.poll_on();
        self.is_polling = true;
        for pair in &mut rings.pairs {
            if let Some((queue, _)) = pair.transmitq.used() {
                queue.ring().ask_for_notifications(false);
            }
        }
    }

    /// Hands frames of the guest to `take` until that wants no more or there are none; whether there was one.
    #[inline]
    fn receive(&mut self, take: impl FnOnce(&mut Self, &mut Rings) -> io::Result<bool>) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        // While it is being changed, it is readable, and the worker comes again.
        let Some(mut rings) = shared.try_rings() else { return Ok(()) };
        if !self.is_polling {
            self.wake_up(&mut rings);
        }
        if take(self, &mut rings)? {
            self.idle = 0;
        } else {
            self.rest(&mut rings);
        }
        self.check_memory(&mut rings);
        Ok(())
    }

    /// Shows the guest what was read.
    #[inline]
    fn show_read(rings: &mut Rings) {
        for pair in &mut rings.pairs {
            if let Some((queue, call)) = pair.transmitq.used() {
                queue.show_used(call);
            }
        }
    }

    /// Shows the guest what was written.
    #[inline]
    fn show_written(&mut self, rings: &mut Rings) {
        let mut written = std::mem::take(&mut self.written);
        while written != 0 {
            let at = written.trailing_zeros() as usize;
            written &= written - 1;
            if let Some((queue, call)) = rings.pairs[at].receiveq.used() {
                queue.show_used(call);
            }
        }
        self.check_memory(rings);
    }

    /// Cuts the guest off if it has cut off its memory, which all rings have in common.
    #[inline]
    fn check_memory(&self, rings: &mut Rings) {
        if rings.running().next().is_some_and(|ring| ring.memory().has_faulted()) {
            self.shared.break_off(rings, "a file of its memory was cut off");
        }
    }

    /// The pair whose turn it is; the next one has the next turn.
    #[inline]
    fn next_turn(&mut self, rings: &Rings) -> usize {
        let at = self.turn;
        self.turn = if at + 1 < rings.pairs.len() { at + 1 } else { 0 };
        at
    }

    /// Reads one frame that the guest has sent by this pair.
    #[inline]
    fn read_from(&mut self, rings: &mut Rings, at: usize, buffer: &mut [u8]) -> Option<usize> {
        if rings.broken.is_some() {
            return None;
        }
        let (queue, _) = rings.pairs[at].transmitq.used()?;
        match queue.read(buffer, &mut self.losses) {
            Ok(len) => len,
            Err(error) => {
                self.shared.break_off(rings, format_args!("its transmitq{} has {error}", at + 1));
                None
            }
        }
    }

    /// Writes a frame to the guest; whether it was taken.
    #[inline]
    fn write_to(&mut self, rings: &mut Rings, frame: &[u8]) -> bool {
        if rings.broken.is_some() {
            return false;
        }
        let at = match *rings.receiving() {
            [] => return false,
            [only] => only,
            ref several => several[spread(frame, several.len())],
        };
        let at = usize::from(at);
        let Some((queue, _)) = rings.pairs[at].receiveq.used() else { return false };
        self.written |= 1 << at;
        let written = if queue.layout().offloads.shows(frame) {
            queue.write(frame)
        } else if self.finisher.finish(frame) {
            let mut written = Ok(true);
            while let Some(finished) = self.finisher.take() {
                if written == Ok(true) {
                    written = queue.write(&finished);
                }
                self.finisher.put(finished);
            }
            written
        } else {
            return false;
        };
        written.unwrap_or_else(|error| {
            self.shared.break_off(rings, format_args!("its receiveq{} has {error}", at + 1));
            false
        })
    }
}

/// By which of so many pairs of queues a frame goes, behind its virtio-net header.
#[inline]
fn spread(frame: &[u8], pairs: usize) -> usize {
    let key = FlowKey::parse(frame.get(VNET_HEADER..).unwrap_or_default()).unwrap_or_default();
    ecmp(key.hash(), SALT, pairs as u32) as usize
}

impl AsFd for VhostPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.readable()
    }
}

impl Port for VhostPort {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut read = None;
        self.receive(|port, rings| {
            for _ in 0..rings.pairs.len() {
                let at = port.next_turn(rings);
                read = port.read_from(rings, at, buffer);
                if read.is_some() {
                    break;
                }
            }
            Self::show_read(rings);
            Ok(read.is_some())
        })?;
        Ok(read)
    }

    fn rx_burst(&mut self, burst: &mut RxBurst<'_>) -> io::Result<()> {
        self.receive(|port, rings| {
            let (mut any, mut has_room, mut empty) = (false, true, 0);
            // Until each one in a row had nothing more. Where the burst is full, the next one begins with the pair behind.
            while has_room && empty < rings.pairs.len() {
                let at = port.next_turn(rings);
                let mut taken = 0;
                while has_room && taken < TURN_FRAMES {
                    let mut read = None;
                    has_room = burst.receive(|buffer| {
                        read = port.read_from(rings, at, buffer);
                        Ok(read)
                    })?;
                    if read.is_none() {
                        // There is room all the same.
                        has_room = true;
                        break;
                    }
                    taken += 1;
                }
                any |= taken > 0;
                empty = if taken < TURN_FRAMES { empty + 1 } else { 0 };
            }
            Self::show_read(rings);
            Ok(any)
        })
    }

    fn tx_burst(&mut self, frames: TxFrames<'_>) -> Unsent {
        let mut unsent = Unsent::default();
        let shared = Arc::clone(&self.shared);
        let mut rings = shared.try_rings();
        for frame in frames.iter() {
            if !rings.as_mut().is_some_and(|rings| self.write_to(rings, frame)) {
                unsent.add(frame);
            }
        }
        if let Some(rings) = &mut rings {
            self.show_written(rings);
        }
        unsent
    }

    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let is_taken = shared.try_rings().is_some_and(|mut rings| self.write_to(&mut rings, frame));
        self.is_waiting |= is_taken;
        if is_taken { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    fn flush(&mut self) -> Unsent {
        self.is_waiting = false;
        // Whoever changes the rings at the moment shows it, too.
        let shared = Arc::clone(&self.shared);
        if let Some(mut rings) = shared.try_rings() {
            self.show_written(&mut rings);
        }
        Unsent::default()
    }

    fn new_losses(&mut self) -> io::Result<u64> {
        Ok(std::mem::take(&mut self.losses))
    }
}
