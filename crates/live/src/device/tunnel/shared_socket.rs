//! A UDP socket that the tunnels of a machine share which have one address and port, as in Linux and Open vSwitch: each gets the datagrams of its network
//! (VNI) that come from its other end.
//!
//! Whichever tunnel reads a datagram of another one puts it into a queue of that one, and wakes who polls it: tunnels belong to workers, and a worker that
//! stands still must not hold up the others. A tunnel that has the socket for itself, as most have, never comes here.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, socket, sockopt};
use wire::Encapsulation;

/// What the kernel keeps of datagrams that have come and have not been read, in bytes.
const RECEIVE_BUFFER: usize = 4 << 20;

/// So many datagrams wait for a tunnel that others have read, of as many bytes as the kernel would keep; what comes on top is lost, and counted.
const QUEUE_MAX: usize = 4_096;

/// Sockets by their network namespace (its inode) and their address, as long as a tunnel has one.
static SOCKETS: Mutex<BTreeMap<(u64, SocketAddr), Weak<SharedSocket>>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A socket, and the tunnels that have it.
#[derive(Debug)]
pub struct SharedSocket {
    pub socket: UdpSocket,
    kind: Encapsulation,
    shares: Mutex<Vec<Weak<SocketShare>>>,
}

/// What a tunnel has of its own: whose datagrams are its, and those that others have read.
#[derive(Debug)]
pub struct SocketShare {
    remote: IpAddr,
    /// The only network that it carries, if there is but one.
    vni: Option<u32>,
    waiting: AtomicUsize,
    queue: Mutex<Queue>,
    lost: AtomicU64,
    wake: EventFd,
    /// Readable when the socket or the queue is.
    readable: Epoll,
}

/// Datagrams that others have read, and their bytes.
#[derive(Debug, Default)]
struct Queue {
    datagrams: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl SharedSocket {
    /// The socket of an address, in the calling thread's network namespace, with one more tunnel.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if another program, a tunnel of another kind or one of the same network and other end has it; or whatever else the kernel says.
    pub fn join(
        local: SocketAddr,
        kind: Encapsulation,
        (remote, vni): (IpAddr, Option<u32>),
    ) -> io::Result<(Arc<Self>, Arc<SocketShare>)> {
        let namespace = nix::sys::stat::stat("/proc/thread-self/ns/net")?.st_ino;
        let mut sockets = lock(&SOCKETS);
        sockets.retain(|_, socket| socket.strong_count() > 0);
        let shared = match sockets.entry((namespace, local)) {
            Entry::Occupied(found) => found.get().upgrade().ok_or(io::ErrorKind::AddrInUse)?,
            Entry::Vacant(free) => {
                let shared = Arc::new(Self { socket: bind(local)?, kind, shares: Mutex::default() });
                free.insert(Arc::downgrade(&shared));
                shared
            }
        };
        if shared.kind != kind {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let share = Arc::new(SocketShare::new(&shared.socket, remote, vni)?);
        let mut shares = lock(&shared.shares);
        shares.retain(|other| other.strong_count() > 0);
        if shares.iter().filter_map(Weak::upgrade).any(|other| other.meets(&share)) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        shares.push(Arc::downgrade(&share));
        drop(shares);
        Ok((shared, share))
    }

    /// Gives a datagram of a network to the tunnel that it is for; `false`: there is none. Where too much waits for that one already, it counts it as lost.
    pub fn pass_on(&self, datagram: &[u8], (from, vni): (IpAddr, u32)) -> bool {
        let shares = lock(&self.shares);
        let share = shares.iter().filter_map(Weak::upgrade).find(|share| share.is_for(from, vni));
        drop(shares);
        share.is_some_and(|share| {
            share.put(datagram);
            true
        })
    }
}

impl SocketShare {
    fn new(socket: &UdpSocket, remote: IpAddr, vni: Option<u32>) -> io::Result<Self> {
        let wake = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let readable = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        readable.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        readable.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, 1))?;
        let (waiting, queue, lost) = (AtomicUsize::new(0), Mutex::default(), AtomicU64::new(0));
        Ok(Self { remote, vni, waiting, queue, lost, wake, readable })
    }

    /// Whether a datagram of this network that comes from there is the tunnel's.
    pub fn is_for(&self, from: IpAddr, vni: u32) -> bool {
        self.remote == from && self.vni.is_none_or(|own| own == vni)
    }

    /// Whether some datagram could be of both.
    fn meets(&self, other: &Self) -> bool {
        self.remote == other.remote && (self.vni.is_none() || other.vni.is_none() || self.vni == other.vni)
    }

    fn put(&self, datagram: &[u8]) {
        let mut queue = lock(&self.queue);
        if queue.datagrams.len() >= QUEUE_MAX || queue.bytes + datagram.len() > RECEIVE_BUFFER {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.bytes += datagram.len();
        queue.datagrams.push_back(datagram.to_vec());
        self.waiting.store(queue.datagrams.len(), Ordering::Release);
        // It fails only if it is as loud as it can be.
        let _ = self.wake.write(1);
    }

    /// The next datagram that another tunnel has read.
    pub fn take(&self) -> Option<Vec<u8>> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut queue = lock(&self.queue);
        let datagram = queue.datagrams.pop_front();
        queue.bytes -= datagram.as_ref().map_or(0, Vec::len);
        self.waiting.store(queue.datagrams.len(), Ordering::Release);
        if queue.datagrams.is_empty() {
            let _ = self.wake.read();
        }
        datagram
    }

    /// How many were lost since this was asked last, as nobody has read what waited.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

impl AsFd for SocketShare {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.0.as_fd()
    }
}

/// A socket of this address and of its family alone: a tunnel over IPv4 may have the same port as one over IPv6.
fn bind(local: SocketAddr) -> io::Result<UdpSocket> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let family = if local.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let descriptor = socket(family, SockType::Datagram, flags, None)?;
    if local.is_ipv6() {
        setsockopt(&descriptor, sockopt::Ipv6V6Only, &true)?;
    }
    nix::sys::socket::bind(descriptor.as_raw_fd(), &SockaddrStorage::from(local))?;
    // Who may not have as much gets what there is.
    if setsockopt(&descriptor, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
        setsockopt(&descriptor, sockopt::RcvBuf, &RECEIVE_BUFFER)?;
    }
    Ok(descriptor.into())
}
