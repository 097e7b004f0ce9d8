//! The memory that a socket shares with the kernel: chunks of equal size.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

use crate::pages::{HUGE_PAGE, RESERVED, map};

/// Bytes of a chunk, which holds one frame: a page, as the kernel wants it at most.
pub const CHUNK_BYTES: usize = 4_096;
/// What the kernel keeps free in front of a frame that comes in (`XDP_PACKET_HEADROOM`).
pub const HEADROOM: usize = 256;

/// Chunks, by their number.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    chunks: usize,
}

// SAFETY: the memory belongs to this value alone, and whoever has it may read and write from any thread.
unsafe impl Send for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped with this address and length in `Memory::new`, and nothing borrows from it any more. The kernel keeps its pages until its sockets are closed.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes()) };
    }
}

impl Memory {
    /// So many chunks, on huge pages where the machine has some reserved.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(chunks: usize) -> io::Result<Self> {
        let bytes = chunks * CHUNK_BYTES;
        // Pages that are there at once.
        let there = |flags| map(bytes, flags | libc::MAP_POPULATE);
        let is_huge = bytes.is_multiple_of(HUGE_PAGE);
        let start = is_huge.then(|| there(RESERVED).ok()).flatten();
        let start = start.map_or_else(|| there(0), Ok)?;
        Ok(Self { start, chunks })
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// How long it is.
    pub const fn bytes(&self) -> usize {
        self.chunks * CHUNK_BYTES
    }

    /// What stands at a place of a chunk that the kernel has handed over; `None` if it is not within one chunk.
    #[inline]
    pub fn read(&self, at: u64, len: u32) -> Option<&[u8]> {
        let (at, len) = (usize::try_from(at).ok()?, len as usize);
        if at >= self.bytes() || at % CHUNK_BYTES + len > CHUNK_BYTES {
            return None;
        }
        // SAFETY: within the mapping by the check above. The chunk was handed over, so the kernel does not write to it until it is lent again, which needs `&mut` of the
        // queue that has this memory.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), len) })
    }

    /// A chunk that the kernel does not have.
    ///
    /// # Panics
    /// If there is no such chunk.
    #[inline]
    pub fn chunk(&mut self, number: u32) -> &mut [u8; CHUNK_BYTES] {
        assert!((number as usize) < self.chunks, "chunks are numbered from 0 to {}", self.chunks - 1);
        // SAFETY: within the mapping by the check above, borrowed as long as all of it, and not the kernel's at present: the queue hands out numbers that came back.
        unsafe { &mut *self.start.as_ptr().add(number as usize * CHUNK_BYTES).cast() }
    }
}
