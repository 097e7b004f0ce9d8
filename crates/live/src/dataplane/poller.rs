//! What a worker parks on: it returns when a port is readable, another thread wakes it, or a given time has come.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use machine::Span;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::Error;

/// Ports that one look reports at most; the others are reported by the next one.
pub const READY_MAX: usize = 64;

/// What the waking descriptor is known by.
const WAKE: u64 = u64::MAX;

/// Which port is readable: of which host, and on which of its devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortKey {
    /// The host's number; below 2^16.
    pub host: usize,
    /// 0 for a TAP.
    pub device: usize,
}

/// One worker's epoll instance, with the ports of one epoch.
#[derive(Debug)]
pub struct Poller {
    epoll: Epoll,
    waker: Arc<Waker>,
}

/// The eventfd by which others wake a worker. It is the same as long as the worker lives.
#[derive(Debug)]
pub struct Waker {
    eventfd: EventFd,
    /// Set while the worker is about to park or is parked: only then does waking it cost a system call.
    is_parking: AtomicBool,
}

/// Which ports are readable.
#[derive(Debug)]
pub struct Ready {
    events: [EpollEvent; READY_MAX],
    found: usize,
}

impl Ready {
    /// Nothing.
    pub fn none() -> Self {
        Self { events: [EpollEvent::empty(); READY_MAX], found: 0 }
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.found
    }

    /// The key of the port at `at`; `None` for what is no port.
    #[inline]
    pub fn port(&self, at: usize) -> Option<PortKey> {
        let key = self.events[at].data();
        (key != WAKE).then_some(PortKey { host: (key & u64::from(u32::MAX)) as usize, device: (key >> 32) as usize })
    }
}

impl Waker {
    /// Wakes nobody yet.
    pub fn new() -> Result<Self, Error> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let eventfd = EventFd::from_value_and_flags(0, flags).map_err(Error::system("make an eventfd"))?;
        Ok(Self { eventfd, is_parking: AtomicBool::new(false) })
    }

    /// Wakes the worker if it is parked or is about to park.
    #[inline]
    pub fn wake(&self) {
        if self.is_parking.swap(false, Ordering::SeqCst) {
            self.notify();
        }
    }

    /// Has the worker see [`Ready::port`] `None` at its next look, even if it is not parked.
    pub fn notify(&self) {
        // It fails only if the counter is at its end, and then it is readable already.
        let _ = self.eventfd.write(1);
    }
}

impl Poller {
    /// One that watches no port yet, of the worker that `waker` wakes.
    pub fn new(waker: Arc<Waker>) -> Result<Self, Error> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(Error::system("make an epoll"))?;
        epoll
            .add(&waker.eventfd, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))
            .map_err(Error::system("watch an eventfd"))?;
        Ok(Self { epoll, waker })
    }

    /// Wakes also when `port` is readable, and reports it as `key`.
    pub fn watch(&self, port: impl AsFd, PortKey { host, device }: PortKey) -> Result<(), Error> {
        let key = (device as u64) << 32 | host as u64;
        self.epoll.add(port, EpollEvent::new(EpollFlags::EPOLLIN, key)).map_err(Error::system("watch a port"))
    }

    /// Does not look at `port` any more.
    pub fn ignore(&self, port: impl AsFd) {
        // It fails only if the port was not watched.
        let _ = self.epoll.delete(port);
    }

    /// Resets the eventfd.
    pub fn clear(&self) {
        // Nothing to read means that it was reset before.
        let _ = self.waker.eventfd.read();
    }

    /// To be called before the last check for work ahead of [`Poller::park`]: whoever adds work after that check wakes the worker.
    pub fn prepare_to_park(&self) {
        self.waker.is_parking.store(true, Ordering::SeqCst);
    }

    /// Parks until something is to be done, for `most` at the longest (`None`: without end); fills `ready`.
    pub fn park(&self, most: Option<Span>, ready: &mut Ready) {
        ready.found = self.wait(most, &mut ready.events).unwrap_or(0);
        self.waker.is_parking.store(false, Ordering::SeqCst);
    }

    /// Finds out which ports are readable, without parking.
    #[inline]
    pub fn poll(&self, ready: &mut Ready) {
        ready.found = self.wait(Some(Span::ZERO), &mut ready.events).unwrap_or(0);
    }

    /// It is only ever interrupted by a signal, and then nothing is ready. That the kernel can do it, [`probe`] has found out.
    fn wait(&self, most: Option<Span>, events: &mut [EpollEvent; READY_MAX]) -> io::Result<usize> {
        const NANOSECONDS: u64 = 1_000_000_000;
        let timeout = most.map(|span| libc::timespec {
            tv_sec: (span.as_ns() / NANOSECONDS).cast_signed(),
            tv_nsec: (span.as_ns() % NANOSECONDS).cast_signed(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: epoll_pwait2(2) writes at most READY_MAX events into an array of that length (`EpollEvent` is transparent over
        // `epoll_event`), reads one timespec or none, and takes no signal mask. nix has only the variant with milliseconds, of
        // which a link's delay is a small part.
        let found = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.0.as_raw_fd(),
                events.as_mut_ptr(),
                i32::try_from(READY_MAX).unwrap_or(i32::MAX),
                timeout,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        usize::try_from(found).map_err(|_| io::Error::last_os_error())
    }
}

/// Checks that the kernel can sleep for less than a millisecond: without that, a worker would spin.
///
/// # Errors
/// [`Error::Sleep`] if it cannot: it is older than Linux 5.11, or a container's filter forbids it.
pub fn probe() -> Result<(), Error> {
    let mut events = [EpollEvent::empty(); READY_MAX];
    match Poller::new(Arc::new(Waker::new()?))?.wait(Some(Span::ZERO), &mut events) {
        Err(source) if source.kind() != io::ErrorKind::Interrupted => Err(Error::Sleep { source }),
        _ => Ok(()),
    }
}
