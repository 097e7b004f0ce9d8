//! Takes a neighbour out of the kernel's table.
#![allow(unsafe_code)]

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;

use crate::Error;

/// `SIOCDARP` of netdevice(7) and arp(7).
const DELETE: libc::c_ulong = 0x8953;

/// The only device of a host.
const DEVICE: &[u8] = b"eth0";

/// Has the kernel forget a neighbour of this host, if it knows it.
pub fn forget(socket: &OwnedFd, neighbour: Ipv4Addr) -> Result<(), Error> {
    // SAFETY: all bytes zero are a value of this structure, which has numbers only.
    let mut request: libc::arpreq = unsafe { std::mem::zeroed() };
    request.arp_pa.sa_family = libc::AF_INET as libc::sa_family_t;
    // An address of IPv4 stands behind the port.
    copy(&mut request.arp_pa.sa_data[2..6], &neighbour.octets());
    copy(&mut request.arp_dev, DEVICE);
    // SAFETY: this request reads one `arpreq`, which lives until it returns.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), DELETE as _, &raw const request) };
    match Errno::result(done) {
        // It is not there.
        Ok(_) | Err(Errno::ENXIO | Errno::ENOENT) => Ok(()),
        Err(errno) => Err(Error::system("take a neighbour out of the kernel's table")(errno)),
    }
}

#[allow(clippy::cast_possible_wrap, reason = "C's characters are bytes, signed or not")]
fn copy(to: &mut [libc::c_char], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from as libc::c_char;
    }
}
