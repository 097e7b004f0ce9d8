//! What can go wrong before a program of a service runs, or end it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a program cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address to listen at is taken, or not this machine's.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The same of a Unix socket.
    #[error("cannot listen at {}: {source}", path.display())]
    ListenUnix {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A source address and a target are not of the same family.
    #[error("no source address is of the same family as {target}")]
    SourceFamily {
        /// Where to.
        target: SocketAddr,
    },
    /// A file of the kernel's cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The system refuses something that is always needed.
    #[error("cannot {what}: {source}")]
    System {
        /// What for.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Listen { address, source } => match source.kind() {
                io::ErrorKind::AddrInUse => {
                    Some(format!("`ss -ltnp 'sport = :{}'` shows who listens there", address.port()))
                }
                io::ErrorKind::AddrNotAvailable => Some("`ip address` shows this machine's addresses".to_owned()),
                io::ErrorKind::PermissionDenied => Some("ports below 1024 need root, or a higher port".to_owned()),
                _ => None,
            },
            Self::ListenUnix { source, .. } => Some(match source.kind() {
                io::ErrorKind::AddrInUse => {
                    "`ss -lxp` shows who listens there; a file that is no socket is not replaced".to_owned()
                }
                io::ErrorKind::InvalidInput => "a socket's path has 107 bytes at most".to_owned(),
                _ => "the folder has to be there, and writable".to_owned(),
            }),
            Self::SourceFamily { .. } => {
                Some("give an IPv4 source for IPv4 targets, an IPv6 one for IPv6 targets".to_owned())
            }
            Self::File { .. } | Self::System { .. } => None,
        }
    }
}
