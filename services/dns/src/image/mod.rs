//! A zone compiled into answers: what a query asks for is found by one probe and lies there as it will be sent.
//!
//! ```text
//!   table ── hash of the name ──▶ node in the arena, one piece of memory:
//!     header │ name, small letters │ directory: a row for each type │ records of each type, signatures after them
//! ```
//! A set's records are ready for a message whose question is the node's name at byte 12: owners are pointers to there,
//! and names in the data are compressed against it. Where that changed the data, it is there a second time as it was, for
//! answers whose question is another (a wildcard's, the end of a CNAME).

mod catalog;
mod compile;
mod fqdn;
pub mod hash;
mod memory;
mod node;
mod nsec3;
mod table;

pub use catalog::Catalog;
pub use node::{Node, NodeReference, Ready, Set, flag};
pub use nsec3::{Nsec3Chain, nsec3_hash};

use crate::name::Name;
use crate::zone::{Zone, rtype};
use memory::Memory;
use qanat::nic::prefetch;
use std::fmt;
use table::Table;

/// Why a zone has no image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CompileError {
    /// The records of one name and type do not fit into a message.
    SetTooLarge {
        /// The name, in presentation format.
        owner: String,
        /// The type's name.
        rtype: String,
    },
    /// More than 32 GiB.
    TooLarge,
    /// Parameters of NSEC3 that are not served.
    Nsec3 {
        /// What, and what to do.
        what: String,
    },
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::SetTooLarge { owner, rtype } => {
                write!(f, "{owner}: its {rtype} records do not fit into a message of 65,535 bytes: take some out")
            }
            CompileError::TooLarge => f.write_str("the zone's image is larger than 32 GiB: split the zone"),
            CompileError::Nsec3 { what } => f.write_str(what),
        }
    }
}

impl std::error::Error for CompileError {}

/// An immutable zone, ready to answer from.
#[derive(Debug)]
pub struct ZoneImage {
    apex: Name,
    serial: u32,
    arena: Memory,
    table: Table,
    apex_node: NodeReference,
    /// Labels of the longest name.
    labels_max: usize,
    /// Nodes with NSEC records in canonical order.
    nsec: Vec<NodeReference>,
    nsec3: Option<Nsec3Chain>,
    /// Names are looked up as text.
    text_index: Option<fqdn::FqdnIndex>,
    name_count: usize,
    record_count: usize,
}

impl ZoneImage {
    /// Compiles a zone; `report` hears how many of its records are done, now and then.
    ///
    /// # Errors
    /// See [`CompileError`].
    pub fn compile(zone: &Zone, report: &mut dyn FnMut(u64)) -> Result<ZoneImage, CompileError> {
        compile::compile(zone, report)
    }

    /// The same, its names looked up as text copied out of the question: the thesis's second design, to measure.
    #[must_use]
    pub fn with_text_index(mut self) -> ZoneImage {
        self.text_index = Some(fqdn::FqdnIndex::new(&self, self.table.references(), self.name_count));
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
            + self.text_index.as_ref().map_or(0, fqdn::FqdnIndex::memory_bytes)
    }

    /// The node of the name at `start..end` of `message`.
    #[inline(always)]
    pub fn find(&self, message: &[u8], start: usize, end: usize) -> Option<Node<'_>> {
        if let Some(index) = &self.text_index {
            return index.find(self, message, start, end);
        }
        let hash = hash::hash(message, start, end);
        self.table.find(self, hash, message, start, end)
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
            let node = self.arena.get(reference.0 as usize * 8..).unwrap_or_default();
            prefetch(node);
            prefetch(node.get(64..).unwrap_or_default());
        }
    }

    /// The node, if there is one at that place.
    #[inline(always)]
    fn node_at(&self, reference: NodeReference) -> Option<Node<'_>> {
        Node::at(self.arena.get(reference.0 as usize * 8..)?, reference)
    }

    /// A node.
    #[inline(always)]
    pub fn node(&self, reference: NodeReference) -> Node<'_> {
        Node::new(self.arena.get(reference.0 as usize * 8..).unwrap_or_default(), reference)
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
