//! Memory of the program that a call reads or writes, as a list of parts. A call makes one of the two types once, where the program's
//! pointers are known to be valid, and everything below uses it without `unsafe`.

use crate::sys::program_memory::is_nowhere;
use libc::{c_void, iovec, size_t};
use qanat_nic::breakdown::{self, Phase};
use rustix::io::Errno;

/// Bytes of one call that are copied at a time.
pub(super) const PIECE_MAX: usize = 64 * 1024;
/// Parts that one call may have.
const VECTORS_MAX: usize = 1_024;

/// Parts that are readable as long as the call runs: what the program sends.
#[derive(Clone, Copy)]
pub(in crate::calls) struct Source<'a>(&'a [iovec]);

/// Parts that are writable as long as the call runs: where the program wants what is received.
#[derive(Clone, Copy)]
pub(in crate::calls) struct Target<'a>(&'a [iovec]);

impl<'a> Source<'a> {
    /// # Safety
    /// Each part has as many readable bytes as it says, for `'a`.
    #[inline]
    pub(in crate::calls) unsafe fn new(parts: &'a [iovec]) -> Source<'a> {
        Source(parts)
    }

    /// Parts as a call gives them.
    ///
    /// # Errors
    /// `EFAULT`: they are nowhere; `too_many`: there are more than a call may have.
    ///
    /// # Safety
    /// `parts` points to `count` of them or is nowhere, and each has as many readable bytes as it says, for `'a`.
    #[inline]
    pub(in crate::calls) unsafe fn from_call(
        parts: *const iovec,
        count: usize,
        too_many: Errno,
    ) -> Result<Source<'a>, Errno> {
        // SAFETY: `parts` points to `count` parts: this function's condition.
        unsafe { slice(parts, count, too_many) }.map(Source)
    }

    /// Bytes of all parts.
    #[inline]
    pub(in crate::calls) fn length(self) -> usize {
        length(self.0)
    }

    /// Whether the parts are somewhere; see [`check`].
    #[inline]
    pub(in crate::calls) fn check(self) -> Result<(), Errno> {
        check(self.0)
    }

    /// The bytes, if there is one part and it is not empty.
    #[inline]
    pub(super) fn single(self) -> Option<&'a [u8]> {
        match self.0 {
            [one] if one.iov_len > 0 => {
                // SAFETY: the part is readable: what `new` and `from_call` demand.
                Some(unsafe { std::slice::from_raw_parts(one.iov_base.cast::<u8>(), one.iov_len) })
            }
            _ => None,
        }
    }

    /// Copies the bytes from `at` on, at most `most` of them. While the lock is held, the copy is in the arena.
    pub(super) fn gather(self, at: usize, most: usize) -> Vec<u8> {
        let _copying = breakdown::span(Phase::CopyIn);
        let mut bytes = Vec::with_capacity(most);
        let mut skip = at;
        for vector in self.0 {
            if skip >= vector.iov_len {
                skip -= vector.iov_len;
                continue;
            }
            let count = (vector.iov_len - skip).min(most - bytes.len());
            // SAFETY: the part is readable (what `new` and `from_call` demand), and `skip + count` is within it.
            let part = unsafe { std::slice::from_raw_parts(vector.iov_base.cast::<u8>().add(skip), count) };
            bytes.extend_from_slice(part);
            skip = 0;
            if bytes.len() == most {
                break;
            }
        }
        bytes
    }
}

impl<'a> Target<'a> {
    /// # Safety
    /// Each part has as many writable bytes as it says, for `'a`.
    #[inline]
    pub(in crate::calls) unsafe fn new(parts: &'a [iovec]) -> Target<'a> {
        Target(parts)
    }

    /// Parts as a call gives them.
    ///
    /// # Errors
    /// `EFAULT`: they are nowhere; `too_many`: there are more than a call may have.
    ///
    /// # Safety
    /// `parts` points to `count` of them or is nowhere, and each has as many writable bytes as it says, for `'a`.
    #[inline]
    pub(in crate::calls) unsafe fn from_call(
        parts: *const iovec,
        count: usize,
        too_many: Errno,
    ) -> Result<Target<'a>, Errno> {
        // SAFETY: `parts` points to `count` parts: this function's condition.
        unsafe { slice(parts, count, too_many) }.map(Target)
    }

    /// The parts, for a call of the kernel's.
    #[inline]
    pub(super) fn parts(self) -> &'a [iovec] {
        self.0
    }

    /// Bytes of all parts.
    #[inline]
    pub(in crate::calls) fn length(self) -> usize {
        length(self.0)
    }

    /// Whether the parts are somewhere; see [`check`].
    #[inline]
    pub(in crate::calls) fn check(self) -> Result<(), Errno> {
        check(self.0)
    }

    /// Copies `bytes` to where the parts' byte `at` is. Returns how many fitted.
    pub(super) fn scatter(self, at: usize, mut bytes: &[u8]) -> usize {
        let _copying = breakdown::span(Phase::CopyOut);
        let (mut skip, mut copied) = (at, 0);
        for vector in self.0 {
            if skip >= vector.iov_len {
                skip -= vector.iov_len;
                continue;
            }
            let count = (vector.iov_len - skip).min(bytes.len());
            // SAFETY: the part is writable (what `new` and `from_call` demand), and `skip + count` is within it.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), vector.iov_base.cast::<u8>().add(skip), count) };
            bytes = &bytes[count..];
            copied += count;
            skip = 0;
            if bytes.is_empty() {
                break;
            }
        }
        copied
    }

    /// The parts from byte `skip` on.
    pub(super) fn rest(self, mut skip: usize) -> Rest<'a> {
        let mut rest = Vec::new();
        for vector in self.0 {
            let gone = skip.min(vector.iov_len);
            skip -= gone;
            let base = vector.iov_base.wrapping_byte_add(gone);
            rest.push(iovec { iov_base: base, iov_len: vector.iov_len - gone });
        }
        Rest { parts: rest, _of: self }
    }
}

/// What is left of a [`Target`].
pub(super) struct Rest<'a> {
    parts: Vec<iovec>,
    _of: Target<'a>,
}

impl Rest<'_> {
    pub(super) fn target(&self) -> Target<'_> {
        Target(&self.parts)
    }
}

/// A program may say that its parts are longer than memory is.
fn length(parts: &[iovec]) -> usize {
    parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.iov_len))
}

/// Whether the parts are somewhere.
#[inline]
fn check(parts: &[iovec]) -> Result<(), Errno> {
    let is_bad = |part: &iovec| part.iov_len > 0 && is_nowhere(part.iov_base);
    if parts.iter().any(is_bad) { Err(Errno::FAULT) } else { Ok(()) }
}

/// # Safety
/// `parts` points to `count` of them, or is nowhere.
#[inline]
unsafe fn slice<'a>(parts: *const iovec, count: usize, too_many: Errno) -> Result<&'a [iovec], Errno> {
    match count {
        0 => Ok(&[]),
        _ if count > VECTORS_MAX => Err(too_many),
        _ if is_nowhere(parts) => Err(Errno::FAULT),
        // SAFETY: `parts` points to `count` parts: this function's condition.
        _ => Ok(unsafe { std::slice::from_raw_parts(parts, count) }),
    }
}

/// A single part.
#[inline]
pub(super) fn one(buffer: *const c_void, count: size_t) -> [iovec; 1] {
    [iovec { iov_base: buffer.cast_mut(), iov_len: count }]
}
