//! Who is at the other end of a TCP connection: the host, and on this very machine the user.
//!
//! Bounds and counters are kept by [`RemoteHost`]: an address is cheap for who has a whole network of them (every loopback address is
//! this machine's, every IPv6 host has 2^64), so those count as one.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket};

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
    /// Who made the connection from `peer` to our `local` address.
    pub fn of(peer: SocketAddr, local: SocketAddr) -> Self {
        let ip = peer.ip().to_canonical();
        match ip {
            // Who uses another address of this machine as its source is on this machine as well.
            _ if ip.is_loopback() || ip == local.ip().to_canonical() => Self::Local(local_user(peer, local).ok()),
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

/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;

/// Length of `struct inet_diag_req_v2`.
const REQUEST: usize = 56;

/// Where `idiag_uid` is in `struct inet_diag_msg`.
const UID_AT: usize = 64;

/// `SOCK_DIAG_BY_FAMILY` (`linux/sock_diag.h`).
const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// `NLM_F_REQUEST` (`linux/netlink.h`).
const NLM_F_REQUEST: u16 = 1;

/// The user whose process of this machine made the TCP connection from `peer` to our `local` address, as the kernel has it
/// (`sock_diag(7)`): one question about one socket, answered at once.
///
/// # Errors
/// The kernel has no such socket (any more), or does not answer such questions.
pub(crate) fn local_user(peer: SocketAddr, local: SocketAddr) -> io::Result<u32> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let asking = socket(AddressFamily::Netlink, SockType::Datagram, flags, SockProtocol::NetlinkSockDiag)?;
    let answer = ask(&asking, &request(peer, local))?;
    uid_in(&answer).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

fn ask(asking: &OwnedFd, request: &[u8]) -> Result<Vec<u8>, Errno> {
    // The kernel.
    let to = NetlinkAddr::new(0, 0);
    sendto(asking.as_raw_fd(), request, &to, MsgFlags::empty())?;
    // It has answered before `sendto` returns.
    let mut answer = vec![0; 4_096];
    let length = recv(asking.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(length);
    Ok(answer)
}

/// A question about the socket whose own address is `own`, connected to `other`.
fn request(own: SocketAddr, other: SocketAddr) -> Vec<u8> {
    let family = if own.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut bytes = Vec::with_capacity(HEADER + REQUEST);
    bytes.extend_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
    bytes.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    // Family, protocol, no extensions, padding; all states.
    bytes.extend_from_slice(&[family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    bytes.extend_from_slice(&u32::MAX.to_ne_bytes());
    bytes.extend_from_slice(&own.port().to_be_bytes());
    bytes.extend_from_slice(&other.port().to_be_bytes());
    for address in [own.ip(), other.ip()] {
        let mut octets = [0; 16];
        match address {
            IpAddr::V4(ip) => octets[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => octets = ip.octets(),
        }
        bytes.extend_from_slice(&octets);
    }
    // Any interface, any cookie (INET_DIAG_NOCOOKIE).
    bytes.extend_from_slice(&0_u32.to_ne_bytes());
    bytes.extend_from_slice(&[0xff; 8]);
    bytes
}

/// The user in an answer; `None` if it is an error.
fn uid_in(answer: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let uid = answer.get(HEADER + UID_AT..HEADER + UID_AT + 4)?;
    (kind == SOCK_DIAG_BY_FAMILY).then(|| u32::from_ne_bytes(uid.try_into().expect("four bytes")))
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
            assert_eq!(RemoteHost::of(peer, accepted.local_addr().unwrap()), RemoteHost::Local(Some(own)));
            // Of a connection that is not there nobody is the owner.
            let other = SocketAddr::new(peer.ip(), peer.port() ^ 1);
            assert!(local_user(other, accepted.local_addr().unwrap()).is_err());
            drop(client);
        }
    }

    #[test]
    fn many_addresses_of_one_host_are_one() {
        let local: SocketAddr = "[2001:db8::1]:6640".parse().unwrap();
        let host = |text: &str| RemoteHost::of(text.parse().unwrap(), local);
        assert_eq!(host("[2001:db8:1:2::3]:1"), host("[2001:db8:1:2:ffff::9]:2"));
        assert_ne!(host("[2001:db8:1:2::3]:1"), host("[2001:db8:1:3::3]:1"));
        assert_eq!(host("192.0.2.7:1"), host("192.0.2.7:2"));
        assert_eq!(host("[::ffff:192.0.2.7]:1"), host("192.0.2.7:2"));
        assert!(
            matches!(host("127.0.0.1:1"), RemoteHost::Local(_)) && matches!(host("127.9.9.9:1"), RemoteHost::Local(_))
        );
        assert_eq!(host("[2001:db8:1:2::3]:1").to_string(), "2001:db8:1:2::/64");
    }

    #[test]
    fn an_answer_that_is_cut_or_an_error_names_nobody() {
        let mut answer = vec![0; HEADER + UID_AT + 4];
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        answer[HEADER + UID_AT] = 7;
        assert_eq!(uid_in(&answer), Some(7));
        assert!((0..answer.len()).all(|length| uid_in(&answer[..length]).is_none()));
        // NLMSG_ERROR.
        answer[4] = 2;
        assert_eq!(uid_in(&answer), None);
    }
}
