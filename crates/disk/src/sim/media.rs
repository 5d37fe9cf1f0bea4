//! [`Media`]: what a simulated device keeps, and what a loss of power may leave of it.
//!
//! For each block there is a durable version, and every version written since the last flush that covered it. A crash chooses,
//! for each block by itself, any of them, and any part of what was under way: no order holds between blocks (NVMe promises none).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

/// A block's contents since a write completed.
struct Version {
    /// Counts completed writes of the device.
    order: u64,
    data: Box<[u8]>,
}

struct Contents {
    block_bytes: usize,
    /// What is durable, all of it.
    durable: Vec<u8>,
    /// Of each block written since: oldest first, never empty.
    later: BTreeMap<u64, Vec<Version>>,
    /// Writes completed so far.
    order: u64,
    /// Blocks that can't be read.
    latent: BTreeSet<u64>,
}

impl Contents {
    fn place(&self, block: u64) -> std::ops::Range<usize> {
        let start = block as usize * self.block_bytes;
        start..start + self.block_bytes
    }

    fn newest(&self, block: u64) -> &[u8] {
        match self.later.get(&block).and_then(|versions| versions.last()) {
            Some(version) => &version.data,
            None => self.durable.get(self.place(block)).unwrap_or_default(),
        }
    }

    fn settle(&mut self, block: u64, data: &[u8]) {
        let place = self.place(block);
        if let Some(target) = self.durable.get_mut(place) {
            target.copy_from_slice(data);
        }
    }
}

/// The medium of a simulated device. Clones are the same medium, so that a test keeps it when the device is gone.
#[derive(Clone)]
pub struct Media {
    contents: Rc<RefCell<Contents>>,
}

impl fmt::Debug for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contents = self.contents.borrow();
        let blocks = contents.durable.len() / contents.block_bytes;
        write!(f, "Media({blocks} blocks of {} bytes, {} not durable)", contents.block_bytes, contents.later.len())
    }
}

/// What a write that is under way would make of a block.
pub(super) struct UnderWay<'a> {
    pub(super) block: u64,
    pub(super) data: &'a [u8],
}

impl Media {
    /// Zeroed: `blocks` of `block_bytes` (a power of two, at least 512).
    pub fn new(blocks: u64, block_bytes: u32) -> Media {
        assert!(block_bytes.is_power_of_two() && block_bytes >= 512, "blocks of {block_bytes} bytes");
        let block_bytes = block_bytes as usize;
        let contents = Contents {
            block_bytes,
            durable: vec![0; blocks as usize * block_bytes],
            later: BTreeMap::new(),
            order: 0,
            latent: BTreeSet::new(),
        };
        Media { contents: Rc::new(RefCell::new(contents)) }
    }

    /// Another medium with the same contents, durable and not: a test can crash the copy and go on with this one.
    pub fn copy(&self) -> Media {
        let contents = self.contents.borrow();
        let later = contents.later.iter().map(|(block, versions)| {
            let versions = versions.iter().map(|version| Version { order: version.order, data: version.data.clone() });
            (*block, versions.collect())
        });
        let copy = Contents {
            block_bytes: contents.block_bytes,
            durable: contents.durable.clone(),
            later: later.collect(),
            order: contents.order,
            latent: contents.latent.clone(),
        };
        Media { contents: Rc::new(RefCell::new(copy)) }
    }

    /// Bytes in a block.
    pub fn block_bytes(&self) -> u32 {
        self.contents.borrow().block_bytes as u32
    }

    /// Blocks there are.
    pub fn blocks(&self) -> u64 {
        let contents = self.contents.borrow();
        (contents.durable.len() / contents.block_bytes) as u64
    }

    /// All that a reader would see now.
    pub fn bytes(&self) -> Vec<u8> {
        let contents = self.contents.borrow();
        let mut bytes = contents.durable.clone();
        for block in contents.later.keys() {
            if let Some(target) = bytes.get_mut(contents.place(*block)) {
                target.copy_from_slice(contents.newest(*block));
            }
        }
        bytes
    }

    /// Blocks with versions that are not durable.
    pub fn volatile_blocks(&self) -> usize {
        self.contents.borrow().later.len()
    }

    /// Rot: changes a byte of what is stored, in every version, so that a reader sees it and nobody is told.
    pub fn rot(&self, block: u64, byte: usize, flip: u8) {
        let contents = &mut *self.contents.borrow_mut();
        let place = contents.place(block);
        let byte = byte % contents.block_bytes;
        if let Some(target) = contents.durable.get_mut(place.start + byte) {
            *target ^= flip;
        }
        for version in contents.later.get_mut(&block).into_iter().flatten() {
            if let Some(target) = version.data.get_mut(byte) {
                *target ^= flip;
            }
        }
    }

    /// A latent error: reads of the block fail until it is written again.
    pub fn fail_reads(&self, block: u64) {
        self.contents.borrow_mut().latent.insert(block);
    }

    /// The newest contents of the blocks from `block` on; whether they can be read.
    pub(super) fn read(&self, block: u64, target: &mut [u8]) -> bool {
        let contents = self.contents.borrow();
        if contents.later.is_empty() && contents.latent.is_empty() {
            let start = block as usize * contents.block_bytes;
            target.copy_from_slice(contents.durable.get(start..start + target.len()).unwrap_or_default());
            return true;
        }
        let count = (target.len() / contents.block_bytes) as u64;
        for (block, target) in (block..).zip(target.chunks_exact_mut(contents.block_bytes)) {
            target.copy_from_slice(contents.newest(block));
        }
        contents.latent.range(block..block + count).next().is_none()
    }

    /// A write completes. `durable`: it is in no cache.
    pub(super) fn write(&self, block: u64, data: &[u8], durable: bool) {
        let contents = &mut *self.contents.borrow_mut();
        contents.order += 1;
        for (block, data) in (block..).zip(data.chunks_exact(contents.block_bytes)) {
            contents.latent.remove(&block);
            if durable {
                contents.later.remove(&block);
                contents.settle(block, data);
            } else {
                let version = Version { order: contents.order, data: data.into() };
                contents.later.entry(block).or_default().push(version);
            }
        }
    }

    /// Writes completed so far.
    pub(super) fn order(&self) -> u64 {
        self.contents.borrow().order
    }

    /// A flush completes that was submitted when `order` writes had completed: those are durable.
    pub(super) fn flush(&self, order: u64) {
        let contents = &mut *self.contents.borrow_mut();
        for (block, mut versions) in std::mem::take(&mut contents.later) {
            let covered = versions.partition_point(|version| version.order <= order);
            if let Some(newest) = versions.drain(..covered).next_back() {
                contents.settle(block, &newest.data);
            }
            if !versions.is_empty() {
                contents.later.insert(block, versions);
            }
        }
    }

    /// Power fails. `choose(n)` picks one of `n` candidates for each block that has more than one: the durable version, those
    /// written since (oldest first), then those under way.
    pub(super) fn lose_power(&self, under_way: &[UnderWay<'_>], choose: &mut dyn FnMut(usize) -> usize) {
        let contents = &mut *self.contents.borrow_mut();
        let mut candidates: BTreeMap<u64, Vec<Box<[u8]>>> = BTreeMap::new();
        for (block, versions) in std::mem::take(&mut contents.later) {
            candidates.entry(block).or_default().extend(versions.into_iter().map(|version| version.data));
        }
        for write in under_way {
            candidates.entry(write.block).or_default().push(write.data.into());
        }
        for (block, versions) in candidates {
            let chosen = choose(versions.len() + 1);
            if let Some(data) = chosen.checked_sub(1).and_then(|index| versions.get(index)) {
                contents.settle(block, data);
            }
        }
    }
}
