//! DPDK itself (its environment abstraction layer), which starts with the first port and ends with the process.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use super::shim::heddle_dpdk_start;

/// The variable with DPDK's command line, in place of what follows from the machine.
pub const VARIABLE: &str = "HEDDLE_DPDK_EAL";

/// Memory in MiB where there are no huge pages: some fifty ports.
const MEMORY_MIB: u32 = 256;

/// Free huge pages of 2 MiB from which on DPDK's memory is there.
const HUGE_PAGES_MIN: u64 = 64;

/// What came of it.
static STARTED: Mutex<Option<Result<(), i32>>> = Mutex::new(None);

/// Has DPDK start, unless it has.
///
/// # Errors
/// If it does not: then not until the process ends, since it can't be tried twice.
pub fn start() -> io::Result<()> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let outcome = *started.get_or_insert_with(|| {
        // It binds the thread that calls it to one CPU.
        thread::spawn(|| start_here(&command_line())).join().unwrap_or(Err(libc::EINVAL))
    });
    outcome.map_err(|errno| {
        let cause = io::Error::from_raw_os_error(errno);
        io::Error::new(cause.kind(), format!("DPDK does not start: {cause}"))
    })
}

fn start_here(words: &[String]) -> Result<(), i32> {
    let words = words.iter().map(|word| CString::new(word.as_str()));
    let words: Vec<CString> = words.collect::<Result<_, _>>().map_err(|_| libc::EINVAL)?;
    let count = i32::try_from(words.len()).map_err(|_| libc::EINVAL)?;
    // It may keep and rearrange them as long as the process lives.
    let mut words: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
    words.push(std::ptr::null_mut());
    let words = Box::leak(words.into_boxed_slice());
    // SAFETY: `count` strings that end with a zero, and a null pointer behind them, all of which are never freed. It is called once a process, under the lock.
    match unsafe { heddle_dpdk_start(count, words.as_mut_ptr()) } {
        0 => Ok(()),
        error => Err(-error),
    }
}

/// DPDK's command line.
fn command_line() -> Vec<String> {
    let given = std::env::var(VARIABLE).ok().filter(|given| !given.trim().is_empty());
    let rest = given.unwrap_or_else(|| default_options(huge_pages_free(), first_cpu()));
    ["heddle"].into_iter().chain(rest.split_whitespace()).map(str::to_owned).collect()
}

/// Options with which it needs nothing of the machine, and leaves nothing behind. None of its threads works: frames are fetched by workers.
fn default_options(huge_pages: u64, cpu: usize) -> String {
    // Neither makes files; it has them exclude each other.
    let memory = if huge_pages >= HUGE_PAGES_MIN {
        "--in-memory".to_owned()
    } else {
        format!("--no-shconf --no-huge -m {MEMORY_MIB}")
    };
    format!("{memory} --no-pci --no-telemetry --log-level=error --iova-mode=va --lcores=0@{cpu}")
}

fn huge_pages_free() -> u64 {
    let pages = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    pages.ok().and_then(|pages| pages.trim().parse().ok()).unwrap_or(0)
}

/// A CPU on which this process may run.
fn first_cpu() -> usize {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap_or(false)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_huge_pages_it_takes_ordinary_memory() {
        assert!(default_options(0, 3).starts_with("--no-shconf --no-huge -m 256 --no-pci "));
        assert!(default_options(64, 3).starts_with("--in-memory --no-pci "));
        assert!(default_options(64, 3).ends_with(" --lcores=0@3"));
    }
}
