//! What the kernel and a driver say of a network device, by its name (netdevice(7), `linux/ethtool.h`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The kernel's `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// The kernel's `struct ethtool_channels`: how many there may be, then how many there are.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// The kernel's `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GLINK: u32 = 0x0a;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// The device that has a name at present, in the network namespace of a socket.
#[derive(Clone, Copy, Debug)]
pub struct NetDevice<'a> {
    socket: &'a OwnedFd,
    name: &'a str,
}

impl<'a> NetDevice<'a> {
    /// Any socket of that namespace will do.
    pub const fn new(socket: &'a OwnedFd, name: &'a str) -> Self {
        Self { socket, name }
    }

    /// Its name.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Its number; `None` if there is no such device.
    pub fn index(&self) -> Option<u32> {
        let mut request = self.request();
        // SAFETY: SIOCGIFINDEX reads and writes one `ifreq`, which outlives the call.
        let found = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFINDEX as _, &raw mut request) };
        // SAFETY: the ioctl has filled in the index.
        (found == 0).then(|| unsafe { request.ifr_ifru.ifru_ifindex }.cast_unsigned())
    }

    /// Whether it carries Ethernet frames; loopback and tunnels of IP do not.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn is_ethernet(&self) -> io::Result<bool> {
        let mut request = self.request();
        // SAFETY: SIOCGIFHWADDR reads and writes one `ifreq`, which outlives the call.
        if unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFHWADDR as _, &raw mut request) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the ioctl has filled in the address.
        Ok(unsafe { request.ifr_ifru.ifru_hwaddr }.sa_family == libc::ARPHRD_ETHER)
    }

    /// The most bytes that a frame carries, without its Ethernet header.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn mtu(&self) -> io::Result<u32> {
        let mut request = self.request();
        // SAFETY: SIOCGIFMTU reads and writes one `ifreq`, which outlives the call.
        if unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the ioctl has filled in the MTU.
        Ok(unsafe { request.ifr_ifru.ifru_mtu }.cast_unsigned())
    }

    /// Whether it is up and has a carrier.
    pub fn has_carrier(&self) -> bool {
        let mut request = self.request();
        // SAFETY: SIOCGIFFLAGS reads and writes one `ifreq`, which outlives the call.
        if unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) } < 0 {
            return false;
        }
        // SAFETY: the ioctl has filled in the flags.
        let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        // The driver knows at once, where the flags follow later.
        let link = self.ethtool(Value { command: ETHTOOL_GLINK, data: 0 }).map(|value| value.data != 0);
        flags & libc::IFF_UP != 0 && link.unwrap_or(flags & libc::IFF_RUNNING != 0)
    }

    /// How many queues its driver receives by; `None` if that does not say.
    pub fn receive_queues(&self) -> Option<u32> {
        let channels = self.ethtool(Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() })?;
        Some(channels.rx + channels.combined)
    }

    /// The name of its driver; `None` if that does not say.
    pub fn driver(&self) -> Option<String> {
        let info = self.ethtool(DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] })?;
        let name = info.driver.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// Asks the driver: `None` if it does not answer.
    fn ethtool<T>(&self, mut question: T) -> Option<T> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = (&raw mut question).cast();
        // SAFETY: SIOCETHTOOL reads one `ifreq` and, by the command that `question` begins with, reads and writes the structure of that command, which is what it
        // points to; both outlive the call.
        let done = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        (done == 0).then_some(question)
    }

    fn request(&self) -> libc::ifreq {
        // SAFETY: an all-zero `ifreq` is valid: names, unions of integers, and a null pointer.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from.cast_signed();
        }
        request
    }
}
