//! [`Registered`]: the memory that a ring's buffers are of, registered with the kernel, so that no request has its pages pinned.

use super::ring::Ring;
use crate::error::OpenError;
use qanat_nic::{Frame, Region};
use std::io;
use std::ops::Range;
use std::rc::Rc;

fn vector_of(addresses: &Range<usize>) -> libc::iovec {
    libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(addresses.start), iov_len: addresses.len() }
}

/// Registered memory, by its number.
pub(super) struct Registered {
    /// `None`: there is room for more.
    places: Vec<Option<(Range<usize>, Rc<Region>)>>,
}

impl Registered {
    /// Registers memory, numbered from 0, with room for `more` pieces that come later. It must be dropped after the ring.
    ///
    /// # Errors
    /// [`OpenError::Memory`].
    pub(super) fn new(ring: &Ring, regions: Vec<Rc<Region>>, more: u16) -> Result<Registered, OpenError> {
        let mut places: Vec<_> = regions.into_iter().map(|region| Some((region.addresses(), region))).collect();
        let vectors: Vec<libc::iovec> = places.iter().flatten().map(|(addresses, _)| vector_of(addresses)).collect();
        let refused = |error| OpenError::Memory { bytes: vectors.iter().map(|vector| vector.iov_len).sum(), error };
        let submitter = ring.submitter();
        if more > 0 {
            places.resize(places.len() + usize::from(more), None);
            submitter.register_buffers_sparse(places.len() as u32).map_err(refused)?;
            // SAFETY: the regions are mapped as long as this holds them, and the ring is dropped before it.
            unsafe { submitter.register_buffers_update(0, &vectors, None) }.map_err(refused)?;
        } else {
            // SAFETY: as above.
            unsafe { submitter.register_buffers(&vectors) }.map_err(refused)?;
        }
        Ok(Registered { places })
    }

    /// Registers one more.
    ///
    /// # Errors
    /// What the kernel says; `ENOSPC`: there is no room.
    pub(super) fn add(&mut self, ring: &Ring, region: &Rc<Region>) -> io::Result<()> {
        let free = self.places.iter().position(Option::is_none);
        let index = free.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOSPC))?;
        let addresses = region.addresses();
        // SAFETY: the region is mapped as long as this holds it, which is until the kernel has let go of it.
        unsafe { ring.submitter().register_buffers_update(index as u32, &[vector_of(&addresses)], None) }?;
        if let Some(place) = self.places.get_mut(index) {
            *place = Some((addresses, Rc::clone(region)));
        }
        Ok(())
    }

    /// Takes one back. Requests under way keep its pages until they end.
    pub(super) fn remove(&mut self, ring: &Ring, region: &Rc<Region>) {
        let is_it =
            |place: &Option<(_, Rc<Region>)>| place.as_ref().is_some_and(|(_, found)| Rc::ptr_eq(found, region));
        let Some(index) = self.places.iter().position(is_it) else { return };
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: no memory is named.
        let taken = unsafe { ring.submitter().register_buffers_update(index as u32, &[nothing], None) };
        // If the kernel keeps it, so does this.
        if taken.is_ok()
            && let Some(place) = self.places.get_mut(index)
        {
            *place = None;
        }
    }

    /// The number of the memory that a frame is of.
    #[inline]
    pub(super) fn number_of(&self, frame: &Frame) -> Option<u16> {
        let address = frame.bytes().as_ptr().addr();
        let holds = |(addresses, _): &(Range<usize>, _)| addresses.contains(&address);
        self.places.iter().position(|place| place.as_ref().is_some_and(holds)).map(|index| index as u16)
    }

    /// Never unmaps it: the device may still write there.
    pub(super) fn give_up(&mut self) {
        self.places.drain(..).for_each(std::mem::forget);
    }
}
