//! The program's name, and that of a process of the library's own.

use libc::{c_char, c_int};
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The program's name, as it was executed.
static NAME: OnceLock<String> = OnceLock::new();

/// The name of the program whose keeper this is.
static PROGRAM: AtomicPtr<String> = AtomicPtr::new(std::ptr::null_mut());

/// Where the program's arguments are, one behind the other, and how many bytes.
static ARGUMENTS: (AtomicPtr<c_char>, AtomicUsize) = (AtomicPtr::new(std::ptr::null_mut()), AtomicUsize::new(0));

/// This process is the program, or was executed by it.
pub(crate) fn name(name: String) {
    // The first counts.
    let _ = NAME.set(name);
}

/// This process is the keeper of the program of that name.
pub(crate) fn keeps(name: String) {
    PROGRAM.store(Box::into_raw(Box::new(name)), Ordering::Release);
}

/// Notes where the arguments are.
///
/// # Safety
/// `count` strings, which the kernel has put side by side.
pub(crate) unsafe fn note_arguments(count: c_int, arguments: *const *mut c_char) {
    if let Some(last) = usize::try_from(count).ok().and_then(|count| count.checked_sub(1)) {
        // SAFETY: `count` strings, which the kernel has put side by side: this function's condition.
        let (first, end) = unsafe { (*arguments, (*arguments.add(last)).add(libc::strlen(*arguments.add(last)) + 1)) };
        ARGUMENTS.0.store(first, Ordering::Relaxed);
        ARGUMENTS.1.store(end.addr().saturating_sub(first.addr()), Ordering::Relaxed);
    }
}

/// The program's name, as it was executed.
pub(crate) fn program() -> &'static str {
    // SAFETY: the value was put there once, and it is never taken away.
    let kept = unsafe { PROGRAM.load(Ordering::Acquire).as_ref() };
    kept.or(NAME.get()).map(String::as_str).unwrap_or_default()
}

/// Names this process, forked from the program, for `ps` and `pkill -f`: the latter is not to take it for the program.
pub(crate) fn rename(name: &CStr) {
    // SAFETY: the pointer is to a C string.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    let (place, room) = (ARGUMENTS.0.load(Ordering::Relaxed), ARGUMENTS.1.load(Ordering::Relaxed));
    let length = name.count_bytes().min(room.saturating_sub(1));
    // SAFETY: nothing, or so many bytes that stay, and that nobody of this process reads any more.
    unsafe {
        std::ptr::write_bytes(place, 0, room);
        std::ptr::copy_nonoverlapping(name.as_ptr(), place, length);
    }
}
