//! What is mapped of another process's file can be cut off by it at any time: whoever touches it then gets SIGBUS, which would end this process.
//!
//! The handler puts empty pages in the place of the whole mapping and notes that in its slot, so that the thread goes on and finds out. Other faults go
//! to whoever handled them before.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Mappings of guests' memory that there may be at once, in the whole process.
const SLOTS: usize = 4_096;

/// One mapping.
struct Slot {
    is_taken: AtomicBool,
    /// Its first byte; 0 while it is none.
    start: AtomicUsize,
    len: AtomicUsize,
    has_faulted: AtomicBool,
}

static SLOT: [Slot; SLOTS] = [const {
    Slot {
        is_taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        has_faulted: AtomicBool::new(false),
    }
}; SLOTS];

/// No slot from here on was ever taken.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Who handled SIGBUS before.
struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: it is written once, by sigaction(2) as it installs the handler, which is the only one that reads it.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));

/// A mapping that is looked after, until this is dropped: before it is unmapped.
#[derive(Debug)]
pub struct Guard(&'static Slot);

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("start", &self.start).field("len", &self.len).finish_non_exhaustive()
    }
}

impl Guard {
    /// Looks after `len` bytes from `start` on, which are whole pages of one mapping.
    ///
    /// # Errors
    /// If the handler can't be installed, or too many mappings are looked after.
    pub fn new(start: usize, len: usize) -> io::Result<Self> {
        install()?;
        for (at, slot) in SLOT.iter().enumerate() {
            if slot.is_taken.swap(true, Ordering::Acquire) {
                continue;
            }
            slot.has_faulted.store(false, Ordering::Relaxed);
            slot.len.store(len, Ordering::Relaxed);
            // The handler reads the length behind the start.
            slot.start.store(start, Ordering::Release);
            USED.fetch_max(at + 1, Ordering::Release);
            return Ok(Self(slot));
        }
        Err(io::Error::other("too many mappings of guests' memory"))
    }

    /// Whether its file was cut off, so that empty pages are in its place.
    #[inline]
    pub fn has_faulted(&self) -> bool {
        self.0.has_faulted.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::Release);
        self.0.is_taken.store(false, Ordering::Release);
    }
}

fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let outcome = INSTALLED.get_or_init(|| {
        // SAFETY: an all-zero `sigaction` is valid: an empty mask, no flags, the default action.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as usize;
        // A thread whose stack has run over has another one for its handlers.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler calls only what signal-safety(7) allows, and the previous action is written to a place that nothing else writes.
        let done = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, PREVIOUS.0.get().cast()) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)) }
    });
    outcome.map_err(io::Error::from_raw_os_error)
}

extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands over a `siginfo_t`, with an address since it is of a fault.
    let at = unsafe { (*info).si_addr() } as usize;
    for slot in &SLOT[..USED.load(Ordering::Acquire)] {
        let start = slot.start.load(Ordering::Acquire);
        let len = slot.len.load(Ordering::Relaxed);
        if start == 0 || at < start || at - start >= len {
            continue;
        }
        slot.has_faulted.store(true, Ordering::Relaxed);
        // SAFETY: the slot's mapping is there, since a thread has just read or written in it, and whoever unmaps it gives up the slot first. What
        // is put in its place is as long and may be read and written, too. mmap(2) is a system call without state of its own, which may be
        // called anywhere; errno is put back.
        unsafe {
            let errno = *libc::__errno_location();
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            let mapped =
                libc::mmap(ptr::without_provenance_mut(start), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            *libc::__errno_location() = errno;
            if mapped != libc::MAP_FAILED {
                return;
            }
        }
        break;
    }
    // SAFETY: sigaction(2) has written it before this handler could be called. The access is tried again behind it, and faults again.
    unsafe { libc::sigaction(libc::SIGBUS, PREVIOUS.0.get().cast(), ptr::null_mut()) };
}
