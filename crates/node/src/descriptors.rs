//! Open files: how many this process may have, and who may take how many of them.
//!
//! Whoever connects takes one. Without bounds, strangers would take the one that the disk needs for its next file. So what clients and
//! strangers may have together leaves [`RESERVE`] descriptors, and some for peers, that they can never take.

use std::io;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use placement::MEMBERS_MAX;

use super::Error;

/// Kept for the disk's files, the event loops, names that are looked up, and whatever else the process opens.
const RESERVE: u64 = 64;

/// With fewer a controller does not start.
pub(super) const LIMIT_MIN: u64 = 128;

/// Connections of clients, at most.
const CLIENTS_MAX: u64 = 16_384;

/// Connections that have not said yet who they are, at most.
const STRANGERS_MAX: u64 = 512;

/// Connections for HTTP, at most.
const HTTP_MAX: u64 = 64;

/// How many connections each host and user may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Open files of the process.
    pub limit: u64,
    /// Clients that have said who they are.
    pub clients: usize,
    /// Clients of one host among these.
    pub clients_of_host: usize,
    /// Connections that have not said yet who they are.
    pub strangers: usize,
    /// Connections for HTTP.
    pub http: usize,
}

impl Shares {
    /// The shares of so many open files.
    fn of(limit: u64) -> Self {
        // One each way.
        let peers = (2 * MEMBERS_MAX as u64).min(limit / 4);
        let rest = limit.saturating_sub(RESERVE + peers);
        let http = (rest / 8).clamp(4, HTTP_MAX);
        let strangers = (rest / 4).clamp(8, STRANGERS_MAX);
        let clients = rest.saturating_sub(http + strangers).min(CLIENTS_MAX);
        Self {
            limit,
            clients: clients as usize,
            clients_of_host: (clients * 3 / 4) as usize,
            strangers: strangers as usize,
            http: http as usize,
        }
    }

    /// Raises the limit of open files as far as this process may, and deals them out.
    ///
    /// # Errors
    /// [`Error::FewFiles`] if there are too few for a controller, [`Error::System`].
    pub fn take() -> Result<Self, Error> {
        let step = |step| move |errno: Errno| Error::System { step, source: errno.into() };
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(step("read the limit of open files"))?;
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(step("raise the limit of open files"))?;
        }
        if hard < LIMIT_MIN {
            return Err(Error::FewFiles { limit: hard, needed: LIMIT_MIN });
        }
        Ok(Self::of(hard))
    }
}

/// Whether a call failed for want of descriptors or of the kernel's memory: it may be tried again later.
pub(super) fn is_short(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_stays_whatever_the_limit() {
        for limit in [LIMIT_MIN, 129, 200, 256, 1_024, 4_096, 65_536, 1 << 20, u64::MAX] {
            let shares = Shares::of(limit);
            let taken = (shares.clients + shares.strangers + shares.http) as u64;
            let peers = (2 * MEMBERS_MAX as u64).min(limit / 4);
            assert!(taken + peers + RESERVE <= limit, "{shares:?}");
            assert!(shares.clients_of_host >= 10 && shares.clients_of_host < shares.clients, "{shares:?}");
        }
    }

    #[test]
    fn the_usual_limits_hold_many_clients() {
        assert_eq!(Shares::of(1_024).clients, 560);
        assert_eq!(Shares::of(1 << 20).clients as u64, CLIENTS_MAX);
    }
}
