//! The page by which a world's processes learn that one of them gives up rights and takes the world with it: it *falls* to that
//! one's class. Only processes that have given up nothing write it. A process that is about to give up rights lets go of it first. So
//! what the page says can be trusted, unlike all else that the processes share.

use crate::sys::descriptor::notes;
use crate::sys::libc_next;
use crate::sys::this_process::class::Class;
use rustix::io::Errno;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

const LENGTH: usize = 4_096;
/// Behind the two words.
const TEXT: usize = 8;
const TEXT_MAX: usize = LENGTH - TEXT;

/// What is looked at before the lock is taken, and after: the page's first word, or one of these.
static NEVER: AtomicU32 = AtomicU32::new(0);
static ALWAYS: AtomicU32 = AtomicU32::new(1);
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NEVER).cast_mut());

/// Where it is mapped; 0: nowhere.
static PLACE: AtomicUsize = AtomicUsize::new(0);
static FILE: AtomicI32 = AtomicI32::new(-1);

/// What this process looks at instead of the page from now on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instead {
    /// The world is of its own class, and falls no further.
    Belongs,
    /// The world is not its own any more.
    IsOut,
}

/// Whether the world has fallen, or is not this process's.
#[inline]
pub(crate) fn has_fallen() -> bool {
    // SAFETY: one of the two, or the page's: that stays mapped, if only as a page of zeros.
    unsafe { &*WORD.load(Ordering::Relaxed) }.load(Ordering::Acquire) != 0
}

/// Makes it.
///
/// # Errors
/// Out of descriptors or memory.
pub(crate) fn make() -> Result<(), Errno> {
    // SAFETY: the name is a C string.
    let file = unsafe { libc::memfd_create(c"qanat-class".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return Err(libc_next::errno());
    }
    // Another user's process that has it for reading must not open it anew for writing.
    // SAFETY: the call takes no pointers.
    if unsafe { libc::ftruncate(file, LENGTH as libc::off_t) != 0 || libc::fchmod(file, 0o600) != 0 } {
        return Err(libc_next::errno());
    }
    adopt(crate::sys::wakers::out_of_the_way(file))
}

/// Maps what another process has made. The process that hands it on can be trusted.
///
/// # Errors
/// What `mmap` says.
pub(crate) fn adopt(file: RawFd) -> Result<(), Errno> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping where nothing is, which changes no memory in use.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), LENGTH, protection, libc::MAP_SHARED, file, 0) };
    if place == libc::MAP_FAILED {
        return Err(libc_next::errno());
    }
    PLACE.store(place.expose_provenance(), Ordering::Relaxed);
    FILE.store(file, Ordering::Relaxed);
    WORD.store(place.cast(), Ordering::Release);
    Ok(())
}

/// Its descriptor; -1: this process has it no more.
pub(crate) fn file() -> RawFd {
    FILE.load(Ordering::Relaxed)
}

fn word(at: usize) -> Option<&'static AtomicU32> {
    let place = PLACE.load(Ordering::Relaxed);
    // SAFETY: within the page, which is mapped as long as there is a place.
    (place != 0).then(|| unsafe { &*std::ptr::with_exposed_provenance::<AtomicU32>(place + at) })
}

/// The world belongs to `class` from now on, which this process is about to be of: it writes no more here. With the lock held;
/// once.
pub(crate) fn publish(class: &Class) {
    WORD.store((&raw const NEVER).cast_mut(), Ordering::Release);
    let (Some(fallen), Some(length)) = (word(0), word(4)) else { return };
    let text = class.text();
    let bytes = text.as_bytes().get(..text.len().min(TEXT_MAX)).unwrap_or_default();
    let place = PLACE.load(Ordering::Relaxed) + TEXT;
    // SAFETY: so many bytes of the page, which nobody reads before the word says so.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), std::ptr::with_exposed_provenance_mut(place), bytes.len()) };
    length.store(bytes.len() as u32, Ordering::Relaxed);
    fallen.store(1, Ordering::Release);
    let_go(Instead::Belongs);
}

/// The class to which the world has fallen.
pub(crate) fn class() -> Option<Class> {
    word(0).filter(|word| word.load(Ordering::Acquire) != 0)?;
    let length = (word(4)?.load(Ordering::Relaxed) as usize).min(TEXT_MAX);
    let place = std::ptr::with_exposed_provenance::<u8>(PLACE.load(Ordering::Relaxed) + TEXT);
    // SAFETY: within the page; what is there is not changed any more.
    let bytes = unsafe { std::slice::from_raw_parts(place, length) };
    Class::read(std::str::from_utf8(bytes).ok()?)
}

/// The same, by a descriptor of the page that may only be read.
pub(crate) fn class_in(file: RawFd) -> Option<Class> {
    let mut bytes = [0; LENGTH];
    // SAFETY: the pointer is to as many writable bytes as the length says.
    let count = unsafe { libc::pread(file, bytes.as_mut_ptr().cast(), LENGTH, 0) };
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if usize::try_from(count) != Ok(LENGTH) || word(0)? == 0 {
        return None;
    }
    let text = bytes.get(TEXT..TEXT + (word(4)? as usize).min(TEXT_MAX))?;
    Class::read(std::str::from_utf8(text).ok()?)
}

/// This process, and its children, can't write it any more.
pub(crate) fn let_go(instead: Instead) {
    let word = if instead == Instead::Belongs { &raw const NEVER } else { &raw const ALWAYS };
    WORD.store(word.cast_mut(), Ordering::Release);
    let place = PLACE.swap(0, Ordering::Relaxed);
    if place != 0 {
        // Somebody may be about to look there: a page of zeros takes its place.
        crate::sys::arena::cover(place, LENGTH);
    }
    let file = FILE.swap(-1, Ordering::Relaxed);
    if file >= 0 {
        notes::set(file, notes::Entry::Kernel);
        // SAFETY: the descriptor is the library's own, and nothing else uses it.
        unsafe { libc_next::close(file) };
    }
}
