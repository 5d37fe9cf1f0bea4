//! [`Container`]: the memory that a function reaches, and at which addresses.

use super::call::{
    self, API_VERSION, CHECK_EXTENSION, DMA_READ_WRITE, DmaMap, GET_API_VERSION, IOMMU_CAPABILITIES, IOMMU_GET_INFO,
    IOMMU_MAP_DMA, IOMMU_WORDS, IommuInfo, TYPE1V2_IOMMU,
};
use super::error::VfioError;
use crate::memory::Region;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

/// The device of containers.
const PATH: &str = "/dev/vfio/vfio";
/// Mappings begin at multiples of this, for large pages, and there is at least as much between two of them that isn't mapped: a
/// device that runs over the end of one does not reach the next.
const GRAIN: u64 = 2 << 20;
/// The capability that lists ranges of addresses (`VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE`).
const IOVA_RANGE: u32 = 1;
/// Where a device's addresses end if the kernel doesn't say: as narrow as any IOMMU's are.
const UNKNOWN_END: u64 = 0xfee0_0000;
/// Words before the capabilities in [`IommuInfo`].
const HEAD_WORDS: usize = 6;

/// What a function reaches. Closing it takes all away.
pub(super) struct Container {
    file: File,
    addresses: Addresses,
    /// What is mapped is kept: declared last, so that the kernel has unmapped it before it is given up.
    mapped: Vec<(u64, Rc<Region>)>,
}

/// Addresses that are free.
struct Addresses {
    ranges: Vec<Range<u64>>,
}

impl Addresses {
    /// Takes `bytes`.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        for range in &mut self.ranges {
            let start = range.start.checked_next_multiple_of(GRAIN)?;
            let end = start.checked_add(bytes)?;
            if end <= range.end {
                range.start = end.saturating_add(GRAIN).min(range.end);
                return Some(start);
            }
        }
        None
    }
}

/// The ranges that the kernel's words list, each with its end beyond the last address. The first page is left out: an address of 0
/// is mostly a mistake.
fn ranges_of(words: &[u32], first: u32) -> Vec<Range<u64>> {
    let word = |index: usize| words.get(index.checked_sub(HEAD_WORDS)?).copied();
    let long = |index: usize| Some(u64::from(word(index)?) | u64::from(word(index + 1)?) << 32);
    let mut ranges = Vec::new();
    let mut place = first as usize / 4;
    // A list that leads backwards is none of the kernel's.
    while place >= HEAD_WORDS
        && let (Some(head), Some(next)) = (word(place), word(place + 1))
    {
        if head & 0xffff == IOVA_RANGE {
            let count = word(place + 2).unwrap_or(0) as usize;
            for index in 0..count.min(IOMMU_WORDS / 4) {
                let at = place + 4 + 4 * index;
                if let (Some(start), Some(last)) = (long(at), long(at + 2)) {
                    ranges.push(start.max(GRAIN)..last.saturating_add(1));
                }
            }
        }
        let next = next as usize / 4;
        if next <= place {
            break;
        }
        place = next;
    }
    ranges
}

impl Container {
    /// # Errors
    /// [`VfioError::NoVfio`], [`VfioError::NotPermitted`], [`VfioError::Unsupported`].
    pub(super) fn open() -> Result<Container, VfioError> {
        let file = OpenOptions::new().read(true).write(true).open(PATH).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => VfioError::NoVfio { path: PATH.to_owned() },
            io::ErrorKind::PermissionDenied => VfioError::NotPermitted { path: PATH.to_owned() },
            _ if error.raw_os_error() == Some(libc::ENODEV) => VfioError::NoVfio { path: PATH.to_owned() },
            _ => VfioError::system(format!("open {PATH}"), error),
        })?;
        let asked = |call, number| call::with_number(file.as_fd(), call, number).ok();
        if asked(GET_API_VERSION, 0) != Some(API_VERSION) {
            return Err(VfioError::Unsupported { missing: "version 0 of its interface" });
        }
        if asked(CHECK_EXTENSION, TYPE1V2_IOMMU).is_none_or(|answer| answer <= 0) {
            return Err(VfioError::Unsupported { missing: "IOMMUs of type 1" });
        }
        Ok(Container { file, addresses: Addresses { ranges: Vec::new() }, mapped: Vec::new() })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Turns the IOMMU on, once a group is in it.
    ///
    /// # Errors
    /// [`VfioError::System`].
    pub(super) fn start(&mut self) -> Result<(), VfioError> {
        let fd = self.file.as_fd();
        let system = |source| VfioError::system("turn the IOMMU on for a function", source);
        call::with_number(fd, call::SET_IOMMU, TYPE1V2_IOMMU).map_err(system)?;
        let mut info = Box::new(IommuInfo {
            size: size_of::<IommuInfo>() as u32,
            flags: 0,
            page_sizes: 0,
            capabilities: 0,
            padding: 0,
            rest: [0; IOMMU_WORDS],
        });
        call::with_argument(fd, IOMMU_GET_INFO, info.as_mut())
            .map_err(|source| VfioError::system("ask for the IOMMU's addresses", source))?;
        let listed = if info.flags & IOMMU_CAPABILITIES != 0 { info.capabilities } else { 0 };
        let mut ranges = ranges_of(&info.rest, listed);
        if ranges.is_empty() {
            ranges.push(GRAIN..UNKNOWN_END);
        }
        self.addresses = Addresses { ranges };
        Ok(())
    }

    /// Has the function reach `region`; its address there.
    ///
    /// # Errors
    /// [`VfioError::NoRoom`], [`VfioError::LockedMemory`], [`VfioError::System`].
    pub(super) fn map(&mut self, region: &Rc<Region>) -> Result<u64, VfioError> {
        let bytes = region.length();
        if let Some((address, _)) = self.mapped.iter().find(|(_, mapped)| Rc::ptr_eq(mapped, region)) {
            return Ok(*address);
        }
        let device_address = self.addresses.take(bytes as u64).ok_or(VfioError::NoRoom { bytes })?;
        let mut map = DmaMap {
            size: size_of::<DmaMap>() as u32,
            flags: DMA_READ_WRITE,
            address: region.addresses().start as u64,
            device_address,
            bytes: bytes as u64,
        };
        call::with_argument(self.file.as_fd(), IOMMU_MAP_DMA, &mut map).map_err(|source| {
            match source.raw_os_error() {
                Some(libc::ENOMEM) => VfioError::LockedMemory { bytes },
                Some(libc::ENOSPC) => VfioError::NoRoom { bytes },
                _ => VfioError::system(format!("map {bytes} bytes for a function"), source),
            }
        })?;
        self.mapped.push((device_address, Rc::clone(region)));
        Ok(device_address)
    }

    /// Keeps all that is mapped, and its mapping, for good.
    pub(super) fn give_up(&mut self) {
        self.mapped.drain(..).for_each(std::mem::forget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lie_in_the_kernels_ranges_and_apart() {
        // As a machine with an Intel IOMMU says: a hole for interrupts below 4 GiB. Another capability comes first.
        let words = [
            [3, 24 + 12, 65_535].as_slice(),
            &[1 | 1 << 16, 0, 2, 0],
            &[0, 0, 0xfedf_ffff, 0],
            &[0xfef0_0000, 0, 0xffff_ffff, 0x7f],
        ]
        .concat();
        let ranges = ranges_of(&words, 24);
        assert_eq!(ranges, [GRAIN..0xfee0_0000, 0xfef0_0000..0x80_0000_0000]);
        let mut addresses = Addresses { ranges };
        assert_eq!(addresses.take(4_096), Some(GRAIN));
        assert_eq!(addresses.take(4 << 20), Some(3 * GRAIN), "there is a gap between two");
        assert_eq!(addresses.take(0xfe40_0000), Some(0xff00_0000), "the hole is left out");
        assert_eq!(addresses.take(1 << 40), None);
        assert_eq!(addresses.take(u64::MAX), None);
    }

    #[test]
    fn lists_that_lead_nowhere_end() {
        assert_eq!(ranges_of(&[3, 24, 0], 24), []);
        assert_eq!(ranges_of(&[1, 0, u32::MAX, 0, 5], 24), []);
        assert_eq!(ranges_of(&[1, 0], 0), []);
        assert_eq!(ranges_of(&[1, 0], 4_000_000), []);
    }
}
