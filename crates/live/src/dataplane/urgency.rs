//! How urgently the kernel runs a worker. A worker stands for hardware: it should be on time even when the programs in the hosts, or
//! others on the machine, want all cores.
#![allow(unsafe_code)]

/// Nice value of a worker, where this user may lower it.
const NICE: libc::c_int = -15;

/// The slice of CPU time that a worker asks for, nanoseconds: the least that the kernel takes. The scheduler (EEVDF, since Linux 6.12)
/// lets a thread that asks for less at a time have it sooner; that needs no rights.
const SLICE_NS: u64 = 100_000;

/// What `sched_setattr(2)` reads, in its first version.
#[repr(C)]
#[derive(Default)]
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

/// Makes the calling thread as urgent as this user may.
pub fn raise() {
    // By default the kernel adds up to 50 us to a sleep so that it can wake several threads at once: as much as a link's delay.
    if let Err(errno) = nix::sys::prctl::set_timerslack(1) {
        tracing::warn!("the kernel keeps the timer slack at its default: {errno}");
    }
    if set(NICE).is_err()
        && let Err(error) = set(0)
    {
        tracing::info!("workers run with the default slice of CPU time: {error}");
    }
}

fn set(nice: i32) -> std::io::Result<()> {
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        nice,
        runtime: SLICE_NS,
        ..Attributes::default()
    };
    // SAFETY: sched_setattr(2) reads `size` bytes of a struct of that size, which outlives the call; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}
