//! What is at the other end of a TCP connection: the host, and on this very machine the user.
//!
//! Bounds and counters are kept by [`RemoteHost`]: an address is cheap for who has a whole network of them (every loopback address is
//! this machine's, every IPv6 host has 2^64), so those count as one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use super::owner;

/// What counts as one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RemoteHost {
    /// A user of this machine; `None` if the kernel does not say which.
    Local(Option<u32>),
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// The first 64 bits of an IPv6 address: what a network gives one host to choose from (RFC 4291, 2.5.4).
    V6([u16; 4]),
}

impl RemoteHost {
    /// The maker of the connection from `peer` to the address `local` here, whose end here is `own_socket`.
    pub fn of(own_socket: &impl AsFd, peer: SocketAddr, local: SocketAddr) -> Self {
        let user = || owner::other_end(own_socket, local, peer).ok();
        Self::at(peer, local, user)
    }

    fn at(peer: SocketAddr, local: SocketAddr, user: impl FnOnce() -> Option<u32>) -> Self {
        let ip = peer.ip().to_canonical();
        match ip {
            // A client that uses another address of this machine as its source is on this machine as well.
            _ if ip.is_loopback() || ip == local.ip().to_canonical() => Self::Local(user()),
            IpAddr::V4(ip) => Self::V4(ip),
            IpAddr::V6(ip) => {
                let [a, b, c, d, ..] = ip.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

impl RemoteHost {
    /// The host alone.
    pub fn host(&self) -> String {
        match self {
            Self::Local(_) => "localhost".to_owned(),
            other => other.to_string(),
        }
    }

    /// The user, if it is one of this machine.
    pub const fn user(&self) -> Option<u32> {
        match self {
            Self::Local(user) => *user,
            Self::V4(_) | Self::V6(_) => None,
        }
    }
}

impl fmt::Display for RemoteHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(Some(uid)) => write!(f, "localhost, user {uid}"),
            Self::Local(None) => f.write_str("localhost"),
            Self::V4(ip) => ip.fmt(f),
            Self::V6(network) => {
                let mut segments = [0; 8];
                segments[..network.len()].copy_from_slice(network);
                write!(f, "{}/64", Ipv6Addr::from(segments))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_knows_whose_a_connection_is() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let own = nix::unistd::geteuid().as_raw();
            let local = accepted.local_addr().unwrap();
            assert_eq!(RemoteHost::of(&accepted, peer, local), RemoteHost::Local(Some(own)));
            // Of a connection that is not there nobody is the owner.
            let other = SocketAddr::new(peer.ip(), peer.port() ^ 1);
            assert_eq!(RemoteHost::of(&accepted, other, local), RemoteHost::Local(None));
            drop(client);
        }
    }

    /// The kernel says user 0 of a socket that its process has closed, and what that process sent before is still read.
    #[test]
    fn who_has_closed_is_nobody_and_not_root() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        drop(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let (accepted, peer) = listener.accept().unwrap();
        assert_eq!(RemoteHost::of(&accepted, peer, accepted.local_addr().unwrap()), RemoteHost::Local(None));
    }

    #[test]
    fn many_addresses_of_one_host_are_one() {
        let local: SocketAddr = "[2001:db8::1]:6640".parse().unwrap();
        let host = |text: &str| RemoteHost::at(text.parse().unwrap(), local, || None);
        assert_eq!(host("[2001:db8:1:2::3]:1"), host("[2001:db8:1:2:ffff::9]:2"));
        assert_ne!(host("[2001:db8:1:2::3]:1"), host("[2001:db8:1:3::3]:1"));
        assert_eq!(host("192.0.2.7:1"), host("192.0.2.7:2"));
        assert_eq!(host("[::ffff:192.0.2.7]:1"), host("192.0.2.7:2"));
        assert!(
            matches!(host("127.0.0.1:1"), RemoteHost::Local(_)) && matches!(host("127.9.9.9:1"), RemoteHost::Local(_))
        );
        assert_eq!(host("[2001:db8:1:2::3]:1").to_string(), "2001:db8:1:2::/64");
    }
}
