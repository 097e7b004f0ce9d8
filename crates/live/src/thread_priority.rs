//! How soon the kernel runs a thread that has something to do.
//!
//! A worker of a shaped network stands for hardware: it should be on time even when programs in the hosts, or others on the
//! machine, want all cores. Measured on 2 cores beside a build that kept both busy: 1.5 ms late on average as an ordinary thread, 0.03 ms
//! in real-time class. A worker of an unshaped network shares the cores with the programs that it serves, as they are:
//! there, late is only slow, and more urgent than they it would keep them from the core while somebody floods it (decision 93).
//!
//! A controller's threads run for some ten microseconds at a time, and six wake-ups lie between a write and its answer. Beside programs that
//! want all cores, one wake-up in 200 waited for up to 4 ms, mostly until a tick of the clock: a thread that is woken within 0.3 ms of its last
//! run has had its share of the core for the moment, so the scheduler does not let it in, and looks again at the next tick only. Shorter slices
//! help a little (p99 of an update 4.1 ms in place of 4.8), a larger share more (one wake-up in 1,000); docs/benchmarks.md has the figures.
#![allow(unsafe_code)]

use std::io;

/// Nice value of a worker that may be negative but not real-time.
const NICE: i32 = -15;

/// Nice value of a controller's threads: below a worker's urgency, since they may have much to do for long.
const CONTROLLER_NICE: i32 = -10;

/// The slice of CPU time that a worker asks for, nanoseconds: the least that the kernel takes. The scheduler (EEVDF, since Linux 6.12)
/// lets a thread that asks for less at a time have it sooner; that needs no rights.
const SLICE_NS: u64 = 100_000;

/// What `sched_setattr(2)` reads, in its first version.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Makes the calling thread, a worker or one that stands for hardware, as urgent as this user may.
pub fn raise(shaped: bool) {
    // By default the kernel adds up to 50 us to a sleep so that it can wake several threads at once: as much as a link's delay.
    if let Err(errno) = nix::sys::prctl::set_timerslack(1) {
        tracing::warn!("the kernel keeps the timer slack at its default: {errno}");
    }
    let fair = Attributes { policy: libc::SCHED_OTHER as u32, runtime: SLICE_NS, ..Attributes::default() };
    // The lowest real-time priority is above all that is not real-time; the kernel still keeps a part of each core for the others.
    let real_time = Attributes { policy: libc::SCHED_RR as u32, priority: 1, ..Attributes::default() };
    let nice = Attributes { nice: NICE, ..fair };
    // A worker of an unshaped network has no times to keep and may be busy all the time: it must not keep a CPU from everybody.
    let given = Attributes { nice: given_nice(), ..fair };
    let wishes = if shaped { &[real_time, nice, fair][..] } else { &[given] };
    if !wishes.iter().any(|&wish| set(wish).is_ok()) {
        tracing::info!("workers run at the default priority");
    }
}

/// Has the kernel run the calling thread soon after it wakes, for short slices, and often, if this user may ask for that. Who has started
/// the process with a priority of his own choice keeps it.
pub fn hasten() {
    let given = given_nice();
    let with = |nice| Attributes { policy: libc::SCHED_OTHER as u32, nice, runtime: SLICE_NS, ..Attributes::default() };
    let wishes = if given == 0 { &[CONTROLLER_NICE, 0][..] } else { &[given] };
    if !wishes.iter().any(|nice| set(with(*nice)).is_ok()) {
        tracing::debug!("the kernel keeps its slice for this thread");
    }
}

/// The nice value that the calling thread has by whoever started the process.
fn given_nice() -> i32 {
    // SAFETY: getpriority(2) takes numbers and gives one; 0 is the calling thread, which exists.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

fn set(mut attributes: Attributes) -> io::Result<()> {
    attributes.size = size_of::<Attributes>() as u32;
    // SAFETY: sched_setattr(2) reads `size` bytes of a struct of that size, which outlives the call; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
