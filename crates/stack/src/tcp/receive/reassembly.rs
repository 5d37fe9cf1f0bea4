//! Segments received beyond a gap, held until it fills; and the SACK blocks that describe them (RFC 2018 §4).
//!
//! Kept sorted and without overlaps. Where segments overlap the bytes that came first win, so that what a service sees
//! does not depend on what an attacker resends. The count is bounded; a segment beyond it is refused, and not sacked.

use crate::tcp::sequence::SequenceNumber;
use qanat_api::Chunk;
use std::collections::VecDeque;

/// A half-open run `[start, end)` of sequence space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Block {
    /// First octet.
    pub start: SequenceNumber,
    /// After the last octet.
    pub end: SequenceNumber,
}

/// What a chunk's insertion did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insertion {
    /// It brought new bytes.
    Held,
    /// Every byte of it was held already.
    Duplicate,
    /// The bound is reached; it was dropped.
    Full,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Segment {
    start: SequenceNumber,
    chunk: Chunk,
}

impl Segment {
    fn end(&self) -> SequenceNumber {
        self.start + self.chunk.len() as u32
    }
}

/// Duplicate ACKs that make a sender retransmit.
const DUPLICATE_ACKS: u8 = 3;
/// Blocks whose recency is remembered.
const RECENT_MAX: usize = 4;

/// The out-of-order queue of one connection. Boxed by it: most connections never need one.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Reassembly {
    segments: VecDeque<Segment>,
    /// Runs to report, the most recently changed first.
    recent: [Option<Block>; RECENT_MAX],
    /// Segments that came since the stream last went on; no more are counted than make a sender retransmit.
    since_progress: u8,
}

impl Reassembly {
    /// Empty.
    pub fn new() -> Reassembly {
        Reassembly { segments: VecDeque::new(), recent: [None; RECENT_MAX], since_progress: 0 }
    }

    /// Frames held.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether a segment that starts at `start` would tell the sender little: it goes on where the latest ended, and so
    /// many have come that their ACKs make a fast retransmit (RFC 5681 §3.2).
    pub fn is_more_of_the_same(&self, start: SequenceNumber) -> bool {
        self.since_progress >= DUPLICATE_ACKS && self.recent[0].is_some_and(|run| run.end == start)
    }

    /// The first contiguous bytes from `start` to `end` that are held already: what a D-SACK block reports (RFC 2883 §4.2).
    pub fn first_held(&self, start: SequenceNumber, end: SequenceNumber) -> Option<Block> {
        let index = self.segments.partition_point(|held| held.end().at_or_before(start));
        let first = self.segments.get(index).filter(|held| held.start.before(end))?;
        let mut found = Block { start: first.start.later(start), end: first.end().earlier(end) };
        for held in self.segments.range(index + 1..) {
            if held.start != found.end || found.end == end {
                break;
            }
            found.end = held.end().earlier(end);
        }
        Some(found)
    }

    /// Holds `chunk`, whose first byte is `start`; at most `frames_max` are held.
    pub fn insert(&mut self, mut start: SequenceNumber, mut chunk: Chunk, frames_max: usize) -> Insertion {
        let whole = Block { start, end: (start + chunk.len() as u32) };
        self.since_progress = (self.since_progress + 1).min(DUPLICATE_ACKS);
        // The first held segment that ends after the new one starts.
        let mut index = self.segments.partition_point(|held| held.end().at_or_before(start));
        if let Some(held) = self.segments.get(index)
            && held.start.at_or_before(start)
        {
            // Overlap at the front: bytes held win.
            let overlap = held.end().distance_from(start);
            if overlap as usize >= chunk.len() {
                self.touch(whole);
                return Insertion::Duplicate;
            }
            chunk.trim_front(overlap as usize);
            start += overlap;
            index += 1;
        }
        // What lies within the new segment and ends no later is replaced only if it is wholly covered... but bytes held
        // win: so the new one is cut at the next held segment, unless that one is wholly inside.
        let end = start + chunk.len() as u32;
        let mut covered = 0;
        while let Some(held) = self.segments.get(index + covered) {
            if held.start.at_or_after(end) || held.end().after(end) {
                break;
            }
            covered += 1;
        }
        if covered > 0 {
            return self.insert_around(start, chunk, index, covered, whole, frames_max);
        }
        if let Some(held) = self.segments.get(index)
            && held.start.before(end)
        {
            chunk.truncate(held.start.distance_from(start) as usize);
        }
        if chunk.is_empty() {
            self.touch(whole);
            return Insertion::Duplicate;
        }
        if self.segments.len() >= frames_max {
            return Insertion::Full;
        }
        self.segments.insert(index, Segment { start, chunk });
        self.touch(whole);
        Insertion::Held
    }

    /// The new chunk wholly covers `covered` held segments from `index` on. One frame can't be cut into several, so the
    /// held bytes are copied over the new ones (first data wins) and the new frame replaces them all.
    fn insert_around(
        &mut self,
        start: SequenceNumber,
        mut chunk: Chunk,
        index: usize,
        covered: usize,
        whole: Block,
        frames_max: usize,
    ) -> Insertion {
        let end = start + chunk.len() as u32;
        if let Some(next) = self.segments.get(index + covered)
            && next.start.before(end)
        {
            chunk.truncate(next.start.distance_from(start) as usize);
        }
        let held: u32 = self.segments.range(index..index + covered).map(|held| held.chunk.len() as u32).sum();
        if held as usize >= chunk.len() {
            self.touch(whole);
            return Insertion::Duplicate;
        }
        // One that can't be written is sent again, in pieces that need not be.
        if self.segments.len() - covered >= frames_max || !chunk.frame().is_writable() {
            return Insertion::Full;
        }
        for held in self.segments.range(index..index + covered) {
            let offset = held.start.distance_from(start) as usize;
            chunk.overwrite(offset, held.chunk.bytes());
        }
        self.segments.drain(index..index + covered);
        self.segments.insert(index, Segment { start, chunk });
        self.touch(whole);
        Insertion::Held
    }

    /// Notes that `block` was received: merges it with the runs it touches and puts the result first.
    fn touch(&mut self, block: Block) {
        let mut merged = block;
        // Only bytes really held extend a run; the queue knows the run around the block.
        if let Some(run) = self.run_around(block) {
            merged = run;
        }
        let mut kept = [None; RECENT_MAX];
        kept[0] = Some(merged);
        let mut count = 1;
        for run in self.recent.iter().flatten() {
            let apart = run.end.before(merged.start) || run.start.after(merged.end);
            if apart && count < RECENT_MAX {
                kept[count] = Some(*run);
                count += 1;
            }
        }
        self.recent = kept;
    }

    /// The maximal run of contiguous held bytes that contains `block`.
    fn run_around(&self, block: Block) -> Option<Block> {
        let first = self.segments.partition_point(|held| held.end().before(block.start));
        let mut run: Option<Block> = None;
        // Backwards from the first touching segment…
        let mut index = first;
        let mut start = self.segments.get(first)?.start;
        while let Some(previous) = index.checked_sub(1).and_then(|previous| self.segments.get(previous)) {
            if previous.end() != start {
                break;
            }
            start = previous.start;
            index -= 1;
        }
        // …and forwards.
        for held in self.segments.range(index..) {
            match run.as_mut() {
                None => run = Some(Block { start: held.start, end: held.end() }),
                Some(run) if run.end == held.start => run.end = held.end(),
                Some(run) if run.end.before(block.start) => *run = Block { start: held.start, end: held.end() },
                Some(_) => break,
            }
        }
        run.filter(|run| run.start.at_or_before(block.end) && run.end.at_or_after(block.start))
    }

    /// Takes the first chunk if it begins at or before `next` (RCV.NXT), cut to what is new; drops what is old.
    pub fn pop(&mut self, next: SequenceNumber) -> Option<Chunk> {
        self.since_progress = 0;
        while let Some(first) = self.segments.front() {
            if first.start.after(next) {
                return None;
            }
            let mut first = self.segments.pop_front()?;
            let old = next.distance_from(first.start) as usize;
            if old < first.chunk.len() {
                first.chunk.trim_front(old);
                return Some(first.chunk);
            }
        }
        None
    }

    /// Drops the last chunk, if it begins behind `start`; whether it did. What is dropped is not reported any more.
    pub fn drop_last(&mut self, start: SequenceNumber) -> bool {
        let Some(last) = self.segments.back().map(|last| last.start).filter(|last| last.after(start)) else {
            return false;
        };
        self.segments.pop_back();
        for run in &mut self.recent {
            *run = match *run {
                Some(held) if held.start.at_or_after(last) => None,
                Some(held) => Some(Block { end: held.end.earlier(last), ..held }),
                None => None,
            };
        }
        true
    }

    /// Heap memory held, frames not counted, bytes.
    pub fn memory(&self) -> usize {
        size_of::<Reassembly>() + self.segments.capacity() * size_of::<Segment>()
    }

    /// SACK blocks to report, given RCV.NXT: "the first SACK block MUST specify the contiguous block of data containing
    /// the segment which triggered this ACK" (RFC 2018 §4).
    pub fn blocks(&mut self, next: SequenceNumber) -> impl Iterator<Item = Block> + '_ {
        for run in &mut self.recent {
            if run.is_some_and(|run| run.end.at_or_before(next)) {
                *run = None;
            }
        }
        self.recent.iter().flatten().copied()
    }
}

impl Default for Reassembly {
    fn default() -> Self {
        Reassembly::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use qanat_nic::{Pool, Region};

    fn pool() -> Pool {
        Region::new(256, 512).unwrap().pool(256).unwrap()
    }

    fn chunk(pool: &Pool, bytes: &[u8]) -> Chunk {
        let mut frame = pool.allocate(0).unwrap();
        frame.append(bytes.len()).unwrap().copy_from_slice(bytes);
        Chunk::new(frame)
    }

    fn sequence(raw: u32) -> SequenceNumber {
        SequenceNumber(raw)
    }

    fn block(start: u32, end: u32) -> Block {
        Block { start: sequence(start), end: sequence(end) }
    }

    fn blocks(queue: &mut Reassembly, next: u32) -> Vec<Block> {
        queue.blocks(sequence(next)).collect()
    }

    #[test]
    fn reports_the_latest_block_first_and_merges() {
        let pool = pool();
        let mut queue = Reassembly::new();
        assert_eq!(queue.insert(sequence(10), chunk(&pool, b"abcde"), 8), Insertion::Held);
        assert_eq!(queue.insert(sequence(20), chunk(&pool, b"fghij"), 8), Insertion::Held);
        assert_eq!(blocks(&mut queue, 0), [block(20, 25), block(10, 15)]);
        assert_eq!(queue.insert(sequence(15), chunk(&pool, b"kl"), 8), Insertion::Held);
        assert_eq!(blocks(&mut queue, 0), [block(10, 17), block(20, 25)]);
        assert_eq!(queue.insert(sequence(17), chunk(&pool, b"mno"), 8), Insertion::Held);
        assert_eq!(blocks(&mut queue, 0), [block(10, 25)]);
        // Before, what is to be reported of it (RFC 2883 §4.2): the first contiguous bytes that are held.
        assert_eq!(queue.first_held(sequence(16), sequence(19)), Some(block(16, 19)));
        assert_eq!(queue.first_held(sequence(5), sequence(12)), Some(block(10, 12)));
        assert_eq!(queue.first_held(sequence(5), sequence(10)), None);
        assert_eq!(queue.first_held(sequence(24), sequence(40)), Some(block(24, 25)));
        assert_eq!(queue.first_held(sequence(12), sequence(18)), Some(block(12, 18)));
        assert_eq!(queue.first_held(sequence(30), sequence(40)), None);
        assert_eq!(queue.insert(sequence(16), chunk(&pool, b"xxx"), 8), Insertion::Duplicate);
        assert_eq!(queue.pop(sequence(9)).map(|chunk| chunk.len()), None);
        let mut out = Vec::new();
        let mut next = sequence(11);
        while let Some(chunk) = queue.pop(next) {
            out.extend_from_slice(chunk.bytes());
            next += chunk.len() as u32;
        }
        assert_eq!(out, b"bcdeklmnofghij");
        assert!(blocks(&mut queue, 25).is_empty());
        drop(queue);
        assert_eq!(pool.in_use_count(), 0);
    }

    #[test]
    fn bounded() {
        let pool = pool();
        let mut queue = Reassembly::new();
        for index in 0..4 {
            assert_eq!(queue.insert(sequence(10 + index * 4), chunk(&pool, b"ab"), 4), Insertion::Held);
        }
        assert_eq!(queue.insert(sequence(100), chunk(&pool, b"ab"), 4), Insertion::Full);
        assert!(blocks(&mut queue, 0).iter().all(|block| block.start.0 < 100), "a dropped segment is not sacked");
        assert_eq!(pool.in_use_count(), 4);
    }

    #[test]
    fn the_last_is_dropped_for_what_is_nearer_only() {
        let pool = pool();
        let mut queue = Reassembly::new();
        for start in [10, 15, 30] {
            assert_eq!(queue.insert(sequence(start), chunk(&pool, b"abcde"), 8), Insertion::Held);
        }
        assert!(!queue.drop_last(sequence(30)) && queue.drop_last(sequence(29)));
        assert_eq!(blocks(&mut queue, 0), [block(10, 20)]);
        assert!(queue.drop_last(sequence(8)));
        assert_eq!((queue.len(), blocks(&mut queue, 0)), (1, vec![block(10, 15)]));
        assert!(queue.drop_last(sequence(8)) && !queue.drop_last(sequence(8)) && queue.is_empty());
        assert_eq!((blocks(&mut queue, 0), pool.in_use_count()), (vec![], 0));
    }

    proptest! {
        /// Against a model that keeps one byte per sequence number, the first written winning.
        #[test]
        fn agrees_with_a_byte_map(origin in prop_oneof![Just(0u32), Just(u32::MAX - 40)],
                                  segments in proptest::collection::vec((0u32..100, 1u32..30, any::<u8>()), 1..40)) {
            let pool = pool();
            let mut queue = Reassembly::new();
            let mut model: [Option<u8>; 200] = [None; 200];
            let base = sequence(origin);
            for (offset, length, seed) in segments {
                let bytes: Vec<u8> = (0..length).map(|index| seed.wrapping_add(index as u8)).collect();
                let new = (offset..offset + length).any(|at| model[at as usize].is_none());
                let insertion = queue.insert(base + offset, chunk(&pool, &bytes), 64);
                prop_assert_eq!(insertion == Insertion::Held, new);
                let held = |model: &[Option<u8>; 200]| model.iter().flatten().count();
                let before = held(&model);
                // Every byte in one go; a trimmed tail may be refused, so take from the queue what it kept.
                for (index, byte) in bytes.iter().enumerate() {
                    let slot = &mut model[offset as usize + index];
                    if slot.is_none() { *slot = Some(*byte); }
                }
                // The queue may hold less than offered (a tail beyond a held segment is dropped): recount from it.
                let mut mask = [false; 200];
                for segment in &queue.segments {
                    for (index, byte) in segment.chunk.bytes().iter().enumerate() {
                        let at = segment.start.distance_from(base) as usize + index;
                        prop_assert!(!mask[at], "no overlap");
                        mask[at] = true;
                        prop_assert_eq!(model[at], Some(*byte), "first data wins");
                    }
                }
                for at in 0..200 { if !mask[at] { model[at] = None; } }
                prop_assert!(held(&model) >= before, "nothing held is lost");
                let mut runs = Vec::new();
                for run in queue.blocks(base) { runs.push(run); }
                for (index, run) in runs.iter().enumerate() {
                    for at in run.start.distance_from(base)..run.end.distance_from(base) {
                        prop_assert!(mask[at as usize], "only held bytes are sacked");
                    }
                    if index == 0 {
                        prop_assert!(insertion == Insertion::Full || run.start.at_or_before(base + offset + length));
                    }
                }
                prop_assert_eq!(pool.in_use_count() as usize, queue.len());
            }
        }
    }
}
