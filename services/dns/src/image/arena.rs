//! All nodes of a zone, one after the other in one piece of memory.

use super::memory::Memory;
use super::node::{Node, NodeReference};
use qanat::nic::prefetch;

/// The nodes. A reference counts eight bytes.
#[derive(Debug)]
pub(super) struct Arena(Memory);

impl Arena {
    pub(super) fn new(nodes: Vec<u8>) -> Arena {
        Arena(Memory::new(nodes))
    }

    /// The node, if there is one at that place.
    #[inline(always)]
    pub(super) fn node_at(&self, reference: NodeReference) -> Option<Node<'_>> {
        Node::at(self.0.get(reference.0 as usize * 8..)?, reference)
    }

    /// A node.
    #[inline(always)]
    pub(super) fn node(&self, reference: NodeReference) -> Node<'_> {
        Node::new(self.0.get(reference.0 as usize * 8..).unwrap_or_default(), reference)
    }

    /// Asks for a node, which most often is within two cache lines.
    #[inline(always)]
    pub(super) fn ask_for(&self, reference: NodeReference) {
        let node = self.0.get(reference.0 as usize * 8..).unwrap_or_default();
        prefetch(node);
        prefetch(node.get(64..).unwrap_or_default());
    }

    /// Whether it is larger than the processor's caches.
    #[inline(always)]
    pub(super) fn is_large(&self) -> bool {
        self.0.is_large()
    }

    /// Bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
