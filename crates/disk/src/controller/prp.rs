//! The way through a command's physical region pages, bounded by what it transfers.

use super::memory::GuestMemory;
use crate::nvme::spec::{PAGE_BYTES, Status};

/// Entries of a list read at once.
const ENTRIES_AT_ONCE: usize = 16;

/// Pages of lists that one command may take: the first may have one entry only, the second has 512.
const LISTS_MAX: usize = 4;

/// A piece of a driver's memory, all registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// What is found on the way.
struct Walk<'a, M> {
    memory: &'a M,
    segments: &'a mut Vec<Segment>,
    left: u64,
}

impl<M: GuestMemory> Walk<'_, M> {
    /// Takes what a page has from `address` on; pieces that touch become one.
    #[inline]
    fn take(&mut self, address: u64) -> Result<(), Status> {
        let bytes = self.left.min(PAGE_BYTES - address % PAGE_BYTES);
        self.left -= bytes;
        if let Some(last) = self.segments.last_mut()
            && last.address.checked_add(last.bytes) == Some(address)
            && self.memory.contains(last.address, last.bytes + bytes)
        {
            last.bytes += bytes;
            return Ok(());
        }
        if !self.memory.contains(address, bytes) {
            return Err(Status::DATA_TRANSFER_ERROR.without_retry());
        }
        // No more than there is room for from the start: a page is 4,096 bytes, and the transfer was judged before.
        self.segments.push(Segment { address, bytes });
        Ok(())
    }

    /// Takes what the list at `list` has, up to the end of its page; where it goes on, if it does. Each entry is read once, and no more
    /// of them than the transfer takes.
    fn take_some(&mut self, mut list: u64) -> Result<Option<u64>, Status> {
        let mut entries = [0; ENTRIES_AT_ONCE];
        let mut room = (PAGE_BYTES - list % PAGE_BYTES) / 8;
        while self.left > 0 {
            let needed = self.left.div_ceil(PAGE_BYTES);
            let count = needed.min(room).min(ENTRIES_AT_ONCE as u64);
            let some = entries.get_mut(..count as usize).unwrap_or_default();
            if !self.memory.load(list, some) {
                return Err(Status::DATA_TRANSFER_ERROR.without_retry());
            }
            // The last entry of a page of entries says where the list goes on, if it does.
            let is_chained = count == room && needed > count;
            let data = count as usize - usize::from(is_chained);
            for entry in some.iter().take(data).copied().map(u64::from_le) {
                if !entry.is_multiple_of(PAGE_BYTES) {
                    return Err(Status::INVALID_PRP_OFFSET.without_retry());
                }
                self.take(entry)?;
            }
            if is_chained {
                return Ok(some.last().copied().map(u64::from_le));
            }
            room -= count;
            list += 8 * count;
        }
        Ok(None)
    }

    /// Takes the pages of the list at `list`, and of those it goes on to, none of them twice.
    fn take_list(&mut self, mut list: u64) -> Result<(), Status> {
        let mut pages = [None; LISTS_MAX];
        for index in 0..LISTS_MAX {
            let page = Some(list / PAGE_BYTES);
            if pages.contains(&page) {
                break;
            }
            if let Some(place) = pages.get_mut(index) {
                *place = page;
            }
            match self.take_some(list)? {
                None => return Ok(()),
                Some(next) if next.is_multiple_of(PAGE_BYTES) => list = next,
                Some(_) => break,
            }
        }
        Err(Status::INVALID_PRP_OFFSET.without_retry())
    }
}

/// Where `bytes` are that PRP1 and PRP2 name.
///
/// # Errors
/// PRP Offset Invalid for what is misaligned or goes in circles, Data Transfer Error for memory that is not registered.
pub(super) fn walk<M: GuestMemory>(
    memory: &M,
    (prp1, prp2): (u64, u64),
    bytes: u64,
    segments: &mut Vec<Segment>,
) -> Result<(), Status> {
    segments.clear();
    let invalid = Status::INVALID_PRP_OFFSET.without_retry();
    if !prp1.is_multiple_of(4) {
        return Err(invalid);
    }
    let mut walk = Walk { memory, segments, left: bytes };
    walk.take(prp1)?;
    match walk.left {
        0 => Ok(()),
        left if left <= PAGE_BYTES && prp2.is_multiple_of(PAGE_BYTES) => walk.take(prp2),
        left if left > PAGE_BYTES && prp2.is_multiple_of(8) => walk.take_list(prp2),
        _ => Err(invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::memory::RegionMemory;
    use qanat_nic::Region;

    /// 16 pages at 0x10000.
    fn memory() -> RegionMemory {
        RegionMemory::new(vec![(0x1_0000, Region::new(16, 4_096).unwrap())])
    }

    fn list(memory: &RegionMemory, place: u64, entries: &[u64]) {
        for (index, entry) in entries.iter().enumerate() {
            assert!(memory.store(place + 8 * index as u64, entry.to_le()));
        }
    }

    fn walked(memory: &RegionMemory, prps: (u64, u64), bytes: u64) -> Result<Vec<(u64, u64)>, Status> {
        let mut segments = Vec::with_capacity(64);
        walk(memory, prps, bytes, &mut segments)?;
        Ok(segments.into_iter().map(|segment| (segment.address, segment.bytes)).collect())
    }

    const INVALID: Status = Status::INVALID_PRP_OFFSET;
    const OUTSIDE: Status = Status::DATA_TRANSFER_ERROR;

    #[test]
    fn one_and_two_pages() {
        let memory = memory();
        assert_eq!(walked(&memory, (0x1_0200, 7), 512), Ok(vec![(0x1_0200, 512)]), "PRP2 is not looked at");
        assert_eq!(walked(&memory, (0x1_0e00, 0x1_1000), 1_024), Ok(vec![(0x1_0e00, 1_024)]), "they touch");
        assert_eq!(walked(&memory, (0x1_0e00, 0x1_4000), 4_608), Ok(vec![(0x1_0e00, 512), (0x1_4000, 4_096)]));
        for (prps, bytes, status) in [
            ((0x1_0002, 0), 512, INVALID),
            ((0x1_0e00, 0x1_1200), 1_024, INVALID),
            ((0x1_0e00, 0x1_1004), 1_024, INVALID),
            ((0x2_0000, 0), 512, OUTSIDE),
            ((0xfe00, 0), 512, OUTSIDE),
            ((0x1_fe00, 0x2_0000), 1_024, OUTSIDE),
            ((u64::MAX - 3, 0), 512, OUTSIDE),
            ((u64::MAX - 3, 0x1_0000), 512, OUTSIDE),
        ] {
            assert_eq!(walked(&memory, prps, bytes), Err(status.without_retry()), "{prps:x?}");
        }
    }

    #[test]
    fn lists_and_where_they_go_on() {
        let memory = memory();
        list(&memory, 0x1_f000, &[0x1_1000, 0x1_3000, 0x1_4000]);
        let expected = vec![(0x1_0000, 8_192), (0x1_3000, 8_192)];
        assert_eq!(walked(&memory, (0x1_0000, 0x1_f000), 16_384), Ok(expected));
        // The list begins with the last entry of its page, which says only where it goes on.
        list(&memory, 0x1_eff8, &[0x1_f000]);
        let expected = vec![(0x1_0000, 8_192), (0x1_3000, 4_096)];
        assert_eq!(walked(&memory, (0x1_0000, 0x1_eff8), 12_288), Ok(expected));
        // It ends with the last entry of its page.
        list(&memory, 0x1_eff0, &[0x1_5000, 0x1_7000]);
        let expected = vec![(0x1_0000, 4_096), (0x1_5000, 4_096), (0x1_7000, 4_096)];
        assert_eq!(walked(&memory, (0x1_0000, 0x1_eff0), 12_288), Ok(expected));
    }

    #[test]
    fn lists_that_cannot_be() {
        let memory = memory();
        let refused = |entries: &[u64], place: u64, prp2: u64, bytes: u64| {
            list(&memory, place, entries);
            walked(&memory, (0x1_0000, prp2), bytes).unwrap_err()
        };
        let invalid = INVALID.without_retry();
        assert_eq!(refused(&[], 0, 0x1_f004, 12_288), invalid, "a list that begins in the middle of an entry");
        assert_eq!(
            refused(&[0x1_1000, 0x1_2200], 0x1_f000, 0x1_f000, 12_288),
            invalid,
            "an entry in the middle of a page"
        );
        assert_eq!(refused(&[0x1_e000], 0x1_eff8, 0x1_eff8, 12_288), invalid, "a list that goes on to its own page");
        assert_eq!(
            refused(&[0x1_e008], 0x1_dff8, 0x1_dff8, 12_288),
            invalid,
            "one that goes on in the middle of a page"
        );
        assert_eq!(refused(&[0x5_0000], 0x1_eff8, 0x1_eff8, 12_288), OUTSIDE.without_retry());
        assert_eq!(refused(&[0x1_1000, 0x2_0000], 0x1_f000, 0x1_f000, 12_288), OUTSIDE.without_retry());
        assert_eq!(refused(&[], 0, 0x2_0000, 12_288), OUTSIDE.without_retry(), "a list outside");
        assert_eq!(refused(&[], 0, 0xffff_ffff_ffff_fff8, 12_288), OUTSIDE.without_retry());
    }
}
