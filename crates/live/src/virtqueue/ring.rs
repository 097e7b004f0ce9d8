//! The device's side of a split virtqueue (virtio 1.2, section 2.7), in memory that a hostile guest writes to at the same time.
//!
//! ```text
//!  descriptors   [ address | length | flags | next ] x size     the guest's
//!  available     flags, index, [ head ] x size, used_event      the guest's
//!  used          flags, index, [ head, length ] x size, avail_event   ours
//! ```
//!
//! Each value is read once, and what was read is checked: an index against the table's size, a chain against the number of its descriptors, an address with its
//! length against the guest's memory ([`GuestMemory`]). What we have to remember (how far we are) is ours, and never read back.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering, fence};

use super::memory::{GuestMemory, OutOfMemory};
use super::prefetch;

/// The largest ring (virtio 1.2, section 2.7).
pub const SIZE_MAX: u16 = 1 << 15;

/// Descriptors of one chain at most, as in QEMU: Linux makes chains of 20, and those of 32,768 would only keep the worker busy.
const CHAIN_MAX: u32 = 1_024;

const DESCRIPTOR: u64 = 16;
const F_NEXT: u16 = 1;
const F_WRITE: u16 = 2;
const F_INDIRECT: u16 = 4;
/// `VIRTQ_USED_F_NO_NOTIFY`
const NO_NOTIFY: u16 = 1;
/// `VIRTQ_AVAIL_F_NO_INTERRUPT`
const NO_INTERRUPT: u16 = 1;

/// What is wrong with a ring. It can't be used any more then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// Its size is none.
    #[error("a ring of {0} descriptors, expected a power of two up to {SIZE_MAX}")]
    Size(u32),
    /// It is not where the front end says.
    #[error("a ring that is not in the guest's memory, or not aligned")]
    Place,
    /// More is available than there are descriptors.
    #[error("{available} chains are available in a ring of {size}")]
    Available {
        /// How many are said to be available.
        available: u16,
        /// The size of the ring.
        size: u16,
    },
    /// There is no such descriptor.
    #[error("descriptor {index} in a table of {len}")]
    Descriptor {
        /// Its index.
        index: u16,
        /// The length of the table.
        len: u32,
    },
    /// A chain has more descriptors than there are, or than anybody needs.
    #[error("a chain of descriptors that is a loop, or has more than {CHAIN_MAX}")]
    Loop,
    /// A buffer to be read where one is to be written, or the other way round.
    #[error("a buffer to be {}", if *.0 { "written where one is to be read" } else { "read where one is to be written" })]
    Direction(bool),
    /// A table of descriptors within one, or one with an impossible length, or although it was not negotiated.
    #[error("an indirect table of descriptors that can't be one")]
    Indirect,
    /// The first buffer of a chain has no room for the header.
    #[error("a first buffer of {0} bytes, which the header does not fit in")]
    Header(u32),
    /// It is no memory.
    #[error("{len} bytes at {at:#x}, which are not the guest's memory")]
    Memory {
        /// The address.
        at: u64,
        /// The length.
        len: u64,
    },
}

impl From<OutOfMemory> for RingError {
    fn from(OutOfMemory { at, len }: OutOfMemory) -> Self {
        Self::Memory { at, len }
    }
}

/// Where a ring is: addresses in the front end's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingSpec {
    /// Its number of descriptors.
    pub size: u32,
    /// The table of descriptors.
    pub descriptors: u64,
    /// What the guest makes available.
    pub available: u64,
    /// What was used.
    pub used: u64,
    /// Whether both sides say at which index they want to be notified (`VIRTIO_F_EVENT_IDX`).
    pub has_event_index: bool,
    /// Whether descriptors may stand in tables of their own (`VIRTIO_F_INDIRECT_DESC`).
    pub has_indirect: bool,
}

/// One ring.
#[derive(Debug)]
pub struct Ring {
    memory: Arc<GuestMemory>,
    spec: RingSpec,
    size: u16,
    /// One less, of its own: a load of `size` with its neighbours would wait for those, which are written all the time.
    mask: usize,
    parts: RingParts,
    /// The next chain to be looked at, and the index up to which the guest has made them available when this was looked at last.
    next_available: u16,
    seen_available: u16,
    /// Where the next used element is written, and up to where the guest has been shown them.
    next_used: u16,
    shown_used: u16,
}

// SAFETY: the pointers are into memory that the ring holds, which is read and written by another process anyway.
unsafe impl Send for Ring {}

/// Where the parts of a ring are in this process.
#[derive(Clone, Copy, Debug)]
struct RingParts {
    descriptors: NonNull<u8>,
    available: NonNull<u8>,
    used: NonNull<u8>,
}

/// A descriptor, copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// An address of the guest.
    pub addr: u64,
    /// So many bytes.
    pub len: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    /// One of nothing.
    pub const NONE: Self = Self { addr: 0, len: 0, flags: 0, next: 0 };

    /// Whether it is a chain by itself, of a buffer to be written or to be read.
    #[inline]
    pub const fn is_alone(self, is_written: bool) -> bool {
        self.flags == if is_written { F_WRITE } else { 0 }
    }

    fn of(low: u64, high: u64) -> Self {
        let (low, high) = (u64::from_le(low), u64::from_le(high));
        Self { addr: low, len: high as u32, flags: (high >> 32) as u16, next: (high >> 48) as u16 }
    }
}

/// The table that a chain is in.
#[derive(Clone, Copy, Debug)]
enum Table {
    Ring,
    Indirect { at: u64 },
}

/// A walk along a chain of descriptors.
#[derive(Debug)]
pub struct Chain<'a> {
    ring: &'a Ring,
    table: Table,
    /// Its length, and how many of the descriptors may still follow.
    len: u32,
    left: u32,
    /// Whether the device writes the buffers.
    is_written: bool,
    next: Option<Descriptor>,
}

impl Ring {
    /// A ring that goes on where another back end of it has stopped: `base` is the next chain to be looked at.
    ///
    /// # Errors
    /// If it can't be a ring.
    pub fn new(memory: Arc<GuestMemory>, spec: RingSpec, base: u16) -> Result<Self, RingError> {
        let size = u16::try_from(spec.size).ok().filter(|size| size.is_power_of_two() && *size <= SIZE_MAX);
        let size = size.ok_or(RingError::Size(spec.size))?;
        let parts = RingParts::find(&memory, spec)?;
        let mut ring = Self {
            memory,
            spec,
            size,
            mask: usize::from(size) - 1,
            parts,
            next_available: base,
            seen_available: base,
            next_used: 0,
            shown_used: 0,
        };
        let shown = ring.used_index().load(Ordering::Relaxed);
        (ring.next_used, ring.shown_used) = (u16::from_le(shown), u16::from_le(shown));
        // We hold nothing between bursts. A back end that died may have: what it had is offered again.
        if ring.next_used != base {
            (ring.next_available, ring.seen_available) = (ring.next_used, ring.next_used);
        }
        Ok(ring)
    }

    /// The same ring after the guest's memory has been mapped anew.
    ///
    /// # Errors
    /// If it is not there any more.
    pub fn move_to(&mut self, memory: Arc<GuestMemory>) -> Result<(), RingError> {
        self.parts = RingParts::find(&memory, self.spec)?;
        self.memory = memory;
        Ok(())
    }

    /// The memory that its buffers are in.
    #[inline]
    pub fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    /// A half word of the available part.
    #[inline]
    fn available_half(&self, at: usize) -> &AtomicU16 {
        // SAFETY: callers give a place within the part that was checked in `RingParts::find`, which is aligned to two bytes and mapped as long as the ring has its
        // memory. An atomic may be written by others at any time; the guest does so.
        unsafe { AtomicU16::from_ptr(self.parts.available.as_ptr().add(at).cast()) }
    }

    /// A half word of the used part.
    #[inline]
    fn used_half(&self, at: usize) -> &AtomicU16 {
        // SAFETY: as above.
        unsafe { AtomicU16::from_ptr(self.parts.used.as_ptr().add(at).cast()) }
    }

    #[inline]
    fn used_index(&self) -> &AtomicU16 {
        self.used_half(2)
    }

    /// How many chains are available, looked up where `wanted` are not known yet.
    ///
    /// # Errors
    /// If there are more than the ring has descriptors.
    #[inline]
    pub fn available(&mut self, wanted: u16) -> Result<u16, RingError> {
        let known = self.seen_available.wrapping_sub(self.next_available);
        if known >= wanted {
            return Ok(known);
        }
        // What the guest wrote before the index is there.
        let seen = u16::from_le(self.available_half(2).load(Ordering::Acquire));
        let available = seen.wrapping_sub(self.next_available);
        if available > self.size {
            return Err(RingError::Available { available, size: self.size });
        }
        self.seen_available = seen;
        Ok(available)
    }

    /// The head of the chain at `ahead` of the next one, which is available.
    #[inline]
    pub fn head(&self, ahead: u16) -> u16 {
        let at = usize::from(self.next_available.wrapping_add(ahead)) & self.mask;
        u16::from_le(self.available_half(4 + 2 * at).load(Ordering::Relaxed))
    }

    /// Copies a descriptor.
    ///
    /// # Errors
    /// If there is none of this index.
    #[inline]
    pub fn descriptor(&self, index: u16) -> Result<Descriptor, RingError> {
        if index >= self.size {
            return Err(RingError::Descriptor { index, len: self.size.into() });
        }
        // SAFETY: the table has `size` descriptors of 16 bytes, is aligned to 16, and is mapped as long as the ring has its memory. Volatile: the guest
        // may write to it, and it is to be read once.
        let (low, high) = unsafe {
            let at = self.parts.descriptors.cast::<u64>().add(2 * usize::from(index));
            (at.read_volatile(), at.add(1).read_volatile())
        };
        Ok(Descriptor::of(low, high))
    }

    /// Walks along the chain that begins with this descriptor; `is_written`: the device writes its buffers.
    ///
    /// # Errors
    /// If it begins with an indirect table that can't be one.
    #[inline]
    pub fn chain(&self, first: Descriptor, is_written: bool) -> Result<Chain<'_>, RingError> {
        let size = u32::from(self.size);
        let chain = Chain {
            ring: self,
            table: Table::Ring,
            len: size,
            left: size.min(CHAIN_MAX),
            is_written,
            next: Some(first),
        };
        if first.flags & F_INDIRECT == 0 { Ok(chain) } else { chain.indirect(first) }
    }

    /// Goes on behind `chains` that were looked at.
    #[inline]
    pub const fn advance(&mut self, chains: u16) {
        self.next_available = self.next_available.wrapping_add(chains);
    }

    /// Writes the element at `ahead` of the next one that is used: the chain's head, and how many bytes were written to it.
    #[inline]
    pub fn write_used(&mut self, ahead: u16, head: u16, written: u32) {
        let at = usize::from(self.next_used.wrapping_add(ahead)) & self.mask;
        let element = (u64::from(written) << 32 | u64::from(head)).to_le();
        // SAFETY: the used part has `size` elements of eight bytes behind its first four, is aligned to four, and is mapped as long as the ring has its
        // memory. The guest may write there, too, and harms only itself.
        unsafe { self.parts.used.add(4 + 8 * at).cast::<u64>().write_unaligned(element) };
    }

    /// The descriptor of this index will be read, if there is one.
    #[inline]
    pub fn prefetch_descriptor(&self, index: u16) {
        if index < self.size {
            // SAFETY: a descriptor of the table, as in `descriptor`.
            prefetch::to_read(unsafe { self.parts.descriptors.add(DESCRIPTOR as usize * usize::from(index)) });
        }
    }

    /// The next so many elements will be written.
    #[inline]
    pub fn prefetch_used(&self, elements: u16) {
        // Eight are in a line.
        for ahead in (0..elements).step_by(8) {
            let at = usize::from(self.next_used.wrapping_add(ahead)) & self.mask;
            // SAFETY: an element of the used part, as in `write_used`.
            prefetch::to_write(unsafe { self.parts.used.add(4 + 8 * at) });
        }
    }

    /// Counts elements that were written as used. [`Ring::show_used`] shows them to the guest.
    #[inline]
    pub const fn count_used(&mut self, elements: u16) {
        self.next_used = self.next_used.wrapping_add(elements);
    }

    /// Shows the guest what was used. Whether it wants to be notified.
    #[inline]
    pub fn show_used(&mut self) -> bool {
        let (before, now) = (self.shown_used, self.next_used);
        if before == now {
            return false;
        }
        // Elements and buffers before the index.
        self.used_index().store(now.to_le(), Ordering::Release);
        self.shown_used = now;
        // The index before we look whether it wants to hear of it (section 2.7.10).
        fence(Ordering::SeqCst);
        if self.spec.has_event_index {
            let event = self.available_half(4 + 2 * usize::from(self.size)).load(Ordering::Relaxed);
            return needs_event(u16::from_le(event), now, before);
        }
        u16::from_le(self.available_half(0).load(Ordering::Relaxed)) & NO_INTERRUPT == 0
    }

    /// Asks the guest to notify us of the next chain that it makes available, or says that it need not.
    pub fn ask_for_notifications(&mut self, wanted: bool) {
        if self.spec.has_event_index {
            // One that is far behind is not reached for a long time.
            let event = if wanted { self.next_available } else { self.next_available.wrapping_sub(1) };
            self.used_half(4 + 8 * usize::from(self.size)).store(event.to_le(), Ordering::Relaxed);
        } else {
            let flags = if wanted { 0 } else { NO_NOTIFY };
            self.used_half(0).store(flags.to_le(), Ordering::Relaxed);
        }
        // It is to be seen before we look again what is available.
        fence(Ordering::SeqCst);
    }

    /// The next chain to be looked at: where another back end is to go on.
    pub const fn next_available(&self) -> u16 {
        self.next_available
    }
}

impl RingParts {
    fn find(memory: &GuestMemory, spec: RingSpec) -> Result<Self, RingError> {
        let size = u64::from(spec.size);
        let find = |at: u64, len: u64, align: usize| {
            memory.at_user(at, len).filter(|place| place.addr().get().is_multiple_of(align)).ok_or(RingError::Place)
        };
        // Those behind the first one have an event index at their end.
        Ok(Self {
            descriptors: find(spec.descriptors, size * DESCRIPTOR, 16)?,
            available: find(spec.available, 6 + size * 2, 2)?,
            used: find(spec.used, 6 + size * 8, 4)?,
        })
    }
}

/// Whether going from `before` to `now` passes the index at which somebody wants to be notified (section 2.7.10, `vring_need_event`).
const fn needs_event(event: u16, now: u16, before: u16) -> bool {
    now.wrapping_sub(event).wrapping_sub(1) < now.wrapping_sub(before)
}

impl Chain<'_> {
    #[cold]
    fn indirect(mut self, first: Descriptor) -> Result<Self, RingError> {
        let len = first.len / DESCRIPTOR as u32;
        let is_whole = u64::from(first.len).is_multiple_of(DESCRIPTOR) && (1..=CHAIN_MAX).contains(&len);
        if !self.ring.spec.has_indirect || !is_whole || first.flags & F_NEXT != 0 {
            return Err(RingError::Indirect);
        }
        (self.table, self.len, self.left) = (Table::Indirect { at: first.addr }, len, len);
        self.next = Some(self.descriptor(0)?);
        Ok(self)
    }

    fn descriptor(&self, index: u16) -> Result<Descriptor, RingError> {
        let Table::Indirect { at } = self.table else { return self.ring.descriptor(index) };
        if u32::from(index) >= self.len {
            return Err(RingError::Descriptor { index, len: self.len });
        }
        let mut bytes = [0; DESCRIPTOR as usize];
        self.ring.memory.read(at.wrapping_add(u64::from(index) * DESCRIPTOR), &mut bytes)?;
        let word = |at: usize| u64::from_ne_bytes(*bytes[at..].first_chunk().expect("a descriptor has two words"));
        Ok(Descriptor::of(word(0), word(8)))
    }

    /// The address and the length of the next buffer; `None` behind the last one.
    ///
    /// # Errors
    /// If the chain is none.
    #[inline]
    pub fn next_buffer(&mut self) -> Result<Option<(u64, u32)>, RingError> {
        match self.next_part()? {
            None => Ok(None),
            Some((addr, len, is_written)) if is_written == self.is_written => Ok(Some((addr, len))),
            Some(_) => Err(RingError::Direction(!self.is_written)),
        }
    }

    /// The same where a chain has buffers of both kinds, each with whether the device writes it.
    ///
    /// # Errors
    /// If the chain is none.
    #[inline]
    pub fn next_part(&mut self) -> Result<Option<(u64, u32, bool)>, RingError> {
        let Some(Descriptor { addr, len, flags, next }) = self.next.take() else { return Ok(None) };
        if self.left == 0 {
            return Err(RingError::Loop);
        }
        self.left -= 1;
        if flags & F_INDIRECT != 0 {
            return Err(RingError::Indirect);
        }
        if flags & F_NEXT != 0 {
            self.next = Some(self.descriptor(next)?);
        }
        Ok(Some((addr, len, flags & F_WRITE != 0)))
    }
}
