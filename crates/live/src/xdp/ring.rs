//! The four rings of a socket: each has one end that writes and one that reads, of which one is the kernel.
//!
//! Both count on and on in 32 bits. What the kernel has written counts only as far as the ring is long, whatever it says.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// Places in each ring.
pub const RING_PLACES: u32 = 2_048;

/// A ring, mapped. Its places hold values of `T`, as the kernel defines them for this ring.
#[derive(Debug)]
pub struct Ring<T> {
    memory: NonNull<u8>,
    bytes: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    places: NonNull<T>,
    /// Where this end is; the other end sees it when it is published.
    at: u32,
    /// Where the other end was when it was looked at last.
    other: u32,
}

// SAFETY: the mapping belongs to this value alone; the kernel's end is in step by the atomic counters.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: mapped with this address and length in `Ring::map`, and nothing borrows from it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

impl<T: Copy> Ring<T> {
    /// Maps the ring of a socket that the kernel finds at `page`, laid out as it says.
    ///
    /// # Errors
    /// If the kernel does not map it.
    pub fn map(socket: BorrowedFd<'_>, page: i64, layout: &libc::xdp_ring_offset) -> io::Result<Self> {
        let bytes = layout.desc as usize + RING_PLACES as usize * size_of::<T>();
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of this process.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                page,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast::<u8>()).expect("a mapping is not at address 0");
        // SAFETY: the kernel has said where in its mapping these are; each is aligned for what stands there.
        let (producer, consumer, flags, places) = unsafe {
            (
                memory.add(layout.producer as usize).cast::<AtomicU32>(),
                memory.add(layout.consumer as usize).cast::<AtomicU32>(),
                memory.add(layout.flags as usize).cast::<AtomicU32>(),
                memory.add(layout.desc as usize).cast::<T>(),
            )
        };
        Ok(Self { memory, bytes, producer, consumer, flags, places, at: 0, other: 0 })
    }

    /// Whether the kernel waits for a system call before it goes on with this ring (`XDP_RING_NEED_WAKEUP`).
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        // SAFETY: an aligned u32 within the mapping, which both sides access atomically.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Where both ends are: that of whoever writes, and that of whoever reads.
    fn ends(&self) -> (&AtomicU32, &AtomicU32) {
        // SAFETY: aligned u32s within the mapping, which both sides access atomically.
        unsafe { (self.producer.as_ref(), self.consumer.as_ref()) }
    }

    fn place(&self, at: u32) -> NonNull<T> {
        // SAFETY: the mapping has RING_PLACES places, a power of two.
        unsafe { self.places.add((at & (RING_PLACES - 1)) as usize) }
    }

    /// Reads the next value that the kernel has written, without going on.
    #[inline]
    pub fn front(&mut self) -> Option<T> {
        if self.at == self.other {
            self.other = self.ends().0.load(Ordering::Acquire);
            if self.other.wrapping_sub(self.at).wrapping_sub(1) >= RING_PLACES {
                self.other = self.at;
                return None;
            }
        }
        // SAFETY: the kernel has written this place, and writes it again only when it is given back.
        Some(unsafe { self.place(self.at).read() })
    }

    /// Goes on behind what [`Ring::front`] has read.
    #[inline]
    pub const fn advance(&mut self) {
        self.at = self.at.wrapping_add(1);
    }

    /// Gives back all places that have been read.
    #[inline]
    pub fn release(&self) {
        self.ends().1.store(self.at, Ordering::Release);
    }

    /// Writes a value for the kernel; false if the ring is full. The kernel sees it when it is published.
    #[inline]
    pub fn push(&mut self, value: T) -> bool {
        if self.at.wrapping_sub(self.other) >= RING_PLACES {
            self.other = self.ends().1.load(Ordering::Acquire);
            if self.at.wrapping_sub(self.other) >= RING_PLACES {
                return false;
            }
        }
        // SAFETY: the kernel has read this place, and does not read it again before it is published.
        unsafe { self.place(self.at).write(value) };
        self.at = self.at.wrapping_add(1);
        true
    }

    /// Shows the kernel what has been written.
    #[inline]
    pub fn publish(&self) {
        self.ends().0.store(self.at, Ordering::Release);
    }

    /// How many values the kernel has not read yet.
    #[inline]
    pub fn unread(&self) -> u32 {
        self.at.wrapping_sub(self.ends().1.load(Ordering::Acquire))
    }

    /// Takes back what the kernel has not read yet, in its order. The kernel must not be reading it: it reads in this thread's system calls alone.
    pub fn take_back(&mut self, mut each: impl FnMut(T)) {
        let read = self.ends().1.load(Ordering::Acquire);
        for at in 0..self.at.wrapping_sub(read).min(RING_PLACES) {
            // SAFETY: this process has written the place.
            each(unsafe { self.place(read.wrapping_add(at)).read() });
        }
        (self.at, self.other) = (read, read);
        self.publish();
    }
}
