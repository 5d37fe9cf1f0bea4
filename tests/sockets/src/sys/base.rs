//! What the calls have in common: what one gives back, the descriptors that are open, and conversions.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// A descriptor; any number may be tried.
pub type Fd = i32;

/// What a call gave back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ret {
    /// The value; negative after a failure.
    pub value: i64,
    /// The errno of a failure, else 0.
    pub errno: i32,
}

impl Ret {
    pub(super) fn of(value: impl Into<i64>) -> Ret {
        let value = value.into();
        // SAFETY: the address of this thread's errno is always valid.
        let errno = if value < 0 { unsafe { *libc::__errno_location() } } else { 0 };
        Ret { value, errno }
    }

    pub(super) fn of_long(value: isize) -> Ret {
        Ret::of(i64::try_from(value).unwrap_or(-1))
    }

    /// Of calls that return an errno instead of setting it.
    pub(super) fn of_code(code: i32) -> Ret {
        if code == 0 { Ret { value: 0, errno: 0 } } else { Ret { value: -1, errno: code } }
    }

    pub(super) fn opened(value: i32) -> Ret {
        let ret = Ret::of(value);
        if ret.is_ok() {
            note_open(value);
        }
        ret
    }

    /// Whether it succeeded.
    pub fn is_ok(self) -> bool {
        self.value >= 0
    }

    /// The value as a descriptor.
    pub fn fd(self) -> Fd {
        i32::try_from(self.value).unwrap_or(-1)
    }

    /// The value as a count; 0 after a failure.
    pub fn count(self) -> usize {
        usize::try_from(self.value).unwrap_or(0)
    }

    /// For values that may differ from run to run: whether it succeeded, or the errno's name.
    pub fn done(self) -> &'static str {
        if self.is_ok() { "ok" } else { crate::names::errno(self.errno) }
    }
}

impl fmt::Display for Ret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ok() { write!(out, "{}", self.value) } else { out.write_str(crate::names::errno(self.errno)) }
    }
}

/// Descriptors that cases opened, to be closed when a case ends. Not all of the process: a library that was loaded before
/// the program may have its own.
static OPEN: Mutex<BTreeSet<Fd>> = Mutex::new(BTreeSet::new());

pub(super) fn note_open(fd: Fd) {
    // Standard input and the like are put back by the case that takes them.
    if fd <= 2 {
        return;
    }
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).insert(fd);
}

pub(super) fn note_closed(fd: Fd) {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&fd);
}

/// Closes all that was opened here and not closed since.
pub fn close_all() {
    let all = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    for fd in all {
        // SAFETY: the number was given out by a call of this module and nobody else has it.
        unsafe { libc::close(fd) };
    }
}

pub(super) fn length(bytes: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(bytes).unwrap_or(libc::socklen_t::MAX)
}

pub(super) fn timespec(milliseconds: i64) -> libc::timespec {
    libc::timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 }
}

pub(super) fn mask_without(unblocked: Option<i32>) -> libc::sigset_t {
    // SAFETY: all zeroes are a valid set.
    let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigfillset(&raw mut mask) };
    if let Some(signal) = unblocked {
        // SAFETY: the set is ours.
        unsafe { libc::sigdelset(&raw mut mask, signal) };
    }
    mask
}

pub(super) fn how_many(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
