//! Asking for memory before it is needed.

/// Has the processor fetch the cache line of the first of `bytes`, and goes on without waiting. A hint: nothing depends on it.
#[inline(always)]
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing architecturally and cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// The same for the line at `place`, which needs not be readable.
#[inline(always)]
pub(crate) fn prefetch_at(place: std::ptr::NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: as in `prefetch`.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.as_ptr().cast_const().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
