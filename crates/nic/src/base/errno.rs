//! The C library's `errno`, which the drivers leave alone.
//!
//! A driver runs inside of calls of programs (`qanat run`): what the last of *its* system calls said would be read as the
//! outcome of the program's, an empty queue's EAGAIN for that of `connect`.

/// Calls the system and leaves `errno` as it was. What the call said is to be read within.
#[inline]
pub(crate) fn kept<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: this thread's own word, which lives as long as the thread.
    let before = unsafe { *libc::__errno_location() };
    let outcome = call();
    // SAFETY: this thread's own word, as when it was read.
    unsafe { *libc::__errno_location() = before };
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn what_a_call_said_is_read_within_and_forgotten_outside() {
        // SAFETY: this thread's own word.
        unsafe { *libc::__errno_location() = libc::EINPROGRESS };
        let said = kept(|| {
            // SAFETY: takes numbers; there is no such descriptor.
            unsafe { libc::close(-1) };
            io::Error::last_os_error().raw_os_error()
        });
        assert_eq!(said, Some(libc::EBADF));
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EINPROGRESS));
    }
}
