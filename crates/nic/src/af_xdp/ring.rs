//! The four rings shared with the kernel (`Documentation/networking/af_xdp.rst`): one producer, one consumer, positions
//! that run free and are masked at use.

use crate::base::place;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A ring's memory. Unmapped when dropped: a queue stays bound as long as one of its rings is mapped.
struct Mapping {
    address: NonNull<u8>,
    length: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length by `Raw::map`; the pointers into it live in the same `Raw`.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.length) };
    }
}

/// What both kinds of ring are made of.
struct Raw<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
    _mapping: Mapping,
    _entries: PhantomData<T>,
}

impl<T: Copy> Raw<T> {
    fn map(fd: BorrowedFd<'_>, page: u64, size: u32, offsets: &libc::xdp_ring_offset) -> io::Result<Raw<T>> {
        let length = offsets.desc as usize + size as usize * size_of::<T>();
        let address = place::map(fd, page, length, libc::MAP_POPULATE)?;
        let address = NonNull::new(address.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        // SAFETY: the kernel gave these offsets for this ring: they lie in the mapping, aligned for their types.
        unsafe {
            Ok(Raw {
                producer: address.add(offsets.producer as usize).cast(),
                consumer: address.add(offsets.consumer as usize).cast(),
                flags: address.add(offsets.flags as usize).cast(),
                entries: address.add(offsets.desc as usize).cast(),
                mask: size - 1,
                _mapping: Mapping { address, length },
                _entries: PhantomData,
            })
        }
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping, which lives as long as self.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as in `producer`.
        unsafe { self.consumer.as_ref() }
    }

    fn needs_wakeup(&self) -> bool {
        // SAFETY: as in `producer`.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn entry(&self, position: u32) -> *mut T {
        // SAFETY: the masked position is below the ring's size.
        unsafe { self.entries.as_ptr().add((position & self.mask) as usize) }
    }
}

/// A ring this side fills: fill ring, transmit ring.
pub(super) struct Producer<T> {
    raw: Raw<T>,
    /// Next position to write.
    position: u32,
    /// Last known position of the kernel.
    consumed: u32,
}

impl<T: Copy> Producer<T> {
    pub(super) fn map(fd: BorrowedFd<'_>, page: u64, size: u32, offsets: &libc::xdp_ring_offset) -> io::Result<Self> {
        let raw = Raw::map(fd, page, size, offsets)?;
        let position = raw.producer().load(Ordering::Relaxed);
        let consumed = raw.consumer().load(Ordering::Acquire);
        Ok(Producer { raw, position, consumed })
    }

    /// Entries there are.
    pub(super) fn size(&self) -> u32 {
        self.raw.mask + 1
    }

    /// Free entries; asks the kernel's position only if fewer than `wanted` are known free.
    #[inline]
    pub(super) fn free(&mut self, wanted: u32) -> u32 {
        let free = self.raw.mask + 1 - self.position.wrapping_sub(self.consumed);
        if free >= wanted {
            return free;
        }
        self.consumed = self.raw.consumer().load(Ordering::Acquire);
        self.raw.mask + 1 - self.position.wrapping_sub(self.consumed)
    }

    /// Writes the next entry, unseen until [`publish`](Producer::publish). False if the ring is full.
    #[inline]
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.free(1) == 0 {
            return false;
        }
        // SAFETY: the entry is free, so the kernel doesn't read it until it is published.
        unsafe { self.raw.entry(self.position).write(entry) };
        self.position = self.position.wrapping_add(1);
        true
    }

    /// Takes back the last entry, which must not be published yet.
    pub(super) fn take_back(&mut self) -> T {
        self.position = self.position.wrapping_sub(1);
        // SAFETY: `push` wrote it, and the kernel has not seen it.
        unsafe { self.raw.entry(self.position).read() }
    }

    /// The entry at `position`, pushed and not yet published.
    #[inline]
    pub(super) fn unpublished(&self, position: u32) -> T {
        // SAFETY: `push` wrote it (the caller's promise; any bytes are a valid T), and the kernel has not seen it.
        unsafe { self.raw.entry(position).read() }
    }

    /// Takes back the first `gap` entries from `position` on, none of which is published yet; those behind them move up.
    pub(super) fn close_gap(&mut self, position: u32, gap: u32) {
        let kept = self.position.wrapping_sub(position).saturating_sub(gap);
        for ahead in 0..kept {
            let entry = self.unpublished(position.wrapping_add(gap).wrapping_add(ahead));
            // SAFETY: as in `push`: the kernel has not been shown it.
            unsafe { self.raw.entry(position.wrapping_add(ahead)).write(entry) };
        }
        self.position = position.wrapping_add(kept);
    }

    /// Next position to write.
    #[inline]
    pub(super) fn position(&self) -> u32 {
        self.position
    }

    /// Shows the kernel everything before `position`.
    #[inline]
    pub(super) fn publish(&mut self, position: u32) {
        self.raw.producer().store(position, Ordering::Release);
    }

    /// Entries published before `position` that the kernel has not taken.
    #[inline]
    pub(super) fn pending(&self, position: u32) -> u32 {
        position.wrapping_sub(self.raw.consumer().load(Ordering::Acquire))
    }

    /// Whether the kernel wants a system call to go on.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.raw.needs_wakeup()
    }
}

/// A ring the kernel fills: receive ring, completion ring.
pub(super) struct Consumer<T> {
    raw: Raw<T>,
    /// Next position to read.
    position: u32,
    /// Last known position of the kernel.
    produced: u32,
}

impl<T: Copy> Consumer<T> {
    pub(super) fn map(fd: BorrowedFd<'_>, page: u64, size: u32, offsets: &libc::xdp_ring_offset) -> io::Result<Self> {
        let raw = Raw::map(fd, page, size, offsets)?;
        let position = raw.consumer().load(Ordering::Relaxed);
        let produced = raw.producer().load(Ordering::Acquire);
        Ok(Consumer { raw, position, produced })
    }

    /// Entries there are.
    pub(super) fn size(&self) -> u32 {
        self.raw.mask + 1
    }

    /// Entries that can be read; asks the kernel's position if none are known. At most the ring's size, whatever it says.
    #[inline]
    pub(super) fn available(&mut self) -> u32 {
        if self.produced == self.position {
            self.produced = self.raw.producer().load(Ordering::Acquire);
        }
        self.produced.wrapping_sub(self.position).min(self.raw.mask + 1)
    }

    /// As [`available`](Consumer::available), but asks always.
    #[inline]
    pub(super) fn available_now(&mut self) -> u32 {
        self.produced = self.raw.producer().load(Ordering::Acquire);
        self.available()
    }

    /// The entry `ahead` of the next. It must be below what [`available`](Consumer::available) said.
    #[inline]
    pub(super) fn peek(&self, ahead: u32) -> T {
        // SAFETY: the kernel has published it and doesn't write it until it is released.
        unsafe { self.raw.entry(self.position.wrapping_add(ahead)).read() }
    }

    /// Gives the next `count` entries back.
    #[inline]
    pub(super) fn release(&mut self, count: u32) {
        self.position = self.position.wrapping_add(count);
        self.raw.consumer().store(self.position, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A ring in ordinary memory, starting anywhere; the test is the kernel.
    fn raw(size: u32, start: u32) -> Raw<u64> {
        let length = 4096;
        // SAFETY: a fresh anonymous mapping, large enough for 3 words and 64 entries.
        let address = unsafe {
            let address = libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            NonNull::new(address.cast::<u8>()).unwrap()
        };
        // SAFETY: offsets inside the mapping, aligned.
        let raw = unsafe {
            Raw {
                producer: address.cast(),
                consumer: address.add(64).cast(),
                flags: address.add(128).cast(),
                entries: address.add(192).cast(),
                mask: size - 1,
                _mapping: Mapping { address, length },
                _entries: PhantomData,
            }
        };
        raw.producer().store(start, Ordering::Relaxed);
        raw.consumer().store(start, Ordering::Relaxed);
        raw
    }

    proptest! {
        /// What is pushed is seen once, in order, only after publication, never more than fits; positions may wrap.
        #[test]
        fn producer_conserves(start in prop_oneof![any::<u32>(), Just(u32::MAX - 3)],
                              steps in prop::collection::vec((0u8..4, 1u32..12), 1..200)) {
            let mut ring = Producer { raw: raw(8, start), position: start, consumed: start };
            let (mut pushed, mut seen, mut published, mut next) = (Vec::new(), Vec::new(), 0, 0u64);
            for (action, count) in steps {
                match action {
                    0 => for _ in 0..count {
                        let in_ring = pushed.len() - seen.len();
                        prop_assert_eq!(ring.push(next), in_ring < 8);
                        if in_ring < 8 { pushed.push(next); next += 1; }
                    },
                    1 => { ring.publish(ring.position()); published = pushed.len(); }
                    2 if pushed.len() > published => { prop_assert_eq!(Some(ring.take_back()), pushed.pop()); }
                    _ => for _ in 0..count {
                        let consumer = ring.raw.consumer().load(Ordering::Relaxed);
                        if consumer == ring.raw.producer().load(Ordering::Relaxed) { break; }
                        // SAFETY: between consumer and producer.
                        seen.push(unsafe { ring.raw.entry(consumer).read() });
                        ring.raw.consumer().store(consumer.wrapping_add(1), Ordering::Release);
                    },
                }
                prop_assert_eq!(ring.pending(start.wrapping_add(published as u32)), (published - seen.len()) as u32);
            }
            prop_assert_eq!(&seen[..], &pushed[..seen.len()]);
        }

        #[test]
        fn consumer_conserves(start in prop_oneof![any::<u32>(), Just(u32::MAX - 3)],
                              steps in prop::collection::vec((any::<bool>(), 1u32..12), 1..200)) {
            let mut ring = Consumer { raw: raw(8, start), position: start, produced: start };
            let (mut next, mut seen) = (0u64, Vec::new());
            for (is_kernel, count) in steps {
                for _ in 0..count {
                    if is_kernel {
                        let producer = ring.raw.producer().load(Ordering::Relaxed);
                        if producer.wrapping_sub(ring.raw.consumer().load(Ordering::Relaxed)) == 8 { break; }
                        // SAFETY: free, as just checked.
                        unsafe { ring.raw.entry(producer).write(next) };
                        ring.raw.producer().store(producer.wrapping_add(1), Ordering::Release);
                        next += 1;
                    } else if ring.available() > 0 {
                        seen.push(ring.peek(0));
                        ring.release(1);
                    }
                }
            }
            while ring.available_now() > 0 {
                seen.push(ring.peek(0));
                ring.release(1);
            }
            prop_assert_eq!(seen, (0..next).collect::<Vec<_>>());
        }
    }
}
