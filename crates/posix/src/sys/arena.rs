//! The arena: memory of the stack and of all it knows of. A program's processes share it, at the same address in each. They are forked from
//! one another, or have [joined](crate::lifecycle::join).
//!
//! Whatever this library allocates while it holds the [lock](crate::world::lock) is in the arena. Everything else comes from the C library.
//! So the lock guards the heap as well.

use crate::sys::local::LOCAL;
use dlmalloc::Dlmalloc;
use rustix::io::Errno;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// Addresses set aside; memory is used as it is touched.
const LENGTH: usize = qanat_launch::memory_limits::FILE_LENGTH as usize;
/// Taken from the reservation at a time, at least.
const STEP: usize = 1 << 20;

/// Where it is, if nothing else is there: far from where the kernel puts programs, libraries and stacks, and above the first 64 TiB, all over
/// which V8 puts its pages by chance. A program that joins has to have it at the same place.
const PREFERRED: usize = 0x4800_0000_0000;
/// Where the device's memory is.
pub(crate) const BEHIND: usize = PREFERRED + (64 << 30);

static BASE: AtomicUsize = AtomicUsize::new(0);
/// The memory file; -1: there is none, and only children have it.
static FILE: AtomicI32 = AtomicI32::new(-1);

/// Whether this thread holds the lock.
#[inline]
pub(crate) fn is_inside() -> bool {
    LOCAL.with(|local| local.is_inside.get())
}

/// To be called when the lock is taken, and when it is given back.
#[inline]
pub(crate) fn set_inside(inside: bool) {
    LOCAL.with(|local| local.is_inside.set(inside));
}

/// Where the reservation begins.
struct Head {
    /// Bytes taken.
    taken: UnsafeCell<usize>,
    heap: UnsafeCell<Dlmalloc<Growing<Shared>>>,
}

/// Memory that a heap takes piece by piece and never gives back.
trait Region: Send {
    /// Takes `size` bytes that nobody has had, zeroed. Returns their address and how many there are. `None`: it is used up.
    fn take(size: usize) -> Option<(usize, usize)>;
}

/// A heap's source of memory: a [`Region`].
struct Growing<R>(PhantomData<R>);

// SAFETY: a region gives each piece once and never takes it back.
unsafe impl<R: Region> dlmalloc::Allocator for Growing<R> {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        R::take(size)
            .map_or((std::ptr::null_mut(), 0, 0), |(at, size)| (std::ptr::with_exposed_provenance_mut(at), size, 0))
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        std::ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        4_096
    }
}

/// The arena's reservation.
struct Shared;

impl Region for Shared {
    fn take(size: usize) -> Option<(usize, usize)> {
        let base = BASE.load(Ordering::Relaxed);
        // SAFETY: the world's lock is held, as it is whenever somebody allocates here.
        let taken = unsafe { &mut *head()?.taken.get() };
        let size = size.next_multiple_of(STEP);
        if *taken + size > LENGTH {
            return None;
        }
        let at = base + *taken;
        *taken += size;
        Some((at, size))
    }
}

fn head() -> Option<&'static Head> {
    let base = BASE.load(Ordering::Relaxed);
    // SAFETY: `reserve` put one there, and it is never unmapped.
    (base != 0).then(|| unsafe { &*std::ptr::with_exposed_provenance::<Head>(base) })
}

/// Sets the addresses aside. Once, before the lock is taken first.
///
/// # Errors
/// What `mmap` says; `EFBIG`: the program may have no such file.
pub(crate) fn reserve() -> Result<(), Errno> {
    if !crate::sys::raised_limits::has_for_file(LENGTH) {
        return Err(Errno::FBIG);
    }
    let file = memory_file();
    let kind = if file < 0 { libc::MAP_ANONYMOUS } else { 0 };
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | kind;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let wished = std::ptr::without_provenance_mut(PREFERRED);
    // SAFETY: a new mapping, at that address only if nothing is there.
    let base = unsafe { libc::mmap(wished, LENGTH, protection, flags, file, 0) };
    if base == libc::MAP_FAILED {
        return Err(crate::sys::libc_next::errno());
    }
    let head = Head {
        taken: UnsafeCell::new(STEP),
        heap: UnsafeCell::new(Dlmalloc::new_with_allocator(Growing(PhantomData))),
    };
    // SAFETY: these are the mapping's first bytes, which nobody uses yet.
    unsafe { base.cast::<Head>().write(head) };
    BASE.store(base.expose_provenance(), Ordering::Release);
    FILE.store(file, Ordering::Relaxed);
    Ok(())
}

/// A file as long as the reservation, of which nothing is there yet; -1: there can be none.
fn memory_file() -> RawFd {
    // SAFETY: the name is a C string.
    let file = unsafe { libc::memfd_create(c"qanat-world".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return -1;
    }
    // SAFETY: the call takes no pointers.
    if unsafe { libc::ftruncate(file, LENGTH as libc::off_t) } == 0 {
        return crate::sys::wakers::out_of_the_way(file);
    }
    // SAFETY: the descriptor is the library's own, and nothing else uses it.
    unsafe { crate::sys::libc_next::close(file) };
    -1
}

/// The file, and where it is mapped, for a process that is to have it too.
pub(crate) fn place() -> Option<(RawFd, usize)> {
    let (file, base) = (FILE.load(Ordering::Relaxed), BASE.load(Ordering::Relaxed));
    (file >= 0 && base != 0).then_some((file, base))
}

/// This process is not to see it any more: what is left of it here is zeros of its own, which nobody else sees.
pub(crate) fn leave() {
    cover(BASE.load(Ordering::Relaxed), LENGTH);
}

/// Puts zeros of this process's own in the place of something shared. A thread that is about to look there finds them, and nothing that
/// anybody else writes.
pub(crate) fn cover(place: usize, length: usize) {
    if place == 0 {
        return;
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let place = std::ptr::with_exposed_provenance_mut(place);
    // SAFETY: a mapping of this library's, which nobody refers to that has not been told; see `away`.
    if unsafe { libc::mmap(place, length, protection, flags, -1, 0) } == libc::MAP_FAILED {
        // It can't be left, and it must not be stayed in.
        // SAFETY: the call ends the process.
        unsafe { libc::abort() };
    }
}

/// Another process's, mapped here as it is there; `number`: the file's from now on.
///
/// # Errors
/// `EEXIST`: something else is there; else what `mmap` says.
pub(crate) fn adopt(file: RawFd, number: RawFd, base: usize) -> Result<(), Errno> {
    adopt_at(file, number, base, libc::MAP_FIXED_NOREPLACE)
}

/// Nothing else is to come where another process's is to be mapped one day.
pub(crate) fn hold_place(base: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let wished = std::ptr::without_provenance_mut(base);
    // SAFETY: a new mapping, at that address only if nothing is there. Without it the way back is closed.
    unsafe { libc::mmap(wished, LENGTH, libc::PROT_NONE, flags, -1, 0) };
}

/// It comes back to where this process has left it.
///
/// # Errors
/// What `mmap` says.
pub(crate) fn return_to(file: RawFd, base: usize) -> Result<(), Errno> {
    adopt_at(file, file, base, libc::MAP_FIXED)
}

fn adopt_at(file: RawFd, number: RawFd, base: usize, how: i32) -> Result<(), Errno> {
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | how;
    let wished = std::ptr::without_provenance_mut(base);
    // SAFETY: a new mapping, at that address only if nothing is there.
    let at = unsafe { libc::mmap(wished, LENGTH, libc::PROT_READ | libc::PROT_WRITE, flags, file, 0) };
    if at == libc::MAP_FAILED {
        return Err(crate::sys::libc_next::errno());
    }
    if at.expose_provenance() != base {
        // SAFETY: the mapping was made just now, and nothing points into it.
        unsafe { libc::munmap(at, LENGTH) };
        return Err(Errno::EXIST);
    }
    BASE.store(base, Ordering::Release);
    FILE.store(number, Ordering::Relaxed);
    Ok(())
}

/// It is left again: nothing in it is used.
pub(crate) fn abandon() {
    let base = BASE.swap(0, Ordering::Relaxed);
    // SAFETY: mapped by `adopt`, and nothing points into it yet.
    unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(base), LENGTH) };
}

/// An address in it, the same in all processes, at which nothing of a program's is: `number` of a few.
pub(crate) fn mark(number: usize) -> u64 {
    (BASE.load(Ordering::Relaxed) + 1 + number) as u64
}

/// Addresses set aside for a process that began past the C library.
const PRIVATE_LENGTH: usize = 64 << 20;

/// Of such a process: its own memory, from here on.
static PRIVATE: AtomicUsize = AtomicUsize::new(0);
static PRIVATE_TAKEN: AtomicUsize = AtomicUsize::new(0);
static PRIVATE_HEAP: Private = Private(UnsafeCell::new(Dlmalloc::new_with_allocator(Growing(PhantomData))));

struct Private(UnsafeCell<Dlmalloc<Growing<OfOneProcess>>>);

// SAFETY: used only by a process of one thread, once it has said so.
unsafe impl Sync for Private {}

/// The memory of a process that began past the C library.
struct OfOneProcess;

impl Region for OfOneProcess {
    fn take(size: usize) -> Option<(usize, usize)> {
        let at = PRIVATE_TAKEN.fetch_add(size, Ordering::Relaxed);
        (at.saturating_add(size) <= PRIVATE_LENGTH).then(|| (PRIVATE.load(Ordering::Relaxed) + at, size))
    }
}

/// From here on this process, which has one thread, takes what it does not share from a heap of its own: a thread of the process it is a
/// copy of may have been in the midst of the C library's.
pub(crate) fn use_private_heap() {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping where nothing is, which changes no memory in use.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), PRIVATE_LENGTH, protection, flags, -1, 0) };
    if place != libc::MAP_FAILED {
        PRIVATE.store(place.expose_provenance(), Ordering::Relaxed);
    }
}

/// The heap of a process that began past the C library.
#[inline]
fn private_heap() -> Option<*mut Dlmalloc<Growing<OfOneProcess>>> {
    (PRIVATE.load(Ordering::Relaxed) != 0).then(|| PRIVATE_HEAP.0.get())
}

fn is_private(pointer: *mut u8) -> bool {
    pointer.addr().wrapping_sub(PRIVATE.load(Ordering::Relaxed)) < PRIVATE_LENGTH
}

/// # Safety
/// As `GlobalAlloc::alloc`.
unsafe fn alloc_outside(layout: Layout) -> *mut u8 {
    match private_heap() {
        // SAFETY: one thread, so nobody else is in the heap.
        Some(heap) => unsafe { (*heap).malloc(layout.size(), layout.align()) },
        // SAFETY: the layout's size is not zero: this function's condition.
        None => unsafe { System.alloc(layout) },
    }
}

/// # Safety
/// As `GlobalAlloc::dealloc`, for what is not of the arena.
unsafe fn dealloc_outside(pointer: *mut u8, layout: Layout) {
    match private_heap() {
        // SAFETY: it came from this heap, where nobody else is.
        Some(heap) if is_private(pointer) => unsafe { (*heap).free(pointer, layout.size(), layout.align()) },
        // The program's, of which this is a copy: it stays.
        Some(_) => {}
        // SAFETY: it is the C library's, as it is no other's.
        None => unsafe { System.dealloc(pointer, layout) },
    }
}

fn is_ours(pointer: *mut u8) -> bool {
    let base = BASE.load(Ordering::Relaxed);
    base != 0 && pointer.addr().wrapping_sub(base) < LENGTH
}

/// The library's allocator; see the [module](self).
pub(crate) struct Routed;

// SAFETY: each pointer goes back to the heap it came from.
unsafe impl GlobalAlloc for Routed {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match head() {
            // SAFETY: the world's lock is held, so nobody else is in the heap.
            Some(head) if is_inside() => unsafe { (*head.heap.get()).malloc(layout.size(), layout.align()) },
            // SAFETY: the layout's size is not zero: the condition of `GlobalAlloc::alloc`.
            _ => unsafe { alloc_outside(layout) },
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if !is_ours(pointer) {
            // SAFETY: it isn't the arena's.
            return unsafe { dealloc_outside(pointer, layout) };
        }
        // Without the lock it is lost rather than damaged by two at once.
        if let Some(head) = head()
            && is_inside()
        {
            // SAFETY: the world's lock is held, and the pointer came from this heap.
            unsafe { (*head.heap.get()).free(pointer, layout.size(), layout.align()) };
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_ours(pointer)
            && is_inside()
            && let Some(head) = head()
        {
            // SAFETY: the world's lock is held, and the pointer came from this heap.
            return unsafe { (*head.heap.get()).realloc(pointer, layout.size(), layout.align(), size) };
        }
        if !is_ours(pointer) && !is_inside() && private_heap().is_none() {
            // SAFETY: the pointer is of this layout (the condition of `GlobalAlloc::realloc`), and no heap but the C library's can have
            // given it.
            return unsafe { System.realloc(pointer, layout, size) };
        }
        // SAFETY: the size is not zero (the condition of `GlobalAlloc::realloc`), and the alignment was one before.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both have as many bytes as are copied, and they do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(pointer, new, layout.size().min(size)) };
            // SAFETY: the pointer is of this layout: the condition of `GlobalAlloc::realloc`.
            unsafe { self.dealloc(pointer, layout) };
        }
        new
    }
}
