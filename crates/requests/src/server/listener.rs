//! Where a server listens: TCP, and Unix sockets.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket, sockopt,
};

use crate::error::Error;

/// What is spoken with those who connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// They are sent one line.
    Line,
}

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    socket: ListeningSocket,
    /// What is spoken there.
    pub protocol: Protocol,
}

#[derive(Debug)]
enum ListeningSocket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Takes a TCP port; port 0 is any that is free. At `[::]` it listens for IPv4 as well, and for IPv4 alone where there is no IPv6.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn tcp(address: SocketAddr, protocol: Protocol) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address, source };
        let bound = if address.ip() == Ipv6Addr::UNSPECIFIED { bind_all(address) } else { TcpListener::bind(address) };
        let socket = bound.map_err(failed)?;
        // Connections inherit it: answers go out at once.
        setsockopt(&socket, sockopt::TcpNoDelay, &true).map_err(|errno| failed(errno.into()))?;
        Ok(Self { socket: ListeningSocket::Tcp(socket), protocol })
    }

    /// Makes a Unix socket. One that an earlier process left there, at which nobody listens, is replaced; one at which somebody does is not.
    ///
    /// # Errors
    /// [`Error::ListenUnix`].
    pub fn unix(path: &Path, protocol: Protocol) -> Result<Self, Error> {
        let failed = |source| Error::ListenUnix { path: path.to_owned(), source };
        let bound = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) => {
                std::fs::remove_file(path).map_err(failed)?;
                UnixListener::bind(path)
            }
            outcome => outcome,
        };
        Ok(Self { socket: ListeningSocket::Unix(bound.map_err(failed)?, path.to_owned()), protocol })
    }

    /// The address it has; nothing of a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            ListeningSocket::Tcp(socket) => socket.local_addr().ok(),
            ListeningSocket::Unix(..) => None,
        }
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match &mut self.socket {
            ListeningSocket::Tcp(socket) => registry.register(socket, token, Interest::READABLE),
            ListeningSocket::Unix(socket, _) => registry.register(socket, token, Interest::READABLE),
        }
    }

    pub(super) fn accept(&self) -> io::Result<Stream> {
        match &self.socket {
            ListeningSocket::Tcp(socket) => socket.accept().map(|(stream, _)| Stream::Tcp(stream)),
            ListeningSocket::Unix(socket, _) => socket.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let ListeningSocket::Unix(_, path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Listens at all addresses of both families, `address` being `[::]`.
fn bind_all(address: SocketAddr) -> io::Result<TcpListener> {
    match bind_dual_stack(address) {
        Ok(socket) => Ok(socket),
        // A kernel without IPv6 (`ipv6.disable=1`).
        Err(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL) => {
            TcpListener::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()))
        }
        Err(errno) => Err(errno.into()),
    }
}

fn bind_dual_stack(address: SocketAddr) -> nix::Result<TcpListener> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let descriptor = socket(AddressFamily::Inet6, SockType::Stream, flags, None)?;
    // As the standard library has it: a port whose connections are in TIME-WAIT is free.
    setsockopt(&descriptor, sockopt::ReuseAddr, &true)?;
    // Whatever `net.ipv6.bindv6only` says.
    setsockopt(&descriptor, sockopt::Ipv6V6Only, &false)?;
    bind(descriptor.as_raw_fd(), &SockaddrStorage::from(address))?;
    listen(&descriptor, Backlog::MAXCONN)?;
    Ok(TcpListener::from_std(std::net::TcpListener::from(descriptor)))
}

/// Whether a socket is there at which nobody listens.
fn is_abandoned(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && std::os::unix::net::UnixStream::connect(path).as_ref().is_err_and(refused)
}

/// One end of a connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let source: &mut dyn Source = match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        };
        source.register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    pub fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(to),
            Self::Unix(stream) => stream.read(to),
        }
    }

    pub fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(from),
            Self::Unix(stream) => stream.write(from),
        }
    }

    /// Nothing more is written.
    pub fn finish(&self) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(std::net::Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(std::net::Shutdown::Write),
        };
    }
}
