//! Network devices of the machine on which links end: hosts that are not made are behind them.
//!
//! They are in the network namespace in which the daemon was started; it has left that itself ([`crate::namespace::isolate`]). Null devices are
//! nowhere ([`null`]), captures are files ([`crate::capture`]).
#![allow(unsafe_code)]

mod dpdk;
pub(crate) mod null;
mod tunnel;
pub(crate) mod vhost;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fabric::Fabric;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket};
use topology::{DeviceName, Node, NodeId};

use self::null::{Destinations, NullPort};
use self::tunnel::TunnelPort;
use self::vhost::{Attachment, Places};
use crate::Error;
use crate::capture::PcapPort;
use crate::namespace::Namespace;
use crate::net_device::NetDevice;
use crate::packet::PacketPort;
use crate::port::{Fault, Port};
use crate::tap::Tap;
use crate::xdp::XdpPort;

/// How often carriers are looked at when the kernel says nothing: it holds back news of some devices for up to a second
/// (`net/core/link_watch.c`).
const LOOK_MS: u16 = 10;

/// How long a device that was made again and can't be opened is left alone.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

/// What is at the end of a host's links.
#[derive(Clone, Debug)]
pub enum Attached {
    /// A host that is made.
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

/// What devices are opened in.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// The namespace that has the machine's devices.
    pub outside: &'a Namespace,
    /// The fabric whose hosts are behind them.
    pub fabric: &'a Fabric,
    /// Whom null devices send to.
    pub destinations: Destinations,
    /// The folder that names of captures and sockets are relative to.
    pub folder: &'a Path,
    /// The network's runtime folder.
    pub runtime: &'a Path,
}

/// A device that was opened.
#[derive(Debug)]
pub struct Device {
    name: String,
    source: Source,
    /// Until the worker takes it to which it belongs.
    port: Mutex<Option<Box<dyn Port>>>,
    /// The carrier as the kernel reported it last.
    carrier: AtomicBool,
    /// What its port found wrong with what is behind it, so that nothing more comes from there. Captures and guests say so.
    fault: Arc<Fault>,
}

/// What is behind a device's name.
#[derive(Debug)]
enum Source {
    /// A device of the kernel.
    Kernel(Mutex<Opened>),
    /// Nobody: the descriptor of its port.
    Null(Arc<OwnedFd>),
    /// A guest at a socket: the descriptor of its port.
    Guest(Arc<OwnedFd>, Attachment),
    /// Something else that is no device of the kernel: the descriptor of its port.
    Port(Arc<OwnedFd>),
}

/// The device that has the name at present.
#[derive(Debug)]
struct Opened {
    /// As the kernel calls it.
    name: String,
    driver: KernelPort,
    index: u32,
    /// The port's socket once more, to watch it.
    socket: Arc<OwnedFd>,
    /// A packet socket that is bound to the device, to ask about that.
    control: Arc<OwnedFd>,
    /// Another device has the name and could not be opened: which, and when.
    refused: Option<(u32, Instant)>,
}

/// How frames come from a device of the kernel.
#[derive(Clone, Copy, Debug)]
enum KernelPort {
    /// By an `AF_PACKET` socket.
    Packet,
    /// By `AF_XDP` sockets.
    Xdp,
}

/// What takes the place of a device's port when the device was made again.
#[derive(Debug)]
pub struct Replacement {
    /// The socket that was watched until then.
    pub old: Arc<OwnedFd>,
    /// The one that is to be watched.
    pub socket: Arc<OwnedFd>,
    /// The port of that socket.
    pub port: Box<dyn Port>,
}

impl Device {
    /// Opens a device of the calling thread's network namespace, or a null device or capture of this host.
    fn open((at, name): (usize, &str), host: NodeId, surroundings: &Surroundings<'_>) -> Result<Self, Error> {
        let node = &surroundings.fabric.topology.nodes[host];
        let failed = |source| Error::Device { host: node.name.clone(), device: name.to_owned(), source };
        let mut fault = Arc::default();
        let (source, port): (_, Box<dyn Port>) = match DeviceName::parse(name) {
            Ok(DeviceName::Null(device)) => {
                let address = surroundings.fabric.topology.address(host).expect("a host has addresses");
                let destinations = Arc::clone(&surroundings.destinations);
                let port = NullPort::new(device, (host, address), destinations).map_err(failed)?;
                (Source::Null(port.descriptor()), Box::new(port))
            }
            Ok(DeviceName::Pcap(device)) => {
                let port = PcapPort::open(name, device, node, surroundings.folder)?;
                fault = port.fault();
                (Source::Port(port.descriptor().map_err(failed)?), Box::new(port))
            }
            Ok(DeviceName::Xdp(device)) => {
                let (opened, port) = Opened::open(device, KernelPort::Xdp).map_err(failed)?;
                (Source::Kernel(Mutex::new(opened)), port)
            }
            Ok(DeviceName::VhostUser(device)) => {
                let Surroundings { folder, runtime, .. } = *surroundings;
                let places = Places { folder, runtime, host: (&node.name, at) };
                let (attachment, port) = Attachment::open(device, places).map_err(failed)?;
                fault = attachment.fault();
                (Source::Guest(attachment.descriptor().map_err(failed)?, attachment), Box::new(port))
            }
            Ok(DeviceName::Dpdk(device)) => {
                let (port, descriptor) = dpdk::open(device).map_err(failed)?;
                (Source::Port(descriptor), port)
            }
            Ok(DeviceName::Tunnel(device)) => {
                let port = TunnelPort::open(device, surroundings.fabric.mtu).map_err(failed)?;
                (Source::Port(port.descriptor().map_err(failed)?), Box::new(port))
            }
            // What no name can be, the kernel does not find.
            Ok(DeviceName::Kernel(_)) | Err(_) => {
                let (opened, port) = Opened::open(name, KernelPort::Packet).map_err(failed)?;
                (Source::Kernel(Mutex::new(opened)), port)
            }
        };
        Ok(Self { name: name.to_owned(), source, port: Mutex::new(Some(port)), carrier: AtomicBool::new(true), fault })
    }

    /// A device of a test: its port, and what becomes readable when the port has a frame.
    #[cfg(test)]
    pub fn of_test(port: Box<dyn Port>, readable: Arc<OwnedFd>) -> Arc<Self> {
        let (source, port) = (Source::Null(readable), Mutex::new(Some(port)));
        Arc::new(Self { name: "test".to_owned(), source, port, carrier: AtomicBool::new(true), fault: Arc::default() })
    }

    /// Opens the devices of a host in the namespace `outside`.
    ///
    /// # Errors
    /// [`Error::Device`] and [`Error::Capture`] say which one can't be opened.
    pub fn open_all(host: NodeId, surroundings: &Surroundings<'_>) -> Result<Vec<Arc<Self>>, Error> {
        let Node { name, devices, .. } = &surroundings.fabric.topology.nodes[host];
        // Only devices of the kernel's and tunnels are there. Who is not root may not go there, and has sockets, captures and null devices all the same.
        let is_kernel_s = |device: &&String| match DeviceName::parse(device) {
            Ok(DeviceName::Kernel(_) | DeviceName::Xdp(_) | DeviceName::Tunnel(_)) | Err(_) => true,
            Ok(DeviceName::Dpdk(device)) => dpdk::is_of_machine(device),
            Ok(DeviceName::Null(_) | DeviceName::Pcap(_) | DeviceName::VhostUser(_)) => false,
        };
        in_namespace(|| {
            if let Some(device) = devices.iter().find(is_kernel_s) {
                surroundings.outside.enter().map_err(|errno| Error::Device {
                    host: name.clone(),
                    device: device.clone(),
                    source: errno.into(),
                })?;
            }
            devices
                .iter()
                .enumerate()
                .map(|device| Self::open((device.0, device.1), host, surroundings).map(Arc::new))
                .collect()
        })
    }

    /// Opens it again if it was deleted and there is another device of its name: `None` otherwise. The port that was handed over by
    /// [`Device::take_port`] is dead then, and the new one is to take its place.
    ///
    /// # Errors
    /// If that can't be opened. It is tried again after a second, and an error is reported once for each device.
    pub fn open_again(&self, outside: &Namespace) -> io::Result<Option<Replacement>> {
        let Some(mut opened) = self.opened() else { return Ok(None) };
        let Some(index) = opened.is_gone().then(|| opened.device().index()).flatten() else {
            return Ok(None);
        };
        let refused = opened.refused.filter(|(refused, _)| *refused == index);
        if refused.is_some_and(|(_, at)| at.elapsed() < REOPEN_AFTER) {
            return Ok(None);
        }
        let open = || outside.enter().map_err(io::Error::from).and_then(|()| Opened::open(&opened.name, opened.driver));
        match in_namespace(open) {
            Ok((new, port)) => {
                let old = std::mem::replace(&mut *opened, new);
                Ok(Some(Replacement { old: old.socket, socket: Arc::clone(&opened.socket), port }))
            }
            Err(error) => {
                opened.refused = Some((index, Instant::now()));
                if refused.is_some() { Ok(None) } else { Err(error) }
            }
        }
    }

    fn opened(&self) -> Option<MutexGuard<'_, Opened>> {
        match &self.source {
            Source::Kernel(opened) => Some(opened.lock().unwrap_or_else(PoisonError::into_inner)),
            Source::Null(_) | Source::Guest(..) | Source::Port(_) => None,
        }
    }

    /// Whether it may lose its carrier: a device of the machine, or a guest.
    pub const fn may_lose_carrier(&self) -> bool {
        matches!(self.source, Source::Kernel(_) | Source::Guest(..))
    }

    /// Whether it can't be opened a second time while it is open.
    pub fn is_unshared(&self) -> bool {
        self.opened().is_some_and(|opened| matches!(opened.driver, KernelPort::Xdp))
    }

    /// The name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the vhost-user socket is that it is, if it is one.
    pub fn vhost_path(&self) -> Option<&Path> {
        if let Source::Guest(_, attachment) = &self.source { Some(attachment.path()) } else { None }
    }

    /// By how many pairs of queues a guest gets frames at the vhost-user socket that it is, if it is one.
    pub fn queues_used(&self) -> Option<u8> {
        if let Source::Guest(_, attachment) = &self.source { Some(attachment.queues().0 as u8) } else { None }
    }

    /// The socket to be watched: readable when a frame waits.
    pub fn socket(&self) -> Arc<OwnedFd> {
        match &self.source {
            Source::Kernel(opened) => Arc::clone(&opened.lock().unwrap_or_else(PoisonError::into_inner).socket),
            Source::Null(descriptor) | Source::Guest(descriptor, _) | Source::Port(descriptor) => {
                Arc::clone(descriptor)
            }
        }
    }

    /// Hands over the port; `None` if somebody has it.
    pub fn take_port(&self) -> Option<Box<dyn Port>> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A port that takes frames for it, for one more worker; `None` unless it is a null device.
    pub fn sink(&self) -> Option<Box<dyn Port>> {
        match &self.source {
            Source::Kernel(_) | Source::Guest(..) | Source::Port(_) => None,
            Source::Null(descriptor) => Some(Box::new(NullPort::sink(Arc::clone(descriptor)))),
        }
    }

    /// What is wrong with what is behind it, so that nothing more comes from there.
    pub fn fault(&self) -> Option<String> {
        self.fault.get()
    }

    /// Whether it is not there any more, or another one has its name.
    pub fn is_gone(&self) -> bool {
        self.opened().is_some_and(|opened| opened.is_gone())
    }

    /// Whether it is there, up, and has a carrier.
    pub fn has_carrier(&self) -> bool {
        if let Source::Guest(_, attachment) = &self.source {
            return attachment.has_carrier();
        }
        self.opened().is_none_or(|opened| opened.has_carrier())
    }

    /// Whether it has a carrier, and whether that is new; at first it counts as having one.
    pub fn look(&self) -> (bool, bool) {
        let is = self.has_carrier();
        (is, self.carrier.swap(is, Ordering::Relaxed) != is)
    }
}

impl Opened {
    fn open(name: &str, driver: KernelPort) -> io::Result<(Self, Box<dyn Port>)> {
        let control = Arc::new(PacketPort::handle(name)?);
        let index = bound_to(&control).ok_or(io::ErrorKind::NotFound)?;
        // Loopback and tunnels of IP are none.
        if !NetDevice::new(&control, name).is_ethernet()? {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it is no Ethernet device"));
        }
        let port: Box<dyn Port> = match driver {
            KernelPort::Packet => Box::new(PacketPort::open(name)?),
            KernelPort::Xdp => Box::new(XdpPort::open(name)?),
        };
        let socket = Arc::new(port.as_fd().try_clone_to_owned()?);
        Ok((Self { name: name.to_owned(), driver, index, socket, control, refused: None }, port))
    }

    /// The device by its name.
    fn device(&self) -> NetDevice<'_> {
        NetDevice::new(&self.control, &self.name)
    }

    /// A device that was deleted has let go of its socket; the next one of its name may have its number as well.
    fn is_gone(&self) -> bool {
        bound_to(&self.control) != Some(self.index) || self.device().index() != Some(self.index)
    }

    fn has_carrier(&self) -> bool {
        !self.is_gone() && self.device().has_carrier()
    }
}

/// The device to which a packet socket is bound; `None` since that was deleted.
fn bound_to(socket: &OwnedFd) -> Option<u32> {
    // SAFETY: an all-zero `sockaddr_ll` is valid: integers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: getsockname(2) writes at most `len` bytes to `address`, which outlives the call.
    let said = unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut len) };
    u32::try_from(address.sll_ifindex).ok().filter(|_| said == 0)
}

/// Runs something in a thread of its own, which it may move into another namespace.
fn in_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().expect("opening a device does not panic"))
}

/// Calls `look` whenever the kernel says that something about the devices of `outside` has changed, and at least every 10 ms,
/// until it returns false.
///
/// # Errors
/// If the kernel does not let us listen.
pub fn watch(outside: &Namespace, mut look: impl FnMut() -> bool) -> Result<(), Error> {
    let at = |step: &'static str| move |errno: Errno| Error::System { step, source: errno.into() };
    match outside.enter() {
        // Who is not root has no device there, and looks at its sockets as often.
        Ok(()) | Err(Errno::EPERM) => {}
        Err(errno) => return Err(at("enter the machine's network namespace")(errno)),
    }
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
