//! Devices that a driver of DPDK has, where this program was built with the feature `dpdk` (`docs/decisions/0085-dpdk-behind-a-feature.md`).

#[cfg(feature = "dpdk")]
mod eal;
#[cfg(feature = "dpdk")]
mod port;
#[cfg(feature = "dpdk")]
mod shim;
#[cfg(all(test, feature = "dpdk"))]
mod tests;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use topology::DpdkDevice;

use crate::port::Port;

/// Opens a device, in the calling thread's network namespace: its port, and what is readable when that is to be read.
///
/// # Errors
/// If there is no such device, a port has it already, DPDK does not start, or this program was built without it.
#[cfg(feature = "dpdk")]
pub fn open(device: DpdkDevice<'_>) -> io::Result<(Box<dyn Port>, Arc<OwnedFd>)> {
    let port = port::DpdkPort::open(device)?;
    let descriptor = port.descriptor()?;
    Ok((Box::new(port), descriptor))
}

/// See the other one.
#[cfg(not(feature = "dpdk"))]
pub fn open(_: DpdkDevice<'_>) -> io::Result<(Box<dyn Port>, Arc<OwnedFd>)> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this program was built without DPDK"))
}

/// Whether it is a network device of the machine in the hands of a driver of DPDK: it is opened where those are.
pub fn is_of_machine(device: DpdkDevice<'_>) -> bool {
    device.arguments.contains(",iface=")
}
