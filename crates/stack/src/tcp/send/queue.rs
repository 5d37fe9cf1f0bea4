//! The send queue: pieces of lent bytes, each covering a run of the stream, kept until acknowledged.
//!
//! ```text
//!   acknowledged | first unacknowledged (start)                      end
//!                | piece 0: Bytes | piece 1: Source(stamp, offset) | …
//! ```
//!
//! There is no socket buffer: every (re)transmission asks the owner of the bytes again. Positions are offsets in the
//! stream (64 bits), so lookups are a binary search and never wrap.

use crate::snapshot;
use bytes::Bytes;
use qanat_api::{Fill, Source};
use qanat_nic::TRAIN_PIECES_MAX;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::rc::Rc;

#[derive(serde::Serialize, serde::Deserialize)]
enum Content {
    #[serde(serialize_with = "snapshot::write_bytes", deserialize_with = "snapshot::read_bytes")]
    Bytes(Bytes),
    /// Plain memory, which points to no code, so that every process that shares it can let go of it.
    Owned(Box<[u8]>),
    #[serde(skip)]
    Source { source: Rc<dyn Source>, stamp: u64, offset: u64 },
}

/// A run of the stream.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Piece {
    content: Content,
    /// Stream offset of its first byte.
    start: u64,
    length: u64,
    /// No segment goes on behind it.
    ends_record: bool,
}

/// Consecutive pieces.
pub type Pieces = VecDeque<Piece>;

/// Unacknowledged and unsent bytes of one connection.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct SendQueue {
    pieces: Pieces,
    start: u64,
    end: u64,
}

/// Capacity kept by an idle connection.
const PIECES_KEPT: usize = 4;

/// What follows at a position of the queue, as far as segmentation cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Bytes to put into the next segment.
    pub length: u32,
    /// The segment ends where its source wants it to: offer the ready frame.
    pub ready: bool,
}

impl SendQueue {
    /// Empty.
    pub fn new() -> SendQueue {
        SendQueue { pieces: VecDeque::new(), start: 0, end: 0 }
    }

    /// Uses the memory of `pieces`, which are empty, if it has none of its own.
    pub fn adopt(&mut self, pieces: Pieces) {
        if self.pieces.capacity() == 0 {
            self.pieces = pieces;
        }
    }

    /// Gives up its pieces' memory, and what they held.
    pub fn retire(&mut self) -> Pieces {
        self.clear();
        std::mem::take(&mut self.pieces)
    }

    /// Pieces held.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes held (unacknowledged or unsent).
    #[inline]
    pub fn byte_count(&self) -> u64 {
        self.end - self.start
    }

    /// Stream offset after the last byte.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Stream offset of the first unacknowledged byte.
    #[inline]
    pub fn start(&self) -> u64 {
        self.start
    }

    fn push(&mut self, content: Content, length: u64) {
        self.pieces.push_back(Piece { content, start: self.end, length, ends_record: false });
        self.end += length;
    }

    /// Appends lent bytes.
    pub fn push_bytes(&mut self, bytes: Bytes) {
        let length = bytes.len() as u64;
        if length > 0 {
            self.push(Content::Bytes(bytes), length);
        }
    }

    /// Appends bytes that are the queue's own.
    pub fn push_owned(&mut self, bytes: Box<[u8]>) {
        let length = bytes.len() as u64;
        if length > 0 {
            self.push(Content::Owned(bytes), length);
        }
    }

    /// Appends a range of a source.
    pub fn push_source(&mut self, source: Rc<dyn Source>, stamp: u64, offset: u64, length: u64) {
        if length > 0 {
            self.push(Content::Source { source, stamp, offset }, length);
        }
    }

    /// Lets go of `count` bytes at the front. Pieces wholly acknowledged are dropped.
    #[inline]
    pub fn release(&mut self, count: u64) {
        self.start = (self.start + count).min(self.end);
        while let Some(piece) = self.pieces.front() {
            if piece.start + piece.length > self.start {
                return;
            }
            self.pieces.pop_front();
        }
        self.shrink();
    }

    /// What has been appended so far ends a record: no segment holds bytes of both sides.
    pub fn end_record(&mut self) {
        if let Some(piece) = self.pieces.back_mut() {
            piece.ends_record = true;
        }
    }

    /// Whether a record ends before stream offset `position`, where bytes were sent.
    #[inline]
    pub fn ends_record_at(&self, position: u64) -> bool {
        let piece = position.checked_sub(1).and_then(|last| self.pieces.get(self.index_of(last)));
        piece.is_some_and(|piece| piece.ends_record && piece.start + piece.length == position)
    }

    /// Bytes from `position` in piece `index` on up to the end of its record, if that is among the next `maximum`: no more
    /// pieces are looked at than have to be copied from.
    #[inline]
    fn record_length(&self, index: usize, position: u64, maximum: u32) -> Option<u64> {
        let reached = |piece: &&Piece| piece.start < position + u64::from(maximum);
        let end = self.pieces.range(index..).take_while(reached).find(|piece| piece.ends_record)?;
        Some(end.start + end.length - position)
    }

    /// Gives back a burst's memory.
    #[inline]
    fn shrink(&mut self) {
        if self.pieces.capacity() > 2 * PIECES_KEPT {
            self.pieces.shrink_to(PIECES_KEPT);
        }
    }

    /// Lets go of everything.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.shrink();
        self.start = self.end;
    }

    #[inline]
    fn index_of(&self, position: u64) -> usize {
        match self.pieces.front() {
            Some(first) if position < first.start + first.length => 0,
            _ => self.pieces.partition_point(|piece| piece.start + piece.length <= position),
        }
    }

    /// Where the segment beginning at `position` should end, given that it may carry `maximum` bytes: at its source's
    /// boundary, at `maximum`, before a source that would lose its alignment, or at the end of the record or of the queue.
    /// `has_records`: whether records have ends, and one is to be looked for.
    pub fn run_at(&self, position: u64, maximum: u32, has_records: bool) -> Run {
        let index = self.index_of(position);
        let Some(piece) = self.pieces.get(index) else { return Run { length: 0, ready: false } };
        let rest = self.end.saturating_sub(position);
        let record = if has_records { self.record_length(index, position, maximum) } else { None };
        let available = record.unwrap_or(rest);
        let everything = available.min(u64::from(maximum)) as u32;
        if let Content::Source { source, stamp, offset } = &piece.content {
            let within = position - piece.start;
            if let Some(boundary) = source.boundary(*stamp, offset + within)
                && boundary > 0
                && boundary <= maximum as usize
                && boundary as u64 <= piece.length - within
            {
                return Run { length: boundary as u32, ready: true };
            }
        }
        if available > u64::from(maximum) {
            // More than a segment follows: don't tear a source with frames of its own out of step.
            for piece in self.pieces.range(index + 1..) {
                if piece.start - position >= u64::from(maximum) {
                    break;
                }
                if let Content::Source { source, stamp, offset } = &piece.content
                    && source.boundary(*stamp, *offset).is_some_and(|boundary| boundary <= maximum as usize)
                {
                    return Run { length: (piece.start - position) as u32, ready: false };
                }
            }
        }
        Run { length: everything, ready: false }
    }

    /// The bytes `[position, position + length)`.
    pub fn range(&self, position: u64, length: u32) -> PieceRange<'_> {
        PieceRange { queue: self, position, length }
    }

    /// If `[position, position + length)` lies in one source: it, its stamp, and the offset in it.
    pub fn source_at(&self, position: u64, length: u32) -> Option<(&Rc<dyn Source>, u64, u64)> {
        let piece = self.pieces.get(self.index_of(position))?;
        let within = position.checked_sub(piece.start)?;
        match &piece.content {
            Content::Source { source, stamp, offset } if within + u64::from(length) <= piece.length => {
                Some((source, *stamp, offset + within))
            }
            _ => None,
        }
    }

    /// Heap memory held for the queue itself, bytes.
    pub fn memory(&self) -> usize {
        self.pieces.capacity() * size_of::<Piece>()
    }
}

impl Default for SendQueue {
    fn default() -> Self {
        SendQueue::new()
    }
}

/// Bytes of a train that are copied before it is asked again whether what follows can be lent.
const COPIED_FIRST: u32 = 512;

/// A run of a send queue, to be sent.
#[derive(Clone, Copy)]
pub struct PieceRange<'a> {
    queue: &'a SendQueue,
    position: u64,
    length: u32,
}

impl<'a> PieceRange<'a> {
    /// The part of at most `length` bytes that begins `offset` bytes in.
    pub fn part(&self, offset: u32, length: u32) -> PieceRange<'a> {
        let offset = offset.min(self.length);
        PieceRange { position: self.position + u64::from(offset), length: length.min(self.length - offset), ..*self }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes in pieces for a train: lent as they lie where their owner can lend them, and else copied into `scratch`, which is as long
    /// as the range. Returns how many pieces these are.
    pub fn gather<'p>(&self, scratch: &'p mut [u8], pieces: &mut [IoSlice<'p>; TRAIN_PIECES_MAX]) -> usize
    where
        'a: 'p,
    {
        let mut free = scratch;
        let mut range = *self;
        let mut count = 0;
        while range.length > 0
            && let Some(place) = pieces.get_mut(count)
        {
            let is_last_place = count + 1 == TRAIN_PIECES_MAX;
            let lent = if is_last_place { &[] } else { range.lend() };
            let part = match lent {
                [] => {
                    // A few bytes first: it is often only a head that can't be lent.
                    let limit = if is_last_place || count > 0 { u32::MAX } else { COPIED_FIRST };
                    let length = range.length.min(limit);
                    let Some((part, rest)) = std::mem::take(&mut free).split_at_mut_checked(length as usize) else {
                        break;
                    };
                    free = rest;
                    range.part(0, length).fill(part);
                    &*part
                }
                lent => lent,
            };
            *place = IoSlice::new(part);
            range = range.part(part.len() as u32, u32::MAX);
            count += 1;
        }
        count
    }

    /// The bytes at the beginning of the range, as far as they lie in one piece; empty: they can't be lent.
    fn lend(&self) -> &'a [u8] {
        let Some(piece) = self.queue.pieces.get(self.queue.index_of(self.position)) else { return &[] };
        let within = self.position - piece.start;
        let bytes = match &piece.content {
            Content::Bytes(bytes) => bytes.get(within as usize..),
            Content::Owned(bytes) => bytes.get(within as usize..),
            Content::Source { source, stamp, offset } => Some(source.lend(*stamp, offset + within)),
        };
        let bytes = bytes.unwrap_or_default();
        let length = (piece.length - within).min(u64::from(self.length)).min(bytes.len() as u64);
        bytes.get(..length as usize).unwrap_or_default()
    }

    /// Writes the bytes into `target` (of [`len`](PieceRange::len) bytes). The sum is known when all of them came from
    /// one source that knew it.
    pub fn fill(&self, target: &mut [u8]) -> Fill {
        let mut position = self.position;
        let mut rest = match target.len().checked_sub(self.length as usize) {
            Some(_) => &mut target[..self.length as usize],
            None => target,
        };
        let whole = rest.len();
        let mut result = Fill { sum: None };
        for piece in self.queue.pieces.range(self.queue.index_of(position).min(self.queue.pieces.len())..) {
            if rest.is_empty() {
                break;
            }
            let within = position - piece.start;
            let count = (piece.length - within).min(rest.len() as u64) as usize;
            let (head, tail) = rest.split_at_mut(count);
            match &piece.content {
                Content::Bytes(bytes) => {
                    if let Some(bytes) = bytes.get(within as usize..within as usize + count) {
                        head.copy_from_slice(bytes);
                    }
                }
                Content::Owned(bytes) => {
                    if let Some(bytes) = bytes.get(within as usize..within as usize + count) {
                        head.copy_from_slice(bytes);
                    }
                }
                Content::Source { source, stamp, offset } => {
                    let fill = source.fill(*stamp, offset + within, head);
                    if count == whole {
                        result = fill;
                    }
                }
            }
            rest = tail;
            position += count as u64;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes counting up from the stamp; frames of 100.
    struct Counting {
        aligned: bool,
    }

    impl Source for Counting {
        fn fill(&self, stamp: u64, offset: u64, target: &mut [u8]) -> Fill {
            for (index, byte) in target.iter_mut().enumerate() {
                *byte = (stamp + offset + index as u64) as u8;
            }
            Fill { sum: Some(7) }
        }
        fn boundary(&self, _stamp: u64, offset: u64) -> Option<usize> {
            self.aligned.then_some(100 - (offset % 100) as usize)
        }
    }

    /// Lends what lies behind its first 20 bytes.
    struct Lending(Vec<u8>);

    impl Source for Lending {
        fn fill(&self, _stamp: u64, offset: u64, target: &mut [u8]) -> Fill {
            target.copy_from_slice(&self.0[offset as usize..offset as usize + target.len()]);
            Fill { sum: None }
        }
        fn lend(&self, _stamp: u64, offset: u64) -> &[u8] {
            if offset < 20 { &[] } else { &self.0[offset as usize..] }
        }
    }

    fn gathered(queue: &SendQueue, position: u64, length: u32) -> (Vec<usize>, Vec<u8>) {
        let mut scratch = vec![0; length as usize];
        let mut pieces = [IoSlice::new(&[]); TRAIN_PIECES_MAX];
        let count = queue.range(position, length).gather(&mut scratch, &mut pieces);
        let pieces = &pieces[..count];
        (pieces.iter().map(|piece| piece.len()).collect(), pieces.iter().flat_map(|piece| piece.to_vec()).collect())
    }

    #[test]
    fn what_can_be_lent_is_not_copied() {
        let mut queue = SendQueue::new();
        let bytes: Vec<u8> = (0..4_000).map(|at| at as u8).collect();
        queue.push_source(Rc::new(Lending(bytes.clone())), 0, 0, 3_000);
        queue.push_bytes(Bytes::from_static(&[1; 100]));
        queue.push_owned(vec![2; 50].into());
        let whole = [&bytes[..3_000], &[1; 100], &[2; 50]].concat();
        assert_eq!(gathered(&queue, 0, 3_150), (vec![512, 2_488, 100, 50], whole.clone()));
        assert_eq!(gathered(&queue, 100, 2_910), (vec![2_900, 10], whole[100..3_010].to_vec()));
        let (_, all) = gathered(&queue, 7, 600);
        assert_eq!(all, whole[7..607]);
        // More pieces than a train has: the rest is copied into the last one.
        for _ in 0..100 {
            queue.push_bytes(Bytes::from_static(&[3; 10]));
        }
        let (pieces, all) = gathered(&queue, 3_000, 1_150);
        assert_eq!((pieces.len(), pieces[TRAIN_PIECES_MAX - 1]), (TRAIN_PIECES_MAX, 1_150 - 150 - 61 * 10));
        assert_eq!(all, [&whole[3_000..], &[3; 1_000]].concat());
    }

    #[test]
    fn ranges_cross_pieces() {
        let mut queue = SendQueue::new();
        queue.push_bytes(Bytes::from_static(b"header:"));
        queue.push_source(Rc::new(Counting { aligned: false }), 1, 10, 5);
        queue.push_bytes(Bytes::from_static(b"!"));
        assert_eq!(queue.byte_count(), 13);
        let mut target = [0; 9];
        assert_eq!(queue.range(3, 9).fill(&mut target).sum, None);
        assert_eq!(&target, b"der:\x0b\x0c\x0d\x0e\x0f");
        assert_eq!(queue.run_at(0, 100, true), Run { length: 13, ready: false });
        assert_eq!(queue.run_at(12, 100, true), Run { length: 1, ready: false });
        assert_eq!(queue.range(8, 2).fill(&mut [0; 2]).sum, Some(7));
        queue.release(7);
        assert_eq!(queue.len(), 2);
        queue.release(6);
        assert_eq!((queue.len(), queue.byte_count()), (0, 0));
        assert_eq!(queue.run_at(13, 100, true).length, 0);
    }

    #[test]
    fn segments_end_where_records_do() {
        let mut queue = SendQueue::new();
        queue.end_record();
        queue.push_bytes(Bytes::from_static(&[1; 30]));
        queue.push_bytes(Bytes::from_static(&[2; 30]));
        queue.end_record();
        queue.end_record();
        queue.push_bytes(Bytes::from_static(&[3; 40]));
        assert_eq!(queue.run_at(0, 100, true).length, 60);
        assert_eq!(queue.run_at(10, 20, true).length, 20);
        assert_eq!(queue.run_at(60, 100, true).length, 40);
        assert!(queue.ends_record_at(60) && !queue.ends_record_at(30) && !queue.ends_record_at(0));
        queue.release(45);
        assert_eq!(queue.run_at(45, 100, true).length, 15);
        queue.release(15);
        queue.end_record();
        queue.clear();
        queue.push_bytes(Bytes::from_static(&[4; 10]));
        queue.push_bytes(Bytes::from_static(&[5; 10]));
        assert_eq!(queue.run_at(100, 100, true).length, 20);
    }

    #[test]
    fn segments_end_at_a_sources_boundary() {
        let mut queue = SendQueue::new();
        queue.push_bytes(Bytes::from_static(&[b'h'; 30]));
        queue.push_source(Rc::new(Counting { aligned: true }), 0, 0, 250);
        assert_eq!(queue.run_at(0, 120, true), Run { length: 30, ready: false }, "the source keeps its alignment");
        assert_eq!(queue.run_at(30, 120, true), Run { length: 100, ready: true });
        assert_eq!(queue.run_at(80, 120, true), Run { length: 50, ready: true }, "back in step");
        assert_eq!(queue.run_at(30, 90, true), Run { length: 90, ready: false }, "its frame does not fit");
        assert_eq!(queue.run_at(0, 1_000, true), Run { length: 280, ready: false }, "all in one segment");
        // the last frame is shorter than the boundary says: copied
        assert_eq!(queue.run_at(230, 120, true), Run { length: 50, ready: false });
        assert!(queue.source_at(30, 100).is_some() && queue.source_at(29, 10).is_none());
    }
}
