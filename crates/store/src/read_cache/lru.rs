//! [`Lru`]: what was not used for longest leaves.

use super::policy::Policy;

/// No slot.
const NONE: usize = usize::MAX;

/// The neighbours of a slot in the order of use.
#[derive(Clone, Copy, Debug)]
struct Links {
    older: usize,
    newer: usize,
}

/// Least recently used. One walk over more than the cache holds empties it of all else.
#[derive(Debug)]
pub struct Lru {
    links: Vec<Links>,
    oldest: usize,
    newest: usize,
}

impl Default for Lru {
    fn default() -> Lru {
        Lru { links: Vec::new(), oldest: NONE, newest: NONE }
    }
}

impl Lru {
    fn unlink(&mut self, slot: usize) {
        let Some(Links { older, newer }) = self.links.get(slot).copied() else { return };
        match self.links.get_mut(older) {
            Some(links) => links.newer = newer,
            None => self.oldest = newer,
        }
        match self.links.get_mut(newer) {
            Some(links) => links.older = older,
            None => self.newest = older,
        }
    }

    fn link_as_newest(&mut self, slot: usize) {
        if slot >= self.links.len() {
            self.links.resize(slot + 1, Links { older: NONE, newer: NONE });
        }
        let older = std::mem::replace(&mut self.newest, slot);
        match self.links.get_mut(older) {
            Some(links) => links.newer = slot,
            None => self.oldest = slot,
        }
        if let Some(links) = self.links.get_mut(slot) {
            *links = Links { older, newer: NONE };
        }
    }
}

impl Policy for Lru {
    fn inserted(&mut self, slot: usize, _fingerprint: u64) {
        self.link_as_newest(slot);
    }

    fn used(&mut self, slot: usize) {
        self.unlink(slot);
        self.link_as_newest(slot);
    }

    fn victim(&mut self) -> Option<usize> {
        let slot = Some(self.oldest).filter(|slot| *slot != NONE)?;
        self.unlink(slot);
        Some(slot)
    }

    fn clear(&mut self) {
        *self = Lru::default();
    }
}
