//! Commands by name, found in one look: each request asks for one.

/// No command's name is longer, in bytes.
pub const NAME_BYTES_MAX: usize = 31;
/// Places for names: four times as many as there are commands, so that a look rarely goes on to the next place.
const SLOTS: usize = 1_024;

/// A name in small letters, with 255 and zeroes behind it: two of them are compared in four steps.
type Name = [u64; NAME_BYTES_MAX.div_ceil(8)];

/// Which place of the table has the command of a name.
pub struct Names {
    /// One more than a place in `names`; 0: empty. At least one is.
    slots: Box<[u16; SLOTS]>,
    /// The table's names, in its order.
    names: Vec<Name>,
}

/// `None`: it is longer than any.
fn normal(name: &[u8]) -> Option<Name> {
    let mut bytes = [0_u8; NAME_BYTES_MAX + 1];
    *bytes.get_mut(name.len())? = 255;
    bytes.get_mut(..name.len())?.copy_from_slice(name);
    bytes.make_ascii_lowercase();
    let mut words = Name::default();
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Some(words)
}

/// The first slot to look at. The table is ours, so nobody can choose names that share a slot.
fn slot_of(name: &Name) -> usize {
    let mixed = name.iter().fold(0_u64, |sum, word| (sum.rotate_left(29) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (mixed >> 54) as usize
}

impl Names {
    /// Of a table with these names, each of at most [`NAME_BYTES_MAX`] bytes. Longer ones are not found.
    pub fn of<'a>(table: impl Iterator<Item = &'a str>) -> Names {
        let mut names = Names { slots: Box::new([0; SLOTS]), names: Vec::new() };
        for name in table.take(SLOTS / 2) {
            let name = normal(name.as_bytes()).unwrap_or_default();
            names.names.push(name);
            let free = Names::slots_from(&name).find(|&slot| names.slots.get(slot) == Some(&0));
            if let Some(slot) = free.and_then(|slot| names.slots.get_mut(slot)) {
                *slot = names.names.len() as u16;
            }
        }
        names
    }

    /// Slots to look at, one after the other.
    fn slots_from(name: &Name) -> impl Iterator<Item = usize> + use<> {
        let first = slot_of(name);
        (0..SLOTS).map(move |step| (first + step) % SLOTS)
    }

    /// The place of the command of this name, in letters of any size.
    pub fn place(&self, name: &[u8]) -> Option<usize> {
        let name = normal(name)?;
        for slot in Names::slots_from(&name) {
            let place = usize::from(*self.slots.get(slot)?).checked_sub(1)?;
            if self.names.get(place) == Some(&name) {
                return Some(place);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_in_the_table_is_found_and_nothing_else(
            table in proptest::collection::btree_set("[a-z|0-9-]{1,31}", 1..400),
            others in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..50),
        ) {
            let names = Names::of(table.iter().map(String::as_str));
            for (place, name) in table.iter().enumerate() {
                prop_assert_eq!(names.place(name.as_bytes()), Some(place));
                prop_assert_eq!(names.place(&name.to_ascii_uppercase().into_bytes()), Some(place));
                for other in [&[name.as_bytes(), b"\0"].concat(), &name.as_bytes()[1..], &[name.as_bytes(), b"\xff"].concat()] {
                    prop_assert_eq!(names.place(other), table.iter().position(|name| name.as_bytes() == other));
                }
            }
            for other in others {
                let small = other.to_ascii_lowercase();
                prop_assert_eq!(names.place(&other), table.iter().position(|name| name.as_bytes() == small));
            }
        }
    }
}
