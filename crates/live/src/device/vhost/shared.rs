//! What the worker and the thread that talks to the front end share: rings, and by what each of them wakes the other.
//!
//! The worker has the rings for a burst at a time, and does not wait for them. The other thread changes them in between, and does only that while it has them.

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use topology::VhostUserDevice;

use crate::port::Fault;
use crate::virtqueue::{Call, Receiveq, Ring, Transmitq};

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

/// A pair of queues.
#[derive(Debug, Default)]
pub struct Pair {
    /// What the guest sends.
    pub transmitq: Running<Transmitq>,
    /// What it gets.
    pub receiveq: Running<Receiveq>,
}

/// The most pairs of a port.
pub const PAIRS_MAX: usize = VhostUserDevice::QUEUES_MAX as usize;

/// The rings of a guest.
#[derive(Debug)]
pub struct Rings {
    /// One or more; their number stays.
    pub pairs: Box<[Pair]>,
    /// By so many pairs the guest wants frames, of those that it has enabled.
    pub wanted: usize,
    /// The pairs that it gets frames by, the first so many. Follows from what they are, after each change.
    receiving: ([u8; PAIRS_MAX], usize),
    /// What was wrong with them: they are not touched any more.
    pub broken: Option<String>,
}

impl Rings {
    /// So many pairs that do not run.
    fn new(pairs: usize) -> Self {
        let none = ([0; PAIRS_MAX], 0);
        Self { pairs: (0..pairs).map(|_| Pair::default()).collect(), wanted: pairs, receiving: none, broken: None }
    }

    /// Shows the guest what was used since it was shown it last.
    pub fn show_used(&mut self) {
        for Pair { transmitq, receiveq } in &mut self.pairs {
            if let Some(queue) = &mut transmitq.queue {
                queue.show_used(&transmitq.call);
            }
            if let Some(queue) = &mut receiveq.queue {
                queue.show_used(&receiveq.call);
            }
        }
    }

    /// The pairs that the guest gets frames by.
    #[inline]
    pub fn receiving(&self) -> &[u8] {
        &self.receiving.0[..self.receiving.1]
    }

    /// All rings that run.
    pub fn running(&mut self) -> impl Iterator<Item = &mut Ring> {
        self.pairs.iter_mut().flat_map(|Pair { transmitq, receiveq }| {
            let transmitq = transmitq.queue.as_mut().map(Transmitq::ring);
            transmitq.into_iter().chain(receiveq.queue.as_mut().map(Receiveq::ring))
        })
    }

    /// Has all rings stop.
    pub fn clear(&mut self) {
        self.pairs.fill_with(Pair::default);
        self.wanted = self.pairs.len();
    }

    /// Finds out by which pairs the guest gets frames; whether it both sends and receives.
    fn look(&mut self) -> bool {
        let (mut receiving, mut count) = ([0; PAIRS_MAX], 0);
        for (at, _) in self.pairs.iter().enumerate().take(self.wanted).filter(|(_, pair)| pair.receiveq.is_used()) {
            receiving[count] = at as u8;
            count += 1;
        }
        self.receiving = (receiving, count);
        self.broken.is_none() && count > 0 && self.pairs.iter().any(|pair| pair.transmitq.is_used())
    }
}

/// See above.
#[derive(Debug)]
pub struct Shared {
    rings: Mutex<Rings>,
    /// How many pairs of queues there are.
    pub pairs: usize,
    /// Readable while the worker is to poll the rings.
    polled: EventFd,
    /// Of that, and of the guest's kicks. It is edge-triggered for those: the worker reads nothing of the guest's, which it could have empty by then.
    epoll: Epoll,
    /// Wakes the thread that talks to the front end.
    control: EventFd,
    is_stopping: AtomicBool,
    has_carrier: AtomicBool,
    /// By how many pairs the guest gets frames.
    used_pairs: AtomicUsize,
    /// What is wrong with the guest, or was when it was cut off.
    pub fault: std::sync::Arc<Fault>,
    /// How often it was cut off.
    pub faults: AtomicU64,
}

impl Shared {
    /// Without a guest, for so many pairs of queues.
    ///
    /// # Errors
    /// If the kernel has no descriptor left.
    pub fn new(pairs: usize) -> io::Result<Self> {
        let eventfd = || EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let (polled, control) = (eventfd()?, eventfd()?);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&polled, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        Ok(Self {
            rings: Mutex::new(Rings::new(pairs)),
            pairs,
            polled,
            epoll,
            control,
            is_stopping: AtomicBool::new(false),
            has_carrier: AtomicBool::new(false),
            used_pairs: AtomicUsize::new(0),
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
        let has_carrier = rings.look();
        let used_pairs = rings.receiving().len();
        drop(rings);
        self.has_carrier.store(has_carrier, Ordering::Relaxed);
        self.used_pairs.store(used_pairs, Ordering::Relaxed);
        self.poll_on();
        value
    }

    /// Whether a guest is attached that both sends and receives.
    pub fn has_carrier(&self) -> bool {
        self.has_carrier.load(Ordering::Relaxed)
    }

    /// By how many pairs of queues a guest gets frames; 0 of none that is attached.
    pub fn used_pairs(&self) -> usize {
        if self.has_carrier() { self.used_pairs.load(Ordering::Relaxed) } else { 0 }
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
        let mut events = [EpollEvent::empty(); 1 + PAIRS_MAX];
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
