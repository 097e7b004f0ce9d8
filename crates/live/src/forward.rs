//! What passes frames on between two devices of a host, as a function of a service chain does that does nothing else. Checksums and segments that a kernel has left
//! to others stay as they are.

use std::convert::Infallible;
use std::io;
use std::os::fd::AsFd as _;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::packet::PacketPort;
use crate::port::Port as _;
use crate::tap::{LARGEST_FRAME, VNET_HEADER};

/// Frames of one device before the other one has its turn.
const TURN_FRAMES: usize = 64;

/// Passes on by each of two devices, of the calling thread's network namespace, what comes in by the other one.
///
/// # Errors
/// With the device, if one of them can't be opened, or is gone.
pub fn forward(devices: [&str; 2]) -> Result<Infallible, (String, io::Error)> {
    let failed = |at: usize| move |error: io::Error| (devices[at].to_owned(), error);
    let mut ports =
        [PacketPort::open(devices[0]).map_err(failed(0))?, PacketPort::open(devices[1]).map_err(failed(1))?];
    let mut buffer = vec![0; VNET_HEADER + LARGEST_FRAME];
    loop {
        let mut watched = ports.each_ref().map(|port| PollFd::new(port.as_fd(), PollFlags::POLLIN));
        match poll(&mut watched, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(failed(0)(errno.into())),
        }
        let [first, second] = &mut ports;
        pass_on(first, second, &mut buffer).map_err(failed(0))?;
        pass_on(second, first, &mut buffer).map_err(failed(1))?;
    }
}

fn pass_on(from: &mut PacketPort, to: &mut PacketPort, buffer: &mut [u8]) -> io::Result<()> {
    for _ in 0..TURN_FRAMES {
        let Some(len) = from.read(buffer)? else { break };
        // What the other device does not take is lost, as on a wire.
        let _ = to.write(&buffer[..len]);
    }
    to.flush();
    Ok(())
}
