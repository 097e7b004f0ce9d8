//! A guest's memory: files that it has handed over, mapped here as well. The guest reads and writes them while this process does, and it may be hostile.
//!
//! So nothing in it is ever a Rust reference. What is read is copied first and then checked; an address of the guest is translated and checked with its length
//! each time. A file that is cut off gives empty pages (`sigbus.rs`).
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::{self, NonNull};

use nix::sys::statfs::{FsType, HUGETLBFS_MAGIC, TMPFS_MAGIC, fstatfs};

use super::sigbus::Guard;

/// `RAMFS_MAGIC` of `linux/magic.h`.
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);

/// Regions of one guest: what one message of vhost-user has room for is 8 by the specification, and 32 in the implementation that reads it.
const REGIONS_MAX: usize = 32;

/// Where the front end says that a part of the guest's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSpec {
    /// Its first address in the guest.
    pub guest: u64,
    /// The same in the front end's own memory.
    pub user: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Where it begins in its file.
    pub offset: u64,
}

/// Why a guest's memory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// There are none, or too many.
    #[error("{0} regions of memory, expected 1 to {REGIONS_MAX}")]
    Count(usize),
    /// It is empty, or ends behind the last address that there is.
    #[error("region {0} of its memory is empty or ends behind the last address")]
    Range(usize),
    /// Two parts have an address in common.
    #[error("region {0} of its memory overlaps with another one")]
    Overlap(usize),
    /// The file is shorter.
    #[error("region {at} of its memory ends at byte {end} of a file of {len} bytes")]
    TooShort {
        /// Which one.
        at: usize,
        /// Where it ends.
        end: u64,
        /// How long the file is.
        len: u64,
    },
    /// Reading it may take as long as somebody likes.
    #[error("region {0} of its memory is no shared memory, but a file of another kind")]
    Kind(usize),
    /// The kernel refuses.
    #[error("region {0} of its memory can't be mapped: {1}")]
    Map(usize, io::Error),
}

/// An address of the guest that is none of its memory, or not as much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The address.
    pub at: u64,
    /// How many bytes from there were wanted.
    pub len: u64,
}

#[derive(Debug)]
struct Region {
    guest: u64,
    user: u64,
    len: u64,
    /// Where `guest` is here.
    host: NonNull<u8>,
    /// Of the whole mapping; given up before it is unmapped.
    guard: Option<Guard>,
    mapping: (NonNull<u8>, usize),
}

/// A piece of a guest's memory.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a GuestMemory>,
}

impl Piece<'_> {
    /// Copies from the guest.
    ///
    /// # Panics
    /// If so many bytes from `at` on are not within it.
    #[inline]
    pub fn read(self, at: usize, out: &mut [u8]) {
        assert!(at <= self.len && out.len() <= self.len - at, "a piece ends before");
        // SAFETY: so many bytes are mapped there, as was just checked; this process has no reference to the guest's memory. That the guest may write meanwhile
        // makes the bytes any bytes, all of which are valid, and they are checked behind this.
        unsafe { ptr::copy_nonoverlapping(self.start.as_ptr().add(at), out.as_mut_ptr(), out.len()) };
    }

    /// Copies so many bytes from the guest.
    ///
    /// # Panics
    /// As [`Piece::read`].
    #[inline]
    pub fn take<const LEN: usize>(self, at: usize) -> [u8; LEN] {
        assert!(at <= self.len && LEN <= self.len - at, "a piece ends before");
        // SAFETY: as in `read`; an array of bytes is aligned anywhere.
        unsafe { self.start.as_ptr().add(at).cast::<[u8; LEN]>().read() }
    }

    /// Copies to the guest.
    ///
    /// # Panics
    /// If so many bytes from `at` on are not within it.
    #[inline]
    pub fn write(self, at: usize, bytes: &[u8]) {
        assert!(at <= self.len && bytes.len() <= self.len - at, "a piece ends before");
        // SAFETY: so many bytes are mapped there to be written, as was just checked; this process has no reference to the guest's memory.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len()) };
    }
}

/// See above.
#[derive(Debug)]
pub struct GuestMemory {
    regions: Box<[Region]>,
}

// SAFETY: the mappings belong to this value alone, and are read and written by raw pointers only, as they are by another process anyway.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        self.guard = None;
        let (start, len) = self.mapping;
        // SAFETY: mapped with this address and length in `Region::map`, and whoever has a pointer into it holds its `GuestMemory`.
        unsafe { libc::munmap(start.as_ptr().cast(), len) };
    }
}

impl Region {
    fn map(at: usize, spec: RegionSpec, file: &File) -> Result<Self, MemoryError> {
        let failed = |error| MemoryError::Map(at, error);
        let RegionSpec { guest, user, len, offset } = spec;
        let end = offset.checked_add(len).ok_or(MemoryError::Range(at))?;
        if len == 0 || guest.checked_add(len).is_none() || user.checked_add(len).is_none() {
            return Err(MemoryError::Range(at));
        }
        let metadata = file.metadata().map_err(failed)?;
        let kind = fstatfs(file.as_fd()).map_err(|errno| failed(errno.into()))?.filesystem_type();
        if !metadata.is_file() || ![TMPFS_MAGIC, HUGETLBFS_MAGIC, RAMFS_MAGIC].contains(&kind) {
            return Err(MemoryError::Kind(at));
        }
        if metadata.len() < end {
            return Err(MemoryError::TooShort { at, end, len: metadata.len() });
        }
        // Huge pages are mapped whole.
        let page = if kind == HUGETLBFS_MAGIC { metadata.blksize() } else { 4_096 }.max(4_096);
        let before = offset % page;
        let mapped = (before + len).checked_next_multiple_of(page).and_then(|len| usize::try_from(len).ok());
        let mapped = mapped.filter(|len| isize::try_from(*len).is_ok()).ok_or(MemoryError::Range(at))?;
        let start = i64::try_from(offset - before).map_err(|_| MemoryError::Range(at))?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of this process.
        let mapping = unsafe {
            let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
            libc::mmap(ptr::null_mut(), mapped, rights, flags, file.as_raw_fd(), start)
        };
        if mapping == libc::MAP_FAILED {
            return Err(failed(io::Error::last_os_error()));
        }
        let mapping = NonNull::new(mapping.cast::<u8>()).expect("a mapping is not at address 0");
        // SAFETY: `before` is less than the mapping's length.
        let host = unsafe { mapping.add(before as usize) };
        let mut region = Self { guest, user, len, host, guard: None, mapping: (mapping, mapped) };
        region.guard = Some(Guard::new(mapping.addr().get(), mapped).map_err(failed)?);
        // SAFETY: the range was just mapped. A core file without the guest's memory is what is wanted; if it can't be had, it is longer.
        unsafe { libc::madvise(mapping.as_ptr().cast(), mapped, libc::MADV_DONTDUMP) };
        Ok(region)
    }
}

impl GuestMemory {
    /// Maps all of a guest's memory.
    ///
    /// # Errors
    /// [`MemoryError`]: nothing is mapped then.
    pub fn map(specs: &[(RegionSpec, File)]) -> Result<Self, MemoryError> {
        if specs.is_empty() || specs.len() > REGIONS_MAX {
            return Err(MemoryError::Count(specs.len()));
        }
        let mut regions: Vec<Region> = Vec::new();
        for (at, (spec, file)) in specs.iter().enumerate() {
            let region = Region::map(at, *spec, file)?;
            let overlaps = |a: u64, b: u64, other: &Region| a < b + other.len && b < a + region.len;
            if regions
                .iter()
                .any(|other| overlaps(region.guest, other.guest, other) || overlaps(region.user, other.user, other))
            {
                return Err(MemoryError::Overlap(at));
            }
            regions.push(region);
        }
        // Guests have their buffers in the largest one.
        regions.sort_by_key(|region| std::cmp::Reverse(region.len));
        Ok(Self { regions: regions.into() })
    }

    /// Where `len` bytes from `at` on in the guest are, if they are in one piece.
    #[inline]
    pub fn at(&self, at: u64, len: u64) -> Option<NonNull<u8>> {
        self.regions.iter().find_map(|region| {
            let offset = at.wrapping_sub(region.guest);
            // SAFETY: the region has `len` bytes from `offset` on.
            (offset < region.len && len <= region.len - offset).then(|| unsafe { region.host.add(offset as usize) })
        })
    }

    /// The same, to be copied from and to.
    #[inline]
    pub fn piece(&self, at: u64, len: u32) -> Option<Piece<'_>> {
        let start = self.at(at, len.into())?;
        Some(Piece { start, len: len as usize, memory: PhantomData })
    }

    /// The same for an address in the front end's memory.
    pub fn at_user(&self, at: u64, len: u64) -> Option<NonNull<u8>> {
        self.regions.iter().find_map(|region| {
            let offset = at.wrapping_sub(region.user);
            // SAFETY: the region has `len` bytes from `offset` on.
            (offset < region.len && len <= region.len - offset).then(|| unsafe { region.host.add(offset as usize) })
        })
    }

    /// The first piece of `len` bytes from `at` on, which may cross from one region into the next one.
    #[inline]
    fn first_piece(&self, at: u64, len: u64) -> Result<(NonNull<u8>, usize), OutOfMemory> {
        self.regions
            .iter()
            .find_map(|region| {
                let offset = at.wrapping_sub(region.guest);
                // SAFETY: `offset` is within the region.
                (offset < region.len)
                    .then(|| (unsafe { region.host.add(offset as usize) }, len.min(region.len - offset) as usize))
            })
            .ok_or(OutOfMemory { at, len })
    }

    /// Copies from the guest. What it writes meanwhile may be in the copy in part.
    ///
    /// # Errors
    /// If not all of it is memory of the guest. A part may have been copied.
    #[inline]
    pub fn read(&self, mut at: u64, mut out: &mut [u8]) -> Result<(), OutOfMemory> {
        while !out.is_empty() {
            let (from, len) = self.first_piece(at, out.len() as u64)?;
            // SAFETY: `len` bytes from there are mapped, and `out` has as many; this process has no reference to the guest's memory. That the guest may
            // write meanwhile makes the bytes any bytes, all of which are valid, and they are checked behind this.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr(), len) };
            (at, out) = (at.wrapping_add(len as u64), &mut out[len..]);
        }
        Ok(())
    }

    /// Copies to the guest.
    ///
    /// # Errors
    /// If not all of it is memory of the guest. A part may have been copied.
    #[inline]
    pub fn write(&self, mut at: u64, mut bytes: &[u8]) -> Result<(), OutOfMemory> {
        while !bytes.is_empty() {
            let (to, len) = self.first_piece(at, bytes.len() as u64)?;
            // SAFETY: `len` bytes from there are mapped to be written, `bytes` has as many, and this process has no reference to the guest's memory.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), len) };
            (at, bytes) = (at.wrapping_add(len as u64), &bytes[len..]);
        }
        Ok(())
    }

    /// Whether a file was cut off, and empty pages are in its place.
    #[inline]
    pub fn has_faulted(&self) -> bool {
        self.regions.iter().any(|region| region.guard.as_ref().is_some_and(Guard::has_faulted))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};

    /// So many bytes of shared memory.
    pub fn shared(len: u64) -> File {
        let file = File::from(memfd_create("guest", MFdFlags::MFD_CLOEXEC).unwrap());
        file.set_len(len).unwrap();
        file
    }

    fn region(guest: u64, len: u64, offset: u64) -> RegionSpec {
        RegionSpec { guest, user: guest + (1 << 40), len, offset }
    }

    #[test]
    fn what_crosses_into_the_next_region_is_copied_in_pieces() {
        let file = shared(0x4000);
        let memory = GuestMemory::map(&[
            (region(0x1000, 0x1000, 0x800), file.try_clone().unwrap()),
            (region(0x2000, 0x1800, 0x2000), file),
        ])
        .unwrap();
        memory.write(0x1ff0, &[7; 32]).unwrap();
        let mut read = [0; 34];
        memory.read(0x1fef, &mut read).unwrap();
        assert_eq!((read[0], &read[1..33], read[33]), (0, &[7; 32][..], 0));
        assert!(memory.at(0x1ff0, 32).is_none() && memory.at(0x1ff0, 16).is_some());
        assert_eq!(memory.at_user((1 << 40) + 0x2000, 0x1800), memory.at(0x2000, 0x1800));
        assert_eq!(memory.read(0xfff, &mut read), Err(OutOfMemory { at: 0xfff, len: 34 }));
        assert_eq!(memory.write(0x37f0, &[1; 32]), Err(OutOfMemory { at: 0x3800, len: 16 }));
        assert!(memory.read(u64::MAX, &mut read).is_err());
    }

    #[test]
    fn regions_that_can_not_be_are_refused() {
        let map = |specs: &[RegionSpec]| {
            let specs: Vec<_> = specs.iter().map(|spec| (*spec, shared(0x4000))).collect();
            GuestMemory::map(&specs).map(drop).unwrap_err().to_string()
        };
        assert!(map(&[]).contains("0 regions"));
        assert!(map(&[region(0, 0, 0)]).contains("empty"));
        assert!(map(&[region(u64::MAX - (1 << 41), u64::MAX, 0)]).contains("last address"));
        assert!(map(&[RegionSpec { guest: u64::MAX - 10, user: 0, len: 0x1000, offset: 0 }]).contains("last address"));
        assert!(map(&[RegionSpec { guest: 0, user: 0, len: 0x1000, offset: u64::MAX - 10 }]).contains("last address"));
        assert!(map(&[region(0, 0x4000, 1)]).contains("ends at byte 16385 of a file of 16384"));
        assert!(map(&[region(0, 0x2000, 0), region(0x1fff, 0x1000, 0)]).contains("region 1 of its memory overlaps"));
        let same_user = RegionSpec { guest: 0x10_0000, ..region(0, 0x1000, 0) };
        assert!(map(&[region(0, 0x2000, 0), same_user]).contains("overlaps"));
        let pipe = File::from(nix::unistd::pipe().unwrap().0);
        assert!(
            GuestMemory::map(&[(region(0, 0x1000, 0), pipe)]).unwrap_err().to_string().contains("no shared memory")
        );
        let on_disk = File::open("/proc/self/maps").unwrap();
        assert!(matches!(GuestMemory::map(&[(region(0, 0x1000, 0), on_disk)]), Err(MemoryError::Kind(0))));
        let huge = shared(i64::MAX as u64);
        assert!(matches!(GuestMemory::map(&[(region(0, 1 << 62, 0), huge)]), Err(MemoryError::Map(0, _))));
    }

    #[test]
    fn a_file_that_is_cut_off_gives_empty_pages() {
        let (file, other) = (shared(0x4000), shared(0x1000));
        let cut = file.try_clone().unwrap();
        let memory = GuestMemory::map(&[(region(0, 0x4000, 0), file)]).unwrap();
        let unharmed = GuestMemory::map(&[(region(0, 0x1000, 0), other)]).unwrap();
        memory.write(0, &[1; 0x4000]).unwrap();
        unharmed.write(0, &[1; 0x1000]).unwrap();
        assert!(!memory.has_faulted());
        cut.set_len(0x1000).unwrap();
        let mut read = [9; 0x4000];
        memory.read(0, &mut read).unwrap();
        assert!(memory.has_faulted());
        assert_eq!(read[0x3fff], 0);
        memory.write(0, &[2; 0x4000]).unwrap();
        unharmed.read(0, &mut read[..0x1000]).unwrap();
        assert_eq!((unharmed.has_faulted(), read[0]), (false, 1));
    }
}
