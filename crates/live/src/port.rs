//! What frames come in and go out by: a TAP towards a host that is made (`tap.rs`), or a network device of the kernel
//! ([`crate::packet::PacketPort`]).

use std::fmt::Debug;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use crate::dataplane::{RxBurst, TxFrames};
use crate::tap::VNET_HEADER;

/// A port that moves whole frames, each behind a virtio-net header of [`crate::tap::VNET_HEADER`] bytes, and never blocks. Its
/// descriptor is readable when a frame waits.
pub trait Port: AsFd + Debug + Send {
    /// Reads one frame with its header into `buffer`; `None` when there is none.
    ///
    /// # Errors
    /// If the device is gone or down for good.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Reads frames until none waits or the burst is full.
    ///
    /// # Errors
    /// As [`Port::read`]. What was read before is in the burst.
    fn rx_burst(&mut self, burst: &mut RxBurst<'_>) -> io::Result<()> {
        while burst.receive(|buffer| self.read(buffer))? {}
        Ok(())
    }

    /// Writes frames as [`Port::write`] does, in their order. Returns what the device did not take: it is lost.
    fn tx_burst(&mut self, frames: TxFrames<'_>) -> Unsent {
        let mut unsent = Unsent::default();
        for frame in frames.iter() {
            if self.write(frame).is_err() {
                unsent.add(frame);
            }
        }
        unsent
    }

    /// Writes one frame with its header. It may wait for others that come at the same time, until [`Port::flush`] is called.
    ///
    /// # Errors
    /// If the device does not take it: its queue is full, or it is down. The frame is lost then, as on a wire.
    fn write(&mut self, frame: &[u8]) -> io::Result<()>;

    /// The network of the tunnel by which the frame has come that was read last; 0 of what is no tunnel.
    fn tunnel(&self) -> u32 {
        0
    }

    /// Whether it carries frames of more than one network of a tunnel: each is to be sent by itself.
    fn has_networks(&self) -> bool {
        false
    }

    /// [`Port::write`] to a network of a tunnel. What is no tunnel, or has one network only, does not ask.
    ///
    /// # Errors
    /// As [`Port::write`].
    fn write_to_network(&mut self, frame: &[u8], vni: u32) -> io::Result<()> {
        let _ = vni;
        self.write(frame)
    }

    /// Whether [`Port::flush`] has something to do or to report.
    fn is_waiting(&self) -> bool;

    /// Sends what waits: to be called at the end of each burst of frames. What was taken by [`Port::write`] since this was called last
    /// and the device has not taken after all: it is lost. A port that writes each frame at once does nothing.
    fn flush(&mut self) -> Unsent {
        Unsent::default()
    }

    /// How many frames it has lost by itself since this was asked last: they found no room, or were too long. A TAP loses none: what it has
    /// no room for is the host's loss.
    ///
    /// # Errors
    /// If the kernel does not say.
    fn new_losses(&mut self) -> io::Result<u64> {
        Ok(0)
    }

    /// How many control messages of the other end of a tunnel have come since this was asked last: they are no frames, and go nowhere.
    fn new_control_messages(&mut self) -> u64 {
        0
    }
}

/// What a port found wrong with what is behind it, so that nothing more comes from there: until that is put right.
#[derive(Debug, Default)]
pub struct Fault(Mutex<Option<String>>);

impl Fault {
    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what it is.
    pub fn set(&self, what: String) {
        *self.lock() = Some(what);
    }

    /// Nothing is wrong any more.
    pub fn clear(&self) {
        *self.lock() = None;
    }

    /// What it is.
    pub fn get(&self) -> Option<String> {
        self.lock().clone()
    }
}

/// Frames that were to be sent and were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// How many frames were not sent.
    pub frames: u64,
    /// Their bytes, without virtio-net headers.
    pub bytes: u64,
}

impl Unsent {
    /// Counts one more, with its virtio-net header.
    pub const fn add(&mut self, frame: &[u8]) {
        self.frames += 1;
        self.bytes += frame.len().saturating_sub(VNET_HEADER) as u64;
    }
}
