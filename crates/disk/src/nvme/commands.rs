//! [`Commands`]: what is under way, by command identifier.
//!
//! An identifier is a number, which is used again, and how often it was used: one that was answered is not under way any more,
//! even when its number is.

/// Commands that may be under way in one queue pair.
pub(super) const COMMANDS_MAX: u32 = 256;
/// Uses of a number until its identifier comes again. One less than 256, so that none is 0xffff, which means any command.
const USES: u16 = 255;

struct Slot<T> {
    uses: u16,
    value: Option<T>,
}

/// Values by command identifier.
pub(super) struct Commands<T> {
    slots: Box<[Slot<T>]>,
    /// Numbers that are free: the last used is used first, its memory being near.
    free: Vec<u8>,
}

impl<T> Commands<T> {
    /// For `count` at once, at most [`COMMANDS_MAX`].
    pub(super) fn new(count: u32) -> Commands<T> {
        let count = count.min(COMMANDS_MAX);
        let slots = (0..count).map(|_| Slot { uses: 0, value: None }).collect();
        Commands { slots, free: (0..count).rev().map(|index| index as u8).collect() }
    }

    /// How many there are.
    #[inline]
    pub(super) fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The number of the next one.
    #[inline]
    pub(super) fn next_index(&self) -> Option<usize> {
        self.free.last().map(|index| usize::from(*index))
    }

    /// Keeps `value`; its identifier.
    ///
    /// # Errors
    /// Gives it back if there is no room.
    #[inline]
    pub(super) fn put(&mut self, value: T) -> Result<u16, T> {
        let Some(index) = self.free.pop() else { return Err(value) };
        let Some(slot) = self.slots.get_mut(usize::from(index)) else { return Err(value) };
        slot.value = Some(value);
        Ok(slot.uses << 8 | u16::from(index))
    }

    /// Takes what is under way by this identifier.
    #[inline]
    pub(super) fn take(&mut self, identifier: u16) -> Option<T> {
        let index = identifier as u8;
        let slot = self.slots.get_mut(usize::from(index))?;
        if slot.uses != identifier >> 8 {
            return None;
        }
        let value = slot.value.take()?;
        slot.uses = (slot.uses + 1) % USES;
        self.free.push(index);
        Some(value)
    }

    /// Takes any one.
    pub(super) fn take_any(&mut self) -> Option<T> {
        let index = self.slots.iter().position(|slot| slot.value.is_some())?;
        let uses = self.slots.get(index)?.uses;
        self.take(uses << 8 | index as u16)
    }

    /// All of them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_not_used_again_soon() {
        let mut commands = Commands::new(256);
        let mut seen = std::collections::BTreeSet::new();
        for round in 0..255 {
            let identifiers: Vec<u16> = (0..256).map(|value| commands.put(value).unwrap()).collect();
            assert_eq!((commands.put(0), commands.next_index()), (Err(0), None));
            for (value, identifier) in identifiers.into_iter().enumerate() {
                assert!(identifier != 0xffff && seen.insert(identifier), "round {round}");
                assert_eq!(commands.take(identifier), Some(value));
                assert_eq!(commands.take(identifier), None);
            }
        }
        assert_eq!(commands.under_way(), 0);
    }
}
