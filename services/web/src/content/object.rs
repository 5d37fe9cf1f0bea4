//! Prepared objects: a response as one stream of bytes, cut into ready frames (thesis, 3.2.2).
//!
//! ```text
//!  master   | head with holes | body …                                 |   ordinary memory, made once, off the core
//!  frames   |--- payload_bytes ---|--- payload_bytes ---|--- rest -----|   each with its payload's sum
//!  copies     c0 c1 c2 …            c0                    (none yet)       device memory, made on demand (pre-copy)
//! ```
//!
//! The holes (date, connection option) are filled from the response's stamp, in what is sent and in its sum, so a
//! retransmission with the same stamp repeats the same bytes.

use super::head::{CONNECTION_OFFSET, DATE_OFFSET, HOLES_END, connection_text};
use crate::http::date::{DATE_LENGTH, DateCache};
use bytes::Bytes;
use qanat::wire::checksum;
use qanat::{Fill, Frame, Pool, Source};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Smallest payload an object is cut into: the holes are always in the first frame.
pub const PAYLOAD_BYTES_MIN: usize = 256;

/// What differs between responses made from one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Seconds since 1970: the date.
    pub seconds: u64,
    /// `Connection: close` instead of `keep-alive`.
    pub close: bool,
}

impl Stamp {
    /// As one number, for [`qanat::Commands::send_prepared`].
    #[inline]
    pub const fn pack(self) -> u64 {
        self.seconds << 1 | self.close as u64
    }

    #[inline]
    const fn unpack(stamp: u64) -> Stamp {
        Stamp { seconds: stamp >> 1, close: stamp & 1 == 1 }
    }
}

/// An object's bytes and sums: made by a reader thread, then wrapped by [`Object::new`] on the service's.
#[derive(Debug)]
pub struct PreparedBytes {
    master: Bytes,
    sums: Box<[u16]>,
    payload_bytes: usize,
    head_length: usize,
}

impl PreparedBytes {
    /// Head (holes zero) and body, in one piece, to be cut into frames of `payload_bytes` (made even: sums of whole
    /// frames then add up).
    pub fn new(master: Vec<u8>, head_length: usize, payload_bytes: usize) -> PreparedBytes {
        let payload_bytes = (payload_bytes & !1).max(PAYLOAD_BYTES_MIN);
        let sums = master.chunks(payload_bytes).map(checksum::sum).collect();
        PreparedBytes { master: master.into(), sums, payload_bytes, head_length: head_length.max(HOLES_END) }
    }

    /// What follows the head.
    pub fn body(&self) -> &[u8] {
        self.master.get(self.head_length..).unwrap_or_default()
    }

    /// Bytes of ordinary memory held.
    pub fn memory_bytes(&self) -> usize {
        self.master.len() + self.sums.len() * 2
    }
}

/// What all objects of a service share.
#[derive(Debug)]
pub struct DeviceMemory {
    /// Where ready frames come from; `None`: copy per send.
    pub pool: Option<Pool>,
    /// Headroom of a ready frame.
    pub headroom: usize,
    /// Copies of one frame at most.
    pub copies_max: usize,
    /// Dates, formatted.
    pub dates: DateCache,
    /// Ready frames existing.
    pub frames: Cell<u64>,
    /// Segments sent in a ready frame.
    pub hits: Cell<u64>,
    /// Times none could be had.
    pub misses: Cell<u64>,
    /// The pool ran out since this was last cleared: cold objects should give their copies up.
    pub exhausted: Cell<bool>,
}

#[derive(Debug)]
struct Copy {
    frame: Rc<Frame>,
    /// The stamp its holes are filled with (first frame only).
    stamp: u64,
}

/// Copies of one frame. The device returns frames in the order it got them, so the one after the last used is the one
/// most likely to be free: looking at two finds it in constant time.
#[derive(Debug, Default)]
struct Copies {
    ring: Vec<Copy>,
    cursor: usize,
}

/// A prepared object.
#[derive(Debug)]
pub struct Object {
    bytes: PreparedBytes,
    copies: RefCell<Box<[Copies]>>,
    /// The last stamp asked for, and the first frame's sum under it: a second has many requests.
    first_sum: Cell<Option<(u64, u16)>>,
    memory: Rc<DeviceMemory>,
}

impl Object {
    /// Around `bytes`.
    pub fn new(bytes: PreparedBytes, memory: Rc<DeviceMemory>) -> Object {
        let frame_count = if memory.pool.is_some() { bytes.sums.len() } else { 0 };
        let copies = RefCell::new((0..frame_count).map(|_| Copies::default()).collect());
        Object { bytes, copies, first_sum: Cell::new(None), memory }
    }

    /// Head and body, bytes.
    #[inline]
    pub fn length(&self) -> u64 {
        self.bytes.master.len() as u64
    }

    /// The head, bytes.
    #[inline]
    pub fn head_length(&self) -> u64 {
        self.bytes.head_length as u64
    }

    /// Gives the ready frames up (those in flight when they are done).
    pub fn release_copies(&self) {
        for copies in &mut **self.copies.borrow_mut() {
            self.memory.frames.set(self.memory.frames.get().saturating_sub(copies.ring.len() as u64));
            *copies = Copies::default();
        }
    }

    /// Overwrites what `target`, holding the stream from `offset` on, has of the holes.
    fn fill_holes(&self, stamp: u64, offset: usize, target: &mut [u8]) {
        let Stamp { seconds, close } = Stamp::unpack(stamp);
        overlay(target, offset, DATE_OFFSET, &self.memory.dates.text(seconds));
        overlay(target, offset, CONNECTION_OFFSET, connection_text(close));
    }

    /// The sum of frame `index` with its holes filled.
    fn frame_sum(&self, stamp: u64, index: usize) -> Option<u16> {
        let sum = *self.bytes.sums.get(index)?;
        if index > 0 {
            return Some(sum);
        }
        if let Some((last, sum)) = self.first_sum.get()
            && last == stamp
        {
            return Some(sum);
        }
        let Stamp { seconds, close } = Stamp::unpack(stamp);
        // The master's holes are zero, so their sums just add up, each by the parity of its place.
        const { assert!(DATE_OFFSET.is_multiple_of(2) && !CONNECTION_OFFSET.is_multiple_of(2)) };
        let sum = checksum::combine(sum, checksum::sum(&self.memory.dates.text(seconds)));
        let sum = checksum::combine_at_odd(sum, checksum::sum(connection_text(close)));
        self.first_sum.set(Some((stamp, sum)));
        Some(sum)
    }

    /// The sum of the stream's bytes `offset..end`, if these are whole frames.
    fn sum_of(&self, stamp: u64, offset: usize, end: usize) -> Option<u16> {
        let size = self.bytes.payload_bytes;
        let whole = offset.is_multiple_of(size) && (end.is_multiple_of(size) || end == self.bytes.master.len());
        if !whole || end <= offset {
            return None;
        }
        (offset / size..end.div_ceil(size))
            .try_fold(0, |sum, index| Some(checksum::combine(sum, self.frame_sum(stamp, index)?)))
    }

    /// A copy of frame `index` no device holds: one there is, or a new one.
    fn free_copy<'c>(&self, copies: &'c mut Copies, stamp: u64, index: usize) -> Option<&'c mut Copy> {
        for _ in 0..2 {
            let count = copies.ring.len();
            let cursor = if copies.cursor < count { copies.cursor } else { 0 };
            copies.cursor = cursor + 1;
            if copies.ring.get_mut(cursor).is_some_and(|copy| Rc::get_mut(&mut copy.frame).is_some()) {
                return copies.ring.get_mut(cursor);
            }
        }
        if copies.ring.len() >= self.memory.copies_max {
            return None;
        }
        let frame = self.new_copy(stamp, index)?;
        // Allocates, once for each step in the concurrency this frame has ever seen.
        copies.ring.push(Copy { frame: Rc::new(frame), stamp });
        copies.cursor = copies.ring.len();
        self.memory.frames.set(self.memory.frames.get() + 1);
        copies.ring.last_mut()
    }

    fn new_copy(&self, stamp: u64, index: usize) -> Option<Frame> {
        let payload = self.payload(index)?;
        let Some(mut frame) = self.memory.pool.as_ref()?.allocate(self.memory.headroom) else {
            self.memory.exhausted.set(true);
            return None;
        };
        let target = frame.append(payload.len())?;
        target.copy_from_slice(payload);
        if index == 0 {
            self.fill_holes(stamp, 0, target);
        }
        Some(frame)
    }

    fn payload(&self, index: usize) -> Option<&[u8]> {
        let start = index.checked_mul(self.bytes.payload_bytes)?;
        let end = start.saturating_add(self.bytes.payload_bytes).min(self.bytes.master.len());
        self.bytes.master.get(start..end).filter(|payload| !payload.is_empty())
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.release_copies();
    }
}

/// Copies what `text`, placed at `place` of a stream, has in common with `target`, which starts at `offset` of it.
fn overlay(target: &mut [u8], offset: usize, place: usize, text: &[u8]) {
    let (from, to) = (place.max(offset), (place + text.len()).min(offset.saturating_add(target.len())));
    if from < to
        && let (Some(target), Some(text)) =
            (target.get_mut(from - offset..to - offset), text.get(from - place..to - place))
    {
        target.copy_from_slice(text);
    }
}

const _: () = assert!(DATE_OFFSET + DATE_LENGTH < CONNECTION_OFFSET && HOLES_END < PAYLOAD_BYTES_MIN);

impl Source for Object {
    fn fill(&self, stamp: u64, offset: u64, target: &mut [u8]) -> Fill {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.master.len());
        let source = self.bytes.master.get(start..).unwrap_or_default();
        let count = source.len().min(target.len());
        // The stack never asks beyond the end; if it did, it would get zeros.
        let (present, beyond) = target.split_at_mut(count);
        present.copy_from_slice(&source[..count]);
        beyond.fill(0);
        if start < HOLES_END {
            self.fill_holes(stamp, start, present);
        }
        let sum = if beyond.is_empty() { self.sum_of(stamp, start, start + count) } else { None };
        Fill { sum }
    }

    fn lend(&self, _stamp: u64, offset: u64) -> &[u8] {
        // Before that the holes of the master are to be filled.
        let behind_holes = usize::try_from(offset).ok().filter(|&offset| offset >= HOLES_END);
        behind_holes.and_then(|offset| self.bytes.master.get(offset..)).unwrap_or_default()
    }

    fn share(&self, _stamp: u64, offset: u64) -> Option<Bytes> {
        let offset = usize::try_from(offset).ok().filter(|&offset| offset >= HOLES_END)?;
        (offset < self.bytes.master.len()).then(|| self.bytes.master.slice(offset..))
    }

    #[inline]
    fn boundary(&self, _stamp: u64, offset: u64) -> Option<usize> {
        let total = self.bytes.master.len();
        let offset = usize::try_from(offset).ok().filter(|&offset| offset < total)?;
        let size = self.bytes.payload_bytes;
        Some((size - offset % size).min(total - offset))
    }

    fn ready(&self, stamp: u64, offset: u64, write_headers: &mut dyn FnMut(&mut Frame, u16)) -> Option<Rc<Frame>> {
        let offset = usize::try_from(offset).ok()?;
        let size = self.bytes.payload_bytes;
        if !offset.is_multiple_of(size) {
            return None;
        }
        let index = offset / size;
        let sum = self.frame_sum(stamp, index)?;
        let mut all = self.copies.try_borrow_mut().ok()?;
        let Some(copy) = all.get_mut(index).and_then(|copies| self.free_copy(copies, stamp, index)) else {
            self.memory.misses.set(self.memory.misses.get() + 1);
            return None;
        };
        let length = (self.bytes.master.len() - offset).min(size);
        let stale = index == 0 && copy.stamp != stamp;
        let frame = Rc::get_mut(&mut copy.frame)?;
        // The headers of its last journey are undone by moving the data's window; the payload itself never moved.
        frame.reset(self.memory.headroom);
        let payload = frame.append(length)?;
        if stale {
            self.fill_holes(stamp, 0, payload);
            copy.stamp = stamp;
        }
        write_headers(frame, sum);
        self.memory.hits.set(self.memory.hits.get() + 1);
        Some(Rc::clone(&copy.frame))
    }
}

#[cfg(test)]
#[path = "object_tests.rs"]
mod tests;
