//! Asks for lines of the cache that another core has, before they are needed. Without that, each one is waited for.
#![allow(unsafe_code)]

use std::ptr::NonNull;

/// Has the line at `place` come, to be read.
#[inline]
pub fn to_read(place: NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address does no harm.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.as_ptr().cast());
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Has the line at `place` come as one's own, to be written: stores become visible in their order, so that one which has to wait for its line holds up all that come behind it.
#[inline]
pub fn to_write(place: NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address does no harm, and processors that do not have this instruction take it for none.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place.as_ptr(), options(nostack, preserves_flags, readonly));
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
