//! [`Set`]: members without order.

use crate::resp::number::integer;
use indexmap::IndexSet;

/// What a member costs in a record besides its bytes.
const MEMBER_BYTES: usize = 6;

/// A set. Members have places, by which it is scanned, and one is chosen by chance.
#[derive(Clone, Debug, Default)]
pub struct Set {
    members: IndexSet<Box<[u8]>>,
    bytes: usize,
    is_large: bool,
}

impl Set {
    /// Bytes of its record, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of its members alone.
    pub fn content_bytes(&self) -> usize {
        self.bytes - MEMBER_BYTES * self.members.len()
    }

    /// How many members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it has this member.
    pub fn contains(&self, member: &[u8]) -> bool {
        self.members.contains(member)
    }

    /// The member at a place.
    pub fn at(&self, index: usize) -> Option<&[u8]> {
        self.members.get_index(index).map(AsRef::as_ref)
    }

    /// All, in the order of their places.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.members.iter().map(AsRef::as_ref)
    }

    /// Adds one. A set of more than so many integers is large from then on.
    pub fn insert(&mut self, member: &[u8], small: usize) {
        if !self.members.contains(member) {
            self.members.insert(member.into());
            self.bytes += MEMBER_BYTES + member.len();
            self.is_large |= self.members.len() > small || integer(member).is_none();
        }
    }

    /// Removes one. The last one takes its place.
    pub fn remove(&mut self, member: &[u8]) {
        if self.members.swap_remove(member) {
            self.bytes -= MEMBER_BYTES + member.len();
        }
    }

    /// As `OBJECT ENCODING` names it.
    pub fn encoding(&self) -> &'static str {
        if self.is_large { "hashtable" } else { "intset" }
    }
}
