//! [`GuestMemory`]: the memory a driver registered with a controller, by the addresses that its commands name.

use qanat_nic::{Frame, Region};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The memory a driver registered, which it may write at any time: what is read is read once, and then judged.
pub trait GuestMemory {
    /// Whether `bytes` from `address` on are all of one piece of registered memory.
    fn contains(&self, address: u64, bytes: u64) -> bool;

    /// Copies from memory; `false`, and nothing is copied: it is not registered.
    fn read(&self, address: u64, target: &mut [u8]) -> bool;

    /// Copies to memory; `false`, and nothing is copied: it is not registered.
    fn write(&self, address: u64, source: &[u8]) -> bool;

    /// Loads words of 64 bits from an address that is a multiple of 8, each once; `false`: it is not registered, or no multiple.
    fn load(&self, address: u64, words: &mut [u64]) -> bool;

    /// Stores a word of 64 bits, after all that was written before; `false`: as for [`load`](GuestMemory::load).
    fn store(&self, address: u64, word: u64) -> bool;

    /// Loads 32 bits from an address that is a multiple of 4; `None`: it is not registered, or no multiple.
    fn load_half(&self, address: u64) -> Option<u32>;

    /// Stores 32 bits; `false`: as for [`load_half`](GuestMemory::load_half).
    fn store_half(&self, address: u64, value: u32) -> bool;

    /// The memory itself as a frame whose data is these bytes, if the backend can use it: then there is no copy. Nobody else here uses
    /// it until the frame is dropped; memory that is lent already is not lent again. `None`: the data are copied.
    fn lend(&self, _address: u64, _bytes: usize) -> Option<Frame> {
        None
    }
}

/// Regions of this process, each at an address of its own.
#[derive(Debug)]
pub struct RegionMemory {
    pieces: Vec<(u64, Rc<Region>)>,
}

impl RegionMemory {
    /// Regions, and where each begins. Their frames are writable in this process.
    pub fn new(pieces: Vec<(u64, Rc<Region>)>) -> RegionMemory {
        RegionMemory { pieces }
    }

    /// Where `bytes` from `address` on lie in this process.
    #[inline]
    fn place(&self, address: u64, bytes: u64) -> Option<NonNull<u8>> {
        for (start, region) in &self.pieces {
            let Some(offset) = address.checked_sub(*start) else { continue };
            if offset.checked_add(bytes).is_some_and(|end| end <= region.length() as u64) {
                return NonNull::new(std::ptr::with_exposed_provenance_mut(region.addresses().start + offset as usize));
            }
        }
        None
    }
}

impl GuestMemory for RegionMemory {
    #[inline]
    fn contains(&self, address: u64, bytes: u64) -> bool {
        self.place(address, bytes).is_some()
    }

    #[inline]
    fn read(&self, address: u64, target: &mut [u8]) -> bool {
        let Some(place) = self.place(address, target.len() as u64) else { return false };
        // SAFETY: `place` is within a region, which is mapped as long as it is held here, and so are as many bytes after it. The driver
        // may write them meanwhile: they are copied once, and nothing is derived from them but what is stored. `target` is a buffer
        // of the controller's, not of a region registered here.
        unsafe { std::ptr::copy_nonoverlapping(place.as_ptr(), target.as_mut_ptr(), target.len()) };
        true
    }

    #[inline]
    fn write(&self, address: u64, source: &[u8]) -> bool {
        let Some(place) = self.place(address, source.len() as u64) else { return false };
        // SAFETY: as in `read`; the driver has given these bytes to a command that is under way, so it has no reference to them.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), place.as_ptr(), source.len()) };
        true
    }

    #[inline]
    fn load(&self, address: u64, words: &mut [u64]) -> bool {
        let Some(place) = self.place(address, 8 * words.len() as u64) else { return false };
        if !place.addr().get().is_multiple_of(8) {
            return false;
        }
        for (index, word) in words.iter_mut().enumerate() {
            // SAFETY: as in `read`, and aligned: regions begin with a page.
            *word = unsafe { AtomicU64::from_ptr(place.add(8 * index).cast::<u64>().as_ptr()) }.load(Ordering::Acquire);
        }
        true
    }

    #[inline]
    fn store(&self, address: u64, word: u64) -> bool {
        let Some(place) = self.place(address, 8).filter(|place| place.addr().get().is_multiple_of(8)) else {
            return false;
        };
        // SAFETY: as in `load`.
        unsafe { AtomicU64::from_ptr(place.cast::<u64>().as_ptr()) }.store(word, Ordering::Release);
        true
    }

    #[inline]
    fn load_half(&self, address: u64) -> Option<u32> {
        let place = self.place(address, 4).filter(|place| place.addr().get().is_multiple_of(4))?;
        // SAFETY: as in `load`.
        Some(u32::from_le(unsafe { AtomicU32::from_ptr(place.cast::<u32>().as_ptr()) }.load(Ordering::Acquire)))
    }

    #[inline]
    fn store_half(&self, address: u64, value: u32) -> bool {
        let Some(place) = self.place(address, 4).filter(|place| place.addr().get().is_multiple_of(4)) else {
            return false;
        };
        // SAFETY: as in `load`.
        unsafe { AtomicU32::from_ptr(place.cast::<u32>().as_ptr()) }.store(value.to_le(), Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_registered_is_reached() {
        let region = Region::new(2, 4_096).unwrap();
        let memory = RegionMemory::new(vec![(0x1_0000, Rc::clone(&region)), (u64::MAX - 8_191, region)]);
        assert!(memory.write(0x1_1ff8, &[7; 8]));
        let mut words = [0; 2];
        assert!(memory.load(0x1_1ff8, &mut words[..1]) && words[0] == 0x0707_0707_0707_0707);
        assert!(!memory.load(0x1_1ff8, &mut words), "beyond the end");
        assert!(!memory.load(0x1_1ff4, &mut words[..1]), "no multiple of 8");
        assert!(!memory.write(0x1_2000, &[0]) && !memory.read(0xffff, &mut [0; 2]));
        assert!(memory.contains(0x1_2000, 0) && !memory.contains(0x1_2001, 0) && !memory.contains(0, 1));
        assert!(memory.contains(u64::MAX - 8_191, 8_192) && !memory.contains(u64::MAX, u64::MAX));
        assert!(memory.store_half(0x1_0004, 5) && memory.load_half(0x1_0004) == Some(5));
        assert!(memory.load_half(0x1_0002).is_none() && !memory.store(0x1_0004, 1));
    }
}
