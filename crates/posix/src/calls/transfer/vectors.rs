//! Bytes of a program's, in parts.

use libc::{c_void, iovec, size_t};
use qanat::nic::breakdown::{self, Phase};

/// Bytes of one call that are copied at a time.
pub(super) const PIECE_MAX: usize = 64 * 1024;

/// Bytes of the vectors from `at` on, at most `most`, in memory of the arena.
///
/// # Safety
/// The vectors are readable; the lock is held.
pub(super) unsafe fn gather(vectors: &[iovec], at: usize, most: usize) -> Vec<u8> {
    let _copying = breakdown::span(Phase::CopyIn);
    let mut bytes = Vec::with_capacity(most);
    let mut skip = at;
    for vector in vectors {
        if skip >= vector.iov_len {
            skip -= vector.iov_len;
            continue;
        }
        let count = (vector.iov_len - skip).min(most - bytes.len());
        // SAFETY: as the caller says.
        let part = unsafe { std::slice::from_raw_parts(vector.iov_base.cast::<u8>().add(skip), count) };
        bytes.extend_from_slice(part);
        skip = 0;
        if bytes.len() == most {
            break;
        }
    }
    bytes
}

/// Whether the vectors are somewhere: where a program has no memory at all Linux says so. (Elsewhere it ends here.)
#[inline]
pub(in crate::calls) fn check(vectors: &[iovec]) -> Result<(), i32> {
    const LOWEST: usize = 4_096;
    let is_nowhere = |vector: &iovec| vector.iov_len > 0 && vector.iov_base.addr() < LOWEST;
    if vectors.iter().any(is_nowhere) { Err(libc::EFAULT) } else { Ok(()) }
}

/// Vectors as a slice; `None`: more than there may be.
///
/// # Safety
/// `vectors` are so many.
#[inline]
pub(in crate::calls) unsafe fn slice<'a>(vectors: *const iovec, count: usize) -> Option<&'a [iovec]> {
    const VECTORS_MAX: usize = 1_024;
    if count > VECTORS_MAX {
        return None;
    }
    // SAFETY: as the caller says.
    Some(if count == 0 || vectors.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(vectors, count) } })
}

/// One part.
#[inline]
pub(super) fn one(buffer: *const c_void, count: size_t) -> [iovec; 1] {
    [iovec { iov_base: buffer.cast_mut(), iov_len: count }]
}
