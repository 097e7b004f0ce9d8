//! Asks the kernel which user's process is at the other end of a connection within this machine (`sock_diag(7)`).
//!
//! The kernel knows a TCP socket by its addresses and ports, and names the user who made it and its inode. Three things could mislead:
//!
//! - A socket without an inode belongs to no process: it was closed, or not yet accepted. The kernel then says user 0, which here is
//!   nobody.
//! - Ports are used again: after a reset, another process may have the same ones. The connection in hand must still be whole when the
//!   other end has been looked up, and the kernel's socket of these ports be this very one, by its inode.
//! - An IPv4 connection may be seen as IPv6 at one end (`::ffff:127.0.0.1`): both are looked up as IPv4.
//!
//! Both ends of a loopback connection are in one network namespace, which is the one in which this is asked. Users are numbered as in
//! our own user namespace; whoever has no number there is the overflow user, and thus a stranger.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recvfrom, sendto, socket,
};
use nix::sys::stat::fstat;
use nix::unistd::{Uid, geteuid};

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;
/// `NLMSG_ERROR` of `linux/netlink.h`.
const ERROR: u16 = 2;
/// The flag `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// The length of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// The length of `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 56;
/// The length of `struct inet_diag_msg`.
const REPLY_BYTES: usize = 72;
/// The state `TCP_ESTABLISHED`.
const ESTABLISHED: u8 = 1;

/// A socket as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KernelSocket {
    uid: u32,
    inode: u32,
}

/// Whether the other end belongs to a process of our own user, or of root.
///
/// # Errors
/// Whose it is, or why that is not known, in words for a log and for the other side.
pub(super) fn check_other_end(own_socket: &impl AsFd, local: SocketAddr, remote: SocketAddr) -> Result<(), String> {
    let uid = other_end(own_socket, local, remote).map_err(|reason| {
        format!(
            "whose process is at the other end cannot be found out ({reason}): without certificates that has to be known"
        )
    })?;
    let uid = Uid::from_raw(uid);
    if uid == geteuid() || uid.is_root() {
        return Ok(());
    }
    Err(format!("it is a process of user {uid}, and without certificates only those of user {} may do this", geteuid()))
}

/// The user whose process is at the other end.
///
/// # Errors
/// Why that is not known.
pub(super) fn other_end(own_socket: &impl AsFd, local: SocketAddr, remote: SocketAddr) -> Result<u32, String> {
    let theirs = look_up(remote, local).map_err(|error| error.to_string())?;
    let theirs = theirs.ok_or("it has closed, or is not on this machine")?;
    let own = look_up(local, remote).map_err(|error| error.to_string())?;
    let inode = fstat(own_socket).map_err(|error| error.to_string())?.st_ino;
    if own.is_none_or(|own| u64::from(own.inode) != inode) {
        return Err("it has closed".into());
    }
    Ok(theirs.uid)
}

/// The established socket with these addresses, if it belongs to a process.
fn look_up(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<KernelSocket>> {
    let (local, remote) = (canonical(local), canonical(remote));
    let netlink =
        socket(AddressFamily::Netlink, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag)?;
    let kernel = NetlinkAddr::new(0, 0);
    sendto(netlink.as_raw_fd(), &request(local, remote), &kernel, MsgFlags::empty())?;
    let mut reply = [0; 1_024];
    loop {
        // The kernel answers before sending returns.
        let (bytes, from) = match recvfrom::<NetlinkAddr>(netlink.as_raw_fd(), &mut reply) {
            Err(Errno::EINTR) => continue,
            received => received?,
        };
        if from.is_some_and(|from| from.pid() == 0) {
            return parse(&reply[..bytes], local, remote);
        }
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&ip.octets());
            octets
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// `struct inet_diag_sockid` up to its addresses.
fn identity(local: SocketAddr, remote: SocketAddr) -> [u8; 36] {
    let mut id = [0; 36];
    id[..2].copy_from_slice(&local.port().to_be_bytes());
    id[2..4].copy_from_slice(&remote.port().to_be_bytes());
    id[4..20].copy_from_slice(&octets(local.ip()));
    id[20..36].copy_from_slice(&octets(remote.ip()));
    id
}

fn request(local: SocketAddr, remote: SocketAddr) -> [u8; HEADER_BYTES + REQUEST_BYTES] {
    let mut bytes = [0; HEADER_BYTES + REQUEST_BYTES];
    bytes[..4].copy_from_slice(&((HEADER_BYTES + REQUEST_BYTES) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
    let body = &mut bytes[HEADER_BYTES..];
    body[0] = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    body[1] = libc::IPPROTO_TCP as u8;
    body[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
    body[8..44].copy_from_slice(&identity(local, remote));
    // Any interface; no cookie.
    body[48..56].fill(0xff);
    bytes
}

/// Reads the kernel's answer. It may be about another socket, such as one that listens at the same port.
fn parse(bytes: &[u8], local: SocketAddr, remote: SocketAddr) -> io::Result<Option<KernelSocket>> {
    let odd = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is not understood");
    let word = |at: usize| -> io::Result<u32> {
        let bytes = bytes.get(at..at + 4).ok_or_else(odd)?;
        Ok(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
    };
    let kind = word(4)? & 0xffff;
    if kind == u32::from(ERROR) {
        let error = io::Error::from_raw_os_error(word(HEADER_BYTES)?.cast_signed().wrapping_neg());
        return if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) };
    }
    if kind != u32::from(BY_FAMILY) || bytes.len() < HEADER_BYTES + REPLY_BYTES {
        return Err(odd());
    }
    let body = &bytes[HEADER_BYTES..];
    let (family, state, id) = (i32::from(body[0]), body[1], &body[4..40]);
    let mapped = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    };
    // An end of an IPv4 connection may be an IPv6 socket.
    let expected =
        if family == libc::AF_INET { identity(local, remote) } else { identity(mapped(local), mapped(remote)) };
    let (uid, inode) = (word(HEADER_BYTES + 64)?, word(HEADER_BYTES + 68)?);
    let is_it = id == expected && state == ESTABLISHED && inode != 0;
    Ok(is_it.then_some(KernelSocket { uid, inode }))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair(listen: &str, dial: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(listen).unwrap();
        let port = listener.local_addr().unwrap().port();
        let dialled = TcpStream::connect(format!("{dial}:{port}")).unwrap();
        (dialled, listener.accept().unwrap().0)
    }

    fn check(end: &TcpStream) -> Result<(), String> {
        check_other_end(end, end.local_addr().unwrap(), end.peer_addr().unwrap())
    }

    #[test]
    fn our_own_process_is_at_the_other_end() {
        for (listen, dial) in
            [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "[::1]"), ("127.0.0.1:0", "[::ffff:127.0.0.1]")]
        {
            let (dialled, accepted) = pair(listen, dial);
            assert_eq!((check(&dialled), check(&accepted)), (Ok(()), Ok(())), "{dial}");
        }
    }

    #[test]
    fn nobody_is_not_root() {
        // Not accepted yet: the kernel says user 0 and no inode.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(check(&dialled).unwrap_err().contains("cannot be found out"));
        // Closed by its process.
        let (dialled, accepted) = pair("127.0.0.1:0", "127.0.0.1");
        drop(dialled);
        assert!(check(&accepted).unwrap_err().contains("has closed"));
    }

    #[test]
    fn another_connection_of_the_same_ports_is_not_this_one() {
        let (dialled, accepted) = pair("127.0.0.1:0", "127.0.0.1");
        let (local, remote) = (accepted.local_addr().unwrap(), accepted.peer_addr().unwrap());
        // The kernel's socket of these ports is not the one in hand.
        assert!(check_other_end(&dialled, local, remote).unwrap_err().contains("has closed"));
        assert_eq!(check(&accepted), Ok(()));
    }

    #[test]
    fn odd_answers_are_errors() {
        let at = |text: &str| text.parse().unwrap();
        for length in 0..HEADER_BYTES + REPLY_BYTES {
            assert!(parse(&vec![0; length], at("127.0.0.1:1"), at("127.0.0.1:2")).is_err(), "{length}");
        }
    }
}
