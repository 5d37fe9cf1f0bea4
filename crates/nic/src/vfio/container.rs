//! [`Container`]: the memory that a function reaches, and at which addresses.

use super::call::{
    self, API_VERSION, CHECK_EXTENSION, DMA_READ_WRITE, DmaMap, DmaUnmap, GET_API_VERSION, IOMMU_CAPABILITIES,
    IOMMU_GET_INFO, IOMMU_MAP_DMA, IOMMU_UNMAP_DMA, IOMMU_WORDS, IommuInfo, TYPE1V2_IOMMU,
};
use super::error::VfioError;
use crate::memory::Region;
use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
    file: OwnedFd,
    addresses: Addresses,
    /// What is mapped is kept: declared last, so that the kernel has unmapped it before it is given up.
    mapped: Vec<(u64, Rc<Region>)>,
}

/// Addresses, and which of them are taken.
struct Addresses {
    ranges: Vec<Range<u64>>,
    /// In order, and apart.
    taken: Vec<Range<u64>>,
}

impl Addresses {
    /// Takes `bytes`: the first that are free, with a gap to what else is taken.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        for range in &self.ranges {
            let mut start = range.start.checked_next_multiple_of(GRAIN)?;
            for other in &self.taken {
                let is_before = start.checked_add(bytes)?.checked_add(GRAIN)? <= other.start;
                let is_behind = other.end.checked_add(GRAIN)? <= start;
                if !is_before && !is_behind {
                    start = other.end.checked_add(GRAIN)?.checked_next_multiple_of(GRAIN)?;
                }
            }
            let end = start.checked_add(bytes)?;
            if end <= range.end {
                let place = self.taken.partition_point(|other| other.start < start);
                self.taken.insert(place, start..end);
                return Some(start);
            }
        }
        None
    }

    /// Gives back what began there.
    fn give_back(&mut self, start: u64) {
        self.taken.retain(|taken| taken.start != start);
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

/// Opens a container, in which nothing is yet.
///
/// # Errors
/// [`VfioError::NoVfio`], [`VfioError::NotPermitted`], [`VfioError::Unsupported`].
pub(super) fn open() -> Result<OwnedFd, VfioError> {
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
    Ok(file.into())
}

/// Turns the IOMMU on, once a group is in a container.
///
/// # Errors
/// [`VfioError::System`].
pub(super) fn start(container: BorrowedFd<'_>) -> Result<(), VfioError> {
    let system = |source| VfioError::system("turn the IOMMU on for a function", source);
    call::with_number(container, call::SET_IOMMU, TYPE1V2_IOMMU).map(drop).map_err(system)
}

impl Container {
    /// Of one that was started, and in which nothing is mapped.
    ///
    /// # Errors
    /// [`VfioError::System`].
    pub(super) fn over(file: OwnedFd) -> Result<Container, VfioError> {
        let mut info = Box::new(IommuInfo {
            size: size_of::<IommuInfo>() as u32,
            flags: 0,
            page_sizes: 0,
            capabilities: 0,
            padding: 0,
            rest: [0; IOMMU_WORDS],
        });
        call::with_argument(file.as_fd(), IOMMU_GET_INFO, info.as_mut())
            .map_err(|source| VfioError::system("ask for the IOMMU's addresses", source))?;
        let listed = if info.flags & IOMMU_CAPABILITIES != 0 { info.capabilities } else { 0 };
        let mut ranges = ranges_of(&info.rest, listed);
        if ranges.is_empty() {
            ranges.push(GRAIN..UNKNOWN_END);
        }
        Ok(Container { file, addresses: Addresses { ranges, taken: Vec::new() }, mapped: Vec::new() })
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

    /// Has the function reach `region` no more. If the kernel refuses, the region is kept for good.
    ///
    /// # Errors
    /// [`VfioError::System`].
    pub(super) fn unmap(&mut self, region: &Rc<Region>) -> Result<(), VfioError> {
        let Some(index) = self.mapped.iter().position(|(_, mapped)| Rc::ptr_eq(mapped, region)) else { return Ok(()) };
        let (device_address, region) = self.mapped.swap_remove(index);
        let bytes = region.length() as u64;
        let mut unmap = DmaUnmap { size: size_of::<DmaUnmap>() as u32, flags: 0, device_address, bytes };
        let outcome = call::with_argument(self.file.as_fd(), IOMMU_UNMAP_DMA, &mut unmap);
        if let Err(source) = outcome {
            std::mem::forget(region);
            return Err(VfioError::system(format!("unmap {bytes} bytes of a function"), source));
        }
        self.addresses.give_back(device_address);
        Ok(())
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
        let mut addresses = Addresses { ranges, taken: Vec::new() };
        assert_eq!(addresses.take(4_096), Some(GRAIN));
        assert_eq!(addresses.take(4 << 20), Some(3 * GRAIN), "there is a gap between two");
        assert_eq!(addresses.take(0xfe40_0000), Some(0xff00_0000), "the hole is left out");
        assert_eq!(addresses.take(1 << 40), None);
        assert_eq!(addresses.take(u64::MAX), None);
        addresses.give_back(3 * GRAIN);
        assert_eq!(addresses.take(8 << 20), Some(3 * GRAIN), "what was given back is given again");
        assert_eq!(addresses.take(4_096), Some(8 * GRAIN));
        addresses.give_back(GRAIN);
        assert_eq!(addresses.take(4_097), Some(GRAIN), "it fits before the next, with the gap");
        addresses.give_back(GRAIN);
        assert_eq!(addresses.take(GRAIN + 1), Some(10 * GRAIN), "here it would touch the gap");
    }

    #[test]
    fn lists_that_lead_nowhere_end() {
        assert_eq!(ranges_of(&[3, 24, 0], 24), []);
        assert_eq!(ranges_of(&[1, 0, u32::MAX, 0, 5], 24), []);
        assert_eq!(ranges_of(&[1, 0], 0), []);
        assert_eq!(ranges_of(&[1, 0], 4_000_000), []);
    }
}
