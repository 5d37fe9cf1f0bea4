//! [`Set`]: members without order. A small one is packed into one piece of memory, as small hashes are.

use crate::keyspace::packed::Packed;
use crate::resp::number::integer;
use indexmap::IndexSet;

/// What a member costs in a record besides its bytes.
const MEMBER_BYTES: usize = 6;

/// A set. Members have places, by which it is scanned, and one is chosen by chance.
#[derive(Clone, Debug, Default)]
pub struct Set {
    members: Members,
    bytes: usize,
    is_large: bool,
}

type Table = IndexSet<Box<[u8]>>;

/// Once a table, it stays one. Packed members are fields without values.
#[derive(Clone, Debug)]
enum Members {
    Packed(Packed),
    Table(Box<Table>),
}

impl Default for Members {
    fn default() -> Members {
        Members::Packed(Packed::default())
    }
}

impl Set {
    /// Bytes of its record, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of its members alone.
    pub fn content_bytes(&self) -> usize {
        self.bytes - MEMBER_BYTES * self.len()
    }

    /// The piece of memory that has all of it, in bytes, if it is packed.
    pub fn packed_bytes(&self) -> Option<usize> {
        match &self.members {
            Members::Packed(packed) => Some(packed.room()),
            Members::Table(_) => None,
        }
    }

    /// How many members.
    pub fn len(&self) -> usize {
        match &self.members {
            Members::Packed(packed) => packed.count(),
            Members::Table(table) => table.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it has this member.
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.members {
            Members::Packed(packed) => packed.get(member).is_some(),
            Members::Table(table) => table.contains(member),
        }
    }

    /// The member at a place. That takes as long as a packed set has members, which are few.
    pub fn at(&self, index: usize) -> Option<&[u8]> {
        match &self.members {
            Members::Packed(packed) => packed.iter().nth(index).map(|(member, _)| member),
            Members::Table(table) => table.get_index(index).map(AsRef::as_ref),
        }
    }

    /// All, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let (packed, table) = match &self.members {
            Members::Packed(packed) => (Some(packed), None),
            Members::Table(table) => (None, Some(table)),
        };
        let packed = packed.into_iter().flat_map(Packed::iter).map(|(member, _)| member);
        packed.chain(table.into_iter().flat_map(|table| table.iter()).map(AsRef::as_ref))
    }

    /// Adds one. A set of more than so many integers is large from then on.
    pub fn insert(&mut self, member: &[u8], small: usize) {
        let put = match &mut self.members {
            Members::Packed(packed) => packed.set(member, &[]).map(|before| before.is_none()),
            Members::Table(_) => None,
        };
        let is_new = put.unwrap_or_else(|| {
            let mut table = match std::mem::take(&mut self.members) {
                Members::Packed(packed) => Box::new(packed.iter().map(|(member, _)| member.into()).collect()),
                Members::Table(table) => table,
            };
            let is_new = table.insert(member.into());
            self.members = Members::Table(table);
            is_new
        });
        if is_new {
            self.bytes += MEMBER_BYTES + member.len();
            self.is_large |= self.len() > small || integer(member).is_none();
        }
    }

    /// Removes one. The last one takes its place.
    pub fn remove(&mut self, member: &[u8]) {
        let is_gone = match &mut self.members {
            Members::Packed(packed) => packed.remove(member).is_some(),
            Members::Table(table) => table.swap_remove(member),
        };
        if is_gone {
            self.bytes -= MEMBER_BYTES + member.len();
        }
    }

    /// As `OBJECT ENCODING` names it.
    pub fn encoding(&self) -> &'static str {
        if self.is_large { "hashtable" } else { "intset" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member() -> impl Strategy<Value = Vec<u8>> {
        (0..250_u8, prop_oneof![8 => 1..12_usize, 1 => 250..260_usize])
            .prop_map(|(number, length)| format!("{number:0length$}").into_bytes())
    }

    proptest! {
        /// Packed or not, it is what a table is, places included.
        #[test]
        fn it_is_a_table_however_it_lies(
            changes in proptest::collection::vec((member(), proptest::bool::weighted(0.8)), 1..400),
        ) {
            let (mut set, mut model) = (Set::default(), IndexSet::<Vec<u8>>::new());
            for (member, is_added) in changes {
                if is_added {
                    set.insert(&member, 512);
                    model.insert(member);
                } else {
                    set.remove(&member);
                    model.swap_remove(&member);
                }
                prop_assert!(set.iter().eq(model.iter().map(Vec::as_slice)));
                prop_assert_eq!(set.len(), model.len());
                prop_assert_eq!(set.content_bytes(), model.iter().map(Vec::len).sum::<usize>());
            }
            for (place, member) in model.iter().enumerate() {
                prop_assert!(set.contains(member));
                prop_assert_eq!(set.at(place), Some(member.as_slice()));
            }
            prop_assert!(set.at(model.len()).is_none() && !set.contains(b"nosuch"));
        }
    }

    #[test]
    fn a_set_of_more_than_it_can_pack_is_a_table_from_then_on() {
        let mut set = Set::default();
        (0..128).for_each(|number| set.insert(number.to_string().as_bytes(), 512));
        assert!(set.packed_bytes().is_some_and(|bytes| bytes < 128 * 5));
        set.insert(b"128", 512);
        set.remove(b"128");
        assert_eq!((set.packed_bytes(), set.len(), set.encoding()), (None, 128, "intset"));
        let mut set = Set::default();
        set.insert(&[b'a'; 256], 512);
        assert_eq!((set.packed_bytes(), set.encoding()), (None, "hashtable"));
    }
}
