//! Bytes of the program's own, which the stack keeps until they are acknowledged.

use bytes::Bytes;
use std::ffi::c_void;

/// Is called once, when lent bytes are not needed any more.
pub type Release = Option<unsafe extern "C" fn(state: *mut c_void)>;

/// The program's bytes, and whom to tell that they are free.
struct Lent {
    data: *const u8,
    length: usize,
    release: Release,
    state: *mut c_void,
}

// SAFETY: a runtime keeps what it is given, and drops it, on its own thread, which is the program's.
unsafe impl Send for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `lend`'s caller says that the bytes stay where and what they are until `release`.
        unsafe { std::slice::from_raw_parts(self.data, self.length) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the program gave it to be called with this, once.
            unsafe { release(self.state) };
        }
    }
}

/// The program's bytes as the stack takes them.
///
/// # Safety
/// `data` has `length` bytes (it is not null), which stay and do not change until `release` is called; with no `release`, as long as the
/// program runs.
pub(crate) unsafe fn lend(data: *const u8, length: usize, release: Release, state: *mut c_void) -> Bytes {
    if release.is_none() {
        // SAFETY: the caller's promise: they stay as long as the program.
        return Bytes::from_static(unsafe { std::slice::from_raw_parts(data, length) });
    }
    Bytes::from_owner(Lent { data, length, release, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn count(state: *mut c_void) {
        // SAFETY: the tests give a counter that outlives the bytes.
        unsafe { *state.cast::<u32>() += 1 };
    }

    #[test]
    fn bytes_are_released_once_with_the_last_that_has_them() {
        let (text, mut released) = (*b"lent", 0_u32);
        let state = std::ptr::from_mut(&mut released);
        // SAFETY: `text` and `released` outlive the bytes.
        let bytes = unsafe { lend(text.as_ptr(), text.len(), Some(count), state.cast()) };
        let part = bytes.slice(1..3);
        drop(bytes);
        assert_eq!(&part[..], b"en");
        // SAFETY: nothing else has it.
        assert_eq!(unsafe { *state }, 0);
        drop(part);
        // SAFETY: as above.
        assert_eq!(unsafe { *state }, 1);
    }
}
