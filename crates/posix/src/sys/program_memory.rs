//! Memory that a program names in a call, and that may not be there.

use std::io::IoSlice;

/// No program has memory below this address (`vm.mmap_min_addr`).
const LOWEST: usize = 4_096;

/// Whether a pointer leads to where no program has memory, as a null one does. Linux says `EFAULT` of those. (A pointer to any other
/// place without memory ends the program, see docs/posix.md.)
#[inline]
pub(crate) fn is_nowhere<T>(pointer: *const T) -> bool {
    pointer.addr() < LOWEST
}

/// Bytes that go along with a message to another process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload<'a> {
    /// The library's own.
    Own(&'a [u8]),
    /// The program's. Only the kernel reads them, and says `EFAULT` if they are nowhere.
    Program {
        /// Where they begin, as the program says.
        start: *const u8,
        /// How many there are, as the program says.
        length: usize,
    },
}

impl<'a> Payload<'a> {
    /// How many bytes there are.
    pub(crate) fn length(self) -> usize {
        match self {
            Payload::Own(bytes) => bytes.len(),
            Payload::Program { length, .. } => length,
        }
    }

    /// A part of a message.
    ///
    /// # Safety
    /// Nobody but the kernel reads the part's bytes, and only before the call that sends them returns.
    pub(crate) unsafe fn part(self) -> IoSlice<'a> {
        match self {
            Payload::Own(bytes) => IoSlice::new(bytes),
            Payload::Program { start, length } => {
                let part = libc::iovec { iov_base: start.cast_mut().cast(), iov_len: length };
                // SAFETY: `IoSlice` is laid out as `iovec`, as its documentation promises. No slice is made of it: this function's
                // condition.
                unsafe { std::mem::transmute::<libc::iovec, IoSlice<'a>>(part) }
            }
        }
    }
}
