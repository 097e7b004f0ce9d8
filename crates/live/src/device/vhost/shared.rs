//! What the worker and the thread that talks to the front end share: rings, and by what each of them wakes the other.
//!
//! The worker has the rings for a burst at a time, and does not wait for them. The other thread changes them in between, and does only that while it has them.

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::port::Fault;
use crate::virtqueue::{Call, Receiveq, Transmitq};

/// A queue while its ring runs.
#[derive(Debug)]
pub struct Running<Q> {
    /// The queue.
    pub queue: Option<Q>,
    /// Whether it is used.
    pub is_enabled: bool,
    /// Whom to notify of what was used.
    pub call: Call,
}

impl<Q> Default for Running<Q> {
    fn default() -> Self {
        Self { queue: None, is_enabled: false, call: Call::default() }
    }
}

impl<Q> Running<Q> {
    /// The queue if it is used, and whom to notify.
    #[inline]
    pub fn used(&mut self) -> Option<(&mut Q, &Call)> {
        Some((self.queue.as_mut().filter(|_| self.is_enabled)?, &self.call))
    }

    const fn is_used(&self) -> bool {
        self.queue.is_some() && self.is_enabled
    }
}

/// The rings of a guest.
#[derive(Debug, Default)]
pub struct Rings {
    /// What it sends.
    pub transmitq: Running<Transmitq>,
    /// What it gets.
    pub receiveq: Running<Receiveq>,
    /// What was wrong with them: they are not touched any more.
    pub broken: Option<String>,
}

impl Rings {
    /// Shows the guest what was used since it was shown it last.
    pub fn show_used(&mut self) {
        if let Some(queue) = &mut self.transmitq.queue {
            queue.show_used(&self.transmitq.call);
        }
        if let Some(queue) = &mut self.receiveq.queue {
            queue.show_used(&self.receiveq.call);
        }
    }
}

/// See above.
#[derive(Debug)]
pub struct Shared {
    rings: Mutex<Rings>,
    /// Readable while the worker is to poll the rings.
    polled: EventFd,
    /// Of that, and of the guest's kick. It is edge-triggered for the latter: the worker reads nothing of the guest's, which it could have empty by then.
    epoll: Epoll,
    /// Wakes the thread that talks to the front end.
    control: EventFd,
    is_stopping: AtomicBool,
    has_carrier: AtomicBool,
    /// What is wrong with the guest, or was when it was cut off.
    pub fault: std::sync::Arc<Fault>,
    /// How often it was cut off.
    pub faults: AtomicU64,
}

impl Shared {
    /// Without a guest.
    ///
    /// # Errors
    /// If the kernel has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let eventfd = || EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let (polled, control) = (eventfd()?, eventfd()?);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&polled, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        Ok(Self {
            rings: Mutex::default(),
            polled,
            epoll,
            control,
            is_stopping: AtomicBool::new(false),
            has_carrier: AtomicBool::new(false),
            fault: std::sync::Arc::default(),
            faults: AtomicU64::new(0),
        })
    }

    /// Readable when the rings are to be looked at.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// The rings, for a burst; `None` while they are being changed.
    #[inline]
    pub fn try_rings(&self) -> Option<MutexGuard<'_, Rings>> {
        match self.rings.try_lock() {
            Ok(rings) => Some(rings),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Changes the rings between two bursts, and has the worker look at them.
    pub fn change<T>(&self, change: impl FnOnce(&mut Rings) -> T) -> T {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        // A burst that found them in use may have left something.
        rings.show_used();
        let value = change(&mut rings);
        let has_carrier = rings.broken.is_none() && rings.transmitq.is_used() && rings.receiveq.is_used();
        drop(rings);
        self.has_carrier.store(has_carrier, Ordering::Relaxed);
        self.poll_on();
        value
    }

    /// Whether a guest is attached that both sends and receives.
    pub fn has_carrier(&self) -> bool {
        self.has_carrier.load(Ordering::Relaxed)
    }

    /// The worker is to poll the rings from now on.
    pub fn poll_on(&self) {
        // It fails only if the counter is at its end, and then it is readable already.
        let _ = self.polled.write(1);
    }

    /// The worker is to wait for the guest's kick from now on.
    pub fn poll_no_more(&self) {
        // Nothing to read means that it was reset before.
        let _ = self.polled.read();
        self.forget_kicks();
    }

    /// Kicks until now are known.
    pub fn forget_kicks(&self) {
        let mut events = [EpollEvent::empty(); 2];
        let _ = self.epoll.wait(&mut events, EpollTimeout::ZERO);
    }

    /// Has a kick wake the worker.
    ///
    /// # Errors
    /// If it can't be watched.
    pub fn watch(&self, kick: impl AsFd) -> io::Result<()> {
        Ok(self.epoll.add(kick, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 1))?)
    }

    /// Does not wait for a kick any more. It is to be called before that is closed: the guest has it open as well.
    pub fn ignore(&self, kick: impl AsFd) {
        // One of the receiveq was never watched.
        let _ = self.epoll.delete(kick);
    }

    /// The worker has found nonsense in the rings: the guest is to be cut off.
    #[cold]
    pub fn break_off(&self, rings: &mut Rings, why: impl Display) {
        if rings.broken.is_none() {
            rings.broken = Some(why.to_string());
            self.has_carrier.store(false, Ordering::Relaxed);
            let _ = self.control.write(1);
        }
    }

    /// What is wrong with the rings.
    pub fn broken(&self) -> Option<String> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner).broken.clone()
    }

    /// Has the thread that talks to the front end look around.
    pub fn wake_control(&self) {
        let _ = self.control.write(1);
    }

    /// Readable when that thread is to look around.
    pub const fn control(&self) -> &EventFd {
        &self.control
    }

    /// Has that thread end.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.wake_control();
    }

    /// Whether it is to end.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }
}
