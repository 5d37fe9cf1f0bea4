//! [`Namespace`]: blocks of a backend, as a driver sees them.

use crate::nvme::spec::{Command, IdentifyNamespace, Status};
use qanat_api::Geometry;

/// A range of a backend's blocks that is a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamespaceConfig {
    /// Which backend, by its place in the list.
    pub backend: usize,
    /// The first block there.
    pub first_block: u64,
    /// How many blocks: at least 1.
    pub blocks: u64,
    /// Whether it may only be read.
    pub read_only: bool,
}

/// A namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Namespace {
    pub(super) backend: usize,
    first_block: u64,
    blocks: u64,
    pub(super) read_only: bool,
    pub(super) geometry: Geometry,
}

impl Namespace {
    /// `None`: it reaches beyond its backend, or has no block.
    pub(super) fn new(config: NamespaceConfig, geometry: Geometry) -> Option<Namespace> {
        let NamespaceConfig { backend, first_block, blocks, read_only } = config;
        let end = first_block.checked_add(blocks)?;
        (blocks > 0 && end <= geometry.blocks).then_some(Namespace {
            backend,
            first_block,
            blocks,
            read_only,
            geometry,
        })
    }

    /// It has so many blocks from now on, of a backend that is like this now; `false`: it would be smaller, or reach beyond it.
    pub(super) fn grow(&mut self, blocks: u64, geometry: Geometry) -> bool {
        let fits = self.first_block.checked_add(blocks).is_some_and(|end| end <= geometry.blocks);
        if fits && blocks >= self.blocks {
            (self.blocks, self.geometry) = (blocks, geometry);
        }
        fits && blocks >= self.blocks
    }

    /// The backend's first block of a command, if all its blocks are the namespace's.
    ///
    /// # Errors
    /// LBA Out of Range.
    #[inline]
    pub(super) fn place(&self, command: &Command) -> Result<u64, Status> {
        let first = command.first_block();
        match first.checked_add(u64::from(command.blocks())) {
            Some(end) if end <= self.blocks => Ok(self.first_block + first),
            _ => Err(Status::LBA_OUT_OF_RANGE.without_retry()),
        }
    }

    /// What the driver is told of it.
    pub(super) fn identify(&self) -> IdentifyNamespace {
        let atomic = u64::from((self.geometry.atomic_bytes / self.geometry.block_bytes).clamp(1, 1 << 16));
        // What is aligned in the namespace must be so in the backend.
        let atomic = if self.first_block.is_multiple_of(atomic) { atomic as u32 } else { 1 };
        IdentifyNamespace {
            blocks: self.blocks,
            block_power: self.geometry.block_bytes.trailing_zeros() as u8,
            atomic_blocks: Some(atomic),
            // A boundary is at most 2¹⁶; a write of one block crosses none.
            atomic_boundary: if atomic > 1 { atomic } else { 0 },
            read_only: self.read_only,
            ..IdentifyNamespace::default()
        }
    }
}
