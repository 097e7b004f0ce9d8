//! Where commands of the guest come in, if its front end hands its controlq over. The thread that talks to the front end serves it: the worker has nothing to do with it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::virtqueue::{Call, Controlq};

/// See above.
#[derive(Debug)]
pub struct Commands {
    /// Of the guest's kick. As in [`super::shared::Shared`], it is edge-triggered: nothing is read that the guest has open as well.
    epoll: Epoll,
    /// The queue while its ring runs.
    pub queue: Option<Controlq>,
    /// Whom to notify of answers.
    pub call: Call,
}

impl Commands {
    /// Without a queue.
    ///
    /// # Errors
    /// If the kernel has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?, queue: None, call: Call::default() })
    }

    /// Readable when [`Commands::serve`] is to be called.
    pub fn kicked(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// Listens for a kick.
    ///
    /// # Errors
    /// If it can't be watched.
    pub fn watch(&self, kick: &File) -> io::Result<()> {
        Ok(self.epoll.add(kick, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0))?)
    }

    /// Does not listen for it any more. It is to be called before that is closed.
    pub fn ignore(&self, kick: &File) {
        // It is watched, or could not be.
        let _ = self.epoll.delete(kick);
    }

    /// Does what waits, as far as there are up to `pairs_max` pairs. Whether more may wait.
    ///
    /// # Errors
    /// Why the front end is to be cut off.
    pub fn serve(&mut self, pairs_max: u16, use_pairs: impl FnMut(u16)) -> Result<bool, String> {
        // Kicks until now are known.
        let _ = self.epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO);
        let Some(queue) = &mut self.queue else { return Ok(false) };
        let served = queue.serve(pairs_max, &self.call, use_pairs);
        if queue.ring().memory().has_faulted() {
            return Err("a file of its memory was cut off".to_owned());
        }
        served.map_err(|error| format!("its controlq has {error}"))
    }
}
