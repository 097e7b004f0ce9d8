//! What frames come in and go out by: a TAP towards a host of ours ([`crate::tap::Tap`]), or a network device of the kernel
//! ([`crate::packet::PacketPort`]).

use std::io;
use std::os::fd::AsFd;

/// A port that moves whole frames, each behind a virtio-net header of [`crate::tap::VNET_HEADER`] bytes, and never blocks. Its
/// descriptor is readable when a frame waits.
pub trait Port: AsFd {
    /// Reads one frame with its header into `buffer`; `None` when there is none.
    ///
    /// # Errors
    /// If the device is gone or down for good.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Writes one frame with its header.
    ///
    /// # Errors
    /// If the device does not take it: its queue is full, or it is down. The frame is lost then, as on a wire.
    fn write(&mut self, frame: &[u8]) -> io::Result<()>;
}
