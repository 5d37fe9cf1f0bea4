//! [`Table`]: what there is of one kind, by handles with generations.

/// Slots from zero on. One that is free is used again, in another generation.
pub(super) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    content: Option<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A new one: its slot and generation.
    pub(super) fn add(&mut self, content: T) -> (u32, u32) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, content: None });
            self.slots.len() as u32 - 1
        });
        let Some(place) = self.slots.get_mut(slot as usize) else { return (slot, 0) };
        place.content = Some(content);
        (slot, place.generation)
    }

    /// The one of this handle, if it is still there.
    #[inline]
    pub(super) fn get(&self, (slot, generation): (usize, u32)) -> Option<&T> {
        self.slots.get(slot).filter(|place| place.generation == generation)?.content.as_ref()
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, (slot, generation): (usize, u32)) -> Option<&mut T> {
        self.slots.get_mut(slot).filter(|place| place.generation == generation)?.content.as_mut()
    }

    /// The one that is in a slot now.
    #[inline]
    pub(super) fn at(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)?.content.as_mut()
    }

    /// The generation of the one that is in a slot now.
    #[inline]
    pub(super) fn generation(&self, slot: u32) -> u32 {
        self.slots.get(slot as usize).map_or(0, |place| place.generation)
    }

    /// All that there are, with their slots.
    pub(super) fn each(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.slots).filter_map(|(slot, place)| Some((slot, place.content.as_ref()?)))
    }

    /// It is gone, and its handle with it.
    pub(super) fn remove(&mut self, slot: u32) -> Option<T> {
        let place = self.slots.get_mut(slot as usize)?;
        let content = place.content.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot);
        Some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_handles_are_refused() {
        let mut table = Table::default();
        let (slot, first) = table.add('a');
        assert_eq!(table.remove(slot), Some('a'));
        assert_eq!(table.remove(slot), None);
        let (again, second) = table.add('b');
        assert_eq!((again, table.count()), (slot, 1));
        assert_eq!((table.get((slot as usize, first)), table.get((slot as usize, second))), (None, Some(&'b')));
    }
}
