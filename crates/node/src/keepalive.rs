//! Clients that vanish without a word, as when their machine loses its power: the kernel asks whether they are there.
//!
//! `TCP_USER_TIMEOUT` would find those sooner to whom something was sent, but it also ends connections of clients that are there and do not
//! read (a closed window counts as silence), and nobody is cut off for being slow (decision 19). So these go by `tcp_retries2`, in a
//! quarter of an hour.

use std::os::fd::AsFd;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{KeepAlive, TcpKeepCount, TcpKeepIdle, TcpKeepInterval};

/// After so long without a word the other end is asked whether it is there, seconds.
const IDLE_S: u32 = 60;

/// And again after so long, seconds.
const INTERVAL_S: u32 = 10;

/// Probes that may go unanswered before the connection is given up.
const PROBES: u32 = 3;

/// Has the kernel cut off clients that are not there any more. Accepted sockets have it from the one that listens.
pub(super) fn notice_vanished(listener: &impl AsFd) {
    let outcome = setsockopt(listener, KeepAlive, &true)
        .and_then(|()| setsockopt(listener, TcpKeepIdle, &IDLE_S))
        .and_then(|()| setsockopt(listener, TcpKeepInterval, &INTERVAL_S))
        .and_then(|()| setsockopt(listener, TcpKeepCount, &PROBES));
    if let Err(error) = outcome {
        tracing::warn!("clients that vanish are not noticed: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use nix::sys::socket::getsockopt;

    use super::*;

    #[test]
    fn accepted_sockets_have_it_from_the_one_that_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        notice_vanished(&listener);
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(getsockopt(&accepted, KeepAlive).unwrap());
        assert_eq!(getsockopt(&accepted, TcpKeepIdle).unwrap(), 60);
        assert_eq!(getsockopt(&accepted, TcpKeepInterval).unwrap(), 10);
        assert_eq!(getsockopt(&accepted, TcpKeepCount).unwrap(), 3);
    }
}
