//! Physical region pages: how a command says where its data lie.

use super::memory::Piece;
use super::spec::PAGE_BYTES;

/// Bytes a command may transfer at most: what a list of 256 entries and PRP1 reach from any offset.
pub(super) const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// Room for a list of every command under way.
pub(super) struct PrpLists {
    piece: Piece,
    /// Entries of one list: a power of two, at most 256, so that none crosses a page.
    entries: usize,
}

/// Entries of a list for transfers of so many bytes.
fn list_entries(transfer_bytes_max: u32) -> usize {
    let pages = transfer_bytes_max.min(TRANSFER_BYTES_MAX).div_ceil(PAGE_BYTES as u32) as usize;
    pages.next_power_of_two()
}

impl PrpLists {
    /// Bytes for the lists of `depth` commands, each of so many bytes at most.
    pub(super) fn bytes(depth: u32, transfer_bytes_max: u32) -> usize {
        depth as usize * list_entries(transfer_bytes_max) * 8
    }

    /// Over as much memory as [`PrpLists::bytes`] said.
    pub(super) fn new(piece: Piece, transfer_bytes_max: u32) -> PrpLists {
        PrpLists { piece, entries: list_entries(transfer_bytes_max) }
    }

    /// PRP1 and PRP2 of `length` bytes at `address`, which are one piece for the device; the list, if it takes one, is the one of
    /// number `index`. `None`: it takes more entries than a list has.
    #[inline]
    pub(super) fn build(&self, index: usize, address: u64, length: u64) -> Option<(u64, u64)> {
        let first = PAGE_BYTES - address % PAGE_BYTES;
        if length <= first {
            return Some((address, 0));
        }
        let next = address.checked_add(first)?;
        let pages = (length - first).div_ceil(PAGE_BYTES);
        if pages == 1 {
            return Some((address, next));
        }
        if pages > self.entries as u64 {
            return None;
        }
        next.checked_add(length)?;
        let start = index * self.entries;
        for page in 0..pages {
            self.piece.store(start + page as usize, (next + page * PAGE_BYTES).to_le());
        }
        Some((address, self.piece.address() + 8 * start as u64))
    }

    pub(super) fn give_up(&self) {
        self.piece.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::memory::{Allocator, Mapping};
    use qanat_nic::Region;

    fn lists(transfer_bytes_max: u32) -> PrpLists {
        let region = Region::new(1, 16_384).unwrap();
        let frame = region.pool(1).unwrap().allocate(0).unwrap();
        let mut allocator = Allocator::new(&Mapping { region, address: 0x10_0000 }, frame).unwrap();
        PrpLists::new(allocator.pages(PrpLists::bytes(4, transfer_bytes_max)).unwrap(), transfer_bytes_max)
    }

    #[test]
    fn what_fits_two_pages_takes_no_list() {
        let lists = lists(1 << 20);
        assert_eq!(lists.build(0, 0x5000, 512), Some((0x5000, 0)));
        assert_eq!(lists.build(0, 0x5000, 4_096), Some((0x5000, 0)));
        assert_eq!(lists.build(0, 0x5e00, 512), Some((0x5e00, 0)));
        assert_eq!(lists.build(0, 0x5e00, 1_024), Some((0x5e00, 0x6000)));
        assert_eq!(lists.build(0, 0x5e00, 512 + 4_096), Some((0x5e00, 0x6000)));
        assert_eq!(lists.build(0, 0x5000, 8_192), Some((0x5000, 0x6000)));
    }

    #[test]
    fn a_list_has_the_pages_after_the_first() {
        let lists = lists(1 << 20);
        let (prp1, prp2) = lists.build(3, 0x5200, 12_288).unwrap();
        assert_eq!((prp1, prp2), (0x5200, 0x10_0000 + 3 * 2_048));
        let entries: Vec<u64> = (0..4).map(|index| lists.piece.load(3 * 256 + index)).collect();
        assert_eq!(entries, [0x6000, 0x7000, 0x8000, 0]);
    }

    #[test]
    fn the_largest_transfer_fits_from_any_offset_and_no_more() {
        let lists = lists(1 << 20);
        assert!(lists.build(0, 0x5e00, 1 << 20).is_some());
        assert_eq!(lists.piece.load(255), 0x6000 + 255 * 4_096);
        assert_eq!(lists.piece.load(256), 0, "the neighbour's list is as it was");
        assert_eq!(lists.build(0, 0x5e00, (1 << 20) + 4_096), None);
        assert_eq!(lists.build(0, u64::MAX - 4_095, 16_384), None);
    }
}
