//! Network devices of the machine on which links end: hosts that are not made are behind them.
//!
//! They are in the network namespace in which the daemon was started; it has left that itself ([`crate::namespace::isolate`]).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket};

use crate::Error;
use crate::namespace::Namespace;
use crate::packet::PacketPort;
use crate::port::Port;
use crate::tap::Tap;

/// How often carriers are looked at when the kernel says nothing: it holds back news of some devices for up to a second
/// (`net/core/link_watch.c`).
const LOOK_MS: u16 = 10;

/// What is at the end of a host's links.
#[derive(Clone, Debug)]
pub enum Attached {
    /// A host of ours.
    Tap(Arc<Tap>),
    /// A host that is not made: behind these devices, one a link.
    Devices(Vec<Arc<Device>>),
}

impl Attached {
    /// Whether both are the very same.
    pub fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tap(one), Self::Tap(other)) => Arc::ptr_eq(one, other),
            (Self::Devices(some), Self::Devices(others)) => {
                some.len() == others.len() && some.iter().zip(others).all(|(one, other)| Arc::ptr_eq(one, other))
            }
            _ => false,
        }
    }
}

/// A device that was opened.
#[derive(Debug)]
pub struct Device {
    name: String,
    index: u32,
    /// The port's socket once more, to ask it about the device and to watch it.
    socket: OwnedFd,
    /// Until the worker takes it to which it belongs.
    port: Mutex<Option<Box<dyn Port>>>,
    /// As it was told last.
    carrier: AtomicBool,
}

impl Device {
    /// Opens a device of the calling thread's network namespace.
    fn open(name: &str) -> io::Result<Self> {
        let index = nix::net::if_::if_nametoindex(name)?;
        let port = PacketPort::open(name)?;
        let socket = port.as_fd().try_clone_to_owned()?;
        let device = Self {
            name: name.to_owned(),
            index,
            socket,
            port: Mutex::new(Some(Box::new(port))),
            carrier: AtomicBool::new(true),
        };
        device.check_kind()?;
        Ok(device)
    }

    /// Refuses what does not carry Ethernet frames: loopback, tunnels of IP.
    fn check_kind(&self) -> io::Result<()> {
        let mut request = self.request();
        // SAFETY: SIOCGIFHWADDR reads and writes one `ifreq`, which outlives the call.
        if unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFHWADDR as _, &raw mut request) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the ioctl has filled in the address.
        let kind = unsafe { request.ifr_ifru.ifru_hwaddr }.sa_family;
        if kind == libc::ARPHRD_ETHER {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::Unsupported, "it is no Ethernet device"))
    }

    /// Opens devices of the namespace `outside` for a host.
    ///
    /// # Errors
    /// [`Error::Device`] says which one can't be opened.
    pub fn open_all(outside: &Namespace, host: &str, names: &[String]) -> Result<Vec<Arc<Self>>, Error> {
        let failed = |device: &str| {
            let (host, device) = (host.to_owned(), device.to_owned());
            move |source| Error::Device { host, device, source }
        };
        let open = || {
            outside.enter().map_err(|errno| failed(names.first().map_or("", String::as_str))(errno.into()))?;
            names.iter().map(|name| Ok(Arc::new(Self::open(name).map_err(failed(name))?))).collect()
        };
        std::thread::scope(|scope| scope.spawn(open).join().expect("opening a device does not panic"))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hands over the port; `None` if somebody has it.
    pub fn take_port(&self) -> Option<Box<dyn Port>> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether it is not there any more, or another one has its name.
    pub fn is_gone(&self) -> bool {
        let mut request = self.request();
        // SAFETY: SIOCGIFINDEX reads and writes one `ifreq`, which outlives the call.
        let found = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFINDEX as _, &raw mut request) };
        // SAFETY: the ioctl has filled in the index.
        found < 0 || unsafe { request.ifr_ifru.ifru_ifindex } != self.index.cast_signed()
    }

    /// Whether it is there, up, and has a carrier.
    pub fn has_carrier(&self) -> bool {
        if self.is_gone() {
            return false;
        }
        let mut request = self.request();
        // SAFETY: SIOCGIFFLAGS reads and writes one `ifreq`, which outlives the call.
        if unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) } < 0 {
            return false;
        }
        // SAFETY: the ioctl has filled in the flags.
        let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        flags & libc::IFF_UP != 0 && self.ethtool_link().unwrap_or(flags & libc::IFF_RUNNING != 0)
    }

    /// What the driver says of the carrier: at once, where the flags follow later. `None` if it can't tell.
    fn ethtool_link(&self) -> Option<bool> {
        /// `struct ethtool_value`.
        #[repr(C)]
        struct Value {
            command: u32,
            data: u32,
        }
        const ETHTOOL_GLINK: u32 = 0x0a;
        let mut value = Value { command: ETHTOOL_GLINK, data: 0 };
        let mut request = self.request();
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: SIOCETHTOOL reads one `ifreq` and, with this command, reads and writes the `ethtool_value` that it points to;
        // both outlive the call.
        let done = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        (done == 0).then_some(value.data != 0)
    }

    /// Whether it has a carrier, and whether that is new; at first it counts as having one.
    pub fn look(&self) -> (bool, bool) {
        let is = self.has_carrier();
        (is, self.carrier.swap(is, Ordering::Relaxed) != is)
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

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Calls `look` whenever the kernel says that something about the devices of `outside` has changed, and at least every 10 ms,
/// until it returns false.
///
/// # Errors
/// If the kernel does not let us listen.
pub fn watch(outside: &Namespace, mut look: impl FnMut() -> bool) -> Result<(), Error> {
    let at = |step: &'static str| move |errno: Errno| Error::System { step, source: errno.into() };
    outside.enter().map_err(at("enter the machine's network namespace"))?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let news = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)
        .map_err(at("open a netlink socket"))?;
    let group = NetlinkAddr::new(0, libc::RTMGRP_LINK.cast_unsigned());
    bind(news.as_raw_fd(), &group).map_err(at("listen for news of devices"))?;
    while look() {
        let mut watched = [PollFd::new(news.as_fd(), PollFlags::POLLIN)];
        // An interruption is as good as news.
        let _ = poll(&mut watched, PollTimeout::from(LOOK_MS));
        // What it says is not read: the devices are asked themselves.
        let mut buffer = [0; 1 << 14];
        while !matches!(recv(news.as_raw_fd(), &mut buffer, MsgFlags::empty()), Err(Errno::EAGAIN) | Ok(0)) {}
    }
    Ok(())
}
