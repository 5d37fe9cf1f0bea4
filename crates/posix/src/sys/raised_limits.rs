//! Limits of a program are meant for what the program does itself. The library's descriptors have numbers beyond them, and its memory files
//! are longer. While these are made, the limits are raised as far as they may be, and afterwards they are restored.

use crate::sys::raw::{self, Call};
use qanat_launch::memory_limits::{self, ADDRESS_SPACE_MIN, FILE_LENGTH};
use qanat_launch::numbers::{LIMIT_MIN, LIMIT_WANTED, shortage_of};
use std::os::fd::RawFd;
use std::sync::Mutex;

/// One at a time: else one would note what another has raised.
static TURN: Mutex<()> = Mutex::new(());

/// The kernel's `struct rlimit64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Limit {
    now: u64,
    most: u64,
}

fn exchange(kind: u32, new: Option<Limit>) -> Option<Limit> {
    let mut old = Limit { now: 0, most: 0 };
    let given = new.as_ref().map_or(0, |limit| std::ptr::from_ref(limit).addr());
    let arguments = [0, kind as usize, given, (&raw mut old).addr(), 0];
    // SAFETY: one readable structure or none, and one writable.
    (unsafe { raw::call(&Call::new(libc::SYS_prlimit64, arguments)) } == 0).then_some(old)
}

/// A limit that is raised as long as this is there.
struct Raised(u32, Limit);

impl Raised {
    /// `None`: it is high enough, or can't be raised.
    fn new(kind: u32, wanted: u64) -> Option<Raised> {
        let old = exchange(kind, None).filter(|old| old.now < wanted && old.now < old.most)?;
        exchange(kind, Some(Limit { now: wanted.min(old.most), ..old })).map(|old| Raised(kind, old))
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        exchange(self.0, Some(self.1));
    }
}

/// Does `make` with limits that leave room for the library's descriptors and files. Done within itself it changes nothing.
pub(crate) fn with_room<T>(make: impl FnOnce() -> T) -> T {
    let turn = TURN.try_lock();
    // The library's own processes have no room made for them: they have none of the program's descriptors.
    let _raised = (turn.is_ok() && !crate::sys::this_process::own_process::is_librarys()).then(|| {
        (Raised::new(libc::RLIMIT_NOFILE, LIMIT_WANTED), Raised::new(libc::RLIMIT_FSIZE, libc::RLIM_INFINITY))
    });
    make()
}

/// What to say if this process may not have descriptors with the numbers that the library's have, or not the addresses or the file it
/// needs; `None`: it may.
pub(crate) fn shortage() -> Option<String> {
    let numbers = exchange(libc::RLIMIT_NOFILE, None).filter(|limit| limit.most < LIMIT_MIN);
    let space = || exchange(libc::RLIMIT_AS, None).filter(|limit| limit.now < ADDRESS_SPACE_MIN);
    let file = || exchange(libc::RLIMIT_FSIZE, None).filter(|limit| limit.most < FILE_LENGTH);
    numbers
        .map(|limit| shortage_of(limit.most))
        .or_else(|| space().map(|limit| memory_limits::shortage_of(limit.now)))
        .or_else(|| file().map(|limit| memory_limits::file_shortage_of(limit.most)))
}

/// Whether a file may have `length` bytes: it would be a signal that says no (`SIGXFSZ`).
pub(crate) fn has_for_file(length: usize) -> bool {
    exchange(libc::RLIMIT_FSIZE, None).is_none_or(|limit| length as u64 <= limit.now)
}

/// A copy of `fd` with a number of `least` or more, whatever the limit; negative: there is none.
pub(crate) fn copy_above(fd: RawFd, least: RawFd, command: libc::c_int) -> RawFd {
    // SAFETY: the call takes no pointers.
    let copy = || unsafe { crate::sys::libc_next::fcntl64(fd, command, least as libc::c_ulong) };
    let made = copy();
    if made >= 0 { made } else { with_room(copy) }
}
