//! An array that programs in the kernel and this process have in common: what one writes, the other one reads, without a call.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use super::command::{MapKind, create_map};

/// `BPF_F_MMAPABLE`: Linux 5.5.
const MMAPABLE: u32 = 1 << 10;

/// Entries of equally many words of 64 bits each.
#[derive(Debug)]
pub struct SharedArray {
    start: NonNull<AtomicU64>,
    entries: usize,
    words_each: usize,
    map: OwnedFd,
}

// SAFETY: the mapping belongs to this value alone, and its words are atomic: whoever has it may read and write from any thread.
unsafe impl Send for SharedArray {}

impl SharedArray {
    /// An array of zeros.
    ///
    /// # Errors
    /// If the kernel does not let this process have it.
    pub fn new(entries: u32, words_each: usize) -> io::Result<Self> {
        let map = create_map(MapKind::Array, (words_each * size_of::<u64>()) as u32, entries, MMAPABLE)?;
        let entries = entries as usize;
        let bytes = entries * words_each * size_of::<u64>();
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of this process.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, map.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("a mapping is not at address 0");
        Ok(Self { start, entries, words_each, map })
    }

    /// The words of an entry.
    ///
    /// # Panics
    /// If there is no such entry.
    #[inline]
    pub fn entry(&self, number: usize) -> &[AtomicU64] {
        assert!(number < self.entries, "entries are numbered from 0 to {}", self.entries - 1);
        // SAFETY: within the mapping by the check above, which begins at a page, so words are aligned. It lives as long as this value, which is borrowed. Programs in the kernel
        // change words only as atomics do.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(number * self.words_each), self.words_each) }
    }
}

impl AsFd for SharedArray {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl Drop for SharedArray {
    fn drop(&mut self) {
        let bytes = self.entries * self.words_each * size_of::<u64>();
        // SAFETY: mapped with this address and length in `SharedArray::new`, and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
    }
}
