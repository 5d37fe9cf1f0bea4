//! Copies of a descriptor (`dup`) made while its socket was still the kernel's: they become ours with it.

use crate::calls::nature::nature;
use libc::c_int;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

/// Descriptors of sockets that have been copied, and each one's number as a file: copies have the same.
static COPIES: Mutex<BTreeMap<c_int, u64>> = Mutex::new(BTreeMap::new());

fn file_number(fd: c_int) -> Option<u64> {
    let mut status = MaybeUninit::<libc::stat64>::zeroed();
    // SAFETY: the structure has room for what is written, and it was zeroed at first.
    unsafe { (libc::fstat64(fd, status.as_mut_ptr()) == 0).then(|| status.assume_init().st_ino) }
}

/// `new` is a copy of `old`.
pub(super) fn note(old: c_int, new: c_int) {
    if crate::sys::wishes::wishes().is_none() || crate::sys::arena::is_inside() || nature(old).is_none() {
        return;
    }
    let Some(number) = file_number(old) else { return };
    let mut copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    copies.insert(old, number);
    copies.insert(new, number);
}

/// A descriptor of the kernel's is closed.
pub(super) fn closed(fd: c_int) {
    if let Ok(mut copies) = COPIES.try_lock()
        && !copies.is_empty()
    {
        copies.remove(&fd);
    }
}

/// The other descriptors of `fd`'s socket, which are to be what it is from now on.
pub(super) fn of(fd: c_int) -> Vec<c_int> {
    let copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(number) = copies.get(&fd) else { return Vec::new() };
    // A number may have been closed past us, and be another's.
    let is_one = |other: c_int, theirs: u64| other != fd && theirs == *number && file_number(other) == Some(*number);
    copies.iter().filter(|(other, theirs)| is_one(**other, **theirs)).map(|(other, _)| *other).collect()
}
