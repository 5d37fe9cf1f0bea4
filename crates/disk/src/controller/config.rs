//! What a software controller is to be like.

use super::namespace::{Namespace, NamespaceConfig};
use crate::nvme::spec::PAGE_BYTES;
use qanat_api::Geometry;

/// What a software controller is to be like.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// Queue pairs for I/O there may be: 1…1,024.
    pub queue_pairs_max: u16,
    /// Entries of a queue at most: 2…4,096.
    pub queue_entries_max: u32,
    /// Commands that backends work on at once, of all queues. Of these only as many are copied at once as there are frames; others wait.
    pub commands_max: u32,
    /// Bytes one command may transfer at most. Rounded down to a power of two; at most what frames and backends take.
    pub transfer_bytes_max: u32,
    /// Interrupt vectors there are.
    pub interrupt_vectors: u16,
    /// Whether there are shadow doorbells.
    pub shadow_doorbells: bool,
    /// The serial number: at most 20 printable characters.
    pub serial: String,
}

impl Default for ControllerConfig {
    fn default() -> Self {
        ControllerConfig {
            queue_pairs_max: 8,
            queue_entries_max: 1_024,
            commands_max: 128,
            transfer_bytes_max: 1 << 17,
            interrupt_vectors: 9,
            shadow_doorbells: true,
            serial: "0".to_owned(),
        }
    }
}

/// Why a software controller can't be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ControllerError {
    /// A number of [`ControllerConfig`] is out of range.
    #[error("a controller's queues, commands or vectors are out of range")]
    Range,
    /// A namespace names no backend, or reaches beyond it, or has no block.
    #[error("namespace {0} is not within its backend")]
    Namespace(u32),
    /// Frames, backends or the configuration leave less than a page, or a block, for a transfer.
    #[error("transfers of {bytes} bytes are too small for blocks of {block_bytes}")]
    Transfer {
        /// What is left.
        bytes: u32,
        /// The largest block.
        block_bytes: u32,
    },
}

/// What a configuration comes to with these backends and frames.
pub(super) struct Limits {
    pub(super) transfer_bytes_max: u32,
    pub(super) commands_max: u32,
    pub(super) namespaces: Vec<Namespace>,
}

impl Limits {
    pub(super) fn new(
        config: &ControllerConfig,
        geometries: &[Geometry],
        namespaces: &[NamespaceConfig],
        (frame_count, frame_bytes): (u32, u32),
    ) -> Result<Limits, ControllerError> {
        let in_range = (1..=1_024).contains(&config.queue_pairs_max)
            && (2..=4_096).contains(&config.queue_entries_max)
            && namespaces.len() <= 1_024;
        let mut commands_max = config.commands_max.min(1 << 16);
        let mut transfer = config.transfer_bytes_max.min(frame_bytes).min(1 << 20);
        let mut block_bytes = PAGE_BYTES as u32;
        for geometry in geometries {
            commands_max = commands_max.min(geometry.depth);
            transfer = transfer.min(geometry.transfer_bytes_max);
            block_bytes = block_bytes.max(geometry.block_bytes);
        }
        if !in_range || commands_max == 0 || frame_count == 0 {
            return Err(ControllerError::Range);
        }
        if transfer < block_bytes {
            return Err(ControllerError::Transfer { bytes: transfer, block_bytes });
        }
        let mut found = Vec::with_capacity(namespaces.len());
        for (config, identifier) in namespaces.iter().zip(1..) {
            let namespace = geometries.get(config.backend).and_then(|geometry| Namespace::new(*config, *geometry));
            found.push(namespace.ok_or(ControllerError::Namespace(identifier))?);
        }
        Ok(Limits { transfer_bytes_max: 1 << transfer.ilog2(), commands_max, namespaces: found })
    }
}
