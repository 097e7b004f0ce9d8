//! Memory of this process alone, in pages of a size that is asked for.
#![allow(unsafe_code)]

use std::io;
use std::ptr::{self, NonNull};

/// Bytes of a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// Has [`map`] take huge pages that somebody has reserved. Their size is named: that of a machine may be another one by default, whose pages can't be given back in pieces.
pub const RESERVED: libc::c_int = libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;

/// So many bytes of zeros at an address of the kernel's choice, to be read and written; the caller gives them back by munmap(2). `flags` go to mmap(2) beside its own.
///
/// # Errors
/// As mmap(2).
pub fn map(len: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory of this process.
    let memory = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(memory.cast()).expect("a mapping is not at address 0"))
}
