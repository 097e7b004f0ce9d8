//! The processes that run in hosts, found by their mark and ended.
//!
//! A process in a host has a mount namespace in which `/etc/hosts` is the instance's `hosts-MARK`; its children
//! inherit that. A hypervisor, which is in no host, has that file's path in its environment ([`MARKED`]), as have its children, which the kernel does not end with it. The mark is unique, unlike the number of a network namespace, which the kernel gives to the next one
//! as soon as it is free.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What has the mark in the environment of a process that is in no host.
pub const MARKED: &str = "HEDDLE_HOSTS_FILE";

/// How long a process has between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// How long SIGKILL may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Ends all processes that carry `mark` (in the network namespaces of inodes `within`, if given): SIGTERM, and SIGKILL for those that
/// are still there after half a second, all of them at one time. Returns how many there were.
pub fn end(mark: &str, within: Option<&BTreeSet<u64>>) -> usize {
    let mut ended = signal(mark, within, libc::SIGTERM);
    let start = Instant::now();
    let mut left = ended;
    while left > 0 && start.elapsed() < GRACE + PATIENCE {
        sleep(Duration::from_millis(5));
        let signum = if start.elapsed() < GRACE { 0 } else { libc::SIGKILL };
        left = signal(mark, within, signum);
        ended = ended.max(left);
    }
    ended
}

/// How many processes carry `mark`.
pub fn count(mark: &str) -> usize {
    signal(mark, None, 0)
}

/// Sends `signum` to all that carry `mark`; 0 only counts them.
fn signal(mark: &str, within: Option<&BTreeSet<u64>>, signum: i32) -> usize {
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|&pid| signal_one(pid, mark, within, signum)).count()
}

fn signal_one(pid: i32, mark: &str, within: Option<&BTreeSet<u64>>, signum: i32) -> bool {
    // The descriptor is taken before the look, so that the signal cannot meet another process with the same number.
    let Some(process) = open(pid) else { return false };
    let has_mark = |text: &[u8]| contains(text, mark.as_bytes());
    let is_in_host = || fs::read(format!("/proc/{pid}/mountinfo")).is_ok_and(|table| has_mark(&table));
    // The rest of an environment is the program's own affair.
    let is_variable = |word: &[u8]| word.strip_prefix(MARKED.as_bytes()).is_some_and(has_mark);
    let is_hypervisor =
        || fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| all.split(|c| *c == 0).any(is_variable));
    let marked = is_in_host() || is_hypervisor();
    let inside = || match within {
        Some(inodes) => fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|meta| inodes.contains(&meta.ino())),
        None => true,
    };
    if !marked || !inside() {
        return false;
    }
    if signum != 0 {
        send(&process, signum);
    }
    true
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[allow(unsafe_code)]
fn open(pid: i32) -> Option<OwnedFd> {
    // SAFETY: pidfd_open(2) takes its arguments by value.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[allow(unsafe_code)]
fn send(process: &OwnedFd, signum: i32) {
    // SAFETY: pidfd_send_signal(2) takes a null pointer for the information that kill(2) would give. That the process has
    // ended meanwhile is no failure.
    unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signum, std::ptr::null::<libc::siginfo_t>(), 0);
    }
}
