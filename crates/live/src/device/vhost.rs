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
//! The guest may write nonsense at any time. It is found out where it is read ([`crate::virtqueue`]); the guest is cut off then, and may connect again.

mod backend;
mod connection;
mod control;
pub mod message;
mod shared;
#[cfg(test)]
mod tests;

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use topology::VhostUserDevice;

use self::control::{Control, Endpoint, Listener};
use self::shared::{Rings, Shared};
use crate::port::{Fault, Port, RxBurst, TxFrames, Unsent};
use crate::virtqueue::Finisher;

/// Bursts that find nothing before the worker waits for the guest's kick: to be kicked and to wake up costs both as much as many frames.
const IDLE_BURSTS: u32 = 64;

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
        let shared = Arc::new(Shared::new()?);
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
    /// Whether frames were written that the guest has not been shown.
    is_waiting: bool,
    finisher: Finisher,
    /// Chains that were no frames, since this was asked last.
    losses: u64,
}

impl VhostPort {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, is_polling: false, idle: 0, is_waiting: false, finisher: Finisher::default(), losses: 0 }
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
        let Some((queue, _)) = rings.transmitq.used().filter(|_| rings.broken.is_none()) else { return };
        let ring = queue.ring();
        ring.ask_for_notifications(true);
        // What came before it could know that it was to kick.
        if !matches!(ring.available(1), Ok(0)) {
            ring.ask_for_notifications(false);
            self.is_polling = true;
            self.shared.poll_on();
        }
    }

    /// Something has come, or is to be looked for: the guest need not kick.
    fn wake_up(&mut self, rings: &mut Rings) {
        self.shared.forget_kicks();
        self.shared.poll_on();
        self.is_polling = true;
        if let Some((queue, _)) = rings.transmitq.used() {
            queue.ring().ask_for_notifications(false);
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
        if let Some(queue) = &mut rings.transmitq.queue {
            let has_faulted = queue.ring().memory().has_faulted();
            self.check_memory(&mut rings, has_faulted);
        }
        Ok(())
    }

    /// Shows the guest what was written.
    #[inline]
    fn show(&self, rings: &mut Rings) {
        if let Some((queue, call)) = rings.receiveq.used() {
            queue.show_used(call);
            let has_faulted = queue.ring().memory().has_faulted();
            self.check_memory(rings, has_faulted);
        }
    }

    /// Cuts the guest off if it has cut off its memory.
    #[inline]
    fn check_memory(&self, rings: &mut Rings, has_faulted: bool) {
        if has_faulted {
            self.shared.break_off(rings, "a file of its memory was cut off");
        }
    }

    /// Reads one frame of the guest.
    #[inline]
    fn read_from(&mut self, rings: &mut Rings, buffer: &mut [u8]) -> Option<usize> {
        if rings.broken.is_some() {
            return None;
        }
        let (queue, _) = rings.transmitq.used()?;
        match queue.read(buffer, &mut self.losses) {
            Ok(len) => len,
            Err(error) => {
                self.shared.break_off(rings, format_args!("its transmitq has {error}"));
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
        let Some((queue, _)) = rings.receiveq.used() else { return false };
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
            self.shared.break_off(rings, format_args!("its receiveq has {error}"));
            false
        })
    }
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
            read = port.read_from(rings, buffer);
            if let Some((queue, call)) = rings.transmitq.used() {
                queue.show_used(call);
            }
            Ok(read.is_some())
        })?;
        Ok(read)
    }

    fn rx_burst(&mut self, burst: &mut RxBurst<'_>) -> io::Result<()> {
        self.receive(|port, rings| {
            let mut any = false;
            while burst.receive(|buffer| {
                let read = port.read_from(rings, buffer);
                any |= read.is_some();
                Ok(read)
            })? {}
            if let Some((queue, call)) = rings.transmitq.used() {
                queue.show_used(call);
            }
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
            self.show(rings);
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
        if let Some(mut rings) = self.shared.try_rings() {
            self.show(&mut rings);
        }
        Unsent::default()
    }

    fn new_losses(&mut self) -> io::Result<u64> {
        Ok(std::mem::take(&mut self.losses))
    }
}
