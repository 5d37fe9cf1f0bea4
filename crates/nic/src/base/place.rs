//! Memory that another process can have at the same addresses: what a device is made of, so that it can be handed on together with
//! everything that points into it.
//!
//! Between [`begin`] and [`end`] devices are mapped from an address on that is out of the way of others, and each mapping is noted
//! with the file behind it. [`Place::map`] repeats it elsewhere.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Mappings begin at multiples of this: of large pages.
const GRAIN: usize = 2 << 20;

/// A shared mapping.
#[derive(Debug)]
pub struct Place {
    address: usize,
    length: usize,
    /// In the file, bytes.
    offset: u64,
    file: OwnedFd,
}

struct Places {
    next: usize,
    made: Vec<Place>,
}

thread_local! {
    static PLACES: RefCell<Option<Places>> = const { RefCell::new(None) };
}

/// From now on this thread's devices are mapped at `address` and behind it, if nothing else is there.
pub fn begin(address: usize) {
    PLACES.set(Some(Places { next: address, made: Vec::new() }));
}

/// What was mapped since [`begin`].
pub fn end() -> Vec<Place> {
    PLACES.take().map(|places| places.made).unwrap_or_default()
}

/// Whether it is after [`begin`].
pub(crate) fn is_on() -> bool {
    PLACES.with_borrow(Option::is_some)
}

/// Maps `length` bytes of a file, shared, readable and writable. After [`begin`] it chooses the address; otherwise the kernel does.
pub(crate) fn map(file: BorrowedFd<'_>, offset: u64, length: usize, flags: i32) -> io::Result<*mut libc::c_void> {
    let wish = PLACES.with_borrow(|places| places.as_ref().map_or(0, |places| places.next));
    let copy = is_on().then(|| file.try_clone_to_owned()).transpose()?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let wished = std::ptr::without_provenance_mut(wish);
    // SAFETY: a new mapping, at the address only if nothing is there, touches no existing memory.
    let address =
        unsafe { libc::mmap(wished, length, protection, libc::MAP_SHARED | flags, file.as_raw_fd(), offset as i64) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if let Some(file) = copy {
        PLACES.with_borrow_mut(|places| {
            let Some(places) = places.as_mut() else { return };
            places.next = places.next.saturating_add(length.next_multiple_of(GRAIN));
            places.made.push(Place { address: address.addr(), length, offset, file });
        });
    }
    Ok(address)
}

/// A mapping as plain numbers: for a process that keeps no memory in common with others.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Where it begins.
    pub address: usize,
    /// Bytes.
    pub length: usize,
    offset: u64,
    file: i32,
}

impl Extent {
    /// Maps it again where something else of this process's has taken its place.
    ///
    /// # Errors
    /// What `mmap` says.
    pub fn map_again(&self) -> io::Result<()> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let wished = std::ptr::without_provenance_mut(self.address);
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: the extent is of a mapping that this process has had there (`Place::map`), and which something else of this process's
        // has replaced: the caller has put that there, and holds no reference into it.
        let address = unsafe { libc::mmap(wished, self.length, protection, flags, self.file, self.offset as i64) };
        if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The numbers as text, for another program of this process's that [reads](Extent::read) it.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{} {} {} {}", self.address, self.length, self.offset, self.file)
    }

    /// What [`text`](Extent::text) wrote.
    #[must_use]
    pub fn read(text: &str) -> Option<Extent> {
        let mut words = text.split(' ');
        let (address, length) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Extent { address, length, offset: words.next()?.parse().ok()?, file: words.next()?.parse().ok()? })
    }
}

impl Place {
    /// Its numbers.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent { address: self.address, length: self.length, offset: self.offset, file: self.file.as_raw_fd() }
    }

    /// Maps the same memory here at the same address, so that pointers into it are as good in this process.
    ///
    /// # Errors
    /// `EEXIST`: something else is there; else what `mmap` says.
    pub fn map(&self) -> io::Result<()> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE;
        let wished = std::ptr::without_provenance_mut(self.address);
        let (file, offset) = (self.file.as_raw_fd(), self.offset as i64);
        // SAFETY: a new mapping, at the address only if nothing is there, touches no existing memory.
        let address = unsafe { libc::mmap(wished, self.length, protection, flags, file, offset) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Pointers come out of the other process's memory.
        let at = address.expose_provenance();
        if at == self.address {
            return Ok(());
        }
        // A kernel that doesn't know the flag maps it elsewhere.
        // SAFETY: mapped just now, and nobody's yet.
        unsafe { libc::munmap(address, self.length) };
        Err(io::Error::from_raw_os_error(libc::EEXIST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Region;

    #[test]
    fn what_is_mapped_is_noted() {
        begin(0x3000_0000_0000);
        let (region, _file) = Region::in_memory_file(4, 4_096).unwrap();
        let plain = Region::new(4, 4_096).unwrap();
        let made = end();
        assert_eq!(made.len(), 2, "whatever is for packets is noted");
        drop(plain);
        let there = made.iter().find(|place| place.address == 0x3000_0000_0000).expect("a place");
        assert!(there.length >= region.length());
        // It is there already.
        assert_eq!(there.map().unwrap_err().raw_os_error(), Some(libc::EEXIST));
        drop(region);
        there.map().unwrap();
        // SAFETY: mapped just now.
        unsafe { libc::munmap(std::ptr::without_provenance_mut(there.address), there.length) };
        let (elsewhere, _file) = Region::in_memory_file(4, 4_096).unwrap();
        assert!(!is_on() && end().is_empty());
        drop(elsewhere);
    }
}
