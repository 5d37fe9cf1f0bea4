//! [`Claims`]: frames of memory that another process has, taken by number for as long as a device uses them.

use crate::memory::{Frame, Pool, Region};
use std::rc::Rc;

/// The frames of a region that others fill and empty: each is claimed by its number, and free again once it is dropped.
#[derive(Debug)]
pub struct Claims {
    pool: Pool,
    /// By frame: it is claimed.
    claimed: Vec<bool>,
}

impl Claims {
    /// Over a region none of whose frames is in a pool; `None`: some are.
    pub fn new(region: &Rc<Region>) -> Option<Claims> {
        let count = region.frame_count();
        (region.unassigned_count() == count)
            .then(|| Claims { pool: region.absent_pool(), claimed: vec![false; count as usize] })
    }

    /// Claims frame `index`, with its `length` bytes from `start` on as data. `None`: it is claimed already, or there is no such, or the
    /// bytes are not within it.
    #[inline]
    pub fn take(&mut self, index: u32, start: u32, length: u32) -> Option<Frame> {
        while let Some(dropped) = self.pool.take_free() {
            if let Some(claimed) = self.claimed.get_mut(dropped as usize) {
                *claimed = false;
            }
        }
        if start.checked_add(length)? > self.pool.region().frame_size() {
            return None;
        }
        let claimed = self.claimed.get_mut(index as usize).filter(|claimed| !**claimed)?;
        *claimed = true;
        // SAFETY: the frame exists and is not claimed, so no other handle to it is in this process; the window is within it.
        Some(unsafe { self.pool.redeem(index, start, length, false) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_claimed_once() {
        let region = Region::new(4, 4_096).unwrap();
        let mut claims = Claims::new(&region).unwrap();
        let first = claims.take(2, 512, 1_024).unwrap();
        assert_eq!((first.index(), first.headroom(), first.len()), (2, 512, 1_024));
        assert!(claims.take(2, 0, 512).is_none(), "it is claimed");
        assert!(claims.take(4, 0, 512).is_none(), "there is no such frame");
        for (start, length) in [(4_096, 1), (1, 4_096), (u32::MAX, 1), (1, u32::MAX)] {
            assert!(claims.take(1, start, length).is_none(), "{start} {length}");
        }
        assert!(claims.take(1, 0, 4_096).is_some(), "what was refused is not claimed");
        drop(first);
        assert!(claims.take(2, 0, 0).is_some());
        assert!(Claims::new(&region).is_none(), "its frames are in a pool");
    }
}
