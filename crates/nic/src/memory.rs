//! Frame memory: one mapped region cut into equal frames, handed out by pools.
//!
//! ```text
//!  Region  |  frame 0  |  frame 1  |  frame 2  | …            one mapping, page aligned (an AF_XDP UMEM)
//!  Pool         receive: frames 0…n−1   transmit: n…m−1   prepared: m…   disjoint shares, so none can starve another
//!  Frame   [ headroom | data                | tailroom ]       start and length move; the buffer stays
//! ```
//!
//! A `Frame` is owned: holding it is the only right to read or write its bytes. Dropping it gives it back to its
//! pool, so nothing can leak while a program forgets nothing; [`Pool::free_count`] shows it. Not `Send`.

use crate::base::memory_file;
use crate::base::place;
use crate::base::prefetch::prefetch_at;
use rustix::fs::SealFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::rc::Rc;

/// The name of frames' memory files in `/proc/PID/maps`.
pub(crate) const FRAMES: &CStr = c"qanat-frames";

/// A mapped, page-aligned run of memory cut into frames of equal size.
pub struct Region {
    base: NonNull<u8>,
    frame_size: u32,
    frame_count: u32,
    /// The first so many frames are mapped read-only here. The process that made them writes them, or a device does.
    read_only: u32,
    assigned: std::cell::Cell<u32>,
    /// Where frames that can't be written are copied to when somebody wants to.
    copies: std::cell::OnceCell<Pool>,
}

impl Region {
    /// Maps zeroed memory for `frame_count` frames of `frame_size` bytes (a power of two, 512…1,048,576).
    ///
    /// # Errors
    /// `InvalidInput` for a size or count out of range; else what `mmap` says (`ENOMEM`).
    pub fn new(frame_count: u32, frame_size: u32) -> io::Result<Rc<Region>> {
        let length = check(frame_count, frame_size)?;
        if place::is_on() {
            // What is noted is to be had elsewhere: in a file, of which there is no more than what is touched.
            let file = memory_file::create(FRAMES)?;
            memory_file::set_length(file.as_fd(), length)?;
            return Region::of_memory_file(file.as_fd(), frame_count, frame_size);
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let address =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE) }?;
        Region::mapped(address, length, frame_count, frame_size)
    }

    /// As [`new`](Region::new), in a memory file that another process can be given to register with a device. Its size
    /// is sealed, so that nobody, this process included, can pull the memory from under the other.
    ///
    /// # Errors
    /// As for `new`; what `memfd_create` says.
    pub fn in_memory_file(frame_count: u32, frame_size: u32) -> io::Result<(Rc<Region>, OwnedFd)> {
        let length = check(frame_count, frame_size)?;
        let file = memory_file::create(FRAMES)?;
        // Allocated now: the process that makes the memory is charged for it, not the one that registers it.
        memory_file::allocate(file.as_fd(), length)?;
        memory_file::seal(file.as_fd(), memory_file::SIZE | SealFlags::SEAL)?;
        let region = Region::of_memory_file(file.as_fd(), frame_count, frame_size)?;
        Ok((region, file))
    }

    /// Maps another process's memory file; its size must be sealed, and be that of these frames.
    pub(crate) fn of_memory_file(file: BorrowedFd<'_>, frame_count: u32, frame_size: u32) -> io::Result<Rc<Region>> {
        Region::of_part(file, 0, frame_count, frame_size)
    }

    /// The same from `offset` bytes on. The size must be sealed, and the frames be within it.
    pub(crate) fn of_part(
        file: BorrowedFd<'_>,
        offset: u64,
        frame_count: u32,
        frame_size: u32,
    ) -> io::Result<Rc<Region>> {
        let length = check(frame_count, frame_size)?;
        let address = place::map(file, offset, length, 0)?;
        Region::mapped(address, length, frame_count, frame_size)
    }

    /// Over a mapping just made, readable and writable, of `length` bytes.
    fn mapped(address: *mut libc::c_void, length: usize, frame_count: u32, frame_size: u32) -> io::Result<Rc<Region>> {
        // Large pages where the kernel has them: prepared content may be gigabytes. Advice only, so errors don't matter.
        // A core dump without packets: peers' data is not for a crash report, and a restart must not wait for gigabytes.
        // SAFETY: the mapping just made, in its length.
        unsafe {
            let _ = rustix::mm::madvise(address, length, Advice::LinuxHugepage);
            let _ = rustix::mm::madvise(address, length, Advice::LinuxDontDump);
        }
        Region::over(address, 0, frame_count, frame_size)
    }

    /// The region in a mapping that becomes its own, the first `read_only` frames of which are mapped so.
    pub(crate) fn over(
        address: *mut libc::c_void,
        read_only: u32,
        frame_count: u32,
        frame_size: u32,
    ) -> io::Result<Rc<Region>> {
        let base = NonNull::new(address.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(Rc::new(Region {
            base,
            frame_size,
            frame_count,
            read_only,
            assigned: std::cell::Cell::new(0),
            copies: std::cell::OnceCell::new(),
        }))
    }

    /// Frames of this region that are written to are copied into `pool`'s first. Once; later calls change nothing.
    pub fn copy_on_write_to(&self, pool: &Pool) {
        let _ = self.copies.set(pool.clone());
    }

    /// Bytes per frame.
    pub fn frame_size(&self) -> u32 {
        self.frame_size
    }

    /// Frames in the region.
    pub fn frame_count(&self) -> u32 {
        self.frame_count
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.frame_count as usize * self.frame_size as usize
    }

    /// Where it lies in this process: for a device that is told of it.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        let start = self.base.addr().get();
        start..start + self.length()
    }

    /// Frames not yet assigned to a pool.
    pub fn unassigned_count(&self) -> u32 {
        self.frame_count - self.assigned.get()
    }

    /// The first byte of the region, for a driver that registers it with a device.
    #[allow(dead_code, reason = "used by drivers that register the region")]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// A pool of all frames, none of which is here: they are redeemed one by one as their owner lends them.
    pub(crate) fn absent_pool(self: &Rc<Region>) -> Pool {
        self.assigned.set(self.frame_count);
        Pool::over(self, 0, self.frame_count, Vec::with_capacity(self.frame_count as usize))
    }

    /// Takes the next `count` unassigned frames into a pool; `None` if fewer are left.
    pub fn pool(self: &Rc<Region>, count: u32) -> Option<Pool> {
        if count > self.unassigned_count() {
            return None;
        }
        let first = self.assigned.get();
        self.assigned.set(first + count);
        // Last in, first out, and low addresses first: the frames used last are the ones still in cache.
        // SAFETY: so many were unassigned, all less than the frames there are.
        let free: Vec<NonNull<u8>> = (first..first + count).rev().map(|index| unsafe { self.buffer(index) }).collect();
        Some(Pool::over(self, first, count, free))
    }

    /// Where frame `index` begins.
    ///
    /// # Safety
    /// `index` is less than the frames there are.
    #[inline(always)]
    unsafe fn buffer(&self, index: u32) -> NonNull<u8> {
        debug_assert!(index < self.frame_count);
        // SAFETY: `index` is less than `frame_count` by the function's contract, and the mapping has so many frames of `frame_size`.
        unsafe { self.base.add(index as usize * self.frame_size as usize) }
    }
}

/// Largest frame, bytes.
const FRAME_SIZE_MAX: u32 = 1 << 20;

/// Length in bytes, if sizes are in range.
pub(crate) fn check(frame_count: u32, frame_size: u32) -> io::Result<usize> {
    if !frame_size.is_power_of_two() || !(512..=FRAME_SIZE_MAX).contains(&frame_size) || frame_count == 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{frame_count} frames of {frame_size} bytes: the size must be a power of two from 512 to 1048576"),
        ));
    }
    Ok(frame_count as usize * frame_size as usize)
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and every Frame and Pool holds an Rc of this Region,
        // so nothing refers to it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length()) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} frames of {} bytes)", self.frame_count, self.frame_size)
    }
}

struct PoolInner {
    /// The region's, at hand.
    base: NonNull<u8>,
    frame_size: u32,
    /// Where writable data may end at most, bytes from a frame's start: its size, or 0 if it is mapped read-only.
    write_limit: u32,
    /// The first frame's number in the region.
    first: u32,
    count: u32,
    /// Where free frames begin. Capacity is `count` from the start: pushing never allocates.
    free: UnsafeCell<Vec<NonNull<u8>>>,
    region: Rc<Region>,
}

/// A share of a region's frames. Clones are the same pool.
#[derive(Clone)]
pub struct Pool {
    inner: Rc<PoolInner>,
}

impl Pool {
    fn over(region: &Rc<Region>, first: u32, count: u32, free: Vec<NonNull<u8>>) -> Pool {
        let Region { base, frame_size, .. } = **region;
        let write_limit = if first < region.read_only { 0 } else { frame_size };
        let (free, region) = (UnsafeCell::new(free), Rc::clone(region));
        Pool { inner: Rc::new(PoolInner { base, frame_size, write_limit, first, count, free, region }) }
    }

    /// A pool of these frames of a region, whoever had them before. `free`: all are here. If not, they are redeemed one by one.
    pub(crate) fn of(region: &Rc<Region>, frames: std::ops::Range<u32>, free: bool) -> Pool {
        let end = frames.end.min(region.frame_count);
        let count = end.saturating_sub(frames.start);
        let mut buffers = Vec::with_capacity(count as usize);
        if free {
            // SAFETY: less than the frames there are.
            buffers.extend((frames.start..end).rev().map(|index| unsafe { region.buffer(index) }));
        }
        Pool::over(region, frames.start, count, buffers)
    }

    /// Takes a free frame, empty, with its data starting `headroom` bytes in; `None` when the pool is exhausted.
    /// The bytes are whatever the last owner left.
    pub fn allocate(&self, headroom: usize) -> Option<Frame> {
        // SAFETY: PoolInner is !Sync and the reference does not outlive this statement; nothing called here re-enters.
        let buffer = unsafe { (*self.inner.free.get()).pop() }?;
        let start = headroom.min(self.inner.frame_size as usize) as u32;
        Some(Frame::new(Rc::clone(&self.inner), buffer, start, 0, false))
    }

    /// Frames free now.
    pub fn free_count(&self) -> u32 {
        // SAFETY: as in `allocate`.
        unsafe { (*self.inner.free.get()).len() as u32 }
    }

    /// Takes the number of a free frame away, the one freed last: of a pool whose frames are another's.
    pub(crate) fn take_free(&self) -> Option<u32> {
        // SAFETY: as in `allocate`.
        let buffer = unsafe { (*self.inner.free.get()).pop() }?;
        Some(self.index_of(buffer))
    }

    /// The number of its first frame in the region.
    pub(crate) fn first_index(&self) -> u32 {
        self.inner.first
    }

    fn index_of(&self, buffer: NonNull<u8>) -> u32 {
        // A power of two.
        ((buffer.addr().get() - self.inner.base.addr().get()) >> self.inner.frame_size.trailing_zeros()) as u32
    }

    /// The numbers of its free frames.
    pub(crate) fn free_indices(&self) -> Vec<u32> {
        // SAFETY: as in `allocate`.
        unsafe { &*self.inner.free.get() }.iter().map(|buffer| self.index_of(*buffer)).collect()
    }

    /// Takes all free frames away; their numbers.
    pub(crate) fn take_all_free(&self) -> Vec<u32> {
        let taken = self.free_indices();
        // SAFETY: as in `allocate`. Its capacity stays.
        unsafe { (*self.inner.free.get()).clear() };
        taken
    }

    /// Gives back some of those, to be taken after whatever came home meanwhile.
    pub(crate) fn put_back(&self, indices: impl Iterator<Item = u32>) {
        // SAFETY: as in `allocate`; `indices` calls nothing of a pool's.
        let free = unsafe { &mut *self.inner.free.get() };
        let home = std::mem::take(free);
        free.reserve(self.inner.count as usize);
        // SAFETY: they are numbers of frames of this pool's, as `take_all_free` gave them; so they are less than the region's frames.
        free.extend(indices.map(|index| unsafe { self.inner.region.buffer(index) }));
        free.extend(home);
    }

    /// Has the processor fetch two lines of frame `index`, from `start` on: a hint.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32, start: u32) {
        let place = (self.inner.base.as_ptr())
            .wrapping_add(((index as usize) << self.inner.frame_size.trailing_zeros()) + start as usize);
        for line in [place, place.wrapping_add(64)] {
            NonNull::new(line).into_iter().for_each(prefetch_at);
        }
    }

    /// Frames that belong to this pool, free or not.
    pub fn frame_count(&self) -> u32 {
        self.inner.count
    }

    /// Frames out of the pool now.
    pub fn in_use_count(&self) -> u32 {
        self.frame_count() - self.free_count()
    }

    /// The region the pool is a share of.
    pub fn region(&self) -> &Rc<Region> {
        &self.inner.region
    }

    /// Takes ownership of frame `index`, which a device had been lent by [`Frame::into_index`].
    ///
    /// # Safety
    /// `index` must come from `into_index` of a frame of this pool, and be redeemed once.
    #[allow(dead_code, reason = "used by drivers")]
    pub(crate) unsafe fn redeem(&self, index: u32, start: u32, length: u32, continues: bool) -> Frame {
        debug_assert!(start + length <= self.inner.frame_size);
        // SAFETY: `into_index` gave it, of a frame of this pool.
        let buffer = unsafe { self.inner.region.buffer(index) };
        Frame::new(Rc::clone(&self.inner), buffer, start, length, continues)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} of {} free)", self.free_count(), self.frame_count())
    }
}

/// A buffer of frame memory, owned. Its data is a window that can grow into head- and tailroom.
pub struct Frame {
    pool: Rc<PoolInner>,
    /// Where the data begins.
    data: NonNull<u8>,
    /// Bytes before the data; [`CONTINUES`] on top.
    place: u32,
    length: u32,
}

/// In [`Frame::place`]: the packet goes on in the next frame. (Here, so that a frame is three words: it is moved often.)
const CONTINUES: u32 = 1 << 31;

impl Frame {
    /// `buffer`: where a frame of `pool` begins that nobody else has; `start` + `length` are at most its size.
    #[inline(always)]
    fn new(pool: Rc<PoolInner>, buffer: NonNull<u8>, start: u32, length: u32, continues: bool) -> Frame {
        // SAFETY: `start` is at most the frame's size.
        let data = unsafe { buffer.add(start as usize) };
        Frame { pool, data, place: start | if continues { CONTINUES } else { 0 }, length }
    }

    #[inline(always)]
    fn start(&self) -> u32 {
        let start = self.place & !CONTINUES;
        // SAFETY: at most the frame's size, of which `check` bounds the largest (kept by every method). To be known to the
        // compiler: then sums of it do not reach the mark on top, and what one method adds and the next takes away is nothing.
        unsafe { std::hint::assert_unchecked(start <= FRAME_SIZE_MAX) };
        start
    }

    /// Where the whole buffer begins.
    #[inline(always)]
    fn buffer(&self) -> NonNull<u8> {
        // SAFETY: the data begins so many bytes into the buffer (kept by every method).
        unsafe { self.data.sub(self.start() as usize) }
    }

    /// The data.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: start + length is within the frame (kept by every method), the frame is within the region, which
        // lives as long as the pool, and this Frame is the only handle to the frame's memory.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.length as usize) }
    }

    /// The data, writable.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        debug_assert!(self.pool.write_limit > 0, "a frame of another process's");
        // SAFETY: as in `bytes`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.length as usize) }
    }

    /// Asks the processor for the first cache lines of the data, where headers are.
    #[inline]
    pub(crate) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let start: *const i8 = self.data.as_ptr().cast_const().cast();
            // SAFETY: a prefetch reads nothing, and never faults.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(start);
                _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(64));
            }
        }
    }

    /// Offset of the data from the start of the region: what an AF_XDP descriptor holds.
    #[inline]
    pub fn offset_in_region(&self) -> usize {
        self.data.addr().get() - self.pool.base.addr().get()
    }

    /// The region it is a part of.
    pub(crate) fn region(&self) -> &Region {
        &self.pool.region
    }

    /// The frame's number in its region.
    #[inline]
    pub fn index(&self) -> u32 {
        // A power of two.
        ((self.offset_in_region() - self.start() as usize) >> self.pool.frame_size.trailing_zeros()) as u32
    }

    /// Length of the data in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Free bytes before the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.start() as usize
    }

    /// Free bytes after the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        (self.pool.frame_size - self.start() - self.length) as usize
    }

    /// Size of the whole buffer in bytes.
    pub fn capacity(&self) -> usize {
        self.pool.frame_size as usize
    }

    /// Empties the frame and sets its headroom (at most its capacity).
    pub fn reset(&mut self, headroom: usize) {
        let start = headroom.min(self.capacity());
        // SAFETY: at most the frame's size.
        self.data = unsafe { self.buffer().add(start) };
        self.place = start as u32;
        self.length = 0;
    }

    /// Moves the data's beginning back. `count` is at most the headroom.
    #[inline(always)]
    fn grow_front(&mut self, count: u32) {
        // SAFETY: there are so many bytes before the data.
        self.data = unsafe { self.data.sub(count as usize) };
        self.place -= count;
        self.length += count;
    }

    /// Grows the data by `count` bytes at the front and returns them; `None` if the headroom is smaller.
    #[inline]
    pub fn prepend(&mut self, count: usize) -> Option<&mut [u8]> {
        debug_assert!(self.pool.write_limit > 0, "a frame of another process's");
        if count > self.headroom() {
            return None;
        }
        self.grow_front(count as u32);
        // SAFETY: the first bytes of the data, which is at least as long now; `self` is borrowed mutably.
        Some(unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), count) })
    }

    /// [`prepend`](Frame::prepend) of `COUNT` bytes, the first of a packet of this frame alone, if that leaves at least
    /// `keep` bytes before them.
    #[inline(always)]
    pub fn prepend_array<const COUNT: usize>(&mut self, keep: u32) -> Option<&mut [u8; COUNT]> {
        let start = self.start();
        if u64::from(start) < COUNT as u64 + u64::from(keep) {
            return None;
        }
        self.place = start;
        self.grow_front(COUNT as u32);
        // SAFETY: as in `prepend`.
        Some(unsafe { self.data.cast::<[u8; COUNT]>().as_mut() })
    }

    /// Grows the data by `count` bytes at the end and returns them; `None` if the tailroom is smaller.
    #[inline]
    pub fn append(&mut self, count: usize) -> Option<&mut [u8]> {
        if count > self.tailroom() {
            return None;
        }
        let from = self.length as usize;
        self.length += count as u32;
        Some(&mut self.bytes_mut()[from..])
    }

    /// Makes the data `length` bytes long, growing or shrinking at its end, and returns it, writable: a frame that can't be
    /// written is copied first. `None`, with nothing changed: there is no room, or no frame to copy into.
    #[inline]
    pub fn resize(&mut self, length: usize) -> Option<&mut [u8]> {
        if self.headroom().saturating_add(length) > self.pool.write_limit as usize {
            return self.resize_copy(length);
        }
        self.length = length as u32;
        Some(self.bytes_mut())
    }

    /// The free bytes after the data, to be read into; [`append`](Frame::append) makes them data. They are what the last owner left.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        debug_assert!(self.pool.write_limit > 0, "a frame of another process's");
        // SAFETY: from the data's end to the frame's; as in `bytes`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr().add(self.length as usize), self.tailroom()) }
    }

    /// Adds `bytes` at the end; `None`, with nothing changed, if they do not fit. A frame that can't be written is copied
    /// first.
    #[inline]
    pub fn append_bytes(&mut self, bytes: &[u8]) -> Option<()> {
        let from = self.length as usize;
        // No overflow: a slice is at most half the address space.
        let end = self.headroom() + from + bytes.len();
        let target = if end > self.pool.write_limit as usize {
            self.resize_copy(from + bytes.len())?
        } else {
            self.length += bytes.len() as u32;
            self.bytes_mut()
        };
        target.get_mut(from..)?.copy_from_slice(bytes);
        Some(())
    }

    /// The same, if no copy is needed, and gives the whole data. Nothing is called: a frame that nobody points to stays in
    /// registers.
    #[inline(always)]
    pub fn append_in_place(&mut self, bytes: &[u8]) -> Option<&mut [u8]> {
        let from = self.length as usize;
        // No overflow: a slice is at most half the address space.
        if self.headroom() + from + bytes.len() > self.pool.write_limit as usize {
            return None;
        }
        self.length += bytes.len() as u32;
        // SAFETY: the last bytes of the data, which just grew by as many, within the frame; `self` is borrowed mutably.
        let target = unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr().add(from), bytes.len()) };
        copy(bytes, target);
        Some(self.bytes_mut())
    }

    /// The data, writable: a frame that can't be written is copied first. `None`: there is no frame to copy into.
    #[inline]
    pub fn writable(&mut self) -> Option<&mut [u8]> {
        if self.pool.write_limit == 0 {
            return self.resize_copy(self.len());
        }
        Some(self.bytes_mut())
    }

    #[cold]
    fn resize_copy(&mut self, length: usize) -> Option<&mut [u8]> {
        if self.pool.write_limit > 0 {
            return None;
        }
        let mut copy = self.pool.region.copies.get()?.allocate(0)?;
        if length > copy.tailroom() {
            return None;
        }
        let kept = length.min(self.len());
        copy.append(length)?.get_mut(..kept)?.copy_from_slice(self.bytes().get(..kept)?);
        *self = copy;
        Some(self.bytes_mut())
    }

    /// Whether it can be written where it is.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.pool.write_limit > 0
    }

    /// Whether it is a frame of `pool`'s own.
    pub(crate) fn is_from(&self, pool: &Pool) -> bool {
        Rc::ptr_eq(&self.pool, &pool.inner)
    }

    /// Whether it is a frame of `pool`'s region.
    pub fn is_of(&self, pool: &Pool) -> bool {
        std::ptr::eq(Rc::as_ptr(&self.pool.region), Rc::as_ptr(&pool.inner.region))
    }

    /// Drops up to `count` bytes from the front of the data.
    #[inline]
    pub fn trim_front(&mut self, count: usize) {
        let count = count.min(self.len()) as u32;
        // SAFETY: at most the data's end.
        self.data = unsafe { self.data.add(count as usize) };
        self.place += count;
        self.length -= count;
    }

    /// Shortens the data to at most `length` bytes.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length.min(u32::MAX as usize) as u32);
    }

    /// Narrows the data to the `length` bytes from its `start` on; `false`, and nothing changes: it has not so many.
    #[inline(always)]
    pub fn narrow(&mut self, start: usize, length: usize) -> bool {
        if start.saturating_add(length) > self.len() {
            return false;
        }
        // SAFETY: within the data.
        self.data = unsafe { self.data.add(start) };
        self.place = (self.start() + start as u32) | (self.place & CONTINUES);
        self.length = length as u32;
        true
    }

    /// Whether the packet goes on in the next frame of the batch (scatter-gather receive).
    #[inline]
    pub fn continues(&self) -> bool {
        self.place & CONTINUES != 0
    }

    /// Marks the packet as going on in the next frame.
    #[inline]
    pub fn set_continues(&mut self, continues: bool) {
        self.place = self.start() | if continues { CONTINUES } else { 0 };
    }

    /// Gives the frame to a device: it comes back by [`Pool::redeem`].
    #[allow(dead_code, reason = "used by drivers")]
    pub(crate) fn into_index(self) -> u32 {
        let index = self.index();
        let mut this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never used again; its Rc is dropped here instead of in `Drop`, which would free the frame.
        unsafe { std::ptr::drop_in_place(&mut this.pool) };
        index
    }
}

/// Copies `from` to `to`, which is as long: a few bytes in line, in two pieces that may overlap.
#[inline(always)]
fn copy(from: &[u8], to: &mut [u8]) {
    if (16..=32).contains(&from.len())
        && let (Some(first), Some(last)) = (from.first_chunk::<16>(), from.last_chunk::<16>())
        && let Some(target) = to.first_chunk_mut::<16>()
    {
        *target = *first;
        if let Some(target) = to.last_chunk_mut::<16>() {
            *target = *last;
        }
        return;
    }
    to.copy_from_slice(from);
}

impl Drop for Frame {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as in `Pool::allocate`. The vector's capacity holds every frame of the pool: no allocation.
        unsafe { (*self.pool.free.get()).push(self.buffer()) };
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({}: {}+{})", self.index(), self.start(), self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_home() {
        let region = Region::new(4, 2048).unwrap();
        let pool = region.pool(3).unwrap();
        assert!(region.pool(2).is_none(), "only one frame is left");
        let frames: Vec<Frame> = std::iter::from_fn(|| pool.allocate(64)).collect();
        assert_eq!(frames.len(), 3);
        assert_eq!(pool.free_count(), 0);
        drop(frames);
        assert_eq!(pool.in_use_count(), 0);
    }

    #[test]
    fn window_stays_inside() {
        let region = Region::new(1, 512).unwrap();
        let pool = region.pool(1).unwrap();
        let mut frame = pool.allocate(10).unwrap();
        frame.append(5).unwrap().copy_from_slice(b"hello");
        assert!(frame.prepend(11).is_none());
        frame.prepend(10).unwrap().fill(0);
        assert_eq!(frame.len(), 15);
        assert!(frame.append(512 - 15 + 1).is_none());
        frame.trim_front(10);
        assert_eq!(frame.bytes(), b"hello");
        frame.trim_front(100);
        assert!(frame.is_empty());
        frame.reset(100_000);
        assert_eq!(frame.headroom(), 512);
        assert_eq!(frame.tailroom(), 0);
    }

    #[test]
    fn lent_to_a_device_and_back() {
        let region = Region::new(1, 512).unwrap();
        let pool = region.pool(1).unwrap();
        let index = pool.allocate(0).unwrap().into_index();
        assert_eq!(pool.free_count(), 0);
        // SAFETY: index comes from into_index just above.
        let frame = unsafe { pool.redeem(index, 16, 4, false) };
        assert_eq!(frame.len(), 4);
        drop(frame);
        assert_eq!(pool.free_count(), 1);
    }
}
