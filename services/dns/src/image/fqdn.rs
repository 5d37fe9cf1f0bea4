//! The thesis's second design: names looked up as text (`www.example.com.`), copied out of the question first. Slower by the
//! copy, and indifferent to how the question wrote the name; kept to be measured against words hashed in place
//! ([`hash`](super::hash)). Compressed names need neither: a question has nothing before it to point to, and gets FORMERR.

use super::arena::Arena;
use super::hash;
use super::node::{Node, NodeReference};
use super::table::Table;
use crate::name::NAME_BYTES_MAX;

/// A table of names by the hash of their text.
#[derive(Debug)]
pub(super) struct FqdnIndex {
    /// As the image's own, by other hashes.
    table: Table,
}

/// A name as text, after as many bytes as hashing wants before it.
type Text = [u8; hash::BEFORE + NAME_BYTES_MAX];

/// Writes the name at `start..end` of `message` as text in small letters; gives where it ends.
#[inline(always)]
fn write_text(message: &[u8], start: usize, end: usize, text: &mut Text) -> usize {
    let (mut at, mut to) = (start, hash::BEFORE);
    while let Some(length) = message.get(at).map(|length| usize::from(*length)).filter(|length| *length != 0) {
        let label = message.get(at + 1..(at + 1 + length).min(end)).unwrap_or_default();
        for (target, byte) in text.get_mut(to..).unwrap_or_default().iter_mut().zip(label) {
            *target = byte.to_ascii_lowercase();
        }
        to += label.len();
        if let Some(target) = text.get_mut(to) {
            *target = b'.';
            to += 1;
        }
        at += length + 1;
    }
    to.min(text.len())
}

/// Hash of the name at `start..end` of `message` as text.
#[inline(always)]
fn text_hash(message: &[u8], start: usize, end: usize) -> u64 {
    let mut text = [0; hash::BEFORE + NAME_BYTES_MAX];
    let text_end = write_text(message, start, end, &mut text);
    hash::hash(&text, hash::BEFORE, text_end)
}

impl FqdnIndex {
    /// An index of these `count` nodes.
    pub(super) fn new(arena: &Arena, references: impl Iterator<Item = NodeReference>, count: usize) -> FqdnIndex {
        let names = references.map(|reference| {
            let name = arena.node(reference).name();
            (text_hash(name, 0, name.len()), reference)
        });
        FqdnIndex { table: Table::new(count, names) }
    }

    /// The node of the name at `start..end` of `message`. (`cold`: it is there to be measured.)
    #[cold]
    #[inline]
    pub(super) fn find<'z>(&self, arena: &'z Arena, message: &[u8], start: usize, end: usize) -> Option<Node<'z>> {
        let hash = text_hash(message, start, end);
        self.table.find(arena, hash, message, start, end)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::ZoneImage;
    use crate::name::Name;
    use crate::zone::parse::read_text;
    use std::path::Path;

    #[test]
    fn both_ways_find_the_same() {
        let text =
            "$TTL 60\n@ SOA a. b. 1 2 3 4 5\n$GENERATE 1-300 h$.x A 192.0.2.1\na\\.b TXT x\na.b TXT y\n* TXT z\n";
        let (zone, _) = read_text(&Name::absolute("example.com").unwrap(), Path::new("z"), text).unwrap();
        let plain = ZoneImage::compile(&zone, &mut |_| {}).unwrap();
        let indexed = ZoneImage::compile(&zone, &mut |_| {}).unwrap().with_text_index();
        for name in [
            "example.com",
            "h7.x.example.com",
            "H299.X.example.COM",
            "x.example.com",
            "a.b.example.com",
            "a\\.b.example.com",
            "*.example.com",
            "h301.x.example.com",
            "com",
            ".",
        ] {
            let mut message = vec![0; hash::BEFORE];
            message.extend_from_slice(Name::absolute(name).unwrap().wire());
            let found =
                |image: &ZoneImage| image.find(&message, hash::BEFORE, message.len()).map(|node| node.reference());
            assert_eq!(found(&plain), found(&indexed), "{name}");
        }
    }
}
