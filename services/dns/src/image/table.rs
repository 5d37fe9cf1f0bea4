//! Hashes of names and the nodes they may be: open addressing with linear probing.

use super::arena::Arena;
use super::memory::Memory;
use super::node::{Node, NodeReference};
use qanat::nic::prefetch;

/// An immutable table, at most half full.
#[derive(Debug)]
pub(super) struct Table {
    /// Entries of eight bytes: the upper half of a name's hash, and its node; 0: none.
    entries: Memory,
}

impl Table {
    /// A table of `count` names: their hashes and nodes.
    pub(super) fn new(count: usize, names: impl Iterator<Item = (u64, NodeReference)>) -> Table {
        let size = (count * 2).next_power_of_two().max(16);
        let mut memory = vec![0u8; size * 8];
        let entries = memory.as_chunks_mut::<8>().0;
        for (hash, reference) in names.take(count) {
            let mut slot = hash as usize & (size - 1);
            while entries.get(slot).is_some_and(|entry| *entry != [0; 8]) {
                slot = (slot + 1) & (size - 1);
            }
            if let Some(entry) = entries.get_mut(slot) {
                *entry = (hash >> 32 << 32 | u64::from(reference.0)).to_le_bytes();
            }
        }
        Table { entries: Memory::new(memory) }
    }

    /// The node in `arena` with the name at `start..end` of `message`, whose hash this is.
    #[inline(always)]
    pub(super) fn find<'z>(
        &self,
        arena: &'z Arena,
        hash: u64,
        message: &[u8],
        start: usize,
        end: usize,
    ) -> Option<Node<'z>> {
        let entries = self.entries();
        let mask = entries.len().wrapping_sub(1);
        let mut slot = hash as usize;
        // At most half full: an empty slot comes soon.
        let entry = loop {
            let entry = u64::from_le_bytes(*entries.get(slot & mask)?);
            if entry >> 32 == hash >> 32 {
                break entry;
            }
            if entry == 0 {
                return None;
            }
            slot = slot.wrapping_add(1);
        };
        // Most questions are in small letters, as what is stored, and few names have the same hash.
        let node = arena.node_at(NodeReference(entry as u32))?;
        if node.is_written(message, start, end) {
            return Some(node);
        }
        self.find_from(arena, (hash, slot), message, start, end)
    }

    /// Searches from a slot on, and compares letter by letter.
    #[cold]
    #[inline]
    fn find_from<'z>(
        &self,
        arena: &'z Arena,
        (hash, mut slot): (u64, usize),
        message: &[u8],
        start: usize,
        end: usize,
    ) -> Option<Node<'z>> {
        let entries = self.entries();
        let mask = entries.len().wrapping_sub(1);
        loop {
            let entry = u64::from_le_bytes(*entries.get(slot & mask)?);
            if entry == 0 {
                return None;
            }
            if entry >> 32 == hash >> 32 {
                let node = arena.node_at(NodeReference(entry as u32))?;
                if node.is_called(message, start, end) {
                    return Some(node);
                }
            }
            slot = slot.wrapping_add(1);
        }
    }

    #[inline(always)]
    fn entries(&self) -> &[[u8; 8]] {
        self.entries.as_chunks().0
    }

    #[inline(always)]
    fn first(&self, hash: u64) -> Option<&[u8; 8]> {
        let entries = self.entries();
        entries.get(hash as usize & entries.len().wrapping_sub(1))
    }

    /// Asks for the entry that [`find`](Table::find) reads first.
    #[inline(always)]
    pub(super) fn ask_for(&self, hash: u64) {
        if let Some(entry) = self.first(hash) {
            prefetch(entry);
        }
    }

    /// The node `find` looks at first, most likely the one.
    #[inline(always)]
    pub(super) fn likely(&self, hash: u64) -> Option<NodeReference> {
        let entry = u64::from_le_bytes(*self.first(hash)?);
        (entry >> 32 == hash >> 32).then_some(NodeReference(entry as u32))
    }

    /// All nodes.
    pub(super) fn references(&self) -> impl Iterator<Item = NodeReference> {
        let entries = self.entries().iter().map(|entry| u64::from_le_bytes(*entry));
        entries.filter(|entry| *entry != 0).map(|entry| NodeReference(entry as u32))
    }

    /// Memory it takes, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.len()
    }
}
