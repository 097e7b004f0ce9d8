//! New connections, from addresses of one's own choice.

use std::io;
use std::net::{IpAddr, SocketAddr};

use mio::net::TcpStream;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};
use std::os::fd::AsRawFd;

use crate::error::Error;

/// Whom to connect to next, and from where.
#[derive(Debug)]
pub(super) struct Connector {
    targets: Vec<(SocketAddr, Vec<IpAddr>)>,
    next_target: usize,
    next_source: usize,
}

impl Connector {
    /// # Errors
    /// [`Error::SourceFamily`] if there are sources, and none for one of the targets.
    pub fn new(targets: &[SocketAddr], sources: &[IpAddr]) -> Result<Self, Error> {
        let of_family = |target: &SocketAddr| -> Result<_, Error> {
            let fitting: Vec<_> = sources.iter().copied().filter(|it| it.is_ipv4() == target.is_ipv4()).collect();
            if fitting.is_empty() && !sources.is_empty() {
                return Err(Error::SourceFamily { target: *target });
            }
            Ok((*target, fitting))
        };
        let targets: Result<Vec<_>, _> = targets.iter().map(of_family).collect();
        Ok(Self { targets: targets?, next_target: 0, next_source: 0 })
    }

    /// Other targets from now on, unless there are none, or no source fits one of them.
    pub fn retarget(&mut self, targets: &[SocketAddr], sources: &[IpAddr]) {
        if let Ok(other) = Self::new(targets, sources)
            && !other.targets.is_empty()
        {
            self.next_target %= other.targets.len();
            self.targets = other.targets;
        }
    }

    /// Begins a connection to the next target from the next source.
    pub fn connect(&mut self) -> io::Result<TcpStream> {
        let (target, sources) = &self.targets[self.next_target];
        self.next_target = (self.next_target + 1) % self.targets.len();
        let stream = if sources.is_empty() {
            TcpStream::connect(*target)?
        } else {
            self.next_source = self.next_source.wrapping_add(1);
            connect_from(sources[self.next_source % sources.len()], *target)?
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

fn connect_from(source: IpAddr, target: SocketAddr) -> io::Result<TcpStream> {
    let family = if target.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let descriptor = socket(family, SockType::Stream, flags, None)?;
    // The port is chosen when the other end is known: there are as many for each.
    setsockopt(&descriptor, sockopt::IpBindAddressNoPort, &true)?;
    bind(descriptor.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(source, 0)))?;
    match connect(descriptor.as_raw_fd(), &SockaddrStorage::from(target)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from_std(std::net::TcpStream::from(descriptor))),
        Err(errno) => Err(errno.into()),
    }
}
