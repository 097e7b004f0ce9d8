//! Memory for packets' buffers, on huge pages: the buffers of a burst need a few entries of the processor's table of pages then, and not one each.
//!
//! A slab is a huge page that the machine has reserved, if one is free; else a transparent one, if the kernel may make them; else ordinary pages. Buffers begin at other lines of the cache each:
//! those whose distance is a power of two, or a multiple of a page, would compete for the same few.
#![allow(unsafe_code)]

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

use crate::pages::{HUGE_PAGE, RESERVED, map};

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Says whether the kernel makes huge pages by itself, and for whom.
const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// What a slab is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pages {
    /// Huge ones that somebody has reserved.
    Reserved,
    /// Huge ones that the kernel makes where it can.
    Transparent,
    Ordinary,
}

/// Buffers of one size in one piece of memory.
#[derive(Debug)]
struct Slab {
    start: NonNull<u8>,
    len: usize,
    /// From one buffer to the next one.
    stride: usize,
    /// The numbers of those that nobody has.
    free: Mutex<Vec<u32>>,
}

// SAFETY: the mapping belongs to this value alone; its parts are used by whoever has the `Buffer` with their number, which is one.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: mapped with this address and length in `Slab::map`, and each buffer holds its slab.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl Slab {
    /// Memory for buffers of so many bytes.
    fn map(buffer: usize) -> io::Result<(Self, Pages)> {
        // An odd number of lines, so that each buffer begins at another one.
        let stride = (buffer.div_ceil(LINE) | 1) * LINE;
        let len = stride.next_multiple_of(HUGE_PAGE);
        let (start, pages) = match map(len, RESERVED) {
            Ok(start) => (start, Pages::Reserved),
            Err(_) => map_aligned(len)?,
        };
        let free = (0..(len / stride) as u32).rev().collect();
        Ok((Self { start, len, stride, free: Mutex::new(free) }, pages))
    }

    /// One of the buffers that nobody has, of `len` bytes.
    fn cut(self: &Arc<Self>, len: usize) -> Option<Buffer> {
        let number = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        // SAFETY: there are `self.len / self.stride` numbers, so the buffer is within the mapping.
        let start = unsafe { self.start.add(number as usize * self.stride) };
        Some(Buffer { start, len, number, slab: Arc::clone(self) })
    }
}

/// Memory from where a huge page may begin on: what is mapped before and behind that is given back.
fn map_aligned(len: usize) -> io::Result<(NonNull<u8>, Pages)> {
    let mapped = map(len + HUGE_PAGE, 0)?;
    let before = mapped.addr().get().next_multiple_of(HUGE_PAGE) - mapped.addr().get();
    // SAFETY: `before` is less than a huge page, and the mapping is longer than `len` by one.
    let (start, end) = unsafe { (mapped.add(before), mapped.add(before + len)) };
    for (from, len) in [(mapped, before), (end, HUGE_PAGE - before)] {
        if len > 0 {
            // SAFETY: these pages are of the mapping that was just made, and nobody uses them.
            unsafe { libc::munmap(from.as_ptr().cast(), len) };
        }
    }
    let may_be_huge = std::fs::read_to_string(TRANSPARENT).is_ok_and(|modes| !modes.contains("[never]"));
    // SAFETY: the range was just mapped; it is asked for other pages before any is there.
    let is_asked = may_be_huge && unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) } == 0;
    Ok((start, if is_asked { Pages::Transparent } else { Pages::Ordinary }))
}

/// A piece of a slab, which is its owner's alone.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    number: u32,
    slab: Arc<Slab>,
}

// SAFETY: nobody else has this part of the slab.
unsafe impl Send for Buffer {}
// SAFETY: as above; it is read through `&Buffer` and written through `&mut Buffer` only.
unsafe impl Sync for Buffer {}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` on are mapped as long as the slab is held, which they were with zeros in them, and belong to this value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` says that nobody else reads them.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.slab.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

/// Where buffers of one size come from. A slab is given back with the last of its buffers.
#[derive(Debug)]
pub struct Slabs {
    /// Bytes of a buffer.
    buffer: usize,
    slabs: Vec<Weak<Slab>>,
}

impl Slabs {
    /// None yet, for buffers of so many bytes.
    pub const fn new(buffer: usize) -> Self {
        Self { buffer, slabs: Vec::new() }
    }

    /// A buffer of any content; `None` if there is no memory.
    pub fn cut(&mut self) -> Option<Buffer> {
        let mut known = self.slabs.iter().rev().filter_map(Weak::upgrade);
        if let Some(buffer) = known.find_map(|slab| slab.cut(self.buffer)) {
            return Some(buffer);
        }
        drop(known);
        self.slabs.retain(|slab| slab.strong_count() > 0);
        let (slab, pages) = Slab::map(self.buffer).ok()?;
        if pages == Pages::Ordinary {
            say_that_pages_are_small();
        }
        let slab = Arc::new(slab);
        self.slabs.push(Arc::downgrade(&slab));
        slab.cut(self.buffer)
    }
}

fn say_that_pages_are_small() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        tracing::info!(
            "packets' buffers are on ordinary pages, which costs some speed: no huge page is free and the kernel makes none by itself. \
             `echo 64 > /proc/sys/vm/nr_hugepages` reserves some, `echo madvise > {TRANSPARENT}` has the kernel make them"
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn buffers_are_apart_and_begin_at_other_lines_of_the_cache() {
        for len in [100, 1_600, 4_096, 65_600] {
            let mut slabs = Slabs::new(len);
            let mut buffers: Vec<Buffer> = (0..64).map(|_| slabs.cut().unwrap()).collect();
            for (number, buffer) in buffers.iter_mut().enumerate() {
                buffer.fill(number as u8);
            }
            assert!(buffers.iter().enumerate().all(|(at, buffer)| buffer.iter().all(|byte| *byte == at as u8)));
            let lines = |of: &[Buffer]| of.iter().map(|it| it.start.addr().get() / LINE % 64).collect::<BTreeSet<_>>();
            let in_one = HUGE_PAGE / buffers[0].slab.stride;
            assert_eq!(lines(&buffers[..in_one.min(64)]).len(), in_one.min(64), "{len}");
        }
    }

    #[test]
    fn what_is_given_back_is_cut_again_and_slabs_go_with_their_last_buffer() {
        let mut slabs = Slabs::new(65_600);
        let mut buffers: Vec<Buffer> = (0..100).map(|_| slabs.cut().unwrap()).collect();
        assert_eq!(slabs.slabs.len(), 4, "31 in each");
        // One of each slab stays.
        let kept: Vec<Buffer> = [90, 60, 30, 0].map(|at| buffers.swap_remove(at)).into();
        buffers.clear();
        let again: Vec<Buffer> = (0..100).map(|_| slabs.cut().unwrap()).collect();
        assert_eq!(slabs.slabs.len(), 4);
        drop((kept, again));
        assert!(slabs.slabs.iter().all(|slab| slab.strong_count() == 0));
        let _one = slabs.cut().unwrap();
        assert_eq!(slabs.slabs.len(), 1);
    }
}
