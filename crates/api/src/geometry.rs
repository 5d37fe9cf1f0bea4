//! [`Geometry`]: what a storage device is like.

/// What a device is like. While it is open, it may get more blocks; nothing else changes.
///
/// ```
/// use qanat_api::Geometry;
///
/// let geometry = Geometry {
///     block_bytes: 4_096,
///     blocks: 1_000,
///     atomic_bytes: 4_096,
///     volatile_cache: true,
///     forced_unit_access: false,
///     transfer_bytes_max: 1 << 20,
///     depth: 32,
/// };
/// assert_eq!(geometry.bytes(), 4_096_000);
/// assert_eq!((geometry.blocks_in(8_192), geometry.blocks_in(100)), (Some(2), None));
/// let grown = Geometry { blocks: 2_000, ..geometry };
/// assert!(grown.is_at_least(&geometry) && !geometry.is_at_least(&grown));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Geometry {
    /// Bytes in a logical block, the unit of addresses and lengths: a power of two, at least 512.
    pub block_bytes: u32,
    /// Blocks there are.
    pub blocks: u64,
    /// So many bytes, aligned to themselves, are written wholly or not at all when power fails (NVMe: AWUPF).
    pub atomic_bytes: u32,
    /// Whether what was written can be lost until a flush (NVMe: VWC).
    pub volatile_cache: bool,
    /// Whether the device writes through its cache by itself; otherwise the driver follows a durable write with a flush.
    pub forced_unit_access: bool,
    /// Bytes one request may have at most.
    pub transfer_bytes_max: u32,
    /// Requests that may be under way at once.
    pub depth: u32,
}

impl Geometry {
    /// Bytes on the device.
    pub fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_bytes))
    }

    /// Whether it is like `other`, but for more blocks.
    pub fn is_at_least(&self, other: &Geometry) -> bool {
        self.blocks >= other.blocks && Geometry { blocks: other.blocks, ..*self } == *other
    }

    /// Blocks in `bytes`, if they are whole ones.
    pub fn blocks_in(&self, bytes: usize) -> Option<u64> {
        let bytes = bytes as u64;
        let block_bytes = u64::from(self.block_bytes);
        bytes.is_multiple_of(block_bytes).then_some(bytes / block_bytes)
    }
}
