//! The memory of an image, read at random places: in large pages where the kernel has them, or finding out where a page is
//! would cost more than the access itself.

use memmap2::{Advice, Mmap, MmapMut};
use std::ops::Deref;

/// From so many bytes on a piece has pages of its own: two large ones.
const LARGE: usize = 4 << 20;

/// Bytes that stay as they are.
#[derive(Debug)]
pub(super) enum Memory {
    /// Few, or large pages were refused: from the heap.
    Heap(Box<[u8]>),
    /// Many.
    Pages(Mmap),
}

impl Memory {
    /// Holds `bytes`.
    pub(super) fn new(bytes: Vec<u8>) -> Memory {
        if bytes.len() < LARGE {
            return Memory::Heap(bytes.into());
        }
        match Memory::in_pages(&bytes) {
            Ok(pages) => Memory::Pages(pages),
            Err(_) => Memory::Heap(bytes.into()),
        }
    }

    /// Whether it is larger than caches are, most likely.
    #[inline(always)]
    pub(super) fn is_large(&self) -> bool {
        matches!(self, Memory::Pages(_))
    }

    fn in_pages(bytes: &[u8]) -> std::io::Result<Mmap> {
        let mut pages = MmapMut::map_anon(bytes.len())?;
        // Before the first byte is written. Only advice: without it pages are small, and everything works.
        let _ = pages.advise(Advice::HugePage);
        pages.copy_from_slice(bytes);
        pages.make_read_only()
    }
}

impl Deref for Memory {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        match self {
            Memory::Heap(bytes) => bytes,
            Memory::Pages(pages) => pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_hold_what_they_are_given() {
        for length in [0, 1, LARGE - 1, LARGE, LARGE + 1] {
            let bytes: Vec<u8> = (0..length).map(|index| (index / 7) as u8).collect();
            let memory = Memory::new(bytes.clone());
            assert_eq!(matches!(memory, Memory::Pages(_)), length >= LARGE);
            assert!(*memory == *bytes);
        }
    }
}
