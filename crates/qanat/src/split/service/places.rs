//! A service's listeners and sockets, which outlive net cores: each keeps its handle, whatever handle the next net core
//! gives. A place that is free is used again, under another generation.

use qanat_abi::Id;
use qanat_stack::{CommandError, ListenerId, UdpSocketId};
use std::marker::PhantomData;
use std::net::SocketAddr;

/// A handle of the service's.
pub(crate) trait Handle: Copy {
    fn make(slot: u32, generation: u32) -> Self;
    fn parts(self) -> (usize, u32);
}

macro_rules! handle {
    ($($kind:ty),*) => {$(
        impl Handle for $kind {
            fn make(slot: u32, generation: u32) -> Self {
                Self::new(slot, generation)
            }

            fn parts(self) -> (usize, u32) {
                (self.index(), self.generation())
            }
        }
    )*};
}
handle!(ListenerId, UdpSocketId);

struct Place {
    generation: u32,
    /// `None`: the place is free.
    local: Option<SocketAddr>,
    backlog: u32,
    /// The net core's handle, while there is one.
    remote: Option<Id>,
}

/// Places of one kind.
pub(crate) struct Places<H> {
    places: Vec<Place>,
    kind: PhantomData<H>,
}

impl<H> Default for Places<H> {
    fn default() -> Places<H> {
        Places { places: Vec::new(), kind: PhantomData }
    }
}

impl<H: Handle> Places<H> {
    /// A new one, which the net core knows as `remote`.
    pub(crate) fn add(&mut self, local: SocketAddr, backlog: u32, remote: Option<Id>) -> H {
        // Few, and seldom made: looked for one by one.
        let free = self.places.iter().position(|place| place.local.is_none());
        let slot = free.unwrap_or_else(|| {
            self.places.push(Place { generation: 0, local: None, backlog: 0, remote: None });
            self.places.len() - 1
        });
        let place = &mut self.places[slot];
        (place.local, place.backlog, place.remote) = (Some(local), backlog, remote);
        H::make(slot as u32, place.generation)
    }

    fn at(&self, handle: H) -> Result<usize, CommandError> {
        let (slot, generation) = handle.parts();
        let is_it = |place: &Place| place.generation == generation && place.local.is_some();
        self.places.get(slot).filter(|place| is_it(place)).map(|_| slot).ok_or(CommandError::Stale)
    }

    /// It is closed: what the net core knew it as.
    pub(crate) fn remove(&mut self, handle: H) -> Result<Option<Id>, CommandError> {
        let slot = self.at(handle)?;
        let place = &mut self.places[slot];
        (place.local, place.generation) = (None, place.generation.wrapping_add(1));
        Ok(place.remote.take())
    }

    /// The net core's handle; `None`: there is no net core now.
    pub(crate) fn remote(&self, handle: H) -> Result<Option<Id>, CommandError> {
        Ok(self.places[self.at(handle)?].remote)
    }

    /// Whose the net core's slot is.
    pub(crate) fn handle_of(&self, slot: u32) -> Option<H> {
        let index = self.places.iter().position(|place| place.remote.is_some_and(|id| id.slot == slot))?;
        Some(H::make(index as u32, self.places.get(index)?.generation))
    }

    /// All there are, to be made anew.
    pub(crate) fn all(&self) -> Vec<(H, SocketAddr, u32)> {
        let handle = |slot: usize, place: &Place| H::make(slot as u32, place.generation);
        let all = self.places.iter().enumerate();
        all.filter_map(|(slot, place)| Some((handle(slot, place), place.local?, place.backlog))).collect()
    }

    /// The next net core knows it as `remote`.
    pub(crate) fn found(&mut self, handle: H, remote: Id) {
        if let Ok(slot) = self.at(handle) {
            self.places[slot].remote = Some(remote);
        }
    }

    pub(crate) fn net_core_is_lost(&mut self) {
        self.places.iter_mut().for_each(|place| place.remote = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_old_handles_are_not() {
        let mut places = Places::<UdpSocketId>::default();
        let local = SocketAddr::from(([10, 0, 0, 1], 53));
        let remote = |slot| Id { slot, generation: 9 };
        let first = places.add(local, 0, Some(remote(3)));
        let second = places.add(local, 0, Some(remote(4)));
        assert_eq!((places.handle_of(3), places.handle_of(4), places.handle_of(0)), (Some(first), Some(second), None));
        assert_eq!(places.remove(first), Ok(Some(remote(3))));
        assert_eq!(places.remove(first), Err(CommandError::Stale));
        for round in 0..1_000 {
            let again = places.add(local, 0, Some(remote(5)));
            assert!(again != first && again.index() == first.index(), "{round}");
            assert_eq!((places.remote(again), places.remote(first)), (Ok(Some(remote(5))), Err(CommandError::Stale)));
            places.remove(again).unwrap();
        }
        assert_eq!(places.places.len(), 2);
        places.net_core_is_lost();
        assert_eq!((places.remote(second), places.handle_of(4)), (Ok(None), None));
        assert_eq!(places.all(), [(second, local, 0)]);
        places.found(second, remote(0));
        assert_eq!(places.handle_of(0), Some(second));
    }
}
