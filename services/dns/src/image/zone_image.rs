//! A zone's image: the arena of its nodes, and the tables that find them.

use super::arena::Arena;
use super::fqdn::FqdnIndex;
use super::hash;
use super::node::{Node, NodeReference, Set};
use super::nsec3::Nsec3Chain;
use super::table::Table;
use crate::name::Name;
use crate::zone::rtype;

/// An immutable zone, ready to answer from.
#[derive(Debug)]
pub struct ZoneImage {
    pub(super) apex: Name,
    pub(super) serial: u32,
    pub(super) arena: Arena,
    pub(super) table: Table,
    pub(super) apex_node: NodeReference,
    /// Labels of the longest name.
    pub(super) labels_max: usize,
    /// Nodes with NSEC records in canonical order.
    pub(super) nsec: Vec<NodeReference>,
    pub(super) nsec3: Option<Nsec3Chain>,
    /// Names are looked up as text.
    pub(super) text_index: Option<FqdnIndex>,
    pub(super) name_count: usize,
    pub(super) record_count: usize,
}

impl ZoneImage {
    /// This image, with names looked up as text that is copied out of the question. That is the thesis's second design, kept to
    /// be measured.
    #[must_use]
    pub fn with_text_index(mut self) -> ZoneImage {
        self.text_index = Some(FqdnIndex::new(&self.arena, self.table.references(), self.name_count));
        self
    }

    /// The zone's name, small letters.
    pub fn apex(&self) -> &Name {
        &self.apex
    }

    /// Its serial number.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// Names that exist, with those that only have others below them.
    pub fn name_count(&self) -> usize {
        self.name_count
    }

    /// Records.
    pub fn record_count(&self) -> usize {
        self.record_count
    }

    /// Memory it takes, bytes.
    pub fn memory_bytes(&self) -> usize {
        let nsec3 = self.nsec3.as_ref().map_or(0, Nsec3Chain::memory_bytes);
        self.arena.len()
            + self.table.memory_bytes()
            + self.nsec.capacity() * 4
            + nsec3
            + self.text_index.as_ref().map_or(0, FqdnIndex::memory_bytes)
    }

    /// The node of the name at `start..end` of `message`.
    #[inline(always)]
    pub fn find(&self, message: &[u8], start: usize, end: usize) -> Option<Node<'_>> {
        if let Some(index) = &self.text_index {
            return index.find(&self.arena, message, start, end);
        }
        let hash = hash::hash(message, start, end);
        self.table.find(&self.arena, hash, message, start, end)
    }

    /// Whether a name is most likely not in the processor's caches, so that asking for it beforehand pays.
    #[inline(always)]
    pub fn is_large(&self) -> bool {
        self.arena.is_large()
    }

    /// Asks for what [`find`](ZoneImage::find) reads first of the name at `start..end` of `message`; gives the name's hash.
    #[inline(always)]
    pub fn ask_for_entry(&self, message: &[u8], start: usize, end: usize) -> u64 {
        let hash = hash::hash(message, start, end);
        self.table.ask_for(hash);
        hash
    }

    /// Asks for what it reads next, when the entry has come: the node, which most often is within two cache lines.
    #[inline(always)]
    pub fn ask_for_node(&self, hash: u64) {
        if let Some(reference) = self.table.likely(hash) {
            self.arena.ask_for(reference);
        }
    }

    /// A node.
    #[inline(always)]
    pub fn node(&self, reference: NodeReference) -> Node<'_> {
        self.arena.node(reference)
    }

    /// The node of the zone's name.
    pub fn apex_node(&self) -> Node<'_> {
        self.node(self.apex_node)
    }

    /// Labels of the longest name.
    pub fn labels_max(&self) -> usize {
        self.labels_max
    }

    /// The chain of hashed names, if the zone has one.
    pub fn nsec3(&self) -> Option<&Nsec3Chain> {
        self.nsec3.as_ref()
    }

    /// Whether the zone has NSEC records.
    pub fn has_nsec(&self) -> bool {
        !self.nsec.is_empty()
    }

    /// The node with the NSEC record that is or covers `name` (wire format): the last that is not after it.
    pub fn nsec_at_or_before(&self, name: &[u8]) -> Option<Node<'_>> {
        let after = self
            .nsec
            .partition_point(|reference| crate::name::canonical_order(self.node(*reference).name(), name).is_le());
        // Before the first there is only what is outside of the zone.
        self.nsec.get(after.checked_sub(1)?).map(|reference| self.node(*reference))
    }

    /// The SOA set of the apex.
    pub fn soa(&self) -> Option<Set<'_>> {
        self.apex_node().set(rtype::SOA)
    }
}
